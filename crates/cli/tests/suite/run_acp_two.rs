//! ACP v2 through `rescind run` (D55): work that a session reports by itself, in `rescind ps`, and what `cancel` and `stop`
//! do. The test is both ends, but for the last one, where the agent is a process that works.

use rescind_testkit::puppet::Rig;
use serde_json::{Value, json};

pub(crate) use crate::shim::at_work::own_message;
use crate::{
    operator::say,
    shim::{
        PROGRAM,
        at_work::{Beating, beside},
        words::{pass_to_client, pass_to_server},
    },
};

/// Shakes hands in version 2.
pub(crate) fn greet(rig: &mut Rig) {
    let hello = json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": {"protocolVersion": 2}});
    pass_to_server(rig, &hello.to_string());
    let answer = json!({"jsonrpc": "2.0", "id": "hello", "result": {"protocolVersion": 2}});
    pass_to_client(rig, &answer.to_string());
}

/// Inserts a prompt of session "s", id 3.
pub(crate) fn insert_prompt(rig: &mut Rig) {
    let prompt =
        json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}});
    pass_to_server(rig, &prompt.to_string());
    pass_to_client(rig, &json!({"jsonrpc": "2.0", "id": 3, "result": {"messageId": "m"}}).to_string());
}

/// A prompt of session "s" has a terminal in the background, "built".
pub(crate) fn begin_background(rig: &mut Rig) {
    greet(rig);
    insert_prompt(rig);
    state(rig, &json!({"state": "running", "background": []}));
    let listed = json!([{"type": "terminal", "terminalId": "built"}]);
    state(rig, &json!({"state": "running", "background": listed}));
}

fn greeted() -> Rig {
    let mut rig = Rig::start(PROGRAM);
    greet(&mut rig);
    rig
}

/// The work of a prompt has begun.
fn at_work() -> Rig {
    let mut rig = greeted();
    insert_prompt(&mut rig);
    state(&mut rig, &json!({"state": "running", "background": []}));
    rig
}

/// The agent reports an update of session "s".
pub(crate) fn update(rig: &mut Rig, kind: &str, members: &Value) {
    let mut update = members.clone();
    update["sessionUpdate"] = kind.into();
    let params = json!({"sessionId": "s", "update": update});
    pass_to_client(rig, &json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string());
}

pub(crate) fn state(rig: &mut Rig, members: &Value) {
    update(rig, "state_update", members);
}

/// ACP-50, ACP-52.
#[test]
fn ps_shows_work_until_it_is_idle_and_cancel_says_confirmed_only_then() {
    let mut rig = at_work();
    let said = say(&rig.sockets, &["ps"]);
    assert!(said.stdout.contains("session/prompt") && said.stdout.contains("running"), "{said:?}");
    assert_eq!(said.stderr, "", "all of it is reported");
    let document: Value = serde_json::from_str(&say(&rig.sockets, &["ps", "--json"]).stdout).unwrap();
    let request = &document["sessions"][0]["requests"][0];
    assert_eq!((&request["method"], &request["state"]), (&json!("session/prompt"), &json!("running")), "{document}");

    let name = format!("{}/3", rig.shim.id);
    let said = beside(&mut rig, &["cancel", &name, "--wait", "1h"], |rig| {
        let (method, _, params) = own_message(rig);
        assert_eq!((&*method, params), ("session/cancel", json!({"sessionId": "s"})));
        update(rig, "agent_message_chunk", &json!({}));
        state(rig, &json!({"state": "idle", "stopReason": "cancelled", "background": []}));
    });
    assert!(said.code == 0 && said.stdout.contains("confirmed after"), "{said:?}");
    let said = say(&rig.sockets, &["ps"]);
    assert_eq!(said.stderr, "nothing is in flight (1 session)\n", "{said:?}");
    rig.expect_server_hears_nothing();
    rig.expect_client_hears_nothing();
}

/// ACP-51: what is cancelled with the foreground has a line, too, and the exit code says what could not be.
#[test]
fn cancel_of_the_foreground_names_the_background_work_that_it_cancels_or_cannot() {
    let mut rig = at_work();
    update(&mut rig, "terminal_update", &json!({"terminalId": "granted", "capabilities": {"cancel": {}}}));
    let [granted, fixed] = ["granted", "fixed"].map(|id| json!({"type": "terminal", "terminalId": id}));
    state(&mut rig, &json!({"state": "running", "background": [granted, fixed]}));
    let name = format!("{}/3", rig.shim.id);
    let said = beside(&mut rig, &["cancel", &name, "--wait", "1h"], |rig| {
        assert_eq!(own_message(rig).0, "session/cancel");
        let (method, id, _) = own_message(rig);
        assert_eq!(method, "terminal/cancel");
        rig.server.send(&json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string());
        update(rig, "terminal_update", &json!({"terminalId": "granted", "exitStatus": {"signal": "TERM"}}));
        state(rig, &json!({"state": "idle", "stopReason": "cancelled", "background": [fixed]}));
    });
    assert!(
        said.stdout.contains("/3: confirmed after") && said.stdout.contains("/granted: confirmed after"),
        "{said:?}"
    );
    assert!(said.stdout.contains("/fixed: not sent"), "{said:?}");
    assert_eq!(said.code, 1, "one was not cancelled: {said:?}");
}

