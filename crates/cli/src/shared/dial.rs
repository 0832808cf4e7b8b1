//! The connections of a session to the server that it shares.

use std::{
    io,
    os::unix::net::UnixStream,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rescind_http::shell::client::Dialer;
use tokio::net::UnixStream as Connection;

use super::{
    holder,
    identity::SharedServer,
    place::{Joined, Membership, Place},
};
use crate::{failure::Failure, link, screen::clean, stderr};

/// The wait for room in the queue of the server's socket.
const PAUSE: Duration = Duration::from_millis(5);

/// A process that holds the server and has died is started anew no sooner than this after the last start.
const BETWEEN_STARTS: Duration = Duration::from_secs(1);

/// Joins this server, or starts it. It stays joined as long as the dialer lives.
pub(super) fn join(server: SharedServer) -> Result<Dialer, Failure> {
    let name = clean(&server.name);
    let folder = link::private_folder("shared").map_err(|error| {
        let hint = "set RESCIND_RUNTIME_DIR to a directory of your own with mode 700";
        Failure::new(format_args!("--shared {name}"), error, hint)
    })?;
    let place = Place::new(folder, &server.digests());
    let hint = "leave out --shared: then this session starts its own server";
    let sharer = Sharer { place, server, joined: Mutex::default() };
    let has_namesake = sharer.join().map_err(|error| Failure::new(format_args!("--shared {name}"), error, hint))?;
    if has_namesake {
        stderr::say(&format!(
            "warning: --shared {name}: a server of this name runs with another command, variables or folder: this session \
             does not share that one"
        ));
    }
    let sharer = Arc::new(sharer);
    Ok(Dialer::new(move || dial(Arc::clone(&sharer))))
}

/// A session that shares a server.
struct Sharer {
    place: Place,
    server: SharedServer,
    joined: Mutex<Option<Presence>>,
}

/// What shows that this session is there.
struct Presence {
    _membership: Membership,
    /// A connection on which nothing is said. It is closed when this process ends, however it ends, and with the last one its
    /// work is stopped: so what this session has in flight does not outlive it.
    _connection: UnixStream,
    /// When this session last started a server in place of one that was gone.
    replaced: Option<Instant>,
}

impl Sharer {
    /// Joins; `true` if a server of this name runs that is another one. It blocks, for seconds at most.
    fn join(&self) -> io::Result<bool> {
        let mut joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        let mut replaced = joined.as_ref().and_then(|before| before.replaced);
        let is_first = joined.is_none();
        let is_soon = replaced.is_some_and(|last| last.elapsed() < BETWEEN_STARTS);
        let Joined { membership, has_namesake } = self.place.join(|listener| {
            if is_soon {
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "the shared server has ended again"));
            }
            replaced = (!is_first).then(Instant::now);
            holder::start(&self.server, &self.place, listener)
        })?;
        let connection = UnixStream::connect(self.place.socket())?;
        *joined = Some(Presence { _membership: membership, _connection: connection, replaced });
        Ok(has_namesake)
    }
}

/// Opens a connection. A server that is gone is started again, or was by another session.
async fn dial(sharer: Arc<Sharer>) -> io::Result<Connection> {
    let socket = sharer.place.socket();
    loop {
        match Connection::connect(&socket).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::time::sleep(PAUSE).await,
            Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => {
                let sharer = Arc::clone(&sharer);
                tokio::task::spawn_blocking(move || sharer.join()).await.map_err(io::Error::other)??;
                return Connection::connect(&socket).await;
            }
            done => return done,
        }
    }
}
