//! What a side sends, taken in: each message is passed on, answered here, or swallowed.

use super::{
    ClockRule, Passed, Relay, Settled, Tag, Timer,
    exchange::{Cancelling, Down, Exchange, Rare, RequestClocks, Running, Up},
};
use crate::{
    bug::SeededBug,
    cause::{Cause, CauseCode},
    dialect::{self, IdReuse, StrayError},
    error_code,
    frame::{self, Frame, Malformed, Notification, Request, Response, ResponseBody, ResponseId},
    framing::{self, Overlong},
    id::RequestId,
    json,
    kind::MessageKind,
    link::{Clock, Implementation, LateKind, Rejected, RequestKey},
    method::Method,
    receipt::{Answer, Outcome},
    rule::Rule,
    side::Side,
    slab::Key,
    time::Instant,
};

/// A message that cannot be passed on.
struct Unread<'a> {
    /// What it seems to be.
    kind: MessageKind,
    /// The id that it plainly names.
    id: Option<RequestId>,
    /// The code and the words of an error that answers it.
    code: i32,
    text: &'a str,
}

/// Refuses a second request with an id in flight. Most who meet it share a server without knowing.
const DUPLICATE_ID: &str =
    "a request with this id is in flight: do two clients share this server? see docs/gateways.md";

impl Relay {
    /// One message that is no batch; `body` is its text, in which spans count.
    pub(super) fn handle_message(
        &mut self,
        now: Instant,
        from: Side,
        body: &[u8],
        mut message: Frame<'_>,
    ) -> Option<Passed> {
        // Read where they lie: they are large, and have just been written.
        match &mut message {
            Frame::Request(request) => self.handle_request(now, from, request),
            Frame::Notification(notification) => self.handle_notification(now, from, body, notification),
            Frame::Response(response) => self.handle_response(now, from, response),
            // The caller has taken batches apart; a nested one is malformed.
            Frame::Batch(_) => None,
        }
    }

    fn handle_request(&mut self, now: Instant, from: Side, request: &mut Request<'_>) -> Option<Passed> {
        let id = core::mem::replace(&mut request.id, RequestId::NULL);
        let (method, params, request_span) = (&*request.method, &request.params, request.id_span.clone());
        let dialect = self.negotiation.saw_request_from(from, self.framing, method, params);
        if from == Side::Client && method == "initialize" {
            self.implementations.client = params.raw.and_then(Implementation::of);
        }
        let upstream_dialect = self.negotiation.of_request(from.other(), self.framing, params.meta);
        if id.is_null() && !dialect.null_ids {
            self.refuse(from, Some(&id), error_code::INVALID_REQUEST, "a request id must not be null");
            self.report_drop(from, Rejected::NullId, method.as_bytes());
            return None;
        }
        let probe = self.tables[from].probe(&id);
        if !self.make_way(from, probe.previous, &id, dialect.reuse) {
            self.refuse(from, Some(&id), error_code::INVALID_REQUEST, DUPLICATE_ID);
            self.report_drop(from, Rejected::DuplicateId, method.as_bytes());
            return None;
        }
        if self.tables[from].live() >= self.config.max_in_flight {
            let (limit, name) = (self.config.max_in_flight, self.config.setting_names.max_in_flight);
            let text = format!("too many requests in flight; the limit is {limit} ({name})");
            self.refuse(from, Some(&id), error_code::OVERLOADED, &text);
            self.report_drop(from, Rejected::Overloaded, method.as_bytes());
            return None;
        }
        if self.tables[from].kept() > self.config.max_kept {
            self.refuse(from, Some(&id), error_code::OVERLOADED, "too many bytes of request ids are in use");
            self.report_drop(from, Rejected::Overloaded, method.as_bytes());
            return None;
        }
        if from == Side::Client {
            if dialect.last_request == Some(method) {
                self.negotiation.saw_last_request();
            }
        } else if let Some(rule) = dialect.no_server_requests {
            self.report_violation(from, rule, Some(id.clone()));
        }

        let is_task = self.negotiation.asks_for_task(from, dialect, method, params);
        let table = &mut self.tables[from];
        let taken = probe.taken_upstream && !self.config.has(SeededBug::ReuseGetsOldAnswer);
        let ambiguous = table.is_ambiguous(&id) && upstream_dialect.uncancellable(method).is_none();
        let renamed = (dialect.reuse != upstream_dialect.reuse || taken || ambiguous).then(|| table.own_id(&id));
        let parent = self.parent_of(from, method, params.session_id);
        let turn = dialect.turn.filter(|turn| method == turn.prompt || method == turn.permission);
        let partial = dialect.progress.and_then(|form| form.asked_partial(params));
        let is_question = dialect.clocks.is_question(method);
        let exchange = Exchange {
            token: dialect.progress.and_then(|form| form.asked(params)),
            session: turn.and(params.session_id).map(Into::into),
            clocks: self.clocks_for(now, from, method, params.name, &dialect.clocks),
            cancel: None,
            rare: (parent.is_some() || partial.is_some() || is_question)
                .then(|| Box::new(Rare { parent, partial, is_question, ..Rare::default() })),
            dialect,
            upstream_dialect,
            up: Up::Assembling,
            down: Down::Waiting,
            asked: now,
            method: self.methods.intern(method),
            name: params.name.map_or(Method::OTHER, |name| self.names.intern_json(name)),
            answer: None,
            changed: false,
            is_task,
            replaced: false,
            renamed: renamed.clone(),
            id,
        };
        let key = self.tables[from].insert(probe.hash, exchange);
        let request = RequestKey { from, key };
        if is_question {
            self.asked[from.other()].hold(now);
        }
        if let (Side::Client, Some(turn), Some(session)) = (from, turn, params.session_id)
            && method == turn.prompt
        {
            self.turns.insert(session, key);
        }
        self.arm_clocks(request);
        self.report_opened(request);
        if self.take_held(now, request) {
            return None;
        }
        if self.links[from.other()].write_closed {
            self.answer_gone(now, request);
            return None;
        }
        let splice = renamed.map(|id| (request_span, id));
        Some(Passed { splice, tag: Tag::Request(request).into(), urgent: false })
    }

