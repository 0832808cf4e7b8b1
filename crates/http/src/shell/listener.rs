//! Accepting connections.

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
};

use super::{
    pool::Pool,
    turns::{Seat, Turns},
};
use crate::server::ClientAddress;

/// The wait after a failed accept: the client has left, or no descriptor is free.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// How connections are treated.
#[derive(Clone, Debug)]
pub struct ListenerConfig {
    /// Connections at once; one more waits.
    pub max_connections: usize,
    /// Time for the head of a request, and for the next request on a connection.
    pub head_patience: Duration,
    /// The longest head, in bytes.
    pub max_head: usize,
    /// The most headers.
    pub max_headers: usize,
    /// How long a connection may be silent before the system asks whether its client is still there. One that does not
    /// answer for as long again is closed, as is one that takes in nothing for so long.
    pub probe_after: Duration,
}

impl Default for ListenerConfig {
    fn default() -> Self {
        Self {
            max_connections: 65_536,
            head_patience: Duration::from_secs(75),
            max_head: 64 << 10,
            max_headers: 100,
            probe_after: Duration::from_secs(15),
        }
    }
}

/// Serves an [`Endpoint`](super::Endpoint), or a pool of them, on a TCP socket.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    pool: Pool,
    config: ListenerConfig,
}

impl Listener {
    /// Serves `served`, an endpoint or a pool of them, on this socket.
    #[must_use]
    pub fn new(listener: TcpListener, served: impl Into<Pool>, config: ListenerConfig) -> Self {
        Self { listener, pool: served.into(), config }
    }

    /// Serves until `end` is ready. Then no connection is accepted, and each ends with the response that is being given.
    /// Returns when all have ended; dropping the future closes them.
    pub async fn serve(self, end: impl Future<Output = ()>) {
        let free = Arc::new(Semaphore::new(self.config.max_connections));
        let (ending, ended) = watch::channel(false);
        let turns = Arc::new(Turns::new());
        let mut connections = JoinSet::new();
        let mut end = std::pin::pin!(end);
        loop {
            while connections.try_join_next().is_some() {}
            let accepted = async {
                let place = Arc::clone(&free).acquire_owned().await;
                (place, self.listener.accept().await)
            };
            let (place, (stream, address)) = tokio::select! {
                () = &mut end => break,
                (place, accepted) = accepted => match accepted {
                    Ok(accepted) => (place, accepted),
                    Err(_) => {
                        tokio::time::sleep(ACCEPT_BACKOFF).await;
                        continue;
                    }
                },
            };
            let connection =
                converse(stream, address, self.pool.clone(), turns.seat(), self.config.clone(), ended.clone());
            connections.spawn(async move {
                // An error concerns this connection alone, and its client sees it.
                let _ = connection.await;
                drop(place);
            });
        }
        drop(self.listener);
        let _ = ending.send(true);
        while connections.join_next().await.is_some() {}
    }
}

async fn converse(
    stream: TcpStream,
    address: SocketAddr,
    pool: Pool,
    seat: Seat,
    config: ListenerConfig,
    mut ended: watch::Receiver<bool>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    probe(&stream, config.probe_after);
    let (pool, seat) = (&pool, &seat);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ClientAddress(address.ip()));
        seat.in_turn(pool.respond(request))
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(config.head_patience);
    server.max_buf_size(config.max_head).max_headers(config.max_headers);
    let mut connection = server.serve_connection(TokioIo::new(stream), service);
    let served = tokio::select! {
        served = &mut connection => served,
        () = async { drop(ended.wait_for(|ended| *ended).await) } => {
            std::pin::Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
    };
    // First the response, whose client may have hung up: a cancel need not wait until the socket is closed.
    let socket = connection.into_parts().io;
    tokio::task::yield_now().await;
    drop(socket);
    served.map_err(io::Error::other)
}

/// Has the system find out when the client has vanished without closing. Where it cannot, the next write tells.
fn probe(stream: &TcpStream, after: Duration) {
    const PROBES: u32 = 3;

    // The kernel counts in seconds.
    let after = after.max(Duration::from_secs(1));
    let between = (after / PROBES).max(Duration::from_secs(1));
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, after);
    let _ = sockopt::set_tcp_keepintvl(stream, between);
    let _ = sockopt::set_tcp_keepcnt(stream, PROBES);
    #[cfg(target_os = "linux")]
    let _ = sockopt::set_tcp_user_timeout(stream, u32::try_from((2 * after).as_millis()).unwrap_or(u32::MAX));
}
