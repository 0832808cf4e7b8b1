//! Cancels over HTTP, through `rescind serve`, case by case, on real processes.

use rescind_testkit::puppet::{Connection, Head, Session};

use super::{LEGACY, MIRRORS, MODERN, ask, ask_modern, open_modern, serve, tell};
use crate::shim::words::{cancelled, progress, request, request_with, result, with_token};

/// Case 46, question A: the work is told, and the stream ends without a response.
#[test]
fn a_cancel_by_post_reaches_the_server_and_the_stream_ends() {
    let service = serve();
    let mut session = service.open_session(LEGACY);
    let mut call = ask(&service, &mut session, "5");
    tell(&service, &session, &cancelled("5"));
    session.server.expect(&cancelled("5"));
    let head = call.head();
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    call.expect_end();
}

/// Case 48: the headers of the response were sent before. Case 49: the cancelled stream is not resumed.
#[test]
fn a_stream_that_has_begun_ends_too_and_is_not_resumed() {
    let service = serve();
    let mut session = service.open_session(LEGACY);
    let mut call = service.connect();
    let asked = request_with("5", "tools/call", &with_token("7"));
    call.post(&session.headers(), &asked);
    session.server.expect(&asked);
    session.server.send(&progress("7", 1));
    let head = call.head();
    assert_eq!(call.message(&head), progress("7", 1));
    let last = call_id(&mut call, &mut session);
    tell(&service, &session, &cancelled("5"));
    session.server.expect(&cancelled("5"));
    call.expect_end();
    let mut again = service.connect();
    again.get(&[("mcp-session-id", &session.id), ("last-event-id", &last)]);
    assert_eq!(again.head().status, 405);
}

/// The id of the next event, which is more progress.
fn call_id(call: &mut Connection, session: &mut Session) -> String {
    session.server.send(&progress("7", 2));
    call.event().unwrap().id
}

