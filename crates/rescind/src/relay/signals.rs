//! Signals to this process that concern the server.

use std::{
    collections::VecDeque,
    future::poll_fn,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use rustix::process::Signal;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::AbortHandle,
};

/// What a signal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalEvent {
    /// It asks the server to end, and must be sent to it.
    AsksForEnd(Signal),
    /// Its meaning is up to the server, and it must be sent to it.
    PassedOn(Signal),
    /// A child may have ended or been stopped.
    Child,
    /// This process was continued: a shell may have given it the terminal.
    Continued,
}

/// Signals that ask for an end.
const ASK_FOR_END: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];

/// Signals that a server may give a meaning of its own, such as to reload its settings. Two of them would end this
/// process. SIGWINCH is sent to the terminal's foreground group, where the server is not.
const PASSED_ON: [Signal; 3] = [Signal::USR1, Signal::USR2, Signal::WINCH];

/// The signals to this process, in a queue.
///
/// A separate task listens: the link polls this in each turn, and polling every signal stream would cost more than the
/// turn itself.
#[derive(Debug)]
pub(crate) struct Signals {
    queue: Arc<Mutex<SignalQueue>>,
    listener: AbortHandle,
    /// Held, never polled. With a handler for SIGXFSZ, a write past the limit on file sizes is an error, which ends a log
    /// or a recording. Without, it would end the link.
    _too_large: Option<tokio::signal::unix::Signal>,
}

/// Signals that have arrived and were not polled yet, each once.
#[derive(Debug, Default)]
struct SignalQueue {
    arrivals: VecDeque<SignalEvent>,
    reader: Option<Waker>,
}

impl Signals {
    /// Listens from now on. Signals that were ignored when this process started (`nohup`) stay ignored.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let mut streams = Vec::new();
        let kinds = ASK_FOR_END.map(|kind| (kind, SignalEvent::AsksForEnd(kind)));
        for (kind, arrival) in kinds.into_iter().chain(PASSED_ON.map(|kind| (kind, SignalEvent::PassedOn(kind)))) {
            if !ignored.contains(kind) {
                streams.push((arrival, signal(SignalKind::from_raw(kind.as_raw()))?));
            }
        }
        let too_large = (!ignored.contains(Signal::XFSZ)).then(|| signal(SignalKind::from_raw(Signal::XFSZ.as_raw())));
        let too_large = too_large.transpose()?;
        streams.push((SignalEvent::Continued, signal(SignalKind::from_raw(Signal::CONT.as_raw()))?));
        streams.push((SignalEvent::Child, signal(SignalKind::child())?));
        Ok(Self::of(streams, too_large))
    }

    /// Listens for changes of children only: signals to this process are somebody else's to handle.
    pub(crate) fn of_children() -> io::Result<Self> {
        Ok(Self::of(vec![(SignalEvent::Child, signal(SignalKind::child())?)], None))
    }

    fn of(
        mut streams: Vec<(SignalEvent, tokio::signal::unix::Signal)>,
        too_large: Option<tokio::signal::unix::Signal>,
    ) -> Self {
        let queue = Arc::<Mutex<SignalQueue>>::default();
        let sender = Arc::clone(&queue);
        let listener = tokio::spawn(poll_fn(move |cx| {
            for (arrival, stream) in &mut streams {
                while stream.poll_recv(cx).is_ready() {
                    deliver(&sender, *arrival);
                }
            }
            Poll::<()>::Pending
        }));
        Self { queue, listener: listener.abort_handle(), _too_large: too_large }
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

/// A set of signals as the kernel prints it.
#[derive(Clone, Copy, Debug, Default)]
struct Mask(u64);

impl Mask {
    fn contains(self, signal: Signal) -> bool {
        self.0 >> (signal.as_raw() - 1) & 1 == 1
    }
}

/// The signals that this process ignores; none if `/proc` does not say.
fn ignored() -> Mask {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).map(Mask).unwrap_or_default()
}
