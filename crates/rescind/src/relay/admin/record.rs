//! The relay's views as records of the feed.

use rescind_feed as feed;
use rescind_proto::{
    cause::cut,
    child::{ChildEnd, ChildState},
    dialect::Dialect,
    id::RequestId,
    link::LateCounts,
    receipt::{Answer, Outcome, Receipt},
    relay::{ArgumentsView, ChildParent, ChildView, Ended, ProgressView, RequestState, RequestView, Settled, TaskView},
    side::Side,
    task::{TaskEnd, TaskStatus},
    time::Instant,
};

/// Text that a peer chose is cut at this many bytes: a message may be megabytes long, and so may its id.
const MAX_TEXT: usize = 1024;

/// The record of a request.
pub(super) fn request(view: &RequestView<'_>) -> feed::Request {
    let late = view.late.map(late);
    let task = view.task.as_deref().map(text);
    feed::Request {
        key: view.key.to_string(),
        from: side(view.key.from),
        id: id(view.id),
        upstream: (view.upstream != view.id).then(|| id(view.upstream)),
        method: view.method.to_owned(),
        name: view.name.as_deref().map(text),
        parent: view.parent.map(|parent| parent.to_string()),
        opened_by: view.opened_by.map(|request| request.to_string()),
        since: micros(view.since),
        held_until: view.held_until.map(micros),
        state: state(view),
        waits_for_turn: view.waits_for_turn,
        may_be_released: view.may_be_released,
        deadline: view.deadline.map(micros),
        progress: view.progress.as_ref().map(progress),
        task,
        cancel: view
            .cancel
            .map(|receipt| cancel(receipt, view.upstream_dialect).with_words(late.as_ref(), view.works_on))
            .map(|cancel| if is_let_go(view) { cancel.released() } else { cancel })
            .map(|cancel| match (view.is_task, view.is_work) {
                (true, _) => of_task(cancel, view, late.as_ref()),
                (false, true) => cancel.of_work(),
                (false, false) => cancel,
            })
            .map(|cancel| match view.waited_for {
                Some(TaskEnd::Cancelled) => cancel.of_wait(feed::TaskEnd::Cancelled),
                Some(TaskEnd::Otherwise) => cancel.of_wait(feed::TaskEnd::Over),
                None => cancel,
            })
            .map(|cancel| cancel.with_children(view.children.open, view.children.unseen)),
        settled: view.ended.map(settled),
        late,
        child: None,
        at_work: view.at_work.map(|TaskView { status, reported }| feed::TaskAtWork {
            status: task_status(status),
            reported: micros(reported),
        }),
    }
}

/// A task's server answers its cancel.
fn of_task(cancel: feed::Cancel, view: &RequestView<'_>, late: Option<&feed::Late>) -> feed::Cancel {
    feed::Cancel { held: view.is_held, confirms: true, ..cancel }.with_words(late, view.works_on).of_task()
}

const fn task_status(status: TaskStatus) -> feed::TaskStatus {
    match status {
        TaskStatus::Working => feed::TaskStatus::Working,
        TaskStatus::InputRequired => feed::TaskStatus::InputRequired,
        TaskStatus::Completed => feed::TaskStatus::Completed,
        TaskStatus::Failed => feed::TaskStatus::Failed,
        TaskStatus::Cancelled => feed::TaskStatus::Cancelled,
        TaskStatus::Unknown => feed::TaskStatus::Unknown,
    }
}

