//! Two sides of one link, joined (D32–D36).
//!
//! A relay stands between a client and a server and is neither. What is not about a request passes byte for byte. A
//! request is kept as one exchange with two faces: what the other side knows of it, and what its requester has been
//! given. A cancel is never tunnelled: it ends here, and a cancel of the relay's own goes on, in the other side's dialect
//! and with the id that side knows (D32).
//!
//! A relay could be two connections back to back. It is not: a connection owns handlers, admission and answers, and a
//! relay has none of them. The two share the tables, queues and words below them.
//!
//! The two sides' bytes are separate queues, not one stream of outputs, because either side may be blocked while the other
//! flows. Within a side frames leave in the order in which they were queued, except that a cancel passes whole frames that
//! have not begun (D13). It never passes its own request: a request of which no byte has left is withdrawn instead, and
//! then no cancel is sent (invariants 1 and 2 of [`connection`](crate::connection)).
//!
//! Inside, `Relay::with` is the one door to a request: it looks it up and hands a `Step` both the request and
//! everything that it may touch beside it. A request that is forgotten has no steps. What a step cannot do, since it
//! concerns other requests, it leaves as a `Followup`: that is done as soon as the step returns, before anything else.
//!
//! A link of an unknown protocol (D57) takes none of these steps: `opaque` passes everything and follows requests only. So
//! does one of Codex's app server (D58), where the work of a turn is followed, too (`thread_turn`).

mod answer;
mod arguments;
mod bad_input;
mod batch;
mod bridged;
mod cancel;
mod child;
mod clocks;
mod config;
mod departing;
mod early_welcome;
mod end;
mod event;
mod exchange;
mod exchanges;
mod held_prompt;
mod last_lines;
mod limits;
mod link;
mod opaque;
mod proof;
mod receive;
mod reporting;
mod request;
mod restart;
mod session_work;
mod sessions;
mod settle;
mod tally;
mod task;
mod task_work;
mod tasks;
mod thread_item;
mod thread_turn;
mod threads;
mod turn;
mod view;

use std::sync::Arc;

pub use crate::early_cancels::EarlyCancelLimits;
pub use arguments::ArgumentsView;
pub use child::{ChildParent, ChildView};
pub use config::{ClockRule, Emit, GraceRule, RelayConfig, SettingNames};
pub use early_welcome::WelcomeNews;
pub use end::{End, EndedBy, EndedServer};
pub use event::{Hop, RelayEvent, Settled, StuckSign, TaskNews};
pub use limits::{ErrorLimit, LimitRules, RateLimit, RepeatLimit};
pub use reporting::OwnMessage;
pub use tally::{Histogram, Tally, WordCounts};
pub use view::{Ended, ProgressView, RequestState, RequestSummary, RequestView, TaskView};

use crate::{
    bridge::Bridge,
    cause::CauseCode,
    children::Children,
    dialect::{Dialect, TurnForm, negotiation::Negotiation},
    early_cancels::EarlyCancels,
    framing::{Decoder, Framing},
    hash::Seed,
    id::RequestId,
    link::{Implementation, RequestKey},
    method::Methods,
    receipt::{Answer, Outcome},
    side::{Side, Sides},
    slab::{Key, Slab},
    standstill::Standstill,
    table::Rings,
    task::{TaskEnd, TaskStatus},
    time::Instant,
    timer_queue::{TimerKey, TimerQueue},
    turns::Turns,
};
use arguments::Arguments;
use early_welcome::EarlyWelcome;
use exchange::{Cancelling, Exchange};
use exchanges::Exchanges;
use limits::Limits;
use link::{Link, PackedTag, Tag};
use reporting::Reports;
use restart::Restart;
use sessions::ReportedWork;
use task_work::{TaskAsk, TaskReport, TaskSeen};
use tasks::Tasks;
use threads::Threads;

