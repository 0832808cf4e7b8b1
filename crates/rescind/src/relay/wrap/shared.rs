//! What the halves, the handles and the driver share: one machine behind one lock.
//!
//! The lock is taken for one step of the machine and never across an await. Whoever has changed something wakes
//! the others after the lock is free again; nobody is woken for nothing.

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

/// How long, after the program has let go of both halves, the peer may leave unread what it is still owed.
const LINGER: Duration = Duration::from_secs(5);

/// Events that wait for the driver before the program's output is paused: bad input makes events, not debt.
const MAX_EVENTS: usize = 4096;

#[derive(Debug)]
pub(super) struct Shared {
    /// The start of the link's clock.
    pub(super) origin: std::time::Instant,
    /// The driver has ended.
    pub(super) closed: Notify,
    link: Mutex<Link>,
}

/// The machine and what the driver knows of the four ends around it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) relay: Relay,
    /// The side that the wrapped program plays.
    program: Side,
    /// What the driver has to tell.
    events: Vec<RelayEvent>,
    halves: Halves,
    pub(super) peer: Peer,
    /// How long a server may go on after its client's end.
    drain_on_eof: Duration,
    /// When the driver's alarm rings, at the latest.
    alarm: Option<Instant>,
    /// The driver lives.
    driven: bool,
    /// Something that only the driver can act on has changed.
    nudged: bool,
    wakers: Wakers,
}

/// The program's ends.
#[derive(Debug)]
struct Halves {
    /// The reader is held.
    reads: bool,
    /// The writer is held and was not shut down.
    writes: bool,
    /// The reader was told of the end.
    told: bool,
    /// Since both halves are gone: when the peer is not waited for any more.
    linger: Option<Instant>,
}

/// The peer's ends.
#[derive(Debug)]
pub(super) struct Peer {
    input: Input,
    /// The connection's writer is open.
    pub(super) reads: bool,
    /// The driver waits for the connection's writer, which will wake it.
    pub(super) blocked: bool,
}

/// What still comes from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Open,
    /// The driver leaves it unread until the program has read more (D13).
    Paused,
    /// A client has closed its end; its server may go on until then.
    Draining(Instant),
    /// Everything was passed on.
    Ended,
}

#[derive(Debug, Default)]
struct Wakers {
    reader: Option<Waker>,
    writer: Option<Waker>,
    driver: Option<Waker>,
}

impl Shared {
    pub(super) fn new(link: Link) -> Self {
        Self { origin: clock(), closed: Notify::new(), link: Mutex::new(link) }
    }

    /// Does one step with the link, and wakes whom it concerns after the lock is free.
    pub(super) fn with<T>(&self, step: impl FnOnce(&mut Link, Instant) -> T) -> T {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        // Asked under the lock: the machine's time never runs backwards.
        let now = Instant::after_origin(clock().saturating_duration_since(self.origin));
        let done = step(&mut link, now);
        let woken = link.concerned(now);
        drop(link);
        woken.into_iter().flatten().for_each(Waker::wake);
        done
    }
}

impl Link {
    pub(super) fn new(config: RelayConfig, program: Side, drain_on_eof: Duration) -> Self {
        Self {
            relay: Relay::new(config),
            program,
            events: Vec::new(),
            halves: Halves { reads: true, writes: true, told: false, linger: None },
            peer: Peer { input: Input::Open, reads: true, blocked: false },
            drain_on_eof,
            alarm: None,
            driven: true,
            nudged: false,
            wakers: Wakers::default(),
        }
    }

    /// Whose turn it is after a step.
    fn concerned(&mut self, now: Instant) -> [Option<Waker>; 3] {
        self.collect_events(now);
        let reader = self.can_read_or_end();
        let writer = self.takes_output() || self.is_broken();
        let driver = self.wants_driver();
        let Wakers { reader: read, writer: write, driver: drive } = &mut self.wakers;
        [read.take_if(|_| reader), write.take_if(|_| writer), drive.take_if(|_| driver)]
    }

