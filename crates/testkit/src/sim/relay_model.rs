//! What must be true of a relay, told by what its two sides have sent and seen and by nothing else.
//!
//! The model never looks into the machine. It knows the rules: what a party's
//! message obliges the relay to, what a party may hear, and in which order.

use core::{
    hash::{Hash, Hasher},
    time::Duration,
};
use std::{collections::VecDeque, sync::Arc};

use rescind_proto::{
    dialect::{Dialect, IdReuse},
    error_code,
    side::{Side, Sides},
    time::Instant,
};

use super::{
    ask::Ask,
    scene::{Method, PERMISSION, PROMPT, Scene},
    text::{self, Heard},
    world::{Broken, broken, never, none},
};

/// The model of one relay.
#[derive(Clone, Debug)]
pub struct RelayModel {
    scene: Arc<Scene>,
    /// Every request ever said; its place is its generation.
    pub asks: Vec<Ask>,
    /// What must reach a side, in this order, unless it may be dropped.
    owed: Sides<VecDeque<Owed>>,
    /// Ids whose duplicates a side must be told are refused.
    refusals: Sides<Vec<&'static str>>,
    /// Errors without an id that the client must be told for its garbage.
    nameless: usize,
    /// Cancels for requests that nobody has seen yet (D9).
    held: Vec<(Side, &'static str, Instant)>,
    /// Which side has gone away.
    pub away: Sides<bool>,
    /// Which side has ended its output.
    pub ended: Sides<bool>,
    /// Which side can no longer be written to.
    pub write_closed: Sides<bool>,
    /// Progress that was half written when its request was cancelled: it is finished.
    finishing: Sides<Option<usize>>,
    /// Unknown notifications said so far.
    pub plains: usize,
    /// Cancels of the turn that the client said and the server must hear, with the prompt that each cancelled.
    turn_cancels: Vec<(usize, Option<usize>)>,
    /// Cancels of the turn said so far.
    pub turn_cancels_said: usize,
    /// Updates of the turn said so far.
    pub updates: usize,
    /// The answer of a cancelled turn is in what is being read.
    turn_over: bool,
    /// When a request of the client last passed.
    passed: Option<Instant>,
}

/// Something that passes in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owed {
    Request(usize),
    Answer(usize),
    Progress(usize),
    Plain(usize),
    /// Whether it may be swallowed: the turn may have been answered for the agent.
    Update(usize, bool),
}

/// What a link holds that has begun and must be finished.
pub type Begun<'a> = dyn Fn(Side) -> Option<String> + 'a;

type Verdict = Result<(), Broken>;

impl RelayModel {
    /// Nothing said yet.
    pub fn new(scene: Arc<Scene>) -> Self {
        Self {
            scene,
            asks: Vec::new(),
            owed: Sides::from_fn(|_| VecDeque::new()),
            refusals: Sides::from_fn(|_| Vec::new()),
            nameless: 0,
            held: Vec::new(),
            away: Sides::from_fn(|_| false),
            ended: Sides::from_fn(|_| false),
            write_closed: Sides::from_fn(|_| false),
            finishing: Sides::from_fn(|_| None),
            plains: 0,
            turn_cancels: Vec::new(),
            turn_cancels_said: 0,
            updates: 0,
            turn_over: false,
            passed: None,
        }
    }

    /// `from` is about to send a request; which one it is.
    pub fn plan(&mut self, from: Side, id: &'static str, method: Method) -> usize {
        self.asks.push(Ask::new(from, id, method));
        self.asks.len() - 1
    }

    /// A request has arrived.
    pub fn said_request(&mut self, now: Instant, generation: usize) {
        let Ask { from, id, method, .. } = self.asks[generation];
        let mut ask = Ask { unsaid: false, ..Ask::new(from, id, method) };
        let to = from.other();
        if self.newest(from, id).is_some_and(|ask| self.asks[ask].is_live()) {
            ask.refused = true;
            if !self.write_closed[from] {
                self.refusals[from].push(id);
            }
        } else if self.take_held(now, from, id) && self.dialect(from).uncancellable(method).is_none() {
            ask.cancelled = true;
            ask.withdrawn = true;
            ask.over_at = self.dialect(from).is_silent().then_some(now);
        } else if self.write_closed[to] {
            ask.gone = true;
            ask.over_at = (from == Side::Server).then_some(now);
        } else if self.is_over_already(now, &ask) {
            ask.ended_here = true;
            ask.withdrawn = true;
        } else if from == Side::Client && self.is_limited(now) {
            ask.limited = true;
            ask.ended_here = true;
            ask.withdrawn = true;
        } else {
            if from == Side::Client {
                self.passed = Some(now);
            }
            ask.card = self.is_stopped(&ask).then(|| now + CARD);
            ask.deadline = self.scene.clock.filter(|_| from == Side::Client).map(|limit| now + limit);
            self.owed[to].push_back(Owed::Request(generation));
        }
        self.asks[generation] = ask;
    }

