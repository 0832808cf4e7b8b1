//! MCP servers and clients: handshakes, tools, and what stops their work.
//!
//! A doc comment names the cases and rules that a test shows.

use rescind::{
    mcp::{Client, Content, NoArguments, Revision, RoundTrips, Server, Tool, ToolResult},
    peer::{
        CallError, CauseCode, ConnectError, Context, ErrorObject, Outcome, Params, Peer, Transport, Verdict,
        transport::memory,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::rig::{self, Log, Watch, Wire, Witness, cancel, millis, notification, request, result, secs, watch};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Iterations {
    /// Number of iterations
    iterations: u32,
}

/// Counts a second each, and stops between two.
fn computer(witness: &Witness) -> Server {
    let witness = witness.clone();
    let stubborn = witness.clone();
    Server::new("computer", "1.2.3")
        .instructions("Ask it to compute.")
        .tool("long_computation", "A long-running computation", move |Iterations { iterations }, cx: Context| {
            let guard = witness.guard(&cx);
            async move {
                for _ in 0..iterations {
                    if let Err(cancelled) = cx.unless_cancelled(tokio::time::sleep(secs(1))).await {
                        guard.fired(&cx);
                        return Err(cancelled);
                    }
                }
                Ok(format!("Completed {iterations} iterations."))
            }
        })
        .with_tool(
            Tool::new("commit", "Cannot be undone, nor stopped", move |NoArguments {}, cx: Context| {
                let guard = stubborn.guard(&cx);
                async move {
                    tokio::time::sleep(secs(2)).await;
                    drop(guard);
                    Ok::<_, ErrorObject>(vec![Content::text("committed")])
                }
            })
            .declare("annotations", json!({ "destructiveHint": true }))
            .route(|route| route.shielded()),
        )
        .with_tool(
            Tool::new("patient", "Waits for ever, for at most a minute", |NoArguments {}, cx: Context| async move {
                cx.cancelled().await;
                Err::<(), _>(ErrorObject::cancelled())
            })
            .route(|route| route.time_limit(secs(60))),
        )
}

fn serve(server: Server) -> Wire {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (_peer, driver) = server.accept(theirs);
    driver.spawn();
    Wire::of(ours)
}

async fn greeted(server: Server, revision: Revision) -> Wire {
    let mut wire = serve(server);
    wire.say(&request("init", "initialize", hello(revision.date()))).await;
    assert_eq!(wire.hear().await["result"]["protocolVersion"], revision.date());
    wire.say(&notification("notifications/initialized", json!({}))).await;
    wire
}

fn hello(version: &str) -> Value {
    json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "test", "version": "0" } })
}

/// The params of a request that names its revision.
fn modern(mut params: Value, version: &str) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

fn call(tool: &str, arguments: Value) -> Value {
    json!({ "name": tool, "arguments": arguments })
}

/// A client of this server, both driven.
fn pair(server: Server) -> Client {
    let (a, b) = memory();
    server.accept(a).1.spawn();
    connect(b)
}

fn connect(transport: impl Into<Transport>) -> Client {
    let (peer, driver) = Client::peer_builder().connect(transport);
    driver.spawn();
    Client::new(peer, "test", "0")
}

/// A client whose server is the test.
fn client_of_wire() -> (Wire, Client) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    (Wire::of(ours), connect(theirs))
}

fn legacy() -> impl Iterator<Item = Revision> {
    Revision::ALL.into_iter().filter(|revision| !revision.is_stateless())
}

#[tokio::test(start_paused = true)]
async fn every_revision_is_agreed_on_and_for_others_the_newest_with_a_handshake() {
    let asked = legacy().map(|revision| (revision.date(), revision.date()));
    let unknown = ["2026-07-28", "1999-01-01"].map(|date| (date, "2025-11-25"));
    for (date, agreed) in asked.chain(unknown) {
        let (_watch, witness) = watch();
        let mut wire = serve(computer(&witness));
        wire.say(&request(1, "initialize", hello(date))).await;
        let answer = wire.hear().await["result"].clone();
        assert_eq!(answer["protocolVersion"], agreed, "{date}");
        assert_eq!(answer["serverInfo"], json!({ "name": "computer", "version": "1.2.3" }));
        assert_eq!(answer["capabilities"], json!({ "tools": {} }));
        assert_eq!(answer["instructions"], "Ask it to compute.");
    }
    let (_watch, witness) = watch();
    let mut wire = serve(computer(&witness));
    wire.say(&request(1, "initialize", json!({}))).await;
    assert_eq!(wire.hear().await["error"]["code"], -32602);
    wire.say(&request(2, "ping", json!({}))).await;
    assert_eq!(wire.hear().await, result(&json!(2), json!({})));
}

