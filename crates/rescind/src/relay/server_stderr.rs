//! What a server writes to its stderr: passed on, and its end kept for the errors about the server's end (D63).

use std::{
    collections::VecDeque,
    future::{Future as _, poll_fn},
    ops::ControlFlow,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{sync::Notify, task::JoinHandle, time::timeout};

use super::stderr::ServerWriter;
use crate::stdio::Input;

/// How much of its end is kept.
const KEPT: usize = 16 * 1024;

/// The most bytes read at once.
const PIECE: usize = 16 * 1024;

/// How long a server waits for room on our stderr, each time that something was read from there: a client that reads it,
/// however slowly, gets all of it, and one that does not never stops a server.
const PATIENCE: Duration = Duration::from_secs(1);

/// A server's stderr, read by a task of its own, so that the messages of a link cost nothing more. Dropping it stops that.
#[derive(Debug)]
pub(super) struct ServerStderr {
    shared: Arc<Shared>,
    reading: JoinHandle<()>,
    has_ended: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// How many bytes of its end are kept.
    kept: usize,
    /// The server has ended: nothing is waited for any more.
    is_over: AtomicBool,
    /// Wakes who waits.
    over: Notify,
}

#[derive(Debug)]
struct State {
    /// The last bytes.
    kept: VecDeque<u8>,
    writer: ServerWriter,
}

impl ServerStderr {
    /// Reads it from now on. Its last bytes are kept only if it `is_kept`.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub(super) fn read(input: Input, is_kept: bool) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State { kept: VecDeque::new(), writer: ServerWriter::new() }),
            kept: if is_kept { KEPT } else { 0 },
            is_over: AtomicBool::new(false),
            over: Notify::new(),
        });
        let reading = tokio::spawn(Arc::clone(&shared).pass_on(input));
        Self { shared, reading, has_ended: false }
    }

    /// Ready once it has been read to its end. Called after the server's end: what else has it open may write on.
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.shared.is_over.swap(true, Ordering::Relaxed) {
            self.shared.over.notify_one();
        }
        if !self.has_ended {
            self.has_ended = Pin::new(&mut self.reading).poll(cx).is_ready();
        }
        if self.has_ended { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The last bytes of it, at most 16 KiB; none if they are not kept.
    pub(super) fn last(&self) -> Vec<u8> {
        self.shared.state().kept.iter().copied().collect()
    }

    /// Waits until what was read of it is with whoever reads our stderr, as [`Stderr::finish`](super::Stderr::finish).
    pub(super) fn finish(self) {
        self.shared.state().writer.finish();
    }
}

impl Drop for ServerStderr {
    fn drop(&mut self) {
        self.reading.abort();
        self.shared.state().writer.pass_on(&[], false);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn pass_on(self: Arc<Self>, mut input: Input) {
        // How many pieces were written when the reader of our stderr was last given up.
        let mut given_up = None;
        loop {
            let must_wait = given_up != Some(ServerWriter::pieces()) && !self.is_over.load(Ordering::Relaxed);
            if must_wait {
                let mut over = pin!(self.over.notified());
                let room = poll_fn(|cx| match over.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(()),
                    Poll::Pending => self.state().writer.poll_room(cx),
                });
                let has_room = timeout(PATIENCE, room).await.is_ok();
                given_up = (!has_room).then(ServerWriter::pieces);
            }
            if poll_fn(|cx| self.poll_pass(cx, &mut input)).await.is_break() {
                return;
            }
        }
    }

    /// Reads once, and passes it on. Breaks at the end.
    fn poll_pass(&self, cx: &mut Context<'_>, input: &mut Input) -> Poll<ControlFlow<()>> {
        // On the stack: most servers write little, and then wait.
        let mut buffer = [0; PIECE];
        let read = match input.poll_read(cx, &mut buffer) {
            Poll::Pending => 0,
            Poll::Ready(Ok(read @ 1..)) => read,
            Poll::Ready(Ok(_) | Err(_)) => {
                self.state().writer.pass_on(&[], false);
                return Poll::Ready(ControlFlow::Break(()));
            }
        };
        let bytes = &buffer[..read];
        let mut state = self.state();
        let excess = (state.kept.len() + read).saturating_sub(self.kept).min(state.kept.len());
        state.kept.drain(..excess);
        state.kept.extend(&bytes[read.saturating_sub(self.kept)..]);
        state.writer.pass_on(bytes, read == PIECE);
        drop(state);
        if read == 0 { Poll::Pending } else { Poll::Ready(ControlFlow::Continue(())) }
    }
}