    /// Whether a limit lets no request of the client pass (D65).
    fn is_limited(&self, now: Instant) -> bool {
        self.scene.limit.zip(self.passed).is_some_and(|(per, at)| now.since(at) < per)
    }

    /// Bytes of `from` were no message: a client is told (D36).
    pub fn said_garbage(&mut self, from: Side) {
        if from == Side::Client && !self.write_closed[from] {
            self.nameless += 1;
        }
    }

    /// `from` cancels what it calls `id`.
    pub fn said_cancel(&mut self, now: Instant, from: Side, id: &'static str, begun: &Begun<'_>) {
        let Some(at) = self.newest(from, id).filter(|&at| !self.is_forgotten(now, &self.asks[at])) else {
            return self.hold(now, from, id);
        };
        if !self.scene.may_cancel(from, from, self.asks[at].method) || self.asks[at].cancelled {
            return;
        }
        let silent = self.dialect(from).is_silent();
        let answering = self.asks[at].is_live() && text::is_answering(begun(from).as_deref(), id);
        if !self.asks[at].is_live() || answering || (!silent && !self.asks[at].waits()) {
            return;
        }
        self.note_finishing(from, begun);
        if self.asks[at].answers_said == 0 {
            self.give_up(at, begun);
        }
        self.asks[at].cancelled = true;
        self.leave_to_grace(now, at);
        if silent {
            self.asks[at].over_at = Some(now);
        }
    }

    /// Whether the other side can answer once more and be understood: the id must still be remembered, for a
    /// forgotten one is matched loosely (D10), and must not have been used again.
    pub fn may_answer_again(&self, now: Instant, at: usize) -> bool {
        let ask = &self.asks[at];
        let alike = |later: &Ask| later.id.trim_matches('"') == ask.id.trim_matches('"') || later.seen == ask.seen;
        let used_again = self.asks[at + 1..].iter().any(|later| later.from == ask.from && alike(later));
        !self.is_forgotten(now, ask) && !used_again
    }

    /// `by` answers a request that it has seen.
    pub fn said_answer(&mut self, now: Instant, by: Side, at: usize, begun: &Begun<'_>) {
        let waits = self.asks[at].waits();
        let upstream = self.asks[at].seen.clone();
        let cancelling = match begun(by).as_deref().and_then(text::read) {
            Some(Heard::Cancel { id, .. }) => upstream.as_deref() == Some(id),
            Some(Heard::TurnCancel { number: None }) => self.asks[at].method == PROMPT,
            _ => false,
        };
        let forgotten = self.is_forgotten(now, &self.asks[at]) || self.write_closed[self.asks[at].from];
        let ask = &mut self.asks[at];
        ask.answers_said += 1;
        (ask.deadline, ask.card, ask.turn_ends) = (None, None, None);
        if ask.answers_said > 1 {
            return;
        }
        ask.answered_in_time = !forgotten;
        if ask.cancels_seen == 0 && !cancelling && !forgotten {
            ask.disarmed = true;
        }
        if waits {
            let to = ask.from;
            self.withdraw_progress(to, at, begun);
            let ask = &mut self.asks[at];
            if self.write_closed[to] {
                ask.over_at = Some(now);
                self.turn_is_over(at);
                self.end_turn(begun);
            } else {
                self.owed[to].push_back(Owed::Answer(at));
            }
        }
    }

    /// The answer of a request is queued for `to`: progress of it that has not begun to leave never does (D62).
    fn withdraw_progress(&mut self, to: Side, at: usize, begun: &Begun<'_>) {
        if !self.dialect(to).progress.is_some_and(|form| form.active_only) {
            return;
        }
        let mut is_begun = text::begun_progress(begun(to).as_deref()) == Some(at);
        self.owed[to].retain(|owed| *owed != Owed::Progress(at) || core::mem::take(&mut is_begun));
    }

    /// `by` reports progress of a request that it has seen.
    pub fn said_progress(&mut self, now: Instant, at: usize) {
        let waits = self.asks[at].waits();
        let ask = &mut self.asks[at];
        if !waits {
            return;
        }
        if ask.deadline.is_some() {
            ask.deadline = self.scene.clock.map(|limit| now + limit);
        }
        let to = ask.from;
        if !self.write_closed[to] {
            self.owed[to].push_back(Owed::Progress(at));
        }
    }

