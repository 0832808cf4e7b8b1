//! One endpoint of one link: our requests and the peer's, behind one door.
//!
//! # Invariants
//!
//! [`Connection::check_invariants`] checks what of them shows in the state; the
//! code cites them by number.
//!
//! 1. A cancel for a request is sent only after the request was sent, and at most once.
//! 2. A request withdrawn before it was written is never sent, and neither is its cancel.
//! 3. Every outgoing request settles exactly once, with one cause; after that only receipt events name it.
//! 4. Every incoming request is answered exactly once, or never, as its dialect says; after that nothing is
//!    sent for it.
//! 5. An id from one side is never looked up in the other side's table (sole exception: MCP-M02).
//! 6. What nobody waits for is gone after the largest timer; only live requests without a timer stay.
//! 7. Busy handlers never delay input; a side is paused only by its own unread debt (D13).
//! 8. Every bound is configuration with a documented default; memory is bounded whatever the peer sends.
//!
//! Files: `receive` takes messages in; `serve` is the peer's requests, `stop`
//! what ends them early; `call` is our requests, `settle` what ends them;
//! `turn` is what ACP sessions add; `veto` is for filters; `proof` is for those who check the machine.

mod batch;
mod call;
mod config;
mod counters;
mod event;
mod incoming;
mod outgoing;
mod params;
mod payload;
mod proof;
mod receive;
mod serve;
mod settle;
mod stop;
mod trace_context;
mod turn;
mod veto;
mod view;

use core::hash::{Hash, Hasher};
use std::collections::VecDeque;

pub use call::{CallOptions, Limit, Misuse};
pub use config::ConnectionConfig;
pub use counters::Counters;
pub use event::{ConnectionEvent, IncomingRequest, ReceiptNotice, Settlement, Stopped};
pub use serve::{HandlerEnd, Reply};
pub use trace_context::TraceContext;
pub use veto::Taken;
pub use view::{IncomingState, IncomingView, OutgoingState, OutgoingView};

pub use incoming::Grace;
pub use payload::Payload;

use crate::{
    bug::SeededBug,
    cause::CauseCode,
    dialect::{Dialect, negotiation::Negotiation},
    early_cancels::{EarlyCancelLimits, EarlyCancels},
    framing::{self, Chunk, Decoder, Framing, Leftover},
    hash::Seed,
    link::Rejected,
    message,
    method::Methods,
    outbox::{Outbox, Ticket},
    side::{Side, Sides},
    slab::{Key, Slab},
    standstill::Standstill,
    table::Bounds,
    time::Instant,
    timer_queue::{TimerKey, TimerQueue},
    tombstones::{Tombstones, YOUNG},
};
use batch::Batch;
use incoming::Requests;
use outgoing::Calls;
use turn::Turns;

/// Names one of the peer's requests; never reused while the connection lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IncomingKey(pub(crate) Key);

impl IncomingKey {
    /// A small number that no other request of the peer has while this one is in flight: for tables beside the machine.
    #[must_use]
    pub const fn place(self) -> usize {
        self.0.index() as usize
    }
}

/// Names one of our requests; never reused while the connection lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OutgoingKey(pub(crate) Key);

impl OutgoingKey {
    /// A small number that no other request of ours has while this one is known: for tables beside the machine.
    #[must_use]
    pub const fn place(self) -> usize {
        self.0.index() as usize
    }
}

