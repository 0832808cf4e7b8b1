//! Streams of whole messages: what carries a connection, or an end of a relay, where there is no stream of bytes.

use std::{
    io,
    task::{Context, Poll},
};

use bytes::Bytes;
use rescind_proto::id::RequestId;
pub use rescind_proto::link::CancelFate;
#[cfg(feature = "peer")]
use rescind_proto::{connection::Connection, time::Instant};

/// A transport that frames messages itself.
///
/// Dropping it closes it at once, without telling the other side.
pub trait MessageStream: Send + Unpin {
    /// Sets the length of the longest message to take in, in bytes. Called once, before anything is read.
    fn limit(&mut self, max_message: usize);

    /// Receives the next message; `None` at the end.
    ///
    /// # Errors
    ///
    /// The link broke, or the peer sent something that cannot be skipped.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Arrival>>>;

    /// Takes one message: JSON without a line break. Once taken it counts as sent (D15).
    ///
    /// # Errors
    ///
    /// Nothing can be sent any more.
    fn poll_send(&mut self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>>;

    /// A request of the peer was cancelled and will never be answered. A stream that holds something open for each request
    /// lets it go (D41).
    fn handle_silenced(&mut self, _id: &RequestId) {}

    /// What is known of a cancel that came on this stream, for a stream that tells who sent it (D41). `id` is the one that
    /// the cancel named. It is called when something is known for the first time, and when that changes.
    fn handle_cancel_fate(&mut self, _id: &RequestId, _fate: CancelFate) {}

    /// Ready when every message that was taken is written.
    ///
    /// # Errors
    ///
    /// Nothing can be sent any more.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Closes the stream in order. A connection gives up after its builder's `linger`.
    ///
    /// # Errors
    ///
    /// They have no effect: the connection ends either way.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// An item that a [`MessageStream`] received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A whole message.
    Message(Bytes),
    /// Bytes that cannot be a message: they are counted, and answered where the peer may wait for an answer.
    Garbage(Bytes),
    /// The peer has closed what the answer to its request would travel on, which cancels that request (MCP-H03).
    StreamClosed(RequestId),
}

impl Arrival {
    /// Its bytes, if it has any.
    #[cfg(feature = "peer")]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Message(bytes) | Self::Garbage(bytes) => bytes,
            Self::StreamClosed(_) => &[],
        }
    }

    #[cfg(feature = "peer")]
    pub(crate) fn feed(&self, conn: &mut Connection, now: Instant) {
        match self {
            Self::Message(body) => conn.handle_message(now, body),
            Self::Garbage(bytes) => conn.handle_garbage(now, bytes),
            Self::StreamClosed(id) => conn.handle_stream_closed(now, id),
        }
    }
}
