//! Handlers: async functions of extractors, and the table that finds them by method.

use std::{
    collections::HashMap,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;
use rescind_proto::{
    connection::{Limit, Payload},
    dialect::{CancelResult, Dialect},
    json,
    link::CancelNotice,
};
use serde::Serialize;
use serde_json::Value;

use super::{
    error::ErrorObject,
    extract::Extract,
    filter::Filter,
    json_text,
    shared::{
        running_request::RouteInfo,
        scope::{OnNotification, OnRequest},
    },
};

/// The output of a handler's future.
#[derive(Debug)]
pub(crate) enum HandlerOutput {
    /// A result, as JSON.
    Value(Vec<u8>),
    Error(ErrorObject),
}

pub(crate) type BoxedHandler = Pin<Box<dyn Future<Output = HandlerOutput> + Send>>;

/// Calls a handler. Errors are those of its extractors.
pub(crate) type StartHandler = Arc<dyn Fn(&OnRequest) -> Result<BoxedHandler, ErrorObject> + Send + Sync>;

pub(crate) type OnNotice = Box<dyn Fn(&OnNotification) -> Result<(), ErrorObject> + Send + Sync>;

pub(crate) type OnCancelled = Box<dyn Fn(&CancelNotice) + Send + Sync>;

/// An async function that handles requests: `|params: Params<T>, cx: Context| async move { … }`.
///
/// It takes up to eight [extractors](Extract) in any order. It returns a `Result` of any value that can be written as JSON
/// and any error that becomes an [`ErrorObject`].
///
/// # Where it runs
///
/// The driver calls the function in the order of the wire. The future that it returns runs in a task of its own, so the
/// connection goes on while the handler works (D50). A handler that computes between awaits notices a cancel at its next
/// await of the [`Context`](super::Context), such as [`progress`](super::Context::progress) or
/// [`checkpoint`](super::Context::checkpoint), also on a runtime with one thread. Code that computes for long without an
/// await belongs in [`Context::spawn_blocking`](super::Context::spawn_blocking): on a runtime with one thread it would
/// stop everything else, on one with more it keeps one thread busy.
///
/// # If it does not compile
///
/// The compiler names this trait where a handler is not one. It is one of four: it is not async; a parameter is not an
/// extractor (`n: u32` in place of `Params(n): Params<u32>`); it does not return a `Result`, of a value that can be
/// written as JSON and an error that becomes an [`ErrorObject`] (or [`AnyError`](super::AnyError), which takes any
/// error that displays); or its future is not `Send`.
#[diagnostic::on_unimplemented(
    message = "this is not a handler of requests",
    label = "not a handler",
    note = "1. it is async: `async fn`, or a closure `|…| async move {{ … }}`",
    note = "2. its parameters are `Params<T>`, `Context`, `CancellationToken`, `Peer`, `Method` or `RawParams`: at most eight",
    note = "3. it returns `Result<T, E>`: `T` is `serde::Serialize`; `E` is `ErrorObject`, `CallError` or `AnyError`",
    note = "4. its future is `Send`: no `Rc`, `RefCell` borrow or `MutexGuard` is held across an `.await`"
)]
pub trait RequestHandler<Args>: Send + Sync + 'static {
    /// The value of its results.
    type Output;

    #[doc(hidden)]
    fn erased(self) -> Erased;
}

/// A handler without its types.
#[doc(hidden)]
pub struct Erased(pub(crate) StartHandler);

/// A function that handles notifications: `|params: Params<T>, peer: Peer| { … }`.
///
/// It is called in the order of the wire, before any later message is handled (D11), and so it is not async: work belongs
/// in a task. It takes extractors that need no request.
#[diagnostic::on_unimplemented(
    message = "this is not a handler of notifications",
    label = "not a handler",
    note = "1. it is not async, and returns nothing: it is called in the order of the wire, and work belongs into a task",
    note = "2. its parameters are `Params<T>`, `Peer`, `Method` or `RawParams`: a notification has no `Context`"
)]
pub trait NotificationHandler<Args>: Send + Sync + 'static {
    #[doc(hidden)]
    fn erased(self) -> ErasedNotice;
}

