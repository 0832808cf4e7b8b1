//! The turns of threads, which a request starts, a request cancels and a notification ends (D58).
//!
//! A turn is followed as an exchange of its own: in flight from the answer to its start, or from the word that it has
//! begun, until the word that it is over. No message is its own, so nothing is ever answered for it. Its cancel is a
//! request, of the client or of the relay; the answer to one of the relay's own goes no further.

use core::ops::Range;
use std::collections::BTreeMap;

use super::{
    Core, Relay, Settled, Step, StuckSign,
    exchange::{Exchange, Rare, ThreadPart, Up},
    link::{Part, Passed, Tag},
    threads::{Origin, is_kept},
};
use crate::{
    cause::{Cause, CauseCode},
    dialect::{Dialect, ThreadForm, codex},
    frame::{self, Notification, Params, Request, Response, ResponseBody, ResponseId},
    id::RequestId,
    json,
    link::RequestKey,
    message,
    method::Method,
    receipt::{Answer, Outcome, Receipt},
    side::Side,
    slab::Key,
    task::TaskEnd,
    time::Instant,
    turns::one_spelling,
};

/// What the entry of a turn is called that no request of the client's is known to have started.
const TURN: &str = "turn";

/// The request of the client that stands in the table under this key.
const fn of_client(key: Key) -> RequestKey {
    RequestKey { from: Side::Client, key }
}

/// A member that holds an id: a string, as JSON.
pub(super) fn named<'a>(object: Option<&'a [u8]>, member: &str) -> Option<&'a [u8]> {
    object.and_then(|object| json::member(object, member)).filter(|id| json::is_string(id))
}

impl Core {
    /// What a request of the client has to do with the turns of a thread.
    pub(super) fn thread_part(&self, form: &ThreadForm, from: Side, request: &Request<'_>) -> Option<ThreadPart> {
        if from == Side::Server {
            return None;
        }
        let (method, params) = (&*request.method, request.params.raw);
        let named = |member| named(params, member).filter(|id| is_kept(id));
        if method == form.commands.run {
            return named(form.commands.process).map(|process| ThreadPart::Runs(process.into()));
        }
        if method == form.processes.spawn {
            return named(form.processes.handle).map(|handle| ThreadPart::Spawns(handle.into()));
        }
        let thread = named(form.thread)?;
        if method == form.terminals.list {
            let later = params.and_then(|params| json::member(params, form.terminals.pages.0));
            return Some(ThreadPart::Lists {
                thread: thread.into(),
                is_first: later.is_none_or(|page| page == b"null"),
            });
        }
        if form.starts.contains(&method) {
            return Some(ThreadPart::Starts(thread.into()));
        }
        if method == form.leaves {
            return Some(ThreadPart::Leaves(thread.into()));
        }
        if method != form.interrupt.method {
            return None;
        }
        let (id, threads) = (named(form.interrupt.turn)?, self.threads.as_deref());
        // An empty id means the active turn, or the one that is being started (CDX-07).
        let is_active = json::text(id).is_some_and(|id| id.is_empty());
        let turn = match is_active {
            true => threads.and_then(|threads| threads.turns_of(thread).next()),
            false => Some(threads?.turn(thread, id)?),
        };
        Some(ThreadPart::Interrupts { thread: thread.into(), turn })
    }

    /// The turn that a request of the server is a part of.
    pub(super) fn turn_of_card(&self, form: &ThreadForm, from: Side, params: &Params<'_>) -> Option<Key> {
        let threads = self.threads.as_deref().filter(|_| from == Side::Server)?;
        threads.turn(named(params.raw, form.thread)?, named(params.raw, form.turn_of)?)
    }

