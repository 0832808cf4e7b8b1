//! `rescind serve --pool`: a few real processes for all clients.

use std::fs;

use rescind_proto::json;
use rescind_testkit::puppet::{Connection, Server, Service};

use super::{
    MIRRORS, MODERN,
    shared::{Client, accept, id_of, open},
};
use crate::shim::{
    PROGRAM, error_of,
    words::{cancelled, notification, request_with, result},
};

fn two() -> (Service, [Server; 2]) {
    let service = Service::pool(PROGRAM, 2);
    let servers = in_order([accept(&service), accept(&service)]);
    (service, servers)
}

/// The servers in the order of their places: they were started in that order, and are ready in any.
fn in_order(mut servers: [Server; 2]) -> [Server; 2] {
    servers.sort_by_key(|server| server.puppet.id);
    servers
}

/// A call that a server was sent: whose it is, and the id by which the server knows it.
fn asked(server: &mut Server) -> (usize, String) {
    let asked = server.receive();
    let who = json::lookup(asked.as_bytes(), &["params", "arguments", "who"]).and_then(json::integer);
    (usize::try_from(who.unwrap_or_else(|| panic!("{asked}"))).unwrap(), id_of(&asked))
}

fn call(service: &Service, client: &Client, who: usize) -> Connection {
    let mut connection = service.connect();
    let params = format!(r#"{{"name":"slow","arguments":{{"who":{who}}}}}"#);
    connection.post(&client.headers(), &request_with("1", "tools/call", &params));
    connection
}

#[test]
fn sessions_are_spread_over_the_processes_and_stay_where_they_are() {
    let (service, mut servers) = two();
    let clients: Vec<Client> = (0..4).map(|_| Client::of(open(&service))).collect();
    let mut homes: Vec<Option<usize>> = vec![None; clients.len()];
    for round in 0..3 {
        let mut calls: Vec<_> = clients.iter().enumerate().map(|(who, client)| call(&service, client, who)).collect();
        for (at, server) in servers.iter_mut().enumerate() {
            for (who, known) in [asked(server), asked(server)] {
                assert!(homes[who].replace(at).is_none_or(|home| home == at), "{who} has moved");
                // One is stopped, and one answered: at its own process.
                if (who + round) % 2 == 0 {
                    clients[who].tell(&service, &cancelled("1"));
                    server.expect(&cancelled(&known));
                    calls[who].head();
                    calls[who].expect_end();
                } else {
                    server.send(&result(&known, &who.to_string()));
                    let head = calls[who].head();
                    assert_eq!(calls[who].message(&head), result("1", &who.to_string()));
                }
            }
        }
    }
}

#[test]
fn requests_without_a_session_go_where_the_fewest_are_in_flight() {
    let (service, mut servers) = two();
    let list = || {
        let mut connection = service.connect();
        connection.post(&MIRRORS, &request_with("1", "tools/list", MODERN));
        connection
    };
    let calls: Vec<Connection> = (0..4).map(|_| list()).collect();
    for server in &mut servers {
        for _ in 0..2 {
            let known = id_of(&server.receive());
            server.send(&result(&known, r#"{"tools":[]}"#));
        }
    }
    for mut call in calls {
        assert_eq!(call.head().status, 200);
    }
}

/// What a process says that makes tasks, and of the tool that can be one.
const MAKES_TASKS: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"test","version":"1"}}"#;
const TOOL: &str = r#"{"tools":[{"name":"slow","execution":{"taskSupport":"required"}}]}"#;

/// Two processes that make tasks, behind a service with these flags besides.
fn two_that_make_tasks(flags: &[&str]) -> (Service, [Server; 2]) {
    let service = Service::unasked(PROGRAM, [&["--pool", "2"], flags].concat());
    let servers = in_order([(); 2].map(|()| {
        let mut server = service.accept();
        let asked = server.receive();
        server.send(&result(&id_of(&asked), MAKES_TASKS));
        server.receive();
        server
    }));
    (service, servers)
}

/// A request of a client without a session that takes tasks, under the name of what it is about.
fn post(service: &Service, who: Option<(&str, &str)>, method: &str, name: Option<&str>, params: &str) -> Connection {
    let mut connection = service.connect();
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    let headers: Vec<_> = headers.into_iter().chain(name.map(|name| ("mcp-name", name))).chain(who).collect();
    let takes = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
    let meta = MODERN.strip_prefix('{').unwrap().strip_suffix('}').unwrap().replace(":{}}", &format!(":{takes}}}"));
    connection.post(&headers, &request_with("1", method, &format!("{{{meta}{params}}}")));
    connection
}

fn call_of(service: &Service, who: Option<(&str, &str)>, number: usize) -> Connection {
    post(service, who, "tools/call", Some("slow"), &format!(r#","name":"slow","arguments":{{"who":{number}}}"#))
}

/// Has each process say that its tool makes tasks.
fn list_tools(service: &Service, servers: &mut [Server; 2], who: Option<(&str, &str)>) {
    let lists: Vec<_> = (0..2).map(|_| post(service, who, "tools/list", None, "")).collect();
    // Neither is answered before each process has one: else the second might follow the first.
    let known = servers.each_mut().map(|server| id_of(&server.receive()));
    for (server, known) in servers.iter_mut().zip(known) {
        server.send(&result(&known, TOOL));
    }
    lists.into_iter().for_each(|mut list| assert_eq!(list.head().status, 200));
}

const TASK: &str = r#"{"task":{"taskId":"t","status":"working","createdAt":"then","lastUpdatedAt":"then","ttl":null}}"#;

// TASK-26: the header says which task it is.
#[test]
fn a_task_of_a_client_without_a_session_is_asked_about_where_it_was_made() {
    let (service, mut servers) = two_that_make_tasks(&[]);
    list_tools(&service, &mut servers, None);
    let mut calls = [0, 1].map(|who| call_of(&service, None, who));
    asked(&mut servers[0]);
    let (who, known) = asked(&mut servers[1]);
    servers[1].send(&result(&known, TASK));
    assert_eq!(calls[who].head().status, 200);
    // The process that has the task is the busier one from here on.
    let _other = call_of(&service, None, 2);
    assert_eq!(asked(&mut servers[1]).0, 2);
    let asked: Vec<_> = (0..3).map(|_| post(&service, None, "tasks/get", Some("t"), r#","taskId":"t""#)).collect();
    for _ in &asked {
        let received = servers[1].receive();
        assert!(received.contains("tasks/get"), "{received}");
    }
}

/// Each process counts its tasks itself, so two have the same name.
#[test]
fn of_two_tasks_of_one_name_each_owner_stops_the_own() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("owners");
    fs::write(&list, "ann ann-secret\nbob bob-secret\neve eve-secret\n").unwrap();
    let (service, mut servers) = two_that_make_tasks(&["--owners", list.to_str().unwrap()]);
    let tokens = ["Bearer ann-secret", "Bearer bob-secret"].map(|token| ("authorization", token));
    list_tools(&service, &mut servers, Some(tokens[0]));
    let mut calls = [0, 1].map(|who| call_of(&service, Some(tokens[who]), who));
    let homes: Vec<_> = servers
        .iter_mut()
        .map(|server| {
            let (who, known) = asked(server);
            server.send(&result(&known, TASK));
            who
        })
        .collect();
    for call in &mut calls {
        assert_eq!(call.head().status, 200);
    }
    let cancel = |who| post(&service, Some(who), "tasks/cancel", Some("t"), r#","taskId":"t""#);
    let mut refused = cancel(("authorization", "Bearer eve-secret"));
    let head = refused.head();
    assert_eq!(error_of(&refused.message(&head), "1")["code"], -32602);
    for (server, who) in servers.iter_mut().zip(homes).rev() {
        let mut cancelled = cancel(tokens[who]);
        let received = server.receive();
        assert!(received.contains("tasks/cancel"), "{received}");
        server.send(&result(&id_of(&received), &TASK[8..TASK.len() - 1].replace("working", "cancelled")));
        assert_eq!(cancelled.head().status, 200);
    }
}

#[test]
fn the_end_of_one_process_is_none_of_the_clients_of_another() {
    let (service, mut servers) = two();
    let clients: Vec<Client> = (0..2).map(|_| Client::of(open(&service))).collect();
    let mut calls: Vec<_> = clients.iter().enumerate().map(|(who, client)| call(&service, client, who)).collect();
    let (ended, _) = asked(&mut servers[0]);
    let (stays, known) = asked(&mut servers[1]);
    servers[0].exit(3);
    let head = calls[ended].head();
    assert_eq!(error_of(&calls[ended].message(&head), "1")["code"], -31002);
    servers[1].send(&result(&known, "{}"));
    let head = calls[stays].head();
    assert_eq!(calls[stays].message(&head), result("1", "{}"));
    // Its sessions go on with the next one.
    servers[0] = accept(&service);
    let mut again = call(&service, &clients[ended], ended);
    let (who, known) = asked(&mut servers[0]);
    assert_eq!(who, ended);
    servers[0].send(&result(&known, "{}"));
    let head = again.head();
    assert_eq!(again.message(&head), result("1", "{}"));
    clients[stays].mark(&service, &mut servers[1]);
}

/// A call in one of several rounds, of a client without a session.
fn round(service: &Service, who: usize, more: &str) -> Connection {
    post(service, None, "tools/call", Some("slow"), &format!(r#","name":"slow","arguments":{{"who":{who}}}{more}"#))
}

/// What a server of 2026-07-28 answers that wants to know something first; its state is of its own making.
fn wants(state: &str) -> String {
    format!(
        r#"{{"resultType":"input_required","inputRequests":{{"q":{{"method":"roots/list"}}}},"requestState":{state}}}"#
    )
}

fn state_of(mut call: Connection) -> String {
    let head = call.head();
    let message = call.message(&head);
    let state = json::lookup(message.as_bytes(), &["result", "requestState"]);
    String::from_utf8(state.unwrap_or_else(|| panic!("{message}")).to_vec()).unwrap()
}

/// Two processes that speak 2026-07-28 alone.
fn two_without_sessions() -> (Service, [Server; 2]) {
    let service = Service::unasked(PROGRAM, ["--pool", "2"]);
    let servers = [(); 2].map(|()| {
        let mut server = service.accept();
        let asked = server.receive();
        let refusal = r#"{"code":-32022,"message":"no","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}"#;
        server.send(&format!(r#"{{"jsonrpc":"2.0","id":{},"error":{refusal}}}"#, id_of(&asked)));
        let asked = server.receive();
        assert!(asked.contains("server/discover"), "{asked}");
        server.send(&result(&id_of(&asked), r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#));
        server
    });
    (service, in_order(servers))
}

/// Whatever it gives as state comes back to it, and to no other, as it was.
#[test]
fn a_process_that_asks_has_the_next_round_of_the_call() {
    let (service, mut servers) = two_without_sessions();
    let long = format!("\"{}\"", "s".repeat(1 << 20));
    for state in [r#""state""#, r#""""#, r#""ä\n\"\u00e4\\""#, r#""rescind.0123456789abcdef.0.s""#, &long] {
        // Of both processes the second asks, and then the first is the less busy one as well.
        let mut first = round(&service, 0, "");
        let (_, of_first) = asked(&mut servers[0]);
        let second = round(&service, 1, "");
        let (_, of_second) = asked(&mut servers[1]);
        servers[1].send(&result(&of_second, &wants(state)));
        let given = state_of(second);
        servers[0].send(&result(&of_first, "{}"));
        assert_eq!(first.head().status, 200);
        let mut again =
            round(&service, 2, &format!(r#","requestState":{given},"inputResponses":{{"q":{{"roots":[]}}}}"#));
        let received = servers[1].receive();
        assert!(received.contains(&format!(r#""requestState":{state},"inputResponses""#)), "{received:.300}");
        servers[1].send(&result(&id_of(&received), "{}"));
        assert_eq!(again.head().status, 200);

        // What it is told between two rounds as well.
        let method = "notifications/dev.rescind/abandoned";
        let (_, head) = service.post(
            &[("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)],
            &notification(method, &format!(r#"{{"requestState":{given}}}"#)),
        );
        assert_eq!(head.status, 202);
        servers[1].expect(&notification(method, &format!(r#"{{"requestState":{state}}}"#)));
    }
}

/// Another service may have given it: a server whose states hold all that a call needs goes on with it.
#[test]
fn a_state_that_names_none_of_the_processes_reaches_one_without_the_mark() {
    let (service, mut servers) = two_without_sessions();
    let pool = "rescind.0123456789abcdef";
    for (state, own) in [
        (format!(r#""{pool}.0.s""#), r#""s""#.to_owned()),
        (format!(r#""{pool}.1.s""#), r#""s""#.to_owned()),
        (format!(r#""{pool}.7.""#), r#""""#.to_owned()),
        (format!(r#""{pool}.01.s""#), format!(r#""{pool}.01.s""#)),
        (r#""RESCIND.0123456789ABCDEF.1.s""#.to_owned(), r#""RESCIND.0123456789ABCDEF.1.s""#.to_owned()),
        (r#""s""#.to_owned(), r#""s""#.to_owned()),
        ("7".to_owned(), "7".to_owned()),
    ] {
        let mut call = round(&service, 0, &format!(r#","requestState":{state}"#));
        let received = servers[0].receive();
        assert!(received.contains(&format!(r#""requestState":{own}}}"#)), "{received}");
        servers[0].send(&result(&id_of(&received), "{}"));
        assert_eq!(call.head().status, 200);
    }
}