/// A relay between a client and a server.
///
/// # Contract
///
/// All calls take the time, which never goes back. A driver repeats these steps:
///
/// 1. It hands in what has happened: bytes of a side ([`handle_input`](Self::handle_input)) while
///    [`wants_input`](Self::wants_input) says so, the end of a side ([`handle_eof`](Self::handle_eof),
///    [`handle_write_closed`](Self::handle_write_closed)), and the time, once [`poll_timeout`](Self::poll_timeout) is due
///    ([`handle_timeout`](Self::handle_timeout)).
/// 2. It writes [`pending`](Self::pending) to *both* sides, as far as each takes it. After each write it calls
///    [`handle_written`](Self::handle_written) before anything else: until then a request counts as not sent, and a cancel
///    takes it back. Where what carries the bytes to the server can still take back what it was given
///    ([`server_departs`](RelayConfig::server_departs)), it hands in what became of that
///    ([`handle_departure`](Self::handle_departure)), before the answer that followed.
/// 3. It drains [`poll_event`](Self::poll_event). An event is of the time of the call after which it is polled. Three of
///    them ask for something: [`GivenUp`](RelayEvent::GivenUp) to end a side, `TimedOut` and `Stuck` for a person's
///    attention.
/// 4. It asks `poll_timeout` and `wants_input` anew, since any call may have changed both.
///
/// Orders of an operator ([`stop`](Self::stop)) come in as step 1 does.
///
/// ```
/// use rescind_proto::{receipt::Outcome, relay::{Relay, RelayConfig, RelayEvent}, side::{Side, Sides}, time::Instant};
///
/// let (mut relay, now) = (Relay::new(RelayConfig::default()), Instant::ORIGIN);
/// let (mut written, mut outcomes) = (Sides::<String>::default(), Vec::new());
/// let mut hand_in = |side: Side, line: &str| {
///     relay.handle_input(now, side, format!("{line}\n").as_bytes());
///     for side in Side::BOTH {
///         // These sides take all that there is. One that takes less is asked again when it can be written.
///         while let len @ 1.. = relay.pending(side).len() {
///             written[side].push_str(str::from_utf8(relay.pending(side)).unwrap());
///             relay.handle_written(now, side, len);
///         }
///     }
///     while let Some(event) = relay.poll_event() {
///         if let RelayEvent::Receipt { receipt, .. } = event {
///             outcomes.push(receipt.outcome);
///         }
///     }
///     assert!(relay.wants_input(side));
/// };
/// hand_in(Side::Client, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}"#);
/// hand_in(Side::Client, r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
/// // Too late: its client hears nothing more of this call.
/// hand_in(Side::Server, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
///
/// assert_eq!(written.server.lines().count(), 2, "the call and its cancel");
/// assert_eq!(written.client, "");
/// assert!(matches!(outcomes[..], [Outcome::Asked, Outcome::Sent, Outcome::AnsweredAfter { .. }]));
/// ```
#[derive(Clone, Debug)]
pub struct Relay {
    /// By who sent the requests.
    tables: Sides<Exchanges>,
    /// Cancels that overtook their request (D9).
    early_cancels: Sides<EarlyCancels>,
    /// When [`Timer::Tombstones`] is armed.
    tombstones_due: TimerKey,
    /// Frames that have just left, with their lengths; empty between calls.
    left: Vec<(PackedTag, usize)>,
    /// What the members of the batches in the outboxes are.
    bundles: Slab<Box<[Tag]>>,
    /// What stands between it and a server of another era, as long as one may be needed.
    bridge: Option<Box<Bridge>>,
    core: Core,
}

