//! A peer of ours with the other end of its link in the test's hands; and handlers that tell what became of them.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use rescind::peer::{
    Builder, CauseCode, Context, Dialect, ErrorObject, Framing, Peer,
    dialect::{acp, lsp, mcp},
};
use rescind_testkit::valid::ValidMessages;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf},
    sync::mpsc,
    task::JoinHandle,
};

use crate::in_time::in_time;

/// One of each way to be cancelled: silence by notification, silence for ever, two kinds of answer.
pub(crate) const DIALECTS: [&Dialect; 4] = [&mcp::LATEST_LEGACY, &mcp::LATEST, &acp::V1, &lsp::LSP];

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A builder whose messages are lines, and that answers `initialize` and `ping`.
pub(crate) fn builder(dialect: &'static Dialect) -> Builder {
    Peer::builder(dialect)
        .framing(Framing::Line)
        .on_request("initialize", || async { Ok::<_, ErrorObject>(json!({})) })
        .on_request("ping", || async { Ok::<_, ErrorObject>(json!({})) })
}

/// The test's end of a link.
pub(crate) struct Wire {
    input: BufReader<ReadHalf<DuplexStream>>,
    output: WriteHalf<DuplexStream>,
    barriers: u64,
    valid: ValidMessages,
}

pub(crate) type Served = JoinHandle<io::Result<()>>;

/// Serves; where the dialect wants a handshake first, it has happened.
pub(crate) async fn serve(builder: Builder) -> (Wire, Served) {
    serve_small(builder, 64 * 1024).await
}

/// The same over a pipe that holds `bytes`.
pub(crate) async fn serve_small(builder: Builder, bytes: usize) -> (Wire, Served) {
    let (ours, theirs) = tokio::io::duplex(bytes);
    let (peer, driver) = builder.accept(theirs);
    let dialect = peer.dialect();
    let mut wire = Wire::of(ours);
    let served = driver.spawn();
    if dialect.handshake_first.is_some() {
        wire.say(&request(json!("init"), "initialize", json!({}))).await;
        wire.hear().await;
    }
    (wire, served)
}

/// Connects to the test; where the dialect wants a handshake first, it has happened.
pub(crate) async fn connect(builder: Builder) -> (Wire, Peer, Served) {
    connect_small(builder, 64 * 1024).await
}

/// The same over a pipe that holds `bytes`.
pub(crate) async fn connect_small(builder: Builder, bytes: usize) -> (Wire, Peer, Served) {
    let (ours, theirs) = tokio::io::duplex(bytes);
    let (peer, driver) = builder.connect(theirs);
    let mut wire = Wire::of(ours);
    let served = driver.spawn();
    if peer.dialect().handshake_first.is_some() {
        let call = tokio::spawn(peer.request::<Value>("initialize", &json!({})));
        let asked = wire.hear().await;
        wire.say(&result(&asked["id"], json!({}))).await;
        call.await.unwrap().unwrap();
    }
    (wire, peer, served)
}

/// Two of our peers, joined in memory and driven.
pub(crate) fn pair(client: Builder, server: Builder) -> (Peer, Peer) {
    let (a, b) = rescind::peer::transport::memory();
    let (client, driver) = client.connect(a);
    driver.spawn();
    let (server, driver) = server.accept(b);
    driver.spawn();
    (client, server)
}

impl Wire {
    pub(crate) fn of(stream: DuplexStream) -> Self {
        let (input, output) = tokio::io::split(stream);
        Self { input: BufReader::new(input), output, barriers: 0, valid: ValidMessages::default() }
    }

    pub(crate) async fn say(&mut self, message: &Value) {
        self.raw(&format!("{message}\n")).await;
    }

    /// Several messages in one write.
    pub(crate) async fn say_all(&mut self, messages: &[Value]) {
        let text: String = messages.iter().map(|message| format!("{message}\n")).collect();
        self.raw(&text).await;
    }

    pub(crate) async fn raw(&mut self, text: &str) {
        text.lines().for_each(|message| self.valid.sent(message));
        in_time(self.output.write_all(text.as_bytes())).await.unwrap();
    }

    /// Part of a message.
    pub(crate) async fn part(&mut self, text: &str) {
        in_time(self.output.write_all(text.as_bytes())).await.unwrap();
    }

    /// The next message.
    pub(crate) async fn hear(&mut self) -> Value {
        let mut line = String::new();
        let read = in_time(self.input.read_line(&mut line)).await.unwrap();
        assert!(read > 0, "the peer has closed");
        self.read(line.trim_end_matches('\n'))
    }

    /// A message, which must be a valid one.
    fn read(&self, line: &str) -> Value {
        self.valid.check(line).unwrap_or_else(|why| panic!("{why}: {line}"));
        serde_json::from_str(line).unwrap()
    }

    /// What the peer says before the answer to a request that it answers at once: everything it had to say so far.
    pub(crate) async fn so_far(&mut self) -> Vec<Value> {
        self.barriers += 1;
        let id = json!(format!("barrier {}", self.barriers));
        self.say(&request(id.clone(), "ping", json!({}))).await;
        let mut heard = Vec::new();
        loop {
            let message = self.hear().await;
            if message["id"] == id && message.get("method").is_none() {
                return heard;
            }
            heard.push(message);
        }
    }

