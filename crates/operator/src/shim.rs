//! A client of one shim's admin socket.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, Response,
    body::Incoming,
    header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue},
};
use rescind_feed::{CancelOrder, CancelReply, Counters, Details, EndOrder, EndReply, Listing, Problem, Session};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    task::yield_now,
    time::{sleep, timeout},
};

use super::{
    ListingQuery, ShimError, ShimEvents,
    connection::{self, Connection},
    conversation::{Conversation, Unanswered},
    query::encoded,
};

/// Time for an answer. A shim answers from memory, so one that takes longer is suspended or overloaded.
const PATIENCE: Duration = Duration::from_secs(2);

/// The wait between two attempts to connect to a busy shim.
const PAUSE: Duration = Duration::from_millis(5);

/// The content type of events.
const EVENTS: &str = "text/event-stream";

/// The longest answer that is read: room for the escaped messages of one request.
const MAX_ANSWER: usize = 32 << 20;

/// One shim. Each request times out after two seconds.
///
/// Requests one after another use one connection, those of its clones included. An event stream takes that connection with
/// it; what is asked beside it uses another one.
#[derive(Clone, Debug)]
pub struct Shim {
    name: String,
    socket: PathBuf,
    user: u32,
    /// The connection on which the last answer was read to its end.
    kept: Arc<Mutex<Option<Conversation>>>,
}

impl Shim {
    pub(super) fn new(name: String, socket: PathBuf, user: u32) -> Self {
        Self { name, socket, user, kept: Arc::default() }
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
        let conversation = match self.take_kept() {
            Some(conversation) => conversation,
            None => timeout(PATIENCE, self.open()).await.map_err(|_| ShimError::NotAnswering)??,
        };
        let process = conversation.process();
        self.keep(conversation);
        Ok(process)
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

    /// Cancels requests, and follows what comes of it: the events begin with the order, and nothing is missed in between.
    /// Without events, if the shim is too old for it or has too many subscribers.
    ///
    /// # Errors
    ///
    /// As [`cancel`](Self::cancel).
    pub async fn cancel_and_follow(&self, order: &CancelOrder) -> Result<(CancelReply, Option<ShimEvents>), ShimError> {
        self.order_and_follow("/v1/cancel", order).await
    }

    /// Ends its server, and follows what comes of it, as [`cancel_and_follow`](Self::cancel_and_follow) does.
    ///
    /// # Errors
    ///
    /// As [`end`](Self::end).
    pub async fn end_and_follow(&self, order: &EndOrder) -> Result<(EndReply, Option<ShimEvents>), ShimError> {
        self.order_and_follow("/v1/end", order).await
    }

    /// Its events, beginning with a snapshot, or after event number `since`.
    ///
    /// # Errors
    ///
    /// [`ShimError`].
    pub async fn events(&self, since: Option<u64>) -> Result<ShimEvents, ShimError> {
        let path = since.map_or_else(|| "/v1/events".into(), |since| format!("/v1/events?since={since}"));
        let asked = self.patiently(true, || self.send(Method::GET, &path, Bytes::new(), None));
        let (response, _) = asked.await?;
        Ok(ShimEvents::new(response.into_body()))
    }

    async fn order<T: DeserializeOwned>(&self, path: &str, order: &impl Serialize) -> Result<T, ShimError> {
        let body = serde_json::to_vec(order).map_err(ShimError::unreadable)?;
        self.answer(Method::POST, path, body.into()).await
    }

    async fn order_and_follow<T: DeserializeOwned>(
        &self,
        path: &str,
        order: &impl Serialize,
    ) -> Result<(T, Option<ShimEvents>), ShimError> {
        let body = Bytes::from(serde_json::to_vec(order).map_err(ShimError::unreadable)?);
        let ask = || async {
            let (response, conversation) = self.send(Method::POST, path, body.clone(), Some(EVENTS)).await?;
            if response.headers().get(CONTENT_TYPE).is_none_or(|kind| kind != EVENTS) {
                let reply = self.read(response, conversation).await?;
                return Ok((serde_json::from_slice(&reply).map_err(ShimError::unreadable)?, None));
            }
            let mut events = ShimEvents::new(response.into_body());
            let reply = events.next().await?.ok_or_else(|| ShimError::unreadable("no reply to an order"))?;
            Ok((serde_json::from_str(&reply.data).map_err(ShimError::unreadable)?, Some(events)))
        };
        match self.patiently(false, ask).await {
            // It was not carried out.
            Err(ShimError::Refused { status: 429, .. }) => Ok((self.order(path, order).await?, None)),
            answer => answer,
        }
    }

    async fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T, ShimError> {
        self.answer(Method::GET, path, Bytes::new()).await
    }

    async fn answer<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> Result<T, ShimError> {
        let is_question = method == Method::GET;
        let ask = || async {
            let (response, conversation) = self.send(method.clone(), path, body.clone(), None).await?;
            self.read(response, conversation).await
        };
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

    async fn open(&self) -> Result<Conversation, ShimError> {
        Conversation::open(self.connect().await.map_err(ShimError::from_io)?, self.user).await
    }

    fn take_kept(&self) -> Option<Conversation> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn keep(&self, conversation: Conversation) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(conversation);
    }

    /// Sends a request and returns a successful response, with the connection that is free when its body was read.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        accepted: Option<&'static str>,
    ) -> Result<(Response<Incoming>, Conversation), ShimError> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "rescind")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(ShimError::unreadable)?;
        request.headers_mut().extend(accepted.map(|kind| (ACCEPT, HeaderValue::from_static(kind))));
        let (response, conversation) = self.begin(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok((response, conversation));
        }
        let body = self.read(response, conversation).await?;
        let problem = serde_json::from_slice(&body)
            .unwrap_or_else(|_| Problem { error: format!("answered with status {}", status.as_u16()), hint: None });
        Err(ShimError::Refused { status: status.as_u16(), problem })
    }

    /// Reads a whole answer, and keeps its connection.
    async fn read(&self, response: Response<Incoming>, conversation: Conversation) -> Result<Bytes, ShimError> {
        let answer = whole(response.into_body()).await?;
        self.keep(conversation);
        Ok(answer)
    }

    /// Sends a request on the connection that is kept, or on a new one.
    async fn begin(&self, mut request: Request<Full<Bytes>>) -> Result<(Response<Incoming>, Conversation), ShimError> {
        if let Some(mut kept) = self.take_kept() {
            // A connection that was closed while a person was asked, and nothing here ran, is seen first: by the runtime, which
            // looks at its socket in the first turn, and by its task in the second.
            yield_now().await;
            yield_now().await;
            match kept.ask(request).await {
                Ok(response) => return Ok((response, kept)),
                // The shim closes a connection that is silent for five seconds. An order is not lost with it, nor sent twice.
                Err(Unanswered::Unsent(unsent, _)) => request = *unsent,
                Err(Unanswered::Failed(error)) => return Err(error),
            }
        }
        let mut conversation = self.open().await?;
        match conversation.ask(request).await {
            Ok(response) => Ok((response, conversation)),
            Err(Unanswered::Unsent(_, error) | Unanswered::Failed(error)) => Err(error),
        }
    }
}

