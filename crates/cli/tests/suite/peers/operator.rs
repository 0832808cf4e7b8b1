//! Somebody looks at what is in flight and stops one of three: behind a server that obeys, and behind one that does
//! not.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::parts::{Client, Server, missing};

const RESCIND: &str = env!("CARGO_BIN_EXE_rescind");

/// Nothing that works comes near it.
const BOUND: Duration = Duration::from_secs(60);

#[test]
fn one_of_three_operations_is_stopped_and_the_server_obeys() {
    let Some(mut three) = Three::start(Server::McpTypeScript, "obeys", r#"{"ticks":40}"#) else { return };
    let open = three.until_all_report();
    let receipt = three.cancel(&open[1], "1s");
    // If progress crosses the cancel, as on a busy machine, the receipt has one more line.
    assert!(three.words(&receipt).contains(&"sent; MCP does not confirm".into()), "{receipt}");
    three.expect_b_was_stopped_and_the_others_finish();
    let marks = three.marks("B");
    assert_eq!(marks.last().map(|mark| &mark["event"]), Some(&Value::from("stopped")), "{marks:?}");
    let ticks = marks.iter().filter(|mark| mark["event"] == "progress").count();
    assert!(ticks < 40, "the work itself was cut short: {marks:?}");
}

#[test]
fn one_of_three_operations_is_stopped_and_the_server_works_on() {
    let arguments = r#"{"duration":5,"steps":20}"#;
    let Some(mut three) = Three::start(Server::Everything, "trigger-long-running-operation", arguments) else { return };
    let open = three.until_all_report();
    let receipt = three.cancel(&open[1], "3s");
    // Its SDK withholds the answer, and so the progress is all that tells.
    assert!(three.words(&receipt).contains(&"progress still arriving".into()), "{receipt}");
    three.expect_b_was_stopped_and_the_others_finish();
}

// D56: a task of an SDK, in both dialects; its request was answered long before.
#[test]
fn a_task_is_listed_and_stopped_and_its_client_sees_that() {
    let both = [
        (Client::McpTypeScriptTasks, Server::McpTypeScriptTasks),
        (Client::McpTypeScript2Tasks, Server::OurModernTasks),
    ];
    for (client, server) in both {
        if let Some(part) = missing(client, server) {
            assert!(std::env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "{part}");
            let _ = writeln!(std::io::stdout(), "skipped: an operator's stop of a task: {part}");
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let command = client.command();
        let mut playing = Command::new(&command[0]);
        playing.args(&command[1..]).args(["task-stopped", "--", RESCIND, "run"]).args(server.command());
        playing.env("RESCIND_PATIENCE_MS", "25000");
        let playing =
            in_folder(&mut playing, &folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut playing =
            Three { child: playing.spawn().unwrap(), stdin: None, said: mpsc::channel().1, ends: Vec::new(), folder };
        let out = playing.child.stdout.take().unwrap();
        let mut watching = in_folder(Command::new(RESCIND).args(["ps", "--watch"]), &playing.folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("task:looks")), "it is listed");
        watching.kill().unwrap();
        watching.wait().unwrap();
        let said = playing.rescind(&["stop", "--within", "1m"]);
        assert!(said.contains(": stopped: confirmed after "), "{said}");
        let said: Vec<Value> = BufReader::new(out)
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| serde_json::from_str(&line).ok())
            .collect();
        let then = said.iter().find(|line| line["saw"] == "result" && line["call"] == "A then");
        assert_eq!(then.map(|line| &line["value"]), Some(&"cancelled".into()), "{said:?}");
        assert!(playing.child.wait().unwrap().success(), "{said:?}");
        let marks = playing.marks("A");
        assert!(marks.iter().any(|mark| mark["event"] == "stopped"), "{marks:?}");
    }
}

/// A client with three operations under way behind the shim.
struct Three {
    child: Child,
    stdin: Option<ChildStdin>,
    said: Receiver<Value>,
    /// What the client said of B after its cancel.
    ends: Vec<Value>,
    folder: TempDir,
}

impl Three {
    fn start(server: Server, tool: &str, arguments: &str) -> Option<Self> {
        if let Some(part) = missing(Client::McpTypeScript, server) {
            assert!(std::env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "{part}");
            let _ = writeln!(std::io::stdout(), "skipped: an operator's stop: {part}");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let client = Client::McpTypeScript.command()[1].replace("client.mjs", "three.mjs");
        let mut command = Command::new("node");
        command.args([&client, tool, arguments, "--", RESCIND, "run"]).args(server.command());
        let mut child = in_folder(&mut command, &folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, said) = mpsc::channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        thread::spawn(move || {
            let lines = lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok());
            lines.for_each(|line| drop(sender.send(line)));
        });
        let stdin = child.stdin.take();
        Some(Self { child, stdin, said, ends: Vec::new(), folder })
    }

    /// The three as `rescind ps` lists them, once each has reported progress to the client.
    fn until_all_report(&mut self) -> Vec<Value> {
        let mut quiet = vec!["A", "B", "C"];
        while !quiet.is_empty() {
            let line = self.next();
            assert_ne!(line["saw"], "error", "{line}");
            quiet.retain(|work| line["saw"] != "progress" || line["work"] != *work);
        }
        let listed: Value = serde_json::from_str(&self.rescind(&["ps", "--json"])).unwrap();
        let session = &listed["sessions"][0];
        let open = session["requests"].as_array().unwrap_or_else(|| panic!("{listed:#}")).clone();
        assert_eq!(open.len(), 3, "{listed:#}");
        for request in &open {
            assert_eq!(
                (&request["method"], &request["state"]),
                (&"tools/call".into(), &"running".into()),
                "{listed:#}"
            );
            assert!(request["progress"]["count"].as_u64() >= Some(1), "{listed:#}");
        }
        let table = self.rescind(&["ps"]);
        assert_eq!(table.lines().count(), 4, "{table}");
        assert!(table.contains("running") && table.contains('%'), "{table}");
        open
    }

    fn cancel(&self, request: &Value, wait: &str) -> String {
        let name = request["label"].as_str().unwrap();
        self.rescind(&["cancel", name, "--reason", "too expensive", "--wait", wait])
    }

    /// The words of a receipt, in their order.
    fn words(&self, printed: &str) -> Vec<String> {
        printed.lines().filter_map(|line| Some(line.split_once(": ")?.1.to_owned())).collect()
    }

    fn expect_b_was_stopped_and_the_others_finish(&mut self) {
        while self.ends.len() < 3 {
            let line = self.next();
            if line["saw"] == "result" || line["saw"] == "error" {
                self.ends.push(line);
            }
        }
        let end = |work: &str| self.ends.iter().find(|line| line["work"] == work).unwrap();
        assert_eq!((&end("A")["saw"], &end("C")["saw"]), (&"result".into(), &"result".into()));
        let stopped = end("B");
        assert_eq!((&stopped["saw"], &stopped["code"]), (&"error".into(), &(-31003).into()), "{stopped}");
        let receipt = &stopped["data"]["receipt"];
        assert_eq!((&receipt["cause"], &receipt["reason"]), (&"operator".into(), &"too expensive".into()), "{stopped}");
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }

    fn next(&mut self) -> Value {
        self.said.recv_timeout(BOUND).expect("the client says what it sees")
    }

    /// What a command prints that must succeed.
    fn rescind(&self, arguments: &[&str]) -> String {
        let output = in_folder(Command::new(RESCIND).args(arguments), &self.folder).output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(output.status.success(), "{arguments:?}: {out}{err}");
        out
    }

    /// What the work itself says of its end.
    fn marks(&self, work: &str) -> Vec<Value> {
        let marks = fs::read_to_string(self.folder.path().join("marks")).unwrap();
        let marks = marks.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        marks.filter(|mark| mark["work"] == work).collect()
    }
}

/// Sockets and marks of this test alone.
fn in_folder<'a>(command: &'a mut Command, folder: &TempDir) -> &'a mut Command {
    command.env("RESCIND_RUNTIME_DIR", folder.path().join("run")).env("RESCIND_MARKS", folder.path().join("marks"))
}

impl Drop for Three {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
