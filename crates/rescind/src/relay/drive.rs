//! The loop that joins a client, a server and the relay machine between them.
//!
//! It decides nothing about the protocol. Bytes that arrive are handed to the
//! machine, and what the machine has for a side is written at once, before
//! anything is waited for. A side that does not read is left alone until it does;
//! the other side goes on.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    task::{Context, Poll},
};

use rescind_proto::{
    link::RequestKey,
    relay::{End, EndReason, Relay, RelayConfig, RelayEvent},
    side::{Side, Sides},
    time::Instant,
};
use rustix::process::Signal;

use super::{
    Ending,
    admin::Admin,
    alarm::Alarm,
    group::{Group, Pipes},
    lifecycle::{Lifecycle, Limits, Open, Step},
    observer::Observer,
    presence::Presence,
    signals::{Arrival, Signals},
};
use crate::stdio::{Input, Output};

/// The first size of the buffer that is read into: what a pipe holds.
const BUFFER: usize = 64 * 1024;

/// What it grows to, and the pipes on the way, when large messages pass: a fifth less work for the kernel. More
/// gains nothing, and what all pipes of a user may hold is limited.
const LARGE_BUFFER: usize = 256 * 1024;

/// The most that is read of what a server left in its pipe: what the largest pipe holds.
const LEFT_BEHIND: usize = 1024 * 1024;

/// A link at work.
#[derive(Debug)]
pub(crate) struct Drive {
    origin: std::time::Instant,
    relay: Relay,
    ports: Sides<Port>,
    lifecycle: Lifecycle,
    group: Group,
    signals: Signals,
    alarm: Alarm,
    observer: Observer,
    admin: Admin,
    buffer: Vec<u8>,
    /// The client was given up, and what it was owed is lost.
    is_cut_short: bool,
}

/// The descriptors of one side; what has ended is gone.
#[derive(Debug)]
pub(crate) struct Port {
    input: Option<Input>,
    output: Option<Output>,
    /// Shows that the client is gone.
    presence: Option<Presence>,
    /// Its pipe, and the one that its bytes go on to, were made larger.
    widened: bool,
}

impl Port {
    /// The server's pipes.
    pub(crate) fn to_server(pipes: Pipes) -> io::Result<Self> {
        Ok(Self::new(Input::own(pipes.stdout)?, Output::own(pipes.stdin)?))
    }

    /// The client's streams, whatever they are.
    pub(crate) fn to_client(input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        let presence = Presence::of(output.as_fd())?;
        Ok(Self { presence: Some(presence), ..Self::new(Input::inherited(input)?, Output::inherited(output)?) })
    }

    const fn new(input: Input, output: Output) -> Self {
        Self { input: Some(input), output: Some(output), presence: None, widened: false }
    }
}

impl Drive {
    pub(crate) fn new(
        origin: std::time::Instant,
        config: RelayConfig,
        ports: Sides<Port>,
        group: Group,
        signals: Signals,
        observer: Observer,
        admin: Admin,
    ) -> Self {
        Self {
            origin,
            relay: Relay::new(config),
            ports,
            lifecycle: Lifecycle::new(Limits::default()),
            group,
            signals,
            alarm: Alarm::new(),
            observer,
            admin,
            buffer: vec![0; BUFFER],
            is_cut_short: false,
        }
    }

    /// With other limits than usual for the steps of its end.
    pub(crate) fn within(self, limits: Limits) -> Self {
        Self { lifecycle: Lifecycle::new(limits), ..self }
    }

