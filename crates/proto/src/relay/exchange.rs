//! One request on its way through the relay: what each side knows of it.

use core::{ops::Range, time::Duration};
use std::collections::VecDeque;

use super::{
    event::Settled,
    task_work::{TaskPart, TaskWork},
};
use crate::{
    dialect::{Dialect, ItemKind},
    id::RequestId,
    link::{Clock, LateCounts, RequestKey},
    method::Method,
    outbox::Ticket,
    receipt::{Answer, Outcome, Receipt},
    side::Side,
    slab::Key,
    standstill::Standstill,
    time::Instant,
    timer_queue::TimerKey,
};

/// A request, from its arrival until nothing of it is remembered.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    /// Its id, as the requester knows it.
    pub(super) id: RequestId,
    /// Its id on the other side, where that differs (D32).
    pub(super) renamed: Option<RequestId>,
    /// The token under which the requester asked for progress.
    pub(super) token: Option<RequestId>,
    pub(super) clocks: Option<Box<RequestClocks>>,
    pub(super) cancel: Option<Box<Cancelling>>,
    pub(super) rare: Option<Box<Rare>>,
    /// What the requester speaks, for this request (D2).
    pub(super) dialect: &'static Dialect,
    /// What the other side speaks, for this request.
    pub(super) upstream_dialect: &'static Dialect,
    pub(super) up: Up,
    pub(super) down: Down,
    pub(super) asked: Instant,
    pub(super) method: Method,
    /// The tool or prompt that it names, as JSON.
    pub(super) name: Method,
    /// What the other side's answer was.
    pub(super) answer: Option<Answer>,
    /// It is a task: only `tasks/cancel` may cancel it (MCP-C13).
    pub(super) is_task: bool,
    /// A later request of the requester has taken the id over; this one is known by its other id only.
    pub(super) replaced: bool,
    /// It waits among the changes for an observer.
    pub(super) changed: bool,
}

/// What the other side knows of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Up {
    /// Its batch is still being read.
    Assembling,
    /// It waits for the turn before it to end (D60).
    Held,
    /// It waits to be written: alone in its frame, under a ticket, or in an array, and so cannot be withdrawn.
    Queued(Option<Ticket>),
    /// It was handed to what stands before the other side, which reports later what became of it (D51).
    Handed,
    /// It has been written whole.
    Sent,
    /// It has been answered.
    Answered,
    /// It was withdrawn and will never be known.
    Never,
    /// The other side ended.
    Lost,
}

impl Up {
    /// Whether an answer may come that is the other side's own.
    pub(super) const fn may_be_answered(self) -> bool {
        matches!(self, Self::Handed | Self::Sent)
    }
}

/// What the requester has been given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Down {
    /// Nothing yet.
    Waiting,
    /// An answer waits to be written: alone in its frame, under a ticket, or in an array.
    Answering(Option<Ticket>, Settled),
    /// Nothing, ever, and nobody waits: it is a request of the relay's own, which has not left.
    Ours,
    /// All it will ever be given, and since when.
    Done(Settled, Instant),
}

/// Clocks of one request (D16).
#[derive(Clone, Debug)]
pub(super) struct RequestClocks {
    pub(super) response: Option<Running>,
    pub(super) total: Option<Running>,
    /// Fires when the first of them runs out, or before: progress moves a clock without touching the timer.
    pub(super) timer: TimerKey,
}

/// A clock that runs. The response clock's `until` is on the clock that stands while its requester is asked something
/// (D49).
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub(super) limit: Duration,
    pub(super) until: Instant,
}

impl RequestClocks {
    /// When the first of them runs out, which one that is, and its limit. Response clocks are on the clock `questions`.
    pub(super) fn first(&self, questions: &Standstill) -> Option<(Instant, Clock, Duration)> {
        let response = self.response.map(|running| (questions.due(running.until), Clock::Response, running.limit));
        let total = self.total.map(|running| (running.until, Clock::Total, running.limit));
        response.into_iter().chain(total).min()
    }
}

