//! The work of sessions whose prompts are answered when they are inserted, at their agent (ACP v2, D55).
//!
//! A prompt is inserted when its handler begins. From then on the handler is the foreground work of the session: a cancel
//! of its request has nothing left to change, one of the session stops it, and its end is an update that says why. A later
//! prompt of the session waits for that. Background work is a handler without a request, which a turn has begun.

use super::{
    Connection, HandlerEnd, IncomingKey, IncomingRequest, Payload, Reply,
    incoming::{Incoming, Rare, ResponseState, Suspension, Work},
    link::Tag,
    part::Part,
    stop::By,
    turn,
};
use crate::{
    cause::CauseCode,
    child::ChildEnd,
    dialect::{Dialect, ItemKind, StateReport, StopReport},
    error_code,
    frame::Params,
    id::{IncomingId, RequestId},
    json,
    link::Verdict,
    message,
    side::Side,
    slab::Key,
    time::Instant,
    timer_queue::{NEVER, TimerKey},
    tombstones::SettledAs,
};

/// Background work to be begun.
#[derive(Clone, Copy, Debug)]
pub struct BackgroundItem<'a> {
    /// The word for its kind ([`ItemKind::word`]).
    pub kind: &'a str,
    /// Its id, which no other item of its kind has in the session.
    pub id: &'a str,
    /// More members for the update that announces it, as a JSON object; empty for none.
    pub details: &'a [u8],
}

impl Connection {
    /// Inserts a prompt whose handler has begun, under this id of its message, if its dialect answers prompts then
    /// (ACP-50): it is answered, and its handler is the foreground work of its session, reported as running until the
    /// handler [ends](Self::ended). A deadline of its requester is void.
    ///
    /// `false` if nothing happens: it is no such prompt, was answered, or its token has fired.
    pub fn insert_prompt(&mut self, now: Instant, key: IncomingKey, message: &str) -> bool {
        self.step(now, |this| this.insert(key.0, message))
    }

    /// Whether [`insert_prompt`](Self::insert_prompt) would insert this request.
    #[must_use]
    pub fn awaits_insertion(&self, key: IncomingKey) -> bool {
        self.incoming.get(key.0).is_some_and(Incoming::awaits_insertion)
    }

    /// The id of the message that this request has inserted.
    #[must_use]
    pub fn message(&self, key: IncomingKey) -> Option<&str> {
        self.incoming.get(key.0)?.rare.as_ref()?.message.as_deref()
    }

    fn insert(&mut self, key: Key, message: &str) -> bool {
        let Self { incoming, turns, link, .. } = self;
        let Some(mut request) = incoming.get_mut(key).filter(|request| request.awaits_insertion()) else {
            return false;
        };
        let Some((_, form)) = request.dialect.session_work() else { return false };
        let mut answer = vec![b'{'];
        json::write_string(&mut answer, form.message);
        answer.push(b':');
        json::write_string(&mut answer, message);
        answer.push(b'}');
        link.reply(&mut request, Reply::Result(&answer));
        request.part = Part::Foreground;
        request.deadline = NEVER;
        request.rare().message = Some(message.into());
        let Some(session) = request.rare().session.clone() else { return false };
        turns.remove(&turn::name(Part::Prompt, &session), key);
        turns.insert(&turn::name(Part::Foreground, &session), key);
        link.arm_deadline(incoming, key);
        self.report_state(key, &session, StateReport::Running);
        true
    }

    /// Begins background work in the session of this request, which must be foreground or background work itself
    /// (ACP-56): a handler without a request, to be run like one that [`ConnectionEvent::Request`] asks for, and
    /// [ended](Self::ended). It is announced as one that may be cancelled (ACP-55), and listed until it ends.
    ///
    /// What its handler ends with is its final status: a result, an error, or that it was cancelled.
    ///
    /// `None`, and nothing was sent: the token of the request has fired or its handler has ended, its dialect has no such
    /// work, the kind is not known, the id is taken, the connection ends, or
    /// [`max_running`](super::ConnectionConfig::max_running) handlers are at work.
    ///
    /// [`ConnectionEvent::Request`]: super::ConnectionEvent::Request
    pub fn begin_background(
        &mut self,
        now: Instant,
        by: IncomingKey,
        item: &BackgroundItem<'_>,
    ) -> Option<IncomingRequest> {
        self.step(now, |this| this.begin_item(by.0, item))
    }

