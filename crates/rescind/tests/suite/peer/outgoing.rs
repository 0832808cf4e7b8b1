//! Our requests, and what ends them.

use std::time::Duration;

use rescind::peer::{
    CallError, CauseCode, Clock, Dialect, Outcome, Rule,
    dialect::{acp, lsp, mcp},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::rig::{
    DIALECTS, Log, Wire, builder, connect, connect_small, error, is_cancel, millis, notification, request, result, secs,
};

/// Everything our peer said so far: a request of the test's is answered after it.
async fn said(wire: &mut Wire) -> Vec<Value> {
    wire.so_far().await
}

fn cancels<'a>(said: &'a [Value], dialect: &Dialect) -> Vec<&'a Value> {
    said.iter().filter(|message| message["method"] == dialect.cancel.method).collect()
}

/// Case 25, 37.
#[tokio::test(start_paused = true)]
async fn dropping_a_call_sends_exactly_one_cancel_behind_its_request() {
    for dialect in DIALECTS {
        let (mut wire, peer, _driven) = connect(builder(dialect)).await;
        let call = peer.request::<Value>("tools/call", &json!({})).send();
        let id = wire.hear().await["id"].clone();
        drop(call);
        let said = said(&mut wire).await;
        assert_eq!(said.len(), 1, "{}: {said:?}", dialect.name);
        assert!(is_cancel(&said[0], dialect, &id), "{}: {said:?}", dialect.name);
    }
}

/// Case 23.
#[tokio::test(start_paused = true)]
async fn a_call_cancelled_before_it_was_made_sends_nothing() {
    for dialect in DIALECTS {
        let (mut wire, peer, _driven) = connect(builder(dialect)).await;
        let token = CancellationToken::new();
        token.cancel();
        let ended = peer.request::<Value>("work", &()).token(token).await;
        assert!(matches!(ended, Err(CallError::Cancelled(cause)) if cause.code == CauseCode::Caller));
        let call = peer.request::<Value>("work", &());
        let stop = call.handle();
        let receipt = stop.cancel("too late").await;
        assert_eq!(receipt.outcome, Outcome::NeverSent);
        assert!(call.await.unwrap_err().is_cancelled());
        drop(peer.request::<Value>("work", &()));
        assert_eq!(said(&mut wire).await, Vec::<Value>::new(), "{}", dialect.name);
    }
}

/// Case 24.
#[tokio::test(start_paused = true)]
async fn cancelled_while_the_pipe_is_blocked_the_caller_returns_and_the_wire_has_both_or_neither() {
    for dialect in DIALECTS {
        let (mut wire, peer, _driven) = connect_small(builder(dialect), 256).await;
        let big = json!({ "text": "x".repeat(1000) });
        let begun = peer.request::<Value>("begun", &big).send();
        tokio::task::yield_now().await;
        let waiting = peer.request::<Value>("waiting", &big).send();
        let (begun_stop, waiting_stop) = (begun.handle(), waiting.handle());
        drop(begun_stop.cancel("now"));
        let receipt = waiting_stop.cancel("now");
        assert!(begun.await.unwrap_err().is_cancelled());
        assert!(waiting.await.unwrap_err().is_cancelled());
        assert_eq!(receipt.await.outcome, Outcome::NeverSent);
        // Only now does the peer read.
        let asked = wire.hear().await;
        assert_eq!(asked["method"], "begun");
        let cancel = wire.hear().await;
        assert!(is_cancel(&cancel, dialect, &asked["id"]), "{}: {cancel}", dialect.name);
        assert_eq!(said(&mut wire).await, Vec::<Value>::new());
    }
}

