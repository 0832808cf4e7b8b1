//! Signals to this process that concern the server.

use std::{
    collections::VecDeque,
    future::poll_fn,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use tokio::task::AbortHandle;

pub(crate) use super::platform::signals::Signal;
use super::platform::signals::{self, SignalStream};

/// What a signal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalEvent {
    /// It asks the server to end, or may ask it to, and must be sent to it.
    AsksForEnd(Signal),
    /// Its meaning is up to the server, and it must be sent to it.
    #[cfg_attr(windows, expect(dead_code, reason = "Windows has no such events"))]
    PassedOn(Signal),
    /// A child may have ended or been stopped.
    #[cfg_attr(windows, expect(dead_code, reason = "Windows has no such events"))]
    Child,
    /// This process was continued: a shell may have given it the terminal.
    #[cfg_attr(windows, expect(dead_code, reason = "Windows has no such events"))]
    Continued,
}

/// The signals to this process, in a queue.
///
/// A separate task listens: the link polls this in each turn, and polling every signal stream would cost more than the
/// turn itself.
#[derive(Debug)]
pub(crate) struct Signals {
    queue: Arc<Mutex<SignalQueue>>,
    listener: AbortHandle,
    _held: Option<SignalStream>,
}

/// What hears of signals.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) polled: Vec<(SignalEvent, SignalStream)>,
    /// Never polled: that a signal is caught is enough.
    pub(crate) held: Option<SignalStream>,
}

/// Signals that have arrived and were not polled yet, each once.
#[derive(Debug, Default)]
struct SignalQueue {
    arrivals: VecDeque<SignalEvent>,
    reader: Option<Waker>,
}

impl Signals {
    /// Listens from now on.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self::of(signals::listen()?))
    }

    /// Listens for changes of children only: signals to this process are somebody else's to handle.
    pub(crate) fn of_children() -> io::Result<Self> {
        Ok(Self::of(signals::of_children()?))
    }

    fn of(Listeners { mut polled, held }: Listeners) -> Self {
        let queue = Arc::<Mutex<SignalQueue>>::default();
        let sender = Arc::clone(&queue);
        let listener = tokio::spawn(poll_fn(move |cx| {
            for (arrival, stream) in &mut polled {
                while stream.poll_recv(cx).is_ready() {
                    deliver(&sender, *arrival);
                }
            }
            Poll::<()>::Pending
        }));
        Self { queue, listener: listener.abort_handle(), _held: held }
    }

    /// The next signal.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<SignalEvent> {
        let mut queue = lock(&self.queue);
        if let Some(arrival) = queue.arrivals.pop_front() {
            return Poll::Ready(arrival);
        }
        if !queue.reader.as_ref().is_some_and(|reader| reader.will_wake(cx.waker())) {
            queue.reader = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

fn deliver(queue: &Mutex<SignalQueue>, arrival: SignalEvent) {
    let mut queue = lock(queue);
    if !queue.arrivals.contains(&arrival) {
        queue.arrivals.push_back(arrival);
    }
    if let Some(reader) = queue.reader.take() {
        reader.wake();
    }
}

fn lock(queue: &Mutex<SignalQueue>) -> MutexGuard<'_, SignalQueue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}