    fn begin_item(&mut self, by: Key, item: &BackgroundItem<'_>) -> Option<IncomingRequest> {
        let begins = |request: &&Incoming| request.work == Work::Running && request.part.is_session_work();
        let request = self.incoming.get(by).filter(begins)?;
        let (turn, form) = request.dialect.session_work()?;
        let (dialect, kind) = (request.dialect, form.item(item.kind)?);
        let session = request.rare.as_ref()?.session.clone()?;
        let mut id = Vec::new();
        json::write_string(&mut id, item.id);
        let is_taken = self.item(&session, kind, &id).is_some();
        if is_taken || !self.link.phase.is_open() || !self.incoming.may_offer(None) || !self.incoming.has_room() {
            return None;
        }
        let Self { incoming, turns, link, .. } = self;
        let rare = Rare { session: Some(session.clone()), item: Some((kind, id.into())), ..Rare::default() };
        let shown = IncomingId(RequestId::string(item.id));
        let key = incoming.insert(Incoming {
            id: shown.clone(),
            dialect,
            work: Work::Running,
            payload: None,
            response: ResponseState::Answered,
            stop: None,
            arrived: link.now,
            deadline: NEVER,
            limit: NEVER,
            timer: TimerKey::NOT,
            rare: Some(Box::new(rare)),
            method: link.methods.intern(kind.word),
            uncancellable: None,
            is_shielded: false,
            part: Part::Background,
            is_replaced: false,
            suspension: Suspension::Never,
            is_open_question: false,
        });
        // No request has its id.
        incoming.replace(key);
        turns.insert(&turn::name(Part::Background, &session), key);
        let mut id = Vec::new();
        json::write_string(&mut id, item.id);
        link.queue(Tag::Caused, |out| {
            turn.write_update(&session, kind.update, out, |out| {
                kind.write_begin(&turn.child, &id, out);
                let members = json::members(item.details).into_iter().flatten().map_while(Result::ok);
                for member in members.filter(|member| !kind.is_own(&turn.child, member)) {
                    out.push(b',');
                    out.extend_from_slice(member.key);
                    out.push(b':');
                    out.extend_from_slice(member.value);
                }
            });
        });
        self.report_snapshot(key, &session);
        let payload = Payload::new(kind.word, &Params::default());
        Some(IncomingRequest { key: IncomingKey(key), id: shown, payload, dialect, deadline: None, attachment: None })
    }

    /// The handler of this item of background work, while it has not ended.
    fn item(&self, session: &[u8], kind: &ItemKind, id: &[u8]) -> Option<Key> {
        let id = crate::turns::one_spelling(id);
        let is_it = |key: &Key| {
            self.at_work(*key)
                .is_some_and(|request| request.item().is_some_and(|(of, known)| of == kind && *known == *id))
        };
        self.turns.of(&turn::name(Part::Background, session)).find(is_it)
    }

    fn at_work(&self, key: Key) -> Option<&Incoming> {
        self.incoming.get(key).filter(|request| request.work != Work::Ended)
    }

    /// Whether foreground work of this session goes on.
    fn has_foreground(&self, session: &[u8]) -> bool {
        self.first_at_work(Part::Foreground, session).is_some()
    }

    /// The oldest request with this part in a session that has not ended.
    fn first_at_work(&self, part: Part, session: &[u8]) -> Option<Key> {
        self.turns.of(&turn::name(part, session)).find(|key| self.at_work(*key).is_some())
    }

    /// Whether anything of this session works that goes on without a request.
    fn has_session_work(&self, session: &[u8]) -> bool {
        self.has_foreground(session) || self.first_at_work(Part::Background, session).is_some()
    }

    /// Whether a handler of the peer's runs that is work of this session (its id as JSON): of a prompt, or of background
    /// work. What is closed with the session waits for that (ACP-10, ACP-57).
    #[must_use]
    pub fn session_works(&self, session: &[u8]) -> bool {
        let work = [Part::Prompt, Part::Foreground, Part::Background];
        let mut work = work.into_iter().flat_map(|part| self.requests_of(part, session));
        work.any(|key| self.incoming.get(key).is_some_and(Incoming::runs))
    }

    /// Whether a prompt of this session has to wait: an earlier one waits for its handler, or is worked on.
    pub(super) fn holds_prompt(&self, part: Part, dialect: &'static Dialect, session: Option<&[u8]>) -> bool {
        let Some(session) = session.filter(|_| part == Part::Prompt && dialect.session_work().is_some()) else {
            return false;
        };
        self.has_foreground(session) || self.first_at_work(Part::Prompt, session).is_some()
    }

