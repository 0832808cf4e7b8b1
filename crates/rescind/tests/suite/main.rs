//! The library from outside: peers, transports, the wrapped connection, the endpoints of each protocol.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod acp_endpoint;
mod acp_two;
mod computing;
mod connect;
mod credentials;
mod examples;
mod in_time;
// What it starts are programs of Unix.
#[cfg(unix)]
mod interop;
mod lsp_endpoint;
mod mcp_endpoint;
mod mcp_rounds;
mod peer;
mod reexports;
mod rig;
#[cfg(unix)]
mod soak;
mod transports;
mod typed;
mod wrap;
