//! Tools that ask their client something, in revisions where a server may send a request and in one where it answers
//! with a result that asks for input (D48, MCP-M03).

use std::{
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
};

use rescind::{
    mcp::{Client, NoArguments, Revision, RoundTrips, Server, Tool, ToolResult},
    peer::{
        Builder, CallError, CallMisuse, Cause, CauseCode, Clock, ConnectError, Context, ErrorObject, Outcome, Params,
        transport::memory,
    },
};
use serde_json::{Value, json};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::rig::{
    Log, Seen, Watch, Wire, Witness, cancel, error, is_cancel, notification, request, result, secs, watch,
};

const ELICIT: &str = "elicitation/create";

/// A tool of what its caller is called, where it lives and how it pays, and one that waits for ever after a question.
fn server(witness: &Witness) -> Server {
    let (curious, stubborn) = (witness.clone(), witness.clone());
    Server::new("curious", "1")
        .with_tool(Tool::with_schema("book", "", json!({}), move |NoArguments {}, cx: Context| {
            let guard = curious.guard(&cx);
            async move {
                let asked = ask_all(&cx).await;
                if cx.is_cancelled() {
                    guard.fired(&cx);
                }
                asked
            }
        }))
        .with_tool(Tool::with_schema("twice", "", json!({}), move |NoArguments {}, cx: Context| {
            let guard = stubborn.guard(&cx);
            async move {
                cx.ask::<Value>(ELICIT, &json!({ "message": "sure?" })).await?;
                cx.cancelled().await;
                guard.fired(&cx);
                Err::<(), _>(ErrorObject::cancelled())
            }
        }))
        .with_tool(direct(&Log::new()))
}

/// A tool that sends its client a request, and adds how that ended to `ends`: whether it is misuse, and what it says.
fn direct(ends: &Log<(bool, String)>) -> Tool {
    let ends = ends.clone();
    Tool::with_schema("direct", "", json!({}), move |NoArguments {}, cx: Context| {
        let ends = ends.clone();
        async move {
            let asked = cx.peer().request::<Value>(ELICIT, &json!({})).await;
            asked.map(|_| ()).map_err(|error| {
                let is_misuse = matches!(error, CallError::Misuse(CallMisuse::NoServerRequests));
                ends.add((is_misuse, error.to_string()));
                ErrorObject::from(error)
            })
        }
    })
}

async fn ask_all(cx: &Context) -> Result<String, ErrorObject> {
    let name: Value = cx.ask(ELICIT, &json!({ "message": "name?" })).await?;
    let (town, card) = (json!({ "message": "town?" }), json!({ "message": "card?" }));
    let (town, card) = tokio::join!(cx.ask::<Value>(ELICIT, &town), cx.ask::<Value>(ELICIT, &card));
    let content = |answer: &Value| answer["content"].as_str().unwrap_or_default().to_owned();
    Ok(format!("{} of {} pays by {}", content(&name), content(&town?), content(&card?)))
}

/// A client of that server, whose person answers with the question in capitals, or waits until told.
async fn client(server: Server, revision: Revision, person: Option<Arc<Notify>>, asked: &Witness) -> Client {
    let asked = asked.clone();
    let builder = Client::peer_builder().on_request(ELICIT, move |Params(params): Params<Value>, cx: Context| {
        let (guard, person) = (asked.guard(&cx), person.clone());
        async move {
            if let Some(person) = person {
                tokio::select! {
                    biased;
                    () = cx.cancelled() => {
                        guard.fired(&cx);
                        return Err(ErrorObject::cancelled());
                    }
                    () = person.notified() => {}
                }
            }
            let answer = params["message"].as_str().unwrap_or_default().to_uppercase();
            Ok::<_, ErrorObject>(json!({ "action": "accept", "content": answer }))
        }
    });
    let (near, far) = memory();
    tokio::spawn(server.serve(far));
    let (peer, driver) = builder.connect(near);
    driver.spawn();
    let client = Client::new(peer, "test", "0").capability("elicitation", json!({}));
    let info = client.open().await.unwrap();
    assert_eq!(info.revision, revision);
    client
}

/// Both ways to ask.
const WAYS: [Revision; 2] = [Revision::V2025_11_25, Revision::V2026_07_28];

fn speaking(server: Server, revision: Revision) -> Server {
    server.revisions(&[revision])
}

async fn started(watch: &mut Watch) {
    assert!(matches!(watch.next().await, Seen::Started(_)));
}

async fn stopped(watch: &mut Watch, code: CauseCode) {
    let seen = watch.next().await;
    assert!(matches!(seen, Seen::Fired(_, found) if found == code), "{seen:?}");
    assert!(matches!(watch.next().await, Seen::Gone(_)));
}

#[tokio::test(start_paused = true)]
async fn a_tool_asks_with_one_await_in_every_revision() {
    for revision in WAYS {
        let ((_work, witness), (_asked, person)) = (watch(), watch());
        let client = client(speaking(server(&witness), revision), revision, None, &person).await;
        for _ in 0..3 {
            let booked = client.call_tool("book", &()).await.unwrap();
            assert_eq!(booked.text(), "NAME? of TOWN? pays by CARD?", "{revision}");
        }
        assert!(client.peer().in_flight().ours.is_empty());
    }
}

