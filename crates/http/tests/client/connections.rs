//! How many connections there are to a server that takes nothing, and that a cancel reaches it all the same.

use std::{
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rescind_http::{
    client::{HttpClientConfig, HttpClientNotice},
    shell::client::{ConnectConfig, Connections, HttpTransport},
};
use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpStream, sync::mpsc};

use crate::{
    raw_server::{Local, RawRequest, RawServer, direct, in_time},
    rig::{LEGACY, call, cancel, initialize, initialized, result},
};

fn bounded(connections: &Connections, patience: Duration) -> ConnectConfig {
    ConnectConfig { connections: connections.clone(), patience, ..direct() }
}

fn open(server: &RawServer, connect: ConnectConfig) -> Local {
    Local(HttpTransport::new(HttpClientConfig::new(&server.url()).unwrap(), connect).unwrap())
}

/// Long enough for whatever the server under test does in time.
const LONG: Duration = Duration::from_secs(60);

/// A server that asks three thousand times as soon as it is called, answers no answer, and reports cancels.
struct Hostile {
    open: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    /// Bodies of answers and cancels, as they arrive.
    arrived: mpsc::UnboundedSender<String>,
}

impl Hostile {
    async fn serve(self, server: RawServer) {
        let hostile = Arc::new(self);
        loop {
            let stream = server.accept_late().await;
            let hostile = Arc::clone(&hostile);
            tokio::spawn(async move {
                let open = hostile.open.fetch_add(1, Ordering::SeqCst) + 1;
                hostile.most.fetch_max(open, Ordering::SeqCst);
                hostile.converse(stream).await;
                hostile.open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    }

    async fn converse(&self, mut stream: TcpStream) {
        loop {
            // A connection that is kept ends without a request.
            if !matches!(stream.peek(&mut [0]).await, Ok(1..)) {
                return;
            }
            let mut request = RawRequest::read(stream).await;
            let body = request.body.clone();
            stream = if request.line.starts_with("GET") {
                request.respond("405 Method Not Allowed", "", "").await
            } else if body.contains("initialize\"") {
                let body = initialized(0, LEGACY).to_string();
                request.respond("200 OK", "content-type: application/json\r\nmcp-session-id: s1\r\n", &body).await
            } else if body.contains("initialized\"") {
                request.respond("202 Accepted", "", "").await
            } else if body.contains("tools/call") {
                request.stream().await;
                for id in 0..3_000 {
                    let event = format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
                    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
                    if request.stream.write_all(chunk.as_bytes()).await.is_err() {
                        return;
                    }
                }
                request.stream
            } else {
                let _ = self.arrived.send(body.clone());
                match body.contains("cancelled") {
                    true => request.respond("202 Accepted", "", "").await,
                    false => request.stream,
                }
            }
        }
    }
}

/// The machine holds back what would be too many, and the connector would, too.
#[tokio::test]
async fn three_thousand_pings_of_a_server_that_takes_no_answer_have_few_connections_and_the_cancel_arrives() {
    for max_posts in [64, usize::MAX] {
        let server = RawServer::new().await;
        let connections = Connections::new(80, 2);
        let mut config = HttpClientConfig::new(&server.url()).unwrap();
        config.max_posts = max_posts;
        config.accept_within = Duration::from_secs(2);
        let (told, mut notices) = mpsc::unbounded_channel();
        let connect = bounded(&connections, LONG);
        let transport = HttpTransport::with_notices(config, connect, move |notice| drop(told.send(notice))).unwrap();
        let mut local = Local(transport);
        let (arrived, mut arrivals) = mpsc::unbounded_channel();
        let most = Arc::new(AtomicUsize::new(0));
        let hostile = Hostile { open: Arc::default(), most: Arc::clone(&most), arrived };
        let serving = tokio::spawn(hostile.serve(server));
        local.say(&initialize(LEGACY));
        local.hear().await;
        local.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        local.say(&call(1));
        for _ in 0..500 {
            let ping = local.hear().await;
            local.say(&json!({"jsonrpc": "2.0", "id": ping["id"], "result": {}}).to_string());
        }
        for _ in 0..64 {
            assert!(in_time(arrivals.recv()).await.unwrap().contains("result"));
        }
        local.say(&cancel(1));
        while in_time(arrivals.recv()).await.unwrap() != cancel(1) {}
        // What was not taken is told.
        let notice = in_time(notices.recv()).await.unwrap();
        assert!(matches!(&notice, HttpClientNotice::NotAccepted { method, .. } if method.is_empty()), "{notice}");
        let most = most.load(Ordering::SeqCst);
        let bound = if max_posts == 64 { 64 + 2 + 3 } else { 80 + 2 };
        assert!(most <= bound, "{most} connections");
        serving.abort();
    }
}

/// As the sessions of a gateway do.
#[tokio::test]
async fn transports_share_a_bound_of_connections_and_a_few_for_cancels() {
    let server = RawServer::new().await;
    let connections = Connections::new(2, 1);
    let mut first = open(&server, bounded(&connections, LONG));
    first.open_session(&server).await;
    let mut second = open(&server, bounded(&connections, Duration::from_millis(100)));
    second.open_session(&server).await;
    first.say(&call(1));
    let mut hanging = vec![server.request().await];
    second.say(&call(2));
    hanging.push(server.request().await);
    // There is no place for a third, in either.
    second.say(&call(3));
    let answer = second.hear().await;
    assert_eq!(answer["id"], 3);
    assert_eq!(answer["error"]["data"]["mayHaveRun"], false);
    let text = answer["error"]["message"].as_str().unwrap();
    assert!(text.ends_with("all 2 connections that may be open are in use"), "{text}");
    // Cancels of both have one.
    first.say(&cancel(1));
    let sent = server.request().await;
    assert_eq!(sent.body, cancel(1));
    let is_open = |call: &RawRequest| call.stream.try_read(&mut [0]).unwrap_err().kind() == ErrorKind::WouldBlock;
    assert!(hanging.iter().all(is_open), "it came while all other places were taken");
    sent.respond("202 Accepted", "connection: close\r\n", "").await;
    second.say(&cancel(2));
    let sent = server.request().await;
    assert_eq!(sent.body, cancel(2));
    sent.respond("202 Accepted", "connection: close\r\n", "").await;
    // What has ended makes room.
    for call in hanging {
        call.respond_json(&result(0)).await;
    }
    second.say(&call(4));
    assert_eq!(server.request().await.body, call(4));
}

/// None is lost: it waits until the ones before it are taken.
#[tokio::test]
async fn a_cancel_waits_for_cancels_that_hang_and_arrives() {
    let server = RawServer::new().await;
    let mut local = open(&server, bounded(&Connections::new(8, 1), LONG));
    local.open_session(&server).await;
    let mut calls = Vec::new();
    for id in 1..=2 {
        local.say(&call(id));
        let mut post = server.request().await;
        post.stream().await;
        post.event(&crate::rig::progress(id)).await;
        local.hear().await;
        calls.push(post);
    }
    local.say(&cancel(1));
    let hanging = server.request().await;
    assert_eq!(hanging.body, cancel(1));
    local.say(&cancel(2));
    let connection = hanging.respond("202 Accepted", "", "").await;
    assert_eq!(RawRequest::read(connection).await.body, cancel(2));
}