/// Case 16. MCP-C03.
#[tokio::test(start_paused = true)]
async fn initialize_is_answered_whatever_cancels_it() {
    for revision in legacy() {
        let (_watch, witness) = watch();
        let verdicts = Log::new();
        let log = verdicts.clone();
        let server = computer(&witness).with(|peer| peer.on_cancelled(move |notice| log.add(notice.verdict)));
        let mut wire = serve(server);
        let cancel = cancel(revision.dialect(), 1);
        wire.say_all(&[request(1, "initialize", hello(revision.date())), cancel.clone()]).await;
        assert_eq!(wire.hear().await["result"]["protocolVersion"], revision.date());
        wire.say(&cancel).await;
        assert_eq!(wire.so_far().await, Vec::<Value>::new());
        let verdicts = verdicts.take();
        assert!(!verdicts.contains(&Verdict::Accepted), "{revision}: {verdicts:?}");
    }
}

/// Case 16. MCP-C03.
#[tokio::test(start_paused = true)]
async fn a_client_never_cancels_its_handshake_by_choice_or_timeout() {
    for gives_up in [true, false] {
        let (mut wire, client) = client_of_wire();
        let peer = client.peer().clone();
        let opening = tokio::spawn(async move { client.initialize().await });
        assert_eq!(wire.hear().await["method"], "initialize");
        if gives_up {
            opening.abort();
            assert!(opening.await.unwrap_err().is_cancelled());
        } else {
            tokio::time::sleep(secs(61)).await;
            assert!(matches!(opening.await.unwrap(), Err(ConnectError::Call(CallError::TimedOut { .. }))));
        }
        assert_eq!(wire.so_far().await, Vec::<Value>::new(), "nothing is cancelled on the wire");
        drop(peer);
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_needs_no_handshake_and_hears_of_revisions_that_nobody_speaks() {
    let (mut watch, witness) = watch();
    let mut wire = serve(computer(&witness));
    wire.say(&request(1, "server/discover", modern(json!({}), "2026-07-28"))).await;
    let found = wire.hear().await["result"].clone();
    assert_eq!(found["resultType"], "complete");
    assert_eq!(found["supportedVersions"][0], "2026-07-28");
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "computer");
    wire.say(&request(2, "tools/list", modern(json!({}), "2026-07-28"))).await;
    let list = wire.hear().await["result"].clone();
    assert_eq!((&list["resultType"], list["ttlMs"].is_u64()), (&json!("complete"), true));
    let asked = call("long_computation", json!({ "iterations": 0 }));
    wire.say(&request(3, "tools/call", modern(asked.clone(), "2026-07-28"))).await;
    let done = wire.hear().await["result"].clone();
    assert_eq!(
        (&done["resultType"], &done["content"][0]["text"]),
        (&json!("complete"), &json!("Completed 0 iterations."))
    );
    watch.started(3).await;
    watch.gone(3).await;
    wire.say(&request(4, "tools/call", modern(asked, "2031-01-01"))).await;
    let error = wire.hear().await["error"].clone();
    assert_eq!((&error["code"], &error["data"]["requested"]), (&json!(-32022), &json!("2031-01-01")));
    assert_eq!(error["data"]["supported"].as_array().unwrap().len(), 5);
    assert!(watch.is_quiet(), "it was not called");
}

#[tokio::test(start_paused = true)]
async fn tools_are_listed_with_the_schema_of_their_arguments() {
    let (_watch, witness) = watch();
    let client = pair(computer(&witness));
    client.initialize().await.unwrap();
    let tools = client.list_tools().await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["long_computation", "commit", "patient"]);
    let schema = &tools[0].input_schema;
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["properties"]["iterations"]["description"], "Number of iterations");
    assert_eq!(schema["required"], json!(["iterations"]));
    assert_eq!(tools[0].description, "A long-running computation");
    assert_eq!(tools[1].other["annotations"]["destructiveHint"], true);
    let bad = client.peer().request::<Value>("tools/list", &json!({ "cursor": "x" })).await;
    assert!(matches!(bad, Err(CallError::Peer(error)) if error.code == -32602));
}

