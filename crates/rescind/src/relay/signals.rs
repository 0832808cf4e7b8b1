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

/// What a signal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It asks the server to end, and is to be handed on to it.
    HandedOn(Signal),
    /// It means what the server takes it for, and is to be handed on to it.
    PassedOn(Signal),
    /// A child may have ended or been stopped.
    Child,
    /// This process was continued: a shell may have given it the terminal.
    Continued,
}

/// Those that ask for an end.
const HANDED_ON: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];

/// Those that a server gives a meaning of its own, such as to read its settings again. Two of them would end this
/// process; a new size of the terminal is told to its foreground group, where the server is not.
const PASSED_ON: [Signal; 3] = [Signal::USR1, Signal::USR2, Signal::WINCH];

/// The signals that are handed on to the server, and the news that a child has ended or was stopped, or that this
/// process was continued.
///
/// A task of their own listens: the link asks in each of its turns, and asking every stream costs more than the turn.
#[derive(Debug)]
pub(crate) struct Signals {
    post: Arc<Mutex<Post>>,
    listener: AbortHandle,
    /// Held, never polled: listening to it makes a write beyond the limit on file sizes an error, which ends a
    /// log or a recording, instead of the end of the link.
    _too_large: Option<tokio::signal::unix::Signal>,
}

/// What has arrived and was not looked at, each once.
#[derive(Debug, Default)]
struct Post {
    arrivals: VecDeque<Arrival>,
    reader: Option<Waker>,
}

impl Signals {
    /// Listens from now on. What this process was started with as ignored (`nohup`) stays ignored.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let mut streams = Vec::new();
        let kinds = HANDED_ON.map(|kind| (kind, Arrival::HandedOn(kind)));
        for (kind, arrival) in kinds.into_iter().chain(PASSED_ON.map(|kind| (kind, Arrival::PassedOn(kind)))) {
            if !ignored.contains(kind) {
                streams.push((arrival, signal(SignalKind::from_raw(kind.as_raw()))?));
            }
        }
        let too_large = (!ignored.contains(Signal::XFSZ)).then(|| signal(SignalKind::from_raw(Signal::XFSZ.as_raw())));
        let too_large = too_large.transpose()?;
        streams.push((Arrival::Continued, signal(SignalKind::from_raw(Signal::CONT.as_raw()))?));
        streams.push((Arrival::Child, signal(SignalKind::child())?));
        let post = Arc::<Mutex<Post>>::default();
        let sender = Arc::clone(&post);
        let listener = tokio::spawn(poll_fn(move |cx| {
            for (arrival, stream) in &mut streams {
                while stream.poll_recv(cx).is_ready() {
                    deliver(&sender, *arrival);
                }
            }
            Poll::<()>::Pending
        }));
        Ok(Self { post, listener: listener.abort_handle(), _too_large: too_large })
    }

    /// The next signal.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<Arrival> {
        let mut post = lock(&self.post);
        if let Some(arrival) = post.arrivals.pop_front() {
            return Poll::Ready(arrival);
        }
        if !post.reader.as_ref().is_some_and(|reader| reader.will_wake(cx.waker())) {
            post.reader = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

fn deliver(post: &Mutex<Post>, arrival: Arrival) {
    let mut post = lock(post);
    if !post.arrivals.contains(&arrival) {
        post.arrivals.push_back(arrival);
    }
    if let Some(reader) = post.reader.take() {
        reader.wake();
    }
}

fn lock(post: &Mutex<Post>) -> MutexGuard<'_, Post> {
    post.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A set of signals as the kernel prints it.
#[derive(Clone, Copy, Debug, Default)]
struct Mask(u64);

impl Mask {
    fn contains(self, signal: Signal) -> bool {
        self.0 >> (signal.as_raw() - 1) & 1 == 1
    }
}

/// The signals that this process ignores; none where the system does not say.
fn ignored() -> Mask {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).map(Mask).unwrap_or_default()
}