    /// Reports the session's state, in the name of this request.
    fn report_state(&mut self, key: Key, session: &[u8], report: StateReport<'_>) {
        let Self { incoming, turns, link, .. } = self;
        let Some((turn, form)) = incoming.get(key).and_then(|request| request.dialect.session_work()) else { return };
        if link.phase.write_closed {
            return;
        }
        let name = turn::name(Part::Background, session);
        let items: Vec<_> = turns
            .of(&name)
            .filter_map(|key| incoming.get(key).filter(|request| request.work != Work::Ended))
            .filter_map(Incoming::item)
            .collect();
        link.queue(Tag::Caused, |out| {
            turn.write_update(session, form.state, out, |out| {
                form.write_state(&turn.child, report, items.iter().copied(), out);
            });
        });
    }

    /// Reports the session's state as it is, since its background work has changed.
    fn report_snapshot(&mut self, key: Key, session: &[u8]) {
        let report = if self.has_foreground(session) { StateReport::Running } else { StateReport::Idle(None) };
        self.report_state(key, session, report);
    }

    /// Reports the end of work that went on without a request (ACP-52, ACP-55).
    pub(super) fn report_work_over(&mut self, key: Key, end: &HandlerEnd<'_>) {
        let Some(request) = self.incoming.get(key) else { return };
        let Some(session) = request.rare.as_ref().and_then(|rare| rare.session.clone()) else { return };
        let Some((turn, _)) = request.dialect.session_work() else { return };
        match request.part {
            Part::Foreground => {
                let (reason, text);
                let stop = match *end {
                    HandlerEnd::Returned(Reply::Result(result)) => {
                        reason = json::member(result, turn.child.stop_reason).map(<[u8]>::to_vec);
                        reason.as_deref().map(StopReport::Given)
                    }
                    // Whatever error its abortion was.
                    _ if request.cancelled_by_peer() => Some(StopReport::Cancelled),
                    HandlerEnd::Returned(Reply::Error { code, message, data }) => {
                        Some(StopReport::Failed { code, message, data })
                    }
                    HandlerEnd::Panicked => Some(StopReport::Failed {
                        code: error_code::INTERNAL_ERROR,
                        message: "the handler failed",
                        data: None,
                    }),
                    HandlerEnd::Answered => None,
                    HandlerEnd::Cancelled | HandlerEnd::GaveUp | HandlerEnd::Dropped => {
                        let gave_up = request.dialect.gave_up;
                        text = match &request.stop {
                            Some(stop) => format!("{}: {}", gave_up.message, stop.cause.code.phrase()),
                            None => gave_up.message.to_owned(),
                        };
                        Some(StopReport::Failed { code: gave_up.code, message: &text, data: None })
                    }
                };
                self.report_state(key, &session, StateReport::Idle(stop));
            }
            Part::Background => {
                let Some((kind, id)) = request.item() else { return };
                let (how, shown) = match *end {
                    HandlerEnd::Returned(Reply::Result(result)) => (ChildEnd::Finished, Some(result)),
                    _ if request.stop.is_some() => (ChildEnd::Cancelled, None),
                    HandlerEnd::Returned(Reply::Error { .. }) | HandlerEnd::Panicked => (ChildEnd::Failed, None),
                    HandlerEnd::Answered => (ChildEnd::Finished, None),
                    HandlerEnd::Cancelled | HandlerEnd::GaveUp | HandlerEnd::Dropped => (ChildEnd::Cancelled, None),
                };
                let id = id.to_vec();
                if !self.link.phase.write_closed {
                    self.link.queue(Tag::Caused, |out| {
                        turn.write_update(&session, kind.update, out, |out| kind.write_end(&id, how, shown, out));
                    });
                }
                self.report_snapshot(key, &session);
            }
            Part::Plain | Part::Handshake | Part::Prompt | Part::Close | Part::Card | Part::Subscription => {}
        }
    }

    /// Goes on with what waited for work of a session that has ended: the next prompt, and the answer to the request that
    /// closes the session.
    pub(super) fn release_session(&mut self, session: &[u8]) {
        if !self.has_session_work(session) {
            for close in self.requests_of(Part::Close, session) {
                let Self { incoming, link, .. } = self;
                let Some(mut request) = incoming.get_mut(close) else { continue };
                let kept = request.rare.as_mut().and_then(|rare| rare.kept_result.take());
                if let Some(result) = kept {
                    link.reply(&mut request, Reply::Result(&result));
                    self.conclude(close);
                }
            }
        }
        let next = self.first_at_work(Part::Prompt, session);
        if let Some(next) = next.filter(|_| !self.has_foreground(session)) {
            let Self { incoming, link, .. } = self;
            incoming.queue(next);
            if let Some(mut request) = incoming.get_mut(next).filter(|request| request.work == Work::Waiting)
                && request.holder().is_some()
            {
                request.limit = link.now + link.config.max_wait;
            }
            link.arm_deadline(incoming, next);
        }
    }

