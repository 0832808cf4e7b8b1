//! How a relay looks after a task that it has cancelled, what that shows of requests which waited for the task, and how long
//! its own requests are remembered (D56).

use core::time::Duration;

use rescind_proto::{
    link::Departure,
    receipt::Outcome,
    relay::RequestState,
    side::Side,
    task::{TaskEnd, TaskStatus},
};
use serde_json::{Value, json};

use super::relay_tasks_at_work::{BOTH, Link, TaskDialect, request, result};

/// What a server shows of task `t`, and after which time it wants to be asked again.
fn seen(spoken: TaskDialect, status: &str, look_after: &Value) -> Value {
    match spoken {
        TaskDialect::November => json!({"taskId": "t", "status": status, "pollInterval": look_after}),
        TaskDialect::Extension => json!({"taskId": "t", "status": status, "pollIntervalMs": look_after}),
    }
}

/// A task that was cancelled at this moment, and works on as its server has said at once.
fn cancelled_and_working(spoken: TaskDialect, look_after: &Value) -> Link {
    let mut link = Link::new(spoken);
    let task = link.task(1, "t");
    assert!(link.stop(task));
    let working = seen(spoken, "working", look_after);
    if spoken == TaskDialect::Extension {
        link.answers("tasks/cancel", "t", &json!({"resultType": "complete"}));
        link.answers("tasks/get", "t", &working);
    } else {
        link.answers("tasks/cancel", "t", &working);
    }
    link
}

impl Link {
    fn outcome_of_task(&self) -> Outcome {
        self.rig.relay.view(self.task_key()).and_then(|view| view.cancel.cloned()).expect("it was cancelled").outcome
    }

    fn task_key(&self) -> rescind_proto::link::RequestKey {
        let mut all = self.rig.relay.summaries(Side::Client).map(|summary| summary.key);
        all.find(|key| self.rig.relay.view(*key).is_some_and(|view| view.at_work.is_some())).expect("it is remembered")
    }

    fn wait(&mut self, id: u64) {
        self.rig.from_client(&request(id, "tasks/result", &json!({"taskId": "t"})));
        assert_eq!(self.rig.at_server().len(), 1);
    }

    fn stop_wait(&mut self, id: u64) {
        let key = self.rig.key(Side::Client, &id.to_string()).expect("it is in flight");
        assert!(self.stop(key));
        self.rig.at_client();
    }

    /// What is known of the task that the cancelled request waited for, and whether the request is shown as released.
    fn waited(&self, id: u64) -> (Option<TaskEnd>, bool) {
        let mut all = self.rig.relay.summaries(Side::Client).filter(|one| one.id.to_string() == id.to_string());
        let view = all.find_map(|one| self.rig.relay.view(one.key)).expect("it is remembered");
        (view.waited_for, view.is_released)
    }
}

#[test]
fn a_cancelled_task_is_looked_at_as_often_as_its_server_wants_and_three_times_within_the_grace() {
    for spoken in BOTH {
        let mut link = cancelled_and_working(spoken, &json!(1000));
        let begun = link.rig.now;
        // In the extension the first look was for what the acknowledgement does not say.
        let more = if spoken == TaskDialect::Extension { 2 } else { 3 };
        for _ in 0..more {
            link.rig.pass(Duration::from_millis(999));
            assert_eq!(link.rig.at_server(), [""; 0], "{spoken:?}");
            link.rig.pass(Duration::from_millis(1));
            link.answers("tasks/get", "t", &seen(spoken, "working", &json!(1000)));
            assert!(!link.at_work("t").is_stuck, "it has its grace");
        }
        let rest = Duration::from_secs(5) - link.rig.now.since(begun);
        link.rig.pass(rest - Duration::from_millis(1));
        assert_eq!(link.rig.at_server(), [""; 0], "{spoken:?}: no more within the grace");
        link.rig.pass(Duration::from_millis(1));
        link.answers("tasks/get", "t", &seen(spoken, "working", &json!(1000)));
        assert!(link.at_work("t").is_stuck, "{spoken:?}");
        link.rig.pass(Duration::from_secs(60));
        assert_eq!((link.rig.at_server(), link.outcome_of_task()), (vec![], Outcome::Sent));
    }
}