/// Case 26.
#[tokio::test(start_paused = true)]
async fn an_answer_that_arrived_wins_and_no_cancel_is_sent() {
    for dialect in DIALECTS {
        let (mut wire, peer, _driven) = connect(builder(dialect)).await;
        let call = peer.request::<Value>("work", &()).send();
        let id = wire.hear().await["id"].clone();
        wire.say(&result(&id, json!({ "done": true }))).await;
        assert_eq!(said(&mut wire).await, Vec::<Value>::new());
        let stop = call.handle();
        let receipt = stop.cancel("too late").await;
        assert_eq!(receipt.outcome, Outcome::CompletedFirst);
        assert_eq!(call.await.unwrap(), json!({ "done": true }));
        let call = peer.request::<Value>("work", &()).send();
        let id = wire.hear().await["id"].clone();
        wire.say(&result(&id, json!({}))).await;
        assert_eq!(said(&mut wire).await, Vec::<Value>::new());
        drop(call);
        assert_eq!(said(&mut wire).await, Vec::<Value>::new(), "{}", dialect.name);
    }
}

/// Case 27, 31, 33.
#[tokio::test(start_paused = true)]
async fn a_clock_sends_one_cancel_and_ends_the_call_with_its_own_error() {
    for dialect in DIALECTS {
        let (mut wire, peer, _driven) = connect(builder(dialect)).await;
        for (clock, limit) in [(Clock::Response, millis(300)), (Clock::Total, millis(400))] {
            let call = peer.request::<Value>("work", &json!({})).response_timeout(secs(9));
            let call = match clock {
                Clock::Response => call.response_timeout(limit),
                Clock::Total => call.total_timeout(limit),
            };
            let start = tokio::time::Instant::now();
            let call = tokio::spawn(call);
            let id = wire.hear().await["id"].clone();
            let cancel = wire.hear().await;
            assert!(is_cancel(&cancel, dialect, &id), "{}: {cancel}", dialect.name);
            let ended = call.await.unwrap();
            assert!(
                matches!(ended, Err(CallError::TimedOut { clock: which, after }) if which == clock && after == limit),
                "{}: {ended:?}",
                dialect.name
            );
            assert!(start.elapsed() < limit + millis(10), "the virtual clock");
        }
    }
}

/// Case 27, 33.
#[tokio::test(start_paused = true)]
async fn a_timeout_counts_from_the_call_whatever_the_pipe_and_the_caller_do() {
    let (_wire, peer, _driven) = connect_small(builder(&mcp::LATEST), 64).await;
    let blocked = peer.request::<Value>("work", &json!({ "text": "x".repeat(500) })).send();
    let call = peer.request::<Value>("work", &()).response_timeout(millis(300));
    tokio::time::sleep(millis(200)).await;
    let start = tokio::time::Instant::now();
    assert!(matches!(call.await, Err(CallError::TimedOut { .. })));
    assert!((millis(99)..millis(103)).contains(&start.elapsed()), "{:?}", start.elapsed());
    let late = peer.request::<Value>("work", &()).response_timeout(millis(300));
    tokio::time::sleep(millis(400)).await;
    assert!(matches!(late.await, Err(CallError::TimedOut { .. })), "its time was up before it was sent");
    drop(blocked);
}

/// Case 28.
#[tokio::test(start_paused = true)]
async fn the_callers_cancel_beats_the_timeout() {
    let (mut wire, peer, _driven) = connect(builder(&acp::V1)).await;
    let call = peer.request::<Value>("work", &()).response_timeout(millis(300)).send();
    wire.hear().await;
    let call = tokio::spawn(call.cancel_and_wait("enough", secs(1)));
    assert!(wire.hear().await["params"].is_object());
    let ended = call.await.unwrap();
    assert!(matches!(ended, Err(CallError::Cancelled(cause)) if cause.text() == Some("enough")));
}

