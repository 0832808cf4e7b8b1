//! `rescind serve --pool`: a few real processes for all clients.

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
    let servers = [accept(&service), accept(&service)];
    (service, servers)
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

// TASK-26: the header says which task it is.
#[test]
fn a_task_of_a_client_without_a_session_is_asked_about_where_it_was_made() {
    let (service, mut servers) = two();
    let post = |method: &str, name: &str, params: &str| {
        let mut connection = service.connect();
        let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", name)];
        let params = format!("{},{}", MODERN.strip_suffix('}').unwrap(), params.strip_prefix('{').unwrap());
        connection.post(&headers, &request_with("1", method, &params));
        connection
    };
    // One is in flight at the first, so the second gets the other, which becomes a task.
    let _first = post("tools/call", "slow", r#"{"name":"slow"}"#);
    id_of(&servers[0].receive());
    let mut made = post("tools/call", "slow", r#"{"name":"slow"}"#);
    let known = id_of(&servers[1].receive());
    servers[1].send(&result(&known, r#"{"resultType":"task","taskId":"t"}"#));
    made.head();
    let _third = post("tools/call", "slow", r#"{"name":"slow"}"#);
    id_of(&servers[1].receive());
    for method in ["tasks/get", "tasks/cancel"] {
        for _ in 0..2 {
            let mut asked = post(method, "t", r#"{"taskId":"t"}"#);
            let received = servers[1].receive();
            assert!(received.contains(method), "{received}");
            servers[1].send(&result(&id_of(&received), r#"{"resultType":"complete"}"#));
            assert_eq!(asked.head().status, 200);
        }
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
    clients[stays].tell(&service, &notification("marker", "{}"));
    servers[1].expect(&notification("marker", "{}"));
}
