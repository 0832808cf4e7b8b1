//! The HTTP of the socket: paths, methods and limits.

use std::{
    convert::Infallible,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Frame, Incoming},
    header::{self, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use percent_encoding::percent_decode_str;
use rescind_feed::{CancelOrder, EndOrder, Event, Problem};
use serde::de::DeserializeOwned;
use tokio::{
    sync::{mpsc, watch},
    task::{spawn_blocking, yield_now},
    time::{sleep, timeout},
};

use super::{
    connections::{Activity, Connections},
    entry_key::EntryKey,
    event_buffer::{EventBuffer, Next, Subscriber, encode},
    filter::{RequestFilter, members},
    link_view::LinkView,
    mailbox::Mailbox,
    platform::{self, Connection, Listener},
};

/// Bytes of a request before its body, and of a response that may wait to be written.
const MAX_HEAD: usize = 16 * 1024;

/// Bytes of a request's body.
const MAX_BODY: usize = 64 * 1024;

/// Bytes of a body past the limit that are read and discarded. A client that is still writing gets its answer this way,
/// and not a closed connection.
const MAX_EXCESS: usize = 4 * 1024 * 1024;

/// Time for the head of a request, from the connection or the last answer, and then again for its body.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The most requests in one order.
const MAX_ORDER: usize = 1000;

/// The least time between two reports of changes.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// The time between two counts of who is connected, while somebody subscribes and nothing else is reported.
const CENSUS_INTERVAL: Duration = Duration::from_secs(2);

/// A subscriber gets a comment line after this much silence.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The wait after a failed accept: the process has no descriptor left.
const ACCEPT_BACKOFF: Duration = Duration::from_secs(1);

type ApiResponse = Response<Either<Full<Bytes>, EventBody>>;

/// Serves until `closing`, then finishes the requests that have been received.
pub(super) async fn serve(
    listener: Listener,
    mailbox: Arc<Mailbox>,
    events: Arc<EventBuffer>,
    closing: watch::Receiver<bool>,
) {
    let mut connections = Connections::default();
    let mut closes = closing.clone();
    let mut closes = pin!(closes.changed());
    loop {
        tokio::select! {
            _ = &mut closes => break,
            Some(()) = connections.reap() => {}
            accepted = platform::accept(&listener) => match accepted {
                Ok(None) => {}
                Ok(Some(connection)) => {
                    connections.accept(|activity| {
                        let server = ApiConnection { mailbox: Arc::clone(&mailbox), events: Arc::clone(&events), activity };
                        server.serve(connection, closing.clone())
                    });
                    // Lets it read its request before many silent newcomers replace it, and lets the link run.
                    yield_now().await;
                }
                Err(_) => sleep(ACCEPT_BACKOFF).await,
            }
        }
    }
    drop(listener);
    while connections.reap().await.is_some() {}
}

/// A path of the API.
#[derive(Clone, Copy, Debug)]
enum ApiPath<'a> {
    Session,
    Counters,
    Requests,
    Request(&'a str),
    Events,
    Cancel,
    End,
}

impl<'a> ApiPath<'a> {
    fn of(path: &'a str) -> Option<Self> {
        Some(match path.strip_prefix("/v1/")? {
            "session" => Self::Session,
            "counters" => Self::Counters,
            "requests" => Self::Requests,
            "events" => Self::Events,
            "cancel" => Self::Cancel,
            "end" => Self::End,
            rest => Self::Request(rest.strip_prefix("requests/")?),
        })
    }

    const fn method(self) -> Method {
        match self {
            Self::Session | Self::Counters | Self::Requests | Self::Request(_) | Self::Events => Method::GET,
            Self::Cancel | Self::End => Method::POST,
        }
    }
}

/// What the requests of a connection are answered from.
#[derive(Clone, Debug)]
struct ApiConnection {
    mailbox: Arc<Mailbox>,
    events: Arc<EventBuffer>,
    activity: Activity,
}

impl ApiConnection {
    async fn serve(self, connection: Connection, mut closing: watch::Receiver<bool>) {
        let answer = |request| {
            let server = self.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        };
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(READ_TIMEOUT).max_buf_size(MAX_HEAD);
        let mut serving = pin!(http.serve_connection(TokioIo::new(connection), service_fn(answer)));
        tokio::select! {
            _ = &mut serving => return,
            _ = closing.changed() => serving.as_mut().graceful_shutdown(),
        }
        // An error concerns this connection alone, and its client sees it.
        let _ = serving.await;
    }

    async fn answer(self, request: Request<Incoming>) -> ApiResponse {
        self.activity.touch();
        let address = request.uri().clone();
        let Some(path) = ApiPath::of(address.path()) else {
            return problem(StatusCode::NOT_FOUND, "no such path", Some("docs/admin.md lists the paths"));
        };
        if *request.method() != path.method() {
            return wrong_method(&path.method());
        }
        let answered = match path {
            ApiPath::Session => self.ask(|link| link.session()).await.map(|session| json(&session)),
            ApiPath::Counters => self.ask(|link| link.counters()).await.map(|counters| json(&counters)),
            ApiPath::Requests => self.list(address.query().unwrap_or_default()).await,
            ApiPath::Request(key) => self.show(key).await,
            ApiPath::Events => self.follow(&request).await,
            ApiPath::Cancel => self.cancel(request).await,
            ApiPath::End => self.end(request).await,
        };
        answered.unwrap_or_else(|refused| refused)
    }

    /// Asks the link; a refusal if it is over.
    async fn ask<T: Send + 'static>(
        &self,
        query: impl FnOnce(&mut LinkView<'_>) -> T + Send + 'static,
    ) -> Result<T, ApiResponse> {
        self.mailbox.ask(query).await.ok_or_else(|| problem(StatusCode::GONE, "the session is over", None))
    }

    async fn list(&self, query: &str) -> Result<ApiResponse, ApiResponse> {
        let filter = RequestFilter::parse(query).map_err(|wrong| problem(StatusCode::BAD_REQUEST, &wrong, None))?;
        Ok(long_json(self.ask(move |link| link.listing(&filter)).await?).await)
    }

    async fn show(&self, key: &str) -> Result<ApiResponse, ApiResponse> {
        let unknown = || problem(StatusCode::NOT_FOUND, "no such request, or it is no longer remembered", None);
        // A client may percent-encode any character.
        let key = percent_decode_str(key).decode_utf8();
        let key = key.ok().and_then(|key| key.parse::<EntryKey>().ok()).ok_or_else(unknown)?;
        let details = self.ask(move |link| link.details(key)).await?;
        Ok(long_json(details.ok_or_else(unknown)?).await)
    }

    async fn cancel(&self, request: Request<Incoming>) -> Result<ApiResponse, ApiResponse> {
        let is_followed = asks_for_events(&request);
        let order: CancelOrder = order(request, r#"{"requests":["c12.3"],"reason":"why"}"#).await?;
        if order.requests.len() > MAX_ORDER {
            return Err(problem(StatusCode::BAD_REQUEST, "more than 1000 requests in one order", None));
        }
        let cancel = move |link: &mut LinkView<'_>| link.cancel(&order);
        if !is_followed {
            return Ok(long_json(self.ask(cancel).await?).await);
        }
        let (subscriber, reply) = self.subscribe(cancel).await?;
        Ok(self.stream(subscriber, None, Some(&reply)))
    }

    async fn end(&self, request: Request<Incoming>) -> Result<ApiResponse, ApiResponse> {
        let is_followed = asks_for_events(&request);
        let order: EndOrder = order(request, r#"{"started":1790000000000000}"#).await?;
        let another = || problem(StatusCode::CONFLICT, "this session is another one", Some("list the sessions again"));
        let end = move |link: &mut LinkView<'_>| link.end(order);
        if !is_followed {
            return Ok(json(&self.ask(end).await?.ok_or_else(another)?));
        }
        let (subscriber, reply) = self.subscribe(end).await?;
        Ok(self.stream(subscriber, None, Some(&reply.ok_or_else(another)?)))
    }

    async fn follow(&self, request: &Request<Incoming>) -> Result<ApiResponse, ApiResponse> {
        let since = since(request).map_err(|wrong| problem(StatusCode::BAD_REQUEST, &wrong, None))?;
        let (subscriber, ()) = self.subscribe(|_| ()).await?;
        Ok(self.stream(subscriber, since, None::<&()>))
    }

    /// Subscribes, and in the same step does `order`, so that nothing that comes of it is missed.
    async fn subscribe<T: Send + 'static>(
        &self,
        order: impl FnOnce(&mut LinkView<'_>) -> T + Send + 'static,
    ) -> Result<(Subscriber, T), ApiResponse> {
        let too_many = || problem(StatusCode::TOO_MANY_REQUESTS, "too many subscribers", None);
        let subscriber = self.events.subscribe().ok_or_else(too_many)?;
        let (mailbox, events) = (Arc::clone(&self.mailbox), Arc::clone(&self.events));
        // Spawned by the drive, which decides: the client may disconnect before the answer.
        let begin = move |link: &mut LinkView<'_>| {
            if link.begin_tracking() {
                tokio::spawn(report_periodically(mailbox, events, link.state.facts.changes_by_itself()));
            }
            order(link)
        };
        Ok((subscriber, self.ask(begin).await?))
    }

    /// A subscriber's stream. The reply to its order comes first.
    fn stream(&self, subscriber: Subscriber, since: Option<u64>, reply: Option<&impl serde::Serialize>) -> ApiResponse {
        self.activity.mark_subscribed();
        let (sender, events) = mpsc::channel(1);
        if let Some(reply) = reply.and_then(|reply| serde_json::to_string(reply).ok()) {
            let _ = sender.try_send(format!("event: ordered\ndata: {reply}\n\n").into());
        }
        tokio::spawn(serve_subscriber(subscriber, Arc::clone(&self.mailbox), since, sender));
        let mut reply = Response::new(Either::Right(EventBody(events)));
        let headers = reply.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        reply
    }
}

/// Whether what comes of an order is to follow its reply.
fn asks_for_events(request: &Request<Incoming>) -> bool {
    request.headers().get(header::ACCEPT).is_some_and(|accepted| accepted == "text/event-stream")
}

/// Has changes reported as long as there are subscribers.
async fn report_periodically(mailbox: Arc<Mailbox>, events: Arc<EventBuffer>, counts: bool) {
    let mut abandoned = pin!(events.abandoned());
    loop {
        tokio::select! {
            () = events.changed.notified() => {
                if mailbox.ask(|link| link.report_changes()).await.is_none() {
                    return;
                }
                sleep(REPORT_INTERVAL).await;
            }
            // Who is connected, or asked to sign in, changes without a message.
            () = sleep(CENSUS_INTERVAL), if counts => {
                if mailbox.ask(|link| link.report_changes()).await.is_none() {
                    return;
                }
            }
            () = &mut abandoned => match mailbox.ask(|link| link.end_tracking()).await {
                Some(false) => abandoned.set(events.abandoned()),
                Some(true) | None => return,
            }
        }
    }
}

/// Sends one subscriber every event after number `after`, as fast as it reads, until the session ends or the subscriber
/// disconnects.
async fn serve_subscriber(
    subscription: Subscriber,
    mailbox: Arc<Mailbox>,
    mut after: Option<u64>,
    output: mpsc::Sender<Bytes>,
) {
    let events = Arc::clone(&subscription.0);
    let mut last = events.last.subscribe();
    loop {
        last.mark_unchanged();
        let event = match after.map_or(Next::Snapshot, |after| events.next(after)) {
            Next::Event(number, event) => {
                after = Some(number);
                event
            }
            Next::Snapshot => match mailbox.ask(|link| link.snapshot()).await {
                Some(snapshot) => {
                    let number = snapshot.seq;
                    after = Some(number);
                    // It may be megabytes, so another thread encodes it and the link goes on.
                    let written = spawn_blocking(move || encode(number, &Event::Snapshot(snapshot)));
                    let Ok(event) = written.await else { return };
                    event
                }
                // The link is over: its last event still says how it ended.
                None => {
                    if let Some(event) = events.last_event() {
                        let _ = output.send(event).await;
                    }
                    return;
                }
            },
            Next::Nothing => tokio::select! {
                () = output.closed() => return,
                changed = timeout(KEEP_ALIVE, last.changed()) => match changed {
                    Ok(_) => continue,
                    Err(_) => Bytes::from_static(b":\n\n"),
                },
            },
            Next::Over => return,
        };
        if output.send(event).await.is_err() {
            return;
        }
    }
}

/// The number of the last event that a subscriber has seen.
fn since(request: &Request<Incoming>) -> Result<Option<u64>, String> {
    let mut since = None;
    let read = |value: &str| value.parse::<u64>().map_err(|_| format!("not an event number: {value}"));
    for (name, value) in members(request.uri().query().unwrap_or_default()) {
        match &*name {
            "since" => since = Some(read(&value)?),
            _ => return Err(format!("unknown parameter: {name}")),
        }
    }
    // The header of a browser that reconnects is newer than the parameter its page began with.
    match request.headers().get("last-event-id").map(HeaderValue::to_str) {
        Some(Ok(value)) => read(value).map(Some),
        Some(Err(_)) => Err("Last-Event-ID is not an event number".to_owned()),
        None => Ok(since),
    }
}

/// Reads an order, within limits of length and time. `example` is a hint at what it looks like.
async fn order<T: DeserializeOwned>(request: Request<Incoming>, example: &str) -> Result<T, ApiResponse> {
    let late = |_| problem(StatusCode::REQUEST_TIMEOUT, "the body took longer than 5 s", None);
    let body = timeout(READ_TIMEOUT, read(request.into_body())).await.map_err(late)??;
    let order = serde_json::from_slice(&body);
    order.map_err(|error| problem(StatusCode::BAD_REQUEST, &error.to_string(), Some(example)))
}

/// Reads a body up to its limit.
async fn read(mut body: Incoming) -> Result<Vec<u8>, ApiResponse> {
    let mut read = Vec::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let bad = |error: hyper::Error| problem(StatusCode::BAD_REQUEST, &error.to_string(), None);
        let data = frame.map_err(bad)?.into_data().unwrap_or_default();
        length += data.len();
        if length <= MAX_BODY {
            read.extend_from_slice(&data);
        } else if length > MAX_BODY + MAX_EXCESS {
            break;
        }
    }
    if length > MAX_BODY {
        Err(problem(StatusCode::PAYLOAD_TOO_LARGE, "the body is longer than 64 KiB", None))
    } else {
        Ok(read)
    }
}

fn json(value: &impl serde::Serialize) -> ApiResponse {
    match serde_json::to_vec(value) {
        Ok(body) => reply(StatusCode::OK, body),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string(), None),
    }
}

/// Encodes what may be megabytes on another thread, so that the link does not wait.
async fn long_json(value: impl serde::Serialize + Send + 'static) -> ApiResponse {
    let written = spawn_blocking(move || json(&value)).await;
    written.unwrap_or_else(|error| problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string(), None))
}

fn problem(status: StatusCode, error: &str, hint: Option<&str>) -> ApiResponse {
    let problem = Problem { error: error.to_owned(), hint: hint.map(str::to_owned) };
    reply(status, serde_json::to_vec(&problem).unwrap_or_default())
}

fn wrong_method(right: &Method) -> ApiResponse {
    let mut reply = problem(StatusCode::METHOD_NOT_ALLOWED, &format!("use {right}"), None);
    if let Ok(allowed) = HeaderValue::from_str(right.as_str()) {
        reply.headers_mut().insert(header::ALLOW, allowed);
    }
    reply
}

fn reply(status: StatusCode, body: Vec<u8>) -> ApiResponse {
    let mut reply = Response::new(Either::Left(Full::new(body.into())));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// The body of an event stream.
#[derive(Debug)]
struct EventBody(mpsc::Receiver<Bytes>);

impl Body for EventBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_recv(cx).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