/// Whichever way a call is ended while its person is asked: the question is closed, and the tool stops.
#[tokio::test(start_paused = true)]
async fn an_elicitation_asked_in_a_tool_is_stopped_with_its_call() {
    type End = fn(RoundTrips<ToolResult>, CancellationToken) -> tokio::task::JoinHandle<Option<CallError>>;
    let ends: [End; 3] = [
        |call, _| {
            let stop = call.handle();
            let ended = tokio::spawn(async move { call.await.err() });
            tokio::spawn(async move {
                tokio::time::sleep(secs(1)).await;
                drop(stop.cancel("user pressed Stop"));
                ended.await.unwrap()
            })
        },
        |call, token| {
            let ended = tokio::spawn(async move { call.token(token.clone()).await.err() });
            tokio::spawn(async move { ended.await.unwrap() })
        },
        |call, _| {
            tokio::spawn(async move {
                assert!(tokio::time::timeout(secs(1), call).await.is_err(), "and it is dropped");
                None
            })
        },
    ];
    for revision in WAYS {
        for end in ends {
            let ((mut work, witness), (mut asked, person)) = (watch(), watch());
            let never = Some(Arc::new(Notify::new()));
            let client = client(speaking(server(&witness), revision), revision, never, &person).await;
            let button = CancellationToken::new();
            let ended = end(client.call_tool("book", &()), button.clone());
            started(&mut work).await;
            started(&mut asked).await;
            button.cancel();
            stopped(&mut work, CauseCode::Caller).await;
            assert!(matches!(asked.next().await, Seen::Fired(..)), "{revision}");
            assert!(matches!(asked.next().await, Seen::Gone(_)));
            if let Some(error) = ended.await.unwrap() {
                assert!(error.is_cancelled(), "{error}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_in_a_later_round_stops_the_handler_of_the_first() {
    for revision in WAYS {
        let ((mut work, witness), (mut asked, person)) = (watch(), watch());
        let client = client(speaking(server(&witness), revision), revision, None, &person).await;
        let call = client.call_tool("twice", &());
        let stop = call.handle();
        let call = tokio::spawn(call);
        started(&mut work).await;
        started(&mut asked).await;
        assert!(matches!(asked.next().await, Seen::Gone(_)));
        tokio::time::sleep(secs(1)).await;
        assert!(work.is_quiet(), "it works on, in whichever round");
        let receipt = stop.cancel("enough").await;
        assert_eq!(receipt.outcome, Outcome::Sent, "the pending round is cancelled");
        stopped(&mut work, CauseCode::Caller).await;
        assert!(matches!(call.await.unwrap(), Err(CallError::Cancelled(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn the_total_clock_runs_while_the_person_thinks_and_no_other() {
    for revision in WAYS {
        let ((mut work, witness), (_asked, person)) = (watch(), watch());
        let never = Some(Arc::new(Notify::new()));
        let client = client(speaking(server(&witness), revision), revision, never, &person).await;
        let call = tokio::spawn(client.call_tool("book", &()).response_timeout(secs(5)).total_timeout(secs(90)));
        started(&mut work).await;
        let start = Instant::now();
        let ended = call.await.unwrap();
        assert!(
            matches!(ended, Err(CallError::TimedOut { clock: Clock::Total, after }) if after == secs(90)),
            "{ended:?}"
        );
        assert_eq!(start.elapsed().as_secs(), 90);
        assert!(matches!(work.next().await, Seen::Fired(..)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_total_clock_runs_between_rounds_where_there_is_no_other() {
    for revision in WAYS {
        let ((_work, witness), (_asked, person)) = (watch(), watch());
        let never = Some(Arc::new(Notify::new()));
        let client = client(speaking(server(&witness), revision), revision, never, &person).await;
        let call = client.call_tool("book", &()).without_timeouts().total_timeout(secs(90));
        let ended = tokio::time::timeout(secs(91), call).await.expect("its clock runs");
        assert!(matches!(ended, Err(CallError::TimedOut { clock: Clock::Total, .. })), "{ended:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_total_clock_that_ends_a_later_round_names_the_whole_of_its_time() {
    for revision in WAYS {
        let ((mut work, witness), (_asked, person)) = (watch(), watch());
        let answers = Arc::new(Notify::new());
        let client = client(speaking(server(&witness), revision), revision, Some(answers.clone()), &person).await;
        let call = tokio::spawn(client.call_tool("twice", &()).total_timeout(secs(90)));
        started(&mut work).await;
        tokio::time::sleep(secs(60)).await;
        answers.notify_one();
        let ended = call.await.unwrap();
        assert!(
            matches!(ended, Err(CallError::TimedOut { clock: Clock::Total, after }) if after == secs(90)),
            "{revision}: {ended:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_client_cannot_answer_ends_the_call_at_both_ends() {
    let ((mut work, witness), (_asked, person)) = (watch(), watch());
    let server = server(&witness).with_tool(Tool::with_schema("roots", "", json!({}), {
        let witness = witness.clone();
        move |NoArguments {}, cx: Context| {
            let guard = witness.guard(&cx);
            async move {
                let answer: Result<Value, _> = cx.ask("roots/list", &()).await;
                guard.fired(&cx);
                answer.map(|_| ()).map_err(ErrorObject::from)
            }
        }
    }));
    let client = client(server, Revision::V2026_07_28, None, &person).await.capability("roots", json!({}));
    let failed = client.call_tool("roots", &()).await;
    assert!(matches!(&failed, Err(CallError::Input(error)) if error.code == -32601), "{failed:?}");
    started(&mut work).await;
    stopped(&mut work, CauseCode::Caller).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_to_the_client_is_misuse_that_names_the_way_out() {
    let ((_asked, person), ends) = (watch(), Log::new());
    let server = Server::new("direct", "1").with_tool(direct(&ends));
    let client = client(server, Revision::V2026_07_28, None, &person).await;
    let refused = client.call_tool("direct", &()).await;
    assert!(matches!(&refused, Err(CallError::Peer(error)) if error.code == -32603), "{refused:?}");
    let ends = ends.take();
    let [(is_misuse, text)] = &ends[..] else { panic!("{ends:?}") };
    assert!(is_misuse, "{text}");
    assert!(text.contains("Context::ask"), "it names the way out: {text}");
}

/// What is no tool, resource or prompt has no result in which the revision lets it ask.
#[tokio::test(start_paused = true)]
async fn a_question_in_a_route_that_may_not_ask_is_misuse() {
    let ends = Log::new();
    let log = ends.clone();
    let plain = move |builder: Builder| {
        builder.on_request("plain", move |cx: Context| {
            let log = log.clone();
            async move {
                let asked = cx.ask::<Value>(ELICIT, &json!({})).await;
                log.add(matches!(asked, Err(CallError::Misuse(CallMisuse::NoServerRequests))));
                asked.map_err(ErrorObject::from)
            }
        })
    };
    let mut wire = wire(Server::new("plain", "1"), plain).await;
    wire.say(&request(1, "plain", json!({ "_meta": meta(json!({ "elicitation": {} })) }))).await;
    let answer = soon(wire.hear()).await;
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    assert_eq!(ends.take(), [true]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_needs_requests_of_its_own_refuses_the_newest_revision() {
    let ((_work, witness), (_asked, person)) = (watch(), watch());
    let old = server(&witness).revisions(&[Revision::V2025_06_18, Revision::V2025_11_25]);
    let client = client(old, Revision::V2025_11_25, None, &person).await;
    let refused = client.discover().await;
    let Err(ConnectError::Call(CallError::Peer(error))) = refused else { panic!("{refused:?}") };
    assert_eq!(error.code, -32022);
    assert_eq!(error.data::<Value>().unwrap()["supported"], json!(["2025-11-25", "2025-06-18"]));
}

/// As with every stop handle: what only could stop a call keeps no connection open.
#[tokio::test(start_paused = true)]
async fn a_stop_handle_keeps_no_connection_open() {
    let (_work, witness) = watch();
    let (near, far) = memory();
    tokio::spawn(server(&witness).serve(far));
    let (peer, driver) = Client::peer_builder().connect(near);
    let driven = driver.spawn();
    let client = Client::new(peer, "test", "0");
    client.open().await.unwrap();
    let call = client.call_tool("direct", &());
    let stop = call.handle();
    assert!(call.await.is_err());
    drop(client);
    driven.await.unwrap().unwrap();
    assert_eq!(stop.cancel("too late").await.outcome, Outcome::CompletedFirst);
}

// From here on the client is the test.

/// What every request of the test has in `_meta`.
fn meta(capabilities: Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

fn call(id: i64, tool: &str, more: Value) -> Value {
    let mut params = json!({ "name": tool, "_meta": meta(json!({ "elicitation": {} })) });
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    request(id, "tools/call", params)
}

async fn wire(server: Server, change: impl FnOnce(Builder) -> Builder) -> Wire {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    tokio::spawn(server.with(change).serve(theirs));
    Wire::of(ours)
}

/// The time that passes while everything that can happen does, on a clock that stands otherwise.
async fn idle() {
    tokio::time::sleep(secs(1)).await;
}

async fn soon<T>(done: impl Future<Output = T>) -> T {
    tokio::time::timeout(secs(1), done).await.expect("nothing happens any more")
}

fn abandoned(state: &Value) -> Value {
    notification("notifications/dev.rescind/abandoned", json!({ "requestState": state }))
}

fn state(answer: &Value) -> Value {
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    assert!(answer["result"]["requestState"].as_str().unwrap().len() >= 32, "not to be guessed: {answer}");
    answer["result"]["requestState"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_request_state_names_one_handler_of_one_tool_once() {
    let (_work, witness) = watch();
    let mut wire = wire(server(&witness), |peer| peer).await;
    wire.say(&call(1, "book", json!({}))).await;
    let asked = wire.hear().await;
    assert_eq!(asked["result"]["inputRequests"]["q1"], json!({ "method": ELICIT, "params": { "message": "name?" } }));
    let first = state(&asked);
    let given = json!({ "q1": { "action": "accept", "content": "Ada" }, "unasked": 5 });
    for (id, tool, tried) in [
        (2, "book", json!("0".repeat(32))),
        (3, "book", json!(5)),
        (4, "twice", first.clone()),
        (5, "direct", first.clone()),
    ] {
        wire.say(&call(id, tool, json!({ "requestState": tried, "inputResponses": given }))).await;
        assert_eq!(wire.hear().await["error"]["code"], -32602, "{tool} {tried}");
    }
    wire.say(&call(6, "book", json!({ "requestState": first, "inputResponses": given }))).await;
    let second = wire.hear().await;
    assert_eq!(second["id"], 6);
    let more = second["result"]["inputRequests"].as_object().unwrap();
    assert_eq!(more.keys().collect::<Vec<_>>(), ["q2", "q3"], "both at once");
    let next = state(&second);
    assert_ne!(first, next);
    wire.say(&call(7, "book", json!({ "requestState": first, "inputResponses": given }))).await;
    assert_eq!(wire.hear().await["error"]["code"], -32602, "it was used");
    // What is left out is asked again.
    wire.say(&call(8, "book", json!({ "requestState": next, "inputResponses": { "q3": { "content": "card" } } })))
        .await;
    let third = wire.hear().await;
    assert_eq!(third["result"]["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["q2"]);
    let given = json!({ "q2": { "content": "London" } });
    wire.say(&call(9, "book", json!({ "requestState": state(&third), "inputResponses": given }))).await;
    let done = wire.hear().await;
    assert_eq!(done["result"]["content"][0]["text"], "Ada of London pays by card", "{done}");
    assert_eq!(done["result"]["resultType"], "complete");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_come_back_leaves_no_handler() {
    let (mut work, witness) = watch();
    let mut wire = wire(server(&witness).suspended(2, secs(30)), |peer| peer).await;
    wire.say(&call(1, "book", json!({}))).await;
    wire.say(&call(2, "twice", json!({}))).await;
    let states = [state(&wire.hear().await), state(&wire.hear().await)];
    work.started(1).await;
    work.started(2).await;
    // One more would be too many, and fails alone.
    wire.say(&call(3, "book", json!({}))).await;
    assert_eq!(wire.hear().await["error"]["code"], -31004);
    work.started(3).await;
    work.gone(3).await;
    tokio::time::sleep(secs(29)).await;
    assert!(work.is_quiet());
    let start = Instant::now();
    let mut gone = Vec::new();
    while gone.len() < 2 {
        match work.next().await {
            Seen::Gone(id) => gone.push(id),
            seen @ (Seen::Started(_) | Seen::Fired(..)) => {
                assert!(matches!(seen, Seen::Fired(_, CauseCode::Timeout)), "{seen:?}")
            }
        }
    }
    assert!(gone.contains(&json!(1)) && gone.contains(&json!(2)), "{gone:?}");
    assert!(start.elapsed() <= secs(1));
    // Their places are free, before anybody asks after them.
    for id in [4, 5] {
        wire.say(&call(id, "book", json!({}))).await;
        state(&wire.hear().await);
    }
    for (id, tool, state) in [(6, "book", &states[0]), (7, "twice", &states[1])] {
        wire.say(&call(id, tool, json!({ "requestState": state, "inputResponses": {} }))).await;
        assert_eq!(wire.hear().await["error"]["code"], -32602, "it has expired");
    }
    assert_eq!(wire.close().await, Vec::<Value>::new(), "nothing follows an answer");
}

/// A client of ours says so; a deadline of the first round does not end what waits for the second.
#[tokio::test(start_paused = true)]
async fn a_client_that_says_that_it_will_not_come_back_is_not_waited_for() {
    let (mut work, witness) = watch();
    let mut wire = wire(server(&witness), |peer| peer).await;
    let mut hurried = call(1, "book", json!({}));
    hurried["params"]["_meta"]["dev.rescind/deadlineMs"] = json!(1000);
    wire.say(&hurried).await;
    let state = state(&wire.hear().await);
    work.started(1).await;
    tokio::time::sleep(secs(100)).await;
    // A cancel of the first round is a cancel of a completed request.
    wire.say(&cancel(&rescind::mcp::LATEST, 1)).await;
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
    assert!(work.is_quiet());
    wire.say(&abandoned(&state)).await;
    work.stopped(1, CauseCode::Caller).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancel_of_a_later_round_stops_the_handler_and_is_answered_with_nothing() {
    let (mut work, witness) = watch();
    let mut wire = wire(server(&witness), |peer| peer).await;
    wire.say(&call(1, "twice", json!({}))).await;
    let state = state(&wire.hear().await);
    work.started(1).await;
    wire.say(&call(2, "twice", json!({ "requestState": state, "inputResponses": { "q1": {} } }))).await;
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
    wire.say(&cancel(&rescind::mcp::LATEST, 2)).await;
    work.stopped(1, CauseCode::Caller).await;
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_connection_stops_what_waits_between_two_rounds() {
    let (mut work, witness) = watch();
    let mut wire = wire(server(&witness), |peer| peer).await;
    wire.say(&call(1, "book", json!({}))).await;
    state(&wire.hear().await);
    work.started(1).await;
    assert_eq!(wire.close().await, Vec::<Value>::new());
    work.stopped(1, CauseCode::Disconnect).await;
}

/// One slot: what waits for its client does not keep the client's retry out.
#[tokio::test(start_paused = true)]
async fn what_waits_between_two_rounds_holds_no_slot() {
    let (_work, witness) = watch();
    let mut wire = wire(server(&witness), |peer| peer.max_running(1)).await;
    wire.say(&call(1, "twice", json!({}))).await;
    wire.say(&call(2, "book", json!({}))).await;
    state(&wire.hear().await);
    let book = state(&wire.hear().await);
    wire.say(&call(3, "book", json!({ "requestState": book, "inputResponses": { "q1": { "content": "Ada" } } }))).await;
    state(&wire.hear().await);
}

#[tokio::test(start_paused = true)]
async fn a_client_is_not_asked_what_it_did_not_declare() {
    let (_work, witness) = watch();
    let mut wire = wire(server(&witness), |peer| peer).await;
    let params = json!({ "name": "book", "_meta": meta(json!({ "sampling": {} })) });
    wire.say(&request(1, "tools/call", params)).await;
    let answer = wire.hear().await;
    assert_eq!(answer["error"]["code"], -32021);
    assert_eq!(answer["error"]["data"]["requiredCapabilities"], json!({ "elicitation": {} }));
}

#[tokio::test(start_paused = true)]
async fn progress_goes_to_the_round_in_which_the_client_waits() {
    let server = Server::new("slow", "1").with_tool(Tool::with_schema(
        "work",
        "",
        json!({}),
        |NoArguments {}, cx: Context| async move {
            assert!(cx.progress(1.0, None, None).await);
            let (asked, between) = tokio::join!(cx.ask::<Value>(ELICIT, &json!({})), async {
                tokio::task::yield_now().await;
                cx.progress(2.0, None, None).await
            });
            asked?;
            assert!(!between, "nobody waits for progress between two rounds");
            assert!(cx.progress(3.0, None, None).await);
            Ok::<_, ErrorObject>("done")
        },
    ));
    let mut wire = wire(server, |peer| peer).await;
    let with_token = |id, token: &str, more: Value| {
        let mut call = call(id, "work", more);
        call["params"]["_meta"]["progressToken"] = json!(token);
        call
    };
    wire.say(&with_token(1, "one", json!({}))).await;
    assert_eq!(wire.hear().await["params"], json!({ "progressToken": "one", "progress": 1 }));
    let state = state(&wire.hear().await);
    tokio::time::sleep(secs(1)).await;
    wire.say(&with_token(2, "two", json!({ "requestState": state, "inputResponses": { "q1": {} } }))).await;
    assert_eq!(wire.hear().await["params"], json!({ "progressToken": "two", "progress": 3 }));
    assert_eq!(wire.hear().await["result"]["content"][0]["text"], "done");
}

/// A tool that asks once it is let go, and adds how that ended to `ends`.
fn careful(witness: &Witness, go: &Arc<Notify>, ends: &Log<bool>, guards_itself: bool) -> Tool {
    let (witness, go, ends) = (witness.clone(), Arc::clone(go), ends.clone());
    let tool = Tool::with_schema("careful", "", json!({}), move |NoArguments {}, cx: Context| {
        let (guard, go, ends) = (witness.guard(&cx), Arc::clone(&go), ends.clone());
        async move {
            let _guard = guard;
            let _shield = guards_itself.then(|| cx.shield().unwrap());
            go.notified().await;
            let answer = cx.ask::<Value>(ELICIT, &json!({})).await;
            ends.add(matches!(answer, Err(CallError::Cancelled(_))));
            answer.map(|_| ()).map_err(ErrorObject::from)
        }
    });
    if guards_itself { tool } else { tool.route(|route| route.shielded()) }
}

#[tokio::test(start_paused = true)]
async fn a_shielded_tool_whose_client_does_not_come_back_ends() {
    for guards_itself in [false, true] {
        let ((mut work, witness), go, ends) = (watch(), Arc::new(Notify::new()), Log::new());
        let careful = Server::new("careful", "1").with_tool(careful(&witness, &go, &ends, guards_itself));
        let mut wire = wire(careful.suspended(64, secs(30)), |peer| peer).await;
        for id in 1..=3 {
            go.notify_one();
            wire.say(&call(id, "careful", json!({}))).await;
            let state = state(&wire.hear().await);
            work.started(id).await;
            if id == 1 {
                wire.say(&abandoned(&state)).await;
            } else if id == 2 {
                tokio::time::sleep(secs(30)).await;
            } else {
                break;
            }
            soon(work.gone(id)).await;
        }
        let start = Instant::now();
        assert_eq!(wire.close().await, Vec::<Value>::new(), "it was answered");
        assert_eq!(start.elapsed(), secs(0), "the end of the connection waits for no client");
        work.gone(3).await;
        assert_eq!(ends.take(), [true; 3]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_shielded_tool_that_asks_after_its_cancel_ends() {
    for guards_itself in [false, true] {
        let ((mut work, witness), go, ends) = (watch(), Arc::new(Notify::new()), Log::new());
        let careful = Server::new("careful", "1").with_tool(careful(&witness, &go, &ends, guards_itself));
        let mut wire = wire(careful, |peer| peer.max_running(1)).await;
        wire.say(&call(1, "careful", json!({}))).await;
        work.started(1).await;
        wire.say(&cancel(&rescind::mcp::LATEST, 1)).await;
        idle().await;
        assert!(work.is_quiet(), "it is shielded");
        go.notify_one();
        soon(work.gone(1)).await;
        assert_eq!(ends.take(), [true]);
        assert_eq!(wire.so_far().await, Vec::<Value>::new(), "and its slot is free");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_of_a_linked_task_or_thread_is_asked() {
    let server = Server::new("split", "1").with_tool(Tool::with_schema(
        "split",
        "",
        json!({}),
        |NoArguments {}, cx: Context| async move {
            let runtime = tokio::runtime::Handle::current();
            let (task, thread) = (cx.clone(), cx.clone());
            let task = cx.spawn(async move { task.ask::<Value>(ELICIT, &json!({})).await });
            let first = task.await.unwrap()?;
            let thread =
                cx.spawn_blocking(move |_| runtime.block_on(async { thread.ask::<Value>(ELICIT, &json!({})).await }));
            let second = thread.await.unwrap()?;
            Ok::<_, ErrorObject>(format!("{first} {second}"))
        },
    ));
    let mut wire = wire(server, |peer| peer).await;
    wire.say(&call(1, "split", json!({}))).await;
    let first = state(&soon(wire.hear()).await);
    wire.say(&call(2, "split", json!({ "requestState": first, "inputResponses": { "q1": 5 } }))).await;
    let second = state(&wire.hear().await);
    wire.say(&call(3, "split", json!({ "requestState": second, "inputResponses": { "q2": 6 } }))).await;
    assert_eq!(wire.hear().await["result"]["content"][0]["text"], "5 6");
}

/// D12: as every handler that was told to stop.
#[tokio::test(start_paused = true)]
async fn what_was_abandoned_and_goes_on_holds_a_slot() {
    let ((mut work, witness), go) = (watch(), Arc::new(Notify::new()));
    let tool = Tool::with_schema("slow", "", json!({}), {
        let (witness, go) = (witness.clone(), Arc::clone(&go));
        move |NoArguments {}, cx: Context| {
            let (guard, go) = (witness.guard(&cx), Arc::clone(&go));
            async move {
                let asked = cx.ask::<Value>(ELICIT, &json!({})).await;
                guard.fired(&cx);
                go.notified().await;
                asked.map(|_| ()).map_err(ErrorObject::from)
            }
        }
    });
    let server = server(&witness).with_tool(tool.route(|route| route.never_dropped()));
    let mut wire = wire(server, |peer| peer.max_running(1)).await;
    wire.say(&call(1, "slow", json!({}))).await;
    let state = state(&wire.hear().await);
    work.started(1).await;
    wire.say(&abandoned(&state)).await;
    assert_eq!(work.next().await, Seen::Fired(json!(1), CauseCode::Caller));
    wire.say(&call(2, "book", json!({}))).await;
    idle().await;
    assert!(work.is_quiet(), "there is one slot");
    go.notify_one();
    work.gone(1).await;
    work.started(2).await;
}

/// The client never learns how to come back, in the first round or a later one (D13).
#[tokio::test(start_paused = true)]
async fn a_cancel_that_takes_the_question_back_stops_the_handler() {
    const PINGS: usize = 50;
    for round in 1..=2 {
        let (mut work, witness) = watch();
        let (ours, theirs) = tokio::io::duplex(512);
        tokio::spawn(server(&witness).serve(theirs));
        let mut wire = Wire::of(ours);
        let mut more = json!({});
        if round == 2 {
            wire.say(&call(1, "book", json!({}))).await;
            more = json!({ "requestState": state(&wire.hear().await), "inputResponses": { "q1": {} } });
        }
        // The pipe is full before anything is asked.
        for id in 0..PINGS {
            wire.say(&request(format!("ping {id}"), "ping", json!({}))).await;
        }
        wire.say(&call(round, "book", more)).await;
        idle().await;
        work.started(1).await;
        wire.say(&cancel(&rescind::mcp::LATEST, round)).await;
        work.stopped(1, CauseCode::Caller).await;
        let heard = wire.so_far().await;
        assert_eq!(heard.len(), PINGS);
        assert!(heard.iter().all(|answer| answer["result"] == json!({})), "{heard:?}");
    }
}

/// Whether it came to its outcome by itself or by the stop, and whether it may be dropped or not.
#[tokio::test(start_paused = true)]
async fn a_handler_that_is_stopped_between_two_rounds_is_not_kept_for_a_client() {
    for has_outcome in [false, true] {
        let go = Arc::new(Notify::new());
        let tool = Tool::with_schema("patient", "", json!({}), {
            let go = Arc::clone(&go);
            move |NoArguments {}, cx: Context| {
                let go = Arc::clone(&go);
                async move {
                    tokio::select! {
                        asked = cx.ask::<Value>(ELICIT, &json!({})) => asked.map(|_| "asked").map_err(ErrorObject::from),
                        () = go.notified() => Ok("alone"),
                    }
                }
            }
        });
        let server = Server::new("patient", "1").with_tool(tool.route(|route| route.never_dropped()));
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (peer, driver) = server.accept(theirs);
        driver.spawn();
        let mut wire = Wire::of(ours);
        wire.say(&call(1, "patient", json!({}))).await;
        state(&wire.hear().await);
        if has_outcome {
            go.notify_one();
        }
        idle().await;
        let running = peer.in_flight().theirs;
        assert_eq!(running.len(), 1, "it waits for its client");
        assert!(peer.stop(running[0].key, Cause::new(CauseCode::Operator)));
        idle().await;
        assert!(peer.in_flight().theirs.is_empty(), "{has_outcome}");
    }
}

/// A client of the test's server, which speaks 2026-07-28.
async fn opened(builder: Builder) -> (Wire, Client) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (peer, driver) = builder.connect(theirs);
    driver.spawn();
    let mut wire = Wire::of(ours);
    let client = Client::new(peer, "test", "0").capability("elicitation", json!({}));
    let opening = tokio::spawn({
        let client = client.clone();
        async move { client.discover().await }
    });
    let hello = wire.hear().await;
    wire.say(&result(&hello["id"], json!({ "supportedVersions": ["2026-07-28"] }))).await;
    opening.await.unwrap().unwrap();
    (wire, client)
}

/// Polls a future once, for nobody.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut task::Context::from_waker(task::Waker::noop()))
}

/// The server is the test, and one that wants to know. It hears so even where a retry was on its way: that may be
/// taken back, or cancelled before it starts.
#[tokio::test(start_paused = true)]
async fn a_server_that_waits_hears_that_no_retry_comes() {
    let (mut wire, client) = opened(Client::peer_builder()).await;
    let waiting = |state: &str| {
        let meta = json!({ "dev.rescind/abandonable": true });
        json!({ "resultType": "input_required", "requestState": state, "_meta": meta })
    };
    // An answer that nobody has seen.
    let call = client.call_tool("book", &()).send();
    let first = wire.hear().await;
    wire.say(&result(&first["id"], waiting("a"))).await;
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
    drop(call);
    assert_eq!(wire.so_far().await, [abandoned(&json!("a"))]);
    // A retry of which nothing was written.
    let mut call = Box::pin(client.call_tool("book", &()));
    assert!(poll_once(call.as_mut()).is_pending());
    let first = wire.hear().await;
    wire.say(&result(&first["id"], waiting("b"))).await;
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
    assert!(poll_once(call.as_mut()).is_pending(), "it pauses");
    idle().await;
    assert!(poll_once(call.as_mut()).is_pending(), "the retry is made");
    drop(call);
    assert_eq!(wire.so_far().await, [abandoned(&json!("b"))], "and taken back");
    // A retry that the server has, and may not have started.
    let call = client.call_tool("book", &());
    let stop = call.handle();
    let call = tokio::spawn(call);
    let first = wire.hear().await;
    wire.say(&result(&first["id"], waiting("c"))).await;
    let retry = wire.hear().await;
    assert_eq!(retry["params"]["requestState"], "c");
    drop(stop.cancel("enough"));
    assert!(matches!(call.await.unwrap(), Err(CallError::Cancelled(_))));
    let heard = wire.so_far().await;
    assert!(is_cancel(&heard[0], &rescind::mcp::LATEST, &retry["id"]), "{heard:?}");
    assert_eq!(heard[1..], [abandoned(&json!("c"))]);
    // A retry that the server has no room for, and others that are answered: those wait no longer, seen or not.
    let answers = [
        (error(&Value::Null, -31004), true, vec![abandoned(&json!("d"))]),
        (error(&Value::Null, -31004), false, vec![abandoned(&json!("d"))]),
        (error(&Value::Null, -32603), true, vec![]),
        (result(&Value::Null, json!({ "content": [] })), true, vec![]),
        (result(&Value::Null, json!({ "content": [] })), false, vec![]),
    ];
    for (mut answer, is_seen, told) in answers {
        let mut call = Box::pin(client.call_tool("book", &()));
        assert!(poll_once(call.as_mut()).is_pending());
        let first = wire.hear().await;
        wire.say(&result(&first["id"], waiting("d"))).await;
        assert_eq!(wire.so_far().await, Vec::<Value>::new());
        assert!(poll_once(call.as_mut()).is_pending());
        idle().await;
        assert!(poll_once(call.as_mut()).is_pending());
        answer["id"] = wire.hear().await["id"].clone();
        wire.say(&answer).await;
        assert_eq!(wire.so_far().await, Vec::<Value>::new());
        assert!(!is_seen || poll_once(call.as_mut()).is_ready());
        drop(call);
        assert_eq!(wire.so_far().await, told, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_detached_call_goes_on_in_every_round() {
    let (mut wire, client) = opened(Client::peer_builder()).await;
    let mut call = Box::pin(client.call_tool("book", &()).detach());
    assert!(poll_once(call.as_mut()).is_pending());
    let first = wire.hear().await;
    let meta = json!({ "dev.rescind/abandonable": true });
    let waiting = json!({ "resultType": "input_required", "requestState": "a", "_meta": meta });
    wire.say(&result(&first["id"], waiting)).await;
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
    assert!(poll_once(call.as_mut()).is_pending(), "it pauses");
    idle().await;
    assert!(poll_once(call.as_mut()).is_pending(), "the retry is made");
    drop(call);
    let heard = wire.so_far().await;
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert_eq!(heard[0]["params"]["requestState"], "a");
}

/// The server is the test, and never has enough.
#[tokio::test(start_paused = true)]
async fn a_server_that_asks_again_and_again_is_not_called_for_ever() {
    let (mut wire, client) = opened(Client::peer_builder()).await;
    let call = tokio::spawn(client.call_tool("book", &()).without_timeouts());
    let meta = json!({ "dev.rescind/abandonable": true });
    let waiting = json!({ "resultType": "input_required", "requestState": "more", "_meta": meta });
    // The call, and a hundred rounds.
    for _ in 0..=100 {
        let asked = wire.hear().await;
        assert_eq!(asked["method"], "tools/call");
        wire.say(&result(&asked["id"], waiting.clone())).await;
    }
    let ended = soon(call).await.unwrap();
    assert!(matches!(&ended, Err(CallError::Input(error)) if error.code == -32603), "{ended:?}");
    assert_eq!(wire.so_far().await, [abandoned(&json!("more"))], "its handler is let go");
}

/// A client whose person waits for ever, and which looks at its token.
fn waits_for_the_person(person: Witness) -> Builder {
    Client::peer_builder().on_request(ELICIT, move |cx: Context| {
        let guard = person.guard(&cx);
        async move {
            cx.cancelled().await;
            guard.fired(&cx);
            Err::<(), _>(ErrorObject::cancelled())
        }
    })
}

/// The answer to this request that asks for input, of a server that wants to hear when none comes.
fn asks(request: &Value) -> Value {
    let questions = json!({ "name": { "method": ELICIT, "params": {} } });
    let meta = json!({ "dev.rescind/abandonable": true });
    let input =
        json!({ "resultType": "input_required", "inputRequests": questions, "requestState": "a", "_meta": meta });
    result(&request["id"], input)
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_connection_ends_a_call_whose_person_is_asked_and_closes_the_question() {
    for is_shut_down in [false, true] {
        let (mut asked, person) = watch();
        let (mut wire, client) = opened(waits_for_the_person(person)).await;
        let call = tokio::spawn(client.call_tool("book", &()));
        let first = wire.hear().await;
        wire.say(&asks(&first)).await;
        started(&mut asked).await;
        if is_shut_down {
            client.peer().shutdown();
        } else {
            drop(wire);
        }
        assert!(matches!(soon(call).await.unwrap(), Err(CallError::Closed)));
        assert!(matches!(asked.next().await, Seen::Fired(..)));
        assert!(matches!(asked.next().await, Seen::Gone(_)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_between_two_rounds_needs_nobody_to_poll_the_call() {
    let (mut asked, person) = watch();
    let (mut wire, client) = opened(waits_for_the_person(person)).await;
    let mut call = Box::pin(client.call_tool("book", &()));
    let stop = call.handle();
    assert!(poll_once(call.as_mut()).is_pending());
    let first = wire.hear().await;
    wire.say(&asks(&first)).await;
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
    assert!(poll_once(call.as_mut()).is_pending());
    started(&mut asked).await;
    assert_eq!(stop.cancel("enough").await.outcome, Outcome::Sent);
    assert!(matches!(asked.next().await, Seen::Fired(..)));
    assert!(matches!(asked.next().await, Seen::Gone(_)));
    assert_eq!(wire.so_far().await, [abandoned(&json!("a"))]);
    assert!(matches!(call.await, Err(CallError::Cancelled(_))));
    assert_eq!(wire.so_far().await, Vec::<Value>::new(), "told once");
}

/// The server is the test: nothing is asked again after a stop between two rounds, and no notification is sent that it did
/// not ask for.
#[tokio::test(start_paused = true)]
async fn after_a_stop_between_two_rounds_the_server_hears_nothing() {
    let (mut asked, person) = watch();
    let builder = Client::peer_builder().on_request(ELICIT, move |cx: Context| {
        let guard = person.guard(&cx);
        async move {
            cx.cancelled().await;
            guard.fired(&cx);
            Err::<(), _>(ErrorObject::cancelled())
        }
    });
    let (mut wire, client) = opened(builder).await;
    let call = client.call_tool("book", &json!({ "deep": { "a": [1] } }));
    let stop = call.handle();
    let call = tokio::spawn(call);
    let first = wire.hear().await;
    let questions = json!({ "name": { "method": ELICIT, "params": {} } });
    let input = json!({ "resultType": "input_required", "inputRequests": questions, "requestState": "opaque \"{}" });
    wire.say(&result(&first["id"], input.clone())).await;
    started(&mut asked).await;
    let receipt = stop.cancel("enough").await;
    assert_eq!(receipt.outcome, Outcome::NotSendable, "nothing is pending, and it does not want to hear");
    assert!(matches!(call.await.unwrap(), Err(CallError::Cancelled(_))));
    assert!(matches!(asked.next().await, Seen::Fired(..)));
    assert!(matches!(asked.next().await, Seen::Gone(_)));
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
    // Nor is the person asked whose call was stopped before its caller saw the answer.
    let call = client.call_tool("book", &()).send();
    let stop = call.handle();
    let first = wire.hear().await;
    wire.say(&result(&first["id"], input)).await;
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
    drop(stop.cancel("enough"));
    assert!(matches!(call.await, Err(CallError::Cancelled(_))));
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
    assert!(asked.is_quiet());
    // And a retry is the same request with what was asked for, under another id.
    let call = tokio::spawn(client.call_tool("book", &json!({ "deep": { "a": [1] } })));
    let first = wire.hear().await;
    let waiting = json!({ "resultType": "input_required", "requestState": "wait" });
    wire.say(&result(&first["id"], waiting)).await;
    let again = wire.hear().await;
    assert_ne!(first["id"], again["id"]);
    assert_eq!(again["params"]["requestState"], "wait");
    assert_eq!(again["params"].get("inputResponses"), None);
    assert_eq!(
        (&again["params"]["name"], &again["params"]["arguments"]),
        (&json!("book"), &json!({ "deep": { "a": [1] } }))
    );
    wire.say(&result(&again["id"], json!({ "content": [] }))).await;
    assert_eq!(call.await.unwrap().unwrap().text(), "");
}

/// A call that waits between two rounds, its stop handle, and the connection of its server.
async fn between_rounds(
    change: impl FnOnce(RoundTrips<ToolResult>) -> RoundTrips<ToolResult>,
) -> (Wire, Client, Pin<Box<RoundTrips<ToolResult>>>, rescind::peer::StopHandle) {
    let (_asked, person) = watch();
    let (mut wire, client) = opened(waits_for_the_person(person)).await;
    let mut call = Box::pin(change(client.call_tool("book", &())));
    let stop = call.handle();
    assert!(poll_once(call.as_mut()).is_pending());
    let first = wire.hear().await;
    wire.say(&asks(&first)).await;
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
    assert!(poll_once(call.as_mut()).is_pending());
    (wire, client, call, stop)
}

#[tokio::test(start_paused = true)]
async fn a_stop_between_two_rounds_has_a_receipt_that_stays_however_it_was_asked_for() {
    let token = CancellationToken::new();
    let (_asked, person) = watch();
    for way in ["handle", "token", "drop", "unread"] {
        let given = token.child_token();
        let fires = given.clone();
        let (mut wire, _client, mut call, stop) = between_rounds(|call| call.token(given)).await;
        assert_eq!(stop.receipt(), None, "{way}");
        match way {
            "handle" => {
                assert_eq!(stop.cancel("enough").await.outcome, Outcome::Sent);
                assert_eq!(stop.receipt().map(|receipt| receipt.outcome), Some(Outcome::Sent));
                assert!(matches!(poll_once(call.as_mut()), Poll::Ready(Err(CallError::Cancelled(_)))));
            }
            "token" => {
                fires.cancel();
                assert!(matches!(poll_once(call.as_mut()), Poll::Ready(Err(CallError::Cancelled(_)))));
            }
            "drop" => drop(call),
            // The answer that asks has arrived, and its caller has not looked.
            _ => {
                let (unread, client) = opened(waits_for_the_person(person.clone())).await;
                wire = unread;
                let mut call = Box::pin(client.call_tool("book", &()).send());
                let stop = call.handle();
                let first = wire.hear().await;
                wire.say(&asks(&first)).await;
                assert_eq!(wire.so_far().await, Vec::<Value>::new());
                drop(stop.cancel("enough"));
                assert!(matches!(poll_once(call.as_mut()), Poll::Ready(Err(CallError::Cancelled(_)))));
                assert_eq!(stop.receipt().map(|receipt| receipt.outcome), Some(Outcome::Sent), "{way}");
                assert_eq!(wire.so_far().await, [abandoned(&json!("a"))], "{way}");
                continue;
            }
        }
        assert_eq!(wire.so_far().await, [abandoned(&json!("a"))], "{way}");
        let receipt = stop.receipt().expect(way);
        assert_eq!((receipt.outcome, receipt.written.is_some()), (Outcome::Sent, true), "{way}");
        assert_eq!(stop.cancel("again").await, receipt, "{way}: the first stays");
        assert_eq!(wire.so_far().await, Vec::<Value>::new(), "{way}: told once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_between_two_rounds_is_observed_at_the_server_as_a_cancel() {
    let ((mut work, witness), seen) = (watch(), Log::new());
    let log = seen.clone();
    let observe = move |peer: Builder| {
        peer.on_cancelled(move |notice| {
            log.add((
                notice.id.as_ref().map(ToString::to_string),
                notice.method.as_deref().map(str::to_owned),
                notice.verdict,
            ));
        })
    };
    let mut wire = wire(server(&witness), observe).await;
    wire.say(&call(1, "book", json!({}))).await;
    let state = state(&wire.hear().await);
    work.started(1).await;
    wire.say(&abandoned(&state)).await;
    work.stopped(1, CauseCode::Caller).await;
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
    let expected = (Some("1".to_owned()), Some("tools/call".to_owned()), rescind::peer::Verdict::Accepted);
    assert_eq!(seen.take(), [expected]);
}

#[tokio::test(start_paused = true)]
async fn in_flight_lists_no_call_that_has_ended() {
    let (mut wire, client, mut call, stop) = between_rounds(|call| call).await;
    assert!(client.peer().in_flight().ours.is_empty(), "nothing is pending between two rounds");
    drop(stop.cancel("enough"));
    assert!(matches!(poll_once(call.as_mut()), Poll::Ready(Err(CallError::Cancelled(_)))));
    assert_eq!(wire.so_far().await, [abandoned(&json!("a"))]);
    assert!(client.peer().in_flight().ours.is_empty());
    // A round that was cancelled while it was pending: MCP answers it with nothing.
    let call = client.call_tool("book", &()).send();
    let asked = wire.hear().await;
    assert_eq!(client.peer().in_flight().ours.len(), 1);
    assert_eq!(call.cancel("enough").await.outcome, Outcome::Sent);
    assert!(is_cancel(&wire.hear().await, &rescind::mcp::LATEST, &asked["id"]));
    assert!(client.peer().in_flight().ours.is_empty(), "it has ended");
}
