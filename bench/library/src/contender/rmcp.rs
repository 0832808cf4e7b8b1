//! `rmcp`: a tool call on the server; on the client either a request handle,
//! whose `cancel` is awaited, or the future of the typed call, dropped. The
//! handler is told by a token.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest, JsonObject,
    ServerCapabilities, ServerConfig, ServerResult,
};
use rmcp::service::{PeerRequestOptions, RequestContext, RequestHandle, RunningService};
use rmcp::{ErrorData, RoleClient, RoleServer, ServerHandler, ServiceError, serve_client, serve_server};
use serde_json::Value;

use super::{Caller, Failure, Library, compare};
use crate::payload::Params;
use crate::wire::End;
use crate::work::{Verb, Work};

struct Server(Arc<Work>);

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match Verb::named(&request.name) {
            Some(Verb::Echo) | None => {}
            Some(Verb::Wait) => self.0.wait(context.ct.cancelled()).await,
            Some(Verb::Hold) => self.0.hold().await,
        }
        // Once, and not as text beside it as `structured` would: the answer is as long as the question.
        let mut result = CallToolResult::success(Vec::new());
        result.structured_content = request.arguments.map(Value::Object);
        Ok(result.into())
    }
}

pub(crate) struct Rmcp;
pub(crate) struct RmcpDropped;

impl Library for Rmcp {
    type Caller = Client;

    async fn open(client: End, server: End, work: Arc<Work>, _limit: usize) -> Result<Client, Failure> {
        open(client, server, work).await
    }
}

impl Library for RmcpDropped {
    type Caller = Dropping;

    async fn open(client: End, server: End, work: Arc<Work>, _limit: usize) -> Result<Dropping, Failure> {
        Ok(Dropping(open(client, server, work).await?))
    }
}

async fn open(client: End, server: End, work: Arc<Work>) -> Result<Client, Failure> {
    let serving = tokio::spawn(serve_server(Server(work), (server.reader, server.writer)));
    let service = serve_client((), (client.reader, client.writer)).await?;
    tokio::spawn(serving.await??.waiting());
    let arguments = serde_json::to_value(&Params::of(Verb::Echo).arguments)?;
    let arguments = arguments.as_object().cloned().ok_or("arguments are an object")?;
    Ok(Client { service: Arc::new(service), arguments: Arc::new(arguments) })
}

/// The calling end.
#[derive(Clone)]
pub(crate) struct Client {
    service: Arc<RunningService<RoleClient, ()>>,
    arguments: Arc<JsonObject>,
}

impl Client {
    fn params(&self, verb: Verb) -> CallToolRequestParams {
        CallToolRequestParams::new(verb.name()).with_arguments((*self.arguments).clone())
    }

    async fn call_tool(&self, verb: Verb) -> Result<(), Failure> {
        let result = self.service.call_tool(self.params(verb)).await?;
        self.compare(result)
    }

    fn compare(&self, result: CallToolResult) -> Result<(), Failure> {
        compare(result.structured_content.as_ref().and_then(Value::as_object).ok_or("no content")?, &self.arguments)
    }
}

/// A call with a handle: being handed over, or waiting for its answer.
#[expect(clippy::large_enum_variant, reason = "every call becomes the larger one")]
pub(crate) enum Call {
    Sending(Client, BoxFuture<'static, Result<RequestHandle<RoleClient>, ServiceError>>),
    Sent(Client, RequestHandle<RoleClient>),
}

impl Future for Call {
    type Output = Result<(), Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Self::Sending(client, sending) = &mut *self {
            let handle = std::task::ready!(sending.as_mut().poll(cx))?;
            let client = client.clone();
            *self = Self::Sent(client, handle);
        }
        match &mut *self {
            Self::Sending(..) => Poll::Pending,
            Self::Sent(client, handle) => {
                let ServerResult::CallToolResult(result) = std::task::ready!(Pin::new(&mut handle.rx).poll(cx))??
                else {
                    return Poll::Ready(Err("another kind of result".into()));
                };
                Poll::Ready(client.compare(result))
            }
        }
    }
}

impl Caller for Client {
    type Call = Call;

    async fn echo(&self) -> Result<(), Failure> {
        self.call_tool(Verb::Echo).await
    }

    fn call(&self, verb: Verb) -> Call {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(self.params(verb)));
        let peer = self.service.peer().clone();
        let sending = async move { peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await };
        Call::Sending(self.clone(), Box::pin(sending))
    }

    async fn cancel(&self, call: Call) -> Result<(), Failure> {
        match call {
            Call::Sending(..) => Err("a call that was never sent".into()),
            Call::Sent(_, handle) => Ok(handle.cancel(None).await?),
        }
    }
}

/// The calling end, its typed calls dropped.
#[derive(Clone)]
pub(crate) struct Dropping(Client);

impl Caller for Dropping {
    type Call = BoxFuture<'static, Result<(), Failure>>;

    async fn echo(&self) -> Result<(), Failure> {
        self.0.echo().await
    }

    fn call(&self, verb: Verb) -> Self::Call {
        let client = self.0.clone();
        Box::pin(async move { client.call_tool(verb).await })
    }

    async fn cancel(&self, call: Self::Call) -> Result<(), Failure> {
        drop(call);
        Ok(())
    }
}
