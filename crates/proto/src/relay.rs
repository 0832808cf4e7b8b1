//! Two sides of one link, joined (D32–D36).
//!
//! A relay stands between a client and a server and is neither. What is not
//! about a request passes byte for byte. A request is kept as one
//! exchange (`exchange.rs`) with two faces: what the other side knows of
//! it, and what its requester has been told. A cancel is never tunnelled: it
//! ends here, and a cancel of the relay's own goes on, in the other side's
//! dialect and with the id that side knows (D32).
//!
//! The driver feeds bytes, times and ends; after every call it writes
//! [`pending`](Relay::pending) to each side as far as the side takes it,
//! reports what left with [`handle_written`](Relay::handle_written), and drains
//! [`poll_event`](Relay::poll_event). The two sides' bytes are separate queues,
//! not one stream of outputs, because either side may be blocked while the
//! other flows; within a side the order is total.
//!
//! Files: `pass` takes in what a side sends; `stop` is every cancel, whoever
//! asked; `settle` is every answer of our own and what remains afterwards;
//! `task` is about requests that became tasks; `turn` is what ACP sessions add; `view`
//! shows what is in flight, `changes` what of it has changed, `tally` what has been; `proof` is for those who check the
//! machine.

mod batch;
mod changes;
mod config;
mod end;
mod event;
mod exchange;
mod exchanges;
mod pass;
mod proof;
mod settle;
mod stop;
mod tag;
mod tally;
mod task;
mod turn;
mod view;

use core::hint::cold_path;
use std::collections::VecDeque;

pub use crate::early_cancels::EarlyCancelLimits;
pub use changes::OwnMessage;
pub use config::{ClockRule, Emit, RelayConfig, SettingNames};
pub use end::{End, EndReason, EndedBy};
pub use event::{Hop, RelayEvent, Settled, StuckSign, TaskNews};
pub use exchange::LateCounts;
pub use tally::{Histogram, Tally, WordCounts};
pub use view::{Ended, ProgressView, RequestState, RequestSummary, RequestView};

use crate::{
    bug::SeededBug,
    cause::{Cause, CauseCode},
    dialect::{Dialect, negotiation::Negotiation},
    early_cancels::EarlyCancels,
    frame::{self, Malformed, Mend},
    framing::{self, Chunk, Decoder, Framed, Framing, Leftover, Overlong},
    hash::Seed,
    id::RequestId,
    link::{Clock, Implementation, Rejected, RequestKey},
    message,
    method::Methods,
    outbox::{OWN, Outbox, Ticket},
    receipt::Outcome,
    rule::Violations,
    side::{Side, Sides},
    slab::{Key, Slab},
    standstill::Standstill,
    time::Instant,
    timer::Timers,
    turns::Turns,
};
use changes::Changes;
use exchange::{Down, Exchange, Up};
use exchanges::Exchanges;
use tag::{PackedTag, Tag};

/// A relay between a client and a server.
#[derive(Clone, Debug)]
pub struct Relay {
    config: RelayConfig,
    negotiation: Negotiation,
    framing: Framing,
    links: Sides<Link>,
    /// By who sent the requests.
    tables: Sides<Exchanges>,
    methods: Methods,
    /// The tools and prompts that requests name, as JSON.
    names: Methods,
    /// Cancels that overtook their request (D9).
    held: Sides<EarlyCancels>,
    /// Sessions whose cancelled turn we answered while the agent had not (ACP-08).
    muted: Vec<(Box<[u8]>, Key)>,
    /// The clocks of each side's response limits: one stands while that side has a question to answer (D49).
    asked: Sides<Standstill>,
    timers: Timers<Timer>,
    /// When [`Timer::Tombstones`] is due.
    tombstones_due: Option<Instant>,
    events: VecDeque<RelayEvent>,
    /// By who broke them.
    violations: Sides<Violations>,
    tally: Tally,
    /// What each side calls itself.
    implementations: Sides<Option<Implementation>>,
    /// The client's turns in flight (D37).
    turns: Turns,
    /// What has changed since whoever watches last asked; absent when nobody does.
    changes: Option<Changes>,
    /// How the server's input ended.
    server_end: Option<End>,
    /// What may still be said of the batch that is being read.
    allowance: Option<batch::Allowance>,
    /// Who asked it to end before.
    ended_by: Option<EndedBy>,
    /// Frames that have just left, with their lengths; empty between calls.
    left: Vec<(PackedTag, usize)>,
    /// What the members of the batches in the outboxes are.
    bundles: Slab<Box<[Tag]>>,
}

