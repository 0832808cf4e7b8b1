//! Streams of whole messages: what carries a connection, or an end of a relay, where there is no stream of bytes.

use std::{
    fmt, io,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use rescind_proto::id::RequestId;
pub use rescind_proto::link::{Attachment, CancelFate, Connected, Departure, Unanswered};
#[cfg(feature = "peer")]
use rescind_proto::{connection::Connection, time::Instant};

/// A transport that frames messages itself.
///
/// Dropping it closes it at once, without telling the other side.
pub trait MessageStream: Send + Unpin {
    /// Sets the length of the longest message to take in, in bytes. Called once, before anything is read.
    fn limit(&mut self, max_message: usize);

    /// The protocol that carries it, for spans (`network.protocol.name`).
    fn protocol_name(&self) -> Option<&'static str> {
        None
    }

    /// Counts who is connected, whenever it is called, for a stream behind which several connections are.
    fn census(&self) -> Option<Census> {
        None
    }

    /// Whose it is, if that is known and the same for all that comes on it: a name for the operator, who may see it.
    fn owner(&self) -> Option<&str> {
        None
    }

    /// Tells whenever it is called whether a request waits for a person to sign in, for a stream on which that can be.
    fn signing_in(&self) -> Option<SigningIn> {
        None
    }

    /// Receives the next message; `None` at the end.
    ///
    /// # Errors
    ///
    /// The link broke, or the peer sent something that cannot be skipped.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Arrival>>>;

    /// Takes one message: JSON without a line break. Once taken it counts as sent (D15), unless departures are reported.
    ///
    /// # Errors
    ///
    /// Nothing can be sent any more.
    fn poll_send(&mut self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>>;

    /// Has a stream that can take back what it has taken report what has become of it (D51), by
    /// [`poll_departure`](Self::poll_departure). `false` for a stream from which every message leaves when it is taken.
    /// Called once, before the first message.
    fn watch_departures(&mut self) -> bool {
        false
    }

    /// Reports what has become of requests and cancels that were taken, each under the request's id as it was spelled in
    /// the message.
    ///
    /// Each request that was taken leaves or is withdrawn, also if it is answered by an error for want of a server. Its
    /// departure is reported before its answer: [`poll_next`](Self::poll_next) gives nothing while a departure waits. One
    /// that is returned leaves again, or is withdrawn. A cancel leaves after its request, and at most once. It does not if
    /// nobody takes it, or if the request was answered before; where that answer is then not given, the request is
    /// withdrawn although it had left.
    fn poll_departure(&mut self, _cx: &mut Context<'_>) -> Poll<Departure> {
        Poll::Pending
    }

    /// Has what is taken from now on belong to others, or to the same people under a new token. What was taken before
    /// belongs to whom it did, however late it leaves.
    fn handle_credentials(&mut self, _credentials: Credentials) {}

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
#[non_exhaustive]
pub enum Arrival {
    /// A whole message.
    Message(Bytes),
    /// A whole message, and a value for the handlers of its requests ([`Context::attachment`](crate::peer::Context::attachment)):
    /// what the transport knows of who sent it.
    Attached {
        /// The message.
        message: Bytes,
        /// The value.
        attachment: Attachment,
    },
    /// Bytes that cannot be a message: they are counted, and answered where the peer may wait for an answer.
    Garbage(Bytes),
    /// The peer has closed what the answer to its request would travel on, which cancels that request (MCP-H03).
    StreamClosed(RequestId),
    /// An error that answers a request of this side, in place of the peer, which gives no answer that can be used.
    Unanswered {
        /// The whole message.
        answer: Bytes,
        /// What is known of it besides.
        why: Unanswered,
    },
    /// What follows belongs to these. At first it belongs to nobody.
    Credentials(Credentials),
}

/// To whom messages belong, in the words of their transport: over HTTP, the value of the header `Authorization`. None are
/// an answer, too. They are never shown.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Credentials(Option<Bytes>);

impl Credentials {
    /// These bytes, which are a secret.
    #[must_use]
    pub const fn new(secret: Bytes) -> Self {
        Self(Some(secret))
    }

    /// The secret, if there is one.
    #[must_use]
    pub const fn secret(&self) -> Option<&Bytes> {
        self.0.as_ref()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Credentials(_)" } else { "Credentials(None)" })
    }
}

/// Counts who is connected to a stream of messages.
pub type Census = Arc<dyn Fn() -> Connected + Send + Sync>;

/// Tells whether a request on a stream of messages waits for a person to sign in.
pub type SigningIn = Arc<dyn Fn() -> bool + Send + Sync>;

impl Arrival {
    /// Its bytes, if it has any.
    #[cfg(feature = "peer")]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Message(bytes)
            | Self::Garbage(bytes)
            | Self::Attached { message: bytes, .. }
            | Self::Unanswered { answer: bytes, .. } => bytes,
            Self::StreamClosed(_) | Self::Credentials(_) => &[],
        }
    }

    /// Its message, if it is one: also an answer in place of the peer.
    #[cfg(feature = "peer")]
    pub(crate) const fn message_mut(&mut self) -> Option<&mut Bytes> {
        match self {
            Self::Message(bytes) | Self::Attached { message: bytes, .. } | Self::Unanswered { answer: bytes, .. } => {
                Some(bytes)
            }
            Self::Garbage(_) | Self::StreamClosed(_) | Self::Credentials(_) => None,
        }
    }

    #[cfg(feature = "peer")]
    pub(crate) fn feed(&self, conn: &mut Connection, now: Instant) {
        match self {
            Self::Message(body) => conn.handle_message(now, body),
            Self::Attached { message, attachment } => conn.handle_message_with(now, message, attachment.clone()),
            Self::Garbage(bytes) => conn.handle_garbage(now, bytes),
            Self::StreamClosed(id) => conn.handle_stream_closed(now, id),
            Self::Unanswered { answer, why } => conn.handle_unanswered(now, answer, why),
            // Nobody asks yet.
            Self::Credentials(_) => {}
        }
    }
}
