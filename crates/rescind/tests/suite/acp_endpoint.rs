//! ACP agents and clients: turns, permissions, and what stops their work.
//!
//! A doc comment names the cases and rules that a test shows.

use std::path::Path;

use rescind::{
    acp::{Agent, Client, Permission, PermissionOption, PermissionRequest, Session, StopReason, Turn},
    mcp,
    peer::{
        Builder, CallError, CauseCode, Context, ErrorObject, Outcome, Params, Peer,
        dialect::acp::{RFD_2025_11_13, V1},
        transport::memory,
    },
};
use serde_json::{Value, json};

use crate::rig::{Log, Seen, Watch, Wire, Witness, notification, request, result, secs, watch, with_work};

/// An agent with the handlers of the rig, whose turns last until they are cancelled and then say so.
fn agent(witness: &Witness) -> Agent {
    let turns = witness.clone();
    Agent::new("test-agent", "1.0")
        .on_prompt(move |turn: Turn| {
            let guard = turns.guard(turn.context());
            async move {
                turn.say("thinking").await;
                turn.context().cancelled().await;
                guard.fired(turn.context());
                turn.say("stopping").await;
                Ok::<_, ErrorObject>(StopReason::EndTurn)
            }
        })
        .with(|builder| with_work(builder, witness).on_request("ping", || async { Ok::<_, ErrorObject>(json!({})) }))
}

/// A client of this agent, both driven.
fn pair(client: Builder, agent: Agent) -> (Client, Peer) {
    let (a, b) = memory();
    let (served, driver) = agent.accept(a);
    driver.spawn();
    let (peer, driver) = client.connect(b);
    driver.spawn();
    (Client::new(peer, "test", "0"), served)
}

/// An agent that is the test.
fn client_of_wire() -> (Wire, Client) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let answers = Client::peer_builder().on_request("ping", || async { Ok::<_, ErrorObject>(json!({})) });
    let (peer, driver) = answers.connect(theirs);
    driver.spawn();
    (Wire::of(ours), Client::new(peer, "test", "0"))
}

async fn opened(client: &Client) -> String {
    client.initialize().await.unwrap();
    client.new_session(Path::new("/work")).await.unwrap()
}

async fn started(watch: &mut Watch) {
    assert!(matches!(watch.next().await, Seen::Started(_)));
}

async fn stopped(watch: &mut Watch, code: CauseCode) {
    assert!(matches!(watch.next().await, Seen::Fired(_, fired) if fired == code));
    assert!(matches!(watch.next().await, Seen::Gone(_)));
}

#[tokio::test(start_paused = true)]
async fn an_agent_answers_the_handshake_and_numbers_its_sessions() {
    let (_watch, witness) = watch();
    let (client, _served) = pair(Client::peer_builder(), agent(&witness));
    let info = client.initialize().await.unwrap();
    assert_eq!((&*info.name, &*info.version, info.declares_cancellation), ("test-agent", "1.0", false));
    assert_eq!(info.capabilities["sessionCapabilities"]["close"], json!({}));
    assert_eq!(client.peer().dialect(), &V1);
    assert_eq!(client.new_session(Path::new("/a")).await.unwrap(), "session-1");
    assert_eq!(client.new_session(Path::new("/b")).await.unwrap(), "session-2");
    let chosen = Agent::new("a", "1").on_new_session(|| async { Ok::<_, ErrorObject>(Session::new("mine")) });
    let (client, _served) = pair(Client::peer_builder(), chosen);
    assert_eq!(opened(&client).await, "mine");
    let nothing = client.prompt("mine", "hello").await;
    assert!(matches!(nothing, Err(CallError::Peer(error)) if error.code == -32601));
}