/// One side's bytes.
#[derive(Clone, Debug)]
struct Link {
    /// Absent only while its own bytes are being taken in.
    decoder: Option<Decoder>,
    outbox: Outbox<PackedTag>,
    /// The part of the backlog that is refusals of our own: what this side's bad input has cost.
    own_backlog: usize,
    /// Its input has ended.
    ended: bool,
    /// Nothing can be written to it any more.
    write_closed: bool,
    /// When it is given up unless it reads something.
    stalled: Option<Instant>,
}

/// Entries for which room is kept while there are none.
const KEPT_RECORDS: usize = 256;

/// Everything that can become due. The order settles ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Timer {
    /// A clock of a request (D16).
    Clock(RequestKey, Clock),
    /// The grace of a cancelled request (D34).
    Grace(RequestKey),
    /// What came late of a cancelled request's work, and may have been the last of it.
    Quiet(RequestKey),
    /// The oldest held cancel (D9).
    Held(Side),
    /// The oldest tombstone (D8).
    Tombstones,
    /// A side that does not read (D13).
    Debt(Side),
}

/// What becomes of a message that goes on to the other side.
struct Passed {
    /// A span of the body to replace by an id.
    splice: Option<(core::ops::Range<usize>, RequestId)>,
    tag: PackedTag,
    /// It is a cancel of a request that has been sent: it may pass other frames (D13).
    urgent: bool,
}

impl Passed {
    const PLAIN: Self = Self { splice: None, tag: PackedTag::PLAIN, urgent: false };
}

impl Relay {
    /// A relay that has seen nothing.
    #[must_use]
    pub fn new(config: RelayConfig) -> Self {
        let seed = Seed::new(config.seed);
        Self {
            negotiation: Negotiation::new(config.dialects),
            framing: config.framing.unwrap_or(Framing::Line),
            links: Sides::from_fn(|_| Link {
                decoder: Some(Decoder::new(config.framing, config.max_message)),
                outbox: Outbox::new(config.seeded()),
                own_backlog: 0,
                ended: false,
                write_closed: false,
                stalled: None,
            }),
            tables: Sides::from_fn(|_| Exchanges::new(seed, config.remembered, config.remember)),
            methods: Methods::new(seed),
            held: Sides::from_fn(|side| EarlyCancels::new(config.early_cancels[side], seed)),
            muted: Vec::new(),
            asked: Sides::from_fn(|_| Standstill::new()),
            timers: Timers::new(),
            tombstones_due: None,
            events: VecDeque::new(),
            violations: Sides::default(),
            names: Methods::new(seed),
            tally: Tally::default(),
            implementations: Sides::default(),
            turns: Turns::new(seed),
            changes: None,
            server_end: None,
            allowance: None,
            ended_by: None,
            left: Vec::new(),
            bundles: Slab::new(),
            config,
        }
    }

    /// Bytes arrived from `side`.
    ///
    /// Any bytes are taken: what is malformed, over-long or unasked for becomes an event, and an answer
    /// where one is due (D36). Nothing is taken after [`handle_eof`](Self::handle_end).
    pub fn handle_input(&mut self, now: Instant, side: Side, mut bytes: &[u8]) {
        if self.links[side].ended {
            return;
        }
        let Some(mut decoder) = self.links[side].decoder.take() else { return };
        // Before the first message: what is written because of it is framed as it is.
        if let Some(framing) = decoder.detect(&mut bytes) {
            self.adopt_framing(framing);
        }
        while let Some(chunk) = decoder.decode(&mut bytes) {
            self.handle_chunk(now, side, chunk);
        }
        self.links[side].decoder = Some(decoder);
        self.watch_debt(now);
        self.check();
    }

