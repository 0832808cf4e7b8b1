//! ACP v2 (D55) between the library and the Rust SDK, each side once. Their work writes into a pipe until it is cancelled,
//! and ours tells that it stopped.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rescind::{
    acp::{Agent, Client, StopReason, Turn},
    peer::{CallError, CauseCode, ErrorObject, Params, dialect::acp::V2_DRAFT, transport},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{net::unix::pipe, sync::mpsc, task::spawn_blocking};

use super::sdk;
use crate::{in_time::in_time, rig::watch};

fn pipes(names: [&str; 2]) -> (TempDir, [PathBuf; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let pipes = names.map(|name| folder.path().join(name));
    assert!(Command::new("mkfifo").args(&pipes).status().unwrap().success());
    (folder, pipes)
}

/// What work writes into its pipe: it has begun.
async fn beats(pipe: &Path) -> BufReader<File> {
    let pipe = pipe.to_owned();
    let begun = spawn_blocking(move || {
        let mut beats = BufReader::new(File::open(pipe).unwrap());
        let mut beat = String::new();
        beats.read_line(&mut beat).unwrap();
        assert_eq!(beat, "beat\n");
        beats
    });
    in_time(begun).await.unwrap()
}

/// Returns when nothing writes into the pipe any more.
async fn is_over(mut beats: BufReader<File>) {
    let read = spawn_blocking(move || beats.read_to_end(&mut Vec::new()).unwrap());
    in_time(read).await.unwrap();
}

/// ACP-50, ACP-51, ACP-55.
#[tokio::test]
async fn a_client_of_ours_stops_the_turn_and_then_the_terminal_of_the_rust_sdk() {
    let Some(program) = sdk::acp_two("agent") else { return };
    let (_folder, [turn, terminal]) = pipes(["turn", "terminal"]);
    let mut command = tokio::process::Command::new(program);
    command.args([&turn, &terminal]);
    let (link, _child) = transport::child::child(command).unwrap();
    let (tell, mut updates) = mpsc::unbounded_channel();
    let client = Client::builder("ours", "1").with_version_2().on_update(move |Params(update): Params<Value>| {
        let _ = tell.send(update["update"].clone());
    });
    let client = in_time(client.connect(link)).await.unwrap();
    assert_eq!(client.peer().dialect(), &V2_DRAFT);
    let session = in_time(client.new_session(Path::new("/"))).await.unwrap();
    let prompt = client.prompt(&session, "work").send();
    let (turn, terminal) = (beats(&turn).await, beats(&terminal).await);
    client.cancel_turn(&session).unwrap();
    assert_eq!(in_time(prompt).await.unwrap(), StopReason::Cancelled);
    is_over(turn).await;
    let mut listed = Value::Null;
    while let Ok(update) = updates.try_recv() {
        listed = update["background"].clone();
    }
    assert_eq!(listed, json!([{ "type": "terminal", "terminalId": "terminal-1" }]), "the terminal goes on");
    let params = json!({ "sessionId": session, "terminalId": "terminal-1" });
    in_time(client.peer().request::<Value>("terminal/cancel", &params)).await.unwrap();
    is_over(terminal).await;
    let again = in_time(client.peer().request::<Value>("terminal/cancel", &params)).await;
    assert!(matches!(again, Err(CallError::Peer(error)) if error.code == -32602));
    client.close().await;
}

/// ACP-50, ACP-51, ACP-56: what our agent writes, their types read.
#[tokio::test]
async fn the_client_of_the_rust_sdk_stops_a_turn_of_ours_and_sees_its_terminal_go_on() {
    let Some(program) = sdk::acp_two("client") else { return };
    let (mut seen, witness) = watch();
    let (_folder, [ours, theirs]) = pipes(["ours", "theirs"]);
    let mut command = Command::new(program);
    command.args(["sh", "-c", r#"cat "$0" & exec cat > "$1""#]).args([&ours, &theirs]);
    let mut client = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut orders = client.stdin.take().unwrap();
    let mut shown = BufReader::new(client.stdout.take().unwrap()).lines();
    let opened =
        spawn_blocking(move || (OpenOptions::new().write(true).open(ours).unwrap(), File::open(theirs).unwrap()));
    let (write, read) = in_time(opened).await.unwrap();
    let agent = Agent::new("ours", "1").with_version_2().on_prompt(move |turn: Turn| {
        let (guard, items) = (witness.guard(turn.context()), witness.clone());
        async move {
            assert_eq!(turn.text(), "work");
            let begun = turn.terminal("t1", &json!({ "command": "work" }), |item: Turn| async move {
                let _guard = items.guard(item.context());
                item.context().cancelled().await;
                Ok::<_, ErrorObject>(json!({ "signal": "TERM" }))
            });
            assert!(begun && turn.say("at work").await);
            turn.context().cancelled().await;
            guard.fired(turn.context());
            turn.say("stopping").await;
            Err::<StopReason, _>(ErrorObject::cancelled())
        }
    });
    let link = (pipe::Receiver::from_file(read).unwrap(), pipe::Sender::from_file(write).unwrap());
    let served = tokio::spawn(agent.serve(link));
    let prompted = seen.next().await;
    seen.started("t1").await;
    writeln!(orders, "cancel").unwrap();
    let said = spawn_blocking(move || {
        let mut said = Vec::new();
        loop {
            let update: Value = serde_json::from_str(&shown.next().unwrap().unwrap()).unwrap();
            let is_last = update["state"] == "idle";
            said.push(update);
            if is_last {
                return said;
            }
        }
    });
    let said = in_time(said).await.unwrap();
    let crate::rig::Seen::Started(prompt) = prompted else { panic!("{prompted:?}") };
    seen.stopped(prompt, CauseCode::Caller).await;
    assert!(seen.is_quiet(), "the terminal goes on");
    let kinds: Vec<_> = said.iter().map(|update| update["sessionUpdate"].as_str().unwrap()).collect();
    let [first, message, terminal, listed, text, last_text, idle] = &kinds[..] else { panic!("{said:#?}") };
    assert_eq!([*first, *listed, *idle], ["state_update"; 3]);
    assert_eq!([*message, *terminal], ["user_message", "terminal_update"]);
    assert_eq!([*text, *last_text], ["agent_message_chunk"; 2]);
    let background = json!([{ "type": "terminal", "terminalId": "t1" }]);
    assert_eq!((&said[6]["stopReason"], &said[6]["background"]), (&json!("cancelled"), &background));
    // The end of its input ends the client, and that our agent's work.
    drop(orders);
    in_time(served).await.unwrap().unwrap();
    seen.gone("t1").await;
    assert!(in_time(spawn_blocking(move || client.wait().unwrap())).await.unwrap().success());
}