    /// Stops everything of a session that this request has closed, and keeps its result until nothing of the session works
    /// (ACP-57). `false` if nothing does.
    pub(super) fn keep_close(&mut self, key: Key, result: &[u8]) -> bool {
        let is_close = |request: &&Incoming| request.part == Part::Close && request.may_answer();
        let Some(request) = self.incoming.get(key).filter(is_close) else { return false };
        let Some(session) = request.rare.as_ref().and_then(|rare| rare.session.clone()) else { return false };
        self.end_turn(&session, true);
        if !self.has_session_work(&session) {
            return false;
        }
        if let Some(mut request) = self.incoming.get_mut(key) {
            request.rare().kept_result = Some(result.into());
        }
        true
    }

    /// Stops the foreground work of a session, and its background work if the session is closed; `false` if there is none.
    pub(super) fn stop_session(&mut self, session: &[u8], is_closed: bool) -> bool {
        let mut work = self.requests_of(Part::Foreground, session);
        if is_closed {
            work.extend(self.requests_of(Part::Background, session));
        }
        work.retain(|key| self.at_work(*key).is_some());
        for key in &work {
            self.stop_and_report(*key, CauseCode::Caller, By::Session);
        }
        !work.is_empty()
    }

    /// Whether a question of ours is part of background work, which a cancel of its session leaves alone (ACP-51).
    pub(super) fn is_of_background(&self, call: Key) -> bool {
        let parent = self.outgoing.get(call).and_then(|call| self.incoming.get(call.parent()?));
        parent.is_some_and(|parent| parent.part == Part::Background)
    }

    /// Answers the client's request to cancel an item of background work, and stops that (ACP-55). `false` if there is no
    /// such item of ours: then a handler may know it.
    pub(super) fn receive_item_cancel(&mut self, id: &RequestId, method: &str, params: &Params<'_>) -> bool {
        let peer = self.link.peer();
        let Some((turn, form)) = self.link.dialect().session_work().filter(|_| peer == Side::Client) else {
            return false;
        };
        let Some((kind, raw)) = form.item_cancelled_by(method).zip(params.raw) else { return false };
        let named = json::member(raw, turn.session).zip(json::member(raw, kind.id));
        let Some(item) = named.and_then(|(session, item)| self.item(session, kind, item)) else { return false };
        let answer = match self.stop_and_report(item, CauseCode::Caller, By::Session) {
            Verdict::Accepted | Verdict::Repeated => Reply::Result(b"{}"),
            Verdict::Shielded
            | Verdict::Completed
            | Verdict::Unknown
            | Verdict::Held
            | Verdict::Malformed
            | Verdict::Forbidden(_) => Reply::error(error_code::INVALID_PARAMS, "it cannot be cancelled now"),
        };
        let Self { link, .. } = self;
        if !link.phase.write_closed {
            link.queue(Tag::Caused, |out| match answer {
                Reply::Result(result) => message::result(id, result, out),
                Reply::Error { code, message, data } => message::error(Some(id), code, message, data, out),
            });
        }
        link.tombstones.remember(link.now, id.clone(), SettledAs::Answered);
        true
    }
}

impl Incoming {
    /// Whether it is a prompt that is answered when it is inserted, and its handler has begun.
    fn awaits_insertion(&self) -> bool {
        let is_prompt = self.part == Part::Prompt && self.dialect.session_work().is_some();
        is_prompt && self.work == Work::Running && self.may_answer()
    }

    /// The session whose later prompts wait for this one, if any do.
    pub(super) fn prompted_session(&self) -> Option<Box<[u8]>> {
        let waits = matches!(self.part, Part::Prompt | Part::Foreground | Part::Background);
        self.rare.as_ref().filter(|_| waits && self.dialect.session_work().is_some())?.session.clone()
    }

    /// What it is in the list of background work.
    fn item(&self) -> Option<(&'static ItemKind, &[u8])> {
        let (kind, id) = self.rare.as_ref()?.item.as_ref()?;
        Some((kind, id))
    }
}
