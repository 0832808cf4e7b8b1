//! The floor of the other way: the least that can stand between a client's pipes and an HTTP server.
//!
//! It posts each line and writes what comes back. It has no limits, clocks, logs, resumption, redirects or cancels, and
//! takes JSON alone.

use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd as _;
use std::rc::Rc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Uri};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use rescind_proto::frame::{self, Frame};
use rescind_proto::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::Notify;
use tokio::task::LocalSet;

const SESSION: &str = "mcp-session-id";
const READ: usize = 64 * 1024;

/// Forwards standard input to this URL until it ends.
pub(crate) fn forward(url: &str) -> io::Result<()> {
    let url = url.parse().map_err(io::Error::other)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    LocalSet::new().block_on(&runtime, async {
        let from = Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
        let to = Sender::from_owned_fd(io::stdout().as_fd().try_clone_to_owned()?)?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let forwarder = Rc::new(Forwarder {
            url,
            client,
            session: RefCell::default(),
            outbox: RefCell::default(),
            filled: Notify::new(),
        });
        tokio::select! {
            ended = forwarder.read(from) => ended,
            ended = forwarder.write(to) => ended,
        }
    })
}

struct Forwarder {
    url: Uri,
    client: Client<HttpConnector, Full<Bytes>>,
    session: RefCell<Option<HeaderValue>>,
    outbox: RefCell<Vec<u8>>,
    filled: Notify,
}

impl Forwarder {
    async fn read(self: &Rc<Self>, mut from: Receiver) -> io::Result<()> {
        let mut buffer = Vec::with_capacity(READ);
        loop {
            buffer.reserve(READ);
            let scanned = buffer.len();
            if from.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
            let mut start = 0;
            for newline in memchr::memchr_iter(b'\n', &buffer[scanned..]) {
                let line = Bytes::copy_from_slice(&buffer[start..scanned + newline]);
                start = scanned + newline + 1;
                let forwarder = Rc::clone(self);
                tokio::task::spawn_local(async move { forwarder.post(line).await });
            }
            buffer.drain(..start);
        }
    }

    async fn write(&self, mut to: Sender) -> io::Result<()> {
        let mut lines = Vec::new();
        loop {
            self.filled.notified().await;
            std::mem::swap(&mut lines, &mut self.outbox.borrow_mut());
            to.write_all(&lines).await?;
            lines.clear();
        }
    }

    /// A line whose answer does not come is one that the load generator misses.
    async fn post(&self, line: Bytes) {
        let Some(request) = self.request(line) else { return };
        let Ok(answer) = self.client.request(request).await else { return };
        let (head, body) = answer.into_parts();
        if let Some(session) = head.headers.get(SESSION) {
            *self.session.borrow_mut() = Some(session.clone());
        }
        let Ok(body) = body.collect().await else { return };
        let text = body.to_bytes();
        if !text.is_empty() {
            let outbox = &mut self.outbox.borrow_mut();
            outbox.extend_from_slice(&text);
            outbox.push(b'\n');
            self.filled.notify_one();
        }
    }

    fn request(&self, line: Bytes) -> Option<Request<Full<Bytes>>> {
        let mut request = Request::post(self.url.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let version = match frame::parse(&line) {
            Ok(Frame::Request(asked)) if asked.params.meta.is_some() => {
                request = request.header("mcp-method", &*asked.method);
                if let Some(name) = asked.params.name.and_then(json::text) {
                    request = request.header("mcp-name", &*name);
                }
                "2026-07-28"
            }
            Ok(Frame::Request(_) | Frame::Notification(_) | Frame::Response(_) | Frame::Batch(_)) => "2025-11-25",
            Err(_) => return None,
        };
        request = request.header("mcp-protocol-version", HeaderValue::from_static(version));
        if let Some(session) = &*self.session.borrow() {
            request = request.header(SESSION, session);
        }
        request.body(Full::new(line)).ok()
    }
}
