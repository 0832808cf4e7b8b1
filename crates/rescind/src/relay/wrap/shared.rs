//! What the halves, the handles and the driver share: one machine behind one lock.
//!
//! The lock is held for one step of the machine and never across an await. After each step, with the lock free, the
//! tasks that have something to do are woken.
//!
//! The program's halves work on the machine directly, so a message costs one hop, and the driver does what needs the
//! connection or the clock. What the program writes is taken whole or not at all, so that a write given up is never half a
//! frame. In one thing this is more than a relay: together with its library it is an endpoint, so the end of its client
//! cancels what the client asked (D27), which a shim leaves to the server.

use std::{
    sync::{Mutex, PoisonError},
    task::{Context, Waker},
    time::Duration,
};

use rescind_proto::{
    relay::{End, Relay, RelayConfig, RelayEvent},
    side::Side,
    time::Instant,
};
use tokio::sync::Notify;

/// Time for the peer to read what it is owed after the program has dropped both halves.
const LINGER: Duration = Duration::from_secs(5);

/// The most events that wait for the driver before the program's output is paused. Bad input adds events, not backlog.
const MAX_EVENTS: usize = 4096;

#[derive(Debug)]
pub(super) struct SharedLink {
    /// The start of the link's clock.
    pub(super) origin: std::time::Instant,
    /// The driver has ended.
    pub(super) closed: Notify,
    link: Mutex<WrappedLink>,
}

/// The machine, and the state of the four ends around it.
#[derive(Debug)]
pub(super) struct WrappedLink {
    pub(super) relay: Relay,
    /// The side that the wrapped program plays.
    program: Side,
    /// Events for the driver to emit.
    events: Vec<RelayEvent>,
    program_ends: ProgramEnds,
    pub(super) peer: PeerEnds,
    /// How long a server may work on after its client's end.
    drain_on_eof: Duration,
    /// The latest time at which the driver's alarm wakes it.
    alarm: Option<Instant>,
    /// The driver has not been dropped.
    pub(super) driven: bool,
    /// A change that only the driver can act on.
    needs_driver: bool,
    wakers: Wakers,
}

/// The program's ends.
#[derive(Debug)]
struct ProgramEnds {
    /// The reader has not been dropped.
    reads: bool,
    /// The writer has been neither dropped nor shut down.
    writes: bool,
    /// The reader has returned its end.
    is_eof_delivered: bool,
    /// Once both halves are gone: when to stop waiting for the peer.
    linger: Option<Instant>,
}

/// The peer's ends.
#[derive(Debug)]
pub(super) struct PeerEnds {
    input: PeerInput,
    /// The connection's writer is open.
    pub(super) reads: bool,
    /// The driver waits for the connection's writer, which will wake it.
    pub(super) blocked: bool,
}

/// What may still come from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PeerInput {
    Open,
    /// The driver leaves it unread until the program has read more (D13).
    Paused,
    /// A client has closed its end; its server may work until then.
    Draining(Instant),
    /// Everything has been passed on.
    Ended,
}

#[derive(Debug, Default)]
struct Wakers {
    reader: Option<Waker>,
    writer: Option<Waker>,
    driver: Option<Waker>,
}

impl SharedLink {
    pub(super) fn new(link: WrappedLink) -> Self {
        Self { origin: clock(), closed: Notify::new(), link: Mutex::new(link) }
    }

    /// Performs one step with the link, then wakes the tasks it concerns with the lock free.
    pub(super) fn with<T>(&self, step: impl FnOnce(&mut WrappedLink, Instant) -> T) -> T {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock, so that the machine's time never runs backwards.
        let now = Instant::after_origin(clock().saturating_duration_since(self.origin));
        let done = step(&mut link, now);
        let woken = link.wakers_due(now);
        drop(link);
        woken.into_iter().flatten().for_each(Waker::wake);
        done
    }
}

impl WrappedLink {
    pub(super) fn new(config: RelayConfig, program: Side, drain_on_eof: Duration) -> Self {
        Self {
            relay: crate::relay::relay(config, clock()),
            program,
            events: Vec::new(),
            program_ends: ProgramEnds { reads: true, writes: true, is_eof_delivered: false, linger: None },
            peer: PeerEnds { input: PeerInput::Open, reads: true, blocked: false },
            drain_on_eof,
            alarm: None,
            driven: true,
            needs_driver: false,
            wakers: Wakers::default(),
        }
    }

    /// Returns the wakers of the tasks that a step concerns.
    fn wakers_due(&mut self, now: Instant) -> [Option<Waker>; 3] {
        self.collect_events(now);
        let reader = self.can_read_or_end();
        let writer = self.takes_output() || self.is_broken();
        let driver = self.wants_driver();
        let Wakers { reader: read, writer: write, driver: drive } = &mut self.wakers;
        [read.take_if(|_| reader), write.take_if(|_| writer), drive.take_if(|_| driver)]
    }

