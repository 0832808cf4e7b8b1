//! Language servers and their clients: the order of a session, and what stops their work.
//!
//! A doc comment names the cases and rules that a test shows.

use std::io;

use rescind::{
    lsp::{Client, Exit, LSP, Server, server_cancelled},
    peer::{CallError, CauseCode, Context, ErrorObject, Framing, Outcome, Peer, route, transport::memory},
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::rig::{self, Log, Wire, Witness, cancel, notification, request, result, secs, watch, with_work};

fn server(witness: &Witness) -> Server {
    Server::new("test", "1.0")
        .capability("hoverProvider", true)
        .on_request("ping", || async { Ok::<_, ErrorObject>(json!({})) })
        .with(|builder| with_work(builder, witness))
}

/// Serves over lines, for the test to read and write.
fn serve(server: Server) -> (Wire, JoinHandle<io::Result<Exit>>) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let served = tokio::spawn(server.with(|builder| builder.framing(Framing::Line)).serve(theirs));
    (Wire::of(ours), served)
}

async fn initialized(server: Server) -> (Wire, JoinHandle<io::Result<Exit>>) {
    let (mut wire, served) = serve(server);
    wire.say(&request("init", "initialize", json!({ "processId": null }))).await;
    assert_eq!(wire.hear().await["result"]["serverInfo"]["name"], "test");
    wire.say(&notification("initialized", json!({}))).await;
    (wire, served)
}

/// LSP-06.
#[tokio::test(start_paused = true)]
async fn requests_are_served_only_between_initialize_and_shutdown() {
    let (mut watch, witness) = watch();
    let heard = Log::new();
    let log = heard.clone();
    let (mut wire, served) = serve(server(&witness).on_notification("note", move || log.add("note")));
    let mut answer = async |message: Value| {
        wire.say(&message).await;
        wire.hear().await
    };
    assert_eq!(answer(request(1, "work", json!({}))).await["error"]["code"], -32002);
    assert_eq!(answer(request(2, "unknown", json!({}))).await["error"]["code"], -32002);
    assert_eq!(answer(request(3, "shutdown", json!({}))).await["error"]["code"], -32002);
    let greeting = answer(request(4, "initialize", json!({}))).await;
    assert_eq!(greeting["result"]["capabilities"], json!({ "hoverProvider": true }));
    assert_eq!(answer(request(5, "initialize", json!({}))).await["error"]["code"], -32600);
    assert_eq!(answer(request(6, "ping", json!({}))).await, result(&json!(6), json!({})));
    assert_eq!(answer(request(7, "shutdown", Value::Null)).await, result(&json!(7), Value::Null));
    assert_eq!(answer(request(8, "work", json!({}))).await["error"]["code"], -32600);
    assert_eq!(answer(request(9, "initialize", json!({}))).await["error"]["code"], -32600);
    assert!(watch.is_quiet(), "nothing was started");
    wire.say(&notification("exit", Value::Null)).await;
    assert_eq!(served.await.unwrap().unwrap(), Exit::Clean);
    assert_eq!(heard.take(), Vec::<&str>::new());
}

/// LSP-06.
#[tokio::test(start_paused = true)]
async fn notifications_are_heard_only_between_initialize_and_shutdown() {
    let (_watch, witness) = watch();
    let heard = Log::new();
    let log = heard.clone();
    let noting =
        server(&witness).on_notification("note", move |rescind::peer::Params(n): rescind::peer::Params<u32>| {
            log.add(n);
        });
    let (mut wire, _served) = serve(noting);
    wire.say(&notification("note", json!(1))).await;
    wire.say(&request(1, "initialize", json!({}))).await;
    wire.hear().await;
    wire.say(&notification("note", json!(2))).await;
    wire.so_far().await;
    wire.say(&request(2, "shutdown", Value::Null)).await;
    wire.hear().await;
    wire.say(&notification("note", json!(3))).await;
    wire.so_far().await;
    assert_eq!(heard.take(), [2]);
}

#[tokio::test(start_paused = true)]
async fn the_exit_code_tells_whether_shutdown_came_first() {
    for says_exit in [true, false] {
        let (mut watch, witness) = watch();
        let (mut wire, served) = initialized(server(&witness)).await;
        wire.say(&request(1, "work", json!({}))).await;
        watch.started(1).await;
        if says_exit {
            wire.say(&notification("exit", Value::Null)).await;
            watch.stopped(1, CauseCode::Shutdown).await;
        } else {
            wire.close().await;
            watch.stopped(1, CauseCode::Disconnect).await;
        }
        assert_eq!(served.await.unwrap().unwrap(), Exit::Early);
    }
}

/// LSP-02.
#[tokio::test(start_paused = true)]
async fn an_unknown_dollar_request_is_answered_and_such_a_notification_is_not() {
    let (_watch, witness) = watch();
    let (mut wire, _served) = initialized(server(&witness)).await;
    wire.say_all(&[request(1, "$/unknown", json!({})), notification("$/unknown", json!({}))]).await;
    let said = wire.so_far().await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!((&said[0]["id"], &said[0]["error"]["code"]), (&json!(1), &json!(-32601)));
}

