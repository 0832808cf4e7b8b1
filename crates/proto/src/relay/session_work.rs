//! The work of a session whose prompts are answered when they are inserted (ACP v2, D55): its foreground work, which its
//! agent reports as begun and as over, and its background work, which its agent lists.
//!
//! Each is followed as an exchange of its own, as the turns of threads are (`thread_turn`): no message is its own, so
//! nothing is ever answered for it. Foreground work is the turn of its session: it is cancelled as one, and has its
//! children. An item of background work is cancelled by a request of the relay's own, where the item grants that now.

use super::{
    Core, Followup, Relay, Step,
    exchange::{ThreadPart, Up},
    sessions::{Item, MAX_ID, ReportedWork, Session},
    thread_turn::named,
    threads::Origin,
};
use crate::{
    cause::CauseCode,
    child::{ChildEnd, ChildState},
    dialect::{BACKGROUND, ChildNews, ItemKind, SessionWorkForm, TurnForm},
    frame::ResponseBody,
    id::RequestId,
    json,
    link::RequestKey,
    receipt::{Answer, Outcome, Receipt},
    side::Side,
    slab::Key,
    time::Instant,
    turns::one_spelling,
};

/// What the entry of foreground work is called that no prompt is known to have begun.
const TURN: &str = "turn";

const fn of_client(key: Key) -> RequestKey {
    RequestKey { from: Side::Client, key }
}

/// An item of the list of background work.
struct Listed<'a> {
    kind: Option<&'static ItemKind>,
    id: &'a [u8],
    /// What it is called.
    word: &'a str,
    /// What it is shown as.
    shown: RequestId,
}

impl Core {
    /// What is known of this item now.
    fn item(&self, session: &[u8], kind: Option<&'static ItemKind>, id: &[u8]) -> Option<&Item> {
        self.sessions.as_deref()?.get(session)?.item(kind, id)
    }

    /// Whether this item may be cancelled now (ACP-55).
    pub(super) fn can_cancel_item(&self, session: &[u8], kind: Option<&'static ItemKind>, id: &[u8]) -> bool {
        self.item(session, kind, id).is_some_and(|item| item.can_cancel)
    }

    /// Whether foreground work of this session goes on, as far as that was reported.
    pub(super) fn has_foreground(&self, session: &[u8]) -> bool {
        let known = self.sessions.as_deref().and_then(|sessions| sessions.get(session));
        known.is_some_and(|session| session.foreground.is_some())
    }

    fn session(&mut self, session: &[u8]) -> Option<&mut Session> {
        self.sessions.get_or_insert_default().keep(session)
    }
}

impl Relay {
    /// Takes in an update of a session, which goes on, if it is about the session's work.
    pub(super) fn handle_session_work(&mut self, now: Instant, turn: &TurnForm, session: &[u8], params: Option<&[u8]>) {
        let (Some(form), Some(params)) = (turn.work, params) else { return };
        let (Some(kind), Some(body)) = (turn.kind_of(params), json::lookup(params, form.body)) else { return };
        if !json::is_string(session) {
            return;
        }
        if kind == form.state {
            // What is listed first with the end of foreground work was begun by that.
            let foreground = self.foreground(session);
            if let Some(news) = turn.state_news(params) {
                self.take_state(now, session, news.state);
            }
            self.take_background(now, form, session, body, foreground);
        } else if let Some(kind) = form.items.iter().find(|item| kind == item.update) {
            self.take_item(now, session, kind, body, turn.child.grant_in(params));
        }
    }

    /// Takes in a report of a session's foreground work. The same report again is not new work, nor a new end.
    fn take_state(&mut self, now: Instant, session: &[u8], state: ChildState) {
        let child = self.core.children.find(session).and_then(|key| self.core.children.member(key));
        if let Some(parent) = child.map(|child| child.parent.clone()) {
            let news = ChildNews { session, title: None, can_cancel: None, state: Some(state) };
            return self.take_child(now, &parent, &news);
        }
        match (state, self.foreground(session)) {
            (ChildState::Idle(end), Some(key)) => {
                let (answer, is_cancelled) = shown_by(end);
                self.step(now, of_client(key), |step| step.work_over(answer, is_cancelled));
            }
            // The cancel came before the work began: that of a later prompt is not cancelled by it (ACP-52).
            (ChildState::Idle(ChildEnd::Cancelled), None) => {
                let known = self.core.session(session).into_iter();
                known.for_each(|known| _ = known.inserted.take_if(|(_, cancel)| cancel.is_some()));
            }
            // No word but that for idle means that nothing works (ACP-50).
            (ChildState::Running | ChildState::Unknown, None) => self.begin_foreground(now, session),
            _ => {}
        }
    }

