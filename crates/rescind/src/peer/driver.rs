//! The one future that reads, writes and waits for a connection.
//!
//! It decides nothing about the protocol. In a turn it reads, passes the input to the engine, fires the tokens of
//! cancelled requests, delivers all other events in the order of the wire, and writes everything that is pending.
//!
//! A handler is called within a turn and runs in a task of its own, so that reading never waits for a handler (D12, D50,
//! invariant 7). After a turn that started handlers the driver lets them run first: the answers that are ready at once
//! are then written together.
//!
//! The lock is taken for the engine only, and given back before foreign code runs: handlers, callbacks, wakers, drops. Bytes
//! are written under it, because what counts as written must be what was written (D15): a transport must not call the
//! connection that it carries. A route that says `never_blocks` is polled once by the driver, so that an answer which is at
//! hand leaves in the same turn without a task or a waker.
//!
//! An idle connection gives its buffers back: at once while little moves, after a second without anything where much did
//! (`tests/idle.rs` holds each to 8 KiB). A connection that was connected ends when its last handle is gone, calls included;
//! one that is served, at the end of its input. Dropping the driver ends it at once and without a grace, for no clock runs
//! any more.

use std::{
    future::Future,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, MutexGuard},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{ConnectionConfig, ConnectionEvent, HandlerEnd, IncomingKey, IncomingRequest, OutgoingKey, Reply},
    id::RequestId,
    time::Instant,
};
use tokio::{runtime::Handle, task::JoinHandle};

use super::{
    Peer,
    background::Background,
    error::ErrorObject,
    filtered::Filtered,
    handler::Service,
    progress_report::ProgressReport,
    shared::{
        PeerShared, PeerState,
        running_request::RunningRequest,
        scope::{OnNotification, OnRequest},
    },
    slots::{OnProgress, Rare},
    spare::{Kept, Spare},
    task::{self, Begun},
    trace,
    transport::{InputChunk, Transport},
};
use crate::{alarm::Alarm, message_stream::CancelFate};

/// The most turns in one poll: then other tasks get theirs.
const TURNS: usize = 64;

/// The future that runs one connection: poll it, or [spawn](Self::spawn) it.
///
/// It is ready when the connection has ended and everything is settled: the input ended or [`Peer::shutdown`] was called,
/// every handler has ended, every byte is written. It returns the error of the link, if the link broke.
///
/// # Dropping it
///
/// closes the connection at once: calls end as [`CallError::Closed`](super::CallError::Closed), tokens fire and
/// handlers are dropped without a grace.
///
/// # Keeping it without polling it
///
/// stops everything: nothing is read or written, no cancel is noticed. Calls made before it is first polled still end by
/// their own clocks. From its first poll on the driver runs those clocks, so a driver that is kept and no longer polled
/// leaves its calls waiting: in a `select!`, poll it in every round, or spawn it.
///
/// # Errors
///
/// Polled outside a tokio runtime it closes the connection and returns an error.
///
/// # Panics
///
/// The runtime has no clock (`enable_time`), once there is something to wait for.
#[must_use = "a connection lives only while its driver is polled"]
pub struct Driver {
    shared: Arc<PeerShared>,
    transport: Transport,
    spare: Spare,
    alarm: Alarm,
    /// Keeps a server alive that has no other handle.
    keep: Option<Peer>,
    phase: DriverPhase,
    /// How long the last bytes wait for a peer that does not read.
    linger: Duration,
    error: Option<io::Error>,
    turn: TurnOutput,
    filtered: Filtered,
    background: Vec<Background>,
}

#[derive(Clone, Copy, Debug, Default)]
struct DriverPhase {
    input_ended: bool,
    ending: bool,
    /// [`ConnectionEvent::Closed`] was said.
    closed: bool,
    /// Nothing can be written any more.
    write_closed: bool,
    /// Handlers were woken for the end.
    end_told: bool,
    wants_input: bool,
    needs_flush: bool,
    due: Option<Instant>,
    /// The connection is ending and its last bytes cannot be written since then.
    stuck: Option<Instant>,
    /// Everything is settled, and the transport is being closed since then.
    closing: Option<Instant>,
    over: bool,
}