    /// Whether `id` is free for a new request of `from`: not in flight (D7). A settled namesake gives way.
    fn make_way(&mut self, from: Side, previous: Option<Key>, id: &RequestId, reuse: IdReuse) -> bool {
        let Some(key) = previous else { return true };
        if self.tables[from].get(key).is_some_and(Exchange::is_live) {
            return false;
        }
        if reuse == IdReuse::Never {
            self.report_violation(from, Rule::McpI02, Some(id.clone()));
        }
        self.tables[from].replace(key);
        if let Some(previous) = self.tables[from].get_mut(key)
            && self.config.has(SeededBug::ReuseGetsOldAnswer)
        {
            previous.up = Up::Answered;
        }
        true
    }

    /// The clocks that flags set for this request; the most specific rule of each kind wins (D16).
    fn clocks_for(
        &self,
        now: Instant,
        from: Side,
        method: &str,
        name: Option<&[u8]>,
        defaults: &dialect::DefaultClocks,
    ) -> Option<Box<RequestClocks>> {
        if self.config.clocks.is_empty() {
            return None;
        }
        let name = name.and_then(json::text);
        let specificity = |rule: &ClockRule| match (&rule.method, &rule.name) {
            (Some(wanted), Some(tool)) if **wanted == *method && name.as_deref() == Some(&**tool) => Some(2),
            (Some(wanted), None) if **wanted == *method => Some(1),
            (None, None) if from == Side::Client && defaults.run_for(method) => Some(0),
            _ => None,
        };
        let pick = |clock: Clock| {
            let rules = self.config.clocks.iter().filter(|rule| rule.clock == clock);
            // The first of equally specific rules: `max_by_key` would take the last.
            let best = rules.filter_map(|rule| Some((specificity(rule)?, rule.limit))).rev().max_by_key(|(s, _)| *s);
            let starts = match clock {
                Clock::Response => self.asked[from].reading(now),
                Clock::Total => now,
            };
            best.map(|(_, limit)| Running { limit, until: starts + limit, armed: now + limit })
        };
        let clocks = RequestClocks { response: pick(Clock::Response), total: pick(Clock::Total) };
        (clocks.response.is_some() || clocks.total.is_some()).then(|| Box::new(clocks))
    }

