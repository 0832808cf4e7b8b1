//! Accepting connections.
//!
//! A hang-up is reported before its connection is taken down: the response is dropped first, and the link's task has a turn
//! before the socket is closed. So a cancel by hang-up does not wait for that. Connections are tasks of the runtime and
//! links those of a `LocalSet`: under load a link then finds what many connections have brought, and writes once.

use std::{
    future::{Future, pending, poll_fn},
    io,
    net::IpAddr,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use http::{Method, Request, StatusCode};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioTimer;
use rescind_proto::error_code;
use rustix::net::sockopt;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

#[cfg(unix)]
use super::local;
use super::{
    pool::Pool,
    room::{Answer, Place, Question, Room, Stage, Watched},
    turns::{Seat, Turns},
};
use crate::server::{
    ClientAddress, LocalAddress,
    connections::Admission,
    door::{NoCalls, Refusal},
};

/// The wait after a failed accept: the client has left, or no descriptor is free.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// The most bytes of a refused request that are read and dropped: two of the longest messages, by default.
const MAX_DROPPED: usize = 128 << 20;

/// How connections are treated.
#[derive(Clone, Debug)]
pub struct ListenerConfig {
    /// Connections at once. Where the system limits the open files of a process, half of that limit is the most: the other
    /// half is for pipes, connections to servers, and files.
    ///
    /// One more ends the one that has waited longest for its client, of the [address](crate::server::ClientAddress) that
    /// has most of them; if each is owed an answer, it is itself refused, with 503. The last of them, an eighth but at
    /// most 64, are for what is answered at once: where all others are owed an answer, a call or a GET there is refused, with
    /// 503, and a cancel is taken. One address has half of them at most, unless it is this machine's, or
    /// [`parts_addresses`](crate::server::HttpServerConfig::parts_addresses) is `false`.
    pub max_connections: usize,
    /// Time for the whole head of the first request on a connection.
    pub head_patience: Duration,
    /// Time for the whole head of each further request, from the end of the answer before it.
    pub idle_patience: Duration,
    /// How long the rest of a request is read and dropped whose refusal was sent before its body had come, so that its
    /// client sees the refusal and not a reset; and 128 MiB of it at most.
    pub linger: Duration,
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
            head_patience: Duration::from_secs(30),
            idle_patience: Duration::from_secs(75),
            linger: Duration::from_secs(10),
            max_head: 64 << 10,
            max_headers: 100,
            probe_after: Duration::from_secs(15),
        }
    }
}

/// Where connections come in.
#[derive(Debug)]
#[non_exhaustive]
pub enum ListeningSocket {
    /// Over TCP.
    Tcp(TcpListener),
    /// Over a Unix socket, from processes of this user and of root. Each process counts as an address of its own, and once it
    /// has no connection any more, its sessions end: what is in flight in them is cancelled.
    #[cfg(unix)]
    Unix(UnixListener),
}

impl ListeningSocket {
    /// The next connection, and the address that its client counts as.
    async fn accept(&self) -> io::Result<(TcpStream, IpAddr)> {
        match self {
            Self::Tcp(listener) => listener.accept().await.map(|(stream, address)| (stream, address.ip())),
            #[cfg(unix)]
            Self::Unix(listener) => local::accept(listener).await,
        }
    }

    /// Whether a client is gone that has no connection. Over a network it may come back.
    const fn tells_clients(&self) -> bool {
        match self {
            Self::Tcp(_) => false,
            #[cfg(unix)]
            Self::Unix(_) => true,
        }
    }
}

impl From<TcpListener> for ListeningSocket {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

#[cfg(unix)]
impl From<UnixListener> for ListeningSocket {
    fn from(listener: UnixListener) -> Self {
        Self::Unix(listener)
    }
}

/// Serves an [`Endpoint`](super::Endpoint), or a pool of them, on a socket.
#[derive(Debug)]
pub struct Listener {
    listener: ListeningSocket,
    pool: Pool,
    config: ListenerConfig,
}

impl Listener {
    /// Serves `served`, an endpoint or a pool of them, on this socket.
    #[must_use]
    pub fn new(listener: impl Into<ListeningSocket>, served: impl Into<Pool>, config: ListenerConfig) -> Self {
        Self { listener: listener.into(), pool: served.into(), config }
    }