    /// Whether a request of our own can cancel this.
    pub(super) fn has_cancel_of(&self, part: &ThreadPart) -> bool {
        match part {
            ThreadPart::Turn { .. } | ThreadPart::Runs(_) | ThreadPart::Foreground => true,
            // Only where the client has asked for such requests (CDX-13).
            ThreadPart::Terminal { .. } | ThreadPart::Process(_) => self.negotiation.greeting().experimental,
            ThreadPart::Starts(_) | ThreadPart::Interrupts { .. } | ThreadPart::Leaves(_) => false,
            ThreadPart::Spawns(_) | ThreadPart::Lists { .. } | ThreadPart::Ours(_) => false,
            // It depends on its session, too: `can_cancel_item`.
            ThreadPart::Background { .. } => false,
        }
    }
}

impl Relay {
    /// Where a client's request names another of its requests, which has another id at the server, that id is written in
    /// its place (D32, CDX-15). The server's own ids are never replaced, so what names those passes as it is.
    pub(super) fn map_named_request(
        &self,
        from: Side,
        body: &[u8],
        request: &Request<'_>,
    ) -> Option<(Range<usize>, RequestId)> {
        let form = self.core.spoken(from).threads.filter(|form| form.by_request_id.contains(&&*request.method))?;
        let named = json::member(request.params.raw?, form.withdrawn_id)?;
        let known = self.tables[from].by_requester(&RequestId::from_json(named)?)?;
        let upstream = self.tables[from].get(known)?.renamed.clone()?;
        Some((frame::span_of(body, named)?, upstream))
    }

    /// Takes in a notification of an opaque link. It passes: `None` unless it is about a request.
    pub(super) fn handle_thread_news(
        &mut self,
        now: Instant,
        from: Side,
        notification: &Notification<'_>,
    ) -> Option<Passed> {
        let form = self.core.spoken(from).threads.filter(|_| from == Side::Server)?;
        let (method, params) = (&*notification.method, notification.params.raw?);
        if method == form.withdrawn {
            return self.withdraw_card(now, json::member(params, form.withdrawn_id)?);
        }
        if method == form.processes.exited {
            self.end_process(now, form, params);
            return None;
        }
        let thread = named(Some(params), form.thread)?;
        if method == form.items.started || method == form.items.completed {
            self.handle_item(now, form, method == form.items.started, thread, params);
        } else if method == form.started {
            let turn = json::lookup(params, form.turn)?;
            self.rejoin_thread(now, thread);
            self.begin_turn(now, thread, turn, None);
        } else if method == form.completed {
            let status = json::lookup(params, form.status).and_then(json::text);
            let answer = if status.as_deref() == Some(form.failed) { Answer::Error } else { Answer::Result };
            let is_interrupted = status.as_deref() == Some(form.interrupted);
            self.end_turn(now, thread, json::lookup(params, form.turn)?, answer, is_interrupted);
        } else if method == form.status_changed && self.core.negotiation.greeting().hides_completed {
            // The client does not receive the end itself (CDX-05, CDX-18).
            let (path, idle) = form.idle;
            if json::lookup(params, path).and_then(json::text).as_deref() == Some(idle) {
                self.end_turns_of(now, thread);
            }
        }
        None
    }