/// Case 71: neither side declares, the agent alone, both.
#[tokio::test(start_paused = true)]
async fn what_is_declared_decides_whether_a_dropped_call_stops_the_work() {
    for (agent_declares, client_declares) in [(false, false), (true, false), (false, true), (true, true)] {
        let (mut watch, witness) = watch();
        let server = if agent_declares { agent(&witness).declare_cancellation() } else { agent(&witness) };
        let (at_client, at_agent) = (Client::peer_builder(), witness.clone());
        let (client, served) = pair(with_work(at_client, &at_agent), server);
        let client = if client_declares { client.declare_cancellation() } else { client };
        let info = client.initialize().await.unwrap();
        assert_eq!(info.declares_cancellation, agent_declares || client_declares, "an agent follows its client");
        let is_proposal = agent_declares || client_declares;
        assert_eq!(client.peer().dialect(), if is_proposal { &RFD_2025_11_13 } else { &V1 });
        drop_stops(client.peer(), &mut watch).await;
        if is_proposal && !client_declares {
            let call = served.request::<Value>("work", &()).send();
            started(&mut watch).await;
            assert_eq!(call.cancel("now").await.outcome, Outcome::NotSendable);
            tokio::time::sleep(secs(5)).await;
            assert!(watch.is_quiet(), "the client never said that it understands cancels");
        } else {
            drop_stops(&served, &mut watch).await;
        }
    }
}

async fn drop_stops(peer: &Peer, watch: &mut Watch) {
    let call = peer.request::<Value>("work", &()).send();
    started(watch).await;
    assert!(matches!(call.cancel("").await.outcome, Outcome::Confirmed { .. }));
    stopped(watch, CauseCode::Caller).await;
}

/// Case 71: the client alone; before `initialize` ends; `initialize` itself.
#[tokio::test(start_paused = true)]
async fn an_agent_that_declares_nothing_is_sent_no_cancel() {
    let (mut wire, client) = client_of_wire();
    let client = client.declare_cancellation();
    let opening = tokio::spawn({
        let client = client.clone();
        async move { client.initialize().await }
    });
    let hello = wire.hear().await;
    assert_eq!(hello["params"]["clientCapabilities"]["cancellation"]["request"], true);
    let early = client.peer().request::<Value>("work", &()).send();
    wire.hear().await;
    assert_eq!(early.cancel("too early").await.outcome, Outcome::NotSendable);
    wire.say(&result(&hello["id"], json!({ "protocolVersion": 1, "agentCapabilities": {} }))).await;
    assert!(!opening.await.unwrap().unwrap().declares_cancellation);
    let call = client.peer().request::<Value>("work", &()).send();
    wire.hear().await;
    assert_eq!(call.cancel("never").await.outcome, Outcome::NotSendable);
    let again = tokio::spawn({
        let client = client.clone();
        async move { client.initialize().await }
    });
    wire.hear().await;
    again.abort();
    assert!(again.await.unwrap_err().is_cancelled());
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
}

/// A client that never decides about a permission, and whose terminal never exits.
fn undecided(witness: &Witness, updates: &Log<String>) -> Builder {
    let (person, terminal, updates) = (witness.clone(), witness.clone(), updates.clone());
    let wait = |witness: Witness, cx: Context| {
        let guard = witness.guard(&cx);
        async move {
            cx.cancelled().await;
            guard.fired(&cx);
        }
    };
    Client::peer_builder()
        .on_notification("session/update", move |Params(update): Params<Value>| {
            updates.add(update["update"]["content"]["text"].as_str().unwrap_or_default().to_owned());
        })
        .on_request("session/request_permission", move |Params(_): Params<PermissionRequest>, cx: Context| {
            let waiting = wait(person.clone(), cx);
            async move {
                waiting.await;
                Ok::<_, ErrorObject>(Permission::selected("allow"))
            }
        })
        .on_request("terminal/wait_for_exit", move |cx: Context| {
            let waiting = wait(terminal.clone(), cx);
            async move {
                waiting.await;
                Err::<(), _>(ErrorObject::cancelled())
            }
        })
}

/// An agent whose turn waits for a permission and a terminal at once, and notes what came of the permission.
fn busy(witness: &Witness, heard: &Log<String>) -> Agent {
    let (witness, heard) = (witness.clone(), heard.clone());
    Agent::new("busy", "1").on_prompt(move |turn: Turn| {
        let (guard, heard) = (witness.guard(turn.context()), heard.clone());
        async move {
            let ask = turn.request_permission(
                &json!({ "toolCallId": "t1" }),
                &[PermissionOption::new("allow", "Allow", "allow_once")],
            );
            let peer = turn.context().peer();
            let terminal = peer.request::<Value>("terminal/wait_for_exit", &json!({ "terminalId": "1" }));
            let (permission, terminal) = tokio::join!(ask, terminal);
            heard.add(format!("{} {}", permission.is_err(), terminal.is_err()));
            turn.say("cleaning up").await;
            drop(guard);
            permission?;
            Ok::<_, ErrorObject>(StopReason::EndTurn)
        }
    })
}

