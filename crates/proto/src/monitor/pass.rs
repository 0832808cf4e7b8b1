//! Requests, their progress and their answers, as they pass.

use std::borrow::Cow;

use super::{Monitor, MonitorEvent, ObservedAnswer, ObservedEnd, observed::Observed};
use crate::{
    dialect::{Dialect, Reading, negotiation::Negotiation},
    error_code,
    frame::{Frame, Malformed, Notification, Params, Request, Response, ResponseBody, ResponseId},
    framing::Overlong,
    id::RequestId,
    json,
    kind::MessageKind,
    link::{Implementation, LateCounts, LateKind, Rejected, RequestKey},
    method::Method,
    receipt::Answer,
    side::Side,
    time::Instant,
};

impl Monitor {
    /// Handles one message that is not a batch.
    pub(super) fn handle_message(&mut self, now: Instant, from: Side, message: Frame<'_>) {
        match message {
            Frame::Request(request) => self.handle_request(now, from, request),
            Frame::Notification(notification) => self.handle_notification(now, from, &notification),
            Frame::Response(response) => self.handle_response(now, from, &response),
            // The caller has taken batches apart; a nested one is malformed.
            Frame::Batch(_) => {}
        }
    }

    fn handle_request(&mut self, now: Instant, from: Side, request: Request<'_>) {
        let Request { id, method, params, .. } = request;
        let (dialect, is_handshake) =
            self.negotiation.saw_request_from(from, self.framing, &method, &params, Negotiation::named(params.meta));
        if params.meta.is_some() || is_handshake {
            self.note_dialect();
        }
        if is_handshake {
            self.implementations.client = params.raw.and_then(Implementation::of);
        }
        if id.is_null() && !dialect.null_ids {
            return self.note_rejected(from, Rejected::NullId);
        }
        if self.is_long(&id) {
            return self.note_rejected(from, Rejected::LongId);
        }
        let requests = &mut self.requests[from];
        let previous = requests.by_id(&id);
        let mut duplicates = 0;
        if let Some(key) = previous
            && let Some(earlier) = requests.table.get_mut(key)
        {
            if earlier.is_live() {
                earlier.duplicates = earlier.duplicates.saturating_add(1);
                self.events.push_back(MonitorEvent::Duplicate { request: RequestKey { from, key } });
                return;
            }
            // A refusal that is still on its way to one of its duplicates is not for the new request.
            duplicates = core::mem::take(&mut earlier.duplicates);
            requests.replace(key);
        }
        if self.requests[from].table.live() >= self.config.max_in_flight {
            return self.note_rejected(from, Rejected::Overloaded);
        }
        if from == Side::Client && dialect.last_request == Some(&*method) {
            self.negotiation.saw_last_request();
        }
        let turn = dialect.turn.filter(|turn| from == Side::Client && turn.names_session(&method));
        if let Some((turn, session)) = turn.zip(params.session_id)
            && turn.loads.contains(&&*method)
        {
            self.void_children(session);
        }
        let short = |token: RequestId| (!self.is_long(&token)).then_some(token);
        let observed = Observed {
            token: dialect.progress.and_then(|form| form.asked(&params)).and_then(short),
            partial: dialect.progress.and_then(|form| form.asked_partial(&params)).and_then(short),
            session: turn
                .and(params.session_id)
                .filter(|session| session.len() <= self.config.max_text)
                .map(Into::into),
            parent: self.parent_of(from, dialect, &method, params.session_id),
            dialect,
            since: now,
            is_turn: turn.is_some_and(|turn| method == turn.prompt),
            is_close: turn.is_some_and(|turn| method == turn.close),
            is_task: self.negotiation.asks_for_task(from, dialect, &method, &params),
            method: self.methods.intern(&method),
            name: params.name.map_or(Method::OTHER, |name| self.names.intern_json(name)),
            progress: None,
            task: None,
            cancel: None,
            answer: None,
            over: None,
            late: LateCounts::default(),
            duplicates,
            replaced: false,
            reuses: previous.is_some(),
            id,
        };
        let request = RequestKey { from, key: self.requests[from].insert(observed) };
        self.events.push_back(MonitorEvent::Opened { request });
        if let Some(key) = previous {
            self.events.push_back(MonitorEvent::Reused { request, earlier: RequestKey { from, key } });
        }
        self.claim_early_cancel(now, request);
        if self.ended[from.other()] {
            self.settle(now, request, ObservedEnd::Lost);
        }
    }

    /// The client's request during which the server makes one, where that is certain: the open turn of the session that
    /// it names, or the only request in flight. A client's requests have no parent: people make them.
    fn parent_of(&self, from: Side, dialect: &Dialect, method: &str, session: Option<&[u8]>) -> Option<RequestKey> {
        if from == Side::Client || dialect.ping == Some(method) {
            return None;
        }
        Some(RequestKey { from: Side::Client, key: self.requests.client.parent(session)? })
    }