/// The output of a turn, to be delivered; kept for its capacity.
#[derive(Default)]
struct TurnOutput {
    events: Vec<ConnectionEvent>,
    fires: Vec<(Arc<RunningRequest>, Cause)>,
    forces: Vec<Arc<RunningRequest>>,
    /// Handlers to wake at the end of the connection.
    wakes: Vec<Arc<RunningRequest>>,
    wakers: Vec<Waker>,
    /// Calls with stop handles that the engine has forgotten; removed after these events are delivered.
    forgotten: Vec<OutgoingKey>,
    /// A task was started for a handler.
    has_started: bool,
    /// Dropped without any lock.
    trash: Vec<Rare>,
    /// Requests that ended in silence, for a transport that holds something open for each.
    silenced: Vec<RequestId>,
}

impl Driver {
    pub(crate) fn new(
        shared: Arc<PeerShared>,
        transport: Transport,
        keep: Option<Peer>,
        linger: Duration,
        config: &ConnectionConfig,
    ) -> Self {
        let phase = DriverPhase { wants_input: true, ..DriverPhase::default() };
        Self {
            shared,
            transport,
            spare: Spare::default(),
            alarm: Alarm::new(),
            keep,
            phase,
            linger,
            error: None,
            turn: TurnOutput::default(),
            filtered: Filtered::new(config),
            background: Vec::new(),
        }
    }

    /// Drives the connection in a task of its own.
    ///
    /// The task goes on when the handle is dropped.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, as [`tokio::spawn`] does.
    pub fn spawn(self) -> JoinHandle<io::Result<()>> {
        tokio::spawn(self)
    }

    /// Runs one turn, and returns whether anything moved.
    fn turn(&mut self, cx: &mut Context<'_>) -> bool {
        let has_departed = self.poll_departures(cx);
        let read = self.poll_read(cx);
        let now = self.shared.now();
        let moved = read.is_some() || has_departed;
        {
            let shared = Arc::clone(&self.shared);
            let filtered = self.filtered.apply_filters(&shared.service.incoming, read.as_ref(), &self.spare.input);
            let mut state = shared.lock();
            for filtered in filtered.iter().flatten() {
                filtered.feed(&mut state.conn, now);
            }
            match read {
                None => {}
                Some(Ok(InputChunk::Bytes(_) | InputChunk::Arrivals(_))) if filtered.is_some() => {}
                Some(Ok(InputChunk::Bytes(_))) => state.conn.handle_input(now, &self.spare.input),
                Some(Ok(InputChunk::Arrivals(arrivals))) => {
                    for arrival in arrivals {
                        arrival.feed(&mut state.conn, now);
                    }
                }
                Some(end @ (Ok(InputChunk::End) | Err(_))) => {
                    self.error = end.err();
                    self.phase.input_ended = true;
                    self.phase.ending = true;
                    state.conn.handle_eof(now);
                }
            }
            let is_due = state.conn.poll_timeout().is_some_and(|due| due <= now);
            if is_due {
                state.conn.handle_timeout(now);
            }
            // Calls count as handles. A request that still waits without a handle was detached, and is finished first.
            let is_idle = self.keep.is_none() && state.conn.waiting() == 0;
            if is_idle && !self.phase.ending && shared.is_abandoned() {
                self.phase.ending = true;
                state.conn.shutdown(now);
            }
            self.phase.ending |= state.is_ending;
            if self.phase.ending && !std::mem::replace(&mut self.phase.end_told, true) {
                self.turn.wakes = state.all_running();
            }
            self.turn.drain(&shared, &mut state, now);
            if is_due {
                self.turn.forget(&state);
            }
            self.background.extend(state.background.iter_mut().flat_map(|waiting| waiting.drain(..)));
        }
        if moved {
            self.spare.has_read(now);
        }
        self.deliver();
        self.background.retain_mut(Background::poll);
        let more = self.poll_write(cx);
        for id in self.turn.silenced.drain(..) {
            self.transport.io.silence(&id);
        }
        more || moved
    }

