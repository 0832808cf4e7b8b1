//! The loop that joins a client, a server and the relay machine between them.
//!
//! It makes no protocol decisions. Input goes to the machine, and what the machine
//! has for a side is written at once, before waiting for anything. A side that
//! does not read blocks only itself.

mod end;
mod messages;
mod port;
mod restart;
mod server;
mod welcome;

use std::{
    future::Future as _,
    pin::Pin,
    task::{Context, Poll, ready},
};

use rescind_proto::{
    id::RequestId,
    link::{CancelNotice, RequestKey},
    relay::{End, Relay, RelayConfig, RelayEvent},
    side::{Side, Sides},
    time::Instant,
};
use tokio::task::JoinHandle;

#[cfg(feature = "admin")]
use super::admin::Admin;
#[cfg(not(feature = "admin"))]
use super::no_admin::NoAdmin as Admin;
use super::{LinkEnd, observer::Observer};
use crate::{
    alarm::Alarm,
    message_stream::{CancelFate, Credentials},
    process::{
        ended_by::{EndReason, EndedBy},
        group::Group,
        restarts::Restarts,
        shutdown::{Shutdown, ShutdownLimits},
        signals::{Signal, SignalEvent, Signals},
        turn_processes::TurnProcesses,
    },
};

pub(super) use port::Port;
pub(super) use server::Server;

/// The initial size of the read buffer: what a pipe holds.
const BUFFER: usize = 64 * 1024;

/// What the read buffer and the pipes grow to when large messages pass, which saves the kernel a fifth of its work. More
/// gains nothing, and the pipes of a user share a limit.
const LARGE_BUFFER: usize = 256 * 1024;

/// A running link.
pub(crate) struct Drive {
    origin: std::time::Instant,
    relay: Relay,
    ports: Sides<Port>,
    shutdown: Shutdown,
    limits: ShutdownLimits,
    server: Server,
    signals: Signals,
    /// Ends when the runtime has looked for signals once more.
    look: Option<JoinHandle<()>>,
    /// Why the client is known to be gone, until it is dealt with.
    gone: Option<EndReason>,
    alarm: Alarm,
    observer: Observer,
    admin: Admin,
    buffer: Vec<u8>,
    /// The client was given up, and the rest of its output is lost.
    is_output_lost: bool,
    /// When the server's stream is to be closed.
    closing: Closing,
    /// To whom what the client says next belongs. It is not read before the server's stream has taken what belongs to
    /// others.
    barrier: Option<Credentials>,
}

/// When a stream to a server is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Closing {
    No,
    /// Once nothing is in flight.
    WhenIdle,
    Now,
}

impl Drive {
    pub(crate) fn new(
        origin: std::time::Instant,
        (config, limits): (RelayConfig, ShutdownLimits),
        ports: Sides<Port>,
        mut server: Server,
        signals: Signals,
        observer: Observer,
        mut admin: Admin,
    ) -> Self {
        if let Some(turns) = &server.turns {
            admin.handle_turn_processes(turns, &[]);
        }
        server.restarts = config.restart.then(|| Restarts::new(Instant::after_origin(origin.elapsed())));
        Self {
            origin,
            relay: super::relay(config, origin),
            ports,
            shutdown: Shutdown::new(limits),
            limits,
            server,
            signals,
            look: None,
            gone: None,
            alarm: Alarm::new(),
            observer,
            admin,
            buffer: vec![0; BUFFER],
            is_output_lost: false,
            closing: Closing::No,
            barrier: None,
        }
    }

