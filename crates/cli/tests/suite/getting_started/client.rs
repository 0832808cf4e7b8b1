//! A client that starts the servers of its file, as the file says.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Lines, Read, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use rescind_wrap::{
    client::shape_of,
    config::Config,
    entry::{Kind, Launch},
};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::Desk;

/// A client with one server, and one request to it.
pub(super) struct Client {
    server: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    kind: Kind,
    /// Ends when nothing is left of what works on the request.
    work: File,
    was_stopped: bool,
}

impl Client {
    /// One for each server of a file; each has begun to work.
    pub(super) fn begin(desk: &Desk, file: &Path) -> Vec<Self> {
        let shape = shape_of(file).unwrap();
        let config = Config::read(&fs::read(file).unwrap(), shape.syntax, shape.servers).unwrap();
        let servers = config.entries().iter().map(|entry| {
            let Launch::Command(command) = &entry.launch else { panic!("{}: {entry:?}", file.display()) };
            Self::open(desk, entry.kind, &command.words, entry.name())
        });
        servers.collect()
    }

    fn open(desk: &Desk, kind: Kind, words: &[String], name: &str) -> Self {
        let work = desk.path(&format!("work on {name}"));
        mknodat(CWD, &work, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        // Opened so, the other side needs not be there yet.
        let both = File::options().read(true).write(true).open(&work).unwrap();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env_clear().envs(desk.environment()).env("WORK", &work);
        command.current_dir(desk.path("project")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn().unwrap();
        let input = server.stdin.take().unwrap();
        let output = BufReader::new(server.stdout.take().unwrap()).lines();
        let work = File::open(&work).unwrap();
        let mut client = Self { server, input, output, kind, work, was_stopped: false };
        match kind {
            Kind::Tools => client.call(),
            Kind::Agent => client.prompt(),
            Kind::Language => panic!("no page has one"),
        }
        drop(both);
        client
    }

    fn call(&mut self) {
        let client = json!({"name": "a-client", "version": "1"});
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        self.say(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}));
        self.hear(|message| message["id"] == 0);
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let arguments = json!({"duration": 60, "steps": 120});
        let params =
            json!({"name": "trigger-long-running-operation", "arguments": arguments, "_meta": {"progressToken": 1}});
        self.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
        self.hear(|message| message["method"] == "notifications/progress" && message["params"]["progress"] == 3);
    }

    fn prompt(&mut self) {
        let hello = json!({"protocolVersion": 1, "clientCapabilities": {}});
        self.say(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}));
        self.hear(|message| message["id"] == 0);
        let params = json!({"sessionId": "s", "prompt": [{"type": "text", "text": "go on"}]});
        self.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": params}));
        self.hear(|message| message["method"] == "session/update");
    }

    /// Its user presses Stop, and it says so in its server's protocol.
    pub(super) fn stop(&mut self) {
        let stop = match self.kind {
            Kind::Agent => json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}),
            Kind::Tools | Kind::Language => {
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
            }
        };
        self.say(&stop);
        self.was_stopped = true;
    }

    /// It closes its server's input; returns once the server and all its work have ended. What it was told of its
    /// request is what its protocol has for that.
    pub(super) fn end(self) {
        let Self { mut server, input, output, kind, work, was_stopped } = self;
        drop(input);
        let messages = output.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let answer = messages.filter(|message| message["id"] == 1 && message.get("method").is_none()).last();
        match (kind, was_stopped, answer) {
            (Kind::Agent, _, Some(answer)) => assert_eq!(answer["result"]["stopReason"], "cancelled"),
            (Kind::Tools, false, Some(answer)) => {
                assert_eq!(answer["error"]["code"], -31_003);
                let message = answer["error"]["message"].as_str().unwrap();
                assert!(message.starts_with("stopped by operator"), "{message}");
            }
            (Kind::Tools, true, None) => {}
            (_, _, answer) => panic!("{answer:?}"),
        }
        server.wait().unwrap();
        (&work).read_to_end(&mut Vec::new()).unwrap();
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    fn hear(&mut self, wanted: impl Fn(&Value) -> bool) {
        loop {
            let line = self.output.next().expect("an answer").unwrap();
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
            if wanted(&message) {
                return;
            }
        }
    }
}
