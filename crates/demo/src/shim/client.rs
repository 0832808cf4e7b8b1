//! The client: this process, with the shim as its child.
//!
//! It has no threads: it sends, and it looks at what has come. Besides the shim's
//! stdout it reads two pipes that shim and server have inherited: the marks of the
//! work, and the shim's recording. So nothing is written to disk, and the ends of
//! those pipes show that no process is left that holds them.

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

/// How long any one thing may take to come; nothing that works comes near it.
const PATIENCE: Duration = Duration::from_secs(5);

/// A client in front of `rescind run` and the sample server. Dropping it ends both.
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
    /// Lines that are not what they should be.
    pub(super) unreadable: Vec<String>,
}

/// A message of the protocol and when the client wrote or read it.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) at: Moment,
    pub(super) json: Value,
}

/// How it ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    /// Of the shim; `None` if it had to be killed.
    pub(super) exit: Option<ExitStatus>,
    /// Whether every process that inherited the pipes has closed them.
    pub(super) is_alone: bool,
}

/// Why the script could not go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stopped {
    #[error("waited {PATIENCE:?} in vain for {0}")]
    InVain(&'static str),
    #[error("the shim closed its output before {0}")]
    Closed(&'static str),
    #[error("the shim does not take what it is sent: {0}")]
    Unsendable(#[source] io::Error),
    #[error("cannot read what came: {0}")]
    Unreadable(#[source] io::Error),
}

impl Client {
    /// Starts this same program twice more, as the shim and by it as the server.
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

    pub(super) fn request(&mut self, id: u64, method: &str, params: &Value) -> Result<(), Stopped> {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    pub(super) fn notify(&mut self, method: &str, params: &Value) -> Result<(), Stopped> {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params}))
    }

    fn send(&mut self, json: Value) -> Result<(), Stopped> {
        let mut line = json.to_string().into_bytes();
        line.push(b'\n');
        let at = Moment::now();
        let pipe = self.to_shim.as_mut().ok_or_else(|| Stopped::Unsendable(io::ErrorKind::BrokenPipe.into()))?;
        pipe.write_all(&line).map_err(Stopped::Unsendable)?;
        self.seen.sent.push(Message { at, json });
        Ok(())
    }

    /// Looks at what comes until `is_there`; at once if it is there already.
    pub(super) fn wait_for(&mut self, what: &'static str, is_there: impl Fn(&Seen) -> bool) -> Result<(), Stopped> {
        let until = Moment::now() + PATIENCE;
        while !is_there(&self.seen) {
            if self.from_shim.has_ended() {
                return Err(Stopped::Closed(what));
            }
            if !self.look(until).map_err(Stopped::Unreadable)? {
                return Err(Stopped::InVain(what));
            }
        }
        Ok(())
    }

    /// Ends the session and waits for the end of every process in it.
    pub(super) fn finish(mut self) -> (Seen, Ending) {
        self.to_shim = None;
        let until = Moment::now() + PATIENCE;
        let is_alone = loop {
            if self.from_shim.has_ended() && self.marks.has_ended() && self.recording.has_ended() {
                break true;
            }
            if !self.look(until).unwrap_or(false) {
                break false;
            }
        };
        // Whoever has closed all its pipes is about to exit.
        let exit = if is_alone { self.shim.wait().ok() } else { None };
        (std::mem::take(&mut self.seen), Ending { exit, is_alone })
    }

    /// Waits until something comes, and takes it in; false if nothing came until then.
    fn look(&mut self, until: Moment) -> io::Result<bool> {
        let [received, marks, recording] = {
            let sources = [self.from_shim.descriptor(), self.marks.descriptor(), self.recording.descriptor()];
            let Some(ready) = ready(sources, until)? else { return Ok(false) };
            ready
        };
        let at = Moment::now();
        if marks {
            for line in self.marks.read_lines()? {
                self.seen.take(&line, serde_json::from_slice(&line), |seen, mark| seen.marks.push(mark));
            }
        }
        if received {
            for line in self.from_shim.read_lines()? {
                let take = |seen: &mut Seen, json| seen.received.push(Message { at, json });
                self.seen.take(&line, serde_json::from_slice(&line), take);
            }
        }
        if recording {
            for line in self.recording.read_lines()? {
                self.seen.take(&line, serde_json::from_slice(&line), |seen, record| seen.recorded.push(record));
            }
        }
        Ok(true)
    }
}

impl Drop for Client {
    /// The server dies with the shim.
    fn drop(&mut self) {
        let _ = self.shim.kill();
        let _ = self.shim.wait();
    }
}

impl Seen {
    fn take<T>(&mut self, line: &[u8], read: serde_json::Result<T>, take: impl FnOnce(&mut Self, T)) {
        match read {
            Ok(item) => take(self, item),
            Err(_) => self.unreadable.push(String::from_utf8_lossy(line).into_owned()),
        }
    }
}

/// Which of these have something to be read, or have ended; `None` if none had until then.
fn ready<const N: usize>(sources: [Option<BorrowedFd<'_>>; N], until: Moment) -> io::Result<Option<[bool; N]>> {
    let mut polled: Vec<PollFd<'_>> =
        sources.iter().flatten().map(|source| PollFd::from_borrowed_fd(*source, PollFlags::IN)).collect();
    loop {
        let patience = until.since(Moment::now());
        let timeout = Timespec::try_from(patience).map_err(io::Error::other)?;
        match poll(&mut polled, Some(&timeout)) {
            Ok(0) => return Ok(None),
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut answers = polled.iter().map(|polled| !polled.revents().is_empty());
    Ok(Some(sources.map(|source| source.is_some() && answers.next() == Some(true))))
}
