//! The floor: the least that can stand between HTTP clients and one stdio server.
//!
//! It replaces ids and puts them back, and passes a cancel on as its era has it. It has no limits, clocks, logs,
//! keep-alives or checks of headers.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::future::Future;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame as BodyFrame, Incoming, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rescind_proto::frame::{self, Frame, ResponseId};
use rescind_proto::id::RequestId;
use rescind_proto::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::{Notify, oneshot};
use tokio::task::LocalSet;

const SESSION: &str = "mcp-session-id";
const READ: usize = 64 * 1024;

/// How a bridge answers, and how many children it starts.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// With JSON; one child.
    Json,
    /// With a stream of one event; one child.
    Sse,
    /// With JSON; a child for each session.
    ChildEach,
}

/// Serves HTTP in front of `command`.
pub(crate) fn serve(command: &[OsString], kind: Kind) -> io::Result<()> {
    let bridges = Bridges { command: command.to_vec(), kind, started: RefCell::default() };
    on_one_thread(async move {
        if !matches!(kind, Kind::ChildEach) {
            bridges.start()?;
        }
        let bridges = Rc::new(bridges);
        listen(move |request: Request<Incoming>| {
            let bridge = bridges.of(request.headers());
            async move {
                match bridge {
                    Ok(bridge) => bridge.handle(request).await,
                    Err(_) => refused(StatusCode::BAD_GATEWAY),
                }
            }
        })
        .await
    })
}

/// Serves HTTP whose every answer is a stream on which nothing comes, with nothing behind it.
pub(crate) fn serve_streams() -> io::Result<()> {
    on_one_thread(listen(|request: Request<Incoming>| async move {
        // A peer that is gone needs no answer.
        let _ = request.into_body().collect().await;
        answer("text/event-stream", Answer::Open)
    }))
}

fn on_one_thread(work: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    LocalSet::new().block_on(&runtime, work)
}

async fn listen<F>(handle: impl Fn(Request<Incoming>) -> F + Clone + 'static) -> io::Result<()>
where
    F: Future<Output = Response<Answer>> + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    writeln!(io::stderr(), "http://{}/mcp", listener.local_addr()?)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let handle = handle.clone();
        let service = service_fn(move |request| {
            let answer = handle(request);
            async move { Ok::<_, Infallible>(answer.await) }
        });
        // A connection that its client ends in the middle is no fault of ours.
        tokio::task::spawn_local(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
        );
    }
}

/// One for all, or one for each session.
struct Bridges {
    command: Vec<OsString>,
    kind: Kind,
    started: RefCell<Vec<Rc<Bridge>>>,
}

impl Bridges {
    /// Where a request belongs.
    fn of(&self, headers: &HeaderMap) -> io::Result<Rc<Bridge>> {
        let place = match (self.kind, session(headers)) {
            (Kind::Json | Kind::Sse, _) => 0,
            (Kind::ChildEach, Some(session)) => session as usize - 1,
            (Kind::ChildEach, None) => return self.start(),
        };
        self.started.borrow().get(place).cloned().ok_or_else(|| io::Error::other("no such session"))
    }

    fn start(&self) -> io::Result<Rc<Bridge>> {
        let [program, arguments @ ..] = &*self.command else { return Err(io::Error::other("no command")) };
        let mut child = Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let ends = child.stdin.take().zip(child.stdout.take());
        let (input, output) = ends.ok_or_else(|| io::Error::other("a child without pipes"))?;
        let to = Sender::from_owned_fd(input.into())?;
        let from = Receiver::from_owned_fd(output.into())?;
        let is_sse = matches!(self.kind, Kind::Sse);
        let started = &mut self.started.borrow_mut();
        // Its session, if it has only one, is the next.
        let bridge = Rc::new(Bridge { is_sse, last_session: Cell::new(started.len() as u64), ..Bridge::default() });
        started.push(Rc::clone(&bridge));
        let running = Rc::clone(&bridge);
        tokio::task::spawn_local(async move {
            let ended = tokio::select! {
                ended = running.write(to) => ended,
                ended = running.read(from) => ended,
            };
            // Without its child it would let its clients wait.
            let _ = writeln!(io::stderr(), "{ended:?}");
            std::process::exit(1);
        });
        Ok(bridge)
    }
}

