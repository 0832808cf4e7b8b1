//! `--bridge` before servers that end on what does not begin with a handshake, as those on rmcp before 3 do.

use rescind_feed::{Outcome, State};
use rescind_testkit::puppet::{Rig, Server, Service};
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    serve::{MIRRORS, MODERN},
    shim::{
        PROGRAM,
        admin::Admin,
        error_of,
        words::{cancelled, greet_mcp, request_with, result},
    },
};

/// The id of the first request that a bridge sends.
const PROBE: &str = "2147483647";

/// What a server does, in words and in deeds.
type Way = (&'static str, fn(&mut Server));

/// Ways to end of the probe, which the server has read.
const WAYS: [Way; 22] = [
    ("exits with 0", |server| server.exit(0)),
    ("exits with 1", |server| server.exit(1)),
    ("exits as a panic does", |server| server.exit(101)),
    ("exits as if it were not found", |server| server.exit(127)),
    ("is killed", |server| die(server, 9)),
    ("aborts", |server| die(server, 6)),
    ("breaks", |server| die(server, 11)),
    ("writes to nobody", |server| die(server, 13)),
    ("is killed, its pipes open", |server| server.puppet.raise(9)),
    ("exits, its pipes open", |server| server.puppet.exit(1)),
    ("says one byte", |server| say_and_exit(server, "{")),
    ("says half a line", |server| say_and_exit(server, r#"{"jsonrpc":"2.0","id":2147483647,"err"#)),
    ("says an empty line", |server| say_and_exit(server, "\n")),
    ("says what is no message", |server| say_and_exit(server, "Error: expect initialized request\n")),
    ("says half a message of two lines", |server| say_and_exit(server, "{\n  \"jsonrpc\": \"2.0\",\n")),
    ("refuses", |server| refuse(server, PROBE, -32601)),
    ("refuses otherwise", |server| refuse(server, PROBE, -32602)),
    ("refuses nobody's request", |server| refuse(server, "null", -32600)),
    ("logs first", |server| {
        let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"no"}}"#;
        say_and_exit(server, &format!("{log}\n"));
    }),
    ("has another revision", |server| {
        server.send(&result(PROBE, r#"{"supportedVersions":["2025-11-25"]}"#));
        server.exit(1);
    }),
    ("closes its stdin first", |server| {
        server.close_input();
        server.exit(1);
    }),
    ("closes its pipes and lives on", |server| server.close()),
];

fn die(server: &mut Server, signal: i32) {
    server.close();
    server.puppet.raise(signal);
}

fn say_and_exit(server: &mut Server, text: &str) {
    server.send_bytes(text.as_bytes());
    server.exit(1);
}

fn refuse(server: &mut Server, id: &str, code: i32) {
    server.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"no"}}}}"#));
    server.exit(1);
}

fn bridge() -> Rig {
    Rig::builder(PROGRAM).flags(["--bridge"]).start()
}

/// The server is greeted: the id of that.
fn greeting(server: &mut Server) -> String {
    let greeting: Value = serde_json::from_str(&server.receive()).unwrap();
    assert_eq!(greeting["method"], "initialize");
    greeting["id"].to_string()
}

