//! The link itself: filters, odd frames, peers that do not read, the end.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rescind::peer::{
    CallError, CauseCode, Context, ErrorObject, Framing, Outcome, Params, Peer, Verdict,
    dialect::{acp, lsp, mcp},
    filter::Pass,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::rig::{
    DIALECTS, Log, Seen, Wire, builder, cancel, connect, connect_small, error, is_cancel, notification, pair, request,
    result, secs, serve, serve_small, watch, with_work,
};

/// Case 8.
#[tokio::test(start_paused = true)]
async fn a_filter_sees_every_message_and_can_veto_or_rewrite_a_cancel() {
    for dialect in DIALECTS {
        let (mut watch, witness) = watch();
        let verdicts = Log::new();
        let log = verdicts.clone();
        let (method, name) = (dialect.cancel.method, dialect.cancel.id);
        let server = with_work(builder(dialect), &witness)
            .on_cancelled(move |notice| log.add(notice.verdict))
            .incoming(move |message| {
                if message.method().as_deref() != Some(method) {
                    return Pass::Unchanged;
                }
                let mut cancel: Value = serde_json::from_slice(message.json()).unwrap();
                match cancel["params"][name].as_u64() {
                    Some(1) => Pass::Vetoed,
                    Some(2) => {
                        cancel["params"][name] = json!(3);
                        Pass::Rewritten(cancel.to_string().into_bytes())
                    }
                    _ => Pass::Unchanged,
                }
            });
        let (mut wire, _served) = serve(server).await;
        for id in 1..=3 {
            wire.say(&request(id, "work", json!({}))).await;
            watch.started(id).await;
        }
        wire.say_all(&[cancel(dialect, 1), cancel(dialect, 2)]).await;
        watch.stopped(3, CauseCode::Caller).await;
        wire.so_far().await;
        assert!(watch.is_quiet(), "{}", dialect.name);
        assert_eq!(verdicts.take(), [Verdict::Accepted], "observers see what filters let through");
    }
}

/// Case 8: nobody waits in vain for what a filter kept back.
#[tokio::test(start_paused = true)]
async fn what_a_filter_keeps_back_is_answered_and_fails() {
    for dialect in DIALECTS {
        let client = builder(dialect)
            .incoming(|message| match message.method().as_deref() {
                Some("secret") => Pass::Vetoed,
                _ if message.json().windows(5).any(|text| text == b"leaky") => Pass::Vetoed,
                _ => Pass::Unchanged,
            })
            .outgoing(move |message| match message.method().as_deref() {
                Some("forbidden") => Pass::Vetoed,
                Some(method) if method == dialect.cancel.method => Pass::Vetoed,
                Some("odd") => Pass::Rewritten(String::from_utf8_lossy(message.json()).replace("odd", "even").into()),
                _ => Pass::Unchanged,
            });
        let (mut wire, peer, _driven) = connect(client).await;
        wire.say(&request(1, "secret", json!({}))).await;
        assert_eq!(wire.hear().await["error"]["code"], -32600, "{}", dialect.name);
        assert!(matches!(peer.request::<Value>("forbidden", &()).await, Err(CallError::Unreadable(_))));
        let call = peer.request::<Value>("odd", &()).send();
        let asked = wire.hear().await;
        assert_eq!(asked["method"], "even");
        wire.say(&result(&asked["id"], json!("leaky"))).await;
        assert!(matches!(call.await, Err(CallError::Unreadable(_))));
        let call = peer.request::<Value>("work", &()).send();
        wire.hear().await;
        let receipt = call.cancel("enough").await;
        assert_eq!(receipt.outcome, Outcome::NotSendable, "{}", dialect.name);
        assert_eq!(wire.so_far().await, Vec::<Value>::new());
    }
}