#[derive(Default)]
struct Bridge {
    is_sse: bool,
    /// What waits for the child, by the id it was given there.
    in_flight: RefCell<HashMap<i64, Call>>,
    /// The ids given to calls of sessions, which a cancel names by the client's.
    given: RefCell<HashMap<(u64, RequestId), i64>>,
    last_id: Cell<i64>,
    last_session: Cell<u64>,
    /// What the child has not been sent yet.
    outbox: RefCell<Vec<u8>>,
    filled: Notify,
}

struct Call {
    id: RequestId,
    session: Option<u64>,
    answer: oneshot::Sender<Bytes>,
}

impl Bridge {
    async fn write(&self, mut to: Sender) -> io::Result<()> {
        let mut lines = Vec::new();
        loop {
            self.filled.notified().await;
            std::mem::swap(&mut lines, &mut self.outbox.borrow_mut());
            to.write_all(&lines).await?;
            lines.clear();
        }
    }

    async fn read(&self, mut from: Receiver) -> io::Result<()> {
        let mut buffer = Vec::with_capacity(READ);
        loop {
            buffer.reserve(READ);
            let scanned = buffer.len();
            if from.read_buf(&mut buffer).await? == 0 {
                return Err(io::Error::other("the child has ended"));
            }
            let mut start = 0;
            for newline in memchr::memchr_iter(b'\n', &buffer[scanned..]) {
                self.settle(&buffer[start..scanned + newline]);
                start = scanned + newline + 1;
            }
            buffer.drain(..start);
        }
    }

    /// A line of the child: an answer goes to where it is waited for, with the client's id.
    fn settle(&self, line: &[u8]) {
        let Ok(Frame::Response(response)) = frame::parse(line) else { return };
        let Some(ResponseId::Exact(id)) = response.id else { return };
        let Some(call) = id.as_integer().and_then(|id| self.remove(id)) else { return };
        let mut text = Vec::with_capacity(line.len() + 48);
        if self.is_sse {
            text.extend_from_slice(b"event: message\ndata: ");
        }
        frame::splice(line, response.id_span, &call.id, &mut text);
        if self.is_sse {
            text.extend_from_slice(b"\n\n");
        }
        // A client of a session may have hung up, which leaves its call in flight.
        let _ = call.answer.send(text.into());
    }

    fn remove(&self, id: i64) -> Option<Call> {
        let call = self.in_flight.borrow_mut().remove(&id)?;
        if let Some(session) = call.session {
            self.given.borrow_mut().remove(&(session, call.id.clone()));
        }
        Some(call)
    }

    fn cancel(&self, id: i64) {
        if self.remove(id).is_some() {
            let cancel =
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
            self.send(|outbox| outbox.extend_from_slice(cancel.as_bytes()));
        }
    }

    fn send(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let outbox = &mut self.outbox.borrow_mut();
        let start = outbox.len();
        write(outbox);
        while let Some(at) = memchr::memchr(b'\n', &outbox[start..]) {
            outbox[start + at] = b' ';
        }
        outbox.push(b'\n');
        self.filled.notify_one();
    }

    async fn handle(self: Rc<Self>, request: Request<Incoming>) -> Response<Answer> {
        let (head, body) = request.into_parts();
        let Ok(body) = body.collect().await else { return refused(StatusCode::BAD_REQUEST) };
        let taken = self.take(&head, &body.to_bytes());
        // While it waits it holds nothing of the request.
        drop(head);
        let (mut waiting, opens_session) = match taken {
            Ok(taken) => taken,
            Err(status) => return refused(status),
        };
        let mut answer = if self.is_sse {
            answer("text/event-stream", Answer::Event(waiting))
        } else {
            match (&mut waiting.receiver).await {
                Ok(text) => answer("application/json", Answer::Whole(Some(text))),
                // It was cancelled.
                Err(_) => refused(StatusCode::ACCEPTED),
            }
        };
        if opens_session {
            self.last_session.update(|last| last + 1);
            answer.headers_mut().insert(SESSION, self.last_session.get().into());
        }
        answer
    }

