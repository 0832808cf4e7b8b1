//! What a transport and its tasks share: the machine behind one lock.
//!
//! The lock is held for one step of the machine and never across an await. After each step, with the lock free, those are
//! woken whom it concerns.

mod fetch;

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Request, header};
use rescind::peer::transport::SigningIn;
use rescind_proto::{link::Departure, time::Instant};
use tokio::{runtime::Handle, sync::Notify, task::AbortHandle};

use super::{authorizer::Authorizer, connect::Sender, request_body::Gate};
use crate::client::{FetchKey, HttpClient, HttpClientEvent, HttpClientNotice, LocalMessage, headers::Origin};

/// Who is told what no message tells.
pub(super) type OnNotice = Box<dyn FnMut(HttpClientNotice) + Send>;

pub(super) struct Shared {
    /// The start of the machine's clock.
    origin: tokio::time::Instant,
    sender: Sender,
    /// Who sees to the tokens of requests to this origin.
    authorizer: Option<(Origin, Arc<dyn Authorizer>)>,
    runtime: Handle,
    state: Mutex<State>,
    on_notice: Mutex<Option<OnNotice>>,
    /// The earliest timer has changed.
    rearmed: Notify,
    /// Responses may be read on.
    room: Notify,
}

/// What has become of messages that were taken.
#[derive(Default)]
struct Departures {
    /// Somebody takes them.
    are_wanted: bool,
    waiting: VecDeque<Departure>,
    watcher: Option<Waker>,
}

struct State {
    client: HttpClient,
    fetches: HashMap<FetchKey, AbortHandle>,
    reader: Option<Waker>,
    closer: Option<Waker>,
    departures: Departures,
    /// When the clock will wake the machine.
    armed: Option<Instant>,
    /// Nothing is begun any more.
    is_over: bool,
}

impl Shared {
    pub(super) fn new(
        client: HttpClient,
        sender: Sender,
        authorizer: Option<(Origin, Arc<dyn Authorizer>)>,
        on_notice: Option<OnNotice>,
        runtime: Handle,
    ) -> Arc<Self> {
        let state = State {
            client,
            fetches: HashMap::new(),
            reader: None,
            closer: None,
            departures: Departures::default(),
            armed: None,
            is_over: false,
        };
        Arc::new(Self {
            origin: tokio::time::Instant::now(),
            sender,
            authorizer,
            runtime,
            state: Mutex::new(state),
            on_notice: Mutex::new(on_notice),
            rearmed: Notify::new(),
            room: Notify::new(),
        })
    }

    pub(super) const fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Tells whether a person is being asked to sign in, where one can be.
    pub(super) fn signing_in(&self) -> Option<SigningIn> {
        let (_, authorizer) = self.authorizer.as_ref()?;
        let authorizer = Arc::clone(authorizer);
        Some(Arc::new(move || authorizer.is_asking()))
    }

    /// Who sees to the token of this request: nobody, where it has one already, or goes to somebody else than the server.
    pub(super) fn authorizer_of(&self, request: &Request<Bytes>) -> Option<Arc<dyn Authorizer>> {
        let has_one = request.headers().contains_key(header::AUTHORIZATION);
        let (origin, authorizer) = self.authorizer.as_ref().filter(|_| !has_one)?;
        (*origin == Origin::of(request.uri())).then(|| Arc::clone(authorizer))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        Instant::after_origin(self.origin.elapsed())
    }

    /// Performs one step with the machine.
    pub(super) fn step<T>(self: &Arc<Self>, step: impl FnOnce(&mut HttpClient, Instant) -> T) -> T {
        self.with(|state, now| step(&mut state.client, now))
    }

    /// Performs the last step of a fetch.
    pub(super) fn end(self: &Arc<Self>, key: FetchKey, step: impl FnOnce(&mut HttpClient, Instant)) {
        self.with(|state, now| {
            state.fetches.remove(&key);
            step(&mut state.client, now);
        });
    }