    fn handle_notification(&mut self, now: Instant, from: Side, notification: &Notification<'_>) {
        let dialect = self.negotiation.of(from, self.framing);
        let (method, params) = (&*notification.method, &notification.params);
        if self.negotiation.is_cancel(dialect, method) {
            return self.handle_cancel(now, from, method, params.raw);
        }
        if let Some(turn) = dialect.turn {
            if method == turn.cancel && from == Side::Client {
                return self.handle_turn_cancel(now, turn, params.session_id);
            }
            if method == turn.update && from == Side::Server {
                let Some(session) = params.session_id else { return };
                self.note_child_update(now, turn, session, params.raw);
                return self.handle_turn_update(now, session);
            }
        }
        let Some(raw) = params.raw else { return };
        if dialect.tasks.is_some_and(|form| self.note_pushed_task(now, from, &form, method, raw)) {
            return;
        }
        if let Some(form) = dialect.progress
            && method == form.method
            && let Some(token) = json::member(raw, form.token)
        {
            return self.handle_progress(now, from, token, &form.read(raw));
        }
        if from == Side::Server && params.meta.is_some() {
            self.handle_subscription(now, dialect, raw);
        }
    }

    fn handle_progress(&mut self, now: Instant, from: Side, token: &[u8], reading: &Reading<'_>) {
        let Some(token) = RequestId::from_json(token) else { return };
        let Some(key) = self.requests[from.other()].table.by_token(&token, Observed::is_live) else {
            self.events.push_back(MonitorEvent::StrayProgress { from });
            return;
        };
        let request = RequestKey { from: from.other(), key };
        let max_text = self.config.max_text;
        let Some(observed) = self.observed_mut(request) else { return };
        observed.note_progress(now, reading, max_text);
        // A cancelled request that still owes an answer may report until then (ACP-04, LSP-04).
        if observed.is_live() || observed.keeps_token() {
            self.events.push_back(MonitorEvent::Progress { request });
        } else {
            self.note_late(now, request, LateKind::Progress, false);
        }
    }

    /// Notes an update of a session as progress of its turns and loads (D16).
    fn handle_turn_update(&mut self, now: Instant, session: &[u8]) {
        let mut place = 0;
        while let Some(key) = self.requests.client.turns.nth(session, place) {
            place += 1;
            let request = RequestKey { from: Side::Client, key };
            let Some(observed) = self.observed_mut(request) else { continue };
            observed.note_progress(now, &Reading::default(), 0);
            self.events.push_back(MonitorEvent::Progress { request });
        }
    }

    /// Notes a message of a subscription that is over: it is late (MCP-H04).
    fn handle_subscription(&mut self, now: Instant, dialect: &Dialect, params: &[u8]) {
        let Some(form) = dialect.subscription else { return };
        let Some(id) = json::lookup(params, form.path).and_then(RequestId::from_json) else { return };
        let Some(key) = self.requests[Side::Client].by_id(&id) else { return };
        let request = RequestKey { from: Side::Client, key };
        if self.observed(request).is_some_and(|observed| !observed.is_live()) {
            self.note_late(now, request, LateKind::Subscription, false);
        }
    }

    pub(super) fn note_late(&mut self, now: Instant, request: RequestKey, what: LateKind, again: bool) {
        let Some(observed) = self.observed_mut(request) else { return };
        observed.late.count(now, what);
        self.events.push_back(MonitorEvent::Late { request, what, again });
    }

    fn handle_response(&mut self, now: Instant, from: Side, response: &Response<'_>) {
        let answer = Answer::from(&response.body);
        let Some((request, loose)) = self.find_answered(from.other(), response.id.as_ref()) else {
            let id = match &response.id {
                Some(ResponseId::Exact(id)) if !self.is_long(id) => Some(id.clone()),
                Some(ResponseId::Exact(_)) | None => None,
                Some(ResponseId::Loose(value)) => Some(RequestId::integer(*value)),
            };
            self.events.push_back(MonitorEvent::Unasked { from, id, answer });
            return;
        };
        let Some(observed) = self.observed(request) else { return };
        let cancelled = observed.dialect.says_cancelled(self.methods.name(observed.method), &response.body);
        let doubtful = observed.reuses && self.requests[request.from].abandoned(&observed.id).is_some();
        let answered = ObservedAnswer { answer, code: response.body.error_code(), cancelled, loose, doubtful };
        self.answered(now, request, answered, Some(&response.body));
    }