    /// A call under way and whether it opens a session, or the status that is all of the answer.
    fn take(self: &Rc<Self>, head: &Parts, body: &[u8]) -> Result<(Waiting, bool), StatusCode> {
        if head.method != Method::POST {
            return Err(StatusCode::METHOD_NOT_ALLOWED);
        }
        match frame::parse(body) {
            Ok(Frame::Request(request)) => {
                Ok((self.call(&head.headers, &request, body), request.method == "initialize"))
            }
            Ok(Frame::Notification(notification)) if notification.method == "notifications/cancelled" => {
                let id = json::member(notification.params.raw.unwrap_or_default(), "requestId");
                let key = session(&head.headers).zip(id.and_then(RequestId::from_json));
                let given = key.and_then(|key| self.given.borrow().get(&key).copied());
                given.inspect(|&id| self.cancel(id));
                Err(StatusCode::ACCEPTED)
            }
            Ok(Frame::Notification(_)) => {
                self.send(|outbox| outbox.extend_from_slice(body));
                Err(StatusCode::ACCEPTED)
            }
            Ok(Frame::Response(_) | Frame::Batch(_)) | Err(_) => Err(StatusCode::BAD_REQUEST),
        }
    }

    fn call(self: &Rc<Self>, headers: &HeaderMap, request: &frame::Request<'_>, body: &[u8]) -> Waiting {
        let is_modern = headers.get("mcp-protocol-version").is_some_and(|version| version == "2026-07-28");
        let session = session(headers).filter(|_| !is_modern);
        let id = self.last_id.get() + 1;
        self.last_id.set(id);
        self.send(|outbox| frame::splice(body, request.id_span.clone(), &RequestId::integer(id), outbox));
        let (answer, receiver) = oneshot::channel();
        if let Some(session) = session {
            self.given.borrow_mut().insert((session, request.id.clone()), id);
        }
        self.in_flight.borrow_mut().insert(id, Call { id: request.id.clone(), session, answer });
        Waiting { receiver, hang_up: is_modern.then(|| (Rc::clone(self), id)) }
    }
}

fn session(headers: &HeaderMap) -> Option<u64> {
    headers.get(SESSION)?.to_str().ok()?.parse().ok()
}

fn answer(kind: &'static str, body: Answer) -> Response<Answer> {
    let mut answer = Response::new(body);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

fn refused(status: StatusCode) -> Response<Answer> {
    let mut answer = Response::new(Answer::Whole(None));
    *answer.status_mut() = status;
    answer
}

/// Waits for the answer to a call; dropped before, it is a hang-up, which cancels in the modern era.
struct Waiting {
    receiver: oneshot::Receiver<Bytes>,
    hang_up: Option<(Rc<Bridge>, i64)>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some((bridge, id)) = self.hang_up.take() {
            // Of a call that was answered nothing is in flight.
            bridge.cancel(id);
        }
    }
}

enum Answer {
    Whole(Option<Bytes>),
    Event(Waiting),
    Open,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Infallible>>> {
        let text = match &mut *self {
            Self::Whole(text) => text.take(),
            Self::Event(waiting) => {
                let text = ready!(Pin::new(&mut waiting.receiver).poll(context)).ok();
                *self = Self::Whole(None);
                text
            }
            Self::Open => return Poll::Pending,
        };
        Poll::Ready(text.map(|text| Ok(BodyFrame::data(text))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            Self::Event(_) | Self::Open => SizeHint::default(),
        }
    }
}
