//! What must be true of one endpoint, told by what passes its wire and its application and by nothing else.

use core::{
    hash::{Hash, Hasher},
    time::Duration,
};
use std::{collections::VecDeque, sync::Arc};

use rescind_proto::{
    connection::{ConnectionEvent, IncomingKey, OutgoingKey, Settlement},
    dialect::{self, Dialect, StrayError},
    error_code,
    link::Rejected,
    receipt::Outcome,
    side::Side,
    time::Instant,
};

use super::{
    call::{Call, Ending, Work},
    scene::{Method, Scene},
    text::{self, Heard},
    world::{Broken, broken, never, none},
};

/// The model of one endpoint.
#[derive(Clone, Debug)]
pub struct EndpointModel {
    scene: Arc<Scene>,
    role: Side,
    /// Our requests.
    pub calls: Vec<Call>,
    /// The peer's requests that were taken in.
    pub works: Vec<Work>,
    /// What must leave, in this order, unless it may be dropped.
    out: VecDeque<Out>,
    /// What the application must be told, in this order (D11).
    told: VecDeque<Told>,
    /// Ids whose requests must be refused, and what for.
    refusals: Vec<(String, Refused)>,
    /// Errors without an id that the peer must be told for its garbage.
    nameless: usize,
    /// Cancels for requests that have not arrived (D9).
    held: Vec<(String, Instant)>,
    /// The peer sends nothing more.
    pub input_ended: bool,
    /// Nothing can be written any more.
    pub write_closed: bool,
    /// It ends in order.
    pub shutting_down: bool,
    closed: bool,
}

/// Something that leaves in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Out {
    Request(usize),
    Answer(usize),
    Note(usize),
    Plain(usize),
}

/// Something that the application hears in the order of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Told {
    Plain(usize),
    Progress(usize),
    Settled(usize),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Refused {
    Duplicate,
    ShuttingDown,
    Vetoed,
}

/// How a handler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// With its result.
    Returned,
    /// By its token.
    Cancelled,
    /// By itself, as cancelled.
    GaveUp,
    /// By force.
    Dropped,
    /// By a panic.
    Panicked,
    /// Having answered before.
    Answered,
}

type Verdict = Result<(), Broken>;

impl EndpointModel {
    /// An endpoint that has neither said nor heard anything.
    pub const fn new(scene: Arc<Scene>, role: Side) -> Self {
        Self {
            scene,
            role,
            calls: Vec::new(),
            works: Vec::new(),
            out: VecDeque::new(),
            told: VecDeque::new(),
            refusals: Vec::new(),
            nameless: 0,
            held: Vec::new(),
            input_ended: false,
            write_closed: false,
            shutting_down: false,
            closed: false,
        }
    }

    /// Whether requests can be made.
    pub const fn is_open(&self) -> bool {
        !self.input_ended && !self.write_closed && !self.shutting_down
    }

    // What the application does.

    /// A request was made; its generation is its place.
    pub fn made(&mut self, now: Instant, key: OutgoingKey, method: Method) {
        let generation = self.calls.len();
        let deadline = self.scene.clock.map(|limit| now + limit);
        self.calls.push(Call::new(generation, key, method, deadline));
        self.out.push_back(Out::Request(generation));
    }

    /// A notification of no known method was sent.
    pub fn said_plain(&mut self, number: usize) {
        self.out.push_back(Out::Plain(number));
    }

    /// One of our requests is cancelled; whether that can change anything.
    pub fn cancelled(&mut self, at: usize, patience: Option<Instant>, begun: Option<&str>) -> bool {
        if !self.calls[at].waits() {
            return false;
        }
        if !self.calls[at].given_up {
            self.give_up(at, begun);
        }
        let withdrawn = self.calls[at].withdrawn;
        let call = &mut self.calls[at];
        call.patience = match (patience, call.patience) {
            (Some(new), Some(old)) => Some(new.min(old)),
            (new, _) => new,
        };
        if patience.is_none() || withdrawn {
            call.due = Some(Ending::Cancelled);
        }
        true
    }

