//! How a link ends: it takes the steps of its [`Shutdown`](crate::process::shutdown::Shutdown).

use std::task::{Context, Poll};

use rescind_proto::{side::Side, time::Instant};

use super::{Closing, Drive};
use crate::{
    process::{
        ended_by::EndReason,
        shutdown::{Remaining, ShutdownStep},
        signals::Signal,
    },
    relay::LinkEnd,
};

impl Drive {
    /// Takes the steps that are due, and notes in `moved` that there was one. Ready with the last.
    #[inline]
    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>, now: Instant, moved: &mut bool) -> Poll<LinkEnd> {
        loop {
            let open = self.remaining(cx);
            let Some(step) = self.shutdown.next(now, open) else { return Poll::Pending };
            *moved = true;
            match step {
                ShutdownStep::CloseStdin => {
                    self.ports.server.output = None;
                    self.closing = self.closing.max(Closing::WhenIdle);
                }
                ShutdownStep::Terminate => self.signal_server(now, Signal::TERM),
                ShutdownStep::Kill => self.signal_server(now, Signal::KILL),
                ShutdownStep::EndServer(how) => self.end_server(cx, now, &how),
                ShutdownStep::CloseClient => self.close_client(now),
                ShutdownStep::Leave(server) => {
                    if open.owed_client {
                        self.relay.give_up(Side::Client);
                        self.handle_events(now);
                    }
                    return Poll::Ready(LinkEnd { server, is_output_lost: self.is_output_lost });
                }
            }
        }
    }

    /// Handles a client that can read no answers any more, whatever it may still send.
    pub(super) fn handle_client_gone(&mut self, now: Instant, reason: EndReason) {
        if reason == EndReason::ReaderGone {
            self.close_client(now);
        }
        self.handle_input_end(now, Side::Client);
        self.shutdown.begin(now, reason);
    }

    pub(super) fn close_client(&mut self, now: Instant) {
        self.ports.client.presence = None;
        self.ports.client.output = None;
        self.ports.client.messages = None;
        self.relay.handle_write_closed(now, Side::Client);
    }

    /// What is still open or owed.
    fn remaining(&mut self, cx: &mut Context<'_>) -> Remaining {
        let mut owed = |side: Side| {
            let Some(output) = &mut self.ports[side].output else {
                return self.ports[side].messages.is_some() && !self.relay.pending(side).is_empty();
            };
            !self.relay.pending(side).is_empty() || output.poll_flush(cx).is_pending()
        };
        let (owed_server, owed_client) = (owed(Side::Server), owed(Side::Client));
        let stderr = self.server.stderr.as_mut().filter(|_| self.shutdown.has_exited());
        let has_stderr = stderr.is_some_and(|stderr| stderr.poll_end(cx).is_pending());
        Remaining {
            owed_server: owed_server || self.relay.awaits_server(),
            owed_client,
            server_output: self.ports.server.input.is_some() || self.ports.server.messages.is_some() || has_stderr,
            // It counts what is followed, and is asked only by a link that ends.
            in_flight: !self.shutdown.is_relaying() && self.relay.awaited(Side::Client) > 0,
            end_untold: self.ports.client.input.is_some() && self.relay.has_untold_end(),
            has_successor: self.server.restarts.as_ref().is_some_and(|restarts| restarts.ending().is_some()),
        }
    }
}
