//! Cancels through a wrapped connection: each hits its own request, or nothing.

use std::{
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use rescind::relay::wrap::Handle;
use rescind_proto::{
    dialect::mcp,
    id::RequestId,
    receipt::Outcome,
    relay::{RelayEvent, RequestState},
    rule::Rule,
    side::Side,
};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, sync::mpsc};

use super::rig::{SMALL_PIPE, answer, call, cancel, note, request, secs, wrapped};

#[tokio::test]
async fn a_cancel_written_before_its_request_stops_it_before_it_starts() {
    let (mut program, mut peer, _link) = wrapped(SMALL_PIPE, |ends| ends.as_client().dialect(&mcp::LATEST_LEGACY));
    program.send(cancel(1, "early")).await;
    program.send(call(1, "long")).await;
    program.send(note("barrier")).await;
    assert_eq!(peer.receive().await["method"], "barrier");
}

#[tokio::test]
async fn an_id_used_again_after_a_cancel_gets_the_new_calls_result() {
    let (mut program, mut peer, _link) =
        wrapped(SMALL_PIPE, |ends| ends.as_server().dialect(&mcp::REVISION_2025_06_18));
    peer.send(call(7, "old")).await;
    let old = program.receive().await["id"].clone();
    peer.send(cancel(7, "changed my mind")).await;
    assert_eq!(program.receive().await["params"]["requestId"], old);
    peer.send(call(7, "new")).await;
    let new = program.receive().await["id"].clone();
    assert_ne!(old, new, "the server must be able to tell them apart");
    program.send(answer(old, "old")).await;
    program.send(answer(new, "new")).await;
    assert_eq!(peer.receive().await, answer(7, "new"));
}

#[tokio::test]
async fn a_duplicate_id_is_refused_and_the_first_keeps_its_answer() {
    let (mut program, mut peer, _link) = wrapped(SMALL_PIPE, |ends| ends.as_server().dialect(&mcp::LATEST_LEGACY));
    peer.send(call(1, "first")).await;
    peer.send(call(1, "second")).await;
    // An error under the id of a request in flight would end that one: nothing but a nameless refusal is said.
    let refusal = peer.receive().await;
    assert_eq!(refusal["error"]["code"], -32600, "{refusal}");
    assert_eq!(program.receive().await["params"]["name"], "first");
    program.send(answer(1, "of the first")).await;
    assert_eq!(peer.receive().await, answer(1, "of the first"));
}

#[tokio::test]
async fn a_request_that_waits_for_a_full_pipe_is_withdrawn_with_its_cancel() {
    let (mut program, mut peer, link) = wrapped(64, |ends| ends.as_client().dialect(&mcp::LATEST_LEGACY));
    let long = json!({"jsonrpc": "2.0", "method": "filler", "params": {"x": "x".repeat(1000)}});
    program.send(long.clone()).await;
    program.send(call(1, "waits")).await;
    assert_eq!(link.in_flight()[0].state, RequestState::Queued);
    program.send(cancel(1, "no")).await;
    assert!(link.in_flight().is_empty());
    program.send(note("after")).await;
    assert_eq!(peer.receive().await, long);
    assert_eq!(peer.receive().await["method"], "after");
}

#[tokio::test]
async fn a_cancel_passes_what_waits_for_a_full_pipe() {
    let (mut program, mut peer, _link) = wrapped(64, |ends| ends.as_client().dialect(&mcp::LATEST_LEGACY));
    program.send(call(1, "long")).await;
    assert_eq!(peer.receive().await["id"], 1);
    let filler = json!({"jsonrpc": "2.0", "method": "filler", "params": {"x": "x".repeat(1000)}});
    for _ in 0..10 {
        program.send(filler.clone()).await;
    }
    program.send(cancel(1, "now")).await;
    // At most the one that is being written comes first.
    let mut before = 0;
    while peer.receive().await["method"] == "filler" {
        before += 1;
    }
    assert!(before <= 1, "{before} messages came before the cancel");
}

#[tokio::test(start_paused = true)]
async fn the_handle_shows_what_is_in_flight_in_both_directions_and_for_how_long() {
    let (mut program, mut peer, link) = wrapped(SMALL_PIPE, |ends| ends.as_client().dialect(&mcp::LATEST_LEGACY));
    program.send(call("a", "long")).await;
    peer.receive().await;
    tokio::time::advance(secs(3)).await;
    peer.send(request(9, "roots/list")).await;
    program.receive().await;
    tokio::time::advance(secs(2)).await;
    let seen = link.in_flight();
    let brief: Vec<_> = seen.iter().map(|r| (r.from, r.id.to_string(), &*r.method, r.age, r.state)).collect();
    assert_eq!(
        brief,
        [
            (Side::Client, RequestId::string("a").to_string(), "tools/call", secs(5), RequestState::Sent),
            (Side::Server, RequestId::integer(9).to_string(), "roots/list", secs(2), RequestState::Sent),
        ]
    );
}

/// D30.
#[tokio::test]
async fn the_handle_counts_the_rules_that_each_side_broke() {
    let (mut program, mut peer, link) = wrapped(SMALL_PIPE, |ends| ends.as_client().dialect(&mcp::LATEST));
    program.send(call(1, "long")).await;
    peer.receive().await;
    peer.send(cancel(1, "not the server's to send")).await;
    peer.send(note("after")).await;
    assert_eq!(program.receive().await["method"], "after");
    assert_eq!(link.violations(Side::Server), [(Rule::McpM01, 1)].into());
    assert!(link.violations(Side::Client).is_empty());
    assert_eq!(link.in_flight().len(), 1, "and its cancel did nothing");
}

