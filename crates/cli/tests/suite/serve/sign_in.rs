//! Signing in at the server behind `rescind serve --upstream`.

use std::{fs, net::SocketAddr};

use rescind_testkit::puppet::{Head, Service};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    LEGACY, MIRRORS, MODERN,
    upstream::{Seen, Upstream, challenge, page},
};
use crate::shim::{
    PROGRAM,
    words::{notification, request, request_with},
};

const ANN: &str = "Bearer ann-secret";
const BOB: &str = "Bearer bob-secret";

fn front(upstream: &Upstream, flags: &[&str]) -> Service {
    Service::before(PROGRAM, &upstream.url(), flags.iter().copied())
}

/// What is answered to a message of somebody, with these headers beside.
fn post(service: &Service, who: &str, headers: &[(&str, &str)], message: &str) -> (Head, Value) {
    let mut all = headers.to_vec();
    all.extend((!who.is_empty()).then_some(("authorization", who)));
    let (mut connection, head) = service.post(&all, message);
    let body = connection.message(&head);
    (head, serde_json::from_str(&body).unwrap_or_default())
}

fn greeting() -> String {
    let info = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info});
    request_with("1", "initialize", &params.to_string())
}

/// A session of somebody; the server has taken the end of its handshake.
fn open(service: &Service, who: &str) -> String {
    let (head, _) = post(service, who, &[], &greeting());
    assert_eq!(head.status, 200);
    let id = head.header("mcp-session-id").unwrap().to_owned();
    let session = [("mcp-session-id", &*id)];
    assert_eq!(post(service, who, &session, &notification("notifications/initialized", "{}")).0.status, 202);
    // Whatever comes next waits for that.
    assert_eq!(post(service, who, &session, &request("0", "ping")).0.status, 200);
    id
}

/// A page as a client of the service finds it.
fn get(service: &Service, path: &str) -> (Head, String) {
    let mut connection = service.connect();
    let text = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: {ANN}\r\n\r\n");
    connection.send_bytes(text.as_bytes());
    let head = connection.head();
    let body = connection.body();
    (head, body)
}

fn seen(what: &str, authorization: &str) -> Seen {
    Seen { what: what.into(), authorization: authorization.into() }
}

/// The requests among what the server got since it was last asked: when the service listens there is its own affair.
fn lists(upstream: &Upstream) -> Vec<Seen> {
    upstream.seen().into_iter().filter(|seen| seen.what == "tools/list").collect()
}

fn assert_challenged(head: &Head, address: SocketAddr) {
    assert_eq!(head.status, 401);
    assert_eq!(head.header("www-authenticate"), Some(&*challenge(address)));
}

#[test]
fn a_client_that_is_told_to_sign_in_does_so_and_works() {
    let upstream = Upstream::start(&[ANN]);
    let service = front(&upstream, &[]);
    let (head, body) = post(&service, "", &[], &greeting());
    assert_challenged(&head, upstream.address);
    assert_eq!(head.header("mcp-session-id"), None);
    assert_eq!(body["error"]["data"]["httpStatus"], 401, "{body}");
    let session = open(&service, ANN);
    let session = [("mcp-session-id", &*session)];
    let (head, body) = post(&service, ANN, &session, &request("5", "tools/list"));
    assert_eq!((head.status, &body["result"]["for"]), (200, &json!(ANN)));

    // Its token expires, and another takes its place, in the same session.
    upstream.accept_only(&["Bearer ann-newer"]);
    let (head, _) = post(&service, ANN, &session, &request("6", "tools/list"));
    assert_challenged(&head, upstream.address);
    upstream.seen();
    let (head, body) = post(&service, "Bearer ann-newer", &session, &request("7", "tools/list"));
    assert_eq!((head.status, &body["result"]["for"]), (200, &json!("Bearer ann-newer")));
    assert_eq!(lists(&upstream), [seen("tools/list", "Bearer ann-newer")]);
}