/// Case 29.
#[tokio::test(start_paused = true)]
async fn the_dialects_timeout_is_the_default_and_a_call_can_have_its_own_or_none() {
    let (mut wire, peer, _driven) = connect(builder(&mcp::LATEST_LEGACY)).await;
    let start = tokio::time::Instant::now();
    let calls = [
        tokio::spawn(peer.request::<Value>("work", &())),
        tokio::spawn(peer.request::<Value>("work", &()).response_timeout(secs(10))),
        tokio::spawn(peer.request::<Value>("work", &()).without_timeouts()),
    ];
    for _ in 0..3 {
        wire.hear().await;
    }
    let [default, own, none] = calls;
    assert!(matches!(own.await.unwrap(), Err(CallError::TimedOut { .. })));
    assert_eq!(start.elapsed().as_secs(), 10);
    assert!(matches!(default.await.unwrap(), Err(CallError::TimedOut { .. })));
    assert_eq!(start.elapsed().as_secs(), 60);
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    assert!(!none.is_finished());
}

/// Case 30, 31.
#[tokio::test(start_paused = true)]
async fn progress_resets_the_response_clock_only_if_asked_and_never_the_total() {
    for asked in [false, true] {
        let (mut wire, peer, _driven) = connect(builder(&mcp::LATEST)).await;
        let seen = Log::new();
        let log = seen.clone();
        let params = json!({ "_meta": { "progressToken": "mine" } });
        let call = peer.request::<Value>("work", &params).response_timeout(secs(2)).total_timeout(secs(5));
        let call = if asked { call.progress(move |progress| log.add(progress.done())) } else { call };
        let start = tokio::time::Instant::now();
        let call = tokio::spawn(call);
        wire.hear().await;
        for done in 1..10 {
            tokio::time::sleep(millis(1100)).await;
            let progress = json!({ "progressToken": "mine", "progress": done });
            wire.say(&notification("notifications/progress", progress)).await;
        }
        let ended = call.await.unwrap();
        let (which, after) = if asked { (Clock::Total, 5) } else { (Clock::Response, 2) };
        assert!(matches!(ended, Err(CallError::TimedOut { clock, .. }) if clock == which), "{ended:?}");
        assert!(start.elapsed().as_secs() >= after);
        assert_eq!(seen.take(), if asked { vec![Some(1.0), Some(2.0), Some(3.0), Some(4.0)] } else { vec![] });
    }
}

/// Case 32.
#[tokio::test(start_paused = true)]
async fn late_answers_and_progress_are_quiet_and_counted() {
    for dialect in DIALECTS {
        let (mut wire, peer, _driven) = connect(builder(dialect)).await;
        for late_error in [false, true] {
            let before = peer.counters();
            let call = peer.request::<Value>("work", &()).progress(|_| ()).send();
            let asked = wire.hear().await;
            drop(call);
            let answer = if late_error { error(&asked["id"], -32000) } else { result(&asked["id"], json!({})) };
            wire.say(&answer).await;
            said(&mut wire).await;
            assert_eq!(peer.counters().late, before.late + 1, "{}", dialect.name);
        }
        let before = peer.counters().refused;
        wire.say(&result(&json!(4711), json!({}))).await;
        said(&mut wire).await;
        assert_eq!(peer.counters().refused, before + 1, "{}: nobody asked that", dialect.name);
    }
}

/// D30.
#[tokio::test(start_paused = true)]
async fn the_counters_tell_what_passed_and_which_rules_the_peer_broke() {
    let (mut wire, peer, driven) = connect(builder(&mcp::LATEST_LEGACY)).await;
    let before = peer.counters();
    let call = peer.request::<Value>("work", &()).send();
    let asked = wire.hear().await;
    for _ in 0..3 {
        wire.say(&request(json!(1), "ping", json!({}))).await;
        wire.hear().await;
    }
    drop(call);
    assert!(is_cancel(&wire.hear().await, &mcp::LATEST_LEGACY, &asked["id"]));
    wire.say(&notification("notifications/cancelled", json!({ "requestId": true }))).await;
    wire.say(&notification("notifications/cancelled", json!({ "requestId": 1 }))).await;
    assert_eq!(wire.close().await, Vec::<Value>::new());
    driven.await.unwrap().unwrap();
    // Read when all is over: until the driver runs again, what the test has heard need not have been counted.
    let counters = peer.counters();
    assert_eq!((counters.sent - before.sent, counters.received - before.received), (5, 5));
    let cancels = (counters.cancels_sent, counters.cancels_received, counters.malformed_cancels);
    assert_eq!(cancels, (1, 2, 1));
    assert_eq!(counters.violations, [(Rule::McpI02, 2)].into());
}