/// Listed while nothing else works, it is below no turn in `ps`.
#[test]
fn cancel_of_turns_only_leaves_background_work_that_belongs_to_none_alone() {
    let mut rig = at_work();
    let idle = |background: Value| json!({"state": "idle", "stopReason": "end_turn", "background": background});
    state(&mut rig, &idle(json!([])));
    for (kind, id) in [("terminal", "terminalId"), ("tool_call", "toolCallId")] {
        update(&mut rig, &format!("{kind}_update"), &json!({id: kind, "capabilities": {"cancel": {}}}));
    }
    let listed = json!([{"type": "terminal", "terminalId": "terminal"}, {"type": "tool_call", "toolCallId": "tool_call"}, {"type": "_x"}]);
    state(&mut rig, &idle(listed.clone()));
    let refused = say(&rig.sockets, &["cancel", "--all", "--turn-only"]);
    assert!(refused.code == 1 && refused.stderr.contains("nothing to cancel"), "{refused:?}");
    insert_prompt(&mut rig);
    state(&mut rig, &json!({"state": "running", "background": listed}));
    let said = beside(&mut rig, &["cancel", "--all", "--turn-only"], |rig| {
        assert_eq!(own_message(rig).0, "session/cancel");
        state(rig, &json!({"state": "idle", "stopReason": "cancelled", "background": listed}));
    });
    assert!(said.code == 0 && said.stdout.contains("/3: confirmed"), "{said:?}");
    assert!(!said.stdout.contains("terminal") && !said.stdout.contains("tool_call"), "{said:?}");
    rig.expect_server_hears_nothing();
}

/// ACP-51, ACP-55: `stopped` needs each of them over, and what cannot be asked is named.
#[test]
fn stop_ends_the_foreground_and_each_background_item_that_grants_it() {
    let mut rig = at_work();
    for (kind, id) in [("terminal_update", "terminalId"), ("tool_call_update", "toolCallId")] {
        update(&mut rig, kind, &json!({id: kind, "capabilities": {"cancel": {}}}));
    }
    let listed = json!([
        {"type": "terminal", "terminalId": "terminal_update"},
        {"type": "tool_call", "toolCallId": "tool_call_update"},
        {"type": "terminal", "terminalId": "fixed"},
        {"type": "_watcher"},
    ]);
    state(&mut rig, &json!({"state": "running", "background": listed}));
    let said = say(&rig.sockets, &["ps"]);
    for kind in ["session/prompt", "terminal", "tool_call", "background"] {
        assert!(said.stdout.contains(kind), "{kind}: {said:?}");
    }
    let said = beside(&mut rig, &["stop", "--within", "3s"], |rig| {
        let mut heard = Vec::new();
        for _ in 0..3 {
            let (method, id, _) = own_message(rig);
            if !id.is_null() {
                rig.server.send(&json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string());
            }
            heard.push(method);
        }
        assert_eq!(heard, ["session/cancel", "terminal/cancel", "tool_call/cancel"]);
        update(rig, "terminal_update", &json!({"terminalId": "terminal_update", "exitStatus": {"signal": "TERM"}}));
        update(rig, "tool_call_update", &json!({"toolCallId": "tool_call_update", "status": "cancelled"}));
        let left = json!([{"type": "terminal", "terminalId": "fixed"}, {"type": "_watcher"}]);
        state(rig, &json!({"state": "idle", "stopReason": "cancelled", "background": left}));
    });
    assert_eq!(said.code, 1, "two are left: {said:?}");
    for line in ["/3: stopped", "/terminal_update: stopped", "/tool_call_update: stopped"] {
        assert!(said.stdout.contains(line), "{line}: {said:?}");
    }
    for line in ["/fixed: not delivered", "/_watcher: not delivered"] {
        assert!(said.stdout.contains(line), "{line}: {said:?}");
    }
    rig.expect_client_hears_nothing();
    rig.expect_server_hears_nothing();
}

