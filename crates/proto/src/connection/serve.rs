//! The peer's requests: taken in, started, answered, ended.

use super::{Connection, ConnectionEvent, IncomingKey, IncomingRequest, Item, Payload, Tag, params};
use crate::{
    bug::SeededBug,
    cause::CauseCode,
    connection::incoming::{Delivery, Incoming, Kind, Rare, ResponseState, Suspension, Work},
    dialect::{CancelReply, Dialect, IdReuse},
    error_code, frame,
    id::{IncomingId, RequestId},
    json,
    link::{Rejected, cancel},
    message,
    receipt::Ending,
    rule::Rule,
    side::Side,
    slab::Key,
    time::Instant,
    timer_queue::{NEVER, TimerKey},
    tombstones::SettledAs,
};

/// What a handler answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A result, as JSON.
    Result(&'a [u8]),
    /// An error.
    Error {
        /// Its code.
        code: i32,
        /// Its message.
        message: &'a str,
        /// Its data, as JSON.
        data: Option<&'a [u8]>,
    },
}

/// How a handler ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerEnd<'a> {
    /// With an answer. After a cancel that its dialect wants answered, this is the answer (partial results
    /// included); where silence is wanted it is withheld (D23).
    Returned(Reply<'a>),
    /// With nothing more to say: it answered through [`Connection::respond`].
    Answered,
    /// By its token.
    Cancelled,
    /// It cancelled itself: its own timeout, a leaked cancellation (D24).
    GaveUp,
    /// It was dropped before it ended.
    Dropped,
    /// It panicked; the panic was contained.
    Panicked,
}

impl Connection {
    pub(super) fn take_request(&mut self, now: Instant, request: frame::Request<'_>, batch: Option<Key>) {
        let frame::Request { id, method, params, .. } = request;
        let (peer, framing) = (self.peer(), self.config.framing);
        let dialect = self.negotiation.of_request(peer, framing, params.meta);
        if params.meta.is_some() && !self.negotiation.is_settled() && dialect != self.negotiation.of(peer, framing) {
            self.negotiation.saw_request(dialect);
        }
        let earlier = self.incoming.by_id(&id);
        if let Some((why, code, text)) = self.objection(&id, earlier, &method, dialect, batch) {
            self.refused(why, Some(id.clone()), method.as_bytes(), batch);
            return self.refuse(&id, code, text, batch);
        }
        self.make_way(&id, earlier, dialect);
        let dialect = self.watch_handshake(&method, &params, dialect);
        if let (Side::Client, Some(rule)) = (self.config.role, dialect.no_server_requests) {
            self.violated(rule, Some(id.clone()));
        }

        let is_task = dialect.asks_for_tasks()
            && params.task.is_some()
            && self.negotiation.takes_tasks(self.config.role, &method);
        let uncancellable = dialect.uncancellable(&method).or_else(|| is_task.then_some(Rule::McpC13));
        let deadline = match params.meta {
            Some(meta) if dialect.meta && uncancellable.is_none() => params::deadline(self.asking.reading(now), meta),
            Some(_) | None => NEVER,
        };
        let turn = self.turn_of_incoming(dialect, &method, params.session_id);
        let held = self.early_cancels.claim(&id);
        let payload = Payload::new(&method, &params);
        let may_start = held.is_none() && self.incoming.may_offer();
        let is_open_question = self.is_question(dialect, &method);
        if is_open_question {
            self.asked.hold(now);
        }
        let is_subscription = dialect.subscription.is_some_and(|form| form.method == method);
        let kind = match (&turn, is_subscription) {
            (Some(_), _) => Kind::InTurn,
            (None, true) => Kind::Subscription,
            (None, false) => Kind::Plain,
        };
        let key = self.incoming.insert(Incoming {
            dialect,
            work: if may_start { Work::Offered(payload) } else { Work::Waiting(payload) },
            response: ResponseState::Nothing,
            stop: None,
            arrived: now,
            deadline,
            limit: NEVER,
            armed: TimerKey::NOT,
            rare: Rare::new(dialect.cancel_result(&method), batch),
            child: None,
            method: self.methods.intern(&method),
            uncancellable,
            shielded: false,
            kind,
            replaced: false,
            suspension: Suspension::Never,
            is_open_question,
            id: IncomingId(id),
        });
        if let Some(batch) = batch {
            self.join_batch(batch);
        }
        if may_start {
            self.events.push_back(Item::Start(key));
        }
        self.arm_deadline(key);
        if let Some((session, what)) = turn {
            self.turns.add(session, what, key);
            if self.stop_if_turn_is_over(now, key) {
                return;
            }
        }
        if let Some(held) = held {
            self.apply_held(now, key, held);
        }
    }

