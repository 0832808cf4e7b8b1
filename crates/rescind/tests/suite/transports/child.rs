//! A server that is a process: nothing of it is left behind, whichever way it ends.

use std::{
    future::poll_fn,
    os::unix::process::ExitStatusExt,
    path::Path,
    pin::{Pin, pin},
    process::{Command, Stdio},
};

use rescind::{
    acp, lsp,
    peer::{CallError, ConnectError, Peer, dialect::mcp, transport},
};
use rustix::process::{Pid, WaitId, WaitIdOptions};
use serde_json::{Value, json};
use tokio::{io::AsyncReadExt, runtime::Handle, task::yield_now};

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script);
    command
}

/// Nobody is left in the group, and the child was collected.
fn assert_gone(child: &transport::child::Child) {
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    let collected = rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    assert_eq!(collected.unwrap_err(), rustix::io::Errno::CHILD, "no zombie");
    // The others were sent SIGKILL too, and are collected by whoever adopts them. One that was not would live long.
    while !is_dead(pid) {
        std::thread::yield_now();
    }
}

/// Whether everybody in the group is a zombie.
fn is_dead(group: Pid) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().all(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((_, stat)) = stat.rsplit_once(") ") else { return true };
        let mut fields = stat.split(' ');
        let (state, _parent, of) = (fields.next(), fields.next(), fields.next());
        of != Some(&group.to_string()) || state == Some("Z") || state == Some("X")
    })
}

/// Answers every line with a result under id 1.
const ANSWER: &str = r#"while read -r line; do echo '{"jsonrpc":"2.0","id":1,"result":{}}'; done"#;

#[tokio::test]
async fn a_child_answers_and_leaves_when_its_stdin_is_closed() {
    let (transport, child) = transport::child(shell(&format!("{ANSWER}; exit 7"))).unwrap();
    let (peer, driver) = Peer::builder(&mcp::LATEST_LEGACY).connect(transport);
    let driven = driver.spawn();
    peer.request::<Value>("anything", &()).await.unwrap();
    assert_eq!(child.status(), None);
    drop(peer);
    driven.await.unwrap().unwrap();
    assert_eq!(child.status().and_then(|status| status.code()), Some(7), "the driver waited for it");
    assert_eq!(child.wait().await.unwrap().code(), Some(7), "and anybody can ask");
    assert_gone(&child);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_ignores_everything_is_killed_with_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let script = format!("trap '' TERM; sleep 1000 & : >{}; while :; do sleep 1000; done", ready.display());
    let (transport, child) = transport::child(shell(&script)).unwrap();
    wait_for(&ready).await;
    let (peer, driver) = Peer::builder(&mcp::LATEST_LEGACY).connect(transport);
    let start = tokio::time::Instant::now();
    drop(peer);
    driver.await.unwrap();
    assert_eq!(child.wait().await.unwrap().signal(), Some(9));
    assert!(start.elapsed().as_millis() >= 2500, "1.5 s for the end of input, 1 s for SIGTERM");
    assert_gone(&child);
}

#[tokio::test]
async fn a_child_that_dies_ends_its_calls_and_takes_its_group_along() {
    let script = r#"sleep 1000 & read -r line; printf '{"jsonrpc":"2.0","id":1,'; kill -9 $$"#;
    let (transport, child) = transport::child(shell(script)).unwrap();
    let (peer, driver) = Peer::builder(&mcp::LATEST_LEGACY).connect(transport);
    let driven = driver.spawn();
    let error = peer.request::<Value>("work", &json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::Closed), "{error}");
    assert_eq!(child.wait().await.unwrap().signal(), Some(9));
    driven.await.unwrap().unwrap();
    assert_gone(&child);
}

#[tokio::test]
async fn a_dropped_driver_leaves_the_child_to_its_ladder() {
    let (transport, child) = transport::child(shell(ANSWER)).unwrap();
    drop(Peer::builder(&mcp::LATEST_LEGACY).connect(transport));
    assert!(child.wait().await.unwrap().success());
    assert_gone(&child);
}

#[test]
fn the_end_of_the_runtime_is_the_end_of_the_child() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (transport, child) = runtime.block_on(async { transport::child(shell("sleep 1000 & sleep 1000")).unwrap() });
    drop(runtime);
    assert_eq!(child.status().and_then(|status| status.signal()), Some(9));
    assert_gone(&child);
    drop(transport);
}

#[tokio::test]
async fn a_command_that_does_not_exist_is_said_so() {
    let error = transport::child(Command::new("/nowhere/at/all")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[tokio::test]
async fn stderr_passes_through_unless_it_is_asked_for() {
    let mut command = shell("echo trouble >&2");
    command.stderr(Stdio::piped());
    let (transport, child) = transport::child(command).unwrap();
    let mut said = String::new();
    child.take_stderr().unwrap().read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "trouble\n");
    assert!(child.take_stderr().is_none());
    drop(transport);
    // The same link as ours, without a word of the command.
    let (transport, child) = transport::child(shell("exec sleep 1000")).unwrap();
    let ours = std::fs::read_link("/proc/self/fd/2").unwrap();
    let theirs = loop {
        match std::fs::read_link(format!("/proc/{}/fd/2", child.id())) {
            Ok(link) => break link,
            Err(_) => yield_now().await,
        }
    };
    assert_eq!(theirs, ours);
    child.kill();
    assert_eq!(child.wait().await.unwrap().signal(), Some(9));
    drop(transport);
}

/// MCP-S02. Until the handshake has ended there is no task but the child's own supervisor.
#[tokio::test]
async fn a_connect_that_is_dropped_in_the_handshake_leaves_no_child_and_no_task() {
    let folder = tempfile::tempdir().unwrap();
    for protocol in ["mcp", "acp", "lsp"] {
        let ready = folder.path().join(protocol);
        let script = format!("read -r line; : >{}; while read -r line; do :; done", ready.display());
        let (transport, child) = transport::child(shell(&script)).unwrap();
        {
            let mut connecting: Pin<Box<dyn Future<Output = Result<(), ConnectError>>>> = match protocol {
                "mcp" => Box::pin(async { rescind::mcp::Client::connect(transport, "test", "1").await.map(drop) }),
                "acp" => Box::pin(async { acp::Client::connect(transport, "test", "1").await.map(drop) }),
                _ => Box::pin(async { lsp::Client::connect(transport, "test", "1").await.map(drop) }),
            };
            let mut heard = pin!(wait_for(&ready));
            poll_fn(|cx| {
                assert!(connecting.as_mut().poll(cx).is_pending(), "the server is mute");
                heard.as_mut().poll(cx)
            })
            .await;
            assert_eq!(Handle::current().metrics().num_alive_tasks(), 1, "the supervisor of the child");
        }
        assert!(child.wait().await.unwrap().success(), "its stdin was closed");
        while Handle::current().metrics().num_alive_tasks() > 0 {
            yield_now().await;
        }
    }
}

async fn wait_for(path: &Path) {
    while !path.exists() {
        yield_now().await;
    }
}
