//! Programs of Windows, and connections that close when a process ends.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::peers::play::skip;

/// After this a test fails; nothing that works comes near it.
pub(super) const BOUND: Duration = Duration::from_secs(60);

/// A fresh user of Windows, with the programs.
pub(super) struct World {
    programs: PathBuf,
    home: tempfile::TempDir,
    listener: TcpListener,
}

/// A process that has reported.
pub(super) struct Reporter {
    pub(super) role: String,
    pub(super) words: Vec<String>,
    lines: BufReader<TcpStream>,
}

/// A client of a shim.
pub(super) struct Client {
    pub(super) shim: Child,
    shell: Option<Reporter>,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl World {
    /// `None`, after a line that says so, where Wine or the programs are missing.
    pub(super) fn new() -> Option<Self> {
        let Some(programs) = std::env::var_os("RESCIND_WINDOWS").map(PathBuf::from) else {
            skip("RESCIND_WINDOWS is not set (scripts/windows builds what it names)".to_owned());
            return None;
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        Some(Self { programs, home: tempfile::tempdir().unwrap(), listener })
    }

    /// The path of a program as Windows has it.
    pub(super) fn program(&self, name: &str) -> String {
        windows_path(&self.programs.join(name))
    }

    pub(super) fn home(&self) -> &Path {
        self.home.path()
    }

    /// The path of the home as Windows has it.
    pub(super) fn windows_home(&self) -> String {
        windows_path(self.home())
    }

    pub(super) fn port(&self) -> String {
        self.listener.local_addr().unwrap().port().to_string()
    }

    /// `rescind.exe` under Wine.
    pub(super) fn command(&self, words: &[impl AsRef<OsStr>]) -> Command {
        let mut command = self.wine(self.programs.join("rescind.exe"));
        command.args(words);
        command
    }

    /// The same, in a shell of Windows that reports its exit code. What started Wine gets eight bits of it, and none when a
    /// process needs half a second to leave after Windows has ended it: then Wine kills it.
    pub(super) fn shell(&self, words: &[impl AsRef<OsStr>]) -> Command {
        let mut command = self.wine(self.programs.join("reporting_server.exe"));
        command.args([self.port(), "shell".to_owned(), self.program("rescind.exe")]).args(words);
        command
    }

    /// A batch file with these lines, under Wine. In them `rescind` is `rescind.exe`.
    pub(super) fn batch(&self, lines: &[&str]) -> Command {
        let path = self.home().join(format!("{}.cmd", fs::read_dir(self.home()).unwrap().count()));
        let path_line = format!("set PATH=%PATH%;{}", windows_path(&self.programs));
        fs::write(&path, [&["@echo off", &path_line], lines].concat().join("\r\n")).unwrap();
        let mut command = self.wine("cmd");
        command.arg("/c").arg(windows_path(&path));
        command
    }

    /// A program under Wine.
    pub(super) fn wine(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("/usr/lib/wine/wine64");
        command.arg(program);
        command.env("WINEDEBUG", "-all").env("WINEPREFIX", self.programs.join("prefix"));
        command.env("RESCIND_RUNTIME_DIR", windows_path(&self.home().join("run")));
        command
    }

    pub(super) fn rescind(&self, words: &[&str]) -> Output {
        self.command(words).stdin(Stdio::null()).output().unwrap()
    }

    /// A client of `rescind run`, with these flags and this command.
    pub(super) fn client(&self, flags: &[&str], command: &[String]) -> Client {
        Client::start(self.command(&run(flags, command)))
    }

    /// The same, of whose shim the exit code will be known.
    pub(super) fn client_of_a_shell(&self, flags: &[&str], command: &[String]) -> Client {
        Client::of_a_shell(self, self.shell(&run(flags, command)))
    }

    /// A server whose processes report here.
    pub(super) fn server(&self, words: &[&str]) -> Vec<String> {
        let mut command = vec![self.program("reporting_server.exe"), self.port(), "server".to_owned()];
        command.extend(words.iter().map(|word| (*word).to_owned()));
        command
    }

    /// The next process that reports.
    pub(super) fn reporter(&self) -> Reporter {
        let begun = Instant::now();
        let connection = loop {
            match self.listener.accept() {
                Ok((connection, _)) => break connection,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && begun.elapsed() < BOUND => {
                    thread::sleep(Duration::from_millis(10));
                }
                Err(error) => panic!("no process reports: {error}"),
            }
        };
        connection.set_nonblocking(false).unwrap();
        connection.set_read_timeout(Some(BOUND)).unwrap();
        let mut lines = BufReader::new(connection);
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        let first: Value = serde_json::from_str(&first).unwrap();
        let words = first["words"].as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned());
        Reporter { role: first["role"].as_str().unwrap().to_owned(), words: words.collect(), lines }
    }

    /// The server, its child and its grandchild.
    pub(super) fn family(&self) -> [Reporter; 3] {
        let mut all = [self.reporter(), self.reporter(), self.reporter()];
        all.sort_by_key(|one| ["server", "child", "grandchild"].iter().position(|role| *role == one.role));
        all
    }
}

impl Reporter {
    /// What it reports next.
    pub(super) fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{} has ended", self.role))
    }

