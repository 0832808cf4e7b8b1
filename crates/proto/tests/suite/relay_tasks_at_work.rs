//! Tasks in a relay's view: from the handle until they are known to be over (D56).

use core::time::Duration;

use rescind_proto::{
    cause::CauseCode,
    dialect::mcp,
    link::RequestKey,
    receipt::{Answer, Outcome},
    relay::{End, RelayConfig, RequestState, RequestView},
    side::{Side, Sides},
    task::TaskStatus,
};
use rescind_testkit::relay_rig::RelayRig;
use serde_json::{Value, json};

use crate::both_ends::{answer_own, own_request};

/// The two dialects of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskDialect {
    November,
    Extension,
}

pub(super) const BOTH: [TaskDialect; 2] = [TaskDialect::November, TaskDialect::Extension];

pub(super) struct Link {
    pub(super) spoken: TaskDialect,
    pub(super) rig: RelayRig,
}

impl Link {
    pub(super) fn new(spoken: TaskDialect) -> Self {
        Self::with(spoken, &json!({"cancel": {}, "requests": {"tools": {"call": {}}}}))
    }

    fn with(spoken: TaskDialect, tasks: &Value) -> Self {
        let dialects = Sides { client: Some(&mcp::LATEST), server: Some(&mcp::LATEST) };
        let rig = match spoken {
            TaskDialect::Extension => RelayRig::new(RelayConfig { dialects, ..RelayConfig::default() }),
            TaskDialect::November => {
                let mut rig = RelayRig::new(RelayConfig::default());
                let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
                rig.from_client(&request(0, "initialize", &params));
                rig.at_server();
                rig.from_server(&result(
                    0,
                    &json!({"protocolVersion": "2025-11-25", "capabilities": {"tasks": tasks}}),
                ));
                rig.at_client();
                rig
            }
        };
        Self { spoken, rig }
    }

    /// The client's call, which the server has read.
    fn call(&mut self, id: u64) -> RequestKey {
        let params = match self.spoken {
            TaskDialect::November => json!({"name": "slow", "task": {}}),
            TaskDialect::Extension => json!({"name": "slow", "_meta": meta()}),
        };
        self.rig.from_client(&request(id, "tools/call", &params));
        assert_eq!(self.rig.at_server().len(), 1);
        self.rig.key(Side::Client, &id.to_string()).expect("it is in flight")
    }

    fn handle(&self, id: u64, task: &str) -> String {
        let made = json!({"taskId": task, "status": "working"});
        match self.spoken {
            TaskDialect::November => result(id, &json!({ "task": made })),
            TaskDialect::Extension => result(id, &json!({"resultType": "task", "taskId": task, "status": "working"})),
        }
    }

    /// A call that is a task now, as its client knows.
    pub(super) fn task(&mut self, id: u64, task: &str) -> RequestKey {
        self.call(id);
        let handle = self.handle(id, task);
        self.rig.from_server(&handle);
        assert_eq!(self.rig.at_client(), [handle]);
        self.at_work(task).key
    }