#[tokio::test(start_paused = true)]
async fn unknown_tools_and_arguments_that_do_not_fit_are_answered_as_the_revision_has_it() {
    for revision in Revision::ALL {
        let (mut watch, witness) = watch();
        let (mut wire, dress): (_, fn(Value) -> Value) = if revision.is_stateless() {
            (serve(computer(&witness)), |params| modern(params, "2026-07-28"))
        } else {
            (greeted(computer(&witness), revision).await, |params| params)
        };
        wire.say(&request(1, "tools/call", dress(call("fly", json!({}))))).await;
        let error = wire.hear().await["error"].clone();
        assert_eq!(error["code"], -32602, "{revision}");
        assert!(error["message"].as_str().unwrap().contains("fly"));
        for arguments in [json!({ "iterations": "many" }), json!({}), json!([1]), Value::Null] {
            wire.say(&request(2, "tools/call", dress(call("long_computation", arguments.clone())))).await;
            let answer = wire.hear().await;
            if revision < Revision::V2025_11_25 {
                assert_eq!(answer["error"]["code"], -32602, "{revision}: {answer}");
            } else {
                assert_eq!(answer["result"]["isError"], true, "{revision}: {answer}");
            }
        }
        wire.say(&request(3, "tools/call", dress(json!({ "arguments": {} })))).await;
        assert_eq!(wire.hear().await["error"]["code"], -32602, "{revision}: no name");
        assert!(watch.is_quiet(), "nothing was called");
    }
}

/// Case 1, 17. MCP-C04, MCP-C06.
#[tokio::test(start_paused = true)]
async fn a_cancelled_tool_stops_between_two_iterations_and_nothing_is_answered() {
    for revision in Revision::ALL {
        let (mut watch, witness) = watch();
        let (mut wire, dress): (_, fn(Value) -> Value) = if revision.is_stateless() {
            (serve(computer(&witness)), |params| modern(params, "2026-07-28"))
        } else {
            (greeted(computer(&witness), revision).await, |params| params)
        };
        for id in [1, 2] {
            let asked = call("long_computation", json!({ "iterations": 5 }));
            wire.say(&request(id, "tools/call", dress(asked))).await;
            watch.started(id).await;
        }
        wire.say(&cancel(revision.dialect(), 1)).await;
        watch.stopped(1, CauseCode::Caller).await;
        assert!(watch.is_quiet(), "{revision}: the other computes on");
        let done = wire.hear().await;
        assert_eq!(
            (&done["id"], &done["result"]["content"][0]["text"]),
            (&json!(2), &json!("Completed 5 iterations."))
        );
        watch.gone(2).await;
    }
}

/// MCP-C07, MCP-C14.
#[tokio::test(start_paused = true)]
async fn each_tool_is_stopped_as_its_route_says() {
    let revision = Revision::LATEST_LEGACY;
    let (mut watch, witness) = watch();
    let mut wire = greeted(computer(&witness), revision).await;
    wire.say(&request(1, "tools/call", call("commit", json!({})))).await;
    watch.started(1).await;
    wire.say(&cancel(revision.dialect(), 1)).await;
    assert_eq!(wire.hear().await["result"]["content"][0]["text"], "committed", "a shielded tool is answered");
    watch.gone(1).await;
    wire.say(&request(2, "tools/call", json!({ "name": "patient" }))).await;
    let start = tokio::time::Instant::now();
    let answer = wire.hear().await;
    assert_eq!(answer["error"]["code"], -32603, "its own time limit is answered: {answer}");
    assert_eq!(start.elapsed().as_secs(), 60);
}