    /// The next message for the local client.
    pub(super) fn poll_message(self: &Arc<Self>, cx: &Context<'_>) -> Poll<Option<LocalMessage>> {
        self.with(|state, _| {
            // A request has left before it is answered.
            if !state.departures.waiting.is_empty() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match state.client.poll_message() {
                Some(message) => Poll::Ready(Some(message)),
                None if state.client.is_closed() => Poll::Ready(None),
                None => {
                    state.reader = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
    }

    /// Keeps what becomes of messages from now on for [`poll_departure`](Self::poll_departure).
    pub(super) fn watch_departures(&self) {
        self.lock().departures.are_wanted = true;
    }

    /// The next that is known of a message that was taken.
    pub(super) fn poll_departure(&self, cx: &Context<'_>) -> Poll<Departure> {
        let mut state = self.lock();
        let Some(departure) = state.departures.waiting.pop_front() else {
            state.departures.watcher = Some(cx.waker().clone());
            return Poll::Pending;
        };
        Poll::Ready(departure)
    }

    /// Ends the session, and waits until the server knows.
    pub(super) fn poll_close(self: &Arc<Self>, cx: &Context<'_>) -> Poll<()> {
        self.with(|state, _| {
            state.client.handle_close();
            if state.client.is_closed() {
                return Poll::Ready(());
            }
            state.closer = Some(cx.waker().clone());
            Poll::Pending
        })
    }

    /// Drops every request.
    pub(super) fn abandon(&self) {
        let mut state = self.lock();
        state.is_over = true;
        state.fetches.drain().for_each(|(_, fetch)| fetch.abort());
    }

    /// Waits until this response may be read on.
    pub(super) async fn room(&self, key: FetchKey) {
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            room.as_mut().enable();
            if self.lock().client.may_read(key) {
                return;
            }
            room.await;
        }
    }

    fn with<T>(self: &Arc<Self>, step: impl FnOnce(&mut State, Instant) -> T) -> T {
        let mut state = self.lock();
        // Read under the lock, so that the machine's time never runs backwards.
        let now = self.now();
        let before = state.client.pressure();
        let done = step(&mut state, now);
        let after = state.client.pressure();
        let has_room = before.is_full && !after.is_full || before.owes_much && !after.owes_much;
        let mut notices = Vec::new();
        while let Some(event) = state.client.poll_event() {
            match event {
                HttpClientEvent::Abort(key) => drop(state.fetches.remove(&key).map(|fetch| fetch.abort())),
                HttpClientEvent::Departed(departure) => {
                    if state.departures.are_wanted {
                        state.departures.waiting.push_back(departure);
                    }
                }
                HttpClientEvent::Notice(notice) => notices.push(notice),
            }
        }
        while !state.is_over
            && let Some((key, request)) = state.client.poll_request(now)
        {
            let lane = state.client.lane(key);
            let fetch = self.runtime.spawn(fetch::perform(Arc::clone(self), key, request, lane));
            state.fetches.insert(key, fetch.abort_handle());
        }
        let mut woken = Vec::new();
        if !state.departures.waiting.is_empty() {
            woken.extend(state.departures.watcher.take());
        }
        if state.client.has_message() || state.client.is_closed() {
            woken.extend(state.reader.take());
        }
        if state.client.is_closed() {
            woken.extend(state.closer.take());
        }
        let due = state.client.poll_timeout();
        let is_rearmed = due != state.armed;
        state.armed = due;
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        if has_room {
            self.room.notify_waiters();
        }
        if is_rearmed {
            self.rearmed.notify_one();
        }
        if !notices.is_empty()
            && let Some(on_notice) = &mut *self.on_notice.lock().unwrap_or_else(PoisonError::into_inner)
        {
            notices.into_iter().for_each(on_notice);
        }
        done
    }
}

impl Gate for Shared {
    fn may_leave(self: Arc<Self>, key: FetchKey) -> bool {
        self.step(|client, now| client.handle_written(now, key))
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// Wakes the machine when something is due, until the transport is gone.
pub(super) async fn keep_time(shared: Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        let rearmed = shared.rearmed.notified();
        let armed = shared.lock().armed;
        let Some(due) = armed else {
            rearmed.await;
            continue;
        };
        if tokio::time::timeout_at(shared.origin + due.since_origin(), rearmed).await.is_err() {
            shared.step(|client, now| client.handle_timeout(now));
        }
    }
}