    #[track_caller]
    pub(super) fn at_work(&self, task: &str) -> RequestView<'_> {
        let mut views = self.rig.relay.requests(Side::Client);
        views.find(|view| view.at_work.is_some() && view.task.as_deref() == Some(task)).expect("it is at work")
    }

    pub(super) fn count(&self) -> usize {
        self.rig.relay.requests(Side::Client).filter(|view| view.at_work.is_some()).count()
    }

    pub(super) fn outcome(&self, key: RequestKey) -> Outcome {
        self.rig.relay.view(key).and_then(|view| view.cancel.cloned()).expect("it was cancelled").outcome
    }

    /// The one message that waits for the server: method, id, params.
    #[track_caller]
    pub(super) fn asked(&mut self) -> (String, Value, Value) {
        own_request(&mut self.rig)
    }

    /// The server reads `method` about the task and answers so; the client receives nothing.
    #[track_caller]
    pub(super) fn answers(&mut self, method: &str, task: &str, answer: &Value) {
        let (asked, id, params) = self.asked();
        assert_eq!((asked.as_str(), &params["taskId"]), (method, &json!(task)));
        answer_own(&mut self.rig, &json!({"jsonrpc": "2.0", "id": id, "result": answer}));
    }

    /// The server does as `tasks/cancel` asks, whatever it takes to see that.
    fn obeys(&mut self, task: &str) {
        let cancelled = json!({"taskId": task, "status": "cancelled"});
        match self.spoken {
            TaskDialect::November => self.answers("tasks/cancel", task, &cancelled),
            TaskDialect::Extension => {
                self.answers("tasks/cancel", task, &json!({"resultType": "complete"}));
                self.answers("tasks/get", task, &cancelled);
            }
        }
    }

    pub(super) fn stop(&mut self, key: RequestKey) -> bool {
        self.rig.relay.stop(self.rig.now, key, None)
    }

    pub(super) fn leaves_nothing(&mut self) {
        self.rig.pass(Duration::from_secs(3600));
        assert_eq!(self.rig.relay.residue(), 0);
    }

    pub(super) fn pushed(&self, task: &str, status: &str) -> String {
        let method = match self.spoken {
            TaskDialect::November => "notifications/tasks/status",
            TaskDialect::Extension => "notifications/tasks",
        };
        json!({"jsonrpc": "2.0", "method": method, "params": {"taskId": task, "status": status}}).to_string()
    }
}

pub(super) fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

pub(super) fn result(id: u64, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

pub(super) fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    })
}

#[test]
fn a_task_is_in_flight_from_its_handle_until_a_terminal_status_passes() {
    for spoken in BOTH {
        for is_pushed in [true, false] {
            let mut link = Link::new(spoken);
            link.task(1, "t");
            let view = link.at_work("t");
            let shown = (view.method, view.name.as_deref(), view.state, view.at_work.map(|task| task.status));
            assert_eq!(shown, ("task", Some("slow"), RequestState::Sent, Some(TaskStatus::Working)));
            assert_eq!((link.rig.relay.in_flight(Side::Client), link.rig.relay.awaited(Side::Client)), (1, 0));
            link.rig.pass(Duration::from_secs(700));
            assert_eq!(link.count(), 1, "it is not forgotten");
            for (id, status) in [(5, "input_required"), (6, "completed")] {
                let said = link.pushed("t", status);
                if is_pushed {
                    link.rig.from_server(&said);
                    assert_eq!(link.rig.at_client(), [said]);
                } else {
                    link.rig.from_client(&request(id, "tasks/get", &json!({"taskId": "t", "_meta": meta()})));
                    assert_eq!(link.rig.at_server().len(), 1);
                    let answer = result(id, &json!({"taskId": "t", "status": status}));
                    link.rig.from_server(&answer);
                    assert_eq!(link.rig.at_client(), [answer]);
                }
                if status == "input_required" {
                    let seen = link.at_work("t").at_work.expect("it is at work");
                    assert_eq!((seen.status, seen.reported), (TaskStatus::InputRequired, link.rig.now));
                }
            }
            assert_eq!(link.count(), 0, "{spoken:?}");
            link.leaves_nothing();
        }
    }
}

#[test]
fn an_operators_stop_of_a_task_ends_with_what_its_server_says() {
    for spoken in BOTH {
        let mut link = Link::new(spoken);
        let task = link.task(1, "t");
        assert!(link.stop(task));
        assert_eq!(link.outcome(task), Outcome::Asked);
        assert_eq!(link.rig.at_client(), [""; 0], "its client is owed nothing");
        link.rig.pass(Duration::from_secs(1));
        link.obeys("t");
        assert_eq!(link.outcome(task), Outcome::Confirmed { after: Duration::from_secs(1) }, "{spoken:?}");
        assert_eq!(link.count(), 0);
        link.leaves_nothing();
    }
}