    /// A handler sends a notification that belongs to its request; whether it may.
    pub fn noted(&mut self, at: usize) -> bool {
        let work = &mut self.works[at];
        let may = work.runs() && !work.replied && !work.silenced && !self.write_closed;
        if may {
            work.notes += 1;
            self.out.push_back(Out::Note(at));
        }
        may
    }

    /// A handler answers and goes on; whether it may.
    pub fn responded(&mut self, now: Instant, at: usize, begun: Option<&str>) -> bool {
        let may = self.works[at].runs() && !self.works[at].replied && !self.works[at].silenced;
        if may {
            self.withdraw_notes(at, begun);
            self.reply(now, at, false);
        }
        may && !self.write_closed
    }

    /// A handler has ended.
    pub fn ended(&mut self, now: Instant, at: usize, end: End, begun: Option<&str>) {
        self.works[at].ended = true;
        self.works[at].drop_at = None;
        if !self.works[at].replied && !self.works[at].silenced {
            self.withdraw_notes(at, begun);
            self.reply(now, at, end != End::Returned);
        }
        self.conclude(now, at);
    }

    /// The answer of a request is queued: progress of it that has not begun to leave never does (D62).
    fn withdraw_notes(&mut self, at: usize, begun: Option<&str>) {
        if !self.dialect().progress.is_some_and(|form| form.active_only) {
            return;
        }
        let mut is_begun = text::begun_progress(begun) == Some(self.works[at].generation);
        self.out.retain(|out| *out != Out::Note(at) || core::mem::take(&mut is_begun));
    }

    /// An operator stops one of the peer's requests; whether that can change anything.
    pub fn stopped(&mut self, now: Instant, at: usize) -> bool {
        let may = self.works[at].runs() && !self.works[at].fired;
        if may {
            self.stop(now, at, self.scene.grace);
        }
        may
    }

    /// The connection is to end in order.
    pub fn shut_down(&mut self, now: Instant, begun: Option<&str>) {
        self.shutting_down = true;
        for at in 0..self.calls.len() {
            self.cancelled(at, None, begun);
        }
        self.stop_all(now);
    }

    // What passes the wire.

    /// A whole frame has arrived.
    pub fn received(&mut self, now: Instant, frame: &str, begun: Option<&str>) {
        if self.input_ended {
            return;
        }
        if frame == text::GARBAGE {
            let told =
                self.role == Side::Server && !self.write_closed && self.dialect().stray_error != StrayError::Invalid;
            self.nameless += usize::from(told);
            return;
        }
        match text::read(frame) {
            Some(Heard::Request { id, method, generation }) => self.received_request(now, id, method, generation),
            Some(Heard::Cancel { id, .. }) => self.received_cancel(now, id, begun),
            Some(Heard::Answer { id: Some(id), generation, code }) => {
                self.received_answer(id, generation, code, begun);
            }
            Some(Heard::Progress { generation }) => {
                let limit = self.scene.clock.filter(|_| self.scene.resets);
                if let Some(call) = self.calls.get_mut(generation).filter(|call| call.waits()) {
                    self.told.push_back(Told::Progress(generation));
                    if let (Some(limit), Some(_)) = (limit, call.deadline) {
                        call.deadline = Some(now + limit);
                    }
                }
            }
            Some(Heard::Plain { number }) => self.told.push_back(Told::Plain(number)),
            Some(
                Heard::Answer { id: None, .. }
                | Heard::TurnCancel { .. }
                | Heard::Update { .. }
                | Heard::TaskCancel { .. }
                | Heard::TaskGet { .. },
            )
            | None => {}
        }
    }

