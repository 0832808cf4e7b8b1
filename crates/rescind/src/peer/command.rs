//! Child processes that a request owns (D22, D26).
//!
//! Each leads a process group of its own, so that its own children are reached too. Its end is noticed without collecting
//! it: while it is a zombie, its number and its group's cannot be given to another process. It is collected only after
//! the group was killed.

use std::{
    io,
    process::ExitStatus,
    sync::{Arc, Mutex, PoisonError},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use super::running_request::{Hook, RunningRequest, Spawned};

/// A child process that belongs to a request: see [`Context::command`](super::Context::command).
///
/// Dropping it does not end the process; the end of the request does.
#[derive(Debug)]
pub struct OwnedChild {
    /// Its standard input, if the command asked for a pipe.
    pub stdin: Option<ChildStdin>,
    /// Its standard output, if the command asked for a pipe.
    pub stdout: Option<ChildStdout>,
    /// Its standard error, if the command asked for a pipe.
    pub stderr: Option<ChildStderr>,
    leader: Leader,
    end: watch::Receiver<Option<ExitStatus>>,
}

/// The process that leads a group, while its number is its own.
#[derive(Clone, Debug)]
pub(crate) struct Leader {
    pid: Pid,
    /// It is about to be collected: no signal may be sent any more.
    gone: Arc<Mutex<bool>>,
}

impl Leader {
    pub(crate) fn new(pid: Pid) -> Self {
        Self { pid, gone: Arc::default() }
    }

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

    /// Whether it has ended. It is not collected by this.
    pub(crate) fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(rustix::process::waitid(WaitId::Pid(self.pid), options), Ok(None) | Err(rustix::io::Errno::INTR))
    }

    /// Kills the rest of the group, and sends no signal from now on: the number may be given to another process.
    pub(crate) fn release(&self) {
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        *gone = true;
    }
}

impl OwnedChild {
    pub(crate) fn start(work: &Arc<RunningRequest>, mut command: Command) -> io::Result<Self> {
        // Before the child can end.
        let mut children = signal(SignalKind::child())?;
        let mut child = command.process_group(0).spawn()?;
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).ok_or(io::ErrorKind::NotFound)?;
        let leader = Leader::new(pid);
        let Ok(place) = work.link(Spawned::Group(leader.clone())) else {
            leader.kill();
            return Err(io::Error::other("the request is over"));
        };
        let hook = if work.route_info.spares_processes { None } else { hook(work, &leader) };
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (tell, end) = watch::channel(None);
        let mut guard = ProcessGuard { work: Arc::clone(work), leader: leader.clone(), place, hook, child };
        tokio::spawn(async move {
            while !guard.leader.has_ended() && children.recv().await.is_some() {}
            guard.leader.release();
            let status = guard.child.wait().await;
            drop(guard);
            tell.send_replace(status.ok());
        });
        Ok(Self { stdin, stdout, stderr, leader, end })
    }

    /// Its process id, which is its group's.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.leader.id()
    }

    /// Waits for its end, and returns its status. The rest of its group is killed then.
    ///
    /// # Errors
    ///
    /// Its status is not known.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.stdin = None;
        let status = self.end.wait_for(Option::is_some).await.map_err(|_| io::ErrorKind::NotFound)?;
        status.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Sends SIGTERM to its group.
    pub fn terminate(&self) {
        self.leader.terminate();
    }

    /// Sends SIGKILL to its group.
    pub fn kill(&self) {
        self.leader.kill();
    }
}

/// The owner of a child, until its end; when it is dropped, for any reason, the group is killed.
struct ProcessGuard {
    work: Arc<RunningRequest>,
    leader: Leader,
    place: usize,
    hook: Option<u32>,
    child: Child,
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.leader.kill();
        }
        if let Some(hook) = self.hook.take() {
            self.work.signal.remove(hook);
        }
        self.work.unlink(self.place);
    }
}

/// Sends SIGTERM when the token fires, or at once if it has fired.
fn hook(work: &RunningRequest, leader: &Leader) -> Option<u32> {
    match work.signal.add(Hook::Group(leader.clone())) {
        Ok(place) => Some(place),
        Err(_fired) => {
            leader.terminate();
            None
        }
    }
}