    fn arm_clocks(&mut self, request: RequestKey) {
        let Some(clocks) = self.exchange(request).and_then(|ex| ex.clocks.clone()) else { return };
        for (clock, running) in [(Clock::Response, clocks.response), (Clock::Total, clocks.total)] {
            if let Some(running) = running {
                self.timers.arm(running.armed, Timer::Clock(request, clock));
            }
        }
    }

    fn handle_notification(
        &mut self,
        now: Instant,
        from: Side,
        body: &[u8],
        notification: &Notification<'_>,
    ) -> Option<Passed> {
        let dialect = self.negotiation.of(from, self.framing);
        let method = &*notification.method;
        if self.negotiation.is_cancel(dialect, method) {
            self.handle_cancel(now, from, method, notification.params.raw);
            return None;
        }
        if let Some(turn) = dialect.turn {
            if method == turn.cancel && from == Side::Client {
                return Some(self.handle_turn_cancel(now, notification.params.session_id));
            }
            if method == turn.update && from == Side::Server {
                return self.handle_turn_update(now, notification.params.session_id).then_some(Passed::PLAIN);
            }
        }
        if let Some(form) = dialect.progress
            && method == form.method
            && let Some(token) = notification.params.raw.and_then(|params| json::member(params, form.token))
        {
            return self.handle_progress(now, from, token, notification.params.raw);
        }
        if from == Side::Server && notification.params.meta.is_some() {
            return self.handle_subscription(now, body, notification.params.raw?);
        }
        Some(Passed::PLAIN)
    }

    /// Whether progress goes on: not for a request that is over (MCP-P03). It resets the clock of one that is not.
    fn handle_progress(&mut self, now: Instant, from: Side, token: &[u8], params: Option<&[u8]>) -> Option<Passed> {
        let Some(token) = RequestId::from_json(token) else { return Some(Passed::PLAIN) };
        let Some(key) = self.tables[from.other()].by_token(&token) else { return Some(Passed::PLAIN) };
        let request = RequestKey { from: from.other(), key };
        let Some(exchange) = self.exchange_mut(request) else { return Some(Passed::PLAIN) };
        let is_partial = exchange.partial() == Some(&token);
        let progress = &mut exchange.rare.get_or_insert_default().progress;
        if is_partial {
            progress.note_partial(now)
        } else {
            progress.note(now, params)
        }
        if exchange.keeps_token() {
            self.mark_changed(request);
            return Some(Passed::PLAIN);
        }
        // A cancelled request that still owes an answer may report until then (ACP-04, LSP-04).
        let passes = exchange.down == Down::Waiting;
        if passes {
            self.reset_response_clock(now, request);
            self.mark_changed(request);
        } else {
            self.report_late(now, from, request, token, LateKind::Progress);
        }
        self.note_alive(now, request);
        passes.then_some(Passed { tag: Tag::Notice(request).into(), ..Passed::PLAIN })
    }

    /// Moves the response clock; its timer notices when it fires.
    pub(super) fn reset_response_clock(&mut self, now: Instant, request: RequestKey) {
        let reading = self.asked[request.from].reading(now);
        if let Some(clocks) = self.exchange_mut(request).and_then(|ex| ex.clocks.as_deref_mut())
            && let Some(running) = &mut clocks.response
        {
            running.until = reading + running.limit;
        }
    }

    /// A server's notification that may belong to a subscription: its id is mapped back, and those of a
    /// cancelled one are swallowed (D32, MCP-H04).
    fn handle_subscription(&mut self, now: Instant, body: &[u8], params: &[u8]) -> Option<Passed> {
        let found = (|| {
            let form = self.negotiation.of(Side::Client, self.framing).subscription?;
            let value = json::lookup(params, form.path)?;
            let id = RequestId::from_json(value)?;
            let key = self.tables[Side::Client].by_upstream(&id)?;
            Some((value, id, key, self.tables[Side::Client].get(key)?))
        })();
        let Some((value, id, key, exchange)) = found else { return Some(Passed::PLAIN) };
        if exchange.down != Down::Waiting {
            let request = RequestKey { from: Side::Client, key };
            self.report_late(now, Side::Server, request, id, LateKind::Subscription);
            self.note_alive(now, request);
            return None;
        }
        let splice = if exchange.renamed.is_some() {
            frame::span_of(body, value).map(|span| (span, exchange.id.clone()))
        } else {
            None
        };
        Some(Passed { splice, tag: Tag::Notice(RequestKey { from: Side::Client, key }).into(), urgent: false })
    }

