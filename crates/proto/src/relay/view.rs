//! What is in flight and what has been, for display.

use std::borrow::Cow;

use super::{
    Relay, Settled,
    exchange::{Cancelling, Down, Exchange, Rare, Up},
    task_work::{TaskPart, TaskWork},
};
use crate::{
    child::OpenChildren,
    dialect::{Dialect, Reading},
    id::RequestId,
    json,
    link::{LateCounts, RequestKey},
    method::Method,
    receipt::{Answer, Outcome, Receipt},
    side::Side,
    task::{TaskEnd, TaskStatus},
    time::Instant,
    timer_queue::NEVER,
};

/// One request in a relay, in flight or remembered.
#[derive(Clone, Debug)]
pub struct RequestView<'a> {
    /// Names it, and says who sent it.
    pub key: RequestKey,
    /// Its id, as its requester knows it.
    pub id: &'a RequestId,
    /// Its id on the other side.
    pub upstream: &'a RequestId,
    /// Its method.
    pub method: &'a str,
    /// The tool or prompt that it names: untrusted.
    pub name: Option<Cow<'a, str>>,
    /// The request of the other side during which it was made, where that is certain; of a turn or a command in a thread
    /// (D58) the turn that it is part of.
    pub parent: Option<RequestKey>,
    /// The request of the same side that opened it, also once that is over: of a task the request that it came of, of a turn or
    /// a command in a thread (D58) and of background work (D55) the turn. Its view may be forgotten.
    pub opened_by: Option<RequestKey>,
    /// When it arrived.
    pub since: Instant,
    /// When it went on, if it has waited for the turn before it to end (D60).
    pub held_until: Option<Instant>,
    /// How far it is.
    pub state: RequestState,
    /// When a clock ends it, unless progress comes (D16). A response clock ends nothing while it stands still (D49).
    pub deadline: Option<Instant>,
    /// Its last progress.
    pub progress: Option<ProgressView<'a>>,
    /// It is to become a task, or has: only `tasks/cancel` may cancel it (MCP-C13).
    pub is_task: bool,
    /// The task that it became, or is: untrusted.
    pub task: Option<Cow<'a, str>>,
    /// It is work that is followed by itself, and no request: a turn of a thread, foreground or background work of a session,
    /// a terminal, a process (D55, D58), or a task at work.
    pub is_work: bool,
    /// It is a task at work, and no request (D56): what its server reported last.
    pub at_work: Option<TaskView>,
    /// It waited for what a task leads to and was cancelled, and the task has ended so: nothing of it goes on at its server.
    pub waited_for: Option<TaskEnd>,
    /// Its cancel waits for the handle of its task, which alone can be cancelled (D56).
    pub is_held: bool,
    /// Who cancelled it, and what is known of that.
    pub cancel: Option<&'a Receipt>,
    /// Its client waits for the agent to end the cancelled turn: [`release`](Relay::release) ends that (D61).
    pub may_be_released: bool,
    /// It is a prompt that waits for the turn before it to end (D60).
    pub waits_for_turn: bool,
    /// It was cancelled, and something of its work came late, no longer than a grace ago.
    pub works_on: bool,
    /// Children that were at work in the course of it, a cancelled turn, and may still be (D54).
    pub children: OpenChildren,
    /// It was cancelled and is still being worked on after its grace: something of it came late, or an answer that is owed
    /// did not come.
    pub is_stuck: bool,
    /// It was cancelled, its client has all that it will get, and nothing shows that its server has ended it (D52): the
    /// server has not answered and has not ended, and what it may report is that the work goes on. Until it is forgotten,
    /// as every settled request is (D8). Not while it is stuck, which shows more.
    pub is_released: bool,
    /// What the other side speaks: whether it would confirm a cancel, for one.
    pub upstream_dialect: &'static Dialect,
    /// How it ended.
    pub ended: Option<Ended>,
    /// What came after that.
    pub late: Option<LateCounts>,
}

/// What was reported last of a task at work. Nothing is known of it since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskView {
    /// Its status.
    pub status: TaskStatus,
    /// When that was reported.
    pub reported: Instant,
}

/// What of a request costs little to read: enough to choose those among many that are to be shown.
#[derive(Clone, Copy, Debug)]
pub struct RequestSummary<'a> {
    /// Names it, and says who sent it.
    pub key: RequestKey,
    /// Its id, as its requester knows it.
    pub id: &'a RequestId,
    /// When it arrived.
    pub since: Instant,
    /// When it ended for its requester.
    pub ended: Option<Instant>,
    /// As in its view.
    pub is_stuck: bool,
    /// As in its view.
    pub is_released: bool,
    /// It was cancelled.
    pub is_cancelled: bool,
}

impl RequestSummary<'_> {
    /// Whether its requester waits for it, or it is stuck.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.ended.is_none() || self.is_stuck
    }
}