    /// A turn of this thread has begun, unless it is known, or over. `origin`: the request whose answer named it.
    fn begin_turn(&mut self, now: Instant, thread: &[u8], turn: &[u8], origin: Option<Origin>) {
        let Some(id) = RequestId::from_json(turn).filter(RequestId::is_string) else { return };
        let has_room = self.has_room_for_work();
        let threads = self.core.threads();
        if !threads.takes_turn(thread, turn, has_room) {
            return;
        }
        let awaited = threads.take_awaited(thread);
        let parent = threads.parent_turn(thread).or_else(|| threads.opener(thread));
        let is_unseen = threads.has_left(thread);
        let requests: Vec<_> = threads.requests_of(thread).collect();
        let origin = origin.or_else(|| self.first_start(&requests)).or(awaited);
        let spoken = self.core.spoken(Side::Server);
        let dialect = if is_unseen { &codex::UNSEEN } else { spoken };
        let Origin { id, method } = origin.unwrap_or_else(|| Origin { id, method: self.core.methods.intern(TURN) });
        let part = ThreadPart::Turn {
            thread: one_spelling(thread).into(),
            turn: one_spelling(turn).into(),
            parent,
            is_alone: false,
        };
        let start = self.tables.client.by_requester(&id);
        let key = self.insert_work(now, id, dialect, method, None, part);
        start.into_iter().for_each(|start| self.pass_arguments_on(of_client(start), of_client(key)));
        self.core.threads().begin_turn(thread, turn, key);
        self.cancel_with_parent(now, key);
        // A client may cancel the turn that it has only just asked for (CDX-07).
        for early in requests {
            let has_left = self.with(now, of_client(early), |step| {
                let thread = step.exchange.rare().thread.as_deref_mut();
                let Some(ThreadPart::Interrupts { turn: turn @ None, .. }) = thread else { return false };
                *turn = Some(key);
                step.exchange.up.may_be_answered()
            });
            self.note_interrupt(now, of_client(early));
            if has_left == Some(true) {
                self.interrupt_left(now, key);
            }
        }
    }

    /// Follows work that is not a request, of this session: it is in flight from now on.
    pub(super) fn insert_work(
        &mut self,
        now: Instant,
        id: RequestId,
        dialect: &'static Dialect,
        method: Method,
        session: Option<&[u8]>,
        part: ThreadPart,
    ) -> Key {
        let table = &mut self.tables.client;
        let (hash, own) = (table.hash(&id), table.own_id(&id));
        let exchange = Exchange {
            // Under this id nothing is ever sent: no answer is taken for one to it.
            renamed: Some(own),
            replaced: true,
            rare: Some(Box::new(Rare {
                thread: Some(Box::new(part)),
                session: session.map(Into::into),
                ..Rare::default()
            })),
            up: Up::Sent,
            ..Exchange::new(id, dialect, dialect, now, method)
        };
        let key = table.insert(hash, exchange);
        self.step(now, of_client(key), |step| step.report_opened());
        self.report_part(of_client(key));
        key
    }

    /// Whether the table of requests has room for work that is followed.
    pub(super) fn has_room_for_work(&self) -> bool {
        let (table, config) = (&self.tables.client, &self.core.config);
        table.live() < config.max_in_flight && table.kept <= config.max_kept
    }

    /// The first of these requests of a thread that starts a turn and is not answered.
    fn first_start(&self, requests: &[Key]) -> Option<Origin> {
        let starts = |ex: &&Exchange| ex.is_waiting() && matches!(ex.thread(), Some(ThreadPart::Starts(_)));
        let exchange = requests.iter().filter_map(|key| self.tables.client.get(*key)).find(starts)?;
        Some(Origin { id: exchange.id.clone(), method: exchange.method })
    }

    /// Takes note of a request of the client that has to do with the turns of a thread.
    pub(super) fn note_thread_request(&mut self, now: Instant, request: RequestKey) {
        let Some(part) = self.exchange(request).and_then(Exchange::thread) else { return };
        match part.clone() {
            ThreadPart::Starts(thread) | ThreadPart::Interrupts { thread, turn: None } => {
                self.core.threads().note_request(&thread, request.key);
            }
            ThreadPart::Spawns(handle) => self.core.threads().await_process(&handle, request.key),
            ThreadPart::Interrupts { turn: Some(_), .. } => self.note_interrupt(now, request),
            ThreadPart::Turn { .. } | ThreadPart::Terminal { .. } | ThreadPart::Process(_) => {}
            ThreadPart::Leaves(_) | ThreadPart::Runs(_) | ThreadPart::Lists { .. } | ThreadPart::Ours(_) => {}
            ThreadPart::Foreground | ThreadPart::Background { .. } => {}
        }
    }

