//! An operator stops a task of an SDK that is reached over HTTP: its client on stdio, `rescind run --url`, `rescind serve`,
//! the server (D56). The work itself says what became of it, and the client sees it at the server.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStderr, Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use super::parts::{Client, Server, missing};

const RESCIND: &str = env!("CARGO_BIN_EXE_rescind");

/// Who meets whom, and the flags of `serve` and of `run`.
struct Row {
    client: Client,
    server: Server,
    serve: &'static [&'static str],
    run: &'static [&'static str],
}

const OLD: Row = Row { client: Client::McpTypeScriptTasks, server: Server::McpTypeScriptTasks, serve: &[], run: &[] };
const NEW: Row = Row { client: Client::McpTypeScript2Tasks, server: Server::OurModernTasks, serve: &[], run: &[] };

const ROWS: [Row; 7] = [
    OLD,
    Row { serve: &["--shared"], ..OLD },
    NEW,
    Row { serve: &["--shared"], ..NEW },
    // Across the eras, and where on the way that is done.
    Row { server: Server::McpTypeScriptTasks, serve: &["--bridge"], ..NEW },
    Row { server: Server::McpTypeScriptTasks, run: &["--bridge"], ..NEW },
    Row { server: Server::OurModernTasks, ..OLD },
];

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sockets and marks of this test alone.
fn in_folder<'a>(command: &'a mut Command, folder: &TempDir) -> &'a mut Command {
    command.env("RESCIND_RUNTIME_DIR", folder.path().join("run")).env("RESCIND_MARKS", folder.path().join("marks"))
}

/// The service, where it listens, and its stderr, which is read no further.
fn serve(row: &Row, folder: &TempDir) -> (Process, String, BufReader<ChildStderr>) {
    let mut command = Command::new(RESCIND);
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(row.serve).arg("--").args(row.server.command());
    in_folder(&mut command, folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut service = command.spawn().unwrap();
    let mut said = BufReader::new(service.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let url = line.trim_end().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_owned();
    (Process(service), url, said)
}

#[test]
fn a_task_that_is_reached_over_http_is_listed_and_stopped_and_its_client_sees_that() {
    for row in &ROWS {
        let name = format!("{}, {}, {:?} {:?}", row.client.name(), row.server.name(), row.serve, row.run);
        if let Some(part) = missing(row.client, row.server) {
            assert!(std::env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "{part}");
            let _ = writeln!(std::io::stdout(), "skipped: a stop over HTTP: {part}");
            continue;
        }
        play(row, &name);
    }
}

fn play(row: &Row, name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (_service, url, _said) = serve(row, &folder);
    let client = row.client.command();
    let mut command = Command::new(&client[0]);
    command.args(&client[1..]).args(["task-stopped", "--", RESCIND, "run", &format!("--url={url}")]).args(row.run);
    command.env("RESCIND_PATIENCE_MS", "25000");
    in_folder(&mut command, &folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut playing = Process(command.spawn().unwrap());
    let out = playing.0.stdout.take().unwrap();

    // Both shims know of the task before anybody stops it.
    let mut watching = Command::new(RESCIND);
    watching.args(["ps", "--watch"]);
    in_folder(&mut watching, &folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut watching = Process(watching.spawn().unwrap());
    let mut known: Vec<String> = Vec::new();
    for line in BufReader::new(watching.0.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let label = line.split_whitespace().find(|word| word.contains("/task:")).map(str::to_owned);
        known.extend(label.filter(|label| !known.contains(label)));
        if known.len() == 2 {
            break;
        }
    }
    drop(watching);
    assert_eq!(known.len(), 2, "{name}: {known:?}");

    let mut stop = Command::new(RESCIND);
    let stopped = in_folder(stop.args(["stop", "--within", "1m"]), &folder).output().unwrap();
    let [told, error] = [stopped.stdout, stopped.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(stopped.status.success(), "{name}: {told}{error}");
    let summary = told.lines().last().unwrap_or_default();
    assert!(!summary.contains("unknown") && !summary.starts_with("0 "), "{name}: {told}");

    let said = BufReader::new(out).lines().map_while(Result::ok);
    let said: Vec<Value> = said.filter_map(|line| serde_json::from_str(&line).ok()).collect();
    let then = said.iter().find(|line| line["saw"] == "result" && line["call"] == "A then");
    assert_eq!(then.map(|line| &line["value"]), Some(&"cancelled".into()), "{name}: {said:?}");
    assert!(playing.0.wait().unwrap().success(), "{name}: {said:?}");
    let marks = fs::read_to_string(folder.path().join("marks")).unwrap();
    let marks = marks.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_work: Vec<Value> = marks.filter(|mark| mark["work"] == "A").collect();
    assert!(of_work.iter().any(|mark| mark["event"] == "stopped"), "{name}: {of_work:?}");
    let _ = writeln!(std::io::stdout(), "{name}: {summary}");
}
