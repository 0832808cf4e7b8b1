//! Streamable HTTP for MCP, where Stop works: what a closed stream means is the answer of each revision, and a client that
//! lost its connection finds its answer when it comes back.

#![warn(missing_docs)]

#[cfg(feature = "client")]
pub mod client;
pub mod server;
pub mod shell;

mod mirror;
mod sse;
mod status_note;

// Their types stand in public signatures.
pub use http;
#[cfg(feature = "sign-in")]
pub use rescind_sign_in;
#[cfg(feature = "tls")]
pub use rustls;