/// How a request ended for its requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When.
    pub at: Instant,
    /// How.
    pub how: Settled,
    /// What the other side answered, if it has, also if the requester never saw it.
    pub answer: Option<Answer>,
    /// The code of the error that its requester was given.
    pub code: Option<i64>,
}

/// Progress that has passed.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressView<'a> {
    /// When the last came.
    pub at: Instant,
    /// How many came.
    pub count: u64,
    /// What it said; `None` where it holds no numbers, or was too long to keep (1 KiB).
    pub reading: Option<Reading<'a>>,
}

words! {
    /// How far a request is.
    ///
    /// It never grows: a request is written, answered and over; what shows it must have a word for each state.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum RequestState {
        /// It waits to be written, or never will be: the other side does not know of it.
        Queued = "queued",
        /// The other side has it.
        Sent = "sent",
        /// A cancel was asked for; its requester still waits for the answer that its dialect owes it.
        Cancelling = "cancelling",
        /// Its answer waits to be written.
        Answering = "answering",
        /// Its requester has all it will ever get.
        Ended = "ended",
    }
}

impl Relay {
    /// The requests of `side` in flight: the same order on every run, not that of their arrival.
    pub fn requests(&self, side: Side) -> impl Iterator<Item = RequestView<'_>> {
        let live = self.tables[side].iter().filter(|(_, exchange)| exchange.is_live() && exchange.is_theirs());
        live.map(move |(key, exchange)| self.view_of(RequestKey { from: side, key }, exchange))
    }

    /// How many requests had been cancelled and may be worked on, and were forgotten before their time, for want of room
    /// (D52). None once the server has ended.
    #[must_use]
    pub const fn unkept_released(&self) -> u64 {
        self.core.unkept_released
    }

    /// Every request of `side`, in flight or remembered, in no particular order.
    pub fn summaries(&self, side: Side) -> impl Iterator<Item = RequestSummary<'_>> {
        let theirs = self.tables[side].iter().filter(|(_, exchange)| exchange.is_theirs());
        theirs.map(move |(key, exchange)| RequestSummary {
            key: RequestKey { from: side, key },
            id: &exchange.id,
            since: exchange.asked,
            ended: match exchange.down {
                Down::Done(_, at) => Some(at),
                Down::Waiting | Down::Answering(..) | Down::Ours => None,
            },
            is_stuck: is_stuck(exchange),
            is_released: is_released(side, exchange),
            is_cancelled: exchange.cancel.is_some(),
        })
    }

    /// One request, in flight or remembered.
    #[must_use]
    pub fn view(&self, request: RequestKey) -> Option<RequestView<'_>> {
        self.exchange(request).filter(|exchange| exchange.is_theirs()).map(|exchange| self.view_of(request, exchange))
    }

    /// The tasks at work, of either side's requests, as they were reported last.
    pub fn tasks(&self) -> impl Iterator<Item = TaskView> {
        let sides = Side::BOTH.into_iter().filter(|side| self.core.tasks[*side].len() > 0);
        let exchanges = sides.flat_map(|side| self.tables[side].iter().map(|(_, exchange)| exchange));
        exchanges.filter(|exchange| exchange.is_live()).filter_map(task_view)
    }

    /// Whether a request is over and there is nothing else to report of it: it was answered with a result, nobody cancelled
    /// it, nothing came late and no task came of it. `None` for one that is forgotten. Cheaper than its
    /// [`view`](Self::view).
    #[must_use]
    pub fn is_uneventful(&self, request: RequestKey) -> Option<bool> {
        let exchange = self.exchange(request)?;
        let answered =
            matches!(exchange.down, Down::Done(Settled::Answered, _)) && exchange.answer == Some(Answer::Result);
        let is_a_task = !matches!(exchange.task(), None | Some(TaskPart::About(..) | TaskPart::WaitedFor(_)));
        let quiet = exchange.cancel.is_none() && !is_a_task;
        Some(answered && quiet && exchange.rare.as_deref().is_none_or(|rare| rare.late == LateCounts::default()))
    }

    fn view_of<'a>(&'a self, key: RequestKey, exchange: &'a Exchange) -> RequestView<'a> {
        let rare = exchange.rare.as_deref();
        let questions = &self.core.questions[key.from];
        let due = exchange.clocks.as_deref().and_then(|clocks| Some(clocks.first(questions)?.0));
        let cancel = exchange.cancel.as_deref();
        let opened_by = exchange.opened_by().map(|parent| RequestKey { from: key.from, key: parent });
        let named = exchange.name != Method::OTHER;
        RequestView {
            key,
            id: &exchange.id,
            upstream: if exchange.is_work() { &exchange.id } else { exchange.upstream() },
            method: self.core.methods.name(exchange.method),
            name: named.then(|| json::text(self.core.names.name(exchange.name).as_bytes())).flatten(),
            parent: exchange.parent_of(key.from),
            opened_by,
            since: exchange.asked,
            held_until: rare.and_then(|rare| rare.held_until),
            state: state(exchange),
            deadline: due.filter(|due| *due != NEVER),
            progress: rare.filter(|rare| rare.progress.count > 0).map(|rare| progress(rare, exchange.upstream_dialect)),
            is_task: exchange.is_task,
            task: match exchange.task() {
                Some(TaskPart::Became(task)) => json::text(task),
                Some(TaskPart::Work(work)) => json::text(&work.task),
                Some(TaskPart::About(..) | TaskPart::WaitedFor(_) | TaskPart::Cancels(..) | TaskPart::Gets(_)) => None,
                None => None,
            },
            is_work: exchange.is_work(),
            waited_for: waited_for(exchange),
            at_work: task_view(exchange),
            is_held: is_held(exchange),
            cancel: cancel.map(|cancel| &cancel.receipt),
            may_be_released: self.core.may_be_released(key.from, exchange),
            waits_for_turn: exchange.is_held(),
            works_on: cancel.is_some_and(|cancel| cancel.works_on) && exchange.is_open_upstream(),
            children: match (key.from, cancel) {
                (Side::Client, Some(_)) => self.core.children.of_turn(key.key),
                (Side::Client | Side::Server, _) => OpenChildren::default(),
            },
            is_stuck: is_stuck(exchange),
            is_released: is_released(key.from, exchange),
            upstream_dialect: exchange.upstream_dialect,
            ended: ended(exchange),
            late: rare.map(|rare| rare.late).filter(|late| late.answers + late.notices > 0),
        }
    }
}