    /// The client cancels the turn: that passes, cancels its prompt, and gives its cards their time, once (D37).
    pub fn said_turn_cancel(&mut self, now: Instant, number: usize) {
        for card in self.asks.iter_mut().filter(|ask| is_card(ask) && ask.waits()) {
            card.card.get_or_insert(now + CARD);
        }
        let open = |ask: &Ask| ask.from == Side::Client && ask.method == PROMPT && ask.waits();
        let prompt = self.asks.iter().rposition(open).filter(|&at| !self.asks[at].cancelled);
        if let Some(at) = prompt {
            self.asks[at].cancelled = true;
            self.asks[at].deadline = None;
            self.asks[at].turn_ends = Some(now + TURN);
        }
        if !self.write_closed.server {
            self.turn_cancels.push((number, prompt));
        }
    }

    /// The server updates the turn.
    pub fn said_update(&mut self, now: Instant, number: usize) {
        let given_up = |ask: &&Ask| {
            let ended = ask.cancelled || ask.ended_here;
            is_prompt(ask) && ask.answers_said == 0 && ended && !self.is_forgotten(now, ask)
        };
        let turns = &self.asks[self.newest_turn()..];
        // After we answered for the agent, nothing of the turn passes until its own answer (D34).
        let muted = turns.iter().filter(given_up).any(|ask| ask.heard && ask.seen.is_some());
        let perhaps = turns.iter().any(|ask| given_up(&ask));
        let is_out = |ask: &Ask| !ask.withdrawn && (ask.seen.is_some() || !self.write_closed.server);
        // What passes is progress of the turn in flight (D16).
        if !turns.iter().filter(given_up).any(|ask| ask.heard && is_out(ask)) {
            let limit = self.scene.clock;
            for ask in self.asks.iter_mut().filter(|ask| ask.method == PROMPT && ask.deadline.is_some()) {
                ask.deadline = limit.map(|limit| now + limit);
            }
        }
        if !muted && !self.write_closed.client {
            self.owed.client.push_back(Owed::Update(number, perhaps));
        }
    }

    /// `by` says something that is nobody's business.
    pub fn said_plain(&mut self, by: Side, number: usize) {
        if !self.write_closed[by.other()] {
            self.owed[by.other()].push_back(Owed::Plain(number));
        }
    }

    /// An operator stops a request; whether there is anything to stop, where that can be told from outside.
    pub fn stopped(&mut self, at: usize, begun: &Begun<'_>) -> Option<bool> {
        if !self.asks[at].waits() {
            return Some(false);
        }
        if self.asks[at].cancelled {
            return None;
        }
        self.give_up(at, begun);
        // The turn of a session is over when its agent says so (D37).
        if self.asks[at].method == PROMPT && !self.asks[at].withdrawn && !self.write_closed[Side::Server] {
            self.asks[at].cancelled = true;
        } else {
            self.asks[at].ended_here = true;
            self.mute(at, begun);
            self.lose_answers(begun);
        }
        Some(true)
    }

    /// It is later now.
    pub fn passed(&mut self, now: Instant, begun: &Begun<'_>) {
        for at in 0..self.asks.len() {
            if self.asks[at].deadline.is_some_and(|due| due <= now) {
                if !self.asks[at].cancelled {
                    self.give_up(at, begun);
                }
                self.asks[at].deadline = None;
                self.asks[at].ended_here = true;
                self.mute(at, begun);
            }
            if self.asks[at].turn_ends.is_some_and(|due| due <= now) && self.asks[at].waits() {
                self.asks[at].turn_ends = None;
                self.mute(at, begun);
            }
        }
        self.close_cards(begun, |ask| ask.card.is_some_and(|due| due <= now));
    }

    /// `side` has gone away: what it asked is given up, and one that wants silence has it (D27).
    pub fn went_away(&mut self, now: Instant, side: Side, begun: &Begun<'_>) {
        self.away[side] = true;
        self.note_finishing(side, begun);
        for at in 0..self.asks.len() {
            if self.asks[at].from == side && self.asks[at].waits() && !self.asks[at].cancelled {
                self.give_up(at, begun);
                self.asks[at].cancelled = true;
                self.asks[at].over_at = self.dialect(side).is_silent().then_some(now);
                self.leave_to_grace(now, at);
            }
        }
        self.lose_answers(begun);
    }

    /// Progress that is half written for a side is finished.
    fn note_finishing(&mut self, side: Side, begun: &Begun<'_>) {
        self.finishing[side] = text::begun_progress(begun(side).as_deref()).or(self.finishing[side]);
    }