#[test]
fn a_task_that_ends_within_the_grace_is_known_to_at_the_next_look() {
    for spoken in BOTH {
        let mut link = cancelled_and_working(spoken, &json!(300));
        assert_eq!(link.outcome_of_task(), Outcome::Sent);
        link.rig.pass(Duration::from_millis(300));
        link.answers("tasks/get", "t", &seen(spoken, "cancelled", &json!(300)));
        assert_eq!(link.outcome_of_task(), Outcome::Confirmed { after: Duration::from_millis(300) }, "{spoken:?}");
        assert_eq!(link.count(), 0);
        link.leaves_nothing();
    }
}

/// TASK-03 wants more, and a server that only promises has the grace to keep that.
#[test]
fn a_server_that_answers_a_cancel_with_a_task_at_work_has_the_grace() {
    let mut link = cancelled_and_working(TaskDialect::November, &Value::Null);
    let view = link.at_work("t");
    assert_eq!((view.is_stuck, view.state), (false, RequestState::Cancelling));
    assert_eq!(link.rig.relay.tally().stuck, 0);
    link.rig.pass(Duration::from_secs(5));
    link.answers("tasks/get", "t", &seen(TaskDialect::November, "working", &Value::Null));
    assert!(link.at_work("t").is_stuck);
}

#[test]
fn no_interval_of_a_server_makes_a_relay_ask_without_a_pause_or_past_the_grace() {
    for spoken in BOTH {
        let mut link = cancelled_and_working(spoken, &json!(0));
        link.rig.pass(Duration::from_millis(49));
        assert_eq!(link.rig.at_server(), [""; 0], "{spoken:?}");
        link.rig.pass(Duration::from_millis(1));
        assert_eq!(link.rig.at_server().len(), 1, "{spoken:?}");
        for odd in [json!(5000), json!(u64::MAX), json!(-1), json!("300"), json!(0.5), json!([300]), json!({})] {
            let mut link = cancelled_and_working(spoken, &odd);
            link.rig.pass(Duration::from_millis(4999));
            assert_eq!(link.rig.at_server(), [""; 0], "{spoken:?} {odd}");
            link.rig.pass(Duration::from_millis(1));
            assert_eq!(link.asked().0, "tasks/get", "{spoken:?} {odd}");
        }
    }
}

#[test]
fn no_look_is_left_to_make_once_a_task_is_over() {
    for spoken in BOTH {
        let mut link = cancelled_and_working(spoken, &json!(1000));
        let said = link.pushed("t", "completed");
        link.rig.from_server(&said);
        link.rig.at_client();
        assert!(matches!(link.outcome_of_task(), Outcome::AnsweredAfter { .. }));
        link.rig.pass(Duration::from_secs(10));
        assert_eq!(link.rig.at_server(), [""; 0]);
        link.leaves_nothing();
    }
}

/// The wait is about the task, and has no other work.
#[test]
fn a_cancelled_wait_is_over_with_its_task() {
    let mut link = Link::new(TaskDialect::November);
    let task = link.task(1, "t");
    link.wait(2);
    assert!(link.stop(task));
    link.rig.at_server();
    link.stop_wait(2);
    link.rig.at_server();
    assert_eq!(link.waited(2), (None, true));
    link.rig.from_server(&result(2_147_483_647, &json!({"taskId": "t", "status": "cancelled"})));
    assert_eq!(link.waited(2), (Some(TaskEnd::Cancelled), false));
    assert_eq!(link.rig.outcome("2"), Some(Outcome::Sent), "what became of the wait itself nobody has said");
    // What the server still says of it is heard.
    link.rig.from_server(&json!({"jsonrpc": "2.0", "id": 2, "error": {"code": -32800, "message": "x"}}).to_string());
    assert!(matches!(link.rig.outcome("2"), Some(Outcome::AnsweredAfter { .. })));
    assert_eq!(link.rig.at_client(), [""; 0]);
    link.leaves_nothing();
}

