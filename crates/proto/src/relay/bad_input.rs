//! What cannot be passed on: each message is mended, ends the request that it is or answers, or is refused (D36, D43).

use super::{Core, Relay, batch::Allowance, exchange::Exchange, link::Passed, tag::Tag};
use crate::{
    dialect::StrayError,
    error_code,
    frame::{self, Malformed, Mend, Response, ResponseBody, ResponseId},
    framing::{self, Overlong},
    id::RequestId,
    kind::MessageKind,
    link::{Rejected, RequestKey},
    message,
    side::Side,
    time::Instant,
};

/// A message that cannot be passed on.
struct Unreadable<'a> {
    /// What it seems to be.
    kind: MessageKind,
    /// The id that it plainly names.
    id: Option<RequestId>,
    /// The code and the words of an error that answers it.
    code: i32,
    text: &'a str,
}

impl Relay {
    /// Takes in a message that cannot be read as it is: it goes on mended if it can be (D43), and else ends here.
    #[cold]
    pub(super) fn handle_unreadable(
        &mut self,
        now: Instant,
        from: Side,
        body: &[u8],
        malformed: Malformed,
    ) -> Option<(Vec<u8>, Passed)> {
        match frame::mend(body, self.core.config.max_message) {
            Mend::Mended(mended) => {
                let passed = self.handle_message(now, from, &mended, frame::parse_member(&mended).ok()?)?;
                return Some((mended, passed));
            }
            Mend::TooLong(len) => self.handle_overlong(now, from, &Overlong { len, ..framing::learn(body) }),
            Mend::No => self.handle_malformed(now, from, body, malformed),
        }
        None
    }

    /// A body that is not a message. The request that it is, or answers, is ended; otherwise a client gets one error, and
    /// a server's goes to the log.
    fn handle_malformed(&mut self, now: Instant, from: Side, body: &[u8], malformed: Malformed) {
        let (why, unreadable) = match malformed {
            Malformed::Invalid { reason, kind, id } => {
                let (code, text) = (error_code::INVALID_REQUEST, reason.as_str());
                (Rejected::Invalid(reason), Unreadable { kind, id, code, text })
            }
            Malformed::NotJson => {
                let Overlong { kind, id, .. } = framing::learn(body);
                let text = if core::str::from_utf8(body).is_ok() { "not JSON" } else { "not UTF-8" };
                (Rejected::NotJson, Unreadable { kind, id, code: error_code::PARSE_ERROR, text })
            }
        };
        self.core.reject(from, why, body);
        if let MessageKind::Response | MessageKind::Unknown = unreadable.kind
            && let Some(request) = self.find_answered_plainly(from, unreadable.id.as_ref())
        {
            let text = format!("the answer could not be read: {}", unreadable.text);
            return self.answer_unreadable(now, request, error_code::INTERNAL_ERROR, &text);
        }
        self.refuse_unreadable(from, &unreadable);
    }

    /// A message over the limit has ended; the one request that it was, or answers, is answered.
    pub(super) fn handle_overlong(&mut self, now: Instant, from: Side, message: &Overlong) {
        let (limit, name) = (self.core.config.max_message, self.core.config.setting_names.max_message);
        let text = format!("the message has {} bytes; the limit is {limit} ({name})", message.len);
        self.core.reject(from, Rejected::TooLarge, text.as_bytes());
        let (kind, id) = (message.kind, message.id.clone());
        if kind != MessageKind::Response {
            self.refuse_unreadable(from, &Unreadable { kind, id, code: error_code::TOO_LARGE, text: &text });
        } else if let Some(request) = self.find_answered_plainly(from, id.as_ref()) {
            self.answer_unreadable(now, request, error_code::TOO_LARGE, &format!("answer too large: {text}"));
        }
    }

    /// The request that an answer of `from` is to which plainly names this id.
    fn find_answered_plainly(&self, from: Side, id: Option<&RequestId>) -> Option<RequestKey> {
        let id = ResponseId::Exact(id?.clone());
        self.find_answered(from.other(), Some(&id)).0
    }

