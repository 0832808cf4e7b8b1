//! Child processes that a request owns (D22, D26).

use std::{future::poll_fn, io, process::ExitStatus, sync::Arc};

use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    sync::watch,
};

use super::shared::running_request::{Hook, RunningRequest, Spawned};
use crate::process::owned_process::{Leader, OwnedProcess};

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

impl OwnedChild {
    pub(crate) fn start(work: &Arc<RunningRequest>, command: Command) -> io::Result<Self> {
        let mut process = OwnedProcess::start(command)?;
        let (stdin, stdout, stderr) = (process.take_stdin()?, process.take_stdout()?, process.take_stderr()?);
        let leader = process.leader().clone();
        let place = work.link(Spawned::Group(leader.clone())).map_err(|_| io::Error::other("the request is over"))?;
        let hook = if work.route_info.spares_processes { None } else { hook(work, &leader) };
        let (tell, end) = watch::channel(None);
        let mut guard = ProcessGuard { work: Arc::clone(work), place, hook, process };
        tokio::spawn(async move {
            poll_fn(|cx| guard.process.poll_end(cx)).await;
            let status = guard.process.collect();
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

    /// Sends SIGTERM to its group, on Windows CTRL+BREAK.
    pub fn terminate(&self) {
        self.leader.terminate();
    }

    /// Sends SIGKILL to its group, or ends its job.
    pub fn kill(&self) {
        self.leader.kill();
    }
}

/// The owner of a child, until its end; when it is dropped, for any reason, the group is killed.
struct ProcessGuard {
    work: Arc<RunningRequest>,
    place: usize,
    hook: Option<u32>,
    process: OwnedProcess,
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        self.process.leader().kill();
        if let Some(hook) = self.hook.take() {
            self.work.signal.remove(hook);
        }
        self.work.unlink(self.place);
    }
}

/// Asks it to end when the token fires, or at once if it has fired.
fn hook(work: &RunningRequest, leader: &Leader) -> Option<u32> {
    match work.signal.add(Hook::Group(leader.clone())) {
        Ok(place) => Some(place),
        Err(_fired) => {
            leader.terminate();
            None
        }
    }
}
