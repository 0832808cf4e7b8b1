//! The loop that joins a client, a server and the relay machine between them.
//!
//! It makes no protocol decisions. Input goes to the machine, and what the machine
//! has for a side is written at once, before waiting for anything. A side that
//! does not read blocks only itself.

use std::{
    future::Future as _,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use memchr::memchr;
use rescind_proto::{
    id::RequestId,
    link::{CancelNotice, RequestKey},
    relay::{End, EndedServer, Relay, RelayConfig, RelayEvent},
    side::{Side, Sides},
    time::Instant,
};
use tokio::task::JoinHandle;

#[cfg(feature = "admin")]
use super::admin::Admin;
#[cfg(not(feature = "admin"))]
use super::no_admin::NoAdmin as Admin;
use super::{LinkEnd, observer::Observer, server_stderr::ServerStderr};
use crate::{
    alarm::Alarm,
    message_stream::{Arrival, CancelFate, Credentials, MessageStream},
    process::{
        Pipes,
        container::Container,
        ended_by::{EndReason, EndedBy},
        group::Group,
        presence::Presence,
        restarts::Restarts,
        shutdown::{Remaining, Shutdown, ShutdownLimits, ShutdownStep},
        signals::{Signal, SignalEvent, Signals},
        starter::Starter,
        turn_processes::TurnProcesses,
    },
    stdio::{Descriptor, Input, Output},
};

/// The initial size of the read buffer: what a pipe holds.
const BUFFER: usize = 64 * 1024;

/// What the read buffer and the pipes grow to when large messages pass, which saves the kernel a fifth of its work. More
/// gains nothing, and the pipes of a user share a limit.
const LARGE_BUFFER: usize = 256 * 1024;

/// The most to read from the pipe of a server that has exited: what the largest pipe holds.
const MAX_LEFT_BEHIND: usize = 1024 * 1024;

/// A running link.
pub(crate) struct Drive {
    origin: std::time::Instant,
    relay: Relay,
    ports: Sides<Port>,
    shutdown: Shutdown,
    limits: ShutdownLimits,
    /// The server's process, if it is one.
    group: Option<Group>,
    /// What the server has started that is no process of its group. Dropped after that.
    container: Option<Container>,
    /// How another one is started in its place, if that can be.
    starter: Option<Starter>,
    /// When another one is started after its end, if that is wanted (D64).
    restarts: Option<Restarts>,
    /// What the server writes to stderr, if that is not our own.
    stderr: Option<ServerStderr>,
    /// What ends the processes that cancelled requests have left, if that is wanted.
    turns: Option<TurnProcesses>,
    /// Its last lines are for the client, too.
    stderr_in_errors: bool,
    /// The server's program, as its user named it, until its end is told.
    program: Option<String>,
    /// Why it could not be started, if it was not.
    unstarted: Option<String>,
    /// How the server ended, where that is not told before it is known whether another takes its place.
    untold: Option<End>,
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

/// The server's process.
#[derive(Default)]
pub(crate) struct Process {
    pub(crate) group: Option<Group>,
    pub(crate) container: Option<Container>,
    pub(crate) starter: Option<Starter>,
    pub(crate) stderr: Option<ServerStderr>,
    pub(crate) turns: Option<TurnProcesses>,
    pub(crate) stderr_in_errors: bool,
    /// The program, as its user named it.
    pub(crate) program: Option<String>,
}

/// The descriptors of one side, or the stream that it has in their place: each `None` once it has ended.
#[derive(Default)]
pub(crate) struct Port {
    input: Option<Input>,
    output: Option<Output>,
    messages: Option<Box<dyn MessageStream>>,
    /// Detects that the client is gone.
    presence: Option<Presence>,
    /// Its pipe, and the one its bytes go to, were made larger.
    widened: bool,
}

impl Port {
    /// The server's pipes, and its stderr, which is read from now on.
    pub(crate) fn to_server(pipes: Pipes, stderr_in_errors: bool) -> (Self, Option<ServerStderr>) {
        let stderr = pipes.stderr.map(|stderr| ServerStderr::read(stderr, stderr_in_errors));
        (Self::new(pipes.stdout, pipes.stdin), stderr)
    }

    /// The client's streams, whatever they are.
    pub(crate) fn to_client(input: Descriptor, output: Descriptor) -> io::Result<Self> {
        let presence = Presence::of(&output)?;
        Ok(Self { presence: Some(presence), ..Self::new(Input::inherited(input)?, Output::inherited(output)?) })
    }

    /// A stream of messages.
    pub(crate) fn to_messages(mut stream: Box<dyn MessageStream>, max_message: usize) -> Self {
        stream.limit(max_message);
        Self { messages: Some(stream), ..Self::default() }
    }

    fn new(input: Input, output: Output) -> Self {
        Self { input: Some(input), output: Some(output), ..Self::default() }
    }
}

impl Drive {
    pub(crate) fn new(
        origin: std::time::Instant,
        (config, limits): (RelayConfig, ShutdownLimits),
        ports: Sides<Port>,
        Process { group, container, starter, stderr, stderr_in_errors, turns, program }: Process,
        signals: Signals,
        observer: Observer,
        mut admin: Admin,
    ) -> Self {
        if let Some(turns) = &turns {
            admin.handle_turn_processes(turns, &[]);
        }
        let restarts = config.restart.then(|| Restarts::new(Instant::after_origin(origin.elapsed())));
        Self {
            origin,
            relay: super::relay(config, origin),
            ports,
            shutdown: Shutdown::new(limits),
            limits,
            group,
            container,
            starter,
            restarts,
            stderr,
            turns,
            stderr_in_errors,
            program,
            unstarted: None,
            untold: None,
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

    /// Handles a server that could not be started: the link is over once its client knows.
    #[cold]
    pub(crate) fn handle_unstarted(&mut self, why: &io::Error) {
        self.unstarted = Some(why.to_string());
        self.check_server(self.now());
    }

    /// Runs until both sides have ended, and returns how.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<LinkEnd> {
        loop {
            let mut now = self.now();
            let mut moved = self.poll_signals(cx, now);
            if !self.shutdown.has_exited()
                && let Some(group) = &mut self.group
                && group.poll_exit(cx).is_ready()
            {
                self.check_server(now);
                moved = true;
            }
            if self.admin.poll(now, &mut self.relay) {
                moved = true;
                self.handle_order(now);
            }
            if self.poll_sides(cx, now) {
                // Events are of the time of the bytes that led to them.
                self.handle_events(now);
                self.note_greeting(now);
                // Mostly there is no more: then the rest is done once, and not once for each look.
                now = self.now();
                moved |= self.poll_sides(cx, now);
            }
            self.handle_events(now);
            moved |= self.poll_turns(cx, now);
            if self.restarts.is_some() && self.poll_restart(now) {
                continue;
            }
            loop {
                let open = self.open(cx);
                let Some(step) = self.shutdown.next(now, open) else { break };
                moved = true;
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
            let turns = self.turns.as_ref().and_then(TurnProcesses::deadline);
            let restart = self.restarts.as_ref().and_then(Restarts::due);
            let due = [self.relay.poll_timeout(), self.shutdown.deadline(), turns, restart];
            let due = due.into_iter().flatten().min();
            if self.alarm.poll(cx, self.origin, due).is_pending() {
                self.observer.handle_idle(self.relay.dialect(Side::Client));
                self.admin.handle_idle(cx, &self.relay);
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
        let Self { mut relay, group, container, ports, stderr, turns, mut observer, mut admin, origin, .. } = self;
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
        let Some(turns) = &mut self.turns else { return false };
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
                    } else if self.group.is_some() {
                        self.signal_server(now, signal);
                    } else if asks {
                        self.signal_server(now, Signal::TERM);
                    }
                }
                SignalEvent::PassedOn(signal) => {
                    self.check_server(now);
                    self.group.iter().for_each(|group| group.pass_on(signal));
                    self.shutdown.handle_passed_on(signal);
                }
                SignalEvent::Child => self.check_server(now),
                SignalEvent::Continued => self.group.iter_mut().for_each(Group::handle_continued),
            }
            moved = true;
        }
        moved
    }

    /// Ends the server if an operator has just ordered it.
    #[cold]
    fn handle_order(&mut self, now: Instant) {
        if self.admin.receive_end_order() {
            // First notice a server that has already exited: this order did not end it.
            self.check_server(now);
            if !self.stop_restarting(now, Some(EndedBy::Shim(EndReason::Operator))) {
                self.terminate(now, EndReason::Operator);
            }
            // Also where the ladder had begun for another reason, or the server has exited.
            self.restarts.iter_mut().for_each(Restarts::forbid);
        }
    }

    /// Has the ladder begin with SIGTERM.
    fn terminate(&mut self, now: Instant, reason: EndReason) {
        self.signal_server(now, Signal::TERM);
        self.shutdown.handle_terminated(now, reason);
    }

    fn check_server(&mut self, now: Instant) {
        if self.is_between_servers() {
            return;
        }
        let ended = match &mut self.group {
            Some(group) => group.ended(),
            None => self.ports.server.messages.is_none().then_some(End::Closed),
        };
        if let (Some(how), Some(container)) = (&ended, &mut self.container) {
            container.begin(how);
        }
        if !self.shutdown.has_exited()
            && let Some(how) = ended
        {
            self.shutdown.handle_server_exit(now, how.clone());
            if self.may_replace_server() {
                self.untold = Some(how);
            } else {
                self.observer.handle_exit(now, &how, self.shutdown.ended_by());
            }
        } else if let Some(suspended) = self.group.as_mut().and_then(Group::handle_stop) {
            self.observer.handle_suspended(suspended);
        }
    }

    /// Reads and writes each side once.
    fn poll_sides(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut moved = false;
        for side in Side::BOTH {
            moved |= self.poll_input(cx, now, side);
            // Written before the next read: an answer must not wait for what comes after it.
            moved |= self.poll_output(cx, now, side.other());
            moved |= self.poll_output(cx, now, side);
        }
        moved
    }

    /// Reads one side once, if it is wanted.
    fn poll_input(&mut self, cx: &mut Context<'_>, now: Instant, side: Side) -> bool {
        if !self.relay.wants_input(side) || self.observer.poll_ready(cx).is_pending() {
            return false;
        }
        let Some(input) = &mut self.ports[side].input else {
            return self.poll_messages(cx, now, side);
        };
        match input.poll_read(cx, &mut self.buffer) {
            Poll::Pending => return false,
            Poll::Ready(Ok(read)) if read > 0 => {
                if side == Side::Server
                    && let Some(group) = &mut self.group
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
                    return false;
                }
                self.handle_input_end(now, side);
            }
        }
        true
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

    /// Takes what has come from a side that has no descriptors, as far as it is wanted.
    fn poll_messages(&mut self, cx: &mut Context<'_>, now: Instant, side: Side) -> bool {
        let mut moved = false;
        while self.relay.wants_input(side)
            && (side == Side::Server || self.pass_barrier())
            && let Some(messages) = &mut self.ports[side].messages
            && let Poll::Ready(arrival) = messages.poll_next(cx)
        {
            moved = true;
            match (arrival, side) {
                (
                    Ok(Some(
                        Arrival::Message(bytes)
                        | Arrival::Garbage(bytes)
                        | Arrival::Attached { message: bytes, .. }
                        | Arrival::Unanswered { answer: bytes, .. },
                    )),
                    _,
                ) => {
                    let mut line = Vec::from(bytes);
                    if line.last() != Some(&b'\n') {
                        line.push(b'\n');
                    }
                    self.admin.handle_input(now, &self.relay, side, &line);
                    self.relay.handle_input(now, side, &line);
                }
                (Ok(Some(Arrival::StreamClosed(id))), _) => self.relay.handle_stream_closed(now, side, &id),
                (Ok(Some(Arrival::Credentials(credentials))), Side::Client) => self.barrier = Some(credentials),
                // Nothing that it says is passed on under its name.
                (Ok(Some(Arrival::Credentials(_))), Side::Server) => {}
                (Ok(None) | Err(_), Side::Client) => {
                    self.relay.handle_disconnect(now, Side::Client);
                    self.handle_client_gone(now, EndReason::ReaderGone);
                }
                (Ok(None) | Err(_), Side::Server) => {
                    self.ports.server.messages = None;
                    self.handle_input_end(now, Side::Server);
                }
            }
        }
        let closes = match self.closing {
            Closing::No => false,
            Closing::WhenIdle => self.relay.awaited(Side::Client) == 0,
            Closing::Now => true,
        };
        if side == Side::Server && closes && self.relay.pending(Side::Server).is_empty() {
            moved |= self.poll_close(cx, now);
        }
        moved
    }

    /// Lets the server's stream know to whom what follows belongs, once it has taken all that was before; `false` until then.
    fn pass_barrier(&mut self) -> bool {
        if self.barrier.is_none() {
            return true;
        }
        if let Some(server) = &mut self.ports.server.messages {
            if !self.relay.pending(Side::Server).is_empty() {
                return false;
            }
            self.barrier.take().into_iter().for_each(|credentials| server.handle_credentials(credentials));
        }
        self.barrier = None;
        true
    }

    /// Closes the server's stream in order.
    fn poll_close(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let is_closed = self.ports.server.messages.as_mut().is_some_and(|messages| messages.poll_close(cx).is_ready());
        if is_closed {
            self.poll_departures(cx, now);
            self.ports.server.messages = None;
            self.check_server(now);
        }
        is_closed
    }

    /// Learns what has become of messages that the server's stream has taken.
    fn poll_departures(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let mut moved = false;
        while let Some(messages) = &mut self.ports.server.messages
            && let Poll::Ready(departure) = messages.poll_departure(cx)
        {
            self.relay.handle_departure(now, Side::Server, &departure);
            moved = true;
        }
        moved
    }

    /// Hands messages to a side that has no descriptors.
    fn poll_send(&mut self, cx: &mut Context<'_>, now: Instant, side: Side) -> bool {
        let mut moved = false;
        while let Some(messages) = &mut self.ports[side].messages {
            let pending = self.relay.pending(side);
            let Some(end) = memchr(b'\n', pending) else {
                // An error is that of the next message.
                let _ = messages.poll_flush(cx);
                break;
            };
            let Poll::Ready(sent) = messages.poll_send(cx, &pending[..end]) else { break };
            moved = true;
            match sent {
                Ok(()) => self.handle_written(now, side, end + 1),
                Err(_) => self.handle_write_closed(now, side),
            }
        }
        if side == Side::Server {
            moved |= self.poll_departures(cx, now);
        }
        moved
    }

    /// Asks the server to end, or ends it.
    fn signal_server(&mut self, now: Instant, signal: Signal) {
        self.container.iter_mut().for_each(|container| container.handle_signal(signal));
        match &mut self.group {
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
                if self.group.is_none() {
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
    fn poll_output(&mut self, cx: &mut Context<'_>, now: Instant, side: Side) -> bool {
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
                if !self.may_replace_server() && (self.restarts.is_none() || self.relay.restart_obstacle().is_some()) {
                    self.relay.handle_write_closed(now, Side::Server);
                }
                // Perhaps it is about to exit.
                self.shutdown.handle_server_silent(now);
            }
        }
    }

    /// Handles a client that can read no answers any more, whatever it may still send.
    fn handle_client_gone(&mut self, now: Instant, reason: EndReason) {
        if reason == EndReason::ReaderGone {
            self.close_client(now);
        }
        self.handle_input_end(now, Side::Client);
        self.shutdown.begin(now, reason);
    }

    fn close_client(&mut self, now: Instant) {
        self.ports.client.presence = None;
        self.ports.client.output = None;
        self.ports.client.messages = None;
        self.relay.handle_write_closed(now, Side::Client);
    }

    /// Reads the rest of the server's stdout, then ends the server's side of the relay.
    fn end_server(&mut self, cx: &mut Context<'_>, now: Instant, how: &End) {
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
        if let Some(how) = self.untold.take() {
            self.observer.handle_exit(now, &how, self.shutdown.ended_by());
        }
        if let Some(by) = self.shutdown.ended_by() {
            self.relay.note_ended_by(by.into());
        }
        self.note_ended_server();
        if self.may_restart() {
            self.lose_server(now, how);
        } else {
            self.relay.handle_eof(now, Side::Server, how);
        }
        self.handle_events(now);
    }

    /// Has the relay know what errors about the server's end say of it.
    fn note_ended_server(&mut self) {
        if let Some(program) = self.program.clone() {
            let stderr = self.stderr.as_ref().map(ServerStderr::last).unwrap_or_default();
            let unstarted = self.unstarted.take();
            self.relay.note_ended_server(EndedServer { program, unstarted, stderr });
        }
    }

    /// Whether the server that has ended is started again (D64).
    fn may_restart(&mut self) -> bool {
        if self.restarts.as_ref().is_none_or(Restarts::is_forbidden) || !self.shutdown.may_restart() {
            return false;
        }
        let obstacle = self.relay.restart_obstacle();
        obstacle.inspect(|why| self.observer.handle_not_restarted(why)).is_none()
    }

    /// The server is of no use any more, and another is to take its place: it is ended first if it still runs (D64).
    fn lose_server(&mut self, now: Instant, how: &End) {
        let was_of_use = !self.relay.awaits_server();
        self.relay.handle_server_lost(now, how);
        if self.group.is_some() && !self.shutdown.has_exited() {
            self.terminate(now, EndReason::Silent);
            self.restarts.iter_mut().for_each(|restarts| restarts.handle_silent(how.clone(), was_of_use));
        } else {
            self.await_restart(now, how, was_of_use);
        }
    }

    /// Has the link go on without a server for a while. What is left of the former one is killed.
    fn await_restart(&mut self, now: Instant, how: &End, was_of_use: bool) {
        self.ports.server = Port::default();
        self.group = None;
        self.shutdown = Shutdown::new(self.limits);
        self.untold = None;
        self.closing = Closing::No;
        self.admin.handle_server_gone();
        let Some(restarts) = &mut self.restarts else { return };
        let gives_up_waiting = restarts.handle_end(now, how.clone(), was_of_use);
        let wait = restarts.due().map(|at| at.since(now)).unwrap_or_default();
        self.observer.handle_restarting(how, wait);
        if gives_up_waiting {
            self.relay.handle_restart_failed(now);
        }
    }

    /// Does what is due to start the server again; whether anything was.
    #[cold]
    fn poll_restart(&mut self, now: Instant) -> bool {
        let Some(restarts) = &self.restarts else { return false };
        if let Some((how, was_of_use)) = restarts.ending() {
            if !self.shutdown.is_drained() {
                return false;
            }
            if self.shutdown.may_restart() && !restarts.is_forbidden() {
                self.await_restart(now, &how, was_of_use);
            } else {
                self.restarts = None;
                self.relay.handle_eof(now, Side::Server, &how);
            }
            return true;
        }
        if restarts.due().is_some() && !self.shutdown.is_relaying() {
            return self.stop_restarting(now, None);
        }
        if restarts.due().is_some_and(|at| at <= now) {
            self.start_again(now);
            return true;
        }
        if let Some(why) = self.relay.poll_restart_refused() {
            self.observer.handle_refused_restart(&why);
            self.ports.server = Port::default();
            self.group = None;
            self.unstarted = Some(format!("after it was started again, {why}"));
            self.end_restarts(now, None);
            return true;
        }
        false
    }

    fn start_again(&mut self, now: Instant) {
        let how = self.restarts.as_ref().and_then(Restarts::ended).cloned().unwrap_or(End::Closed);
        match self.starter.as_ref().map(Starter::start) {
            Some(Ok((group, pipes))) => {
                let count = self.restarts.as_mut().map_or(0, Restarts::handle_start);
                self.admin.handle_restarted(now, count);
                self.turns.iter_mut().for_each(|turns| turns.handle_restarted(now));
                self.adopt(group, pipes);
                self.observer.handle_restarted(now, count);
                self.relay.handle_server_restarted(now);
            }
            Some(Err(error)) => {
                self.unstarted = Some(error.to_string());
                self.note_ended_server();
                self.await_restart(now, &how, false);
            }
            None => _ = self.stop_restarting(now, None),
        }
        self.handle_events(now);
    }

    /// Notes when a server that was started again has answered the handshake: no process began for a request before.
    fn note_greeting(&mut self, now: Instant) {
        if let Some(restarts) = &mut self.restarts
            && !self.relay.awaits_server()
            && restarts.handle_greeted()
        {
            self.admin.handle_greeted(now);
            self.turns.iter_mut().for_each(|turns| turns.handle_greeted(now));
        }
    }

    /// Whether there is no server now, and another is to be started (D64).
    fn is_between_servers(&self) -> bool {
        self.restarts.as_ref().is_some_and(|restarts| restarts.due().is_some())
    }

    /// Starts no server any more, if there is none now: the link ends with the one that there was, because of `by` if
    /// somebody asked for it. Whether that was so.
    fn stop_restarting(&mut self, now: Instant, by: Option<EndedBy>) -> bool {
        let ends = self.is_between_servers();
        if ends {
            self.end_restarts(now, by);
        }
        ends
    }

    fn end_restarts(&mut self, now: Instant, by: Option<EndedBy>) {
        let how = self.restarts.take().and_then(|restarts| restarts.ended().cloned());
        self.shutdown = Shutdown::of_ended(self.limits, now, how.unwrap_or(End::Closed), by);
    }

    /// Whether another process is to take the place of a server that has ended or is about to: it ended by itself, of a
    /// question of ours.
    fn may_replace_server(&self) -> bool {
        self.starter.is_some() && self.shutdown.is_unasked() && self.relay.may_replace_server()
    }

    /// Starts the server again. What is left of the former one is killed.
    fn replace_server(&mut self, now: Instant) -> io::Result<()> {
        let Some(starter) = &self.starter else { return Err(io::ErrorKind::NotFound.into()) };
        self.ports.server = Port::default();
        self.group = None;
        let (group, pipes) = starter.start()?;
        self.adopt(group, pipes);
        self.relay.handle_server_replaced(now);
        Ok(())
    }

    /// Takes a server that was just started for the server of the link.
    fn adopt(&mut self, group: Group, pipes: Pipes) {
        self.admin.handle_replaced(&group);
        self.group = Some(group);
        (self.ports.server, self.stderr) = Port::to_server(pipes, self.stderr_in_errors);
        self.shutdown = Shutdown::new(self.limits);
        self.untold = None;
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
                    if let Some(turns) = &mut self.turns {
                        turns.handle_receipt(now, *request, receipt.outcome);
                        self.admin.handle_turn_processes(turns, &[]);
                    }
                    self.tell_fate(request.from, id, CancelFate::of_outcome(receipt.outcome));
                }
                RelayEvent::Stuck { .. }
                | RelayEvent::Opened { .. }
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
    }

    /// Has a stream of messages know what is known of a cancel that came on it.
    fn tell_fate(&mut self, side: Side, id: &RequestId, fate: Option<CancelFate>) {
        if let (Some(messages), Some(fate)) = (&mut self.ports[side].messages, fate) {
            messages.handle_cancel_fate(id, fate);
        }
    }

    fn open(&mut self, cx: &mut Context<'_>) -> Remaining {
        let mut owed = |side: Side| {
            let Some(output) = &mut self.ports[side].output else {
                return self.ports[side].messages.is_some() && !self.relay.pending(side).is_empty();
            };
            !self.relay.pending(side).is_empty() || output.poll_flush(cx).is_pending()
        };
        let (owed_server, owed_client) = (owed(Side::Server), owed(Side::Client));
        let stderr = self.stderr.as_mut().filter(|_| self.shutdown.has_exited());
        let has_stderr = stderr.is_some_and(|stderr| stderr.poll_end(cx).is_pending());
        Remaining {
            owed_server: owed_server || self.relay.awaits_server(),
            owed_client,
            server_output: self.ports.server.input.is_some() || self.ports.server.messages.is_some() || has_stderr,
            // It counts what is followed, and is asked only by a link that ends.
            in_flight: !self.shutdown.is_relaying() && self.relay.awaited(Side::Client) > 0,
            end_untold: self.ports.client.input.is_some() && self.relay.has_untold_end(),
            has_successor: self.restarts.as_ref().is_some_and(|restarts| restarts.ending().is_some()),
        }
    }
}
