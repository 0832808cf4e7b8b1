//! ACP v2 (D55): turns and background work of agents and clients. What is cancelled tells that it stopped itself.
//!
//! A doc comment names the rules that a test shows.

use std::path::Path;

use rescind::{
    acp::{Agent, Client, Permission, PermissionOption, PermissionRequest, StopReason, Turn},
    peer::{
        Builder, CallError, CauseCode, ErrorObject, Outcome, Params, Peer,
        dialect::acp::{V1, V2_DRAFT},
        transport::memory,
    },
};
use serde_json::{Value, json};

use crate::rig::{Log, Seen, Watch, Wire, Witness, notification, request, result, secs, watch};

/// An agent whose turns last until they are cancelled. A prompt "terminal" begins a terminal first, and one "done" is over
/// at once.
fn agent(witness: &Witness) -> Agent {
    let turns = witness.clone();
    Agent::new("test-agent", "1.0").with_version_2().on_prompt(move |turn: Turn| {
        let (guard, items) = (turns.guard(turn.context()), turns.clone());
        async move {
            if turn.text() == "done" {
                return Ok(StopReason::EndTurn);
            }
            if turn.text() == "terminal" {
                let begun = turn.terminal("t1", &json!({ "command": "watch" }), |item: Turn| async move {
                    let guard = items.guard(item.context());
                    item.context().cancelled().await;
                    guard.fired(item.context());
                    item.say("the terminal stops").await;
                    Ok::<_, ErrorObject>(json!({ "signal": "TERM" }))
                });
                assert!(begun);
            }
            turn.say("thinking").await;
            turn.context().cancelled().await;
            guard.fired(turn.context());
            turn.say("stopping").await;
            Ok::<_, ErrorObject>(StopReason::EndTurn)
        }
    })
}

/// A client of this agent, both driven, and the updates that it gets.
fn pair(agent: Agent, client: Builder) -> (Client, Peer, Log<Value>) {
    let updates = Log::new();
    let log = updates.clone();
    let (a, b) = memory();
    let (served, driver) = agent.accept(a);
    driver.spawn();
    let noted = move |Params(update): Params<Value>| log.add(update["update"].clone());
    let (peer, driver) = client.on_notification("session/update", noted).connect(b);
    driver.spawn();
    (Client::new(peer, "test", "0").with_version_2(), served, updates)
}

async fn opened(client: &Client) -> String {
    assert_eq!(client.initialize().await.unwrap().protocol_version, 2);
    assert_eq!(client.peer().dialect(), &V2_DRAFT);
    client.new_session(Path::new("/work")).await.unwrap()
}

/// What happened in a session: kinds of updates, texts and states.
fn story(updates: &Log<Value>) -> Vec<String> {
    let told = |update: Value| match update["sessionUpdate"].as_str().unwrap() {
        "state_update" => format!(
            "{} {} {}",
            update["state"].as_str().unwrap(),
            update["stopReason"].as_str().unwrap_or("-"),
            update["background"].as_array().unwrap().len()
        ),
        "agent_message_chunk" => update["content"]["text"].as_str().unwrap().to_owned(),
        other => other.to_owned(),
    };
    updates.take().into_iter().map(told).collect()
}

async fn started(watch: &mut Watch) -> Value {
    let seen = watch.next().await;
    let Seen::Started(id) = seen else { panic!("{seen:?}") };
    id
}