/// Case 25, 37. Dropping a call of a tool stops the tool.
#[tokio::test(start_paused = true)]
async fn a_dropped_call_stops_the_tool_at_the_other_side() {
    for is_modern in [false, true] {
        let (mut watch, witness) = watch();
        let reasons = Log::new();
        let log = reasons.clone();
        let server = computer(&witness).with(|peer| peer.on_cancelled(move |notice| log.add(notice.reason.clone())));
        let client = pair(server);
        let info = if is_modern { client.open().await.unwrap() } else { client.initialize().await.unwrap() };
        assert_eq!((info.revision.is_stateless(), &*info.name), (is_modern, "computer"));
        let many = Iterations { iterations: 1000 };
        let computing = client.call_tool("long_computation", &many).send();
        started(&mut watch).await;
        drop(computing);
        stopped(&mut watch).await;
        let computing = client.call_tool("long_computation", &many).send();
        started(&mut watch).await;
        let receipt = computing.cancel("user pressed Stop").await;
        assert_eq!(receipt.outcome, Outcome::Sent, "all that a wire of MCP can show");
        stopped(&mut watch).await;
        assert_eq!(reasons.take()[1].as_deref(), Some("user pressed Stop"));
        let few = client.call_tool("long_computation", &Iterations { iterations: 2 }).await.unwrap();
        assert_eq!(few.text(), "Completed 2 iterations.");
        let none: RoundTrips<ToolResult> = client.call_tool("commit", &());
        assert_eq!(none.await.unwrap().text(), "committed");
    }
}

async fn started(watch: &mut Watch) {
    assert!(matches!(watch.next().await, rig::Seen::Started(_)));
}

async fn stopped(watch: &mut Watch) {
    assert!(matches!(watch.next().await, rig::Seen::Fired(_, CauseCode::Caller)));
    assert!(matches!(watch.next().await, rig::Seen::Gone(_)));
}

