//! Servers that are reached over HTTP: `rescind run --url` and `rescind serve --upstream`, in front of `rescind serve`.

use std::fs;

use rescind_testkit::puppet::{Ends, Server, Service, Shim};
use rustix::process::Signal;

use super::{MIRRORS, MODERN, serve};
use crate::shim::{
    PROGRAM, error_of,
    words::{cancelled, notification, progress, request, request_with, result, with_token},
};

const GREETING: &str =
    r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}"#;
const ANSWER: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"test","version":"1"}}"#;

/// A client on stdio whose session is open, and its server.
fn open(service: &Service) -> (Shim, Ends, Server) {
    open_with(service, &[])
}

/// The same, of a shim with these flags.
pub(super) fn open_with(service: &Service, flags: &[&str]) -> (Shim, Ends, Server) {
    let (shim, mut client) = service.client(PROGRAM, flags);
    let greeting = request_with("0", "initialize", GREETING);
    client.send(&greeting);
    let mut server = service.accept();
    // 0 is an id that some take for none.
    assert!(server.receive().contains(r#""method":"initialize""#));
    server.send(&result("0", ANSWER));
    client.expect(&result("0", ANSWER));
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    server.expect(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    (shim, client, server)
}

pub(super) fn ask(client: &mut Ends, server: &mut Server, id: &str) {
    client.send(&request(id, "tools/call"));
    server.expect(&request(id, "tools/call"));
}

#[test]
fn a_cancel_on_stdio_reaches_the_server_of_a_url() {
    let service = serve();
    let (_shim, mut client, mut server) = open(&service);
    ask(&mut client, &mut server, "1");
    ask(&mut client, &mut server, "2");
    client.send(&cancelled("2"));
    let cancel = server.receive();
    assert!(cancel.contains("notifications/cancelled") && cancel.contains(r#""requestId":2"#), "{cancel}");
    // Nothing comes for the call that was cancelled, and the other goes on.
    server.send(&result("2", r#""late""#));
    server.send(&result("1", "{}"));
    client.expect(&result("1", "{}"));
    ask(&mut client, &mut server, "3");
    server.send(&result("3", "{}"));
    client.expect(&result("3", "{}"));
}

/// D44: Ctrl-C ends a turn of a client that reads lines; its session goes on until its input ends.
#[test]
fn sigint_does_not_end_the_session_of_a_url_while_the_clients_input_is_open() {
    let service = serve();
    let (shim, mut client, mut server) = open(&service);
    ask(&mut client, &mut server, "1");
    shim.kill(Signal::INT);
    for id in ["2", "3", "4", "5"] {
        ask(&mut client, &mut server, id);
        server.send(&result(id, "{}"));
        client.expect(&result(id, "{}"));
    }
    server.send(&result("1", "{}"));
    client.expect(&result("1", "{}"));
}

/// D62, on both ways: the client of a URL is on stdio, the server behind it has sent all in one piece.
#[test]
fn progress_in_one_piece_with_its_answer_does_not_reach_the_client_of_a_url() {
    let service = serve();
    let (_shim, mut client, mut server) = open(&service);
    client.send(&request_with("1", "tools/call", &with_token("7")));
    server.expect(&request_with("1", "tools/call", &with_token("7")));
    server.send(&progress("7", 1));
    client.expect(&progress("7", 1));
    server.send(&progress("8", 1));
    server.send_together(&[&progress("7", 2), &progress("7", 3), &result("1", "{}")]);
    client.expect(&result("1", "{}"));
    ask(&mut client, &mut server, "2");
    server.send(&result("2", "{}"));
    client.expect(&result("2", "{}"));
}

/// In 2026-07-28 the cancel of a client on stdio closes the stream, and no notification is sent (MCP-H05).
#[test]
fn a_cancel_on_stdio_closes_the_stream_where_that_is_the_cancel() {
    let service = serve();
    let (_shim, mut client) = service.client(PROGRAM, [] as [&str; 0]);
    client.send(&request_with("1", "tools/list", MODERN));
    let mut server = service.take_asked();
    server.send(&result("1", r#"{"supportedVersions":["2026-07-28"]}"#));
    server.expect(&request_with("2", "tools/list", MODERN));
    client.send(&request_with("5", "tools/list", MODERN));
    server.expect(&request_with("3", "tools/list", MODERN));
    client.send(&cancelled("1"));
    let cancel = server.receive();
    assert!(cancel.contains("notifications/cancelled") && cancel.contains(r#""requestId":2"#), "{cancel}");
    server.send(&result("3", "{}"));
    client.expect(&result("5", "{}"));
}

/// Nobody else tells the server that its client is gone.
#[test]
fn the_end_of_the_clients_input_ends_the_session_and_its_work() {
    let service = serve();
    let (mut shim, mut client, mut server) = open(&service);
    ask(&mut client, &mut server, "1");
    client.close_output();
    let cancel = server.receive();
    assert!(cancel.contains("notifications/cancelled"), "{cancel}");
    server.expect_end();
    client.expect_end();
    shim.expect_exit(0);
}

#[test]
fn what_is_answered_at_once_is_answered_although_the_input_has_ended() {
    let service = serve();
    let (mut shim, mut client, mut server) = open(&service);
    ask(&mut client, &mut server, "1");
    client.close_output();
    server.send(&result("1", "{}"));
    client.expect(&result("1", "{}"));
    client.expect_end();
    shim.expect_exit(0);
}

#[test]
fn the_death_of_the_server_answers_what_is_in_flight() {
    let service = serve();
    let (_shim, mut client, mut server) = open(&service);
    ask(&mut client, &mut server, "1");
    server.exit(3);
    assert_eq!(error_of(&client.receive(), "1")["code"], -31002);
}

#[test]
fn a_server_that_cannot_be_reached_is_named() {
    let service = serve();
    let (_shim, mut client) = service.client(PROGRAM, [] as [&str; 0]);
    drop(service);
    client.send(&request_with("7", "initialize", GREETING));
    let error = error_of(&client.receive(), "7");
    assert_eq!(error["code"], -31002, "{error}");
    assert!(error["message"].as_str().unwrap().contains("127.0.0.1"), "{error}");
}

#[test]
fn a_secret_comes_from_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "open-sesame").unwrap();
    let service = Service::start(PROGRAM, ["--token-file", file.to_str().unwrap()]);
    let (_shim, mut client) = service.client(PROGRAM, [] as [&str; 0]);
    client.send(&request_with("1", "initialize", GREETING));
    let error = error_of(&client.receive(), "1");
    assert!(error["message"].as_str().unwrap().contains("401"), "{error}");
    let (_shim, mut client) = service.client(PROGRAM, ["--header", "Authorization: Bearer open-sesame"]);
    client.send(&request_with("1", "initialize", GREETING));
    service.accept().expect(&request_with("1", "initialize", GREETING));
    let (mut shim, _client) = service.client(PROGRAM, ["--header-env", "Authorization=RESCIND_NO_SUCH_VARIABLE"]);
    assert_eq!(
        shim.stderr.line(),
        "error: --header-env Authorization=RESCIND_NO_SUCH_VARIABLE: environment variable not found"
    );
    shim.expect_exit(125);
}

/// HTTP before HTTP: each hop cancels as its era does.
#[test]
fn a_cancel_and_a_hang_up_pass_two_services() {
    let service = serve();
    let (_front, address) = service.front(PROGRAM, [] as [&str; 0]);
    let mut greeting = service.connect_to(address);
    greeting.post(&[], &request_with("1", "initialize", GREETING));
    let mut server = service.accept();
    server.expect(&request_with("1", "initialize", GREETING));
    server.send(&result("1", ANSWER));
    let head = greeting.head();
    let id = head.header("mcp-session-id").unwrap().to_owned();
    assert_eq!(greeting.message(&head), result("1", ANSWER));
    let session = [("mcp-session-id", &*id)];
    let tell = |message: &str| {
        let mut connection = service.connect_to(address);
        connection.post(&session, message);
        assert_eq!(connection.head().status, 202);
    };
    tell(&notification("notifications/initialized", "{}"));
    server.expect(&notification("notifications/initialized", "{}"));
    let mut call = service.connect_to(address);
    call.post(&session, &request("5", "tools/call"));
    server.expect(&request("5", "tools/call"));
    tell(&cancelled("5"));
    let cancel = server.receive();
    assert!(cancel.contains("notifications/cancelled") && cancel.contains(r#""requestId":5"#), "{cancel}");
    call.head();
    call.expect_end();

    let mut call = service.connect_to(address);
    call.post(&MIRRORS, &request_with("1", "tools/list", MODERN));
    let mut shared = service.take_asked();
    shared.send(&result("1", r#"{"supportedVersions":["2026-07-28"]}"#));
    let mut asked = 0;
    loop {
        // The service in front asks which era this server speaks, too.
        let message = shared.receive();
        asked += 1;
        let id = rescind_proto::json::member(message.as_bytes(), "id").unwrap();
        let id = std::str::from_utf8(id).unwrap().to_owned();
        if message.contains("server/discover") {
            shared.send(&result(&id, r#"{"supportedVersions":["2026-07-28"]}"#));
            continue;
        }
        assert!(message.contains("tools/list") && asked == 2, "{message}");
        drop(call);
        let cancel = shared.receive();
        assert!(cancel.contains("notifications/cancelled") && cancel.contains(&format!(r#""requestId":{id}"#)));
        break;
    }
}