/// What most requests never have.
#[derive(Clone, Debug, Default)]
pub(super) struct Rare {
    /// A person answers it: until then the response clocks of the side that is asked stand still (D49).
    pub(super) is_question: bool,
    /// It opens the session.
    pub(super) is_handshake: bool,
    /// The session of a turn, a card (D37) or a load (D16), as JSON.
    pub(super) session: Option<Box<[u8]>>,
    /// A turn of which the agent has been given a later one of the session: nothing tells their updates apart (D34).
    pub(super) is_followed: bool,
    /// What is sent once the turn before it has ended (D60).
    pub(super) held: Option<Box<HeldPrompt>>,
    /// When it went on after that.
    pub(super) held_until: Option<Instant>,
    /// When the card is closed, once the client has stopped its turn (D37). No clock of the request: it runs on when
    /// those have stopped.
    pub(super) card: TimerKey,
    /// The token under which the requester asked for partial results (LSP-04).
    pub(super) partial: Option<RequestId>,
    /// Notifications about the request that wait to be written, in the order in which they leave: taken back where
    /// silence becomes due (MCP-H04, D23).
    pub(super) notices: VecDeque<Ticket>,
    pub(super) progress: ProgressLog,
    pub(super) late: LateCounts,
    /// The request of the other side during which this one was made, where that is certain.
    pub(super) parent: Option<Key>,
    /// Further requests under its id that passed while it was in flight, each of which is owed an answer (D57).
    pub(super) duplicates: u32,
    /// The code of the other side's error.
    pub(super) code: Option<i64>,
    /// What it has to do with a task (D38, D56).
    pub(super) task: Option<TaskPart>,
    /// What it has to do with the turns of a thread (D58).
    pub(super) thread: Option<Box<ThreadPart>>,
}

/// A prompt that waits for the turn before it.
#[derive(Clone, Debug)]
pub(super) struct HeldPrompt {
    pub(super) body: Box<[u8]>,
    /// The id that it gets on the other side, and where that stands.
    pub(super) splice: Option<(Range<usize>, RequestId)>,
    /// When it waits no longer.
    pub(super) due: TimerKey,
}

/// Room for notices that is kept when none waits.
const KEPT_NOTICES: usize = 16;

impl Rare {
    /// The notice that was queued first has left. A burst gives its room back.
    pub(super) fn notice_left(&mut self) {
        self.notices.pop_front();
        if self.notices.is_empty() && self.notices.capacity() > KEPT_NOTICES {
            self.notices = VecDeque::new();
        }
    }
}

/// What an exchange has to do with the turns of a thread (D58). Ids are JSON.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ThreadPart {
    /// It is a turn at work, and no request: it has this parent, a turn of another thread. `is_alone`: an operator has
    /// cancelled it and nothing that works for it.
    Turn { thread: Box<[u8]>, turn: Box<[u8]>, parent: Option<Key>, is_alone: bool },
    /// It is a command of the model that outlived this turn, where that is known, and no request.
    Terminal { thread: Box<[u8]>, process: Box<[u8]>, turn: Option<Key> },
    /// It is a process that the client has started under this handle (CDX-13), and no request.
    Process(Box<[u8]>),
    /// It starts a turn of this thread.
    Starts(Box<[u8]>),
    /// It cancels this turn of this thread, or the one that is being started.
    Interrupts { thread: Box<[u8]>, turn: Option<Key> },
    /// After it the client receives nothing more of this thread.
    Leaves(Box<[u8]>),
    /// It runs a command by this name.
    Runs(Box<[u8]>),
    /// It starts a process under this handle.
    Spawns(Box<[u8]>),
    /// It asks for the terminals of this thread, from the first one on or from a later one.
    Lists { thread: Box<[u8]>, is_first: bool },
    /// It is a request of ours: to cancel that one.
    Ours(RequestKey),
    /// It is the foreground work of its session, and no request (D55).
    Foreground,
    /// It is this item of its session's background work, and no request, listed in the course of this foreground work.
    Background { kind: Option<&'static ItemKind>, item: Box<[u8]>, parent: Option<Key> },
}

impl ThreadPart {
    /// Whether it is work that is followed, without a request of its own.
    pub(super) const fn is_work(&self) -> bool {
        match self {
            Self::Turn { .. }
            | Self::Terminal { .. }
            | Self::Process(_)
            | Self::Foreground
            | Self::Background { .. } => true,
            Self::Starts(_) | Self::Interrupts { .. } | Self::Leaves(_) | Self::Runs(_) | Self::Spawns(_) => false,
            Self::Lists { .. } | Self::Ours(_) => false,
        }
    }