    fn foreground(&self, session: &[u8]) -> Option<Key> {
        self.core.sessions.as_deref()?.get(session)?.foreground
    }

    fn begin_foreground(&mut self, now: Instant, session: &[u8]) {
        let has_room = self.has_room_for_work();
        let known = self.core.session(session);
        let Some(known) = known.filter(|_| has_room) else { return self.note_lost_work() };
        let inserted = known.inserted.take();
        // It may begin before its prompt is answered.
        let waiting = self.waiting_prompt(session).filter(|_| inserted.is_none());
        if let (Some(prompt), Some(known)) = (waiting, self.core.session(session)) {
            known.begun = Some(prompt.key);
        }
        let (id, method, cancel) = match inserted.or_else(|| self.origin(waiting?)) {
            Some((Origin { id, method }, cancel)) => (id, method, cancel),
            None => {
                let id = RequestId::from_json(session).unwrap_or(RequestId::NULL);
                (id, self.core.methods.intern(TURN), None)
            }
        };
        let dialect = self.core.spoken(Side::Server);
        let key = self.insert_work(now, id, dialect, method, Some(session), ThreadPart::Foreground);
        waiting.into_iter().for_each(|prompt| self.pass_arguments_on(prompt, of_client(key)));
        self.core.turns.insert(session, key);
        if let Some(known) = self.core.session(session) {
            known.foreground = Some(key);
        }
        // The cancel of its session that was sent for its prompt covers it (ACP-51).
        if let Some(receipt) = cancel {
            self.step(now, of_client(key), |step| {
                step.begin_cancel(receipt.cause, Outcome::Asked, None);
                step.start_grace(step.grace());
                step.cancel_written();
                step.report_decided();
            });
        }
    }

    /// The oldest prompt of this session that the agent has not answered.
    pub(super) fn waiting_prompt(&self, session: &[u8]) -> Option<RequestKey> {
        let is_waiting = |key: &Key| {
            let exchange = self.tables.client.get(*key).filter(|exchange| exchange.is_waiting() && !exchange.is_work());
            exchange.is_some_and(|exchange| !self.core.is_load(exchange))
        };
        self.core.turns.of(session).find(is_waiting).map(of_client)
    }

    fn note_lost_work(&mut self) {
        self.core.sessions.get_or_insert_default().has_lost = true;
    }

    /// Takes in the list of a session's background work, which stands in every state of an agent that reports it (ACP-56).
    /// `ended`: the foreground work that was at work until then.
    fn take_background(
        &mut self,
        now: Instant,
        form: &'static SessionWorkForm,
        session: &[u8],
        body: &[u8],
        ended: Option<Key>,
    ) {
        let listed = json::member(body, form.background).and_then(json::elements);
        let Some(known) = self.core.session(session) else { return };
        known.background = Some(listed.is_some());
        let Some(listed) = listed else { return };
        let items: Vec<_> = listed.map_while(Result::ok).collect();
        let listed: Vec<_> = items.iter().filter_map(|item| read_item(form, item)).collect();
        if listed.len() < items.len() {
            self.note_lost_work();
        }
        for item in &listed {
            // A child that is known is listed by itself.
            if item.word != form.child.0 || self.core.children.find(item.id).is_none() {
                self.begin_item(now, session, item, ended);
            }
        }
        let is_listed =
            |known: &Item| listed.iter().any(|item| item.kind == known.kind && *one_spelling(item.id) == *known.id);
        let left = self.core.session(session).map(|known| known.retain_listed(is_listed)).unwrap_or_default();
        for key in left {
            self.end_item(now, key, None);
        }
    }

    fn begin_item(&mut self, now: Instant, session: &[u8], item: &Listed<'_>, ended: Option<Key>) {
        let has_room = self.has_room_for_work();
        let parent = self.foreground(session).or(ended);
        let known = self.core.session(session).and_then(|known| known.keep_item(item.kind, item.id));
        let Some(known) = known.filter(|_| has_room) else { return self.note_lost_work() };
        if known.is_over || known.entry.is_some() {
            return;
        }
        let id = known.id.clone();
        let (dialect, method) = (self.core.spoken(Side::Server), self.core.methods.intern(item.word));
        let part = ThreadPart::Background { kind: item.kind, item: id, parent };
        let key = self.insert_work(now, item.shown.clone(), dialect, method, Some(session), part);
        if let Some(known) = self.core.session(session).and_then(|known| known.item_mut(item.kind, item.id)) {
            known.entry = Some(key);
        }
    }