    /// `side` sends nothing more.
    pub fn has_ended(&mut self, now: Instant, side: Side, begun: &Begun<'_>) {
        self.ended[side] = true;
        if side == Side::Client {
            return;
        }
        for at in 0..self.asks.len() {
            let ask = &self.asks[at];
            if ask.from == Side::Client && ask.waits() {
                self.asks[at].gone = true;
                self.asks[at].deadline = None;
            }
            if self.asks[at].from == Side::Server && self.asks[at].is_live() {
                if self.asks[at].answers_said == 0 && !self.asks[at].cancelled {
                    self.give_up(at, begun);
                }
                self.asks[at].over_at = Some(now);
            }
        }
        self.became_deaf(now, Side::Server);
    }

    /// Nothing more can be written to `side`.
    pub fn became_deaf(&mut self, now: Instant, side: Side) {
        self.write_closed[side] = true;
        self.finishing[side] = None;
        self.refusals[side].clear();
        if side == Side::Server {
            self.turn_cancels.clear();
        }
        if side == Side::Client {
            self.nameless = 0;
        }
        for owed in core::mem::take(&mut self.owed[side]) {
            if let Owed::Answer(at) = owed {
                self.asks[at].over_at = Some(now);
                self.turn_is_over(at);
            }
        }
        for ask in &mut self.asks {
            if ask.from.other() == side {
                ask.cancel_due = false;
            }
        }
        if side == Side::Client {
            self.lose_answers(&|_| None);
        }
    }

    /// Everything that left in one write has been heard.
    pub fn heard_all(&mut self, begun: &Begun<'_>) {
        self.end_turn(begun);
    }

    /// A whole frame has reached `to`.
    pub fn heard(&mut self, now: Instant, to: Side, frame: &str) -> Verdict {
        let finishing = self.finishing[to].take();
        match text::read(frame) {
            None => broken(format!("{} hears what nobody said: {frame}", to.as_str())),
            Some(Heard::Plain { number }) => {
                self.take(to, Owed::Plain(number))?;
                same(frame, &text::plain(number))
            }
            Some(Heard::Update { number }) => {
                let owed = |owed: &&Owed| matches!(owed, Owed::Update(update, _) if *update == number);
                let found = self.owed[to].iter().find(owed).copied();
                self.take(to, found.unwrap_or(Owed::Update(number, false)))?;
                same(frame, &text::update(number))
            }
            Some(Heard::TurnCancel { number }) => self.heard_turn_cancel(to, frame, number),
            Some(Heard::Request { id, generation, .. }) => self.heard_request(to, frame, id, generation),
            Some(Heard::Cancel { method, id }) => self.heard_cancel(to, frame, method, id),
            Some(Heard::TaskCancel { id, generation }) => self.heard_task_cancel(to, frame, id, generation),
            Some(Heard::TaskGet { id, generation }) => self.heard_task_get(to, frame, id, generation),
            Some(Heard::Progress { generation }) => {
                let ask = self.ask(generation, to)?;
                never(ask.heard, || format!("progress of request {generation} after its answer"))?;
                never(!ask.is_live() && finishing != Some(generation) && !self.ended[to.other()], || {
                    format!("progress of request {generation} begun after silence was due (MCP-H04)")
                })?;
                self.take(to, Owed::Progress(generation))?;
                same(frame, &text::progress(self.dialect(to.other()), generation).unwrap_or_default())
            }
            Some(Heard::Answer { id, generation: Some(generation), code }) => {
                self.heard_answer(now, to, frame, id, generation, code)
            }
            Some(Heard::Answer { id, generation: None, code }) => self.heard_our_answer(now, to, frame, id, code),
        }
    }

    fn heard_request(&mut self, to: Side, frame: &str, id: &str, generation: usize) -> Verdict {
        let origin = to.other();
        let ask = self.ask(generation, origin)?;
        never(ask.refused, || format!("request {generation} was a duplicate and is passed on (D7)"))?;
        never(ask.withdrawn, || {
            format!("request {generation} was withdrawn before it began, and is seen (invariant 2)")
        })?;
        never(ask.seen.is_some(), || format!("request {generation} is seen twice"))?;
        same(frame, &text::request(self.dialect(origin), id, ask.method, generation))?;
        let is_used_up = self.dialect(to).reuse == IdReuse::Never && self.dialect(origin).reuse != IdReuse::Never;
        for (other, earlier) in self.asks.iter().enumerate() {
            let open = earlier.answers_said == 0;
            never(earlier.from == origin && earlier.seen.as_deref() == Some(id) && (open || is_used_up), || {
                format!("requests {other} and {generation} have the same id {id} upstream (D32)")
            })?;
        }
        self.asks[generation].seen = Some(id.to_owned());
        self.take(to, Owed::Request(generation))
    }

