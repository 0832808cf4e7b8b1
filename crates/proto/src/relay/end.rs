//! How a side's input ended, and who ended the server.

use core::{fmt, time::Duration};

use crate::side::Side;

/// How a side's input ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It closed its end.
    Closed,
    /// The process exited with this code.
    Exited(i32),
    /// The process was ended by this signal.
    Signalled(i32),
}

/// Who asked the server to end before it did (D44).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// The client, by a signal with this number that was passed on.
    Client(i32),
    /// The shim.
    Shim(EndReason),
}

impl EndedBy {
    /// The word for data, logs and recordings; a server that ended without being asked is `server`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client(_) => "client",
            Self::Shim(_) => "shim",
        }
    }
}

/// Completes "… before it answered: ".
impl fmt::Display for EndedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(signal) => write!(f, "its client had sent signal {signal}"),
            Self::Shim(reason) => write!(f, "rescind ended it, because {reason}"),
        }
    }
}

/// Why a shim ends its server (D44).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// What is written to the client has no reader any more.
    ReaderGone,
    /// The client's input had ended, and then the process that had started the shim.
    ParentGone,
    /// The client's input had ended, and nothing was in flight for this long.
    Idle(Duration),
    /// A side read nothing of what it was owed for too long (D13).
    Unread(Side),
    /// It closed its input or output and lived on.
    Silent,
    /// A cancelled request was still being worked on (MCP-S03).
    Stuck,
}

impl EndReason {
    /// The word for data, logs and recordings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReaderGone => "reader_gone",
            Self::ParentGone => "parent_gone",
            Self::Idle(_) => "idle",
            Self::Unread(_) => "unread",
            Self::Silent => "silent",
            Self::Stuck => "stuck",
        }
    }
}

/// Completes "because ".
impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReaderGone => f.write_str("its client no longer reads"),
            Self::ParentGone => f.write_str("its client's input and the process that started it had ended"),
            Self::Idle(time) => {
                write!(f, "its client's input had ended and nothing was in flight for {time:?} (--finish)")
            }
            Self::Unread(side) => write!(f, "the {} read nothing of what it was owed", side.as_str()),
            Self::Silent => f.write_str("it had closed its input or output"),
            Self::Stuck => f.write_str("it still worked on a cancelled request (--on-stuck kill)"),
        }
    }
}