/// ACP-55: `{}` is accepted, not stopped.
#[test]
fn an_accepted_cancel_of_a_tool_call_that_goes_on_is_not_told_as_stopped() {
    let mut rig = greeted();
    update(&mut rig, "tool_call_update", &json!({"toolCallId": "t", "capabilities": {"cancel": {}}}));
    let listed = json!([{"type": "tool_call", "toolCallId": "t"}]);
    state(&mut rig, &json!({"state": "idle", "background": listed}));
    let said = beside(&mut rig, &["stop", "--within", "1s"], |rig| {
        let (method, id, params) = own_message(rig);
        assert_eq!((&*method, params), ("tool_call/cancel", json!({"sessionId": "s", "toolCallId": "t"})));
        rig.server.send(&json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string());
    });
    assert!(said.code == 1 && said.stdout.contains("/t: no answer"), "{said:?}");
    rig.expect_client_hears_nothing();
}

/// ACP-56: never "nothing is in flight".
#[test]
fn background_work_that_is_not_reported_cannot_be_seen_and_is_said_so() {
    let mut rig = greeted();
    state(&mut rig, &json!({"state": "idle"}));
    let note = "its agent does not report all of its background work: whether any goes on cannot be seen";
    for (arguments, code) in [(&["ps"][..], 0), (&["stop"], 1)] {
        let said = say(&rig.sockets, arguments);
        assert!(said.stderr.contains(note) && said.stderr.contains("nothing is seen in flight"), "{said:?}");
        assert_eq!(said.code, code, "not all of it is known to be over: {said:?}");
    }
    let said = say(&rig.sockets, &["ps", "--sessions"]);
    assert!(said.stdout.contains("cannot be seen") && !said.stdout.contains("idle"), "{said:?}");
    let document: Value = serde_json::from_str(&say(&rig.sockets, &["ps", "--sessions", "--json"]).stdout).unwrap();
    assert_eq!(document["sessions"][0]["session"]["hidesWork"], true, "{document}");
    state(&mut rig, &json!({"state": "idle", "background": []}));
    assert_eq!(say(&rig.sockets, &["ps"]).stderr, "nothing is in flight (1 session)\n");
    assert_eq!(say(&rig.sockets, &["stop"]).code, 0);
}

/// An agent in a shell: its foreground and a terminal of the background each work in a process of its own, which writes into
/// a pipe until it is cancelled.
const WORKING: &str = r#"
say() { echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{'"$1"'}}}'; }
listed='"background":[{"type":"terminal","terminalId":"t"}]'
while read -r line; do
  id=$(printf '%s\n' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
  case $line in
    *'"method":"initialize"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":2}}' ;;
    *'"method":"session/prompt"'*)
      (while :; do echo beat; sleep 0.01; done) >"$0" &
      work=$!
      (while :; do echo beat; sleep 0.01; done) >"$1" &
      terminal=$!
      say '"sessionUpdate":"terminal_update","terminalId":"t","capabilities":{"cancel":{}}'
      say '"sessionUpdate":"state_update","state":"running",'"$listed"
      echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"messageId":"m"}}' ;;
    *'"method":"session/cancel"'*)
      kill $work; wait $work
      say '"sessionUpdate":"state_update","state":"idle","stopReason":"cancelled",'"$listed" ;;
    *'"method":"terminal/cancel"'*)
      echo '{"jsonrpc":"2.0","id":'"$id"',"result":{}}'
      kill $terminal; wait $terminal
      say '"sessionUpdate":"terminal_update","terminalId":"t","exitStatus":{"signal":"TERM"}'
      say '"sessionUpdate":"state_update","state":"idle","background":[]' ;;
  esac
done
"#;

/// The works' own marks: they beat until `rescind stop`, and not after.
#[test]
fn stop_ends_the_foreground_and_the_terminal_of_a_real_process() {
    let mut playing = Beating::shell(WORKING, &["foreground", "terminal"]);
    playing.send(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2}}"#);
    playing.until(|line| line.contains("protocolVersion"));
    playing.send(r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#);
    playing.until(|line| line.contains("messageId"));
    playing.expect_work();
    let said = playing.say(&["stop"]);
    assert_eq!(said.code, 0, "{said:?}");
    for line in ["/1: stopped: confirmed after", "/t: stopped: confirmed after"] {
        assert!(said.stdout.contains(line), "{line}: {said:?}");
    }
    for pipe in [0, 1] {
        playing.expect_work_is_over(pipe);
    }
    playing.until(|line| line.contains(r#""background":[]"#));
    assert_eq!(playing.say(&["ps"]).stderr, "nothing is in flight (1 session)\n");
    playing.end();
}
