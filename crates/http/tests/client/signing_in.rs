//! Requests whose server wants a token, and somebody in the test's hands who sees to it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request};
use rescind_http::{
    client::HttpClientConfig,
    shell::client::{Authorizer, Authorizing, HttpTransport, RefusedRequest, Renewal, RequestError, Requests},
};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use crate::{
    raw_server::{Local, RawRequest, RawServer, direct, in_time},
    rig::{LEGACY, Rig, call, cancel, initialize, initialized, modern_call, result},
};

const CHALLENGE: &str = "www-authenticate: Bearer scope=\"x\"\r\nconnection: close\r\n";

/// Tokens in their order, and a test that decides about each refusal.
struct Tokens {
    tokens: Mutex<VecDeque<&'static str>>,
    refused: mpsc::UnboundedSender<(RefusedRequest, oneshot::Sender<Renewal>)>,
}

type Refusals = mpsc::UnboundedReceiver<(RefusedRequest, oneshot::Sender<Renewal>)>;

impl Authorizer for Tokens {
    fn authorization(&self) -> Authorizing<'_, Option<HeaderValue>> {
        let mut tokens = self.tokens.lock().unwrap();
        let token = if tokens.len() > 1 { tokens.pop_front() } else { tokens.front().copied() };
        Box::pin(async move { token.map(HeaderValue::from_static) })
    }

    fn renew(&self, refused: RefusedRequest) -> Authorizing<'_, Renewal> {
        let (decide, decision) = oneshot::channel();
        self.refused.send((refused, decide)).unwrap();
        Box::pin(async move { decision.await.unwrap() })
    }
}

