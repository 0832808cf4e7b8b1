//! A client: opening the connection, sessions and prompts.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ClientBuilder, Implementation, Session, StopReason, VERSION, VERSION_2, declares_cancellation};
use crate::peer::{Builder, Call, CallError, ConnectError, Peer, Transport};

/// A client of one agent. Clones share the connection.
///
/// [`builder`](Self::builder) describes one, and its `connect` gives one that is ready.
///
/// # Dropping it
///
/// The last clone, with all calls, ends the connection in order, in the background; a child process that was the agent
/// is ended with it. [`close`](Self::close) waits for that.
#[derive(Clone, Debug)]
pub struct Client {
    peer: Peer,
    info: Implementation,
    capabilities: Map<String, Value>,
    version: i64,
    /// The agent's description of itself, once the connection is open.
    agent: Arc<OnceLock<AgentInfo>>,
}

/// An agent's description of itself: untrusted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AgentInfo {
    /// Its name; empty if it gave none.
    pub name: String,
    /// Its version; empty if it gave none.
    pub version: String,
    /// The version of the protocol that it speaks with this client: 1 or 2.
    pub protocol_version: i64,
    /// Its capabilities.
    pub capabilities: Value,
    /// Whether it declared that it understands cancels, as in the proposal of 2025-11-13 (ACP-20).
    pub declares_cancellation: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResult {
    protocol_version: i64,
    /// Version 2 calls them otherwise.
    #[serde(default, alias = "capabilities")]
    agent_capabilities: Value,
    #[serde(alias = "info")]
    agent_info: Option<Implementation>,
}

impl Client {
    /// Connects to the agent behind `transport` under this name and version, shakes hands, and returns the client, ready
    /// for sessions.
    ///
    /// The connection then runs in a task of its own, until the last clone of the client is dropped. Every useful client
    /// has handlers for updates and permissions: [`builder`](Self::builder) adds them.
    ///
    /// # Errors
    ///
    /// The link broke, the handshake failed, or the agent speaks another version.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future during the handshake closes the connection at once and leaves no task behind. An agent that
    /// is a [child process](crate::peer::transport::child()) is then ended: its stdin is closed, 1.5 s later it gets
    /// SIGTERM, 1 s later SIGKILL. An error closes the connection in the same way.
    pub async fn connect(transport: impl Into<Transport>, name: &str, version: &str) -> Result<Self, ConnectError> {
        Self::builder(name, version).connect(transport).await
    }

    /// Describes a client of this name and version: its handlers and capabilities.
    pub fn builder(name: &str, version: &str) -> ClientBuilder {
        ClientBuilder::new(name, version)
    }

    /// A connection without handlers, for programs that run the [driver](crate::peer::Driver) themselves: add handlers,
    /// [connect](Builder::connect) it, and [`initialize`](Self::initialize) a [client](Self::new) on it.
    pub fn peer_builder() -> Builder {
        Peer::builder(None)
    }

    /// A client of the agent at the other side of `peer`, under this name and version.
    #[must_use]
    pub fn new(peer: Peer, name: &str, version: &str) -> Self {
        Self::declaring(peer, name, version, Map::new())
    }

    pub(super) fn declaring(peer: Peer, name: &str, version: &str, capabilities: Map<String, Value>) -> Self {
        let info = Implementation { name: name.to_owned(), version: version.to_owned() };
        Self { peer, info, capabilities, version: VERSION, agent: Arc::default() }
    }

    /// Speaks version 2 of the protocol, a preview, with agents that speak it, and version 1 with others (D55).
    #[must_use]
    pub const fn with_version_2(mut self) -> Self {
        self.version = VERSION_2;
        self
    }

    /// Declares one of its capabilities: a member of `clientCapabilities`, or in version 2 of `capabilities`.
    #[must_use]
    pub fn capability(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.capabilities.insert(name.to_owned(), value.into());
        self
    }

