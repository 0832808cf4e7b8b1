//! What the program's library reads from and writes to, in place of the connection.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::shared::Shared;

/// What the peer says, as the relay passes it on.
///
/// Ends after the peer has, or the driver, and everything owed was read. Dropping it leaves the peer's messages
/// nowhere to go: its requests are answered for the program, and answers are forgotten.
#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
}

/// Takes what the program says to the peer.
///
/// What it has taken is the relay's to deliver: flushing waits for nothing, and a peer that does not read holds
/// nobody up before the bound of D13 (16 MiB). A write takes all or nothing, so that dropping one never leaves
/// half a frame. Shutting it down, or dropping it, is the end of the program's output (D27, D35). To know that
/// everything has left, wait for [`Handle::closed`](super::Handle::closed).
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
}

impl Reader {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl Writer {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl AsyncRead for Reader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.shared.with(|link, now| link.read(now, cx, buf)) {
            Some(()) => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    }
}

impl AsyncWrite for Writer {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.shared.with(|link, now| link.write(now, cx, buf)).map_or(Poll::Pending, Poll::Ready)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.with(|link, now| link.writer_gone(now));
        Poll::Ready(Ok(()))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.with(|link, now| link.reader_gone(now));
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.with(|link, now| link.writer_gone(now));
    }
}