/// Case 21: a filter that panics lets its message pass.
#[tokio::test(start_paused = true)]
async fn a_filter_that_panics_stops_nothing() {
    let server = builder(&mcp::LATEST).incoming(|_| panic!("on purpose")).outgoing(|_| panic!("on purpose"));
    let (mut wire, _served) = serve(server).await;
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
}

/// Case 19.
#[tokio::test(start_paused = true)]
async fn a_cancel_that_lands_while_the_answer_is_written_tears_no_frame() {
    for dialect in DIALECTS {
        let big =
            builder(dialect).on_request("big", || async { Ok::<_, ErrorObject>(json!({ "text": "x".repeat(5000) })) });
        let (mut wire, _served) = serve_small(big, 512).await;
        wire.say(&request(1, "big", json!({}))).await;
        tokio::task::yield_now().await;
        wire.say(&cancel(dialect, 1)).await;
        let answer = wire.hear().await;
        assert_eq!(answer["result"]["text"].as_str().unwrap().len(), 5000, "{}", dialect.name);
        assert_eq!(wire.so_far().await, Vec::<Value>::new(), "{}: one answer", dialect.name);
    }
}

/// Case 19: of an answer that was not begun, nothing is written after the cancel where silence is wanted.
#[tokio::test(start_paused = true)]
async fn an_answer_that_waits_behind_another_is_taken_back_by_a_cancel() {
    let dialect = &mcp::LATEST;
    let big =
        builder(dialect).on_request("big", || async { Ok::<_, ErrorObject>(json!({ "text": "x".repeat(5000) })) });
    let (mut wire, _served) = serve_small(big, 512).await;
    wire.say_all(&[request(1, "big", json!({})), request(2, "big", json!({})), cancel(dialect, 7)]).await;
    tokio::task::yield_now().await;
    wire.say(&cancel(dialect, 2)).await;
    tokio::time::sleep(secs(1)).await;
    let said = wire.so_far().await;
    assert_eq!(said.iter().map(|message| &message["id"]).collect::<Vec<_>>(), [&json!(1)]);
}

/// Case 74.
#[tokio::test(start_paused = true)]
async fn a_peer_that_floods_and_never_reads_costs_bounded_memory() {
    let reports = Arc::new(AtomicUsize::new(0));
    let sent = Arc::clone(&reports);
    let server = builder(&mcp::LATEST_LEGACY)
        .configure(|config| config.max_backlog = 64 * 1024)
        .on_request("chatty", move |cx: Context| {
            let sent = Arc::clone(&sent);
            async move {
                while cx.notify("notifications/message", &json!({ "text": "x".repeat(1000) })).await {
                    sent.fetch_add(1, Ordering::SeqCst);
                }
                Ok::<_, ErrorObject>(())
            }
        })
        .on_request("echo", |Params(text): Params<Value>| async move { Ok::<_, ErrorObject>(text) });
    let (ours, theirs) = tokio::io::duplex(1024);
    let (peer, driver) = server.accept(theirs);
    driver.spawn();
    let (from, mut to) = tokio::io::split(ours);
    let flood = tokio::spawn(async move {
        use tokio::io::AsyncWriteExt;
        to.write_all(format!("{}\n", request("c", "chatty", json!({}))).as_bytes()).await.unwrap();
        for id in 0..10_000 {
            let echo = request(id, "echo", json!("y".repeat(200)));
            if to.write_all(format!("{echo}\n").as_bytes()).await.is_err() {
                return;
            }
        }
    });
    tokio::time::sleep(secs(5)).await;
    assert!(!flood.is_finished(), "its input is paused");
    assert!(reports.load(Ordering::SeqCst) < 200, "{reports:?}");
    // The other direction flows: what the server asks is written as soon as the peer reads, and a caller's clock runs.
    let ended = peer.request::<Value>("roots/list", &()).response_timeout(secs(1)).await;
    assert!(matches!(ended, Err(CallError::TimedOut { .. } | CallError::Cancelled(_))), "{ended:?}");
    // Once it reads, everything that was held back goes on.
    let mut lines = BufReader::new(from).lines();
    let mut echoed = 0;
    while echoed < 1000 {
        let line = lines.next_line().await.unwrap().unwrap();
        echoed += usize::from(line.contains("yyyy"));
    }
}