/// A server with sessions, greeted, is sent this method: under which id.
fn greet(server: &mut Server, method: &str) -> String {
    let id = greeting(server);
    let about = r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#;
    server.send(&result(&id, about));
    server.expect(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    called(server, method)
}

fn called(server: &mut Server, method: &str) -> String {
    let call: Value = serde_json::from_str(&server.receive()).unwrap();
    assert_eq!(call["method"], method);
    call["id"].to_string()
}

/// The client's request is answered with what this server says to it.
fn is_served(rig: &mut Rig, server: &mut Server, known: &str, id: &str) {
    server.send(&result(known, r#"{"tools":[]}"#));
    let answer: Value = loop {
        let message: Value = serde_json::from_str(&rig.client.receive()).unwrap();
        // What a server has logged before its end passes.
        if message["method"] != "notifications/message" {
            break message;
        }
    };
    assert_eq!(answer["id"].to_string(), id);
    assert_eq!(answer["result"]["tools"], serde_json::json!([]));
}

/// Its client notices nothing, and no other process is asked.
#[test]
fn a_server_that_ends_when_it_is_asked_for_its_revision_is_started_again_and_greeted() {
    for (way, end) in WAYS {
        let mut rig = bridge();
        rig.client.send(&request_with("5", "tools/list", MODERN));
        let probe = rig.server.receive();
        assert!(probe.contains("server/discover") && probe.contains(PROBE), "{way}: {probe}");
        end(&mut rig.server);
        let mut next = rig.next_server();
        let known = greet(&mut next, "tools/list");
        is_served(&mut rig, &mut next, &known, "5");
        rig.client.send(&request_with("\"6\"", "tools/list", MODERN));
        let known = called(&mut next, "tools/list");
        is_served(&mut rig, &mut next, &known, "\"6\"");
        rig.server.puppet.expect_death();
        rig.client.close_output();
        next.expect_end();
        next.exit(7);
        rig.shim.expect_exit(7);
    }
}

/// Whether or not the probe could be written.
#[test]
fn a_server_that_ends_before_it_reads_the_probe_is_started_again() {
    for closes_first in [false, true] {
        let mut rig = bridge();
        if closes_first {
            rig.server.close_input();
        }
        rig.client.send(&request_with("5", "tools/list", MODERN));
        if !closes_first {
            while !rig.server.receive().contains("server/discover") {}
        }
        rig.server.exit(1);
        let mut next = rig.next_server();
        let known = greet(&mut next, "tools/list");
        is_served(&mut rig, &mut next, &known, "5");
    }
}

/// It is started again once, and not asked once more.
#[test]
fn a_server_that_ends_at_its_greeting_as_well_is_gone() {
    let ends: [fn(&mut Server); 4] = [
        |server| server.exit(3),
        |server| {
            server.send_bytes(b"{");
            server.exit(3);
        },
        |server| {
            server.send_bytes(b"Error\n");
            server.exit(3);
        },
        |server| {
            server.close_input();
            server.exit(3);
        },
    ];
    for end in ends {
        let mut rig = bridge();
        rig.client.send(&request_with("5", "tools/list", MODERN));
        rig.server.receive();
        rig.server.exit(1);
        let mut next = rig.next_server();
        greeting(&mut next);
        end(&mut next);
        assert_eq!(error_of(&rig.client.receive(), "5")["code"], -31002);
        rig.shim.expect_exit(3);
    }
}

#[test]
fn a_server_that_has_answered_the_probe_is_not_started_again() {
    let mut rig = bridge();
    rig.client.send(&request_with("5", "tools/list", MODERN));
    rig.server.receive();
    rig.server.send(&result(PROBE, r#"{"supportedVersions":["2026-07-28"],"capabilities":{}}"#));
    rig.server.receive();
    rig.server.exit(4);
    assert_eq!(error_of(&rig.client.receive(), "5")["code"], -31002);
    rig.shim.expect_exit(4);
}

#[test]
fn a_server_that_was_told_to_end_is_not_started_again() {
    let mut rig = Rig::builder(PROGRAM).flags(["--bridge"]).under(["env", "--default-signal"]).start();
    rig.client.send(&request_with("5", "tools/list", MODERN));
    rig.server.receive();
    rig.shim.kill(Signal::TERM);
    rig.server.puppet.expect_death();
    rig.server.close();
    assert_eq!(error_of(&rig.client.receive(), "5")["code"], -31002);
    rig.shim.expect_death(Signal::TERM);
}

#[test]
fn a_cancelled_request_that_waited_is_not_sent_to_the_next_server() {
    let mut rig = bridge();
    rig.client.send(&request_with("5", "tools/list", MODERN));
    rig.client.send(&request_with("6", "tools/list", MODERN));
    rig.server.receive();
    rig.client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#);
    rig.server.exit(1);
    let mut next = rig.next_server();
    let known = greet(&mut next, "tools/list");
    is_served(&mut rig, &mut next, &known, "6");
    rig.client.close_output();
    next.expect_end();
    next.exit(0);
    rig.client.expect_end();
}

/// A server that never says what it speaks got neither a call nor its cancel, and the receipt says so.
#[test]
fn a_cancel_of_what_a_silent_server_never_got_says_never_sent() {
    let mut rig = bridge();
    let admin = Admin::of(&rig);
    let mut subscriber = admin.subscribe(None);
    rig.client.send(&request_with("5", "tools/list", MODERN));
    assert!(rig.server.receive().contains("server/discover"));
    subscriber.until(|known| known.of("5").is_some_and(|request| request.state == State::Queued));
    rig.client.send(&cancelled("5"));
    subscriber.until(|known| known.of("5").is_some_and(|request| request.state == State::Ended));
    let recent = admin.requests("state=recent");
    let cancel = recent[0].cancel.as_ref().unwrap();
    assert_eq!((cancel.outcome, cancel.written), (Outcome::NeverSent, None));
    rig.client.close_output();
    rig.server.expect_end();
    rig.server.exit(0);
    rig.client.expect_end();
}

/// How many lines a server that had stopped reading reads before it reads the cancel of the first of 400 calls.
fn lines_before_the_cancel(mut rig: Rig, call: impl Fn(usize) -> String) -> usize {
    let mut subscriber = Admin::of(&rig).subscribe(None);
    (11..411).for_each(|id| rig.client.send(&call(id)));
    rig.client.send(&cancelled("11"));
    subscriber.until(|known| known.of("11").is_some_and(|request| !request.is_open()));
    let read = (0..).find(|_| rig.server.receive().contains("notifications/cancelled"));
    rig.shim.kill(Signal::KILL);
    read.unwrap()
}

#[test]
fn behind_a_bridge_a_cancel_is_hardly_later_than_without() {
    let padding = "x".repeat(1000);
    let name = format!(r#"{{"name":"{padding}","#);
    let mut plainly = Rig::builder(PROGRAM).start();
    greet_mcp(&mut plainly, "2025-11-25");
    let without = lines_before_the_cancel(plainly, |id| {
        request_with(&id.to_string(), "tools/call", &format!(r#"{name}"a":1}}"#))
    });
    let mut bridged = bridge();
    bridged.client.send(&request_with("5", "tools/list", MODERN));
    let probe = called(&mut bridged.server, "server/discover");
    bridged.server.send(&format!(r#"{{"jsonrpc":"2.0","id":{probe},"error":{{"code":-32601,"message":"no"}}}}"#));
    greet(&mut bridged.server, "tools/list");
    let with = lines_before_the_cancel(bridged, |id| {
        request_with(&id.to_string(), "tools/call", &MODERN.replacen('{', &name, 1))
    });
    assert!(with <= without + 5, "{with} lines, and {without} without a bridge");
}

#[test]
fn behind_http_a_server_that_ends_of_the_probe_is_started_again_too() {
    let service = Service::unasked(PROGRAM, ["--bridge"]);
    let mut call = service.connect();
    call.post(&MIRRORS, &request_with("5", "tools/list", MODERN));
    let mut server = service.accept();
    assert!(server.receive().contains("server/discover"));
    server.exit(1);
    let mut next = service.accept();
    let known = greet(&mut next, "tools/list");
    next.send(&result(&known, r#"{"tools":[]}"#));
    let head = call.head();
    assert_eq!(head.status, 200);
    let answer: Value = serde_json::from_str(&call.message(&head)).unwrap();
    assert_eq!((answer["id"].to_string(), &answer["result"]["tools"]), ("5".to_owned(), &serde_json::json!([])));
}
