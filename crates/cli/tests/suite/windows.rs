//! The command on Windows, under Wine: `RESCIND_WINDOWS` names the folder with `rescind.exe` and `reporting_server.exe`,
//! which `scripts/windows` builds. Without it they are skipped.

mod cancel;
mod demo;
mod ends;
mod exit_codes;
mod files;
mod launcher;
mod messages;
mod node;
mod operator;
mod world;
