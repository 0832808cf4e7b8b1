//! Who ends a server, and why (D44).

use std::{fmt, time::Duration};

use rescind_proto::{relay, side::Side};

/// Who asked the server to end before it did (D44).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndedBy {
    /// The client, by a signal with this number that was passed on.
    Client(i32),
    /// The shim.
    Shim(EndReason),
}

impl EndedBy {
    /// The word for data, logs and recordings; a server that ended without being asked is `server`.
    pub(crate) const fn as_str(self) -> &'static str {
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

/// What answers about the server's end say.
impl From<EndedBy> for relay::EndedBy {
    fn from(by: EndedBy) -> Self {
        let why = match by {
            EndedBy::Client(signal) => format!(r#""clientSignal":{signal}"#),
            EndedBy::Shim(reason) => format!(r#""because":"{}""#, reason.as_str()),
        };
        Self { words: by.to_string(), members: format!(r#""endedBy":"{}",{why}"#, by.as_str()) }
    }
}

/// Why a shim ends its server (D44).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// What is written to the client has no reader any more.
    ReaderGone,
    /// The client's input had ended, which a server that is not a process does not notice.
    ClientEnded,
    /// The client's input had ended, and then the process that had started the shim.
    ParentGone,
    /// The client's input had ended, and nothing was in flight for this long.
    Idle(Duration),
    /// A side did not read what was sent to it for too long (D13).
    Unread(Side),
    /// It closed its input or output and lived on.
    Silent,
    /// It was started again, and did not answer its client's handshake for this long (D64).
    Ungreeted(Duration),
    /// Its client was told otherwise before it had started (D70).
    Unwelcome,
    /// A cancelled request was still being worked on (MCP-S03).
    Stuck,
    /// An operator ordered it at the admin socket.
    Operator,
}

impl EndReason {
    /// The word for data, logs and recordings.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::ReaderGone => "reader_gone",
            Self::ClientEnded => "client_ended",
            Self::ParentGone => "parent_gone",
            Self::Idle(_) => "idle",
            Self::Unread(_) => "unread",
            Self::Silent => "silent",
            Self::Ungreeted(_) => "ungreeted",
            Self::Unwelcome => "unwelcome",
            Self::Stuck => "stuck",
            Self::Operator => "operator",
        }
    }
}

/// Completes "because ".
impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientEnded => f.write_str("its client's input had ended"),
            Self::ReaderGone => f.write_str("its client no longer reads"),
            Self::ParentGone => f.write_str("its client's input and the process that started it had ended"),
            Self::Idle(time) => {
                write!(f, "its client's input had ended and nothing was in flight for {time:?} (--finish)")
            }
            Self::Unread(side) => write!(f, "the {} did not read what was sent to it", side.as_str()),
            Self::Silent => f.write_str("it had closed its input or output"),
            Self::Ungreeted(limit) => {
                write!(f, "it was started again and did not answer initialize within {limit:?} (--restart)")
            }
            Self::Unwelcome => f.write_str("it started otherwise than its client had been told (--greet-from-cache)"),
            Self::Stuck => f.write_str("a cancelled request was stuck in it (--on-stuck kill)"),
            Self::Operator => f.write_str("an operator asked for it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_who_ended_the_server_and_why() {
        assert_eq!(
            relay::EndedBy::from(EndedBy::Client(15)),
            relay::EndedBy {
                words: "its client had sent signal 15".to_owned(),
                members: r#""endedBy":"client","clientSignal":15"#.to_owned(),
            }
        );
        assert_eq!(
            relay::EndedBy::from(EndedBy::Shim(EndReason::Unread(Side::Server))),
            relay::EndedBy {
                words: "rescind ended it, because the server did not read what was sent to it".to_owned(),
                members: r#""endedBy":"shim","because":"unread""#.to_owned(),
            }
        );
    }
}
