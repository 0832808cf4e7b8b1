//! Agents: shells that start a server behind `rescind run`, and `rescind mcp`.

use std::{
    cell::RefCell,
    fs::File,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::shim::PROGRAM;

/// Bounds the wait for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that answers its handshake, and then makes progress on its first call without end.
const DEAF: &str = r#"exec 3>"$RESCIND_SAMPLE_MARKS"
read -r hello
echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"deaf","version":"1"}}}'
read -r ready
read -r call
echo '{"mark":"started"}' >&3
while n=$((n + 1)); do
  echo "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":$n}}"
  sleep 0.1
done
"#;

/// The agents of one user.
pub(super) struct Machine {
    folder: TempDir,
    groups: RefCell<Vec<Child>>,
}

/// An agent, as the test is its hands.
pub(super) struct Agent {
    /// Its server behind `rescind run`.
    work: Line,
    /// `rescind mcp`.
    tools: Line,
    /// Of an agent that is itself a server: its client's end.
    prompts: Option<Line>,
    marks: mpsc::Receiver<Value>,
    next: u32,
    /// Messages of `rescind mcp` that nobody waited for.
    others: Vec<Value>,
}

/// Two ends of a program's standard streams.
struct Line {
    to: File,
    from: mpsc::Receiver<Value>,
}

