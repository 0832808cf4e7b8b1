//! HTTP on the socket: paths, methods and limits.

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
use rescind_feed::{CancelOrder, Problem};
use rescind_proto::link::RequestKey;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{mpsc, watch},
    task::{spawn_blocking, yield_now},
    time::{sleep, timeout},
};

use super::{
    desk::Desk,
    guests::{Activity, Guests},
    query::{Query, members},
    scene::Scene,
    stream::{self, Stream},
};

/// Bytes of a request before its body, and of what waits to be written before more is made.
const HEAD: usize = 16 * 1024;

/// Bytes of a request's body.
const BODY: usize = 64 * 1024;

/// Bytes of a body beyond that which are read and thrown away, so that the answer is read and not the end.
const EXCESS: usize = 4 * 1024 * 1024;

/// How long the head of a request may take to arrive, from the connection or the last answer on, and then its body.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most requests in one order to cancel.
const ORDERS: usize = 1000;

/// Changes are told no oftener.
const PACE: Duration = Duration::from_millis(100);

/// Between two attempts to accept, when the process has no descriptor left.
const BREATH: Duration = Duration::from_secs(1);

type Reply = Response<Either<Full<Bytes>, Events>>;

/// Serves until `closing`, and then whoever is connected until they have what they asked for.
pub(super) async fn serve(
    listener: UnixListener,
    desk: Arc<Desk>,
    stream: Arc<Stream>,
    closing: watch::Receiver<bool>,
) {
    let mut guests = Guests::default();
    let mut closes = closing.clone();
    let mut closes = pin!(closes.changed());
    loop {
        tokio::select! {
            _ = &mut closes => break,
            Some(()) = guests.leave() => {}
            accepted = listener.accept() => match accepted {
                Ok((connection, _)) if !is_ours(&connection) => {
                    refuse(&connection, "403 Forbidden", "this session belongs to another user");
                }
                Ok((connection, _)) => {
                    guests.admit(|activity| {
                        let server = Server { desk: Arc::clone(&desk), stream: Arc::clone(&stream), activity };
                        server.serve(connection, closing.clone())
                    });
                    // Its request is read before many silent newcomers can take its place, and the link goes on.
                    yield_now().await;
                }
                Err(_) => sleep(BREATH).await,
            }
        }
    }
    drop(listener);
    while guests.leave().await.is_some() {}
}

/// Whether the same user is at the other end, or root.
fn is_ours(connection: &UnixStream) -> bool {
    let ours = rustix::process::geteuid().as_raw();
    connection.peer_cred().is_ok_and(|peer| peer.uid() == ours || peer.uid() == 0)
}

/// A last word that fits into any socket, whether or not anything was asked.
fn refuse(connection: &UnixStream, status: &str, why: &str) {
    let body = format!(r#"{{"error":"{why}"}}"#);
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}");
    let _ = connection.try_write(format!("{head}\r\nconnection: close\r\n\r\n{body}").as_bytes());
}

/// What a path names.
#[derive(Clone, Copy, Debug)]
enum What<'a> {
    Session,
    Counters,
    Requests,
    Request(&'a str),
    Events,
    Cancel,
}

impl<'a> What<'a> {
    fn of(path: &'a str) -> Option<Self> {
        Some(match path.strip_prefix("/v1/")? {
            "session" => Self::Session,
            "counters" => Self::Counters,
            "requests" => Self::Requests,
            "events" => Self::Events,
            "cancel" => Self::Cancel,
            rest => Self::Request(rest.strip_prefix("requests/")?),
        })
    }

    const fn method(self) -> Method {
        match self {
            Self::Session | Self::Counters | Self::Requests | Self::Request(_) | Self::Events => Method::GET,
            Self::Cancel => Method::POST,
        }
    }
}

/// What a connection has at hand.
#[derive(Clone, Debug)]
struct Server {
    desk: Arc<Desk>,
    stream: Arc<Stream>,
    activity: Activity,
}

