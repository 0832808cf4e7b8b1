//! A file that is written by a thread of its own, so that a slow disk does not hold up the link.
//!
//! What waits for the thread is bounded; what happens at the bound is the owner's
//! choice: a recording waits for room, a log leaves lines out and says how many.

use std::{
    fs::File,
    io::{self, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

/// Bytes that may wait for the thread.
const BOUND: usize = 4 * 1024 * 1024;

/// The owner's end. Dropping it leaves what waits to the thread.
#[derive(Debug)]
pub(super) struct Sink {
    /// What has not been given to the thread.
    batch: Vec<u8>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// The thread waits here for bytes, the owner at the end for their end.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: Vec<u8>,
    /// Bytes that the thread has taken and not yet written.
    writing: usize,
    closed: bool,
    /// Nothing more is written.
    broken: bool,
    /// Why, until somebody has asked.
    failure: Option<io::Error>,
    /// The link, where it waits for room.
    waker: Option<Waker>,
}

impl Sink {
    pub(super) fn new(file: File, name: &str) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name(name.into()).spawn(move || theirs.write_all(file))?;
        Ok(Self { batch: Vec::new(), shared })
    }

    /// Where the next line is written to; [`commit`](Self::commit) sends it off.
    pub(super) const fn line(&mut self) -> &mut Vec<u8> {
        &mut self.batch
    }

    /// Gives the thread what was written since the last time.
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

    /// Whether there is room for `bytes` more without waiting.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.shared.state().waiting() + self.batch.len() + bytes <= BOUND
    }

    /// Ready when what waits is within the bound.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.shared.state();
        if state.waiting() + self.batch.len() <= BOUND {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Why writing has failed; asked once.
    pub(super) fn take_failure(&self) -> Option<io::Error> {
        self.shared.state().failure.take()
    }

    /// Waits until everything is written, but no longer than `patience`.
    pub(super) fn finish(&mut self, patience: Duration) {
        self.commit();
        let mut state = self.shared.state();
        state.closed = true;
        self.shared.changed.notify_all();
        let unwritten = |state: &mut State| state.waiting() > 0 && !state.broken;
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

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
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
            let wait = |state: &mut State| state.queue.is_empty() && !state.closed;
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
                if let Some(waker) = state.waker.take() {
                    waker.wake();
                }
                self.changed.notify_all();
                return;
            }
            taken.clear();
            if taken.capacity() > BOUND {
                taken = Vec::new();
            }
        }
    }
}

impl State {
    const fn waiting(&self) -> usize {
        self.queue.len() + self.writing
    }
}
