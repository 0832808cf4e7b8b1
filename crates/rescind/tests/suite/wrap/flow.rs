//! What passes a wrapped connection, and who waits for whom.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use rescind::relay::wrap::Ends as AnyEnds;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::rig::{Ends, SMALL_PIPE, answer, call, connection, note, request, wrapped};

#[tokio::test]
async fn messages_pass_byte_for_byte_both_ways() {
    let (mut program, mut peer, _link) = wrapped(SMALL_PIPE, Ends::as_client);
    let odd =
        b"{ \"id\":1 ,\"jsonrpc\":\"2.0\", \"method\":\"tools/call\",\"params\":{\"n\":1e3,\"s\":\"\\u00e9\"} }\n";
    program.writer.write_all(odd).await.unwrap();
    let mut there = vec![0; odd.len()];
    peer.reader.read_exact(&mut there).await.unwrap();
    assert_eq!(there, odd);
    let odd = b"{\"result\":{\"x\" : [ 1,2 ]},\"jsonrpc\":\"2.0\",\"id\":1}\n";
    peer.writer.write_all(odd).await.unwrap();
    let mut back = vec![0; odd.len()];
    program.reader.read_exact(&mut back).await.unwrap();
    assert_eq!(back, odd);
}

#[tokio::test]
async fn content_length_headers_are_recognised() {
    let (mut program, mut peer, _link) = wrapped(SMALL_PIPE, Ends::as_server);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}).to_string();
    let frame = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    peer.writer.write_all(frame.as_bytes()).await.unwrap();
    let mut there = vec![0; frame.len()];
    program.reader.read_exact(&mut there).await.unwrap();
    assert_eq!(there, frame.as_bytes());
}

/// Both ends say everything before they read anything, a thousand times what the pipe holds.
#[tokio::test]
async fn two_ends_that_write_before_they_read_never_wedge_a_small_pipe() {
    const MANY: usize = 20_000;
    for role in [AnyEnds::as_client, AnyEnds::as_server] {
        let (mut program, mut peer, _link) = wrapped(SMALL_PIPE, role);
        let say_all = |method: &'static str| (0..MANY).map(move |_| format!("{}\n", note(method))).collect::<String>();
        let far = tokio::spawn(async move {
            peer.writer.write_all(say_all("from/peer").as_bytes()).await.unwrap();
            for _ in 0..MANY {
                assert_eq!(peer.receive().await["method"], "from/program");
            }
        });
        program.writer.write_all(say_all("from/program").as_bytes()).await.unwrap();
        for _ in 0..MANY {
            assert_eq!(program.receive().await["method"], "from/peer");
        }
        far.await.unwrap();
    }
}

#[tokio::test]
async fn a_peer_that_does_not_read_pauses_the_programs_output_and_nothing_else() {
    let (mut program, mut peer, link) =
        wrapped(SMALL_PIPE, |ends| ends.as_client().configure(|c| c.max_backlog = 10_000));
    let mut sent = 0;
    let line = format!("{}\n", note("busy"));
    while let Poll::Ready(written) = poll_once(&mut program.writer, line.as_bytes()).await {
        sent += written.unwrap();
    }
    // A short message counts for more than its bytes: the engine keeps a record of each.
    assert!((10_000 / 3..10_000 + 2 * SMALL_PIPE + line.len()).contains(&sent), "{sent} bytes were taken");
    // The other direction flows, and what is in flight can be seen.
    for n in 1..=1000 {
        peer.send(request(n, "sampling/createMessage")).await;
        assert_eq!(program.receive().await["id"], n);
    }
    assert_eq!(link.in_flight().len(), 1000);
    // Once the peer reads, the output goes on: nothing was lost.
    let mut arrived = 0;
    while arrived < sent {
        let mut line = String::new();
        arrived += tokio::io::AsyncBufReadExt::read_line(&mut peer.reader, &mut line).await.unwrap();
    }
    program.send(note("after")).await;
    assert_eq!(peer.receive().await["method"], "after");
}

#[tokio::test]
async fn a_program_that_does_not_read_pauses_the_peer_and_is_heard_all_the_same() {
    let (mut program, mut peer, _link) =
        wrapped(SMALL_PIPE, |ends| ends.as_server().configure(|c| c.max_backlog = 10_000));
    let line = format!("{}\n", note("busy"));
    let mut sent = 0_usize;
    // The peer's pipe is full when nothing more is taken although everybody had a turn.
    let mut refused = 0;
    while refused < 100 {
        match poll_once(&mut peer.writer, &line.as_bytes()[sent % line.len()..]).await {
            Poll::Ready(written) => (sent, refused) = (sent + written.unwrap(), 0),
            Poll::Pending => refused += 1,
        }
        tokio::task::yield_now().await;
    }
    assert!((10_000 / 3..10_000 + 64 * 1024 + 2 * SMALL_PIPE).contains(&sent), "{sent} bytes were taken");
    program.send(note("from/program")).await;
    assert_eq!(peer.receive().await["method"], "from/program");
    for _ in 0..sent / line.len() {
        assert_eq!(program.receive().await["method"], "busy");
    }
}

#[tokio::test]
async fn a_write_that_is_given_up_leaves_no_half_message() {
    let (mut program, mut peer, _link) = wrapped(64, |ends| ends.as_client().configure(|c| c.max_backlog = 100));
    let line = format!("{}\n", note("filler"));
    let mut fillers = 0;
    while poll_once(&mut program.writer, line.as_bytes()).await.is_ready() {
        fillers += 1;
    }
    let long = format!("{}\n", json!({"jsonrpc": "2.0", "method": "given/up", "params": "x".repeat(10_000)}));
    {
        let mut write = Box::pin(program.writer.write_all(long.as_bytes()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(write.as_mut().poll(&mut cx).is_pending());
    }
    for _ in 0..fillers {
        assert_eq!(peer.receive().await["method"], "filler");
    }
    program.send(note("after")).await;
    assert_eq!(peer.receive().await["method"], "after");
}

#[tokio::test]
async fn what_a_dropped_writer_left_unfinished_is_never_sent() {
    let (mut program, mut peer, _link) = wrapped(SMALL_PIPE, Ends::as_client);
    program.send(call(1, "whole")).await;
    program.writer.write_all(br#"{"jsonrpc":"2.0","id":2,"met"#).await.unwrap();
    drop(program.writer);
    let heard = peer.receive_all().await;
    assert_eq!(heard, [call(1, "whole")]);
}

#[tokio::test]
async fn a_driver_can_be_polled_beside_the_program() {
    let (ends, mut peer) = connection(SMALL_PIPE);
    let (mut reader, mut writer, driver) = ends.as_client().split();
    let program = async move {
        writer.write_all(format!("{}\n", call(1, "echo")).as_bytes()).await.unwrap();
        writer.shutdown().await.unwrap();
        let mut heard = String::new();
        reader.read_to_string(&mut heard).await.unwrap();
        serde_json::from_str::<Value>(&heard).unwrap()
    };
    let far = async move {
        let asked = peer.receive().await;
        peer.send(answer(asked["id"].clone(), "done")).await;
        assert_eq!(peer.receive().await, Value::Null);
    };
    let (heard, (), ()) = tokio::join!(program, far, driver);
    assert_eq!(heard, answer(1, "done"));
}

/// One attempt to write, after the others have had a turn.
async fn poll_once(writer: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Poll<std::io::Result<usize>> {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *writer).poll_write(cx, bytes))).await
}
