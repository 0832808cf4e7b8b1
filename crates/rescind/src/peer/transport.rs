//! Transports, which carry the messages of a connection.
//!
//! A transport is a reader and a writer of bytes, or a [`MessageStream`] that frames messages itself, as a WebSocket does.
//! Anything that can be read and written can be one ([`Transport::new`], [`Transport::joined`]); the kinds that most
//! programs need are functions of this module.
//!
//! Requirements on a reader and a writer: `poll_read` returns 0 bytes at the end; `poll_write` takes as many bytes as it
//! can and returns [`Poll::Pending`] if it can take none, since bytes that it took count as sent (D15); `poll_flush` is
//! needed if bytes are held back; `poll_shutdown` is pending no longer than the other side may take to close. None of them
//! may block, or call the connection that it carries.

#[cfg(feature = "child")]
pub mod child;
#[cfg(any(feature = "unix", feature = "tcp", feature = "websocket"))]
mod listener;
#[cfg(any(feature = "stdio", feature = "child"))]
mod pipe;
#[cfg(any(feature = "unix", feature = "tcp"))]
mod socket;
#[cfg(feature = "stdio")]
mod stdio;
#[cfg(feature = "websocket")]
mod websocket;

use std::{
    any::Any,
    future::Future,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};

use rescind_proto::{connection::ConnectionConfig, framing::Framing, id::RequestId};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, DuplexStream};

pub use crate::message_stream::{
    Arrival, Attachment, CancelFate, Census, Connected, Credentials, Departure, MessageStream, SigningIn, Unanswered,
};
#[cfg(feature = "child")]
pub use child::child;
#[cfg(any(feature = "unix", feature = "tcp", feature = "websocket"))]
pub use listener::Listener;
#[cfg(feature = "tcp")]
pub use socket::tcp;
#[cfg(all(feature = "unix", unix))]
pub use socket::unix;
#[cfg(feature = "stdio")]
pub use stdio::stdio;
#[cfg(feature = "websocket")]
pub use websocket::{accept_websocket, websocket, websocket_over};

/// A reader and a writer, ready for a connection.
pub struct Transport {
    pub(crate) io: Io,
    pub(crate) framing: Option<Framing>,
    kept: Vec<Box<dyn Any + Send>>,
}

pub(crate) enum Io {
    Bytes(Box<dyn ReadWrite>),
    Messages(Messages),
}

/// A reader and writer in one value.
pub(crate) trait ReadWrite: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ReadWrite for T {}

/// A stream of messages, and its end if that came behind messages that are delivered first.
pub(crate) struct Messages {
    stream: Box<dyn MessageStream>,
    end: Option<io::Result<()>>,
}

/// The result of one read.
#[derive(Debug)]
pub(crate) enum InputChunk {
    /// This many bytes, in the buffer.
    Bytes(usize),
    Arrivals(Vec<Arrival>),
    End,
}

/// Messages of up to this many bytes together are taken in at once, so that their answers leave together.
const BATCH: usize = 64 * 1024;

impl Io {
    /// Reads as many bytes as `buffer`, which is empty, has capacity for; or messages, which leave it alone.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<InputChunk>> {
        let bytes = match self {
            Self::Bytes(both) => pin!(both.read_buf(buffer)).poll(cx),
            Self::Messages(messages) => return messages.poll_read(cx),
        };
        let bytes = ready!(bytes)?;
        Poll::Ready(Ok(if bytes > 0 { InputChunk::Bytes(bytes) } else { InputChunk::End }))
    }

    /// Takes some of `frames`, which for a stream of messages are whole lines.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, frames: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Bytes(both) => Pin::new(&mut **both).poll_write(cx, frames),
            Self::Messages(Messages { stream, .. }) => {
                let end = memchr::memchr(b'\n', frames).unwrap_or(frames.len());
                ready!(stream.poll_send(cx, &frames[..end]))?;
                Poll::Ready(Ok(frames.len().min(end + 1)))
            }
        }
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Bytes(both) => Pin::new(&mut **both).poll_flush(cx),
            Self::Messages(Messages { stream, .. }) => stream.poll_flush(cx),
        }
    }

    pub(crate) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Bytes(both) => Pin::new(&mut **both).poll_shutdown(cx),
            Self::Messages(Messages { stream, .. }) => stream.poll_close(cx),
        }
    }

    /// Tells a stream of messages that a request of the peer will never be answered.
    pub(crate) fn silence(&mut self, id: &RequestId) {
        if let Self::Messages(messages) = self {
            messages.stream.handle_silenced(id);
        }
    }

    /// Tells a stream of messages what is known of a cancel that came on it.
    pub(crate) fn tell_fate(&mut self, id: &RequestId, fate: CancelFate) {
        if let Self::Messages(messages) = self {
            messages.stream.handle_cancel_fate(id, fate);
        }
    }

    /// Receives what is newly known of messages that were taken.
    pub(crate) fn poll_departures(&mut self, cx: &mut Context<'_>) -> Vec<Departure> {
        let mut departures = Vec::new();
        if let Self::Messages(Messages { stream, .. }) = self {
            while let Poll::Ready(departure) = stream.poll_departure(cx) {
                departures.push(departure);
            }
        }
        departures
    }

    /// The protocol that carries it, if anything with a name does.
    pub(crate) fn protocol_name(&self) -> Option<&'static str> {
        match self {
            Self::Messages(Messages { stream, .. }) => stream.protocol_name(),
            Self::Bytes(_) => None,
        }
    }

    /// Sets the limit of a stream of messages, and what its connection reports to it or learns from it; returns the framing
    /// that it demands. Of bytes the engine limits the length.
    pub(crate) fn prepare(&mut self, config: &mut ConnectionConfig) -> Option<Framing> {
        (config.reports_silences, config.departs) = (false, false);
        let Self::Messages(Messages { stream, .. }) = self else { return None };
        stream.limit(config.max_message);
        (config.reports_silences, config.departs) = (true, stream.watch_departures());
        Some(Framing::Line)
    }
}

