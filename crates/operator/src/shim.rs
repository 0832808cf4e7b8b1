//! A client of one shim's admin socket.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, Response, body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rescind_feed::{CancelOrder, CancelReply, Counters, Details, EndOrder, EndReply, Listing, Problem, Session};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{sleep, timeout};

use super::{
    ListingQuery, ShimError, ShimEvents,
    connection::{self, Connection},
    query::encoded,
};

/// Time for an answer. A shim answers from memory, so one that takes longer is suspended or overloaded.
const PATIENCE: Duration = Duration::from_secs(2);

/// The wait between two attempts to connect to a busy shim.
const PAUSE: Duration = Duration::from_millis(5);

/// The longest answer that is read: room for the escaped messages of one request.
const MAX_ANSWER: usize = 32 << 20;

/// One shim. Each request uses its own connection and times out after two seconds.
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

    /// The name of its session and its socket: letters, digits, `-`, `_` and `.`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path of its socket.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The number of the process that listens on its socket, as the kernel knows it here; `None` if it is of another PID
    /// namespace.
    ///
    /// # Errors
    ///
    /// [`ShimError`].
    pub async fn process(&self) -> Result<Option<u32>, ShimError> {
        let stream = timeout(PATIENCE, self.connect()).await.map_err(|_| ShimError::NotAnswering)?;
        stream.and_then(|stream| connection::server(&stream)).map_err(ShimError::from_io)
    }

    /// Its session.
    ///
    /// # Errors
    ///
    /// [`ShimError`].
    pub async fn session(&self) -> Result<Session, ShimError> {
        self.ask("/v1/session").await
    }

    /// Its requests that match `query`.
    ///
    /// # Errors
    ///
    /// [`ShimError`].
    pub async fn requests(&self, query: &ListingQuery) -> Result<Listing, ShimError> {
        self.ask(&query.path()).await
    }

    /// One request and its messages.
    ///
    /// # Errors
    ///
    /// [`ShimError`], with status 404 if the request is no longer remembered.
    pub async fn details(&self, key: &str) -> Result<Details, ShimError> {
        self.ask(&format!("/v1/requests/{}", encoded(key))).await
    }

    /// Its counters.
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
    /// [`ShimError`]. After [`NotAnswering`](ShimError::NotAnswering) and [`Gone`](ShimError::Gone) the cancel may have been carried out.
    pub async fn cancel(&self, order: &CancelOrder) -> Result<CancelReply, ShimError> {
        self.order("/v1/cancel", order).await
    }

    /// Ends its server, and with it all its work.
    ///
    /// # Errors
    ///
    /// [`ShimError`], with status 409 if the session is another one, and with 404 if the shim is too old to take it. After
    /// [`NotAnswering`](ShimError::NotAnswering) and [`Gone`](ShimError::Gone) the order may have been carried out.
    pub async fn end(&self, order: &EndOrder) -> Result<EndReply, ShimError> {
        self.order("/v1/end", order).await
    }

    /// Its events, beginning with a snapshot, or after event number `since`.
    ///
    /// # Errors
    ///
    /// [`ShimError`].
    pub async fn events(&self, since: Option<u64>) -> Result<ShimEvents, ShimError> {
        let path = since.map_or_else(|| "/v1/events".into(), |since| format!("/v1/events?since={since}"));
        let asked = self.patiently(true, || self.send(Method::GET, &path, Bytes::new()));
        Ok(ShimEvents::new(asked.await?.into_body()))
    }

    async fn order<T: DeserializeOwned>(&self, path: &str, order: &impl Serialize) -> Result<T, ShimError> {
        let body = serde_json::to_vec(order).map_err(ShimError::unreadable)?;
        self.answer(Method::POST, path, body.into()).await
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

    /// Waits for an answer. If the shim closes the connection but still listens on its socket, it has too many connections,
    /// and a `GET` is repeated.
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
                    // The session is over but its socket still exists.
                    Err(ShimError::Refused { status: 410, .. }) => {
                        return Err(ShimError::Gone(io::ErrorKind::UnexpectedEof.into()));
                    }
                    Err(ShimError::Refused { status: 503, .. }) => {}
                    answer => return answer,
                }
                if !is_question {
                    return Err(ShimError::NotAnswering);
                }
                sleep(PAUSE).await;
            }
        };
        timeout(PATIENCE, asked).await.unwrap_or(Err(ShimError::NotAnswering))
    }

    /// Connects. If the backlog is full, it retries until the caller gives up.
    async fn connect(&self) -> io::Result<Connection> {
        loop {
            match connection::open(&self.socket).await {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(PAUSE).await,
                connected => return connected,
            }
        }
    }

    /// Sends a request and returns a successful response.
    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>, ShimError> {
        let stream = self.connect().await.map_err(ShimError::from_io)?;
        connection::check(&stream, self.user)?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| ShimError::from_hyper(&error))?;
        // It ends with the body of the answer, or when that is dropped.
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
        let body = whole(response.into_body()).await?;
        let problem = serde_json::from_slice(&body)
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
