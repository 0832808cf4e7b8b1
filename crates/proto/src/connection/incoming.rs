//! The peer's requests: queued, running, stopping, ended (D12, D21–D24).
//!
//! Two things are kept apart, since they end at different times: what the handler does ([`Work`]) and what the
//! requester was sent ([`ResponseState`]). Who cancelled is a third ([`Stop`]), recorded and never inferred (D25).

mod lines;
mod table;

use core::{
    hash::{Hash, Hasher},
    time::Duration,
};
use std::collections::{BTreeMap, VecDeque};

use lines::{Load, Turn};
pub(super) use table::{IncomingMut, Requests};

use super::{
    config::Limit,
    event::Payload,
    link::{Link, until},
    part::Part,
};
use crate::{
    cause::Cause,
    dialect::{CancelResult, Dialect, ItemKind},
    holder::Holder,
    id::{IncomingId, RequestId},
    link::Attachment,
    method::Method,
    outbox::Ticket,
    rule::Rule,
    slab::Key,
    standstill::Standstill,
    table::Entry,
    time::Instant,
    timer_queue::TimerKey,
    tombstones::SettledAs,
};

/// One of the peer's requests, until its handler has ended and its answer has left.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    pub(super) id: IncomingId,
    /// What the requester speaks, for this request (D2).
    pub(super) dialect: &'static Dialect,
    /// Changed by [`IncomingMut::set_work`].
    pub(super) work: Work,
    /// What the handler is given; removed by [`IncomingMut::remove_payload`].
    pub(super) payload: Option<Payload>,
    pub(super) response: ResponseState,
    pub(super) stop: Option<Box<Stop>>,
    pub(super) arrived: Instant,
    /// The requester's deadline (D17), on the clock that stands while we have a question open (D49).
    pub(super) deadline: Instant,
    /// The end of our own limit for it: of its handler's (MCP-C14), or of its wait for a handler.
    pub(super) limit: Instant,
    pub(super) timer: TimerKey,
    /// Fields that few requests have; each entry would pay for them.
    pub(super) rare: Option<Box<Rare>>,
    pub(super) method: Method,
    /// The rule that forbids cancelling it.
    pub(super) uncancellable: Option<Rule>,
    pub(super) is_shielded: bool,
    pub(super) part: Part,
    /// A later request has its id now.
    pub(super) is_replaced: bool,
    /// Changed by [`IncomingMut::suspend`] and [`IncomingMut::resume`].
    pub(super) suspension: Suspension,
    /// A person answers it, and has not: meanwhile the response clocks of our calls stand still (D49).
    pub(super) is_open_question: bool,
}

/// A million of them wait at once.
const _: () = assert!(size_of::<Incoming>() <= 144);

/// Fields that few requests have.
#[derive(Clone, Debug, Default)]
pub(super) struct Rare {
    /// Our requests that serve it, by their ids: the newest is last (D26). Changed by [`IncomingMut::change_children`].
    pub(super) children: BTreeMap<i64, Key>,
    /// How long its handler may take to stop (D22).
    pub(super) grace: Limit,
    /// The method's own cancellation result (D23).
    pub(super) cancel_result: Option<&'static CancelResult>,
    /// The batch that its answer belongs to (MCP-B01).
    pub(super) batch: Option<Key>,
    /// The session of a turn, or of a card within one, as it stood on the wire.
    pub(super) session: Option<Box<[u8]>>,
    /// Frames written for it that may not have left yet (MCP-P03).
    pub(super) frames: VecDeque<Caused>,
    /// Whether its answer leaves is to be reported (D38).
    pub(super) is_watched: bool,
    /// What its transport says of it, until its handler is started.
    pub(super) attachment: Option<Attachment>,
    /// The client that it is counted for, where several share the connection.
    pub(super) holder: Option<Holder>,
    /// Its place in that client's line, while it waits for a slot.
    pub(super) turn: Option<Turn>,
    /// The id of its message, once that was inserted (ACP-50).
    pub(super) message: Option<Box<str>>,
    /// What it is in the list of background work: its kind, and its id as JSON.
    pub(super) item: Option<(&'static ItemKind, Box<[u8]>)>,
    /// Its result, which waits until nothing of its session works (ACP-57).
    pub(super) kept_result: Option<Box<[u8]>>,
}

/// A frame that was written for a request of the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caused {
    pub(super) ticket: Ticket,
    /// It is progress, which must not be read together with the answer (D62).
    pub(super) is_void_once_answered: bool,
}

