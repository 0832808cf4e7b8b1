//! The peer's requests, and what stops them.

use std::sync::{Arc, Mutex};

use rescind::peer::{
    Cause, CauseCode, Context, Dialect, ErrorObject, Params, RequestId, Verdict,
    dialect::{acp, lsp, mcp},
    filter::Pass,
    route,
};
use serde_json::{Value, json};

use crate::rig::{
    DIALECTS, Log, builder, cancel, millis, notification, pair, request, result, secs, serve, watch, with_work,
};

fn is_silent(dialect: &Dialect) -> bool {
    dialect.is_silent()
}

/// Case 1, 17, 18.
#[tokio::test(start_paused = true)]
async fn a_cancelled_handler_stops_and_its_neighbour_goes_on() {
    for dialect in DIALECTS {
        let (mut watch, witness) = watch();
        let (mut wire, _served) = serve(with_work(builder(dialect), &witness)).await;
        wire.say_all(&[request(1, "work", json!({})), request(2, "work", json!({}))]).await;
        watch.started(1).await;
        watch.started(2).await;
        wire.say(&cancel(dialect, 1)).await;
        watch.stopped(1, CauseCode::Caller).await;
        let said = wire.so_far().await;
        if is_silent(dialect) {
            assert_eq!(said, Vec::<Value>::new(), "{}", dialect.name);
        } else {
            assert_eq!((said.len(), &said[0]["id"], &said[0]["error"]["code"]), (1, &json!(1), &json!(-32800)));
        }
        assert!(watch.is_quiet(), "the neighbour goes on");
        wire.say(&cancel(dialect, 2)).await;
        watch.stopped(2, CauseCode::Caller).await;
    }
}

/// Case 2.
#[tokio::test(start_paused = true)]
async fn a_handler_that_swallows_the_cancel_is_answered_only_where_that_is_wanted() {
    for dialect in DIALECTS {
        let (mut watch, witness) = watch();
        let (mut wire, _served) = serve(with_work(builder(dialect), &witness)).await;
        wire.say(&request(1, "swallow", json!({}))).await;
        watch.started(1).await;
        wire.say(&cancel(dialect, 1)).await;
        watch.stopped(1, CauseCode::Caller).await;
        let said = wire.so_far().await;
        let expected = if is_silent(dialect) { vec![] } else { vec![result(&json!(1), json!({ "swallowed": true }))] };
        assert_eq!(said, expected, "{}", dialect.name);
    }
}

/// Case 3.
#[tokio::test(start_paused = true)]
async fn a_handler_that_fails_after_the_cancel_is_answered_at_most_once() {
    for dialect in DIALECTS {
        let (mut watch, witness) = watch();
        let (mut wire, _served) = serve(with_work(builder(dialect), &witness)).await;
        wire.say(&request(1, "fail", json!({}))).await;
        watch.started(1).await;
        wire.say(&cancel(dialect, 1)).await;
        watch.stopped(1, CauseCode::Caller).await;
        let said = wire.so_far().await;
        assert_eq!(said.len(), usize::from(!is_silent(dialect)), "{}", dialect.name);
        assert!(said.iter().all(|answer| answer["error"]["code"] == -32603));
    }
}

/// Case 4.
#[tokio::test(start_paused = true)]
async fn a_handler_that_cancels_itself_is_answered_with_an_error() {
    let dialects = DIALECTS.into_iter().chain([&acp::RFD_2025_11_13]);
    for (dialect, code) in dialects.zip([-32603, -32603, -32800, -32803, -32800]) {
        let (_watch, witness) = watch();
        let (mut wire, _served) = serve(with_work(builder(dialect), &witness)).await;
        wire.say(&request(1, "quits", json!({}))).await;
        let answer = wire.hear().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(code)), "{}", dialect.name);
    }
}

