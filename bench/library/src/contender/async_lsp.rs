//! `async-lsp`: its main loop on both ends, its concurrency layer on the
//! serving one, which drops the handler's future. It has no cancel on the
//! calling end and does not tell a call's id, but numbers calls from 0 in the
//! order in which they are polled first: so the notification can be made.

use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use async_lsp::concurrency::ConcurrencyLayer;
use async_lsp::lsp_types::notification::Cancel;
use async_lsp::lsp_types::request::Request;
use async_lsp::lsp_types::{CancelParams, NumberOrString};
use async_lsp::router::Router;
use async_lsp::{MainLoop, ServerSocket};
use futures::future::BoxFuture;
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};
use tower::ServiceBuilder;

use super::{Caller, Failure, Library, compare};
use crate::payload::Params;
use crate::wire::End;
use crate::work::{Verb, Work};

enum ToolsCall {}

impl Request for ToolsCall {
    type Params = Params;
    type Result = Params;
    const METHOD: &'static str = "tools/call";
}

pub(crate) struct AsyncLsp;

impl Library for AsyncLsp {
    type Caller = Client;

    async fn open(client: End, server: End, work: Arc<Work>, limit: usize) -> Result<Client, Failure> {
        let limit = NonZeroUsize::new(limit).unwrap_or(NonZeroUsize::MIN);
        // A main loop panics once nobody has its socket.
        let (serving, _) = MainLoop::new_server(|socket| {
            let mut router = Router::new((work, socket));
            router.request::<ToolsCall, _>(|(work, _), params| {
                let work = Arc::clone(work);
                async move {
                    match params.verb() {
                        Some(Verb::Echo) | None => {}
                        Some(Verb::Wait) => work.wait_to_be_dropped().await,
                        Some(Verb::Hold) => work.hold().await,
                    }
                    Ok(params)
                }
            });
            ServiceBuilder::new().layer(ConcurrencyLayer::new(limit)).service(router)
        });
        let (calling, socket) = MainLoop::new_client(Router::new);
        tokio::spawn(serving.run_buffered(server.reader.compat(), server.writer.compat_write()));
        tokio::spawn(calling.run_buffered(client.reader.compat(), client.writer.compat_write()));
        Ok(Client { socket, next: Arc::default() })
    }
}

/// The calling end, and the id that its next call will get.
#[derive(Clone)]
pub(crate) struct Client {
    socket: ServerSocket,
    next: Arc<Mutex<i32>>,
}

/// A call, and its id once it has been polled.
pub(crate) struct Call {
    answer: BoxFuture<'static, Result<(), Failure>>,
    next: Arc<Mutex<i32>>,
    id: Option<i32>,
}

impl Future for Call {
    type Output = Result<(), Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.id.is_some() {
            return this.answer.as_mut().poll(cx);
        }
        // The first poll queues the call: no other may come between that and the count.
        let mut next = this.next.lock().unwrap_or_else(PoisonError::into_inner);
        this.id = Some(*next);
        *next += 1;
        this.answer.as_mut().poll(cx)
    }
}

impl Caller for Client {
    type Call = Call;

    async fn echo(&self) -> Result<(), Failure> {
        self.call(Verb::Echo).await
    }

    fn call(&self, verb: Verb) -> Call {
        let socket = self.socket.clone();
        let answer = async move {
            let sent = Params::of(verb);
            compare(&socket.request::<ToolsCall>(sent.clone()).await?, sent)
        };
        Call { answer: Box::pin(answer), next: Arc::clone(&self.next), id: None }
    }

    async fn cancel(&self, call: Call) -> Result<(), Failure> {
        let id = call.id.ok_or("a call that was never sent")?;
        self.socket.notify::<Cancel>(CancelParams { id: NumberOrString::Number(id) })?;
        Ok(())
    }
}