/// Case 34.
#[tokio::test(start_paused = true)]
async fn a_shared_token_gathers_no_listeners() {
    let (mut wire, peer, _driven) = connect(builder(&mcp::LATEST)).await;
    let token = CancellationToken::new();
    for _ in 0..1000 {
        let call = tokio::spawn(peer.request::<Value>("work", &()).token(token.clone()));
        let id = wire.hear().await["id"].clone();
        wire.say(&result(&id, json!({}))).await;
        call.await.unwrap().unwrap();
    }
    let last = tokio::spawn(peer.request::<Value>("work", &()).token(token.clone()));
    let id = wire.hear().await["id"].clone();
    token.cancel();
    assert!(last.await.unwrap().unwrap_err().is_cancelled());
    assert!(is_cancel(&wire.hear().await, &mcp::LATEST, &id));
    assert_eq!(said(&mut wire).await, Vec::<Value>::new(), "only the one in flight is cancelled");
}

/// Case 35.
#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_calls_however_they_end() {
    for dialect in DIALECTS {
        let (mut wire, peer, driven) = connect(builder(dialect)).await;
        let ask = |limit| peer.request::<Value>("work", &()).response_timeout(limit).send();
        let calls: Vec<_> = (0..5).map(|_| ask(secs(1))).collect();
        let mut ids = Vec::new();
        for _ in &calls {
            ids.push(wire.hear().await["id"].clone());
        }
        let mut calls = calls.into_iter();
        wire.say(&result(&ids[0], json!({}))).await;
        calls.next().unwrap().await.unwrap();
        wire.say(&error(&ids[1], -5)).await;
        assert!(matches!(calls.next().unwrap().await, Err(CallError::Peer(error)) if error.code == -5));
        drop(calls.next().unwrap().cancel("enough"));
        drop(calls.next());
        assert!(matches!(calls.next().unwrap().await, Err(CallError::TimedOut { .. })));
        said(&mut wire).await;
        tokio::time::sleep(secs(700)).await;
        said(&mut wire).await;
        let left = peer.in_flight();
        assert!(left.ours.is_empty() && left.theirs.len() <= 1, "{}: {left:?}", dialect.name);
        let open = ask(secs(60));
        wire.hear().await;
        wire.close().await;
        assert!(matches!(open.await, Err(CallError::Closed)));
        driven.await.unwrap().unwrap();
        assert!(matches!(ask(secs(1)).await, Err(CallError::Closed)));
        assert!(peer.in_flight().ours.is_empty());
    }
}

/// Case 36.
#[tokio::test(start_paused = true)]
async fn words_of_the_caller_reach_the_wire_and_derived_ones_never_do() {
    let (mut wire, peer, _driven) = connect(builder(&mcp::LATEST)).await;
    let call = peer.request::<Value>("work", &()).send();
    wire.hear().await;
    drop(call.cancel("user pressed Stop"));
    assert_eq!(wire.hear().await["params"]["reason"], "user pressed Stop");
    let call = peer.request::<Value>("work", &()).reason("page closed").send();
    wire.hear().await;
    drop(call);
    assert_eq!(wire.hear().await["params"]["reason"], "page closed");
    let token = CancellationToken::new();
    let call = tokio::spawn(peer.request::<Value>("work", &()).token(token.clone()));
    wire.hear().await;
    token.cancel();
    assert_eq!(wire.hear().await["params"]["reason"], "cancelled by the caller");
    assert!(call.await.unwrap().is_err());
    let call = tokio::spawn(peer.request::<Value>("work", &()).response_timeout(secs(1)));
    assert_eq!(wire.hear().await["method"], "work");
    assert_eq!(wire.hear().await["params"]["reason"], "request timed out");
    assert!(call.await.unwrap().is_err());
}