/// ACP-05, D24: whoever of us stopped it, the requester gets the code of a cancel.
#[tokio::test(start_paused = true)]
async fn in_acp_every_stop_from_within_is_answered_as_cancelled() {
    for dialect in [&acp::V1, &acp::RFD_2025_11_13] {
        let (mut watch, witness) = watch();
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let limited = route(|cx: Context| async move {
            cx.cancelled().await;
            Err::<(), _>(ErrorObject::cancelled())
        });
        let server = with_work(builder(dialect), &witness).on_request("limited", limited.time_limit(secs(2)));
        let (peer, driver) = server.accept(theirs);
        driver.spawn();
        let mut wire = crate::rig::Wire::of(ours);
        wire.say(&request(json!("init"), "initialize", json!({}))).await;
        wire.hear().await;
        for id in [1, 2, 3] {
            wire.say(&request(id, "work", json!({}))).await;
            watch.started(id).await;
        }
        let stopped = |answer: Value, id: Value| {
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(-32800)), "{dialect}: {answer}");
        };
        let first = peer.in_flight().theirs.into_iter().find(|request| request.id == RequestId::integer(1)).unwrap();
        assert!(peer.stop(first.key, Cause::new(CauseCode::Policy)));
        stopped(wire.hear().await, json!(1));
        wire.say(&request(4, "limited", json!({}))).await;
        stopped(wire.hear().await, json!(4));
        peer.shutdown();
        let rest = wire.close().await;
        assert_eq!(rest.len(), 2, "{rest:?}");
        rest.into_iter().zip([2, 3]).for_each(|(answer, id)| stopped(answer, json!(id)));
    }
}

/// MCP-C10, D20: what the peer wrote drives no terminal.
#[tokio::test(start_paused = true)]
async fn a_notice_can_be_printed_as_it_is() {
    let printed = Log::new();
    let log = printed.clone();
    let (mut watch, witness) = watch();
    let server = with_work(builder(&mcp::LATEST), &witness).on_cancelled(move |notice| log.add(notice.to_string()));
    let (mut wire, _served) = serve(server).await;
    let id = "a\u{1b}[2Jb";
    wire.say(&request(id, "work", json!({}))).await;
    watch.started(id).await;
    let params = json!({ "requestId": id, "reason": "stop\u{1b}[31m\nit" });
    wire.say(&notification("notifications/cancelled", params)).await;
    watch.stopped(id, CauseCode::Caller).await;
    let printed = printed.take().concat();
    assert!(printed.contains("stop\u{fffd}[31m") && printed.contains("work"), "{printed}");
    assert!(!printed.contains(char::is_control), "{printed:?}");
}

/// Case 5, 6, 8: work is in flight on every side of the ids, and none of it stops.
#[tokio::test(start_paused = true)]
async fn cancels_of_unknown_and_completed_ids_are_seen_and_do_nothing() {
    for dialect in DIALECTS {
        let (mut watch, witness) = watch();
        let verdicts = Log::new();
        let log = verdicts.clone();
        let observed = with_work(builder(dialect), &witness).on_cancelled(move |notice| log.add(notice.verdict));
        let (mut wire, _served) = serve(observed).await;
        let running = [json!(1), json!("2"), json!(3), json!(78)];
        for id in &running {
            wire.say(&request(id.clone(), "work", json!({}))).await;
            watch.started(id.clone()).await;
        }
        wire.say_all(&[request(2, "ping", json!({})), cancel(dialect, 77)]).await;
        assert_eq!(wire.hear().await["id"], 2);
        wire.say(&cancel(dialect, 2)).await;
        assert_eq!(wire.so_far().await, Vec::<Value>::new());
        tokio::time::sleep(secs(1)).await;
        assert_eq!(wire.so_far().await, Vec::<Value>::new());
        let verdicts = verdicts.take();
        assert_eq!(verdicts, [Verdict::Held, Verdict::Completed, Verdict::Unknown], "{}", dialect.name);
        assert!(watch.is_quiet(), "{}: what is in flight runs on", dialect.name);
        for id in &running {
            wire.say(&cancel(dialect, id.clone())).await;
            watch.stopped(id.clone(), CauseCode::Caller).await;
        }
    }
}