/// TASK-21: an acknowledgement stops nothing.
#[test]
fn an_acknowledged_cancel_is_not_told_as_stopped_while_the_task_works() {
    let mut link = Link::new(TaskDialect::Extension);
    let task = link.task(1, "t");
    link.stop(task);
    let working = json!({"taskId": "t", "status": "working"});
    link.answers("tasks/cancel", "t", &json!({"resultType": "complete"}));
    link.answers("tasks/get", "t", &working);
    assert_eq!((link.outcome(task), link.at_work("t").is_stuck), (Outcome::Sent, false));
    link.rig.pass(Duration::from_secs(5));
    link.answers("tasks/get", "t", &working);
    assert!(link.at_work("t").is_stuck, "it was asked twice, and works on");
    link.rig.pass(Duration::from_secs(3600));
    assert_eq!(link.rig.at_server(), [""; 0], "no more is asked");
    assert_eq!(link.outcome(task), Outcome::Sent);
    // The client's own polls go on to show it.
    link.rig.from_client(&request(9, "tasks/get", &json!({"taskId": "t", "_meta": meta()})));
    link.rig.at_server();
    link.rig.from_server(&result(9, &json!({"taskId": "t", "status": "cancelled"})));
    assert!(matches!(link.outcome(task), Outcome::Confirmed { .. }));
    assert_eq!(link.count(), 0);
}

#[test]
fn a_task_whose_cancel_is_not_answered_stays_in_view_and_can_be_cancelled_again() {
    for spoken in BOTH {
        let mut link = Link::new(spoken);
        let task = link.task(1, "t");
        assert!(link.stop(task));
        assert_eq!(link.asked().0, "tasks/cancel");
        assert!(!link.stop(task), "it is being cancelled");
        link.rig.pass(Duration::from_secs(5));
        assert_eq!(link.asked().0, "tasks/get");
        link.rig.pass(Duration::from_secs(5));
        assert!(link.at_work("t").is_stuck, "{spoken:?}");
        assert!(link.stop(task));
        link.obeys("t");
        assert!(matches!(link.outcome(task), Outcome::Confirmed { .. }));
    }
}

/// D38, D56: the receipt of the request is that of the task's cancel.
#[test]
fn the_cancel_of_a_request_is_held_until_its_handle_comes_and_its_receipt_goes_on_to_the_end() {
    let mut link = Link::new(TaskDialect::November);
    let call = link.call(1);
    assert!(link.stop(call));
    link.rig.at_client();
    let view = link.rig.relay.view(call).expect("it is remembered");
    assert_eq!(
        (view.is_held, view.is_released, view.cancel.map(|one| one.outcome)),
        (true, true, Some(Outcome::Asked))
    );
    assert_eq!(link.rig.at_server(), [""; 0]);
    let handle = link.handle(1, "t");
    link.rig.from_server(&handle);
    assert!(!link.rig.relay.view(call).expect("it is remembered").is_held);
    let task = link.at_work("t").key;
    link.rig.pass(Duration::from_millis(800));
    link.obeys("t");
    for key in [call, task] {
        assert_eq!(link.outcome(key), Outcome::Confirmed { after: Duration::from_millis(800) });
    }
    assert!(link.rig.relay.view(call).expect("it is remembered").cancel.expect("it was").written.is_some());
    assert_eq!((link.count(), link.rig.at_client().len()), (0, 0));
    link.leaves_nothing();
}

/// D56: with the extension its cancel has left, and a handle crosses it.
#[test]
fn a_handle_that_crosses_the_cancel_of_its_request_is_in_view_until_it_is_over() {
    let mut link = Link::new(TaskDialect::Extension);
    let call = link.call(1);
    assert!(link.stop(call));
    assert_eq!((link.rig.at_server().len(), link.rig.at_client().len()), (1, 1));
    let handle = link.handle(1, "t");
    link.rig.from_server(&handle);
    assert_eq!((link.outcome(call), link.count()), (Outcome::Sent, 1), "an answer that is a handle ends nothing");
    link.obeys("t");
    assert!(matches!(link.outcome(call), Outcome::Confirmed { .. }));
    assert_eq!(link.count(), 0);
}

/// Who lists what is in flight and stops it may come too late for the request, and not for its task.
#[test]
fn a_stop_of_a_request_that_has_just_become_a_task_is_that_of_the_task() {
    for spoken in BOTH {
        let mut link = Link::new(spoken);
        let call = link.call(1);
        let handle = link.handle(1, "t");
        link.rig.from_server(&handle);
        assert!(link.stop(call));
        assert!(!link.stop(call), "once");
        assert_eq!(link.rig.at_client(), [handle], "its client knows the task");
        link.obeys("t");
        assert!(matches!(link.outcome(call), Outcome::Confirmed { .. }), "{spoken:?}");
        assert_eq!(link.count(), 0);
    }
}