/// Case 1, 4. LSP-01, LSP-03, LSP-07.
#[tokio::test(start_paused = true)]
async fn who_stopped_a_request_decides_its_code() {
    let (mut watch, witness) = watch();
    let diagnosing =
        server(&witness).on_request("textDocument/diagnostic", || async { Err::<(), _>(server_cancelled(true)) });
    let (mut wire, _served) = initialized(diagnosing).await;
    wire.say(&request(1, "work", json!({}))).await;
    watch.started(1).await;
    wire.say(&cancel(&LSP, 1)).await;
    watch.stopped(1, CauseCode::Caller).await;
    assert_eq!(wire.hear().await["error"]["code"], -32800, "the client");
    wire.say(&request(2, "quits", json!({}))).await;
    assert_eq!(wire.hear().await["error"]["code"], -32803, "the server itself");
    wire.say(&request(3, "textDocument/diagnostic", json!({}))).await;
    let error = wire.hear().await["error"].clone();
    assert_eq!((&error["code"], &error["data"]), (&json!(-32802), &json!({ "retriggerRequest": true })));
}

/// Case 1, 4. LSP-03, LSP-07: diagnostics that the server itself stops can be asked for again.
#[tokio::test(start_paused = true)]
async fn diagnostics_stopped_by_a_time_limit_say_whether_to_ask_again() {
    let (mut watch, witness) = watch();
    let told = witness.clone();
    let diagnostic = route(move |cx: Context| {
        let guard = told.guard(&cx);
        async move {
            cx.cancelled().await;
            guard.fired(&cx);
            let by_client = cx.cause().is_some_and(|cause| cause.code == CauseCode::Caller);
            Err::<(), _>(if by_client { ErrorObject::cancelled() } else { server_cancelled(true) })
        }
    });
    let diagnosing = server(&witness).on_request("textDocument/diagnostic", diagnostic.time_limit(secs(2)));
    let (mut wire, _served) = initialized(diagnosing).await;
    wire.say(&request(1, "textDocument/diagnostic", json!({}))).await;
    watch.started(1).await;
    watch.stopped(1, CauseCode::Timeout).await;
    let error = wire.hear().await["error"].clone();
    assert_eq!((&error["code"], &error["data"]), (&json!(-32802), &json!({ "retriggerRequest": true })));
    wire.say(&request(2, "textDocument/diagnostic", json!({}))).await;
    watch.started(2).await;
    wire.say(&cancel(&LSP, 2)).await;
    watch.stopped(2, CauseCode::Caller).await;
    assert_eq!(wire.hear().await["error"]["code"], -32800);
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
}

/// A client and this server, over content-length headers.
fn pair(server: Server) -> (Client, JoinHandle<io::Result<Exit>>) {
    let (a, b) = memory();
    let served = tokio::spawn(server.serve(a));
    let (peer, driver) = Client::peer_builder().connect(b);
    driver.spawn();
    (Client::new(peer), served)
}

/// Case 25. LSP-01.
#[tokio::test(start_paused = true)]
async fn a_session_from_initialize_to_exit() {
    let (mut watch, witness) = watch();
    let (client, served) = pair(server(&witness));
    let greeting = client.initialize(&json!({ "processId": null, "capabilities": {} })).await.unwrap();
    assert_eq!(greeting["capabilities"]["hoverProvider"], true);
    let hover = client.peer().request::<Value>("work", &json!({})).send();
    assert!(matches!(watch.next().await, rig::Seen::Started(_)));
    let receipt = hover.cancel("").await;
    assert!(matches!(receipt.outcome, Outcome::Confirmed { .. }), "{receipt:?}");
    assert!(matches!(watch.next().await, rig::Seen::Fired(_, CauseCode::Caller)));
    client.shutdown().await.unwrap();
    assert_eq!(served.await.unwrap().unwrap(), Exit::Clean);
}

/// LSP-06: neither before the answer to `initialize` nor after `shutdown`.
#[tokio::test(start_paused = true)]
async fn a_client_sends_no_cancel_outside_of_the_session() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (peer, driver) = Client::peer_builder().framing(Framing::Line).connect(theirs);
    driver.spawn();
    let (mut wire, client) = (Wire::of(ours), Client::new(peer.clone()));
    let opening = tokio::spawn({
        let client = client.clone();
        async move { client.initialize(&json!({})).await }
    });
    let hello = wire.hear().await;
    drop_and_say_nothing(&peer, &mut wire).await;
    wire.say(&result(&hello["id"], json!({ "capabilities": {} }))).await;
    opening.await.unwrap().unwrap();
    assert_eq!(wire.hear().await["method"], "initialized");
    let open = peer.request::<Value>("work", &()).send();
    wire.hear().await;
    let closing = tokio::spawn(async move { client.shutdown().await });
    assert_eq!(wire.hear().await["method"], "shutdown");
    assert_eq!(open.cancel("").await.outcome, Outcome::NotSendable);
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
    closing.abort();
}

async fn drop_and_say_nothing(peer: &Peer, wire: &mut Wire) {
    let call = peer.request::<Value>("work", &()).send();
    assert_eq!(wire.hear().await["method"], "work");
    let stop = call.handle();
    let receipt = stop.cancel("now");
    assert!(matches!(call.await, Err(CallError::Cancelled(_))));
    assert_eq!(receipt.await.outcome, Outcome::NotSendable);
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
}