/// Case 8: an observer that looks at the work finds it told already.
#[tokio::test(start_paused = true)]
async fn an_observer_sees_a_cancel_after_it_was_dealt_with() {
    for dialect in DIALECTS {
        let (contexts, seen) = (Log::new(), Log::new());
        let (held, found) = (contexts.clone(), seen.clone());
        let server = builder(dialect)
            .on_request("work", move |cx: Context| {
                held.add(cx.clone());
                async move {
                    cx.cancelled().await;
                    Err::<(), _>(ErrorObject::cancelled())
                }
            })
            .on_cancelled(move |notice| {
                let work = contexts.take().pop();
                found.add((notice.verdict, work.is_some_and(|cx| cx.is_cancelled())));
            });
        let (mut wire, _served) = serve(server).await;
        wire.say(&request(1, "work", json!({}))).await;
        wire.so_far().await;
        wire.say(&cancel(dialect, 1)).await;
        wire.so_far().await;
        assert_eq!(seen.take(), [(Verdict::Accepted, true)], "{}", dialect.name);
    }
}

/// Case 7.
#[tokio::test(start_paused = true)]
async fn malformed_cancels_are_seen_and_do_nothing() {
    for dialect in DIALECTS {
        let (mut watch, witness) = watch();
        let verdicts = Log::new();
        let log = verdicts.clone();
        let server = with_work(builder(dialect), &witness).on_cancelled(move |notice| log.add(notice.verdict));
        let (mut wire, _served) = serve(server).await;
        wire.say(&request(1, "work", json!({}))).await;
        watch.started(1).await;
        let (method, name) = (dialect.cancel.method, dialect.cancel.id);
        let mut bad = vec![json!(true), json!(1.5), json!([1]), json!({ "id": 1 })];
        if dialect.name != acp::V1.name {
            bad.push(Value::Null); // An id in ACP v1 alone.
        }
        for id in &bad {
            wire.say(&notification(method, json!({ name: id }))).await;
        }
        wire.say(&notification(method, json!({}))).await;
        wire.say(&notification(method, json!([1]))).await;
        wire.raw(&format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\"}}\n")).await;
        assert_eq!(wire.so_far().await, Vec::<Value>::new(), "{}: nothing is answered to a notification", dialect.name);
        assert_eq!(verdicts.take(), vec![Verdict::Malformed; bad.len() + 3], "{}", dialect.name);
        assert!(watch.is_quiet());
        // A reason that is no string spoils nothing.
        wire.say(&notification(method, json!({ name: 1, "reason": 5 }))).await;
        watch.stopped(1, CauseCode::Caller).await;
    }
}

/// Case 9, 76.
#[tokio::test(start_paused = true)]
async fn ids_are_told_apart_by_type_and_value() {
    let long = "x".repeat(1000);
    let ids = [json!(0), json!(""), json!(5), json!("5"), json!(9_007_199_254_740_992_u64), json!(long), json!("é")];
    for dialect in DIALECTS {
        let (mut watch, witness) = watch();
        let (mut wire, _served) = serve(with_work(builder(dialect), &witness)).await;
        for id in &ids {
            wire.say(&request(id.clone(), "work", json!({}))).await;
            watch.started(id.clone()).await;
        }
        wire.raw("{\"jsonrpc\":\"2.0\",\"id\":9007199254740993,\"method\":\"work\"}\n").await;
        watch.started(9_007_199_254_740_993_u64).await;
        for id in &ids[..6] {
            wire.say(&cancel(dialect, id.clone())).await;
            watch.stopped(id.clone(), CauseCode::Caller).await;
        }
        let escaped = cancel(dialect, "é").to_string().replace('é', "\\u00e9");
        wire.raw(&format!("{escaped}\n")).await;
        watch.stopped("é", CauseCode::Caller).await;
        wire.say(&cancel(dialect, 9_007_199_254_740_993_u64)).await;
        watch.stopped(9_007_199_254_740_993_u64, CauseCode::Caller).await;
    }
}

