//! The client: this process, with the shim as its child.
//!
//! It has no threads: it sends, and it reads what has come. Besides the shim's stdout it reads two pipes that the shim
//! and the server have inherited: the marks of the work, and the shim's recording. So nothing is written to disk, and
//! the pipes end only when no process that holds them is left.

use std::{
    io::{self, PipeReader, Write},
    os::fd::BorrowedFd,
    process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use serde_json::{Value, json};

use super::source::Source;
use crate::{
    marks::{self, inherited},
    moment::Moment,
    program,
    sample_server::mark::Mark,
};

/// How long each step may take. A step that works takes a small part of it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A client of the sample server, through `rescind run`. Dropping it ends both processes.
#[derive(Debug)]
pub(super) struct Client {
    shim: Child,
    to_shim: Option<ChildStdin>,
    from_shim: Source<ChildStdout>,
    marks: Source<PipeReader>,
    recording: Source<PipeReader>,
    seen: Seen,
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
    /// Whether every process that inherited the pipes has closed them.
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
    #[error("cannot read from the shim or the server: {0}")]
    Read(#[source] io::Error),
}

impl Client {
    /// Starts the shim, which starts the server.
    pub(super) fn start(flags: &[&str]) -> io::Result<Self> {
        let (marks, marks_end) = io::pipe()?;
        let (recording, recording_end) = io::pipe()?;
        let mut shim = program::shim_and_server(&inherited(&recording_end)?, flags)?
            .env(marks::VARIABLE, inherited(&marks_end)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(to_shim), Some(from_shim)) = (shim.stdin.take(), shim.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        Ok(Self {
            shim,
            to_shim: Some(to_shim),
            from_shim: Source::new(from_shim),
            marks: Source::new(marks),
            recording: Source::new(recording),
            seen: Seen::default(),
        })
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
        let deadline = Moment::now() + TIMEOUT;
        while !has_come(&self.seen) {
            if self.from_shim.has_ended() {
                return Err(ScriptError::Closed(what));
            }
            if !self.read(deadline).map_err(ScriptError::Read)? {
                return Err(ScriptError::TimedOut(what));
            }
        }
        Ok(())
    }

    /// Ends the session and waits until every process in it has exited.
    pub(super) fn finish(mut self) -> (Seen, Ending) {
        self.to_shim = None;
        let deadline = Moment::now() + TIMEOUT;
        let is_alone = loop {
            if self.from_shim.has_ended() && self.marks.has_ended() && self.recording.has_ended() {
                break true;
            }
            if !self.read(deadline).unwrap_or(false) {
                break false;
            }
        };
        // A shim that has closed all its pipes is about to exit.
        let exit = if is_alone { self.shim.wait().ok() } else { None };
        (std::mem::take(&mut self.seen), Ending { exit, is_alone })
    }

    /// Waits until something comes, and reads it. Returns false if nothing came before the deadline.
    fn read(&mut self, deadline: Moment) -> io::Result<bool> {
        let [received, marks, recording] = {
            let sources = [self.from_shim.descriptor(), self.marks.descriptor(), self.recording.descriptor()];
            let Some(ready) = ready(sources, deadline)? else { return Ok(false) };
            ready
        };
        let at = Moment::now();
        if marks {
            for line in self.marks.read_lines()? {
                self.seen.add(&line, serde_json::from_slice(&line), |seen, mark| seen.marks.push(mark));
            }
        }
        if received {
            for line in self.from_shim.read_lines()? {
                let add = |seen: &mut Seen, json| seen.received.push(Message { at, json });
                self.seen.add(&line, serde_json::from_slice(&line), add);
            }
        }
        if recording {
            for line in self.recording.read_lines()? {
                self.seen.add(&line, serde_json::from_slice(&line), |seen, record| seen.recorded.push(record));
            }
        }
        Ok(true)
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
    fn add<T>(&mut self, line: &[u8], parsed: serde_json::Result<T>, add: impl FnOnce(&mut Self, T)) {
        match parsed {
            Ok(item) => add(self, item),
            Err(_) => self.unreadable.push(String::from_utf8_lossy(line).into_owned()),
        }
    }
}

/// Returns which sources have something to read or have ended, or `None` if none had before the deadline.
fn ready<const N: usize>(sources: [Option<BorrowedFd<'_>>; N], deadline: Moment) -> io::Result<Option<[bool; N]>> {
    let mut polled: Vec<PollFd<'_>> =
        sources.iter().flatten().map(|source| PollFd::from_borrowed_fd(*source, PollFlags::IN)).collect();
    loop {
        let remaining = deadline.since(Moment::now());
        let timeout = Timespec::try_from(remaining).map_err(io::Error::other)?;
        match poll(&mut polled, Some(&timeout)) {
            Ok(0) => return Ok(None),
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut ready = polled.iter().map(|polled| !polled.revents().is_empty());
    Ok(Some(sources.map(|source| source.is_some() && ready.next() == Some(true))))
}
