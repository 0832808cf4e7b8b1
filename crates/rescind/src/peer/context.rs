//! What a handler knows of its request, and what it can do in its name.

use std::{
    fmt,
    future::{Future, poll_fn},
    mem,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use rescind_proto::{
    cause::Cause,
    dialect::{Dialect, Report},
    id::{IncomingId, RequestId},
};
use serde::Serialize;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{
    ErrorObject, Peer, current, linked, peer::to_params, running_request::RunningRequest, shared::has_threads,
};

/// The request being handled: its cause to stop, its time, and what is done in its name.
///
/// Clones are the same request. Holding one after the handler has ended keeps nothing alive but its memory.
#[derive(Clone)]
pub struct Context {
    work: Arc<RunningRequest>,
}

impl Context {
    pub(crate) const fn new(work: Arc<RunningRequest>) -> Self {
        Self { work }
    }

    /// The request that is being handled where this is called: in its handler, or in what is linked to it (D26).
    /// `None` outside.
    #[must_use]
    pub fn current() -> Option<Self> {
        current::current().map(Self::new)
    }

    /// The request's id, as the peer sent it.
    #[must_use]
    pub fn id(&self) -> &RequestId {
        let IncomingId(id) = &self.work.id;
        id
    }

    /// The request's method.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.work.route_info.method
    }

    /// What the requester speaks, for this request (D2).
    #[must_use]
    pub fn dialect(&self) -> &'static Dialect {
        self.work.route_info.dialect
    }

    /// The connection on which the request came.
    #[must_use]
    pub fn peer(&self) -> Peer {
        Peer::of(&self.work.shared)
    }

    /// Fires when the request is to stop, for whatever cause; it may have fired already (D21).
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.work.token()
    }

    /// Whether the request is to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.work.signal.is_fired()
    }

    /// Waits until the request is to stop.
    pub fn cancelled(&self) -> CancelledFuture<'_> {
        CancelledFuture { work: &self.work, place: None }
    }

    /// Awaits `work` unless the request is to stop first: `cx.unless_cancelled(work).await?` in a handler ends it as
    /// cancelled then.
    ///
    /// When the request is to stop, `work` is dropped where it is. Work that never waits for anything is followed by
    /// a turn of the connection, as at a [`checkpoint`](Self::checkpoint).
    ///
    /// # Errors
    ///
    /// [`ErrorObject::cancelled`].
    pub async fn unless_cancelled<F: Future>(&self, work: F) -> Result<F::Output, ErrorObject> {
        let mut has_waited = false;
        let output = {
            let token = self.token();
            let mut work = pin!(token.run_until_cancelled(work));
            poll_fn(|cx| {
                let polled = work.as_mut().poll(cx);
                has_waited |= polled.is_pending();
                polled
            })
            .await
        };
        if !has_waited && output.is_some() {
            give_way().await;
        }
        output.ok_or_else(ErrorObject::cancelled)
    }

    /// Gives the connection a turn, and ends the handler with `?` if the request is to stop by then: for handlers
    /// that compute, between two pieces of work.
    ///
    /// # Errors
    ///
    /// [`ErrorObject::cancelled`].
    pub async fn checkpoint(&self) -> Result<(), ErrorObject> {
        give_way().await;
        if self.is_cancelled() { Err(ErrorObject::cancelled()) } else { Ok(()) }
    }

    /// Who asked for the stop, and why; words in it are the peer's and untrusted. `None` while nobody did.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        self.work.cause()
    }

    /// How much time the requester, or the route, still gives (D17); `None` if neither set a limit.
    ///
    /// The requester's time stands still while its people are asked something on this connection (D49).
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        let ours = self.work.remaining();
        let waiting = self.work.successor().and_then(|waiting| waiting.remaining());
        ours.into_iter().chain(waiting).min()
    }

    /// Starts a task that belongs to the request: calls in it are the request's children (D26), and it is aborted
    /// when the handler has ended or its grace is over. Await the handle if its work matters.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        linked::spawn(&self.work, future)
    }

    /// Runs a closure on a thread of its own, in the name of the request: calls in it are its children (D26).
    ///
    /// A thread cannot be ended from outside: poll the token that the closure is given. Until the closure returns,
    /// the handler counts as running (D12).
    pub fn spawn_blocking<F, T>(&self, run: F) -> JoinHandle<T>
    where
        F: FnOnce(CancellationToken) -> T + Send + 'static,
        T: Send + 'static,
    {
        linked::spawn_blocking(&self.work, run)
    }

    /// Starts a child process that the request owns, as the leader of a process group of its own.
    ///
    /// The group gets SIGTERM when the token fires and SIGKILL when the grace is over or the handler has ended
    /// (D22). Standard streams are as `command` says.
    ///
    /// # Errors
    ///
    /// The process cannot be started, or the handler has ended.
    #[cfg(unix)]
    pub fn command(&self, command: tokio::process::Command) -> std::io::Result<super::command::OwnedChild> {
        super::command::OwnedChild::start(&self.work, command)
    }

    /// Whether the answer to the request leaves: `true` once all of it was written, `false` as soon as none ever will
    /// be, since the requester cancelled or the connection ended.
    ///
    /// For work that outlives its request and that nobody could name if the answer were lost (D38). To be asked for
    /// before the handler ends; the last who asks is told.
    pub fn delivered(&self) -> impl Future<Output = bool> + Send + 'static {
        let (tell, told) = tokio::sync::oneshot::channel();
        {
            let mut state = self.work.shared.lock();
            if !state.is_over && state.conn.watch_answer(self.work.key) {
                state.deliveries.insert(self.work.key, tell);
            }
        }
        async move { told.await.unwrap_or(false) }
    }

    /// Sends a notification that belongs to the request: an update, a log line.
    ///
    /// `false` if it is withheld: the request was answered, or cancelled where that demands silence (MCP-H04).
    /// It waits first while the peer leaves too much unread (D13), but no longer than until the request is to stop: it
    /// is withheld then. The connection has had a turn when it is ready: the notification has left if the peer takes
    /// it, and a cancel that had arrived has fired the token (D50).
    pub async fn notify(&self, method: &str, params: &(impl Serialize + ?Sized)) -> bool {
        let Ok(params) = to_params(params) else {
            give_way().await;
            return false;
        };
        self.write(&self.waiting(), method, &params).await
    }

    /// Reports progress, if the requester asked for it; `false` if it did not, the report is withheld (MCP-P03), or
    /// a number in it is not one that JSON has. It waits as [`notify`](Self::notify) does, and the connection has had a
    /// turn when it is ready, whether anything was reported or not (D50).
    ///
    /// Progress must increase (MCP-P02).
    pub async fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) -> bool {
        let (form, waiting) = (self.work.route_info.dialect.progress.as_ref(), self.waiting());
        let params = form
            .zip(waiting.progress_token())
            .and_then(|(form, token)| Some((form.method, form.params(token, &Report { done, total, message })?)));
        let Some((method, params)) = params else {
            give_way().await;
            return false;
        };
        self.write(&waiting, method, &params).await
    }

    /// The token under which the requester wants progress, as JSON.
    #[must_use]
    pub fn progress_token(&self) -> Option<&[u8]> {
        self.work.progress_token()
    }

    /// From now until the shield is dropped a cancel leaves this handler alone (D22, MCP-C07): for what must not be
    /// cut short. `None` if the token has fired already.
    #[must_use]
    pub fn shield(&self) -> Option<Shield> {
        let work = Arc::clone(&self.work);
        let calm = self.work.shared.lock().conn.shield(self.work.key);
        calm.then_some(Shield { work })
    }

    /// Writes a notification that belongs to the request in which the requester waits, once the peer has read enough.
    async fn write(&self, waiting: &RunningRequest, method: &str, params: &[u8]) -> bool {
        let shared = &self.work.shared;
        let has_room = {
            let (mut room, mut cancelled) = (pin!(shared.room()), self.cancelled());
            poll_fn(|cx| match room.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending => Pin::new(&mut cancelled).poll(cx).map(|()| false),
            })
            .await
        };
        let now = shared.now();
        let written = has_room && shared.lock().conn.notify_for(now, waiting.key, method, params);
        shared.driver_notify.notify();
        give_way().await;
        written
    }

    /// The request in which the requester waits: this one, or a later round of it (D48).
    fn waiting(&self) -> Arc<RunningRequest> {
        self.work.successor().unwrap_or_else(|| Arc::clone(&self.work))
    }

    /// The request beneath.
    #[cfg(feature = "mcp")]
    pub(crate) const fn work(&self) -> &Arc<RunningRequest> {
        &self.work
    }
}

