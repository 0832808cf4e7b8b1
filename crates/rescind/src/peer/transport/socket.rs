//! Sockets of the machine and of the network.

use std::io;

use super::Transport;

/// Connects to the Unix socket at `path`. A stream that is connected already is a [`Transport`] by itself.
///
/// # Bounds
///
/// The capacity of the kernel's buffers. A peer that does not read is given up as the [`ConnectionConfig`](crate::peer::ConnectionConfig)
/// says, and delays no caller beyond its own clock.
///
/// # When the other side dies
///
/// The input ends, even within a message: requests in flight are cancelled, calls end as
/// [`CallError::Closed`](crate::peer::CallError::Closed).
///
/// # Dropping it
///
/// closes the socket at once. Dropping the future connects to nothing.
///
/// # Errors
///
/// Nothing accepts the connection.
#[cfg(all(feature = "unix", unix))]
pub async fn unix(path: impl AsRef<std::path::Path>) -> io::Result<Transport> {
    tokio::net::UnixStream::connect(path).await.map(Transport::from)
}

/// Connects to a TCP address; small messages are not held back (`TCP_NODELAY`). Neither encrypted nor authenticated:
/// for loopback, or inside a tunnel.
///
/// A stream that is connected already is a [`Transport`] by itself.
///
/// # Bounds
///
/// The capacity of the kernel's buffers. A peer that does not read is given up as the [`ConnectionConfig`](crate::peer::ConnectionConfig)
/// says, and delays no caller beyond its own clock.
///
/// # When the other side dies
///
/// The input ends, even within a message: requests in flight are cancelled, calls end as
/// [`CallError::Closed`](crate::peer::CallError::Closed). Only the clocks of calls notice a
/// machine that vanishes.
///
/// # Dropping it
///
/// closes the socket at once. Dropping the future connects to nothing.
///
/// # Errors
///
/// Nothing accepts the connection.
#[cfg(feature = "tcp")]
pub async fn tcp(address: impl tokio::net::ToSocketAddrs) -> io::Result<Transport> {
    tokio::net::TcpStream::connect(address).await.map(Transport::from)
}
