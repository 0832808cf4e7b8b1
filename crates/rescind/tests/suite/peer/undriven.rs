//! Connections that are made outside a runtime, or that are not driven.

use rescind::peer::{CallError, Clock, ErrorObject, Outcome, Peer, dialect::mcp, transport::memory};
use serde_json::{Value, json};
use tokio::{io::AsyncReadExt, runtime};

use crate::rig::secs;

fn runtime() -> runtime::Runtime {
    runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_connection_can_be_made_outside_a_runtime() {
    let (near, far) = memory();
    let echo = || async { Ok::<_, ErrorObject>("here") };
    let (_server, serving) = Peer::builder(&mcp::LATEST).on_request("where", echo).accept(far);
    let (client, driving) = Peer::builder(&mcp::LATEST).connect(near);
    let call = client.request::<String>("where", &()).send();
    runtime().block_on(async {
        serving.spawn();
        driving.spawn();
        assert_eq!(call.await.unwrap(), "here");
    });
}

#[test]
fn a_driver_outside_a_runtime_ends_with_an_error_and_ends_its_calls() {
    let (near, _far) = memory();
    let (client, mut driver) = Peer::builder(&mcp::LATEST).connect(near);
    let call = client.request::<Value>("x", &()).send();
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let polled = std::pin::Pin::new(&mut driver).poll(&mut cx);
    assert!(matches!(polled, std::task::Poll::Ready(Err(_))));
    runtime().block_on(async { assert!(matches!(call.await, Err(CallError::Closed))) });
}

/// D16: each by its own clock, whichever is awaited first.
#[tokio::test(start_paused = true)]
async fn calls_of_a_connection_that_was_never_driven_end_by_their_clocks() {
    let (near, _far) = memory();
    let (client, _driver) = Peer::builder(&mcp::LATEST).connect(near);
    let late = tokio::spawn(client.request::<Value>("late", &()).response_timeout(secs(9)));
    let soon = tokio::spawn(client.request::<Value>("soon", &()).response_timeout(secs(3)));
    let began = tokio::time::Instant::now();
    let soon = soon.await.unwrap();
    assert!(matches!(soon, Err(CallError::TimedOut { clock: Clock::Response, after }) if after == secs(3)), "{soon:?}");
    let late = late.await.unwrap();
    assert!(matches!(late, Err(CallError::TimedOut { clock: Clock::Response, after }) if after == secs(9)), "{late:?}");
    assert_eq!(began.elapsed(), secs(9));
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_connection_that_was_never_driven_can_be_stopped() {
    let (near, _far) = memory();
    let (client, _driver) = Peer::builder(&mcp::LATEST).connect(near);
    let call = client.request::<Value>("x", &()).without_timeouts();
    let stop = call.handle();
    let waiting = tokio::spawn(call);
    tokio::task::yield_now().await;
    assert_eq!(stop.cancel("enough").await.outcome, Outcome::NeverSent);
    assert!(matches!(waiting.await.unwrap(), Err(CallError::Cancelled(_))));
}

/// What happened before is not lost on the driver.
#[tokio::test(start_paused = true)]
async fn a_driver_that_comes_late_takes_over() {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (client, driver) = Peer::builder(&mcp::LATEST).connect(theirs);
    let expired = client.request::<Value>("first", &()).response_timeout(secs(1)).await;
    assert!(matches!(expired, Err(CallError::TimedOut { .. })));
    client.shutdown();
    let refused = client.request::<Value>("second", &json!({})).response_timeout(secs(1)).await;
    assert!(matches!(refused, Err(CallError::Closed)));
    driver.await.unwrap();
    let (mut written, mut ours) = (String::new(), ours);
    ours.read_to_string(&mut written).await.unwrap();
    assert_eq!(written, "", "nothing was left to be sent");
}
