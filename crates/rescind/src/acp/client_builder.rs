//! Describing a client: what it answers its agent, and what it declares.

use serde_json::{Map, Value, json};

use super::{Client, PermissionRequest};
use crate::peer::{Builder, ConnectError, IntoRoute, NotificationHandler, ResultOf, Transport};

/// A client in the making: its handlers and capabilities.
///
/// ```
/// # use rescind::{acp::{Client, Permission, PermissionRequest}, peer::{ConnectError, ErrorObject, Params, Transport}};
/// # use serde_json::Value;
/// # async fn example(transport: Transport) -> Result<Client, ConnectError> {
/// Client::builder("editor", "1.0.0")
///     .on_update(|Params(update): Params<Value>| println!("{}", update["update"]))
///     .on_permission(|Params(asked): Params<PermissionRequest>| async move {
///         Ok::<_, ErrorObject>(Permission::selected(&asked.options[0].option_id))
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
    speaks_version_2: bool,
    capabilities: Map<String, Value>,
}

impl ClientBuilder {
    pub(super) fn new(name: &str, version: &str) -> Self {
        let builder = Client::peer_builder();
        Self { builder, name: name.into(), version: version.into(), speaks_version_2: false, capabilities: Map::new() }
    }

    /// Handles what the agent reports of a turn: `session/update`, in the order of the wire.
    pub fn on_update<Args>(self, handler: impl NotificationHandler<Args>) -> Self {
        self.on_notification("session/update", handler)
    }

    /// Answers requests for permission: a handler of a [`PermissionRequest`] that returns a
    /// [`Permission`](super::Permission).
    ///
    /// The handler needs no care for cancellation: when the turn is cancelled, or the agent takes its question back, the
    /// handler is stopped, and the agent is answered `cancelled` regardless of what the handler returns (ACP-08). Its token
    /// fires at once; a second later its future is dropped (D22). The same holds of a child session that reports that it
    /// was cancelled (ACP-39), and of a handler of `elicitation/create`.
    ///
    /// ```compile_fail,E0277
    /// # use rescind::{acp::Client, peer::ErrorObject};
    /// Client::builder("editor", "1.0.0").on_permission(|| async { Ok::<_, ErrorObject>(true) });
    /// ```
    pub fn on_permission<Args>(self, handler: impl IntoRoute<Args, Output: ResultOf<PermissionRequest>>) -> Self {
        self.on_request("session/request_permission", handler)
    }

    /// Handles requests of this method; see [`Builder::on_request`].
    pub fn on_request<Args>(self, method: &str, handler: impl IntoRoute<Args>) -> Self {
        self.with(|builder| builder.on_request(method, handler))
    }

    /// Handles notifications of this method, in the order of the wire; see [`Builder::on_notification`].
    pub fn on_notification<Args>(self, method: &str, handler: impl NotificationHandler<Args>) -> Self {
        self.with(|builder| builder.on_notification(method, handler))
    }

    /// Speaks version 2 of the protocol, a preview, with agents that speak it, and version 1 with others (D55): see
    /// [`Client::prompt`] for what differs.
    pub const fn with_version_2(mut self) -> Self {
        self.speaks_version_2 = true;
        self
    }

    /// Declares one of its capabilities: a member of `clientCapabilities`, or in version 2 of `capabilities`.
    pub fn capability(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.capabilities.insert(name.to_owned(), value.into());
        self
    }

    /// Declares that it understands cancels, as [`Client::declare_cancellation`] does.
    pub fn declare_cancellation(self) -> Self {
        self.capability("cancellation", json!({ "request": true }))
    }

    /// Changes everything else of the connection: observers, filters, limits.
    pub fn with(mut self, change: impl FnOnce(Builder) -> Builder) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Connects to the agent behind `transport`, shakes hands, and returns the client: see [`Client::connect`], also for
    /// what an error or a dropped future leaves behind.
    ///
    /// # Errors
    ///
    /// The link broke, the handshake failed, or the agent speaks another version.
    pub async fn connect(self, transport: impl Into<Transport>) -> Result<Client, ConnectError> {
        let Self { builder, name, version, speaks_version_2, capabilities } = self;
        let handshake = |peer| async move {
            let mut client = Client::declaring(peer, &name, &version, capabilities);
            if speaks_version_2 {
                client = client.with_version_2();
            }
            client.initialize().await?;
            Ok(client)
        };
        crate::peer::connect(builder, transport.into(), handshake).await
    }
}

debug_fields!(ClientBuilder, name);