    /// A whole frame has arrived, and a filter keeps it back: nobody is left waiting for what it was.
    pub fn vetoed_in(&mut self, frame: &str) {
        if self.input_ended {
            return;
        }
        let heard = text::read(frame);
        // Under the id of a request in flight the refusal would end that one.
        if let Some(Heard::Request { id, .. }) = heard
            && !self.newest(id).is_some_and(|at| self.works[at].is_live())
            && !self.write_closed
        {
            self.refusals.push((id.to_owned(), Refused::Vetoed));
        } else if let Some(Heard::Answer { id: Some(id), .. }) = heard
            && let Some(call) = self.calls.iter_mut().rfind(|call| call.id.as_deref() == Some(id) && !call.answered)
        {
            call.answered = true;
            call.deadline = None;
            call.patience = None;
            call.disarmed = call.cancels == 0;
            if call.waits() {
                call.due = Some(Ending::Vetoed);
            }
        }
    }

    /// A whole frame was to leave, and a filter keeps it back: as if it had left, but nobody waits for more.
    ///
    /// # Errors
    ///
    /// The rule that it breaks.
    pub fn vetoed_out(&mut self, now: Instant, frame: &str) -> Verdict {
        match text::read(frame) {
            Some(Heard::Request { generation, .. }) if generation < self.calls.len() => {
                self.take(Out::Request(generation))?;
                let call = &mut self.calls[generation];
                call.answered = true;
                call.deadline = None;
                call.due = Some(Ending::Vetoed);
                Ok(())
            }
            Some(Heard::Cancel { id, .. }) => {
                let call = self.calls.iter_mut().find(|call| call.id.as_deref() == Some(id) && call.cancel_due);
                let Some(call) = call else { return broken(format!("a cancel for {id} that is not due: {frame}")) };
                call.cancel_due = false;
                Ok(())
            }
            _ => self.sent(now, frame),
        }
    }

    /// The peer sends nothing more.
    pub fn input_ends(&mut self, now: Instant, begun: Option<&str>) {
        if self.input_ended {
            return;
        }
        self.input_ended = true;
        let leaving = text::begun_request(begun);
        for call in &mut self.calls {
            if call.id.is_none() && leaving != Some(call.generation) {
                call.withdrawn = true;
            }
            if call.waits() {
                call.due = Some(Ending::Closed);
            }
        }
        self.stop_all(now);
    }

    /// The link is dead; its last line had no line break.
    pub fn link_is_lost(&mut self, now: Instant, last: Option<&str>) {
        self.write_closed = true;
        self.out.clear();
        self.refusals.clear();
        self.nameless = 0;
        for at in 0..self.works.len() {
            if self.works[at].replied && !self.works[at].silenced {
                self.works[at].answered = true;
                self.conclude(now, at);
            }
        }
        if let Some(last) = last {
            self.received(now, last, None);
        }
        self.input_ends(now, None);
    }

    /// It is later now.
    pub fn passed(&mut self, now: Instant, begun: Option<&str>) {
        for at in 0..self.calls.len() {
            if !self.calls[at].waits() {
                continue;
            }
            let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
            if self.calls[at].given_up && (is_due(self.calls[at].patience) || is_due(self.calls[at].deadline)) {
                self.calls[at].due = Some(Ending::Cancelled);
            } else if is_due(self.calls[at].deadline) {
                self.give_up(at, begun);
                self.calls[at].due = Some(Ending::TimedOut);
            }
        }
    }

    /// A whole frame has left.
    ///
    /// # Errors
    ///
    /// The rule that it breaks.
    pub fn sent(&mut self, now: Instant, frame: &str) -> Verdict {
        match text::read(frame) {
            None
            | Some(
                Heard::TurnCancel { .. } | Heard::Update { .. } | Heard::TaskCancel { .. } | Heard::TaskGet { .. },
            ) => broken(format!("{} says what it cannot: {frame}", self.role.as_str())),
            Some(Heard::Plain { number }) => self.take(Out::Plain(number)),
            Some(Heard::Request { id, generation, .. }) => self.sent_request(id, generation),
            Some(Heard::Cancel { method, id }) => self.sent_cancel(frame, method, id),
            Some(Heard::Progress { generation }) => {
                let at = self.works.iter().position(|work| work.generation == generation);
                let Some(at) = at else { return broken(format!("progress of nothing: {frame}")) };
                never(self.works[at].answered, || {
                    format!("progress of their request {generation} after its answer (MCP-P03)")
                })?;
                self.take(Out::Note(at))
            }
            Some(Heard::Answer { id, generation, code }) => self.sent_answer(now, frame, id, generation, code),
        }
    }