async fn whole(body: Incoming) -> Result<Bytes, ShimError> {
    let collected = Limited::new(body, MAX_ANSWER).collect().await;
    collected.map(http_body_util::Collected::to_bytes).map_err(|error| match error.downcast_ref::<hyper::Error>() {
        Some(error) => ShimError::from_hyper(error),
        None => ShimError::unreadable("longer than 32 MiB"),
    })
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Read, Write},
        os::unix::net::{UnixListener, UnixStream},
        sync::mpsc,
        thread,
    };

    use super::*;

    /// Answers one request, and returns its first line.
    fn answer(stream: &UnixStream, body: &str) -> String {
        let (mut reader, mut head, mut length) = (BufReader::new(stream), String::new(), 0);
        while reader.read_line(&mut head).unwrap() > 2 {
            let last = head.lines().next_back().unwrap_or_default().to_ascii_lowercase();
            length = last.strip_prefix("content-length: ").map_or(length, |text| text.parse().unwrap());
        }
        reader.read_exact(&mut vec![0; length]).unwrap();
        let (mut writer, size) = (stream, body.len());
        write!(writer, "HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n{body}").unwrap();
        head.lines().next().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn an_order_goes_once_although_the_connection_before_was_closed() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("4711.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let (read, is_read) = mpsc::channel();
        let (closed, is_closed) = mpsc::channel();
        let shim = thread::spawn(move || {
            let counters = serde_json::to_string(&Counters::default()).unwrap();
            let (first, _) = listener.accept().unwrap();
            let questions = [answer(&first, &counters), answer(&first, &counters)];
            is_read.recv().unwrap();
            drop(first);
            closed.send(()).unwrap();
            let (second, _) = listener.accept().unwrap();
            (questions, answer(&second, r#"{"accepted":true}"#))
        });
        let asked = Shim::new("4711".into(), socket, rescind_ledger::identity::user());
        asked.counters().await.unwrap();
        asked.clone().counters().await.unwrap();
        // The connection has seen that nothing more comes, and nothing of this runtime runs until it is closed, as while a
        // person is asked.
        yield_now().await;
        yield_now().await;
        read.send(()).unwrap();
        is_closed.recv().unwrap();
        assert!(asked.end(&EndOrder { started: 7 }).await.unwrap().accepted);
        let counters = "GET /v1/counters HTTP/1.1".to_owned();
        assert_eq!(shim.join().unwrap(), ([counters.clone(), counters], "POST /v1/end HTTP/1.1".to_owned()));
    }
}