    /// Learns what has become of messages that the transport has taken, which it reports before their answers (D51).
    fn poll_departures(&mut self, cx: &mut Context<'_>) -> bool {
        let departures = self.transport.io.poll_departures(cx);
        if departures.is_empty() {
            return false;
        }
        let now = self.shared.now();
        let mut state = self.shared.lock();
        for departure in &departures {
            state.conn.handle_departure(now, departure);
        }
        true
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Option<io::Result<InputChunk>> {
        if self.phase.input_ended || !self.phase.wants_input {
            return None;
        }
        match self.transport.io.poll_read(cx, self.spare.empty()) {
            Poll::Pending => None,
            Poll::Ready(read) => Some(read),
        }
    }

    /// Writes as long as the peer reads, and returns whether there is more to do.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> bool {
        let shared = Arc::clone(&self.shared);
        let is_filtered = !shared.service.outgoing.is_empty();
        let (mut wrote, mut blocked) = (false, false);
        if is_filtered && !self.phase.write_closed {
            match self.filtered.poll_write(cx, &mut self.transport.io, &shared) {
                Ok(written) => (wrote, blocked) = written,
                Err(error) => self.fail(&mut shared.lock(), error),
            }
        }
        let mut state = shared.lock();
        while !self.phase.write_closed && !blocked && !is_filtered {
            let pending = state.conn.pending();
            if pending.is_empty() {
                break;
            }
            match self.transport.io.poll_write(cx, pending) {
                Poll::Ready(Ok(bytes)) if bytes > 0 => {
                    let now = shared.now();
                    state.conn.handle_written(now, bytes);
                    wrote = true;
                    self.spare.has_written(now, bytes);
                }
                Poll::Pending => {
                    blocked = true;
                    break;
                }
                Poll::Ready(failed) => {
                    self.fail(&mut state, failed.err().unwrap_or_else(|| io::ErrorKind::WriteZero.into()));
                }
            }
        }
        if self.phase.ending && blocked {
            let now = shared.now();
            let stuck = if wrote { now } else { self.phase.stuck.unwrap_or(now) };
            self.phase.stuck = Some(stuck);
            if now.since(stuck) >= self.linger {
                self.lose(&mut state);
                wrote = true;
            }
        }
        let has_room = state.conn.has_room();
        let wants_input = state.conn.wants_input();
        // A peer that is read again may have sent input long ago, for which no wake-up comes.
        let more = state.conn.has_events() || wants_input && !self.phase.wants_input;
        self.phase.wants_input = wants_input;
        self.phase.due = state.conn.poll_timeout();
        drop(state);
        // Also where nothing was written: what was withdrawn made room too.
        if has_room {
            shared.freed.notify_waiters();
        }
        self.phase.needs_flush |= wrote;
        if self.phase.needs_flush && !self.phase.write_closed {
            match self.transport.io.poll_flush(cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => self.phase.needs_flush = false,
                Poll::Ready(Err(error)) => {
                    self.fail(&mut shared.lock(), error);
                    return true;
                }
            }
        }
        more
    }

    /// Handles a failed write. A peer that has ended its output need not read either: that is not an error of the link.
    fn fail(&mut self, state: &mut PeerState, error: io::Error) {
        if !self.phase.input_ended {
            self.error = Some(error);
        }
        self.lose(state);
    }

    /// Gives the link up: nothing more is written or read.
    fn lose(&mut self, state: &mut PeerState) {
        self.phase.write_closed = true;
        self.phase.input_ended = true;
        self.phase.ending = true;
        self.phase.needs_flush = false;
        state.conn.handle_write_closed(self.shared.now());
    }

