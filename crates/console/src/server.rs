//! The server of the page, for one user on one machine.
//!
//! It listens on 127.0.0.1 only. Whoever knows the key may do everything, whoever does not may do nothing: `door` says
//! what is checked. The key is part of the path and not a cookie, since cookies of 127.0.0.1 go to every port.

mod answer;
mod door;
mod events;
mod routes;
mod sources;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
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

use crate::{Key, KeyError, Recording, shims::Directories};
use door::Door;
use sources::Sources;

/// How many connections are open at once; one more is closed unheard.
const MAX_CONNECTIONS: usize = 128;

/// How long the head of a request may take.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);

/// The longest head, and how much of an answer waits for a browser that reads slowly.
const MAX_HEAD: usize = 64 << 10;

/// What a console shows, and how it is reached.
#[derive(Debug)]
pub struct Settings {
    /// The port; 0 for one that is free.
    pub port: u16,
    /// The key of everything.
    pub key: Key,
    /// Where live shims are looked for, if they are to be shown.
    pub directories: Option<Directories>,
    /// Recordings to show.
    pub recordings: Vec<Recording>,
}

/// A server that is ready to [`serve`](Self::serve).
#[derive(Debug)]
pub struct Console {
    listener: TcpListener,
    address: SocketAddr,
    door: Arc<Door>,
    sources: Arc<Sources>,
}

impl Console {
    /// Opens its port on 127.0.0.1.
    ///
    /// # Errors
    ///
    /// The port is taken, or there are no random numbers for the link.
    pub async fn open(settings: Settings) -> io::Result<Self> {
        let Settings { port, key, directories, recordings } = settings;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let token = Key::random().map_err(|error: KeyError| io::Error::other(error.to_string()))?;
        let door = Arc::new(Door::new(address.port(), key, token));
        Ok(Self { listener, address, door, sources: Arc::new(Sources::new(directories, recordings)) })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The link that opens the page, once. Empty where it has been used.
    #[must_use]
    pub fn link(&self) -> String {
        self.door.link()
    }

    /// Serves until dropped; then every connection is closed.
    pub async fn serve(self) {
        let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok((stream, _)) = self.listener.accept().await else {
                // The other side was faster, or no descriptor is free: the next one may do.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(place) = Arc::clone(&free).try_acquire_owned() else { continue };
            let connection = converse(stream, Arc::clone(&self.door), Arc::clone(&self.sources));
            connections.spawn(async move {
                connection.await;
                drop(place);
            });
        }
    }
}

async fn converse(stream: TcpStream, door: Arc<Door>, sources: Arc<Sources>) {
    let service = service_fn(|request| {
        let (door, sources) = (Arc::clone(&door), Arc::clone(&sources));
        async move { Ok::<_, std::convert::Infallible>(routes::answer(&door, &sources, request).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(MAX_HEAD).max_headers(64);
    // What goes wrong on a connection is the browser's affair: it sees its end.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}