/// Case 10.
#[tokio::test(start_paused = true)]
async fn a_duplicate_id_is_refused_and_the_first_request_stays_cancellable() {
    for dialect in DIALECTS {
        let (mut watch, witness) = watch();
        let (mut wire, _served) = serve(with_work(builder(dialect), &witness)).await;
        wire.say(&request(1, "work", json!({}))).await;
        watch.started(1).await;
        wire.say(&request(1, "work", json!({}))).await;
        assert_eq!(wire.hear().await["error"]["code"], -32600);
        wire.say(&cancel(dialect, 1)).await;
        watch.stopped(1, CauseCode::Caller).await;
        assert!(watch.is_quiet(), "the second never started");
    }
}

/// Case 11.
#[tokio::test(start_paused = true)]
async fn an_id_reused_while_the_cancelled_handler_unwinds_gets_its_own_answer() {
    let dialect = &mcp::LATEST_LEGACY;
    let (mut watch, witness) = watch();
    let (mut wire, _served) = serve(with_work(builder(dialect), &witness).grace(secs(1))).await;
    wire.say(&request(1, "stubborn", json!({}))).await;
    watch.started(1).await;
    wire.say_all(&[cancel(dialect, 1), request(1, "ping", json!({}))]).await;
    assert_eq!(wire.hear().await, result(&json!(1), json!({})));
    assert!(watch.is_quiet(), "the old handler still unwinds");
    watch.gone(1).await;
    assert_eq!(wire.so_far().await, Vec::<Value>::new(), "the old handler answers nobody");
}

/// Case 12, 22.
#[tokio::test(start_paused = true)]
async fn a_cancel_in_the_same_read_as_its_request_keeps_it_from_starting() {
    for dialect in DIALECTS {
        for cancel_first in [false, true] {
            let (mut watch, witness) = watch();
            let (mut wire, _served) = serve(with_work(builder(dialect), &witness)).await;
            let mut messages = [request(1, "work", json!({})), cancel(dialect, 1)];
            if cancel_first {
                messages.reverse();
            }
            wire.say_all(&messages).await;
            let said = wire.so_far().await;
            assert_eq!(said.len(), usize::from(!is_silent(dialect)), "{}: {said:?}", dialect.name);
            assert!(watch.is_quiet(), "{}: it never starts", dialect.name);
        }
    }
}

/// Case 22.
#[tokio::test(start_paused = true)]
async fn a_late_cancel_of_a_completed_id_does_not_stick_to_its_next_use() {
    for dialect in DIALECTS {
        let (mut watch, witness) = watch();
        let (mut wire, _served) = serve(with_work(builder(dialect), &witness)).await;
        wire.say(&request(1, "ping", json!({}))).await;
        wire.hear().await;
        wire.say_all(&[cancel(dialect, 1), request(1, "work", json!({}))]).await;
        watch.started(1).await;
        wire.so_far().await;
        assert!(watch.is_quiet(), "{}: the new request runs", dialect.name);
    }
}

/// Case 13, 14.
#[tokio::test(start_paused = true)]
async fn a_queued_request_that_is_cancelled_never_starts_and_a_slot_is_freed_by_the_end_of_its_handler() {
    for dialect in DIALECTS {
        let (mut watch, witness) = watch();
        let server = with_work(builder(dialect), &witness).max_running(1).grace(secs(5));
        let (mut wire, _served) = serve(server).await;
        wire.say(&request(1, "stubborn", json!({}))).await;
        watch.started(1).await;
        let queued = [request(2, "work", json!({})), request(3, "work", json!({}))];
        wire.say_all(&queued).await;
        wire.say_all(&[cancel(dialect, 2), cancel(dialect, 1)]).await;
        tokio::time::sleep(secs(4)).await;
        assert!(watch.is_quiet(), "{}: a cancelled handler that has not ended keeps its slot", dialect.name);
        watch.gone(1).await;
        watch.started(3).await;
    }
}