/// What a step may touch beside the request that it works on.
#[derive(Clone, Debug)]
struct Core {
    config: RelayConfig,
    negotiation: Negotiation,
    framing: Framing,
    links: Sides<Link>,
    methods: Methods,
    /// The tools and prompts that requests name, as JSON.
    names: Methods,
    /// The clocks of each side's response limits: one stands while that side has a question to answer (D49).
    questions: Sides<Standstill>,
    timers: TimerQueue<Timer>,
    /// The client's turns in flight (D37), and its loads of sessions (D16).
    turns: Turns,
    /// The agent's cards in flight: what it asks a person within a session (D37).
    cards: Turns,
    /// Sessions that the agent opened for parts of the work (D54).
    children: Children,
    /// Sessions whose turn we answered while the agent had not (ACP-08), and which it has been given no later turn of.
    muted: Vec<(Box<[u8]>, Key)>,
    /// Prompts that wait for the turn before them (D60).
    held: Turns,
    /// The bytes of those.
    held_bytes: usize,
    /// The tasks at work that requests of each side became (D56).
    tasks: Sides<Tasks>,
    /// The status that the server itself reports of the task which the message that is being taken in is about, where the
    /// bridge has to say more of it for the client's era.
    task_at_server: Option<TaskStatus>,
    /// Requests of the relay's own that have not left, by the side for which they are made.
    unsent_own: Sides<usize>,
    /// What works in the threads of a link whose turns end with a notification (D58); absent while there is nothing.
    threads: Option<Box<Threads>>,
    /// The work of sessions that report it by themselves (D55); absent while there is nothing.
    sessions: Option<Box<ReportedWork>>,
    /// What each side calls itself.
    implementations: Sides<Option<Implementation>>,
    reports: Reports,
    /// Requests that were forgotten for want of room while they were shown as stuck or released (D52).
    unkept_released: u64,
    /// Present where a limit is set (D65).
    limits: Option<Box<Limits>>,
    /// Present where the arguments of requests in flight are kept.
    arguments: Option<Box<Arguments>>,
    /// Present where a server that has died is started again (D64).
    restart: Option<Box<Restart>>,
    /// Present where a client is welcomed before its server has started (D70).
    welcome: Option<Box<EarlyWelcome>>,
    /// What the step that is being taken leaves to be done; empty between steps.
    followups: Vec<Followup>,
    /// How the server's input ended.
    server_end: Option<End>,
    /// Who asked it to end before.
    ended_by: Option<EndedBy>,
    /// What else its driver knows of its end.
    ended_server: Option<Box<EndedServer>>,
    /// How many requests the client had sent when the server ended, if it may not know of the end.
    untold_end: Option<u64>,
}

/// A request, and what a step on it may touch.
struct Step<'a> {
    now: Instant,
    request: RequestKey,
    exchange: &'a mut Exchange,
    rings: &'a mut Rings,
    /// It settled the request: others may have to be forgotten for it.
    has_settled: bool,
    core: &'a mut Core,
}

/// What a step leaves to be done with other requests.
#[derive(Clone, Debug)]
enum Followup {
    /// A question to this side is over: with the last, the response clocks of its requests go on.
    QuestionOver(Side),
    /// The agent has been given this prompt of this session.
    TurnBegun(Box<[u8]>, Key),
    /// We cancelled the turn of this session: its cards end with it.
    TurnCancelled(Box<[u8]>, CauseCode),
    /// The cancelled turn of this session is over: cards whose time runs end with it.
    TurnOver(Box<[u8]>),
    /// A turn of this session will not be answered any more: the next one may have waited for that (D60).
    TurnEnded(Box<[u8]>),
    /// The turn of this session, this request, was cancelled.
    TurnStopped(Box<[u8]>, Key),
    /// The agent has closed this session.
    SessionClosed(Box<[u8]>),
    /// The client's request to cancel this turn has left (D58).
    InterruptLeft(Key),
    /// This turn, command or task is cancelled by a request of our own (D56, D58).
    CancelWork(RequestKey),
    /// This item of background work is cancelled by a request of our own (D55).
    CancelItem(RequestKey),
    /// The cancel of this work was refused: it goes on (D55).
    Unheeded(RequestKey),
    /// The agent has inserted this prompt of this session (D55).
    Inserted(Box<[u8]>, Key),
    /// The handle that answered this request reaches nobody.
    Orphaned(RequestKey),
    /// The answer to this request was the handle of a task, which shows this of it.
    TaskMade(RequestKey, TaskSeen),
    /// A request about this task was answered so.
    TaskReported(RequestKey, TaskAsk, TaskReport),
    /// A cancel of this task has left.
    TaskCancelLeft(RequestKey),
    /// A cancel of this task was taken back.
    TaskCancelWithdrawn(RequestKey),
    /// Its cancel is over or acknowledged, and its status is to be asked for.
    CheckTask(RequestKey),
    /// This request was cancelled, and waited for what the task under that key leads to.
    WaitCancelled(RequestKey, Key),
    /// The task that this cancelled request waited for is over.
    WaitOver(RequestKey, TaskEnd),
    /// The task that this request became is cancelled, and this is known of that.
    TaskLearnt(RequestKey, Option<Instant>, Outcome),
    /// This is what came of our request to cancel a task, which that request became, or which stands under that key.
    TaskCancelled(RequestKey, Box<[u8]>, Outcome),
    /// This answer came for a request that is over.
    Late(RequestKey, Answer),
}

