//! What a caller in this process is told of a call without an answer: who is at fault, the status, whether it may have run.

use std::time::Duration;

use rescind::{
    mcp::Client,
    peer::{Call, CallError, Fault, Peer, UnreadableAnswer},
};
use rescind_http::{client::HttpClientConfig, shell::client::HttpTransport};
use rustix::net::sockopt;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::{
    raw_server::{RawRequest, RawServer, direct, in_time},
    rig::{LEGACY, error, initialized, modern},
};

/// What a server does with a request.
#[derive(Clone)]
enum Act {
    /// Answers with this status, these headers and this body; `ID` in it stands for the id of the request.
    Answer(&'static str, &'static str, String),
    /// Writes this, and resets the connection.
    Reset(&'static str),
    /// Writes this, and closes the connection.
    Close(&'static str),
}

const HTML: &str = "content-type: text/html\r\n";
const JSON: &str = "content-type: application/json\r\n";
const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const HALF_EVENT: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: {\"a\r\n";
const HALF_BODY: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{\"jsonrpc\"";

impl Act {
    async fn perform(&self, mut post: RawRequest) {
        match self {
            Self::Answer(status, headers, body) => {
                let id = serde_json::from_str::<Value>(&post.body).map_or(Value::Null, |body| body["id"].clone());
                let body = body.replace("ID", &id.to_string());
                drop(post.respond(status, &format!("connection: close\r\n{headers}"), &body).await);
            }
            Self::Reset(text) => {
                post.write(text).await;
                sockopt::set_socket_linger(&post.stream, Some(Duration::ZERO)).unwrap();
            }
            Self::Close(text) => {
                post.write(text).await;
                post.stream.shutdown().await.unwrap();
            }
        }
    }
}

/// A server that does the same with each POST, and lets nobody listen.
async fn serving(act: Act) -> String {
    let server = RawServer::new().await;
    let url = server.url();
    tokio::spawn(async move {
        loop {
            let request = server.request().await;
            let listens = Act::Answer("405 Method Not Allowed", "", String::new());
            if request.line.starts_with("POST ") { &act } else { &listens }.perform(request).await;
        }
    });
    url
}

fn peer(url: &str) -> Peer {
    let transport = HttpTransport::new(HttpClientConfig::new(url).unwrap(), direct()).unwrap();
    let (peer, driver) = Client::peer_builder().connect(transport);
    driver.spawn();
    peer
}

fn call(peer: &Peer) -> Call<Value> {
    let request: Value = serde_json::from_str(&modern(1, "tools/call", &json!({"name": "work"}))).unwrap();
    peer.request("tools/call", &request["params"])
}

/// What is known of a call without an answer.
type Known = (Fault, Option<u16>, bool);

async fn told(url: &str) -> CallError {
    let peer = peer(url);
    in_time(call(&peer)).await.expect_err("there is no answer")
}

fn known(name: &str, told: &CallError) -> Known {
    let CallError::Transport(error) = told else { panic!("{name}: {told:?}") };
    assert!(!error.text.is_empty(), "{name}");
    (error.fault, error.status, error.may_have_run)
}

#[tokio::test]
async fn a_call_without_an_answer_says_who_is_at_fault_the_status_and_whether_it_may_have_run() {
    let (server, transport, token) = (Fault::Server, Fault::Transport, Fault::Authorization);
    let plain = |status, body: &str| Act::Answer(status, HTML, body.to_owned());
    let json = |status, body: Value| Act::Answer(status, JSON, body.to_string());
    let broken = |text: &str| Act::Answer("500 Internal Server Error", JSON, text.to_owned());
    let failed = "500 Internal Server Error";
    let table: Vec<(&str, Act, Known)> = vec![
        ("reset before the head", Act::Reset(""), (transport, None, true)),
        ("closed before the head", Act::Close(""), (transport, None, true)),
        ("half a head", Act::Close("HTTP/1.1 200 OK\r\ncontent-"), (transport, None, true)),
        ("not HTTP", Act::Close("SSH-2.0-OpenSSH_9.9\r\n"), (transport, None, true)),
        ("reset in a stream", Act::Reset(EVENTS), (transport, None, true)),
        ("cut in an event", Act::Close(HALF_EVENT), (transport, None, true)),
        ("cut in a body", Act::Close(HALF_BODY), (transport, None, true)),
        (
            "a stream that ends",
            Act::Answer("200 OK", "content-type: text/event-stream\r\n", ": soon\n\n".into()),
            (server, None, true),
        ),
        ("401", plain("401 Unauthorized", ""), (token, Some(401), false)),
        ("401 as an error", json("401 Unauthorized", error("ID", -32001, "x")), (token, Some(401), false)),
        ("403", plain("403 Forbidden", "no"), (server, Some(403), false)),
        ("400", json("400 Bad Request", json!({"error": "invalid_request"})), (server, Some(400), false)),
        ("404", json("404 Not Found", json!({"error": "Not Found"})), (server, Some(404), false)),
        ("404 of a proxy", plain("404 Not Found", "<h1>nginx</h1>"), (server, Some(404), false)),
        ("405", plain("405 Method Not Allowed", ""), (server, Some(405), false)),
        ("409", plain("409 Conflict", ""), (server, Some(409), false)),
        ("410", plain("410 Gone", ""), (server, Some(410), false)),
        ("413", plain("413 Payload Too Large", ""), (server, Some(413), false)),
        ("415", plain("415 Unsupported Media Type", ""), (server, Some(415), false)),
        ("429", json("429 Too Many Requests", json!({"error": "rate limited"})), (server, Some(429), false)),
        ("a status without a name", plain("499 ", ""), (server, Some(499), false)),
        ("500, empty", broken(""), (server, Some(500), true)),
        ("500, text", plain(failed, "Traceback (most recent call last)"), (server, Some(500), true)),
        ("500, a text in JSON", broken("\"oops\""), (server, Some(500), true)),
        ("500, null", broken("null"), (server, Some(500), true)),
        ("500, a list", broken("[1,2]"), (server, Some(500), true)),
        ("500, no messages", broken("[]"), (server, Some(500), true)),
        ("500, broken JSON", broken("{\"jsonrpc\":"), (server, Some(500), true)),
        ("500, error is a text", json(failed, json!({"error": "x"})), (server, Some(500), true)),
        ("500, error has a type", json(failed, json!({"error": {"type": "x"}})), (server, Some(500), true)),
        (
            "500, a code in words",
            broken(r#"{"jsonrpc":"2.0","id":ID,"error":{"code":"E","message":"x"}}"#),
            (server, Some(500), true),
        ),
        ("500, no version", broken(r#"{"id":ID,"error":{"code":1,"message":"x"}}"#), (server, Some(500), true)),
        ("500, a request", broken(r#"{"jsonrpc":"2.0","id":ID,"method":"ping"}"#), (server, Some(500), true)),
        ("500, long", plain(failed, &"x".repeat(100_000)), (server, Some(500), true)),
        ("502", plain("502 Bad Gateway", "<h1>nginx</h1>"), (server, Some(502), true)),
        ("503", plain("503 Service Unavailable", ""), (server, Some(503), true)),
        ("504", plain("504 Gateway Timeout", ""), (server, Some(504), true)),
        ("200, a page", plain("200 OK", "<p>Log in</p>"), (server, Some(200), true)),
        ("200, empty", Act::Answer("200 OK", JSON, String::new()), (server, None, true)),
        ("200, no answer", json("200 OK", json!({"ok": true})), (server, Some(200), true)),
        ("202", plain("202 Accepted", ""), (server, Some(202), true)),
        ("204", Act::Close("HTTP/1.1 204 No Content\r\n\r\n"), (server, None, true)),
    ];
    for (name, act, expected) in table {
        assert_eq!(known(name, &told(&serving(act).await).await), expected, "{name}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_reached_has_not_run_the_call() {
    let gone = RawServer::new().await.url();
    assert_eq!(known("nobody listens", &told(&gone).await), (Fault::Transport, None, false));
    #[cfg(feature = "tls")]
    {
        // It answers in plain HTTP, or not at all.
        for act in [Act::Close("HTTP/1.1 400 Bad Request\r\n\r\n"), Act::Close("")] {
            let server = RawServer::new().await;
            let url = format!("https://{}/mcp", server.address());
            tokio::spawn(async move {
                let mut stream = server.accept().await;
                let Act::Close(text) = act else { return };
                stream.write_all(text.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
            });
            assert_eq!(known("TLS", &told(&url).await), (Fault::Transport, None, false));
        }
    }
}

#[tokio::test]
async fn what_the_server_wants_is_in_the_error() {
    let challenge = "Bearer resource_metadata=\"https://mcp.test/meta\"";
    for (status, fault) in [("401 Unauthorized", Fault::Authorization), ("403 Forbidden", Fault::Authorization)] {
        let act = Act::Answer(
            status,
            "www-authenticate: Bearer resource_metadata=\"https://mcp.test/meta\"\r\n",
            String::new(),
        );
        let told = told(&serving(act).await).await;
        let CallError::Transport(error) = told else { panic!("{told:?}") };
        assert_eq!((error.fault, error.challenge.as_deref()), (fault, Some(challenge)));
    }
    for wait in ["30", "Fri, 27 Nov 2026 10:00:00 GMT"] {
        let headers =
            if wait == "30" { "retry-after: 30\r\n" } else { "retry-after: Fri, 27 Nov 2026 10:00:00 GMT\r\n" };
        let told = told(&serving(Act::Answer("429 Too Many Requests", headers, String::new())).await).await;
        let CallError::Transport(error) = told else { panic!("{told:?}") };
        assert_eq!((error.status, error.retry_after.as_deref()), (Some(429), Some(wait)));
    }
}

#[tokio::test]
async fn a_session_that_is_gone_is_the_servers_fault() {
    let server = RawServer::new().await;
    let peer = peer(&server.url());
    let opening = peer.request::<Value>("initialize", &json!({"protocolVersion": LEGACY})).send();
    let greeting = server.request().await;
    let id = serde_json::from_str::<Value>(&greeting.body).unwrap()["id"].as_u64().unwrap();
    let headers = "content-type: application/json\r\nmcp-session-id: s1\r\nconnection: close\r\n";
    greeting.respond("200 OK", headers, &initialized(id, LEGACY).to_string()).await;
    in_time(opening).await.unwrap();
    peer.notify("notifications/initialized", &()).await.unwrap();
    server.request().await.respond("202 Accepted", "connection: close\r\n", "").await;
    server.request().await.respond("405 Method Not Allowed", "connection: close\r\n", "").await;
    // One call runs there, and one comes when the session is gone; no other session is to be had.
    let running = peer.request::<Value>("tools/call", &json!({"name": "runs"})).send();
    let mut stream = server.request().await;
    stream.stream().await;
    let late = peer.request::<Value>("tools/call", &json!({"name": "late"})).send();
    server.request().await.respond("404 Not Found", "connection: close\r\n", "").await;
    assert_eq!(known("runs", &in_time(running).await.unwrap_err()), (Fault::Server, None, true));
    loop {
        let request = server.request().await;
        if request.body.contains("\"initialize\"") {
            drop(request.respond("503 Service Unavailable", "connection: close\r\n", "").await);
            break;
        }
    }
    assert_eq!(known("late", &in_time(late).await.unwrap_err()), (Fault::Server, Some(503), false));
}

#[tokio::test]
async fn an_answer_of_the_server_is_its_answer_whatever_the_status() {
    for status in ["200 OK", "400 Bad Request", "404 Not Found", "500 Internal Server Error"] {
        let body = r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no such tool"}}"#;
        let told = told(&serving(Act::Answer(status, JSON, body.to_owned())).await).await;
        assert!(matches!(&told, CallError::Peer(error) if error.code == -32602), "{status}: {told:?}");
    }
    let unreadable = [
        r#"{"jsonrpc":"2.0","id":ID,"result":"x"}"#,
        r#"{"jsonrpc":"2.0","id":ID,"error":"x"}"#,
        r#"{"jsonrpc":"2.0","id":ID,"error":{"code":1}}"#,
    ];
    for body in unreadable {
        let body = format!("data: {body}\n\n");
        let told = told(&serving(Act::Answer("200 OK", "content-type: text/event-stream\r\n", body)).await).await;
        assert!(matches!(told, CallError::Unreadable(UnreadableAnswer::Invalid)), "{told:?}");
    }
}