#[tokio::test]
async fn an_operator_stops_a_request_at_both_ends() {
    let (mut program, mut peer, link) = wrapped(SMALL_PIPE, |ends| ends.as_client().dialect(&mcp::LATEST_LEGACY));
    program.send(call(1, "long")).await;
    peer.receive().await;
    let running = link.in_flight().remove(0);
    assert!(link.stop(running.key, Some("too expensive")));
    let told = peer.receive().await;
    assert_eq!(
        (&told["method"], &told["params"]["reason"]),
        (&json!("notifications/cancelled"), &json!("too expensive"))
    );
    let ended = program.receive().await;
    assert_eq!((&ended["id"], ended["error"]["data"]["receipt"]["cause"].as_str()), (&json!(1), Some("operator")));
    assert!(!link.stop(running.key, None), "it is over");
    // The answer that still comes is nobody's.
    peer.send(answer(1, "late")).await;
    peer.send(note("after")).await;
    assert_eq!(program.receive().await["method"], "after");
}

#[tokio::test]
async fn receipts_are_told_in_order_to_an_observer_that_may_use_the_handle() {
    let (tx, mut rx) = mpsc::unbounded_channel();
    let link: Arc<OnceLock<Handle>> = Arc::default();
    let seen = Arc::clone(&link);
    let observer = move |event| {
        let in_flight = seen.get().map_or(0, |link: &Handle| link.in_flight().len());
        if let RelayEvent::Receipt { receipt, .. } = event {
            let _ = tx.send((receipt.outcome, receipt.cause.text().map(str::to_owned), in_flight));
        }
    };
    let (mut program, mut peer, handle) =
        wrapped(SMALL_PIPE, |ends| ends.as_client().dialect(&mcp::LATEST_LEGACY).on_event(observer));
    link.set(handle).unwrap();
    program.send(call(1, "long")).await;
    peer.receive().await;
    program.send(cancel(1, "enough")).await;
    peer.receive().await;
    let reason = Some("enough".to_owned());
    assert_eq!(rx.recv().await, Some((Outcome::Asked, reason.clone(), 0)));
    assert_eq!(rx.recv().await, Some((Outcome::Sent, reason, 0)));
}

#[tokio::test]
async fn a_limit_below_the_librarys_own_refuses_at_once_and_lets_the_cancel_through() {
    let (mut program, mut peer, _link) =
        wrapped(SMALL_PIPE, |ends| ends.as_server().dialect(&mcp::LATEST_LEGACY).max_in_flight(2));
    for id in 1..=3 {
        peer.send(call(id, "long")).await;
    }
    let refused = peer.receive().await;
    assert_eq!(refused["id"], 3);
    assert!(refused["error"].is_object(), "{refused}");
    for id in 1..=2 {
        assert_eq!(program.receive().await["id"], id);
    }
    peer.send(cancel(1, "make room")).await;
    assert_eq!(program.receive().await["params"]["requestId"], 1);
    peer.send(call(4, "long")).await;
    assert_eq!(program.receive().await["id"], 4);
}

/// A flood of bad input makes events, not debt: they are bounded, and all of them are told.
#[tokio::test]
async fn a_flood_of_cancels_for_nothing_is_told_and_loses_nothing() {
    const MANY: usize = 20_000;
    let told = Arc::new(Mutex::new(0));
    let count = Arc::clone(&told);
    let (mut program, mut peer, _link) = wrapped(SMALL_PIPE, |ends| {
        let wrap = ends.as_client().dialect(&mcp::REVISION_2025_06_18);
        wrap.on_event(move |_| *count.lock().unwrap() += 1)
    });
    let bad = format!("{}\n", json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}}));
    for _ in 0..MANY {
        program.writer.write_all(bad.as_bytes()).await.unwrap();
    }
    program.send(note("after")).await;
    assert_eq!(peer.receive().await["method"], Value::from("after"));
    tokio::task::yield_now().await;
    assert_eq!(*told.lock().unwrap(), MANY);
}

/// A library whose callers race for the pipe: every cancel is ahead of its request, as far as a busy machine parts them.
#[tokio::test(start_paused = true)]
async fn as_many_cancels_as_may_be_in_flight_are_held_for_their_requests_of_the_wrapped_library() {
    const CALLERS: u64 = 8000;
    let (mut program, mut peer, link) = wrapped(SMALL_PIPE, |ends| ends.as_client().dialect(&mcp::LATEST_LEGACY));
    for id in 0..CALLERS {
        program.send(cancel(id, "early")).await;
    }
    tokio::time::sleep(Duration::from_millis(9_900)).await;
    for id in 0..CALLERS {
        program.send(call(id, "long")).await;
    }
    program.send(note("barrier")).await;
    assert_eq!(peer.receive().await["method"], "barrier", "none of them starts");
    assert!(link.in_flight().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_peer_of_a_wrapped_library_is_a_stranger_whose_early_cancels_are_few_and_short() {
    let (mut program, mut peer, _link) = wrapped(SMALL_PIPE, |ends| ends.as_server().dialect(&mcp::LATEST_LEGACY));
    for id in 0..=64 {
        peer.send(cancel(id, "early")).await;
    }
    for id in 0..=64 {
        peer.send(call(id, "long")).await;
    }
    assert_eq!(program.receive().await["id"], 64, "64 are held");
    peer.send(cancel(65, "early")).await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    peer.send(call(65, "long")).await;
    assert_eq!(program.receive().await["id"], 65, "for 250 ms");
}
