//! What cannot be passed on: each message is mended, ends the request that it is or answers, or is refused (D36, D43).

use std::borrow::Cow;

use super::{
    Core, Relay,
    exchange::Exchange,
    link::{Passed, Tag},
};
use crate::{
    dialect::StrayError,
    error_code,
    excerpt::excerpt,
    frame::{self, Malformed, Mend, Named, Reason, Response, ResponseBody, ResponseId},
    framing::{self, Overlong},
    id::RequestId,
    kind::MessageKind,
    link::Rejected,
    message,
    side::Side,
    time::Instant,
};

impl Relay {
    /// Takes in a message that cannot be read as it is: it goes on mended if it can be (D43), and else ends here.
    #[cold]
    pub(super) fn handle_unreadable(
        &mut self,
        now: Instant,
        from: Side,
        body: &[u8],
        malformed: &Malformed,
    ) -> Option<(Cow<'static, [u8]>, Passed)> {
        match frame::mend(body, self.core.config.max_message) {
            Mend::Mended(mended) => {
                let passed = self.handle_message(now, from, &mended, &mut frame::parse_member(&mended).ok()?)?;
                return Some((mended.into(), passed));
            }
            Mend::TooLong(len) => self.handle_overlong(now, from, &Overlong { len, ..framing::learn(body) }),
            Mend::No => self.handle_malformed(now, from, body, malformed),
        }
        None
    }

    /// A body that is not a message. The request that it is, or answers, is ended; otherwise a client gets one error, and
    /// a server's goes to the log.
    fn handle_malformed(&mut self, now: Instant, from: Side, body: &[u8], malformed: &Malformed) {
        let (why, kind, id, code, text) = match malformed {
            &Malformed::Invalid { reason, kind, ref id } => {
                (Rejected::Invalid(reason), kind, id.clone(), error_code::INVALID_REQUEST, reason.as_str())
            }
            Malformed::NotJson => {
                let Named { kind, mut id, is_printed } = frame::name(body);
                // A server that prints what it was asked has asked nothing.
                if is_printed && kind == MessageKind::Request && from == Side::Server {
                    id = None;
                }
                let text = if core::str::from_utf8(body).is_ok() { "not JSON" } else { "not UTF-8" };
                (Rejected::NotJson, kind, id, error_code::PARSE_ERROR, text)
            }
        };
        self.core.reject(from, why, body);
        let answer = format!("the answer could not be read: {text}: {}", excerpt(body));
        if !matches!(kind, MessageKind::Response | MessageKind::Unknown)
            || !self.answer_unreadable(now, from, id.as_ref(), error_code::INTERNAL_ERROR, &answer)
        {
            self.refuse_unreadable(from, kind, id.as_ref(), code, text);
        }
    }

    /// An answer whose error clients could not read ends its request all the same.
    #[cold]
    pub(super) fn handle_bad_error(&mut self, now: Instant, from: Side, response: &Response<'_>) {
        let (ResponseBody::Error(error) | ResponseBody::Result(error)) = response.body;
        let why = Reason::BadError;
        self.core.reject(from, Rejected::Invalid(why), error);
        let text = format!("the answer could not be read: {}: {}", why.as_str(), excerpt(error));
        self.end_answered(now, from, response.id.as_ref(), error_code::INTERNAL_ERROR, &text);
    }

    /// A message over the limit has ended; the one request that it was, or answers, is answered.
    pub(super) fn handle_overlong(&mut self, now: Instant, from: Side, message: &Overlong) {
        let &Overlong { len, kind, ref id, .. } = message;
        let (limit, name) = (self.core.config.max_message, self.core.config.setting_names.max_message);
        let text = format!("the message has {len} bytes; the limit is {limit} ({name})");
        self.core.reject(from, Rejected::TooLarge, text.as_bytes());
        let answer = format!("answer too large: {text}");
        if kind == MessageKind::Response {
            self.answer_unreadable(now, from, id.as_ref(), error_code::TOO_LARGE, &answer);
        } else {
            self.refuse_unreadable(from, kind, id.as_ref(), error_code::TOO_LARGE, &text);
        }
    }

    /// Ends the request whose answer came under this id and cannot be passed on: its requester must not wait for ever.
    /// Whether there is one.
    pub(super) fn answer_unreadable(
        &mut self,
        now: Instant,
        from: Side,
        id: Option<&RequestId>,
        code: i32,
        text: &str,
    ) -> bool {
        let id = id.map(|id| ResponseId::Exact(id.clone()));
        self.end_answered(now, from, id.as_ref(), code, text)
    }

    fn end_answered(&mut self, now: Instant, from: Side, id: Option<&ResponseId>, code: i32, text: &str) -> bool {
        let Some((request, _)) = self.find_answered(from.other(), id) else { return false };
        let answered = self.with(now, request, |step| step.answered(false, &ResponseBody::Error(b"{}")));
        if answered.flatten().is_some() {
            self.step(now, request, |step| step.answer_error(code, text, None));
        }
        true
    }

    /// Answers a message that cannot be passed on, if it was a request or could have been one.
    fn refuse_unreadable(&mut self, from: Side, kind: MessageKind, id: Option<&RequestId>, code: i32, text: &str) {
        // A bad notification or response must not be answered, where it is certain that it was one.
        let is_certain = code != error_code::PARSE_ERROR;
        if kind == MessageKind::Request && id.is_some() {
            let table = &self.tables[from];
            let taken = id.and_then(|id| table.by_requester(id)).and_then(|key| table.get(key));
            // Under the id of a request in flight the error would end that one.
            let is_taken = taken.is_some_and(Exchange::is_live);
            self.core.refuse(from, id.filter(|_| !is_taken), code, text);
        } else if from == Side::Client
            && !self.core.negotiation.is_opaque()
            && !(is_certain && matches!(kind, MessageKind::Response | MessageKind::Notification))
        {
            self.core.refuse(from, None, code, text);
        }
    }
}

impl Core {
    /// Takes in a response to nothing: an error that answers no request goes on in the other side's form, all else ends.
    pub(super) fn handle_stray(&mut self, from: Side, response: &Response<'_>) {
        let is_null = |id: &ResponseId| matches!(id, ResponseId::Exact(id) if id.is_null());
        let is_nameless = response.id.as_ref().is_none_or(is_null);
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
        if self.reports.allowance.is_some_and(|allowance| allowance.refusals == 0) {
            return;
        }
        let cost = self.write_refusal(to, id, code, text);
        let Some(allowance) = &mut self.reports.allowance else { return };
        allowance.refusals = allowance.refusals.saturating_sub(cost);
        if allowance.refusals == 0 {
            let text = "too many refusals for one batch: what else of it is refused is not answered";
            self.write_refusal(to, None, error_code::INVALID_REQUEST, text);
        }
    }

    fn write_refusal(&mut self, to: Side, id: Option<&RequestId>, code: i32, text: &str) -> usize {
        let before = self.links[to].outbox.backlog();
        let dialect = self.spoken(to);
        // Under a null id a client that may not have used one could not read its answer, either.
        let id = id.filter(|id| dialect.null_ids || !id.is_null());
        let has_no_id = id.is_none() && dialect.stray_error == StrayError::NoId;
        // JSON-RPC's own form of a missing id, for a revision that has none, too.
        let id = if has_no_id { None } else { Some(id.unwrap_or(&RequestId::NULL)) };
        self.write(to, Tag::Refusal, |out| message::error(id, code, text, None, out));
        let link = &mut self.links[to];
        let cost = link.outbox.backlog() - before;
        link.own_backlog += cost;
        cost
    }
}