/// Everything that can become due.
#[derive(Clone, Copy, Debug)]
enum Timer {
    /// The clocks of a request (D16).
    Clocks(RequestKey),
    /// The grace of a cancelled request (D34).
    Grace(RequestKey),
    /// The time of a card whose turn the client has stopped (D37).
    Card(RequestKey),
    /// A prompt waits no longer for the turn before it (D60).
    Held(RequestKey),
    /// What came late of a cancelled request's work may have been the last of it.
    Quiet(RequestKey),
    /// A server that was started again has not answered our greeting (D64).
    Greeting,
    /// Who waits for a server that has not started is to be told so (D70).
    StillStarting,
    /// The server of a cancelled task wants to be asked for its status again.
    AskAgain(RequestKey),
    /// The oldest early cancel (D9).
    EarlyCancels(Side),
    /// The oldest tombstone (D8).
    Tombstones,
    /// A side that does not read (D13).
    Stalled(Side),
}

/// Entries for which room is kept while there are none.
const KEPT_RECORDS: usize = 256;

impl Relay {
    /// A relay that has seen nothing.
    #[must_use]
    pub fn new(mut config: RelayConfig) -> Self {
        let seed = Seed::new(config.seed);
        // What is known is kept in one place.
        let known = config.welcomes.as_mut().map(core::mem::take);
        let mut relay = Self {
            tables: Sides::from_fn(|_| Exchanges::new(seed, config.remembered, config.remember)),
            early_cancels: Sides::from_fn(|side| EarlyCancels::new(config.early_cancels[side], seed)),
            tombstones_due: TimerKey::NOT,
            left: Vec::new(),
            bundles: Slab::new(),
            bridge: config.bridge(),
            core: Core {
                negotiation: Negotiation::new(config.dialects).or_unknown(config.unknown),
                framing: config.framing.unwrap_or(Framing::Line),
                links: Sides::from_fn(|_| Link::new(&config)),
                methods: Methods::new(seed),
                names: Methods::new(seed),
                questions: Sides::from_fn(|_| Standstill::new()),
                timers: TimerQueue::new(),
                turns: Turns::new(seed),
                cards: Turns::new(seed),
                children: Children::new(seed),
                muted: Vec::new(),
                held: Turns::new(seed),
                held_bytes: 0,
                tasks: Sides::from_fn(|_| Tasks::new(seed)),
                task_at_server: None,
                unsent_own: Sides::default(),
                threads: None,
                sessions: None,
                implementations: Sides::default(),
                reports: Reports::new(&config),
                unkept_released: 0,
                limits: Limits::new(&config.limits, seed),
                arguments: config.keeps_arguments.then(Box::default),
                restart: config.restart.then(Box::default),
                welcome: known.map(|known| Box::new(EarlyWelcome::new(known))),
                followups: Vec::new(),
                server_end: None,
                ended_by: None,
                ended_server: None,
                untold_end: None,
                config,
            },
        };
        relay.set_departs();
        relay
    }

    /// Stops waiting for `side` to read what waits for it. Emits [`RelayEvent::GivenUp`].
    pub fn give_up(&mut self, side: Side) {
        let unsent = self.core.links[side].outbox.unsent();
        self.core.reports.emit(RelayEvent::GivenUp { side, unsent });
    }

    /// Records who asked the server to end: answers about its end will say so. The first who asked counts, since what
    /// comes later only hastens it.
    pub fn note_ended_by(&mut self, by: EndedBy) {
        self.core.ended_by.get_or_insert(by);
    }

    /// The next bytes for `side`; empty if there are none. Report what was written before anything else.
    #[inline]
    #[must_use]
    pub fn pending(&self, side: Side) -> &[u8] {
        match &self.bridge {
            Some(bridge) if side == Side::Server => bridge.pending(),
            Some(_) | None => self.core.links[side].pending(),
        }
    }

    /// Whether `side` should be read: false while what it sent cannot be passed on, or while it leaves unread what its own
    /// bad input has cost (D13, invariant 7).
    #[must_use]
    pub fn wants_input(&self, side: Side) -> bool {
        let (own, other) = (&self.core.links[side], &self.core.links[side.other()]);
        let bound = self.core.config.max_backlog;
        // A refusal counts as a whole until its last byte has left.
        other.outbox.backlog().saturating_sub(other.own_backlog) <= bound && own.own_backlog <= bound
    }

