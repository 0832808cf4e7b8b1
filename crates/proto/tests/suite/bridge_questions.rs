//! Questions of a server to a client of the other era: a result that asks for input and the retry that answers it, in
//! either direction, and a cancel at each step.

use core::time::Duration;

use rescind_proto::{
    bridge::BridgeConfig,
    id::RequestId,
    link::Departure,
    relay::{End, RelayConfig},
    side::Side,
};
use rescind_testkit::relay_rig::RelayRig;
use serde_json::{Value, json};

use super::bridge::{DISCOVERED, GREETING, NO_METHOD, OWN, cancel, error, is_nothing_left, plain, result, rig};

const ASKS: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{}}"#;
const QUESTION: &str = r#""message":"Sure?","requestedSchema":{"type":"object"}"#;

fn may_ask() -> BridgeConfig {
    BridgeConfig { serves_modern: true, may_ask: true, ..BridgeConfig::default() }
}

/// A request of a client of 2026-07-28 that answers forms, pages and sampling.
fn request(id: u32, method: &str, members: &str) -> String {
    let meta = |name: &str| format!("\"io.modelcontextprotocol/{name}\"");
    let version = meta("protocolVersion");
    let (info, capabilities) = (meta("clientInfo"), meta("clientCapabilities"));
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{{{version}:"2026-07-28",{info}:{{"name":"c","version":"1"}},{capabilities}:{ASKS},"progressToken":{id}}},{members}}}}}"#
    )
}