    /// A task whose handle nobody received is cancelled, once, under an id that nothing else has (D38).
    fn heard_task_cancel(&mut self, to: Side, frame: &str, id: &str, generation: usize) -> Verdict {
        let origin = to.other();
        let away = self.away[origin] || self.write_closed[origin];
        let taken = self.asks.iter().any(|ask| ask.from == origin && ask.seen.as_deref() == Some(id));
        let ask = self.ask(generation, origin)?;
        let given_up = ask.cancelled || ask.ended_here || away;
        never(ask.answers_said == 0 || ask.heard_theirs || !given_up, || {
            format!("the task of request {generation} is cancelled, which is its requester's affair")
        })?;
        never(ask.task_cancels > 0, || format!("the task of request {generation} is cancelled twice (D38)"))?;
        never(taken, || format!("the cancel of the task of request {generation} has the id {id} of a request (D32)"))?;
        self.asks[generation].task_cancels += 1;
        same(frame, &text::task_cancel(self.dialect(to), id, generation).unwrap_or_default())
    }

    /// A task that was cancelled is asked how it stands: twice at most (D56).
    fn heard_task_get(&mut self, to: Side, frame: &str, id: &str, generation: usize) -> Verdict {
        let ask = self.ask(generation, to.other())?;
        never(ask.task_cancels == 0, || format!("the task of request {generation} is looked at, and not cancelled"))?;
        never(ask.task_gets == 2, || format!("the task of request {generation} is looked at for ever"))?;
        self.asks[generation].task_gets += 1;
        same(frame, &text::task_get(self.dialect(to), id, generation).unwrap_or_default())
    }

    fn heard_cancel(&mut self, to: Side, frame: &str, method: &str, id: &str) -> Verdict {
        let origin = to.other();
        let form = self.dialect(to).cancel;
        never(method != form.method, || {
            format!("a cancel in a form that {} does not speak (D32): {frame}", to.as_str())
        })?;
        let named = self.asks.iter().rposition(|ask| ask.from == origin && ask.seen.as_deref() == Some(id));
        let Some(at) = named else {
            return broken(format!("a cancel for {id}, which {} has never seen (invariant 1)", to.as_str()));
        };
        let ask = &mut self.asks[at];
        never(ask.cancels_seen > 0, || format!("request {at} is cancelled twice (invariant 1)"))?;
        never(ask.disarmed, || format!("a cancel begun after the answer of request {at} had come (D15)"))?;
        never(!ask.cancel_due, || format!("request {at} is cancelled and nobody asked for it (invariant 5)"))?;
        ask.cancels_seen += 1;
        ask.cancel_due = false;
        if text::member(frame, "reason").is_none() { same(frame, &text::cancel(form, id)) } else { Ok(()) }
    }

    fn heard_turn_cancel(&mut self, to: Side, frame: &str, number: Option<usize>) -> Verdict {
        same(frame, &text::turn_cancel(number))?;
        never(to == Side::Client, || "the client is told to cancel its own turn".into())?;
        if let Some(number) = number {
            let place = self.turn_cancels.iter().position(|said| said.0 == number);
            let Some(place) = place else { return broken(format!("cancel {number} of the turn passes twice (D33)")) };
            return match self.turn_cancels.remove(place).1 {
                Some(at) if self.asks[at].seen.is_none() => {
                    broken(format!("the turn is cancelled before its request {at} is seen (invariant 1)"))
                }
                Some(_) | None => Ok(()),
            };
        }
        let due = |ask: &Ask| ask.from == Side::Client && ask.method == PROMPT && ask.cancel_due;
        let Some(at) = self.asks.iter().rposition(due) else {
            return broken("the turn is cancelled and nobody asked for it, or twice (D15, D37)");
        };
        never(self.asks[at].disarmed || self.asks[at].seen.is_none(), || {
            format!("the turn is cancelled before request {at} was seen, or after its answer (D15)")
        })?;
        self.asks[at].cancels_seen += 1;
        self.asks[at].cancel_due = false;
        Ok(())
    }

    fn heard_answer(
        &mut self,
        now: Instant,
        to: Side,
        frame: &str,
        id: Option<&str>,
        generation: usize,
        code: Option<i32>,
    ) -> Verdict {
        let ask = self.ask(generation, to)?;
        never(ask.heard, || format!("request {generation} is answered twice (invariant 4)"))?;
        never(ask.cancelled && self.dialect(to).is_silent(), || {
            format!("request {generation} is answered although silence was due (MCP-C06, D36)")
        })?;
        never(id != Some(ask.id), || {
            format!("the answer of request {generation}, which its requester calls {}, has id {id:?}", ask.id)
        })?;
        let expected = match code {
            Some(_) => text::cancelled(ask.id, generation),
            None if self.scene.tasks && ask.task_cancels > 0 => {
                return broken(format!("request {generation} gets the handle of a task that was cancelled (D38)"));
            }
            None if frame.contains(text::MENDED) => text::mended(ask.id, generation),
            None if self.scene.tasks => text::handle(ask.id, generation),
            None => text::result(ask.id, generation),
        };
        never(self.newest(to, ask.id) != Some(generation), || {
            format!("the answer of request {generation} reaches a later one with its id (D8)")
        })?;
        self.take(to, Owed::Answer(generation))?;
        self.asks[generation].heard_theirs = true;
        self.is_answered(now, generation);
        same(frame, &expected)
    }