    /// The side that leaves so much unread that the other one is no longer read, and may be blocked by that (D13).
    #[must_use]
    pub fn held_up_by(&self) -> Option<Side> {
        let unread = |side: &Side| {
            let link = &self.core.links[*side];
            link.outbox.backlog().saturating_sub(link.own_backlog) > self.core.config.max_backlog
        };
        Side::BOTH.into_iter().find(unread)
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let bridge = self.bridge.as_ref().and_then(|bridge| bridge.poll_timeout());
        self.core.timers.next().into_iter().chain(bridge).min()
    }

    /// Whether the next bytes from `side` begin a message, as far as its bytes have been taken in.
    #[must_use]
    pub fn is_between_messages(&self, side: Side) -> bool {
        self.core.links[side].decoder.as_deref().is_some_and(Decoder::is_between_messages)
    }

    /// Requests of `side` in flight.
    #[must_use]
    pub fn in_flight(&self, side: Side) -> usize {
        self.tables[side].live() - self.core.unsent_own[side]
    }

    /// Requests of `side` whose answer it still waits for, or gets: those in flight without the tasks, turns and commands
    /// that are followed by themselves (D55, D56, D58).
    #[must_use]
    pub fn awaited(&self, side: Side) -> usize {
        let work = if side == Side::Client { self.core.followed_work().count() } else { 0 };
        let work = work + self.core.tasks[side].len();
        self.in_flight(side).saturating_sub(work)
    }

    /// Settled requests of `side` that are still remembered.
    #[must_use]
    pub fn remembered(&self, side: Side) -> usize {
        self.tables[side].retired()
    }

    /// What has been counted since the start.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.core.reports.tally
    }

    /// What `side` called itself in its handshake: untrusted.
    #[must_use]
    pub fn implementation(&self, side: Side) -> Option<&Implementation> {
        self.core.implementations[side].as_ref()
    }

    /// The dialect spoken with `side`; a guess until something telling has passed.
    #[must_use]
    pub fn dialect(&self, side: Side) -> &'static Dialect {
        self.core.spoken(side)
    }
}

impl Core {
    /// What is known of threads, which is there from now on (D58).
    fn threads(&mut self) -> &mut Threads {
        let seed = Seed::new(self.config.seed);
        self.threads.get_or_insert_with(|| Box::new(Threads::new(seed)))
    }

    /// What `side` speaks, as far as it is known.
    fn spoken(&self, side: Side) -> &'static Dialect {
        self.negotiation.of(side, self.framing)
    }

    /// Whether a request is a turn to its requester; or the foreground work of its session, where a prompt is not (D55).
    fn is_turn(&self, exchange: &Exchange) -> bool {
        exchange.dialect.turn.is_some_and(|turn| match turn.work {
            Some(_) => exchange.is_foreground(),
            None => self.methods.name(exchange.method) == turn.prompt,
        })
    }

    /// Whether the client of a cancelled turn waits for its agent (D61). Nobody waits for work that is only followed.
    fn may_be_released(&self, from: Side, exchange: &Exchange) -> bool {
        let awaits_answer = exchange.cancel.as_deref().is_some_and(|cancel| cancel.grace.is_armed());
        from == Side::Client && exchange.is_waiting() && awaits_answer && !exchange.is_work() && self.is_turn(exchange)
    }

    /// Whether a request loads a session (D16).
    fn is_load(&self, exchange: &Exchange) -> bool {
        exchange.dialect.turn.is_some_and(|turn| turn.loads.contains(&self.methods.name(exchange.method)))
    }

    /// The entries of work that is followed and is not a request (D55, D58).
    fn followed_work(&self) -> impl Iterator<Item = Key> {
        let of_threads = self.threads.iter().flat_map(|threads| threads.entries());
        of_threads.chain(self.sessions.iter().flat_map(|sessions| sessions.entries()))
    }
}

