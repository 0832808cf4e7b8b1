//! The end of the server: how its input ended and who ended it (D44), and what that means for requests (D35).

use super::{
    Core, Relay, Settled, Step,
    exchange::{Exchange, Up},
};
use crate::{
    cause::{Cause, CauseCode},
    link::RequestKey,
    receipt::Outcome,
    side::Side,
    time::Instant,
};

/// How a side's input ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// It closed its end.
    Closed,
    /// The process exited with this code.
    Exited(i32),
    /// The process was ended by this signal.
    Signalled(i32),
}

/// Who asked the server to end before it did (D44), as answers about its end say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedBy {
    /// Completes "… before it answered: ".
    pub words: String,
    /// Members for the error's data, as JSON; the first is `endedBy`.
    pub members: String,
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
            self.learn(Outcome::Unknown);
        }
        self.stop_clocks();
        self.stop_grace();
        self.mark_changed();
        if self.exchange.dialect.opaque {
            self.answer_gone();
            self.answer_duplicates_gone();
        } else if self.exchange.cancel.is_some() {
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
            Some(End::Exited(code)) => (format!("exited with code {code}"), Some(("exitCode", code)), ""),
            Some(End::Signalled(signal)) => (
                format!("was ended by signal {signal}"),
                Some(("signal", signal)),
                "; neither its client nor rescind had sent that signal",
            ),
            Some(End::Closed) | None => ("closed its output".to_owned(), None, ""),
        };
        let (text, ended_by) = match &self.ended_by {
            None => (format!("the server {how} before it answered{unasked}"), r#""endedBy":"server""#),
            Some(by) => (format!("the server {how} before it answered: {}", by.words), &*by.members),
        };
        let data = status.map(|(name, number)| format!(r#"{{"{name}":{number},{ended_by}}}"#));
        (text, data.unwrap_or_else(|| "{}".to_owned()).into_bytes())
    }
}