    /// Declares that the client understands cancels, as in the proposal of 2025-11-13 (ACP-20). This turns that proposal
    /// on: the agent is then sent cancels only if it declares the same.
    #[must_use]
    pub fn declare_cancellation(self) -> Self {
        self.capability("cancellation", json!({ "request": true }))
    }

    /// Shakes hands. The handshake is never cancelled on the wire (ACP-21).
    ///
    /// # Errors
    ///
    /// The call failed, or the agent speaks another version.
    pub async fn initialize(&self) -> Result<AgentInfo, ConnectError> {
        let mut params = json!({
            "protocolVersion": self.version,
            "clientCapabilities": self.capabilities,
            "clientInfo": self.info,
        });
        // An agent of either version finds what it reads.
        if self.version == VERSION_2 {
            params["capabilities"] = self.capabilities.clone().into();
            params["info"] = json!(self.info);
        }
        let greeting: InitializeResult = self.peer.request("initialize", &params).await?;
        let InitializeResult { protocol_version, agent_capabilities: capabilities, agent_info } = greeting;
        if !(VERSION..=self.version).contains(&protocol_version) {
            return Err(ConnectError::Version(protocol_version.to_string()));
        }
        let Implementation { name, version } = agent_info.unwrap_or_default();
        let declares_cancellation = declares_cancellation(&capabilities);
        let agent = AgentInfo { name, version, protocol_version, capabilities, declares_cancellation };
        Ok(self.agent.get_or_init(|| agent).clone())
    }

    /// The agent's description of itself; `None` before the connection is open.
    #[must_use]
    pub fn agent(&self) -> Option<&AgentInfo> {
        self.agent.get()
    }

    /// Opens a session in this folder, an absolute path, and returns its id.
    ///
    /// # Errors
    ///
    /// The call failed.
    pub async fn new_session(&self, folder: &Path) -> Result<String, CallError> {
        let params = json!({ "cwd": folder, "mcpServers": [] });
        let session: Session = self.peer.request("session/new", &params).await?;
        Ok(session.session_id)
    }

    /// Sends a prompt: one turn.
    ///
    /// Dropping the call stops the turn, as its handle does: one `session/cancel` is sent, and requests for permission and
    /// elicitations that belong to the turn are answered as cancelled, and their handlers stopped (D37). To receive the
    /// rest of a turn that is being stopped, use [`cancel_turn`](Self::cancel_turn).
    ///
    /// In version 2 the call ends when the agent reports that the session is idle. An agent reports an end without a reason
    /// as [`StopReason::Other`], and an error as [`CallError::Peer`]. Dropped while other work of the session goes on and
    /// before the agent has inserted it, the message alone is withdrawn; otherwise `session/cancel` stops all foreground
    /// work of the session. Questions are closed as the agent withdraws them (ACP-53).
    pub fn prompt(&self, session: &str, text: &str) -> Call<StopReason> {
        let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });
        self.peer.request("session/prompt", &params)
    }

    /// Stops the turn of this session; its [`prompt`](Self::prompt) goes on waiting for the answer. In version 2 it waits
    /// 30 s for the agent to report the end, and ends as [`CallError::Cancelled`] then: the work may go on (D34).
    ///
    /// # Errors
    ///
    /// The connection has ended.
    pub fn cancel_turn(&self, session: &str) -> Result<(), CallError> {
        self.peer.notify_now("session/cancel", &Session::new(session))
    }

    /// Closes a session. Its turn is cancelled (ACP-10), and in version 2 its background work, too (ACP-57).
    ///
    /// # Errors
    ///
    /// The call failed.
    pub async fn close_session(&self, session: &str) -> Result<(), CallError> {
        let _: Value = self.peer.request("session/close", &Session::new(session)).await?;
        Ok(())
    }

    /// Ends the connection in order and waits until everything of it is settled: turns in flight are stopped, and an
    /// agent that is a child process is ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future only stops the waiting.
    pub async fn close(self) {
        self.peer.shutdown();
        self.peer.closed().await;
    }

    /// The connection beneath, for everything else.
    #[must_use]
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }
}
