//! A task in a recording (D56).

use rescind_feed::{Cancel, Request, Settled, SettledHow, Side, State, TaskAtWork, TaskStatus};
use rescind_proto::{monitor::ObservedTask, side, task, time::Instant};

use super::entry::text;

/// Its record, as a shim lists it: the task of this number. `has_ended`: its server is gone.
pub(super) fn record(number: usize, view: &ObservedTask<'_>, cancel: Option<Cancel>, has_ended: bool) -> Request {
    let is_over = view.is_over || has_ended;
    let status = match view.status {
        task::TaskStatus::Working => TaskStatus::Working,
        task::TaskStatus::InputRequired => TaskStatus::InputRequired,
        task::TaskStatus::Completed => TaskStatus::Completed,
        task::TaskStatus::Failed => TaskStatus::Failed,
        task::TaskStatus::Cancelled => TaskStatus::Cancelled,
        task::TaskStatus::Unknown => TaskStatus::Unknown,
    };
    let how = match view.status {
        task::TaskStatus::Failed => SettledHow::Error,
        task::TaskStatus::Completed | task::TaskStatus::Cancelled => SettledHow::Result,
        _ if view.is_over && !has_ended => SettledHow::Result,
        task::TaskStatus::Working | task::TaskStatus::InputRequired | task::TaskStatus::Unknown => SettledHow::Gone,
    };
    let reported = micros(view.reported);
    let state = match (is_over, &cancel) {
        (true, _) => State::Ended,
        (false, Some(_)) => State::Cancelling,
        (false, None) => State::Running,
    };
    Request {
        key: format!("t{}", number + 1),
        from: match view.request.from {
            side::Side::Client => Side::Client,
            side::Side::Server => Side::Server,
        },
        id: text(&serde_json::Value::from(&*view.id).to_string()),
        upstream: None,
        method: "task".to_owned(),
        name: view.name.as_deref().map(text),
        parent: None,
        opened_by: None,
        since: micros(view.since),
        state,
        waits_for_turn: false,
        held_until: None,
        may_be_released: false,
        deadline: None,
        progress: None,
        task: Some(text(&view.id)),
        cancel: cancel.map(|cancel| Cancel { confirms: true, ..cancel }.with_words(None, false).of_task()),
        settled: is_over.then_some(Settled { at: reported, how, code: None }),
        late: None,
        child: None,
        at_work: Some(TaskAtWork { status, reported }),
    }
}

fn micros(at: Instant) -> u64 {
    at.since_origin().as_micros() as u64
}