/// A local client whose requests have these tokens, the last one for good.
fn local(url: &str, tokens: &[&'static str]) -> (Local, Refusals) {
    let (refused, refusals) = mpsc::unbounded_channel();
    let tokens = Arc::new(Tokens { tokens: Mutex::new(tokens.iter().copied().collect()), refused });
    let config = HttpClientConfig::new(url).unwrap();
    (Local(HttpTransport::authorized(config, direct(), tokens, |_| {}).unwrap()), refusals)
}

fn token(request: &RawRequest) -> Option<&str> {
    request.headers.get("authorization").map(|value| &**value)
}

/// Refuses the next request.
async fn refuse(server: &RawServer) -> RawRequest {
    let mut request = server.request().await;
    request.write(&format!("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n{CHALLENGE}\r\n")).await;
    request
}

async fn next(refusals: &mut Refusals) -> (RefusedRequest, oneshot::Sender<Renewal>) {
    in_time(refusals.recv()).await.unwrap()
}

#[tokio::test]
async fn a_request_that_is_refused_is_sent_again_with_another_token() {
    let server = RawServer::new().await;
    let (mut local, mut refusals) = local(&server.url(), &["Bearer old", "Bearer new"]);
    local.say(&modern_call(1));
    let first = refuse(&server).await;
    assert_eq!(token(&first), Some("Bearer old"));
    let (refused, decide) = next(&mut refusals).await;
    assert_eq!(refused.authorization.unwrap(), "Bearer old");
    assert_eq!((refused.status.as_u16(), refused.is_awaited, refused.attempt), (401, true, 0));
    assert_eq!(refused.headers["www-authenticate"], "Bearer scope=\"x\"");
    decide.send(Renewal::Renewed).unwrap();
    let again = server.request().await;
    assert_eq!((token(&again), &*again.body), (Some("Bearer new"), &*modern_call(1)));
    again.respond_json(&result(1)).await;
    assert_eq!(local.hear().await, result(1));
}

/// Nothing of it reaches the server any more, whatever becomes of the sign-in.
#[tokio::test]
async fn a_cancel_while_a_token_is_awaited_takes_the_request_back() {
    for is_modern in [true, false] {
        let server = RawServer::new().await;
        let (mut local, mut refusals) = local(&server.url(), &["Bearer a"]);
        if !is_modern {
            local.open_session(&server).await;
        }
        local.say(&if is_modern { modern_call(1) } else { call(1) });
        let _refused = refuse(&server).await;
        let (_, mut decide) = next(&mut refusals).await;
        local.say(&cancel(1));
        // Nobody waits for the token any more.
        in_time(decide.closed()).await;
        // The next request is the next that the server gets.
        local.say(&if is_modern { modern_call(2) } else { call(2) });
        let next = server.request().await;
        assert_eq!(next.body, if is_modern { modern_call(2) } else { call(2) });
        next.respond_json(&result(2)).await;
        assert_eq!(local.hear().await, result(2));
    }
}

#[tokio::test]
async fn the_end_of_the_client_ends_its_wait() {
    let server = RawServer::new().await;
    let (mut local, mut refusals) = local(&server.url(), &["Bearer a"]);
    local.say(&initialize(LEGACY));
    let _refused = refuse(&server).await;
    let (_, mut decide) = next(&mut refusals).await;
    local.close().await;
    in_time(decide.closed()).await;
}

#[tokio::test]
async fn a_request_for_which_there_is_no_token_is_answered_with_what_can_be_done() {
    let server = RawServer::new().await;
    let (mut local, mut refusals) = local(&server.url(), &["Bearer secret"]);
    local.say(&modern_call(1));
    let _refused = refuse(&server).await;
    let (_, decide) = next(&mut refusals).await;
    decide.send(Renewal::Failed("access was denied; run `rescind login X`".into())).unwrap();
    let heard = local.hear().await;
    let origin = format!("http://{}", server.address());
    let message = format!(
        "{origin} wants authorization (401 Unauthorized; Bearer), and there is none: access was denied; run `rescind login X`"
    );
    assert_eq!(heard["error"]["message"], message);
    let data = json!({"mayHaveRun": false, "httpStatus": 401, "wwwAuthenticate": "Bearer scope=\"x\""});
    assert_eq!(heard["error"]["data"], data);
}

#[tokio::test]
async fn a_refusal_that_no_token_mends_is_the_answer() {
    let server = RawServer::new().await;
    let (mut local, mut refusals) = local(&server.url(), &["Bearer a"]);
    local.say(&modern_call(1));
    let request = server.request().await;
    request.respond("403 Forbidden", "connection: close\r\n", "not you").await;
    let (refused, decide) = next(&mut refusals).await;
    assert_eq!(refused.status.as_u16(), 403);
    decide.send(Renewal::NotWanted).unwrap();
    let heard = local.hear().await;
    assert!(heard["error"]["message"].as_str().unwrap().ends_with("answered 403 Forbidden: not you"), "{heard}");
}

/// What listens and what ends the session has the token, too; for neither is a person asked.
#[tokio::test]
async fn everything_in_a_session_has_the_token() {
    let server = RawServer::new().await;
    let (mut local, mut refusals) = local(&server.url(), &["Bearer a"]);
    local.say(&initialize(LEGACY));
    let post = server.request().await;
    assert_eq!(token(&post), Some("Bearer a"));
    let head = "content-type: application/json\r\nmcp-session-id: s1\r\nconnection: close\r\n";
    post.respond("200 OK", head, &initialized(0, LEGACY).to_string()).await;
    local.hear().await;
    local.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let note = refuse(&server).await;
    assert_eq!(token(&note), Some("Bearer a"));
    let (refused, decide) = next(&mut refusals).await;
    assert!(!refused.is_awaited);
    decide.send(Renewal::Renewed).unwrap();
    server.request().await.respond("202 Accepted", "connection: close\r\n", "").await;
    let get = server.request().await;
    assert_eq!((get.line.split(' ').next(), token(&get)), (Some("GET"), Some("Bearer a")));
    get.respond("401 Unauthorized", CHALLENGE, "").await;
    let (refused, decide) = next(&mut refusals).await;
    assert!(!refused.is_awaited);
    decide.send(Renewal::Renewed).unwrap();
    let get = server.request().await;
    get.respond("405 Method Not Allowed", "connection: close\r\n", "").await;
    let closing = async {
        let end = server.request().await;
        assert_eq!((end.line.split(' ').next(), token(&end)), (Some("DELETE"), Some("Bearer a")));
        end.respond("204 No Content", "connection: close\r\n", "").await;
    };
    tokio::join!(local.close(), closing);
}

#[tokio::test]
async fn a_token_is_said_to_its_server_alone() {
    let (server, other) = (RawServer::new().await, RawServer::new().await);
    let (mut local, mut refusals) = local(&server.url(), &["Bearer a"]);
    local.say(&modern_call(1));
    let location = format!("location: {}\r\nconnection: close\r\n", other.url());
    server.request().await.respond("307 Temporary Redirect", &location, "").await;
    let there = other.request().await;
    assert_eq!(token(&there), None);
    // Nor is anyone asked for one for it.
    there.respond("401 Unauthorized", CHALLENGE, "").await;
    let heard = local.hear().await;
    assert_eq!(heard["error"]["data"]["httpStatus"], 401);
    assert!(refusals.try_recv().is_err());
}

#[tokio::test]
async fn single_requests_are_bounded_and_follow_nothing() {
    let server = RawServer::new().await;
    let url: http::Uri = server.url().parse().unwrap();
    let requests = Requests::new(&url, direct()).unwrap();
    let send = |body: &'static str| {
        let mut request = Request::new(Bytes::from_static(body.as_bytes()));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = url.clone();
        requests.send(request, 10)
    };
    let answer = async |head: &str, body: &str| {
        let request = server.request().await;
        assert_eq!((&*request.body, token(&request)), ("a=b", None));
        request.respond("200 OK", head, body).await;
    };
    let close = "connection: close\r\n";
    let (response, ()) = tokio::join!(send("a=b"), answer(close, "0123456789"));
    assert_eq!(response.unwrap().into_body(), "0123456789");
    let (response, ()) = tokio::join!(send("a=b"), answer(close, "0123456789x"));
    assert_eq!(response.unwrap_err(), RequestError::TooLarge);
    let (response, ()) = tokio::join!(send("a=b"), answer("content-encoding: gzip\r\nconnection: close\r\n", "x"));
    assert!(response.unwrap_err().to_string().contains("compressed"));
    let redirect = async {
        let request = server.request().await;
        request.respond("302 Found", "location: /elsewhere\r\nconnection: close\r\n", "").await;
    };
    let (response, ()) = tokio::join!(send("a=b"), redirect);
    assert_eq!(response.unwrap().status().as_u16(), 302);
}

