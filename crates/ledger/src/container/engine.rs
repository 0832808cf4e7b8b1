//! Asks `docker` or `podman`, and never for long.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Read},
    os::{fd::AsFd, unix::process::CommandExt},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    process::{Pid, Signal},
};

/// The longest time for one command.
pub const COMMAND_LIMIT: Duration = Duration::from_secs(5);

/// The most that is kept of what a command prints.
const MAX_OUTPUT: usize = 4 * 1024 * 1024;

/// A program, and the global options that say which engine it talks to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// The program, as the user wrote it.
    pub program: OsString,
    /// The options.
    pub options: Vec<OsString>,
}

/// Why an engine did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Its program could not be run.
    #[error("{program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It did not answer.
    #[error("{command} did not answer within {}", seconds(.limit))]
    Silent {
        /// The program and its subcommand.
        command: String,
        /// The time it was given.
        limit: Duration,
    },
    /// It refused, or could not reach its engine.
    #[error("{command}: {said}")]
    Failed {
        /// The program and its subcommand.
        command: String,
        /// The first line that it printed on stderr.
        said: String,
        /// Its exit code.
        code: Option<i32>,
    },
}

impl Engine {
    /// `docker` and `podman`, as they are found in PATH.
    #[must_use]
    pub fn installed() -> Vec<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_found = |name: &&str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
        let found = ["docker", "podman"].into_iter().filter(is_found);
        found.map(|name| Self { program: name.into(), options: Vec::new() }).collect()
    }

    /// Runs a subcommand to its end, and returns what it printed.
    ///
    /// # Errors
    ///
    /// When it fails, or takes longer than `limit`: then it is killed.
    pub fn run<W: AsRef<OsStr>>(&self, words: &[W], limit: Duration) -> Result<String, EngineError> {
        let program = self.program.to_string_lossy().into_owned();
        let command =
            || format!("{program} {}", words.first().map(|word| word.as_ref().to_string_lossy()).unwrap_or_default());
        let child = Command::new(&self.program)
            .args(&self.options)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // What it starts in its turn is killed with it.
            .process_group(0)
            .spawn();
        let failed = |source| EngineError::Start { program: program.clone(), source };
        let mut running = Running { child: child.map_err(failed)?, stdout: Vec::new(), stderr: Vec::new() };
        let Some(status) = running.finish(Instant::now() + limit).map_err(failed)? else {
            return Err(EngineError::Silent { command: command(), limit });
        };
        if status.success() {
            return Ok(String::from_utf8_lossy(&running.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&running.stderr);
        let said = said.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
        let said = said.unwrap_or_else(|| status.to_string());
        Err(EngineError::Failed { command: command(), said, code: status.code() })
    }
}

/// A command that runs. Dropping it kills what is left of it.
struct Running {
    child: Child,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Running {
    /// Reads what it prints until it has exited; `None` if it has not by `until`.
    fn finish(&mut self, until: Instant) -> io::Result<Option<ExitStatus>> {
        let mut buffer = [0; 4096];
        let (mut stdout, mut stderr) = (self.child.stdout.take(), self.child.stderr.take());
        while stdout.is_some() || stderr.is_some() {
            let fds = [stdout.as_ref().map(AsFd::as_fd), stderr.as_ref().map(AsFd::as_fd)];
            let mut fds: Vec<_> =
                fds.into_iter().flatten().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            match rustix::event::poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            let mut ready = ready.into_iter();
            if stdout.is_some() && ready.next() == Some(true) && !read_some(&mut stdout, &mut self.stdout, &mut buffer)?
            {
                stdout = None;
            }
            if stderr.is_some() && ready.next() == Some(true) && !read_some(&mut stderr, &mut self.stderr, &mut buffer)?
            {
                stderr = None;
            }
        }
        // A program closes its streams when it exits. One that has closed them before is looked at now and then.
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if until <= Instant::now() {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Reads once; `false` at the end. What is too much is read and forgotten.
fn read_some(stream: &mut Option<impl Read>, kept: &mut Vec<u8>, buffer: &mut [u8]) -> io::Result<bool> {
    let Some(stream) = stream else { return Ok(false) };
    match stream.read(buffer) {
        Ok(0) => Ok(false),
        Ok(count) => {
            let room = MAX_OUTPUT.saturating_sub(kept.len()).min(count);
            kept.extend_from_slice(&buffer[..room]);
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
        Err(error) => Err(error),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// The time for a command that is to have ended by then.
pub(super) fn limit(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now()).min(COMMAND_LIMIT)
}

fn seconds(time: &Duration) -> String {
    format!("{} s", (time.as_millis() as f64 / 100.0).round() / 10.0)
}