/// Case 14.
#[tokio::test(start_paused = true)]
async fn a_flood_of_requests_and_cancels_never_runs_more_handlers_than_the_bound() {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };
    const PAIRS: usize = 100_000;
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, max) = (Arc::clone(&running), Arc::clone(&most));
    struct Count(Arc<AtomicUsize>);
    impl Drop for Count {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let dialect = &mcp::LATEST_LEGACY;
    let server = builder(dialect).max_running(8).on_request("slow", move |cx: Context| {
        max.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let count = Count(Arc::clone(&now));
        async move {
            let _count = count;
            cx.cancelled().await;
            // It takes its time to unwind.
            tokio::task::yield_now().await;
            Err::<(), _>(ErrorObject::cancelled())
        }
    });
    let (mut wire, _served) = serve(server).await;
    for id in 0..PAIRS {
        wire.raw(&format!("{}\n{}\n", request(id, "slow", json!({})), cancel(dialect, id))).await;
        if id % 16 == 0 {
            wire.say(&request(PAIRS + id, "slow", json!({}))).await;
            wire.say(&cancel(dialect, PAIRS + id)).await;
        }
    }
    tokio::time::timeout(secs(600), async {
        wire.so_far().await;
        while running.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(millis(1)).await;
        }
    })
    .await
    .unwrap();
    assert!(most.load(Ordering::SeqCst) <= 8, "{most:?}");
}

/// Case 15.
#[tokio::test(start_paused = true)]
async fn cancels_and_responses_pass_a_saturated_server() {
    let dialect = &mcp::LATEST_LEGACY;
    let (mut watch, witness) = watch();
    let server = with_work(builder(dialect), &witness).max_running(2).on_request("asks", |cx: Context| async move {
        let answer: Value = cx.peer().request("roots/list", &()).await?;
        Ok::<_, ErrorObject>(answer)
    });
    let (mut wire, _served) = serve(server).await;
    wire.say_all(&[request(1, "work", json!({})), request(2, "asks", json!({}))]).await;
    watch.started(1).await;
    let asked = wire.hear().await;
    assert_eq!(asked["method"], "roots/list");
    // The one that asks holds no slot meanwhile.
    wire.say(&request(3, "work", json!({}))).await;
    watch.started(3).await;
    for id in 4..20 {
        wire.say(&request(id, "ping", json!({}))).await;
    }
    wire.say(&result(&asked["id"], json!({ "roots": [] }))).await;
    assert_eq!(wire.hear().await, result(&json!(2), json!({ "roots": [] })));
    wire.say(&cancel(dialect, 1)).await;
    watch.stopped(1, CauseCode::Caller).await;
}

/// Case 16.
#[tokio::test(start_paused = true)]
async fn a_cancel_of_initialize_is_ignored_and_it_is_still_answered() {
    for dialect in [&mcp::LATEST_LEGACY, &acp::V1, &lsp::LSP] {
        let verdicts = Log::new();
        let log = verdicts.clone();
        let server =
            builder(dialect).on_cancelled(move |notice| log.add(notice.verdict)).on_request("initialize", || async {
                tokio::time::sleep(millis(5)).await;
                Ok::<_, ErrorObject>(json!({ "ok": true }))
            });
        let (ours, theirs) = tokio::io::duplex(4096);
        let (_peer, driver) = server.accept(theirs);
        driver.spawn();
        let mut wire = crate::rig::Wire::of(ours);
        wire.say_all(&[request(1, "initialize", json!({})), cancel(dialect, 1)]).await;
        assert_eq!(wire.hear().await, result(&json!(1), json!({ "ok": true })), "{}", dialect.name);
        assert!(matches!(verdicts.take()[..], [Verdict::Forbidden(_)]), "{}", dialect.name);
    }
}