    /// Runs until both sides have ended, and returns how.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<LinkEnd> {
        loop {
            let mut now = self.now();
            let mut moved = self.poll_signals(cx, now);
            if !self.shutdown.has_exited()
                && let Some(group) = &mut self.server.group
                && group.poll_exit(cx).is_ready()
            {
                self.check_server(now);
                moved = true;
            }
            if self.admin.poll(now, &mut self.relay) {
                moved = true;
                self.handle_order(now);
            }
            let mut wakes = Sides::from_fn(|_| false);
            if self.poll_sides(cx, now, &mut wakes) {
                // Events are of the time of the bytes that led to them.
                self.handle_events(now);
                self.note_greeting(now);
                // Mostly there is no more: then the rest is done once, and not once for each look.
                now = self.now();
                moved |= self.poll_sides(cx, now, &mut wakes);
            }
            self.handle_events(now);
            moved |= self.poll_turns(cx, now);
            if self.server.welcome.is_some() {
                moved |= self.poll_welcome(cx, now);
            }
            if self.server.restarts.is_some() && self.poll_restart(now) {
                continue;
            }
            if let Poll::Ready(end) = self.poll_shutdown(cx, now, &mut moved) {
                return Poll::Ready(end);
            }
            // Last, so that everything the client sent before it left has been read.
            if !moved
                && let Some(presence) = &mut self.ports.client.presence
                && let Poll::Ready(reason) = presence.poll_gone(cx)
            {
                self.gone = Some(reason);
            }
            if let Some(reason) = self.gone
                && self.poll_heard(cx, now).is_ready()
            {
                self.gone = None;
                self.handle_client_gone(now, reason);
                moved = true;
            }
            if moved {
                continue;
            }
            let turns = self.server.turns.as_ref().and_then(TurnProcesses::deadline);
            let restart = self.server.restarts.as_ref().and_then(Restarts::due);
            let due = [self.relay.poll_timeout(), self.shutdown.deadline(), turns, restart];
            let due = due.into_iter().flatten().min();
            if self.alarm.poll(cx, self.origin, due).is_pending() {
                self.observer.handle_idle(self.relay.dialect(Side::Client));
                self.admin.handle_idle(cx, &self.relay);
                if let Poll::Ready(why) = self.admin.poll_history(cx, now, &self.relay) {
                    self.observer.handle_history_failed(&why);
                }
                return Poll::Pending;
            }
            let now = self.now();
            self.relay.handle_timeout(now);
            self.check_server(now);
        }
    }

    /// Closes the admin socket and the observers. Called once, at the end. Where this link `is_alone` on its thread, it waits
    /// until our stderr was read.
    pub(crate) async fn finish(self, how: &End, is_alone: bool) {
        let Self { mut relay, server, ports, mut observer, mut admin, origin, .. } = self;
        let Server { group, container, stderr, turns, welcome, .. } = server;
        admin.handle_eof(Instant::after_origin(origin.elapsed()), &mut relay, how);
        // Closed before the wait for a container.
        drop((ports, group));
        if let Some(container) = container
            && let Some(why) = container.finish().await
        {
            observer.handle_container_left(&why);
        }
        if let Some(turns) = turns {
            turns.finish().await;
        }
        if let Some(mut welcome) = welcome {
            relay.poll_welcomes().into_iter().for_each(|document| welcome.keep(document));
            welcome.finish().await;
        }
        if let Some(why) = admin.finish_history().await {
            observer.handle_history_failed(&why);
        }
        if let Some(stderr) = stderr.filter(|_| is_alone) {
            stderr.finish();
        }
        let dialects = Sides::from_fn(|side| relay.dialect(side));
        let broken = Sides::from_fn(|side| &relay.tally().violations[side]);
        observer.finish(Instant::after_origin(origin.elapsed()), dialects, broken);
        admin.close().await;
    }

    /// Ends the processes of cancelled requests.
    #[inline]
    fn poll_turns(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let Some(turns) = &mut self.server.turns else { return false };
        let Poll::Ready(news) = turns.poll(cx, now, &self.relay) else { return false };
        self.admin.handle_turn_processes(turns, &news);
        self.observer.handle_turn_processes(&news);
        true
    }

    fn now(&self) -> Instant {
        Instant::after_origin(self.origin.elapsed())
    }

    fn poll_signals(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut moved = false;
        while let Poll::Ready(arrival) = self.signals.poll(cx) {
            match arrival {
                SignalEvent::AsksForEnd(signal) => {
                    // First notice a server that has already exited: this signal did not end it.
                    self.check_server(now);
                    let by = EndedBy::Client(signal.as_raw());
                    let has_stopped = signal != Signal::INT && self.stop_restarting(now, Some(by));
                    let asks = self.shutdown.handle_signal(now, signal);
                    if has_stopped {
                        // There is no server to be told.
                    } else if self.server.group.is_some() {
                        self.signal_server(now, signal);
                    } else if asks {
                        self.signal_server(now, Signal::TERM);
                    }
                }
                SignalEvent::PassedOn(signal) => {
                    self.check_server(now);
                    self.server.group.iter().for_each(|group| group.pass_on(signal));
                    self.shutdown.handle_passed_on(signal);
                }
                SignalEvent::Child => self.check_server(now),
                SignalEvent::Continued => self.server.group.iter_mut().for_each(Group::handle_continued),
            }
            moved = true;
        }
        moved
    }

    /// Reads and writes each side once. A side whose input `wakes` this task is not looked at again.
    fn poll_sides(&mut self, cx: &mut Context<'_>, now: Instant, wakes: &mut Sides<bool>) -> bool {
        let mut moved = false;
        for side in Side::BOTH {
            if !wakes[side] {
                match self.poll_input(cx, now, side) {
                    Poll::Ready(has_moved) => moved |= has_moved,
                    Poll::Pending => wakes[side] = true,
                }
            }
            // Written before the next read: an answer must not wait for what comes after it.
            moved |= self.poll_output(cx, now, side.other());
            moved |= self.poll_output(cx, now, side);
        }
        moved
    }

    /// Reads one side once, if it is wanted; whether it did. Pending once its input wakes this task.
    fn poll_input(&mut self, cx: &mut Context<'_>, now: Instant, side: Side) -> Poll<bool> {
        if !self.relay.wants_input(side) || self.observer.poll_ready(cx).is_pending() {
            return Poll::Ready(false);
        }
        let Some(input) = &mut self.ports[side].input else {
            return Poll::Ready(self.poll_messages(cx, now, side));
        };
        match input.poll_read(cx, &mut self.buffer) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(read)) if read > 0 => {
                if side == Side::Server
                    && let Some(group) = &mut self.server.group
                {
                    group.reclaim_terminal();
                }
                self.admin.handle_input(now, &self.relay, side, &self.buffer[..read]);
                self.relay.handle_input(now, side, &self.buffer[..read]);
                if read == self.buffer.len() {
                    self.widen(side);
                }
            }
            // An error means the same as the end: no more input.
            Poll::Ready(Ok(_) | Err(_)) => {
                if side == Side::Client && self.poll_heard(cx, now).is_pending() {
                    return Poll::Ready(false);
                }
                self.handle_input_end(now, side);
            }
        }
        Poll::Ready(true)
    }

    /// Ready once the runtime has looked for signals again since the first call, and they are passed on: a client that
    /// signals and then leaves has the server hear of both in this order (D44).
    fn poll_heard(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        let look = self.look.get_or_insert_with(|| tokio::spawn(tokio::task::yield_now()));
        let _ = ready!(Pin::new(look).poll(cx));
        self.look = None;
        self.poll_signals(cx, now);
        Poll::Ready(())
    }

    /// Enlarges buffers and pipes after a read that filled the buffer.
    fn widen(&mut self, from: Side) {
        if self.buffer.len() < LARGE_BUFFER {
            self.buffer.resize(LARGE_BUFFER, 0);
        }
        if std::mem::replace(&mut self.ports[from].widened, true) {
            return;
        }
        if let Some(input) = &self.ports[from].input {
            input.widen(LARGE_BUFFER);
        }
        if let Some(output) = &self.ports[from.other()].output {
            output.widen(LARGE_BUFFER);
        }
    }

    fn handle_input_end(&mut self, now: Instant, side: Side) {
        self.ports[side].input = None;
        match side {
            Side::Client => {
                self.stop_restarting(now, None);
                self.relay.handle_eof(now, Side::Client, &End::Closed);
                self.shutdown.handle_client_eof(now);
                // A process notices the end of its stdin. This server would work on for nobody.
                if self.server.group.is_none() {
                    self.shutdown.begin(now, EndReason::ClientEnded);
                }
                if let Some(presence) = &mut self.ports.client.presence {
                    presence.end_input();
                }
            }
            Side::Server => {
                self.check_server(now);
                self.shutdown.handle_server_silent(now);
            }
        }
    }

    /// Writes to one side while it accepts bytes.
    #[inline]
    fn poll_output(&mut self, cx: &mut Context<'_>, now: Instant, side: Side) -> bool {
        // Mostly there is nothing.
        let has_nothing = self.ports[side].output.is_some() && self.relay.pending(side).is_empty();
        !has_nothing && self.poll_pending(cx, now, side)
    }

    #[inline(never)]
    fn poll_pending(&mut self, cx: &mut Context<'_>, now: Instant, side: Side) -> bool {
        if self.ports[side].output.is_none() {
            return self.poll_send(cx, now, side);
        }
        let mut moved = false;
        while let Some(output) = &mut self.ports[side].output
            && let pending = self.relay.pending(side)
            && !pending.is_empty()
            && let Poll::Ready(written) = output.poll_write(cx, pending)
        {
            moved = true;
            match written {
                Ok(written) => self.handle_written(now, side, written),
                Err(_) => self.handle_write_closed(now, side),
            }
        }
        moved
    }

    /// Handles a side that has taken so many bytes.
    fn handle_written(&mut self, now: Instant, side: Side, written: usize) {
        self.relay.handle_written(now, side, written);
        match side {
            Side::Client => self.shutdown.handle_client_read(now),
            Side::Server => self.shutdown.handle_server_read(now),
        }
    }

    /// Handles a side that cannot be written to any more.
    fn handle_write_closed(&mut self, now: Instant, side: Side) {
        match side {
            Side::Client => self.handle_client_gone(now, EndReason::ReaderGone),
            Side::Server => {
                self.ports.server.output = None;
                self.ports.server.messages = None;
                if !self.may_replace_server()
                    && (self.server.restarts.is_none() || self.relay.restart_obstacle().is_some())
                {
                    self.relay.handle_write_closed(now, Side::Server);
                }
                // Perhaps it is about to exit.
                self.shutdown.handle_server_silent(now);
            }
        }
    }

    fn handle_events(&mut self, now: Instant) {
        while let Some(event) = self.relay.poll_event() {
            match &event {
                RelayEvent::GivenUp { side, .. } => {
                    self.is_output_lost |= *side == Side::Client;
                    self.shutdown.begin(now, EndReason::Unread(*side));
                    self.handle_write_closed(now, *side);
                }
                // Only the server is ours to end.
                RelayEvent::Stuck { request: RequestKey { from: Side::Client, .. }, .. }
                    if self.observer.kills_stuck() =>
                {
                    self.terminate(now, EndReason::Stuck);
                }
                RelayEvent::Silenced { from, id } => {
                    if let Some(messages) = &mut self.ports[*from].messages {
                        messages.handle_silenced(id);
                    }
                }
                RelayEvent::Cancel(CancelNotice { from, id: Some(id), verdict, .. }) => {
                    self.tell_fate(*from, id, CancelFate::of_verdict(*verdict));
                }
                RelayEvent::Receipt { request, id, receipt, .. } => {
                    if let Some(turns) = &mut self.server.turns {
                        turns.handle_receipt(now, *request, receipt.outcome);
                        self.admin.handle_turn_processes(turns, &[]);
                    }
                    self.tell_fate(request.from, id, CancelFate::of_outcome(receipt.outcome));
                }
                RelayEvent::Stuck { .. }
                | RelayEvent::Opened { .. }
                | RelayEvent::PartOf { .. }
                | RelayEvent::Settled { .. }
                | RelayEvent::Cancel(_)
                | RelayEvent::Task { .. }
                | RelayEvent::TimedOut { .. }
                | RelayEvent::Late { .. }
                | RelayEvent::Rejected { .. }
                | RelayEvent::Violation { .. }
                | RelayEvent::Frame { .. } => {}
            }
            let in_flight = Sides::from_fn(|side| self.relay.in_flight(side));
            self.observer.handle_event(now, &event, in_flight);
        }
        self.admin.handle_ends(now, &mut self.relay);
        if let Some(turns) = &mut self.server.turns {
            while let Some(child) = self.relay.poll_stopped_child() {
                turns.handle_stopped_child(now, child);
                self.admin.handle_turn_processes(turns, &[]);
            }
        }
    }

    /// Has a stream of messages know what is known of a cancel that came on it.
    fn tell_fate(&mut self, side: Side, id: &RequestId, fate: Option<CancelFate>) {
        if let (Some(messages), Some(fate)) = (&mut self.ports[side].messages, fate) {
            messages.handle_cancel_fate(id, fate);
        }
    }
}
