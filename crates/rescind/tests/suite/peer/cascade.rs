//! What a handler asks others for, and what becomes of it when the handler is stopped (D26).

use rescind::peer::{
    CallError, CauseCode, Context, ErrorObject, Params, Peer,
    dialect::{acp, lsp, mcp},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::rig::{
    DIALECTS, Log, builder, cancel, connect, is_cancel, millis, notification, pair, request, result, secs, serve,
    watch, with_work,
};

/// How a handler waits for its own call.
#[derive(Clone, Copy, Debug)]
enum Way {
    InPlace,
    Task,
    Thread,
    Joined,
}

/// Asks `next` for `method`, in one of several ways, when asked for `relay`.
fn relaying(builder: rescind::peer::Builder, next: Peer, method: &'static str, way: Way) -> rescind::peer::Builder {
    builder.on_request("relay", move |cx: Context| {
        let next = next.clone();
        async move {
            match way {
                Way::InPlace => next.request::<Value>(method, &json!({})).await,
                Way::Task => cx
                    .spawn(async move { next.request::<Value>(method, &json!({})).await })
                    .await
                    .unwrap_or(Err(CallError::Closed)),
                Way::Thread => {
                    let runtime = tokio::runtime::Handle::current();
                    cx.spawn_blocking(move |_token| {
                        let call = next.request::<Value>(method, &json!({}));
                        runtime.block_on(call)
                    })
                    .await
                    .unwrap_or(Err(CallError::Closed))
                }
                Way::Joined => {
                    let calls = (next.request::<Value>(method, &json!({})), next.request::<Value>("ping", &json!({})));
                    let (first, _second) = tokio::join!(calls.0, calls.1);
                    first
                }
            }
        }
    })
}

/// Case 38, 39, 40, 41.
#[tokio::test]
async fn a_cancel_falls_through_three_hops_and_touches_no_sibling() {
    for way in [Way::InPlace, Way::Task, Way::Thread, Way::Joined] {
        for (near, far) in
            [(&acp::V1, &mcp::LATEST_LEGACY), (&mcp::LATEST, &mcp::LATEST), (&mcp::LATEST_LEGACY, &acp::V1)]
        {
            let (mut watch, witness) = watch();
            let (tool, _far) = pair(builder(far), with_work(builder(far), &witness));
            let (editor, _agent) = pair(builder(near), relaying(builder(near), tool.clone(), "work", way));
            let doomed = editor.request::<Value>("relay", &json!({})).send();
            watch.next().await;
            let sibling = tool.request::<Value>("work", &json!({})).send();
            watch.next().await;
            drop(doomed);
            let fired = watch.next().await;
            let gone = watch.next().await;
            assert!(
                matches!((&fired, &gone), (crate::rig::Seen::Fired(a, CauseCode::Caller), crate::rig::Seen::Gone(b)) if a == b),
                "{way:?}: {fired:?} {gone:?}"
            );
            tool.request::<Value>("ping", &json!({})).await.unwrap();
            assert!(watch.is_quiet(), "{way:?}: the sibling goes on");
            drop(sibling);
            watch.next().await;
        }
    }
}

/// Case 38: on the wire, the cause of a child is its parent's end.
#[tokio::test(start_paused = true)]
async fn a_nested_request_on_the_same_connection_is_cancelled_with_its_parent() {
    for dialect in [&mcp::LATEST_LEGACY, &acp::V1, &lsp::LSP] {
        let (mut watch, witness) = watch();
        let asks = builder(dialect).on_request("asks", move |cx: Context| {
            let witness = witness.clone();
            async move {
                let _guard = witness.guard(&cx);
                cx.peer().request::<Value>("sampling/createMessage", &()).await
            }
        });
        let (mut wire, _served) = serve(asks).await;
        wire.say(&request(1, "asks", json!({}))).await;
        let nested = wire.hear().await;
        assert_eq!(nested["method"], "sampling/createMessage");
        watch.started(1).await;
        wire.say(&cancel(dialect, 1)).await;
        watch.gone(1).await;
        let said = wire.so_far().await;
        let cancels: Vec<_> = said.iter().filter(|message| is_cancel(message, dialect, &nested["id"])).collect();
        assert_eq!(cancels.len(), 1, "{}: {said:?}", dialect.name);
        if dialect.cancel.reason.is_some() {
            assert_eq!(cancels[0]["params"]["reason"], "the request it served was cancelled");
        }
        let answers = said.iter().filter(|message| message["id"] == 1).count();
        assert_eq!(answers, usize::from(!dialect.is_silent()), "{}: {said:?}", dialect.name);
    }
}

/// Case 42.
#[tokio::test(start_paused = true)]
async fn a_child_has_no_more_time_than_its_parent() {
    let (mut far, tool, _driven) = connect(builder(&mcp::LATEST)).await;
    let (mut near, _served) = serve(relaying(builder(&mcp::LATEST), tool, "work", Way::InPlace)).await;
    let meta = json!({ "_meta": { "dev.rescind/deadlineMs": 3000 } });
    near.say(&request(1, "relay", meta)).await;
    let start = tokio::time::Instant::now();
    let asked = far.hear().await;
    let left = asked["params"]["_meta"]["dev.rescind/deadlineMs"].as_u64().unwrap();
    assert!((2990..=3000).contains(&left), "{left}");
    assert!(is_cancel(&far.hear().await, &mcp::LATEST, &asked["id"]));
    // The second after the deadline is for the requester's own clock (D17).
    assert_eq!(start.elapsed().as_secs(), 4);
    // Nobody asked for silence: a deadline is answered.
    assert_eq!(near.hear().await["id"], 1);
}

/// Case 43.
#[tokio::test(start_paused = true)]
async fn a_turn_that_is_cancelled_closes_everything_in_it_and_says_so() {
    let ends = Log::new();
    let log = ends.clone();
    let agent = builder(&acp::V1).on_request("session/prompt", move |cx: Context, Params(prompt): Params<Value>| {
        let log = log.clone();
        async move {
            let session = json!({ "sessionId": prompt["sessionId"] });
            let peer = cx.peer();
            let permission = peer.request::<Value>("session/request_permission", &session);
            let terminal = peer.request::<Value>("terminal/wait_for_exit", &session);
            let (permission, terminal) = tokio::join!(permission, terminal);
            for end in [&permission, &terminal] {
                log.add(end.as_ref().is_err_and(CallError::is_cancelled));
            }
            terminal
        }
    });
    let (mut wire, _served) = serve(agent).await;
    let prompt = |id: u64, session: &str| request(id, "session/prompt", json!({ "sessionId": session }));
    wire.say_all(&[prompt(1, "s1"), prompt(2, "s2")]).await;
    let mut asked = Vec::new();
    for _ in 0..4 {
        asked.push(wire.hear().await);
    }
    wire.say(&notification("session/cancel", json!({ "sessionId": "s1" }))).await;
    let mut said = Vec::new();
    while said.last().is_none_or(|message: &Value| message["id"] != 1) {
        said.push(wire.hear().await);
    }
    said.append(&mut wire.so_far().await);
    for request in &asked {
        let of_turn = request["params"]["sessionId"] == "s1";
        let closed = said.iter().filter(|message| is_cancel(message, &acp::V1, &request["id"])).count();
        assert_eq!(closed, usize::from(of_turn), "{request}: {said:?}");
    }
    let answers: Vec<_> = said.iter().filter(|message| message["id"] == 1).collect();
    assert_eq!(answers, [&result(&json!(1), json!({ "stopReason": "cancelled" }))]);
    assert_eq!(said.last(), Some(answers[0]), "the answer comes last");
    assert_eq!(ends.take(), [true, true], "the handler saw both end so");
}

/// Case 43, the client's side.
#[tokio::test(start_paused = true)]
async fn dropping_a_prompt_answers_its_open_permission_request_and_stops_whoever_was_asked() {
    let (mut watch, witness) = watch();
    let client = builder(&acp::V1).on_request("session/request_permission", move |cx: Context| {
        let witness = witness.clone();
        async move {
            let guard = witness.guard(&cx);
            cx.cancelled().await;
            guard.fired(&cx);
            Err::<(), _>(ErrorObject::cancelled())
        }
    });
    let (mut wire, peer, _driven) = connect(client).await;
    let prompt = peer.request::<Value>("session/prompt", &json!({ "sessionId": "s1" })).send();
    wire.hear().await;
    wire.say(&request("p", "session/request_permission", json!({ "sessionId": "s1" }))).await;
    watch.started("p").await;
    drop(prompt);
    watch.stopped("p", CauseCode::Parent).await;
    let said = wire.so_far().await;
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said.iter().any(|message| message["method"] == "session/cancel"));
    assert!(said.contains(&result(&json!("p"), json!({ "outcome": { "outcome": "cancelled" } }))), "{said:?}");
}

