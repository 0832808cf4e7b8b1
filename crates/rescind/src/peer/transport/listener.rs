//! Accepting connections, and serving each.

use std::{
    convert::Infallible,
    fmt,
    future::poll_fn,
    io,
    task::{Context, Poll},
    time::Duration,
};

use tokio::task::JoinSet;

use super::Transport;
use crate::peer::Builder;

/// A listening socket, which accepts connections and can serve each.
///
/// # Bounds
///
/// [`max_connections`](Self::max_connections) at once; further ones wait in the kernel's queue. The limits of a connection
/// are those of its builder. The opening of a WebSocket delays no other connection, and takes at most ten seconds.
///
/// # Dropping it
///
/// closes the socket; the path of a Unix socket is removed. Dropping the future of [`serve`](Self::serve) closes its
/// connections at once, as dropping each driver does.
pub struct Listener {
    kind: ListenerKind,
    max_connections: usize,
}

enum ListenerKind {
    #[cfg(all(feature = "unix", unix))]
    Unix(Bound),
    #[cfg(feature = "tcp")]
    Tcp(tokio::net::TcpListener),
    #[cfg(feature = "websocket")]
    WebSocket(tokio::net::TcpListener, Vec<Box<str>>),
}

/// The pause after an `accept` that failed: the connection was gone already, or no descriptor is free.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

impl Listener {
    /// Listens on a Unix socket at `path`. A socket that was left behind there, on which no process listens, is replaced.
    ///
    /// The permissions of the folder, and the umask, decide who may connect.
    ///
    /// # Errors
    ///
    /// The path cannot be bound: another process listens there, or it is not a socket.
    #[cfg(all(feature = "unix", unix))]
    pub fn unix(path: impl Into<std::path::PathBuf>) -> io::Result<Self> {
        use std::os::unix::fs::FileTypeExt;
        let path = path.into();
        let listener = tokio::net::UnixListener::bind(&path).or_else(|error| {
            let is_stale = error.kind() == io::ErrorKind::AddrInUse
                && std::fs::symlink_metadata(&path).is_ok_and(|found| found.file_type().is_socket())
                && std::os::unix::net::UnixStream::connect(&path)
                    .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
            if !is_stale {
                return Err(error);
            }
            std::fs::remove_file(&path)?;
            tokio::net::UnixListener::bind(&path)
        })?;
        Ok(Self::of(ListenerKind::Unix(Bound { inode: inode(&path), path, listener })))
    }

    /// Listens on a TCP address. Anyone who can reach it may connect: bind loopback unless that is meant.
    ///
    /// # Errors
    ///
    /// The address cannot be bound.
    #[cfg(feature = "tcp")]
    pub async fn tcp(address: impl tokio::net::ToSocketAddrs) -> io::Result<Self> {
        tokio::net::TcpListener::bind(address).await.map(|listener| Self::of(ListenerKind::Tcp(listener)))
    }

    /// Listens for WebSockets on a TCP address, on every path.
    ///
    /// A page in a browser is refused, unless its [origin](Self::allow_origin) is allowed: any page can reach loopback.
    ///
    /// # Errors
    ///
    /// The address cannot be bound.
    #[cfg(feature = "websocket")]
    pub async fn websocket(address: impl tokio::net::ToSocketAddrs) -> io::Result<Self> {
        let listener = tokio::net::TcpListener::bind(address).await?;
        Ok(Self::of(ListenerKind::WebSocket(listener, Vec::new())))
    }

    /// Lets pages of this origin (`https://example.org`) connect to a WebSocket. No effect on other sockets.
    #[cfg(feature = "websocket")]
    #[must_use]
    #[cfg_attr(
        not(any(feature = "unix", feature = "tcp")),
        expect(irrefutable_let_patterns, reason = "one kind is built")
    )]
    pub fn allow_origin(mut self, origin: &str) -> Self {
        if let ListenerKind::WebSocket(_, origins) = &mut self.kind {
            origins.push(origin.into());
        }
        self
    }

    /// Limits how many connections [`serve`](Self::serve) serves at once. Default 1,024.
    #[must_use]
    pub const fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// The TCP address it listens on; `None` for a Unix socket.
    #[must_use]
    pub fn address(&self) -> Option<std::net::SocketAddr> {
        match &self.kind {
            #[cfg(all(feature = "unix", unix))]
            ListenerKind::Unix(_) => None,
            #[cfg(feature = "tcp")]
            ListenerKind::Tcp(listener) => listener.local_addr().ok(),
            #[cfg(feature = "websocket")]
            ListenerKind::WebSocket(listener, _) => listener.local_addr().ok(),
        }
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    ///
    /// No connection can be accepted now; a later one may.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no connection.
    pub async fn accept(&self) -> io::Result<Transport> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// Serves each connection in a task of its own, with the [`Builder`], `mcp::Server` or `acp::Agent` that `describe`
    /// makes.
    ///
    #[cfg_attr(all(feature = "mcp", feature = "tcp"), doc = "```no_run")]
    #[cfg_attr(not(all(feature = "mcp", feature = "tcp")), doc = "```ignore")]
    /// # use rescind::{mcp::Server, peer::transport::Listener};
    /// # async fn run() -> std::io::Result<()> {
    /// Listener::tcp("127.0.0.1:4000").await?.serve(|| Server::new("tools", "1.0")).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Errors of a connection are dropped; to handle them, use [`accept`](Self::accept). The future does not end; drop it
    /// to stop.
    pub async fn serve<B: Into<Builder>>(self, describe: impl Fn() -> B) -> Infallible {
        let mut served = JoinSet::new();
        loop {
            if served.len() >= self.max_connections {
                let _ = served.join_next().await;
            }
            let accepted = poll_fn(|cx| {
                // Connections that have ended make room.
                while let Poll::Ready(Some(_)) = served.poll_join_next(cx) {}
                self.poll_accept(cx)
            });
            match accepted.await {
                Ok(transport) => drop(served.spawn(describe().into().serve(transport))),
                Err(_) => tokio::time::sleep(ACCEPT_BACKOFF).await,
            }
        }
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Transport>> {
        match &self.kind {
            #[cfg(all(feature = "unix", unix))]
            ListenerKind::Unix(bound) => bound.listener.poll_accept(cx).map_ok(|(stream, _)| stream.into()),
            #[cfg(feature = "tcp")]
            ListenerKind::Tcp(listener) => listener.poll_accept(cx).map_ok(|(stream, _)| stream.into()),
            #[cfg(feature = "websocket")]
            ListenerKind::WebSocket(listener, origins) => {
                let (stream, _) = std::task::ready!(listener.poll_accept(cx))?;
                let _ = stream.set_nodelay(true);
                Poll::Ready(Ok(super::websocket::accept_from(stream, origins.clone())))
            }
        }
    }

    const fn of(kind: ListenerKind) -> Self {
        Self { kind, max_connections: 1024 }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("address", &self.address()).finish_non_exhaustive()
    }
}

/// A socket and its path, which is removed when dropped if it is still that socket's.
#[cfg(all(feature = "unix", unix))]
struct Bound {
    listener: tokio::net::UnixListener,
    path: std::path::PathBuf,
    inode: Option<(u64, u64)>,
}

#[cfg(all(feature = "unix", unix))]
impl Drop for Bound {
    fn drop(&mut self) {
        if self.inode.is_some() && self.inode == inode(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(all(feature = "unix", unix))]
fn inode(path: &std::path::Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}
