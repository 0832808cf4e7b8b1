//! The command from outside: real processes, both ends of a link in the test's hands or real SDKs.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod demo;
mod doctor;
mod floods;
mod gateway_floods;
mod getting_started;
mod left_behind;
mod mcp;
mod operator;
mod page;
mod peers;
mod recordings;
mod run_acp_two;
mod run_admin;
mod run_admin_attacks;
mod run_admin_cost;
mod run_admin_socket;
mod run_agent;
mod run_backlog;
mod run_bad_input;
mod run_bridge;
mod run_cancel;
mod run_children;
mod run_codex;
mod run_container;
mod run_flags;
mod run_lifecycle;
mod run_limits;
mod run_log;
mod run_progress;
mod run_record;
mod run_restart;
mod run_stderr;
mod run_tasks;
mod run_terminal;
mod run_turns;
mod run_unknown;
mod run_unstarted;
mod serve;
mod shim;
mod sign_in;
mod stop;
mod turn_processes;
mod windows;
mod wrap;