#[test]
fn a_held_cancel_of_a_request_that_becomes_no_task_has_no_task_to_cancel() {
    let mut link = Link::new(TaskDialect::November);
    let call = link.call(1);
    link.stop(call);
    link.rig.from_server(&json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no"}}).to_string());
    assert_eq!((link.outcome(call), link.rig.at_server().len()), (Outcome::CompletedFirst, 0));
    let call = link.call(2);
    link.stop(call);
    link.rig.end(Side::Server, &End::Closed);
    assert_eq!(link.outcome(call), Outcome::Unknown);
}

#[test]
fn a_clients_own_cancel_of_its_task_passes_and_counts() {
    for spoken in BOTH {
        let mut link = Link::new(spoken);
        let task = link.task(1, "t");
        let params = match spoken {
            TaskDialect::November => json!({"taskId": "t"}),
            TaskDialect::Extension => json!({"taskId": "t", "_meta": meta()}),
        };
        let cancel = request(2, "tasks/cancel", &params);
        link.rig.from_client(&cancel);
        let view = link.at_work("t");
        assert_eq!(
            (view.state, view.cancel.map(|one| one.cause.code)),
            (RequestState::Cancelling, Some(CauseCode::Caller))
        );
        assert_eq!(link.rig.at_server(), [cancel]);
        assert_eq!(link.outcome(task), Outcome::Sent);
        let answer = match spoken {
            TaskDialect::November => result(2, &json!({"taskId": "t", "status": "cancelled"})),
            TaskDialect::Extension => result(2, &json!({"resultType": "complete"})),
        };
        link.rig.from_server(&answer);
        assert_eq!(link.rig.at_client(), [answer]);
        if spoken == TaskDialect::Extension {
            assert_eq!(
                (link.rig.at_server().len(), link.outcome(task)),
                (0, Outcome::Sent),
                "the client asks by itself"
            );
            let said = link.pushed("t", "cancelled");
            link.rig.from_server(&said);
        }
        assert!(matches!(link.outcome(task), Outcome::Confirmed { .. }), "{spoken:?}");
        assert_eq!(link.count(), 0);
    }
}

#[test]
fn a_clients_cancel_of_its_task_that_it_takes_back_has_cancelled_nothing() {
    for spoken in BOTH {
        let mut link = Link::new(spoken);
        let task = link.task(1, "t");
        let params = match spoken {
            TaskDialect::November => json!({"taskId": "t"}),
            TaskDialect::Extension => json!({"taskId": "t", "_meta": meta()}),
        };
        link.rig.from_client(&request(2, "tasks/cancel", &params));
        let back = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
        link.rig.from_client(&back.to_string());
        assert_eq!((link.rig.at_server(), link.outcome(task)), (vec![], Outcome::NeverSent), "{spoken:?}");
        link.rig.pass(Duration::from_secs(60));
        assert_eq!((link.rig.at_server(), link.rig.relay.tally().stuck), (vec![], 0));
        assert!(link.rig.relay.stop(link.rig.now, task, None), "it can be cancelled");
        link.obeys("t");
        assert!(matches!(link.outcome(task), Outcome::Confirmed { .. }), "{spoken:?}");
    }
}

#[test]
fn a_request_of_any_id_beside_a_task_gets_its_answer() {
    let mut link = Link::new(TaskDialect::November);
    for id in ["\"rescind task 1\"", "-1"] {
        let named = |rest: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},{rest}}}"#);
        link.rig.from_client(&named(r#""method":"ping""#));
        assert_eq!(link.rig.at_server().len(), 1);
        link.task(7, "t");
        link.rig.from_server(&named(r#""result":{}"#));
        assert_eq!(link.rig.at_client(), [named(r#""result":{}"#)]);
        link = Link::new(TaskDialect::November);
    }
}

/// TASK-06: the wait for a cancelled task may be answered before its cancel is.
#[test]
fn what_a_task_led_to_ends_it_and_the_answer_to_its_cancel_says_how() {
    let mut link = Link::new(TaskDialect::November);
    link.task(1, "t");
    link.rig.from_client(&request(2, "tasks/result", &json!({"taskId": "t"})));
    link.rig.at_server();
    link.rig.from_server(&result(2, &json!({"content": []})));
    assert_eq!((link.count(), link.rig.at_client().len()), (0, 1));

    let task = link.task(3, "u");
    link.rig.from_client(&request(4, "tasks/result", &json!({"taskId": "u"})));
    link.rig.at_server();
    link.stop(task);
    link.rig.at_server();
    link.rig.from_server(&json!({"jsonrpc": "2.0", "id": 4, "error": {"code": -32800, "message": "x"}}).to_string());
    link.rig.from_server(
        &json!({"jsonrpc": "2.0", "id": 2_147_483_647, "result": {"taskId": "u", "status": "cancelled"}}).to_string(),
    );
    assert!(matches!(link.outcome(task), Outcome::Confirmed { .. }));
    assert_eq!(link.count(), 0);
}

/// MCP-C13 the other way round: a wait that is given up leaves its task alone.
#[test]
fn a_cancelled_wait_for_a_result_leaves_the_task_in_view() {
    let mut link = Link::new(TaskDialect::November);
    link.task(1, "t");
    link.rig.from_client(&request(2, "tasks/result", &json!({"taskId": "t"})));
    link.rig.at_server();
    link.rig.from_client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    link.rig.at_server();
    link.rig.from_server(&json!({"jsonrpc": "2.0", "id": 2, "error": {"code": 0, "message": "cancelled"}}).to_string());
    assert_eq!(link.count(), 1);
    assert!(link.at_work("t").cancel.is_none());
}

/// TASK-07.
#[test]
fn a_task_that_its_server_does_not_know_is_over() {
    for spoken in BOTH {
        let mut link = Link::new(spoken);
        let task = link.task(1, "t");
        link.stop(task);
        let (_, id, _) = link.asked();
        let unknown = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "?"}});
        link.rig.from_server(&unknown.to_string());
        assert_eq!((link.outcome(task), link.count()), (Outcome::CompletedFirst, 0), "TASK-02");
        let task = link.task(2, "u");
        link.rig.from_client(&request(3, "tasks/get", &json!({"taskId": "u", "_meta": meta()})));
        link.rig.at_server();
        link.rig
            .from_server(&json!({"jsonrpc": "2.0", "id": 3, "error": {"code": -32602, "message": "?"}}).to_string());
        assert_eq!(link.count(), 0);
        assert_eq!(
            link.rig.relay.view(task).expect("it is remembered").ended.expect("it is").answer,
            Some(Answer::Error)
        );
    }
}

#[test]
fn a_server_that_lets_no_task_be_cancelled_is_not_asked() {
    let mut link = Link::with(TaskDialect::November, &json!({"requests": {"tools": {"call": {}}}}));
    let task = link.task(1, "t");
    assert!(link.stop(task));
    assert_eq!((link.outcome(task), link.rig.at_server().len(), link.count()), (Outcome::NotSendable, 0, 1));
}

#[test]
fn the_end_of_its_server_ends_a_task() {
    for spoken in BOTH {
        let mut link = Link::new(spoken);
        let (stopped, task) = (link.task(1, "t"), link.task(2, "u"));
        link.stop(stopped);
        link.rig.at_server();
        link.rig.end(Side::Server, &End::Closed);
        assert_eq!((link.outcome(stopped), link.count()), (Outcome::Unknown, 0));
        assert!(link.rig.relay.view(task).expect("it is remembered").ended.is_some());
        assert_eq!(link.rig.at_client(), [""; 0], "nothing waits for an answer");
        link.leaves_nothing();
    }
}

#[test]
fn a_client_that_disconnects_leaves_its_tasks_at_work() {
    let mut link = Link::new(TaskDialect::Extension);
    link.task(1, "t");
    link.rig.relay.handle_disconnect(link.rig.now, Side::Client);
    assert!(link.at_work("t").cancel.is_none());
}

/// Nothing was ever sent under the name of a task, and what a server answers to it is for nobody.
#[test]
fn no_answer_is_that_of_a_task() {
    let mut link = Link::new(TaskDialect::November);
    link.task(1, "t");
    for id in ["rescind task 1", "t"] {
        link.rig.from_server(&json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string());
    }
    assert_eq!((link.rig.at_client().len(), link.count()), (0, 1));
}

#[test]
fn tasks_are_bounded_and_what_is_beyond_is_counted_and_its_orphans_are_cancelled_all_the_same() {
    for spoken in BOTH {
        let mut link = Link::new(spoken);
        for id in 1..=1500 {
            link.task_or_not(id, &format!("t{id}"));
        }
        assert_eq!((link.count(), link.rig.relay.unkept_tasks()), (1024, 1500 - 1024));
        assert!(link.rig.relay.held() < 16 << 20, "{}", link.rig.relay.held());
        let call = link.call(2000);
        link.stop(call);
        link.rig.at_server();
        link.rig.at_client();
        let handle = link.handle(2000, &"x".repeat(3000));
        link.rig.from_server(&handle);
        let (method, id, _) = link.asked();
        assert_eq!((method.as_str(), link.count()), ("tasks/cancel", 1024));
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"taskId": "x", "status": "cancelled"}});
        link.rig.from_server(&answer.to_string());
        let is_shown = matches!(link.outcome(call), Outcome::Confirmed { .. });
        assert_eq!(is_shown, spoken == TaskDialect::November);
        // Whatever is asked about them has room again.
        for id in 1..=1500 {
            let said = link.pushed(&format!("t{id}"), "failed");
            link.rig.from_server(&said);
        }
        assert_eq!((link.rig.at_client().len(), link.count()), (1500, 0));
        link.leaves_nothing();
    }
}