    /// Says nothing more, and hears everything to the end.
    pub(crate) async fn close(mut self) -> Vec<Value> {
        self.output.shutdown().await.unwrap();
        let mut text = String::new();
        in_time(self.input.read_to_string(&mut text)).await.unwrap();
        text.lines().map(|line| self.read(line)).collect()
    }
}

pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

pub(crate) fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

pub(crate) fn result(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

pub(crate) fn error(id: &Value, code: i32) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": "no" } })
}

/// The cancel that a peer of this dialect sends.
pub(crate) fn cancel(dialect: &Dialect, id: impl Into<Value>) -> Value {
    notification(dialect.cancel.method, json!({ dialect.cancel.id: id.into() }))
}

/// Whether a message is this dialect's cancel of `id`.
pub(crate) fn is_cancel(message: &Value, dialect: &Dialect, id: &Value) -> bool {
    message["method"] == dialect.cancel.method && message["params"][dialect.cancel.id] == *id
}

/// What a handler told of itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    Started(Value),
    Fired(Value, CauseCode),
    /// Its future, and what it owned, is gone.
    Gone(Value),
}

/// Hears what handlers tell of themselves.
pub(crate) struct Watch {
    seen: mpsc::UnboundedReceiver<Seen>,
}

/// Tells of one handler; dropping it is the handler's end.
pub(crate) struct Guard {
    id: Value,
    tell: mpsc::UnboundedSender<Seen>,
}

/// Gives handlers their guards.
#[derive(Clone)]
pub(crate) struct Witness {
    tell: mpsc::UnboundedSender<Seen>,
}

pub(crate) fn watch() -> (Watch, Witness) {
    let (tell, seen) = mpsc::unbounded_channel();
    (Watch { seen }, Witness { tell })
}

impl Watch {
    pub(crate) async fn next(&mut self) -> Seen {
        in_time(self.seen.recv()).await.expect("handlers are still there")
    }

    pub(crate) async fn started(&mut self, id: impl Into<Value>) {
        assert_eq!(self.next().await, Seen::Started(id.into()));
    }

    pub(crate) async fn gone(&mut self, id: impl Into<Value>) {
        assert_eq!(self.next().await, Seen::Gone(id.into()));
    }

    /// It was told to stop, and is gone.
    pub(crate) async fn stopped(&mut self, id: impl Into<Value>, code: CauseCode) {
        let id = id.into();
        assert_eq!(self.next().await, Seen::Fired(id.clone(), code));
        assert_eq!(self.next().await, Seen::Gone(id));
    }

    /// Nothing was told that was not heard.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.seen.try_recv().is_err()
    }
}

impl Witness {
    pub(crate) fn guard(&self, cx: &Context) -> Guard {
        let mut id = Vec::new();
        cx.id().write(&mut id);
        let id: Value = serde_json::from_slice(&id).unwrap();
        let _ = self.tell.send(Seen::Started(id.clone()));
        Guard { id, tell: self.tell.clone() }
    }
}

impl Guard {
    pub(crate) fn fired(&self, cx: &Context) {
        let code = cx.cause().map(|cause| cause.code).expect("a fired token has a cause");
        let _ = self.tell.send(Seen::Fired(self.id.clone(), code));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.tell.send(Seen::Gone(self.id.clone()));
    }
}

/// Handlers that stop, or do not, in their several ways:
/// `work` ends by its token, `swallow` returns a result after it, `fail` an error, `stubborn` ignores it,
/// `quits` cancels itself.
pub(crate) fn with_work(builder: Builder, witness: &Witness) -> Builder {
    let until_fired = |witness: Witness, cx: Context| async move {
        let guard = witness.guard(&cx);
        cx.cancelled().await;
        guard.fired(&cx);
    };
    let (w1, w2, w3, w4) = (witness.clone(), witness.clone(), witness.clone(), witness.clone());
    builder
        .on_request("work", move |cx: Context| {
            let working = until_fired(w1.clone(), cx);
            async move {
                working.await;
                Err::<(), _>(ErrorObject::cancelled())
            }
        })
        .on_request("swallow", move |cx: Context| {
            let working = until_fired(w2.clone(), cx);
            async move {
                working.await;
                Ok::<_, ErrorObject>(json!({ "swallowed": true }))
            }
        })
        .on_request("fail", move |cx: Context| {
            let working = until_fired(w3.clone(), cx);
            async move {
                working.await;
                Err::<(), _>(ErrorObject::internal("it broke"))
            }
        })
        .on_request("stubborn", move |cx: Context| {
            let witness = w4.clone();
            async move {
                let _guard = witness.guard(&cx);
                std::future::pending::<()>().await;
                Ok::<_, ErrorObject>(())
            }
        })
        .on_request("quits", || async { Err::<(), _>(ErrorObject::cancelled()) })
}

/// A list that closures add to.
pub(crate) struct Log<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Log<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn add(&self, item: T) {
        self.0.lock().unwrap().push(item);
    }

    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}
