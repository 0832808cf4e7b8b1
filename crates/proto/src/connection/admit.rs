//! The peer's requests: taken in or refused, offered, started (D7, D8, D12).

use super::{
    Connection, ConnectionEvent, IncomingKey, IncomingRequest, Payload, Reply,
    incoming::{Incoming, Rare, ResponseState, Suspension, Work},
    link::Link,
    params,
    part::Part,
    turn,
};
use crate::{
    dialect::{Dialect, IdReuse, negotiation::Negotiation},
    error_code, frame,
    holder::Holder,
    id::{IncomingId, RequestId},
    link::{Attachment, Rejected},
    rule::Rule,
    side::Side,
    slab::Key,
    timer_queue::{NEVER, TimerKey},
    tombstones::SettledAs,
};

/// The answer to a request that is one too many of its client, where others share the connection.
const TOO_MANY_OF_ONE: &str =
    "too many requests of this client are in flight: it may have as many as others can still send; try again later";

/// The same for its bytes.
const TOO_LARGE_OF_ONE: &str =
    "too many bytes of this client's requests wait: it may have as many as others can still send; try again later";

/// An earlier request with the same id, and what its requester was sent.
type Earlier = (Key, ResponseState);

impl Connection {
    /// Receives a request: takes it in, or refuses it.
    pub(super) fn receive_request(&mut self, request: frame::Request<'_>, batch: Option<Key>) {
        let frame::Request { id, method, params, .. } = &request;
        // Seen of one that is refused, too.
        let (peer, framing) = (self.link.peer(), self.link.config.framing);
        let dialect = self.link.negotiation.saw_revision(peer, framing, Negotiation::named(params.meta));
        let is_handshake = self.link.negotiation.is_handshake(peer, framing, method);
        let part = Part::of(dialect, peer, method, is_handshake, params.session_id.is_some());
        let earlier = self.incoming.by_id(id).and_then(|key| Some((key, self.incoming.get(key)?.response)));
        let holder = self.link.attachment.as_ref().and_then(Attachment::holder);
        if let Some((why, code, text)) = self.objection(id, earlier, part, dialect, holder, batch) {
            self.link.report_rejected(why, Some(id.clone()), method.as_bytes(), batch);
            return self.link.refuse(Some(id), code, text, batch);
        }
        if self.receive_item_cancel(id, method, params) {
            return;
        }
        let is_held = self.holds_prompt(part, dialect, params.session_id);
        let Self { incoming, turns, link, .. } = self;
        link.check_reuse(id, earlier, dialect);
        if let Some((earlier, _)) = earlier {
            incoming.replace(earlier);
        }
        let dialect = link.observe_request(peer, method, params);
        if let (Side::Client, Some(rule)) = (link.role(), dialect.no_server_requests) {
            link.report_violation(rule, Some(id.clone()));
        }
        let early = link.early_cancels.claim(id);
        let holder = link.attachment.as_ref().and_then(Attachment::holder).cloned();
        let may_start = early.is_none() && !is_held && incoming.may_offer(holder.as_ref());
        let session = params.session_id.filter(|_| part.has_session());
        let mut request = link.admit(request, dialect, part, may_start);
        if is_held {
            request.work = Work::Held;
        }
        if let Some(attachment) = &link.attachment {
            request.rare().attachment = Some(attachment.clone());
        }
        if holder.is_some() {
            request.rare().holder = holder;
            request.limit = if may_start || is_held { NEVER } else { link.now + link.config.max_wait };
        }
        if let Some(members) = batch.and_then(|batch| link.batches.get_mut(batch)) {
            members.open += 1;
            request.rare().batch = batch;
        }
        let key = incoming.insert(request);
        if may_start {
            link.offer(key);
        }
        link.arm_deadline(incoming, key);
        if let Some(session) = session {
            turns.insert(&turn::name(part, session), key);
            if part == Part::Card && self.stop_if_turn_is_over(key, session) {
                return;
            }
        }
        if let Some(early) = early {
            self.apply_early_cancel(key, early);
        }
    }

    /// Why a request is not taken in: what to report, and what to answer.
    fn objection(
        &self,
        id: &RequestId,
        earlier: Option<Earlier>,
        part: Part,
        dialect: &Dialect,
        holder: Option<&Holder>,
        batch: Option<Key>,
    ) -> Option<(Rejected, i32, &'static str)> {
        let Self { incoming, link, .. } = self;
        Some(if id.is_null() && !dialect.null_ids {
            (Rejected::NullId, error_code::INVALID_REQUEST, "a request id must not be null")
        } else if earlier.is_some_and(|(_, response)| response.is_live()) {
            // D7: the first request keeps the id until it is answered.
            (Rejected::DuplicateId, error_code::INVALID_REQUEST, "another request with this id is already in flight")
        } else if batch.is_some() && part == Part::Handshake {
            (Rejected::Batch, error_code::INVALID_REQUEST, "initialize must not be in a batch") // MCP-B01
        } else if link.phase.shutting_down {
            (Rejected::ShuttingDown, dialect.gave_up.code, "shutting down")
        } else if !incoming.has_room() {
            (Rejected::Overloaded, error_code::OVERLOADED, "too many requests in flight")
        } else if incoming.taken.bytes > link.config.max_queued_bytes {
            (Rejected::Overloaded, error_code::OVERLOADED, "too many bytes of requests in flight")
        } else if holder.is_some_and(|holder| !incoming.has_room_for(holder)) {
            (Rejected::Overloaded, error_code::OVERLOADED, TOO_MANY_OF_ONE)
        } else if holder.is_some_and(|holder| !incoming.has_bytes_for(holder, link.config.max_queued_bytes)) {
            (Rejected::Overloaded, error_code::OVERLOADED, TOO_LARGE_OF_ONE)
        } else {
            return None;
        })
    }