#[test]
fn a_wait_that_is_cancelled_after_its_task_is_over_waits_for_nothing() {
    for status in ["cancelled", "completed"] {
        let mut link = Link::new(TaskDialect::November);
        link.task(1, "t");
        link.wait(2);
        let said = link.pushed("t", status);
        link.rig.from_server(&said);
        link.stop_wait(2);
        let end = if status == "cancelled" { TaskEnd::Cancelled } else { TaskEnd::Otherwise };
        assert_eq!(link.waited(2), (Some(end), false));
    }
}

#[test]
fn a_cancelled_wait_for_a_task_at_work_stays_released() {
    let mut link = Link::new(TaskDialect::November);
    link.task(1, "t");
    link.task(3, "u");
    link.wait(2);
    link.stop_wait(2);
    let other = link.pushed("u", "cancelled");
    link.rig.from_server(&other);
    assert_eq!((link.waited(2), link.at_work("t").at_work.unwrap().status), ((None, true), TaskStatus::Working));
}

#[test]
fn the_waits_for_one_task_that_are_kept_are_bounded() {
    let mut link = Link::new(TaskDialect::November);
    link.task(1, "t");
    for id in 2..40 {
        link.wait(id);
        link.stop_wait(id);
        link.rig.at_server();
    }
    let said = link.pushed("t", "cancelled");
    link.rig.from_server(&said);
    let known = (2..40).filter(|id| link.waited(*id).0.is_some()).count();
    assert_eq!(known, 16);
    assert!((2..40).all(|id| {
        let (end, released) = link.waited(id);
        end.is_some() != released
    }));
}

#[test]
fn a_request_of_our_own_is_remembered_from_when_it_has_left() {
    for spoken in BOTH {
        let mut link = Link::new(spoken);
        let task = link.task(1, "t");
        assert!(link.stop(task));
        // The server reads nothing for longer than anything is remembered.
        link.rig.pass(Duration::from_secs(3000));
        assert_eq!((link.rig.relay.in_flight(Side::Client), link.rig.relay.awaited(Side::Client)), (1, 0));
        let waiting = link.rig.at_server();
        let id = |line: &String| serde_json::from_str::<Value>(line).expect("JSON")["id"].clone();
        let cancel = waiting.iter().find(|line| line.contains("tasks/cancel")).map(id).expect("it waited");
        link.rig.pass(Duration::from_secs(500));
        let answer = json!({"jsonrpc": "2.0", "id": cancel, "result": {"taskId": "t", "status": "cancelled"}});
        link.rig.from_server(&answer.to_string());
        match spoken {
            TaskDialect::November => assert!(matches!(link.outcome(task), Outcome::Confirmed { .. })),
            TaskDialect::Extension => assert_eq!(link.outcome(task), Outcome::Sent),
        }
        assert_eq!(link.rig.late(), 0, "it is known");
    }
}

/// A server that has forgotten the session may have forgotten the task with it, or not.
#[test]
fn what_another_session_does_not_know_of_a_task_shows_nothing() {
    let unknown =
        |id: &Value| json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "?"}}).to_string();
    for is_lost in [true, false] {
        let mut link = Link::new(TaskDialect::November);
        let task = link.task(1, "t");
        if is_lost {
            link.rig.relay.handle_departure(link.rig.now, Side::Server, &Departure::Session);
        }
        // What is made from now on is of the new session.
        let later = link.task(2, "u");
        for (task, outcome) in
            [(task, if is_lost { Outcome::Unknown } else { Outcome::CompletedFirst }), (later, Outcome::CompletedFirst)]
        {
            assert!(link.stop(task));
            let (_, id, _) = link.asked();
            link.rig.from_server(&unknown(&id));
            assert_eq!(link.outcome(task), outcome, "{is_lost}");
        }
        assert_eq!(link.count(), 0);
        link.leaves_nothing();
    }
}
