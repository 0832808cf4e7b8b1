//! The link: what all requests of a connection share.
//!
//! A step works on one request and on this, so that it looks its request up once.

use core::{
    hash::{Hash, Hasher},
    time::Duration,
};
use std::collections::VecDeque;

use super::{batch::Batch, config::ConnectionConfig, counters::Counters, event::ConnectionEvent};
use crate::{
    dialect::{Dialect, negotiation::Negotiation},
    early_cancels::EarlyCancels,
    frame::Params,
    framing::{self, Framing},
    hash::Seed,
    id::RequestId,
    link::{Attachment, LateKind},
    message,
    method::Methods,
    outbox::{Outbox, Ticket},
    side::{Side, Sides},
    slab::{Key, Slab},
    standstill::Standstill,
    table::Bounds,
    time::Instant,
    timer_queue::{NEVER, TimerKey, TimerQueue},
    tombstones::Tombstones,
};

/// Everything of a connection but its requests.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) config: ConnectionConfig,
    pub(super) negotiation: Negotiation,
    pub(super) outbox: Outbox<Tag>,
    /// What the peer's own messages caused of all that waits to be written (D13).
    pub(super) backlog: usize,
    /// Frames that the driver has taken and not yet reported as written or lost.
    pub(super) detached: usize,
    /// The batches that are being answered.
    pub(super) batches: Slab<Batch>,
    /// Ids of the peer's requests that are over (D8).
    pub(super) tombstones: Tombstones,
    /// Progress tokens of ours that are no longer active.
    pub(super) spent_tokens: Tombstones,
    pub(super) early_cancels: EarlyCancels,
    pub(super) methods: Methods,
    /// The clock of our calls' response limits: it stands while the peer has a question open (D49).
    pub(super) their_questions: Standstill,
    /// The clock of the peer's deadlines: it stands while we have a question open (D49).
    pub(super) our_questions: Standstill,
    /// Calls whose response clock goes on: their timers are to be armed again.
    pub(super) resumed: Vec<Key>,
    pub(super) timers: TimerQueue<Timer>,
    /// When each [`Alarm`] goes off, which may be earlier than anything is due.
    pub(super) alarms: [TimerKey; 4],
    pub(super) events: VecDeque<Item>,
    pub(super) counters: Counters,
    pub(super) phase: Phase,
    /// The latest time seen.
    pub(super) now: Instant,
    /// Invariants that were broken in passing, one bit each; shown by `check_invariants`.
    pub(super) broken: u16,
    /// Frames that were just written. Kept for its capacity.
    pub(super) written: Vec<(Tag, usize)>,
    /// What the transport says of the message that is being received; empty between steps.
    pub(super) attachment: Option<Attachment>,
}

/// Something for the driver, or a request to offer to it if it still stands by then.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Emitted(ConnectionEvent),
    Start(Key),
}

/// What a frame in the outbox is to us once it has left.
///
/// Its hash is its kind: which request it is for shows in its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    /// A request or notification of ours.
    Plain,
    /// A cancel of our request.
    Cancel(Key),
    /// The answer of the peer's request.
    Answer(Key),
    /// Something else that the peer caused: a refusal, a batch of answers, progress.
    Caused,
}

impl Hash for Tag {
    fn hash<H: Hasher>(&self, state: &mut H) {
        core::mem::discriminant(self).hash(state);
    }
}

/// Something that becomes due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// A clock of one of our requests, or the end of the time that its caller waits after a cancel.
    Call(Key),
    /// The deadline of one of the peer's requests, or the grace of its handler.
    Request(Key),
    Alarm(Alarm),
}

/// A timer of the connection itself; there is one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alarm {
    /// The end of the oldest early cancel (D9).
    EarlyCancels,
    /// The end of the oldest tombstone (D8).
    Tombstones,
    /// The end of the time that the peer may read nothing (D13).
    Stall,
    /// The end of the time to finish after the end of input (D27).
    Drain,
}

/// How far the connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Phase {
    /// The peer will send nothing more.
    pub(super) input_ended: bool,
    /// Nothing can be written any more.
    pub(super) write_closed: bool,
    pub(super) shutting_down: bool,
    /// [`ConnectionEvent::Closed`] was emitted.
    pub(super) closed: bool,
}

impl Phase {
    pub(super) const fn is_open(self) -> bool {
        !self.input_ended && !self.write_closed && !self.shutting_down
    }
}

impl Link {
    pub(super) fn new(config: ConnectionConfig, seed: Seed, bounds: Bounds) -> Self {
        Self {
            negotiation: Negotiation::new(Sides { client: config.dialect, server: config.dialect }),
            outbox: Outbox::new(),
            backlog: 0,
            detached: 0,
            batches: Slab::new(),
            tombstones: Tombstones::new(bounds, seed),
            spent_tokens: Tombstones::new(bounds, seed),
            early_cancels: EarlyCancels::new(config.early_cancels, seed),
            methods: Methods::new(seed),
            their_questions: Standstill::new(),
            our_questions: Standstill::new(),
            resumed: Vec::new(),
            timers: TimerQueue::new(),
            alarms: [TimerKey::NOT; 4],
            events: VecDeque::new(),
            counters: Counters::default(),
            phase: Phase { input_ended: false, write_closed: false, shutting_down: false, closed: false },
            now: Instant::ORIGIN,
            broken: 0,
            written: Vec::new(),
            attachment: None,
            config,
        }
    }