impl Server {
    async fn serve(self, connection: UnixStream, mut closing: watch::Receiver<bool>) {
        let answer = |request| {
            let server = self.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        };
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(HEAD);
        let mut serving = pin!(http.serve_connection(TokioIo::new(connection), service_fn(answer)));
        tokio::select! {
            _ = &mut serving => return,
            _ = closing.changed() => serving.as_mut().graceful_shutdown(),
        }
        // Whatever is wrong with a connection is its client's affair.
        let _ = serving.await;
    }

    async fn answer(self, request: Request<Incoming>) -> Reply {
        self.activity.note();
        let address = request.uri().clone();
        let Some(path) = What::of(address.path()) else {
            return problem(StatusCode::NOT_FOUND, "there is no such path", Some("docs/admin.md lists them"));
        };
        if *request.method() != path.method() {
            return wrong_method(&path.method());
        }
        let answered = match path {
            What::Session => self.desk.ask(|scene| scene.session()).await.map(|session| json(&session)),
            What::Counters => self.desk.ask(|scene| scene.counters()).await.map(|counters| json(&counters)),
            What::Requests => self.list(address.query().unwrap_or_default()).await,
            What::Request(key) => self.show(key).await,
            What::Events => self.subscribe(&request).await,
            What::Cancel => self.cancel(request).await,
        };
        answered.unwrap_or_else(|| problem(StatusCode::GONE, "the session is over", None))
    }

    async fn list(&self, query: &str) -> Option<Reply> {
        match Query::parse(query) {
            Ok(query) => Some(long_json(self.desk.ask(move |scene| scene.listing(&query)).await?).await),
            Err(wrong) => Some(problem(StatusCode::BAD_REQUEST, &wrong, None)),
        }
    }

    async fn show(&self, key: &str) -> Option<Reply> {
        let unknown = || problem(StatusCode::NOT_FOUND, "no such request is remembered", None);
        // A client may write any of its characters as an escape.
        let key = percent_decode_str(key).decode_utf8();
        let Some(key) = key.ok().and_then(|key| key.parse::<RequestKey>().ok()) else { return Some(unknown()) };
        let details = self.desk.ask(move |scene| scene.details(key)).await?;
        match details {
            Some(details) => Some(long_json(details).await),
            None => Some(unknown()),
        }
    }

    async fn cancel(&self, request: Request<Incoming>) -> Option<Reply> {
        let body = match timeout(PATIENCE, read(request.into_body())).await {
            Ok(Ok(body)) => body,
            Ok(Err(reply)) => return Some(reply),
            Err(_) => return Some(problem(StatusCode::REQUEST_TIMEOUT, "the body did not come in time", None)),
        };
        let order: CancelOrder = match serde_json::from_slice(&body) {
            Ok(order) => order,
            Err(error) => {
                let hint = r#"{"requests":["c12.3"],"reason":"why"}"#;
                return Some(problem(StatusCode::BAD_REQUEST, &error.to_string(), Some(hint)));
            }
        };
        if order.requests.len() > ORDERS {
            return Some(problem(StatusCode::BAD_REQUEST, "more than 1000 requests in one order", None));
        }
        Some(long_json(self.desk.ask(move |scene| scene.cancel(&order)).await?).await)
    }

    async fn subscribe(&self, request: &Request<Incoming>) -> Option<Reply> {
        let since = match since(request) {
            Ok(since) => since,
            Err(wrong) => return Some(problem(StatusCode::BAD_REQUEST, &wrong, None)),
        };
        let Some(seat) = self.stream.seat() else {
            return Some(problem(StatusCode::TOO_MANY_REQUESTS, "too many subscribers", None));
        };
        let (desk, stream) = (Arc::clone(&self.desk), Arc::clone(&self.stream));
        // Begun where it is decided: whoever asked may have gone before it hears the answer.
        let begin = move |scene: &mut Scene<'_>| {
            if scene.begin_watching() {
                tokio::spawn(pace(desk, stream));
            }
        };
        self.desk.ask(begin).await?;
        self.activity.note_subscription();
        let (sender, events) = mpsc::channel(1);
        tokio::spawn(stream::feed(seat, Arc::clone(&self.desk), since, sender));
        let mut reply = Response::new(Either::Right(Events(events)));
        let headers = reply.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Some(reply)
    }
}

