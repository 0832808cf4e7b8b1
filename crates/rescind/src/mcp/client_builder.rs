//! Describing a client: what it answers its server, and what it declares.

use serde_json::{Map, Value, json};

use super::{Client, CreateMessageRequest, ElicitRequest};
use crate::peer::{Builder, ConnectError, IntoRoute, NotificationHandler, ResultOf, Transport};

/// A client in the making: its handlers and capabilities.
///
/// ```
/// # use rescind::{mcp::{Client, ElicitRequest, ElicitResult}, peer::{ConnectError, ErrorObject, Params, Transport}};
/// # async fn example(transport: Transport) -> Result<Client, ConnectError> {
/// Client::builder("editor", "1.0.0")
///     .on_elicitation(|Params(asked): Params<ElicitRequest>| async move {
///         println!("the server asks: {}", asked.message);
///         Ok::<_, ErrorObject>(ElicitResult::declined())
///     })
///     .connect(transport)
///     .await
/// # }
/// ```
#[must_use = "nothing is connected until `connect`"]
pub struct ClientBuilder {
    builder: Builder,
    name: Box<str>,
    version: Box<str>,
    capabilities: Map<String, Value>,
}

impl ClientBuilder {
    pub(super) fn new(name: &str, version: &str) -> Self {
        let builder = Client::peer_builder();
        Self { builder, name: name.into(), version: version.into(), capabilities: Map::new() }
    }

    /// Answers the server's questions to the person: a handler of an [`ElicitRequest`] that
    /// returns an [`ElicitResult`](super::ElicitResult). Declares the capability `elicitation`, for forms; for pages
    /// too, declare `{ "form": {}, "url": {} }` with [`capability`](Self::capability).
    ///
    /// The handler needs no care for cancellation: when the server takes its question back, the handler is stopped. Its
    /// token fires at once; a second later its future is dropped (D22). Until 2025-11-25 no message says which call a
    /// question belongs to, so that a stop of the call ends it only once the server takes it back; since 2026-07-28 the
    /// stop ends it.
    ///
    /// ```compile_fail,E0277
    /// # use rescind::{mcp::Client, peer::ErrorObject};
    /// Client::builder("editor", "1.0.0").on_elicitation(|| async { Ok::<_, ErrorObject>("yes") });
    /// ```
    pub fn on_elicitation<Args>(self, handler: impl IntoRoute<Args, Output: ResultOf<ElicitRequest>>) -> Self {
        self.asked("elicitation", "elicitation/create", handler)
    }

    /// Answers the server's requests to the model: a handler of a
    /// [`CreateMessageRequest`] that returns a
    /// [`CreateMessageResult`](super::CreateMessageResult). Declares the capability `sampling`.
    ///
    /// When the server takes its request back, the handler is stopped.
    ///
    /// ```compile_fail,E0277
    /// # use rescind::{mcp::Client, peer::ErrorObject};
    /// Client::builder("editor", "1.0.0").on_sampling(|| async { Ok::<_, ErrorObject>("Hello") });
    /// ```
    pub fn on_sampling<Args>(self, handler: impl IntoRoute<Args, Output: ResultOf<CreateMessageRequest>>) -> Self {
        self.asked("sampling", "sampling/createMessage", handler)
    }

    fn asked<Args>(mut self, capability: &str, method: &str, handler: impl IntoRoute<Args>) -> Self {
        self.capabilities.entry(capability).or_insert_with(|| json!({}));
        self.on_request(method, handler)
    }

    /// Handles requests of this method; see [`Builder::on_request`].
    pub fn on_request<Args>(self, method: &str, handler: impl IntoRoute<Args>) -> Self {
        self.with(|builder| builder.on_request(method, handler))
    }

    /// Handles notifications of this method, in the order of the wire; see [`Builder::on_notification`].
    pub fn on_notification<Args>(self, method: &str, handler: impl NotificationHandler<Args>) -> Self {
        self.with(|builder| builder.on_notification(method, handler))
    }

    /// Declares a capability.
    pub fn capability(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.capabilities.insert(name.to_owned(), value.into());
        self
    }

    /// Changes everything else of the connection: observers, filters, limits.
    pub fn with(mut self, change: impl FnOnce(Builder) -> Builder) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Connects to the server behind `transport`, opens the session, and returns the client: see
    /// [`Client::connect`], also for what an error or a dropped future leaves behind.
    ///
    /// # Errors
    ///
    /// The link broke, the handshake failed, or the server speaks no revision that this client speaks.
    pub async fn connect(self, transport: impl Into<Transport>) -> Result<Client, ConnectError> {
        let Self { builder, name, version, capabilities } = self;
        let handshake = |peer| async move {
            let client = Client::declaring(peer, &name, &version, capabilities);
            client.open().await?;
            Ok(client)
        };
        crate::peer::connect(builder, transport.into(), handshake).await
    }
}

debug_fields!(ClientBuilder, name);