/// One endpoint of one link, client or server, as a value: bytes and times in, bytes and events out.
///
/// # The contract
///
/// The driver feeds bytes ([`handle_input`](Self::handle_input)), times
/// ([`handle_timeout`](Self::handle_timeout) when
/// [`poll_timeout`](Self::poll_timeout) says so), and the end
/// ([`handle_eof`](Self::handle_eof), [`handle_write_closed`](Self::handle_write_closed)).
/// After every call it
///
/// 1. drains [`poll_event`](Self::poll_event), and
/// 2. writes [`pending`](Self::pending) as far as the peer takes it and reports
///    each write with [`handle_written`](Self::handle_written): what was not
///    reported can still be taken back (D14, D15).
///
/// It reads only while [`wants_input`](Self::wants_input), and never waits for
/// a handler before it reads on (invariant 7). `now` never goes back.
///
/// Bytes, events and timers are three queues instead of one stream of outputs,
/// because the bytes may be blocked while the events must flow. Within each
/// the order is total: a request leaves before its cancel, an answer's
/// [`ConnectionEvent::Settled`] follows every notification that preceded it on the wire.
///
/// # Handlers
///
/// An [`ConnectionEvent::Request`] asks for a handler; until it is polled the request
/// counts as queued, and a cancel means that it is never seen. A handler has
/// ended when the driver says so with [`ended`](Self::ended): only that frees
/// its slot (D12). [`ConnectionEvent::Cancelled`] fires its token, [`ConnectionEvent::DropHandler`] ends
/// it by force (D22).
///
/// # Dropping it
///
/// Nothing is sent: the driver that drops a connection closes the link.
#[derive(Clone, Debug)]
pub struct Connection {
    config: ConnectionConfig,
    negotiation: Negotiation,
    /// Absent only while its own bytes are being taken in.
    decoder: Option<Decoder>,
    outbox: Outbox<Tag>,
    /// Unwritten bytes that the peer's own messages caused (D13).
    owed: usize,
    incoming: Requests,
    outgoing: Calls,
    /// Ids of the peer's requests that are over (D8).
    remembered: Tombstones,
    /// Progress tokens of ours that are no longer active.
    spent_tokens: Tombstones,
    early_cancels: EarlyCancels,
    batches: Slab<Batch>,
    turns: Turns,
    methods: Methods,
    /// The clock of our calls' response limits: it stands while the peer has a question open (D49).
    asked: Standstill,
    /// The clock of the peer's deadlines: it stands while we have a question open (D49).
    asking: Standstill,
    timers: TimerQueue<Timer>,
    armed: Singles,
    events: VecDeque<Item>,
    counters: Counters,
    phase: Phase,
    /// The latest time seen.
    now: Instant,
    /// Invariants that were broken in passing, one bit each; shown by `check_invariants`.
    broken: u16,
    /// Kept for its capacity.
    left: Vec<(Tag, usize)>,
    /// Kept for its capacity.
    scratch: Vec<u8>,
}

/// Entries for which room is kept while there are none.
const KEPT_RECORDS: usize = 256;

/// Something for the driver, or a request to offer to it if it still stands by then.
#[derive(Clone, Debug)]
enum Item {
    ConnectionEvent(ConnectionEvent),
    Start(Key),
}

/// What a frame in the outbox is to us once it has left.
///
/// Its hash is its kind: which request it is for shows in its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    /// Ours: a request or notification.
    Plain,
    /// A cancel of our request.
    Cancel(Key),
    /// The answer of the peer's request.
    Answer(Key),
    /// Something else that the peer caused: a refusal, a batch of answers, progress.
    Owed,
}

impl Hash for Tag {
    fn hash<H: Hasher>(&self, state: &mut H) {
        core::mem::discriminant(self).hash(state);
    }
}

/// Everything that can become due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    /// A clock of one of our requests, or the end of its caller's patience.
    Call(Key),
    /// The deadline of one of the peer's requests, or the grace of its handler.
    Work(Key),
    /// The oldest held cancel (D9).
    EarlyCancels,
    /// The oldest of what is remembered (D8).
    Tombstones,
    /// A peer that does not read (D13).
    Debt,
    /// The end of the time to finish after the end of input (D27).
    Drain,
}

/// The timers of which there is one: armed perhaps earlier than they are due.
#[derive(Clone, Copy, Debug)]
struct Singles {
    early_cancels: TimerKey,
    tombstones: TimerKey,
    debt: TimerKey,
    drain: TimerKey,
}

/// How far the connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Phase {
    /// The peer will send nothing more.
    input_ended: bool,
    /// Nothing can be written any more.
    write_closed: bool,
    shutting_down: bool,
    /// [`ConnectionEvent::Closed`] was said.
    closed: bool,
}

impl Phase {
    const fn is_open(self) -> bool {
        !self.input_ended && !self.write_closed && !self.shutting_down
    }
}