/// ACP-59: each version is spoken with those who ask for it.
#[tokio::test(start_paused = true)]
async fn the_lower_version_of_both_sides_is_spoken() {
    for (agent_speaks, client_speaks, dialect) in
        [(true, true, &V2_DRAFT), (true, false, &V1), (false, true, &V1), (false, false, &V1)]
    {
        let (mut watch, witness) = watch();
        let served = if agent_speaks {
            agent(&witness)
        } else {
            let plain = witness.clone();
            Agent::new("test-agent", "1.0").on_prompt(move |turn: Turn| {
                let guard = plain.guard(turn.context());
                async move {
                    turn.context().cancelled().await;
                    guard.fired(turn.context());
                    Ok::<_, ErrorObject>(StopReason::EndTurn)
                }
            })
        };
        let (client, _served, _) = pair(served, Client::peer_builder());
        let client = if client_speaks { client } else { Client::new(client.peer().clone(), "test", "0") };
        let info = client.initialize().await.unwrap();
        assert_eq!((&*info.name, &*info.version), ("test-agent", "1.0"));
        assert_eq!(client.peer().dialect(), dialect);
        let session = client.new_session(Path::new("/work")).await.unwrap();
        let turn = client.prompt(&session, "wait").send();
        let id = started(&mut watch).await;
        client.cancel_turn(&session).unwrap();
        watch.stopped(id, CauseCode::Caller).await;
        assert_eq!(turn.await.unwrap(), StopReason::Cancelled, "the same code in both");
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_below_all_is_refused_with_those_that_are_spoken() {
    let (_watch, witness) = watch();
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    agent(&witness).accept(theirs).1.spawn();
    let mut wire = Wire::of(ours);
    wire.say(&request(0, "initialize", json!({ "protocolVersion": 0 }))).await;
    let refused = wire.hear().await;
    assert_eq!(refused["error"]["code"], -32022);
    assert_eq!(refused["error"]["data"], json!({ "requested": 0, "supported": [1, 2] }));
    wire.say(&request(1, "initialize", json!({ "protocolVersion": 3, "info": {}, "capabilities": {} }))).await;
    let hello = wire.hear().await["result"].take();
    let info = json!({ "name": "test-agent", "version": "1.0" });
    assert_eq!(hello, json!({ "protocolVersion": 2, "info": info, "capabilities": { "session": {} } }));
}

/// ACP-50, ACP-51, ACP-52.
#[tokio::test(start_paused = true)]
async fn a_turn_runs_on_after_its_prompt_was_answered_and_ends_with_what_the_session_reports() {
    let (mut watch, witness) = watch();
    let (client, served, updates) = pair(agent(&witness), Client::peer_builder());
    let session = opened(&client).await;
    let turn = client.prompt(&session, "done");
    assert_eq!(turn.await.unwrap(), StopReason::EndTurn);
    let id = started(&mut watch).await;
    watch.gone(id).await;
    assert_eq!(story(&updates), ["running - 0", "user_message", "idle end_turn 0"]);
    let turn = client.prompt(&session, "wait").send();
    let waiting = client.prompt(&session, "later").send();
    let id = started(&mut watch).await;
    assert_eq!(served.in_flight().theirs.len(), 2, "the second waits");
    client.cancel_turn(&session).unwrap();
    watch.stopped(id, CauseCode::Caller).await;
    assert_eq!(turn.await.unwrap(), StopReason::Cancelled);
    assert!(matches!(waiting.await, Err(CallError::Peer(error)) if error.code == -32800), "it was not inserted");
    assert!(watch.is_quiet(), "and never started");
    assert_eq!(story(&updates), ["running - 0", "user_message", "thinking", "stopping", "idle cancelled 0"]);
    assert!(client.peer().in_flight().ours.is_empty() && served.in_flight().theirs.is_empty());
}

/// D14: dropping it is Stop, and what came of it is told when the agent reports it.
#[tokio::test(start_paused = true)]
async fn dropping_a_prompt_stops_the_work_and_the_idle_confirms_it() {
    let (mut watch, witness) = watch();
    let (client, _served, updates) = pair(agent(&witness), Client::peer_builder());
    let session = opened(&client).await;
    let turn = client.prompt(&session, "wait").send();
    let id = started(&mut watch).await;
    let receipt = turn.cancel("enough").await;
    assert!(matches!(receipt.outcome, Outcome::Confirmed { .. }), "{receipt:?}");
    watch.stopped(id, CauseCode::Caller).await;
    let last = story(&updates).pop();
    assert_eq!(last.as_deref(), Some("idle cancelled 0"));
    drop(client.prompt(&session, "wait").send());
    assert_eq!(client.prompt(&session, "done").await.unwrap(), StopReason::EndTurn, "the next turn works");
}

/// ACP-53, ACP-54, ACP-08.
#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_withdraws_its_question_and_takes_it_for_not_approved() {
    let (mut watch, witness) = watch();
    let (person, answers) = (witness.clone(), Log::new());
    let dialog = move |Params(asked): Params<PermissionRequest>, cx: rescind::peer::Context| {
        let guard = person.guard(&cx);
        assert_eq!(asked.tool_call, json!({ "toolCallId": "c1", "title": "Delete it" }));
        async move {
            cx.cancelled().await;
            guard.fired(&cx);
            Ok::<_, ErrorObject>(Permission::selected("yes"))
        }
    };
    let (turns, heard) = (witness.clone(), answers.clone());
    let asking = Agent::new("asking", "1").with_version_2().on_prompt(move |turn: Turn| {
        let (guard, heard) = (turns.guard(turn.context()), heard.clone());
        async move {
            let options = [PermissionOption::new("yes", "Yes", "allow_once")];
            let call = json!({ "toolCallId": "c1", "title": "Delete it" });
            let answer = turn.request_permission(&call, &options).await;
            heard.add(answer.is_err());
            drop(guard);
            answer?;
            Ok::<_, ErrorObject>(StopReason::EndTurn)
        }
    });
    let client = Client::peer_builder().on_request("session/request_permission", dialog);
    let (client, served, updates) = pair(asking, client);
    let session = opened(&client).await;
    let turn = client.prompt(&session, "delete").send();
    started(&mut watch).await;
    started(&mut watch).await;
    client.cancel_turn(&session).unwrap();
    assert_eq!(turn.await.unwrap(), StopReason::Cancelled);
    let mut seen = [watch.next().await, watch.next().await, watch.next().await];
    seen.sort_by_key(|seen| !matches!(seen, Seen::Fired(..)));
    assert!(matches!(seen, [Seen::Fired(..), Seen::Gone(_), Seen::Gone(_)]), "{seen:?}");
    assert_eq!(answers.take(), [true], "not approved");
    assert_eq!(story(&updates).pop().as_deref(), Some("idle cancelled 0"));
    assert!(served.in_flight().ours.is_empty(), "its question is over");
}

/// ACP-55, ACP-56.
#[tokio::test(start_paused = true)]
async fn a_terminal_outlives_its_turn_and_is_stopped_by_its_own_cancel() {
    let (mut watch, witness) = watch();
    let (client, served, updates) = pair(agent(&witness), Client::peer_builder());
    let session = opened(&client).await;
    let turn = client.prompt(&session, "terminal").send();
    let id = started(&mut watch).await;
    watch.started("t1").await;
    client.cancel_turn(&session).unwrap();
    watch.stopped(id, CauseCode::Caller).await;
    assert_eq!(turn.await.unwrap(), StopReason::Cancelled);
    assert!(watch.is_quiet(), "the terminal goes on");
    let told = story(&updates);
    assert_eq!(told[2..4], ["terminal_update", "running - 1"], "{told:?}");
    assert_eq!(told.last().map(String::as_str), Some("idle cancelled 1"));
    let cancel = |id: &str| json!({ "sessionId": session, "terminalId": id });
    let unknown = client.peer().request::<Value>("terminal/cancel", &cancel("another")).await;
    assert!(matches!(unknown, Err(CallError::Peer(error)) if error.code == -32602));
    let accepted: Value = client.peer().request("terminal/cancel", &cancel("t1")).await.unwrap();
    assert_eq!(accepted, json!({}));
    watch.stopped("t1", CauseCode::Caller).await;
    served.request::<Value>("ping", &json!({})).await.unwrap_err();
    let told = updates.take();
    assert_eq!(told[0]["messageId"], "t1-answer", "{told:?}");
    assert_eq!((&told[1]["terminalId"], &told[1]["exitStatus"]), (&json!("t1"), &json!({ "signal": "TERM" })));
    assert_eq!((&told[2]["state"], &told[2]["background"]), (&json!("idle"), &json!([])));
    assert!(served.in_flight().theirs.is_empty());
}

/// ACP-57.
#[tokio::test(start_paused = true)]
async fn closing_a_session_stops_its_turn_and_its_terminal_before_it_is_closed() {
    let (mut watch, witness) = watch();
    let closed = Log::new();
    let log = closed.clone();
    let agent = agent(&witness).on_close(move |session| log.add(session.to_owned()));
    let (client, _served, updates) = pair(agent, Client::peer_builder());
    let session = opened(&client).await;
    let turn = client.prompt(&session, "terminal").send();
    started(&mut watch).await;
    watch.started("t1").await;
    updates.take();
    client.close_session(&session).await.unwrap();
    let told = story(&updates);
    assert!(told.contains(&"the terminal stops".to_owned()) && told.contains(&"stopping".to_owned()), "{told:?}");
    assert!(told.iter().any(|told| told.starts_with("idle cancelled")), "{told:?}");
    assert!(told.last().is_some_and(|last| last.ends_with(" 0")), "all of it came before: {told:?}");
    assert_eq!(turn.await.unwrap(), StopReason::Cancelled);
    assert_eq!(closed.take(), [session]);
    let gone = (0..4).map(|_| watch.is_quiet()).filter(|quiet| !quiet).count();
    assert_eq!(gone, 4, "both have fired and are gone");
    client.close_session("no such session").await.unwrap();
}

/// ACP-57, for agents with a handler of their own for it: the engine stops what works, and answers behind that.
#[tokio::test(start_paused = true)]
async fn a_close_handled_by_hand_is_answered_when_nothing_works_any_more() {
    let (mut watch, witness) = watch();
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let turns = witness.clone();
    let by_hand = Peer::builder(&V2_DRAFT)
        .on_request("session/prompt", move |cx: rescind::peer::Context| {
            let guard = turns.guard(&cx);
            async move {
                cx.cancelled().await;
                guard.fired(&cx);
                tokio::time::sleep(secs(1)).await;
                Err::<Value, _>(ErrorObject::cancelled())
            }
        })
        .on_request("session/close", || async { Ok::<_, ErrorObject>(json!({})) });
    by_hand.accept(theirs).1.spawn();
    let mut wire = Wire::of(ours);
    wire.say(&request(1, "session/prompt", json!({ "sessionId": "s", "prompt": [] }))).await;
    watch.started(1).await;
    assert!(wire.hear().await["result"]["messageId"].is_string());
    assert_eq!(wire.hear().await["params"]["update"]["state"], "running");
    wire.say(&request(2, "session/close", json!({ "sessionId": "s" }))).await;
    watch.stopped(1, CauseCode::Caller).await;
    assert_eq!(wire.hear().await["params"]["update"]["stopReason"], "cancelled");
    assert_eq!(wire.hear().await, result(&json!(2), json!({})));
}

/// ACP-56: what it cannot report does not begin.
#[tokio::test(start_paused = true)]
async fn in_version_1_nothing_begins_in_the_background() {
    let begun = Log::new();
    let log = begun.clone();
    let agent = Agent::new("a", "1").with_version_2().on_prompt(move |turn: Turn| {
        log.add(turn.terminal("t", &json!({}), |_| std::future::pending::<Result<(), ErrorObject>>()));
        log.add(turn.message_id().is_some());
        async { Ok::<_, ErrorObject>(StopReason::EndTurn) }
    });
    let (client, _served, _) = pair(agent, Client::peer_builder());
    let client = Client::new(client.peer().clone(), "test", "0");
    client.initialize().await.unwrap();
    let session = client.new_session(Path::new("/work")).await.unwrap();
    client.prompt(&session, "x").await.unwrap();
    assert_eq!(begun.take(), [false, false]);
}

/// D34: an agent that never reports the end.
#[tokio::test(start_paused = true)]
async fn a_stopped_prompt_of_an_agent_that_reports_nothing_ends_after_30_seconds_and_claims_nothing() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (peer, driver) = Client::peer_builder().connect(theirs);
    driver.spawn();
    let (mut wire, client) = (Wire::of(ours), Client::new(peer, "test", "0").with_version_2());
    let opening = tokio::spawn({
        let client = client.clone();
        async move { client.initialize().await }
    });
    let hello = wire.hear().await;
    assert_eq!(hello["params"]["protocolVersion"], 2);
    let info = json!({ "name": "silent", "version": "1" });
    wire.say(&result(&hello["id"], json!({ "protocolVersion": 2, "info": info }))).await;
    assert_eq!(opening.await.unwrap().unwrap().name, "silent");
    let turn = client.prompt("s1", "do it").send();
    let asked = wire.hear().await;
    wire.say(&result(&asked["id"], json!({ "messageId": "m" }))).await;
    let running = json!({ "sessionId": "s1", "update": { "sessionUpdate": "state_update", "state": "running" } });
    wire.say(&notification("session/update", running)).await;
    let handle = turn.handle();
    let since = tokio::time::Instant::now();
    client.cancel_turn("s1").unwrap();
    assert_eq!(wire.hear().await, notification("session/cancel", json!({ "sessionId": "s1" })));
    assert!(matches!(turn.await, Err(CallError::Cancelled(_))));
    assert_eq!(since.elapsed(), secs(30));
    let receipt = handle.cancel("");
    let idle = json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled" });
    wire.say(&notification("session/update", json!({ "sessionId": "s1", "update": idle }))).await;
    assert!(matches!(receipt.await.outcome, Outcome::Confirmed { .. }), "what is learnt later is told");
}