/// Case 44.
#[tokio::test(start_paused = true)]
async fn when_the_parents_connection_ends_its_children_elsewhere_are_cancelled() {
    for dialect in DIALECTS {
        let (mut far, tool, _driven) = connect(builder(dialect)).await;
        let (mut near, served) = serve(relaying(builder(dialect), tool, "work", Way::InPlace)).await;
        near.say(&request(1, "relay", json!({}))).await;
        let asked = far.hear().await;
        near.close().await;
        assert!(is_cancel(&far.hear().await, dialect, &asked["id"]), "{}", dialect.name);
        served.await.unwrap().unwrap();
    }
}

/// Case 39, D26: what a handler leaves running is its child to its end, and no longer.
#[tokio::test(start_paused = true)]
async fn a_linked_task_and_its_call_end_with_a_handler_that_returned() {
    let (mut watch, witness) = watch();
    let (mut far, tool, _driven) = connect(builder(&mcp::LATEST)).await;
    let (go, wait) = tokio::sync::watch::channel(false);
    let server = builder(&mcp::LATEST).on_request("leaves", move |cx: Context| {
        let (tool, guard, mut wait) = (tool.clone(), witness.guard(&cx), wait.clone());
        async move {
            cx.spawn(async move {
                let _guard = guard;
                tool.request::<Value>("work", &()).await
            });
            let _ = wait.wait_for(|go| *go).await;
            Ok::<_, ErrorObject>(json!({}))
        }
    });
    let (mut near, _served) = serve(server).await;
    near.say(&request(1, "leaves", json!({}))).await;
    watch.started(1).await;
    let asked = far.hear().await;
    go.send(true).unwrap();
    assert_eq!(near.hear().await, result(&json!(1), json!({})));
    assert!(is_cancel(&far.hear().await, &mcp::LATEST, &asked["id"]));
    watch.gone(1).await;
}