    /// Starts the handler of a request that was offered, if it still stands.
    pub(super) fn start(&mut self, key: Key) -> Option<ConnectionEvent> {
        let mut request = self.incoming.get_mut(key).filter(|request| request.work == Work::Offered)?;
        request.set_work(Work::Running);
        let payload = request.remove_payload()?;
        let attachment = request.rare.as_mut().and_then(|rare| rare.attachment.take());
        let now = self.link.now;
        let deadline = request.remaining(now, &self.link.our_questions).map(|left| now + left);
        let (id, dialect) = (request.id.clone(), request.dialect);
        let key = IncomingKey(key);
        Some(ConnectionEvent::Request(IncomingRequest { key, id, payload, dialect, deadline, attachment }))
    }

    /// Refuses a request that has waited for a handler for as long as it may, where several clients share the connection.
    pub(super) fn refuse_waiting(&mut self, key: Key) {
        let Self { incoming, link, .. } = self;
        let Some(mut request) = incoming.get_mut(key) else { return };
        request.set_work(Work::Ended);
        request.remove_payload();
        let session = request.prompted_session();
        let text = format!(
            "no handler was free for {} s: all {} are at work, or this client has as many as are left for others; try again \
             later",
            link.config.max_wait.as_secs(),
            link.config.max_running
        );
        link.reply(&mut request, Reply::error(error_code::OVERLOADED, &text));
        let method = link.methods.name(request.method).to_owned();
        link.report_rejected(Rejected::Overloaded, Some(request.id.0.clone()), method.as_bytes(), None);
        self.conclude(key);
        if let Some(session) = session {
            self.release_session(&session);
            self.offer_next();
        }
    }

    /// Offers what waits, as far as slots are free.
    pub(super) fn offer_next(&mut self) {
        while let Some(key) = self.incoming.offer_next() {
            self.link.offer(key);
        }
    }
}

impl Link {
    /// Reports an id that was used before and must not be again; the request is served nevertheless (D8).
    fn check_reuse(&mut self, id: &RequestId, earlier: Option<Earlier>, dialect: &Dialect) {
        let settled_as = earlier.map(|(_, response)| response.settled_as()).or_else(|| self.tombstones.settled_as(id));
        match (dialect.reuse, settled_as) {
            (_, None) | (IdReuse::AfterAnswer, Some(SettledAs::Answered)) => {}
            (IdReuse::Never, Some(_)) => self.report_violation(Rule::McpI02, Some(id.clone())),
            (IdReuse::AfterAnswer, Some(SettledAs::Silenced)) => self.report_violation(Rule::McpI03, Some(id.clone())),
        }
    }

    /// Makes the entry of a request that is taken in.
    fn admit(
        &mut self,
        request: frame::Request<'_>,
        dialect: &'static Dialect,
        part: Part,
        may_start: bool,
    ) -> Incoming {
        let frame::Request { id, method, params, .. } = request;
        let is_task = self.negotiation.asks_for_task(self.peer(), dialect, &method, &params);
        let uncancellable = dialect.uncancellable(&method).or_else(|| is_task.then_some(Rule::McpC13));
        let deadline = match params.meta {
            Some(meta) if dialect.meta && uncancellable.is_none() => {
                params::deadline(self.our_questions.reading(self.now), meta)
            }
            Some(_) | None => NEVER,
        };
        let is_open_question = self.is_question(dialect, &method);
        if is_open_question {
            self.their_questions.hold(self.now);
        }
        let cancel_result = dialect.cancel_result(&method);
        let session = params.session_id.filter(|_| part.has_session());
        let rare = || Box::new(Rare { cancel_result, session: session.map(Into::into), ..Rare::default() });
        Incoming {
            id: IncomingId(id),
            dialect,
            work: if may_start { Work::Offered } else { Work::Waiting },
            payload: Some(Payload::new(&method, &params)),
            response: ResponseState::Nothing,
            stop: None,
            arrived: self.now,
            deadline,
            limit: NEVER,
            timer: TimerKey::NOT,
            rare: (cancel_result.is_some() || session.is_some()).then(rare),
            method: self.methods.intern(&method),
            uncancellable,
            is_shielded: false,
            part,
            is_replaced: false,
            suspension: Suspension::Never,
            is_open_question,
        }
    }
}
