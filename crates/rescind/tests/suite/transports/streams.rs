//! What holds of every socket.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use rescind::peer::{
    CallError, CauseCode, Clock, ErrorObject, Params, Peer, Transport, dialect::mcp, error_code, transport,
};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, DuplexStream, ReadBuf};

use crate::{
    rig::{Log, builder, request, result, secs, watch, with_work},
    transports::link::{self, KINDS, Kind, listen, serve},
};

fn echo() -> rescind::peer::Builder {
    builder(&mcp::LATEST_LEGACY)
        .on_request("echo", |Params(params): Params<Value>| async move { Ok::<_, ErrorObject>(params) })
}

fn client() -> rescind::peer::Builder {
    Peer::builder(&mcp::LATEST_LEGACY)
}

#[tokio::test]
async fn a_listener_serves_each_connection() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let (listener, address) = listen(kind, &folder).await;
        let listening = tokio::spawn(listener.serve(echo));
        let mut peers = Vec::new();
        for _ in 0..3 {
            let (peer, driver) = client().connect(address.reach().await);
            peers.push((peer, driver.spawn()));
        }
        for (at, (peer, _)) in peers.iter().enumerate() {
            let answer: Value = peer.request("echo", &json!({ "at": at })).await.unwrap();
            assert_eq!(answer["at"], at, "{kind:?}");
        }
        for (peer, driven) in peers {
            drop(peer);
            driven.await.unwrap().unwrap();
        }
        listening.abort();
        assert!(listening.await.unwrap_err().is_cancelled());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the socket's path is gone");
    }
}

#[tokio::test]
async fn a_connection_over_the_limit_waits_for_a_place() {
    let listener = transport::Listener::tcp("127.0.0.1:0").await.unwrap().max_connections(1);
    let address = listener.address().unwrap();
    tokio::spawn(listener.serve(echo));
    let (first, driver) = client().connect(transport::tcp(address).await.unwrap());
    driver.spawn();
    first.request::<Value>("echo", &json!({})).await.unwrap();
    let (second, driver) = client().connect(transport::tcp(address).await.unwrap());
    driver.spawn();
    let waiting = tokio::spawn(second.request::<Value>("echo", &json!({})));
    // A round trip of the first, so that the second had its time.
    first.request::<Value>("echo", &json!({})).await.unwrap();
    assert!(!waiting.is_finished());
    drop(first);
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn dropping_a_listener_closes_what_it_serves() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let (listener, address) = listen(kind, &folder).await;
        let (mut seen, witness) = watch();
        let listening = tokio::spawn(listener.serve(move || with_work(echo(), &witness)));
        let (peer, driver) = client().connect(address.reach().await);
        driver.spawn();
        let call = tokio::spawn(peer.request::<Value>("work", &json!({})));
        seen.started(1).await;
        listening.abort();
        seen.gone(1).await;
        assert!(matches!(call.await.unwrap(), Err(CallError::Closed)), "{kind:?}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_socket_left_behind_is_replaced_and_one_in_use_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    // As by a process that was killed.
    drop(tokio::net::UnixListener::bind(&path).unwrap());
    let listener = transport::Listener::unix(&path).unwrap();
    let error = transport::Listener::unix(&path).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    drop(listener);
    std::fs::write(&path, "precious").unwrap();
    transport::Listener::unix(&path).unwrap_err();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test]
async fn a_cancel_in_flight_stops_the_work() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let (listener, address) = listen(kind, &folder).await;
        let (mut seen, witness) = watch();
        tokio::spawn(listener.serve(move || with_work(echo(), &witness)));
        let (peer, driver) = client().connect(address.reach().await);
        driver.spawn();
        let call = tokio::spawn(peer.request::<Value>("work", &json!({})));
        seen.started(1).await;
        call.abort();
        seen.stopped(1, CauseCode::Caller).await;
        peer.request::<Value>("echo", &json!({})).await.unwrap();
    }
}

#[tokio::test]
async fn half_a_message_is_no_message_and_the_other_half_completes_it() {
    for kind in KINDS {
        let (mut raw, _served) = serve(kind, echo()).await;
        let whole = raw.message(&request(1, "echo", json!({ "text": "whole" })));
        let (first, second) = whole.split_at(whole.len() / 2);
        raw.write(first).await;
        tokio::task::yield_now().await;
        raw.write(second).await;
        assert_eq!(raw.hear().await, result(&json!(1), json!({ "text": "whole" })), "{kind:?}");
    }
}

#[tokio::test]
async fn a_peer_that_dies_within_a_frame_stops_what_it_asked_for() {
    for kind in KINDS {
        let (mut seen, witness) = watch();
        let (mut raw, served) = serve(kind, with_work(echo(), &witness)).await;
        raw.say(&request(1, "work", json!({}))).await;
        seen.started(1).await;
        let half = raw.message(&request(2, "work", json!({})));
        raw.write(&half[..half.len() - 3]).await;
        drop(raw);
        seen.stopped(1, CauseCode::Disconnect).await;
        // Of a frame that breaks off only the WebSocket knows that it did.
        assert_eq!(served.await.unwrap().is_err(), kind == Kind::WebSocket, "{kind:?}");
        assert!(seen.is_quiet(), "half a request is none");
    }
}