/// Case 37.
#[tokio::test(start_paused = true)]
async fn a_detached_call_goes_on_without_its_caller() {
    for dialect in DIALECTS {
        let (mut wire, peer, _driven) = connect(builder(dialect)).await;
        let detached = peer.request::<Value>("work", &()).without_timeouts().detach();
        let id = wire.hear().await["id"].clone();
        let stop = detached.handle();
        drop(detached);
        assert_eq!(said(&mut wire).await, Vec::<Value>::new(), "{}", dialect.name);
        drop(stop.cancel("now"));
        assert!(is_cancel(&wire.hear().await, dialect, &id), "a handle still stops it");
        let late = peer.request::<Value>("work", &()).without_timeouts().send();
        assert_eq!(wire.hear().await["method"], "work");
        drop(late.detach());
        assert_eq!(said(&mut wire).await, Vec::<Value>::new(), "{}: detached after it was sent", dialect.name);
        let awaited = peer.request::<Value>("work", &()).send().detach();
        let id = wire.hear().await["id"].clone();
        wire.say(&result(&id, json!(5))).await;
        assert_eq!(awaited.await.unwrap(), json!(5));
    }
}

/// Case 26: the driver meets the cancel and the answer at once.
#[tokio::test(start_paused = true)]
async fn a_receipt_is_learnt_when_the_answer_is_read_together_with_the_cancel() {
    for dialect in DIALECTS {
        let (mut wire, peer, _driven) = connect(builder(dialect)).await;
        let call = peer.request::<Value>("work", &()).send();
        let stop = call.handle();
        let id = wire.hear().await["id"].clone();
        wire.say(&result(&id, json!({}))).await;
        let receipt = stop.cancel("enough");
        assert!(call.await.unwrap_err().is_cancelled());
        let receipt = tokio::time::timeout(secs(1), receipt).await.expect("nothing more can be learnt");
        assert_eq!(receipt.outcome, Outcome::CompletedFirst, "{}", dialect.name);
        assert_eq!(said(&mut wire).await, Vec::<Value>::new(), "{}", dialect.name);
    }
}

/// Case 27: a clock that takes a request back says so in its receipt.
#[tokio::test(start_paused = true)]
async fn a_timeout_of_what_was_not_written_is_known_to_its_handle() {
    let (_wire, peer, _driven) = connect_small(builder(&mcp::LATEST), 64).await;
    let blocked = peer.request::<Value>("work", &json!({ "text": "x".repeat(500) })).send();
    let call = peer.request::<Value>("work", &()).response_timeout(millis(300)).send();
    let stop = call.handle();
    assert!(matches!(call.await, Err(CallError::TimedOut { .. })));
    let receipt = stop.cancel("too late").await;
    assert_eq!((receipt.outcome, receipt.cause.code), (Outcome::NeverSent, CauseCode::Timeout));
    drop(blocked);
}

/// Case 37.
#[tokio::test(start_paused = true)]
async fn a_handle_stops_a_call_beside_its_caller_and_however_often_sends_one_cancel() {
    for dialect in DIALECTS {
        let (mut wire, peer, _driven) = connect(builder(dialect)).await;
        let call = peer.request::<Value>("work", &());
        let (stop, other) = (call.handle(), call.handle());
        tokio::pin!(call);
        let asked = tokio::select! {
            biased;
            _ = &mut call => panic!("nobody answers"),
            asked = wire.hear() => asked,
        };
        let receipt = stop.cancel("enough");
        drop(other.cancel("more than enough"));
        assert!(call.await.unwrap_err().is_cancelled());
        let said = said(&mut wire).await;
        assert_eq!(cancels(&said, dialect).len(), 1, "{}: {said:?}", dialect.name);
        if dialect.is_silent() {
            assert_eq!(receipt.await.outcome, Outcome::Sent);
        } else {
            wire.say(&error(&asked["id"], -32800)).await;
            assert!(matches!(receipt.await.outcome, Outcome::Confirmed { .. }));
        }
    }
}

