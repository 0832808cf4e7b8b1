//! Limits on what is asked (D65), counted over HTTP.

use std::{net::SocketAddr, thread};

use rescind_testkit::puppet::{Connection, Server, Service, Transcript};
use serde_json::{Value, json};

use super::{LEGACY, tell};
use crate::shim::{
    PROGRAM,
    words::{notification, request_with, result},
};

/// The same tool with the same arguments, as hostile or careless clients may spell it.
const SPELLINGS: [&str; 6] = [
    r#"{"name":"pay","arguments":{"to":"ann","sum":[1,2]}}"#,
    r#"{"name":"\u0070a\u0079","arguments":{"to":"ann","sum":[1,2]}}"#,
    r#"{"arguments":{"to":"\u0061nn", "sum":[ 1 , 2 ]},"name":"pay"}"#,
    r#"{ "name" : "pay" , "arguments" : { "sum" : [1,2], "t\u006f" : "ann" } }"#,
    r#"{"\u006eame":"pay","arguments":{"sum":[1,2],"to":"ann"}}"#,
    r#"{"name":"free","name":"pay","_meta":{"progressToken":7},"arguments":{"to":"ann","sum":[1,2]}}"#,
];

/// So many of them a service takes for a server that clients share, where a name may not stand there twice.
const PLAIN: usize = 5;

const MIRRORS: [(&str, &str); 3] =
    [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "pay")];

/// What a call on a connection of its own is answered.
fn answered(address: SocketAddr, headers: &[(&str, &str)], message: &str) -> Value {
    let mut connection = Connection::open(address, &Transcript::default());
    let accepts = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    connection.send("POST", &[&accepts, headers].concat(), message);
    let head = connection.head();
    serde_json::from_str(&connection.message(&head)).unwrap()
}

fn is_refused(answer: &Value) -> bool {
    answer["result"]["isError"] == json!(true)
}

/// The server answers the next call.
fn serve_one(server: &mut Server) {
    let call: Value = serde_json::from_str(&server.receive()).unwrap();
    assert_eq!(call["method"], "tools/call", "{call}");
    server.send(&result(&call["id"].to_string(), r#"{"content":[]}"#));
}

/// One process for all, which knows only sessions.
fn shared(flags: &[&str]) -> (Service, Server) {
    let service = Service::shared(PROGRAM, flags.iter().copied());
    let mut server = service.accept();
    let asked: Value = serde_json::from_str(&server.receive()).unwrap();
    let greeting =
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;
    server.send(&result(&asked["id"].to_string(), greeting));
    server.expect(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    (service, server)
}

/// A spelling as a call of 2026-07-28.
fn modern(spelling: &str) -> String {
    let meta = concat!(
        r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
        r#""io.modelcontextprotocol/clientCapabilities":{}},"#
    );
    request_with("1", "tools/call", &spelling.replacen('{', meta, 1))
}

#[test]
fn of_sixty_four_calls_at_once_in_a_session_as_many_as_allowed_pass_however_they_are_spelled() {
    let service = Service::start(PROGRAM, ["--limit", "tools/call:pay=10/1h"]);
    let mut session = service.open_session(LEGACY);
    let (address, id) = (service.address, session.id.clone());
    let refused = thread::scope(|scope| {
        let clients: Vec<_> = (0..64_usize)
            .map(|number| {
                let headers = [("mcp-session-id", &*id)];
                let params = SPELLINGS[number % SPELLINGS.len()].replace(":7}", &format!(":{number}}}"));
                let call = request_with(&number.to_string(), "tools/call", &params);
                scope.spawn(move || {
                    let answer = answered(address, &headers, &call);
                    assert_eq!(answer["id"], number, "{answer}");
                    is_refused(&answer)
                })
            })
            .collect();
        (0..10).for_each(|_| serve_one(&mut session.server));
        clients.into_iter().map(|client| client.join().unwrap()).filter(|is_refused| *is_refused).count()
    });
    assert_eq!(refused, 54);
    // Another tool is not meant, nor is another session.
    let marker = notification("notifications/roots/list_changed", "{}");
    tell(&service, &session, &marker);
    session.server.expect(&marker);
    let mut other = service.open_session(LEGACY);
    let id = other.id.clone();
    let call = thread::spawn(move || {
        answered(address, &[("mcp-session-id", &*id)], &request_with("1", "tools/call", SPELLINGS[1]))
    });
    serve_one(&mut other.server);
    assert!(!is_refused(&call.join().unwrap()));
}

/// All who share a process are counted together.
#[test]
fn the_same_call_in_other_spellings_is_the_same_to_a_server_that_clients_share() {
    let (service, mut server) = shared(&["--limit-repeats", "2"]);
    let address = service.address;
    for (number, spelling) in SPELLINGS.into_iter().take(PLAIN).enumerate() {
        let call = thread::spawn(move || answered(address, &MIRRORS, &modern(spelling)));
        if number < 2 {
            serve_one(&mut server);
        }
        let answer = call.join().unwrap();
        assert_eq!(is_refused(&answer), number >= 2, "{spelling}: {answer}");
    }
    let call =
        thread::spawn(move || answered(address, &MIRRORS, &modern(r#"{"name":"pay","arguments":{"to":"bob"}}"#)));
    serve_one(&mut server);
    assert!(!is_refused(&call.join().unwrap()), "another call begins anew");
}

#[test]
fn what_the_service_refuses_for_another_reason_takes_no_place() {
    let (service, mut server) = shared(&["--limit", "tools/call=1/1h"]);
    let address = service.address;
    let mirrors = [MIRRORS[0], MIRRORS[1], ("mcp-name", "free")];
    let answer = answered(address, &mirrors, &modern(SPELLINGS[0]));
    assert!(answer["error"]["message"].as_str().unwrap().contains("Mcp-Name"), "{answer}");
    let answer = answered(address, &MIRRORS, &modern(SPELLINGS[PLAIN]));
    assert!(answer["error"]["message"].as_str().unwrap().contains("could take the member"), "{answer}");
    let call = thread::spawn(move || answered(address, &MIRRORS, &modern(SPELLINGS[0])));
    serve_one(&mut server);
    assert!(!is_refused(&call.join().unwrap()));
    assert!(is_refused(&answered(address, &MIRRORS, &modern(SPELLINGS[0]))));
}