    /// Delivers the engine's events in their order; tokens first.
    fn deliver(&mut self) {
        for (work, cause) in self.turn.fires.drain(..) {
            work.fire(cause);
        }
        for work in self.turn.forces.drain(..) {
            work.force();
        }
        for work in std::mem::take(&mut self.turn.wakes) {
            work.wake();
        }
        if self.turn.events.is_empty() && self.turn.forgotten.is_empty() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let mut lock = Lock { shared: &shared, state: None };
        let mut events = std::mem::take(&mut self.turn.events);
        for event in events.drain(..) {
            if trace::tells(&event) {
                lock.release();
                trace::event(&shared.link, || shared.lock().conn.waiting(), &event);
            }
            match event {
                ConnectionEvent::Request(request) => self.start(&mut lock, request),
                ConnectionEvent::Notification(payload) => {
                    if let Some(handler) = shared.service.notice(payload.method()) {
                        lock.release();
                        contained(|| drop(handler(&OnNotification::of(&shared, payload))));
                    }
                }
                ConnectionEvent::Settled { request: key, how } => {
                    let rare = lock.acquire().settle(key, how, &mut self.turn.wakers);
                    self.turn.trash.extend(rare.map(|rare| *rare));
                }
                ConnectionEvent::Progress { request: key, params } => {
                    let on_progress = lock.acquire().calls.detach_progress(key);
                    if let Some(on_progress) = on_progress {
                        progress(&mut lock, key, on_progress, params);
                    }
                }
                ConnectionEvent::Cancelled { request: key, cause } => {
                    if let Some(work) = lock.acquire().work(key) {
                        lock.release();
                        work.fire(cause);
                    }
                }
                ConnectionEvent::DropHandler { request: key } => {
                    if let Some(work) = lock.acquire().work(key) {
                        lock.release();
                        work.force();
                    }
                }
                ConnectionEvent::Receipt(notice) => {
                    lock.acquire().learn(*notice, &mut self.turn.wakers);
                }
                ConnectionEvent::Cancel(notice) => {
                    lock.release();
                    if let Some(id) = &notice.id {
                        // What is accepted has reached its handler.
                        let fate = CancelFate::of_verdict(notice.verdict).unwrap_or(CancelFate::Seen);
                        self.transport.io.tell_fate(id, fate);
                    }
                    for observer in &shared.service.on_cancelled {
                        contained(|| observer(&notice));
                    }
                }
                ConnectionEvent::Delivered { request: key, answered } => {
                    let watcher = lock.acquire().deliveries.remove(&key);
                    lock.release();
                    // The handler may have stopped waiting.
                    let _ = watcher.map(|watcher| watcher.send(answered));
                }
                // They are for the transport, behind what is written.
                ConnectionEvent::Silenced { .. }
                | ConnectionEvent::Stopped(_)
                | ConnectionEvent::Late { .. }
                | ConnectionEvent::Rejected { .. }
                | ConnectionEvent::Violation { .. } => {}
                ConnectionEvent::GivenUp { .. } => {
                    self.error = Some(io::ErrorKind::TimedOut.into());
                    self.lose(lock.acquire());
                }
                ConnectionEvent::Closed => self.phase.closed = true,
            }
        }
        self.turn.events = events;
        for key in self.turn.forgotten.drain(..) {
            if let Some(stop_state) = lock.acquire().stop_states.remove(&key) {
                self.turn.wakers.extend(stop_state.forget());
            }
        }
        lock.release();
        self.turn.wake();
    }