    /// Takes in a report of a terminal or a tool call: whether it may be cancelled from now on, and its end.
    fn take_item(&mut self, now: Instant, session: &[u8], kind: &'static ItemKind, body: &[u8], grant: Option<bool>) {
        let Some(id) = named(Some(body), kind.id) else { return };
        let end = kind.end_in(body);
        let is_known = self.core.item(session, Some(kind), id).is_some();
        if !is_known && (grant != Some(true) || end.is_some()) {
            return;
        }
        let Some(known) = self.core.session(session) else { return };
        let Some(item) = known.keep_item(Some(kind), id) else { return };
        item.can_cancel = grant.unwrap_or(item.can_cancel) && end.is_none();
        let (entry, can_cancel) = (item.entry, item.can_cancel);
        if end.is_some() {
            let is_listed = entry.is_some() || item.is_over;
            item.is_over = true;
            if !is_listed {
                known.forget_item(Some(kind), id);
            }
        }
        match (entry, end) {
            (Some(key), Some(end)) => self.end_item(now, key, Some(end)),
            (Some(key), None) if !can_cancel => self.step(now, of_client(key), |step| step.refuse_item()),
            _ => {}
        }
    }

    fn end_item(&mut self, now: Instant, key: Key, reported: Option<ChildEnd>) {
        self.step(now, of_client(key), |step| step.item_over(reported));
    }

    /// The agent has closed a session: nothing of it works any more (ACP-57).
    pub(super) fn close_session_work(&mut self, now: Instant, session: &[u8]) {
        let work = self.core.sessions.as_deref_mut().map(|sessions| sessions.close(session)).unwrap_or_default();
        for key in work {
            self.step(now, of_client(key), |step| step.work_over(Answer::Result, false));
        }
    }

    /// The agent has inserted a prompt: its work begins with the next state that is not idle.
    pub(super) fn note_inserted(&mut self, session: &[u8], prompt: Key) {
        let origin = self.origin(of_client(prompt)).filter(|_| !self.core.has_foreground(session));
        // A long id is not kept: the work is then called by its session's.
        let origin = origin.map(|(origin, cancel)| match origin.is_kept() {
            true => (origin, cancel),
            false => (Origin { id: RequestId::from_json(session).unwrap_or(RequestId::NULL), ..origin }, cancel),
        });
        if let Some(known) = self.core.session(session).filter(|known| known.begun != Some(prompt)) {
            known.inserted = origin;
        }
    }

    /// A prompt as what its work begins with, and the cancel that we have sent for it and its whole session.
    fn origin(&self, prompt: RequestKey) -> Option<(Origin, Option<Box<Receipt>>)> {
        let exchange = self.exchange(prompt)?;
        let receipt = exchange.cancel.as_deref().map(|cancel| &cancel.receipt);
        let ours = receipt.filter(|receipt| receipt.written.is_some() && receipt.cause.code != CauseCode::Caller);
        let origin = Origin { id: exchange.id.clone(), method: exchange.method };
        Some((origin, ours.cloned().map(Box::new)))
    }

    /// The background work that is followed of the session of this turn, in the order in which it was listed.
    #[must_use]
    pub fn background_of(&self, request: RequestKey) -> Vec<RequestKey> {
        let turn = self.exchange(request).filter(|of| request.from == Side::Client && self.core.is_turn(of));
        let known = turn.and_then(|turn| self.core.sessions.as_deref()?.get(turn.session()?));
        known.into_iter().flat_map(Session::background_entries).map(of_client).collect()
    }

    /// Whether work of sessions may go on that cannot be seen: their agent does not list what works in the background
    /// (ACP-56), or more was reported than is followed.
    #[must_use]
    pub fn may_hide_work(&self) -> bool {
        self.core.sessions.as_deref().is_some_and(ReportedWork::may_hide_work)
    }

    /// Cancels this item of background work by a request of our own.
    pub(super) fn cancel_item(&mut self, now: Instant, request: RequestKey) {
        let Some(exchange) = self.exchange(request) else { return };
        let Some(&ThreadPart::Background { kind: Some(kind), ref item, .. }) = exchange.thread() else { return };
        let (Some(session), Some(turn)) = (exchange.session(), exchange.upstream_dialect.turn) else { return };
        let (session, item): (Box<[u8]>, _) = (session.into(), item.clone());
        self.ask_to_cancel(now, request, kind.cancel, false, &[(turn.session, &session), (kind.id, &item)]);
    }
}

