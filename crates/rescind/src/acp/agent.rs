//! An agent: its handshake, its sessions, its turns.

use std::{
    future::ready,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Implementation, NewSession, Session, Turn, VERSION, VERSION_2, declares_cancellation, turn};
use crate::peer::{
    Builder, Driver, ErrorObject, IntoRoute, Params, Peer, ResultOf, Route, Transport, error_code, route,
};

/// An agent for one client.
///
/// It answers `initialize`, `session/new` and `session/close`; you handle `session/prompt`. `session/cancel` and
/// `session/close` cancel the turn of their session (ACP-08, ACP-10).
///
/// It speaks version 1, and [version 2](Self::with_version_2) where you say so.
#[must_use = "nothing is served until `serve` or `accept`"]
pub struct Agent {
    builder: Builder,
    info: Implementation,
    capabilities: Map<String, Value>,
    version: i64,
    on_close: Option<OnClose>,
}

type OnClose = Box<dyn Fn(&str) + Send + Sync>;

impl Agent {
    /// Makes an agent of this name and version.
    pub fn new(name: &str, version: &str) -> Self {
        Self {
            builder: Peer::builder(None),
            info: Implementation { name: name.to_owned(), version: version.to_owned() },
            capabilities: Map::new(),
            version: VERSION,
            on_close: None,
        }
    }

    /// Speaks version 2 of the protocol, too, a preview, with clients that ask for it (D55).
    ///
    /// The same handler of prompts serves both. In version 2 a later prompt of the session waits until the turn is over,
    /// and work can outlive its turn ([`Turn::terminal`], [`Turn::tool_call`]). The updates that you write yourself are
    /// those of the version that [`Turn::context`] names. Version 2 also expects `session/list` and `session/resume` of
    /// an agent: add routes for them [with](Self::with) the connection.
    pub const fn with_version_2(mut self) -> Self {
        self.version = VERSION_2;
        self
    }

    /// Declares one of its capabilities: a member of `agentCapabilities`, or in version 2 of `capabilities`.
    pub fn capability(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.capabilities.insert(name.to_owned(), value.into());
        self
    }

    /// Declares to every client that the agent understands cancels, as in the proposal of 2025-11-13 (ACP-20). Without, it
    /// declares that only to clients that declare the same.
    pub fn declare_cancellation(self) -> Self {
        self.capability("cancellation", json!({ "request": true }))
    }

    /// Handles `session/new`: opens sessions, and returns a [`Session`]. Without a handler, sessions are numbered.
    pub fn on_new_session<Args>(self, handler: impl IntoRoute<Args, Output: ResultOf<NewSession>>) -> Self {
        self.with(|builder| builder.on_request("session/new", handler))
    }

    /// Handles `session/prompt`: runs a turn. The handler takes a [`Turn`] and returns a [`StopReason`](super::StopReason).
    /// A handler with another result does not compile:
    ///
    /// ```compile_fail,E0277
    /// # use rescind::{acp::{Agent, Turn}, peer::ErrorObject};
    /// Agent::new("agent", "1.0.0").on_prompt(|_: Turn| async { Ok::<_, ErrorObject>("end_turn") });
    /// ```
    pub fn on_prompt<Args>(self, handler: impl IntoRoute<Args, Output: ResultOf<Turn>>) -> Self {
        let prompt = turn::answering_cancelled(handler.into_route());
        self.with(|builder| builder.on_request("session/prompt", prompt))
    }

    /// Calls `on_close` with the id of a session that is closed, when the handler of its turn has ended, and all background
    /// work.
    pub fn on_close(mut self, on_close: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_close = Some(Box::new(on_close));
        self
    }

    /// Changes everything else of the connection: observers, filters, limits, routes.
    pub fn with(mut self, change: impl FnOnce(Builder) -> Builder) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Serves the client on the other side of `transport`; see [`Builder::serve`].
    ///
    /// # Errors
    ///
    /// The link broke.
    pub async fn serve(self, transport: impl Into<Transport>) -> io::Result<()> {
        self.into_builder().serve(transport).await
    }