    /// Starts the handler of a request.
    fn start(&mut self, lock: &mut Lock<'_>, request: IncomingRequest) {
        let shared = lock.shared;
        let key = request.key;
        let Some(route) = shared.service.route(&request.payload) else {
            let error = ErrorObject::method_not_found(request.payload.method());
            let reply = Reply::Error { code: error.code, message: &error.message, data: None };
            return lock.ended(key, HandlerEnd::Returned(reply));
        };
        lock.release();
        let route_info = route.route_info(request.payload.method(), request.dialect);
        let (work, payload) = RunningRequest::new(Arc::clone(shared), request, route_info);
        let work = Arc::new(work);
        // The handler takes its parameters now; the message is not kept.
        let scope = OnRequest::new(Arc::clone(&work), payload);
        let is_inserted = work.route_info.dialect.turn.is_some_and(|turn| turn.work.is_some());
        let begun = task::begin(&work, || (route.handler)(&scope), route.settings.never_blocks);
        if is_inserted && begun.is_successful() {
            let now = shared.now();
            lock.acquire().insert_prompt(now, key);
        }
        match begun {
            Begun::Ended(end) => end.with(|end| lock.ended(key, end)),
            Begun::Pending(running) => {
                lock.acquire().note_running(work);
                lock.release();
                tokio::spawn(running);
                self.turn.has_started = true;
            }
        }
    }

    /// Gives spare memory back while nothing moves. Returns when to try again, if it is too early.
    fn rest(&mut self) -> Option<Instant> {
        let kept = self.spare.rest(|| self.shared.now());
        if kept == Kept::Nothing {
            self.turn = TurnOutput::default();
            self.filtered.rest();
            self.shared.lock().conn.shrink();
        }
        kept.until()
    }

    fn is_done(&self) -> bool {
        let is_written = !self.phase.needs_flush && self.filtered.is_written();
        self.phase.closed && (self.phase.write_closed || is_written)
    }

    /// Closes the transport, for as long as the last bytes may take; after that it is dropped.
    fn poll_close(&mut self, cx: &mut Context<'_>, since: Instant) -> Poll<io::Result<()>> {
        let limit = since + self.linger;
        while self.transport.io.poll_close(cx).is_pending() && self.shared.now() < limit {
            ready!(self.alarm.poll(cx, self.shared.origin(), Some(limit)));
        }
        self.poll_departures(cx);
        self.finish();
        Poll::Ready(self.error.take().map_or(Ok(()), Err))
    }

    /// Ends the connection and wakes everything that waits for its end.
    fn finish(&mut self) {
        if std::mem::replace(&mut self.phase.over, true) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let all_running = {
            let now = shared.now();
            let mut state = shared.lock();
            state.conn.handle_write_closed(now);
            state.is_over = true;
            self.turn.drain(&shared, &mut state, now);
            self.turn.wakers.append(&mut state.closing);
            self.turn.wakers.append(&mut state.ending);
            state.all_running()
        };
        shared.freed.notify_waiters();
        self.deliver();
        // No grace clock runs for handlers from here on.
        for work in all_running {
            work.fire(Cause::new(CauseCode::Disconnect));
            work.force();
        }
        drop(std::mem::take(&mut shared.lock().deliveries));
        let stop_states = std::mem::take(&mut shared.lock().stop_states);
        for stop_state in stop_states.into_values() {
            self.turn.wakers.extend(stop_state.forget());
        }
        self.turn.wake();
        let waiting = shared.lock().background.take();
        for background in std::mem::take(&mut self.background).into_iter().chain(waiting.into_iter().flatten()) {
            background.poll_last();
        }
    }
}