impl Connection {
    /// An endpoint that has seen nothing.
    #[must_use]
    pub fn new(config: ConnectionConfig) -> Self {
        let seed = Seed::new(config.seed);
        let (least, longest) = config.remember;
        let bounds = Bounds { most: config.remembered, hard: config.remembered.saturating_mul(YOUNG), least, longest };
        let bounds = if config.has(SeededBug::LeakedTombstone) { Bounds::ENDLESS } else { bounds };
        Self {
            negotiation: Negotiation::new(Sides { client: config.dialect, server: config.dialect }),
            decoder: Some(Decoder::new(Some(config.framing), config.max_message)),
            outbox: Outbox::new(config.seeded()),
            owed: 0,
            incoming: Requests::new(config.max_running, config.max_queued, seed),
            outgoing: Calls::new(bounds, seed),
            remembered: Tombstones::new(bounds, seed),
            spent_tokens: Tombstones::new(bounds, seed),
            early_cancels: EarlyCancels::new(
                EarlyCancelLimits { most: config.max_early_cancels, hold: config.early_cancels },
                seed,
            ),
            batches: Slab::new(),
            turns: Turns::new(),
            methods: Methods::new(seed),
            asked: Standstill::new(),
            asking: Standstill::new(),
            timers: TimerQueue::new(),
            armed: Singles {
                early_cancels: TimerKey::NOT,
                tombstones: TimerKey::NOT,
                debt: TimerKey::NOT,
                drain: TimerKey::NOT,
            },
            events: VecDeque::new(),
            counters: Counters::default(),
            phase: Phase { input_ended: false, write_closed: false, shutting_down: false, closed: false },
            now: Instant::ORIGIN,
            broken: 0,
            left: Vec::new(),
            scratch: Vec::new(),
            config,
        }
    }

    /// Bytes arrived from the peer.
    ///
    /// Any bytes are taken: what is malformed, over-long or unasked for becomes an event, and an answer where
    /// one is due. Nothing is taken after [`handle_eof`](Self::handle_eof).
    pub fn handle_input(&mut self, now: Instant, mut bytes: &[u8]) {
        self.now = now;
        if self.phase.input_ended {
            return;
        }
        let Some(mut decoder) = self.decoder.take() else { return };
        while let Some(chunk) = decoder.decode(&mut bytes) {
            self.take_chunk(now, chunk);
        }
        self.decoder = Some(decoder);
        self.finish(now);
    }

    /// A whole message arrived, already out of its framing: for transports that keep messages apart, and for
    /// drivers that look at messages before the engine does.
    pub fn handle_message(&mut self, now: Instant, body: &[u8]) {
        self.now = now;
        if self.phase.input_ended {
            return;
        }
        self.take_body(now, body);
        self.finish(now);
    }

    /// The first `bytes` of [`pending`](Self::pending) were written.
    pub fn handle_written(&mut self, now: Instant, bytes: usize) {
        self.now = now;
        if bytes == 0 {
            return;
        }
        let mut left = core::mem::take(&mut self.left);
        let mut sent = 0;
        self.outbox.written(bytes, |tag, frame| {
            sent += 1;
            if tag != Tag::Plain {
                left.push((tag, frame.len()));
            }
        });
        self.counters.sent += sent;
        for (tag, len) in left.drain(..) {
            self.frame_left(now, tag, len);
        }
        left.shrink_to(KEPT_RECORDS);
        self.left = left;
        self.timers.disarm(core::mem::replace(&mut self.armed.debt, TimerKey::NOT));
        self.finish(now);
    }

    /// A frame is out as a whole.
    fn frame_left(&mut self, now: Instant, tag: Tag, len: usize) {
        match tag {
            Tag::Plain => {}
            Tag::Owed => self.owed -= len + Outbox::<Tag>::RECORD,
            Tag::Answer(key) => {
                self.owed -= len + Outbox::<Tag>::RECORD;
                self.answer_over(now, key, true);
            }
            Tag::Cancel(key) => self.cancel_written(now, key),
        }
    }