/// Case 45, question B: the work runs on, and the client that comes back finds its answer.
#[test]
fn a_hang_up_in_a_session_cancels_nothing_and_the_answer_is_kept() {
    let service = serve();
    let mut session = service.open_session(LEGACY);
    let mut call = service.connect();
    let asked = request_with("5", "tools/call", &with_token("7"));
    call.post(&session.headers(), &asked);
    session.server.expect(&asked);
    session.server.send(&progress("7", 1));
    call.head();
    let primer = call.event().unwrap();
    assert_eq!(primer.data, "");
    let seen = call.event().unwrap();
    assert_eq!(seen.data, progress("7", 1));
    drop(call);
    // The server hears nothing of it: what the client says next is the next it hears.
    tell(&service, &session, r#"{"jsonrpc":"2.0","method":"marker"}"#);
    session.server.expect(r#"{"jsonrpc":"2.0","method":"marker"}"#);
    session.server.send(&progress("7", 2));
    session.server.send(&result("5", "{}"));
    let mut again = service.connect();
    again.get(&[("mcp-session-id", &session.id), ("last-event-id", &seen.id)]);
    let head = again.head();
    assert_eq!(head.status, 200);
    let messages: Vec<String> = std::iter::from_fn(|| again.event()).map(|event| event.data).collect();
    assert_eq!(messages.last(), Some(&result("5", "{}")), "{messages:?}");
    assert!(!messages.contains(&progress("7", 1)), "told twice: {messages:?}");
}

/// Case 50, question C.
#[test]
fn a_cancel_stops_the_request_of_its_own_session_only() {
    let service = serve();
    let mut sessions = [service.open_session(LEGACY), service.open_session(LEGACY)];
    let [first, second] = &mut sessions;
    let mut calls = [ask(&service, first, "5"), ask(&service, second, "5")];
    tell(&service, second, &cancelled("5"));
    second.server.expect(&cancelled("5"));
    let head = calls[1].head();
    assert_eq!(head.status, 200);
    calls[1].expect_end();
    // The other goes on, and its server was told nothing.
    tell(&service, first, r#"{"jsonrpc":"2.0","method":"marker"}"#);
    first.server.expect(r#"{"jsonrpc":"2.0","method":"marker"}"#);
    first.server.send(&result("5", "{}"));
    let head = calls[0].head();
    assert_eq!(calls[0].message(&head), result("5", "{}"));
}

/// Case 45, question D: the cancel is sent, and the process lives on for the others.
#[test]
fn a_hang_up_without_a_session_cancels_that_request_and_no_other() {
    let service = serve();
    let (mut server, first) = open_modern(&service);
    let mut second = ask_modern(&service, &mut server, "1", "3");
    drop(first);
    let cancel = server.receive();
    assert!(cancel.contains("notifications/cancelled") && cancel.contains(r#""requestId":2"#), "{cancel}");
    server.send(&result("3", "{}"));
    let head = second.head();
    assert_eq!(second.message(&head), result("1", "{}"));
    let mut third = ask_modern(&service, &mut server, "1", "4");
    server.send(&result("4", "{}"));
    let head = third.head();
    assert_eq!(third.message(&head), result("1", "{}"));
}

/// A notification for a request that closing its stream cancels is accepted and cancels nothing (MCP-H05).
#[test]
fn a_cancel_by_post_outside_a_session_cancels_nothing() {
    let service = serve();
    let (mut server, mut call) = open_modern(&service);
    let (_, head) = service.post(&[("mcp-protocol-version", "2026-07-28")], &cancelled("1"));
    assert_eq!(head.status, 202);
    let mut other = ask_modern(&service, &mut server, "9", "3");
    server.send(&result("2", "{}"));
    server.send(&result("3", "{}"));
    for (call, id) in [(&mut call, "1"), (&mut other, "9")] {
        let head: Head = call.head();
        assert_eq!(call.message(&head), result(id, "{}"));
    }
}

/// Case 47.
#[test]
fn the_end_of_a_session_cancels_what_is_in_flight_and_ends_its_server() {
    let service = serve();
    let mut session = service.open_session(LEGACY);
    let mut call = ask(&service, &mut session, "5");
    let mut end = service.connect();
    end.send("DELETE", &session.headers(), "");
    assert_eq!(end.head().status, 204);
    let cancel = session.server.receive();
    assert!(cancel.contains("notifications/cancelled") && cancel.contains(r#""requestId":5"#), "{cancel}");
    session.server.expect_end();
    call.head();
    call.expect_end();
    let (_, head) = service.post(&session.headers(), &request("6", "ping"));
    assert_eq!(head.status, 404);
}

/// A hosted client sends every request with one id, each on a stream of its own (D7).
#[test]
fn requests_with_one_id_run_side_by_side_and_each_gets_its_own_answer() {
    let service = serve();
    let mut session = service.open_session(LEGACY);
    let mut first = ask(&service, &mut session, "1");
    let mut second = service.connect();
    second.post(&session.headers(), &request("1", "tools/call"));
    let asked = session.server.receive();
    let known = rescind_proto::json::member(asked.as_bytes(), "id").unwrap();
    let known = std::str::from_utf8(known).unwrap();
    assert_ne!(known, "1");
    // Which of the two is meant cannot be told.
    tell(&service, &session, &cancelled("1"));
    session.server.send(&result(known, r#""second""#));
    session.server.send(&result("1", r#""first""#));
    for (call, text) in [(&mut second, r#""second""#), (&mut first, r#""first""#)] {
        let head = call.head();
        assert_eq!(call.message(&head), result("1", text));
    }
}

/// A legacy server is told from a modern one once, and clients of both eras fall back.
#[test]
fn before_a_server_of_sessions_a_stateless_request_is_refused_as_such_a_server_would() {
    let service = serve();
    let mut call = service.connect();
    call.post(&MIRRORS, &request_with("1", "tools/list", MODERN));
    let mut server = service.take_asked();
    server.send(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no such method"}}"#);
    let head = call.head();
    assert_eq!(head.status, 400);
    assert!(!call.message(&head).contains("-3202"));
    server.expect_end();
    // Its sessions are served.
    let mut session = service.open_session(LEGACY);
    let mut call = ask(&service, &mut session, "1");
    session.server.send(&result("1", "{}"));
    let head = call.head();
    assert_eq!(call.message(&head), result("1", "{}"));
}

/// D41.
#[test]
fn who_cancels_is_told_what_became_of_it() {
    let service = serve();
    let mut session = service.open_session(LEGACY);
    let mut call = ask(&service, &mut session, "5");
    let id = session.id.clone();
    let told = |request: &str| {
        let (_, head) = service.post(&[("mcp-session-id", &id)], &cancelled(request));
        assert_eq!(head.status, 202);
        head.header("rescind-cancel").map(ToOwned::to_owned)
    };
    assert_eq!(told("5").as_deref(), Some("delivered"));
    session.server.expect(&cancelled("5"));
    assert_eq!(call.head().status, 200);
    call.expect_end();
    assert_eq!(told("5").as_deref(), Some("unknown"), "it was cancelled before");
    // Its request may still come (D9).
    assert_eq!(told("6").as_deref(), Some("unknown"));
    let mut other = ask(&service, &mut session, "7");
    session.server.send(&result("7", "{}"));
    other.head();
    assert_eq!(told("7").as_deref(), Some("not_found"));
}
