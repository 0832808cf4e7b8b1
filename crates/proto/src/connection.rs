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
//! 7. Busy handlers never delay input; a side is paused only by its own unread backlog (D13).
//! 8. Every bound is configuration with a documented default; memory is bounded whatever the peer sends.
//!
//! # Files
//!
//! `incoming` and `outgoing` are the tables of requests, `link` is everything that requests share.
//!
//! - The peer's requests: `receive` takes messages in, `admit` requests and `received_cancel` cancels; `answer` ends
//!   them, `stop` early.
//! - Our requests: `call` makes them, `departing` learns that they have left; `settle` ends them, `cancel` early, and
//!   `reported_turn` those whose end is not their answer.
//! - Both: `clocks`, `turn` for ACP sessions and `session_work` for those that report their work, `veto` for filters, `view`
//!   for display, `proof` for tests.

mod admit;
mod answer;
mod batch;
mod call;
mod cancel;
mod clocks;
mod config;
mod counters;
mod departing;
mod event;
mod incoming;
mod link;
mod outgoing;
mod params;
mod part;
mod proof;
mod receive;
mod received_cancel;
mod reported_turn;
mod session_work;
mod sessions_at_work;
mod settle;
mod stop;
mod turn;
mod veto;
mod view;

pub use crate::early_cancels::EarlyCancelLimits;
pub use answer::{HandlerEnd, Reply};
pub use call::{CallOptions, Misuse};
pub use config::{ConnectionConfig, Limit};
pub use counters::Counters;
pub use event::{ConnectionEvent, IncomingRequest, Payload, ReceiptNotice, Settlement, Stopped};
pub use params::with_meta;
pub use session_work::BackgroundItem;
pub use veto::DetachedFrame;
pub use view::{IncomingState, IncomingView, OutgoingState, OutgoingView};

use crate::{
    cause::CauseCode,
    framing::Decoder,
    hash::Seed,
    id::RequestId,
    link::{Attachment, Unanswered},
    receipt::Outcome,
    slab::Key,
    table::Bounds,
    time::Instant,
    timer_queue::TimerKey,
    tombstones::YOUNG,
    turns::Turns,
};
use incoming::Requests;
use link::{Alarm, Item, Link, Tag, Timer};
use outgoing::Calls;
use sessions_at_work::SessionsAtWork;
use stop::By;

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
///    reported can still be withdrawn (D14, D15).
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
/// A [`ConnectionEvent::Request`] asks for a handler; until it is polled the request
/// counts as queued, and a cancel means that it is never seen. A handler has
/// ended when the driver reports so with [`ended`](Self::ended): only that frees
/// its slot (D12). [`ConnectionEvent::Cancelled`] fires its token, [`ConnectionEvent::DropHandler`] ends
/// it by force (D22).
///
/// # Keys
///
/// [`IncomingKey`] and [`OutgoingKey`] name requests in calls and events. A key of a request that is over is harmless:
/// what it is passed to does nothing, and says so where it returns something.
///
/// # Dropping it
///
/// Nothing is sent: the driver that drops a connection closes the link.
///
/// # Example
///
/// A driver without I/O: what one endpoint writes, the other reads. With sockets the same three loops stand in the
/// driver's own, around its reads, writes and timer.
///
/// ```
#[doc = include_str!("../examples/drive.rs")]
/// ```
#[derive(Clone, Debug)]
pub struct Connection {
    /// The peer's requests.
    incoming: Requests,
    /// Our requests.
    outgoing: Calls,
    /// Prompts and permission requests, by part and session (D37).
    turns: Turns,
    /// At a client, the sessions that work, as far as that was reported (D55).
    at_work: SessionsAtWork,
    link: Link,
    /// Absent only while its own bytes are received.
    decoder: Option<Box<Decoder>>,
}

/// Entries for which room is kept while there are none.
const KEPT_RECORDS: usize = 256;

impl Connection {
    /// Makes an endpoint that has seen nothing.
    #[must_use]
    pub fn new(config: ConnectionConfig) -> Self {
        let seed = Seed::new(config.seed);
        let (least, longest) = config.remember;
        let bounds = Bounds { most: config.remembered, hard: config.remembered.saturating_mul(YOUNG), least, longest };
        Self {
            incoming: Requests::new(config.max_running, config.max_queued, seed),
            outgoing: Calls::new(bounds, seed),
            turns: Turns::new(seed),
            at_work: SessionsAtWork::default(),
            decoder: Some(Box::new(Decoder::new(Some(config.framing), config.max_message))),
            link: Link::new(config, seed, bounds),
        }
    }