    fn handle_response(&mut self, now: Instant, from: Side, response: &Response<'_>) -> Option<Passed> {
        let (found, exact) = self.find_answered(from.other(), response.id.as_ref());
        let Some(request) = found else {
            self.handle_unasked(from, response);
            return None;
        };
        let renamed = self.answered(now, from, request, !exact, &response.body)?;
        let splice = renamed.map(|id| (response.id_span.clone(), id));
        Some(Passed { splice, tag: Tag::Answer(request).into(), urgent: false })
    }

    /// The request of `origin` that a response answers, and whether its id matches exactly (D10).
    fn find_answered(&self, origin: Side, id: Option<&ResponseId>) -> (Option<RequestKey>, bool) {
        let table = &self.tables[origin];
        let name = |key| RequestKey { from: origin, key };
        let loose = match id {
            None => return (None, true),
            Some(ResponseId::Exact(id)) => {
                if let Some(key) = table.by_upstream(id) {
                    return (Some(name(key)), true);
                }
                id.loose()
            }
            Some(ResponseId::Loose(value)) => Some(*value),
        };
        let Some(value) = loose else { return (None, true) };
        let (integer, string) = (RequestId::integer(value), RequestId::string(&value.to_string()));
        // It could be the answer of one that was given up and forgotten: then it is nobody's.
        if table.has_spent(&integer) || table.has_spent(&string) {
            return (None, false);
        }
        let open = |id| table.by_upstream(id).filter(|key| table.get(*key).is_some_and(|ex| ex.up == Up::Sent));
        match (open(&integer), open(&string)) {
            (Some(key), None) | (None, Some(key)) => (Some(name(key)), false),
            (Some(_), Some(_)) | (None, None) => (None, false),
        }
    }

