//! Answers of our own.

use core::time::Duration;

use super::{
    Settled,
    exchange::{Down, Up},
    step::Step,
    tag::Tag,
};
use crate::{
    cause::CauseCode, dialect::Cancelled, error_code, id::RequestId, json, link::Clock, message, receipt::Receipt,
};

/// The words for a requester when the other side kept silent (D34).
const UNCONFIRMED: &str = "cancelled; not confirmed, the work may still be running";

impl Step<'_> {
    /// Answers with the method's own cancellation result or the dialect's error; the receipt goes into its data.
    pub(super) fn answer_cancelled(&mut self) {
        match self.exchange.dialect.cancelled(self.method()) {
            Some(Cancelled::Result(own)) => {
                let result = self.cancelled_result(own.json);
                let how = Settled::AnsweredHere { code: None };
                self.answer(how, |id, out| message::result(id, &result, out));
            }
            Some(Cancelled::Error(error)) => self.answer_unconfirmed(error.code, error.message),
            // Not reached: in a silent dialect a cancel is not answered.
            None => self.answer_unconfirmed(error_code::INTERNAL_ERROR, "cancelled"),
        }
    }

    fn answer_unconfirmed(&mut self, code: i32, text: &str) {
        let unconfirmed = self.exchange.is_open_upstream() || self.exchange.up == Up::Lost;
        let data = self.error_data(None);
        self.answer_error(code, if unconfirmed { UNCONFIRMED } else { text }, Some(&data));
    }

    /// The method's own cancellation result; one that an operator caused says so in its `_meta`.
    fn cancelled_result(&self, own: &str) -> Vec<u8> {
        let cancel = self.exchange.cancel.as_deref();
        let stopped = cancel.filter(|cancel| cancel.receipt.cause.code == CauseCode::Operator);
        let Some((cancel, members)) = stopped.zip(own.strip_suffix('}')) else { return own.into() };
        let mut out = members.as_bytes().to_vec();
        out.extend_from_slice(br#","_meta":{"rescind/receipt":"#);
        write_receipt(&cancel.receipt, &mut out);
        out.extend_from_slice(b"}}");
        out
    }

    pub(super) fn answer_error(&mut self, code: i32, text: &str, data: Option<&[u8]>) {
        self.answer(Settled::AnsweredHere { code: Some(code) }, |id, out| {
            message::error(Some(id), code, text, data, out);
        });
    }

    /// Queues an answer of our own for the requester, if it has none yet.
    fn answer(&mut self, how: Settled, write: impl FnOnce(&RequestId, &mut Vec<u8>)) {
        self.stop_clocks();
        if !self.exchange.is_waiting() {
            return;
        }
        let id = &self.exchange.id;
        let tag = Tag::Answer(self.request);
        match self.core.write(self.request.from, tag, |out| write(id, out)) {
            Some(ticket) => {
                self.exchange.down = Down::Answering(ticket, how);
                self.mark_changed();
            }
            None => self.settle(Settled::Gone),
        }
    }

    /// The data of an error of ours: the clock, if one ran out, and the receipt.
    pub(super) fn error_data(&self, clock: Option<(Clock, Duration)>) -> Vec<u8> {
        let mut out = vec![b'{'];
        if let Some((clock, limit)) = clock {
            out.extend_from_slice(br#""clock":"#);
            json::write_string(&mut out, clock.as_str());
            out.extend_from_slice(br#","afterMs":"#);
            json::write_integer(&mut out, i64::try_from(limit.as_millis()).unwrap_or(i64::MAX));
        }
        if let Some(cancel) = &self.exchange.cancel {
            if clock.is_some() {
                out.push(b',');
            }
            out.extend_from_slice(br#""receipt":"#);
            write_receipt(&cancel.receipt, &mut out);
        }
        out.push(b'}');
        out
    }
}

/// A receipt as JSON: who asked, and what is known.
fn write_receipt(receipt: &Receipt, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"cause":"#);
    json::write_string(out, receipt.cause.code.as_str());
    if let Some(text) = receipt.cause.text() {
        out.extend_from_slice(br#","reason":"#);
        json::write_string(out, text);
    }
    out.extend_from_slice(br#","outcome":"#);
    json::write_string(out, receipt.outcome.as_str());
    out.push(b'}');
}