/// The record of a child, whose agent speaks `dialect`.
pub(super) fn child(view: &ChildView<'_>, dialect: &Dialect) -> feed::Request {
    let session = |id: &[u8]| text(&String::from_utf8_lossy(id));
    let child = feed::Child {
        parent_session: session(view.parent_session),
        state: child_state(view.state),
        can_cancel: view.can_cancel,
        reported: micros(view.reported),
    };
    let is_cancelled = view.cancel.is_some_and(|cancel| cancel.outcome != Outcome::NotSendable);
    let how = match view.state {
        ChildState::Idle(ChildEnd::Finished) => Some(feed::SettledHow::Result),
        ChildState::Idle(ChildEnd::Cancelled) => Some(feed::SettledHow::Silent),
        ChildState::Idle(ChildEnd::Failed) => Some(feed::SettledHow::Error),
        ChildState::History => Some(feed::SettledHow::Gone),
        ChildState::Running | ChildState::Unknown | ChildState::Unconfirmed => None,
    };
    let progress = feed::Progress { at: micros(view.updated), count: view.updates, ..feed::Progress::default() };
    feed::Request {
        key: view.key.to_string(),
        from: feed::Side::Client,
        id: session(view.session),
        upstream: None,
        method: "subagent".to_owned(),
        name: view.title.map(text),
        parent: view.parent.map(|parent| match parent {
            ChildParent::Child(child) => child.to_string(),
            ChildParent::Turn(turn) => turn.to_string(),
        }),
        opened_by: view.opened_by.map(|request| request.to_string()),
        since: micros(view.since),
        held_until: None,
        state: match how {
            Some(_) => feed::State::Ended,
            None if is_cancelled => feed::State::Cancelling,
            None => feed::State::Running,
        },
        waits_for_turn: false,
        may_be_released: false,
        deadline: None,
        progress: (view.updates > 0).then_some(progress),
        task: None,
        cancel: view.cancel.map(|receipt| cancel(receipt, dialect).of_child(&child)),
        settled: how.map(|how| feed::Settled { at: child.reported, how, code: None }),
        late: None,
        child: Some(child),
        at_work: None,
    }
}

/// A child whose parent was closed, as it was shown last.
pub(super) fn closed(at: Instant, last: feed::Request) -> feed::Request {
    let settled = feed::Settled { at: micros(at), how: feed::SettledHow::Gone, code: None };
    let child = last.child.map(|child| feed::Child { state: feed::ChildState::Closed, ..child });
    feed::Request { state: feed::State::Ended, settled: Some(settled), child, ..last }
}

const fn child_state(state: ChildState) -> feed::ChildState {
    match state {
        ChildState::Running => feed::ChildState::Running,
        ChildState::Idle(ChildEnd::Finished) => feed::ChildState::Finished,
        ChildState::Idle(ChildEnd::Cancelled) => feed::ChildState::Cancelled,
        ChildState::Idle(ChildEnd::Failed) => feed::ChildState::Failed,
        ChildState::Unknown => feed::ChildState::Unknown,
        ChildState::Unconfirmed => feed::ChildState::Unconfirmed,
        ChildState::History => feed::ChildState::History,
    }
}

/// Whether its last report is still to come: its requester waits for it, or nothing shows that its work has ended.
pub(super) const fn is_to_be_followed(view: &RequestView<'_>) -> bool {
    view.ended.is_none() || outlives_its_end(view)
}

/// Whether its client was answered here, and does not wait any more for its server to end it: also once the grace for that
/// is over.
fn is_let_go(view: &RequestView<'_>) -> bool {
    view.key.from == Side::Client && matches!(view.state, RequestState::Answering | RequestState::Ended)
}

/// Whether it is shown after its end for its requester: as stuck, or as released.
pub(super) const fn outlives_its_end(view: &RequestView<'_>) -> bool {
    view.ended.is_some() && (view.is_stuck || view.is_released)
}

pub(super) fn micros(at: Instant) -> u64 {
    at.since_origin().as_micros().try_into().unwrap_or(u64::MAX)
}

pub(super) const fn side(side: Side) -> feed::Side {
    match side {
        Side::Client => feed::Side::Client,
        Side::Server => feed::Side::Server,
    }
}