    /// Handles expired timers.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        // The driver is running and needs no waking.
        self.wakers.driver = None;
        self.needs_driver = false;
        self.relay.handle_timeout(now);
        self.end_drain_if_due(now);
        if self.peer.reads && self.program_ends.linger.is_some_and(|linger| linger <= now) {
            self.handle_write_closed(now);
        }
    }

    /// Returns the events since the last call.
    pub(super) fn drain_events(&mut self, now: Instant) -> Vec<RelayEvent> {
        self.collect_events(now);
        std::mem::take(&mut self.events)
    }

    fn collect_events(&mut self, now: Instant) {
        while let Some(event) = self.relay.poll_event() {
            if let RelayEvent::GivenUp { side, .. } = event {
                if side == self.program { self.handle_program_given_up(now) } else { self.handle_write_closed(now) }
            }
            self.events.push(event);
        }
    }

    /// Copies pending bytes to the program; `None` if it has to wait.
    pub(super) fn read(&mut self, now: Instant, cx: &Context<'_>, buf: &mut tokio::io::ReadBuf<'_>) -> Option<()> {
        let before = buf.filled().len();
        while buf.remaining() > 0 {
            let pending = self.relay.pending(self.program);
            if pending.is_empty() {
                break;
            }
            let taken = pending.len().min(buf.remaining());
            buf.put_slice(&pending[..taken]);
            self.relay.handle_written(now, self.program, taken);
        }
        if buf.filled().len() > before || buf.remaining() == 0 {
            return Some(());
        }
        if self.is_at_end() {
            self.program_ends.is_eof_delivered = true;
            return Some(());
        }
        self.wakers.reader = Some(cx.waker().clone());
        None
    }

    /// Takes all the bytes or none, so that a dropped write never leaves half a message.
    pub(super) fn write(&mut self, now: Instant, cx: &Context<'_>, bytes: &[u8]) -> Option<std::io::Result<usize>> {
        if self.is_broken() {
            return Some(Err(std::io::ErrorKind::BrokenPipe.into()));
        }
        if !self.takes_output() {
            self.wakers.writer = Some(cx.waker().clone());
            return None;
        }
        self.relay.handle_input(now, self.program, bytes);
        Some(Ok(bytes.len()))
    }

    /// Handles a dropped reader.
    pub(super) fn handle_reader_dropped(&mut self, now: Instant) {
        self.program_ends.reads = false;
        self.relay.handle_write_closed(now, self.program);
        self.needs_driver = true;
        self.begin_linger(now);
    }

    /// Handles a writer that was shut down or dropped.
    pub(super) fn handle_writer_closed(&mut self, now: Instant) {
        if !std::mem::take(&mut self.program_ends.writes) {
            return;
        }
        self.relay.handle_eof(now, self.program, &End::Closed);
        self.needs_driver = true;
        self.begin_linger(now);
    }

    fn begin_linger(&mut self, now: Instant) {
        if !self.program_ends.reads && !self.program_ends.writes {
            self.program_ends.linger = Some(now + LINGER);
        }
    }

    /// Whether the connection is to be read.
    pub(super) fn wants_peer(&mut self) -> bool {
        if let PeerInput::Draining(_) | PeerInput::Ended = self.peer.input {
            return false;
        }
        let wanted = self.relay.wants_input(self.program.other());
        self.peer.input = if wanted { PeerInput::Open } else { PeerInput::Paused };
        wanted
    }

    /// Handles bytes from the connection; an empty slice is its end.
    pub(super) fn handle_peer_input(&mut self, now: Instant, bytes: &[u8]) {
        if bytes.is_empty() {
            self.handle_peer_eof(now);
        } else {
            self.relay.handle_input(now, self.program.other(), bytes);
        }
    }

    /// Bytes that wait for the peer.
    pub(super) fn pending_for_peer(&self) -> &[u8] {
        self.relay.pending(self.program.other())
    }

    /// Handles bytes written to the peer.
    pub(super) fn handle_peer_read(&mut self, now: Instant, bytes: usize) {
        self.relay.handle_written(now, self.program.other(), bytes);
        if let Some(linger) = &mut self.program_ends.linger {
            *linger = now + LINGER;
        }
    }

    /// Handles the end of the connection's reader.
    fn handle_peer_eof(&mut self, now: Instant) {
        if matches!(self.peer.input, PeerInput::Draining(_) | PeerInput::Ended) {
            return;
        }
        self.relay.handle_eof(now, self.program.other(), &End::Closed);
        // A server's end has ended its client's requests (D35). After a client's end the server may get time.
        self.peer.input = match self.program {
            Side::Client => PeerInput::Ended,
            Side::Server => PeerInput::Draining(now + self.drain_on_eof),
        };
        self.end_drain_if_due(now);
    }

    /// Disconnects a client that has closed its end, once its server's time is up or nothing is in flight.
    fn end_drain_if_due(&mut self, now: Instant) {
        if let PeerInput::Draining(until) = self.peer.input
            && (until <= now || self.relay.awaited(Side::Client) == 0)
        {
            self.relay.handle_disconnect(now, Side::Client);
            self.peer.input = PeerInput::Ended;
        }
    }

    /// Handles a failed writer, or a peer that was given up (D13).
    pub(super) fn handle_write_closed(&mut self, now: Instant) {
        self.peer.reads = false;
        self.relay.handle_write_closed(now, self.program.other());
        if self.program == Side::Server {
            // The client can read no answer any more, so it counts as gone, whatever it may still send.
            self.handle_peer_disconnect(now);
        }
    }

    /// Handles a peer that is gone in both directions.
    fn handle_peer_disconnect(&mut self, now: Instant) {
        self.handle_peer_eof(now);
        if let PeerInput::Draining(until) = &mut self.peer.input {
            *until = now;
        }
        self.end_drain_if_due(now);
    }

    /// Handles a program that has read nothing for too long (D13).
    fn handle_program_given_up(&mut self, now: Instant) {
        self.program_ends.is_eof_delivered = true;
        self.handle_reader_dropped(now);
        self.handle_writer_closed(now);
    }

    /// Handles a dropped driver, and with it a closed connection.
    pub(super) fn handle_driver_dropped(&mut self, now: Instant) {
        self.driven = false;
        self.peer.reads = false;
        self.relay.handle_write_closed(now, self.program.other());
        self.handle_peer_disconnect(now);
    }

    /// When the driver must run next if nothing else happens.
    pub(super) fn due(&self) -> Option<Instant> {
        let drain = match self.peer.input {
            PeerInput::Draining(until) => Some(until),
            PeerInput::Open | PeerInput::Paused | PeerInput::Ended => None,
        };
        let linger = self.program_ends.linger.filter(|_| self.peer.reads);
        [self.relay.poll_timeout(), drain, linger].into_iter().flatten().min()
    }

    /// Whether the connection's writer can be closed: everything for the peer is written.
    pub(super) fn is_finished(&self) -> bool {
        let nothing_comes = match self.program {
            Side::Client => !self.program_ends.writes || self.peer.input == PeerInput::Ended,
            Side::Server => !self.program_ends.writes,
        };
        self.peer.reads && nothing_comes && self.relay.pending(self.program.other()).is_empty()
    }

    /// Whether the driver has nothing left to do.
    pub(super) fn is_over(&self) -> bool {
        !self.peer.reads && (!self.program_ends.reads || self.is_at_end())
    }

    /// Registers the driver's waker, its alarm being set to `alarm`; `false` if there is work to do first.
    pub(super) fn park_driver(&mut self, cx: &Context<'_>, alarm: Option<Instant>) -> bool {
        self.alarm = alarm;
        if self.wants_driver() {
            return false;
        }
        self.wakers.driver = Some(cx.waker().clone());
        true
    }

    fn wants_driver(&self) -> bool {
        let peer = self.program.other();
        let flows = !self.peer.blocked && self.peer.reads && !self.relay.pending(peer).is_empty();
        let resumes = self.peer.input == PeerInput::Paused && self.relay.wants_input(peer);
        let sooner = self.due().is_some_and(|due| self.alarm.is_none_or(|alarm| due < alarm));
        flows || resumes || sooner || self.needs_driver || !self.events.is_empty()
    }

    fn can_read_or_end(&self) -> bool {
        !self.relay.pending(self.program).is_empty() || self.is_at_end()
    }

    /// Whether nothing follows what waits for the program.
    fn is_at_end(&self) -> bool {
        self.program_ends.is_eof_delivered
            || self.peer.input == PeerInput::Ended
            || (self.program == Side::Server && !self.program_ends.writes)
    }

    fn takes_output(&self) -> bool {
        self.relay.wants_input(self.program) && self.events.len() < MAX_EVENTS
    }

    /// Whether writes of the program are pointless: they reach neither the peer, nor the program itself as an answer.
    fn is_broken(&self) -> bool {
        let unanswered = self.program == Side::Server || self.program_ends.is_eof_delivered || !self.program_ends.reads;
        !self.driven || !self.program_ends.writes || (!self.peer.reads && unanswered)
    }
}

/// tokio's clock, so that a test that pauses it controls this one.
fn clock() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}