/// A notification handler without its types.
#[doc(hidden)]
pub struct ErasedNotice(pub(crate) OnNotice);

pin_project! {
    /// A handler's future whose output is converted. An async function that awaits it would hold the future twice, as
    /// its argument and as the awaited value, and this future is most of what a waiting request costs.
    pub(crate) struct HandlerFuture<F, M> {
        #[pin]
        handling: F,
        outcome: M,
    }
}

impl<F: Future, M: Fn(F::Output) -> HandlerOutput> HandlerFuture<F, M> {
    pub(crate) fn boxed(handling: F, outcome: M) -> BoxedHandler
    where
        F: Send + 'static,
        M: Send + 'static,
    {
        Box::pin(Self { handling, outcome })
    }
}

impl<F: Future, M: Fn(F::Output) -> HandlerOutput> Future for HandlerFuture<F, M> {
    type Output = HandlerOutput;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<HandlerOutput> {
        let this = self.project();
        this.handling.poll(cx).map(this.outcome)
    }
}

/// Makes the output of a handler that returned `result`.
pub(crate) fn outcome<T: Serialize, E: Into<ErrorObject>>(result: Result<T, E>) -> HandlerOutput {
    match result.map(|value| json_text::write(&value)) {
        Ok(Ok(json)) => HandlerOutput::Value(json),
        Ok(Err(error)) => {
            HandlerOutput::Error(ErrorObject::internal(format!("the result cannot be written as JSON: {error}")))
        }
        Err(error) => HandlerOutput::Error(error.into()),
    }
}

macro_rules! handlers {
    ($($arg:ident)*) => {
        impl<F, Fut, T, E, $($arg),*> RequestHandler<($($arg,)*)> for F
        where
            F: Fn($($arg),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<T, E>> + Send + 'static,
            T: Serialize + Send + 'static,
            E: Into<ErrorObject> + Send + 'static,
            $($arg: Extract<OnRequest>,)*
        {
            type Output = T;

            fn erased(self) -> Erased {
                Erased(Arc::new(move |scope| {
                    let _ = scope;
                    Ok(HandlerFuture::boxed(self($($arg::extract(scope)?),*), outcome))
                }))
            }
        }

        impl<F, $($arg),*> NotificationHandler<($($arg,)*)> for F
        where
            F: Fn($($arg),*) + Send + Sync + 'static,
            $($arg: Extract<OnNotification>,)*
        {
            fn erased(self) -> ErasedNotice {
                ErasedNotice(Box::new(move |scope| {
                    let _ = scope;
                    self($($arg::extract(scope)?),*);
                    Ok(())
                }))
            }
        }
    };
}

handlers!();
handlers!(A);
handlers!(A B);
handlers!(A B C);
handlers!(A B C D);
handlers!(A B C D E1);
handlers!(A B C D E1 G);
handlers!(A B C D E1 G H);
handlers!(A B C D E1 G H I);

/// A handler and how its requests are stopped.
///
/// Made from a handler by [`route`]; a bare handler stands for a route with the defaults. Clones share the handler. `T` is
/// the value of the handler's results; [`Value`] stands for any.
#[must_use = "a route handles nothing until it is given to a connection"]
pub struct Route<T = Value> {
    pub(crate) handler: StartHandler,
    pub(crate) settings: RouteSettings,
    /// Shared by its requests, once there was one.
    route_info: OnceLock<Arc<RouteInfo>>,
    result: PhantomData<fn() -> T>,
}

/// The settings of a route: how its requests are stopped (D22).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RouteSettings {
    pub(crate) grace: Limit,
    pub(crate) is_shielded: bool,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) cancel_result: Option<&'static CancelResult>,
    pub(crate) spares_processes: bool,
    pub(crate) never_blocks: bool,
    #[cfg(feature = "mcp")]
    pub(crate) may_ask: bool,
}