    /// Serves until `end` is ready. Then no connection is accepted, and each ends with the response that is being given.
    /// Returns when all have ended; dropping the future closes them.
    pub async fn serve(self, end: impl Future<Output = ()>) {
        let room = Room::new(self.config.max_connections.min(descriptors() / 2));
        let parts_addresses = self.pool.parts_addresses();
        let tells_clients = self.listener.tells_clients();
        let (ending, ended) = watch::channel(false);
        let turns = Arc::new(Turns::new());
        let config = Arc::new(self.config);
        let mut connections = JoinSet::new();
        let mut end = pin!(end);
        loop {
            while connections.try_join_next().is_some() {}
            let accepted = async {
                room.fits().await;
                self.listener.accept().await
            };
            let accepted = tokio::select! {
                () = &mut end => break,
                accepted = accepted => accepted,
            };
            match accepted {
                Ok((stream, address)) => {
                    let (place, seat) = (room.open(address, parts_addresses), turns.seat());
                    let connection =
                        Connection { place, seat, pool: self.pool.clone(), config: Arc::clone(&config), tells_clients };
                    connection.spawn(&mut connections, stream, address, ended.clone());
                }
                Err(error) => {
                    if is_want_of_descriptors(&error) {
                        room.make_room();
                    }
                    let _ = timeout(ACCEPT_BACKOFF, room.closed()).await;
                }
            }
        }
        drop(self.listener);
        let _ = ending.send(true);
        while connections.join_next().await.is_some() {}
    }
}

/// What a connection is served with.
struct Connection {
    place: Arc<Place>,
    seat: Seat,
    pool: Pool,
    config: Arc<ListenerConfig>,
    /// A client without a connection is gone.
    tells_clients: bool,
}

/// How a connection came to its end.
enum End {
    /// By its client, or with an answer.
    Served(hyper::Result<()>),
    /// Its client has not asked anything in time.
    Silent,
    /// Another needs its place.
    NoRoom,
}

impl Connection {
    /// Has a task of `tasks` serve it. Never inlined: so all that a request passes is compiled with this crate, for speed, and
    /// not with the program that awaits the listener.
    #[inline(never)]
    fn spawn(self, tasks: &mut JoinSet<()>, stream: TcpStream, from: IpAddr, ended: watch::Receiver<bool>) {
        tasks.spawn(self.converse(stream, from, ended));
    }