    pub(super) const fn role(&self) -> Side {
        self.config.role
    }

    pub(super) const fn peer(&self) -> Side {
        self.config.role.other()
    }

    /// The dialect the peer speaks, as far as it is known.
    pub(super) fn dialect(&self) -> &'static Dialect {
        self.negotiation.of(self.peer(), self.config.framing)
    }

    /// Learns the dialect from a request that `from` makes, and returns that of the request.
    pub(super) fn observe_request(&mut self, from: Side, method: &str, params: &Params<'_>) -> &'static Dialect {
        let (dialect, _) = self.negotiation.saw_request_from(
            from,
            self.config.framing,
            method,
            params,
            Negotiation::named(params.meta),
        );
        if from == Side::Client && dialect.last_request == Some(method) {
            self.negotiation.saw_last_request();
        }
        dialect
    }

    /// Whether a person answers requests of this method (D49).
    pub(super) fn is_question(&self, dialect: &Dialect, method: &str) -> bool {
        self.config.clocks.unwrap_or(dialect.clocks).is_question(method)
    }

    pub(super) fn emit(&mut self, event: ConnectionEvent) {
        self.events.push_back(Item::Emitted(event));
    }

    pub(super) fn report_late(&mut self, id: RequestId, what: LateKind) {
        self.counters.late += 1;
        self.emit(ConnectionEvent::Late { id, what });
    }

    /// Offers the handler of a request to the driver.
    pub(super) fn offer(&mut self, key: Key) {
        self.events.push_back(Item::Start(key));
    }

    /// Queues a message; `write` appends its JSON.
    pub(super) fn queue(&mut self, tag: Tag, write: impl FnOnce(&mut Vec<u8>)) -> Ticket {
        let before = self.outbox.unsent();
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
            Tag::Plain | Tag::Answer(_) | Tag::Caused => self.outbox.push(tag, frame),
        };
        if matches!(tag, Tag::Answer(_) | Tag::Caused) {
            self.backlog += self.outbox.unsent() - before + Outbox::<Tag>::RECORD;
        }
        ticket
    }

    /// Takes a frame of this length, which the peer caused, out of the backlog. That is empty already if the link broke
    /// while the frame was detached.
    pub(super) const fn reduce_backlog(&mut self, len: usize) {
        self.backlog = self.backlog.saturating_sub(len + Outbox::<Tag>::RECORD);
    }

    /// Withdraws a frame that the peer caused. `false` if some of it has left.
    pub(super) fn withdraw(&mut self, ticket: Ticket) -> bool {
        let len = self.outbox.withdraw(ticket);
        if let Some(len) = len {
            self.reduce_backlog(len);
        }
        len.is_some()
    }

    /// Adds an answer to a batch.
    pub(super) fn add_to_batch(&mut self, batch: Key, write: impl FnOnce(&mut Vec<u8>)) {
        self.backlog += self.batches.get_mut(batch).map_or(0, |batch| batch.add(write));
    }

    /// Takes a member out of a batch; the last one to leave sends the answers.
    pub(super) fn leave_batch(&mut self, key: Key) {
        let Some(batch) = self.batches.get_mut(key) else { return };
        batch.open -= 1;
        if batch.open > 0 {
            return;
        }
        let answers = core::mem::take(&mut batch.answers);
        self.batches.discard(key);
        self.backlog = self.backlog.saturating_sub(answers.len());
        if !answers.is_empty() && !self.phase.write_closed {
            self.queue(Tag::Caused, |out| {
                out.push(b'[');
                out.extend_from_slice(&answers);
                out.push(b']');
            });
        }
    }

    /// Arms what is due earlier than its alarm; `tombstones` of our requests may be forgotten then.
    #[inline]
    pub(super) fn arm_alarms(&mut self, tombstones: Option<Instant>) {
        let oldest = [self.tombstones.due(), self.spent_tokens.due(), tombstones].into_iter().flatten().min();
        self.arm_alarm(Alarm::Tombstones, oldest);
        self.arm_alarm(Alarm::EarlyCancels, self.early_cancels.due());
        let is_stalled = self.backlog > self.config.max_backlog;
        self.arm_alarm(Alarm::Stall, is_stalled.then(|| self.now + self.config.stall_limit));
    }

    pub(super) fn arm_alarm(&mut self, alarm: Alarm, due: Option<Instant>) {
        self.timers.arm_by(&mut self.alarms[alarm as usize], due.unwrap_or(NEVER), Timer::Alarm(alarm));
    }

    /// Notes that an invariant was broken, where only the moment shows it.
    pub(super) fn note_broken(&mut self, invariant: u8, is_broken: bool) {
        self.broken |= u16::from(is_broken) << invariant;
    }
}

/// How long it is until `due`, if that ever comes.
pub(super) fn until(due: Instant, now: Instant) -> Option<Duration> {
    (due != NEVER).then(|| due.since(now))
}