/// Has what changed told, as long as somebody listens.
async fn pace(desk: Arc<Desk>, stream: Arc<Stream>) {
    let mut deserted = pin!(stream.deserted());
    loop {
        tokio::select! {
            () = stream.stirred.notified() => {
                if desk.ask(|scene| scene.tell()).await.is_none() {
                    return;
                }
                sleep(PACE).await;
            }
            () = &mut deserted => match desk.ask(|scene| scene.end_watching()).await {
                Some(false) => deserted.set(stream.deserted()),
                Some(true) | None => return,
            }
        }
    }
}

/// The number of the last event that a subscriber has seen.
fn since(request: &Request<Incoming>) -> Result<Option<u64>, String> {
    let mut since = None;
    let read = |value: &str| value.parse::<u64>().map_err(|_| format!("{value} is no number of an event"));
    for (name, value) in members(request.uri().query().unwrap_or_default()) {
        match &*name {
            "since" => since = Some(read(&value)?),
            _ => return Err(format!("{name} is nothing that can be asked for")),
        }
    }
    // What a browser sends when it connects again is later than what its page began with.
    match request.headers().get("last-event-id").map(HeaderValue::to_str) {
        Some(Ok(value)) => read(value).map(Some),
        Some(Err(_)) => Err("Last-Event-ID is no number of an event".to_owned()),
        None => Ok(since),
    }
}

/// Reads a body as far as its limit allows.
async fn read(mut body: Incoming) -> Result<Vec<u8>, Reply> {
    let mut read = Vec::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let bad = |error: hyper::Error| problem(StatusCode::BAD_REQUEST, &error.to_string(), None);
        let data = frame.map_err(bad)?.into_data().unwrap_or_default();
        length += data.len();
        if length <= BODY {
            read.extend_from_slice(&data);
        } else if length > BODY + EXCESS {
            break;
        }
    }
    if length > BODY {
        Err(problem(StatusCode::PAYLOAD_TOO_LARGE, "the body is longer than 64 KiB", None))
    } else {
        Ok(read)
    }
}

fn json(value: &impl serde::Serialize) -> Reply {
    match serde_json::to_vec(value) {
        Ok(body) => reply(StatusCode::OK, body),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string(), None),
    }
}

/// Of what may be megabytes: written by another thread, so that the link does not wait for it.
async fn long_json(value: impl serde::Serialize + Send + 'static) -> Reply {
    let written = spawn_blocking(move || json(&value)).await;
    written.unwrap_or_else(|error| problem(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string(), None))
}

fn problem(status: StatusCode, error: &str, hint: Option<&str>) -> Reply {
    let problem = Problem { error: error.to_owned(), hint: hint.map(str::to_owned) };
    reply(status, serde_json::to_vec(&problem).unwrap_or_default())
}

fn wrong_method(right: &Method) -> Reply {
    let mut reply = problem(StatusCode::METHOD_NOT_ALLOWED, &format!("only {right} is understood here"), None);
    if let Ok(allowed) = HeaderValue::from_str(right.as_str()) {
        reply.headers_mut().insert(header::ALLOW, allowed);
    }
    reply
}

fn reply(status: StatusCode, body: Vec<u8>) -> Reply {
    let mut reply = Response::new(Either::Left(Full::new(body.into())));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// The body of a stream of events.
#[derive(Debug)]
struct Events(mpsc::Receiver<Bytes>);

impl Body for Events {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_recv(cx).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