/// D26: what is detached, and what is asked outside of any handler, is nobody's child.
#[tokio::test(start_paused = true)]
async fn a_detached_call_survives_the_handler_that_made_it() {
    let (mut far, tool, _driven) = connect(builder(&mcp::LATEST)).await;
    let server = builder(&mcp::LATEST).on_request("cleans", move |cx: Context| {
        let tool = tool.clone();
        async move {
            cx.cancelled().await;
            drop(tool.request::<Value>("release", &()).detach());
            Err::<(), _>(ErrorObject::cancelled())
        }
    });
    let (mut near, _served) = serve(server).await;
    near.say_all(&[request(1, "cleans", json!({}))]).await;
    near.so_far().await;
    near.say(&cancel(&mcp::LATEST, 1)).await;
    assert_eq!(far.hear().await["method"], "release");
    assert_eq!(far.so_far().await, Vec::<Value>::new());
}

/// Case 37, D26: one that was sent as a child, and detached afterwards, is nobody's child any more.
#[tokio::test(start_paused = true)]
async fn a_call_detached_after_it_was_sent_survives_its_parent() {
    let (mut far, tool, _driven) = connect(builder(&mcp::LATEST)).await;
    let server = builder(&mcp::LATEST).on_request("works", move |cx: Context| {
        let tool = tool.clone();
        async move {
            drop(tool.request::<Value>("audit", &()).without_timeouts().send().detach());
            let child = tool.request::<Value>("child", &()).without_timeouts().send();
            cx.cancelled().await;
            drop(child);
            Err::<(), _>(ErrorObject::cancelled())
        }
    });
    let (mut near, _served) = serve(server).await;
    near.say(&request(1, "works", json!({}))).await;
    let both = async { (far.hear().await, far.hear().await) };
    let (audit, child) = tokio::time::timeout(secs(1), both).await.expect("both are sent");
    assert_eq!((&audit["method"], &child["method"]), (&json!("audit"), &json!("child")));
    near.say(&cancel(&mcp::LATEST, 1)).await;
    near.so_far().await;
    let cancelled = far.so_far().await;
    assert_eq!(cancelled.len(), 1, "{cancelled:?}");
    assert!(is_cancel(&cancelled[0], &mcp::LATEST, &child["id"]));
    far.say(&result(&audit["id"], json!({}))).await;
    assert_eq!(far.so_far().await, Vec::<Value>::new());
}

