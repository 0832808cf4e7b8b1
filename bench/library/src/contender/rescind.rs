//! `rescind`: a handler with its context, a call is a future whose drop
//! cancels. With params that stay as they came, as in L1 and L2; the same on a
//! route that says that its handler never blocks; and with params read into
//! types, as in the other libraries, and all settings but limits as they are.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use rescind::peer::dialect::mcp;
use rescind::peer::{Builder, Call, Context, ErrorObject, Params as Typed, Peer, RawParams, Route, route};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{Caller, Failure, Library, compare};
use crate::payload::{self, Params};
use crate::wire::End;
use crate::work::{Verb, Work};

pub(crate) struct Rescind;
pub(crate) struct RescindInline;
pub(crate) struct RescindTyped;

impl Library for Rescind {
    type Caller = Client<Box<RawValue>>;

    async fn open(client: End, server: End, work: Arc<Work>, limit: usize) -> Result<Self::Caller, Failure> {
        Ok(raw(client, server, limit, handler(work)))
    }
}

impl Library for RescindInline {
    type Caller = Client<Box<RawValue>>;

    async fn open(client: End, server: End, work: Arc<Work>, limit: usize) -> Result<Self::Caller, Failure> {
        Ok(raw(client, server, limit, handler(work).never_blocks()))
    }
}

/// Params stay as they came.
fn handler(work: Arc<Work>) -> Route<Box<RawValue>> {
    route(move |RawParams(params), cx: Context| {
        let work = Arc::clone(&work);
        async move {
            run(&work, payload::verb_of(params.get()), &cx).await;
            Ok::<_, ErrorObject>(params)
        }
    })
}

fn raw(client: End, server: End, limit: usize, route: Route<Box<RawValue>>) -> Client<Box<RawValue>> {
    // The time that is left would be written into the params.
    let calling = builder(limit).configure(|config| config.deadline_travels = false);
    Client::start(client, server, builder(limit).on_request("tools/call", route), calling)
}

impl Library for RescindTyped {
    type Caller = Client<Params>;

    async fn open(client: End, server: End, work: Arc<Work>, limit: usize) -> Result<Self::Caller, Failure> {
        let serving = builder(limit).on_request("tools/call", move |Typed::<Params>(params), cx: Context| {
            let work = Arc::clone(&work);
            async move {
                run(&work, params.verb(), &cx).await;
                Ok::<_, ErrorObject>(params)
            }
        });
        Ok(Client::start(client, server, serving, builder(limit)))
    }
}

fn builder(limit: usize) -> Builder {
    Peer::builder(&mcp::LATEST_LEGACY).configure(|config| {
        config.max_running = limit;
        config.max_queued = limit;
        config.max_in_flight = limit;
    })
}

async fn run(work: &Work, verb: Option<Verb>, cx: &Context) {
    match verb {
        Some(Verb::Echo) | None => {}
        Some(Verb::Wait) => work.wait(cx.cancelled()).await,
        Some(Verb::Hold) => work.hold().await,
    }
}

/// What a result is read as.
pub(crate) trait Answer: DeserializeOwned + Send + 'static {
    fn ask(peer: &Peer, verb: Verb) -> Call<Self>;
    fn compare(&self, verb: Verb) -> Result<(), Failure>;
}

impl Answer for Box<RawValue> {
    fn ask(peer: &Peer, verb: Verb) -> Call<Self> {
        peer.request("tools/call", payload::raw(verb))
    }

    fn compare(&self, verb: Verb) -> Result<(), Failure> {
        compare(self.get(), payload::raw(verb).get())
    }
}

impl Answer for Params {
    fn ask(peer: &Peer, verb: Verb) -> Call<Self> {
        peer.request("tools/call", Self::of(verb))
    }

    fn compare(&self, verb: Verb) -> Result<(), Failure> {
        compare(self, Self::of(verb))
    }
}

/// The calling end, and what it reads results as.
pub(crate) struct Client<A> {
    peer: Peer,
    answer: PhantomData<fn() -> A>,
}

impl<A> Client<A> {
    fn start(client: End, server: End, serving: Builder, calling: Builder) -> Self {
        tokio::spawn(serving.serve((server.reader, server.writer)));
        let (peer, driver) = calling.connect((client.reader, client.writer));
        driver.spawn();
        Self { peer, answer: PhantomData }
    }
}

impl<A> Clone for Client<A> {
    fn clone(&self) -> Self {
        Self { peer: self.peer.clone(), answer: PhantomData }
    }
}

/// A call, its answer compared.
pub(crate) struct Compared<A> {
    call: Call<A>,
    verb: Verb,
}

impl<A: Answer> Future for Compared<A> {
    type Output = Result<(), Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let answer = std::task::ready!(Pin::new(&mut self.call).poll(cx))?;
        Poll::Ready(answer.compare(self.verb))
    }
}

impl<A: Answer> Caller for Client<A> {
    type Call = Compared<A>;

    async fn echo(&self) -> Result<(), Failure> {
        self.call(Verb::Echo).await
    }

    fn call(&self, verb: Verb) -> Compared<A> {
        Compared { call: A::ask(&self.peer, verb), verb }
    }

    async fn cancel(&self, call: Compared<A>) -> Result<(), Failure> {
        drop(call);
        Ok(())
    }
}
