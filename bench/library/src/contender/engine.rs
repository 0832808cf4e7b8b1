//! L2 and L2i: the least that calls cost. A pending table, one oneshot a
//! call, one task and one token a handled request, a drop that cancels, and a
//! writer that takes all there is; no limits, no clocks, no errors, no rules.

use std::collections::HashMap;
use std::future::Future;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use super::lines::{Envelope, Lines};
use super::{Caller, Failure, Library, compare};
use crate::payload;
use crate::wire::{End, Reader, Writer};
use crate::work::{Verb, Work};

/// Each handler is spawned.
pub(crate) struct L2;
/// Each handler is polled once, and spawned if it is not ready.
pub(crate) struct L2Inline;

impl Library for L2 {
    type Caller = Arc<Engine>;

    async fn open(client: End, server: End, work: Arc<Work>, _limit: usize) -> Result<Arc<Engine>, Failure> {
        Engine::start(server, Some(Serving { work, is_inline: false }));
        Ok(Engine::start(client, None))
    }
}

impl Library for L2Inline {
    type Caller = Arc<Engine>;

    async fn open(client: End, server: End, work: Arc<Work>, _limit: usize) -> Result<Arc<Engine>, Failure> {
        Engine::start(server, Some(Serving { work, is_inline: true }));
        Ok(Engine::start(client, None))
    }
}

struct Serving {
    work: Arc<Work>,
    is_inline: bool,
}

/// One end.
#[derive(Default)]
pub(crate) struct Engine {
    next: AtomicU64,
    pending: Mutex<HashMap<u64, oneshot::Sender<Box<RawValue>>>>,
    running: Mutex<HashMap<u64, CancellationToken>>,
    out: Mutex<Vec<u8>>,
    written: Notify,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelParams {
    request_id: u64,
}

impl Engine {
    fn start(End { reader, writer }: End, serving: Option<Serving>) -> Arc<Self> {
        let engine = Arc::new(Self::default());
        tokio::spawn(Arc::clone(&engine).read(reader, serving));
        tokio::spawn(Arc::clone(&engine).write(writer));
        engine
    }

    async fn write(self: Arc<Self>, mut writer: Writer) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        loop {
            self.written.notified().await;
            std::mem::swap(&mut bytes, &mut *lock(&self.out));
            writer.write_all(&bytes).await?;
            bytes.clear();
        }
    }

    async fn read(self: Arc<Self>, mut reader: Reader, serving: Option<Serving>) -> Result<(), Failure> {
        let mut lines = Lines::new();
        while lines.read(&mut reader).await? > 0 {
            while let Some(line) = lines.next() {
                let envelope: Envelope<'_> = serde_json::from_slice(line)?;
                match (envelope.id, envelope.method, &serving) {
                    (Some(id), Some(_), Some(serving)) => self.handle(id, envelope.params, serving),
                    (Some(id), None, _) => {
                        let answer = lock(&self.pending).remove(&id).zip(envelope.result);
                        // Nobody may wait any more.
                        let _ = answer.map(|(caller, result)| caller.send(result.to_owned()));
                    }
                    (None, Some(_), _) => {
                        let params = envelope.params.map_or("null", RawValue::get);
                        let CancelParams { request_id } = serde_json::from_str(params)?;
                        // Outside the lock: it wakes the handler.
                        let token = lock(&self.running).remove(&request_id);
                        token.inspect(CancellationToken::cancel);
                    }
                    (Some(_) | None, _, _) => return Err("a message for nobody".into()),
                }
            }
        }
        Ok(())
    }

    fn handle(self: &Arc<Self>, id: u64, params: Option<&RawValue>, serving: &Serving) {
        let token = CancellationToken::new();
        lock(&self.running).insert(id, token.clone());
        let (engine, work, params) = (Arc::clone(self), Arc::clone(&serving.work), params.map(RawValue::to_owned));
        let handler = async move {
            let result = run(&work, params, &token).await;
            if lock(&engine.running).remove(&id).is_some() {
                let result = result.as_deref().map_or("null", RawValue::get);
                engine.send(format_args!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
            }
        };
        if serving.is_inline {
            let mut handler: BoxFuture<'static, ()> = Box::pin(handler);
            if handler.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                tokio::spawn(handler);
            }
        } else {
            tokio::spawn(handler);
        }
    }

    fn send(&self, message: std::fmt::Arguments<'_>) {
        writeln!(lock(&self.out), "{message}").expect("a vector takes all");
        self.written.notify_one();
    }

    fn ask(self: &Arc<Self>, verb: Verb) -> Pending {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (caller, answer) = oneshot::channel();
        lock(&self.pending).insert(id, caller);
        let params = payload::raw(verb).get();
        self.send(format_args!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#));
        Pending { engine: Arc::clone(self), id, verb, answer }
    }
}

async fn run(work: &Work, params: Option<Box<RawValue>>, token: &CancellationToken) -> Option<Box<RawValue>> {
    match payload::verb_of(params.as_deref().map_or("", RawValue::get))? {
        Verb::Echo => {}
        Verb::Wait => work.wait(token.cancelled()).await,
        Verb::Hold => work.hold().await,
    }
    params
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call in flight; dropped before its answer, it is cancelled.
pub(crate) struct Pending {
    engine: Arc<Engine>,
    id: u64,
    verb: Verb,
    answer: oneshot::Receiver<Box<RawValue>>,
}

impl Future for Pending {
    type Output = Result<(), Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = std::task::ready!(Pin::new(&mut self.answer).poll(cx))?;
        Poll::Ready(compare(answer.get(), payload::raw(self.verb).get()))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if lock(&self.engine.pending).remove(&self.id).is_some() {
            let id = self.id;
            self.engine.send(format_args!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
            ));
        }
    }
}

impl Caller for Arc<Engine> {
    type Call = Pending;

    async fn echo(&self) -> Result<(), Failure> {
        self.ask(Verb::Echo).await
    }

    fn call(&self, verb: Verb) -> Pending {
        self.ask(verb)
    }

    async fn cancel(&self, call: Pending) -> Result<(), Failure> {
        drop(call);
        Ok(())
    }
}