    /// The time that [`poll_timeout`](Self::poll_timeout) named has come; calling earlier is harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Call(key) => self.call_due(now, key),
                Timer::Work(key) => self.work_due(now, key),
                Timer::EarlyCancels => {
                    self.armed.early_cancels = TimerKey::NOT;
                    self.sticky_due(now);
                }
                Timer::Tombstones => {
                    self.armed.tombstones = TimerKey::NOT;
                    self.forget(now);
                }
                Timer::Debt => {
                    self.armed.debt = TimerKey::NOT;
                    self.tell(ConnectionEvent::GivenUp { unsent: self.owed });
                }
                Timer::Drain => {
                    self.armed.drain = TimerKey::NOT;
                    self.stop_attached(now);
                }
            }
        }
        self.finish(now);
    }

    /// The peer will send nothing more.
    ///
    /// Our requests settle as [`Settlement::Closed`]. The peer's are cancelled at once (D27), unless their
    /// dialect lets them run on or [`ConnectionConfig::drain_on_eof`] gives them time; what they answer is still written.
    pub fn handle_eof(&mut self, now: Instant) {
        self.now = now;
        self.end_input(now);
        self.finish(now);
    }

    /// Nothing can be written to the peer any more, and nothing will be read: the link is dead.
    pub fn handle_write_closed(&mut self, now: Instant) {
        self.now = now;
        if !self.phase.write_closed {
            self.phase.write_closed = true;
            let mut left = core::mem::take(&mut self.left);
            self.outbox.clear(|tag| left.push((tag, 0)));
            self.owed = 0;
            for (tag, _) in left.drain(..) {
                if let Tag::Answer(key) = tag {
                    self.answer_over(now, key, false);
                }
            }
            self.left = left;
            self.config.drain_on_eof = None;
            self.end_input(now);
            self.stop_all(now, CauseCode::Disconnect);
        }
        self.finish(now);
    }

    /// Ends the connection in order: nothing new is taken in or sent, our requests are cancelled, the peer's
    /// handlers are told to stop and get [`ConnectionConfig::short_grace`]. [`ConnectionEvent::Closed`] says when all is done.
    pub fn shutdown(&mut self, now: Instant) {
        self.now = now;
        if !self.phase.shutting_down {
            self.phase.shutting_down = true;
            self.cancel_all(now, CauseCode::Shutdown);
            self.stop_all(now, CauseCode::Shutdown);
        }
        self.finish(now);
    }

    /// The next bytes for the peer; empty if there are none. Report what was written before anything else.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        self.outbox.pending()
    }

    /// Whether the peer should be read: false while it leaves unread what its own requests have cost
    /// (D13, invariant 7).
    #[must_use]
    pub const fn wants_input(&self) -> bool {
        !self.phase.input_ended && !self.is_behind()
    }

    /// Whether the peer leaves more unread of what it is owed than it may (D13).
    #[must_use]
    pub const fn is_behind(&self) -> bool {
        self.owed > self.config.max_backlog
    }

    /// Whether the driver should queue more that the peer did not ask for: false while more waits to be written than
    /// the peer may leave unread (D13).
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.outbox.backlog() <= self.config.max_backlog
    }

    /// Gives back the memory that is kept for more to come: for a connection that is idle.
    pub fn shrink(&mut self) {
        self.outbox.shrink();
        if let Some(decoder) = &mut self.decoder {
            decoder.shrink();
        }
        self.events.shrink_to_fit();
        self.left = Vec::new();
        self.scratch = Vec::new();
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Whether [`poll_event`](Self::poll_event) may have something.
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The next event; polling an [`ConnectionEvent::Request`] starts its handler.
    pub fn poll_event(&mut self) -> Option<ConnectionEvent> {
        loop {
            let Some(item) = self.events.pop_front() else {
                self.events.shrink_to(KEPT_RECORDS);
                return None;
            };
            match item {
                Item::ConnectionEvent(event) => return Some(event),
                Item::Start(key) => {
                    if let Some(event) = self.start(key) {
                        return Some(event);
                    }
                }
            }
        }
    }

    fn end_input(&mut self, now: Instant) {
        if self.phase.input_ended {
            return;
        }
        self.take_leftover(now);
        self.phase.input_ended = true;
        self.close_calls(now);
        match self.config.drain_on_eof {
            Some(time) if !self.phase.write_closed => {
                self.armed.drain = self.timers.arm(now + time, Timer::Drain);
            }
            Some(_) | None => self.stop_attached(now),
        }
    }

    fn take_chunk(&mut self, now: Instant, chunk: Chunk<'_>) {
        match chunk {
            Chunk::Frame(framed) => self.take_body(now, framed.body()),
            Chunk::Overlong(message) => {
                self.counters.received += 1;
                self.take_overlong(&message, now);
            }
            Chunk::Broken(broken) => self.take_garbage(broken.raw),
        }
    }

    /// The last bytes of an input that ended in the middle of something.
    fn take_leftover(&mut self, now: Instant) {
        let Some(mut decoder) = self.decoder.take() else { return };
        match decoder.finish() {
            None => {}
            // A last line without its line break is a message if it can be read as one: `printf '…' | server`.
            Some(Leftover::Line(line)) if crate::frame::parse(&line).is_ok() => self.take_body(now, &line),
            Some(Leftover::Line(bytes) | Leftover::Half(bytes)) => {
                self.refused(Rejected::Unfinished, None, &bytes, None);
            }
            Some(Leftover::Overlong(message)) => {
                self.counters.received += 1;
                self.take_overlong(&message, now);
            }
        }
        self.decoder = Some(decoder);
    }

    /// What every input ends with.
    fn finish(&mut self, now: Instant) {
        let tombstones = [self.remembered.due(), self.spent_tokens.due(), self.outgoing.expired_due()];
        let tombstones = tombstones.into_iter().flatten().min();
        for (armed, due, timer) in [
            (&mut self.armed.tombstones, tombstones, Timer::Tombstones),
            (&mut self.armed.early_cancels, self.early_cancels.due(), Timer::EarlyCancels),
        ] {
            if let Some(due) = due.filter(|due| *due < armed.at) {
                self.timers.disarm(*armed);
                *armed = self.timers.arm(due, timer);
            }
        }
        if self.is_behind() && !self.armed.debt.is_armed() {
            self.armed.debt = self.timers.arm(now + self.config.stall_limit, Timer::Debt);
        }
        if (self.phase.input_ended || self.phase.shutting_down) && !self.phase.closed && self.is_quiet() {
            self.phase.closed = true;
            self.tell(ConnectionEvent::Closed);
        }
        self.check();
    }

    fn is_quiet(&self) -> bool {
        self.incoming.len() == 0 && self.outgoing.waiting() == 0 && self.outbox.is_empty()
    }

    /// Forgets what was remembered for long enough (invariant 6).
    fn forget(&mut self, now: Instant) {
        self.remembered.prune(now);
        self.spent_tokens.prune(now);
        while let Some(key) = self.outgoing.expired(now) {
            self.remove_call(key);
        }
    }

    const fn peer(&self) -> Side {
        self.config.role.other()
    }

    /// The dialect the peer speaks, as far as it is known.
    fn spoken(&self) -> &'static Dialect {
        self.negotiation.of(self.peer(), self.config.framing)
    }

    fn tell(&mut self, event: ConnectionEvent) {
        self.events.push_back(Item::ConnectionEvent(event));
    }

    /// Queues a message; `write` appends its JSON.
    fn say(&mut self, tag: Tag, write: impl FnOnce(&mut Vec<u8>)) -> Ticket {
        let before = self.outbox.backlog();
        let framing = self.config.framing;
        let frame = |out: &mut Vec<u8>| {
            let start = out.len();
            message::frame(framing, out, write);
            if framing == Framing::Line {
                framing::join_lines(&mut out[start..]);
            }
        };
        let ticket = match tag {
            Tag::Cancel(_) => self.outbox.push_urgent(tag, frame),
            Tag::Plain | Tag::Answer(_) | Tag::Owed => self.outbox.push(tag, frame),
        };
        if matches!(tag, Tag::Answer(_) | Tag::Owed) {
            self.owed += self.outbox.backlog() - before;
        }
        ticket
    }

    /// Takes back a frame that the peer was owed, if none of it has left.
    fn take_back_owed(&mut self, ticket: Ticket) -> bool {
        match self.outbox.withdraw(ticket) {
            Some(len) => {
                self.owed -= len + Outbox::<Tag>::RECORD;
                true
            }
            None => false,
        }
    }

    /// Notes that an invariant was broken, where only the moment shows it.
    fn note(&mut self, invariant: u8, broken: bool) {
        self.broken |= u16::from(broken) << invariant;
    }
}
