//! The server of the page, for one user on one machine.
//!
//! It listens on 127.0.0.1 only. A client that knows the key may do everything, and one that does not may do nothing:
//! `auth` has the checks. The key is part of the path and not a cookie, since cookies of 127.0.0.1 go to every port.

mod answer;
mod auth;
mod events;
mod past;
mod processes;
mod repeated;
mod routes;
mod sources;
mod work;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};

use crate::{AccessKey, AccessKeyError, Recording};
use auth::Auth;
use rescind_operator::Directories;
use sources::SessionSources;

/// The most open connections; one more is closed without an answer.
const MAX_CONNECTIONS: usize = 128;

/// The wait after a failed accept: the client has left, or no descriptor is free.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// Time for the head of a request.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);

/// The longest head, and the most bytes buffered for a browser that reads slowly.
const MAX_HEAD: usize = 64 << 10;

/// What a console shows, and where it listens.
#[derive(Debug)]
pub struct ConsoleSettings {
    /// The port; 0 for any free port.
    pub port: u16,
    /// The key that grants access.
    pub key: AccessKey,
    /// Where to find running shims; `None` shows none.
    pub directories: Option<Directories>,
    /// Recordings to show.
    pub recordings: Vec<Recording>,
    /// The folder of what has ended, to show sessions that have.
    pub history: Option<PathBuf>,
}

/// A server ready to [`serve`](Self::serve).
#[derive(Debug)]
pub struct Console {
    listener: TcpListener,
    address: SocketAddr,
    auth: Arc<Auth>,
    sources: Arc<SessionSources>,
}

impl Console {
    /// Opens its port on 127.0.0.1.
    ///
    /// # Errors
    ///
    /// The port is in use, or the system gives no random numbers for the link.
    pub async fn open(settings: ConsoleSettings) -> io::Result<Self> {
        let ConsoleSettings { port, key, directories, recordings, history } = settings;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let token = AccessKey::random().map_err(|error: AccessKeyError| io::Error::other(error.to_string()))?;
        let auth = Arc::new(Auth::new(address.port(), key, token));
        let sources = Arc::new(SessionSources::new(directories, recordings, history));
        Ok(Self { listener, address, auth, sources })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The link that opens the page once; empty after it was used.
    #[must_use]
    pub fn link(&self) -> String {
        self.auth.link()
    }

    /// Serves until dropped; then every connection is closed.
    pub async fn serve(self) {
        let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(ACCEPT_BACKOFF).await;
                continue;
            };
            let Ok(place) = Arc::clone(&free).try_acquire_owned() else { continue };
            let connection = converse(stream, Arc::clone(&self.auth), Arc::clone(&self.sources));
            connections.spawn(async move {
                connection.await;
                drop(place);
            });
        }
    }
}

async fn converse(stream: TcpStream, auth: Arc<Auth>, sources: Arc<SessionSources>) {
    let service = service_fn(|request| {
        let (auth, sources) = (Arc::clone(&auth), Arc::clone(&sources));
        async move { Ok::<_, std::convert::Infallible>(routes::answer(&auth, &sources, request).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(MAX_HEAD).max_headers(64);
    // An error concerns this connection alone, and the browser sees it.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}