/// Case 43. ACP-07, ACP-08.
#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_closes_its_permission_and_its_terminal_and_says_cancelled() {
    let (mut watch, witness) = watch();
    let (updates, heard) = (Log::new(), Log::new());
    let (client, _served) = pair(undecided(&witness, &updates), busy(&witness, &heard));
    let session = opened(&client).await;
    let turn = client.prompt(&session, "do it").send();
    for _ in 0..3 {
        started(&mut watch).await;
    }
    client.cancel_turn(&session).unwrap();
    assert_eq!(turn.await.unwrap(), StopReason::Cancelled, "an answer, no error");
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(watch.next().await);
    }
    assert_eq!(seen.iter().filter(|seen| matches!(seen, Seen::Fired(..))).count(), 2, "{seen:?}");
    assert_eq!(seen.iter().filter(|seen| matches!(seen, Seen::Gone(_))).count(), 3, "{seen:?}");
    assert_eq!(heard.take(), ["true true"], "both calls of the turn ended as cancelled");
    assert_eq!(updates.take(), ["cleaning up"], "an update before the answer is still delivered");
    assert!(client.peer().in_flight().ours.is_empty() && client.peer().in_flight().theirs.is_empty());
}

/// D28: of one read the engine learns first that the turn is cancelled, then the answer to what the turn had asked.
#[tokio::test(start_paused = true)]
async fn the_receipt_of_a_permission_that_is_answered_beside_the_cancel_of_its_turn_is_told() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let mut wire = Wire::of(ours);
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let agent = Agent::new("asking", "1").on_prompt(move |turn: Turn| {
        let ask = turn.request_permission(&json!({ "toolCallId": "t1" }), &[]);
        tell.send(ask.handle()).unwrap();
        async move { ask.await.map(|_| StopReason::EndTurn) }
    });
    let (_peer, driver) = agent.accept(theirs);
    driver.spawn();
    wire.say(&request(0, "initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }))).await;
    wire.hear().await;
    wire.say(&request(1, "session/prompt", json!({ "sessionId": "s1", "prompt": [] }))).await;
    let asked = wire.hear().await;
    let answer = result(&asked["id"], json!({ "outcome": { "outcome": "cancelled" } }));
    wire.say_all(&[notification("session/cancel", json!({ "sessionId": "s1" })), answer]).await;
    assert_eq!(wire.hear().await, result(&json!(1), json!({ "stopReason": "cancelled" })), "no cancel of its own");
    let receipt = told.recv().await.unwrap().cancel("").await;
    assert_eq!((receipt.outcome, receipt.written), (Outcome::CompletedFirst, None));
}

/// ACP-08, on the wire: the client answers the permission request itself.
#[tokio::test(start_paused = true)]
async fn a_client_that_cancels_a_turn_answers_its_permission_request_cancelled() {
    for drops in [true, false] {
        let (mut watch, witness) = watch();
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (peer, driver) = undecided(&witness, &Log::new()).connect(theirs);
        driver.spawn();
        let (mut wire, client) = (Wire::of(ours), Client::new(peer, "test", "0"));
        handshake(&mut wire, &client).await;
        let turn = client.prompt("s1", "do it").send();
        wire.hear().await;
        let asked = json!({ "sessionId": "s1", "toolCall": {}, "options": [] });
        wire.say(&request("p", "session/request_permission", asked)).await;
        watch.started("p").await;
        let _turn = if drops {
            drop(turn);
            None
        } else {
            client.cancel_turn("s1").unwrap();
            Some(turn)
        };
        let (mut cancels, mut answers) = (0, Vec::new());
        for _ in 0..2 {
            let said = wire.hear().await;
            if said["method"] == "session/cancel" { cancels += 1 } else { answers.push(said) }
        }
        assert_eq!(cancels, 1);
        assert_eq!(answers, [result(&json!("p"), json!({ "outcome": { "outcome": "cancelled" } }))]);
        assert!(matches!(watch.next().await, Seen::Fired(..)), "the dialog is closed");
        watch.gone("p").await;
    }
}

/// What ends a question at the client.
#[derive(Clone, Copy, Debug)]
enum Ends {
    /// The call of its turn is dropped.
    Drop,
    /// The client's own Stop of the turn.
    Stop,
    /// The agent takes the question back.
    Agent,
    /// Its session, a child, says that it was cancelled (ACP-39).
    Child,
}

/// ACP-08, ACP-39. The dialogs here are plain futures that know nothing of tokens: what they see is that they are dropped.
#[tokio::test(start_paused = true)]
async fn a_dialog_that_a_stop_has_ended_is_closed_though_its_handler_never_asks() {
    let questions = [
        ("session/request_permission", json!({ "outcome": { "outcome": "cancelled" } })),
        ("elicitation/create", json!({ "action": "cancel" })),
    ];
    for (method, cancelled) in questions {
        for ends in [Ends::Drop, Ends::Stop, Ends::Agent, Ends::Child] {
            let (mut watch, witness) = watch();
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            let dialog = move |cx: Context| {
                let shown = witness.guard(&cx);
                async move {
                    let _shown = shown;
                    std::future::pending::<Result<Value, ErrorObject>>().await
                }
            };
            let (peer, driver) = Client::peer_builder().on_request(method, dialog).connect(theirs);
            driver.spawn();
            let (mut wire, client) = (Wire::of(ours), Client::new(peer, "test", "0"));
            handshake(&mut wire, &client).await;
            let turn = client.prompt("s1", "do it").send();
            wire.hear().await;
            let session = if matches!(ends, Ends::Child) { "child" } else { "s1" };
            wire.say(&request("q", method, json!({ "sessionId": session }))).await;
            watch.started("q").await;
            let mut turn = Some(turn);
            match ends {
                Ends::Drop => drop(turn.take()),
                Ends::Stop => client.cancel_turn("s1").unwrap(),
                Ends::Agent => wire.say(&notification("$/cancel_request", json!({ "requestId": "q" }))).await,
                Ends::Child => {
                    let state = json!({ "state": "idle", "stopReason": "cancelled" });
                    let update = json!({ "sessionUpdate": "subagent_update", "sessionId": "child", "state": state });
                    let params = json!({ "sessionId": "s1", "update": update });
                    wire.say(&notification("session/update", params)).await;
                }
            }
            watch.gone("q").await;
            let said = wire.so_far().await;
            let answers: Vec<_> = said.iter().filter(|message| message["id"] == "q").collect();
            assert_eq!(answers, [&result(&json!("q"), cancelled.clone())], "{method}, {ends:?}");
        }
    }
}

async fn handshake(wire: &mut Wire, client: &Client) {
    let opening = tokio::spawn({
        let client = client.clone();
        async move { client.initialize().await }
    });
    let hello = wire.hear().await;
    wire.say(&result(&hello["id"], json!({ "protocolVersion": 1 }))).await;
    opening.await.unwrap().unwrap();
}

/// Case 77.
#[tokio::test(start_paused = true)]
async fn a_dropped_prompt_sends_one_session_cancel_and_no_other_cancel() {
    let (mut wire, client) = client_of_wire();
    handshake(&mut wire, &client).await;
    let turn = client.prompt("s1", "do it").send();
    assert_eq!(wire.hear().await["params"]["prompt"][0]["text"], "do it");
    drop(turn);
    let said = wire.so_far().await;
    assert_eq!(said, [notification("session/cancel", json!({ "sessionId": "s1" }))]);
}

/// Case 2, 77. ACP-08.
#[tokio::test(start_paused = true)]
async fn a_turn_that_was_cancelled_says_so_whatever_its_handler_returns() {
    let (mut watch, witness) = watch();
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (_served, driver) = agent(&witness).accept(theirs);
    driver.spawn();
    let mut wire = Wire::of(ours);
    wire.say(&request(0, "initialize", json!({ "protocolVersion": 1 }))).await;
    wire.hear().await;
    wire.say(&request(1, "session/prompt", json!({ "sessionId": "s1", "prompt": [] }))).await;
    watch.started(1).await;
    assert_eq!(wire.hear().await["params"]["update"]["content"]["text"], "thinking");
    wire.say(&notification("session/cancel", json!({ "sessionId": "another" }))).await;
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
    assert!(watch.is_quiet(), "another session's turn");
    wire.say(&notification("session/cancel", json!({ "sessionId": "s1" }))).await;
    watch.stopped(1, CauseCode::Caller).await;
    assert_eq!(wire.hear().await["params"]["update"]["content"]["text"], "stopping");
    assert_eq!(wire.hear().await, result(&json!(1), json!({ "stopReason": "cancelled" })));
    assert_eq!(wire.so_far().await, Vec::<Value>::new());
}

/// ACP-10.
#[tokio::test(start_paused = true)]
async fn closing_a_session_cancels_its_turn_and_comes_after_it() {
    let (mut watch, witness) = watch();
    let closed = witness.clone();
    let (log, seen) = (Log::new(), Log::new());
    let noted = log.clone();
    let (client, served) = pair(
        Client::peer_builder().on_notification("session/update", move |Params(_): Params<Value>| seen.add(())),
        agent(&closed).on_close(move |session| noted.add(session.to_owned())),
    );
    let session = opened(&client).await;
    let other = client.new_session(Path::new("/other")).await.unwrap();
    let turn = client.prompt(&session, "do it").send();
    started(&mut watch).await;
    let others = client.prompt(&other, "that too").send();
    started(&mut watch).await;
    let closing = tokio::time::timeout(secs(3600), client.close_session(&session));
    closing.await.expect("its turn ends").unwrap();
    stopped(&mut watch, CauseCode::Caller).await;
    assert_eq!(log.take(), [session]);
    assert_eq!(turn.await.unwrap(), StopReason::Cancelled);
    assert!(watch.is_quiet(), "the other session's turn goes on");
    assert_eq!(served.in_flight().theirs.len(), 1);
    client.close_session("no such session").await.unwrap();
    drop(others);
    stopped(&mut watch, CauseCode::Caller).await;
}

/// ACP-10: what on_close frees, the turn's handler no longer uses.
#[tokio::test(start_paused = true)]
async fn a_session_is_closed_only_when_the_handler_of_its_turn_has_ended() {
    let log = Log::new();
    let (turns, closes, begun) = (log.clone(), log.clone(), std::sync::Arc::new(tokio::sync::Notify::new()));
    let tell = begun.clone();
    let agent = Agent::new("slow", "1")
        .on_prompt(move |turn: Turn| {
            let turns = turns.clone();
            tell.notify_one();
            async move {
                turn.context().cancelled().await;
                tokio::time::sleep(secs(3)).await;
                turns.add("the turn has ended");
                Ok::<_, ErrorObject>(StopReason::Cancelled)
            }
        })
        .on_close(move |_| closes.add("the session is closed"));
    let (client, _served) = pair(Client::peer_builder(), agent);
    let session = opened(&client).await;
    let turn = client.prompt(&session, "do it").send();
    begun.notified().await;
    client.close_session(&session).await.unwrap();
    assert_eq!(log.take(), ["the turn has ended", "the session is closed"]);
    assert_eq!(turn.await.unwrap(), StopReason::Cancelled);
}

/// Case 40: from an editor through an agent to a tool.
#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_stops_the_tool_that_it_called_on_another_connection() {
    let (mut watch, witness) = watch();
    let (a, b) = memory();
    let tools = mcp::Server::new("tools", "1").with_tool(mcp::Tool::with_schema(
        "work",
        "Works until it is stopped",
        json!({}),
        move |_: Value, cx: Context| {
            let guard = witness.guard(&cx);
            async move {
                cx.cancelled().await;
                guard.fired(&cx);
                Err::<(), _>(ErrorObject::cancelled())
            }
        },
    ));
    tools.accept(a).1.spawn();
    let (peer, driver) = mcp::Client::peer_builder().connect(b);
    driver.spawn();
    let tools = mcp::Client::new(peer, "agent", "1");
    tools.open().await.unwrap();
    let agent = Agent::new("agent", "1").on_prompt(move |_turn: Turn| {
        let tools = tools.clone();
        async move {
            tools.call_tool("work", &()).await?;
            Ok::<_, ErrorObject>(StopReason::EndTurn)
        }
    });
    let (client, _served) = pair(Client::peer_builder(), agent);
    let session = opened(&client).await;
    let turn = client.prompt(&session, "work").send();
    started(&mut watch).await;
    client.cancel_turn(&session).unwrap();
    stopped(&mut watch, CauseCode::Caller).await;
    assert_eq!(turn.await.unwrap(), StopReason::Cancelled);
}