/// Whether a handler that has answered goes on with another request of the peer (D48).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Suspension {
    #[default]
    Never,
    /// It waits for that request, or works for one that has a slot.
    Waits,
    /// It waited once and does not any more: it is at work until it has ended, and holds a slot.
    Over,
}

/// What the handler does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Work {
    /// It waits for the work of its session to end (ACP-50): then it waits for a slot.
    Held,
    /// It waits for a slot.
    Waiting,
    /// It may start: the event is queued and not yet polled.
    Offered,
    Running,
    /// Its token has fired; when the timer fires it is dropped.
    Stopping,
    /// It was to be dropped, and has not ended yet.
    Dropping,
    Ended,
}

/// What the requester was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ResponseState {
    Nothing,
    /// Nothing, and nothing will be: it cancelled and wants silence (MCP-C06).
    Silence,
    /// An answer, which waits to be written.
    Answering(Ticket),
    /// An answer, which is out; or part of a batch, and will never be withdrawn.
    Answered,
    /// An answer that will not leave, or not as a whole: the link is dead, or a filter kept it back.
    Lost,
}

impl ResponseState {
    /// Whether the requester still waits for something.
    pub(super) const fn is_live(self) -> bool {
        matches!(self, Self::Nothing | Self::Answering(_))
    }

    /// As what its id is remembered.
    pub(super) const fn settled_as(self) -> SettledAs {
        if matches!(self, Self::Silence) { SettledAs::Silenced } else { SettledAs::Answered }
    }
}

/// A cancel of the request, by its requester or by this side.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    pub(super) cause: Cause,
    pub(super) asked: Instant,
    /// The requester asked too: only that silences the answer (D25).
    pub(super) by_peer: bool,
    /// The handler was shielded: the token did not fire (D22).
    pub(super) is_refused: bool,
}

/// How long after its requester's deadline a request is stopped: the deadline is the net under a lost cancel, and the
/// requester's own clock the only judge (D17). It is added here and never passed on, so that it does not add up.
const NET: Duration = Duration::from_secs(1);

impl Incoming {
    /// When its time is up, as long as `questions` goes on as it does now.
    pub(super) fn due(&self, questions: &Standstill) -> Instant {
        self.limit.min(questions.due(self.deadline) + NET)
    }

    /// When its time is up at the earliest.
    pub(super) fn earliest(&self, now: Instant, questions: &Standstill) -> Instant {
        self.limit.min(questions.earliest(now, self.deadline) + NET)
    }

    /// How much time its requester and our own limit still give it.
    pub(super) fn remaining(&self, now: Instant, questions: &Standstill) -> Option<Duration> {
        until(self.limit.min(questions.earliest(now, self.deadline)), now)
    }

    /// Whether a handler runs, its token fired or not.
    pub(super) const fn runs(&self) -> bool {
        matches!(self.work, Work::Running | Work::Stopping | Work::Dropping)
    }

    /// Whether its token has fired, and the handler has not ended.
    pub(super) const fn is_stopping(&self) -> bool {
        matches!(self.work, Work::Stopping | Work::Dropping)
    }

    /// Whether its handler runs and has not answered, and may.
    pub(super) const fn may_answer(&self) -> bool {
        self.runs() && matches!(self.response, ResponseState::Nothing)
    }

