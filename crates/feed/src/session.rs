//! One shim: its client and its server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of the API, the `1` of `/v1/…`. New members may be added within a version; readers must ignore them.
pub const VERSION: u32 = 1;

/// A session: one shim with its client and its server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The shim's [`VERSION`].
    pub version: u32,
    /// Its name, as in `SESSION/ID`: the shim's process id, with a suffix if that was taken.
    pub name: String,
    /// The shim's program and version.
    pub program: String,
    /// The shim's process id.
    pub pid: u32,
    /// The ancestors of the shim's process, its parent first. If another session's server is among them, it started this
    /// session.
    pub ancestors: Vec<u32>,
    /// The server's process id; `None` before its start and in a recording.
    pub server_pid: Option<u32>,
    /// The server's command and its arguments.
    pub command: Vec<String>,
    /// The name of its entry in the client's configuration, if that was given (`run --name`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// The client whose configuration that is, such as `cursor`, if that was given (`run --client-name`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// The name under which its server process is shared by sessions of this user, if it is (`run --shared`): in the session
    /// of each client, and in that of the process itself, which alone has a `server_pid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<String>,
    /// The directory in which the shim was started, which most clients make that of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// When the session's clock began, in microseconds since 1970 (UTC).
    pub started: u64,
    /// The client, as far as it has introduced itself.
    pub client: Implementation,
    /// The server, as far as it has introduced itself.
    pub server: Implementation,
    /// Who is connected, if clients reach the server over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<Connected>,
    /// Whose it is, where clients over HTTP have owners and do not share the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// A request waits for a person to sign in at the server, which is reached over HTTP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signing_in: bool,
    /// Its limits as they were given, and how many requests each has refused (D65).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, u64>,
    /// The side that leaves so much unread that what the other one writes is not read any more: that one may stand still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_up_by: Option<Side>,
    /// How often work was announced that the shim had no room for: a child, or a thread, turn or command of Codex (D58).
    /// Those are neither listed nor cancelled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unkept_children: u64,
    /// How the starts of its processes are read on its clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_clock: Option<ProcessClock>,
    /// What became of processes that began during cancelled requests (`--on-stop end-processes`): the last 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turn_processes: Vec<TurnProcess>,
    /// The keys of cancelled requests whose processes are still to be looked for, or are being ended; `None` if none are
    /// ended (`--on-stop`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending_turns: Option<Vec<String>>,
    /// How often the server was started again after it had died, if it was (D64).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<Restarts>,
    /// The server has died, and its successor has not been started or does not answer yet: requests are queued (D64).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restarting: bool,
    /// Since when on the session's clock, in microseconds, its client was greeted with what the server answered at its last
    /// start, if the server has not answered yet: requests are queued (D70).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starting: Option<u64>,
    /// An agent of ACP v2 does not list what works in the background, or listed more than the shim follows: such work is
    /// neither listed here nor cancelled (D55).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hides_work: bool,
    /// How often a request became a task that the shim had no room for: those are neither listed nor cancelled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unkept_tasks: u64,
    /// How many requests were cancelled, may be worked on, and were forgotten since there were more than the shim keeps
    /// (D52): those are not listed any more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unkept_released: u64,
}

/// Relates the clock of a session to the one by which its system tells when a process started (D59).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessClock {
    /// When the session's clock began, in microseconds on that of the system: since the system started on Linux, elsewhere
    /// since 1970.
    pub origin: u64,
    /// How long the machine has slept since then, in microseconds, if it has. A session's clock stands still meanwhile, so
    /// a process may have started that much earlier on it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slept: u64,
}

/// A process that began during a cancelled request, and what became of it (D59).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnProcess {
    /// The key of the request.
    pub request: String,
    /// Its number.
    pub pid: u32,
    /// The name of its program.
    pub name: String,
    /// Whether it has ended.
    pub ended: bool,
    /// How, or why not, in words.
    pub how: String,
}

/// How often a server was started again (D64).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Restarts {
    /// How often.
    pub count: u64,
    /// When it last was, in microseconds of the session's clock.
    pub last: u64,
    /// When that one had answered the handshake, so that requests reached it, on the same clock; absent until it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub greeted: Option<u64>,
}

const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What [`Implementation::protocol`] says of a protocol that is not known (D57).
pub const UNKNOWN_PROTOCOL: &str = "unknown";

/// What [`Implementation::protocol`] is for Codex where its client has turned off the messages that show the end of a turn
/// (D58).
pub const UNSEEN_PROTOCOL: &str = "codex-unseen";

impl Session {
    /// Whether it cannot be seen when the work of its server ends, or some of it is not reported: it speaks a protocol that
    /// is not known (D57), its client receives no message about it (D58), or it [hides work](Self::hides_work) (D55).
    #[must_use]
    pub fn is_unseen(&self) -> bool {
        let protocol = &*self.server.protocol;
        self.hides_work || protocol == UNKNOWN_PROTOCOL || protocol == UNSEEN_PROTOCOL
    }

    /// Whether it has had more work, tasks or released requests than its shim follows: not all that is at work need be
    /// listed.
    #[must_use]
    pub const fn has_unkept(&self) -> bool {
        self.unkept_children > 0 || self.unkept_tasks > 0 || self.unkept_released > 0
    }

    /// Whether a person may mean it by this text: the name of its entry, or that behind the name of its client, as in
    /// `cursor:github`.
    #[must_use]
    pub fn is_called(&self, text: &str) -> bool {
        let Some(entry) = self.entry.as_deref().filter(|entry| !entry.is_empty()) else { return false };
        let behind_client = |client: &str| text.strip_prefix(client)?.strip_prefix(':');
        text == entry || self.client_name.as_deref().and_then(behind_client) == Some(entry)
    }

    /// Whether it is of one of the clients that share a server process, and not of that process itself.
    #[must_use]
    pub const fn is_sharer(&self) -> bool {
        self.shared.is_some() && self.server_pid.is_none()
    }

    /// Whether every message passes as it is, and so no request is refused (D57, D58).
    #[must_use]
    pub fn is_opaque(&self) -> bool {
        [UNKNOWN_PROTOCOL, UNSEEN_PROTOCOL, "codex"].contains(&&*self.server.protocol)
    }
}

/// Who is connected over HTTP, and what is kept for those who are away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connected {
    /// Sessions; none for the server of all clients that have none (MCP 2026-07-28).
    pub sessions: u64,
    /// Responses under way: those that wait for an answer, and open streams of events.
    pub responses: u64,
    /// Streams that nobody reads and whose client can come back to them.
    pub kept: u64,
    /// Bytes of messages that are kept for clients that come back.
    pub kept_bytes: u64,
    /// How often the server was started anew after it had ended by itself, where several clients share it.
    #[serde(default)]
    pub restarts: u64,
}

/// One end of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Implementation {
    /// The dialect spoken with it, such as `mcp-2025-11-25`: a guess until a message has decided it.
    pub protocol: String,
    /// Its name from the handshake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its version from the handshake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A side of a session.
///
/// It never grows: a link has two sides, and each request comes from one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The program that started the shim.
    Client,
    /// The command behind the shim.
    Server,
}

impl Side {
    /// The word used in lists.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// The other side.
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
#[non_exhaustive]
pub enum End {
    /// The server exited with this code.
    ExitCode(i32),
    /// The server was ended by this signal.
    Signal(i32),
    /// Unknown: the shim is gone, or the recording breaks off.
    Unknown,
}