/// Case 75.
#[tokio::test(start_paused = true)]
async fn a_repeated_or_escaped_envelope_member_is_refused() {
    for dialect in DIALECTS {
        let (mut watch, witness) = watch();
        let (mut wire, _served) = serve(with_work(builder(dialect), &witness)).await;
        wire.say(&request(1, "work", json!({}))).await;
        watch.started(1).await;
        let (method, name) = (dialect.cancel.method, dialect.cancel.id);
        for text in [
            format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"{name}":9,"{name}":1}}}}"#),
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"work"}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":2,"\u0069d":3,"method":"work"}"#.to_owned(),
        ] {
            wire.raw(&format!("{text}\n")).await;
        }
        let said = wire.so_far().await;
        assert!(said.iter().all(|message| message.get("error").is_some()), "{}: {said:?}", dialect.name);
        assert!(watch.is_quiet(), "{}: neither stopped nor started", dialect.name);
    }
}

/// Bad input is answered clearly, and the connection lives.
#[tokio::test(start_paused = true)]
async fn bad_input_and_unknown_methods_are_answered_and_lose_nothing() {
    let typed =
        builder(&lsp::LSP).on_request("typed", |Params(n): Params<u32>| async move { Ok::<_, ErrorObject>(n + 1) });
    let (mut wire, _served) = serve(typed).await;
    wire.say_all(&[
        request(1, "typed", json!("one")),
        request(2, "$/unknown", json!({})),
        notification("$/unknown", json!({})),
        request(3, "typed", json!(3)),
    ])
    .await;
    assert_eq!(wire.hear().await["error"]["code"], -32602);
    assert_eq!(wire.hear().await["error"]["code"], -32601);
    assert_eq!(wire.hear().await, result(&json!(3), json!(4)));
    wire.raw("not json\n").await;
    assert_eq!(wire.hear().await["error"]["code"], -32700);
}

/// One with a request in each direction at once, over pipes that hold less than a message.
#[tokio::test]
async fn tiny_pipes_wedge_nothing() {
    let echo = || {
        Peer::builder(&mcp::LATEST_LEGACY)
            .on_request("echo", |Params(text): Params<String>| async move { Ok::<_, ErrorObject>(text) })
    };
    let (a, b) = tokio::io::duplex(64);
    let (client, driver) = echo().connect(a);
    driver.spawn();
    let (server, driver) = echo().accept(b);
    driver.spawn();
    let text = "x".repeat(4096);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..100 {
        calls.spawn(client.request::<String>("echo", &text));
        calls.spawn(server.request::<String>("echo", &text));
    }
    while let Some(answer) = calls.join_next().await {
        assert_eq!(answer.unwrap().unwrap(), text);
    }
}

/// Headers and lines, both ways, between two of our peers in every dialect.
#[tokio::test]
async fn two_peers_talk_in_every_dialect_with_its_own_framing() {
    for dialect in rescind::peer::Dialect::ALL {
        let hello = || Peer::builder(dialect).on_request("initialize", || async { Ok::<_, ErrorObject>(json!({})) });
        let (client, _server) = pair(hello(), hello());
        let hello: Value = client.request("initialize", &json!({ "protocolVersion": 1 })).await.unwrap();
        assert_eq!(hello, json!({}), "{}", dialect.name);
    }
}

/// When the last handle of a client is dropped, the connection ends in order; calls in flight are handles.
#[tokio::test(start_paused = true)]
async fn a_connection_lives_as_long_as_its_handles_and_calls() {
    let (mut wire, peer, driven) = connect(builder(&acp::V1)).await;
    let call = peer.request::<Value>("work", &());
    drop(peer);
    let call = tokio::spawn(call);
    let id = wire.hear().await["id"].clone();
    wire.say(&result(&id, json!(1))).await;
    assert_eq!(call.await.unwrap().unwrap(), json!(1));
    driven.await.unwrap().unwrap();
    assert_eq!(wire.close().await, Vec::<Value>::new());
}