    /// The answer of `request` came and cannot be passed on: its requester must not wait for ever.
    fn answer_unreadable(&mut self, now: Instant, request: RequestKey, code: i32, text: &str) {
        if self.answered(now, request, false, &ResponseBody::Error(b"{}")).is_some() {
            self.step(now, request, |step| step.answer_error(code, text, None));
        }
    }

    /// Answers a message that cannot be passed on, if it was a request or could have been one.
    fn refuse_unreadable(&mut self, from: Side, unreadable: &Unreadable<'_>) {
        let Unreadable { kind, id, code, text } = unreadable;
        match kind {
            MessageKind::Request if id.is_some() || from == Side::Client => {
                let taken = id.as_ref().and_then(|id| self.tables[from].by_requester(id));
                let in_flight = taken.is_some_and(|key| self.tables[from].get(key).is_some_and(Exchange::is_live));
                // Under the id of a request in flight the error would end that one.
                self.core.refuse(from, id.as_ref().filter(|_| !in_flight), *code, text);
            }
            // A bad notification or response must not be answered, where it is certain that it was one.
            MessageKind::Response | MessageKind::Notification if *code != error_code::PARSE_ERROR => {}
            MessageKind::Response | MessageKind::Notification | MessageKind::Batch | MessageKind::Unknown
                if from == Side::Client =>
            {
                self.core.refuse(from, None, *code, text);
            }
            MessageKind::Request
            | MessageKind::Response
            | MessageKind::Notification
            | MessageKind::Batch
            | MessageKind::Unknown => {}
        }
    }
}

impl Core {
    /// Takes in a response to nothing: an error that answers no request goes on in the other side's form, all else ends.
    pub(super) fn handle_stray(&mut self, from: Side, response: &Response<'_>) {
        let is_nameless = match &response.id {
            None => true,
            Some(ResponseId::Exact(id)) => id.is_null(),
            Some(ResponseId::Loose(_)) => false,
        };
        let error = match response.body {
            ResponseBody::Error(error) if is_nameless => error,
            ResponseBody::Error(text) | ResponseBody::Result(text) => {
                return self.reject(from, Rejected::UnknownResponse, text);
            }
        };
        self.reject(from, Rejected::StrayError, error);
        let to = from.other();
        let head: &[u8] = match self.spoken(to).stray_error {
            StrayError::NullId => br#"{"jsonrpc":"2.0","id":null,"error":"#,
            StrayError::NoId => br#"{"jsonrpc":"2.0","error":"#,
            StrayError::Invalid => return,
        };
        self.write(to, Tag::Plain, |out| {
            out.extend_from_slice(head);
            out.extend_from_slice(error);
            out.push(b'}');
        });
    }

    /// Refuses bytes that are not a message at all: a client gets one error, a server's go to the log.
    pub(super) fn refuse_garbage(&mut self, from: Side, why: Rejected, bytes: &[u8], text: &str) {
        self.reject(from, why, bytes);
        if from == Side::Client {
            self.refuse(from, None, error_code::PARSE_ERROR, text);
        }
    }

    /// Answers bad input; what this costs is the sender's own backlog (D13), and bounded for each batch.
    pub(super) fn refuse(&mut self, to: Side, id: Option<&RequestId>, code: i32, text: &str) {
        if self.reports.allowance.as_ref().is_some_and(Allowance::is_spent) {
            return;
        }
        let cost = self.write_refusal(to, id, code, text);
        if let Some(allowance) = &mut self.reports.allowance
            && allowance.spend(cost)
        {
            let text = "too many refusals for one batch: what else of it is refused is not answered";
            self.write_refusal(to, None, error_code::INVALID_REQUEST, text);
        }
    }

    fn write_refusal(&mut self, to: Side, id: Option<&RequestId>, code: i32, text: &str) -> usize {
        let before = self.links[to].outbox.backlog();
        let has_no_id = id.is_none() && self.spoken(to).stray_error == StrayError::NoId;
        // JSON-RPC's own form of a missing id, for a revision that has none, too.
        let id = if has_no_id { None } else { Some(id.unwrap_or(&RequestId::NULL)) };
        self.write(to, Tag::Refusal, |out| message::error(id, code, text, None, out));
        let link = &mut self.links[to];
        let cost = link.outbox.backlog() - before;
        link.own_backlog += cost;
        cost
    }
}