    /// Handles bytes from the peer.
    ///
    /// Any bytes are received: what is malformed, over-long or unasked for becomes an event, and an answer where
    /// one is due. After [`handle_eof`](Self::handle_eof) they are ignored.
    pub fn handle_input(&mut self, now: Instant, mut bytes: &[u8]) {
        self.receive(now, |this| {
            let Some(mut decoder) = this.decoder.take() else { return };
            while let Some(chunk) = decoder.decode(&mut bytes) {
                this.receive_chunk(chunk);
            }
            this.decoder = Some(decoder);
        });
    }

    /// Handles a whole message that is already out of its framing: for transports that keep messages apart, and for
    /// drivers that look at messages before the engine does.
    pub fn handle_message(&mut self, now: Instant, body: &[u8]) {
        self.receive(now, |this| this.receive_body(body));
    }

    /// The same, with a value that goes with each request of the message to its handler.
    pub fn handle_message_with(&mut self, now: Instant, body: &[u8], attachment: Attachment) {
        self.receive(now, |this| {
            this.link.attachment = Some(attachment);
            this.receive_body(body);
            this.link.attachment = None;
        });
    }

    /// Handles the answer to a request of ours that its transport gives in place of the peer: a whole message, an error as
    /// a rule, and why. A request that is over takes it as any other answer.
    pub fn handle_unanswered(&mut self, now: Instant, answer: &[u8], why: &Unanswered) {
        self.receive(now, |this| this.receive_unanswered(answer, why));
    }

    /// Handles the news that the first `bytes` of [`pending`](Self::pending) were written.
    pub fn handle_written(&mut self, now: Instant, bytes: usize) {
        let Self { link, .. } = self;
        link.now = now;
        if bytes == 0 {
            return;
        }
        let mut written = core::mem::take(&mut link.written);
        link.outbox.written(bytes, |tag, frame| {
            link.counters.sent += 1;
            if tag != Tag::Plain {
                written.push((tag, frame.len()));
            }
        });
        for (tag, len) in written.drain(..) {
            self.frame_gone(tag, len, true);
        }
        written.shrink_to(KEPT_RECORDS);
        self.link.written = written;
        self.link.timers.stop(&mut self.link.alarms[Alarm::Stall as usize]);
        self.finish();
    }

    /// Handles a frame that has left as a whole, or else was kept back by a filter.
    fn frame_gone(&mut self, tag: Tag, len: usize, has_left: bool) {
        match tag {
            Tag::Plain => {}
            Tag::Caused => self.link.reduce_backlog(len),
            Tag::Answer(key) => {
                self.link.reduce_backlog(len);
                self.end_answer(key, has_left);
            }
            Tag::Cancel(key) if !has_left => self.cancel_gone(key, Outcome::NotSendable),
            // It was taken; what carries it reports when it leaves.
            Tag::Cancel(key) if self.link.config.departs => self.keep_or_remove(key),
            Tag::Cancel(key) => self.cancel_gone(key, Outcome::Sent),
        }
    }