#[test]
fn more_may_be_wanted_than_a_token_that_is_good() {
    let upstream = Upstream::start(&[ANN]);
    let service = front(&upstream, &[]);
    let session = open(&service, ANN);
    let call = request_with("5", "tools/call", r#"{"name":"forbidden"}"#);
    let (head, _) = post(&service, ANN, &[("mcp-session-id", &session)], &call);
    assert_eq!(head.status, 403);
    assert_eq!(head.header("www-authenticate"), Some(r#"Bearer error="insufficient_scope", scope="x""#));
}

#[test]
fn without_sessions_each_request_is_its_senders() {
    let upstream = Upstream::start(&[ANN, BOB]);
    let service = front(&upstream, &[]);
    let ask = |who: &str| post(&service, who, &MIRRORS, &request_with("1", "tools/list", MODERN));
    let (head, body) = ask("");
    assert_challenged(&head, upstream.address);
    assert_eq!(body["id"], 1);
    for who in [ANN, BOB, ANN] {
        let (head, body) = ask(who);
        assert_eq!((head.status, &body["result"]["for"]), (200, &json!(who)));
    }
    assert_challenged(&ask("").0, upstream.address);
    assert_challenged(&ask("Bearer eve").0, upstream.address);
    let expected = [ANN, BOB, ANN, "", "Bearer eve"].map(|who| seen("tools/list", who));
    assert_eq!(lists(&upstream), expected);
}

/// Whoever has the id of a session speaks in it for himself alone.
#[test]
fn in_a_session_each_message_is_its_senders() {
    let upstream = Upstream::start(&[ANN, BOB]);
    let service = front(&upstream, &[]);
    let sessions = [(ANN, open(&service, ANN)), (BOB, open(&service, BOB))];
    upstream.seen();
    for (who, session) in &sessions {
        for other in [*who, BOB, "", ANN] {
            let (head, body) = post(&service, other, &[("mcp-session-id", session)], &request("5", "tools/list"));
            if other.is_empty() {
                assert_challenged(&head, upstream.address);
            } else {
                assert_eq!((head.status, &body["result"]["for"]), (200, &json!(other)));
            }
            assert_eq!(lists(&upstream), [seen("tools/list", other)]);
        }
    }
}

/// What the service asks for itself, and what it says for all, it keeps for itself.
#[test]
fn a_token_of_the_service_goes_nowhere_and_neither_does_one_beside_the_services_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "open-sesame").unwrap();
    let house = "Bearer house";
    for flags in [
        vec!["--token-file", file.to_str().unwrap()],
        vec!["--header", "Authorization: Bearer house"],
        vec!["--token-file", file.to_str().unwrap(), "--header", "Authorization: Bearer house"],
        vec!["--shared"],
    ] {
        let upstream = Upstream::start(&[house]);
        let service = front(&upstream, &flags);
        let expected = if flags.contains(&"--header") { house } else { "" };
        let (head, body) = post(&service, "Bearer open-sesame", &[], &greeting());
        // That there is a sign-in is nothing that its clients could do anything about.
        assert_eq!((head.status, head.header("www-authenticate")), (200, None));
        assert_eq!(body["error"]["data"]["httpStatus"].is_null(), !expected.is_empty(), "{body}");
        let (head, _) = post(&service, "Bearer open-sesame", &MIRRORS, &request_with("1", "tools/list", MODERN));
        assert_ne!(head.status, 401);
        assert_eq!(get(&service, "/.well-known/oauth-protected-resource").0.status, 404);
        let seen = upstream.seen();
        assert!(seen.iter().all(|seen| seen.authorization == expected), "{seen:?}");
        assert!(!seen.is_empty());
    }
}

#[test]
fn the_pages_that_say_how_to_sign_in_are_the_servers() {
    let upstream = Upstream::start(&[]);
    let service = front(&upstream, &[]);
    let (head, body) = get(&service, "/.well-known/oauth-protected-resource/mcp");
    assert_eq!((head.status, head.header("content-type")), (200, Some("application/json")));
    assert_eq!(body, page(upstream.address));
    assert_eq!(get(&service, "/.well-known/oauth-protected-resource").0.status, 404);
    let (head, _) = get(&service, "/.well-known/openid-configuration");
    assert_eq!(head.status, 302);
    assert_eq!(head.header("location"), Some(&*format!("http://{}/elsewhere", upstream.address)));
    assert_eq!(get(&service, "/.well-known/oauth-authorization-server").0.status, 502, "too long");
    let seen = upstream.seen();
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(|seen| seen.authorization.is_empty()), "{seen:?}");
    // Nothing else of the server is reached that way.
    for path in ["/admin", "/.well-known/oauth-protected-resource/%2e%2e/%2e%2e/admin", "/.well-known/security.txt"] {
        assert_eq!(get(&service, path).0.status, 404);
    }
    assert!(upstream.seen().is_empty());
}

#[test]
fn without_the_server_there_is_no_page() {
    let service = Service::before(PROGRAM, "http://127.0.0.1:1/mcp", [] as [&str; 0]);
    let (head, body) = get(&service, "/.well-known/oauth-protected-resource");
    assert_eq!(head.status, 502);
    assert!(body.contains("did not give this page"), "{body}");
}

/// Neither in a recording, nor in the log, nor where sessions are listed.
#[test]
fn a_token_is_written_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let record = folder.path().join("recordings");
    let upstream = Upstream::start(&[ANN]);
    let flags = ["--log", "trace", "--log-file", log.to_str().unwrap(), "--record", record.to_str().unwrap()];
    let mut service = front(&upstream, &flags);
    let session = open(&service, ANN);
    let session = [("mcp-session-id", &*session)];
    post(&service, "Bearer ann-secret-2", &session, &request("5", "tools/list"));
    let tell = notification("notifications/x", "{}");
    assert_eq!(post(&service, "Bearer ann-secret-3", &session, &tell).0.status, 202);
    service.shim.kill(Signal::TERM);
    service.shim.expect_exit(0);
    let mut written = vec![fs::read_to_string(&log).unwrap()];
    for file in fs::read_dir(&record).unwrap() {
        written.push(fs::read_to_string(file.unwrap().path()).unwrap());
    }
    assert_eq!(written.len(), 2, "a log and a recording");
    for text in written {
        // The server itself repeats the one that was good in its answers.
        let rest = text.replace(r#""for":"Bearer ann-secret""#, "").replace(r#"\"for\":\"Bearer ann-secret\""#, "");
        assert!(!text.is_empty() && !rest.contains("ann-secret"), "{rest}");
    }
}
