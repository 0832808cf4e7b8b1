//! Describing a client: what it sends with `initialize`, and what it handles.

use serde_json::{Value, json};

use super::Client;
use crate::peer::{Builder, ConnectError, IntoRoute, NotificationHandler, Transport};

/// A client in the making: its handlers, its capabilities, and the rest of its `InitializeParams`.
///
/// ```
/// # use rescind::{lsp::Client, peer::{ConnectError, Params, Transport}};
/// # use serde_json::{Value, json};
/// # async fn example(transport: Transport) -> Result<Client, ConnectError> {
/// Client::builder("editor", "1.0.0")
///     .param("rootUri", "file:///home/me/project")
///     .capability("window", json!({ "workDoneProgress": true }))
///     .on_notification("textDocument/publishDiagnostics", |Params(found): Params<Value>| println!("{found}"))
///     .connect(transport)
///     .await
/// # }
/// ```
#[must_use = "nothing is connected until `connect`"]
pub struct ClientBuilder {
    builder: Builder,
    params: Value,
}

impl ClientBuilder {
    pub(super) fn new(name: &str, version: &str) -> Self {
        let params = json!({
            "processId": std::process::id(),
            "clientInfo": { "name": name, "version": version },
            "rootUri": null,
            "capabilities": {},
        });
        Self { builder: Client::peer_builder(), params }
    }

    /// Sets a member of the `InitializeParams`: `rootUri`, `workspaceFolders`, `initializationOptions`.
    pub fn param(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.params[name] = value.into();
        self
    }

    /// Declares one of the `ClientCapabilities`.
    pub fn capability(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.params["capabilities"][name] = value.into();
        self
    }

    /// Handles requests of this method; see [`Builder::on_request`].
    pub fn on_request<Args>(self, method: &str, handler: impl IntoRoute<Args>) -> Self {
        self.with(|builder| builder.on_request(method, handler))
    }

    /// Handles notifications of this method, in the order of the wire; see [`Builder::on_notification`].
    pub fn on_notification<Args>(self, method: &str, handler: impl NotificationHandler<Args>) -> Self {
        self.with(|builder| builder.on_notification(method, handler))
    }

    /// Changes everything else of the connection: observers, filters, limits.
    pub fn with(mut self, change: impl FnOnce(Builder) -> Builder) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Connects to the server behind `transport`, opens the session, and returns the client: see [`Client::connect`],
    /// also for what an error or a dropped future leaves behind.
    ///
    /// # Errors
    ///
    /// The link broke, or the handshake failed.
    pub async fn connect(self, transport: impl Into<Transport>) -> Result<Client, ConnectError> {
        let Self { builder, params } = self;
        let handshake = |peer| async move {
            let client = Client::new(peer);
            client.initialize(&params).await?;
            Ok(client)
        };
        crate::peer::connect(builder, transport.into(), handshake).await
    }
}

debug_fields!(ClientBuilder, params);