impl Future for Driver {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.shared.begin_driving() && Handle::try_current().is_err() {
            this.finish();
            return Poll::Ready(Err(io::Error::other("a connection can only be driven inside a tokio runtime")));
        }
        for _ in 0..TURNS {
            if let Some(since) = this.phase.closing {
                return this.poll_close(cx, since);
            }
            this.shared.driver_notify.begin_turn();
            let moved = this.turn(cx);
            if this.is_done() {
                this.phase.closing = Some(this.phase.stuck.unwrap_or_else(|| this.shared.now()));
                continue;
            }
            if std::mem::take(&mut this.turn.has_started) {
                // Runs after the handlers, so that their first answers leave together. A handler may also block its
                // thread: a task that reschedules itself makes the runtime wake another thread, while one that sleeps
                // could find no thread that polls its input.
                break;
            }
            if moved {
                continue;
            }
            let stuck = this.phase.stuck.map(|since| since + this.linger);
            let idle = this.rest();
            let due = this.phase.due.into_iter().chain(stuck).chain(idle).min();
            if this.alarm.poll(cx, this.shared.origin(), due).is_ready() {
                continue;
            }
            if this.shared.driver_notify.poll_notified(cx).is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.finish();
    }
}

debug_fields!(Driver, phase);

impl TurnOutput {
    /// Takes the engine's events; those that stop handlers come before all others.
    fn drain(&mut self, shared: &PeerShared, state: &mut PeerState, now: Instant) {
        self.events.append(&mut state.undelivered);
        while let Some(event) = state.conn.poll_event() {
            if let ConnectionEvent::Cancelled { request: key, cause } = &event
                && let Some(work) = state.work(*key)
            {
                self.fires.push((work, cause.clone()));
            } else if let ConnectionEvent::DropHandler { request: key } = event
                && let Some(work) = state.work(key)
            {
                self.forces.push(work);
            } else if let ConnectionEvent::Silenced { id } = event {
                self.silenced.push(id.0);
            } else {
                if let ConnectionEvent::Request(request) = &event
                    && shared.has_settled_routes
                {
                    settle_route(&shared.service, state, now, request);
                }
                self.events.push(event);
            }
        }
    }

    /// Notes the calls with stop handles that the engine has forgotten: their last events have been drained.
    fn forget(&mut self, state: &PeerState) {
        let unknown = state.stop_states.keys().filter(|key| !state.conn.knows(**key));
        self.forgotten.extend(unknown);
    }

    fn wake(&mut self) {
        self.trash.clear();
        for waker in self.wakers.drain(..) {
            waker.wake();
        }
    }
}

/// Tells the engine how to stop this request's handler, before anything can stop it.
fn settle_route(service: &Service, state: &mut PeerState, now: Instant, request: &IncomingRequest) {
    let Some(route) = service.route(&request.payload) else { return };
    let settings = &route.settings;
    if settings.is_plain() {
        return;
    }
    state.conn.set_grace(request.key, settings.grace);
    if settings.is_shielded {
        state.conn.shield(request.key);
    }
    if let Some(limit) = settings.time_limit {
        state.conn.limit(now, request.key, limit);
    }
    if let Some(result) = settings.cancel_result {
        state.conn.set_cancel_result(request.key, result);
    }
}

/// The connection's lock, taken when needed and released before foreign code runs.
struct Lock<'a> {
    shared: &'a Arc<PeerShared>,
    state: Option<MutexGuard<'a, PeerState>>,
}

impl Lock<'_> {
    fn acquire(&mut self) -> &mut PeerState {
        self.state.get_or_insert_with(|| self.shared.lock())
    }

    fn release(&mut self) {
        self.state = None;
    }

    fn ended(&mut self, key: IncomingKey, end: HandlerEnd<'_>) {
        let now = self.shared.now();
        let state = self.acquire();
        state.conn.ended(now, key, end);
        let ending = std::mem::take(&mut state.ending);
        if !ending.is_empty() {
            self.release();
            ending.into_iter().for_each(Waker::wake);
        }
    }
}

fn progress(lock: &mut Lock<'_>, key: OutgoingKey, mut on_progress: OnProgress, params: Box<[u8]>) {
    lock.release();
    contained(|| on_progress(ProgressReport::new(params)));
    let unused = lock.acquire().calls.attach_progress(key, on_progress);
    if unused.is_some() {
        lock.release();
        drop(unused);
    }
}

/// Calls foreign code and contains its panics (case 21).
fn contained(call: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(call));
}
