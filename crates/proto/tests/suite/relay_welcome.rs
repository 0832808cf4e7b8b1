//! A client is welcomed before its server has started (D70): what it is told, what waits, and what the server's own answers
//! change.

use core::time::Duration;

use rescind_proto::{
    bridge::BridgeConfig,
    link::Clock,
    receipt::Outcome,
    relay::{ClockRule, End, EndedServer, RelayConfig, RequestState, Settled, WelcomeNews},
    side::Side,
    welcome::Welcomes,
};
use rescind_testkit::relay_rig::RelayRig;
use serde_json::{Value, json};

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const REVISION: &str = "2025-06-18";
const ALL: &str = r#"{"tools":{"listChanged":true},"prompts":{},"resources":{"listChanged":true}}"#;
const TOOLS: &str = r#"{"tools":[{"name":"a"},{"name":"b"}]}"#;
const PROMPTS: &str = r#"{"prompts":[{"name":"p"}]}"#;

/// What a client sends to begin a session in this revision.
fn initialize(revision: &str) -> String {
    let params = format!(
        r#"{{"protocolVersion":"{revision}","capabilities":{{"roots":{{}}}},"clientInfo":{{"name":"c","version":"1"}}}}"#
    );
    format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{params}}}"#)
}

fn answer(revision: &str, capabilities: &str) -> String {
    format!(
        r#"{{"protocolVersion":"{revision}","capabilities":{capabilities},"serverInfo":{{"name":"s","version":"2"}}}}"#
    )
}

fn request(id: i64, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{}}}}"#)
}

fn call(id: i64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"slow"}}}}"#)
}

fn call_with_progress(id: i64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"slow","_meta":{{"progressToken":"t{id}"}}}}}}"#
    )
}

fn cancel(id: i64) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

fn result(id: impl core::fmt::Display, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn error(id: i64, message: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"{message}"}}}}"#)
}

fn parsed(messages: &[String]) -> Vec<Value> {
    messages.iter().map(|message| serde_json::from_str(message).expect("JSON")).collect()
}

fn methods(messages: &[String]) -> Vec<String> {
    parsed(messages).iter().map(|message| message["method"].as_str().unwrap_or("an answer").to_owned()).collect()
}

fn news(rig: &mut RelayRig) -> Vec<WelcomeNews> {
    core::iter::from_fn(|| rig.relay.poll_welcome_news()).collect()
}

fn rig(known: Welcomes) -> RelayRig {
    rig_with(RelayConfig { welcomes: Some(known), ..RelayConfig::default() })
}

fn rig_with(config: RelayConfig) -> RelayRig {
    RelayRig::new(config)
}

