//! What a client of the library learns of a cancel over HTTP: it was sent when it has left, and else never.

use rescind::peer::{Dialect, Outcome, Peer, Receipt, dialect::mcp};
use rescind_http::{client::HttpClientConfig, shell::client::HttpTransport};
use serde_json::{Value, json};

use crate::{
    raw_server::{RawRequest, RawServer, direct, in_time},
    rig::{LEGACY, call, initialize, initialized, modern, result},
};

/// Connects to a server, to which this many HTTP requests may be open at once.
fn connect(server: &RawServer, dialect: &'static Dialect, max_fetches: usize) -> Peer {
    let mut config = HttpClientConfig::new(&server.url()).unwrap();
    config.max_fetches = max_fetches;
    let (peer, driver) = Peer::builder(dialect).connect(HttpTransport::new(config, direct()).unwrap());
    drop(driver.spawn());
    peer
}

fn request(peer: &Peer, message: &str) -> rescind::peer::Call<Value> {
    let message: Value = serde_json::from_str(message).unwrap();
    peer.request(message["method"].as_str().unwrap().to_owned(), &message["params"]).send()
}

/// Waits until the transport has taken so many messages.
async fn taken(peer: &Peer, messages: u64) {
    in_time(async {
        while peer.counters().sent < messages {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// What is known of a cancel in the end.
async fn known(receipt: impl Future<Output = Receipt>) -> (Outcome, bool) {
    let receipt = in_time(receipt).await;
    (receipt.outcome, receipt.written.is_some())
}

fn id(request: &RawRequest) -> Value {
    serde_json::from_str::<Value>(&request.body).unwrap()["id"].clone()
}

#[tokio::test]
async fn a_call_that_waits_for_the_session_was_never_sent() {
    let server = RawServer::new().await;
    let peer = connect(&server, &mcp::LATEST_LEGACY, 512);
    let greeting = request(&peer, &initialize(LEGACY));
    let post = server.request().await;
    let (stopped, other) = (request(&peer, &call(0)), request(&peer, &call(0)));
    taken(&peer, 3).await;
    assert_eq!(known(stopped.cancel("stop")).await, (Outcome::NeverSent, false));
    let (key, session) = (id(&post), "content-type: application/json\r\nmcp-session-id: s1\r\nconnection: close\r\n");
    post.respond("200 OK", session, &initialized(key, LEGACY).to_string()).await;
    in_time(greeting).await.unwrap();
    peer.notify("notifications/initialized", &()).await.unwrap();
    let mut heard = Vec::new();
    // Nothing else comes but that somebody listens.
    while !heard.contains(&json!(3)) {
        let post = server.request().await;
        assert!(post.line.starts_with("GET ") || post.body.contains("initialized") || id(&post) == 3, "{}", post.body);
        if post.line.starts_with("GET ") {
            post.respond("405 Method Not Allowed", "connection: close\r\n", "").await;
        } else if post.body.contains("notifications/initialized") {
            post.respond("202 Accepted", "connection: close\r\n", "").await;
        } else {
            heard.push(id(&post));
            post.respond_json(&result(3)).await;
        }
    }
    in_time(other).await.unwrap();
}

#[tokio::test]
async fn behind_a_server_that_is_silent_on_server_discover_a_call_was_never_sent() {
    let server = RawServer::new().await;
    let peer = connect(&server, &mcp::LATEST, 1);
    let _question = request(&peer, &modern(0, "server/discover", &json!({})));
    let post = server.request().await;
    let work = modern(0, "tools/call", &json!({"name": "work"}));
    let (stopped, late, other) = (request(&peer, &work), request(&peer, &work), request(&peer, &work));
    taken(&peer, 4).await;
    assert_eq!(known(stopped.cancel("stop")).await, (Outcome::NeverSent, false));
    // Its caller is told so when it waits for the answer.
    let handle = late.handle();
    let late = late.cancel_and_wait("stop", std::time::Duration::from_secs(600));
    in_time(late).await.unwrap_err();
    assert_eq!(handle.receipt().map(|receipt| receipt.outcome), Some(Outcome::NeverSent));
    let connection = post.respond_json(&result(1)).await;
    let post = RawRequest::read(connection).await;
    assert_eq!(id(&post), 4, "the server got neither");
    post.respond_json(&result(4)).await;
    in_time(other).await.unwrap();
}

#[tokio::test]
async fn a_call_that_has_left_is_cancelled_and_the_cancel_is_sent() {
    let server = RawServer::new().await;
    let peer = connect(&server, &mcp::LATEST, 512);
    let call = request(&peer, &modern(0, "tools/call", &json!({"name": "work"})));
    let mut post = server.request().await;
    assert_eq!(known(call.cancel("stop")).await, (Outcome::Sent, true));
    post.closed().await;
}

#[tokio::test]
async fn what_is_taken_back_when_the_client_closes_was_never_sent() {
    let server = RawServer::new().await;
    let peer = connect(&server, &mcp::LATEST, 1);
    let sent = request(&peer, &modern(0, "tools/call", &json!({"name": "work"})));
    let _post = server.request().await;
    let waiting = request(&peer, &modern(0, "tools/call", &json!({"name": "work"})));
    taken(&peer, 2).await;
    let handles = [sent.handle(), waiting.handle()];
    peer.shutdown();
    in_time(peer.closed()).await;
    let outcomes = handles.map(|handle| handle.receipt().map(|receipt| receipt.outcome));
    assert_eq!(outcomes, [Some(Outcome::Sent), Some(Outcome::NeverSent)]);
}
