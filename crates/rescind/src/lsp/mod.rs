//! Language Server Protocol: what every server and client answers, and no more.
//!
//! A [`Server`] answers `initialize` and `shutdown`, ends with `exit`, and keeps the order of these; a [`Client`]
//! opens and closes the session. Everything else is a route of yours; who wants the whole protocol typed uses its
//! crate of types with these routes, or its framework.

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

/// The answer of a server that stops a request by itself: one that supports being asked again (LSP-03, LSP-07).
///
/// Of other requests [`ErrorObject::cancelled`] is the answer: -32803 goes on the wire.
#[must_use]
pub fn server_cancelled(retrigger: bool) -> ErrorObject {
    ErrorObject::new(error_code::SERVER_CANCELLED, "the server cancelled this request")
        .with_data(&serde_json::json!({ "retriggerRequest": retrigger }))
}
