//! The arguments of requests in flight, kept for whoever comes because one hangs.

use core::time::Duration;

use rescind_proto::{
    link::{Clock, RequestKey},
    relay::{ArgumentsView, ClockRule, End, RelayConfig},
    side::Side,
};
use rescind_testkit::relay_rig::RelayRig;
use serde_json::json;

use crate::relay_tasks_at_work::{BOTH, Link};

fn rig() -> RelayRig {
    RelayRig::new(RelayConfig::default())
}

fn call(id: u32, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
}

fn result(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

fn cancel(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

/// What is kept of a request: its text and the whole length.
fn kept(rig: &RelayRig, key: RequestKey) -> Option<(String, usize)> {
    match rig.relay.arguments(key)? {
        ArgumentsView::Kept { text, length } => Some((String::from_utf8_lossy(text).into_owned(), length)),
        ArgumentsView::LeftOut => Some(("left out".to_owned(), 0)),
    }
}

fn of(rig: &RelayRig, id: &str) -> Option<(String, usize)> {
    kept(rig, rig.key(Side::Client, id).expect("it was opened"))
}

fn whole(text: &str) -> Option<(String, usize)> {
    Some((text.to_owned(), text.len()))
}

#[test]
fn they_are_kept_as_they_came_until_the_answer_has_left() {
    let mut rig = rig();
    let params = r#"{ "name":"index", "arguments" : {"n":12345678901234567890,"é":"\u0000"} }"#;
    rig.from_client(&call(1, params));
    assert_eq!(of(&rig, "1"), whole(params), "also before it has left");
    rig.at_server();
    assert_eq!(of(&rig, "1"), whole(params));
    rig.from_server(&result(1));
    assert_eq!(of(&rig, "1"), whole(params), "its client does not have the answer yet");
    rig.at_client();
    assert_eq!(of(&rig, "1"), None);
}

#[test]
fn those_of_the_server_are_kept_too_and_none_of_what_has_none() {
    let mut rig = rig();
    rig.from_client(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    assert_eq!(of(&rig, "1"), whole(""));
    rig.from_server(r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[]}}"#);
    let asked = rig.key(Side::Server, "1").unwrap();
    assert_eq!(kept(&rig, asked), whole(r#"{"messages":[]}"#));
    rig.at_client();
    rig.from_client(&result(1));
    rig.at_server();
    assert_eq!(kept(&rig, asked), None);
    assert_eq!(of(&rig, "1"), whole(""));
}

/// Whatever way out a request takes, nothing of it is kept behind it: the invariants compare both after each input.
#[test]
fn nothing_is_kept_of_what_is_over() {
    let clock = ClockRule { clock: Clock::Total, method: None, name: None, limit: Duration::from_secs(60) };
    let mut rig = RelayRig::new(RelayConfig { clocks: vec![clock], ..RelayConfig::default() });
    let ends: [&dyn Fn(&mut RelayRig); 5] = [
        &|rig| rig.from_client(&cancel(1)),
        &|rig| {
            rig.at_server();
            rig.from_client(&cancel(1));
        },
        &|rig| rig.pass(Duration::from_secs(61)),
        &|rig| {
            let key = rig.key(Side::Client, "1").unwrap();
            assert!(rig.relay.stop(rig.now, key, None));
        },
        &|rig| rig.end(Side::Server, &End::Exited(1)),
    ];
    let mut before = Vec::new();
    for end in ends {
        rig.from_client(&call(1, r#"{"a":1}"#));
        let key = rig.key(Side::Client, "1").unwrap();
        assert!(!before.contains(&key));
        assert_eq!(kept(&rig, key), whole(r#"{"a":1}"#));
        end(&mut rig);
        rig.at_server();
        rig.at_client();
        assert_eq!(kept(&rig, key), None);
        before.push(key);
        rig.relay.check_invariants();
    }
}

#[test]
fn a_request_that_is_refused_or_cancelled_before_it_came_leaves_nothing() {
    let mut rig = RelayRig::new(RelayConfig { max_in_flight: 1, ..RelayConfig::default() });
    rig.from_client(&call(1, r#"{"first":1}"#));
    rig.from_client(&call(1, r#"{"second":1}"#));
    rig.from_client(&call(2, r#"{"third":1}"#));
    assert_eq!(of(&rig, "1"), whole(r#"{"first":1}"#));
    assert_eq!(rig.key(Side::Client, "2"), None);
    rig.at_server();
    rig.from_server(&result(1));
    rig.at_client();
    rig.from_client(&cancel(3));
    rig.from_client(&call(3, r#"{"early":1}"#));
    assert_eq!(of(&rig, "3"), None);
    rig.relay.check_invariants();
}

#[test]
fn of_a_thousand_with_16_kib_each_as_many_are_kept_as_there_is_room_for_and_of_the_others_it_is_known() {
    let config = RelayConfig { keeps_arguments: true, ..RelayConfig::default() };
    let without = RelayConfig::default().most_held(64 << 10);
    assert_eq!(config.most_held(64 << 10), without + (1 << 20));
    let mut rig = RelayRig::new(config);
    let long = format!(r#"{{"text":"{}"}}"#, "x".repeat((16 << 10) - 11));
    assert_eq!(long.len(), 16 << 10);
    for id in 1..=1000 {
        rig.from_client(&call(id, &long));
        rig.at_server();
    }
    let all: Vec<_> = (1..=1000).map(|id| of(&rig, &id.to_string()).unwrap()).collect();
    let count = all.iter().filter(|one| **one == (long.clone(), long.len())).count();
    let left_out = all.iter().filter(|one| one.0 == "left out").count();
    assert_eq!((count, left_out), (59, 940), "and of one the beginning");
    assert!(all[..59].iter().all(|one| one.1 == long.len()), "those that came first");
    assert!(all[59].0.len() < long.len() && all[59].1 == long.len());
    for id in 1..=1000 {
        rig.from_server(&result(id));
    }
    rig.at_client();
    assert!((1..=1000).all(|id| of(&rig, &id.to_string()).is_none()));
    rig.from_client(&call(1001, &long));
    assert_eq!(of(&rig, "1001"), whole(&long), "there is room again");
}

#[test]
fn of_a_long_argument_the_beginning_is_kept_and_how_long_it_was() {
    let mut rig = rig();
    let long = format!(r#"{{"text":"{}"}}"#, "é".repeat(2 << 20));
    rig.from_client(&call(1, &long));
    let (text, length) = of(&rig, "1").unwrap();
    assert_eq!(length, long.len());
    assert!(long.starts_with(&text) && ((16 << 10) - 1..=16 << 10).contains(&text.len()), "{}", text.len());
}

/// An operator of Codex or of a task sees the work, and not the request that began it, which was answered at once.
#[test]
fn a_task_has_those_of_its_request() {
    for spoken in BOTH {
        let mut link = Link::new(spoken);
        let key = link.task(5, "t1");
        let (text, length) = kept(&link.rig, key).unwrap();
        let params: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&params["name"], length), (&json!("slow"), text.len()), "{spoken:?}");
        assert_eq!(of(&link.rig, "5"), None, "{spoken:?}");
    }
}

#[test]
fn a_turn_of_codex_has_those_of_the_request_that_started_it() {
    let mut rig = rig();
    let client = |rig: &mut RelayRig, text: &str| {
        rig.from_client(text);
        rig.at_server();
    };
    let server = |rig: &mut RelayRig, text: &str| {
        rig.from_server(text);
        rig.at_client();
    };
    client(
        &mut rig,
        r#"{"id":0,"method":"initialize","params":{"clientInfo":{"name":"c","title":null,"version":"1"},"capabilities":{"experimentalApi":true}}}"#,
    );
    server(
        &mut rig,
        r#"{"id":0,"result":{"userAgent":"codex_vscode/0.171.0 (Linux)","codexHome":"/h","platformFamily":"unix","platformOs":"linux"}}"#,
    );
    client(&mut rig, r#"{"method":"initialized"}"#);
    let params = r#"{"threadId":"t","input":[{"type":"text","text":"hang"}]}"#;
    client(&mut rig, &format!(r#"{{"id":1,"method":"turn/start","params":{params}}}"#));
    assert_eq!(of(&rig, "1"), whole(params), "everything of such a link passes, and this is kept");
    server(&mut rig, r#"{"id":1,"result":{"turn":{"id":"u","status":"inProgress","items":[]}}}"#);
    server(&mut rig, r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u","status":"inProgress"}}}"#);
    let turn = rig.relay.requests(Side::Client).find(|view| view.is_work).expect("it is at work").key;
    assert_eq!(kept(&rig, turn), whole(params));
    server(
        &mut rig,
        r#"{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u","status":"completed","error":null}}}"#,
    );
    assert_eq!(kept(&rig, turn), None);
}

#[test]
fn nothing_is_kept_where_nobody_can_ask() {
    let mut relay = rescind_proto::relay::Relay::new(RelayConfig::default());
    relay.handle_input(rescind_proto::time::Instant::ORIGIN, Side::Client, (call(1, "{}") + "\n").as_bytes());
    let key = relay.requests(Side::Client).next().unwrap().key;
    assert_eq!(relay.arguments(key), None);
}