    /// Why a request is not taken in: what to report, and what to answer.
    fn objection(
        &self,
        id: &RequestId,
        earlier: Option<Key>,
        method: &str,
        dialect: &Dialect,
        batch: Option<Key>,
    ) -> Option<(Rejected, i32, &'static str)> {
        const INVALID: i32 = error_code::INVALID_REQUEST;
        if id.is_null() && !dialect.null_ids {
            return Some((Rejected::NullId, INVALID, "a request id must not be null"));
        }
        // D7: the first request keeps the id until it is answered.
        if earlier.and_then(|key| self.incoming.get(key)).is_some_and(Incoming::is_live) {
            return Some((Rejected::DuplicateId, INVALID, "a request with this id is in flight"));
        }
        if batch.is_some() && method == "initialize" {
            return Some((Rejected::Batch, INVALID, "initialize must not be in a batch")); // MCP-B01
        }
        if self.phase.shutting_down {
            return Some((Rejected::ShuttingDown, dialect.gave_up.code, "shutting down"));
        }
        if !self.incoming.has_room() {
            return Some((Rejected::Overloaded, error_code::OVERLOADED, "too many requests in flight"));
        }
        if self.incoming.bytes() > self.config.max_queued_bytes {
            return Some((Rejected::Overloaded, error_code::OVERLOADED, "too many bytes of requests in flight"));
        }
        None
    }

    /// Frees an id that an earlier request had; where that is unlawful it is noted, and served nevertheless (D8).
    fn make_way(&mut self, id: &RequestId, earlier: Option<Key>, dialect: &Dialect) {
        let response = earlier.and_then(|key| self.incoming.get(key)).map(|request| request.response);
        if let Some(key) = earlier {
            self.incoming.replace(key);
        }
        let settled_as = match response {
            Some(ResponseState::Silence) => Some(SettledAs::Silenced),
            Some(ResponseState::Nothing | ResponseState::Answering(_) | ResponseState::Answered) => {
                Some(SettledAs::Answered)
            }
            None => self.remembered.settled_as(id),
        };
        match (dialect.reuse, settled_as) {
            (_, None) | (IdReuse::AfterAnswer, Some(SettledAs::Answered)) => {}
            (IdReuse::Never, Some(_)) => self.violated(Rule::McpI02, Some(id.clone())),
            (IdReuse::AfterAnswer, Some(SettledAs::Silenced)) => self.violated(Rule::McpI03, Some(id.clone())),
        }
    }