fn call(id: u32) -> String {
    request(id, "tools/call", r#""name":"delete""#)
}

fn retry(id: u32, state: &str, answers: &str) -> String {
    let members = format!(r#""name":"delete","inputResponses":{answers},"requestState":"{state}""#);
    request(id, "tools/call", &members)
}

/// The one message that the client gets.
fn one(rig: &mut RelayRig) -> Value {
    let said = rig.at_client();
    assert_eq!(said.len(), 1, "{said:?}");
    serde_json::from_str(&said[0]).expect("JSON")
}

/// A call of a client without a session, request 1, is at a server with sessions as `OWN[2]`.
fn called() -> RelayRig {
    let mut rig = rig(may_ask());
    rig.from_client(&call(1));
    rig.at_server();
    rig.from_server(&error(OWN[0], NO_METHOD));
    let hello = rig.at_server();
    assert!(hello[0].contains(r#""capabilities":{"sampling":{},"elicitation":{"form":{},"url":{}}}"#));
    rig.from_server(&result(OWN[1], GREETING));
    assert_eq!(rig.at_server().len(), 2);
    rig
}

/// The server asks, and the client is told so as the result of request `id`; gives the state.
fn asked(rig: &mut RelayRig, id: u32) -> String {
    rig.from_server(&plain(70, "elicitation/create", QUESTION));
    let said = one(rig);
    assert_eq!((&said["id"], &said["result"]["resultType"]), (&json!(id), &json!("input_required")));
    let requests = said["result"]["inputRequests"].as_object().expect("questions");
    let question = requests.values().next_back().expect("a question");
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "Sure?");
    said["result"]["requestState"].as_str().expect("a state").to_owned()
}

#[test]
fn a_question_is_a_result_and_the_retry_its_answer() {
    let mut rig = called();
    let state = asked(&mut rig, 1);
    assert!(rig.at_server().is_empty());
    rig.from_client(&retry(2, &state, r#"{"1":{"action":"accept","content":{"yes":true}}}"#));
    assert_eq!(rig.at_server(), [result(70, r#"{"action":"accept","content":{"yes":true}}"#)]);
    rig.from_server(&result(OWN[2], r#"{"content":[]}"#));
    assert_eq!(rig.at_client(), [result(2, r#"{"resultType":"complete","content":[]}"#)]);
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn one_call_may_be_asked_again_and_again() {
    let mut rig = called();
    for id in 1..5 {
        let state = asked(&mut rig, id);
        rig.from_client(&retry(id + 1, &state, &format!(r#"{{"{id}":{{"action":"decline"}}}}"#)));
        assert_eq!(rig.at_server(), [result(70, r#"{"action":"decline"}"#)]);
    }
    rig.from_server(&result(OWN[2], "{}"));
    assert_eq!(one(&mut rig)["id"], 5);
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn questions_that_come_meanwhile_are_asked_in_the_next_round() {
    let mut rig = called();
    let state = asked(&mut rig, 1);
    rig.from_server(&plain(71, "sampling/createMessage", r#""messages":[],"maxTokens":1"#));
    rig.from_server(&plain(
        72,
        "elicitation/create",
        r#""mode":"url","url":"https://a.example","message":"?","elicitationId":"e""#,
    ));
    assert!(rig.at_client().is_empty(), "the client has nothing in flight");
    // An answer that is none is asked for again.
    rig.from_client(&retry(2, &state, r#"{"1":"yes"}"#));
    assert!(rig.at_server().is_empty());
    let said = one(&mut rig);
    let requests = &said["result"]["inputRequests"];
    assert_eq!(requests["2"], json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}));
    assert_eq!(requests["3"]["params"], json!({"mode": "url", "url": "https://a.example", "message": "?"}));
    let state = said["result"]["requestState"].as_str().unwrap().to_owned();
    rig.from_client(&retry(3, &state, r#"{"3":{"action":"accept"},"2":{"role":"assistant"},"1":{"action":"cancel"}}"#));
    assert_eq!(
        rig.at_server(),
        [
            result(70, r#"{"action":"cancel"}"#),
            result(71, r#"{"role":"assistant"}"#),
            result(72, r#"{"action":"accept"}"#)
        ]
    );
}

#[test]
fn a_state_is_good_once_and_for_its_own_method() {
    let mut rig = called();
    let state = asked(&mut rig, 1);
    let answers = r#"{"1":{"action":"accept"}}"#;
    for wrong in [retry(2, "1.0", answers), request(2, "prompts/get", &format!(r#""requestState":"{state}""#))] {
        rig.from_client(&wrong);
        assert_eq!(one(&mut rig)["error"]["code"], -32602);
        assert!(rig.at_server().is_empty());
    }
    rig.from_client(&retry(3, &state, answers));
    assert_eq!(rig.at_server().len(), 1);
    rig.from_client(&retry(4, &state, answers));
    assert_eq!(one(&mut rig)["error"]["code"], -32602);
    assert!(rig.at_server().is_empty());
}

#[test]
fn a_question_of_nobody_or_of_one_of_several_is_refused() {
    let mut rig = called();
    let refused = |rig: &mut RelayRig, words: &str| {
        rig.from_server(&plain(70, "elicitation/create", QUESTION));
        let said = rig.at_server();
        assert!(said.len() == 1 && said[0].contains("-32601") && said[0].contains(words), "{said:?}");
        assert!(rig.at_client().is_empty());
    };
    rig.from_client(&request(2, "tools/call", r#""name":"other""#));
    rig.at_server();
    refused(&mut rig, "several calls");
    rig.from_server(&result(OWN[3], "{}"));
    rig.at_client();
    asked(&mut rig, 1);
    rig.from_server(&result(OWN[2], "{}"));
    refused(&mut rig, "no call");
    // What lists things is asked nothing.
    rig.from_client(&request(4, "tools/list", r#""cursor":"x""#));
    rig.at_server();
    refused(&mut rig, "no call");
}

#[test]
fn a_call_that_the_server_has_not_read_asks_nothing() {
    let mut rig = called();
    rig.from_server(&result(OWN[2], "{}"));
    rig.at_client();
    rig.from_client(&call(2));
    rig.write(Side::Server, 10);
    rig.from_server(&plain(70, "elicitation/create", QUESTION));
    assert!(rig.at_server()[1].contains("no call is in flight"));
    asked(&mut rig, 2);
}

#[test]
fn a_question_after_a_cancel_may_be_of_what_was_cancelled() {
    let mut rig = called();
    rig.from_client(&cancel(1));
    rig.from_client(&request(2, "tools/call", r#""name":"other""#));
    rig.at_server();
    rig.from_server(&plain(70, "elicitation/create", QUESTION));
    assert!(rig.at_server()[0].contains("was cancelled a moment ago"));
    rig.pass(Duration::from_secs(61));
    asked(&mut rig, 2);
}

/// It counts from when the server could read the cancel.
#[test]
fn a_cancel_that_is_not_written_yet_was_not_heard() {
    let mut rig = called();
    rig.from_client(&cancel(1));
    rig.from_client(&request(2, "tools/call", r#""name":"other""#));
    rig.pass(Duration::from_secs(300));
    rig.from_server(&plain(70, "elicitation/create", QUESTION));
    rig.at_server();
    rig.pass(Duration::from_secs(59));
    rig.from_server(&plain(71, "elicitation/create", QUESTION));
    assert!(rig.at_server()[0].contains("was cancelled a moment ago"));
    assert!(rig.at_client().is_empty());
}

/// A call of a client without a session, request 1, was written as `OWN[2]` for what stands before a server with sessions,
/// and has not left.
fn taken() -> RelayRig {
    let mut rig =
        RelayRig::new(RelayConfig { bridge: Some(may_ask()), server_departs: true, ..RelayConfig::default() });
    rig.from_client(&call(1));
    rig.at_server();
    rig.from_server(&error(OWN[0], NO_METHOD));
    rig.at_server();
    rig.from_server(&result(OWN[1], GREETING));
    assert_eq!(rig.at_server().len(), 2);
    rig
}

fn departs(rig: &mut RelayRig, departure: Departure) {
    rig.relay.handle_departure(rig.now, Side::Server, &departure);
}

#[test]
fn a_call_that_was_taken_and_has_not_left_asks_nothing() {
    let mut rig = taken();
    let own = RequestId::integer(OWN[2]);
    for left in [None, Some(Departure::Returned(own.clone()))] {
        left.into_iter().for_each(|departure| departs(&mut rig, departure));
        rig.from_server(&plain(70, "elicitation/create", QUESTION));
        let said = rig.at_server();
        assert!(said.len() == 1 && said[0].contains("no call is in flight"), "{said:?}");
        assert!(rig.at_client().is_empty());
        departs(&mut rig, Departure::Request(own.clone()));
    }
    asked(&mut rig, 1);
}

#[test]
fn a_minute_after_a_cancel_begins_when_it_has_left() {
    let mut rig = taken();
    departs(&mut rig, Departure::Request(RequestId::integer(OWN[2])));
    rig.from_client(&cancel(1));
    rig.from_client(&request(2, "tools/call", r#""name":"other""#));
    assert_eq!(rig.at_server().len(), 2);
    departs(&mut rig, Departure::Request(RequestId::integer(OWN[3])));
    for (passes, leaves) in [(300, true), (59, false)] {
        rig.pass(Duration::from_secs(passes));
        rig.from_server(&plain(70, "elicitation/create", QUESTION));
        let said = rig.at_server();
        assert!(said.len() == 1 && said[0].contains("was cancelled a moment ago"), "{said:?}");
        assert!(rig.at_client().is_empty());
        if leaves {
            departs(&mut rig, Departure::Cancel(RequestId::integer(OWN[2])));
        }
    }
    rig.pass(Duration::from_secs(2));
    asked(&mut rig, 2);
}

#[test]
fn what_the_client_has_not_declared_is_not_asked() {
    let mut rig = called();
    for (method, words) in [("roots/list", "has not declared"), ("some/thing", "no requests")] {
        rig.from_server(&plain(70, method, ""));
        let said = rig.at_server();
        assert!(said[0].contains(words), "{said:?}");
    }
    rig.from_server(&plain(71, "ping", ""));
    assert_eq!(rig.at_server(), [result(71, "{}")]);
}

#[test]
fn a_cancel_of_the_retry_stops_the_work() {
    let mut rig = called();
    let state = asked(&mut rig, 1);
    rig.from_client(&retry(2, &state, r#"{"1":{"action":"accept"}}"#));
    rig.at_server();
    rig.from_client(&cancel(2));
    assert_eq!(rig.at_server(), [cancel(OWN[2])]);
    rig.from_server(&result(OWN[2], "{}"));
    assert!(rig.at_client().is_empty());
    assert!(is_nothing_left(&mut rig));
}

/// The client cannot know that its call was answered already: it presses Stop, and never calls again.
#[test]
fn a_cancel_that_crosses_the_question_stops_the_work() {
    for was_read in [true, false] {
        let mut rig = called();
        rig.from_server(&plain(70, "elicitation/create", QUESTION));
        if was_read {
            rig.at_client();
        }
        rig.from_client(&cancel(1));
        assert!(was_read || rig.at_client().is_empty(), "the question was withdrawn");
        let said = rig.at_server();
        assert_eq!(said[0], cancel(OWN[2]));
        assert!(said.len() == 2 && said[1].contains(r#""id":70,"error""#), "{said:?}");
        assert!(is_nothing_left(&mut rig));
    }
}

#[test]
fn a_cancel_of_another_request_leaves_the_question() {
    let mut rig = called();
    rig.from_client(&request(9, "tools/list", r#""cursor":"x""#));
    rig.at_server();
    rig.from_server(&result(OWN[3], "{}"));
    rig.at_client();
    let state = asked(&mut rig, 1);
    rig.from_client(&cancel(9));
    assert!(rig.at_server().is_empty());
    rig.from_client(&retry(2, &state, r#"{"1":{"action":"accept"}}"#));
    assert_eq!(rig.at_server().len(), 1);
}

/// Our own clients do: see `rescind::mcp::Client`.
#[test]
fn a_client_that_says_that_it_does_not_call_again_stops_the_work_at_once() {
    let mut rig = called();
    rig.from_server(&plain(70, "elicitation/create", QUESTION));
    let said = one(&mut rig);
    assert_eq!(said["result"]["_meta"]["dev.rescind/abandonable"], true);
    let abandoned = |state: &Value| {
        json!({"jsonrpc": "2.0", "method": "notifications/dev.rescind/abandoned", "params": {"requestState": state}})
            .to_string()
    };
    rig.from_client(&abandoned(&json!("another")));
    assert!(rig.at_server().is_empty());
    rig.from_client(&abandoned(&said["result"]["requestState"]));
    assert_eq!(rig.at_server()[0], cancel(OWN[2]));
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn a_server_that_wants_to_know_is_told_that_no_other_round_comes() {
    let mut rig = called_in_session();
    let wanted = json!({
        "resultType": "input_required", "requestState": "s", "_meta": {"dev.rescind/abandonable": true},
        "inputRequests": {"a": {"method": "elicitation/create", "params": {"message": "Sure?"}}},
    });
    rig.from_server(&result(OWN[1], &wanted.to_string()));
    rig.at_client();
    rig.from_client(&cancel(1));
    let told = r#"{"jsonrpc":"2.0","method":"notifications/dev.rescind/abandoned","params":{"requestState":"s"}}"#;
    assert_eq!(rig.at_server(), [told]);
}

#[test]
fn a_cancel_of_another_call_with_the_same_id_leaves_the_question() {
    for is_answered in [false, true] {
        let mut rig = called();
        let state = asked(&mut rig, 1);
        rig.from_client(&call(1));
        rig.at_server();
        if is_answered {
            rig.from_server(&result(OWN[3], "{}"));
            assert_eq!(one(&mut rig)["id"], 1);
        }
        rig.from_client(&cancel(1));
        let told = rig.at_server();
        assert_eq!(told, if is_answered { vec![] } else { vec![cancel(OWN[3])] });
        rig.from_client(&retry(2, &state, r#"{"1":{"action":"accept"}}"#));
        assert_eq!(rig.at_server(), [result(70, r#"{"action":"accept"}"#)]);
    }
}

#[test]
fn a_client_that_never_calls_again_has_its_call_cancelled() {
    let mut rig = called();
    let state = asked(&mut rig, 1);
    rig.pass(Duration::from_secs(599));
    assert!(rig.at_server().is_empty());
    rig.pass(Duration::from_secs(2));
    let said = rig.at_server();
    assert_eq!(said[0], cancel(OWN[2]));
    assert!(said[1].contains(r#""id":70,"error""#), "{said:?}");
    rig.from_client(&retry(2, &state, "{}"));
    assert_eq!(one(&mut rig)["error"]["code"], -32602);
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn what_the_server_answers_between_rounds_is_the_answer_to_the_retry() {
    for (answer, expected) in [
        (result(OWN[2], r#"{"isError":true}"#), r#""result":{"resultType":"complete","isError":true}"#),
        (error(OWN[2], r#"{"code":-32002,"message":"no"}"#), r#""error":{"code":-32602,"message":"no"}"#),
    ] {
        let mut rig = called();
        let state = asked(&mut rig, 1);
        rig.from_server(&answer);
        assert!(rig.at_client().is_empty());
        rig.from_client(&retry(2, &state, r#"{"1":{"action":"accept"}}"#));
        assert_eq!(rig.at_client(), [format!(r#"{{"jsonrpc":"2.0","id":2,{expected}}}"#)]);
        assert!(rig.at_server().is_empty());
        assert!(is_nothing_left(&mut rig));
    }
}

#[test]
fn an_answer_that_nobody_calls_for_is_forgotten() {
    let mut rig = called();
    let state = asked(&mut rig, 1);
    rig.from_server(&result(OWN[2], "{}"));
    rig.from_client(&cancel(1));
    rig.from_client(&retry(2, &state, "{}"));
    assert_eq!(one(&mut rig)["error"]["code"], -32602);
    let mut rig = called();
    asked(&mut rig, 1);
    rig.from_server(&result(OWN[2], "{}"));
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn a_question_that_the_server_takes_back_is_not_answered() {
    let mut rig = called();
    let state = asked(&mut rig, 1);
    rig.from_server(&cancel(70));
    rig.from_client(&retry(2, &state, r#"{"1":{"action":"accept"}}"#));
    assert!(rig.at_server().is_empty());
    rig.from_server(&result(OWN[2], "{}"));
    assert_eq!(one(&mut rig)["id"], 2);
}

#[test]
fn progress_goes_to_the_request_that_waits_now() {
    let mut rig = called();
    let progress = |token: u32| plain_notification(&format!(r#""progressToken":{token},"progress":1"#));
    rig.from_server(&progress(1));
    assert_eq!(rig.at_client(), [progress(1)]);
    let state = asked(&mut rig, 1);
    rig.from_server(&progress(1));
    assert!(rig.at_client().is_empty(), "no request waits for it");
    rig.from_client(&retry(2, &state, r#"{"1":{"action":"accept"}}"#));
    rig.from_server(&progress(1));
    assert_eq!(rig.at_client(), [progress(2)]);
}

fn plain_notification(members: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{{members}}}}}"#)
}

#[test]
fn what_is_asked_is_bounded() {
    let mut rig = called();
    asked(&mut rig, 1);
    for id in 100..200 {
        rig.from_server(&plain(id, "elicitation/create", QUESTION));
    }
    let refused = rig.at_server().iter().filter(|said| said.contains("too much is asked")).count();
    assert_eq!(refused, 85);
    let mut rig = called();
    let long = format!(r#""message":"{}""#, "x".repeat(3 << 20));
    asked(&mut rig, 1);
    for id in 100..110 {
        rig.from_server(&plain(id, "elicitation/create", &long));
    }
    assert!(rig.at_server().iter().any(|said| said.contains("too much is asked")));
    assert!(rig.relay.held() < 80 << 20, "{}", rig.relay.held());
}

/// A client with a session that answers forms has called as request 1, and the call is at a server without sessions as
/// `OWN[1]`.
fn called_in_session() -> RelayRig {
    let mut rig = rig(BridgeConfig { may_ask: true, ..BridgeConfig::default() });
    let hello = r#""protocolVersion":"2025-06-18","capabilities":{"elicitation":{},"roots":{"listChanged":true}},"clientInfo":{"name":"c","version":"1"}"#;
    rig.from_client(&plain(0, "initialize", hello));
    rig.at_server();
    rig.from_server(&error(0, r#"{"code":-32022,"message":"no"}"#));
    rig.at_server();
    rig.from_server(&result(OWN[0], DISCOVERED));
    rig.at_client();
    rig.from_client(&plain(1, "tools/call", r#""name":"delete","_meta":{"progressToken":"t"}"#));
    let said = rig.at_server();
    assert!(said[0].contains(r#"clientCapabilities":{"elicitation":{},"roots":{}}"#), "{said:?}");
    rig
}

/// The server asks for input on the request `own`; gives what the client is asked.
fn wants_input(rig: &mut RelayRig, own: i64) -> Vec<Value> {
    let wanted = json!({
        "resultType": "input_required", "requestState": "s \"1\"", "inputRequests": {
            "a": {"method": "elicitation/create", "params": {"message": "Sure?"}},
            "b": {"method": "roots/list"},
        },
    });
    rig.from_server(&result(own, &wanted.to_string()));
    assert!(rig.at_server().is_empty());
    rig.at_client().iter().map(|said| serde_json::from_str(said).expect("JSON")).collect()
}

#[test]
fn a_result_that_asks_for_input_is_asked_of_a_client_with_a_session_and_the_server_called_again() {
    let mut rig = called_in_session();
    let questions = wants_input(&mut rig, OWN[1]);
    let asked: Vec<_> = questions.iter().map(|question| (&question["method"], &question["params"])).collect();
    assert_eq!(
        asked,
        [(&json!("elicitation/create"), &json!({"message": "Sure?"})), (&json!("roots/list"), &json!({}))]
    );
    rig.from_client(&result(&questions[1]["id"], r#"{"roots":[]}"#));
    assert!(rig.at_server().is_empty(), "one is not answered yet");
    rig.from_client(&result(&questions[0]["id"], r#"{"action":"accept"}"#));
    let again: Value = serde_json::from_str(&rig.at_server()[0]).unwrap();
    let params = &again["params"];
    assert_eq!(again["id"], OWN[4], "a round is a request of its own");
    assert_eq!(params["inputResponses"], json!({"a": {"action": "accept"}, "b": {"roots": []}}));
    assert_eq!((&params["requestState"], &params["name"]), (&json!("s \"1\""), &json!("delete")));
    assert_eq!(params["_meta"]["progressToken"], "t");
    rig.from_server(&result(OWN[4], r#"{"resultType":"complete","content":[]}"#));
    assert_eq!(rig.at_client(), [result(1, r#"{"content":[]}"#)]);
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn a_cancel_ends_the_questions_and_no_other_round_is_sent() {
    let mut rig = called_in_session();
    let questions = wants_input(&mut rig, OWN[1]);
    rig.from_client(&result(&questions[0]["id"], r#"{"action":"accept"}"#));
    rig.from_client(&cancel(1));
    assert_eq!(rig.at_client(), [cancel(&questions[1]["id"])]);
    rig.from_client(&result(&questions[1]["id"], r#"{"roots":[]}"#));
    assert!(rig.at_server().is_empty(), "between rounds the server has nothing to cancel");
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn a_cancel_in_a_later_round_has_the_id_of_that_round() {
    let mut rig = called_in_session();
    for question in wants_input(&mut rig, OWN[1]) {
        rig.from_client(&result(&question["id"], "{}"));
    }
    rig.at_server();
    rig.from_client(&cancel(1));
    assert_eq!(rig.at_server(), [cancel(OWN[4])]);
    assert!(rig.at_client().is_empty());
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn a_client_that_refuses_a_question_has_its_call_ended() {
    let mut rig = called_in_session();
    let questions = wants_input(&mut rig, OWN[1]);
    rig.from_client(&error(&questions[0]["id"], r#"{"code":-1,"message":"no"}"#));
    let said = rig.at_client();
    assert_eq!(said[0], cancel(&questions[1]["id"]));
    assert!(said[1].contains("which the client refused"), "{said:?}");
    assert!(rig.at_server().is_empty());
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn what_cannot_be_asked_ends_the_call_in_words() {
    for (wanted, words) in [
        (json!({}), "does not say for which"),
        (json!({"inputRequests": {"a": {"method": "sampling/createMessage"}}}), "this client does not give"),
        (json!({"inputRequests": {"a": {"method": "tools/call"}}}), "this client does not give"),
        (json!({"inputRequests": {"a": 1}}), "this client does not give"),
    ] {
        let mut rig = called_in_session();
        let mut wanted = wanted;
        wanted["resultType"] = "input_required".into();
        rig.from_server(&result(OWN[1], &wanted.to_string()));
        let said = rig.at_client();
        assert!(said.len() == 1 && said[0].contains(words), "{said:?}");
        assert!(is_nothing_left(&mut rig));
    }
}

#[test]
fn a_server_that_wants_nothing_but_another_call_gets_it_after_a_while_and_not_for_ever() {
    let mut rig = called_in_session();
    let state = r#"{"resultType":"input_required","requestState":"later"}"#;
    let mut own = OWN[1];
    for _ in 0..10 {
        rig.from_server(&result(own, state));
        assert!(rig.at_server().is_empty());
        rig.pass(Duration::from_millis(250));
        let again: Value = serde_json::from_str(&rig.at_server()[0]).unwrap();
        assert_eq!((&again["params"]["requestState"], &again["id"]), (&json!("later"), &json!(own - 1)));
        own -= 1;
    }
    rig.from_server(&result(own, state));
    assert!(one(&mut rig)["error"]["message"].as_str().unwrap().contains("again and again"));
    assert!(is_nothing_left(&mut rig));
}

#[test]
fn a_server_that_ends_between_rounds_ends_the_call() {
    let mut rig = called_in_session();
    let questions = wants_input(&mut rig, OWN[1]);
    rig.relay.handle_eof(rig.now, Side::Server, &End::Closed);
    let said = rig.at_client();
    let of = |id: &Value| said.iter().filter(|said| said.contains(&format!("\"id\":{id},\"error\""))).count();
    assert_eq!(of(&json!(1)), 1, "{said:?}");
    let withdrawn = |id: &Value| said.iter().any(|said| *said == cancel(id));
    assert!(questions.iter().all(|question| withdrawn(&question["id"])), "{said:?}");
}

#[test]
fn a_late_result_that_asks_for_input_asks_nobody() {
    let mut rig = called_in_session();
    rig.from_client(&cancel(1));
    assert_eq!(rig.at_server(), [cancel(OWN[1])]);
    assert!(wants_input(&mut rig, OWN[1]).is_empty());
    assert!(is_nothing_left(&mut rig));
}

/// Two clients of one person, whose calls come one after the other: each is asked for its own.
#[test]
fn the_clients_of_one_person_are_each_asked_for_their_own_call() {
    let mut rig = rig(BridgeConfig { is_shared: true, ..may_ask() });
    rig.from_client(&call(1));
    rig.at_server();
    rig.from_server(&error(OWN[0], NO_METHOD));
    assert!(rig.at_server()[0].contains(r#""capabilities":{"sampling":{}"#));
    rig.from_server(&result(OWN[1], GREETING));
    rig.at_server();
    let state = asked(&mut rig, 1);
    rig.from_client(&call(2));
    rig.at_server();
    rig.from_server(&plain(71, "elicitation/create", QUESTION));
    assert!(rig.at_server()[0].contains("several calls"), "whose it is cannot be told");
    rig.from_client(&retry(3, &state, r#"{"1":{"action":"accept"}}"#));
    assert_eq!(rig.at_server(), [result(70, r#"{"action":"accept"}"#)]);
    rig.from_server(&result(OWN[2], "{}"));
    assert_eq!(one(&mut rig)["id"], 3);
    asked(&mut rig, 2);
}

#[test]
fn where_others_could_be_asked_nobody_is() {
    let mut rig = rig(BridgeConfig { serves_modern: true, ..BridgeConfig::default() });
    rig.from_client(&call(1));
    rig.at_server();
    rig.from_server(&error(OWN[0], NO_METHOD));
    assert!(rig.at_server()[0].contains(r#""capabilities":{}"#));
    rig.from_server(&result(OWN[1], GREETING));
    rig.at_server();
    rig.from_server(&plain(70, "elicitation/create", QUESTION));
    assert!(rig.at_server()[0].contains("-32601"));
    assert!(rig.at_client().is_empty());
}