    /// The request of `origin` that a response answers, and whether its id matches only loosely (D10).
    fn find_answered(&self, origin: Side, id: Option<&ResponseId>) -> Option<(RequestKey, bool)> {
        let requests = &self.requests[origin];
        let name = |key| RequestKey { from: origin, key };
        let value = match id? {
            ResponseId::Exact(id) => {
                if let Some(key) = requests.by_id(id) {
                    let owed =
                        requests.table.get(key).filter(|observed| observed.reuses && !observed.may_be_answered());
                    // Its own answer has come; of those before it one may still be owed one.
                    let earlier = owed.and_then(|_| requests.abandoned(id));
                    return Some((name(earlier.unwrap_or(key)), false));
                }
                id.loose()?
            }
            ResponseId::Loose(value) => *value,
        };
        requests.by_loose_id(value).map(|key| (name(key), true))
    }

    /// Notes that the other side has answered `request`; without a response if that could not be read.
    fn answered(
        &mut self,
        now: Instant,
        request: RequestKey,
        answered: ObservedAnswer,
        response: Option<&ResponseBody<'_>>,
    ) {
        let Some(observed) = self.observed_mut(request) else { return };
        let is_refusal = answered.code == Some(error_code::INVALID_REQUEST.into());
        if (is_refusal || observed.dialect.opaque) && observed.duplicates > 0 {
            // It refuses the other one of this id (D7), or answers it (D57).
            observed.duplicates -= 1;
            return;
        }
        if !observed.may_be_answered() {
            return self.note_late(now, request, answered.answer.into(), true);
        }
        observed.answer = Some(answered);
        let (is_live, learnt) = (observed.is_live(), observed.learn(now, answered));
        let task = observed.dialect.tasks.filter(|form| observed.is_task || !form.asked);
        let (method, dialect) = (observed.method, observed.dialect);
        let closed = observed.session.clone().filter(|_| observed.is_close);
        if let Some(ResponseBody::Result(result)) = response {
            closed.iter().for_each(|session| self.drop_children(session));
            if self.negotiation.is_handshake(request.from, self.framing, self.methods.name(method)) {
                self.negotiation.saw_initialize_result(result);
                self.implementations.server = Implementation::of(result);
                self.note_dialect();
            }
            if let Some((form, id)) = task.and_then(|form| Some((form, form.handle(result)?))) {
                self.note_task(now, request, &form, id, result);
            } else {
                self.note_about_task(now, request.from, dialect, method, result);
            }
        }
        if let Some(outcome) = learnt {
            self.events.push_back(MonitorEvent::Receipt { request, outcome });
        }
        if is_live {
            self.settle(now, request, ObservedEnd::Answered(answered));
        } else {
            self.note_late(now, request, answered.answer.into(), false);
        }
    }

    /// Notes a message that cannot be read, and the answer or duplicate that it may be.
    pub(super) fn handle_malformed(&mut self, now: Instant, from: Side, malformed: Malformed) {
        let Malformed::Invalid { reason, kind, id } = malformed else {
            return self.note_rejected(from, Rejected::NotJson);
        };
        self.note_rejected(from, Rejected::Invalid(reason));
        let Some(id) = id else { return };
        match kind {
            MessageKind::Response | MessageKind::Unknown => self.answered_unread(now, from, id, Answer::Error),
            // Its receiver may refuse it under the id of one in flight.
            MessageKind::Request => {
                if let Some(key) = self.requests[from].by_id(&id)
                    && let Some(observed) = self.requests[from].table.get_mut(key).filter(|observed| observed.is_live())
                {
                    observed.duplicates = observed.duplicates.saturating_add(1);
                }
            }
            MessageKind::Notification | MessageKind::Batch => {}
        }
    }

    /// Notes the end of a message over the limit. Its envelope says which request it is or answers.
    pub(super) fn handle_overlong(&mut self, now: Instant, from: Side, message: &Overlong) {
        self.note_rejected(from, Rejected::TooLarge);
        let Some(id) = message.id.clone() else { return };
        match message.kind {
            MessageKind::Request => {
                let method = Cow::Borrowed(message.method.as_deref().unwrap_or_default());
                let request = Request { id, id_span: 0..0, method, params: Params::default() };
                self.handle_request(now, from, request);
            }
            MessageKind::Response => self.answered_unread(now, from, id, Answer::Result),
            MessageKind::Notification | MessageKind::Batch | MessageKind::Unknown => {}
        }
    }

    fn answered_unread(&mut self, now: Instant, from: Side, id: RequestId, answer: Answer) {
        if let Some((request, loose)) = self.find_answered(from.other(), Some(&ResponseId::Exact(id))) {
            let answered = ObservedAnswer { answer, code: None, cancelled: false, loose, doubtful: false };
            self.answered(now, request, answered, None);
        }
    }

    fn is_long(&self, id: &RequestId) -> bool {
        id.heap_bytes() > self.config.max_text.saturating_add(size_of::<Box<str>>())
    }
}