    /// The machine told something.
    ///
    /// # Errors
    ///
    /// The rule that is broken by it.
    pub fn heard(&mut self, now: Instant, event: &ConnectionEvent) -> Verdict {
        match event {
            ConnectionEvent::Request(request) => self.starts(request.key, request.payload.params().unwrap_or_default()),
            ConnectionEvent::Settled { request: key, how } => self.settles(now, *key, how),
            ConnectionEvent::Notification(payload) if payload.method() == text::PLAIN => {
                let params = String::from_utf8_lossy(payload.params().unwrap_or_default());
                let number = text::member(&params, "n").and_then(|number| number.parse().ok());
                self.hears(Told::Plain(number.unwrap_or(usize::MAX)))
            }
            ConnectionEvent::Progress { request: key, .. } => {
                let at = self.call(*key)?;
                self.hears(Told::Progress(at))
            }
            ConnectionEvent::Cancelled { request: key, .. } => {
                let work = self.work(*key)?;
                never(work.fired, || format!("the token of their request {} fires twice", work.generation))?;
                never(!work.cancelled && !work.stopped, || {
                    format!("the token of their request {} fires without a reason", work.generation)
                })?;
                work.fired = true;
                Ok(())
            }
            ConnectionEvent::DropHandler { request: key } => {
                let work = self.work(*key)?;
                never(work.dropped || !work.fired || work.drop_at.is_none_or(|at| at > now), || {
                    format!("the handler of their request {} is dropped too early", work.generation)
                })?;
                work.dropped = true;
                Ok(())
            }
            ConnectionEvent::Receipt(notice) => {
                let at = self.call(notice.request)?;
                self.check_receipt(at, notice.receipt.outcome)
            }
            ConnectionEvent::Closed => {
                never(self.closed, || "closed twice".into())?;
                self.closed = true;
                Ok(())
            }
            ConnectionEvent::Notification(_)
            | ConnectionEvent::Delivered { .. }
            | ConnectionEvent::Silenced { .. }
            | ConnectionEvent::Stopped(_)
            | ConnectionEvent::Cancel(_)
            | ConnectionEvent::Late { .. }
            | ConnectionEvent::Rejected { .. }
            | ConnectionEvent::Violation { .. }
            | ConnectionEvent::GivenUp { .. } => Ok(()),
        }
    }

    /// Whether the application has been told what it must be told by now (D11).
    ///
    /// # Errors
    ///
    /// What is missing.
    pub fn check_told(&self, now: Instant) -> Verdict {
        none(self.told.front(), |told| format!("the application is not told {told:?} (D11)"))?;
        for call in &self.calls {
            never(call.due.is_some() && call.settled.is_none(), || {
                format!("our request {} does not settle as {:?} (D4)", call.generation, call.due)
            })?;
        }
        let (mut running, mut queued) = (0, 0);
        for work in &self.works {
            running += usize::from(work.runs());
            queued += usize::from(work.is_queued());
            never((work.cancelled || work.stopped) && work.runs() && !work.fired, || {
                format!("the token of their request {} does not fire (D21)", work.generation)
            })?;
            never(work.runs() && work.drop_at.is_some_and(|at| at <= now) && !work.dropped, || {
                format!("the handler of their request {} is never dropped (D22)", work.generation)
            })?;
        }
        never(running > self.scene.slots, || format!("{running} handlers run, {} may (D12)", self.scene.slots))?;
        never(queued > 0 && running < self.scene.slots, || "a request waits beside a free slot (D12)".into())
    }

