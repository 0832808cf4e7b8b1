//! The server of a link, as its loop sees it: its process, if it is one, and how it ends.

use std::{
    io,
    task::{Context, Poll},
};

use rescind_proto::{
    relay::{End, EndedServer},
    side::Side,
    time::Instant,
};

use super::{Closing, Drive};
use crate::{
    process::{
        container::Container,
        ended_by::{EndReason, EndedBy},
        group::Group,
        restarts::Restarts,
        signals::Signal,
        starter::Starter,
        turn_processes::TurnProcesses,
    },
    relay::{kept_welcome::KeptWelcome, server_stderr::ServerStderr},
};

/// The most to read from the pipe of a server that has exited: what the largest pipe holds.
const MAX_LEFT_BEHIND: usize = 1024 * 1024;

/// What the link has of its server, beside its streams.
#[derive(Default)]
pub(crate) struct Server {
    /// Its process, if it is one.
    pub(crate) group: Option<Group>,
    /// What it has started that is no process of its group. Dropped after that.
    pub(crate) container: Option<Container>,
    /// How another one is started in its place, if that can be.
    pub(crate) starter: Option<Starter>,
    /// When another one is started after its end, if that is wanted (D64).
    pub(crate) restarts: Option<Restarts>,
    /// What it writes to stderr, if that is not our own.
    pub(crate) stderr: Option<ServerStderr>,
    /// The last lines of that are for the client, too.
    pub(crate) stderr_in_errors: bool,
    /// What ends the processes that cancelled requests have left, if that is wanted.
    pub(crate) turns: Option<TurnProcesses>,
    /// Its program, as its user named it.
    pub(crate) program: Option<String>,
    /// Why it could not be started, until its end is reported.
    pub(crate) unstarted: Option<String>,
    /// What it has answered to its clients, if they are welcomed with that (D70).
    pub(crate) welcome: Option<KeptWelcome>,
    /// How it ended, where that is not reported before it is known whether another takes its place.
    pub(crate) untold: Option<End>,
}

impl Drive {
    /// Handles a server that could not be started: the link is over once its client knows.
    #[cold]
    pub(crate) fn handle_unstarted(&mut self, why: &io::Error) {
        self.server.unstarted = Some(why.to_string());
        self.check_server(self.now());
    }

    /// Ends the server if an operator has just ordered it.
    #[cold]
    pub(super) fn handle_order(&mut self, now: Instant) {
        if self.admin.receive_end_order() {
            // First notice a server that has already exited: this order did not end it.
            self.check_server(now);
            if !self.stop_restarting(now, Some(EndedBy::Shim(EndReason::Operator))) {
                self.signal_server(now, Signal::TERM);
                self.shutdown.handle_order(now);
            }
        }
    }

    /// Has the ladder begin with SIGTERM.
    pub(super) fn terminate(&mut self, now: Instant, reason: EndReason) {
        self.signal_server(now, Signal::TERM);
        self.shutdown.handle_terminated(now, reason);
    }

    /// Asks the server to end, or ends it.
    pub(super) fn signal_server(&mut self, now: Instant, signal: Signal) {
        self.server.container.iter_mut().for_each(|container| container.handle_signal(signal));
        match &mut self.server.group {
            Some(group) => group.signal(signal),
            // Nobody else tells it that the client is gone.
            None if signal == Signal::TERM => {
                self.relay.handle_disconnect(now, Side::Client);
                self.closing = Closing::Now;
            }
            None => {
                self.ports.server.messages = None;
                self.check_server(now);
            }
        }
    }

    pub(super) fn check_server(&mut self, now: Instant) {
        if self.is_between_servers() {
            return;
        }
        let ended = match &mut self.server.group {
            Some(group) => group.ended(),
            None => self.ports.server.messages.is_none().then_some(End::Closed),
        };
        if let (Some(how), Some(container)) = (&ended, &mut self.server.container) {
            container.begin(how);
        }
        if !self.shutdown.has_exited()
            && let Some(how) = ended
        {
            self.shutdown.handle_server_exit(now, how.clone());
            if self.may_replace_server() {
                self.server.untold = Some(how);
            } else {
                self.observer.handle_exit(now, &how, self.shutdown.ended_by());
            }
        } else if let Some(suspended) = self.server.group.as_mut().and_then(Group::handle_stop) {
            self.observer.handle_suspended(suspended);
        }
    }

    /// Reads the rest of the server's stdout, then ends the server's side of the relay.
    pub(super) fn end_server(&mut self, cx: &mut Context<'_>, now: Instant, how: &End) {
        if let Some(mut input) = self.ports.server.input.take() {
            let mut left = MAX_LEFT_BEHIND;
            while left > 0
                && let Poll::Ready(Ok(read)) = input.poll_read(cx, &mut self.buffer)
                && read > 0
            {
                self.admin.handle_input(now, &self.relay, Side::Server, &self.buffer[..read]);
                self.relay.handle_input(now, Side::Server, &self.buffer[..read]);
                left = left.saturating_sub(read);
            }
        }
        if self.may_replace_server() && self.replace_server(now).is_ok() {
            return;
        }
        if let Some(how) = self.server.untold.take() {
            self.observer.handle_exit(now, &how, self.shutdown.ended_by());
        }
        if let Some(by) = self.shutdown.ended_by() {
            self.relay.note_ended_by(by.into());
        }
        self.note_ended_server();
        if self.may_restart() {
            self.lose_server(now, how, EndReason::Silent);
        } else {
            self.relay.handle_eof(now, Side::Server, how);
        }
        self.handle_events(now);
    }

    /// Has the relay know what errors about the server's end say of it.
    pub(super) fn note_ended_server(&mut self) {
        if let Some(program) = self.server.program.clone() {
            let stderr = self.server.stderr.as_ref().map(ServerStderr::last).unwrap_or_default();
            let unstarted = self.server.unstarted.take();
            self.relay.note_ended_server(EndedServer { program, unstarted, stderr });
        }
    }
}
