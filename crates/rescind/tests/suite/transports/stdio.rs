//! A server on its own standard input and output: this test program, started again.

use std::{fs::File, process::Stdio};

use rescind::peer::{CauseCode, Context, ErrorObject, Params, Peer, dialect::mcp, transport};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::Command,
};

use crate::in_time::in_time;

/// The server. It leaves by itself, so that the harness says nothing more.
#[test]
#[ignore = "started by the other tests"]
fn as_a_server() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let served = runtime.block_on(async {
        let server = Peer::builder(&mcp::LATEST_LEGACY)
            .on_request("echo", |Params(params): Params<Value>| async move { Ok::<_, ErrorObject>(params) })
            .on_request("work", |cx: Context| async move {
                let _ = cx.peer().try_notify("notifications/started", &());
                cx.cancelled().await;
                let why = cx.cause().map(|cause| cause.code.as_str());
                let _ = cx.peer().try_notify("notifications/stopped", &json!({ "why": why }));
                Err::<(), _>(ErrorObject::cancelled())
            })
            .serve(transport::stdio());
        server.await
    });
    std::process::exit(if served.is_ok() { 42 } else { 43 });
}

/// The program that is the server. The harness says a line before it starts, which is no message and harms nobody.
fn server() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "transports::stdio::as_a_server", "--ignored", "--nocapture", "--quiet"]);
    command
}

#[tokio::test]
async fn a_server_on_pipes_answers_is_cancelled_and_leaves_at_the_end_of_input() {
    let (transport, child) = transport::child(server()).unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let (tell_stopped, tell_started) = (tell.clone(), tell);
    let (peer, driver) = Peer::builder(&mcp::LATEST_LEGACY)
        .on_notification("notifications/started", move || drop(tell_started.send(json!("started"))))
        .on_notification("notifications/stopped", move |Params(params): Params<Value>| {
            drop(tell_stopped.send(params["why"].clone()));
        })
        .connect(transport);
    let driven = driver.spawn();
    let large = "x".repeat(1 << 20);
    let answer: Value = peer.request("echo", &json!({ "text": large })).await.unwrap();
    assert!(answer["text"] == large.as_str());
    let call = tokio::spawn(peer.request::<Value>("work", &()));
    assert_eq!(told.recv().await.unwrap(), "started");
    call.abort();
    assert_eq!(told.recv().await.unwrap(), CauseCode::Caller.as_str());
    drop(peer);
    driven.await.unwrap().unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(42));
}

#[tokio::test]
async fn a_server_on_files_answers_to_the_end_of_its_input() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    let messages =
        [1, 2, 3].map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"echo","params":{{"at":{id}}}}}"#));
    std::fs::write(&input, messages.join("\n") + "\n").unwrap();
    let mut child = server()
        .stdin(File::open(&input).unwrap())
        .stdout(File::create(&output).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(42));
    let said = std::fs::read_to_string(&output).unwrap();
    let answers: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let ids: Vec<_> = answers.iter().map(|answer| answer["result"]["at"].as_u64()).collect();
    assert_eq!(ids, [Some(1), Some(2), Some(3)], "{said}");
}

#[tokio::test]
async fn a_client_that_dies_within_a_message_ends_the_server() {
    let mut child = server().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"work\"}\n{\"jsonrpc\":").await.unwrap();
    drop(stdin);
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).await.unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(42));
    assert!(said.contains(r#""why":"disconnect""#), "{said}");
}

/// Whoever had opened it for writing died before the server began to read.
#[tokio::test]
async fn a_server_on_a_named_pipe_whose_writer_has_gone_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("in");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let both = File::options().read(true).write(true).open(&pipe).unwrap();
    let reader = File::open(&pipe).unwrap();
    drop(both);
    let mut child = server().stdin(reader).stdout(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    assert_eq!(in_time(child.wait()).await.unwrap().code(), Some(42));
}
