//! Another server in the place of one that has ended: one that died (D64), or ended of a question of ours (D42).

use std::{io, time::Duration};

use rescind_proto::{relay::End, side::Side, time::Instant};

use super::{Closing, Drive, port::Port};
use crate::process::{
    Pipes,
    ended_by::{EndReason, EndedBy},
    group::Group,
    restarts::Restarts,
    shutdown::Shutdown,
    starter::Starter,
};

impl Drive {
    /// Whether the server that has ended is started again (D64).
    pub(super) fn may_restart(&mut self) -> bool {
        if self.server.restarts.is_none() || !self.shutdown.may_restart() {
            return false;
        }
        let obstacle = self.relay.restart_obstacle();
        obstacle.inspect(|why| self.observer.handle_not_restarted(why)).is_none()
    }

    /// The server is of no use any more, and another is to take its place: if it still runs it is ended first, which `reason`
    /// is for (D64).
    pub(super) fn lose_server(&mut self, now: Instant, how: &End, reason: EndReason) {
        let was_of_use = !self.relay.awaits_server();
        self.relay.handle_server_lost(now, how);
        if self.server.group.is_some() && !self.shutdown.has_exited() {
            self.terminate(now, reason);
            self.server.restarts.iter_mut().for_each(|restarts| restarts.handle_useless(how.clone(), was_of_use));
        } else {
            self.await_restart(now, how, was_of_use);
        }
    }

    /// Has the link go on without a server for a while. What is left of the former one is killed.
    fn await_restart(&mut self, now: Instant, how: &End, was_of_use: bool) {
        self.ports.server = Port::default();
        self.server.group = None;
        let by = self.shutdown.ended_by();
        self.shutdown = Shutdown::new(self.limits);
        self.server.untold = None;
        self.closing = Closing::No;
        self.admin.handle_server_gone();
        let Some(restarts) = &mut self.server.restarts else { return };
        let gives_up_waiting = restarts.handle_end(now, how.clone(), was_of_use);
        let wait = restarts.due().map(|at| at.since(now)).unwrap_or_default();
        self.observer.handle_restarting(how, by, wait);
        if gives_up_waiting {
            self.relay.handle_restart_failed(now);
        }
    }

    /// Does what is due to start the server again; whether anything was.
    #[cold]
    pub(super) fn poll_restart(&mut self, now: Instant) -> bool {
        let Some(restarts) = &self.server.restarts else { return false };
        if let Some((how, was_of_use)) = restarts.ending() {
            if !self.shutdown.is_drained() {
                return false;
            }
            if self.shutdown.may_restart() {
                self.await_restart(now, &how, was_of_use);
            } else {
                self.server.restarts = None;
                self.relay.handle_eof(now, Side::Server, &how);
            }
            return true;
        }
        if let Some(why) = self.relay.poll_restart_refused() {
            self.observer.handle_refused_restart(&why);
            self.ports.server = Port::default();
            self.server.group = None;
            self.server.unstarted = Some(after_restart(&why));
            self.end_restarts(now, None);
            return true;
        }
        if restarts.due().is_some() && !self.shutdown.is_relaying() {
            return self.stop_restarting(now, None);
        }
        if restarts.due().is_some_and(|at| at <= now) {
            self.start_again(now);
            return true;
        }
        self.relay.overdue_greeting().is_some_and(|limit| self.handle_ungreeted(now, limit))
    }

    /// The new server has not answered its greeting in time: it is ended. Where another is to follow, what waits is answered
    /// now. `false` if it is being ended anyway.
    fn handle_ungreeted(&mut self, now: Instant, limit: Duration) -> bool {
        if !self.shutdown.is_unrequested() {
            return false;
        }
        let reason = EndReason::Ungreeted(limit);
        if !self.may_restart() {
            self.terminate(now, reason);
            return true;
        }
        // What it sends from now on is dropped.
        self.ports.server = Port::default();
        self.server.unstarted = Some(after_restart(&format!("it did not answer initialize within {limit:?}")));
        self.note_ended_server();
        self.lose_server(now, &End::Closed, reason);
        self.relay.handle_restart_failed(now);
        self.handle_events(now);
        true
    }

    fn start_again(&mut self, now: Instant) {
        let how = self.server.restarts.as_ref().and_then(Restarts::ended).cloned().unwrap_or(End::Closed);
        match self.server.starter.as_ref().map(Starter::start) {
            Some(Ok((group, pipes))) => {
                let count = self.server.restarts.as_mut().map_or(0, Restarts::handle_start);
                self.admin.handle_restarted(now, count);
                self.server.turns.iter_mut().for_each(|turns| turns.handle_restarted(now));
                self.adopt(group, pipes);
                self.observer.handle_restarted(now, count);
                self.relay.handle_server_restarted(now);
            }
            Some(Err(error)) => {
                self.server.unstarted = Some(error.to_string());
                self.note_ended_server();
                self.await_restart(now, &how, false);
            }
            None => _ = self.stop_restarting(now, None),
        }
        self.handle_events(now);
    }

    /// Notes when a server that was started again has answered the handshake: no process began for a request before.
    #[inline]
    pub(super) fn note_greeting(&mut self, now: Instant) {
        if let Some(restarts) = &mut self.server.restarts
            && !self.relay.awaits_server()
            && restarts.handle_greeted()
        {
            self.admin.handle_greeted(now);
            self.server.turns.iter_mut().for_each(|turns| turns.handle_greeted(now));
        }
    }

    /// Whether there is no server now, and another is to be started (D64).
    pub(super) fn is_between_servers(&self) -> bool {
        self.server.restarts.as_ref().is_some_and(|restarts| restarts.due().is_some())
    }

    /// Starts no server any more, if there is none now: the link ends with the one that there was, because of `by` if
    /// somebody asked for it. Whether that was so.
    pub(super) fn stop_restarting(&mut self, now: Instant, by: Option<EndedBy>) -> bool {
        let ends = self.is_between_servers();
        if ends {
            self.end_restarts(now, by);
        }
        ends
    }

    fn end_restarts(&mut self, now: Instant, by: Option<EndedBy>) {
        let how = self.server.restarts.take().and_then(|restarts| restarts.ended().cloned());
        self.shutdown = Shutdown::of_ended(self.limits, now, how.unwrap_or(End::Closed), by);
    }

    /// Whether another process is to take the place of a server that has ended or is about to: it ended by itself, of a
    /// question of ours.
    pub(super) fn may_replace_server(&self) -> bool {
        self.server.starter.is_some() && self.shutdown.is_unasked() && self.relay.may_replace_server()
    }

    /// Starts the server again. What is left of the former one is killed.
    pub(super) fn replace_server(&mut self, now: Instant) -> io::Result<()> {
        let Some(starter) = &self.server.starter else { return Err(io::ErrorKind::NotFound.into()) };
        self.ports.server = Port::default();
        self.server.group = None;
        let (group, pipes) = starter.start()?;
        self.adopt(group, pipes);
        self.relay.handle_server_replaced(now);
        Ok(())
    }

    /// Takes a server that was just started for the server of the link.
    fn adopt(&mut self, group: Group, pipes: Pipes) {
        self.admin.handle_replaced(&group);
        self.server.group = Some(group);
        (self.ports.server, self.server.stderr) = Port::to_server(pipes, self.server.stderr_in_errors);
        self.shutdown = Shutdown::new(self.limits);
        self.server.untold = None;
    }
}

/// Why a server that was started again is of no use, as errors about its end say it.
fn after_restart(why: &str) -> String {
    format!("after it was started again, {why}")
}
