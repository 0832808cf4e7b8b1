//! The state that the driver, the handles and the handlers of one connection share.
//!
//! One lock guards everything that changes. It is never held across an await, nor while foreign code runs: handlers,
//! callbacks, wakers and drops come after it.

pub(crate) mod running_request;
pub(crate) mod scope;

use std::{
    collections::HashMap,
    future::poll_fn,
    hash::{BuildHasher, RandomState},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Poll, Waker},
};

use rescind_proto::{
    cause::Cause,
    connection::{
        Connection, ConnectionConfig, ConnectionEvent, HandlerEnd, IncomingKey, OutgoingKey, ReceiptNotice, Settlement,
    },
    time::Instant,
};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{Notify, oneshot},
};

use self::running_request::RunningRequest;
use super::{
    background::Background,
    current,
    handler::Service,
    slots::{Rare, Slots},
    stop_state::StopState,
    sync::DriverNotify,
    trace::{LinkTrace, TraceContext},
};

pub(crate) struct PeerShared {
    origin: tokio::time::Instant,
    pub(crate) driver_notify: Arc<DriverNotify>,
    /// Wakes callers that wait for room in the output.
    pub(crate) freed: Notify,
    /// The number of handles; without any, the connection ends.
    handles: AtomicUsize,
    /// The driver has been polled, and runs all clocks.
    is_driven: AtomicBool,
    pub(crate) service: Arc<Service>,
    /// Some route tells the engine how its requests are stopped.
    pub(crate) has_settled_routes: bool,
    pub(crate) link: LinkTrace,
    state: Mutex<PeerState>,
}

pub(crate) struct PeerState {
    pub(crate) conn: Connection,
    pub(crate) calls: Slots,
    /// Requests whose handlers were not ready at once, by the place of their key.
    all_running: Vec<Option<Arc<RunningRequest>>>,
    /// Calls that have a stop handle.
    pub(crate) stop_states: HashMap<OutgoingKey, Arc<StopState>>,
    /// Those that wait until an answer is written.
    pub(crate) deliveries: HashMap<IncomingKey, oneshot::Sender<bool>>,
    /// Events that the engine emitted before there was a driver.
    pub(crate) undelivered: Vec<ConnectionEvent>,
    /// Work that the driver has not taken over yet; `None` once the driver has dropped all of it.
    pub(crate) background: Option<Vec<Background>>,
    /// Wakers of those that wait for the end.
    pub(crate) closing: Vec<Waker>,
    /// Wakers of those that wait for the end of a session's work.
    pub(crate) ending: Vec<Waker>,
    /// A shutdown was asked for.
    pub(crate) is_ending: bool,
    /// The driver is gone.
    pub(crate) is_over: bool,
}

