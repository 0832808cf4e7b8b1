//! One shim: a client, a server and what is known of both.

use serde::{Deserialize, Serialize};

/// The version of the API, the `1` of `/v1/…`. It grows by new members, which readers ignore.
pub const VERSION: u32 = 1;

/// The facts of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// [`VERSION`] of the shim that tells.
    pub version: u32,
    /// What it is called, as in `SESSION/ID`: the shim's process id, or one with a suffix where that was taken.
    pub name: String,
    /// The shim's program and version.
    pub program: String,
    /// The shim's process id.
    pub pid: u32,
    /// The processes above the shim, its parent first: a session whose server is among them started this one.
    pub ancestors: Vec<u32>,
    /// The server's process id; none before it started and in a recording.
    pub server_pid: Option<u32>,
    /// The server's command and its arguments.
    pub command: Vec<String>,
    /// When the session's clock began, in microseconds since 1970 (UTC).
    pub started: u64,
    /// The client, as far as it has told.
    pub client: Implementation,
    /// The server, as far as it has told.
    pub server: Implementation,
}

/// One end of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Implementation {
    /// The dialect spoken with it, such as `mcp-2025-11-25`: a guess until something telling has passed.
    pub protocol: String,
    /// Its name, as its handshake gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its version, as its handshake gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A side of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Whoever started the shim.
    Client,
    /// The command behind the shim.
    Server,
}

impl Side {
    /// The word for lists.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// The side across.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum End {
    /// The server exited with this code.
    ExitCode(i32),
    /// The server was ended by this signal.
    Signal(i32),
    /// It is not known: the shim is gone, or the recording breaks off.
    Unknown,
}
