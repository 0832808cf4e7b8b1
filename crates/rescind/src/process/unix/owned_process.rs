//! A child process that leads a group of its own, so that its own children are reached too.
//!
//! Its end is noticed without collecting it: while it is a zombie, its number and its group's cannot be given to another
//! process. It is collected only after the group was killed.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, ExitStatus},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    signal::unix::{SignalKind, signal},
};

use super::signals::SignalStream;
#[cfg(feature = "child")]
use crate::{
    process::Pipes,
    stdio::{Input, Output},
};

/// The only one that collects the process. Dropping it kills the group and does that.
#[derive(Debug)]
pub(crate) struct OwnedProcess {
    leader: Leader,
    child: Child,
    ends: SignalStream,
}

/// What may send a signal to the group, as long as its number is its own.
#[derive(Clone, Debug)]
pub(crate) struct Leader {
    pid: Pid,
    /// It is about to be collected: no signal may be sent any more.
    gone: Arc<Mutex<bool>>,
}

impl OwnedProcess {
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub(crate) fn start(mut command: Command) -> io::Result<Self> {
        // Before the child can end.
        let ends = signal(SignalKind::child())?;
        let child = command.as_std_mut().process_group(0).spawn()?;
        let leader = Leader { pid: Pid::from_child(&child), gone: Arc::default() };
        Ok(Self { leader, child, ends })
    }

    /// Starts it with its standard input and output as pipes, and returns our ends of these.
    #[cfg(feature = "child")]
    pub(crate) fn start_piped(mut command: Command) -> io::Result<(Self, Pipes)> {
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut process = Self::start(command)?;
        let pipes = process.child.stdin.take().zip(process.child.stdout.take());
        let (stdin, stdout) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        let pipes = Pipes { stdin: Output::own(stdin.into())?, stdout: Input::own(stdout.into())?, stderr: None };
        Ok((process, pipes))
    }

    pub(crate) fn take_stdin(&mut self) -> io::Result<Option<ChildStdin>> {
        self.child.stdin.take().map(ChildStdin::from_std).transpose()
    }

    pub(crate) fn take_stdout(&mut self) -> io::Result<Option<ChildStdout>> {
        self.child.stdout.take().map(ChildStdout::from_std).transpose()
    }

    pub(crate) fn take_stderr(&mut self) -> io::Result<Option<ChildStderr>> {
        self.child.stderr.take().map(ChildStderr::from_std).transpose()
    }

    pub(crate) const fn leader(&self) -> &Leader {
        &self.leader
    }

    /// Ready when the process has ended.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Poll::Ready(Some(())) = self.ends.poll_recv(cx) {}
        if self.has_ended() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Kills what is left of the group, and collects the process.
    ///
    /// # Errors
    ///
    /// Other code of this process has collected it.
    pub(crate) fn collect(&mut self) -> io::Result<ExitStatus> {
        self.leader.release();
        self.child.wait()
    }

    /// Whether it has ended. It is not collected by this.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(
            rustix::process::waitid(WaitId::Pid(self.leader.pid), options),
            Ok(None) | Err(rustix::io::Errno::INTR)
        )
    }
}

impl Drop for OwnedProcess {
    fn drop(&mut self) {
        let _ = self.collect();
    }
}

impl Leader {
    /// The process id, which is the group's.
    pub(crate) const fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if !*gone {
            let _ = rustix::process::kill_process_group(self.pid, signal);
        }
    }

    /// Kills the group, and sends no signal from now on: the number may be given to another process.
    fn release(&self) {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if !*gone {
            let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        }
        *gone = true;
    }
}
