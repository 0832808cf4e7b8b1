//! A child of an ACP session in a recording (D54).

use rescind_feed::{Child, ChildState, Progress, Request, Settled, SettledHow, Side, State};
use rescind_proto::{child, monitor::ObservedChild, time::Instant};

use super::entry::text;

/// Its record, as a shim lists it. `turn`: what its parent's prompt is called. `has_ended`: its agent is gone.
pub(super) fn record(view: &ObservedChild<'_>, turn: Option<String>, has_ended: bool) -> Request {
    let is_over = !view.state.is_open();
    let state = match view.state {
        child::ChildState::Idle(child::ChildEnd::Finished) => ChildState::Finished,
        child::ChildState::Idle(child::ChildEnd::Cancelled) => ChildState::Cancelled,
        child::ChildState::Idle(child::ChildEnd::Failed) => ChildState::Failed,
        child::ChildState::History => ChildState::History,
        // Nothing is known any more of what worked (ACP-38).
        child::ChildState::Running | child::ChildState::Unconfirmed if has_ended => ChildState::Unknown,
        child::ChildState::Running => ChildState::Running,
        child::ChildState::Unconfirmed => ChildState::Unconfirmed,
        child::ChildState::Unknown => ChildState::Unknown,
    };
    let how = match view.state {
        child::ChildState::Idle(child::ChildEnd::Finished) => SettledHow::Result,
        child::ChildState::Idle(child::ChildEnd::Failed) => SettledHow::Error,
        child::ChildState::Idle(child::ChildEnd::Cancelled) => SettledHow::Silent,
        child::ChildState::History
        | child::ChildState::Running
        | child::ChildState::Unconfirmed
        | child::ChildState::Unknown => SettledHow::Gone,
    };
    let reported = micros(view.reported);
    let progress = Progress { at: micros(view.updated), count: view.updates, ..Progress::default() };
    Request {
        key: view.key.to_string(),
        from: Side::Client,
        id: text(&String::from_utf8_lossy(view.session)),
        upstream: None,
        method: "subagent".to_owned(),
        name: view.title.map(text),
        parent: view.parent.map(|parent| parent.to_string()).or(turn),
        opened_by: None,
        since: micros(view.since),
        held_until: None,
        state: if is_over { State::Ended } else { State::Running },
        waits_for_turn: false,
        may_be_released: false,
        at_work: None,
        deadline: None,
        progress: (view.updates > 0).then_some(progress),
        task: None,
        cancel: None,
        settled: is_over.then_some(Settled { at: reported, how, code: None }),
        late: None,
        child: Some(Child {
            parent_session: text(&String::from_utf8_lossy(view.parent_session)),
            state,
            can_cancel: view.can_cancel && !has_ended,
            reported,
        }),
    }
}

fn micros(at: Instant) -> u64 {
    at.since_origin().as_micros() as u64
}