/// D14: a detached call is seen through even when nobody holds the connection.
#[tokio::test(start_paused = true)]
async fn a_detached_call_outlives_every_handle() {
    let (mut wire, peer, driven) = connect(builder(&acp::V1)).await;
    drop(peer.request::<Value>("last", &()).detach());
    drop(peer);
    let asked = wire.hear().await;
    assert_eq!(asked["method"], "last");
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
    wire.say(&result(&asked["id"], json!({}))).await;
    driven.await.unwrap().unwrap();
    assert_eq!(wire.close().await, Vec::<Value>::new());
}

/// Case 20, 33: a peer that reads nothing does not keep an ending connection.
#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_peer_that_reads_nothing() {
    let (wire, peer, driven) = connect_small(builder(&mcp::LATEST).linger(secs(2)), 64).await;
    let call = peer.request::<Value>("work", &json!("x".repeat(1000))).send();
    tokio::task::yield_now().await;
    let start = tokio::time::Instant::now();
    peer.shutdown();
    assert!(call.await.unwrap_err().is_cancelled());
    driven.await.unwrap().unwrap();
    assert_eq!(start.elapsed().as_secs(), 2);
    drop(wire);
}

/// D12, D19: what is refused says so, on both sides.
#[tokio::test(start_paused = true)]
async fn more_than_the_bound_is_refused_with_an_error() {
    let (mut watch, witness) = watch();
    let server = with_work(builder(&mcp::LATEST), &witness).max_running(1).max_queued(1);
    let (mut wire, _served) = serve(server).await;
    wire.say_all(&[request(1, "work", json!({})), request(2, "work", json!({})), request(3, "work", json!({}))]).await;
    watch.started(1).await;
    let refused = wire.hear().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(3), &json!(-31004)));
    let (mut wire, peer, _driven) = connect(builder(&mcp::LATEST).configure(|config| config.max_in_flight = 1)).await;
    let one = peer.request::<Value>("work", &()).send();
    wire.hear().await;
    assert!(matches!(peer.request::<Value>("work", &()).await, Err(CallError::Overloaded)));
    drop(one);
}

/// Everything in flight can be seen, and stopped by whoever sees it.
#[tokio::test(start_paused = true)]
async fn what_is_in_flight_can_be_seen_and_stopped() {
    let (mut watch, witness) = watch();
    let (ours, theirs) = tokio::io::duplex(4096);
    let (peer, driver) = with_work(builder(&mcp::LATEST), &witness).accept(theirs);
    driver.spawn();
    let mut wire = Wire::of(ours);
    wire.say(&request(1, "work", json!({ "_meta": { "dev.rescind/deadlineMs": 60_000 } }))).await;
    watch.started(1).await;
    tokio::time::sleep(secs(2)).await;
    let seen = peer.in_flight().theirs;
    assert_eq!((seen.len(), &*seen[0].method, seen[0].age.as_secs()), (1, "work", 2));
    assert_eq!(seen[0].remaining.unwrap().as_secs(), 58);
    assert!(peer.stop(seen[0].key, rescind::peer::Cause::new(CauseCode::Operator)));
    watch.stopped(1, CauseCode::Operator).await;
    assert_eq!(wire.hear().await["error"]["code"], -31003, "a stop that its requester did not ask for is answered");
    assert!(peer.in_flight().theirs.is_empty());
}

