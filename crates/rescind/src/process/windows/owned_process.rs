//! A child process with a job of its own, so that its own children are reached too.

use std::{
    future::Future,
    io,
    pin::pin,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    thread,
    time::Duration,
};

use process_wrap::tokio::{ChildWrapper, CommandWrap};
use send_ctrlc::Interruptible;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

use super::job::Job;
use crate::{
    process::Pipes,
    stdio::{Input, Output, pipe},
};

/// The owner of the process. Dropping it ends the job.
#[derive(Debug)]
pub(crate) struct OwnedProcess(Leader);

/// What may end the process and what it has started.
#[derive(Clone, Debug)]
pub(crate) struct Leader {
    id: u32,
    process: Arc<Mutex<Contained>>,
}

/// A process and its job.
#[derive(Debug)]
struct Contained {
    child: Box<dyn ChildWrapper>,
    /// `None` once it was ended.
    job: Option<Job>,
}

impl OwnedProcess {
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub(crate) fn start(command: Command) -> io::Result<Self> {
        let job = Job::new()?;
        let child = job.contain(CommandWrap::from(command)).spawn()?;
        let id = child.id().unwrap_or_default();
        Ok(Self(Leader { id, process: Arc::new(Mutex::new(Contained { child, job: Some(job) })) }))
    }

    /// Starts it with its standard input and output as pipes, and returns our ends of these.
    pub(crate) fn start_piped(mut command: Command) -> io::Result<(Self, Pipes)> {
        let (stdin, input) = pipe::to_child()?;
        let (stdout, output) = pipe::from_child()?;
        command.stdin(Stdio::from(input)).stdout(Stdio::from(output));
        let pipes = Pipes { stdin: Output::own(stdin)?, stdout: Input::own(stdout)?, stderr: None };
        Ok((Self::start(command)?, pipes))
    }

    #[expect(clippy::unnecessary_wraps, reason = "the same on each platform")]
    pub(crate) fn take_stdin(&mut self) -> io::Result<Option<ChildStdin>> {
        Ok(self.0.lock().child.stdin().take())
    }

    #[expect(clippy::unnecessary_wraps, reason = "the same on each platform")]
    pub(crate) fn take_stdout(&mut self) -> io::Result<Option<ChildStdout>> {
        Ok(self.0.lock().child.stdout().take())
    }

    #[expect(clippy::unnecessary_wraps, reason = "the same on each platform")]
    pub(crate) fn take_stderr(&mut self) -> io::Result<Option<ChildStderr>> {
        Ok(self.0.lock().child.stderr().take())
    }

    pub(crate) const fn leader(&self) -> &Leader {
        &self.0
    }

    /// Ready when the process has ended, whatever is left of its job.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut process = self.0.lock();
        let child = process.child.inner_mut();
        pin!(child.wait()).as_mut().poll(cx).map(drop)
    }

    /// How the process ended, if it has.
    pub(crate) fn try_status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.lock().child.inner_mut().try_wait()
    }

    /// Ends what is left of the job, and returns how the process ended.
    ///
    /// # Errors
    ///
    /// That is not known.
    pub(crate) fn collect(&mut self) -> io::Result<ExitStatus> {
        self.0.kill();
        let mut process = self.0.lock();
        for _ in 0..LONGEST_END.as_millis() {
            if let Some(status) = process.child.inner_mut().try_wait()? {
                return Ok(status);
            }
            // Without a runtime nothing tells of the end, and this is called without.
            thread::sleep(Duration::from_millis(1));
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

/// How long a process may take to end once its job has.
const LONGEST_END: Duration = Duration::from_secs(1);

impl Drop for OwnedProcess {
    fn drop(&mut self) {
        self.0.kill();
    }
}

impl Leader {
    pub(crate) const fn id(&self) -> u32 {
        self.id
    }

    /// Asks the process's console group to end with CTRL+BREAK: a group of its own takes no other event. Where that cannot
    /// be asked, since this process has no console, it ends the job at once: a process that was not asked will not end.
    pub(crate) fn terminate(&self) {
        let mut process = self.lock();
        // The number of a process that has ended may be another's.
        let runs = matches!(process.child.inner_mut().try_wait(), Ok(None));
        if runs && ConsoleGroup(self.id).terminate().is_err() {
            process.end();
        }
    }

    /// Ends the job.
    pub(crate) fn kill(&self) {
        self.lock().end();
    }

    fn lock(&self) -> MutexGuard<'_, Contained> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contained {
    fn end(&mut self) {
        // With an exit code that is no success; what may be left ends with our job.
        let _ = self.child.start_kill();
        self.job = None;
    }
}

/// The number of the process that leads it.
struct ConsoleGroup(u32);

impl Interruptible for ConsoleGroup {
    fn pid(&mut self) -> io::Result<Option<u32>> {
        Ok(Some(self.0))
    }
}
