//! The examples, run as whoever tries them runs them; each ends by itself.

use std::{
    env,
    path::PathBuf,
    process::{Output, Stdio},
    time::Duration,
};

use rescind::{
    lsp,
    peer::{CallError, Outcome, Transport},
};
use serde_json::{Value, json};
use tokio::process::Command;

/// An example that `cargo test` has built.
fn example(name: &str) -> Command {
    let deps = env::current_exe().unwrap();
    let built: PathBuf =
        deps.ancestors().nth(2).unwrap().join("examples").join(name).with_extension(env::consts::EXE_EXTENSION);
    assert!(built.exists(), "{} is missing: run `cargo build -p rescind --examples`", built.display());
    let mut command = Command::new(built);
    command.kill_on_drop(true);
    command
}

/// Runs it to its end; the limit is for one that hangs.
async fn run(name: &str) -> (String, String) {
    let ran = example(name).stdin(Stdio::null()).output();
    let Output { status, stdout, stderr } = tokio::time::timeout(Duration::from_secs(60), ran).await.unwrap().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(status.success(), "{name}: {status}\n{stdout}\n{stderr}");
    (stdout, stderr)
}

#[tokio::test]
async fn mcp_client_stops_the_tool_of_mcp_server() {
    let (stdout, stderr) = run("mcp_client").await;
    for line in [
        "computer 1.0.0 speaks 2026-07-28",
        "tool long_computation: A long-running computation",
        "receipt: sent; nothing known since (caller)",
        "the caller was told: cancelled, caller",
        "the server goes on: Completed 0 iterations.",
    ] {
        assert!(stdout.lines().any(|said| said == line), "{line}\n{stdout}");
    }
    assert!(stderr.contains("(tools/call): user pressed Stop"), "the server's observer: {stderr}");
}

#[tokio::test]
async fn acp_client_stops_the_tool_of_mcp_server_through_acp_agent() {
    let (stdout, stderr) = run("acp_client").await;
    for line in [
        "computing-agent 1.0.0",
        "may it \"compute 1000\"? It may.",
        "agent: 0 of 1000; pressing Stop",
        "the turn ended: Cancelled",
        "the next turn ended: EndTurn",
        "agent: Completed 0 iterations.",
    ] {
        assert!(stdout.lines().any(|said| said == line), "{line}\n{stdout}");
    }
    assert!(stderr.contains("(tools/call): the request it served was cancelled"), "the tool server's: {stderr}");
}

#[tokio::test]
async fn custom_dialect_shows_its_own_words_on_the_wire() {
    let (stdout, _) = run("custom_dialect").await;
    assert!(stdout.contains(r#""method":"job/abort","params":{"job":1,"why":"out of paper"}"#), "{stdout}");
    assert!(stdout.contains(r#""error":{"code":7,"message":"aborted"}"#), "{stdout}");
    assert!(stdout.contains("stopped: Some(\"out of paper\")"), "{stdout}");
    assert!(stdout.contains("receipt: confirmed"), "{stdout}");
}

/// The test is the editor.
#[tokio::test]
async fn lsp_server_answers_a_search_that_is_cancelled() {
    let mut server = example("lsp_server").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let pipes = server.stdout.take().zip(server.stdin.take()).unwrap();
    let (peer, driver) = lsp::Client::peer_builder().connect(Transport::from(pipes));
    let driver = driver.spawn();
    let client = lsp::Client::new(peer);
    let greeting = client.initialize(&json!({ "processId": null, "capabilities": {} })).await.unwrap();
    assert_eq!(greeting["capabilities"]["workspaceSymbolProvider"], true);
    let open = |uri: &str, text: &str| {
        let document = json!({ "uri": uri, "languageId": "rust", "version": 1, "text": text });
        client.peer().try_notify("textDocument/didOpen", &json!({ "textDocument": document })).unwrap();
    };
    let search = |query: &str| client.peer().request::<Vec<Value>>("workspace/symbol", &json!({ "query": query }));
    open("file:///a.rs", "fn main() {}\nfn other() {}\n");
    let found = search("main").await.unwrap();
    assert_eq!((found.len(), &found[0]["location"]["uri"]), (1, &json!("file:///a.rs")));
    // So much that the search is still going on when its cancel arrives.
    open("file:///b.rs", &"fn main() {}\n".repeat(2_000_000));
    let long = search("nothing").send();
    let stop = long.handle();
    let receipt = stop.cancel("");
    assert!(matches!(long.await, Err(CallError::Cancelled(_))));
    let receipt = receipt.await;
    assert!(matches!(receipt.outcome, Outcome::Confirmed { .. } | Outcome::NeverSent), "{receipt:?}");
    client.shutdown().await.unwrap();
    drop(client);
    driver.await.unwrap().unwrap();
    let status = tokio::time::timeout(Duration::from_secs(60), server.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(0), "after shutdown");
}
