//! What a server runs in a container, which no signal to its group reaches (D47).
//!
//! The engine is asked by a thread, once the command has ended: until then the command passes signals on by itself, and a
//! second SIGTERM would mean something else to many programs.

use std::{ffi::OsString, thread, time::Duration};

use rescind_ledger::{
    container::{
        command::ContainerCommand,
        ending::{CommandEnd, InContainer},
    },
    mark::MARK_VARIABLE,
};
use rescind_proto::relay::End;
use tokio::sync::oneshot;

use super::signals::Signal;

/// From a client's SIGTERM to SIGKILL. Clients built on the SDKs of MCP kill the shim two seconds after theirs, and then
/// nothing would be left to end the container.
pub(crate) const ASKED: Duration = Duration::from_secs(1);

/// Something in a container, for the length of a link. Dropping it ends it in the background.
#[derive(Debug)]
pub(crate) struct Container {
    words: Vec<OsString>,
    end: Ending,
    has_sent_sigterm: bool,
}

#[derive(Debug)]
enum Ending {
    NotBegun(InContainer),
    /// A thread is at it, and says why something may still run.
    Begun(oneshot::Receiver<Option<String>>),
    /// It was to be left running.
    Not,
}

impl Container {
    /// The container of a command, which gets the mark in this environment. `None` if the command has none, or there is no
    /// mark.
    pub(crate) fn of(command: &[OsString], environment: &[(&str, String)]) -> Option<Self> {
        let recognised = ContainerCommand::recognise(command)?;
        let (_, mark) = environment.iter().find(|(name, _)| *name == MARK_VARIABLE)?;
        let end =
            if recognised.is_detached { Ending::Not } else { Ending::NotBegun(InContainer::of(&recognised, mark)) };
        Some(Self { words: recognised.marked(command, mark), end, has_sent_sigterm: false })
    }

    /// The command, marked.
    pub(crate) const fn words(&self) -> &Vec<OsString> {
        &self.words
    }

    /// Notes a signal to the command.
    pub(crate) fn handle_signal(&mut self, signal: Signal) {
        self.has_sent_sigterm |= signal == Signal::TERM;
    }

    /// Ends it, now that its command has ended.
    pub(crate) fn begin(&mut self, how: &End) {
        let after = CommandEnd {
            // One that ended before SIGKILL, while its container did not, has passed nothing on: Docker dies of SIGTERM
            // then, and Podman exits.
            passed_on_sigterm: self.has_sent_sigterm && *how == End::Signalled(Signal::KILL.as_raw()),
            was_killed: !matches!(how, End::Exited(_)),
        };
        self.end = match std::mem::replace(&mut self.end, Ending::Not) {
            Ending::NotBegun(within) => {
                let (sender, done) = oneshot::channel();
                let work = move || sender.send(within.end(after).err().map(|error| error.to_string()));
                // Without a thread the sender is dropped, which says so.
                let _ = thread::Builder::new().name("rescind-container".to_owned()).spawn(work);
                Ending::Begun(done)
            }
            begun @ (Ending::Begun(_) | Ending::Not) => begun,
        };
    }

    /// Waits until it has ended. Returns why it may still run, if it may.
    pub(crate) async fn finish(mut self) -> Option<String> {
        self.begin(&End::Signalled(Signal::KILL.as_raw()));
        match std::mem::replace(&mut self.end, Ending::Not) {
            Ending::Begun(done) => done.await.unwrap_or_else(|_| Some("there is no thread to end it".to_owned())),
            Ending::NotBegun(_) | Ending::Not => None,
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.begin(&End::Signalled(Signal::KILL.as_raw()));
    }
}