    /// Serves until the connection ends. An error concerns this connection alone, and its client sees it.
    ///
    /// There are ten thousand of these futures: each holds once what it needs while a stream is open. So what comes before the
    /// first wait is done here, what is over has left its scope, and what is rare is boxed.
    fn converse(self, stream: TcpStream, from: IpAddr, mut ended: watch::Receiver<bool>) -> impl Future<Output = ()> {
        // Where it fails, the client has left, which is seen as soon as it is read.
        let _ = stream.set_nodelay(true);
        probe(&stream, self.config.probe_after);
        let local = stream.local_addr().ok().map(|local| LocalAddress(local.ip()));
        let stream = Watched::new(stream, Arc::clone(&self.place));
        async move {
            let Self { place, seat, pool, config, .. } = &self;
            let (end, socket) = {
                let service = service_fn(|mut request: Request<Incoming>| {
                    let admission = place.ask();
                    if admission == Admission::NoCalls {
                        request.extensions_mut().insert(NoCalls);
                    }
                    request.extensions_mut().insert(ClientAddress(from));
                    if let Some(local) = local {
                        request.extensions_mut().insert(local);
                    }
                    let is_get = request.method() == Method::GET;
                    let mut admitted = match admission {
                        Admission::Anything | Admission::NoCalls => {
                            Ok(pool.respond(request.map(|body| Question::new(body, Arc::clone(place)))))
                        }
                        // It ends without being handled.
                        Admission::Nothing => Err(Box::new(request)),
                    };
                    async move {
                        let Ok(response) = &mut admitted else { return pending().await };
                        let response = seat.in_turn(response).await;
                        if is_get && response.as_ref().is_ok_and(|response| response.status() == StatusCode::OK) {
                            seat.listen();
                        }
                        response.map(|response| response.map(|body| Answer::new(body, Arc::clone(place))))
                    }
                });
                let mut connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(config.idle_patience)
                    .max_buf_size(config.max_head)
                    .max_headers(config.max_headers)
                    .serve_connection(stream, service);
                let mut patience = Some(Box::pin(sleep(config.head_patience)));
                let mut is_silent = poll_fn(|cx| {
                    patience.take_if(|_| place.stage() != Stage::Silent);
                    patience.as_mut().map_or(Poll::Pending, |patience| patience.as_mut().poll(cx))
                });
                let end = loop {
                    tokio::select! {
                        biased;
                        served = &mut connection => break End::Served(served),
                        () = &mut is_silent => break End::Silent,
                        () = place.ended() => break End::NoRoom,
                        Ok(()) = ended.changed() => std::pin::Pin::new(&mut connection).graceful_shutdown(),
                    }
                };
                // First the response, whose client may have hung up: a cancel need not wait until the socket is closed.
                (end, connection.into_parts().io.into_socket())
            };
            tokio::task::yield_now().await;
            match end {
                // Between two requests an answer would be taken for that of the next.
                End::NoRoom if matches!(place.stage(), Stage::Silent | Stage::Asked) => {
                    let _ = socket.try_write(&Refusal::unavailable(1, "too many connections").last_words());
                }
                End::Silent => {
                    let text = "no request came in time";
                    let refusal = Refusal::new(StatusCode::REQUEST_TIMEOUT, error_code::PARSE_ERROR, text);
                    let _ = socket.try_write(&refusal.last_words());
                }
                End::Served(served) => {
                    let is_garbled = served.as_ref().is_err_and(hyper::Error::is_parse);
                    if is_garbled || matches!(place.stage(), Stage::Refused | Stage::Unread) {
                        let lingering = async {
                            tokio::select! {
                                () = drop_rest(&socket) => {}
                                () = sleep(config.linger) => {}
                                () = place.ended() => {}
                                _ = ended.wait_for(|ended| *ended) => {}
                            }
                        };
                        Box::pin(lingering).await;
                    }
                }
                End::NoRoom => {}
            }
            drop(socket);
            if self.tells_clients
                && let Some(client) = self.place.close()
            {
                self.pool.lose(&client);
            }
        }
    }
}

/// Reads and drops what still comes of a request, until its client closes. A socket that is closed before resets the
/// connection, and what was sent on it is lost if its client has not read it.
async fn drop_rest(socket: &TcpStream) {
    let mut left = MAX_DROPPED;
    while left > 0 && socket.readable().await.is_ok() {
        match socket.try_read(&mut [0; 32 << 10]) {
            Ok(0) => return,
            Ok(dropped) => left = left.saturating_sub(dropped),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
        tokio::task::yield_now().await;
    }
}

/// How many files this process may have open.
#[cfg(unix)]
fn descriptors() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Windows has no such limit.
#[cfg(windows)]
const fn descriptors() -> usize {
    usize::MAX
}

/// Whether this process, or the system, has as many files open as it may.
fn is_want_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;

    let errno = Errno::from_io_error(error);
    #[cfg(unix)]
    let is_full = errno == Some(Errno::NFILE);
    #[cfg(windows)]
    let is_full = false;
    is_full || errno == Some(Errno::MFILE)
}

/// Has the system find out when the client has vanished without closing. Where it cannot, the next write shows it.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{server::HttpServerConfig, shell::Endpoint};

    #[tokio::test]
    async fn an_open_connection_is_small() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let stream = TcpStream::connect(address).await.expect("a connection");
        let room = Room::new(2);
        let place = room.open(address.ip(), true);
        let pool = Endpoint::new(HttpServerConfig::default()).into();
        let connection = Connection {
            place,
            seat: Arc::new(Turns::new()).seat(),
            pool,
            config: Arc::default(),
            tells_clients: false,
        };
        let (_ending, ended) = watch::channel(false);
        let conversation = connection.converse(stream, address.ip(), ended);
        // 712 of it are those of hyper.
        assert!(size_of_val(&conversation) <= 1200, "{} bytes", size_of_val(&conversation));
    }
}
