//! The loop between the machine and the connection.
//!
//! It makes no protocol decisions. Input goes to the machine, and what the machine has for the peer is written as far
//! as the peer takes it. A peer that reads nothing delays nothing else.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Handle, OnEvent, shared::SharedLink};
use crate::alarm::Alarm;

/// The size of the read buffer.
const BUFFER: usize = 64 * 1024;

/// Rounds before yielding to other tasks: a connection may always be ready.
const ROUNDS: usize = 32;

/// Moves bytes between the connection and the relay, and keeps the clocks; a future that ends with the connection.
///
/// It ends when everything owed to the peer is written, and the program has left or has read the end. Dropping it closes
/// the connection: unwritten messages are lost, the program's requests in flight fail as if the peer had ended, and those
/// of a client peer are cancelled.
#[must_use = "nothing happens before the driver is polled"]
pub struct WrapDriver<R, W> {
    shared: Arc<SharedLink>,
    reader: R,
    /// `None` once closed: some writers, such as a child's stdin, close only when dropped.
    writer: Option<W>,
    on_event: Option<OnEvent>,
    /// Created when first needed, in the runtime that polls the driver.
    alarm: Option<Alarm>,
    buffer: Box<[u8]>,
    /// Bytes were written and not flushed.
    unflushed: bool,
}

impl<R, W> WrapDriver<R, W> {
    pub(super) fn new(shared: Arc<SharedLink>, reader: R, writer: W, on_event: Option<OnEvent>) -> Self {
        let buffer = vec![0; BUFFER].into();
        Self { shared, reader, writer: Some(writer), on_event, alarm: None, buffer, unflushed: false }
    }

    /// A handle on the connection.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.shared))
    }

    /// Handles expired timers and emits events; `true` if there were any.
    fn handle_due(&mut self) -> bool {
        let events = self.shared.with(|link, now| {
            link.handle_timeout(now);
            link.drain_events(now)
        });
        let has_emitted = !events.is_empty();
        if let Some(on_event) = &mut self.on_event {
            events.into_iter().for_each(on_event);
        }
        has_emitted
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> WrapDriver<R, W> {
    /// Reads from the peer once, if the machine wants input.
    fn poll_input(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.shared.with(|link, _| link.wants_peer()) {
            return false;
        }
        let mut buf = ReadBuf::new(&mut self.buffer);
        let read = match Pin::new(&mut self.reader).poll_read(cx, &mut buf) {
            Poll::Pending => return false,
            // An error means the same as the end: no more input.
            Poll::Ready(Err(_)) => 0,
            Poll::Ready(Ok(())) => buf.filled().len(),
        };
        self.shared.with(|link, now| link.handle_peer_input(now, &self.buffer[..read]));
        true
    }

    /// Writes to the peer while it accepts bytes; closes the writer once nothing more will follow.
    fn poll_output(&mut self, cx: &mut Context<'_>) -> bool {
        let Self { shared, writer, unflushed, .. } = self;
        let Some(open) = writer else { return false };
        let mut open = Pin::new(open);
        // The writer borrows the machine's bytes, so that a frame it has not taken can still be withdrawn.
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
                        link.handle_peer_read(now, written);
                        *unflushed = true;
                        moved = true;
                    }
                    Poll::Ready(Ok(_) | Err(_)) => {
                        link.handle_write_closed(now);
                        return (true, true);
                    }
                }
            }
            link.peer.blocked = false;
            let closes = link.is_finished();
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
                // Closed or broken: nothing more can be written.
                Poll::Ready(_) => {
                    link.handle_write_closed(now);
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

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Future for WrapDriver<R, W> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        for _ in 0..ROUNDS {
            let has_emitted = this.handle_due();
            let mut moved = this.poll_input(cx);
            // Write before the next read, so that an answer does not wait for later input.
            moved |= this.poll_output(cx);
            if moved || has_emitted {
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

impl<R, W> Drop for WrapDriver<R, W> {
    fn drop(&mut self) {
        self.shared.with(|link, now| link.handle_driver_dropped(now));
        self.shared.closed.notify_waiters();
    }
}

impl<R, W> fmt::Debug for WrapDriver<R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("shared", &self.shared).finish_non_exhaustive()
    }
}