    /// Learns from what opens and closes a session; gives the dialect of this request, which may be the one it tells.
    fn watch_handshake(
        &mut self,
        method: &str,
        params: &frame::Params<'_>,
        dialect: &'static Dialect,
    ) -> &'static Dialect {
        if self.config.role == Side::Server {
            if method == "initialize" {
                self.negotiation.saw_initialize(self.config.framing, params.raw);
                return self.spoken();
            }
            if dialect.last_request == Some(method) {
                self.negotiation.saw_last_request();
            }
        }
        dialect
    }

    /// The request that was offered starts now, if it still stands.
    pub(super) fn start(&mut self, key: Key) -> Option<ConnectionEvent> {
        let request = self.incoming.get(key)?;
        if !matches!(request.work, Work::Offered(_)) {
            return None;
        }
        let now = self.now;
        let deadline = request.remaining(now, &self.asking).map(|left| now + left);
        let (id, dialect) = (request.id.clone(), request.dialect);
        let Some(Work::Offered(payload)) = self.incoming.set_work(key, Work::Running) else { return None };
        Some(ConnectionEvent::Request(IncomingRequest { key: IncomingKey(key), id, payload, dialect, deadline }))
    }

    /// Offers what waits, as far as slots are free.
    pub(super) fn offer_next(&mut self) {
        while let Some(key) = self.incoming.next_in_line() {
            self.events.push_back(Item::Start(key));
        }
    }

    /// Answers a request whose handler goes on: it still has to [end](Self::ended).
    ///
    /// `false` if nothing is sent: it was answered before, cancelled where that demands silence, or the link is dead.
    pub fn respond(&mut self, now: Instant, key: IncomingKey, reply: Reply<'_>) -> bool {
        self.now = now;
        let owed = self
            .incoming
            .get(key.0)
            .is_some_and(|request| request.runs() && request.response == ResponseState::Nothing);
        if owed {
            self.reply(key.0, reply);
            self.finish(now);
        }
        owed && !self.phase.write_closed
    }

    /// Answers a request whose handler waits for another request of the peer to go on (D48): its requester waits for
    /// nothing any more, so its deadline is void, and its slot is free until its token fires or it is
    /// [resumed](Self::resume). The handler still has to [end](Self::ended), and its driver bounds how many wait, and how
    /// long.
    ///
    /// `false` if nothing is sent, as with [`respond`](Self::respond), or if its token has fired or no other request can
    /// come; then nothing else changes either.
    pub fn suspend(&mut self, now: Instant, key: IncomingKey, reply: Reply<'_>) -> bool {
        if self.is_stopping(key) || !self.is_open() || !self.respond(now, key, reply) {
            return false;
        }
        if let Some(request) = self.incoming.get_mut(key.0) {
            request.deadline = NEVER;
        }
        self.incoming.suspend(key.0);
        self.offer_next();
        self.finish(now);
        true
    }

    /// A suspended handler waits for no other request any more: it is at work again.
    pub fn resume(&mut self, key: IncomingKey) {
        self.incoming.resume(key.0);
    }

    /// Has [`ConnectionEvent::Delivered`] say whether the answer to this request leaves: for work that outlives its request, and
    /// is an orphan if nobody hears of it (D38). `false` if the request is over.
    pub fn watch_answer(&mut self, key: IncomingKey) -> bool {
        let Some(request) = self.incoming.get_mut(key.0).filter(|request| request.runs()) else { return false };
        if request.response == ResponseState::Answered {
            return false;
        }
        request.rare().delivery = Delivery::Watched;
        true
    }

    /// Sends a notification that belongs to a request: progress, a log line, an update.
    ///
    /// `false` if it is withheld: the request was answered, or cancelled where that demands silence
    /// (MCP-P03, MCP-H04); nothing is sent for it any more. `params` are JSON, or empty for none. It is queued
    /// however much the peer leaves unread: hold the handler back unless the connection [has room](Self::has_room).
    pub fn notify_for(&mut self, now: Instant, key: IncomingKey, method: &str, params: &[u8]) -> bool {
        self.now = now;
        let owed = self
            .incoming
            .get(key.0)
            .is_some_and(|request| request.runs() && request.response == ResponseState::Nothing);
        if !owed || self.phase.write_closed {
            return false;
        }
        let ticket = self.say(Tag::Owed, |out| message::raw_notification(method, params, out));
        let outbox = &self.outbox;
        if let Some(request) = self.incoming.get_mut(key.0) {
            let frames = &mut request.rare().frames;
            while frames.pop_front_if(|frame| outbox.has_begun(*frame)).is_some() {}
            frames.push_back(ticket);
        }
        self.finish(now);
        true
    }

    /// The handler has ended, and everything it owned is released: its slot is free, its children are
    /// cancelled, and the request is answered if it still is to be (D12, D23, D24).
    pub fn ended(&mut self, now: Instant, key: IncomingKey, end: HandlerEnd<'_>) {
        self.now = now;
        let key = key.0;
        if !self.incoming.get(key).is_some_and(Incoming::runs) {
            return;
        }
        let root = self.incoming.get(key).and_then(|request| request.stop.as_ref()).map(|stop| stop.cause.code);
        self.cancel_children(now, key, root);
        self.disarm_work(key);
        self.incoming.resume(key);
        self.incoming.set_work(key, Work::Ended);
        let Some(request) = self.incoming.get(key) else { return };
        let ending = request.stop.as_ref().map(|stop| ending(now, request, stop.asked, stop.refused, &end));
        let owed = match request.response {
            ResponseState::Nothing => true,
            ResponseState::Silence => {
                self.config.has(SeededBug::AnsweredSilentDialect)
                    || (request.replaced && self.config.has(SeededBug::ReuseGetsOldAnswer))
            }
            ResponseState::Answering(_) | ResponseState::Answered => self.config.has(SeededBug::DoubleAnswer),
        };
        if owed {
            self.answer_end(key, &end);
            self.end_served_subscription(key);
        }
        if let Some(ending) = ending {
            self.report_stopped(key, ending);
        }
        self.conclude(now, key);
        self.offer_next();
        self.finish(now);
    }

    /// A subscription that the server ends is ended with a cancel too, after its answer (MCP-M02).
    fn end_served_subscription(&mut self, key: Key) {
        let Some(request) = self.incoming.get(key).filter(|request| request.kind == Kind::Subscription) else { return };
        if self.config.role == Side::Client || self.phase.write_closed {
            return;
        }
        let (form, id) = (self.negotiation.cancel_form(self.peer(), request.dialect), request.id.0.clone());
        let ticket = self.say(Tag::Owed, |out| cancel::write(form, &id, None, out));
        if let Some(request) = self.incoming.get_mut(key) {
            request.rare().frames.push_back(ticket);
        }
    }

    /// The answer of a handler that has ended, where nothing was said before (D23, D24).
    fn answer_end(&mut self, key: Key, end: &HandlerEnd<'_>) {
        let Some(request) = self.incoming.get(key) else { return };
        let by_peer = request.cancelled_by_peer();
        // A method with a cancellation result of its own ends in that and in no error (ACP-08).
        let own = request.own().filter(|_| by_peer && !request.is_silent());
        match (*end, own) {
            (HandlerEnd::Returned(reply @ Reply::Result(_)), _) | (HandlerEnd::Returned(reply), None) => {
                self.reply(key, reply);
            }
            (HandlerEnd::Panicked, None) => {
                let failed = "the handler failed";
                self.reply(key, Reply::Error { code: error_code::INTERNAL_ERROR, message: failed, data: None });
            }
            (
                HandlerEnd::Returned(Reply::Error { .. })
                | HandlerEnd::Answered
                | HandlerEnd::Cancelled
                | HandlerEnd::GaveUp
                | HandlerEnd::Dropped
                | HandlerEnd::Panicked,
                _,
            ) => self.answer_cancelled(key),
        }
    }

    /// Answers a request that ended without an answer of its own, as whoever stopped it demands.
    pub(super) fn answer_cancelled(&mut self, key: Key) {
        let Some(request) = self.incoming.get(key) else { return };
        let stop = request.stop.as_ref().map(|stop| (stop.by_peer, stop.cause.code));
        if let (Some((true, _)), Some(own)) = (stop, request.own())
            && !request.is_silent()
        {
            return self.reply(key, Reply::Result(own.json.as_bytes()));
        }
        let gave_up = request.dialect.gave_up;
        let error = match (request.dialect.settlement, stop) {
            (CancelReply::Answered(error), Some((true, _))) => error,
            (CancelReply::Silent, Some((_, CauseCode::Operator))) => crate::dialect::ErrorText {
                code: error_code::STOPPED_BY_OPERATOR,
                message: CauseCode::Operator.phrase(),
            },
            (CancelReply::Silent | CancelReply::Answered(_), _) => gave_up,
        };
        match stop {
            // D24: an answer that nobody asked for says who stopped the request.
            Some((false, code)) if error == gave_up => {
                let message = format!("{}: {}", error.message, code.phrase());
                self.reply(key, Reply::Error { code: error.code, message: &message, data: None });
            }
            Some(_) | None => {
                self.reply(key, Reply::Error { code: error.code, message: error.message, data: None });
            }
        }
    }

    pub(super) fn reply(&mut self, key: Key, reply: Reply<'_>) {
        let Some(request) = self.incoming.get_mut(key) else { return };
        let id = request.id.0.clone();
        let was_told = request.response != ResponseState::Nothing;
        let batch = request.take_batch();
        request.response = ResponseState::Answered;
        self.note(4, was_told);
        self.close_question(key);
        let is_handshake = self.config.role == Side::Server
            && matches!(reply, Reply::Result(_))
            && self.incoming.get(key).is_some_and(|request| self.methods.name(request.method) == "initialize");
        if let (true, Reply::Result(result)) = (is_handshake, reply) {
            self.negotiation.saw_initialize_result(result);
        }
        let write = |out: &mut Vec<u8>| match reply {
            Reply::Result(result) => message::result(&id, result, out),
            Reply::Error { code, message, data } => message::error(Some(&id), code, message, data, out),
        };
        if let Some(batch) = batch {
            self.note_delivery(key);
            self.add_to_batch(batch, write);
            self.leave_batch(batch);
        } else if !self.phase.write_closed {
            let ticket = self.say(Tag::Answer(key), write);
            if let Some(request) = self.incoming.get_mut(key) {
                request.response = ResponseState::Answering(ticket);
            }
        }
    }

    /// A person answers requests of this method (D49).
    pub(super) fn is_question(&self, dialect: &Dialect, method: &str) -> bool {
        self.config.clocks.unwrap_or(dialect.clocks).is_question(method)
    }

    /// The peer's question is answered, or waits for no answer any more: our calls' clocks go on with the last.
    pub(super) fn close_question(&mut self, key: Key) {
        let Some(request) = self.incoming.get_mut(key) else { return };
        if core::mem::take(&mut request.is_open_question) {
            for parked in self.asked.release(self.now) {
                self.arm_call(parked);
            }
        }
    }

    /// The answer has left, or never will.
    pub(super) fn answer_over(&mut self, now: Instant, key: Key, has_left: bool) {
        let Some(request) = self.incoming.get_mut(key) else { return };
        if matches!(request.response, ResponseState::Answering(_)) {
            request.response = ResponseState::Answered;
            if has_left {
                self.note_delivery(key);
            }
        }
        self.conclude(now, key);
    }

    /// The answer has left; one within a batch is as good as that, for it is never taken back.
    fn note_delivery(&mut self, key: Key) {
        let rare = self.incoming.get_mut(key).and_then(|request| request.rare.as_mut());
        if let Some(rare) = rare.filter(|rare| rare.delivery == Delivery::Watched) {
            rare.delivery = Delivery::Made;
        }
    }

    /// Removes a request that has ended and of which nothing is to be said any more.
    pub(super) fn conclude(&mut self, now: Instant, key: Key) {
        let Some(request) = self.incoming.get_mut(key) else { return };
        if !matches!(request.work, Work::Ended) || request.is_live() {
            return;
        }
        let (batch, in_turn) = (request.take_batch(), request.kind == Kind::InTurn);
        let delivery = request.rare.as_ref().map(|rare| rare.delivery).unwrap_or_default();
        let settled_as =
            if request.response == ResponseState::Silence { SettledAs::Silenced } else { SettledAs::Answered };
        // An id that was taken over belongs to its new request.
        let id = (!request.replaced).then(|| request.id.0.clone());
        self.incoming.remove(key);
        if let Some(batch) = batch {
            self.leave_batch(batch);
        }
        if in_turn {
            self.turns.remove_incoming(self.config.role, key);
        }
        match delivery {
            Delivery::Unwatched => {}
            Delivery::Watched | Delivery::Made => {
                self.tell(ConnectionEvent::Delivered {
                    request: IncomingKey(key),
                    answered: delivery == Delivery::Made,
                });
            }
        }
        if let Some(id) = id {
            self.remembered.remember(now, id, settled_as);
        }
    }
}

/// What a cancel came to, now that the handler has ended (D28).
fn ending(now: Instant, request: &Incoming, asked: Instant, refused: bool, end: &HandlerEnd<'_>) -> Ending {
    let after = now.since(asked);
    match end {
        _ if refused => Ending::Refused,
        HandlerEnd::Dropped => Ending::Dropped { after },
        HandlerEnd::Cancelled | HandlerEnd::GaveUp | HandlerEnd::Panicked => Ending::Stopped { after },
        HandlerEnd::Returned(reply) if says_cancelled(request, reply) => Ending::Stopped { after },
        HandlerEnd::Returned(_) | HandlerEnd::Answered => Ending::RanOn,
    }
}

/// Whether a handler's own answer says that it was cancelled.
fn says_cancelled(request: &Incoming, reply: &Reply<'_>) -> bool {
    match reply {
        Reply::Error { code, .. } => {
            matches!(request.dialect.settlement, CancelReply::Answered(error) if error.code == *code)
        }
        Reply::Result(result) => request
            .own()
            .is_some_and(|own| json::lookup(result, own.path).and_then(json::text).as_deref() == Some(own.value)),
    }
}