impl Machine {
    pub(super) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), groups: RefCell::default() }
    }

    /// An agent whose `rescind mcp` has these flags.
    pub(super) fn agent(&self, name: &str, flags: &[&str]) -> Agent {
        self.agent_with(name, &format!(r#""$PROGRAM" mcp {}"#, flags.join(" ")))
    }

    /// An agent that starts `rescind mcp` by this command.
    pub(super) fn agent_with(&self, name: &str, command: &str) -> Agent {
        let script = self.script(name, command, "");
        self.start(Command::new("sh").arg(script));
        self.adopt(name)
    }

    /// An agent whose server works on whatever it is told, and says so. Also the number of its `rescind mcp`.
    pub(super) fn agent_of_deaf_work(&self, name: &str) -> (Agent, u32) {
        let (server, number) = (self.folder.path().join("deaf.sh"), self.folder.path().join("number"));
        std::fs::write(&server, DEAF).unwrap();
        let command = format!(r#"sh -c 'echo $$ >{}; exec "$PROGRAM" mcp'"#, number.display());
        let script = self.script(name, &command, &format!("SERVER='sh {}'", server.display()));
        self.start(Command::new("sh").arg(script));
        let agent = self.adopt(name);
        (agent, std::fs::read_to_string(number).unwrap().trim().parse().unwrap())
    }

    /// An agent that is itself a `sh -c`, as a launcher is.
    pub(super) fn agent_like_a_launcher(&self, name: &str) -> Agent {
        let script = self.script(name, r#""$PROGRAM" mcp"#, "");
        self.start(Command::new("sh").arg("-c").arg(format!(". {}", script.display())));
        self.adopt(name)
    }

    /// An agent that starts another.
    pub(super) fn agent_of_agents(&self, outer: &str, inner: &str) -> Agent {
        let inner = self.script(inner, r#""$PROGRAM" mcp"#, "");
        let begun = format!("sh {} &", inner.display());
        let script = self.script(outer, r#""$PROGRAM" mcp"#, &begun);
        self.start(Command::new("sh").arg(script));
        self.adopt(outer)
    }

    /// An agent that is the server of a session.
    pub(super) fn agent_behind_a_shim(&self, name: &str, flags: &[&str]) -> Agent {
        let command = format!(r#""$PROGRAM" mcp {}"#, flags.join(" "));
        let script = self.script(name, &command, "");
        let mut command = Command::new(PROGRAM);
        command.args(["run", "--protocol", "acp-v1", "sh"]).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let (stdin, stdout) = self.start(&mut command);
        let mut agent = self.adopt(name);
        agent.prompts = Some(Line::new(File::from(stdin.unwrap()), File::from(stdout.unwrap())));
        agent
    }

    /// The ends of an agent that was started.
    pub(super) fn adopt(&self, name: &str) -> Agent {
        let line = |of: &str| {
            let to = File::options().write(true).open(self.pipe(name, of, "in")).unwrap();
            Line::new(to, File::open(self.pipe(name, of, "out")).unwrap())
        };
        let (work, tools) = (line("work"), line("tools"));
        let marks = File::open(self.pipe(name, "work", "marks")).unwrap();
        let mut agent = Agent { work, tools, prompts: None, marks: read(marks), next: 1000, others: Vec::new() };
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": name, "version": "1" },
        });
        let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello });
        for line in [&mut agent.work, &mut agent.tools] {
            line.send(&initialize);
            assert_eq!(line.receive()["id"], 0);
            line.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        }
        agent
    }

    /// How many requests of this method are in flight, as `rescind ps` says.
    pub(super) fn in_flight(&self, method: &str) -> usize {
        let mut command = Command::new(PROGRAM);
        command.args(["ps", "--method", method]).env("RESCIND_RUNTIME_DIR", self.folder.path().join("run"));
        let listed = String::from_utf8(command.output().unwrap().stdout).unwrap();
        listed.lines().filter(|line| line.contains(method)).count()
    }

    fn pipe(&self, name: &str, of: &str, end: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.{of}.{end}"))
    }

    /// What an agent does, with its pipes.
    fn script(&self, name: &str, mcp: &str, before: &str) -> PathBuf {
        let path = |of: &str, end: &str| self.pipe(name, of, end).display().to_string();
        for (of, end) in [("work", "in"), ("work", "out"), ("work", "marks"), ("tools", "in"), ("tools", "out")] {
            assert!(Command::new("mkfifo").arg(path(of, end)).status().unwrap().success());
        }
        let [work_in, work_out] = ["in", "out"].map(|end| path("work", end));
        let [tools_in, tools_out] = ["in", "out"].map(|end| path("tools", end));
        let script = format!(
            "{before}\nRESCIND_SAMPLE_MARKS={} \"$PROGRAM\" run ${{SERVER-$PROGRAM __sample-server}} <{work_in} >{work_out} &\n\
             {mcp} <{tools_in} >{tools_out}\nwait\n",
            path("work", "marks"),
        );
        let file = self.folder.path().join(format!("{name}.sh"));
        std::fs::write(&file, script).unwrap();
        file
    }

    fn start(&self, command: &mut Command) -> (Option<std::os::fd::OwnedFd>, Option<std::os::fd::OwnedFd>) {
        use std::os::unix::process::CommandExt as _;
        let run = self.folder.path().join("run");
        command.env("PROGRAM", PROGRAM).env("RESCIND_RUNTIME_DIR", run).process_group(0);
        let mut child = command.spawn().unwrap();
        let ends = (child.stdin.take().map(Into::into), child.stdout.take().map(Into::into));
        self.groups.borrow_mut().push(child);
        ends
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for child in self.groups.get_mut() {
            let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
            let _ = child.wait();
        }
    }
}

impl Agent {
    /// Calls a tool that works until it is cancelled, and returns the name of the call, once the work has begun.
    pub(super) fn begin(&mut self, id: u32) -> String {
        self.begin_tool(id, "obeys")
    }

    pub(super) fn begin_tool(&mut self, id: u32, tool: &str) -> String {
        let params = json!({ "name": tool, "arguments": {}, "_meta": { "progressToken": id } });
        self.work.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
        self.work_marks("started");
        let listed = self.call("list_in_flight", &json!({}))["structuredContent"]["requests"].take();
        let listed = listed.as_array().unwrap();
        let own = listed.iter().find(|one| one["id"].as_str() == Some(&*id.to_string()));
        own.map_or_else(String::new, |one| one["request"].as_str().unwrap().to_owned())
    }

    /// Its client sends it a prompt, which it does not answer.
    pub(super) fn prompt(&mut self) {
        let prompts = self.prompts.as_mut().unwrap();
        prompts.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": { "sessionId": "s", "prompt": [] } }));
    }

    pub(super) fn listed(&mut self) -> Vec<String> {
        let result = self.call("list_in_flight", &json!({}));
        let requests = result["structuredContent"]["requests"].as_array().unwrap();
        requests.iter().map(|one| one["request"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits for a mark of this kind.
    pub(super) fn work_marks(&mut self, event: &str) {
        while self.marks.recv_timeout(PATIENCE).unwrap()["mark"] != event {}
    }

    /// The work says that it was stopped.
    pub(super) fn work_stops(&mut self) {
        self.work_marks("stopped");
    }

    /// The work makes progress that it had not made, and says nothing of an end.
    pub(super) fn work_goes_on(&mut self) {
        let until_now: Vec<Value> = self.marks.try_iter().collect();
        let next: Vec<Value> = (0..2).map(|_| self.marks.recv_timeout(PATIENCE).unwrap()).collect();
        let is_progress = |mark: &Value| ["started", "progress"].iter().any(|event| mark["mark"] == *event);
        assert!(until_now.iter().chain(&next).all(is_progress), "{until_now:?} {next:?}");
    }

    /// The result of a tool.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.start_call(tool, arguments);
        self.answer(&id)["result"].take()
    }

    /// Calls a tool, with a progress token.
    pub(super) fn start_call(&mut self, tool: &str, arguments: &Value) -> Value {
        let token = self.next + 1;
        self.send("tools/call", &json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": token } }))
    }

    pub(super) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        self.answer(&id)
    }

    pub(super) fn cancel_call(&mut self, id: &Value) {
        let params = json!({ "requestId": id });
        self.tools.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    }

    /// Waits for a report of progress of the tools.
    pub(super) fn progresses(&mut self) {
        while self.tools.receive()["method"] != "notifications/progress" {}
    }

    /// How many answers have come that nobody waited for.
    pub(super) fn answers_to(&self, id: &Value) -> usize {
        self.others.iter().filter(|one| one["id"] == *id).count()
    }

    /// How many reports of progress have come from the tools.
    pub(super) fn progress(&self) -> usize {
        self.others.iter().filter(|one| one["method"] == "notifications/progress").count()
    }

    fn send(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        self.tools.send(&json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params }));
        self.next.into()
    }

    fn answer(&mut self, id: &Value) -> Value {
        loop {
            let message = self.tools.receive();
            if message["id"] == *id {
                return message;
            }
            self.others.push(message);
        }
    }
}

impl Line {
    fn new(to: File, from: File) -> Self {
        Self { to, from: read(from) }
    }

    fn send(&mut self, message: &Value) {
        self.to.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    fn receive(&self) -> Value {
        self.from.recv_timeout(PATIENCE).unwrap()
    }
}

/// The lines of a pipe, as JSON.
fn read(from: File) -> mpsc::Receiver<Value> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if sender.send(serde_json::from_str(&line).unwrap()).is_err() {
                return;
            }
        }
    });
    lines
}

/// A file of the repository.
pub(super) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}
