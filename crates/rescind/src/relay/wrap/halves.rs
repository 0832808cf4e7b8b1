//! The two halves that the program's library uses in place of the connection.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::shared::SharedLink;

/// The messages from the peer.
///
/// It ends after the peer or the driver has ended and everything owed was read. After it is dropped, the peer's requests
/// are answered on the program's behalf, and answers are discarded.
#[derive(Debug)]
pub struct Reader(pub(super) Arc<SharedLink>);

/// The messages to the peer.
///
/// The relay delivers what was written, so flushing returns at once, and a peer that does not read blocks writes only
/// past the bound of D13 (16 MiB). A write takes all its bytes or none, so a write that is dropped never leaves half a
/// frame. Shutting it down or dropping it ends the program's output (D27, D35). To know that everything has left, wait
/// for [`Handle::closed`](super::Handle::closed).
#[derive(Debug)]
pub struct Writer(pub(super) Arc<SharedLink>);

impl AsyncRead for Reader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.0.with(|link, now| link.read(now, cx, buf)) {
            Some(()) => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    }
}

impl AsyncWrite for Writer {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.with(|link, now| link.write(now, cx, buf)).map_or(Poll::Pending, Poll::Ready)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.with(|link, now| link.handle_writer_closed(now));
        Poll::Ready(Ok(()))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.with(|link, now| link.handle_reader_dropped(now));
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.with(|link, now| link.handle_writer_closed(now));
    }
}