    /// Runs until both sides have ended; then says how.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        loop {
            let now = self.now();
            let mut moved = self.poll_signals(cx, now);
            moved |= self.admin.poll(now, &mut self.relay);
            for side in Side::BOTH {
                moved |= self.poll_input(cx, now, side);
                // Written before the next read: an answer must not wait for what comes after it.
                moved |= self.poll_output(cx, now, side.other());
                moved |= self.poll_output(cx, now, side);
            }
            self.handle_events(now);
            loop {
                let open = self.open(cx);
                let Some(step) = self.lifecycle.next(now, open) else { break };
                moved = true;
                match step {
                    Step::CloseStdin => self.ports.server.output = None,
                    Step::Terminate => self.group.signal(Signal::TERM),
                    Step::Kill => self.group.signal(Signal::KILL),
                    Step::EndServer(how) => self.end_server(cx, now, &how),
                    Step::CloseClient => self.close_client(now),
                    Step::Leave(server) => {
                        if open.owed_client {
                            self.relay.give_up(Side::Client);
                            self.handle_events(now);
                        }
                        return Poll::Ready(Ending { server, is_cut_short: self.is_cut_short });
                    }
                }
            }
            // Last, so that what a client said before it went has been read.
            if !moved
                && let Some(presence) = &mut self.ports.client.presence
                && let Poll::Ready(reason) = presence.poll_gone(cx)
            {
                self.handle_client_gone(now, reason);
                moved = true;
            }
            if moved {
                continue;
            }
            let due = [self.relay.poll_timeout(), self.lifecycle.deadline()].into_iter().flatten().min();
            if self.alarm.poll(cx, self.origin, due).is_pending() {
                self.observer.handle_idle();
                self.admin.handle_idle(cx, &self.relay);
                return Poll::Pending;
            }
            let now = self.now();
            self.relay.handle_timeout(now);
            self.look_after_server(now);
        }
    }

    /// Ends the work of those who watch; called once, at the end.
    pub(crate) async fn finish(self, how: &End) {
        let Self { mut relay, group, ports, mut observer, mut admin, origin, .. } = self;
        admin.handle_eof(Instant::after_origin(origin.elapsed()), &mut relay, how);
        drop(group);
        drop(ports);
        let spoken = Sides::from_fn(|side| relay.dialect(side));
        let broken = Sides::from_fn(|side| relay.violations(side));
        observer.finish(Instant::after_origin(origin.elapsed()), spoken, broken);
        admin.close().await;
    }

    fn now(&self) -> Instant {
        Instant::after_origin(self.origin.elapsed())
    }

    fn poll_signals(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut moved = false;
        while let Poll::Ready(arrival) = self.signals.poll(cx) {
            match arrival {
                Arrival::HandedOn(signal) => {
                    // A server that ended before was not ended by it.
                    self.look_after_server(now);
                    self.group.signal(signal);
                    self.lifecycle.signalled(now, signal);
                }
                Arrival::PassedOn(signal) => {
                    self.look_after_server(now);
                    self.group.pass_on(signal);
                    self.lifecycle.passed_on(signal);
                }
                Arrival::Child => self.look_after_server(now),
                Arrival::Continued => {
                    self.group.lend_terminal();
                }
            }
            moved = true;
        }
        moved
    }

    fn look_after_server(&mut self, now: Instant) {
        if !self.lifecycle.has_exited()
            && let Some(how) = self.group.ended()
        {
            self.lifecycle.server_exited(now, how.clone());
            self.observer.handle_exit(now, &how, self.lifecycle.ended_by());
        } else if let Some(signal) = self.group.stopped() {
            self.handle_stopped(signal);
        }
    }

    /// The server was stopped: it asked on the terminal, or a person stopped it there.
    fn handle_stopped(&mut self, signal: Signal) {
        match signal {
            Signal::TTIN | Signal::TTOU if !self.group.lend_terminal() => self.observer.handle_stopped(signal),
            // To the shell, which waits for this process and not for the server, the job is to be stopped.
            Signal::TSTP if self.group.take_terminal_back() => {
                let _ = rustix::process::kill_current_process_group(Signal::TSTP);
                self.group.signal(Signal::CONT);
            }
            // It was lent the terminal, or a person wants it stopped.
            _ => {}
        }
    }

    /// Reads one side once, if it is wanted.
    fn poll_input(&mut self, cx: &mut Context<'_>, now: Instant, side: Side) -> bool {
        if !self.relay.wants_input(side) || self.observer.poll_ready(cx).is_pending() {
            return false;
        }
        let Some(input) = &mut self.ports[side].input else { return false };
        match input.poll_read(cx, &mut self.buffer) {
            Poll::Pending => return false,
            Poll::Ready(Ok(read)) if read > 0 => {
                if side == Side::Server {
                    self.group.take_terminal_back();
                }
                self.admin.handle_input(now, &self.relay, side, &self.buffer[..read]);
                self.relay.handle_input(now, side, &self.buffer[..read]);
                if read == self.buffer.len() {
                    self.widen(side);
                }
            }
            // An error tells no more than an end: nothing will come.
            Poll::Ready(Ok(_) | Err(_)) => self.handle_input_end(now, side),
        }
        true
    }

    /// A read filled the buffer: large messages come from this side.
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
                self.relay.handle_eof(now, Side::Client, &End::Closed);
                self.lifecycle.client_ended();
                if let Some(presence) = &mut self.ports.client.presence {
                    presence.end_input();
                }
            }
            Side::Server => {
                self.look_after_server(now);
                self.lifecycle.server_silent(now);
            }
        }
    }

    /// Writes to one side as long as it takes something.
    fn poll_output(&mut self, cx: &mut Context<'_>, now: Instant, side: Side) -> bool {
        let Some(output) = &mut self.ports[side].output else { return false };
        let mut moved = false;
        loop {
            let pending = self.relay.pending(side);
            if pending.is_empty() {
                return moved;
            }
            match output.poll_write(cx, pending) {
                Poll::Pending => return moved,
                Poll::Ready(Ok(written)) => {
                    self.relay.handle_written(now, side, written);
                    match side {
                        Side::Client => self.lifecycle.client_read(now),
                        Side::Server => self.lifecycle.server_read(now),
                    }
                    moved = true;
                }
                Poll::Ready(Err(_)) => {
                    self.handle_write_closed(now, side);
                    return true;
                }
            }
        }
    }

    /// A side cannot be written to any more.
    fn handle_write_closed(&mut self, now: Instant, side: Side) {
        match side {
            Side::Client => self.handle_client_gone(now, EndReason::ReaderGone),
            Side::Server => {
                self.ports.server.output = None;
                self.relay.handle_write_closed(now, Side::Server);
                // It cannot be asked anything any more. Perhaps it is about to exit.
                self.lifecycle.server_silent(now);
            }
        }
    }

    /// No client waits for an answer any more, whatever it may still send.
    fn handle_client_gone(&mut self, now: Instant, reason: EndReason) {
        if reason == EndReason::ReaderGone {
            self.close_client(now);
        }
        self.handle_input_end(now, Side::Client);
        self.lifecycle.begin(now, reason);
    }

    fn close_client(&mut self, now: Instant) {
        self.ports.client.presence = None;
        self.ports.client.output = None;
        self.relay.handle_write_closed(now, Side::Client);
    }

    /// What is left in the server's stdout is read; then the relay is told that the server has ended.
    fn end_server(&mut self, cx: &mut Context<'_>, now: Instant, how: &End) {
        if let Some(mut input) = self.ports.server.input.take() {
            let mut left = LEFT_BEHIND;
            while left > 0
                && let Poll::Ready(Ok(read)) = input.poll_read(cx, &mut self.buffer)
                && read > 0
            {
                self.admin.handle_input(now, &self.relay, Side::Server, &self.buffer[..read]);
                self.relay.handle_input(now, Side::Server, &self.buffer[..read]);
                left = left.saturating_sub(read);
            }
        }
        if let Some(by) = self.lifecycle.ended_by() {
            self.relay.note_ended_by(by);
        }
        self.relay.handle_eof(now, Side::Server, how);
        self.handle_events(now);
    }

    fn handle_events(&mut self, now: Instant) {
        while let Some(event) = self.relay.poll_event() {
            match &event {
                RelayEvent::GivenUp { side, .. } => {
                    self.is_cut_short |= *side == Side::Client;
                    self.lifecycle.begin(now, EndReason::Unread(*side));
                    self.handle_write_closed(now, *side);
                }
                // A client that does not obey is not for us to end.
                RelayEvent::Stuck { request: RequestKey { from: Side::Client, .. }, .. }
                    if self.observer.kills_stuck() =>
                {
                    self.group.signal(Signal::TERM);
                    self.lifecycle.terminated(now, EndReason::Stuck);
                }
                RelayEvent::Stuck { .. }
                | RelayEvent::Opened { .. }
                | RelayEvent::Settled { .. }
                | RelayEvent::Cancel(_)
                | RelayEvent::Receipt { .. }
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
    }

    fn open(&mut self, cx: &mut Context<'_>) -> Open {
        let mut owed = |side: Side| {
            let Some(output) = &mut self.ports[side].output else { return false };
            !self.relay.pending(side).is_empty() || output.poll_flush(cx).is_pending()
        };
        Open {
            owed_server: owed(Side::Server),
            owed_client: owed(Side::Client),
            server_output: self.ports.server.input.is_some(),
            in_flight: self.relay.in_flight(Side::Client) > 0,
        }
    }
}