/// Case 16, 71: nothing of `initialize` is cancelled on the wire.
#[tokio::test(start_paused = true)]
async fn initialize_is_never_cancelled_on_the_wire() {
    for dialect in [&mcp::LATEST_LEGACY, &acp::RFD_2025_11_13, &lsp::LSP] {
        let (ours, theirs) = tokio::io::duplex(4096);
        let (peer, driver) = builder(dialect).connect(theirs);
        driver.spawn();
        let mut wire = Wire::of(ours);
        let call = peer.request::<Value>("initialize", &json!({})).response_timeout(secs(1)).send();
        assert_eq!(wire.hear().await["method"], "initialize");
        let receipt = call.handle().cancel("enough");
        assert!(call.await.unwrap_err().is_cancelled());
        assert_eq!(receipt.await.outcome, Outcome::NotSendable, "{}", dialect.name);
        let timed = peer.request::<Value>("initialize", &json!({})).response_timeout(secs(1));
        assert!(matches!(timed.await, Err(CallError::TimedOut { .. })));
        let heard = said(&mut wire).await;
        assert!(cancels(&heard, dialect).is_empty(), "{}: {heard:?}", dialect.name);
    }
}

/// Case 71.
#[tokio::test(start_paused = true)]
async fn the_gate_of_the_proposal_decides_what_a_drop_sends() {
    let dialect = &acp::RFD_2025_11_13;
    for declares in [true, false] {
        let (ours, theirs) = tokio::io::duplex(4096);
        let (peer, driver) = builder(dialect).connect(theirs);
        driver.spawn();
        let mut wire = Wire::of(ours);
        let hello = tokio::spawn(peer.request::<Value>("initialize", &json!({ "protocolVersion": 1 })));
        let id = wire.hear().await["id"].clone();
        let capabilities = if declares { json!({ "cancellation": { "request": true } }) } else { json!({}) };
        wire.say(&result(&id, json!({ "protocolVersion": 1, "agentCapabilities": capabilities }))).await;
        hello.await.unwrap().unwrap();
        let call = peer.request::<Value>("work", &()).send();
        let id = wire.hear().await["id"].clone();
        let receipt = call.cancel("enough");
        let heard = said(&mut wire).await;
        if declares {
            assert!(matches!(&heard[..], [cancel] if is_cancel(cancel, dialect, &id)), "{heard:?}");
        } else {
            assert_eq!(heard, Vec::<Value>::new());
            assert_eq!(receipt.await.outcome, Outcome::NotSendable);
        }
    }
}

/// Case 73.
#[tokio::test(start_paused = true)]
async fn a_caller_wakes_after_every_notification_that_preceded_its_answer() {
    for dialect in DIALECTS {
        let seen = Log::new();
        let log = seen.clone();
        let client = builder(dialect)
            .on_notification("note", move |rescind::peer::Params(n): rescind::peer::Params<u32>| log.add(n));
        let (mut wire, peer, _driven) = connect(client).await;
        let call = peer.request::<Value>("work", &()).send();
        let id = wire.hear().await["id"].clone();
        let mut messages: Vec<_> = (0..100).map(|n| notification("note", json!(n))).collect();
        messages.push(result(&id, json!({})));
        messages.push(notification("note", json!(100)));
        wire.say_all(&messages).await;
        call.await.unwrap();
        let seen = seen.take();
        assert_eq!(seen[..100], (0..100).collect::<Vec<_>>(), "{}", dialect.name);
    }
}