impl Relay {
    /// Takes a step on a request; `None` if it is forgotten.
    #[inline]
    fn with<T>(&mut self, now: Instant, request: RequestKey, step: impl FnOnce(&mut Step<'_>) -> T) -> Option<T> {
        let (exchange, rings) = self.tables[request.from].entry_mut(request.key)?;
        let mut step_taken = Step { now, request, exchange, rings, has_settled: false, core: &mut self.core };
        let done = step(&mut step_taken);
        if step_taken.has_settled {
            self.prune(now, request.from);
        }
        if !self.core.followups.is_empty() {
            self.follow_up(now);
        }
        Some(done)
    }

    /// Takes a step on a request, where it does not matter whether it is forgotten.
    #[inline]
    fn step(&mut self, now: Instant, request: RequestKey, step: impl FnOnce(&mut Step<'_>)) {
        self.with(now, request, step);
    }

    #[cold]
    fn follow_up(&mut self, now: Instant) {
        let mut followups = core::mem::take(&mut self.core.followups);
        for followup in followups.drain(..) {
            match followup {
                Followup::QuestionOver(side) => self.question_over(now, side),
                Followup::TurnBegun(session, key) => self.turn_begun(now, &session, key),
                Followup::TurnCancelled(session, root) => self.close_cards(now, &session, root, |_| true),
                Followup::TurnOver(session) => self.close_cards(now, &session, CauseCode::Caller, Exchange::is_closing),
                Followup::TurnEnded(session) => self.turn_ended(now, &session),
                Followup::TurnStopped(session, key) => self.note_stopped_turn(now, &session, key),
                Followup::SessionClosed(session) => {
                    self.drop_children(now, &session);
                    self.close_session_work(now, &session);
                }
                Followup::InterruptLeft(turn) => self.interrupt_left(now, turn),
                Followup::CancelWork(request) => self.cancel_work(now, request),
                Followup::CancelItem(request) => self.cancel_item(now, request),
                Followup::Unheeded(request) => self.step(now, request, |step| step.cancel_unheeded()),
                Followup::Inserted(session, prompt) => self.note_inserted(&session, prompt),
                Followup::Orphaned(request) => self.cancel_orphan(now, request),
                Followup::TaskMade(request, seen) => self.begin_task(now, request, seen),
                Followup::TaskReported(task, ask, report) => self.task_reported(now, task, ask, report),
                Followup::TaskCancelLeft(task) => self.task_cancel_left(now, task),
                Followup::TaskCancelWithdrawn(task) => self.task_cancel_withdrawn(now, task),
                Followup::CheckTask(task) => self.check_task(now, task),
                Followup::WaitCancelled(wait, task) => self.wait_cancelled(now, wait, task),
                Followup::WaitOver(wait, end) => self.wait_over(now, wait, end),
                Followup::TaskLearnt(origin, written, outcome) => self.task_learnt(now, origin, written, outcome),
                Followup::TaskCancelled(request, task, outcome) => self.task_cancelled(now, request, &task, outcome),
                Followup::Late(request, answer) => self.step(now, request, |step| {
                    step.report_late(step.exchange.upstream().clone(), answer.into());
                }),
            }
        }
        // Its room is kept.
        self.core.followups = followups;
    }

    fn exchange(&self, request: RequestKey) -> Option<&Exchange> {
        self.tables[request.from].get(request.key)
    }
}

impl Step<'_> {
    /// The cancel of the request, if there is one.
    fn cancel(&mut self) -> Option<&mut Cancelling> {
        self.exchange.cancel.as_deref_mut()
    }

    /// The request's method.
    fn method(&self) -> &str {
        self.core.methods.name(self.exchange.method)
    }

    /// Its key, its id and its method, for an event.
    fn named(&self) -> (RequestKey, RequestId, Arc<str>) {
        (self.request, self.exchange.id.clone(), self.core.methods.shared(self.exchange.method))
    }

    /// How a turn is cancelled upstream, if the request is one (D37), or the prompt or the work of one (D55).
    fn upstream_turn(&self) -> Option<&'static TurnForm> {
        let turn = self.exchange.upstream_dialect.turn;
        turn.filter(|turn| self.exchange.is_foreground() || (self.method() == turn.prompt && !self.exchange.is_work()))
    }

    /// Whether the request is a turn to its requester.
    fn is_turn(&self) -> bool {
        self.core.is_turn(self.exchange)
    }
}
