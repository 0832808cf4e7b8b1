//! `tower-lsp-server`: it makes servers only, so the calling end is a second
//! one that uses its `Client`. It has no cancel on the calling end; the
//! notification carries the id that the request was built with. The handler's
//! future is dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use serde_json::json;
use tower::{Service, ServiceExt as _};
use tower_lsp_server::gen_lsp_types::{
    CancelNotification, CancelParams, Id as CancelledId, InitializeParams, InitializeResult,
};
use tower_lsp_server::jsonrpc::{self, Id, Request};
use tower_lsp_server::{Client, LanguageServer, LspService, Server};

use super::{Caller, Failure, Library, compare};
use crate::payload::Params;
use crate::wire::End;
use crate::work::{Verb, Work};

struct Backend(Arc<Work>);

impl LanguageServer for Backend {
    async fn initialize(&self, _: InitializeParams) -> jsonrpc::Result<InitializeResult> {
        Ok(InitializeResult::default())
    }

    async fn shutdown(&self) -> jsonrpc::Result<()> {
        Ok(())
    }
}

impl Backend {
    async fn call(&self, params: Params) -> jsonrpc::Result<Params> {
        match params.verb() {
            Some(Verb::Echo) | None => {}
            Some(Verb::Wait) => self.0.wait_to_be_dropped().await,
            Some(Verb::Hold) => self.0.hold().await,
        }
        Ok(params)
    }
}

pub(crate) struct TowerLsp;

impl Library for TowerLsp {
    type Caller = Client;

    async fn open(client: End, server: End, work: Arc<Work>, limit: usize) -> Result<Client, Failure> {
        start(server, Arc::clone(&work), limit).await?;
        start(client, work, limit).await
    }
}

async fn start(end: End, work: Arc<Work>, limit: usize) -> Result<Client, Failure> {
    let mut calling = None;
    let (mut service, socket) = LspService::build(|client| {
        calling = Some(client);
        Backend(work)
    })
    .custom_method("tools/call", Backend::call)
    .finish();
    // Neither side of this session is an editor: each initialises itself.
    let initialize = Request::build("initialize").params(json!({"capabilities": {}})).id(0).finish();
    service.ready().await?.call(initialize).await?;
    tokio::spawn(Server::new(end.reader, end.writer, socket).concurrency_level(limit).serve(service));
    calling.ok_or_else(|| "no client was made".into())
}

/// A call and its id.
pub(crate) struct Call {
    id: Id,
    answer: BoxFuture<'static, Result<(), Failure>>,
}

impl Future for Call {
    type Output = Result<(), Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.answer.as_mut().poll(cx)
    }
}

impl Caller for Client {
    type Call = Call;

    async fn echo(&self) -> Result<(), Failure> {
        self.call(Verb::Echo).await
    }

    fn call(&self, verb: Verb) -> Call {
        let id = self.next_request_id();
        let mut client = self.clone();
        let answer = {
            let id = id.clone();
            async move {
                let sent = Params::of(verb);
                let request = Request::build("tools/call").params(serde_json::to_value(sent)?).id(id).finish();
                let answer = Service::call(&mut client, request).await?;
                let (_, result) = answer.ok_or("no answer")?.into_parts();
                compare(&serde_json::from_value(result?)?, sent)
            }
        };
        Call { id, answer: Box::pin(answer) }
    }

    async fn cancel(&self, call: Call) -> Result<(), Failure> {
        let Id::Number(id) = call.id else {
            return Err("an id that is no number".into());
        };
        let id = i32::try_from(id)?;
        self.send_notification::<CancelNotification>(CancelParams::new(CancelledId::Int(id))).await;
        Ok(())
    }
}
