//! What joins the two ends of a session: both lie in this process.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use rescind::relay::wrap;
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// Bytes each way of a duplex, as the default pipe holds.
const DUPLEX: usize = 64 << 10;
/// Bytes each way where nearly nothing fits.
const SMALL: usize = 4096;

/// What the bytes pass through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wire {
    /// Memory of this process; no system call.
    Duplex,
    /// A Unix socket pair with the buffers of the kernel's choice.
    Unix,
    /// Memory, 4 KiB each way.
    SmallDuplex,
    /// A Unix socket pair asked to hold 4 KiB each way; the kernel doubles that, and counts its own overhead in.
    SmallUnix,
}

impl Wire {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Duplex => "duplex",
            Self::Unix => "Unix socket",
            Self::SmallDuplex => "duplex of 4 KiB",
            Self::SmallUnix => "Unix socket of 4 KiB",
        }
    }

    /// Two ends joined; needs a runtime.
    pub(crate) fn ends(self) -> io::Result<[End; 2]> {
        Ok(match self {
            Self::Duplex => duplex(DUPLEX),
            Self::SmallDuplex => duplex(SMALL),
            Self::Unix => UnixStream::pair().map(|(one, other)| [End::from(one), End::from(other)])?,
            Self::SmallUnix => {
                let (one, other) = UnixStream::pair()?;
                for socket in [&one, &other] {
                    sockopt::set_socket_send_buffer_size(socket, SMALL)?;
                }
                [End::from(one), End::from(other)]
            }
        })
    }
}

fn duplex(bytes: usize) -> [End; 2] {
    let (one, other) = tokio::io::duplex(bytes);
    [one, other].map(|end| {
        let (reader, writer) = tokio::io::split(end);
        End { reader: Reader::Duplex(reader), writer: Writer::Duplex(writer) }
    })
}

/// One end of a session.
pub(crate) struct End {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
}

impl From<UnixStream> for End {
    fn from(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        Self { reader: Reader::Unix(reader), writer: Writer::Unix(writer) }
    }
}

/// What one end hears. An enum, so that no contender is compiled twice; the branch is lost in the noise.
pub(crate) enum Reader {
    Duplex(ReadHalf<DuplexStream>),
    Unix(OwnedReadHalf),
    /// Either, behind a wrap.
    Wrapped(wrap::Reader),
}

/// What one end says.
pub(crate) enum Writer {
    Duplex(WriteHalf<DuplexStream>),
    Unix(OwnedWriteHalf),
    /// Either, behind a wrap.
    Wrapped(wrap::Writer),
}

impl AsyncRead for Reader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Duplex(half) => Pin::new(half).poll_read(cx, buf),
            Self::Unix(half) => Pin::new(half).poll_read(cx, buf),
            Self::Wrapped(half) => Pin::new(half).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Writer {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Duplex(half) => Pin::new(half).poll_write(cx, buf),
            Self::Unix(half) => Pin::new(half).poll_write(cx, buf),
            Self::Wrapped(half) => Pin::new(half).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Duplex(half) => Pin::new(half).poll_flush(cx),
            Self::Unix(half) => Pin::new(half).poll_flush(cx),
            Self::Wrapped(half) => Pin::new(half).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Duplex(half) => Pin::new(half).poll_shutdown(cx),
            Self::Unix(half) => Pin::new(half).poll_shutdown(cx),
            Self::Wrapped(half) => Pin::new(half).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Duplex(half) => Pin::new(half).poll_write_vectored(cx, bufs),
            Self::Unix(half) => Pin::new(half).poll_write_vectored(cx, bufs),
            Self::Wrapped(half) => Pin::new(half).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Duplex(half) => half.is_write_vectored(),
            Self::Unix(half) => half.is_write_vectored(),
            Self::Wrapped(half) => half.is_write_vectored(),
        }
    }
}