impl RouteSettings {
    pub(crate) fn is_plain(&self) -> bool {
        self.grace == Limit::Default && !self.is_shielded && self.time_limit.is_none() && self.cancel_result.is_none()
    }
}

/// Makes a route of this handler, which can then be given settings.
pub fn route<Args, H: RequestHandler<Args>>(handler: H) -> Route<H::Output> {
    let (handler, settings) = (handler.erased().0, RouteSettings::default());
    Route { handler, settings, route_info: OnceLock::new(), result: PhantomData }
}

impl<T> Route<T> {
    /// Sets how long the handler may go on after its token fired, before its future is dropped (D22).
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = Limit::After(grace);
        self
    }

    /// Never drops the handler's future, however long it goes on after its token fired.
    pub const fn never_dropped(mut self) -> Self {
        self.settings.grace = Limit::Never;
        self
    }

    /// Shields the handler from cancels: it runs to its end, and is answered as if no cancel had come where the protocol
    /// allows that (D22, MCP-C07). [`Context::shield`](super::Context::shield) shields a part of the work.
    pub const fn shielded(mut self) -> Self {
        self.settings.is_shielded = true;
        self
    }

    /// Limits the time of a request (MCP-C14): its token fires then, and its calls to others get no more time either.
    pub const fn time_limit(mut self, limit: Duration) -> Self {
        self.settings.time_limit = Some(limit);
        self
    }

    /// Sets the answer of a request that its requester cancelled, in place of the dialect's error (D23).
    pub const fn cancel_result(mut self, result: &'static CancelResult) -> Self {
        self.settings.cancel_result = Some(result);
        self
    }

    /// Sends child processes no SIGTERM when the token fires: only SIGKILL, when the grace is over (D22).
    pub const fn spare_processes(mut self) -> Self {
        self.settings.spares_processes = true;
        self
    }

    /// Promises that no poll of the handler's future computes for long or blocks its thread.
    ///
    /// As a rule a handler runs in a task of its own from the start, so that nothing on the connection waits for it
    /// (D50). With this promise the driver itself polls the future once: an answer that is ready then needs no task.
    /// During that poll the connection neither reads nor writes, and notices no cancel.
    pub const fn never_blocks(mut self) -> Self {
        self.settings.never_blocks = true;
        self
    }
}

impl Route {
    /// Returns the part that this request shares with others of the route. Most requests are like the first, and share
    /// with that one.
    pub(crate) fn route_info(&self, method: &str, dialect: &'static Dialect) -> Arc<RouteInfo> {
        let settings = &self.settings;
        let new = || {
            Arc::new(RouteInfo {
                method: method.into(),
                dialect,
                spares_processes: settings.spares_processes,
                #[cfg(feature = "mcp")]
                may_ask: settings.may_ask,
            })
        };
        let first = self.route_info.get_or_init(new);
        let is_alike = *first.method == *method && std::ptr::eq(first.dialect, dialect);
        if is_alike { Arc::clone(first) } else { new() }
    }

    /// Calls `guard` before each handler.
    #[cfg(any(feature = "mcp", feature = "lsp"))]
    pub(crate) fn guarded(self, guard: &Guard) -> Self {
        let (handler, guard) = (self.handler, Arc::clone(guard));
        let handler: StartHandler = Arc::new(move |scope| {
            guard(scope)?;
            handler(scope)
        });
        Self { handler, ..self }
    }

    /// Calls `take` before each handler, and answers with the future that it returns, if it returns one.
    #[cfg(feature = "mcp")]
    pub(crate) fn intercepted<F, Fut, T>(self, take: F) -> Self
    where
        F: Fn(&OnRequest) -> Result<Option<Fut>, ErrorObject> + Send + Sync + 'static,
        Fut: Future<Output = Result<T, ErrorObject>> + Send + 'static,
        T: Serialize + 'static,
    {
        let handler = self.handler;
        let handler: StartHandler = Arc::new(move |scope| match take(scope)? {
            Some(answer) => Ok(HandlerFuture::boxed(answer, outcome)),
            None => handler(scope),
        });
        Self { handler, ..self }
    }