    /// The first `bytes` of [`pending`](Self::pending) were written to `side`.
    pub fn handle_written(&mut self, now: Instant, side: Side, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let frames = self.config.emit.frames;
        let Self { links, events, left, changes, tables, .. } = self;
        links[side].outbox.written(bytes, |tag, bytes| {
            if let Some(changes) = changes {
                changes.note_written(now, side, tag.read(), bytes, tables);
            }
            if frames {
                cold_path();
                events.push_back(RelayEvent::Frame { hop: Hop::To(side), bytes: bytes.into() });
            }
            if tag != PackedTag::PLAIN {
                left.push((tag, bytes.len()));
            }
        });
        let mut left = core::mem::take(&mut self.left);
        for (tag, len) in left.drain(..) {
            self.frame_left(now, side, tag.read(), len);
        }
        left.shrink_to(KEPT_RECORDS);
        self.left = left;
        if let Some(due) = self.links[side].stalled.take() {
            self.timers.disarm(due, Timer::Debt(side));
        }
        self.watch_debt(now);
        self.check();
    }

    /// The time that [`poll_timeout`](Self::poll_timeout) named has come; calling earlier is harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, timer)) = self.timers.pop_due(now) {
            match timer {
                Timer::Clock(request, clock) => self.clock_due(now, request, clock),
                Timer::Grace(request) => self.grace_due(now, request),
                Timer::Quiet(request) => self.quiet_due(now, request),
                Timer::Held(side) => self.held_due(now, side),
                Timer::Tombstones => self.tombstones_due(now),
                Timer::Debt(side) => {
                    self.links[side].stalled = None;
                    self.give_up(side);
                }
            }
        }
        self.check();
    }

    /// The driver waits no longer for `side` to read what it is owed. Emits [`RelayEvent::GivenUp`].
    pub fn give_up(&mut self, side: Side) {
        let unsent = self.links[side].outbox.unsent();
        self.events.push_back(RelayEvent::GivenUp { side, unsent });
    }

    /// `side` will send nothing more.
    ///
    /// The client's end cancels nothing (D27): what is owed still flows. The server's end answers every
    /// request in flight with an error that says `how`, and cancels what the server had asked (D35).
    /// Afterwards nothing is pending for the server.
    pub fn handle_eof(&mut self, now: Instant, side: Side, how: &End) {
        if self.links[side].ended {
            return;
        }
        self.handle_leftover(now, side);
        self.links[side].ended = true;
        if side == Side::Server {
            self.server_end = Some(how.clone());
            self.shut(now, Side::Server);
            self.server_gone(now);
        }
        self.check();
    }

    /// The server was asked to end: answers about its end will say by whom. The first who asked counts, since what
    /// comes later only hastens it.
    pub const fn note_ended_by(&mut self, by: EndedBy) {
        if self.ended_by.is_none() {
            self.ended_by = Some(by);
        }
    }

    /// Nothing can be written to `side` any more: what waits for it is forgotten, and what comes later too.
    pub fn handle_write_closed(&mut self, now: Instant, side: Side) {
        self.shut(now, side);
        self.check();
    }

    /// Cancels a request that is in flight, for whoever operates this relay, and ends it for its requester
    /// as its dialect settles a cancel: an error of ours in MCP, the cancellation error or the method's own
    /// cancellation result elsewhere; the turn of an ACP session when its agent answers, or after the turn's own limit
    /// (D34, D37). The receipt follows as events. `false` if it is over already, or is such a turn and cancelled.
    pub fn stop(&mut self, now: Instant, request: RequestKey, reason: Option<&str>) -> bool {
        let mut cause = Cause::new(CauseCode::Operator);
        if let Some(reason) = reason {
            cause = cause.with_text(reason);
        }
        let done = self.stop_for_operator(now, request, cause);
        self.check();
        done
    }

    /// `side` has gone away: each of its requests in flight is cancelled at the other side, cause `disconnect`
    /// (D27). One whose dialect wants silence is over; another may still get the answer it is owed.
    ///
    /// For a driver that stands for the endpoint itself; a shim leaves it to the server to end what it has begun.
    pub fn handle_disconnect(&mut self, now: Instant, side: Side) {
        self.cancel_for_disconnect(now, side);
        self.check();
    }

    /// The next bytes for `side`; empty if there are none. Report what was written before anything else.
    #[must_use]
    pub fn pending(&self, side: Side) -> &[u8] {
        self.links[side].outbox.pending()
    }

    /// Whether `side` should be read: false while what it sent cannot be passed on, or while it leaves
    /// unread what its own bad input has cost (D13, invariant 7).
    #[must_use]
    pub fn wants_input(&self, side: Side) -> bool {
        let bound = self.config.max_backlog;
        let other = &self.links[side.other()];
        // A refusal counts as a whole until its last byte has left.
        other.outbox.backlog().saturating_sub(other.own_backlog) <= bound && self.links[side].own_backlog <= bound
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<RelayEvent> {
        let event = self.events.pop_front();
        if event.is_none() {
            self.events.shrink_to(KEPT_RECORDS);
        }
        event
    }

    /// Whether the next bytes from `side` begin a message, as far as its bytes have been taken in.
    #[must_use]
    pub fn is_between_messages(&self, side: Side) -> bool {
        self.links[side].decoder.as_ref().is_some_and(Decoder::is_between_messages)
    }

    /// Requests of `side` in flight.
    #[must_use]
    pub fn in_flight(&self, side: Side) -> usize {
        self.tables[side].live()
    }

    /// Settled requests of `side` that are still remembered.
    #[must_use]
    pub fn remembered(&self, side: Side) -> usize {
        self.tables[side].remembered()
    }

    /// The rules that `side` broke until now, by number, whether or not the driver hears of each
    /// ([`Emit::notices`]).
    #[must_use]
    pub fn violations(&self, side: Side) -> &Violations {
        &self.violations[side]
    }

    /// What has been counted since the start.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What `side` called itself in its handshake: untrusted.
    #[must_use]
    pub const fn implementation(&self, side: Side) -> Option<&Implementation> {
        match side {
            Side::Client => self.implementations.client.as_ref(),
            Side::Server => self.implementations.server.as_ref(),
        }
    }

    /// The dialect spoken with `side`; a guess until something telling has passed.
    #[must_use]
    pub fn dialect(&self, side: Side) -> &'static Dialect {
        self.negotiation.of(side, self.framing)
    }

    fn handle_chunk(&mut self, now: Instant, from: Side, chunk: Chunk<'_>) {
        match chunk {
            Chunk::Frame(framed) => self.handle_frame(now, from, framed),
            Chunk::Overlong(message) => self.handle_overlong(now, from, &message),
            Chunk::Broken(broken) => self.refuse_garbage(from, Rejected::Broken, broken.raw, "not a message"),
        }
    }

    fn handle_frame(&mut self, now: Instant, from: Side, framed: Framed<'_>) {
        if self.config.emit.frames {
            let bytes = framed.raw().into();
            self.events.push_back(RelayEvent::Frame { hop: Hop::From(from), bytes });
        }
        let body = framed.body();
        let passed = match frame::parse(body) {
            Ok(frame::Frame::Batch(batch)) => return self.handle_batch(now, from, body, batch),
            Ok(parsed) => self.handle_message(now, from, body, parsed),
            Err(malformed) => {
                if let Some((body, passed)) = self.handle_unread(now, from, body, malformed) {
                    self.pass_alone(now, from.other(), &body, passed);
                }
                return;
            }
        };
        let Some(passed) = passed else { return };
        if self.links[from.other()].write_closed {
            self.frame_lost(now, passed.tag.read());
        } else {
            self.pass(from, framed, passed);
        }
    }

    /// A message that cannot be read as it is: goes on mended if it can be (D43), and else ends here.
    #[cold]
    fn handle_unread(
        &mut self,
        now: Instant,
        from: Side,
        body: &[u8],
        malformed: Malformed,
    ) -> Option<(Vec<u8>, Passed)> {
        if self.config.has(SeededBug::UnreadableAnswerLost) {
            self.refuse_garbage(from, Rejected::NotJson, body, "not JSON");
            return None;
        }
        match frame::mend(body, self.config.max_message) {
            Mend::Mended(mended) => {
                let passed = self.handle_message(now, from, &mended, frame::parse_member(&mended).ok()?)?;
                return Some((mended, passed));
            }
            Mend::TooLong(len) => self.handle_overlong(now, from, &Overlong { len, ..framing::learn(body) }),
            Mend::No => self.handle_malformed(now, from, body, malformed),
        }
        None
    }

    /// Passes a message on in a frame of its own, whatever frame it came in.
    fn pass_alone(&mut self, now: Instant, to: Side, body: &[u8], Passed { splice, tag, .. }: Passed) {
        if self.links[to].write_closed {
            return self.frame_lost(now, tag.read());
        }
        let framing = self.framing;
        self.waits(tag.read(), self.links[to].outbox.upcoming(false));
        self.links[to].outbox.push_sized(tag, body.len(), |out| {
            message::frame(framing, out, |out| frame::splice_or_copy(body, splice, out));
        });
    }

    /// Passes a frame on: untouched, or with one id replaced (D33).
    fn pass(&mut self, from: Side, framed: Framed<'_>, passed: Passed) {
        let Passed { splice, tag, urgent } = passed;
        let ticket = self.links[from.other()].outbox.upcoming(urgent);
        let framing = self.framing;
        self.waits(tag.read(), ticket);
        let outbox = &mut self.links[from.other()].outbox;
        if let Some((span, id)) = splice {
            let write = |out: &mut Vec<u8>| {
                message::frame(framing, out, |out| frame::splice(framed.body(), span, &id, out));
            };
            if urgent {
                outbox.push_urgent(tag, write)
            } else {
                outbox.push_sized(tag, framed.raw().len(), write)
            };
        } else if urgent {
            outbox.push_urgent(tag, |out| out.extend_from_slice(framed.raw()));
        } else if framed.raw().len() >= OWN {
            outbox.push_owned(tag, framed.into_raw());
        } else {
            outbox.push(tag, |out| out.extend_from_slice(framed.raw()));
        }
    }

    /// A frame waits in an outbox, alone, and so can be withdrawn.
    #[inline]
    fn waits(&mut self, tag: Tag, ticket: Ticket) {
        match tag {
            Tag::Request(request) => {
                if let Some(exchange) = self.exchange_mut(request) {
                    exchange.up = Up::Queued(ticket);
                }
            }
            Tag::Answer(request) => {
                if let Some(exchange) = self.exchange_mut(request) {
                    exchange.down = Down::Answering(ticket, Settled::Answered);
                }
                self.mark_changed(request);
            }
            Tag::Notice(request) => {
                if let Some(exchange) = self.exchange_mut(request) {
                    exchange.rare.get_or_insert_default().notices.push_back(ticket);
                }
            }
            Tag::Plain | Tag::Cancel(_) | Tag::Refusal | Tag::Many(_) => {}
        }
    }

    /// A frame has left for `to`, whole.
    #[inline]
    fn frame_left(&mut self, now: Instant, to: Side, tag: Tag, len: usize) {
        match tag {
            Tag::Plain => {}
            Tag::Refusal => {
                let own_backlog = &mut self.links[to].own_backlog;
                *own_backlog = own_backlog.saturating_sub(len + Outbox::<PackedTag>::RECORD);
            }
            Tag::Request(request) => {
                if let Some(exchange) = self.exchange_mut(request) {
                    exchange.up = Up::Sent;
                }
                self.mark_changed(request);
            }
            Tag::Answer(request) => {
                if let Some(Down::Answering(_, how) | Down::Bundled(how)) = self.exchange(request).map(|ex| ex.down) {
                    self.settle(now, request, how);
                }
            }
            Tag::Cancel(request) => self.cancel_written(now, request),
            Tag::Notice(request) => {
                if let Some(rare) = self.exchange_mut(request).and_then(|ex| ex.rare.as_deref_mut()) {
                    rare.notices.pop_front();
                }
            }
            Tag::Many(bundle) => self.bundle_left(now, to, bundle),
        }
    }

    #[inline(never)]
    fn bundle_left(&mut self, now: Instant, to: Side, bundle: Key) {
        for tag in self.bundles.remove(bundle).unwrap_or_default() {
            self.frame_left(now, to, tag, 0);
        }
    }

    /// A cancel has left; from here on only the peer can tell more.
    fn cancel_written(&mut self, now: Instant, request: RequestKey) {
        let Some(cancel) = self.exchange_mut(request).and_then(|ex| ex.cancel.as_deref_mut()) else { return };
        cancel.receipt.written = Some(now);
        cancel.frame = None;
        if cancel.receipt.outcome == Outcome::Asked {
            cancel.receipt.outcome = Outcome::Sent;
        }
        self.report_receipt(request);
    }

    /// The last bytes of an input that ended in the middle of something.
    fn handle_leftover(&mut self, now: Instant, from: Side) {
        let Some(mut decoder) = self.links[from].decoder.take() else { return };
        let leftover = decoder.finish();
        self.links[from].decoder = Some(decoder);
        match leftover {
            None => {}
            // A last line without its line break is a message if it can be read as one: `printf '…' | server`.
            Some(Leftover::Line(mut line)) if frame::parse(&line).is_ok() => {
                line.push(b'\n');
                let mut whole = Decoder::new(Some(Framing::Line), self.config.max_message.saturating_add(1));
                let mut bytes = &line[..];
                if let Some(chunk) = whole.decode(&mut bytes) {
                    self.handle_chunk(now, from, chunk);
                }
            }
            Some(Leftover::Line(bytes)) => {
                if from == Side::Client {
                    self.refuse_garbage(from, Rejected::NotJson, &bytes, "not JSON");
                } else {
                    self.report_drop(from, Rejected::Unfinished, &bytes);
                }
            }
            Some(Leftover::Half(bytes)) => self.report_drop(from, Rejected::Unfinished, &bytes),
            Some(Leftover::Overlong(message)) => self.handle_overlong(now, from, &message),
        }
    }

    /// The first framing seen is the framing of both sides.
    fn adopt_framing(&mut self, framing: Framing) {
        self.framing = framing;
        for side in Side::BOTH {
            let decoder = &mut self.links[side].decoder;
            if decoder.as_ref().is_some_and(|decoder| decoder.framing().is_none() && decoder.buffered() == 0) {
                *decoder = Some(Decoder::new(Some(framing), self.config.max_message));
            }
        }
    }

    /// Nothing will be written to `side` again.
    fn shut(&mut self, now: Instant, side: Side) {
        self.links[side].write_closed = true;
        let mut lost = Vec::new();
        self.links[side].outbox.clear(|tag| lost.push(tag.read()));
        self.links[side].own_backlog = 0;
        if let Some(due) = self.links[side].stalled.take() {
            self.timers.disarm(due, Timer::Debt(side));
        }
        for tag in lost {
            self.frame_lost(now, tag);
        }
    }

    /// A frame will never leave.
    fn frame_lost(&mut self, now: Instant, tag: Tag) {
        match tag {
            Tag::Plain | Tag::Refusal => {}
            Tag::Request(request) => {
                if let Some(exchange) = self.exchange_mut(request) {
                    exchange.up = Up::Lost;
                }
                self.mark_changed(request);
            }
            Tag::Answer(request) => self.settle(now, request, Settled::Gone),
            Tag::Notice(request) => {
                if let Some(rare) = self.exchange_mut(request).and_then(|ex| ex.rare.as_deref_mut()) {
                    rare.notices.clear();
                }
            }
            Tag::Cancel(request) => {
                if let Some(cancel) = self.exchange_mut(request).and_then(|ex| ex.cancel.as_deref_mut()) {
                    cancel.frame = None;
                    cancel.receipt.outcome = Outcome::Unknown;
                    self.report_receipt(request);
                }
            }
            Tag::Many(bundle) => {
                let members = self.bundles.remove(bundle).unwrap_or_default();
                members.into_iter().for_each(|tag| self.frame_lost(now, tag));
            }
        }
    }

    /// Arms the timer of a side that is owed more than the bound (D13).
    fn watch_debt(&mut self, now: Instant) {
        for side in Side::BOTH {
            let link = &mut self.links[side];
            if link.outbox.backlog() > self.config.max_backlog && link.stalled.is_none() {
                let due = now + self.config.stall_limit;
                link.stalled = Some(due);
                self.timers.arm(due, Timer::Debt(side));
            }
        }
    }

    fn exchange(&self, request: RequestKey) -> Option<&Exchange> {
        self.tables[request.from].get(request.key)
    }

    fn exchange_mut(&mut self, request: RequestKey) -> Option<&mut Exchange> {
        self.tables[request.from].get_mut(request.key)
    }
}
