//! What a monitor learns of dialects, tasks, turns and what belongs to what.

use rescind_proto::{
    child::{ChildEnd, ChildState},
    dialect::{acp, lsp, mcp},
    link::Verdict,
    monitor::{MonitorConfig, MonitorEvent, ObservedEnd},
    receipt::Outcome,
    rule::Rule,
    side::Side::{Client, Server},
    time::Instant,
};
use rescind_testkit::monitor_rig::MonitorRig;

fn rig() -> MonitorRig {
    MonitorRig::new(MonitorConfig::default())
}

/// The two `initialize` messages of MCP.
fn greet_mcp(rig: &mut MonitorRig, revision: &str, client: &str, server: &str) {
    rig.client(&format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{client}}}}}"#
    ));
    rig.server(&format!(
        r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":"{revision}","capabilities":{server}}}}}"#
    ));
}

fn acp_link() -> MonitorRig {
    let mut rig = rig();
    rig.client(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#);
    rig.server(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#);
    rig
}

const PROMPT: &str = r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s"}}"#;
const TURN_CANCEL: &str = r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;
const PERMISSION: &str = r#"{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s"}}"#;

#[test]
fn the_handshake_tells_what_is_spoken() {
    let mut rig = rig();
    assert_eq!(rig.monitor.dialect(), &mcp::LATEST_LEGACY, "a guess");
    greet_mcp(&mut rig, "2025-06-18", "{}", "{}");
    assert_eq!(rig.monitor.dialect(), &mcp::REVISION_2025_06_18);
    let told = |event: &MonitorEvent| matches!(event, MonitorEvent::Dialect { dialect, .. } if **dialect == mcp::REVISION_2025_06_18);
    assert_eq!(rig.count(told), 1);
}

#[test]
fn a_request_that_names_its_revision_beats_the_handshake() {
    let mut rig = rig();
    greet_mcp(&mut rig, "2025-06-18", "{}", "{}");
    rig.client(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#);
    assert_eq!(rig.request(Client, "1").dialect, &mcp::LATEST);
    assert_eq!(rig.monitor.dialect(), &mcp::REVISION_2025_06_18);
}

#[test]
fn header_blocks_are_lsp_and_the_first_bytes_say_so() {
    let mut rig = rig();
    let message = |body: &str| format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let bytes = message(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#)
        + &message(r#"{"jsonrpc":"2.0","id":2,"method":"x"}"#);
    let (half, rest) = bytes.as_bytes().split_at(30);
    rig.monitor.handle_input(rig.now, Client, half);
    rig.monitor.handle_input(rig.now, Client, rest);
    assert_eq!((rig.monitor.in_flight(Client), rig.monitor.dialect()), (2, &lsp::LSP));
    rig.monitor.handle_input(rig.now, Server, message(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).as_bytes());
    assert_eq!(rig.monitor.in_flight(Client), 1);
}

/// D2: an ACP link seen without its handshake is taken for MCP until a cancel is spelt; then it was ACP all along.
#[test]
fn the_spelling_of_a_cancel_tells_what_was_spoken_all_along() {
    let mut rig = rig();
    rig.client(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{}}"#);
    rig.client(r#"{"jsonrpc":"2.0","id":2,"method":"x","params":{}}"#);
    rig.client(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#);
    assert_eq!((rig.monitor.dialect(), rig.request(Client, "2").dialect), (&acp::V1, &acp::V1));
    assert_eq!((rig.request(Client, "1").over, rig.outcome(Client, "1")), (None, Some(Outcome::Sent)));
    rig.server(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"c"}}"#);
    assert!(matches!(rig.outcome(Client, "1"), Some(Outcome::Confirmed { .. })));
}

/// D3: every spelling is read, and which one it was is told.
#[test]
fn the_spelling_of_a_cancel_is_told() {
    for (method, member) in
        [("$/cancel_request", "requestId"), ("$/cancelRequest", "requestId"), ("$/cancelRequest", "id")]
    {
        let mut rig = acp_link();
        rig.client(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{}}"#);
        rig.client(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"{member}":1}}}}"#));
        let form =
            rig.events.iter().find_map(|event| if let MonitorEvent::Cancel(seen) = event { seen.form } else { None });
        assert_eq!(form.map(|form| (form.method, form.id)), Some((method, member)));
        assert_eq!(rig.verdicts(), [Verdict::Accepted]);
    }
}

/// Each source document's own example of a cancel, beside the request that it is about.
#[test]
fn the_cancels_of_the_source_documents_are_read() {
    let mcp = r#"{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "123", "reason": "User requested cancellation"}}"#;
    let acp = r#"{"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": "123"}}"#;
    for (revision, cancel, settled) in [
        ("mcp-2024-11-05", mcp, Some(ObservedEnd::Silent)),
        ("mcp-2025-11-25", mcp, Some(ObservedEnd::Silent)),
        ("acp-v1", acp, None),
    ] {
        let dialect = rescind_proto::dialect::Dialect::by_name(revision);
        let mut rig = MonitorRig::new(MonitorConfig { dialect, ..MonitorConfig::default() });
        rig.client(r#"{"jsonrpc":"2.0","id":"123","method":"tools/call"}"#);
        rig.client(cancel);
        assert_eq!((rig.verdicts(), rig.settled(Client, "\"123\"")), (vec![Verdict::Accepted], settled), "{revision}");
    }
}

#[test]
fn progress_says_how_far_a_request_is() {
    let mut rig = rig();
    greet_mcp(&mut rig, "2025-11-25", "{}", "{}");
    rig.client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":"p"}}}"#);
    rig.pass(7);
    rig.server(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1,"total":4,"message":"one"}}"#);
    rig.server(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":2.5,"total":4}}"#);
    let progress = rig.request(Client, "1").progress.unwrap().clone();
    assert_eq!((progress.count, progress.done, progress.total), (2, Some(2.5), Some(4.0)));
    assert_eq!((progress.message.as_deref(), progress.at), (None, rig.now), "the last message of it counts");
    rig.server(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"q","progress":1}}"#);
    assert_eq!(rig.count(|event| matches!(event, MonitorEvent::StrayProgress { from: Server })), 1);
}

#[test]
fn work_done_and_partial_results_are_progress_of_the_same_request() {
    let mut rig = MonitorRig::new(MonitorConfig { dialect: Some(&lsp::LSP), ..MonitorConfig::default() });
    rig.client(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"workDoneToken":"w","partialResultToken":"r"}}"#);
    rig.server(
        r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":"w","value":{"kind":"report","percentage":40}}}"#,
    );
    let progress = rig.request(Client, "1").progress.unwrap().clone();
    assert_eq!((progress.count, progress.done, progress.total), (1, Some(40.0), Some(100.0)));
    rig.server(r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":"r","value":[1,2]}}"#);
    assert_eq!(rig.request(Client, "1").progress.map(|progress| progress.count), Some(2));
}

#[test]
fn updates_of_a_session_are_progress_of_what_loads_it_which_is_no_turn() {
    for method in ["session/load", "session/resume"] {
        let mut rig = acp_link();
        rig.client(PROMPT);
        for (id, session) in [(2, "s"), (3, "t")] {
            let params = format!(r#"{{"sessionId":"{session}","cwd":"/"}}"#);
            rig.client(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
        }
        for _ in 0..3 {
            rig.server(r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{}}}"#);
        }
        let count = |rig: &MonitorRig, id| rig.request(Client, id).progress.map(|progress| progress.count);
        assert_eq!(["1", "2", "3"].map(|id| count(&rig, id)), [Some(3), Some(3), None], "{method}");
        rig.server(PERMISSION);
        assert_eq!(rig.request(Server, "1").parent, Some(rig.request(Client, "1").key), "the turn asks");
        rig.client(TURN_CANCEL);
        assert!(rig.request(Client, "1").cancel.is_some() && rig.request(Client, "2").cancel.is_none(), "{method}");
    }
}

/// D37: a turn is cancelled by its own notification, updated until its answer, and confirmed by its own result.
#[test]
fn a_cancelled_turn_is_confirmed_by_its_stop_reason() {
    let mut rig = acp_link();
    rig.client(TURN_CANCEL);
    assert_eq!(rig.verdicts(), [Verdict::Unknown], "there is no turn");
    rig.client(PROMPT);
    let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","title":"t"}}}"#;
    rig.server(update);
    rig.client(TURN_CANCEL);
    rig.client(TURN_CANCEL);
    assert_eq!(rig.verdicts()[1..], [Verdict::Accepted, Verdict::Repeated]);
    rig.server(update);
    let view = rig.request(Client, "1");
    assert_eq!((view.over, view.late.notices, view.session), (None, 0, Some(&b"\"s\""[..])));
    let progress = view.progress.unwrap();
    assert_eq!((progress.count, progress.message.as_deref(), progress.done), (2, None, None));
    rig.pass(30);
    rig.server(r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"cancelled"}}"#);
    let after = core::time::Duration::from_millis(30);
    assert_eq!(rig.outcome(Client, "1"), Some(Outcome::Confirmed { after }));
    rig.server(update);
    assert_eq!(rig.request(Client, "1").late.notices, 0, "a session may be updated between turns");
}

#[test]
fn a_turn_that_stops_for_another_reason_was_answered_all_the_same() {
    let mut rig = acp_link();
    rig.client(PROMPT);
    rig.client(TURN_CANCEL);
    rig.server(r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}"#);
    assert!(matches!(rig.outcome(Client, "1"), Some(Outcome::AnsweredAfter { .. })));
}

/// Case 43: what an agent asks within a turn belongs to its prompt, whatever else is in flight.
#[test]
fn a_request_within_a_session_belongs_to_its_open_turn() {
    let mut rig = acp_link();
    rig.client(PROMPT);
    rig.client(&PROMPT.replace("\"id\":1", "\"id\":2").replace("\"s\"", "\"t\""));
    rig.server(PERMISSION);
    let parent = rig.request(Server, "1").parent;
    assert_eq!(parent, Some(rig.request(Client, "1").key));
    rig.client(r#"{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"cancelled"}}}"#);
    assert!(matches!(rig.settled(Server, "1"), Some(ObservedEnd::Answered(answer)) if answer.cancelled));
    rig.server(&PERMISSION.replace("\"id\":1", "\"id\":2").replace("\"s\"", "\"u\""));
    assert_eq!(rig.request(Server, "2").parent, None, "no turn of that session is open");
}

#[test]
fn another_sessions_turn_is_no_parent_even_if_it_is_the_only_request() {
    let mut rig = acp_link();
    rig.client(PROMPT);
    rig.server(&PERMISSION.replace("\"s\"", "\"u\""));
    assert_eq!(rig.request(Server, "1").parent, None);
}

#[test]
fn without_a_session_only_the_one_request_in_flight_can_be_the_parent() {
    let ask = |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"sampling/createMessage","params":{{}}}}"#);
    let call = |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{}}}}"#);
    let mut rig = rig();
    greet_mcp(&mut rig, "2025-11-25", "{}", "{}");
    rig.server(&ask(1));
    assert_eq!(rig.request(Server, "1").parent, None);
    rig.client(&call(1));
    rig.server(&ask(2));
    assert_eq!(rig.request(Server, "2").parent, Some(rig.request(Client, "1").key));
    rig.server(r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#);
    assert_eq!(rig.request(Server, "9").parent, None, "whoever pings does nothing else");
    rig.client(&call(2));
    rig.server(&ask(3));
    assert_eq!(rig.request(Server, "3").parent, None, "either could be");
    assert_eq!(rig.request(Client, "2").parent, None, "people make a client's requests");
    rig.server(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    rig.server(&ask(4));
    assert_eq!(rig.request(Server, "4").parent, Some(rig.request(Client, "2").key));
}

const TASKS: &str = r#"{"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}"#;

/// Cases 52, 56 and MCP-C13.
#[test]
fn a_task_is_known_by_its_handle_and_not_cancelled_by_a_notification() {
    let mut rig = rig();
    greet_mcp(&mut rig, "2025-11-25", "{}", TASKS);
    rig.client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"task":{},"_meta":{"progressToken":1}}}"#);
    assert!(rig.request(Client, "1").is_task);
    rig.client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(rig.verdicts(), [Verdict::Forbidden(Rule::McpC13)]);
    rig.server(r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"k","status":"working"}}}"#);
    assert_eq!(rig.request(Client, "1").task, Some("k"));
    rig.server(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#);
    let view = rig.request(Client, "1");
    assert_eq!((view.late.notices, view.progress.map(|progress| progress.count)), (0, Some(1)), "MCP-P01");
}