/// Case 71: both declare it, the server alone, the client alone, neither (ACP-20).
#[tokio::test(start_paused = true)]
async fn a_server_of_the_proposal_obeys_a_cancel_only_if_it_declared_so() {
    let dialect = &acp::RFD_2025_11_13;
    for (client, server) in [(true, true), (false, true), (true, false), (false, false)] {
        let (mut watch, witness) = watch();
        let capability = |declares| if declares { json!({ "cancellation": { "request": true } }) } else { json!({}) };
        let welcome = json!({ "protocolVersion": 1, "agentCapabilities": capability(server) });
        let server_side = with_work(builder(dialect), &witness).on_request("initialize", move || {
            let welcome = welcome.clone();
            async move { Ok::<_, ErrorObject>(welcome) }
        });
        let (ours, theirs) = tokio::io::duplex(4096);
        let (_peer, driver) = server_side.accept(theirs);
        driver.spawn();
        let mut wire = crate::rig::Wire::of(ours);
        let hello = json!({ "protocolVersion": 1, "clientCapabilities": capability(client) });
        wire.say(&request(0, "initialize", hello)).await;
        wire.hear().await;
        wire.say(&request(1, "work", json!({}))).await;
        watch.started(1).await;
        wire.say(&cancel(dialect, 1)).await;
        if server {
            watch.stopped(1, CauseCode::Caller).await;
            let answer = wire.hear().await;
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32800)));
        } else {
            assert_eq!(wire.so_far().await, Vec::<Value>::new());
            tokio::time::sleep(secs(60)).await;
            assert!(watch.is_quiet(), "the work goes on");
        }
    }
}

/// Case 21.
#[tokio::test(start_paused = true)]
async fn a_panic_is_contained_and_answered_and_the_others_live() {
    for dialect in DIALECTS {
        let (mut watch, witness) = watch();
        let server = with_work(builder(dialect), &witness)
            .on_request("panics", |cx: Context| async move {
                let _guard = cx;
                tokio::task::yield_now().await;
                if true {
                    panic!("on purpose");
                }
                Ok::<_, ErrorObject>(())
            })
            .on_request("panics at once", || {
                if true {
                    panic!("on purpose");
                }
                async { Ok::<_, ErrorObject>(()) }
            })
            .on_notification("panics", || panic!("on purpose"))
            .on_cancelled(|_| panic!("on purpose"));
        let (mut wire, _served) = serve(server).await;
        wire.say(&request(1, "work", json!({}))).await;
        watch.started(1).await;
        wire.say_all(&[
            request(2, "panics", json!({})),
            request(3, "panics at once", json!({})),
            notification("panics", json!({})),
        ])
        .await;
        let mut codes = Vec::new();
        for _ in 0..2 {
            codes.push(wire.hear().await["error"]["code"].clone());
        }
        assert_eq!(codes, [-32603, -32603], "{}", dialect.name);
        wire.say(&cancel(dialect, 1)).await;
        watch.stopped(1, CauseCode::Caller).await;
        wire.so_far().await;
    }
}

/// A handler that ignores its token is dropped when the grace is over, and only then is its request answered.
#[tokio::test(start_paused = true)]
async fn a_stubborn_handler_is_dropped_when_the_grace_is_over() {
    for dialect in DIALECTS {
        let (mut watch, witness) = watch();
        let (mut wire, _served) = serve(with_work(builder(dialect), &witness).grace(secs(3))).await;
        wire.say(&request(1, "stubborn", json!({}))).await;
        watch.started(1).await;
        wire.say(&cancel(dialect, 1)).await;
        tokio::time::sleep(millis(2900)).await;
        assert_eq!(wire.so_far().await, Vec::<Value>::new());
        assert!(watch.is_quiet());
        watch.gone(1).await;
        let said = wire.so_far().await;
        assert_eq!(said.len(), usize::from(!is_silent(dialect)), "{}", dialect.name);
    }
}