/// The record of what is kept of a request's params.
pub(super) fn arguments(view: ArgumentsView<'_>) -> feed::Arguments {
    match view {
        ArgumentsView::Kept { text, length } => feed::Arguments {
            text: String::from_utf8_lossy(text).into_owned(),
            length: length as u64,
            cut: text.len() < length,
            left_out: false,
        },
        ArgumentsView::LeftOut => feed::Arguments { left_out: true, ..feed::Arguments::default() },
    }
}

/// Text that a peer chose, cut.
pub(super) fn text(text: &str) -> String {
    if text.len() <= MAX_TEXT { text.to_owned() } else { format!("{}…", cut(text, MAX_TEXT)) }
}

fn id(id: &RequestId) -> String {
    let mut json = Vec::new();
    id.write(&mut json);
    text(&String::from_utf8_lossy(&json))
}

const fn state(view: &RequestView<'_>) -> feed::State {
    if view.is_stuck {
        return feed::State::Stuck;
    }
    if view.is_released {
        return feed::State::Released;
    }
    match view.state {
        RequestState::Queued => feed::State::Queued,
        RequestState::Sent => feed::State::Running,
        RequestState::Cancelling => feed::State::Cancelling,
        RequestState::Answering => feed::State::Answering,
        RequestState::Ended => feed::State::Ended,
    }
}

fn progress(view: &ProgressView<'_>) -> feed::Progress {
    let reading = view.reading.as_ref();
    feed::Progress {
        at: micros(view.at),
        count: view.count,
        progress: reading.and_then(|reading| reading.done),
        total: reading.and_then(|reading| reading.total),
        message: reading.and_then(|reading| reading.message.as_deref()).map(text),
    }
}

/// The record of a cancel, without its `words`.
fn cancel(receipt: &Receipt, upstream_dialect: &Dialect) -> feed::Cancel {
    let (outcome, after, answer) = match receipt.outcome {
        Outcome::Asked => (feed::Outcome::Asked, None, None),
        Outcome::NeverSent => (feed::Outcome::NeverSent, None, None),
        Outcome::NotSendable => (feed::Outcome::NotSendable, None, None),
        Outcome::Sent => (feed::Outcome::Sent, None, None),
        Outcome::Confirmed { after } => (feed::Outcome::Confirmed, Some(after), None),
        Outcome::CompletedFirst => (feed::Outcome::CompletedFirst, None, None),
        Outcome::AnsweredAfter { after, answer } => (feed::Outcome::AnsweredAfter, Some(after), Some(answer)),
        Outcome::Unknown => (feed::Outcome::Unknown, None, None),
        _ => (feed::Outcome::Unknown, None, None),
    };
    feed::Cancel {
        cause: receipt.cause.code.as_str().to_owned(),
        reason: receipt.cause.text().map(text),
        asked: micros(receipt.asked),
        written: receipt.written.map(micros),
        outcome,
        after: after.map(|after| after.as_micros().try_into().unwrap_or(u64::MAX)),
        answer: answer.map(|answer| match answer {
            Answer::Result => feed::Answer::Result,
            Answer::Error => feed::Answer::Error,
        }),
        confirms: !upstream_dialect.is_silent(),
        held: false,
        waited_for: None,
        protocol: upstream_dialect.protocol().to_owned(),
        works_on: false,
        words: String::new(),
    }
}

fn settled(ended: Ended) -> feed::Settled {
    let how = match (ended.how, ended.answer) {
        (Settled::Answered, Some(Answer::Error)) => feed::SettledHow::Error,
        (Settled::Answered, Some(Answer::Result) | None) => feed::SettledHow::Result,
        (Settled::AnsweredHere { .. }, _) => feed::SettledHow::AnsweredHere,
        (Settled::Silent, _) => feed::SettledHow::Silent,
        (Settled::Gone, _) => feed::SettledHow::Gone,
    };
    feed::Settled { at: micros(ended.at), how, code: ended.code }
}

fn late(late: LateCounts) -> feed::Late {
    feed::Late { at: micros(late.at), answers: late.answers, notices: late.notices }
}