/// A call made after the cancel ends at once, and nothing of it is sent.
#[tokio::test(start_paused = true)]
async fn a_child_made_after_the_cancel_is_never_sent() {
    let (ends, mut ended) = mpsc::unbounded_channel();
    let (mut far, tool, _driven) = connect(builder(&mcp::LATEST_LEGACY)).await;
    let server = builder(&mcp::LATEST_LEGACY).on_request("late", move |cx: Context| {
        let (tool, ends) = (tool.clone(), ends.clone());
        async move {
            cx.cancelled().await;
            let elsewhere = tool.request::<Value>("work", &()).await.unwrap_err();
            let here = cx.peer().request::<Value>("work", &()).await.unwrap_err();
            let _ = ends.send((elsewhere, here));
            Err::<(), _>(ErrorObject::cancelled())
        }
    });
    let (mut near, _served) = serve(server).await;
    near.say(&request(1, "late", json!({}))).await;
    near.so_far().await;
    near.say(&cancel(&mcp::LATEST_LEGACY, 1)).await;
    let (elsewhere, here) = ended.recv().await.unwrap();
    for error in [elsewhere, here] {
        assert!(
            matches!(&error, CallError::Cancelled(cause)
                if cause.code == CauseCode::Parent && cause.root == Some(CauseCode::Caller)),
            "{error:?}"
        );
    }
    assert_eq!(far.so_far().await, Vec::<Value>::new());
    assert_eq!(near.so_far().await, Vec::<Value>::new());
}

/// A route's time limit stops its handler, and what it asked for elsewhere (MCP-C14).
#[tokio::test(start_paused = true)]
async fn a_time_limit_of_a_route_reaches_its_children() {
    let (mut far, tool, _driven) = connect(builder(&mcp::LATEST)).await;
    let server = builder(&mcp::LATEST).on_request(
        "slow",
        rescind::peer::route(move || {
            let tool = tool.clone();
            async move { tool.request::<Value>("work", &()).await }
        })
        .time_limit(secs(2)),
    );
    let (mut near, _served) = serve(server).await;
    near.say(&request(1, "slow", json!({}))).await;
    let asked = far.hear().await;
    assert!(asked["params"]["_meta"]["dev.rescind/deadlineMs"].as_u64().unwrap() <= 2000);
    let start = tokio::time::Instant::now();
    assert!(is_cancel(&far.hear().await, &mcp::LATEST, &asked["id"]));
    assert!(start.elapsed() <= secs(2) + millis(5));
    assert_eq!(near.hear().await["id"], 1);
}
