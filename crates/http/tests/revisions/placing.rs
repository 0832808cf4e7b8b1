//! The HTTP machine: which of several a request is for, and what the program behind it is asked.

use http::{Method, Request};
use rescind_http::server::{Candidate, HttpServerConfig, Load, PoolMember, Stateless, place};
use serde_json::{Value, json};

use crate::{
    Server, date, named, request,
    rig::{Rig, config},
    stateless,
};

fn head(version: &str) -> http::request::Parts {
    Request::post("/mcp").header("mcp-protocol-version", version).body(()).unwrap().into_parts().0
}

#[test]
fn a_request_without_a_session_goes_where_the_fewest_requests_are() {
    let candidate = |in_flight, sessions| Candidate {
        has_session: false,
        has_task: false,
        has_asked: false,
        load: Load { is_resting: false, in_flight, sessions },
    };
    let all = [candidate(1, 3), candidate(2, 1)];
    for revision in stateless() {
        assert_eq!(place(&head(date(revision)), &all), 0, "{revision}");
    }
    assert_eq!(place(&head("2025-11-25"), &all), 1);
}

#[test]
fn input_is_for_the_machine_that_asked_for_it() {
    let body = br#"{"id":1,"params":{"requestState":"rescind.00000000000000ab.7.state"}}"#;
    for revision in stateless() {
        let asked = PoolMember::that_asked(&head(date(revision)), body);
        assert_eq!(asked, Some(PoolMember { pool: 0xab, place: 7 }), "{revision}");
    }
}

fn post(rig: &mut Rig, message: &Value) -> rescind_http::server::ReplyKey {
    let headers = [("mcp-protocol-version", named(message)), ("mcp-method", message["method"].as_str().unwrap())];
    rig.post(&headers, &message.to_string())
}

#[test]
fn a_program_of_each_revision_is_one_without_sessions_to_clients_of_each() {
    for server in Server::all() {
        for client in stateless() {
            let mut rig = Rig::with(HttpServerConfig { stateless: Stateless::Ask, ..config() });
            let asks = request(client, 1, "tools/list", json!({}));
            let key = post(&mut rig, &asks);
            let link = rig.shared();
            let mut passed = Vec::new();
            for _ in 0..2 {
                for message in rig.at(link) {
                    let message: Value = serde_json::from_str(&message).unwrap();
                    rig.say(link, &server.answers(&message).to_string());
                    passed.push(message);
                }
            }
            let newest = date(stateless().last().unwrap());
            assert_eq!(passed.iter().map(named).collect::<Vec<_>>(), [newest, date(client)], "{server:?}");
            let status = if client == server.revision { 200 } else { 400 };
            let answer: Value = serde_json::from_str(&rig.whole(key, status)).unwrap();
            assert_eq!(answer, server.answers(&asks), "{server:?} {client}");
        }
    }
}

#[test]
fn what_belongs_to_sessions_is_not_served_in_a_revision_without() {
    for revision in stateless() {
        for method in [Method::GET, Method::DELETE] {
            let mut rig = Rig::new();
            let headers = [("accept", "text/event-stream"), ("mcp-protocol-version", date(revision))];
            let key = rig.send(&method, "/mcp", &headers, "");
            assert_eq!(rig.read(key).status, 405, "{revision} {method}");
        }
    }
}
