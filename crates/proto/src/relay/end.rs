//! The end of the server: how its input ended and who ended it (D44), and what that means for requests (D35).

use core::{fmt, time::Duration};

use super::{
    Core, Relay, Settled,
    exchange::{Exchange, Up},
    step::Step,
};
use crate::{
    cause::{Cause, CauseCode},
    json,
    link::RequestKey,
    receipt::Outcome,
    side::Side,
    time::Instant,
};

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

impl Relay {
    /// The server has ended: each of its requests in flight is answered or cancelled.
    pub(super) fn server_gone(&mut self, now: Instant) {
        for key in self.tables[Side::Client].by_age(|ex| ex.is_open_upstream() || ex.is_waiting()) {
            self.step(now, RequestKey { from: Side::Client, key }, |step| step.lose_server());
        }
        for key in self.tables[Side::Server].by_age(Exchange::is_live) {
            let request = RequestKey { from: Side::Server, key };
            self.step(now, request, |step| step.cancel_upstream(Cause::new(CauseCode::Disconnect)));
            self.step(now, request, |step| {
                step.stop_grace();
                step.report_receipt();
                step.settle(Settled::Gone);
            });
        }
    }
}

impl Step<'_> {
    /// The server that owes this request an answer has ended.
    fn lose_server(&mut self) {
        self.exchange.up = Up::Lost;
        let confirms = !self.exchange.upstream_dialect.is_silent();
        if let Some(cancel) = self.cancel()
            && cancel.receipt.outcome.is_cut_short(confirms)
        {
            cancel.receipt.outcome = Outcome::Unknown;
            self.report_receipt();
        }
        self.stop_clocks();
        self.stop_grace();
        self.mark_changed();
        if self.exchange.cancel.is_some() {
            self.answer_cancelled();
        } else {
            self.answer_gone();
        }
    }
}

impl Core {
    /// The words and data with which requests of an ended server are answered.
    pub(super) fn server_exit_error(&self) -> (String, Vec<u8>) {
        let (how, status, unasked) = match self.server_end {
            Some(End::Exited(code)) => (format!("exited with code {code}"), Some(("exitCode", code)), " by itself"),
            Some(End::Signalled(signal)) => (
                format!("was ended by signal {signal}"),
                Some(("signal", signal)),
                ", which neither its client nor rescind had sent,",
            ),
            Some(End::Closed) | None => ("closed its output".to_owned(), None, ""),
        };
        let text = match self.ended_by {
            None => format!("the server {how}{unasked} before it answered"),
            Some(by) => format!("the server {how} before it answered: {by}"),
        };
        let mut data = vec![b'{'];
        if let Some((name, number)) = status {
            json::write_string(&mut data, name);
            data.push(b':');
            json::write_integer(&mut data, i64::from(number));
            data.extend_from_slice(br#","endedBy":"#);
            json::write_string(&mut data, self.ended_by.map_or("server", EndedBy::as_str));
            match self.ended_by {
                None => {}
                Some(EndedBy::Client(signal)) => {
                    data.extend_from_slice(br#","clientSignal":"#);
                    json::write_integer(&mut data, i64::from(signal));
                }
                Some(EndedBy::Shim(reason)) => {
                    data.extend_from_slice(br#","because":"#);
                    json::write_string(&mut data, reason.as_str());
                }
            }
        }
        data.push(b'}');
        (text, data)
    }
}
