//! What came of a cancel: the truth, and never more than was observed (D28).

use core::{fmt, time::Duration};

use crate::{cause::Cause, frame::ResponseBody, time::Instant};

/// The record of one cancel that we sent, relayed or withdrew.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// Who asked, and why.
    pub cause: Cause,
    /// When it was asked for.
    pub asked: Instant,
    /// When its last byte was written, or left what carries the connection where that is known (D51); `None` if it never
    /// did.
    pub written: Option<Instant>,
    /// What is known so far. `Sent` may still become another outcome; the others are final.
    pub outcome: Outcome,
}

impl Receipt {
    /// What an answer that arrives now makes of the outcome; `None` where that is final.
    pub(crate) fn answered(&self, now: Instant, answer: Answer, says_cancelled: bool) -> Option<Outcome> {
        let after = now.since(self.asked);
        match self.outcome {
            Outcome::Asked => Some(Outcome::CompletedFirst),
            Outcome::Sent if says_cancelled => Some(Outcome::Confirmed { after }),
            Outcome::Sent => Some(Outcome::AnsweredAfter { after, answer }),
            Outcome::NeverSent
            | Outcome::NotSendable
            | Outcome::Confirmed { .. }
            | Outcome::CompletedFirst
            | Outcome::AnsweredAfter { .. }
            | Outcome::Unknown => None,
        }
    }
}

words! {
    /// What is known of a cancel that we sent or meant to send.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum Outcome {
        /// The cancel waits for its request, or for the pipe.
        Asked = "asked",
        /// The request was withdrawn before a byte of it was written; neither it nor the cancel was sent.
        NeverSent = "never_sent",
        /// The protocol offers no way to say it: no capability, `initialize`, a task (D18, D38).
        NotSendable = "not_sendable",
        /// Written, and nothing known since. In MCP that is the end of what a wire can show.
        Sent = "sent",
        /// The peer answered with the cancellation error or the method's cancellation result.
        Confirmed {
            /// From asking to the answer.
            after: Duration,
        } = "confirmed",
        /// The answer arrived before the cancel was written.
        CompletedFirst = "completed_first",
        /// The peer answered as if it had not been cancelled.
        AnsweredAfter {
            /// From asking to the answer.
            after: Duration,
            /// Whether the answer was a result or an error.
            answer: Answer,
        } = "answered_after",
        /// The connection ended, or forgot the request, before anything was learnt.
        Unknown = "unknown",
    }
}

words! {
    /// The kind of an answer.
    ///
    /// It never grows: an answer is a result or an error, as JSON-RPC has it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Answer {
        /// A result.
        Result = "result",
        /// An error.
        Error = "error",
    }
}

impl From<&ResponseBody<'_>> for Answer {
    fn from(body: &ResponseBody<'_>) -> Self {
        match body {
            ResponseBody::Result(_) => Self::Result,
            ResponseBody::Error(_) => Self::Error,
        }
    }
}

impl Outcome {
    /// Whether the end of the connection takes away what could still have been learnt: `confirms` says
    /// whether the peer would have answered. Where it would not, `Sent` is the end of what a wire can show (D28).
    #[must_use]
    pub const fn is_cut_short(&self, confirms: bool) -> bool {
        matches!(self, Self::Asked) || (confirms && matches!(self, Self::Sent))
    }

    /// Whether nothing more can be learnt.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        !matches!(self, Self::Asked | Self::Sent)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("asked; not written yet"),
            Self::NeverSent => f.write_str("never sent: withdrawn before it was written"),
            Self::NotSendable => f.write_str("not sendable: the protocol has no way to say it here"),
            Self::Sent => f.write_str("sent; nothing known since"),
            Self::Confirmed { after } => write!(f, "confirmed after {after:.1?}"),
            Self::CompletedFirst => f.write_str("completed first: the answer came before the cancel was written"),
            Self::AnsweredAfter { after, answer: Answer::Result } => {
                write!(f, "answered with a result after {after:.1?}")
            }
            Self::AnsweredAfter { after, answer: Answer::Error } => {
                write!(f, "answered with an error after {after:.1?}")
            }
            Self::Unknown => f.write_str("unknown: the connection ended first"),
        }
    }
}

words! {
    /// What came of a cancel that the peer sent to us.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum Ending {
        /// It was still queued; its handler never ran.
        NeverStarted = "never_started",
        /// The handler ended by the cancel.
        Stopped {
            /// From the cancel to the handler's end.
            after: Duration,
        } = "stopped",
        /// The handler outlived the grace and was dropped.
        Dropped {
            /// From the cancel to the drop.
            after: Duration,
        } = "dropped",
        /// The handler ended by itself as if not cancelled; its answer was withheld.
        RanOn = "ran_on",
        /// The handler is shielded: it ran to its end on purpose (D22).
        Refused = "refused",
    }
}
