//! A file written by its own thread, so that a slow disk does not stall the link.
//!
//! The queue of the thread is bounded. At the bound a recording waits for room,
//! and a log leaves lines out and says how many.

use std::{
    fs::File,
    io::{self, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

/// The most bytes that wait for the thread.
const MAX_QUEUED: usize = 4 * 1024 * 1024;

/// The owner's end. The thread still writes what is queued when this is dropped.
#[derive(Debug)]
pub(super) struct Sink {
    /// Bytes not yet queued for the thread.
    batch: Vec<u8>,
    shared: Arc<SinkShared>,
}

#[derive(Debug, Default)]
struct SinkShared {
    state: Mutex<SinkState>,
    /// The thread waits here for bytes, and `finish` for an empty queue.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SinkState {
    queue: Vec<u8>,
    /// Bytes that the thread has taken and not yet written.
    writing: usize,
    closed: bool,
    /// Writing has failed, and nothing more is written.
    broken: bool,
    /// The error, until it is collected.
    failure: Option<io::Error>,
    /// Wakes the link if it waits for room.
    waker: Option<Waker>,
    /// Wakes it if writing fails, whatever else it does.
    alarm: Option<Waker>,
}

impl Sink {
    pub(super) fn new(file: File, name: &str) -> io::Result<Self> {
        let shared = Arc::new(SinkShared::default());
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name(name.into()).spawn(move || theirs.write_all(file))?;
        Ok(Self { batch: Vec::new(), shared })
    }

    /// The buffer for the next line. [`commit`](Self::commit) queues it.
    pub(super) const fn line(&mut self) -> &mut Vec<u8> {
        &mut self.batch
    }

    /// Queues what was written since the last call.
    pub(super) fn commit(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let mut state = self.shared.state();
        if state.broken {
            self.batch.clear();
        } else if state.queue.is_empty() {
            std::mem::swap(&mut state.queue, &mut self.batch);
        } else {
            state.queue.append(&mut self.batch);
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Whether `bytes` more fit into the queue.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.shared.state().waiting() + self.batch.len() + bytes <= MAX_QUEUED
    }

    /// Ready when the queue is within the bound. A failure wakes it in any case.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.shared.state();
        if !state.broken && state.alarm.as_ref().is_none_or(|alarm| !alarm.will_wake(cx.waker())) {
            state.alarm = Some(cx.waker().clone());
        }
        if state.waiting() + self.batch.len() <= MAX_QUEUED {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Returns the error of a failed write, once.
    pub(super) fn remove_failure(&self) -> Option<io::Error> {
        self.shared.state().failure.take()
    }

    /// Waits until everything is written, at most for `patience`.
    pub(super) fn finish(&mut self, patience: Duration) {
        self.commit();
        let mut state = self.shared.state();
        state.closed = true;
        self.shared.changed.notify_all();
        let unwritten = |state: &mut SinkState| state.waiting() > 0 && !state.broken;
        drop(self.shared.changed.wait_timeout_while(state, patience, unwritten));
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.commit();
        self.shared.state().closed = true;
        self.shared.changed.notify_all();
    }
}

impl SinkShared {
    fn state(&self) -> MutexGuard<'_, SinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all(&self, mut file: File) {
        let mut taken = Vec::new();
        loop {
            let mut state = self.state();
            state.writing = 0;
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
            self.changed.notify_all();
            let wait = |state: &mut SinkState| state.queue.is_empty() && !state.closed;
            state = self.changed.wait_while(state, wait).unwrap_or_else(PoisonError::into_inner);
            if state.queue.is_empty() {
                return;
            }
            std::mem::swap(&mut state.queue, &mut taken);
            state.writing = taken.len();
            drop(state);
            if let Err(error) = file.write_all(&taken) {
                let mut state = self.state();
                state.queue = Vec::new();
                state.writing = 0;
                state.broken = true;
                state.failure = Some(error);
                for waker in [state.waker.take(), state.alarm.take()].into_iter().flatten() {
                    waker.wake();
                }
                self.changed.notify_all();
                return;
            }
            taken.clear();
            if taken.capacity() > MAX_QUEUED {
                taken = Vec::new();
            }
        }
    }
}

impl SinkState {
    const fn waiting(&self) -> usize {
        self.queue.len() + self.writing
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{sync::mpsc, task::Wake};

    use super::*;

    struct Alarm(mpsc::Sender<()>);

    impl Wake for Alarm {
        fn wake(self: Arc<Self>) {
            self.0.send(()).expect("a test that waits");
        }
    }

    /// A link on which nothing more happens would never ask.
    #[test]
    fn a_failure_wakes_the_link_that_does_not_wait_for_room() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut sink = Sink::new(full, "test").unwrap();
        let (rings, rung) = mpsc::channel();
        let waker = Waker::from(Arc::new(Alarm(rings)));
        assert!(sink.poll_room(&mut Context::from_waker(&waker)).is_ready());
        sink.line().extend_from_slice(b"a line");
        sink.commit();
        rung.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(sink.remove_failure().unwrap().kind(), io::ErrorKind::StorageFull);
    }
}
