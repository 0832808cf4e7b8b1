//! A cancel, and what was done with it (D31).

use core::fmt;
use std::sync::Arc;

use crate::{
    cause::{CauseCode, sanitised},
    id::RequestId,
    rule::Rule,
    side::Side,
};

/// A cancel that arrived, in a message or as the end of a stream (MCP-H03), or that a relay decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelNotice {
    /// The requester of the request that it names; for a cancel from the wire, its sender.
    pub from: Side,
    /// The id it names, if one could be read. The cancel of a turn names a session; this is then the turn's request.
    pub id: Option<RequestId>,
    /// The method of the request, if the request is known.
    pub method: Option<Arc<str>>,
    /// Who asked.
    pub cause: CauseCode,
    /// The reason in words, as received: untrusted, see [`sanitised`].
    pub reason: Option<Box<str>>,
    /// What was done with it.
    pub verdict: Verdict,
    /// Requests of that side still in flight.
    pub in_flight: usize,
}

impl fmt::Display for CancelNotice {
    /// One line for a log or a terminal; the id and the reason are sanitised.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.id {
            Some(id) => write!(f, "cancel of request {}", sanitised(&id.to_string()))?,
            None => f.write_str("cancel of no request")?,
        }
        if let Some(method) = &self.method {
            write!(f, " ({method})")?;
        }
        match &self.reason {
            Some(reason) => write!(f, ": {}", sanitised(reason)),
            None => Ok(()),
        }
    }
}

words! {
    /// What was done with a cancel; in a monitor, what its receiver has to do with it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum Verdict {
        /// The request is being stopped, was withdrawn, or will never start.
        Accepted = "accepted",
        /// It had been cancelled before: nothing is sent twice (D15).
        Repeated = "repeated",
        /// The request is over (MCP-C07).
        Completed = "completed",
        /// The handler is shielded: it runs to its end (D22, MCP-C07). Only in a connection.
        Shielded = "shielded",
        /// Held for a request that has not arrived (D9).
        Held = "held",
        /// No such request, now or in memory; also a held cancel whose request never came.
        Unknown = "unknown",
        /// Unreadable (D29).
        Malformed = "malformed",
        /// Not this side's to send, or not now (D30).
        Forbidden(Rule) = "refused",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_is_one_readable_line_and_its_reason_cannot_spoil_a_terminal() {
        let notice = |id: Option<RequestId>, method: Option<&str>, reason: Option<&str>| CancelNotice {
            from: Side::Client,
            id,
            method: method.map(Into::into),
            cause: CauseCode::Caller,
            reason: reason.map(Into::into),
            verdict: Verdict::Accepted,
            in_flight: 1,
        };
        let stop = notice(Some(RequestId::integer(5)), Some("tools/call"), Some("user pressed\n\u{1b}[2JStop"));
        assert_eq!(stop.to_string(), "cancel of request 5 (tools/call): user pressed\u{fffd}\u{fffd}[2JStop");
        assert_eq!(notice(Some(RequestId::string("a\nb")), None, None).to_string(), r#"cancel of request "a\nb""#);
        assert_eq!(notice(None, None, None).to_string(), "cancel of no request");
    }
}
