//! Real SDKs in real processes, without the shim and through it: `peers/README.md` says what each scenario does.
//!
//! Each test prints what the caller and the work saw, side by side. What must hold is asserted of the run
//! through the shim; the direct run shows the field as it is, and is only asked to have run.

mod acp;
mod acp_two;
mod agents;
mod clients;
mod eras;
mod everything;
mod expect;
mod fastmcp;
mod http_cancel;
mod http_client;
mod http_hang_up;
mod http_run;
mod http_server;
mod http_table;
mod http_talk;
mod http_wire;
mod inspector;
mod lsp;
mod mcp;
mod mcp_proxy;
mod mcporter;
mod neovim;
mod oauth;
mod operator;
mod our_mcp;
mod our_task_client;
mod our_task_server;
pub(crate) mod parts;
pub(crate) mod play;
mod programs;
mod questions;
mod raw;
mod recording;
mod shared;
mod story;
mod supergateway;
mod table;
mod tasks;
mod tasks_across;
mod tasks_over_http;
mod way;