/// Case 77.
#[tokio::test(start_paused = true)]
async fn a_dropped_prompt_sends_one_session_cancel_and_nothing_else() {
    let (mut wire, peer, _driven) = connect(builder(&acp::V1)).await;
    let call = peer.request::<Value>("session/prompt", &json!({ "sessionId": "s1" })).send();
    wire.hear().await;
    drop(call);
    let said = said(&mut wire).await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!((&said[0]["method"], &said[0]["params"]["sessionId"]), (&json!("session/cancel"), &json!("s1")));
}

/// D1: a version of ACP that has no `session/cancel` is another table of answers, and the same code.
#[tokio::test(start_paused = true)]
async fn a_version_without_session_cancel_is_another_table() {
    static LATER: Dialect = Dialect { name: "acp-later", turn: None, ..acp::V1 };
    let (mut wire, peer, _driven) = connect(builder(&LATER)).await;
    let call = peer.request::<Value>("session/prompt", &json!({ "sessionId": "s1" })).send();
    let id = wire.hear().await["id"].clone();
    drop(call);
    let sent = said(&mut wire).await;
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!(sent[0]["method"], "$/cancel_request");
    assert!(is_cancel(&sent[0], &LATER, &id));
}

/// Case 35, 44: the driver is dropped.
#[tokio::test(start_paused = true)]
async fn dropping_the_driver_ends_every_call() {
    let (ours, theirs) = tokio::io::duplex(4096);
    let (peer, driver) = builder(&mcp::LATEST).connect(theirs);
    let driven = driver.spawn();
    let mut wire = Wire::of(ours);
    let call = peer.request::<Value>("work", &()).send();
    wire.hear().await;
    driven.abort();
    assert!(matches!(call.await, Err(CallError::Closed)));
    assert!(matches!(peer.request::<Value>("work", &()).await, Err(CallError::Closed)));
    peer.closed().await;
    assert!(peer.try_notify("x", &()).is_err());
    let _ = request(1, "x", json!({}));
}

/// The token's own thread cancels the call.
#[tokio::test(start_paused = true)]
async fn a_token_cancels_a_call_that_is_sent_and_not_polled() {
    for dialect in DIALECTS {
        let (mut wire, peer, _driver) = connect(builder(dialect)).await;
        let before = CancellationToken::new();
        let after = CancellationToken::new();
        let first = peer.request::<Value>("work", &json!({})).token(before.clone()).reason("first").send();
        let second = peer.request::<Value>("work", &json!({})).send().token(after.clone()).reason("second");
        let ids = [wire.hear().await["id"].clone(), wire.hear().await["id"].clone()];
        before.cancel();
        assert!(is_cancel(&wire.hear().await, dialect, &ids[0]));
        let cancelling = after.clone();
        std::thread::spawn(move || cancelling.cancel()).join().unwrap();
        assert!(is_cancel(&wire.hear().await, dialect, &ids[1]));
        for (call, reason) in [(first, "first"), (second, "second")] {
            let ended = call.await;
            let Err(CallError::Cancelled(cause)) = ended else { panic!("{ended:?}") };
            assert_eq!((cause.code, cause.text()), (CauseCode::Caller, Some(reason)));
        }
    }
}

/// A token may serve many calls, and outlive them.
#[tokio::test(start_paused = true)]
async fn a_token_that_fires_after_a_call_does_nothing() {
    let dialect = &mcp::LATEST;
    let (mut wire, peer, _driver) = connect(builder(dialect)).await;
    let token = CancellationToken::new();
    let call = peer.request::<Value>("work", &json!({})).token(token.clone());
    let waiting = tokio::spawn(call);
    let id = wire.hear().await["id"].clone();
    wire.say(&result(&id, json!({}))).await;
    waiting.await.unwrap().unwrap();
    drop(peer.request::<Value>("dropped", &json!({})).token(token.clone()));
    token.cancel();
    let never = peer.request::<Value>("never", &json!({})).token(token.clone()).send();
    assert!(matches!(never.await, Err(CallError::Cancelled(_))));
    assert!(wire.so_far().await.is_empty());
}