    /// Wraps the future of each request.
    #[cfg(any(feature = "acp", feature = "lsp", feature = "mcp"))]
    pub(crate) fn wrapped(
        self,
        wrap: impl Fn(&OnRequest, BoxedHandler) -> BoxedHandler + Send + Sync + 'static,
    ) -> Self {
        let handler = self.handler;
        let handler: StartHandler = Arc::new(move |scope| Ok(wrap(scope, handler(scope)?)));
        Self { handler, ..self }
    }
}

impl<T> Clone for Route<T> {
    fn clone(&self) -> Self {
        let Self { handler, settings, route_info, result: _ } = self;
        let (handler, route_info) = (Arc::clone(handler), route_info.clone());
        Self { handler, settings: *settings, route_info, result: PhantomData }
    }
}

debug_fields!(Route<T>, settings);

/// A handler or a route.
#[diagnostic::on_unimplemented(
    message = "this is neither a handler of requests nor a route",
    label = "not a handler",
    note = "1. it is async: `async fn`, or a closure `|…| async move {{ … }}`",
    note = "2. its parameters are `Params<T>`, `Context`, `CancellationToken`, `Peer`, `Method` or `RawParams`: at most eight",
    note = "3. it returns `Result<T, E>`: `T` is `serde::Serialize`; `E` is `ErrorObject`, `CallError` or `AnyError`",
    note = "4. its future is `Send`: no `Rc`, `RefCell` borrow or `MutexGuard` is held across an `.await`"
)]
pub trait IntoRoute<Args> {
    /// The value of its results.
    type Output;

    #[doc(hidden)]
    fn into_route(self) -> Route;
}

impl<Args, H: RequestHandler<Args>> IntoRoute<Args> for H {
    type Output = H::Output;

    fn into_route(self) -> Route {
        route(self).into_route()
    }
}

#[diagnostic::do_not_recommend]
impl<T> IntoRoute<Self> for Route<T> {
    type Output = T;

    fn into_route(self) -> Route {
        let Self { handler, settings, route_info, result: _ } = self;
        Route { handler, settings, route_info, result: PhantomData }
    }
}

/// A value that can be the result of one method: `M` is what its handlers take. It says nothing of its own; a handler with
/// another result does not compile.
///
/// [`Value`] is a result of every method: for members that the type of this crate does not have. A type of your own can be
/// one, too.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the result that this method has",
    label = "a handler with another result",
    note = "the documentation of the function names the type of its results; JSON of your own is `serde_json::Value`"
)]
pub trait ResultOf<M> {}

impl<M> ResultOf<M> for Value {}

pub(crate) type Routes = HashMap<Box<str>, Route, foldhash::fast::RandomState>;

/// The routes of one method, chosen by a member of the params: the tools of `tools/call`.
pub(crate) struct Branches {
    pub(crate) member: &'static str,
    pub(crate) routes: Routes,
}

impl Branches {
    fn route(&self, payload: &Payload) -> Option<&Route> {
        let name = json::text(json::member(payload.params()?, self.member)?)?;
        self.routes.get(&*name)
    }
}

/// A function that is called before a request's handler; its error is the answer.
#[cfg(any(feature = "mcp", feature = "lsp"))]
pub(crate) type Guard = Arc<dyn Fn(&OnRequest) -> Result<(), ErrorObject> + Send + Sync>;

/// Everything that a connection calls.
#[derive(Default)]
pub(crate) struct Service {
    pub(crate) requests: Routes,
    /// By method; a request that fits none of its branches is one of `requests`.
    pub(crate) branches: HashMap<Box<str>, Branches, foldhash::fast::RandomState>,
    pub(crate) fallback: Option<Route>,
    pub(crate) notices: HashMap<Box<str>, OnNotice, foldhash::fast::RandomState>,
    pub(crate) other_notices: Option<OnNotice>,
    pub(crate) on_cancelled: Vec<OnCancelled>,
    pub(crate) incoming: Vec<Filter>,
    pub(crate) outgoing: Vec<Filter>,
}