/// What is no status, no id or no object tells nothing, and passes.
#[test]
fn malformed_news_of_a_task_passes_and_ends_nothing() {
    for spoken in BOTH {
        let mut link = Link::new(spoken);
        link.task(1, "t");
        let method = if spoken == TaskDialect::November { "notifications/tasks/status" } else { "notifications/tasks" };
        for params in [
            json!({"taskId": "t"}),
            json!({"taskId": "t", "status": 5}),
            json!({"taskId": ["t"]}),
            json!({"status": "failed"}),
            json!({}),
        ] {
            let said = json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string();
            link.rig.from_server(&said);
            assert_eq!(link.rig.at_client(), [said]);
        }
        link.rig.from_server(&json!({"jsonrpc": "2.0", "method": method}).to_string());
        assert_eq!(link.at_work("t").at_work.map(|task| task.status), Some(TaskStatus::Unknown));
    }
}

impl Link {
    fn task_or_not(&mut self, id: u64, task: &str) {
        self.call(id);
        let handle = self.handle(id, task);
        self.rig.from_server(&handle);
        assert_eq!(self.rig.at_client(), [handle]);
    }
}

/// What is documented of a link with all the tasks that it follows: with ids as servers make them, and as long as may be,
/// the last progress of each, and a reason for its cancel.
#[test]
fn a_link_with_all_the_tasks_that_it_follows_holds_what_is_documented() {
    for (length, reason, most) in [(36, None, 2 << 20), (500, Some("x".repeat(1024)), 8 << 20)] {
        let mut link = Link::new(TaskDialect::November);
        let before = link.rig.relay.held();
        for id in 0..1024 {
            link.task_or_not(id + 1, &format!("{id:0length$}"));
        }
        let tasks: Vec<_> = link.rig.relay.requests(Side::Client).map(|view| view.key).collect();
        for key in tasks.iter().filter(|_| reason.is_some()) {
            link.rig.relay.stop(link.rig.now, *key, reason.as_deref());
            link.rig.at_server();
        }
        let held = link.rig.relay.held() - before;
        assert!((most / 2..most).contains(&held), "{held} of {most}");
    }
}

#[test]
fn a_task_knows_the_request_that_it_came_of() {
    for spoken in BOTH {
        let mut link = Link::new(spoken);
        let call = link.call(1);
        link.rig.from_server(&link.handle(1, "t"));
        link.rig.at_client();
        assert_eq!(link.at_work("t").opened_by, Some(call), "{spoken:?}");
        assert_eq!(link.rig.relay.view(call).map(|view| view.opened_by), Some(None));
        link.rig.pass(Duration::from_secs(3600));
        assert_eq!((link.at_work("t").opened_by, link.rig.relay.view(call).is_none()), (Some(call), true));
    }
}
