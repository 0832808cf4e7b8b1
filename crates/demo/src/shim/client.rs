//! The client: this process, with the shim as its child.
//!
//! Besides the shim's stdout it reads two pipes, which the server and the shim open: the marks of the work, and the shim's
//! recording. So nothing is written to disk, and the pipes end only when no process that has them open is left.

use std::{
    env,
    io::{self, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    marks,
    moment::Moment,
    pipe::{self, Entrance, Report},
    sample_server::{SUBCOMMAND, mark::Mark},
};

/// How long each step may take. A step that works takes a small part of it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A client of the sample server, through `rescind run`. Dropping it ends both processes.
#[derive(Debug)]
pub(super) struct Client {
    shim: Child,
    to_shim: Option<ChildStdin>,
    /// Ends with the shim's output and both pipes.
    arrivals: Receiver<Arrival>,
    /// Those of the pipes.
    entrances: Vec<Entrance>,
    has_closed: bool,
    seen: Seen,
}

/// What is read, on a thread for each source.
#[derive(Debug)]
enum Arrival {
    Received(Moment, Vec<u8>),
    Mark(Vec<u8>),
    Recorded(Vec<u8>),
    /// The end of the shim's output.
    Closed,
}

/// Everything that was sent and observed, in order.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) sent: Vec<Message>,
    pub(super) received: Vec<Message>,
    pub(super) marks: Vec<Mark>,
    pub(super) recorded: Vec<Value>,
    /// Lines that could not be parsed.
    pub(super) unreadable: Vec<String>,
}

/// A message and the time when the client wrote or read it.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) at: Moment,
    pub(super) json: Value,
}

/// The end of the session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    /// The shim's; `None` if it had to be killed.
    pub(super) exit: Option<ExitStatus>,
    /// Whether every process that had the pipes open has closed them.
    pub(super) is_alone: bool,
}

/// A reason why the script could not go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScriptError {
    #[error("timed out after {TIMEOUT:?} waiting for {0}")]
    TimedOut(&'static str),
    #[error("the shim closed its output while the script waited for {0}")]
    Closed(&'static str),
    #[error("cannot write to the shim: {0}")]
    Write(#[source] io::Error),
}

impl Client {
    /// Starts the shim, which starts the server.
    pub(super) fn start(flags: &[&str]) -> io::Result<Self> {
        let (sender, arrivals) = mpsc::channel();
        // Sending fails only once the client is dropped.
        let to = |what: fn(Vec<u8>) -> Arrival| {
            let sender = sender.clone();
            move |report| match report {
                Report::Line(line) => drop(sender.send(what(line))),
                Report::Closed { .. } => {}
            }
        };
        let marks = pipe::open(to(Arrival::Mark))?;
        let recording = pipe::open(to(Arrival::Recorded))?;
        let program = env::current_exe()?;
        let mut shim = Command::new(&program)
            .args(["run", "--record"])
            .arg(recording.path())
            .args(flags)
            .arg("--")
            .args([program.as_os_str(), SUBCOMMAND.as_ref()])
            .env(marks::VARIABLE, marks.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(to_shim), Some(from_shim)) = (shim.stdin.take(), shim.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        thread::spawn(move || {
            let received = pipe::lines(from_shim).map(|line| Arrival::Received(Moment::now(), line));
            received.chain([Arrival::Closed]).try_for_each(|arrival| sender.send(arrival))
        });
        let entrances = vec![marks, recording];
        Ok(Self { shim, to_shim: Some(to_shim), arrivals, entrances, has_closed: false, seen: Seen::default() })
    }

    pub(super) fn request(&mut self, id: u64, method: &str, params: &Value) -> Result<(), ScriptError> {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    pub(super) fn notify(&mut self, method: &str, params: &Value) -> Result<(), ScriptError> {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params}))
    }

    fn send(&mut self, json: Value) -> Result<(), ScriptError> {
        let mut line = json.to_string().into_bytes();
        line.push(b'\n');
        let at = Moment::now();
        let pipe = self.to_shim.as_mut().ok_or_else(|| ScriptError::Write(io::ErrorKind::BrokenPipe.into()))?;
        pipe.write_all(&line).map_err(ScriptError::Write)?;
        self.seen.sent.push(Message { at, json });
        Ok(())
    }

    /// Reads what comes until `has_come` holds. Returns at once if it holds already.
    pub(super) fn wait_for(&mut self, what: &'static str, has_come: impl Fn(&Seen) -> bool) -> Result<(), ScriptError> {
        let deadline = Instant::now() + TIMEOUT;
        while !has_come(&self.seen) {
            if self.has_closed {
                return Err(ScriptError::Closed(what));
            }
            self.read(deadline).map_err(|_| ScriptError::TimedOut(what))?;
        }
        Ok(())
    }

    /// Ends the session and waits until every process in it has exited.
    pub(super) fn finish(mut self) -> (Seen, Ending) {
        self.to_shim = None;
        self.entrances.clear();
        let deadline = Instant::now() + TIMEOUT;
        let is_alone = loop {
            match self.read(deadline) {
                Ok(()) => {}
                Err(RecvTimeoutError::Disconnected) => break true,
                Err(RecvTimeoutError::Timeout) => break false,
            }
        };
        // A shim that has closed all its pipes is about to exit.
        let exit = if is_alone { self.shim.wait().ok() } else { None };
        (std::mem::take(&mut self.seen), Ending { exit, is_alone })
    }

    /// Waits until something comes, and notes it.
    fn read(&mut self, deadline: Instant) -> Result<(), RecvTimeoutError> {
        match self.arrivals.recv_timeout(deadline.saturating_duration_since(Instant::now()))? {
            Arrival::Received(at, line) => {
                self.seen.add(&line, |seen, json| seen.received.push(Message { at, json }));
            }
            Arrival::Mark(line) => self.seen.add(&line, |seen, mark| seen.marks.push(mark)),
            Arrival::Recorded(line) => self.seen.add(&line, |seen, record| seen.recorded.push(record)),
            Arrival::Closed => self.has_closed = true,
        }
        Ok(())
    }
}

impl Drop for Client {
    /// Kills the shim. The server dies with it.
    fn drop(&mut self) {
        let _ = self.shim.kill();
        let _ = self.shim.wait();
    }
}

impl Seen {
    fn add<T: DeserializeOwned>(&mut self, line: &[u8], add: impl FnOnce(&mut Self, T)) {
        match serde_json::from_slice(line) {
            Ok(item) => add(self, item),
            Err(_) => self.unreadable.push(String::from_utf8_lossy(line).into_owned()),
        }
    }
}
