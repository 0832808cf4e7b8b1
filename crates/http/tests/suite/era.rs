//! Whether requests outside a session are served: the server is asked once, and they wait for what it says.

use std::time::Duration;

use http::Method;
use rescind_http::server::{HttpServerConfig, Stateless};
use serde_json::{Value, json};

use crate::{ids::id_in, rig::*};

fn asking() -> Rig {
    Rig::with(HttpServerConfig { stateless: Stateless::Ask, ..config() })
}

/// The id of the question.
fn question(received: &[String]) -> String {
    let [only] = received else { panic!("not one message: {received:?}") };
    let question: Value = serde_json::from_str(only).unwrap();
    assert_eq!(question["method"], "server/discover");
    assert_eq!(question["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], MODERN);
    assert!(question["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].is_object());
    question["id"].to_string()
}

fn error_of(id: &str, code: i32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"x"}}}}"#)
}

#[test]
fn a_server_is_asked_once_and_requests_wait_for_its_answer() {
    let mut rig = asking();
    let keys: Vec<_> = (0..3).map(|_| rig.post_modern(&modern_call("1"))).collect();
    let link = rig.shared();
    let id = question(&rig.at(link));
    assert!(keys.iter().all(|key| rig.read(*key).status == 0));
    rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"supportedVersions":["{MODERN}"]}}}}"#));
    let received = rig.at(link);
    assert_eq!(received.len(), 3);
    for (message, key) in received.iter().zip(keys) {
        let id = serde_json::from_str::<Value>(message).unwrap()["id"].to_string();
        rig.answer(link, &id, &id);
        assert_eq!(rig.whole(key, 200), result_of("1", &id));
    }
    let key = rig.post_modern(&modern_call("1"));
    assert_eq!(rig.at(link).len(), 1, "it is not asked again");
    rig.hang_up(key);
    rig.leaves_nothing();
}

/// A server may need longer to start than a client waits.
#[test]
fn a_server_can_be_asked_before_any_client_comes() {
    let mut rig = asking();
    rig.server.prepare(rig.now);
    rig.drain();
    let link = rig.shared();
    let id = question(&rig.at(link));
    let early = rig.post_modern(&modern_call("1"));
    assert_eq!(rig.at(link), [""; 0], "it waits");
    rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"supportedVersions":["{MODERN}"]}}}}"#));
    assert_eq!(rig.at(link).len(), 1);
    rig.server.prepare(rig.now);
    let late = rig.post_modern(&modern_call("1"));
    assert_eq!(rig.at(link).len(), 1, "it is not asked again");
    [early, late].into_iter().for_each(|key| rig.hang_up(key));
    rig.leaves_nothing();
}

#[test]
fn nobody_is_asked_what_is_known_or_will_not_be_needed() {
    for stateless in [Stateless::Served, Stateless::Refused, Stateless::Ask] {
        let mut rig = Rig::with(HttpServerConfig { stateless, ..config() });
        if stateless == Stateless::Ask {
            rig.server.drain();
        }
        rig.server.prepare(rig.now);
        rig.drain();
        assert!(rig.opened.is_empty());
        rig.leaves_nothing();
    }
}

/// The program refuses a handshake with this error.
fn refuse(rig: &mut Rig, error: &Value) -> Answer {
    let key = rig.post(&[], HANDSHAKE);
    let link = rig.opened.last().unwrap().0;
    rig.say(link, &json!({"jsonrpc": "2.0", "id": 3, "error": error}).to_string());
    rig.close(link);
    rig.read(key)
}

const HANDSHAKE: &str =
    r#"{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}"#;

fn unsupported(supported: &Value) -> Value {
    json!({"code": -32022, "message": "x", "data": {"supported": supported, "requested": "2025-06-18"}})
}

#[test]
fn after_a_modern_only_server_has_refused_a_handshake_no_process_is_started_for_another() {
    let mut rig = asking();
    let first = refuse(&mut rig, &unsupported(&json!([MODERN])));
    assert_eq!((first.status, first.code(), first.header("mcp-session-id")), (400, -32022, None));
    let key = rig.post(&[], &HANDSHAKE.replace("2025-06-18", "2025-03-26"));
    let second = rig.read(key);
    assert_eq!((second.status, &second.json()["id"]), (400, &json!(3)));
    let data = json!({"supported": [MODERN], "requested": "2025-03-26"});
    assert_eq!(second.json()["error"]["data"], data);
    assert_eq!(rig.opened.len(), 1);
    // Its own era is served.
    let key = rig.post_modern(&modern_call("1"));
    assert_eq!(rig.opened.len(), 2);
    rig.hang_up(key);
    rig.leaves_nothing();
}

