//! The example, as real processes on one file.

use std::{
    env,
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
};

/// One process of the example, greeted.
struct Process {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    words: Lines<BufReader<ChildStderr>>,
}

impl Process {
    async fn start(file: &Path) -> Self {
        let deps = env::current_exe().unwrap();
        let name = format!("task_server{}", env::consts::EXE_SUFFIX);
        let built: PathBuf = deps.ancestors().nth(2).unwrap().join("examples").join(name);
        assert!(built.exists(), "{} is missing: run `cargo build -p rescind-tasks --examples`", built.display());
        let mut command = Command::new(built);
        command.arg(file).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let words = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut process = Self { child, input, output, words };
        let client = json!({ "name": "test", "version": "0" });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        assert!(process.ask("initialize", hello).await["capabilities"]["tasks"].is_object());
        process
    }

    /// Asks, and gives the result; notifications in between are passed over.
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params });
        self.input.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        loop {
            let line = self.output.next_line().await.unwrap().expect("it has closed");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == method {
                return message["result"].clone();
            }
        }
    }

    async fn compute(&mut self) -> String {
        let call = json!({ "name": "long_computation", "arguments": { "iterations": 100_000 }, "task": {} });
        let created = self.ask("tools/call", call).await;
        created["task"]["taskId"].as_str().unwrap().to_owned()
    }

    /// The next that its work says of itself.
    async fn says(&mut self, words: &str) {
        assert_eq!(self.words.next_line().await.unwrap().as_deref(), Some(words));
    }
}

// Case 52, 60.
#[tokio::test]
async fn two_servers_on_one_file_cancel_and_resume_each_others_work() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.db");
    let (mut one, mut other) = (Process::start(&file).await, Process::start(&file).await);

    let id = one.compute().await;
    one.says("computing").await;
    assert_eq!(other.ask("tasks/cancel", json!({ "taskId": id })).await["status"], "cancelled");
    one.says("stopped: cancelled by the caller").await;

    let id = one.compute().await;
    one.says("computing").await;
    one.child.kill().await.unwrap();
    other.says("computing").await;
    assert_eq!(other.ask("tasks/get", json!({ "taskId": id })).await["status"], "working");

    drop(other.input);
    let words = other.words.next_line().await.unwrap();
    assert_eq!(words.as_deref(), Some("stopped: shutting down"), "in order, at the end of its input");
    assert!(other.child.wait().await.unwrap().success());

    let mut next = Process::start(&file).await;
    next.says("computing").await;
    assert_eq!(next.ask("tasks/cancel", json!({ "taskId": id })).await["status"], "cancelled");
    next.says("stopped: cancelled by the caller").await;
}
