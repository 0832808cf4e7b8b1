//! The loop between the machine and the connection.
//!
//! It decides nothing about the protocol: what arrives is handed to the machine, what the machine has for the peer
//! is written as far as the peer takes it, and a peer that takes nothing delays nobody else.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Handle, OnEvent, shared::Shared};
use crate::relay::alarm::Alarm;

/// What is read at once.
const BUFFER: usize = 64 * 1024;

/// Rounds before other tasks get a turn: a connection may always be ready.
const ROUNDS: usize = 32;

/// Moves bytes between the connection and the relay, and keeps the clocks; a future that ends with the connection.
///
/// It ends when the peer was written everything owed to it, and the program has left or can be told no more. Dropping
/// it closes the connection: what was not written is lost, the program's requests in flight fail as if the peer had
/// ended, and those of a client peer are cancelled.
#[must_use = "nothing happens before the driver is polled"]
pub struct Driver<R, W> {
    shared: Arc<Shared>,
    reader: R,
    /// Gone once it is closed: some writers, such as a child's stdin, close only by being dropped.
    writer: Option<W>,
    on_event: Option<OnEvent>,
    /// Made when time is first needed, in the runtime that drives.
    alarm: Option<Alarm>,
    buffer: Box<[u8]>,
    /// Something was written and not flushed.
    unflushed: bool,
}

impl<R, W> Driver<R, W> {
    pub(super) fn new(shared: Arc<Shared>, reader: R, writer: W, on_event: Option<OnEvent>) -> Self {
        let buffer = vec![0; BUFFER].into();
        Self { shared, reader, writer: Some(writer), on_event, alarm: None, buffer, unflushed: false }
    }

    /// A handle on the connection.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.shared))
    }

    /// Does what is due, and tells what has happened. Whether there was something to tell.
    fn look_around(&mut self) -> bool {
        let events = self.shared.with(|link, now| {
            link.handle_timeout(now);
            link.take_events(now)
        });
        let told = !events.is_empty();
        if let Some(on_event) = &mut self.on_event {
            events.into_iter().for_each(on_event);
        }
        told
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Driver<R, W> {
    /// Reads the peer once, if it is wanted.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.shared.with(|link, _| link.wants_peer()) {
            return false;
        }
        let mut buf = ReadBuf::new(&mut self.buffer);
        let read = match Pin::new(&mut self.reader).poll_read(cx, &mut buf) {
            Poll::Pending => return false,
            // An error tells no more than an end: nothing will come.
            Poll::Ready(Err(_)) => 0,
            Poll::Ready(Ok(())) => buf.filled().len(),
        };
        self.shared.with(|link, now| link.peer_said(now, &self.buffer[..read]));
        true
    }

    /// Writes to the peer as long as it takes something; closes its input once it has all it will ever get.
    fn poll_output(&mut self, cx: &mut Context<'_>) -> bool {
        let Self { shared, writer, unflushed, .. } = self;
        let Some(open) = writer else { return false };
        let mut open = Pin::new(open);
        // The machine's bytes are lent to the writer, so that what it does not take can still be withdrawn.
        let (moved, closed) = shared.with(|link, now| {
            let mut moved = false;
            if !link.peer.reads {
                return (moved, true);
            }
            loop {
                let pending = link.pending_for_peer();
                if pending.is_empty() {
                    break;
                }
                match open.as_mut().poll_write(cx, pending) {
                    Poll::Pending => {
                        link.peer.blocked = true;
                        return (moved, false);
                    }
                    Poll::Ready(Ok(written)) if written > 0 => {
                        link.peer_read(now, written);
                        *unflushed = true;
                        moved = true;
                    }
                    Poll::Ready(Ok(_) | Err(_)) => {
                        link.peer_deaf(now);
                        return (true, true);
                    }
                }
            }
            link.peer.blocked = false;
            let closes = link.is_silent();
            let flushed = match closes {
                true => open.as_mut().poll_shutdown(cx),
                false if *unflushed => open.as_mut().poll_flush(cx),
                false => return (moved, false),
            };
            match flushed {
                Poll::Pending => (moved, false),
                Poll::Ready(Ok(())) if !closes => {
                    *unflushed = false;
                    (moved, false)
                }
                // Closed, or broken: nothing can be said to it any more.
                Poll::Ready(_) => {
                    link.peer_deaf(now);
                    (true, true)
                }
            }
        });
        if closed {
            *writer = None;
        }
        moved
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Future for Driver<R, W> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        for _ in 0..ROUNDS {
            let told = this.look_around();
            let mut moved = this.poll_input(cx);
            // Written before the next read: an answer must not wait for what comes after it.
            moved |= this.poll_output(cx);
            if moved || told {
                continue;
            }
            if this.shared.with(|link, _| link.is_over()) {
                return Poll::Ready(());
            }
            let due = this.shared.with(|link, _| link.due());
            if due.is_some() {
                let alarm = this.alarm.get_or_insert_with(Alarm::new);
                if alarm.poll(cx, this.shared.origin, due).is_ready() {
                    continue;
                }
            }
            if this.shared.with(|link, _| link.park_driver(cx, due)) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<R, W> Drop for Driver<R, W> {
    fn drop(&mut self) {
        self.shared.with(|link, now| link.driver_gone(now));
        self.shared.closed.notify_waiters();
    }
}

impl<R, W> fmt::Debug for Driver<R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("shared", &self.shared).finish_non_exhaustive()
    }
}
