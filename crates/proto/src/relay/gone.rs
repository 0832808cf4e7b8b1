//! The end of the server: each of its requests in flight is answered or cancelled (D35), and the answers say how it ended
//! and who ended it (D44).

use super::{
    Core, End, EndedBy, Relay, Settled,
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

impl Relay {
    pub(super) fn server_gone(&mut self, now: Instant) {
        for key in self.tables[Side::Client].by_age(|ex| ex.is_open_upstream() || ex.is_waiting()) {
            self.with(now, RequestKey { from: Side::Client, key }, |step| step.lose_server());
        }
        for key in self.tables[Side::Server].by_age(Exchange::is_live) {
            let request = RequestKey { from: Side::Server, key };
            self.with(now, request, |step| step.cancel_upstream(Cause::new(CauseCode::Disconnect)));
            self.with(now, request, |step| {
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