/// Whoever would have been served is: what is not sure is asked for.
#[test]
fn a_handshake_is_refused_only_if_the_server_names_no_revision_with_sessions() {
    for error in [
        unsupported(&json!([MODERN, "2025-11-25"])),
        unsupported(&json!([MODERN, "unheard of"])),
        unsupported(&json!([MODERN, 7])),
        unsupported(&json!([])),
        unsupported(&json!("2026-07-28")),
        unsupported(&json!(vec![MODERN; 1000])),
        json!({"code": -32022, "message": "x"}),
        json!({"code": -32602, "message": "x", "data": {"supported": [MODERN]}}),
    ] {
        let mut rig = asking();
        refuse(&mut rig, &error);
        rig.session(LEGACY);
        rig.leaves_nothing();
    }
    // SDKs name no others to `server/discover`, and serve sessions all the same.
    let mut rig = asking();
    rig.server.prepare(rig.now);
    rig.drain();
    let link = rig.shared();
    let id = question(&rig.at(link));
    rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"supportedVersions":["{MODERN}"]}}}}"#));
    rig.session(LEGACY);
    rig.leaves_nothing();
}

#[test]
fn an_error_that_only_modern_servers_have_says_that_it_is_one() {
    for (code, is_modern) in [(-32022, true), (-32021, true), (-32020, true), (-32601, false), (-32602, false)] {
        let mut rig = asking();
        let key = rig.post_modern(&modern_call("1"));
        let link = rig.shared();
        let id = question(&rig.at(link));
        rig.say(link, &error_of(&id, code));
        let answer = rig.read(key);
        if is_modern {
            assert_eq!(answer.status, 0);
            assert_eq!(rig.at(link).len(), 1);
        } else {
            assert_eq!((answer.status, answer.code()), (400, -32600), "no code that a modern server has");
        }
        rig.leaves_nothing();
    }
}

/// Such as one whose registry could not be reached, or one at a URL that could not.
#[test]
fn a_server_that_could_not_say_it_is_asked_again() {
    for ends in [true, false] {
        asked_again(ends);
    }
}

fn asked_again(ends: bool) {
    let mut rig = asking();
    let held = rig.post_modern(&modern_call("1"));
    let link = rig.shared();
    let id = question(&rig.at(link));
    if ends {
        rig.close(link);
    } else {
        rig.say(link, &error_of(&id, -31002));
    }
    let answer = rig.read(held);
    assert_eq!((answer.status, answer.code()), (400, -32600), "so that clients of both eras fall back");
    let held = rig.post_modern(&modern_call("1"));
    let link = rig.shared();
    let id = question(&rig.at(link));
    rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"supportedVersions":["{MODERN}"]}}}}"#));
    let known = id_in(&rig.at(link)[0]);
    rig.answer(link, &known, "done");
    assert_eq!(rig.whole(held, 200), result_of("1", "done"));
    rig.leaves_nothing();
}

#[test]
fn a_legacy_server_refuses_all_that_wait_and_all_that_come() {
    enum How {
        Says,
        IsSilent,
    }
    for how in [How::Says, How::IsSilent] {
        let mut rig = asking();
        let held = rig.post_modern(&modern_call("1"));
        let notified = rig.post(&[("mcp-protocol-version", MODERN)], &note("x"));
        let link = rig.shared();
        let id = question(&rig.at(link));
        match how {
            How::Says => rig.say(link, &error_of(&id, -32601)),
            How::IsSilent => {
                rig.pass(Duration::from_secs(29));
                assert_eq!(rig.read(held).status, 0);
                rig.pass(Duration::from_secs(1));
            }
        }
        let later = rig.post_modern(&modern_call("2"));
        for key in [held, notified, later] {
            let answer = rig.read(key);
            assert_eq!((answer.status, answer.code()), (400, -32600), "so that clients of both eras fall back");
        }
        assert_eq!(rig.at(link), ["end"], "the shared program is not needed");
        rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        let client = rig.session(LEGACY);
        let key = rig.post_to(&client, &call("1"));
        rig.answer(client.link, "1", "done");
        rig.whole(key, 200);
        rig.leaves_nothing();
    }
}

