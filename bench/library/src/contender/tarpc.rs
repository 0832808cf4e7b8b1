//! `tarpc`: JSON behind a length, a call is a future, its drop cancels; the
//! handler's future is dropped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::BoxFuture;
use tarpc::context::Context;
use tarpc::server::{BaseChannel, Channel as _};
use tarpc::tokio_serde::formats::Json;
use tarpc::tokio_util::codec::LengthDelimitedCodec;
use tarpc::{client, serde_transport, server};

use super::{Caller, Failure, Library, compare};
use crate::payload::Params;
use crate::wire::End;
use crate::work::{Verb, Work};

/// No call may come near its deadline, which is ten seconds by default.
const DEADLINE: Duration = Duration::from_secs(3600);

#[tarpc::service]
pub(crate) trait Tools {
    async fn call(params: Params) -> Params;
}

#[derive(Clone)]
struct Server(Arc<Work>);

impl Tools for Server {
    async fn call(self, _: Context, params: Params) -> Params {
        match params.verb() {
            Some(Verb::Echo) | None => {}
            Some(Verb::Wait) => self.0.wait_to_be_dropped().await,
            Some(Verb::Hold) => self.0.hold().await,
        }
        params
    }
}

pub(crate) struct Tarpc;

impl Library for Tarpc {
    type Caller = ToolsClient;

    async fn open(client: End, server: End, work: Arc<Work>, limit: usize) -> Result<ToolsClient, Failure> {
        let framed = |end: End| LengthDelimitedCodec::builder().new_framed(tokio::io::join(end.reader, end.writer));
        let config = server::Config { pending_response_buffer: limit };
        let channel = BaseChannel::new(config, serde_transport::new(framed(server), Json::default()));
        tokio::spawn(channel.execute(Server(work).serve()).for_each(async |handler| {
            tokio::spawn(handler);
        }));
        let mut config = client::Config::default();
        config.max_in_flight_requests = limit;
        config.pending_request_buffer = limit;
        Ok(ToolsClient::new(config, serde_transport::new(framed(client), Json::default())).spawn())
    }
}

async fn call(client: ToolsClient, verb: Verb) -> Result<(), Failure> {
    let mut context = Context::current();
    context.deadline = Instant::now() + DEADLINE;
    let sent = Params::of(verb);
    compare(&client.call(context, sent.clone()).await?, sent)
}

impl Caller for ToolsClient {
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