    /// Has it go on.
    pub(super) fn release(&mut self) {
        self.lines.get_mut().write_all(b"\n").unwrap();
    }

    /// Waits for the end of its process.
    pub(super) fn expect_end(mut self) {
        let mut line = String::new();
        while let Ok(1..) = self.lines.read_line(&mut line) {
            line.clear();
        }
        let after = self.lines.read_line(&mut line);
        let timed_out = after.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!timed_out, "the {} lives on", self.role);
    }
}

impl Client {
    /// Starts a shim and initializes a session.
    pub(super) fn start(mut command: Command) -> Self {
        let mut shim = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (shim.stdin.take(), BufReader::new(shim.stdout.take().unwrap()));
        let mut client = Self { shim, shell: None, input, output };
        let info = json!({"name": "windows", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        client.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    /// Starts a shim in a shell.
    pub(super) fn of_a_shell(world: &World, command: Command) -> Self {
        let mut client = Self::start(command);
        client.shell = Some(world.reporter());
        client
    }

    /// Calls a tool, which may report progress under the number of the call.
    pub(super) fn call(&mut self, id: u32, tool: &str, arguments: &Value) {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": id}});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }

    pub(super) fn cancel(&mut self, id: u32) {
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    }

    /// The answer to this request, and what comes before it.
    pub(super) fn answer(&mut self, id: u32) -> (Value, Vec<Value>) {
        let mut before = Vec::new();
        loop {
            let message = self.receive();
            if message["id"] == id && message["method"].is_null() {
                return (message, before);
            }
            before.push(message);
        }
    }

    pub(super) fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// The next message. Nothing is read before. A shim that has none within the bound is killed, which ends the output.
    pub(super) fn receive(&mut self) -> Value {
        let shim = Pid::from_child(&self.shim);
        let (done, is_done) = mpsc::channel::<()>();
        thread::spawn(move || {
            if is_done.recv_timeout(BOUND) == Err(RecvTimeoutError::Timeout) {
                let _ = kill_process(shim, Signal::KILL);
            }
        });
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        drop(done);
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line:?}"))
    }

    /// Ends its input.
    pub(super) fn end_input(&mut self) {
        self.input = None;
    }

    /// Waits for the shim's end in its shell.
    pub(super) fn code(mut self) -> Option<i64> {
        self.shell.as_mut().unwrap().next()["code"].as_i64()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.shim.kill();
        let _ = self.shim.wait();
    }
}

fn run<'a>(flags: &[&'a str], command: &'a [String]) -> Vec<&'a str> {
    ["run"].iter().chain(flags).copied().chain(command.iter().map(String::as_str)).collect()
}

pub(super) fn windows_path(path: &Path) -> String {
    format!("Z:{}", path.display().to_string().replace('/', "\\"))
}