/// Lets the connection have a turn before its handler goes on (D50).
///
/// The first wait ends when everything else that can run here has run, and the runtime has looked at its input. After
/// it the handler may be alone on its thread and compute, with no thread left that looks at input again: the second
/// calls another one, if the runtime has more.
pub(crate) async fn give_way() {
    tokio::task::yield_now().await;
    if has_threads() {
        let mut is_rescheduled = false;
        poll_fn(|cx| {
            if mem::replace(&mut is_rescheduled, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.work).finish()
    }
}

/// Ready when a request is to stop; made by [`Context::cancelled`].
#[derive(Debug)]
#[must_use = "nothing waits until it is awaited"]
pub struct CancelledFuture<'a> {
    work: &'a RunningRequest,
    /// Where its waker is, if it is not the handler's own.
    place: Option<u32>,
}

impl Future for CancelledFuture<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let this = &mut *self;
        this.work.poll_fired(cx, &mut this.place)
    }
}

impl Drop for CancelledFuture<'_> {
    fn drop(&mut self) {
        self.work.forget_waiting(&mut self.place);
    }
}

/// Keeps cancels away from a handler; dropping it ends that. A cancel that came meanwhile stays refused.
#[must_use]
#[derive(Debug)]
pub struct Shield {
    work: Arc<RunningRequest>,
}

impl Drop for Shield {
    fn drop(&mut self) {
        self.work.shared.lock().conn.unshield(self.work.key);
    }
}