/// MCP-C11, D28: what a screen can show of a request on its way to its end.
#[tokio::test(start_paused = true)]
async fn in_flight_says_cancelling_and_stopping_while_they_last() {
    let (mut watch, witness) = watch();
    let (client, server) = pair(builder(&acp::V1), with_work(builder(&acp::V1), &witness));
    let call = client.request::<Value>("stubborn", &json!({})).send();
    let id = watch.next().await;
    assert!(matches!(id, Seen::Started(_)));
    let ours =
        || client.in_flight().ours.iter().map(|request| format!("{:?}", request.state)).collect::<Vec<_>>().concat();
    let theirs =
        || server.in_flight().theirs.iter().map(|request| format!("{:?}", request.state)).collect::<Vec<_>>().concat();
    assert_eq!((ours(), theirs()), ("Sent".to_owned(), "Running".to_owned()));
    let receipt = call.cancel("enough");
    // The cancel has arrived when what was asked behind it is answered.
    client.request::<Value>("ping", &()).await.unwrap();
    assert_eq!((ours(), theirs()), ("Cancelling".to_owned(), "Stopping".to_owned()));
    receipt.await;
    assert!(matches!(watch.next().await, Seen::Gone(_)));
    assert_eq!((ours(), theirs()), (String::new(), String::new()));
}

/// D16, MCP-P03: progress of a handler reaches its caller in order, and stops with the request.
#[tokio::test(start_paused = true)]
async fn progress_reaches_the_caller_until_the_request_is_cancelled() {
    let (mut watch, witness) = watch();
    let (see, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let taken = Log::new();
    let log = taken.clone();
    let server = builder(&mcp::LATEST).on_request("steps", move |cx: Context| {
        let (witness, log) = (witness.clone(), log.clone());
        async move {
            let _guard = witness.guard(&cx);
            for step in 1..=3 {
                log.add(cx.progress(f64::from(step), Some(3.0), Some("working")).await);
            }
            cx.cancelled().await;
            log.add(cx.progress(4.0, None, None).await);
            Err::<(), _>(ErrorObject::cancelled())
        }
    });
    let (client, _server) = pair(builder(&mcp::LATEST), server);
    let call = client.request::<Value>("steps", &json!({}));
    let report = move |progress: rescind::peer::ProgressReport| {
        see.send((progress.done(), progress.total(), progress.message())).unwrap();
    };
    let call = call.progress(report).send();
    watch.started(1).await;
    for step in 1..=3 {
        let reported = seen.recv().await.unwrap();
        assert_eq!(reported, (Some(f64::from(step)), Some(3.0), Some("working".to_owned())));
    }
    drop(call);
    watch.gone(1).await;
    assert_eq!(taken.take(), [true, true, true, false], "nothing is sent after the cancel");
    client.request::<Value>("ping", &json!({})).await.unwrap();
    assert!(seen.recv().await.is_none(), "nothing more was reported");
}

/// D3: a peer that spells its cancels in the older way is understood, and gets that spelling back.
#[tokio::test(start_paused = true)]
async fn an_older_spelling_is_understood_and_given_back() {
    let (mut watch, witness) = watch();
    let (ours, theirs) = tokio::io::duplex(4096);
    let (peer, driver) = with_work(Peer::builder(&acp::V1).framing(Framing::Line), &witness).accept(theirs);
    driver.spawn();
    let mut wire = Wire::of(ours);
    wire.say(&request(1, "work", json!({}))).await;
    watch.started(1).await;
    wire.say(&notification("$/cancelRequest", json!({ "requestId": 1 }))).await;
    watch.stopped(1, CauseCode::Caller).await;
    assert_eq!(wire.hear().await["error"]["code"], -32800);
    let call = peer.request::<Value>("fs/read", &()).send();
    let id = wire.hear().await["id"].clone();
    drop(call);
    let said = wire.hear().await;
    assert_eq!((&said["method"], &said["params"]["requestId"]), (&json!("$/cancelRequest"), &id));
    wire.say(&error(&id, -32800)).await;
    assert!(!is_cancel(&said, &acp::V1, &id));
}
