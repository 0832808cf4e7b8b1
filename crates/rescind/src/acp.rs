//! Agent Client Protocol, version 1 and a preview of version 2: the requests that every agent and client answers, and no
//! more.
//!
//! An [`Agent`] answers `initialize`, opens and closes sessions and runs turns; a [`Client`] opens the connection,
//! prompts, and answers requests for permission. Everything else is a route on the
//! [`Builder`](crate::peer::Builder) beneath. Programs that want the whole protocol typed use an SDK of it.
//!
//! # What Stop does
//!
//! A client stops a turn with `session/cancel`, or by dropping its [`prompt`](Client::prompt), which sends the same.
//! At the agent the turn's token fires. Everything that the turn awaits elsewhere is cancelled with it: permission
//! requests, terminals, tool calls on connections to MCP servers. When the handler has ended, the prompt is answered
//! `stopReason: "cancelled"`, regardless of what the handler returned (ACP-08).
//!
//! # Version 2
//!
//! The same code speaks version 2, where both sides [say](Agent::with_version_2) [so](ClientBuilder::with_version_2). There
//! an agent answers a prompt when it has inserted it, and reports the turn as the foreground work of its session. A
//! [`Turn`] is that work, and the call of a [`prompt`](Client::prompt) ends with it: with the `idle` that the agent
//! reports, and not with the answer.
//!
//! Work that is to outlive its turn is begun with [`Turn::terminal`] or [`Turn::tool_call`]. `session/cancel` leaves it
//! alone; a cancel of its own and `session/close` stop it.

mod agent;
mod client;
mod client_builder;
mod permission;
mod turn;

pub use agent::Agent;
pub use client::{AgentInfo, Client};
pub use client_builder::ClientBuilder;
pub use permission::{Permission, PermissionOption, PermissionOutcome, PermissionRequest};
pub use rescind_proto::dialect::acp::{RFD_2025_11_13, V1, V2_DRAFT};
pub use turn::{StopReason, Turn};

use serde::{Deserialize, Serialize};

/// The stable version of the protocol.
const VERSION: i64 = 1;

/// The next one, a preview.
const VERSION_2: i64 = 2;

/// The name and version of a side, as the handshake has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Implementation {
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
}

/// A session: the result of `session/new`, and the params of messages that name only a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Its id.
    pub session_id: String,
}

/// What `session/new` asks for: its handler returns a [`Session`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NewSession;

impl crate::peer::ResultOf<NewSession> for Session {}

impl Session {
    /// The session of this id.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self { session_id: id.into() }
    }
}

/// Whether a side declares that it understands cancels, as in the proposal of 2025-11-13 (ACP-20).
fn declares_cancellation(capabilities: &serde_json::Value) -> bool {
    capabilities["cancellation"]["request"] == true
}