    /// An answer that no party wrote.
    fn heard_our_answer(
        &mut self,
        now: Instant,
        to: Side,
        frame: &str,
        id: Option<&str>,
        code: Option<i32>,
    ) -> Verdict {
        if id.is_none_or(|id| id == "null") && code == Some(error_code::PARSE_ERROR) && self.nameless > 0 {
            self.nameless -= 1;
            return Ok(());
        }
        let Some(id) = id else { return broken(format!("an answer to nobody: {frame}")) };
        if code == Some(error_code::INVALID_REQUEST) {
            let Some(place) = self.refusals[to].iter().position(|refused| *refused == id) else {
                return broken(format!("a request that was no duplicate is refused: {frame}"));
            };
            self.refusals[to].remove(place);
            return Ok(());
        }
        let Some(at) = self.newest(to, id) else { return broken(format!("an answer to nobody: {frame}")) };
        let silent = self.dialect(to).is_silent();
        let ask = &self.asks[at];
        never(ask.heard, || format!("request {at} is answered twice (invariant 4): {frame}"))?;
        never(ask.cancelled && silent, || {
            format!("request {at} is answered although silence was due (MCP-C06, D36): {frame}")
        })?;
        let lawful = match code {
            Some(error_code::TIMED_OUT | error_code::STOPPED_BY_OPERATOR) => ask.ended_here,
            Some(error_code::UPSTREAM_GONE) => ask.gone,
            Some(error_code::LIMITED) => ask.limited,
            Some(error_code::REQUEST_CANCELLED) => !silent && (ask.cancelled || ask.ended_here),
            Some(_) => false,
            None => self.dialect(to).cancel_result(ask.method).is_some() && (ask.cancelled || ask.ended_here),
        };
        never(!lawful, || format!("request {at} is answered for the other side without a reason: {frame}"))?;
        self.asks[at].muted |= self.asks[at].method == PROMPT && self.is_open_upstream(at);
        self.is_answered(now, at);
        Ok(())
    }

    /// The requester has an answer.
    fn is_answered(&mut self, now: Instant, at: usize) {
        self.asks[at].heard = true;
        self.turn_is_over(at);
        self.asks[at].over_at = Some(now);
    }

    /// Whether the request has been over for longer than anything is remembered (D8).
    pub fn is_forgotten(&self, now: Instant, ask: &Ask) -> bool {
        ask.over_at.is_some_and(|at| now.since(at) >= self.scene.config.remember.1)
    }

    /// Whether a request is cancelled and over for the client that made it, and nothing has shown that its server has ended
    /// it (D52). `None` where the wire alone does not tell.
    #[must_use]
    pub fn is_released(&self, now: Instant, at: usize) -> Option<bool> {
        let ask = &self.asks[at];
        let is_given_up = ask.cancelled || ask.ended_here;
        let is_cut_off = self.ended.server || self.write_closed.server || self.write_closed.client;
        let is_unsure = is_cut_off || ask.unsaid || self.is_forgotten(now, ask);
        // Half a request may be at the server already.
        let is_known = ask.seen.is_some() || ask.withdrawn || !is_given_up;
        let is_over = ask.over_at.is_some();
        (!is_unsure && is_known).then_some(is_given_up && is_over && !ask.withdrawn && ask.answers_said == 0)
    }

