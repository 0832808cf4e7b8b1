//! Clocks of a wrapped connection, on a paused clock.

use rescind_proto::dialect::{acp, mcp};
use serde_json::json;
use tokio::time::Instant;

use super::rig::{SMALL_PIPE, call, note, request, secs, wrapped};

#[tokio::test(start_paused = true)]
async fn a_response_timeout_cancels_at_the_peer_and_ends_the_call() {
    let (mut program, mut peer, _link) =
        wrapped(SMALL_PIPE, |ends| ends.as_client().dialect(&mcp::LATEST_LEGACY).response_timeout(secs(3)));
    let asked = Instant::now();
    program.send(call(1, "silent")).await;
    assert_eq!(peer.receive().await["id"], 1);
    let cancelled = peer.receive().await;
    assert_eq!(cancelled["method"], "notifications/cancelled");
    let ended = program.receive().await;
    assert_eq!((&ended["id"], &ended["error"]["data"]["clock"]), (&json!(1), &json!("response")));
    assert_eq!(asked.elapsed(), secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_waits_for_no_pipe_and_takes_back_what_was_not_written() {
    let (mut program, mut peer, _link) =
        wrapped(64, |ends| ends.as_client().dialect(&mcp::LATEST_LEGACY).total_timeout(secs(3)));
    let filler = json!({"jsonrpc": "2.0", "method": "filler", "params": {"x": "x".repeat(1000)}});
    program.send(filler.clone()).await;
    let asked = Instant::now();
    program.send(call(1, "never written")).await;
    let ended = program.receive().await;
    assert_eq!(ended["error"]["data"]["receipt"]["outcome"], "never_sent", "{ended}");
    assert_eq!(asked.elapsed(), secs(3));
    program.send(note("after")).await;
    assert_eq!(peer.receive().await, filler);
    assert_eq!(peer.receive().await["method"], "after");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_that_is_never_answered_ends_with_the_grace() {
    let (mut program, mut peer, _link) = wrapped(SMALL_PIPE, |ends| ends.as_client().dialect(&acp::V1).grace(secs(2)));
    program.send(request(1, "session/list")).await;
    peer.receive().await;
    let asked = Instant::now();
    program.send(json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}})).await;
    let ended = program.receive().await;
    assert_eq!(ended["error"]["code"], -32800, "{ended}");
    assert_eq!(asked.elapsed(), secs(2));
}