    /// Does what is due.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        // The driver is at work: nobody needs to wake it.
        self.wakers.driver = None;
        self.nudged = false;
        self.relay.handle_timeout(now);
        self.end_drain_if_due(now);
        if self.peer.reads && self.halves.linger.is_some_and(|linger| linger <= now) {
            self.peer_deaf(now);
        }
    }

    /// What the driver has to tell since it last asked.
    pub(super) fn take_events(&mut self, now: Instant) -> Vec<RelayEvent> {
        self.collect_events(now);
        std::mem::take(&mut self.events)
    }

    fn collect_events(&mut self, now: Instant) {
        while let Some(event) = self.relay.poll_event() {
            if let RelayEvent::GivenUp { side, .. } = event {
                if side == self.program { self.program_given_up(now) } else { self.peer_deaf(now) }
            }
            self.events.push(event);
        }
    }

    /// Copies to the program what waits for it; `None` where it has to wait.
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
            self.halves.told = true;
            return Some(());
        }
        self.wakers.reader = Some(cx.waker().clone());
        None
    }

    /// Takes all the program writes, or nothing: a write that is given up is never half a message of what it held.
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

    /// The program has dropped its reader.
    pub(super) fn reader_gone(&mut self, now: Instant) {
        self.halves.reads = false;
        self.relay.handle_write_closed(now, self.program);
        self.nudged = true;
        self.begin_linger(now);
    }

    /// The program has shut its writer down, or dropped it.
    pub(super) fn writer_gone(&mut self, now: Instant) {
        if !std::mem::take(&mut self.halves.writes) {
            return;
        }
        self.relay.handle_eof(now, self.program, &End::Closed);
        self.nudged = true;
        self.begin_linger(now);
    }

    fn begin_linger(&mut self, now: Instant) {
        if !self.halves.reads && !self.halves.writes {
            self.halves.linger = Some(now + LINGER);
        }
    }

    /// Whether the connection is to be read.
    pub(super) fn wants_peer(&mut self) -> bool {
        if let Input::Draining(_) | Input::Ended = self.peer.input {
            return false;
        }
        let wanted = self.relay.wants_input(self.program.other());
        self.peer.input = if wanted { Input::Open } else { Input::Paused };
        wanted
    }

    /// Bytes from the connection; none are its end.
    pub(super) fn peer_said(&mut self, now: Instant, bytes: &[u8]) {
        if bytes.is_empty() {
            self.peer_ended(now);
        } else {
            self.relay.handle_input(now, self.program.other(), bytes);
        }
    }

    /// What waits for the peer.
    pub(super) fn pending_for_peer(&self) -> &[u8] {
        self.relay.pending(self.program.other())
    }

    /// The peer took some of what it is owed.
    pub(super) fn peer_read(&mut self, now: Instant, bytes: usize) {
        self.relay.handle_written(now, self.program.other(), bytes);
        if let Some(linger) = &mut self.halves.linger {
            *linger = now + LINGER;
        }
    }

    /// The connection's reader has ended.
    fn peer_ended(&mut self, now: Instant) {
        if matches!(self.peer.input, Input::Draining(_) | Input::Ended) {
            return;
        }
        self.relay.handle_eof(now, self.program.other(), &End::Closed);
        // A server's end has ended its requests (D35); a client's may be given time.
        self.peer.input = match self.program {
            Side::Client => Input::Ended,
            Side::Server => Input::Draining(now + self.drain_on_eof),
        };
        self.end_drain_if_due(now);
    }

    /// Cancels what a client that has left still had in flight, once its time is up or nothing is.
    fn end_drain_if_due(&mut self, now: Instant) {
        if let Input::Draining(until) = self.peer.input
            && (until <= now || self.relay.in_flight(Side::Client) == 0)
        {
            self.relay.handle_disconnect(now, Side::Client);
            self.peer.input = Input::Ended;
        }
    }

    /// The connection's writer has failed, or its peer was given up (D13).
    pub(super) fn peer_deaf(&mut self, now: Instant) {
        self.peer.reads = false;
        self.relay.handle_write_closed(now, self.program.other());
        if self.program == Side::Server {
            // Nobody is left to read an answer: the client is gone, whatever it may still send.
            self.peer_gone(now);
        }
    }

    /// The peer is gone altogether.
    fn peer_gone(&mut self, now: Instant) {
        self.peer_ended(now);
        if let Input::Draining(until) = &mut self.peer.input {
            *until = now;
        }
        self.end_drain_if_due(now);
    }

    /// The program has read nothing for too long (D13).
    fn program_given_up(&mut self, now: Instant) {
        self.halves.told = true;
        self.reader_gone(now);
        self.writer_gone(now);
    }

    /// The driver is dropped, and the connection with it.
    pub(super) fn driver_gone(&mut self, now: Instant) {
        self.driven = false;
        self.peer.reads = false;
        self.relay.handle_write_closed(now, self.program.other());
        self.peer_gone(now);
    }

    pub(super) const fn is_driven(&self) -> bool {
        self.driven
    }

    /// When the driver has to look again, though nothing happened.
    pub(super) fn due(&self) -> Option<Instant> {
        let drain = match self.peer.input {
            Input::Draining(until) => Some(until),
            Input::Open | Input::Paused | Input::Ended => None,
        };
        let linger = self.halves.linger.filter(|_| self.peer.reads);
        [self.relay.poll_timeout(), drain, linger].into_iter().flatten().min()
    }

    /// Whether the connection's writer can be closed: the peer has all that it will ever get.
    pub(super) fn is_silent(&self) -> bool {
        let nothing_comes = match self.program {
            Side::Client => !self.halves.writes || self.peer.input == Input::Ended,
            Side::Server => !self.halves.writes,
        };
        self.peer.reads && nothing_comes && self.relay.pending(self.program.other()).is_empty()
    }

    /// Whether nothing is left for the driver to do.
    pub(super) fn is_over(&self) -> bool {
        !self.peer.reads && (!self.halves.reads || self.is_at_end())
    }

    /// The driver waits, with its alarm set to `alarm`; `false` if something is to be done first.
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
        let resumes = self.peer.input == Input::Paused && self.relay.wants_input(peer);
        let sooner = self.due().is_some_and(|due| self.alarm.is_none_or(|alarm| due < alarm));
        flows || resumes || sooner || self.nudged || !self.events.is_empty()
    }

    fn can_read_or_end(&self) -> bool {
        !self.relay.pending(self.program).is_empty() || self.is_at_end()
    }

    /// Whether what waits for the program is the last.
    fn is_at_end(&self) -> bool {
        self.halves.told || self.peer.input == Input::Ended || (self.program == Side::Server && !self.halves.writes)
    }

    fn takes_output(&self) -> bool {
        self.relay.wants_input(self.program) && self.events.len() < MAX_EVENTS
    }

    /// Whether nothing that the program writes can reach anybody: neither the peer, nor itself as an answer.
    fn is_broken(&self) -> bool {
        let unanswered = self.program == Side::Server || self.halves.told || !self.halves.reads;
        !self.driven || !self.halves.writes || (!self.peer.reads && unanswered)
    }
}

/// tokio's clock, so that a test that pauses it owns this one, too.
fn clock() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}