    /// Whether everything that was owed has come, with every link flushed and every timer fired.
    ///
    /// # Errors
    ///
    /// What is missing.
    pub fn check_settled(&self) -> Verdict {
        for side in Side::BOTH {
            none(self.owed[side].iter().find(|owed| !self.may_drop(owed)), |owed| {
                format!("{} never hears {owed:?}", side.as_str())
            })?;
            never(!self.refusals[side].is_empty(), || {
                format!("{} is never told that {:?} are duplicates (D7)", side.as_str(), self.refusals[side])
            })?;
        }
        never(!self.turn_cancels.is_empty(), || "the client's own cancel of the turn never passes (D37)".into())?;
        never(self.nameless > 0, || "the client is never told of its garbage (D36)".into())?;
        for (at, ask) in self.asks.iter().enumerate() {
            let silent = self.dialect(ask.from).is_silent();
            let due = ask.ended_here || ask.gone || ask.answers_said > 0 || (ask.cancelled && !silent);
            never(ask.is_live() && due && !self.write_closed[ask.from], || {
                format!("request {at} is never answered (D34)")
            })?;
            let orphan = self.scene.tasks && ask.answered_in_time && (ask.cancelled || ask.ended_here);
            let to = ask.from.other();
            never(
                orphan && !ask.heard_theirs && ask.task_cancels == 0 && !self.write_closed[to] && !self.ended[to],
                || format!("the task of request {at} is nobody's and goes on (D38)"),
            )?;
            never(ask.card.is_some() && ask.waits(), || {
                format!("card {at} outlives the client's stop of its turn (D37)")
            })?;
            never(ask.cancel_due && ask.seen.is_some() && ask.answers_said == 0, || {
                format!("the cancel of request {at} never reaches the other side")
            })?;
        }
        Ok(())
    }

