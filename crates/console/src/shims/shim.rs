//! A client of one shim's admin socket.

use std::{
    fs::File,
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, Response, body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rescind_feed::{CancelOrder, CancelReply, Counters, Details, Listing, Problem, Session};
use serde::de::DeserializeOwned;
use tokio::{
    net::UnixStream,
    time::{sleep, timeout},
};

use super::{Events, Query, ShimError, query::encoded};

/// How long a shim may take for an answer. It answers from memory: one that takes longer is stopped.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two attempts to be heard by a shim that others keep busy.
const PAUSE: Duration = Duration::from_millis(5);

/// Bytes of a path that fit into the address of a socket, with the zero behind it.
const MAX_ADDRESS: usize = 107;

/// The longest answer that is read: the messages of one request, each of them escaped, and room.
const MAX_ANSWER: usize = 32 << 20;

/// One shim. Each question is a connection of its own and gives up after two seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shim {
    name: String,
    socket: PathBuf,
    user: u32,
}

impl Shim {
    pub(super) const fn new(name: String, socket: PathBuf, user: u32) -> Self {
        Self { name, socket, user }
    }

    /// The name of its session, as its socket is called: letters, digits, `-`, `_` and `.`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its socket is.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The facts of its session.
    ///
    /// # Errors
    ///
    /// [`ShimError`].
    pub async fn session(&self) -> Result<Session, ShimError> {
        self.ask("/v1/session").await
    }

    /// Its requests that `query` asks for.
    ///
    /// # Errors
    ///
    /// [`ShimError`].
    pub async fn requests(&self, query: &Query) -> Result<Listing, ShimError> {
        self.ask(&query.path()).await
    }

    /// Everything that is kept of one request.
    ///
    /// # Errors
    ///
    /// [`ShimError`]; of status 404 where nothing is kept of it.
    pub async fn details(&self, key: &str) -> Result<Details, ShimError> {
        self.ask(&format!("/v1/requests/{}", encoded(key))).await
    }

    /// What it has counted.
    ///
    /// # Errors
    ///
    /// [`ShimError`].
    pub async fn counters(&self) -> Result<Counters, ShimError> {
        self.ask("/v1/counters").await
    }

    /// Cancels requests.
    ///
    /// # Errors
    ///
    /// [`ShimError`]. After [`Silent`](ShimError::Silent) and [`Gone`](ShimError::Gone) it may have been done.
    pub async fn cancel(&self, order: &CancelOrder) -> Result<CancelReply, ShimError> {
        let body = serde_json::to_vec(order).map_err(ShimError::unreadable)?;
        self.answer(Method::POST, "/v1/cancel", body.into()).await
    }

    /// What happens from now on, beginning with a snapshot; or what happened after event number `since`.
    ///
    /// # Errors
    ///
    /// [`ShimError`].
    pub async fn events(&self, since: Option<u64>) -> Result<Events, ShimError> {
        let path = since.map_or_else(|| "/v1/events".into(), |since| format!("/v1/events?since={since}"));
        let asked = self.patiently(true, || self.send(Method::GET, &path, Bytes::new()));
        Ok(Events::new(asked.await?.into_body()))
    }

    async fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T, ShimError> {
        self.answer(Method::GET, path, Bytes::new()).await
    }

    async fn answer<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> Result<T, ShimError> {
        let is_question = method == Method::GET;
        let ask = || async { whole(self.send(method.clone(), path, body.clone()).await?.into_body()).await };
        let answer = self.patiently(is_question, ask).await?;
        serde_json::from_slice(&answer).map_err(ShimError::unreadable)
    }

    /// Waits for an answer. A shim that breaks off is gone only if nobody listens on its socket any more; otherwise it
    /// has too many connections, and a question is asked again.
    async fn patiently<T, F>(&self, is_question: bool, ask: impl Fn() -> F) -> Result<T, ShimError>
    where
        F: Future<Output = Result<T, ShimError>>,
    {
        let asked = async {
            loop {
                match ask().await {
                    Err(gone @ ShimError::Gone(_)) => {
                        if let Err(ShimError::Gone(_)) = self.connect().await.map_err(ShimError::from_io) {
                            return Err(gone);
                        }
                    }
                    // The session is over, and only its socket is still there.
                    Err(ShimError::Refused { status: 410, .. }) => {
                        return Err(ShimError::Gone(io::ErrorKind::UnexpectedEof.into()));
                    }
                    Err(ShimError::Refused { status: 503, .. }) => {}
                    answer => return answer,
                }
                if !is_question {
                    return Err(ShimError::Silent);
                }
                sleep(PAUSE).await;
            }
        };
        timeout(PATIENCE, asked).await.unwrap_or(Err(ShimError::Silent))
    }

    /// Connects. Where many wait to be let in, it waits, too: for as long as its caller does.
    async fn connect(&self) -> io::Result<UnixStream> {
        loop {
            match self.connect_once().await {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(PAUSE).await,
                connected => return connected,
            }
        }
    }

    /// The address of a socket holds no long path: there it is reached through its directory's descriptor.
    async fn connect_once(&self) -> io::Result<UnixStream> {
        let (directory, name) = (self.socket.parent(), self.socket.file_name());
        match (directory, name) {
            (Some(directory), Some(name))
                if cfg!(target_os = "linux") && self.socket.as_os_str().len() > MAX_ADDRESS =>
            {
                let directory = File::open(directory)?;
                let short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
                UnixStream::connect(short).await
            }
            _ => UnixStream::connect(&self.socket).await,
        }
    }

    /// Asks, and gives the answer if it is a good one.
    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>, ShimError> {
        let stream = self.connect().await.map_err(ShimError::from_io)?;
        let server = stream.peer_cred().map_err(ShimError::from_io)?.uid();
        if server != self.user {
            return Err(ShimError::Foreign(server));
        }
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| ShimError::from_hyper(&error))?;
        // It ends with the answer's body, or when nobody wants that any more.
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "rescind")
            .header("content-type", "application/json")
            .body(Full::new(body))
            .map_err(ShimError::unreadable)?;
        let response = sender.send_request(request).await.map_err(|error| ShimError::from_hyper(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let said = whole(response.into_body()).await?;
        let problem = serde_json::from_slice(&said)
            .unwrap_or_else(|_| Problem { error: format!("answered with status {}", status.as_u16()), hint: None });
        Err(ShimError::Refused { status: status.as_u16(), problem })
    }
}

async fn whole(body: Incoming) -> Result<Bytes, ShimError> {
    let collected = Limited::new(body, MAX_ANSWER).collect().await;
    collected.map(http_body_util::Collected::to_bytes).map_err(|error| match error.downcast_ref::<hyper::Error>() {
        Some(error) => ShimError::from_hyper(error),
        None => ShimError::unreadable("longer than 32 MiB"),
    })
}
