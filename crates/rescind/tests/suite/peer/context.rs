//! What a handler can ask of its request.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use rescind::peer::{Context, ErrorObject, RequestId, dialect::mcp};
use serde_json::{Value, json};

use crate::rig::{builder, request, serve};

fn current() -> Option<RequestId> {
    Context::current().map(|cx| cx.id().clone())
}

/// D26.
#[tokio::test]
async fn work_knows_its_request_wherever_the_request_has_it_done_and_nowhere_else() {
    let server = builder(&mcp::LATEST).on_request("work", |cx: Context| async move {
        let own = Some(cx.id().clone());
        let linked = cx.spawn(async { current() }).await.unwrap();
        let thread = cx.spawn_blocking(|_| current()).await.unwrap();
        let elsewhere = tokio::spawn(async { current() }).await.unwrap();
        let found = [current() == own, linked == own, thread == own, elsewhere.is_none()];
        Ok::<_, ErrorObject>(json!({ "found": found }))
    });
    let (mut wire, _served) = serve(server).await;
    wire.say(&request(1, "work", json!({}))).await;
    assert_eq!(wire.hear().await["result"]["found"], json!([true, true, true, true]));
    assert!(current().is_none());
}

#[tokio::test]
async fn a_handler_can_read_the_token_under_which_its_progress_is_wanted() {
    let server = builder(&mcp::LATEST_LEGACY).on_request("work", |cx: Context| async move {
        let token = cx.progress_token().map(|token| serde_json::from_slice::<Value>(token).unwrap());
        Ok::<_, ErrorObject>(json!({ "token": token }))
    });
    let (mut wire, _served) = serve(server).await;
    for token in [json!("mine"), json!(7)] {
        let params = json!({ "_meta": { "progressToken": token } });
        wire.say(&request(token.clone(), "work", params)).await;
        assert_eq!(wire.hear().await["result"]["token"], token);
    }
    wire.say(&request(1, "work", json!({}))).await;
    assert_eq!(wire.hear().await["result"], json!({ "token": null }));
}

/// The connection had its turn while the work waited; work that did not wait gives it one.
#[tokio::test]
async fn work_that_has_waited_is_done_as_soon_as_it_can_be() {
    let polls = Arc::new(Mutex::new(Vec::new()));
    let counted = Arc::clone(&polls);
    let server = builder(&mcp::LATEST).on_request("work", move |cx: Context| {
        let counted = Arc::clone(&counted);
        async move {
            for waits in [0, 1, 2] {
                let (left, polls) = (AtomicUsize::new(waits), AtomicUsize::new(0));
                let mut done = pin!(cx.unless_cancelled(poll_fn(|cx| {
                    if left.load(Ordering::SeqCst) == 0 {
                        return Poll::Ready(());
                    }
                    left.fetch_sub(1, Ordering::SeqCst);
                    cx.waker().wake_by_ref();
                    Poll::Pending
                })));
                poll_fn(|cx| {
                    polls.fetch_add(1, Ordering::SeqCst);
                    done.as_mut().poll(cx)
                })
                .await?;
                counted.lock().unwrap().push(polls.into_inner());
            }
            Ok::<_, ErrorObject>(json!({}))
        }
    });
    let (mut wire, _served) = serve(server).await;
    wire.say(&request(1, "work", json!({}))).await;
    wire.hear().await;
    assert_eq!(*polls.lock().unwrap(), [2, 2, 3]);
}