    /// A number for the state, without what only names things.
    pub(super) fn kind(&self) -> (u8, Option<u32>) {
        match self {
            Self::Turn { parent, is_alone: false, .. } => (0, parent.map(Key::index)),
            Self::Turn { parent, is_alone: true, .. } => (7, parent.map(Key::index)),
            Self::Terminal { turn, .. } => (1, turn.map(Key::index)),
            Self::Starts(_) => (2, None),
            Self::Interrupts { turn, .. } => (3, turn.map(Key::index)),
            Self::Leaves(_) => (4, None),
            Self::Runs(_) => (5, None),
            Self::Ours(of) => (6, Some(of.key.index())),
            Self::Process(_) => (8, None),
            Self::Spawns(_) => (9, None),
            Self::Lists { is_first, .. } => (10, Some(u32::from(*is_first))),
            Self::Foreground => (11, None),
            Self::Background { parent, .. } => (12, parent.map(Key::index)),
        }
    }

    /// The turn that it is a part of.
    pub(super) const fn parent(&self) -> Option<Key> {
        match self {
            Self::Turn { parent, .. } | Self::Background { parent, .. } => *parent,
            Self::Terminal { turn, .. } => *turn,
            Self::Process(_) | Self::Starts(_) | Self::Interrupts { .. } | Self::Leaves(_) | Self::Runs(_) => None,
            Self::Spawns(_) | Self::Lists { .. } | Self::Ours(_) | Self::Foreground => None,
        }
    }

    /// Bytes of the ids in it.
    fn kept(&self) -> usize {
        match self {
            Self::Turn { thread, turn: other, .. } | Self::Terminal { thread, process: other, .. } => {
                thread.len() + other.len()
            }
            Self::Starts(id) | Self::Interrupts { thread: id, .. } | Self::Leaves(id) | Self::Runs(id) => id.len(),
            Self::Process(id) | Self::Spawns(id) | Self::Lists { thread: id, .. } => id.len(),
            Self::Background { item: id, .. } => id.len(),
            Self::Ours(_) | Self::Foreground => 0,
        }
    }
}

/// Progress that has passed.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgressLog {
    pub(super) count: u64,
    pub(super) at: Instant,
    /// The params of the last, unless they were too long to keep.
    pub(super) params: Vec<u8>,
}

/// Params of progress that are longer are counted and not kept.
const MAX_PROGRESS: usize = 1024;

impl ProgressLog {
    /// Notes a sign of work; one without params, such as a partial result, says nothing about how far it is.
    pub(super) fn note(&mut self, now: Instant, params: Option<&[u8]>) {
        self.count += 1;
        self.at = now;
        if let Some(params) = params {
            self.params.clear();
            self.params.extend_from_slice(if params.len() <= MAX_PROGRESS { params } else { &[] });
        }
    }
}

/// A cancel of the request, from asking to the last that is learnt of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cancelling {
    pub(super) receipt: Receipt,
    /// The cancel in the outbox, if one was queued: it can be withdrawn until a byte of it has left.
    pub(super) frame: Option<Ticket>,
    /// The end of the grace.
    pub(super) grace: TimerKey,
    /// It was shown that the work goes on past the grace; reported once.
    pub(super) stuck: bool,
    /// Something late came of the work, no longer than a grace ago: its timer is armed.
    pub(super) works_on: bool,
    /// The operator has ordered it: the next order ends the waiting of the requester (D61).
    pub(super) is_ordered: bool,
}

/// A million of them are in flight at once: what few have stands in a box.
const _: () = assert!(size_of::<Exchange>() <= 144);

impl Exchange {
    /// A request that has just arrived, and that needs nothing of what few have.
    #[inline]
    pub(super) const fn new(
        id: RequestId,
        dialect: &'static Dialect,
        upstream_dialect: &'static Dialect,
        asked: Instant,
        method: Method,
    ) -> Self {
        Self {
            id,
            renamed: None,
            token: None,
            clocks: None,
            cancel: None,
            rare: None,
            dialect,
            upstream_dialect,
            up: Up::Assembling,
            down: Down::Waiting,
            asked,
            method,
            name: Method::OTHER,
            answer: None,
            is_task: false,
            replaced: false,
            changed: false,
        }
    }

    /// What few requests have, made where it is not there yet.
    pub(super) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Whether a side made the request, and not the relay itself (D38).
    pub(super) fn is_theirs(&self) -> bool {
        !matches!(self.task(), Some(TaskPart::Cancels(..) | TaskPart::Gets(_)))
            && !matches!(self.thread(), Some(ThreadPart::Ours(_)))
    }