#[test]
fn a_server_that_serves_no_stateless_requests_is_not_asked() {
    let mut rig = Rig::with(HttpServerConfig { stateless: Stateless::Refused, ..config() });
    let key = rig.post_modern(&modern_call("1"));
    let answer = rig.read(key);
    assert_eq!((answer.status, answer.code()), (400, -32600));
    assert_eq!(rig.opened, []);
    rig.leaves_nothing();
}

#[test]
fn who_hangs_up_while_waiting_is_never_served() {
    let mut rig = asking();
    let gone = rig.post_modern(&modern_call("1"));
    let stays = rig.post_modern(&modern_call("2"));
    let link = rig.shared();
    let id = question(&rig.at(link));
    rig.hang_up(gone);
    assert_eq!(rig.at(link), [""; 0]);
    rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    let received = rig.at(link);
    assert_eq!(received.len(), 1, "{received:?}");
    let id = serde_json::from_str::<Value>(&received[0]).unwrap()["id"].to_string();
    rig.answer(link, &id, "done");
    assert_eq!(rig.whole(stays, 200), result_of("2", "done"));
    rig.leaves_nothing();
}

#[test]
fn what_waits_is_checked_before_and_passed_on_after() {
    let mut rig = asking();
    let mismatch = rig.post(&[("mcp-protocol-version", MODERN)], &modern_call("1").to_string());
    assert_eq!(rig.read(mismatch).code(), -32020);
    for body in [result_of("1", "x"), format!("[{}]", modern_call("1"))] {
        let key = rig.post(&[("mcp-protocol-version", MODERN)], &body);
        assert_eq!(rig.read(key).status, 400);
    }
    let keys = [note("x"), cancel("1")].map(|body| rig.post(&[("mcp-protocol-version", MODERN)], &body));
    let link = rig.shared();
    let id = question(&rig.at(link));
    rig.say(link, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    for key in keys {
        assert_eq!(rig.whole(key, 202), "");
    }
    assert_eq!(rig.at(link), [note("x")]);
    rig.leaves_nothing();
}

#[test]
fn requests_that_wait_are_bounded_in_bytes() {
    let mut rig = Rig::with(HttpServerConfig { stateless: Stateless::Ask, max_input: 1000, ..config() });
    let statuses: Vec<_> = (0..6)
        .map(|_| {
            let key = rig.post_modern(&modern_call("1"));
            rig.read(key).status
        })
        .collect();
    assert_eq!(statuses, [0, 0, 0, 0, 503, 503], "a thousand bytes are four of them");
    rig.leaves_nothing();
}

#[test]
fn a_server_that_drains_is_not_asked() {
    let mut rig = asking();
    rig.server.drain();
    let key = rig.post_modern(&modern_call("1"));
    assert_eq!(rig.read(key).status, 503);
    assert_eq!(rig.opened, []);
    rig.leaves_nothing();
}

/// Case 45.
#[test]
fn both_eras_are_served_at_once_request_by_request() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let modern = rig.post_modern(&modern_call("1"));
    let legacy = rig.post_to(&client, &call("1"));
    let shared = rig.shared();
    assert_ne!(shared, client.link);
    assert_eq!(rig.at(shared).len(), 1);
    rig.hang_up(legacy);
    rig.hang_up(modern);
    let closed = rig.at(shared);
    assert!(closed[0].starts_with("closed "), "{closed:?}");
    assert_eq!(rig.at(client.link), [call("1")]);
    // A session's client that names the newer revision in a request belongs to that for this request.
    let headers = [
        ("mcp-session-id", &*client.id),
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/call"),
        ("mcp-name", "slow"),
        ("accept", "application/json, text/event-stream"),
    ];
    rig.send(&Method::POST, "/mcp", &headers, &modern_call("2").to_string());
    assert_eq!(rig.at(shared).len(), 1);
    assert_eq!(rig.at(client.link), [""; 0]);
    assert_eq!(json!(rig.server.in_flight()), 2);
    rig.leaves_nothing();
}

#[test]
fn a_server_that_closes_lets_nobody_wait() {
    let mut rig = asking();
    let key = rig.post_modern(&modern_call("1"));
    let client = rig.session(LEGACY);
    let called = rig.post_to(&client, &call("1"));
    rig.server.close(rig.now);
    rig.drain();
    assert_eq!(rig.read(key).status, 503);
    assert!(rig.read(called).has_ended);
    let shared = rig.shared();
    assert_eq!(rig.at(shared).last().unwrap(), "end");
    assert_eq!(rig.at(client.link), [call("1"), "end".to_owned()]);
    rig.leaves_nothing();
}