    /// Whether its handler may still send what belongs to it: until it answers, or while it is work of its session.
    pub(super) const fn may_report(&self) -> bool {
        self.may_answer() || self.runs() && self.part.is_session_work()
    }

    pub(super) fn newest_child(&self) -> Option<Key> {
        self.rare.as_ref()?.children.last_key_value().map(|(_, key)| *key)
    }

    /// Whether its handler waits for the peer, so that it holds no slot.
    fn waits_for_peer(&self) -> bool {
        self.newest_child().is_some() || self.is_suspended()
    }

    pub(super) const fn is_suspended(&self) -> bool {
        matches!(self.suspension, Suspension::Waits)
    }

    pub(super) fn cancelled_by_peer(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.by_peer)
    }

    /// Bytes that it keeps of what the peer sent.
    fn bytes(&self) -> usize {
        self.id.0.heap_bytes() + self.payload.as_ref().map_or(0, Payload::len)
    }

    /// The client that it is counted for, where several share the connection.
    pub(super) fn holder(&self) -> Option<&Holder> {
        self.rare.as_ref()?.holder.as_ref()
    }

    /// What it takes of what clients share.
    fn taken(&self) -> Load {
        let is_at_work = self.work == Work::Offered || self.runs();
        let has_place = (is_at_work || matches!(self.work, Work::Held | Work::Waiting)) && !self.is_suspended();
        Load {
            handlers: usize::from(is_at_work && !self.waits_for_peer()),
            places: usize::from(has_place),
            waiting: usize::from(self.work == Work::Waiting),
            bytes: self.bytes(),
        }
    }

    pub(super) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The method's own cancellation result.
    pub(super) fn cancel_result(&self) -> Option<&'static CancelResult> {
        self.rare.as_ref()?.cancel_result
    }

    /// Takes its answer out of the batch that it belonged to, and returns that.
    pub(super) fn leave_batch(&mut self) -> Option<Key> {
        self.rare.as_mut()?.batch.take()
    }

    /// Feeds what decides its future into a hasher, but for its session.
    pub(super) fn hash_state(&self, now: Instant, link: &Link, state: &mut impl Hasher) {
        let Self {
            id,
            dialect,
            work,
            payload,
            response,
            stop,
            arrived: _, // only shown
            deadline,
            limit,
            timer, // follows from the other times, but for the end of a grace
            rare,
            method,
            uncancellable,
            is_shielded,
            part,
            is_replaced,
            suspension,
            is_open_question,
        } = self;
        (id.0.to_string(), dialect.name, link.methods.name(*method), uncancellable, part, work, payload).hash(state);
        (is_shielded, is_replaced, suspension, is_open_question, core::mem::discriminant(response)).hash(state);
        if *work == Work::Stopping {
            until(timer.at, now).hash(state);
        } else {
            (until(*deadline, link.our_questions.reading(now)), until(*limit, now)).hash(state);
        }
        if let Some(stop) = stop {
            let Stop { cause, asked: _, by_peer, is_refused } = &**stop; // when it was asked for is only reported
            (cause.code, by_peer, is_refused).hash(state);
        }
        let none = Rare::default();
        // Each child has its parent in its own hash.
        let Rare {
            children: _,
            grace,
            cancel_result,
            batch,
            session: _,
            frames,
            is_watched,
            attachment: _,
            holder,
            turn: _, // its line is hashed in order
            message,
            item,
            kept_result,
        } = rare.as_deref().unwrap_or(&none);
        let batch = batch.map(|batch| link.batches.iter().position(|(known, _)| known == batch));
        let frames = frames.iter().filter(|frame| link.outbox.holds(frame.ticket));
        let frames = frames.map(|frame| frame.is_void_once_answered).collect::<Vec<_>>();
        (grace, cancel_result, batch, frames, is_watched, holder).hash(state);
        (message, item, kept_result).hash(state);
    }
}

impl Entry for Incoming {
    type Id = RequestId;

    fn id(&self) -> &RequestId {
        &self.id.0
    }
}