/// How the task ended that it waited for, if it was cancelled then.
fn waited_for(exchange: &Exchange) -> Option<TaskEnd> {
    if let Some(TaskPart::WaitedFor(end)) = exchange.task() { Some(*end) } else { None }
}

fn task_view(exchange: &Exchange) -> Option<TaskView> {
    exchange.task_work().map(|&TaskWork { status, reported, .. }| TaskView { status, reported })
}

/// Whether a request is shown after its end for its requester: as stuck, or as released.
pub(super) fn is_shown(from: Side, exchange: &Exchange) -> bool {
    is_stuck(exchange) || is_released(from, exchange)
}

/// Whether its cancel waits for the handle of its task.
fn is_held(exchange: &Exchange) -> bool {
    let is_asked = exchange.cancel.as_deref().is_some_and(|cancel| cancel.receipt.outcome == Outcome::Asked);
    exchange.is_task && is_asked && exchange.task_work().is_none() && exchange.is_open_upstream()
}

fn is_stuck(exchange: &Exchange) -> bool {
    let owes = !exchange.upstream_dialect.is_silent() || exchange.task_work().is_some();
    let shows = |cancel: &Cancelling| cancel.stuck && (cancel.works_on || owes);
    exchange.cancel.as_deref().is_some_and(shows) && exchange.is_open_upstream()
}

/// Whether only the client knows that the request is over (D52). A request of the server is worked on by its client, and is
/// never a reason to end the server (D53).
fn is_released(from: Side, exchange: &Exchange) -> bool {
    let is_given_up = exchange.cancel.is_some() && !exchange.is_live();
    let waited = waited_for(exchange).is_some();
    from == Side::Client && is_given_up && exchange.is_open_upstream() && !waited && !is_stuck(exchange)
}

fn progress<'a>(rare: &'a Rare, upstream_dialect: &'static Dialect) -> ProgressView<'a> {
    let noted = &rare.progress;
    let reading =
        upstream_dialect.progress.map(|form| form.read(&noted.params)).filter(|reading| *reading != Reading::default());
    ProgressView { at: noted.at, count: noted.count, reading }
}

fn ended(exchange: &Exchange) -> Option<Ended> {
    let Down::Done(how, at) = exchange.down else { return None };
    let code = match how {
        Settled::AnsweredHere { code } => code.map(i64::from),
        Settled::Answered => exchange.rare.as_deref().and_then(|rare| rare.code),
        Settled::Silent | Settled::Gone => None,
    };
    Some(Ended { at, how, answer: exchange.answer, code })
}

const fn state(exchange: &Exchange) -> RequestState {
    match (exchange.down, exchange.up) {
        (Down::Done(..), _) => RequestState::Ended,
        (Down::Answering(..), _) => RequestState::Answering,
        (Down::Waiting, _) if exchange.cancel.is_some() => RequestState::Cancelling,
        // Lost while its requester waits: the other side could no longer be written to.
        (Down::Waiting, Up::Assembling | Up::Held | Up::Queued(_) | Up::Handed | Up::Never | Up::Lost) => {
            RequestState::Queued
        }
        (Down::Waiting, Up::Sent | Up::Answered) | (Down::Ours, _) => RequestState::Sent,
    }
}
