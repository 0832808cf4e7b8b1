//! The server's process and its job.
//!
//! The server is created suspended, put into a job, and resumed: so all that it starts is in the job, too. The job ends
//! with the last handle to it, which only this process has: however this process ends, all of them do (D47).

use std::{
    ffi::OsString,
    future::Future,
    io,
    path::Path,
    pin::pin,
    process::Stdio,
    task::{Context, Poll},
};

use process_wrap::tokio::{ChildWrapper, CommandWrap};
use rescind_proto::relay::End;
use send_ctrlc::Interruptible;
use tokio::{net::windows::named_pipe::NamedPipeServer, process::Command};

use super::{job::Job, program};
use crate::{
    process::{Suspended, container::Container, signals::Signal},
    stdio::pipe,
};

/// A running server. Dropping it ends its job.
#[derive(Debug)]
pub(crate) struct Group {
    server: Box<dyn ChildWrapper>,
    id: u32,
    /// `None` once it was ended.
    job: Option<Job>,
    /// What the server has started that is no process of this job.
    container: Option<Container>,
}

/// Our ends of the link.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stdin: NamedPipeServer,
    pub(crate) stdout: NamedPipeServer,
}

impl Group {
    /// Starts `command`. All processes of the job get `environment` in addition.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub(crate) fn start(
        _launcher: &Path,
        command: &[OsString],
        environment: &[(&str, String)],
    ) -> io::Result<(Self, Pipes)> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let (stdin, input) = pipe::to_child()?;
        let (stdout, output) = pipe::from_child()?;
        let mut command = Command::new(program::find(program));
        command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::from(input)).stdout(Stdio::from(output));
        let job = Job::new()?;
        let server = job.contain(CommandWrap::from(command)).spawn()?;
        let id = server.id().unwrap_or_default();
        Ok((Self { server, id, job: Some(job), container: None }, Pipes { stdin, stdout }))
    }

    /// What runs in this container ends with the server.
    pub(crate) fn keep(&mut self, container: Container) {
        self.container = Some(container);
    }

    /// Ends the job, and waits until its container has ended, too. Returns why that may still run, if it may.
    pub(crate) async fn finish(mut self) -> Option<String> {
        let container = self.container.take();
        drop(self);
        match container {
            Some(container) => container.finish().await,
            None => None,
        }
    }

    /// The server's process id.
    #[cfg(feature = "admin")]
    pub(crate) const fn server_id(&self) -> u32 {
        self.id
    }

    /// Asks the server's group to end with CTRL+BREAK, whichever event the client has sent: a group of its own takes no
    /// other. Or ends its job.
    pub(crate) fn signal(&mut self, signal: Signal) {
        self.container.iter_mut().for_each(|container| container.handle_signal(signal));
        if signal == Signal::KILL {
            // With an exit code that is no success; what may be left ends with our job.
            let _ = self.server.start_kill();
            self.job = None;
        } else {
            let _ = Leader(self.id).terminate();
        }
    }

    /// No event is passed on that does not ask for an end.
    pub(crate) const fn pass_on(&self, _: Signal) {}

    /// No server is stopped by its use of a console.
    pub(crate) const fn handle_stop(&mut self) -> Option<Suspended> {
        None
    }

    pub(crate) const fn handle_continued(&mut self) {}

    pub(crate) const fn reclaim_terminal(&mut self) {}

    /// Ready when the server has ended. [`ended`](Self::ended) tells how.
    pub(crate) fn poll_exit(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Of the server's own process, and not of the whole job.
        let child = self.server.inner_mut();
        pin!(child.wait()).as_mut().poll(cx).map(drop)
    }

    /// How the server ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<End> {
        let ended = match self.server.inner_mut().try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(status.code().map_or(End::Closed, End::Exited)),
            Err(_) => Some(End::Closed),
        };
        if let (Some(how), Some(container)) = (&ended, &mut self.container) {
            container.begin(how);
        }
        ended
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// The process that leads a console group.
struct Leader(u32);

impl Interruptible for Leader {
    fn pid(&mut self) -> io::Result<Option<u32>> {
        Ok(Some(self.0))
    }
}
