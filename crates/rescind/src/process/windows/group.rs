//! The server's process and its job.
//!
//! The server is created suspended, put into a job, and resumed: so all that it starts is in the job, too. The job ends
//! with the last handle to it, which only this process has: however this process ends, all of them do (D47).

use std::{
    ffi::OsString,
    io,
    path::Path,
    process::Stdio,
    task::{Context, Poll},
};

use rescind_proto::relay::End;
use tokio::process::Command;

use super::{owned_process::OwnedProcess, program};
use crate::{
    process::{Pipes, Suspended, signals::Signal},
    stdio::{Input, pipe},
};

/// A running server. Dropping it ends its job.
#[derive(Debug)]
pub(crate) struct Group {
    server: OwnedProcess,
}

impl Group {
    /// Starts `command`. All processes of the job get `environment` in addition. Its stderr is a pipe if it `pipes_stderr`,
    /// and else that of this process.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub(crate) fn start(
        _launcher: &Path,
        command: &[OsString],
        environment: &[(&str, String)],
        pipes_stderr: bool,
    ) -> io::Result<(Self, Pipes)> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program::find(program));
        command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
        let mut stderr = None;
        if pipes_stderr {
            let (input, errors) = pipe::from_child()?;
            command.stderr(Stdio::from(errors));
            stderr = Some(Input::own(input)?);
        }
        let (server, pipes) = OwnedProcess::start_piped(command)?;
        Ok((Self { server }, Pipes { stderr, ..pipes }))
    }

    /// The server's process id.
    #[cfg(feature = "admin")]
    pub(crate) const fn server_id(&self) -> u32 {
        self.server.leader().id()
    }

    /// Asks the server's group to end, whichever event the client has sent. Or ends its job.
    pub(crate) fn signal(&mut self, signal: Signal) {
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
        match self.server.try_status() {
            Ok(None) => None,
            Ok(Some(status)) => Some(status.code().map_or(End::Closed, End::Exited)),
            Err(_) => Some(End::Closed),
        }
    }
}