    /// Whether everything that had to be written has been, with the pipe flushed.
    ///
    /// # Errors
    ///
    /// What is missing.
    pub fn check_settled(&self) -> Verdict {
        if self.write_closed {
            return Ok(());
        }
        none(self.out.iter().find(|out| !self.may_drop(out)), |out| format!("{out:?} is never written"))?;
        never(!self.refusals.is_empty(), || format!("{:?} are never refused (D7)", self.refusals))?;
        never(self.nameless > 0, || "the peer is never told of its garbage (D36)".into())?;
        none(self.works.iter().find(|work| work.replied && work.is_live()), |work| {
            format!("their request {} is never answered (D23, D24)", work.generation)
        })?;
        for call in &self.calls {
            never(call.cancel_due && call.id.is_some() && !call.disarmed && !self.input_ended, || {
                format!("the cancel of our request {} is never written (D15)", call.generation)
            })?;
        }
        Ok(())
    }

    /// Feeds the model into a hasher.
    pub fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        let Self {
            scene: _,
            role: _,
            calls,
            works,
            out,
            told,
            refusals,
            nameless,
            held,
            input_ended,
            write_closed,
            shutting_down,
            closed,
        } = self;
        calls.iter().for_each(|call| call.hash_state(now, state));
        works.iter().for_each(|work| work.hash_state(now, state));
        (out, told, refusals, nameless, input_ended, write_closed, shutting_down, closed).hash(state);
        held.iter().for_each(|(id, until)| (id, until.since(now)).hash(state));
    }

    fn received_request(&mut self, now: Instant, id: &str, method: &str, generation: usize) {
        let duplicate = self.newest(id).is_some_and(|at| self.works[at].is_live());
        if duplicate || self.shutting_down {
            if !self.write_closed {
                let why = if duplicate { Refused::Duplicate } else { Refused::ShuttingDown };
                self.refusals.push((id.to_owned(), why));
            }
            return;
        }
        let at = self.works.len();
        self.works.push(Work::new(generation, id, method));
        self.held.retain(|held| held.1 > now);
        let held = self.held.iter().position(|held| held.0 == id).map(|place| self.held.remove(place));
        if held.is_some() && self.dialect().uncancellable(method).is_none() {
            self.cancel_work(now, at);
        }
    }

    fn received_cancel(&mut self, now: Instant, id: &str, begun: Option<&str>) {
        let peer = self.role.other();
        let lawful = |method: &str| self.scene.may_cancel(peer, peer, method);
        if !lawful("") {
            return;
        }
        let remembered = |work: &Work| work.over_at.is_none_or(|at| now.since(at) < self.scene.config.remember.1);
        let Some(at) = self.newest(id).filter(|&at| remembered(&self.works[at])) else {
            let known = self.held.iter().any(|held| held.0 == id && held.1 > now);
            if self.dialect().sticky && self.is_open() && !known {
                self.held.push((id.to_owned(), now + STICKY));
            }
            return;
        };
        let work = &self.works[at];
        if !lawful(&work.method) || work.cancelled || !work.is_live() {
            return;
        }
        if !work.replied {
            return self.cancel_work(now, at);
        }
        // An answer that has not begun to leave is taken back where its requester wants none.
        if self.dialect().is_silent() && !text::is_answering(begun, id) {
            self.works[at].silenced = true;
            self.conclude(now, at);
        }
    }

    fn cancel_work(&mut self, now: Instant, at: usize) {
        let silent = self.dialect().is_silent();
        let queued = self.works[at].is_queued();
        let work = &mut self.works[at];
        work.cancelled = true;
        work.silenced |= silent;
        if queued {
            work.ended = true;
            if !silent {
                self.reply(now, at, true);
            }
            self.conclude(now, at);
        } else if !work.fired && work.drop_at.is_none() {
            work.drop_at = Some(now + self.scene.grace);
        } else {
            work.drop_at = work.drop_at.map(|at| at.min(now + self.scene.grace));
        }
    }

    fn received_answer(&mut self, id: &str, generation: Option<usize>, code: Option<i32>, begun: Option<&str>) {
        let found = self.calls.iter().rposition(|call| call.id.as_deref() == Some(id));
        let (found, leaving) = match begun.and_then(text::read) {
            Some(Heard::Cancel { id: leaving, .. }) => (found, leaving == id),
            // All but its line break was enough for a peer whose input ended there.
            Some(Heard::Request { id: leaving, generation, .. }) if leaving == id => (Some(generation), false),
            _ => (found, false),
        };
        let Some(at) = found else { return };
        let silent = self.dialect().is_silent();
        let call = &mut self.calls[at];
        if call.answered {
            return;
        }
        call.answered = true;
        call.deadline = None;
        if call.cancels == 0 && !leaving {
            call.disarmed = true;
        }
        let forgotten = call.given_up && !call.waits();
        if forgotten {
            return;
        }
        call.patience = None;
        call.due = Some(match (generation, code) {
            (_, None) => Ending::Answer,
            (_, Some(error_code::REQUEST_CANCELLED)) if call.given_up && !silent => Ending::Cancelled,
            (_, Some(_)) => Ending::Error,
        });
        self.told.push_back(Told::Settled(at));
    }

    fn sent_request(&mut self, id: &str, generation: usize) -> Verdict {
        let Some(call) = self.calls.get_mut(generation) else { return broken(format!("a request {id} nobody made")) };
        never(call.withdrawn, || {
            format!("our request {generation} was withdrawn before it began, and leaves (invariant 2)")
        })?;
        never(call.id.replace(id.to_owned()).is_some(), || format!("our request {generation} leaves twice"))?;
        never(self.calls.iter().filter(|call| call.id.as_deref() == Some(id)).count() > 1, || {
            format!("our request {generation} has the id {id} of an earlier one (MCP-I02)")
        })?;
        self.take(Out::Request(generation))
    }

    fn sent_cancel(&mut self, frame: &str, method: &str, id: &str) -> Verdict {
        let form = self.dialect().cancel;
        let Some(call) = self.calls.iter_mut().find(|call| call.id.as_deref() == Some(id)) else {
            return broken(format!("a cancel for {id}, which was never sent (invariant 1)"));
        };
        let generation = call.generation;
        never(call.cancels > 0, || format!("our request {generation} is cancelled twice (invariant 1)"))?;
        never(call.disarmed, || format!("a cancel begun after the answer of our request {generation} had come (D15)"))?;
        never(!call.cancel_due, || format!("our request {generation} is cancelled and nobody asked, or may: {frame}"))?;
        call.cancels += 1;
        call.cancel_due = false;
        never(method != form.method || text::member(frame, form.id) != Some(id), || {
            format!("a cancel in another dialect's form: {frame}")
        })
    }

    fn sent_answer(
        &mut self,
        now: Instant,
        frame: &str,
        id: Option<&str>,
        generation: Option<usize>,
        code: Option<i32>,
    ) -> Verdict {
        if id.is_none_or(|id| id == "null") && code == Some(error_code::PARSE_ERROR) && self.nameless > 0 {
            self.nameless -= 1;
            return Ok(());
        }
        let Some(id) = id else { return broken(format!("an answer to nobody: {frame}")) };
        let is_refusal = |(refused, why): &(String, Refused)| {
            let words = match why {
                Refused::Duplicate => r#""code":-32600"#,
                Refused::ShuttingDown => r#""message":"shutting down""#,
                Refused::Vetoed => r#""message":"refused by policy""#,
            };
            refused == id && frame.contains(words)
        };
        if let Some(place) = self.refusals.iter().position(is_refusal) {
            self.refusals.remove(place);
            return Ok(());
        }
        let found = match generation {
            Some(generation) => self.works.iter().position(|work| work.generation == generation && work.id == id),
            None => self.works.iter().rposition(|work| work.id == id && work.replied && !work.answered),
        };
        let Some(at) = found else { return broken(format!("an answer to nobody: {frame}")) };
        let work = &self.works[at];
        let generation_of = work.generation;
        never(work.answered, || format!("their request {generation_of} is answered twice (invariant 4): {frame}"))?;
        never(work.silenced, || {
            format!("their request {generation_of} is answered although silence was due (MCP-C06): {frame}")
        })?;
        never(!work.replied, || format!("their request {generation_of} is answered before its handler has: {frame}"))?;
        never(self.newest(id) != Some(at), || {
            format!("the answer of their request {generation_of} reaches a later one of its id (D8)")
        })?;
        never(work.reply_is_ours == generation.is_some(), || {
            format!("their request {generation_of} has the wrong answer: {frame}")
        })?;
        // Several requests that end at once are answered in any order.
        if work.reply_is_ours {
            self.check_our_answer(at, frame, code)?;
        } else {
            self.take(Out::Answer(at))?;
        }
        self.works[at].answered = true;
        self.conclude(now, at);
        Ok(())
    }

    /// What an endpoint answers for a handler that said nothing (D23, D24).
    fn check_our_answer(&self, at: usize, frame: &str, code: Option<i32>) -> Verdict {
        let (work, dialect) = (&self.works[at], self.dialect());
        let cancelled = match dialect.settlement {
            dialect::CancelReply::Answered(error) => Some(error.code),
            dialect::CancelReply::Silent => None,
        };
        let lawful = match code {
            None => dialect.cancel_result(&work.method).is_some() && work.cancelled,
            Some(code) if work.cancelled => Some(code) == cancelled || code == error_code::INTERNAL_ERROR,
            Some(code) => {
                [dialect.gave_up.code, error_code::INTERNAL_ERROR, error_code::STOPPED_BY_OPERATOR].contains(&code)
            }
        };
        never(!lawful, || format!("their request {} ends with the wrong words: {frame}", work.generation))
    }

    fn starts(&mut self, key: IncomingKey, params: &[u8]) -> Verdict {
        let params = String::from_utf8_lossy(params);
        let generation = text::member(&params, "g").and_then(|text| text.parse::<usize>().ok());
        let found = self.works.iter_mut().find(|work| Some(work.generation) == generation);
        let Some(work) = found else { return broken(format!("a handler starts for nothing: {params}")) };
        never(work.key.is_some(), || format!("the handler of their request {} starts twice", work.generation))?;
        never(work.ended, || {
            format!("the handler of their request {} starts although it was cancelled", work.generation)
        })?;
        work.key = Some(key);
        Ok(())
    }

    fn settles(&mut self, now: Instant, key: OutgoingKey, how: &Settlement) -> Verdict {
        let at = self.call(key)?;
        let call = &mut self.calls[at];
        never(call.settled.is_some(), || format!("our request {at} settles twice (invariant 3)"))?;
        let ending = match how {
            Settlement::Result(result) => {
                let text = String::from_utf8_lossy(result);
                never(text::member(&text, "g").and_then(|text| text.parse().ok()) != Some(at), || {
                    format!("our request {at} gets the answer of another: {text}")
                })?;
                Ending::Answer
            }
            Settlement::PeerError(_) => Ending::Error,
            Settlement::Cancelled(_) => Ending::Cancelled,
            Settlement::TimedOut { .. } => Ending::TimedOut,
            Settlement::Closed => Ending::Closed,
            Settlement::Unreadable(Rejected::Vetoed) => Ending::Vetoed,
            Settlement::Ended { .. } | Settlement::Unreadable(_) | Settlement::Transport(_) => {
                return broken(format!("our request {at} is ended by the peer: {how:?} (invariant 5)"));
            }
        };
        never(call.due != Some(ending), || {
            format!("our request {at} settles as {ending:?}, it should as {:?}", call.due)
        })?;
        call.settled = Some(now);
        call.deadline = None;
        if self.told.contains(&Told::Settled(at)) { self.hears(Told::Settled(at)) } else { Ok(()) }
    }

    /// A receipt claims no more than was seen (D28).
    fn check_receipt(&self, at: usize, outcome: Outcome) -> Verdict {
        let call = &self.calls[at];
        let is_true = match outcome {
            Outcome::Asked => call.given_up && call.cancels == 0,
            Outcome::NeverSent => call.withdrawn && call.id.is_none(),
            Outcome::NotSendable => call.given_up && call.cancels == 0 && !call.cancel_due,
            Outcome::Sent => call.cancels == 1,
            Outcome::Confirmed { .. } | Outcome::AnsweredAfter { .. } => call.answered && call.cancels == 1,
            Outcome::CompletedFirst => call.answered && call.cancels == 0,
            Outcome::Unknown => self.input_ended || self.write_closed,
            _ => false,
        };
        never(!is_true, || format!("the receipt of our request {at} claims {outcome:?} (D28)"))
    }

    fn give_up(&mut self, at: usize, begun: Option<&str>) {
        let lawful = self.scene.may_cancel(self.role, self.role.other(), self.calls[at].method);
        let call = &mut self.calls[at];
        call.given_up = true;
        if call.id.is_none() && text::begun_request(begun) != Some(at) {
            call.withdrawn = true;
            return;
        }
        call.cancel_due = lawful && !self.write_closed;
    }

    fn reply(&mut self, now: Instant, at: usize, ours: bool) {
        self.works[at].replied = true;
        self.works[at].reply_is_ours = ours;
        if self.write_closed {
            self.works[at].answered = true;
            self.conclude(now, at);
        } else if !ours {
            self.out.push_back(Out::Answer(at));
        }
    }

    fn stop(&mut self, now: Instant, at: usize, grace: Duration) {
        let work = &mut self.works[at];
        if work.ended {
            return;
        }
        work.stopped = true;
        if work.is_queued() {
            work.ended = true;
            if !work.replied && !work.silenced {
                self.reply(now, at, true);
            }
            self.conclude(now, at);
        } else if !work.dropped {
            let drop_at = now + grace;
            work.drop_at = Some(work.drop_at.map_or(drop_at, |at| at.min(drop_at)));
        }
    }

    fn stop_all(&mut self, now: Instant) {
        for at in 0..self.works.len() {
            self.stop(now, at, self.scene.short_grace);
        }
    }

    fn conclude(&mut self, now: Instant, at: usize) {
        let work = &mut self.works[at];
        if work.ended && !work.is_live() && work.over_at.is_none() {
            work.over_at = Some(now);
        }
    }

    fn take(&mut self, what: Out) -> Verdict {
        let Some(place) = self.out.iter().position(|out| *out == what) else {
            return broken(format!("{what:?} leaves out of order, twice, or although it was taken back"));
        };
        for out in self.out.drain(..=place).collect::<Vec<_>>() {
            never(out != what && !self.may_drop(&out), || {
                format!("{what:?} leaves and {out:?}, which came first, never does (D13)")
            })?;
        }
        Ok(())
    }

    fn may_drop(&self, out: &Out) -> bool {
        match *out {
            Out::Request(at) => self.calls[at].withdrawn,
            Out::Answer(at) | Out::Note(at) => self.works[at].silenced,
            Out::Plain(_) => false,
        }
    }

    fn hears(&mut self, what: Told) -> Verdict {
        match self.told.pop_front() {
            Some(told) if told == what => Ok(()),
            told => broken(format!("the application is told {what:?}; next on the wire was {told:?} (D11)")),
        }
    }

    fn newest(&self, id: &str) -> Option<usize> {
        self.works.iter().rposition(|work| work.id == id)
    }

    fn call(&self, key: OutgoingKey) -> Result<usize, Broken> {
        let found = self.calls.iter().position(|call| call.key == key);
        found.ok_or_else(|| Broken(format!("an event about a request nobody made: {key:?}")))
    }

    fn work(&mut self, key: IncomingKey) -> Result<&mut Work, Broken> {
        let found = self.works.iter_mut().find(|work| work.key == Some(key));
        found.ok_or_else(|| Broken(format!("an event about a handler that never started: {key:?}")))
    }

    fn dialect(&self) -> &'static Dialect {
        self.scene.dialects[self.role]
    }
}

/// How long a cancel waits for its request (D9).
const STICKY: Duration = Duration::from_millis(250);