    /// Serves the client, and returns a handle of the connection; see [`Builder::accept`].
    pub fn accept(self, transport: impl Into<Transport>) -> (Peer, Driver) {
        self.into_builder().accept(transport)
    }

    fn into_builder(self) -> Builder {
        let Self { mut builder, info, mut capabilities, version, on_close } = self;
        let sessions = capabilities.entry("sessionCapabilities").or_insert_with(|| json!({}));
        if sessions.is_object() && sessions.get("close").is_none() {
            sessions["close"] = json!({});
        }
        if !builder.service.requests.contains_key("session/new") {
            builder = builder.on_request("session/new", numbered());
        }
        for method in ["tool_call/cancel", "terminal/cancel"] {
            if version == VERSION_2 && !builder.service.requests.contains_key(method) {
                builder = builder.on_request(method, route(unknown_item).never_blocks());
            }
        }
        let on_close = Arc::new(on_close);
        builder
            .on_request(
                "initialize",
                route(move |Params(hello): Params<InitializeParams>| {
                    ready(greeting(&hello, version, &info, &capabilities))
                })
                .never_blocks(),
            )
            .on_request("session/close", move |Params(Session { session_id }): Params<Session>, peer: Peer| {
                peer.stop_turn(&session_id);
                let on_close = Arc::clone(&on_close);
                async move {
                    peer.session_idle(&session_id).await;
                    if let Some(on_close) = &*on_close {
                        on_close(&session_id);
                    }
                    Ok::<_, ErrorObject>(json!({}))
                }
            })
    }
}

/// The params of `initialize`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeParams {
    protocol_version: i64,
    #[serde(default)]
    client_capabilities: Value,
}

/// Answers with the highest version that is not above the one asked for (ACP-59). In version 1 an agent names its own
/// whatever was asked for.
fn greeting(
    hello: &InitializeParams,
    version: i64,
    info: &Implementation,
    capabilities: &Map<String, Value>,
) -> Result<Value, ErrorObject> {
    let mut capabilities = capabilities.clone();
    if version == VERSION_2 {
        if hello.protocol_version < VERSION {
            let data = json!({ "requested": hello.protocol_version, "supported": [VERSION, VERSION_2] });
            let error = ErrorObject::new(error_code::UNSUPPORTED_PROTOCOL_VERSION, "no such version of the protocol");
            return Err(error.with_data(&data));
        }
        if hello.protocol_version >= VERSION_2 {
            capabilities.entry("session").or_insert_with(|| json!({}));
            capabilities.remove("sessionCapabilities");
            return Ok(json!({ "protocolVersion": VERSION_2, "capabilities": capabilities, "info": info }));
        }
    }
    if declares_cancellation(&hello.client_capabilities) {
        capabilities.entry("cancellation").or_insert_with(|| json!({ "request": true }));
    }
    Ok(json!({
        "protocolVersion": VERSION,
        "agentCapabilities": capabilities,
        "agentInfo": info,
        "authMethods": [],
    }))
}

/// Answers the cancel of an item that is not background work of this agent (ACP-55).
async fn unknown_item() -> Result<Value, ErrorObject> {
    Err(ErrorObject::invalid_params("no such work, or it is over"))
}

/// Opens sessions for an agent without a handler for them.
fn numbered() -> Route<Session> {
    let last = AtomicU64::new(0);
    let next = move || {
        let number = last.fetch_add(1, Ordering::Relaxed) + 1;
        ready(Ok::<_, ErrorObject>(Session::new(format!("session-{number}"))))
    };
    route(next).never_blocks()
}

impl From<Agent> for Builder {
    fn from(agent: Agent) -> Self {
        agent.into_builder()
    }
}

debug_fields!(Agent, info);
