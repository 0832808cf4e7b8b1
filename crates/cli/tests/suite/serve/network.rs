//! What lies between a client and the service: cuts, half-closes, splits, floods.

use std::collections::BTreeMap;

use super::{LEGACY, MIRRORS, MODERN, ask, ask_modern, open_modern, serve, tell};
use crate::shim::words::{cancelled, request, request_with, result};
use rescind_testkit::puppet::Connection;

/// The server of stateless requests is told that the request which it knows as `known` was cancelled.
fn expect_cancel(server: &mut rescind_testkit::puppet::Server, known: &str) {
    let cancel = server.receive();
    let names = format!(r#""requestId":{known}"#);
    assert!(cancel.contains("notifications/cancelled") && cancel.contains(&names), "{cancel}");
}

#[test]
fn a_reset_is_a_hang_up() {
    let service = serve();
    let (mut server, call) = open_modern(&service);
    call.reset();
    expect_cancel(&mut server, "2");
}

/// No client of HTTP goes on reading once it has shut its side down, and what lies between passes it on as an end.
#[test]
fn a_half_close_is_a_hang_up() {
    let service = serve();
    let (mut server, mut call) = open_modern(&service);
    call.shut_down_output();
    expect_cancel(&mut server, "2");
}

/// Case 48: before the head of the response, and after.
#[test]
fn a_hang_up_is_noticed_before_the_head_of_the_response_and_after() {
    let service = serve();
    let (mut server, call) = open_modern(&service);
    drop(call);
    expect_cancel(&mut server, "2");
    let mut call = ask_modern(&service, &mut server, "1", "3");
    assert_eq!(call.head().status, 200);
    drop(call);
    expect_cancel(&mut server, "3");
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let service = serve();
    let mut session = service.open_session(LEGACY);
    let mut call = service.connect();
    let asked = request("1", "tools/call");
    let headers = [("content-type", "application/json"), ("mcp-session-id", &*session.id)];
    for byte in Connection::request("POST", &headers, &asked).bytes() {
        call.send_bytes(&[byte]);
    }
    session.server.expect(&asked);
    session.server.send(&result("1", "{}"));
    let head = call.head();
    assert_eq!(call.message(&head), result("1", "{}"));
}

#[test]
fn a_request_that_breaks_off_reaches_no_server() {
    let service = serve();
    let mut session = service.open_session(LEGACY);
    let headers = [("content-type", "application/json"), ("mcp-session-id", &*session.id)];
    let whole = Connection::request("POST", &headers, &request("1", "tools/call"));
    for cut in [1, 20, whole.len() - 30, whole.len() - 1] {
        let mut call = service.connect();
        call.send_bytes(&whole.as_bytes()[..cut]);
        drop(call);
    }
    tell(&service, &session, r#"{"jsonrpc":"2.0","method":"marker"}"#);
    session.server.expect(r#"{"jsonrpc":"2.0","method":"marker"}"#);
}

/// A cancel and its request race on two connections: one that overtakes is held for a moment (D9).
#[test]
fn a_cancel_that_overtakes_its_request_stops_it() {
    let service = serve();
    let mut session = service.open_session(LEGACY);
    tell(&service, &session, &cancelled("1"));
    let mut call = service.connect();
    call.post(&session.headers(), &request("1", "tools/call"));
    assert_eq!(call.head().status, 200);
    call.expect_end();
    // The request never reached the server.
    tell(&service, &session, r#"{"jsonrpc":"2.0","method":"marker"}"#);
    session.server.expect(r#"{"jsonrpc":"2.0","method":"marker"}"#);
}

/// Requests and hang-ups in one burst on many connections: each cancel names what its own connection asked.
#[test]
fn a_thousand_hang_ups_are_none_lost_and_none_misdirected() {
    const CALLS: usize = 1000;

    let service = serve();
    let (mut server, first) = open_modern(&service);
    let mut open = BTreeMap::new();
    for number in 0..CALLS {
        let mut call = service.connect();
        let params = MODERN.replacen('{', &format!(r#"{{"number":{number},"#), 1);
        call.post(&MIRRORS, &request_with("1", "tools/list", &params));
        // Every other is given up at once, perhaps before it was taken in; the rest once all of them have arrived.
        if number % 2 == 1 {
            open.insert(number, call);
        }
    }
    let mut first = Some(first);
    let mut known = BTreeMap::new();
    let mut cancelled = vec![false; CALLS];
    loop {
        let message: serde_json::Value = serde_json::from_str(&server.receive()).unwrap();
        let number = |value: &serde_json::Value| usize::try_from(value.as_u64().unwrap()).unwrap();
        if message["method"] == "tools/list" {
            known.insert(message["id"].clone().as_u64().unwrap(), number(&message["params"]["number"]));
        } else if message["params"]["requestId"] == 2 {
            break;
        } else {
            let number = known[&message["params"]["requestId"].as_u64().unwrap()];
            assert!(!open.contains_key(&number), "the call {number} was not given up");
            assert!(!std::mem::replace(&mut cancelled[number], true), "cancelled twice: {number}");
        }
        let is_held = |number: &&usize| **number % 2 == 1;
        if known.values().filter(is_held).count() == CALLS / 2 {
            open.clear();
        }
        if cancelled.iter().skip(1).step_by(2).all(|is_cancelled| *is_cancelled) {
            first = None;
        }
    }
    assert!(first.is_none());
}

/// A session whose client vanished in the middle of everything is still there for it.
#[test]
fn a_session_outlives_every_connection_of_its_client() {
    let service = serve();
    let mut session = service.open_session(LEGACY);
    for id in ["1", "2", "3"] {
        ask(&service, &mut session, id).reset();
    }
    for id in ["3", "1", "2"] {
        session.server.send(&result(id, "{}"));
    }
    let mut call = ask(&service, &mut session, "4");
    session.server.send(&result("4", "{}"));
    let head = call.head();
    assert_eq!(call.message(&head), result("4", "{}"));
}