    /// The server has reported the end of a turn.
    fn end_turn(&mut self, now: Instant, thread: &[u8], turn: &[u8], answer: Answer, is_interrupted: bool) {
        let threads = self.core.threads();
        match threads.turn(thread, turn) {
            Some(key) => self.end_known_turn(now, key, |step| step.work_over(answer, is_interrupted)),
            None => threads.note_over(now, thread, turn),
        }
    }

    /// No turn of this thread is at work any more; how they ended is not known.
    fn end_turns_of(&mut self, now: Instant, thread: &[u8]) {
        let threads = self.core.threads.as_deref();
        let turns: Vec<_> = threads.map(|threads| threads.turns_of(thread).collect()).unwrap_or_default();
        for key in turns {
            self.end_known_turn(now, key, |step| step.work_over(Answer::Result, false));
        }
    }

    /// Ends a turn in this way; commands of it that are not over outlive it.
    fn end_known_turn(&mut self, now: Instant, key: Key, end: impl FnOnce(&mut Step<'_>)) {
        let cause =
            self.exchange(of_client(key)).and_then(|exchange| Some(exchange.cancel.as_deref()?.receipt.cause.code));
        let part = self.exchange(of_client(key)).and_then(|exchange| exchange.thread().cloned());
        self.step(now, of_client(key), end);
        if let Some(ThreadPart::Turn { thread, turn, is_alone, .. }) = part {
            self.outlive(now, &thread, &turn, key, cause.filter(|_| !is_alone));
        }
    }

    /// Takes in the answer to a request of the client, which goes on.
    pub(super) fn thread_answered(&mut self, now: Instant, request: RequestKey, body: &ResponseBody<'_>) {
        let Some(exchange) = self.exchange(request) else { return };
        let (Some(part), Some(form)) = (exchange.thread(), exchange.dialect.threads) else { return };
        match (part.clone(), body) {
            (ThreadPart::Starts(thread), ResponseBody::Result(result)) => {
                let origin = Origin { id: exchange.id.clone(), method: exchange.method };
                self.start_answered(now, form, &thread, origin, result);
            }
            (ThreadPart::Leaves(thread), ResponseBody::Result(_)) => self.leave_thread(now, &thread),
            (ThreadPart::Spawns(handle), body) => {
                let origin = Origin { id: exchange.id.clone(), method: exchange.method };
                self.spawn_answered(now, handle, origin, matches!(body, ResponseBody::Result(_)));
            }
            (ThreadPart::Lists { thread, is_first }, ResponseBody::Result(result)) => {
                let asked = exchange.asked;
                self.terminals_listed(now, form, &thread, is_first.then_some(asked), result);
            }
            (ThreadPart::Interrupts { turn: Some(turn), .. }, ResponseBody::Error(error)) => {
                self.interrupt_refused(now, form, turn, error);
            }
            (_, ResponseBody::Result(_) | ResponseBody::Error(_)) => {}
        }
    }

    fn start_answered(&mut self, now: Instant, form: &ThreadForm, thread: &[u8], origin: Origin, result: &[u8]) {
        let thread = named(Some(result), form.other_thread).unwrap_or(thread);
        let is_over =
            json::lookup(result, form.status).and_then(json::text).is_some_and(|status| status != form.running);
        match json::lookup(result, form.turn) {
            Some(_) if is_over => {}
            Some(turn) => self.begin_turn(now, thread, turn, Some(origin)),
            None => {
                let threads = self.core.threads();
                // It is a part of the turn at work, if there is one (CDX-11).
                if threads.turns_of(thread).next().is_none() {
                    threads.await_turn(thread, origin);
                }
            }
        }
    }

    /// The client receives nothing more of a thread, and neither does the relay (CDX-16).
    fn leave_thread(&mut self, now: Instant, thread: &[u8]) {
        self.core.threads().note_left(thread, true);
        self.reread_turns(now, thread, &codex::UNSEEN);
    }

    /// A turn of a thread is reported: a client that had left the thread is back, and receives the end of its turns.
    fn rejoin_thread(&mut self, now: Instant, thread: &[u8]) {
        let threads = self.core.threads();
        if threads.has_left(thread) {
            threads.note_left(thread, false);
            self.reread_turns(now, thread, self.core.spoken(Side::Server));
        }
    }

    /// The turns of a thread that are at work are of this dialect from now on.
    fn reread_turns(&mut self, now: Instant, thread: &[u8], dialect: &'static Dialect) {
        let turns: Vec<_> = self.core.threads().turns_of(thread).collect();
        for key in turns {
            self.step(now, of_client(key), |step| {
                (step.exchange.dialect, step.exchange.upstream_dialect) = (dialect, dialect);
                step.stop_grace();
                step.mark_changed();
            });
        }
    }

    /// The client's own request to cancel a turn counts as a cancel of it, and passes.
    fn note_interrupt(&mut self, now: Instant, request: RequestKey) {
        let part = self.exchange(request).and_then(Exchange::thread);
        let Some(&ThreadPart::Interrupts { turn: Some(turn), .. }) = part else { return };
        self.step(now, of_client(turn), |step| {
            if step.exchange.cancel.is_none() && step.exchange.is_waiting() {
                step.begin_cancel(Cause::new(CauseCode::Caller), Outcome::Asked, None);
                step.start_work_grace();
                step.report_decided();
            }
        });
    }

    /// The client's own request to cancel this turn has left.
    pub(super) fn interrupt_left(&mut self, now: Instant, turn: Key) {
        self.step(now, of_client(turn), |step| {
            let is_theirs =
                |receipt: &Receipt| receipt.cause.code == CauseCode::Caller && receipt.outcome == Outcome::Asked;
            if step.exchange.cancel.as_deref().is_some_and(|cancel| is_theirs(&cancel.receipt)) {
                step.cancel_written();
            }
        });
    }

    /// The server did not cancel the turn: it was over, or goes on.
    fn interrupt_refused(&mut self, now: Instant, form: &ThreadForm, turn: Key, error: &[u8]) {
        let text = json::member(error, "message").and_then(json::text).unwrap_or_default();
        let was_over = form.interrupt.refusals.iter().any(|words| text.contains(words));
        if was_over {
            self.end_known_turn(now, turn, |step| step.work_was_over());
        } else {
            self.step(now, of_client(turn), |step| step.cancel_unheeded());
        }
    }

    /// Cancels this work by a request of our own with these members, which the work's cancel then waits for; without a
    /// `jsonrpc` member if it `is_bare`.
    pub(super) fn ask_to_cancel(
        &mut self,
        now: Instant,
        request: RequestKey,
        method: &'static str,
        is_bare: bool,
        members: &[(&str, &[u8])],
    ) {
        let Some(exchange) = self.exchange(request) else { return };
        let (like, dialect) = (exchange.id.clone(), exchange.upstream_dialect);
        let id = self.tables.client.own_id(&like);
        let framing = self.core.framing;
        let write = |out: &mut Vec<u8>| {
            message::request(&id, method, out, |out| {
                for (place, (name, value)) in members.iter().enumerate() {
                    if place > 0 {
                        out.push(b',');
                    }
                    json::write_string(out, name);
                    out.push(b':');
                    out.extend_from_slice(value);
                }
            });
        };
        // Behind the request itself, and before whatever else it may pass (D13).
        let tag = Tag::Of(request, Part::Cancel).into();
        let ticket = self.core.links.server.outbox.push_urgent(tag, |out| {
            message::frame(framing, out, |out| if is_bare { message::bare(out, write) } else { write(out) });
        });
        let exchange = Exchange {
            renamed: Some(id.clone()),
            rare: Some(Box::new(Rare { thread: Some(Box::new(ThreadPart::Ours(request))), ..Rare::default() })),
            // No requester calls it by its id.
            replaced: true,
            up: Up::Sent,
            ..Exchange::new(id.clone(), dialect, dialect, now, self.core.methods.intern(method))
        };
        let hash = self.tables.client.hash(&id);
        let ours = self.tables.client.insert(hash, exchange);
        // Its answer goes to no requester; it is remembered as long as that may come.
        self.step(now, of_client(ours), |step| step.retire(Settled::Silent));
        self.step(now, request, |step| {
            if let Some(cancel) = step.cancel() {
                cancel.frame = Some(ticket);
            }
        });
    }

    /// Cancels this work by a request of our own, and what works for it in other threads.
    pub(super) fn cancel_work(&mut self, now: Instant, request: RequestKey) {
        let Some(exchange) = self.exchange(request) else { return };
        if exchange.task_work().is_some() {
            return self.cancel_task(now, request);
        }
        let (Some(part), Some(form)) = (exchange.thread().cloned(), exchange.upstream_dialect.threads) else { return };
        let cause = exchange.cancel.as_deref().map(|cancel| cancel.receipt.cause.code);
        let (method, members): (&'static str, [(&str, &[u8]); 2]) = match &part {
            ThreadPart::Turn { thread, turn, .. } => {
                (form.interrupt.method, [(form.thread, thread), (form.interrupt.turn, turn)])
            }
            ThreadPart::Terminal { thread, process, .. } => {
                (form.terminals.terminate, [(form.thread, thread), (form.terminals.process, process)])
            }
            ThreadPart::Runs(process) => (form.commands.terminate, [("", b""), (form.commands.process, process)]),
            ThreadPart::Process(handle) => (form.processes.kill, [("", b""), (form.processes.handle, handle)]),
            ThreadPart::Starts(_) | ThreadPart::Interrupts { .. } | ThreadPart::Leaves(_) => return,
            ThreadPart::Spawns(_) | ThreadPart::Lists { .. } | ThreadPart::Ours(_) => return,
            ThreadPart::Foreground | ThreadPart::Background { .. } => return,
        };
        let named = members.into_iter().filter(|(name, _)| !name.is_empty()).collect::<Vec<_>>();
        self.ask_to_cancel(now, request, method, true, &named);
        if !matches!(part, ThreadPart::Turn { is_alone: true, .. }) {
            self.cancel_below(now, request, cause);
        }
        // The server withdraws its cards when it has stopped (CDX-08): until then they are being cancelled.
        let is_card = |ex: &Exchange| ex.is_waiting() && ex.cancel.is_none() && ex.parent() == Some(request.key);
        for key in self.tables.server.by_age(is_card) {
            self.step(now, RequestKey { from: Side::Server, key }, |step| {
                step.begin_cancel(Cause::parent(cause), Outcome::Asked, None);
                step.report_decided();
            });
        }
    }

    /// Cancels the turns of agents that a cancelled turn has opened, and theirs. As many as are followed may be below each
    /// other: the lowest come first, so that the cancel of each finds nothing more to do here.
    fn cancel_below(&mut self, now: Instant, request: RequestKey, root: Option<CauseCode>) {
        let parent = |ex: &Exchange| match ex.thread() {
            Some(ThreadPart::Turn { parent, .. }) if ex.is_waiting() => *parent,
            _ => None,
        };
        let is_alone = |ex: &Exchange| matches!(ex.thread(), Some(ThreadPart::Turn { is_alone: true, .. }));
        let is_left = |ex: &Exchange| parent(ex) == Some(request.key) && (ex.cancel.is_none() || is_alone(ex));
        let table = &self.tables.client;
        if table.by_age(is_left).is_empty() {
            return;
        }
        let mut children = BTreeMap::<Key, Vec<Key>>::new();
        for key in table.by_age(|ex| parent(ex).is_some()) {
            children.entry(table.get(key).and_then(parent).unwrap_or(key)).or_default().push(key);
        }
        let (mut below, mut place) = (children.remove(&request.key).unwrap_or_default(), 0);
        while let Some(key) = below.get(place) {
            below.extend(children.remove(key).unwrap_or_default());
            place += 1;
        }
        for key in below.into_iter().rev() {
            self.step(now, of_client(key), |step| _ = step.set_alone(false));
            self.cancel_part(now, key, root);
        }
    }

    /// Cancels a turn of an agent that is seen only after the turn that has opened it was cancelled with all that works for it.
    pub(super) fn cancel_with_parent(&mut self, now: Instant, key: Key) {
        let parent = self.exchange(of_client(key)).and_then(|turn| self.exchange(of_client(turn.thread()?.parent()?)));
        let is_whole = |turn: &&Exchange| matches!(turn.thread(), Some(ThreadPart::Turn { is_alone: false, .. }));
        let Some(parent) = parent.filter(|turn| turn.is_waiting()).filter(is_whole) else { return };
        let cancel = parent.cancel.as_deref().filter(|cancel| !cancel.stuck);
        let cause = cancel.map(|cancel| cancel.receipt.cause.code).filter(|cause| *cause != CauseCode::Caller);
        if cause.is_some() {
            self.cancel_part(now, key, cause);
        }
    }

    /// An operator cancels a turn alone, or with what works for it: that, too, if it was cancelled alone before.
    pub(super) fn note_alone(&mut self, now: Instant, request: RequestKey, alone: bool) {
        let was_alone = self.with(now, request, |step| step.set_alone(alone));
        if was_alone == Some(true) && !alone {
            self.cancel_below(now, request, Some(CauseCode::Operator));
        }
    }

    /// Cancels what is part of work that was cancelled because of `root`.
    pub(super) fn cancel_part(&mut self, now: Instant, key: Key, root: Option<CauseCode>) {
        self.step(now, of_client(key), |step| {
            if step.exchange.cancel.is_none() {
                step.cancel_upstream(Cause::parent(root));
                step.report_decided();
            }
        });
    }

    /// Whether this is the answer to a request of our own, which goes no further.
    pub(super) fn ends_own_cancel(
        &mut self,
        now: Instant,
        from: Side,
        found: Option<(RequestKey, bool)>,
        response: &Response<'_>,
    ) -> bool {
        if from == Side::Client || self.core.spoken(from).threads.is_none() {
            return false;
        }
        let Some((ours, is_exact)) = found else {
            // One that came so late that its request is forgotten.
            return matches!(&response.id, Some(ResponseId::Exact(id)) if self.tables.client.has_spent(id));
        };
        let Some(&ThreadPart::Ours(of)) = self.exchange(ours).and_then(Exchange::thread) else { return false };
        let is_first = self.with(now, ours, |step| {
            let is_first = step.exchange.up.may_be_answered();
            step.exchange.up = Up::Answered;
            is_first
        });
        if is_exact && is_first == Some(true) {
            self.own_cancel_answered(now, of, &response.body);
        }
        is_exact
    }

    fn own_cancel_answered(&mut self, now: Instant, of: RequestKey, body: &ResponseBody<'_>) {
        let Some(exchange) = self.exchange(of) else { return };
        let (Some(part), Some(form)) = (exchange.thread(), exchange.upstream_dialect.threads) else { return };
        match (part, body) {
            (ThreadPart::Turn { .. }, ResponseBody::Error(error)) => self.interrupt_refused(now, form, of.key, error),
            (ThreadPart::Terminal { .. }, ResponseBody::Result(result)) => {
                let is_ended = json::member(result, form.terminals.done) == Some(b"true");
                self.step(now, of, |step| match is_ended {
                    true => step.work_over(Answer::Result, true),
                    false => step.work_was_over(),
                });
            }
            (ThreadPart::Terminal { .. } | ThreadPart::Runs(_) | ThreadPart::Process(_), ResponseBody::Error(_)) => {
                self.step(now, of, |step| step.cancel_unheeded());
            }
            // The word that the turn is over, or the answer of the call, is what ends it.
            (_, ResponseBody::Result(_) | ResponseBody::Error(_)) => {}
        }
    }

    /// The server has withdrawn a request of its own (CDX-08): its client need not answer any more, and what it answers all
    /// the same passes.
    fn withdraw_card(&mut self, now: Instant, id: &[u8]) -> Option<Passed> {
        let key = self.tables.server.by_requester(&RequestId::from_json(id)?)?;
        let card = RequestKey { from: Side::Server, key };
        if !self.exchange(card)?.is_waiting() {
            return None;
        }
        self.step(now, card, |step| {
            let after = step.cancel().map(|cancel| now.since(cancel.receipt.asked));
            match after {
                None => {
                    step.begin_cancel(Cause::new(CauseCode::Caller), Outcome::Asked, None);
                    step.report_decided();
                }
                // It was cancelled here, alone or with its turn.
                Some(after) => step.learn(Outcome::Confirmed { after }),
            }
            step.settle(Settled::Silent);
        });
        Some(Passed { tag: Tag::Of(card, Part::Cancel), ..Passed::PLAIN })
    }
}

impl Step<'_> {
    /// Notes whether this turn is cancelled alone; whether it was.
    fn set_alone(&mut self, alone: bool) -> bool {
        match self.exchange.rare.as_deref_mut().and_then(|rare| rare.thread.as_deref_mut()) {
            Some(ThreadPart::Turn { is_alone, .. }) => core::mem::replace(is_alone, alone),
            _ => false,
        }
    }

