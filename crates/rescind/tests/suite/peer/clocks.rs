//! Clocks between two peers of ours: the caller's is the judge (D17), and stands still while people are asked (D49).

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rescind::peer::{CallError, CauseCode, Clock, Context, ErrorObject, dialect::mcp};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use crate::rig::{builder, connect, millis, pair, request, result, secs, serve};

/// Real time, real threads: whatever the two ends' timers do, no answer of the peer overtakes the caller's own clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_hundred_timeouts_the_caller_is_told_of_its_own_each_time() {
    let (ended, mut ends) = mpsc::unbounded_channel();
    let started = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&started);
    let server = builder(&mcp::LATEST).on_request("work", move |cx: Context| {
        count.fetch_add(1, Ordering::Relaxed);
        let ended = ended.clone();
        async move {
            cx.cancelled().await;
            let _ = ended.send(cx.cause().map(|cause| cause.code));
            Err::<Value, _>(ErrorObject::cancelled())
        }
    });
    let (client, _server) = pair(builder(&mcp::LATEST), server);
    let calls: Vec<_> = (1..=100)
        .map(|n| {
            // Time enough that most are on their way, on a machine that is busy with something else.
            let limit = millis(50) + std::time::Duration::from_micros(n * 313);
            tokio::spawn(client.request::<Value>("work", &json!({})).response_timeout(limit).send())
        })
        .collect();
    for call in calls {
        let outcome = call.await.unwrap();
        assert!(matches!(outcome, Err(CallError::TimedOut { clock: Clock::Response, .. })), "{outcome:?}");
    }
    // Some may have been taken back before they were written; after this round trip no other starts.
    client.request::<Value>("ping", &()).await.unwrap();
    let started = started.load(Ordering::Relaxed);
    assert!(started > 0, "not one request was written in time");
    for _ in 0..started {
        assert_eq!(
            ends.recv().await,
            Some(Some(CauseCode::Caller)),
            "stopped by the cancel, and not by a second judge"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_asks_a_person_is_waited_for_as_long_as_the_person_takes() {
    let person = Arc::new(Notify::new());
    let server = builder(&mcp::LATEST_LEGACY).on_request("work", |cx: Context| async move {
        let said = cx.peer().request::<Value>("elicitation/create", &json!({})).await?;
        assert!(cx.remaining().is_some_and(|left| left > secs(59)), "{:?}", cx.remaining());
        Ok::<_, CallError>(said)
    });
    let asked = Arc::clone(&person);
    let client = builder(&mcp::LATEST_LEGACY).on_request("elicitation/create", move || {
        let asked = Arc::clone(&asked);
        async move {
            asked.notified().await;
            Ok::<_, ErrorObject>(json!({"action": "accept"}))
        }
    });
    let (client, _server) = pair(client, server);
    let call = tokio::spawn(client.request::<Value>("work", &json!({})).send());
    tokio::time::sleep(secs(1200)).await;
    assert!(!call.is_finished());
    person.notify_one();
    assert_eq!(call.await.unwrap().unwrap()["action"], "accept");
}

/// A gateway: its caller's people are asked by the server behind it.
#[tokio::test(start_paused = true)]
async fn what_a_gateway_calls_waits_for_the_people_of_its_own_caller() {
    let (mut far, tool, _driven) = connect(builder(&mcp::LATEST_LEGACY)).await;
    let gateway = builder(&mcp::LATEST_LEGACY).on_request("relay", move |cx: Context| {
        let tool = tool.clone();
        async move {
            let asking = cx.peer().request::<Value>("elicitation/create", &json!({}));
            let (said, done) = tokio::join!(asking, tool.request::<Value>("work", &()).response_timeout(secs(3000)));
            Ok::<_, CallError>(json!([said?, done?]))
        }
    });
    let (mut near, _served) = serve(gateway).await;
    near.say(&request(1, "relay", json!({"_meta": {"dev.rescind/deadlineMs": 60_000}}))).await;
    let question = near.hear().await;
    assert_eq!(question["method"], "elicitation/create");
    let work = far.hear().await;
    tokio::time::sleep(secs(1000)).await;
    near.say(&result(&question["id"], json!({"action": "accept"}))).await;
    tokio::time::sleep(millis(100)).await;
    far.say(&result(&work["id"], json!("done"))).await;
    assert_eq!(near.hear().await["result"], json!([{"action": "accept"}, "done"]));
}
