//! Asks `docker` or `podman`, and never for long.

use std::{
    env::consts::EXE_SUFFIX,
    ffi::{OsStr, OsString},
    io::{self, Read},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

/// The longest time for one command.
pub const COMMAND_LIMIT: Duration = Duration::from_secs(5);

/// The most that is kept of what a command prints.
const MAX_OUTPUT: u64 = 4 * 1024 * 1024;

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

impl EngineError {
    /// The program, as it was called.
    fn program(&self) -> &str {
        match self {
            Self::Start { program, .. } => program,
            Self::Silent { command, .. } | Self::Failed { command, .. } => {
                command.rsplit_once(' ').map_or(command, |(program, _)| program)
            }
        }
    }

    /// Whether a program that none of these engines has refused, as one does that cannot reach its engine.
    pub(super) fn is_refusal_beside(&self, used: &[&Engine]) -> bool {
        matches!(self, Self::Failed { .. })
            && used.iter().all(|engine| engine.program.to_string_lossy() != self.program())
    }
}

impl Engine {
    /// `docker` and `podman`, as they are found in PATH.
    #[must_use]
    pub fn installed() -> Vec<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_found = |name: &&str| {
            std::env::split_paths(&path).any(|folder| folder.join(format!("{name}{EXE_SUFFIX}")).is_file())
        };
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
        let mut child = Command::new(&self.program);
        child.args(&self.options).args(words);
        child.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // What it starts in its turn is killed with it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut child, 0);
        let child = child.spawn();
        let failed = |source| EngineError::Start { program: program.clone(), source };
        let mut running = Running { child: child.map_err(failed)? };
        let Some(printed) = running.finish(Instant::now() + limit).map_err(failed)? else {
            return Err(EngineError::Silent { command: command(), limit });
        };
        if printed.status.success() {
            return Ok(String::from_utf8_lossy(&printed.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&printed.stderr);
        let said = said.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
        let said = said.unwrap_or_else(|| printed.status.to_string());
        Err(EngineError::Failed { command: command(), said, code: printed.status.code() })
    }
}

/// A command that runs. Dropping it kills what is left of it.
struct Running {
    child: Child,
}

/// What a command has printed, and how it exited.
struct Printed {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Running {
    /// Reads what it prints until it has exited; `None` if it has not by `until`.
    fn finish(&mut self, until: Instant) -> io::Result<Option<Printed>> {
        let left = || until.saturating_duration_since(Instant::now());
        let stdout = self.child.stdout.take().map(read_all).transpose()?;
        let stderr = self.child.stderr.take().map(read_all).transpose()?;
        let printed = |stream: Option<Receiver<_>>| stream.and_then(|stream| stream.recv_timeout(left()).ok());
        let (Some(stdout), Some(stderr)) = (printed(stdout), printed(stderr)) else { return Ok(None) };
        let (stdout, stderr) = (stdout?, stderr?);
        // A program closes its streams when it exits. One that has closed them before is looked at now and then.
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(Printed { status, stdout, stderr }));
            }
            if left().is_zero() {
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Reads to the end in a thread. What is too much is read and forgotten. A process that keeps the stream open keeps the
/// thread, too.
fn read_all(mut stream: impl Read + Send + 'static) -> io::Result<Receiver<io::Result<Vec<u8>>>> {
    let (sender, printed) = mpsc::channel();
    let mut read = move || {
        let mut kept = Vec::new();
        stream.by_ref().take(MAX_OUTPUT).read_to_end(&mut kept)?;
        io::copy(&mut stream, &mut io::sink())?;
        Ok(kept)
    };
    thread::Builder::new().name("container-engine".to_owned()).spawn(move || sender.send(read()))?;
    Ok(printed)
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            #[cfg(unix)]
            let _ = rustix::process::kill_process_group(
                rustix::process::Pid::from_child(&self.child),
                rustix::process::Signal::KILL,
            );
            #[cfg(windows)]
            let _ = self.child.kill();
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