impl Messages {
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<InputChunk>> {
        let mut arrivals = Vec::new();
        let mut bytes = 0;
        while self.end.is_none() && bytes < BATCH {
            match self.stream.poll_next(cx) {
                Poll::Pending if arrivals.is_empty() => return Poll::Pending,
                Poll::Pending => break,
                Poll::Ready(Ok(Some(arrival))) => {
                    bytes += size_of::<Arrival>() + arrival.bytes().len();
                    arrivals.push(arrival);
                }
                Poll::Ready(Ok(None)) => self.end = Some(Ok(())),
                Poll::Ready(Err(error)) => self.end = Some(Err(error)),
            }
        }
        Poll::Ready(if arrivals.is_empty() {
            self.end.take().unwrap_or(Ok(())).map(|()| InputChunk::End)
        } else {
            Ok(InputChunk::Arrivals(arrivals))
        })
    }
}

impl Transport {
    /// Makes a transport of a reader and a writer.
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self::joined(tokio::io::join(reader, writer))
    }

    /// Makes a transport of a stream that both reads and writes, such as a socket.
    pub fn joined(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self::of(Io::Bytes(Box::new(stream)))
    }

    /// Makes a transport of a stream that frames messages itself.
    pub fn messages(stream: impl MessageStream + 'static) -> Self {
        Self::of(Io::Messages(Messages { stream: Box::new(stream), end: None }))
    }

    /// Makes a transport whose connection ends with this error.
    #[cfg(feature = "stdio")]
    fn broken(error: io::Error) -> Self {
        Self::messages(BrokenTransport(Some(error)))
    }

    const fn of(io: Io) -> Self {
        Self { io, framing: None, kept: Vec::new() }
    }

    /// Sets how its messages are framed, in place of the dialect's way.
    #[must_use]
    pub fn with_framing(mut self, framing: Framing) -> Self {
        self.framing = Some(framing);
        self
    }

    /// Keeps `guard` alive as long as the connection uses the transport: a child process, a temporary file.
    #[must_use]
    pub fn keeping(mut self, guard: impl Any + Send) -> Self {
        self.kept.push(Box::new(guard));
        self
    }
}

/// A transport that could not be opened: reading it returns the error, once.
#[cfg(feature = "stdio")]
struct BrokenTransport(Option<io::Error>);

#[cfg(feature = "stdio")]
impl MessageStream for BrokenTransport {
    fn limit(&mut self, _max_message: usize) {}

    fn poll_next(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<Option<Arrival>>> {
        Poll::Ready(self.0.take().map_or(Ok(None), Err))
    }

    fn poll_send(&mut self, _cx: &mut Context<'_>, _message: &[u8]) -> Poll<io::Result<()>> {
        Poll::Ready(Err(self.0.take().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())))
    }

    fn poll_flush(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

debug_fields!(Transport, framing);

impl<R, W> From<(R, W)> for Transport
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    fn from((reader, writer): (R, W)) -> Self {
        Self::new(reader, writer)
    }
}

impl From<DuplexStream> for Transport {
    fn from(stream: DuplexStream) -> Self {
        Self::joined(stream)
    }
}

#[cfg(unix)]
impl From<tokio::net::UnixStream> for Transport {
    fn from(stream: tokio::net::UnixStream) -> Self {
        Self::joined(stream)
    }
}

impl From<tokio::net::TcpStream> for Transport {
    /// Small messages are not held back from now on (`TCP_NODELAY`).
    fn from(stream: tokio::net::TcpStream) -> Self {
        // A socket that refuses is slower, no more.
        let _ = stream.set_nodelay(true);
        Self::joined(stream)
    }
}

/// The bytes that each direction of [`memory`] holds, as a pipe does.
const MEMORY: usize = 64 * 1024;

/// Makes two transports joined in memory: each reads the bytes that the other writes.
#[must_use]
pub fn memory() -> (Transport, Transport) {
    let (a, b) = tokio::io::duplex(MEMORY);
    (a.into(), b.into())
}