/// TASK-11: a side that did not declare tasks has none, whatever the params say.
#[test]
fn without_the_capability_a_request_is_no_task() {
    let mut rig = rig();
    greet_mcp(&mut rig, "2025-11-25", "{}", "{}");
    rig.client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"task":{}}}"#);
    rig.client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!((rig.verdicts(), rig.request(Client, "1").is_task), (vec![Verdict::Accepted], false));
}

/// Case 59: the handle of a task came after its request was cancelled.
#[test]
fn a_late_handle_is_late_and_names_the_task_that_nobody_knows() {
    let mut rig = MonitorRig::new(MonitorConfig { dialect: Some(&mcp::LATEST), ..MonitorConfig::default() });
    rig.client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#);
    rig.client(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    rig.server(r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"k"}}"#);
    let view = rig.request(Client, "1");
    assert_eq!((view.task, view.late.answers, view.over.map(|over| over.1)), (Some("k"), 1, Some(ObservedEnd::Silent)));
}

#[test]
fn times_are_those_it_was_told() {
    let mut rig = rig();
    rig.pass(12);
    rig.client(r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#);
    assert_eq!(rig.request(Client, "1").since.since(Instant::ORIGIN), core::time::Duration::from_millis(12));
}

#[test]
fn children_of_a_session_are_kept_as_their_agent_reports_them() {
    let mut rig = rig();
    let declared = r#""clientCapabilities":{"subagents":{}}"#;
    rig.client(&format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":1,{declared}}}}}"#
    ));
    rig.server(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#);
    rig.client(PROMPT);
    let news = |parent: &str, child: &str, state: &str| {
        let update =
            format!(r#"{{"sessionUpdate":"subagent_update","sessionId":"{child}","state":{{"state":"{state}"}}}}"#);
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{parent}","update":{update}}}}}"#
        )
    };
    let shown = |rig: &MonitorRig| -> Vec<_> {
        rig.monitor.children().map(|view| (view.session.to_vec(), view.state, view.parent.is_some())).collect()
    };
    let (a, b) = (b"\"a\"".to_vec(), b"\"b\"".to_vec());
    rig.server(&news("s", "a", "running"));
    rig.server(&news("a", "b", "idle"));
    let idle = ChildState::Idle(ChildEnd::Finished);
    assert_eq!(shown(&rig), [(a.clone(), ChildState::Running, false), (b.clone(), idle, true)]);
    assert_eq!(rig.monitor.children().next().unwrap().turn, Some(rig.request(Client, "1").key));
    // A load makes that void, and what comes before its answer is history.
    rig.client(r#"{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":"s"}}"#);
    rig.server(&news("s", "a", "running"));
    assert_eq!(shown(&rig), [(a.clone(), ChildState::Unconfirmed, false), (b.clone(), ChildState::History, true)]);
    rig.server(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
    rig.server(&news("s", "a", "running"));
    let mut ended = rig.clone();
    ended.end(Server);
    assert_eq!(shown(&ended)[0], (a, ChildState::Unknown, false));
    // A refused close closes nothing.
    for (id, answer, left) in [(3, r#""error":{"code":-32603,"message":"no"}"#, 2), (4, r#""result":{}"#, 0)] {
        rig.client(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/close","params":{{"sessionId":"s"}}}}"#));
        rig.server(&format!(r#"{{"jsonrpc":"2.0","id":{id},{answer}}}"#));
        assert_eq!(shown(&rig).len(), left);
    }
}