    /// What it has to do with the turns of a thread (D58).
    pub(super) fn thread(&self) -> Option<&ThreadPart> {
        self.rare.as_deref()?.thread.as_deref()
    }

    /// Whether it is work that is followed, and no request: no requester waits for an answer to it (D56, D58).
    pub(super) fn is_work(&self) -> bool {
        self.thread().is_some_and(ThreadPart::is_work) || self.task_work().is_some()
    }

    /// Whether it is the foreground work of a session, and no request (D55).
    pub(super) fn is_foreground(&self) -> bool {
        self.thread() == Some(&ThreadPart::Foreground)
    }

    /// The session of a turn, a card (D37) or a load (D16), as JSON; or that of work that is reported by itself (D55).
    pub(super) fn session(&self) -> Option<&[u8]> {
        self.rare.as_deref()?.session.as_deref()
    }

    /// The request of the other side during which it was made, where that is certain.
    pub(super) fn parent(&self) -> Option<Key> {
        self.rare.as_deref()?.parent
    }

    /// What it, a request or work of `from`, is part of: a turn of its own side, or the request of the other one during which
    /// it was made.
    pub(super) fn parent_of(&self, from: Side) -> Option<RequestKey> {
        let part_of = self.thread().and_then(ThreadPart::parent).map(|key| RequestKey { from, key });
        part_of.or_else(|| Some(RequestKey { from: from.other(), key: self.parent()? }))
    }

    /// The request of its own side that opened it, if it is work that is followed.
    pub(super) fn opened_by(&self) -> Option<Key> {
        self.thread().and_then(ThreadPart::parent).or_else(|| Some(self.task_work()?.opened_by))
    }

    /// What it has to do with a task (D38, D56).
    pub(super) fn task(&self) -> Option<&TaskPart> {
        self.rare.as_deref()?.task.as_ref()
    }

    /// The task at work that it is, if it is one and no request (D56).
    pub(super) fn task_work(&self) -> Option<&TaskWork> {
        match self.task()? {
            TaskPart::Work(work) => Some(work),
            TaskPart::Became(_) | TaskPart::About(..) | TaskPart::WaitedFor(_) => None,
            TaskPart::Cancels(..) | TaskPart::Gets(_) => None,
        }
    }

    /// The same, to be changed.
    pub(super) fn task_work_mut(&mut self) -> Option<&mut TaskWork> {
        match self.rare.as_deref_mut()?.task.as_mut()? {
            TaskPart::Work(work) => Some(work),
            TaskPart::Became(_) | TaskPart::About(..) | TaskPart::WaitedFor(_) => None,
            TaskPart::Cancels(..) | TaskPart::Gets(_) => None,
        }
    }

    /// Whether its cancel is that of the request that became it, whose receipt shows it (D56).
    pub(super) fn has_origin(&self) -> bool {
        self.task_work().is_some_and(|work| work.origin.is_some())
    }

    /// Bytes that its ids, token and session own.
    pub(super) fn kept(&self) -> usize {
        let of = |id: &Option<RequestId>| id.as_ref().map_or(0, RequestId::heap_bytes);
        let of_rare = self.rare.as_deref().map_or(0, |rare| {
            of(&rare.partial)
                + rare.session.as_deref().map_or(0, <[u8]>::len)
                + rare.thread.as_deref().map_or(0, ThreadPart::kept)
        });
        self.id.heap_bytes() + of(&self.renamed) + of(&self.token) + of_rare
    }

    /// Bytes of what few have.
    pub(super) fn boxed(&self) -> usize {
        let rare = self.rare.as_deref().map_or(0, |rare| {
            let notices = rare.notices.capacity() * size_of::<Ticket>();
            let thread = rare.thread.as_ref().map_or(0, |_| size_of::<ThreadPart>());
            let task = self.task_work().map_or(0, TaskWork::boxed);
            let held = rare.held.as_deref().map_or(0, |held| size_of::<HeldPrompt>() + held.body.len());
            size_of::<Rare>() + notices + rare.progress.params.capacity() + thread + task + held
        });
        let cancel = self
            .cancel
            .as_deref()
            .map_or(0, |cancel| size_of::<Cancelling>() + cancel.receipt.cause.text().map_or(0, str::len));
        rare + cancel + self.clocks.as_ref().map_or(0, |_| size_of::<RequestClocks>())
    }

    /// Whether a person answers it.
    pub(super) fn is_question(&self) -> bool {
        self.rare.as_deref().is_some_and(|rare| rare.is_question)
    }