/// Case 20.
#[tokio::test(start_paused = true)]
async fn a_shutdown_settles_everything_in_flight_in_bounded_time() {
    for dialect in DIALECTS {
        let (mut watch, witness) = watch();
        let (ours, theirs) = tokio::io::duplex(65536);
        let (peer, driver) = with_work(builder(dialect), &witness).accept(theirs);
        let served = driver.spawn();
        let mut wire = crate::rig::Wire::of(ours);
        wire.say_all(&[request(1, "work", json!({})), request(2, "stubborn", json!({}))]).await;
        watch.started(1).await;
        watch.started(2).await;
        let may_ask = dialect.no_server_requests.is_none();
        let call = tokio::spawn(peer.request::<Value>("roots/list", &()));
        if may_ask {
            assert_eq!(wire.hear().await["method"], "roots/list");
        }
        let start = tokio::time::Instant::now();
        peer.shutdown();
        watch.stopped(1, CauseCode::Shutdown).await;
        watch.gone(2).await;
        assert_eq!(start.elapsed(), secs(1), "{}: the grace of a shutdown", dialect.name);
        assert!(call.await.unwrap().is_err());
        served.await.unwrap().unwrap();
        peer.closed().await;
        let said = wire.close().await;
        let answered: Vec<_> = said.iter().filter(|message| message.get("error").is_some()).collect();
        assert_eq!(answered.len(), 2, "{}: nobody asked for silence: {said:?}", dialect.name);
    }
}

/// One slot at each end, and each handler asks the other side back until there is nothing left to ask.
#[tokio::test(start_paused = true)]
async fn one_slot_and_a_call_back_end() {
    // In 2026-07-28 a server asks nothing (MCP-M03).
    for dialect in [&mcp::LATEST_LEGACY, &acp::V1, &lsp::LSP] {
        let asks_back = |Params(left): Params<u32>, cx: Context| async move {
            match left {
                0 => Ok(0),
                left => cx.peer().request::<u32>("ask", &(left - 1)).await.map(|asked| asked + 1),
            }
        };
        let [near, far] = [(); 2].map(|()| builder(dialect).max_running(1).on_request("ask", asks_back));
        let (client, _server) = pair(near, far);
        if dialect.handshake_first.is_some() {
            client.request::<Value>("initialize", &json!({})).await.unwrap();
        }
        assert_eq!(client.request::<u32>("ask", &7).await.unwrap(), 7);
    }
}

/// Case 51: a batch of three pieces of work, one of which is cancelled.
#[tokio::test(start_paused = true)]
async fn of_a_batch_only_the_named_member_stops() {
    let dialect = &mcp::REVISION_2025_03_26;
    let (mut watch, witness) = watch();
    let (mut wire, _served) = serve(with_work(builder(dialect), &witness)).await;
    let batch = json!([1, 2, 3].map(|id| request(id, "work", json!({}))));
    wire.say(&batch).await;
    for id in [1, 2, 3] {
        watch.started(id).await;
    }
    wire.say(&json!([cancel(dialect, 2)])).await;
    watch.stopped(2, CauseCode::Caller).await;
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
    assert!(watch.is_quiet(), "the others run on");
    for id in [3, 1] {
        wire.say(&cancel(dialect, id)).await;
        watch.stopped(id, CauseCode::Caller).await;
    }
    assert_eq!(wire.so_far().await, Vec::<Value>::new(), "there is no empty array");
}

/// A line that the end of the input broke off can be a message, and nobody is asked about it otherwise.
#[tokio::test]
async fn filters_see_a_last_message_without_a_line_break_and_no_half_of_one() {
    let whole = r#"{"jsonrpc":"2.0","method":"note"}"#;
    for cut in 0..=whole.len() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sees = Arc::clone(&seen);
        let server = builder(&lsp::LSP).incoming(move |message| {
            sees.lock().unwrap().push(String::from_utf8(message.json().to_vec()).unwrap());
            Pass::Unchanged
        });
        let (mut wire, served) = serve(server).await;
        seen.lock().unwrap().clear();
        wire.part(&whole[..cut]).await;
        assert!(wire.close().await.is_empty(), "nobody is answered");
        served.await.unwrap().unwrap();
        let expected: &[&str] = if cut == whole.len() { &[whole] } else { &[] };
        assert_eq!(*seen.lock().unwrap(), expected, "{cut}");
    }
}