/// A start at which nothing is known, whose client reads these lists: what is known afterwards.
fn first_start(revision: &str, capabilities: &str, lists: &[(&str, &[&str])]) -> Welcomes {
    let mut rig = rig(Welcomes::default());
    rig.from_client(&initialize(revision));
    assert_eq!(rig.at_server(), [initialize(revision)]);
    assert_eq!(rig.at_client(), [""; 0]);
    rig.from_server(&result(0, &answer(revision, capabilities)));
    assert_eq!(rig.at_client(), [result(0, &answer(revision, capabilities))]);
    rig.from_client(INITIALIZED);
    let mut id = 100;
    for (method, pages) in lists {
        let mut cursor: Option<Value> = None;
        for page in *pages {
            id += 1;
            let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            rig.from_client(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
            rig.at_server();
            rig.from_server(&result(id, page));
            assert_eq!(rig.at_client(), [result(id, page)]);
            cursor = serde_json::from_str::<Value>(page).expect("JSON").get("nextCursor").cloned();
        }
    }
    assert_eq!(news(&mut rig), []);
    known_after(&mut rig).expect("something was learnt")
}

/// What is known after this, if that has changed.
fn known_after(rig: &mut RelayRig) -> Option<Welcomes> {
    rig.relay.poll_welcomes().map(|document| Welcomes::read(&document))
}

fn known() -> Welcomes {
    first_start(REVISION, ALL, &[("tools/list", &[TOOLS]), ("prompts/list", &[PROMPTS])])
}

/// A client that has been told `initialize` and its tools, and has said that it is ready; the server has its `initialize`.
fn told(known: Welcomes) -> RelayRig {
    let mut rig = rig(known);
    begin(&mut rig);
    rig
}

fn begin(rig: &mut RelayRig) {
    rig.from_client(&initialize(REVISION));
    assert_eq!(rig.at_client(), [result(0, &answer(REVISION, ALL))]);
    rig.from_client(INITIALIZED);
    rig.from_client(&request(1, "tools/list"));
    assert_eq!(rig.at_client(), [result(1, TOOLS)]);
    assert_eq!(rig.at_server(), [initialize(REVISION)]);
    assert_eq!(news(rig), [WelcomeNews::Welcomed]);
}

/// The server answers as it did, and gets what has waited: without our own requests.
fn arrive(rig: &mut RelayRig) -> Vec<String> {
    rig.from_server(&result(0, &answer(REVISION, ALL)));
    rig.at_server()
}

/// The id of a request of ours for this list, the only one among what the server got.
fn own(messages: &[String], method: &str) -> i64 {
    let found: Vec<_> = parsed(messages).into_iter().filter(|message| message["method"] == method).collect();
    assert_eq!(found.len(), 1, "{messages:?}");
    found[0]["id"].as_i64().expect("a number")
}

#[test]
fn a_second_client_is_answered_before_the_server_has_and_the_rest_waits_in_order() {
    let mut rig = told(known());
    rig.from_client(&call(2));
    rig.from_client(&request(3, "resources/list"));
    rig.from_client(&request(4, "prompts/list"));
    assert_eq!(rig.at_client(), [result(4, PROMPTS)]);
    assert_eq!(rig.at_server(), [""; 0], "the server has not answered");
    let states: Vec<_> = rig.relay.requests(Side::Client).map(|request| request.state).collect();
    assert_eq!(states, [RequestState::Queued; 2]);
    assert_eq!(rig.relay.awaits_start(), Some(rig.now));
    assert!(rig.relay.implementation(Side::Server).is_none(), "the server has not said who it is");

    rig.pass(Duration::from_secs(12));
    let sent = arrive(&mut rig);
    assert_eq!(&sent[..3], [INITIALIZED.to_owned(), call(2), request(3, "resources/list")]);
    assert_eq!(methods(&sent[3..]), ["tools/list", "prompts/list"], "what the client was told is compared");
    assert_eq!(rig.at_client(), [""; 0], "its answer to initialize is not given twice");
    assert_eq!(news(&mut rig), [WelcomeNews::Confirmed { after: Duration::from_secs(12), lacks: Vec::new() }]);
    assert_eq!(rig.relay.awaits_start(), None);
    assert!(rig.relay.implementation(Side::Server).is_some());

    rig.from_server(&result(own(&sent, "tools/list"), r#"{"tools":[{"name":"a"}, {"name":"b"}]}"#));
    rig.from_server(&result(own(&sent, "prompts/list"), PROMPTS));
    rig.from_server(&result(2, "{}"));
    assert_eq!(rig.at_client(), [result(2, "{}")], "the lists are the same");
    assert_eq!(news(&mut rig), []);
    rig.from_client(&request(5, "tools/list"));
    assert_eq!(rig.at_server(), [request(5, "tools/list")], "the server answers from now on");
    assert_eq!(rig.late(), 0);
    let settled = |id: &str| {
        rig.events.iter().any(|event| {
        matches!(event, rescind_proto::relay::RelayEvent::Settled { id: of, how: Settled::AnsweredHere { code: None }, .. }
            if of.to_string() == id)
    })
    };
    assert!(settled("0") && settled("1"), "no report says that the server answered these");
    assert!(!settled("2"));
}

/// As `rescind run` has it until it knows that both sides are of one era.
#[test]
fn so_it_is_behind_what_joins_two_eras() {
    let config =
        RelayConfig { welcomes: Some(known()), bridge: Some(BridgeConfig::default()), ..RelayConfig::default() };
    let mut rig = rig_with(config);
    begin(&mut rig);
    rig.from_client(&call(2));
    rig.from_client(&call(3));
    rig.from_client(&cancel(3));
    assert_eq!(rig.outcome("3"), Some(Outcome::NeverSent));
    let sent = arrive(&mut rig);
    assert_eq!(&sent[..2], [INITIALIZED.to_owned(), call(2)]);
    rig.from_server(&result(own(&sent, "tools/list"), r#"{"tools":[]}"#));
    rig.from_server(&result(2, "{}"));
    assert_eq!(methods(&rig.at_client()), ["notifications/tools/list_changed", "an answer"]);
}

#[test]
fn a_server_that_is_faster_than_its_client_is_asked_after_the_handshake_has_ended() {
    let mut rig = rig(known());
    rig.from_client(&initialize(REVISION));
    rig.from_client(&request(1, "tools/list"));
    rig.at_server();
    rig.from_server(&result(0, &answer(REVISION, ALL)));
    assert_eq!(rig.at_server(), [""; 0], "nothing before the end of the handshake");
    assert_eq!(rig.at_client(), [result(0, &answer(REVISION, ALL)), result(1, TOOLS)]);
    rig.from_client(INITIALIZED);
    let sent = rig.at_server();
    assert_eq!(methods(&sent), ["notifications/initialized", "tools/list"]);
    // A client that has the id of ours for its own gets another.
    let id = own(&sent, "tools/list");
    rig.from_client(&call(id));
    let renamed = parsed(&rig.at_server())[0]["id"].as_i64().unwrap();
    assert_ne!(renamed, id);
    rig.from_server(&result(id, TOOLS));
    rig.from_server(&result(renamed, r#"{"content":[]}"#));
    assert_eq!(rig.at_client(), [result(id, r#"{"content":[]}"#)]);
}

#[test]
fn a_server_that_answers_before_any_list_is_asked_for_has_none_to_compare() {
    let mut rig = rig(known());
    rig.from_client(&initialize(REVISION));
    rig.from_client(INITIALIZED);
    rig.at_server();
    assert_eq!(arrive(&mut rig), [INITIALIZED]);
    rig.from_client(&request(1, "tools/list"));
    assert_eq!(rig.at_server(), [request(1, "tools/list")]);
    assert!(known_after(&mut rig).is_none(), "nothing new");
}

#[test]
fn a_list_that_is_another_is_reported_where_the_client_was_told_of_such_reports() {
    let mut rig = told(known());
    rig.from_client(&request(2, "prompts/list"));
    rig.at_client();
    let sent = arrive(&mut rig);
    news(&mut rig);
    rig.from_server(&result(own(&sent, "tools/list"), r#"{"tools":[{"name":"a"}]}"#));
    assert_eq!(methods(&rig.at_client()), ["notifications/tools/list_changed"]);
    rig.from_server(&result(own(&sent, "prompts/list"), r#"{"prompts":[]}"#));
    assert_eq!(rig.at_client(), [""; 0], "it was told of no report for prompts");
    let changed = |list, is_reported| WelcomeNews::Changed { list, is_reported };
    assert_eq!(news(&mut rig), [changed("tools/list", true), changed("prompts/list", false)]);

    let mut next = self::rig(known_after(&mut rig).expect("there is news"));
    next.from_client(&initialize(REVISION));
    next.from_client(&request(1, "tools/list"));
    assert_eq!(next.at_client()[1], result(1, r#"{"tools":[{"name":"a"}]}"#), "the next client is told what is so now");
}

#[test]
fn a_list_that_the_server_does_not_give_any_more_is_another_and_is_forgotten() {
    let mut rig = told(known());
    let sent = arrive(&mut rig);
    rig.from_server(&error(own(&sent, "tools/list"), "no"));
    assert_eq!(methods(&rig.at_client()), ["notifications/tools/list_changed"]);
    let mut next = self::rig(known_after(&mut rig).expect("there is news"));
    next.from_client(&initialize(REVISION));
    next.from_client(&request(1, "tools/list"));
    assert_eq!(next.at_client().len(), 1, "it waits for the server");
}

#[test]
fn a_waiting_call_that_is_cancelled_or_times_out_is_never_sent() {
    let limit = Duration::from_secs(30);
    let clock = ClockRule { clock: Clock::Response, method: Some("tools/call".into()), name: None, limit };
    let config = RelayConfig { welcomes: Some(known()), clocks: vec![clock], ..RelayConfig::default() };
    let mut rig = rig_with(config);
    begin(&mut rig);
    for id in 2..6 {
        rig.from_client(&call(id));
    }
    rig.from_client(&cancel(3));
    assert_eq!(rig.outcome("3"), Some(Outcome::NeverSent));
    let operated = rig.key(Side::Client, "4").expect("it waits");
    assert!(rig.relay.stop(rig.now, operated, Some("enough")));
    assert_eq!(parsed(&rig.at_client())[0]["error"]["code"], -31003);
    rig.pass(limit);
    let errors = parsed(&rig.at_client());
    assert_eq!(errors.iter().map(|error| &error["id"]).collect::<Vec<_>>(), [&json!(2), &json!(5)]);
    assert_eq!(errors[0]["error"]["code"], -31001);
    assert_eq!(errors[0]["error"]["data"]["receipt"]["outcome"], "never_sent");
    rig.from_client(&call(6));
    assert_eq!(arrive(&mut rig)[..2], [INITIALIZED.to_owned(), call(6)], "none of the four");
}

#[test]
fn a_server_that_dies_before_it_answers_gives_its_cause_to_what_waits() {
    let mut rig = told(known());
    rig.from_client(&call(2));
    let stderr = b"npm error 404\n".to_vec();
    rig.relay.note_ended_server(EndedServer { program: "npx".into(), unstarted: None, stderr });
    rig.end(Side::Server, &End::Exited(1));
    let errors = parsed(&rig.at_client());
    assert_eq!((&errors[0]["id"], &errors[0]["error"]["code"]), (&json!(2), &json!(-31002)));
    let message = errors[0]["error"]["message"].as_str().unwrap();
    assert!(message.contains("npx") && message.contains("code 1") && message.contains("npm error 404"), "{message}");
    assert_eq!(errors.len(), 1);
    assert!(rig.relay.implementation(Side::Server).is_none());
    assert!(known_after(&mut rig).is_none(), "what it answered before stays");
}

#[test]
fn a_client_that_waits_for_nothing_learns_with_its_next_request_that_the_server_never_started() {
    let mut rig = told(known());
    rig.end(Side::Server, &End::Exited(1));
    assert!(rig.relay.has_untold_end());
    rig.from_client(&call(2));
    assert_eq!(parsed(&rig.at_client())[0]["error"]["code"], -31002);
    assert!(!rig.relay.has_untold_end());
}

/// What the server answers to `initialize`, what its client reads of that, and whether the next one is told anything.
fn unfit(real: &str) -> (String, Option<Welcomes>) {
    let mut rig = told(known());
    rig.from_client(&call(2));
    rig.from_server(real);
    let errors = parsed(&rig.at_client());
    assert_eq!((errors.len(), &errors[0]["id"], &errors[0]["error"]["code"]), (1, &json!(2), &json!(-31002)));
    assert_eq!(rig.at_server(), [""; 0], "the server gets none of it");
    let news = news(&mut rig);
    let [WelcomeNews::Unfit(why)] = &news[..] else { panic!("{news:?}") };
    assert!(errors[0]["error"]["message"].as_str().is_some_and(|message| message.contains(&**why)));
    rig.from_client(&request(3, "tools/list"));
    rig.from_client(&request(4, "ping"));
    let errors = parsed(&rig.at_client());
    assert_eq!(errors.iter().map(|error| &error["error"]["code"]).collect::<Vec<_>>(), [&json!(-31002); 2]);
    assert!(rig.relay.restart_obstacle().is_some());
    rig.end(Side::Server, &End::Signalled(15));
    assert_eq!(rig.at_client(), [""; 0]);
    (why.clone(), known_after(&mut rig))
}

#[test]
fn a_client_cannot_go_on_with_a_server_of_another_revision_and_the_next_one_is_told_the_right_one() {
    let (why, known) = unfit(&result(0, &answer("2025-03-26", ALL)));
    assert!(why.contains("2025-03-26") && why.contains(REVISION), "{why}");
    let mut next = rig(known.expect("there is news"));
    next.from_client(&initialize(REVISION));
    assert_eq!(next.at_client(), [result(0, &answer("2025-03-26", ALL))]);
    next.from_client(INITIALIZED);
    next.at_server();
    next.from_server(&result(0, &answer("2025-03-26", ALL)));
    assert_eq!(next.at_server(), [INITIALIZED]);
}

#[test]
fn a_server_that_refuses_its_client_or_cannot_be_read_is_not_gone_on_with_and_the_next_client_waits_for_it() {
    for real in [error(0, "not you"), r#"{"jsonrpc":"2.0","id":0,"error":"not you"}"#.into()] {
        let (_, known) = unfit(&real);
        let mut next = rig(known.expect("it is forgotten"));
        next.from_client(&initialize(REVISION));
        assert_eq!(next.at_client(), [""; 0], "after {real}");
        assert_eq!(next.at_server(), [initialize(REVISION)]);
    }
}

#[test]
fn what_a_capability_is_missing_for_is_refused_and_all_else_goes_on() {
    let mut rig = told(known());
    rig.from_client(&request(2, "prompts/list"));
    rig.from_client(&call(3));
    rig.at_client();
    rig.from_server(&result(0, &answer(REVISION, r#"{"tools":{},"resources":{"listChanged":true}}"#)));
    assert_eq!(methods(&rig.at_server()), ["notifications/initialized", "tools/call", "tools/list"]);
    let lacks = vec!["tools".into(), "prompts".into()];
    assert_eq!(news(&mut rig), [WelcomeNews::Confirmed { after: Duration::ZERO, lacks }]);
    rig.from_client(&request(4, "prompts/get"));
    let error = &parsed(&rig.at_client())[0];
    assert_eq!((&error["id"], &error["error"]["code"]), (&json!(4), &json!(-32601)));
    assert!(error["error"]["message"].as_str().unwrap().contains("prompts"), "{error}");
    rig.from_client(&request(5, "resources/read"));
    assert_eq!(rig.at_server(), [request(5, "resources/read")]);
}

#[test]
fn a_server_with_more_than_was_told_is_gone_on_with() {
    let mut rig = told(known());
    let more = ALL.replace(r#""prompts":{}"#, r#""prompts":{"listChanged":true},"logging":{}"#);
    rig.from_server(&result(0, &answer(REVISION, &more)));
    assert_eq!(methods(&rig.at_server()), ["notifications/initialized", "tools/list"]);
    assert_eq!(rig.at_client(), [""; 0]);
    assert_eq!(news(&mut rig), [WelcomeNews::Confirmed { after: Duration::ZERO, lacks: Vec::new() }]);
    let mut next = self::rig(known_after(&mut rig).expect("there is news"));
    next.from_client(&initialize(REVISION));
    next.from_client(&request(1, "tools/list"));
    assert_eq!(next.at_client(), [result(0, &answer(REVISION, &more)), result(1, TOOLS)], "the lists are kept");
}

#[test]
fn a_client_that_asked_for_progress_is_told_that_it_waits_until_the_server_has_started() {
    let mut rig = told(known());
    rig.from_client(&call_with_progress(2));
    rig.from_client(&call(3));
    rig.from_client(&call_with_progress(4));
    let mut values = Vec::new();
    for round in 0..3 {
        rig.pass(Duration::from_secs(5));
        let reports = parsed(&rig.at_client());
        let tokens: Vec<_> = reports.iter().map(|report| &report["params"]["progressToken"]).collect();
        let expected = if round < 2 { vec![json!("t2"), json!("t4")] } else { vec![json!("t2")] };
        assert_eq!(tokens, expected.iter().collect::<Vec<_>>());
        assert!(reports.iter().all(|report| report["method"] == "notifications/progress"));
        values.push(reports[0]["params"]["progress"].as_f64().unwrap());
        if round == 1 {
            rig.from_client(&cancel(4));
        }
    }
    assert!(values.is_sorted_by(|one, next| one < next) && values.iter().all(|value| *value < 0.0), "{values:?}");
    arrive(&mut rig);
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.at_client(), [""; 0], "from now on the server reports");
    let progress =
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t2","progress":0}}"#;
    rig.from_server(progress);
    assert_eq!(rig.at_client(), [progress]);
}

#[test]
fn a_client_that_does_not_read_is_told_once_that_a_call_waits() {
    let mut rig = told(known());
    rig.from_client(&call_with_progress(2));
    rig.pass(Duration::from_secs(600));
    assert_eq!(methods(&rig.at_client()), ["notifications/progress"]);
    rig.pass(Duration::from_secs(5));
    rig.from_client(&cancel(2));
    assert_eq!(rig.at_client(), [""; 0], "what was cancelled reports nothing");
}

#[test]
fn a_list_of_several_pages_is_told_as_one() {
    let pages: &[&str] = &[
        r#"{"tools":[{"name":"a"}],"nextCursor":"one"}"#,
        r#"{"tools":[],"nextCursor":"two"}"#,
        r#"{"tools":[{"name":"b"}]}"#,
    ];
    let mut rig = told(first_start(REVISION, ALL, &[("tools/list", pages)]));
    rig.from_client(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"one"}}"#);
    assert_eq!(rig.at_client(), [""; 0], "a cursor is the server's matter");
    let sent = arrive(&mut rig);
    assert_eq!(methods(&sent[..2]), ["notifications/initialized", "tools/list"]);
    let mut id = parsed(&sent)[2]["id"].as_i64().unwrap();
    for (page, cursor) in pages.iter().zip(["one", "two", ""]) {
        rig.from_server(&result(id, page));
        let asked = parsed(&rig.at_server());
        if cursor.is_empty() {
            assert_eq!(asked, [json!(null); 0]);
        } else {
            assert_eq!(
                (&asked[0]["method"], &asked[0]["params"]),
                (&json!("tools/list"), &json!({ "cursor": cursor }))
            );
            id = asked[0]["id"].as_i64().unwrap();
        }
    }
    assert_eq!(rig.at_client(), [""; 0], "it is the same list");
}

#[test]
fn half_a_list_is_never_told() {
    let half: &[&str] = &[r#"{"tools":[{"name":"a"}],"nextCursor":"one"}"#];
    let mut rig = rig(first_start(REVISION, ALL, &[("tools/list", half)]));
    rig.from_client(&initialize(REVISION));
    rig.from_client(&request(1, "tools/list"));
    assert_eq!(rig.at_client().len(), 1, "the list waits for the server");
    rig.from_client(INITIALIZED);
    rig.at_server();
    rig.from_server(&result(0, &answer(REVISION, ALL)));
    assert_eq!(rig.at_server(), [request(1, "tools/list"), INITIALIZED.into()]);
}

#[test]
fn members_of_an_array_wait_each_by_itself() {
    let revision = "2025-03-26";
    let mut rig = rig(first_start(revision, ALL, &[("tools/list", &[TOOLS])]));
    rig.from_client(&initialize(revision));
    rig.from_client(INITIALIZED);
    rig.at_client();
    rig.from_client(&format!("[{},{},{}]", request(1, "tools/list"), call(2), call(3)));
    assert_eq!(rig.at_client(), [result(1, TOOLS)]);
    rig.from_client(&cancel(2));
    assert_eq!(rig.outcome("2"), Some(Outcome::NeverSent));
    rig.at_server();
    rig.from_server(&result(0, &answer(revision, ALL)));
    let sent = rig.at_server();
    assert_eq!(&sent[..2], [INITIALIZED.to_owned(), call(3)]);
    rig.from_client(&format!("[{},{}]", call(4), call(5)));
    assert_eq!(rig.at_server(), [format!("[{},{}]", call(4), call(5))], "as ever, once the server has started");
}

#[test]
fn a_handshake_in_an_array_is_the_servers_matter() {
    let revision = "2025-03-26";
    let mut rig = rig(first_start(revision, ALL, &[]));
    rig.from_client(&format!("[{},{}]", initialize(revision), request(1, "tools/list")));
    assert_eq!(rig.at_client(), [""; 0]);
    assert_ne!(rig.at_server(), [""; 0]);
}

#[test]
fn ten_thousand_waiting_requests_are_bounded_and_cancels_are_read() {
    let mut rig = told(known());
    let calls: String = (2..10_002).map(|id| call(id) + "\n").collect();
    rig.bytes(Side::Client, calls.as_bytes());
    assert!(rig.relay.wants_input(Side::Client));
    let refused = parsed(&rig.at_client());
    assert!(refused.iter().all(|error| error["error"]["code"] == -31004));
    assert!((5_000..7_000).contains(&refused.len()), "{}", refused.len());
    rig.from_client(&cancel(2));
    assert_eq!(rig.outcome("2"), Some(Outcome::NeverSent));
    rig.from_client(&call(20_000));
    assert_eq!(rig.at_client(), [""; 0], "there is room again");
    let large =
        format!(r#"{{"jsonrpc":"2.0","id":20001,"method":"tools/call","params":{{"a":"{}"}}}}"#, "x".repeat(16 << 20));
    rig.from_client(&cancel(3));
    rig.from_client(&large);
    assert_eq!(parsed(&rig.at_client())[0]["error"]["code"], -31004);
    assert!(rig.relay.wants_input(Side::Client));
    assert_eq!(arrive(&mut rig).len(), 1 + (10_000 - refused.len()) - 2 + 1 + 1);
}

#[test]
fn what_a_server_asks_before_it_answers_the_handshake_is_answered() {
    let mut rig = told(known());
    rig.from_client(&call(2));
    rig.from_server(&request(7, "ping"));
    assert_eq!(rig.at_client(), [request(7, "ping")]);
    rig.from_client(&result(7, "{}"));
    assert_eq!(rig.at_server(), [result(7, "{}")], "the answer passes what waits");
}

#[test]
fn a_ping_is_answered_while_the_server_starts() {
    let mut rig = told(known());
    rig.from_client(&request(2, "ping"));
    assert_eq!(rig.at_client(), [result(2, "{}")]);
    arrive(&mut rig);
    rig.from_client(&request(3, "ping"));
    assert_eq!(rig.at_server(), [request(3, "ping")]);
}

#[test]
fn a_client_that_ends_its_input_leaves_all_of_it_to_the_server() {
    let mut rig = told(known());
    rig.from_client(&call(2));
    rig.end(Side::Client, &End::Closed);
    assert_eq!(rig.at_server(), [INITIALIZED.to_owned(), call(2)]);
    rig.from_server(&result(0, &answer(REVISION, ALL)));
    rig.from_server(&result(2, "{}"));
    assert_eq!(rig.at_client(), [result(2, "{}")]);
}

#[test]
fn another_client_waits_for_the_server() {
    let mut rig = rig(known());
    let other = initialize(REVISION).replace("roots", "sampling");
    rig.from_client(&other);
    rig.from_client(&request(1, "tools/list"));
    assert_eq!(rig.at_client(), [""; 0]);
    assert_eq!(rig.at_server(), [other, request(1, "tools/list")], "nothing is held back");
    assert_eq!(news(&mut rig), []);
}

#[test]
fn an_answer_that_comes_after_a_quarter_of_an_hour_is_recognised() {
    let mut rig = told(known());
    rig.from_client(&call(2));
    rig.pass(Duration::from_secs(900));
    assert_eq!(rig.relay.remembered(Side::Client), 0);
    assert_eq!(arrive(&mut rig)[..2], [INITIALIZED.to_owned(), call(2)]);
    assert!(rig.relay.implementation(Side::Server).is_some());
    assert_eq!(rig.at_client(), [""; 0]);
}

#[test]
fn a_client_without_a_session_is_told_what_it_discovers_and_may_not_keep() {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":"p"}"#;
    let ask =
        |id: i64, method: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{meta}}}}}"#);
    let discovered = |ttl: u32| {
        format!(
            r#"{{"resultType":"complete","ttlMs":{ttl},"cacheScope":"private","supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{"listChanged":true}}}}}}"#
        )
    };
    let tools =
        |ttl: u32, name: &str| format!(r#"{{"resultType":"complete","ttlMs":{ttl},"tools":[{{"name":"{name}"}}]}}"#);
    let mut rig = rig(Welcomes::default());
    rig.from_client(&ask(1, "server/discover"));
    rig.at_server();
    rig.from_server(&result(1, &discovered(5000)));
    rig.from_client(&ask(2, "tools/list"));
    rig.at_server();
    rig.from_server(&result(2, &tools(5000, "a")));
    rig.at_client();

    let mut rig = self::rig(known_after(&mut rig).expect("something was learnt"));
    rig.from_client(&ask(1, "server/discover"));
    rig.from_client(&ask(2, "tools/list"));
    rig.from_client(&ask(3, "tools/call"));
    assert_eq!(rig.at_client(), [result(1, &discovered(0)), result(2, &tools(0, "a"))]);
    assert_eq!(rig.at_server(), [ask(1, "server/discover")]);
    rig.from_server(&result(1, &discovered(5000)));
    rig.from_client(&ask(4, "tools/call"));
    let sent = rig.at_server();
    assert_eq!(methods(&sent), ["tools/call", "tools/list", "tools/call"]);
    let own = &parsed(&sent)[1];
    assert_eq!(own["params"]["_meta"]["progressToken"], Value::Null);
    assert_eq!(own["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    rig.from_server(&result(own["id"].as_i64().unwrap(), &tools(5000, "b")));
    assert_eq!(rig.at_client(), [""; 0], "it asks for reports itself");
    assert_eq!(news(&mut rig).last(), Some(&WelcomeNews::Changed { list: "tools/list", is_reported: false }));
}

/// A client of both eras asks which one its server knows.
#[test]
fn a_client_that_first_asks_for_what_the_server_does_not_know_is_told_so_until_that_is_another() {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let discover = format!(r#"{{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{{{meta}}}}}"#);
    let refusal = r#"{"jsonrpc":"2.0","id":"d","error":{"code":-32601,"message":"no such method"}}"#;
    let mut first = self::rig(self::known());
    first.from_client(&discover);
    assert_eq!(first.at_server(), [&*discover]);
    first.from_server(refusal);
    assert_eq!(first.at_client(), [refusal]);
    let known = known_after(&mut first).expect("something was learnt");

    let mut rig = self::rig(known.clone());
    rig.from_client(&discover);
    assert_eq!(rig.at_client(), [refusal]);
    begin(&mut rig);
    assert_eq!(arrive(&mut rig)[0], INITIALIZED);
    assert!(known_after(&mut rig).is_none(), "it is the same server");

    let mut rig = self::rig(known);
    rig.from_client(&discover);
    assert_eq!(rig.at_client(), [refusal]);
    begin(&mut rig);
    rig.from_server(&result(0, &answer(REVISION, ALL).replace(r#""version":"2""#, r#""version":"3""#)));
    let mut next = self::rig(known_after(&mut rig).expect("it is another"));
    next.from_client(&discover);
    assert_eq!(next.at_client(), [""; 0], "perhaps this one knows it");
    assert_eq!(next.at_server(), [discover]);
}

#[test]
fn protocols_without_such_lists_pass_as_ever() {
    let mut rig = rig(known());
    let acp =
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#;
    rig.from_client(acp);
    assert_eq!(rig.at_server(), [acp]);
    rig.from_server(&result(0, r#"{"protocolVersion":1}"#));
    assert_eq!(rig.at_client(), [result(0, r#"{"protocolVersion":1}"#)]);
    assert!(known_after(&mut rig).is_none());
}

#[test]
fn what_is_kept_of_a_server_stays_in_its_bound_whatever_it_answers() {
    let most = RelayConfig { welcomes: Some(Welcomes::default()), ..RelayConfig::default() }.most_held(1 << 20);
    let without = RelayConfig::default().most_held(1 << 20);
    let mut rig = told(known());
    arrive(&mut rig);
    for id in 2..40 {
        rig.from_client(&request(id, "tools/list"));
        rig.at_server();
        let page = format!(r#"{{"tools":["{}"],"nextCursor":"{id}"}}"#, "x".repeat(200 << 10));
        rig.from_server(&result(id, &page));
        rig.at_client();
        rig.from_client(&format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":"tools/list","params":{{"cursor":"{id}"}}}}"#,
            id + 100
        ));
        rig.at_server();
        rig.from_server(&result(id + 100, &page));
        rig.at_client();
        let document = rig.relay.poll_welcomes().unwrap_or_default();
        assert!(document.len() <= rescind_proto::welcome::MAX_DOCUMENT);
    }
    assert!(rig.relay.held() < most - without, "{} of {}", rig.relay.held(), most - without);
}

/// However the server, the client and time take turns, each call has one answer or was cancelled, in its order, and what was
/// taken back in time never reaches the server.
#[test]
fn however_a_start_goes_each_call_has_one_answer_and_none_that_was_taken_back_is_sent() {
    let known = known();
    for seed in 1..200 {
        let mut dice = Dice(seed);
        let mut rig = rig(known.clone());
        rig.from_client(&initialize(REVISION));
        let (mut open, mut next) = (Vec::new(), 10);
        let (mut at_server, mut withdrawn) = (Vec::new(), Vec::new());
        let mut answered = 0;
        let mut read_client = |rig: &mut RelayRig, open: &mut Vec<i64>| {
            for message in parsed(&rig.at_client()) {
                let Some(id) = message["id"].as_i64().filter(|_| message.get("method").is_none()) else { continue };
                if id >= 10 {
                    let at = open.iter().position(|waits| *waits == id);
                    open.remove(
                        at.unwrap_or_else(|| panic!("seed {seed}: {id} is answered twice, or after its cancel")),
                    );
                    answered += 1;
                }
            }
        };
        for _ in 0..60 {
            match dice.roll(10) {
                0..=2 => {
                    let list =
                        [call(next), call_with_progress(next), request(next, "tools/list"), request(next, "ping")];
                    rig.from_client(&list[dice.roll(list.len())]);
                    open.push(next);
                    next += 1;
                }
                3 if !open.is_empty() => {
                    read_client(&mut rig, &mut open);
                    if !open.is_empty() {
                        let id = open.remove(dice.roll(open.len()));
                        rig.from_client(&cancel(id));
                        withdrawn.extend((rig.outcome(&id.to_string()) == Some(Outcome::NeverSent)).then_some(id));
                    }
                }
                4 => rig.pass(Duration::from_secs(3)),
                5 => rig.write(Side::Server, dice.roll(300)),
                6 | 7 => at_server.extend(parsed(&rig.at_server())),
                8 if !at_server.is_empty() => answer_one(&mut rig, at_server.remove(dice.roll(at_server.len()))),
                9 if seed % 3 == 0 => rig.from_client(INITIALIZED),
                _ => read_client(&mut rig, &mut open),
            }
        }
        if seed % 5 == 0 {
            rig.end(Side::Server, &End::Exited(1));
        }
        let mut got = Vec::new();
        while {
            at_server.extend(parsed(&rig.at_server()));
            !at_server.is_empty()
        } {
            for message in core::mem::take(&mut at_server) {
                got.extend(message["id"].as_i64());
                answer_one(&mut rig, message);
            }
        }
        assert!(withdrawn.iter().all(|id| !got.contains(id)), "seed {seed}");
        read_client(&mut rig, &mut open);
        assert_eq!(open, [0; 0], "seed {seed}: without an answer");
        assert_eq!(rig.relay.in_flight(Side::Client), 0);
        assert!(answered > 0);
        rig.relay.check_invariants();
    }
}

/// The server answers what it was sent, if that is to be answered.
fn answer_one(rig: &mut RelayRig, message: Value) {
    let Some(id) = message["id"].as_i64() else { return };
    let text = match message["method"].as_str() {
        Some("initialize") => answer(REVISION, ALL),
        Some("tools/list") => TOOLS.to_owned(),
        _ => "{}".to_owned(),
    };
    rig.from_server(&result(id, &text));
}

struct Dice(u64);

impl Dice {
    /// A number below `sides`.
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }
}
