//! How a wrapped connection ends (D27, D35), from whichever end.

use std::{
    io::{self, ErrorKind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use rescind_proto::dialect::{acp, mcp};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};

use super::rig::{Ends, SMALL_PIPE, answer, call, connection, note, request, secs, wrapped};

#[tokio::test]
async fn a_server_that_ends_leaves_no_call_hanging() {
    let (mut program, mut peer, link) = wrapped(SMALL_PIPE, |ends| ends.as_client().dialect(&mcp::LATEST_LEGACY));
    program.send(call(1, "answered")).await;
    program.send(call(2, "left")).await;
    assert_eq!(peer.receive().await["id"], 1);
    peer.send(answer(1, "done")).await;
    drop(peer);
    assert_eq!(program.receive().await, answer(1, "done"));
    let failed = program.receive().await;
    assert_eq!(failed["id"], 2);
    assert!(failed["error"]["message"].as_str().unwrap().contains("closed its output"), "{failed}");
    assert_eq!(program.receive().await, Value::Null);
    assert_eq!(program.writer.write(b"{}\n").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    link.closed().await;
    assert!(link.in_flight().is_empty());
}

#[tokio::test]
async fn a_client_that_ends_cancels_what_it_asked_before_the_server_sees_the_end() {
    let (mut program, mut peer, _link) = wrapped(SMALL_PIPE, |ends| ends.as_server().dialect(&mcp::LATEST_LEGACY));
    peer.send(call(1, "a")).await;
    peer.send(call(2, "b")).await;
    for id in 1..=2 {
        assert_eq!(program.receive().await["id"], id);
    }
    drop(peer);
    for id in 1..=2 {
        let cancelled = program.receive().await;
        assert_eq!(cancelled["method"], "notifications/cancelled");
        assert_eq!(cancelled["params"]["requestId"], id);
    }
    assert_eq!(program.receive().await, Value::Null);
}

#[tokio::test]
async fn what_a_server_has_not_read_when_its_client_ends_never_starts() {
    let (mut program, mut peer, _link) = wrapped(SMALL_PIPE, |ends| ends.as_server().dialect(&mcp::LATEST_LEGACY));
    peer.send(note("before")).await;
    peer.send(call(1, "unread")).await;
    drop(peer);
    assert_eq!(program.receive().await["method"], "before");
    assert_eq!(program.receive().await, Value::Null);
}

/// In a dialect that answers cancels, a client that closed only its output still gets its answers.
#[tokio::test]
async fn a_client_that_only_stops_talking_is_still_answered() {
    let (mut program, mut peer, link) = wrapped(SMALL_PIPE, |ends| ends.as_server().dialect(&acp::V1));
    peer.send(request(1, "session/list")).await;
    program.receive().await;
    peer.writer.shutdown().await.unwrap();
    assert_eq!(program.receive().await["method"], "$/cancel_request");
    assert_eq!(program.receive().await, Value::Null);
    program.send(answer(1, "what there was")).await;
    drop(program);
    assert_eq!(peer.receive_all().await, [answer(1, "what there was")]);
    link.closed().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_may_be_given_time_to_finish_what_a_client_left() {
    let (mut program, mut peer, _link) =
        wrapped(SMALL_PIPE, |ends| ends.as_server().dialect(&mcp::LATEST_LEGACY).drain_on_eof(secs(10)));
    peer.send(call(1, "quick")).await;
    peer.writer.shutdown().await.unwrap();
    assert_eq!(program.receive().await["id"], 1);
    program.send(answer(1, "done")).await;
    assert_eq!(program.receive().await, Value::Null);
    assert_eq!(peer.receive().await, answer(1, "done"));
}

#[tokio::test(start_paused = true)]
async fn the_time_to_finish_ends_with_a_cancel() {
    let (mut program, mut peer, _link) =
        wrapped(SMALL_PIPE, |ends| ends.as_server().dialect(&mcp::LATEST_LEGACY).drain_on_eof(secs(10)));
    let asked = tokio::time::Instant::now();
    peer.send(call(1, "slow")).await;
    peer.writer.shutdown().await.unwrap();
    assert_eq!(program.receive().await["id"], 1);
    assert_eq!(program.receive().await["method"], "notifications/cancelled");
    assert!(asked.elapsed() >= secs(10));
    assert_eq!(program.receive().await, Value::Null);
}

#[tokio::test]
async fn a_client_program_that_drops_its_writer_still_reads_its_answers() {
    let (mut program, mut peer, link) = wrapped(SMALL_PIPE, |ends| ends.as_client().dialect(&mcp::LATEST_LEGACY));
    program.send(call(1, "last")).await;
    drop(program.writer);
    // A relay sends no cancels at the client's end (D27): the server decides.
    assert_eq!(peer.receive_all().await, [call(1, "last")]);
    peer.send(answer(1, "done")).await;
    drop(peer);
    let mut heard = String::new();
    program.reader.read_to_string(&mut heard).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&heard).unwrap(), answer(1, "done"));
    drop(program.reader);
    link.closed().await;
}

#[tokio::test]
async fn a_server_program_that_drops_its_writer_leaves_no_client_hanging() {
    let (mut program, mut peer, link) = wrapped(SMALL_PIPE, |ends| ends.as_server().dialect(&mcp::LATEST_LEGACY));
    peer.send(call(1, "left")).await;
    program.receive().await;
    drop(program.writer);
    let failed = peer.receive().await;
    assert_eq!(failed["id"], 1);
    assert!(failed["error"].is_object(), "{failed}");
    assert_eq!(peer.receive().await, Value::Null);
    link.closed().await;
}

#[tokio::test]
async fn a_program_that_drops_its_reader_can_still_say_its_last_words() {
    let (mut program, mut peer, link) = wrapped(SMALL_PIPE, |ends| ends.as_client().dialect(&mcp::LATEST_LEGACY));
    drop(program.reader);
    program.writer.write_all(format!("{}\n", note("goodbye")).as_bytes()).await.unwrap();
    drop(program.writer);
    assert_eq!(peer.receive_all().await, [note("goodbye")]);
    link.closed().await;
}

#[tokio::test]
async fn everything_written_before_the_halves_were_dropped_arrives() {
    const MANY: usize = 5000;
    let (mut program, mut peer, link) = wrapped(64, Ends::as_client);
    for _ in 0..MANY {
        program.send(note("said")).await;
    }
    drop(program);
    let reading = tokio::spawn(async move { peer.receive_all().await.len() });
    link.closed().await;
    assert_eq!(reading.await.unwrap(), MANY);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_reads_the_last_words_is_not_waited_for() {
    let (mut program, _peer, link) = wrapped(64, Ends::as_client);
    for _ in 0..100 {
        program.send(note("said")).await;
    }
    drop(program);
    link.closed().await;
}

#[tokio::test]
async fn dropping_the_driver_ends_the_connection_at_both_ends() {
    let (ends, mut peer) = connection(SMALL_PIPE);
    let (reader, writer, driver) = ends.as_client().dialect(&mcp::LATEST_LEGACY).split();
    let link = driver.handle();
    let mut program = super::rig::Lines { reader: tokio::io::BufReader::new(reader), writer };
    let driving = tokio::spawn(driver);
    program.send(call(1, "left")).await;
    peer.receive().await;
    driving.abort();
    assert_eq!(peer.receive().await, Value::Null);
    let failed = program.receive().await;
    assert_eq!(failed["id"], 1);
    assert!(failed["error"].is_object(), "{failed}");
    assert_eq!(program.receive().await, Value::Null);
    assert_eq!(program.writer.write(b"{}\n").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    link.closed().await;
}

#[tokio::test]
async fn a_client_that_reads_no_more_is_gone_for_the_server() {
    let (reading, mut to_program) = tokio::io::duplex(SMALL_PIPE);
    let (writing, from_program) = tokio::io::duplex(SMALL_PIPE);
    let wrap = rescind::relay::wrap(reading, writing).as_server().dialect(&mcp::LATEST_LEGACY);
    let (reader, writer, _link) = wrap.spawn();
    let mut program = super::rig::Lines { reader: tokio::io::BufReader::new(reader), writer };
    to_program.write_all(format!("{}\n", call(1, "long")).as_bytes()).await.unwrap();
    assert_eq!(program.receive().await["id"], 1);
    drop(from_program);
    program.send(note("progress")).await;
    assert_eq!(program.receive().await["method"], "notifications/cancelled");
    assert_eq!(program.receive().await, Value::Null);
}

/// A child's stdin is such a writer: its shutdown does nothing.
struct ClosesByDrop(DuplexStream);

impl AsyncWrite for ClosesByDrop {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_writer_that_closes_only_by_being_dropped_is_dropped() {
    let (reading, mut to_program) = tokio::io::duplex(SMALL_PIPE);
    let (writing, mut from_program) = tokio::io::duplex(SMALL_PIPE);
    let (mut reader, mut writer, link) = rescind::relay::wrap(reading, ClosesByDrop(writing)).as_client().spawn();
    writer.write_all(format!("{}\n", note("last")).as_bytes()).await.unwrap();
    drop(writer);
    let mut heard = String::new();
    from_program.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, format!("{}\n", note("last")));
    // The other direction is open as long as the server wants.
    to_program.write_all(format!("{}\n", note("reply")).as_bytes()).await.unwrap();
    drop(to_program);
    heard.clear();
    reader.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, format!("{}\n", note("reply")));
    link.closed().await;
}

/// It takes the first write, and of each later one nothing, without an error.
struct TakesOne {
    first: Option<DuplexStream>,
    refused: Arc<AtomicUsize>,
}

impl AsyncWrite for TakesOne {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(mut first) = self.first.take() {
            return Pin::new(&mut first).poll_write(cx, buf);
        }
        let before = self.refused.fetch_add(1, Ordering::Relaxed);
        assert!(before < 10, "it is asked again and again");
        Poll::Ready(Ok(0))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_writer_that_takes_no_bytes_is_asked_once_and_what_still_comes_is_read() {
    let (reading, mut to_program) = tokio::io::duplex(SMALL_PIPE);
    let (writing, mut from_program) = tokio::io::duplex(SMALL_PIPE);
    let refused = Arc::new(AtomicUsize::new(0));
    let writing = TakesOne { first: Some(writing), refused: Arc::clone(&refused) };
    let (reader, writer, link) =
        rescind::relay::wrap(reading, writing).as_client().dialect(&mcp::LATEST_LEGACY).spawn();
    let mut program = super::rig::Lines { reader: tokio::io::BufReader::new(reader), writer };
    program.send(call(1, "sent")).await;
    let mut heard = String::new();
    from_program.read_to_string(&mut heard).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&heard).unwrap(), call(1, "sent"));
    program.send(call(2, "not sent")).await;
    to_program.write_all(format!("{}\n", answer(1, "done")).as_bytes()).await.unwrap();
    assert_eq!(program.receive().await, answer(1, "done"));
    drop(to_program);
    let failed = program.receive().await;
    assert_eq!(failed["id"], 2);
    assert!(failed["error"].is_object(), "{failed}");
    assert_eq!(program.receive().await, Value::Null);
    link.closed().await;
    assert_eq!(refused.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_link_is_waited_for_until_both_its_ends_have_gone() {
    let (program, peer, link) = wrapped(SMALL_PIPE, |ends| ends.as_server().dialect(&mcp::LATEST_LEGACY));
    let mut closed = std::pin::pin!(link.closed());
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(closed.as_mut().poll(&mut cx).is_pending());
    drop((program, peer));
    tokio::time::timeout(secs(10), closed).await.unwrap();
}