impl PeerShared {
    /// `protocol` carries the connection, if anything with a name does.
    pub(crate) fn new(
        config: ConnectionConfig,
        service: impl Into<Arc<Service>>,
        protocol: Option<&'static str>,
    ) -> Arc<Self> {
        let state = PeerState {
            conn: Connection::new(config),
            calls: Slots::default(),
            all_running: Vec::new(),
            stop_states: HashMap::new(),
            deliveries: HashMap::new(),
            undelivered: Vec::new(),
            background: Some(Vec::new()),
            closing: Vec::new(),
            ending: Vec::new(),
            is_ending: false,
            is_over: false,
        };
        let service: Arc<Service> = service.into();
        let has_settled_routes = service.routes().any(|route| !route.settings.is_plain());
        Arc::new(Self {
            origin: tokio::time::Instant::now(),
            driver_notify: Arc::new(DriverNotify::new()),
            freed: Notify::new(),
            handles: AtomicUsize::new(0),
            is_driven: AtomicBool::new(false),
            has_settled_routes,
            service,
            link: LinkTrace::new(protocol),
            state: Mutex::new(state),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, PeerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection's clock.
    pub(crate) fn now(&self) -> Instant {
        Instant::after_origin(tokio::time::Instant::now().duration_since(self.origin))
    }

    pub(crate) fn origin(&self) -> std::time::Instant {
        self.origin.into_std()
    }

    /// Adds this trace to the params, if the peer's protocol has a place for it and they name none.
    pub(crate) fn carried(&self, trace: &TraceContext, params: &[u8]) -> Option<Vec<u8>> {
        if self.lock().conn.dialect().meta { trace.carried_by(params) } else { None }
    }

    /// Cancels one of our requests.
    pub(crate) fn cancel(&self, key: OutgoingKey, cause: Cause) {
        let now = self.now();
        self.lock().conn.cancel(now, key, cause);
        self.notify_driver();
    }

    /// Waits until the peer leaves little enough unread for more notifications (D13), or the connection has ended.
    pub(crate) async fn room(&self) {
        loop {
            let mut freed = pin!(self.freed.notified());
            freed.as_mut().enable();
            if self.has_room() {
                return;
            }
            freed.await;
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        let state = self.lock();
        state.conn.has_room() || state.is_over
    }

    /// Polls `work` once, and leaves the rest to the driver.
    pub(crate) fn drive(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let mut background = Background::new(&self.driver_notify, work);
        if !background.poll() {
            return;
        }
        let late = match &mut self.lock().background {
            Some(waiting) => {
                waiting.push(background);
                None
            }
            None => Some(background),
        };
        match late {
            Some(late) => late.poll_last(),
            None => self.notify_driver(),
        }
    }

    /// Ends the connection in order.
    pub(crate) fn shutdown(&self) {
        let now = self.now();
        {
            let mut state = self.lock();
            state.is_ending = true;
            state.conn.shutdown(now);
        }
        self.notify_driver();
    }

    /// Waits until the connection has ended and everything of it is settled.
    pub(crate) async fn closed(&self) {
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.is_over {
                return Poll::Ready(());
            }
            if !state.closing.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.closing.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Waits until no handler runs that is work of this session, whose id is JSON, or the connection has ended.
    #[cfg(feature = "acp")]
    pub(crate) async fn session_idle(&self, session: &[u8]) {
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.is_over || !state.conn.session_works(session) {
                return Poll::Ready(());
            }
            if !state.ending.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.ending.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Reports the end of a handler; everything that it owned is gone.
    pub(crate) fn ended(&self, key: IncomingKey, end: HandlerEnd<'_>) {
        let now = self.now();
        let (work, ending) = {
            let mut state = self.lock();
            state.conn.ended(now, key, end);
            (state.forget_running(key), std::mem::take(&mut state.ending))
        };
        drop(work);
        ending.into_iter().for_each(Waker::wake);
        self.driver_notify.notify();
    }

    /// Wakes the driver, from code that may go on without an await.
    ///
    /// A task that is woken on a thread of the runtime runs next on that thread, and on no other. If a handler woke the
    /// driver and then computed, the driver would wait for it (D50). A task that is woken after it takes that place, and
    /// then any thread can run the driver.
    pub(crate) fn notify_driver(&self) {
        if self.driver_notify.notify() && current::is_handling() && has_threads() {
            drop(tokio::spawn(async {}));
        }
    }

    pub(crate) fn add_handle(&self) {
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn drop_handle(&self) {
        if self.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.driver_notify.notify();
        }
    }

    /// Notes that the driver is polled, and returns whether that is the first time.
    pub(crate) fn begin_driving(&self) -> bool {
        !self.is_driven.load(Ordering::Relaxed) && !self.is_driven.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_driven(&self) -> bool {
        self.is_driven.load(Ordering::Acquire)
    }

    /// Ends the calls that were stopped, or whose clocks have run out, while there is no driver yet.
    pub(crate) fn settle_undriven(&self) {
        let now = self.now();
        let (mut wakers, mut trash) = (Vec::new(), Vec::new());
        {
            let mut state = self.lock();
            if self.is_driven() {
                return;
            }
            state.conn.handle_timeout(now);
            while let Some(event) = state.conn.poll_event() {
                if let ConnectionEvent::Settled { request: key, how } = event {
                    trash.extend(state.settle(key, how, &mut wakers));
                } else if let ConnectionEvent::Receipt(notice) = event {
                    state.learn(*notice, &mut wakers);
                } else {
                    state.undelivered.push(event);
                }
            }
        }
        drop(trash);
        for waker in wakers {
            waker.wake();
        }
    }

    /// Whether the last handle is gone.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.handles.load(Ordering::Acquire) == 0
    }
}

impl PeerState {
    /// Settles one of our requests, and adds the wakers of its caller. The extras of the call that it returns are to be
    /// dropped without any lock.
    pub(crate) fn settle(&mut self, key: OutgoingKey, how: Settlement, wakers: &mut Vec<Waker>) -> Option<Box<Rare>> {
        if !self.stop_states.is_empty()
            && let Some(stop_state) = self.stop_states.get(&key)
        {
            let (waiting, is_done) = stop_state.over(&how);
            wakers.extend(waiting);
            if is_done {
                self.stop_states.remove(&key);
            }
        }
        let (waker, rare) = self.calls.settle(key, how);
        wakers.extend(waker);
        rare
    }

    /// The state for stop handles of the request in this slot, which was made before there was any.
    pub(crate) fn stop_state(&mut self, at: u32) -> Arc<StopState> {
        let stop_state = Arc::<StopState>::default();
        match (self.calls.key(at), self.calls.end(at)) {
            (Some(key), _) => {
                stop_state.made(key, !self.conn.dialect().is_silent());
                self.conn.watch(key);
                self.stop_states.insert(key, Arc::clone(&stop_state));
            }
            (None, Some(how)) => drop(stop_state.over(how)),
            (None, None) => drop(stop_state.over(&Settlement::Closed)),
        }
        stop_state
    }

    /// Updates the receipt of a cancel.
    pub(crate) fn learn(&mut self, notice: ReceiptNotice, wakers: &mut Vec<Waker>) {
        if let Some(stop_state) = self.stop_states.get(&notice.request) {
            let is_done = notice.receipt.outcome.is_final();
            wakers.extend(stop_state.learn(notice.receipt));
            if is_done {
                self.stop_states.remove(&notice.request);
            }
        }
    }

    /// Inserts the prompt that this request is, now that its handler has begun, if its protocol answers prompts then
    /// (ACP-50).
    pub(crate) fn insert_prompt(&mut self, now: Instant, key: IncomingKey) {
        if self.conn.awaits_insertion(key) {
            // No other has it, in this process and others.
            let message = format!("message-{:016x}", RandomState::new().hash_one(key));
            self.conn.insert_prompt(now, key, &message);
        }
    }

    pub(crate) fn note_running(&mut self, work: Arc<RunningRequest>) {
        let place = work.key.place();
        if self.all_running.len() <= place {
            self.all_running.resize_with(place + 1, || None);
        }
        self.all_running[place] = Some(work);
    }

    pub(crate) fn work(&self, key: IncomingKey) -> Option<Arc<RunningRequest>> {
        self.all_running.get(key.place())?.as_ref().filter(|work| work.key == key).cloned()
    }

    pub(crate) fn all_running(&self) -> Vec<Arc<RunningRequest>> {
        self.all_running.iter().flatten().cloned().collect()
    }

    fn forget_running(&mut self, key: IncomingKey) -> Option<Arc<RunningRequest>> {
        let work = self.all_running.get_mut(key.place())?;
        if work.as_ref().is_some_and(|work| work.key == key) { work.take() } else { None }
    }
}

/// Whether the runtime has more threads than this one.
pub(crate) fn has_threads() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() != RuntimeFlavor::CurrentThread)
}

debug_fields!(PeerShared, handles);
