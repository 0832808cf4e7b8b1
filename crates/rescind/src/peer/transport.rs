//! What carries the bytes of a connection.
//!
//! A transport is a reader and a writer of bytes. Whatever can be read and written can be one: stdio, a socket, a
//! child's pipes. One that keeps messages apart by itself, such as a WebSocket, appends a line break to each message
//! it reads (and makes spaces of the raw line breaks in it, which JSON only has between tokens), cuts what it is
//! given to write at line breaks, and says [`Framing::Line`]: the engine never writes a raw line break inside a
//! message.
//!
//! What is asked of both: `poll_read` that gives 0 bytes at the end; `poll_write` that takes what it can and gives
//! [`Poll::Pending`](std::task::Poll::Pending) when that is nothing, for what it took counts as sent (D15);
//! `poll_flush` if it holds bytes back. Neither may block, nor call the connection it carries.

use std::{any::Any, fmt, pin::Pin};

use rescind_proto::wire::Framing;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};

/// A reader and a writer, ready for a connection.
pub struct Transport {
    pub(crate) io: Io,
    pub(crate) framing: Option<Framing>,
    pub(crate) kept: Vec<Box<dyn Any + Send>>,
}

pub(crate) enum Io {
    Apart(Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>),
    Joined(Box<dyn ReadWrite>),
}

/// Both ends in one value.
pub(crate) trait ReadWrite: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ReadWrite for T {}

impl Io {
    pub(crate) fn reader(&mut self) -> Pin<&mut (dyn AsyncRead + Send + Unpin)> {
        match self {
            Self::Apart(reader, _) => Pin::new(&mut **reader),
            Self::Joined(both) => Pin::new(&mut **both),
        }
    }

    pub(crate) fn writer(&mut self) -> Pin<&mut (dyn AsyncWrite + Send + Unpin)> {
        match self {
            Self::Apart(_, writer) => Pin::new(&mut **writer),
            Self::Joined(both) => Pin::new(&mut **both),
        }
    }
}

impl Transport {
    /// A transport of a reader and a writer.
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self { io: Io::Apart(Box::new(reader), Box::new(writer)), framing: None, kept: Vec::new() }
    }

    /// A transport of something that both reads and writes, such as a socket.
    pub fn joined(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self { io: Io::Joined(Box::new(stream)), framing: None, kept: Vec::new() }
    }

    /// How its messages are told apart, in place of the dialect's way.
    #[must_use]
    pub fn with_framing(mut self, framing: Framing) -> Self {
        self.framing = Some(framing);
        self
    }

    /// Keeps `guard` as long as the connection uses the transport: a child process, a temporary file.
    #[must_use]
    pub fn keeping(mut self, guard: impl Any + Send) -> Self {
        self.kept.push(Box::new(guard));
        self
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("framing", &self.framing).finish_non_exhaustive()
    }
}

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
    fn from(stream: tokio::net::TcpStream) -> Self {
        Self::joined(stream)
    }
}

/// Bytes that wait in each direction of [`memory`]: what a pipe holds.
const MEMORY: usize = 64 * 1024;

/// Two transports joined in memory: what one writes the other reads.
#[must_use]
pub fn memory() -> (Transport, Transport) {
    let (a, b) = tokio::io::duplex(MEMORY);
    (a.into(), b.into())
}