    /// Whether it is a card whose time runs, since the client has stopped its turn (D37).
    pub(super) fn is_closing(&self) -> bool {
        self.rare.as_deref().is_some_and(|rare| rare.card.is_armed())
    }

    /// Whether it is a turn and the agent has been given a later one of the session.
    pub(super) fn is_followed(&self) -> bool {
        self.rare.as_deref().is_some_and(|rare| rare.is_followed)
    }

    /// Whether it is a prompt that waits for the turn before it (D60).
    pub(super) fn is_held(&self) -> bool {
        self.up == Up::Held
    }

    /// Whether it opens the session.
    pub(super) fn is_handshake(&self) -> bool {
        self.rare.as_deref().is_some_and(|rare| rare.is_handshake)
    }

    /// The token under which its requester asked for partial results.
    pub(super) fn partial(&self) -> Option<&RequestId> {
        self.rare.as_deref()?.partial.as_ref()
    }

    /// Its id on the other side.
    pub(super) fn upstream(&self) -> &RequestId {
        self.renamed.as_ref().unwrap_or(&self.id)
    }

    /// Whether the requester still has something to wait for or to receive.
    pub(super) const fn is_live(&self) -> bool {
        !matches!(self.down, Down::Done(..))
    }

    /// Whether the requester has been given nothing yet.
    pub(super) const fn is_waiting(&self) -> bool {
        matches!(self.down, Down::Waiting)
    }

    /// Whether the other side still owes something that could come late.
    pub(super) const fn is_open_upstream(&self) -> bool {
        matches!(self.up, Up::Assembling | Up::Held | Up::Queued(_) | Up::Handed | Up::Sent)
    }

    /// Whether its id on the other side must not be that of another request there: it may still be answered, or its cancel
    /// had begun to leave when it was. To a side that has forgotten it such a cancel is for the next of that id (D9).
    pub(super) fn keeps_upstream_id(&self) -> bool {
        let is_behind =
            |cancel: &Cancelling| cancel.frame.is_some() && cancel.receipt.outcome == Outcome::CompletedFirst;
        self.is_open_upstream() || self.cancel.as_deref().is_some_and(is_behind)
    }

    /// Whether its progress goes on beyond the answer: a task's of 2025-11-25 does (MCP-P01), while anybody wants it.
    /// The extension has none.
    pub(super) const fn keeps_token(&self) -> bool {
        self.is_task && self.dialect.asks_for_tasks() && self.cancel.is_none()
    }

    /// Whether its requester knows that it is a task: by having asked for one, or by the handle, once that has left.
    pub(super) const fn is_known_task(&self) -> bool {
        self.is_task && (self.dialect.asks_for_tasks() || !self.is_live())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cause::{Cause, CauseCode},
        dialect::mcp,
    };

    #[test]
    fn each_box_counts_with_what_it_owns() {
        let dialect = &mcp::LATEST;
        let mut exchange = Exchange::new(RequestId::integer(1), dialect, dialect, Instant::ORIGIN, Method::OTHER);
        assert_eq!(exchange.boxed(), 0);
        exchange.clocks = Some(Box::new(RequestClocks { response: None, total: None, timer: TimerKey::NOT }));
        let clocks = size_of::<RequestClocks>();
        assert_eq!(exchange.boxed(), clocks);
        let cause = Cause::by(CauseCode::Caller, Some("too late"));
        let receipt = Receipt { cause, asked: Instant::ORIGIN, written: None, outcome: Outcome::Asked };
        let cancel =
            Cancelling { receipt, frame: None, grace: TimerKey::NOT, stuck: false, works_on: false, is_ordered: false };
        exchange.cancel = Some(Box::new(cancel));
        let cancel = size_of::<Cancelling>() + "too late".len();
        assert_eq!(exchange.boxed(), cancel + clocks);
        let (notices, params) = (VecDeque::with_capacity(100), Vec::with_capacity(1000));
        let owned = notices.capacity() * size_of::<Ticket>() + params.capacity();
        *exchange.rare() = Rare { notices, progress: ProgressLog { params, ..Default::default() }, ..Rare::default() };
        assert_eq!(exchange.boxed(), size_of::<Rare>() + owned + cancel + clocks);
        assert_eq!(exchange.kept(), 0);
        exchange.rare().session = Some(b"\"s\"".as_slice().into());
        assert_eq!(exchange.kept(), 3);
    }
}
