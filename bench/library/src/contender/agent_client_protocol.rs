//! `agent-client-protocol`: a request of its own on both ends; dropping the
//! sent request cancels, the handler is told by a marker and answers with an
//! error.

use std::sync::Arc;

use agent_client_protocol::role::UntypedRole;
use agent_client_protocol::{
    ByteStreams, ConnectionTo, Error, JsonRpcRequest, JsonRpcResponse, Responder, on_receive_request,
};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

use super::{Caller, Failure, Library, compare};
use crate::payload::Params;
use crate::wire::End;
use crate::work::{Verb, Work};

#[derive(Clone, Debug, Serialize, Deserialize, JsonRpcRequest)]
#[request(method = "tools/call", response = CallResponse)]
#[serde(transparent)]
struct CallRequest(Params);

#[derive(Clone, Debug, Serialize, Deserialize, JsonRpcResponse)]
#[serde(transparent)]
struct CallResponse(Params);

pub(crate) struct Acp;

impl Library for Acp {
    type Caller = ConnectionTo<UntypedRole>;

    async fn open(client: End, server: End, work: Arc<Work>, _limit: usize) -> Result<Self::Caller, Failure> {
        let streams = |end: End| ByteStreams::new(end.writer.compat_write(), end.reader.compat());
        let serving = UntypedRole.builder().on_receive_request(
            async move |request: CallRequest, responder: Responder<CallResponse>, cx: ConnectionTo<UntypedRole>| {
                // An echo answers in line, as a quick handler does; work of its own must not block the dispatch.
                match request.0.verb() {
                    Some(Verb::Echo) | None => responder.respond(CallResponse(request.0)),
                    Some(Verb::Wait) => {
                        let work = Arc::clone(&work);
                        cx.spawn(async move {
                            let cancellation = responder.cancellation();
                            work.wait(cancellation.cancelled()).await;
                            responder.respond_with_error(Error::request_cancelled())
                        })
                    }
                    Some(Verb::Hold) => {
                        let work = Arc::clone(&work);
                        cx.spawn(async move {
                            work.hold().await;
                            responder.respond(CallResponse(request.0))
                        })
                    }
                }
            },
            on_receive_request!(),
        );
        tokio::spawn(serving.connect_to(streams(server)));
        let (connected, connection) = oneshot::channel();
        tokio::spawn(UntypedRole.builder().connect_with(
            streams(client),
            async move |cx: ConnectionTo<UntypedRole>| {
                // Whoever asked has failed already if nobody takes it.
                let _ = connected.send(cx);
                std::future::pending::<Result<(), Error>>().await
            },
        ));
        Ok(connection.await?)
    }
}

async fn call(connection: ConnectionTo<UntypedRole>, verb: Verb) -> Result<(), Failure> {
    let sent = Params::of(verb);
    let answer = connection.send_request(CallRequest(sent.clone())).block_task().await;
    compare(&answer?.0, sent)
}

impl Caller for ConnectionTo<UntypedRole> {
    type Call = BoxFuture<'static, Result<(), Failure>>;

    async fn echo(&self) -> Result<(), Failure> {
        call(self.clone(), Verb::Echo).await
    }

    fn call(&self, verb: Verb) -> Self::Call {
        Box::pin(call(self.clone(), verb))
    }

    async fn cancel(&self, call: Self::Call) -> Result<(), Failure> {
        drop(call);
        Ok(())
    }
}
