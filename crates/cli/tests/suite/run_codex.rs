//! Codex app-server through `rescind run` (D58): its turns in `rescind ps`, and what `rescind cancel` and `stop` do. The test
//! is both ends, but for the last one, where the server is a process that works.

use rescind_testkit::puppet::Rig;
use serde_json::{Value, json};

use crate::{
    operator::say,
    shim::{
        PROGRAM,
        at_work::{Beating, beside},
        words::{pass_to_client, pass_to_server},
    },
};

const ANSWER: &str = r#"{"id":0,"result":{"userAgent":"codex_vscode/0.171.0","codexHome":"/h","platformFamily":"unix","platformOs":"linux"}}"#;

/// Begins as Codex and its editor do.
fn codex(capabilities: &str) -> Rig {
    let mut rig = Rig::start(PROGRAM);
    greet(&mut rig, capabilities);
    rig
}

/// The handshake.
pub(crate) fn greet(rig: &mut Rig, capabilities: &str) {
    let info = r#"{"name":"codex_vscode","title":"Codex","version":"0.171.0"}"#;
    let params = format!(r#"{{"clientInfo":{info},"capabilities":{capabilities}}}"#);
    pass_to_server(rig, &format!(r#"{{"method":"initialize","id":0,"params":{params}}}"#));
    pass_to_client(rig, ANSWER);
    pass_to_server(rig, r#"{"method":"initialized"}"#);
}

pub(crate) fn begin_turn(rig: &mut Rig, id: u32, thread: &str, turn: &str) {
    pass_to_server(
        rig,
        &json!({"method": "turn/start", "id": id, "params": {"threadId": thread, "input": []}}).to_string(),
    );
    let turn = json!({"id": turn, "status": "inProgress", "items": []});
    pass_to_client(rig, &json!({"id": id, "result": {"turn": turn}}).to_string());
    pass_to_client(rig, &json!({"method": "turn/started", "params": {"threadId": thread, "turn": turn}}).to_string());
}

pub(crate) fn complete(rig: &mut Rig, thread: &str, turn: &str, status: &str) {
    let turn = json!({"id": turn, "status": status});
    pass_to_client(rig, &json!({"method": "turn/completed", "params": {"threadId": thread, "turn": turn}}).to_string());
}

/// The shim's own request to the server: its method, its id and its params.
pub(crate) fn own_request(rig: &mut Rig) -> (String, Value, Value) {
    let message: Value = serde_json::from_str(&rig.server.receive()).unwrap();
    assert_eq!(message.get("jsonrpc"), None, "{message}");
    (message["method"].as_str().unwrap().to_owned(), message["id"].clone(), message["params"].clone())
}

/// CDX-05, CDX-07.
#[test]
fn ps_shows_a_turn_until_it_is_completed_and_cancel_interrupts_it() {
    let mut rig = codex("null");
    begin_turn(&mut rig, 3, "t", "u");
    let said = say(&rig.sockets, &["ps"]);
    assert!(said.stdout.contains("turn/start") && said.stdout.contains("running"), "{said:?}");
    assert_eq!(said.stderr, "", "its work can be seen");
    let document: Value = serde_json::from_str(&say(&rig.sockets, &["ps", "--sessions", "--json"]).stdout).unwrap();
    assert_eq!(document["sessions"][0]["session"]["server"]["protocol"], "codex", "{document}");

    let name = format!("{}/3", rig.shim.id);
    let said = beside(&mut rig, &["cancel", &name], |rig| {
        let (method, id, params) = own_request(rig);
        assert_eq!((&*method, params), ("turn/interrupt", json!({"threadId": "t", "turnId": "u"})));
        rig.server.send(&json!({"id": id, "result": {}}).to_string());
        complete(rig, "t", "u", "interrupted");
    });
    assert!(said.code == 0 && said.stdout.contains("confirmed after"), "{said:?}");
    assert!(!say(&rig.sockets, &["ps"]).stdout.contains("turn/start"));
    // A client that stops its turn itself is told nothing new.
    begin_turn(&mut rig, 4, "t", "v");
    pass_to_server(&mut rig, r#"{"method":"turn/interrupt","id":5,"params":{"threadId":"t","turnId":"v"}}"#);
    pass_to_client(&mut rig, r#"{"id":5,"result":{}}"#);
    complete(&mut rig, "t", "v", "interrupted");
    rig.expect_server_hears_nothing();
    rig.expect_client_hears_nothing();
}

/// CDX-08, CDX-09, CDX-10: `stopped` needs all of it over.
#[test]
fn stop_interrupts_each_turn_ends_each_terminal_and_closes_the_card() {
    let mut rig = codex(r#"{"experimentalApi":true}"#);
    begin_turn(&mut rig, 3, "t", "u");
    let items = [
        json!({"type": "collabAgentToolCall", "id": "i", "tool": "spawnAgent", "receiverThreadIds": ["c"]}),
        json!({"type": "commandExecution", "id": "long", "command": "sleep 1000", "processId": "71"}),
    ];
    for item in items {
        let params = json!({"threadId": "t", "turnId": "u", "item": item});
        pass_to_client(&mut rig, &json!({"method": "item/started", "params": params}).to_string());
    }
    let child = json!({"threadId": "c", "turn": {"id": "a", "status": "inProgress"}});
    pass_to_client(&mut rig, &json!({"method": "turn/started", "params": child}).to_string());
    let card = json!({"threadId": "t", "turnId": "u"});
    pass_to_client(
        &mut rig,
        &json!({"method": "item/fileChange/requestApproval", "id": 0, "params": card}).to_string(),
    );

    let said = beside(&mut rig, &["stop"], |rig| {
        let mut turns = Vec::new();
        for _ in 0..2 {
            let (method, id, params) = own_request(rig);
            assert_eq!(method, "turn/interrupt");
            rig.server.send(&json!({"id": id, "result": {}}).to_string());
            turns
                .push((params["threadId"].as_str().unwrap().to_owned(), params["turnId"].as_str().unwrap().to_owned()));
        }
        let resolved = json!({"threadId": "t", "requestId": 0});
        pass_to_client(rig, &json!({"method": "serverRequest/resolved", "params": resolved}).to_string());
        for (thread, turn) in turns {
            complete(rig, &thread, &turn, "interrupted");
        }
        let (method, id, params) = own_request(rig);
        assert_eq!(
            (&*method, params),
            ("thread/backgroundTerminals/terminate", json!({"threadId": "t", "processId": "71"}))
        );
        rig.server.send(&json!({"id": id, "result": {"terminated": true}}).to_string());
    });
    assert_eq!(said.code, 0, "{said:?}");
    for line in ["/3: stopped: confirmed", "/a: stopped: confirmed", "/server:0: withdrawn: confirmed"] {
        assert!(said.stdout.contains(line), "{line}: {said:?}");
    }
    rig.expect_client_hears_nothing();
}

/// CDX-13: what the client has not asked for is not used in its name, and is named.
#[test]
fn a_terminal_that_cannot_be_ended_is_named() {
    let mut rig = codex("null");
    begin_turn(&mut rig, 3, "t", "u");
    let item = json!({"type": "commandExecution", "id": "long", "command": "sleep 1000", "processId": "71"});
    let params = json!({"threadId": "t", "turnId": "u", "item": item});
    pass_to_client(&mut rig, &json!({"method": "item/started", "params": params}).to_string());
    let said = beside(&mut rig, &["stop"], |rig| {
        let (_, id, _) = own_request(rig);
        rig.server.send(&json!({"id": id, "result": {}}).to_string());
        complete(rig, "t", "u", "interrupted");
    });
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stdout.contains("/3: stopped") && said.stdout.contains("/long: not delivered"), "{said:?}");
    rig.expect_server_hears_nothing();
}

/// `--turn-only` of a turn of Codex, whose agent and terminal stand below it in `ps`.
#[test]
fn cancel_of_the_turn_only_leaves_its_agent_and_terminal_at_work() {
    let mut rig = codex(r#"{"experimentalApi":true}"#);
    begin_turn(&mut rig, 3, "t", "u");
    let items = [
        json!({"type": "collabAgentToolCall", "id": "i", "tool": "spawnAgent", "receiverThreadIds": ["c"]}),
        json!({"type": "commandExecution", "id": "long", "command": "sleep 1000", "processId": "71"}),
    ];
    for item in items {
        let params = json!({"threadId": "t", "turnId": "u", "item": item});
        pass_to_client(&mut rig, &json!({"method": "item/started", "params": params}).to_string());
    }
    let child = json!({"threadId": "c", "turn": {"id": "a", "status": "inProgress"}});
    pass_to_client(&mut rig, &json!({"method": "turn/started", "params": child}).to_string());
    let said = say(&rig.sockets, &["ps"]);
    let (turn, agent) = (said.stdout.find("  turn/start"), said.stdout.find("  └ turn"));
    assert!(turn.is_some() && turn < agent, "{said:?}");

    let said = beside(&mut rig, &["cancel", "--all", "--turn-only"], |rig| {
        let (method, id, params) = own_request(rig);
        assert_eq!((&*method, params), ("turn/interrupt", json!({"threadId": "t", "turnId": "u"})));
        rig.server.send(&json!({"id": id, "result": {}}).to_string());
        complete(rig, "t", "u", "interrupted");
    });
    assert!(said.code == 0 && said.stdout.contains("/3: ") && !said.stdout.contains("/a: "), "{said:?}");
    rig.expect_server_hears_nothing();
    let said = say(&rig.sockets, &["ps"]);
    assert!(said.stdout.contains("/a ") && said.stdout.contains("/long "), "{said:?}");
}

/// CDX-13.
#[test]
fn stop_kills_a_process_of_the_client() {
    let mut rig = codex(r#"{"experimentalApi":true}"#);
    pass_to_server(&mut rig, r#"{"method":"process/spawn","id":3,"params":{"command":["x"],"processHandle":"p"}}"#);
    pass_to_client(&mut rig, r#"{"id":3,"result":{}}"#);
    assert!(say(&rig.sockets, &["ps"]).stdout.contains("process/spawn"));
    let said = beside(&mut rig, &["stop"], |rig| {
        let (method, id, params) = own_request(rig);
        assert_eq!((&*method, params), ("process/kill", json!({"processHandle": "p"})));
        rig.server.send(&json!({"id": id, "result": {}}).to_string());
        pass_to_client(rig, r#"{"method":"process/exited","params":{"processHandle":"p","exitCode":137}}"#);
    });
    assert!(said.code == 0 && said.stdout.contains("/3: stopped: confirmed"), "{said:?}");
}

/// More work than is followed: `ps` and `stop` say so, and neither says that nothing is left.
#[test]
fn work_that_finds_no_room_is_told_and_stop_does_not_say_that_all_is_over() {
    let mut rig = codex("null");
    let long = "x".repeat(300);
    let params = json!({"threadId": "t", "turn": {"id": long, "status": "inProgress"}});
    pass_to_client(&mut rig, &json!({"method": "turn/started", "params": params}).to_string());
    let note = "its server has begun more turns and terminals than rescind follows";
    let said = say(&rig.sockets, &["ps"]);
    assert!(said.stderr.contains(note) && !said.stderr.contains("nothing is in flight"), "{said:?}");
    let said = say(&rig.sockets, &["stop"]);
    assert!(said.stderr.contains(note) && said.stderr.contains("nothing else is known to be in flight"), "{said:?}");
    assert!(said.code == 1 && !said.stderr.contains("nothing is in flight"), "{said:?}");
    // Also beside work that is seen to stop.
    begin_turn(&mut rig, 3, "t", "u");
    let said = beside(&mut rig, &["stop"], |rig| {
        let (_, id, _) = own_request(rig);
        rig.server.send(&json!({"id": id, "result": {}}).to_string());
        complete(rig, "t", "u", "interrupted");
    });
    assert!(said.code == 1 && said.stdout.contains("/3: stopped") && said.stderr.contains(note), "{said:?}");
}

/// CDX-18.
#[test]
fn where_the_end_of_a_turn_is_hidden_ps_and_stop_say_so() {
    let hidden = r#"{"optOutNotificationMethods":["turn/completed","thread/status/changed"]}"#;
    let mut rig = codex(hidden);
    begin_turn(&mut rig, 3, "t", "u");
    let note =
        "its client has turned off the messages that tell when a turn ends: whether its work has ended cannot be seen";
    let said = say(&rig.sockets, &["ps"]);
    assert!(said.stderr.contains(note) && said.stdout.contains("turn/start"), "{said:?}");
    let said = beside(&mut rig, &["stop", "--within", "1s"], |rig| {
        let (method, id, _) = own_request(rig);
        assert_eq!(method, "turn/interrupt");
        rig.server.send(&json!({"id": id, "result": {}}).to_string());
    });
    assert!(said.code == 1 && said.stderr.contains(note), "{said:?}");
    assert!(said.stdout.contains("/3: unknown"), "{said:?}");
}

/// A server in a shell, which works until it is interrupted: it writes into a pipe, whose end shows that it has stopped.
const WORKING: &str = r#"
while read -r line; do
  id=$(printf '%s\n' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
  case $line in
    *'"method":"initialize"'*) echo '{"id":'"$id"',"result":{"userAgent":"codex/0.171.0","codexHome":"/h"}}' ;;
    *'"method":"turn/start"'*)
      (while :; do echo beat; sleep 0.01; done) >"$0" &
      work=$!
      echo '{"id":'"$id"',"result":{"turn":{"id":"u","status":"inProgress"}}}' ;;
    *'"method":"turn/interrupt"'*)
      kill $work; wait $work
      echo '{"id":'"$id"',"result":{}}'
      echo '{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"interrupted"}}}' ;;
  esac
done
"#;

/// The work's own mark: it beats until `rescind stop`, and not after.
#[test]
fn stop_ends_the_work_of_a_turn_of_a_real_process() {
    let mut playing = Beating::shell(WORKING, &["beats"]);
    playing.send(r#"{"method":"initialize","id":0,"params":{"clientInfo":{},"capabilities":null}}"#);
    playing.until(|line| line.contains("codexHome"));
    playing.send(r#"{"method":"turn/start","id":1,"params":{"threadId":"t","input":[]}}"#);
    playing.until(|line| line.contains("inProgress"));
    playing.expect_work();
    let said = playing.say(&["stop"]);
    assert!(said.code == 0 && said.stdout.contains("/1: stopped: confirmed after"), "{said:?}");
    playing.expect_work_is_over(0);
    let told = playing.until(|_| true);
    assert!(
        told.contains("interrupted") && playing.end().is_empty(),
        "the client is told, and of nothing else: {told}"
    );
}