#[tokio::test]
async fn the_end_of_input_stops_the_work_and_ends_the_connection() {
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let (listener, address) = listen(kind, &folder).await;
        let (mut seen, witness) = watch();
        let served = tokio::spawn(async move {
            let accepted = listener.accept().await.unwrap();
            with_work(echo(), &witness).serve(accepted).await
        });
        let (peer, driver) = client().connect(address.reach().await);
        let driven = driver.spawn();
        let call = peer.request::<Value>("work", &json!({})).detach();
        seen.started(1).await;
        peer.shutdown();
        seen.stopped(1, CauseCode::Caller).await;
        drop(call);
        driven.await.unwrap().unwrap();
        served.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_message_over_the_limit_is_answered_and_costs_nothing_else() {
    for kind in KINDS.into_iter().filter(|kind| *kind != Kind::WebSocket) {
        let (mut seen, witness) = watch();
        let (mut raw, _served) = serve(kind, with_work(echo(), &witness).max_message(1000)).await;
        raw.say(&request(1, "work", json!({}))).await;
        seen.started(1).await;
        raw.say(&request(2, "echo", json!({ "text": "x".repeat(200_000) }))).await;
        let answer = raw.hear().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(2), &json!(error_code::TOO_LARGE)), "{kind:?}");
        raw.say(&request(3, "echo", json!({}))).await;
        assert_eq!(raw.hear().await["id"], 3);
        assert!(seen.is_quiet(), "the neighbour goes on");
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_stops_reading_delays_nobody_beyond_his_clock() {
    for kind in KINDS {
        let (raw, transport) = link::connect(kind).await;
        let (peer, driver) = client().connect(transport);
        let driven = driver.spawn();
        // More than any socket holds.
        let large = json!({ "text": "x".repeat(16 << 20) });
        let wedged = peer.request::<Value>("echo", &large).response_timeout(secs(3)).send();
        let behind = peer.request::<Value>("echo", &json!({})).response_timeout(secs(1)).send();
        let start = tokio::time::Instant::now();
        let error = behind.await.unwrap_err();
        assert!(matches!(error, CallError::TimedOut { clock: Clock::Response, .. }), "{kind:?}: {error}");
        assert_eq!(start.elapsed().as_secs(), 1, "{kind:?}");
        let error = wedged.await.unwrap_err();
        assert!(matches!(error, CallError::TimedOut { clock: Clock::Response, .. }), "{kind:?}: {error}");
        assert_eq!(start.elapsed().as_secs(), 3, "{kind:?}");
        // Nor does it keep the connection from ending.
        drop(peer);
        driven.await.unwrap().unwrap();
        assert!(start.elapsed() <= secs(15), "{kind:?}");
        drop(raw);
    }
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_has_begun_is_finished_whoever_drops_its_call() {
    for kind in KINDS {
        let (mut raw, transport) = link::connect(kind).await;
        let (peer, driver) = client().connect(transport);
        driver.spawn();
        let large = json!({ "text": "x".repeat(16 << 20) });
        let call = peer.request::<Value>("echo", &large).send();
        // Until the sockets are full and everybody waits.
        tokio::time::sleep(secs(1)).await;
        let is_whole = |message: &Value| message["params"]["text"] == large["text"];
        drop(call);
        peer.notify("notifications/after", &()).await.unwrap();
        if kind == Kind::WebSocket {
            // It is cut into frames there; what counts is that all are there, and in order.
            let mut text = Vec::new();
            loop {
                let first = raw.stream.read_u8().await.unwrap();
                let (last, payload) = raw.rest_of_frame(first).await;
                text.extend(payload);
                if last {
                    break;
                }
            }
            assert!(is_whole(&serde_json::from_slice(&text).unwrap()), "{kind:?}");
        } else {
            assert!(is_whole(&raw.hear().await), "{kind:?}");
        }
        assert_eq!(raw.hear().await["method"], "notifications/cancelled", "{kind:?}");
        assert_eq!(raw.hear().await["method"], "notifications/after", "{kind:?}");
    }
}

/// Counts the writes that something reaches the kernel with.
struct Counted {
    stream: DuplexStream,
    writes: Arc<AtomicUsize>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn two_thousand_messages_leave_in_a_few_writes() {
    for is_socket in [false, true] {
        let (a, b) = tokio::io::duplex(1 << 20);
        let (ours, theirs) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let near = Counted { stream: a, writes: Arc::clone(&ours) };
        let far = Counted { stream: b, writes: Arc::clone(&theirs) };
        let heard = Log::new();
        let log = heard.clone();
        let server = echo().on_notification("note", move |Params(at): Params<usize>| log.add(at));
        let (near, far) = if is_socket {
            let opening = transport::websocket_over("ws://localhost/", near);
            // The opening takes the server's driver.
            let served = tokio::spawn(server.serve(transport::accept_websocket(far)));
            (opening.await.unwrap(), served)
        } else {
            (Transport::joined(near), tokio::spawn(server.serve(Transport::joined(far))))
        };
        let (peer, driver) = client().connect(near);
        for at in 0..1000 {
            peer.notify("note", &at).await.unwrap();
        }
        let calls: Vec<_> = (0..1000).map(|at| peer.request::<usize>("echo", &at).send()).collect();
        let driven = driver.spawn();
        for (at, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap(), at);
        }
        assert_eq!(heard.take(), (0..1000).collect::<Vec<_>>(), "in the order of the wire");
        let (ours, theirs) = (ours.load(Ordering::Relaxed), theirs.load(Ordering::Relaxed));
        assert!(ours <= 100 && theirs <= 100, "socket: {is_socket}, {ours} writes there, {theirs} back");
        drop(peer);
        driven.await.unwrap().unwrap();
        far.await.unwrap().unwrap();
    }
}
