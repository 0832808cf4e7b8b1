//! The server's process and its job.
//!
//! The server is created suspended, put into a job, and resumed: so all that it starts is in the job, too. The job ends
//! with the last handle to it, which only this process has: however this process ends, all of them do (D47).

use std::{
    ffi::OsString,
    io,
    path::Path,
    task::{Context, Poll},
};

use rescind_proto::relay::End;
use tokio::process::Command;

use super::{owned_process::OwnedProcess, program};
use crate::process::{Pipes, Suspended, container::Container, signals::Signal};

/// A running server. Dropping it ends its job.
#[derive(Debug)]
pub(crate) struct Group {
    server: OwnedProcess,
    /// What the server has started that is no process of this job.
    container: Option<Container>,
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
        let mut command = Command::new(program::find(program));
        command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
        let (server, pipes) = OwnedProcess::start_piped(command)?;
        Ok((Self { server, container: None }, pipes))
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
        self.server.leader().id()
    }

    /// Asks the server's group to end, whichever event the client has sent. Or ends its job.
    pub(crate) fn signal(&mut self, signal: Signal) {
        self.container.iter_mut().for_each(|container| container.handle_signal(signal));
        if signal == Signal::KILL {
            self.server.leader().kill();
        } else {
            self.server.leader().terminate();
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
        self.server.poll_end(cx)
    }

    /// How the server ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<End> {
        let ended = match self.server.try_status() {
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