/// As a machine: a person may take minutes, and a server that accepts a message may not.
#[test]
fn no_clock_runs_while_a_token_is_awaited() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#);
    let note = rig.sent_one();
    rig.client.handle_signing_in(note.key);
    rig.client.check_invariants();
    rig.pass(Duration::from_secs(3600));
    assert_eq!((rig.take_aborted(), rig.notices()), (vec![], vec![]));
    assert!(rig.client.handle_sent_again(rig.now, note.key));
    rig.client.check_invariants();
    assert!(rig.write(note.key));
    rig.pass(Duration::from_secs(31));
    assert_eq!(rig.take_aborted(), [note.key]);
    assert_eq!(rig.notices().len(), 1);
}

/// As a machine: it was not sent, so nothing is sent for it.
#[test]
fn a_cancel_while_a_token_is_awaited_is_no_message() {
    let mut rig = Rig::in_session(LEGACY);
    rig.say(&call(1));
    let post = rig.sent_one();
    assert!(rig.client.is_awaited(post.key));
    rig.client.handle_signing_in(post.key);
    rig.say(&cancel(1));
    assert_eq!(rig.take_aborted(), [post.key]);
    assert!(!rig.client.handle_sent_again(rig.now, post.key));
    rig.pass(Duration::from_secs(3600));
    assert!(rig.sent().is_empty() && rig.heard().is_empty());
}