    /// Handles the time that [`poll_timeout`](Self::poll_timeout) named; calling earlier is harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.link.now = now;
        while let Some(timer) = self.link.timers.pop_due(now) {
            match timer {
                Timer::Call(key) => self.handle_call_timer(key),
                Timer::Request(key) => self.handle_request_timer(key),
                Timer::Alarm(alarm) => self.handle_alarm(alarm),
            }
        }
        self.finish();
    }

    fn handle_alarm(&mut self, alarm: Alarm) {
        self.link.alarms[alarm as usize] = TimerKey::NOT;
        match alarm {
            Alarm::EarlyCancels => self.expire_early_cancels(),
            Alarm::Tombstones => self.forget(),
            Alarm::Stall => self.link.emit(ConnectionEvent::GivenUp { unsent: self.link.backlog }),
            Alarm::Drain => self.stop_attached(),
        }
    }

    /// Handles the end of input: the peer will send nothing more.
    ///
    /// Our requests settle as [`Settlement::Closed`]. The peer's are cancelled at once (D27), unless their
    /// dialect lets them run on or [`ConnectionConfig::drain_on_eof`] gives them time; what they answer is still written.
    pub fn handle_eof(&mut self, now: Instant) {
        self.step(now, Self::end_input);
    }

    /// Handles the end of the link: nothing can be written to the peer any more, and nothing will be read.
    pub fn handle_write_closed(&mut self, now: Instant) {
        self.step(now, |this| {
            if core::mem::replace(&mut this.link.phase.write_closed, true) {
                return;
            }
            let mut lost = Vec::new();
            this.link.outbox.clear(|tag| lost.push(tag));
            this.link.backlog = 0;
            this.link.config.drain_on_eof = None;
            for tag in lost {
                if let Tag::Answer(key) = tag {
                    this.end_answer(key, false);
                }
            }
            this.end_input();
            this.stop_all(CauseCode::Disconnect, |_| true);
        });
    }

    /// Records that the peer has closed what the answer to its request `id` would travel on, which cancels that request,
    /// cause `disconnect` (MCP-H03). Whether a closed stream means that is for the driver to look up
    /// ([`HttpForm::stream_closed`](crate::dialect::HttpForm)). Nothing happens to a request that is over.
    pub fn handle_stream_closed(&mut self, now: Instant, id: &RequestId) {
        self.step(now, |this| {
            if let Some(key) = this.incoming.by_id(id) {
                this.stop_and_report(key, CauseCode::Disconnect, By::Peer);
            }
        });
    }

    /// Ends the connection in order: nothing new is received or sent, our requests are cancelled, the peer's
    /// handlers are stopped and get [`ConnectionConfig::short_grace`]. [`ConnectionEvent::Closed`] reports when all is
    /// done.
    pub fn shutdown(&mut self, now: Instant) {
        self.step(now, |this| {
            if !core::mem::replace(&mut this.link.phase.shutting_down, true) {
                this.cancel_all(CauseCode::Shutdown);
                this.stop_all(CauseCode::Shutdown, |_| true);
            }
        });
    }

    /// The next bytes for the peer; empty if there are none. Report what was written before anything else.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        self.link.outbox.pending()
    }

    /// Whether the peer should be read: false while it leaves unread what its own requests have cost
    /// (D13, invariant 7).
    #[must_use]
    pub const fn wants_input(&self) -> bool {
        !self.link.phase.input_ended && self.link.backlog <= self.link.config.max_backlog
    }

    /// Whether the driver should queue more that the peer did not ask for: false while more waits to be written than
    /// the peer may leave unread (D13).
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.backlog() <= self.link.config.max_backlog
    }

    /// Gives back the memory that is kept for more to come: for a connection that is idle.
    pub fn shrink(&mut self) {
        self.link.outbox.shrink();
        if let Some(decoder) = &mut self.decoder {
            decoder.shrink();
        }
        self.link.events.shrink_to_fit();
        self.link.written = Vec::new();
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.link.timers.next()
    }

    /// Whether [`poll_event`](Self::poll_event) may have something.
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.link.events.is_empty()
    }

    /// Returns the next event; polling a [`ConnectionEvent::Request`] starts its handler.
    pub fn poll_event(&mut self) -> Option<ConnectionEvent> {
        while let Some(item) = self.link.events.pop_front() {
            let event = match item {
                Item::Emitted(event) => Some(event),
                Item::Start(key) => self.start(key),
            };
            if event.is_some() {
                return event;
            }
        }
        self.link.events.shrink_to(KEPT_RECORDS);
        None
    }

    fn end_input(&mut self) {
        if self.link.phase.input_ended {
            return;
        }
        if let Some(leftover) = self.decoder.as_deref_mut().and_then(Decoder::finish) {
            self.receive_leftover(leftover);
        }
        self.link.phase.input_ended = true;
        self.close_calls();
        match self.link.config.drain_on_eof {
            Some(time) if !self.link.phase.write_closed => {
                self.link.arm_alarm(Alarm::Drain, Some(self.link.now + time));
            }
            Some(_) | None => self.stop_attached(),
        }
    }

    /// Takes one step of the driver, which begins and ends as all do.
    fn step<T>(&mut self, now: Instant, step: impl FnOnce(&mut Self) -> T) -> T {
        self.link.now = now;
        let result = step(self);
        self.finish();
        result
    }

    /// Takes a step with something from the peer, which is ignored once its input has ended.
    fn receive(&mut self, now: Instant, step: impl FnOnce(&mut Self)) {
        if !self.link.phase.input_ended {
            self.step(now, step);
        }
    }

    /// Does what every step ends with.
    fn finish(&mut self) {
        let Self { outgoing, link, .. } = self;
        if !link.resumed.is_empty() {
            for key in core::mem::take(&mut link.resumed) {
                link.arm_call(outgoing, key);
            }
        }
        link.arm_alarms(outgoing.due());
        if (link.phase.input_ended || link.phase.shutting_down) && !link.phase.closed && self.is_quiet() {
            self.link.phase.closed = true;
            self.link.emit(ConnectionEvent::Closed);
        }
        self.check();
    }

    fn is_quiet(&self) -> bool {
        self.incoming.len() == 0 && self.outgoing.waiting == 0 && self.link.outbox.is_empty()
    }

    /// Forgets what was remembered for long enough (invariant 6).
    fn forget(&mut self) {
        self.link.tombstones.prune(self.link.now);
        self.link.spent_tokens.prune(self.link.now);
        self.forget_calls();
    }
}