    /// Feeds the model into a hasher.
    pub fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        let Self {
            scene: _,
            asks,
            owed,
            refusals,
            nameless,
            held,
            away,
            ended,
            write_closed,
            finishing,
            plains,
            turn_cancels,
            turn_cancels_said,
            updates,
            turn_over,
            passed,
        } = self;
        asks.iter().for_each(|ask| ask.hash_state(now, state));
        (owed, refusals, finishing, away, ended, write_closed).hash(state);
        (plains, nameless, turn_cancels, turn_cancels_said, updates, turn_over).hash(state);
        passed.filter(|_| self.scene.limit.is_some()).map(|at| now.since(at)).hash(state);
        held.iter().for_each(|(side, id, until)| (side, id, until.since(now)).hash(state));
    }

    /// The machine gives a request up on the other side: withdrawn, if nothing of it is out, else cancelled.
    fn give_up(&mut self, at: usize, begun: &Begun<'_>) {
        let (from, method) = (self.asks[at].from, self.asks[at].method);
        let to = from.other();
        let ask = &mut self.asks[at];
        ask.deadline = None;
        if self.write_closed[to] || ask.withdrawn || ask.cancel_due || ask.cancels_seen > 0 {
            return;
        }
        if ask.seen.is_none() && text::begun_request(begun(to).as_deref()) != Some(at) {
            ask.withdrawn = true;
            return;
        }
        ask.cancel_due = self.scene.may_cancel(from, to, method);
        if method == PROMPT {
            self.asks[at].stopped_by_us = true;
            self.close_cards(begun, |_| true);
        }
    }

    /// Cards that the agent has shown in the turn are answered for the client (ACP-08, D37).
    fn close_cards(&mut self, begun: &Begun<'_>, wanted: impl Fn(&Ask) -> bool) {
        for at in 0..self.asks.len() {
            let ask = &self.asks[at];
            if is_card(ask) && ask.waits() && wanted(ask) {
                if !ask.cancelled {
                    self.give_up(at, begun);
                }
                self.asks[at].ended_here = true;
                self.asks[at].card = None;
            }
        }
    }

    /// Whether a new request is a card that nobody is shown: we have stopped its turn, or answered that for the agent.
    fn is_over_already(&self, now: Instant, ask: &Ask) -> bool {
        let is_muted =
            |at: usize| self.asks[at].muted && self.is_open_upstream(at) && !self.is_forgotten(now, &self.asks[at]);
        let stopped = self.open_prompt().is_some_and(|turn| turn.cancelled && turn.stopped_by_us);
        is_card(ask) && (stopped || (self.newest_turn()..self.asks.len()).any(is_muted))
    }

    /// The newest prompt that the agent has been given: what comes then can be of that one, and of no earlier one alone (D34).
    fn newest_turn(&self) -> usize {
        self.asks.iter().rposition(|ask| is_prompt(ask) && ask.seen.is_some()).unwrap_or_default()
    }

    /// Whether it is a card of a turn that is cancelled.
    fn is_stopped(&self, ask: &Ask) -> bool {
        is_card(ask) && self.open_prompt().is_some_and(|turn| turn.cancelled)
    }

    /// The turn that waits for its answer.
    fn open_prompt(&self) -> Option<&Ask> {
        self.asks.iter().rfind(|ask| ask.from == Side::Client && ask.method == PROMPT && ask.waits())
    }

    /// Whether the other side may still answer a request.
    fn is_open_upstream(&self, at: usize) -> bool {
        let ask = &self.asks[at];
        let is_lost = ask.seen.is_none() && self.write_closed[ask.from.other()];
        !ask.withdrawn && !ask.gone && ask.answers_said == 0 && !is_lost
    }

    /// A turn was cancelled that the agent could not be told of: the machine waits for its answer no longer than for
    /// another's.
    fn leave_to_grace(&mut self, now: Instant, at: usize) {
        if self.asks[at].method == PROMPT && !self.asks[at].stopped_by_us && self.is_open_upstream(at) {
            self.asks[at].turn_ends = Some(now + self.scene.config.grace);
        }
    }

    /// The machine answers a turn for the agent, which may still answer it.
    fn mute(&mut self, at: usize, begun: &Begun<'_>) {
        if self.asks[at].method == PROMPT && self.is_open_upstream(at) {
            self.asks[at].muted = true;
            self.turn_is_over(at);
            self.end_turn(begun);
        }
    }

    /// If this is a cancelled turn, the cards whose time runs end with it.
    fn turn_is_over(&mut self, at: usize) {
        let ask = &self.asks[at];
        self.turn_over |= ask.method == PROMPT && (ask.cancelled || ask.ended_here);
    }

    /// Answers of ours to a client that can no longer be written to are lost, and so their turns are over.
    fn lose_answers(&mut self, begun: &Begun<'_>) {
        if !self.write_closed.client {
            return;
        }
        for at in 0..self.asks.len() {
            if self.asks[at].is_live() && !self.asks[at].waits() {
                self.turn_is_over(at);
            }
        }
        self.end_turn(begun);
    }

    fn end_turn(&mut self, begun: &Begun<'_>) {
        if core::mem::take(&mut self.turn_over) {
            self.close_cards(begun, |ask| ask.card.is_some());
        }
    }

    fn hold(&mut self, now: Instant, from: Side, id: &'static str) {
        let lawful = self.scene.may_cancel(from, from, "");
        let known = self.held.iter().any(|held| held.0 == from && held.1 == id && held.2 > now);
        if self.dialect(from).sticky && lawful && !known {
            self.held.push((from, id, now + STICKY));
        }
    }

    fn take_held(&mut self, now: Instant, from: Side, id: &'static str) -> bool {
        self.held.retain(|held| held.2 > now);
        let found = self.held.iter().position(|held| held.0 == from && held.1 == id);
        found.map(|at| self.held.remove(at)).is_some()
    }

    /// What reaches a side does so in order, and nothing that had to come before it is missing.
    fn take(&mut self, to: Side, what: Owed) -> Verdict {
        let Some(place) = self.owed[to].iter().position(|owed| *owed == what) else {
            return broken(format!(
                "{} hears {what:?} out of order, twice, or although it was to be swallowed",
                to.as_str()
            ));
        };
        for owed in self.owed[to].drain(..=place).collect::<Vec<_>>() {
            never(owed != what && !self.may_drop(&owed), || {
                format!("{} hears {what:?} and never {owed:?}, which came first (D33)", to.as_str())
            })?;
        }
        Ok(())
    }

    fn may_drop(&self, owed: &Owed) -> bool {
        match *owed {
            Owed::Request(at) => self.asks[at].withdrawn,
            Owed::Answer(at) => !self.asks[at].is_live(),
            Owed::Progress(at) => self.asks[at].cancelled || !self.asks[at].waits(),
            Owed::Plain(_) => false,
            Owed::Update(_, perhaps) => perhaps,
        }
    }

    /// The newest request that the machine has taken in under this id.
    fn newest(&self, from: Side, id: &str) -> Option<usize> {
        self.asks.iter().rposition(|ask| ask.from == from && ask.id == id && !ask.refused && !ask.unsaid)
    }

    fn ask(&self, generation: usize, from: Side) -> Result<&Ask, Broken> {
        let found = self.asks.get(generation).filter(|ask| ask.from == from);
        found.ok_or_else(|| Broken(format!("something for request {generation}, which {} never made", from.as_str())))
    }

    fn dialect(&self, side: Side) -> &'static Dialect {
        self.scene.dialects[side]
    }
}

fn is_prompt(ask: &Ask) -> bool {
    ask.from == Side::Client && ask.method == PROMPT
}

fn is_card(ask: &Ask) -> bool {
    ask.from == Side::Server && ask.method == PERMISSION
}

/// How long a client may leave a card unanswered once it has stopped the turn (D37).
const CARD: Duration = Duration::from_secs(1);

/// How long an agent may leave a cancelled turn unanswered (D34).
const TURN: Duration = Duration::from_secs(30);

/// How long a cancel waits for its request (D9).
const STICKY: Duration = Duration::from_millis(250);

fn same(frame: &str, expected: &str) -> Verdict {
    never(frame != expected, || format!("not byte for byte (D33): expected {expected}, found {frame}"))
}
