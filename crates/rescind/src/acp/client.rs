//! A client: opening the connection, sessions and prompts.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Implementation, Session, StopReason, VERSION, declares_cancellation};
use crate::peer::{Builder, Call, CallError, ErrorObject, Peer};

/// A client of one agent. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Client {
    peer: Peer,
    info: Implementation,
    capabilities: Map<String, Value>,
}

/// What an agent says of itself, in its own words: untrusted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AgentInfo {
    /// Its name; empty if it gave none.
    pub name: String,
    /// Its version; empty if it gave none.
    pub version: String,
    /// What it can do.
    pub capabilities: Value,
    /// Whether it declared that it understands cancels, as the proposal of 2025-11-13 has it (ACP-20).
    pub declares_cancellation: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResult {
    protocol_version: i64,
    #[serde(default)]
    agent_capabilities: Value,
    agent_info: Option<Implementation>,
}

impl Client {
    /// A connection without routes. Every client has two of its own: `session/update`, a notification, and
    /// `session/request_permission`, a request of a [`PermissionRequest`](super::PermissionRequest) that is answered
    /// with a [`Permission`](super::Permission). Then [connect](Builder::connect) it.
    pub fn builder() -> Builder {
        Peer::builder(None)
    }

    /// A client of the agent at the other side of `peer`, under this name and version.
    #[must_use]
    pub fn new(peer: Peer, name: &str, version: &str) -> Self {
        let info = Implementation { name: name.to_owned(), version: version.to_owned() };
        Self { peer, info, capabilities: Map::new() }
    }

    /// One more of its `clientCapabilities`.
    #[must_use]
    pub fn capability(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.capabilities.insert(name.to_owned(), value.into());
        self
    }

    /// Declares that it understands cancels, as the proposal of 2025-11-13 has it (ACP-20). It turns that proposal
    /// on: the agent is then sent cancels only if it declares the same.
    #[must_use]
    pub fn declare_cancellation(self) -> Self {
        self.capability("cancellation", json!({ "request": true }))
    }

    /// Opens the connection. It is never cancelled on the wire (ACP-21).
    ///
    /// # Errors
    ///
    /// The call failed, or the agent speaks another version.
    pub async fn initialize(&self) -> Result<AgentInfo, CallError> {
        let params = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": self.capabilities,
            "clientInfo": self.info,
        });
        let greeting: InitializeResult = self.peer.request("initialize", &params).await?;
        let InitializeResult { protocol_version, agent_capabilities: capabilities, agent_info } = greeting;
        if protocol_version != VERSION {
            let message = format!("the agent speaks version {protocol_version}, this client {VERSION}");
            return Err(CallError::Peer(ErrorObject::internal(message)));
        }
        let Implementation { name, version } = agent_info.unwrap_or_default();
        let declares_cancellation = declares_cancellation(&capabilities);
        Ok(AgentInfo { name, version, capabilities, declares_cancellation })
    }

    /// Opens a session in this folder, which is an absolute path.
    ///
    /// # Errors
    ///
    /// The call failed.
    pub async fn new_session(&self, folder: &Path) -> Result<String, CallError> {
        let params = json!({ "cwd": folder, "mcpServers": [] });
        let session: Session = self.peer.request("session/new", &params).await?;
        Ok(session.session_id)
    }

    /// Prompts: one turn.
    ///
    /// Dropping the call stops the turn, as its handle does: one `session/cancel` is sent, and requests for
    /// permission that belong to the turn are answered `cancelled` (D37). To go on listening to a turn that is being
    /// stopped, use [`cancel_turn`](Self::cancel_turn).
    pub fn prompt(&self, session: &str, text: &str) -> Call<StopReason> {
        let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });
        self.peer.request("session/prompt", &params)
    }

    /// Stops the turn of this session, whose [`prompt`](Self::prompt) goes on waiting for its answer.
    ///
    /// # Errors
    ///
    /// The connection has ended.
    pub fn cancel_turn(&self, session: &str) -> Result<(), CallError> {
        self.peer.notify_now("session/cancel", &Session::new(session))
    }

    /// Closes a session; its turn is cancelled (ACP-10).
    ///
    /// # Errors
    ///
    /// The call failed.
    pub async fn close_session(&self, session: &str) -> Result<(), CallError> {
        let _: Value = self.peer.request("session/close", &Session::new(session)).await?;
        Ok(())
    }

    /// The connection beneath, for everything else.
    #[must_use]
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }
}