    /// The work is over: `says_cancelled` if its server reports it as cancelled.
    pub(super) fn work_over(&mut self, answer: Answer, says_cancelled: bool) {
        if !self.exchange.is_waiting() {
            return;
        }
        self.exchange.up = Up::Answered;
        self.exchange.answer = Some(answer);
        if self.exchange.cancel.is_some() {
            self.learn_from_end(answer, says_cancelled);
            self.stop_grace();
        }
        self.note_task_over(if says_cancelled { TaskEnd::Cancelled } else { TaskEnd::Otherwise });
        self.settle(Settled::Answered);
    }

    /// The work was over when its cancel arrived.
    pub(super) fn work_was_over(&mut self) {
        if self.exchange.is_waiting() {
            self.learn(Outcome::CompletedFirst);
            self.work_over(Answer::Result, false);
        }
    }

    /// The server has answered the cancel, and the work goes on.
    pub(super) fn cancel_unheeded(&mut self) {
        if !self.exchange.is_waiting() {
            return;
        }
        self.stop_grace();
        self.stop_looks();
        if let Some(cancel) = self.cancel()
            && !core::mem::replace(&mut cancel.stuck, true)
        {
            self.report_stuck(StuckSign::NoAnswer);
        }
    }

    /// A cancel that did not stop the work can be asked for again. One that still waits is taken back: it would end what may
    /// be other work by then.
    pub(super) fn forget_unheeded(&mut self) {
        let is_work = self.exchange.is_work();
        let is_unheeded = self.exchange.cancel.as_deref().is_some_and(|cancel| {
            let has_not_gone = matches!(cancel.receipt.outcome, Outcome::NeverSent | Outcome::NotSendable);
            cancel.stuck || (is_work && has_not_gone)
        });
        if (self.exchange.thread().is_some() || is_work) && is_unheeded {
            self.stop_looks();
            self.work().into_iter().for_each(|task| (task.looks, task.is_last_look) = (0, false));
            let cancel = self.exchange.cancel.take();
            if let Some(frame) = cancel.and_then(|cancel| cancel.frame) {
                self.core.links.server.outbox.withdraw(frame);
            }
        }
    }

    /// Begins the time within which the work has to end, where that would be reported.
    fn start_work_grace(&mut self) {
        if !self.exchange.upstream_dialect.is_silent() {
            self.start_grace(self.grace());
        }
    }
}