/// What the end of work shows: an answer, and whether the work was cancelled.
const fn shown_by(end: ChildEnd) -> (Answer, bool) {
    match end {
        ChildEnd::Finished => (Answer::Result, false),
        ChildEnd::Cancelled => (Answer::Result, true),
        ChildEnd::Failed => (Answer::Error, false),
    }
}

/// Reads an item of the list of background work; `None` if it names nothing, or by an id that is too long.
fn read_item<'a>(form: &SessionWorkForm, item: &'a [u8]) -> Option<Listed<'a>> {
    let word = json::member(item, form.item_kind).and_then(json::text)?;
    let shown = |id| RequestId::from_json(id).filter(RequestId::is_string);
    if let Some(kind) = form.items.iter().find(|kind| word == kind.word) {
        let id = named(Some(item), kind.id)?;
        return Some(Listed { kind: Some(kind), id, word: kind.word, shown: shown(id)? });
    }
    if word == form.child.0 {
        let id = named(Some(item), form.child.1)?;
        return Some(Listed { kind: None, id, word: form.child.0, shown: shown(id)? });
    }
    // It is work all the same (ACP-56).
    let is_short = item.len() <= MAX_ID;
    is_short.then(|| Listed { kind: None, id: item, word: BACKGROUND, shown: RequestId::string(&word) })
}

impl Step<'_> {
    /// Whether this turn or prompt is cancelled with all the work of its session (D37, D55). A prompt that waits beside work
    /// that goes on is cancelled by itself, and so is one whose own requester cancels it.
    pub(super) fn is_cancelled_with_session(&self, is_by_requester: bool) -> bool {
        let Some((turn, session)) = self.upstream_turn().zip(self.exchange.session()) else { return false };
        let is_alone = || !is_by_requester && !self.core.has_foreground(session);
        turn.work.is_none() || self.exchange.is_foreground() || is_alone()
    }

    /// Notes that the agent has answered a prompt whose work is reported by itself.
    pub(super) fn note_prompt_answered(&mut self, body: &ResponseBody<'_>) {
        if let ResponseBody::Result(_) = body
            && let Some(session) = self.exchange.session()
            && self.upstream_turn().is_some_and(|turn| turn.work.is_some())
        {
            self.core.followups.push(Followup::Inserted(session.into(), self.request.key));
        }
    }

    /// An item of background work is over, and has this end in its agent's report; without one it is not listed any more.
    fn item_over(&mut self, reported: Option<ChildEnd>) {
        let (answer, is_stopped) = shown_by(reported.unwrap_or(ChildEnd::Cancelled));
        let now = self.now;
        let kind = match self.exchange.thread() {
            Some(&ThreadPart::Background { kind, .. }) => kind,
            _ => None,
        };
        let says_cancelled = reported.is_some() && is_stopped && kind.is_some_and(|kind| !kind.ends.is_empty());
        // It was not asked to end, and ended all the same. That it was cancelled is known only if a word says so.
        if let Some(cancel) = self.cancel()
            && cancel.receipt.outcome == Outcome::NotSendable
        {
            let after = now.since(cancel.receipt.asked);
            self.learn(if says_cancelled {
                Outcome::Confirmed { after }
            } else {
                Outcome::AnsweredAfter { after, answer }
            });
        }
        self.work_over(answer, is_stopped);
    }

    /// The item may not be cancelled any more: a cancel that waits is taken back (ACP-55).
    fn refuse_item(&mut self) {
        let frame = self.cancel().and_then(|cancel| cancel.frame);
        if frame.is_some_and(|frame| self.core.links[Side::Server].outbox.withdraw(frame).is_some()) {
            if let Some(cancel) = self.cancel() {
                cancel.frame = None;
            }
            self.stop_grace();
            self.learn(Outcome::NotSendable);
        }
    }

    /// Whether this is the answer to a cancel of ours: that it is accepted does not mean that the work has ended (ACP-55).
    pub(super) fn ends_own_cancel_of_item(&mut self, body: &ResponseBody<'_>) -> bool {
        let Some(&ThreadPart::Ours(of)) = self.exchange.thread() else { return false };
        if !self.exchange.up.may_be_answered() {
            return false;
        }
        self.exchange.up = Up::Answered;
        if let ResponseBody::Error(_) = body {
            self.core.followups.push(Followup::Unheeded(of));
        }
        true
    }
}