    /// The other side has answered `request`. `None` if the answer is swallowed; else the requester's id, where
    /// the answer has to be given that.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        from: Side,
        request: RequestKey,
        loosely: bool,
        response: &ResponseBody<'_>,
    ) -> Option<Option<RequestId>> {
        let (kind, late) = match response {
            ResponseBody::Result(_) => (Answer::Result, LateKind::Result),
            ResponseBody::Error(_) => (Answer::Error, LateKind::Error),
        };
        let exchange = self.tables[request.from].get_mut(request.key)?;
        if exchange.task().is_some() && self.ends_own_request(now, request, response) {
            return None;
        }
        let exchange = self.tables[request.from].get_mut(request.key)?;
        if exchange.up != Up::Sent {
            let id = exchange.upstream().clone();
            self.report_late(now, from, request, id, late);
            return None;
        }
        exchange.up = Up::Answered;
        exchange.answer = Some(kind);
        if let ResponseBody::Error(error) = response {
            let code = json::member(error, "code").and_then(json::integer);
            exchange.rare.get_or_insert_default().code = code;
        }
        let id = (exchange.renamed.is_some() || loosely).then(|| exchange.id.clone());
        let passes = exchange.down == Down::Waiting || self.config.has(SeededBug::DoubleAnswer);
        let may_be_task = exchange.upstream_dialect.tasks.is_some_and(|form| exchange.is_task || !form.asked);
        let is_cancelled = exchange.cancel.is_some();
        let is_watched = exchange.cancel.is_some() || exchange.clocks.is_some();
        if let ResponseBody::Result(result) = response
            && request.from == Side::Client
            && self.methods.name(exchange.method) == "initialize"
        {
            self.negotiation.saw_initialize_result(result);
            self.implementations.server = Implementation::of(result);
        }
        if is_watched {
            self.learn_answer(now, request, kind, response);
            self.disarm_all(request);
        }
        self.unmute(request);
        if may_be_task {
            self.note_task(request, response);
        }
        if !passes {
            if is_cancelled {
                self.cancel_orphan(now, request);
            }
            let id = self.exchange(request)?.upstream().clone();
            self.report_late(now, from, request, id, late);
            return None;
        }
        Some(id)
    }

    /// What the answer says about the cancel, if there was one (D28).
    fn learn_answer(&mut self, now: Instant, request: RequestKey, answer: Answer, response: &ResponseBody<'_>) {
        let Some(exchange) = self.exchange(request) else { return };
        let Some(cancel) = &exchange.cancel else { return };
        let after = now.since(cancel.receipt.asked);
        let method = self.methods.name(exchange.method);
        let cancel_outcome = cancel.receipt.outcome;
        let outcome = match cancel_outcome {
            Outcome::Asked => Outcome::CompletedFirst,
            Outcome::Sent if exchange.upstream_dialect.says_cancelled(method, response) => Outcome::Confirmed { after },
            Outcome::Sent => Outcome::AnsweredAfter { after, answer },
            settled @ (Outcome::NeverSent
            | Outcome::NotSendable
            | Outcome::Confirmed { .. }
            | Outcome::CompletedFirst
            | Outcome::AnsweredAfter { .. }
            | Outcome::Unknown) => settled,
        };
        // An answer that came before the cancel was written disarms it (D15).
        let unwritten = cancel.frame;
        if let Some(ticket) = unwritten {
            self.links[request.from.other()].outbox.withdraw(ticket);
        }
        if outcome != cancel_outcome && matches!(outcome, Outcome::Confirmed { .. } | Outcome::AnsweredAfter { .. }) {
            self.tally.cancel_to_answer.record(after);
        }
        if let Some(cancel) = self.exchange_mut(request).and_then(|ex| ex.cancel.as_deref_mut()) {
            cancel.frame = None;
            if cancel.receipt.outcome != outcome {
                cancel.receipt.outcome = outcome;
                self.report_receipt(request);
            }
        }
    }

    /// A response to nothing: an error that answers nobody, or a stranger (D36).
    fn handle_unasked(&mut self, from: Side, response: &Response<'_>) {
        let nameless = match &response.id {
            None => true,
            Some(ResponseId::Exact(id)) => id.is_null(),
            Some(ResponseId::Loose(_)) => false,
        };
        match response.body {
            ResponseBody::Error(error) if nameless => {
                self.report_drop(from, Rejected::StrayError, error);
                let to = from.other();
                let head: &[u8] = match self.negotiation.of(to, self.framing).stray_error {
                    StrayError::NullId => br#"{"jsonrpc":"2.0","id":null,"error":"#,
                    StrayError::NoId => br#"{"jsonrpc":"2.0","error":"#,
                    StrayError::Invalid => return,
                };
                self.say(to, Tag::Plain, |out| {
                    out.extend_from_slice(head);
                    out.extend_from_slice(error);
                    out.push(b'}');
                });
            }
            ResponseBody::Error(text) | ResponseBody::Result(text) => {
                self.report_drop(from, Rejected::UnknownResponse, text)
            }
        }
    }

    /// A body that is not a message. The request that it is, or answers, is ended; otherwise a client gets one error,
    /// and a server's goes to the log (D36, D43).
    pub(super) fn handle_malformed(&mut self, now: Instant, from: Side, body: &[u8], malformed: Malformed) {
        let why = match malformed {
            Malformed::Invalid { reason, .. } => Rejected::Invalid(reason),
            Malformed::NotJson => Rejected::NotJson,
        };
        self.report_drop(from, why, body);
        let unread = match malformed {
            Malformed::Invalid { reason, kind, id } => {
                Unread { kind, id, code: error_code::INVALID_REQUEST, text: reason.as_str() }
            }
            Malformed::NotJson => {
                let Overlong { kind, id, .. } = framing::learn(body);
                let text = if core::str::from_utf8(body).is_ok() { "not JSON" } else { "not UTF-8" };
                Unread { kind, id, code: error_code::PARSE_ERROR, text }
            }
        };
        if matches!(unread.kind, MessageKind::Response | MessageKind::Unknown)
            && unread.id.is_some()
            && let (Some(request), _) =
                self.find_answered(from.other(), unread.id.clone().map(ResponseId::Exact).as_ref())
        {
            let text = format!("the answer could not be read: {}", unread.text);
            return self.answer_unread(now, from, request, error_code::INTERNAL_ERROR, &text);
        }
        self.refuse_unread(from, &unread);
    }

    /// Bytes that are not a message at all: a client gets one -32700, a server's go to the log (D36).
    pub(super) fn refuse_garbage(&mut self, from: Side, why: Rejected, bytes: &[u8], text: &str) {
        self.report_drop(from, why, bytes);
        if from == Side::Client {
            self.refuse(from, None, error_code::PARSE_ERROR, text);
        }
    }

    /// A message over the limit has ended; the one request it was, or answers, is answered (D36).
    pub(super) fn handle_overlong(&mut self, now: Instant, from: Side, message: &Overlong) {
        let (limit, name) = (self.config.max_message, self.config.setting_names.max_message);
        let text = format!("the message has {} bytes; the limit is {limit} ({name})", message.len);
        self.report_drop(from, Rejected::TooLarge, text.as_bytes());
        if message.kind == MessageKind::Response {
            let id = message.id.clone().map(ResponseId::Exact);
            if let (Some(request), _) = self.find_answered(from.other(), id.as_ref()) {
                let text = format!("answer too large: {text}");
                self.answer_unread(now, from, request, error_code::TOO_LARGE, &text);
            }
            return;
        }
        let (kind, id) = (message.kind, message.id.clone());
        self.refuse_unread(from, &Unread { kind, id, code: error_code::TOO_LARGE, text: &text });
    }

    /// The answer of `request` came and cannot be passed on: its requester must not wait for ever.
    fn answer_unread(&mut self, now: Instant, from: Side, request: RequestKey, code: i32, text: &str) {
        if self.answered(now, from, request, false, &ResponseBody::Error(b"{}")).is_some() {
            self.answer_error(now, request, code, text, None);
        }
    }

    /// Answers a message that cannot be passed on, if it was a request or could have been one.
    fn refuse_unread(&mut self, from: Side, unread: &Unread<'_>) {
        let Unread { kind, id, code, text } = unread;
        match kind {
            MessageKind::Request if id.is_some() || from == Side::Client => {
                let taken = id.as_ref().and_then(|id| self.tables[from].by_requester(id));
                let in_flight = taken.is_some_and(|key| self.tables[from].get(key).is_some_and(Exchange::is_live));
                // Under the id of a request in flight the error would end that one.
                self.refuse(from, id.as_ref().filter(|_| !in_flight), *code, text);
            }
            // A bad notification or response must not be answered, where it is certain that it was one.
            MessageKind::Response | MessageKind::Notification if *code != error_code::PARSE_ERROR => {}
            MessageKind::Response | MessageKind::Notification | MessageKind::Batch | MessageKind::Unknown
                if from == Side::Client =>
            {
                self.refuse(from, None, *code, text);
            }
            MessageKind::Request
            | MessageKind::Response
            | MessageKind::Notification
            | MessageKind::Batch
            | MessageKind::Unknown => {}
        }
    }

    /// Cancels a request that a held cancel names, before the other side hears of it (D9).
    fn take_held(&mut self, now: Instant, request: RequestKey) -> bool {
        if self.held[request.from].is_empty() {
            return false;
        }
        let Some(exchange) = self.tables[request.from].get(request.key) else { return false };
        let method = self.methods.name(exchange.method).to_owned();
        let forbidden = exchange.dialect.uncancellable(&method);
        let is_task = exchange.is_task;
        let Some(held) = self.held[request.from].claim(&exchange.id) else { return false };
        if let Some(rule) = forbidden.or_else(|| is_task.then_some(Rule::McpC13)) {
            self.report_violation(request.from, rule, Some(held.id.0));
            return false;
        }
        let mut cause = Cause::new(CauseCode::Caller);
        if let Some(reason) = &held.reason {
            cause = cause.with_text(reason);
        }
        if let Some(exchange) = self.exchange_mut(request) {
            exchange.up = Up::Never;
        }
        self.begin_cancel(request, Cancelling::new(cause, now, Outcome::NeverSent));
        self.report_receipt(request);
        self.settle_cancelled(now, request);
        true
    }

    /// Answers a request that can no longer be sent anywhere (D35).
    pub(super) fn answer_gone(&mut self, now: Instant, request: RequestKey) {
        if let Some(exchange) = self.exchange_mut(request) {
            exchange.up = Up::Lost;
        }
        if request.from == Side::Server {
            // The client's pipe has ended; the server's own end will come.
            return self.settle(now, request, Settled::Gone);
        }
        let (text, data) = self.server_exit_error();
        self.answer_error(now, request, error_code::UPSTREAM_GONE, &text, Some(&data));
    }
}
