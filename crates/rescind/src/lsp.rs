//! Language Server Protocol: the requests that every server and client answers, and no more.
//!
//! A [`Server`] answers `initialize` and `shutdown`, ends with `exit`, and keeps the order of these; a [`Client`]
//! opens and closes the session. Everything else is a route of yours. Programs that want the whole protocol typed use a
//! crate of its types with these routes, or a framework.

mod client;
mod client_builder;
mod lifecycle;
mod server;

pub use client::Client;
pub use client_builder::ClientBuilder;
pub use lifecycle::Exit;
pub use rescind_proto::dialect::lsp::LSP;
pub use server::Server;

use crate::peer::{ErrorObject, error_code};

/// Makes the error of a server that stops a request by itself, for a request that can be sent again (LSP-03, LSP-07).
///
/// For other requests, return [`ErrorObject::cancelled`]: -32803 goes on the wire.
#[must_use]
pub fn server_cancelled(retrigger: bool) -> ErrorObject {
    ErrorObject::new(error_code::SERVER_CANCELLED, "the server cancelled this request")
        .with_data(&serde_json::json!({ "retriggerRequest": retrigger }))
}