impl Service {
    pub(crate) fn routes(&self) -> impl Iterator<Item = &Route> {
        let branches = self.branches.values().flat_map(|branches| branches.routes.values());
        self.requests.values().chain(branches).chain(&self.fallback)
    }

    pub(crate) fn route(&self, payload: &Payload) -> Option<&Route> {
        let method = payload.method();
        let branch = self.branches.get(method).and_then(|branches| branches.route(payload));
        branch.or_else(|| self.requests.get(method)).or(self.fallback.as_ref())
    }

    /// Calls `guard` before the handler of every request, also of unknown methods.
    #[cfg(any(feature = "mcp", feature = "lsp"))]
    pub(crate) fn guard(&mut self, guard: &Guard) {
        let guarded = |routes: Routes| routes.into_iter().map(|(name, route)| (name, route.guarded(guard))).collect();
        self.requests = guarded(std::mem::take(&mut self.requests));
        for branches in self.branches.values_mut() {
            branches.routes = guarded(std::mem::take(&mut branches.routes));
        }
        let unknown =
            |super::Method(method): super::Method| async move { Err::<(), _>(ErrorObject::method_not_found(&method)) };
        let fallback = self.fallback.take().unwrap_or_else(|| route(unknown).into_route());
        self.fallback = Some(fallback.guarded(guard));
    }

    /// Drops notifications whose method does not pass `hears`.
    #[cfg(feature = "lsp")]
    pub(crate) fn hears(&mut self, hears: impl Fn(&str) -> bool + Send + Sync + 'static) {
        use super::extract::Scope;
        let hears = Arc::new(hears);
        let heard = |handler: OnNotice| -> OnNotice {
            let hears = Arc::clone(&hears);
            Box::new(move |scope| if hears(scope.method()) { handler(scope) } else { Ok(()) })
        };
        let notices = std::mem::take(&mut self.notices);
        self.notices = notices.into_iter().map(|(method, handler)| (method, heard(handler))).collect();
        self.other_notices = self.other_notices.take().map(heard);
    }

    pub(crate) fn notice(&self, method: &str) -> Option<&OnNotice> {
        self.notices.get(method).or(self.other_notices.as_ref())
    }
}

/// What the compiler refuses, each for one of the reasons that [`RequestHandler`] gives, and the last what it takes.
///
/// ```compile_fail,E0277
/// # use rescind::peer::{ErrorObject, Params, Peer};
/// Peer::builder(None).on_request("not/async", |Params(n): Params<u32>| Ok::<_, ErrorObject>(n));
/// ```
///
/// ```compile_fail,E0277
/// # use rescind::peer::{ErrorObject, Peer};
/// Peer::builder(None).on_request("not/extractor", |n: u32| async move { Ok::<_, ErrorObject>(n) });
/// ```
///
/// ```compile_fail,E0277
/// # use rescind::peer::{ErrorObject, Params, Peer};
/// struct NotJson;
/// Peer::builder(None).on_request("not/json", || async { Ok::<_, ErrorObject>(NotJson) });
/// ```
///
/// ```compile_fail
/// # use rescind::peer::{Context, ErrorObject, Peer};
/// Peer::builder(None).on_request("not/send", |cx: Context| async move {
///     let held = std::rc::Rc::new(1);
///     cx.cancelled().await;
///     Ok::<_, ErrorObject>(*held)
/// });
/// ```
///
/// ```compile_fail,E0277
/// # use rescind::peer::{Context, Peer};
/// Peer::builder(None).on_notification("no/context", |cx: Context| drop(cx));
/// ```
///
/// ```
/// # use rescind::peer::{Context, ErrorObject, Params, Peer};
/// let builder = Peer::builder(None)
///     .on_request("right", |Params(n): Params<u32>, cx: Context| async move {
///         cx.cancelled().await;
///         Ok::<_, ErrorObject>(n)
///     })
///     .on_notification("right", |Params(n): Params<u32>, peer: Peer| drop((n, peer)));
/// ```
#[cfg(doctest)]
mod mistakes {}