#[tokio::test(start_paused = true)]
async fn a_client_falls_back_to_the_handshake_that_its_server_knows() {
    let (mut wire, client) = client_of_wire();
    let opening = tokio::spawn({
        let client = client.clone();
        async move { client.open().await }
    });
    let probe = wire.hear().await;
    assert_eq!(probe["method"], "server/discover");
    wire.say(&rig::error(&probe["id"], -32601)).await;
    let hello = wire.hear().await;
    assert_eq!((&hello["method"], &hello["params"]["protocolVersion"]), (&json!("initialize"), &json!("2025-11-25")));
    let greeting = json!({ "protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": { "name": "old" } });
    wire.say(&result(&hello["id"], greeting)).await;
    let info = opening.await.unwrap().unwrap();
    assert_eq!((info.revision, &*info.name), (Revision::V2025_03_26, "old"));
    assert_eq!(wire.hear().await["method"], "notifications/initialized");
    let listing = tokio::spawn(async move { client.list_tools().await });
    for (cursor, next) in [(Value::Null, json!("two")), (json!("two"), Value::Null)] {
        let asked = wire.hear().await;
        assert_eq!(asked["params"]["cursor"], cursor);
        assert_eq!(asked["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], Value::Null);
        let page = json!({ "tools": [{ "name": "sum" }], "nextCursor": next });
        wire.say(&result(&asked["id"], page)).await;
    }
    assert_eq!(listing.await.unwrap().unwrap().len(), 2, "from two pages");
}

#[tokio::test(start_paused = true)]
async fn a_client_asks_an_old_server_that_says_nothing_in_its_own_way() {
    let (mut wire, client) = client_of_wire();
    let start = tokio::time::Instant::now();
    let opening = tokio::spawn(async move { client.open().await });
    assert_eq!(wire.hear().await["method"], "server/discover");
    assert_eq!(wire.hear().await["method"], "notifications/cancelled");
    let hello = wire.hear().await;
    assert_eq!((&hello["method"], start.elapsed().as_secs()), (&json!("initialize"), 10));
    wire.say(&result(&hello["id"], json!({ "protocolVersion": "2024-11-05", "capabilities": {} }))).await;
    assert_eq!(opening.await.unwrap().unwrap().revision, Revision::V2024_11_05);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_speaks_nothing_we_know_is_not_opened() {
    let (mut wire, client) = client_of_wire();
    let opening = tokio::spawn(async move { client.initialize().await });
    let id = wire.hear().await["id"].clone();
    wire.say(&result(&id, json!({ "protocolVersion": "2031-01-01", "capabilities": {} }))).await;
    assert!(matches!(opening.await.unwrap(), Err(ConnectError::Version(version)) if version == "2031-01-01"));
}

/// A server with a subscription that lasts until the test rings, or the client cancels it.
fn listener(witness: &Witness, bell: &std::sync::Arc<tokio::sync::Notify>) -> Server {
    let (witness, bell) = (witness.clone(), bell.clone());
    Server::new("listener", "1").with(|peer| {
        peer.on_request("subscriptions/listen", move |Params(_): Params<Value>, cx: Context| {
            let (guard, bell) = (witness.guard(&cx), bell.clone());
            async move {
                tokio::select! {
                    () = bell.notified() => Ok(json!({ "resultType": "complete" })),
                    () = cx.cancelled() => {
                        guard.fired(&cx);
                        Err(ErrorObject::cancelled())
                    }
                }
            }
        })
    })
}

/// MCP-M02: with the empty result, and a cancel of its own.
#[tokio::test(start_paused = true)]
async fn a_subscription_is_ended_by_the_server_with_its_result_and_a_cancel() {
    let (mut watch, witness) = watch();
    let bell = std::sync::Arc::default();
    let mut wire = serve(listener(&witness, &bell));
    wire.say(&request(1, "subscriptions/listen", modern(json!({}), "2026-07-28"))).await;
    watch.started(1).await;
    bell.notify_one();
    watch.gone(1).await;
    assert_eq!(wire.hear().await["result"], json!({ "resultType": "complete" }));
    let end = wire.hear().await;
    assert_eq!((&end["method"], &end["params"]["requestId"]), (&json!("notifications/cancelled"), &json!(1)));
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
}

/// MCP-M02: any of the three ways ends it for the client.
#[tokio::test(start_paused = true)]
async fn a_client_takes_a_cancel_of_its_subscription_for_its_end() {
    let (mut wire, client) = client_of_wire();
    let listening = |client: &Client| {
        let params = modern(json!({}), "2026-07-28");
        client.peer().request::<Value>("subscriptions/listen", &params).send()
    };
    let cancelled = listening(&client);
    let id = wire.hear().await["id"].clone();
    wire.say(&notification("notifications/cancelled", json!({ "requestId": id, "reason": "bye" }))).await;
    assert!(matches!(cancelled.await, Err(CallError::Ended { reason }) if reason.as_deref() == Some("bye")));
    let answered = listening(&client);
    let id = wire.hear().await["id"].clone();
    wire.say(&result(&id, json!({ "resultType": "complete" }))).await;
    assert_eq!(answered.await.unwrap()["resultType"], "complete");
    let foreign = client.peer().request::<Value>("tools/call", &modern(json!({}), "2026-07-28")).send();
    let id = wire.hear().await["id"].clone();
    wire.say(&notification("notifications/cancelled", json!({ "requestId": id }))).await;
    wire.so_far().await;
    wire.say(&result(&id, json!(1))).await;
    assert_eq!(foreign.await.unwrap(), 1, "no other request of a client is the server's to cancel (MCP-M01)");
}

/// MCP-M02: and the other way round, dropping it ends the server's work.
#[tokio::test(start_paused = true)]
async fn dropping_a_subscription_stops_the_servers_handler() {
    let (mut watch, witness) = watch();
    let client = pair(listener(&witness, &std::sync::Arc::default()));
    client.discover().await.unwrap();
    let listening = client.peer().request::<Value>("subscriptions/listen", &modern(json!({}), "2026-07-28")).send();
    started(&mut watch).await;
    tokio::time::sleep(secs(86_400)).await;
    assert!(watch.is_quiet(), "no clock runs for it");
    drop(listening);
    stopped(&mut watch).await;
}

/// 2026-07-28 has neither.
#[tokio::test(start_paused = true)]
async fn a_modern_request_finds_no_handshake_and_no_ping() {
    let (_watch, witness) = watch();
    let mut wire = serve(computer(&witness));
    for (id, method) in [(1, "initialize"), (2, "ping")] {
        wire.say(&request(id, method, modern(hello("2025-11-25"), "2026-07-28"))).await;
        assert_eq!(wire.hear().await["error"]["code"], -32601, "{method}");
    }
}

/// Peers that only know the routes of others do not hang: what nobody registered is answered.
#[tokio::test(start_paused = true)]
async fn unknown_methods_are_answered() {
    let (_watch, witness) = watch();
    let client = pair(computer(&witness));
    client.initialize().await.unwrap();
    let asked: Peer = client.peer().clone();
    let unknown = asked.request::<Value>("resources/list", &()).response_timeout(millis(100)).await;
    assert!(matches!(unknown, Err(CallError::Peer(error)) if error.code == -32601));
}
