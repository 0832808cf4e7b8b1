//! The request that a handler works on, and what the handler can do in its name.

use std::{
    any::Any,
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
    ErrorObject, Peer, current,
    json_text::to_params,
    linked,
    shared::{has_threads, running_request::RunningRequest},
};

/// The request being handled: whether and why it must stop, its time, and the work done in its name.
///
/// Clones are the same request. A clone that outlives the handler keeps nothing alive but its own memory.
#[derive(Clone, Debug)]
pub struct Context {
    work: Arc<RunningRequest>,
}

impl Context {
    pub(crate) const fn new(work: Arc<RunningRequest>) -> Self {
        Self { work }
    }

    /// Returns the request that is being handled where this is called: in its handler, or in a task or thread linked to
    /// it (D26). `None` elsewhere.
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

    /// The dialect of this request (D2).
    #[must_use]
    pub fn dialect(&self) -> &'static Dialect {
        self.work.route_info.dialect
    }

    /// The connection on which the request came.
    #[must_use]
    pub fn peer(&self) -> Peer {
        Peer::of(&self.work.shared)
    }

    /// The token of the request. It fires when the request must stop, for any cause, and may have fired already (D21).
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.work.token()
    }

    /// Whether the request must stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.work.signal.is_fired()
    }

    /// Waits until the request must stop.
    pub fn cancelled(&self) -> CancelledFuture<'_> {
        CancelledFuture { work: &self.work, place: None }
    }

    /// Awaits `work` unless the request must stop first: `cx.unless_cancelled(work).await?` ends a handler as cancelled
    /// then.
    ///
    /// When the request must stop, `work` is dropped where it is. If `work` never waits for anything, the connection gets
    /// a turn after it, as at a [`checkpoint`](Self::checkpoint).
    ///
    /// # Errors
    ///
    /// The request must stop: [`ErrorObject::cancelled`].
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

    /// Gives the connection a turn, and ends the handler with `?` if the request must stop by then. For handlers that
    /// compute, between two pieces of work.
    ///
    /// # Errors
    ///
    /// The request must stop: [`ErrorObject::cancelled`].
    pub async fn checkpoint(&self) -> Result<(), ErrorObject> {
        give_way().await;
        if self.is_cancelled() { Err(ErrorObject::cancelled()) } else { Ok(()) }
    }

    /// The cause of the stop: who asked for it, and why. Text in it is the peer's and untrusted. `None` before a stop.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        self.work.cause()
    }

    /// The time left to the request (D17), limited by its requester and its route; `None` if neither set a limit.
    ///
    /// The requester's clock stands still while a person on its side is asked a question on this connection (D49).
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        let ours = self.work.remaining();
        let waiting = self.work.successor().and_then(|waiting| waiting.remaining());
        ours.into_iter().chain(waiting).min()
    }

    /// Starts a task that belongs to the request: calls in it are the request's children (D26), and the task is aborted
    /// when the handler has ended or its grace is over. Await the handle if the work must be finished.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        linked::spawn(&self.work, future)
    }

    /// Runs a closure on a thread of its own, in the name of the request: calls in it are its children (D26).
    ///
    /// A thread cannot be ended from outside: the closure must check the token that it is given. Until the closure
    /// returns, the handler counts as running (D12).
    pub fn spawn_blocking<F, T>(&self, run: F) -> JoinHandle<T>
    where
        F: FnOnce(CancellationToken) -> T + Send + 'static,
        T: Send + 'static,
    {
        linked::spawn_blocking(&self.work, run)
    }

    /// Starts a child process that belongs to the request, as the leader of its own process group.
    ///
    /// The group gets SIGTERM when the token fires and SIGKILL when the grace is over or the handler has ended
    /// (D22). Standard streams are those of `command`.
    ///
    /// On Windows it gets a job and a console group of its own, whatever creation flags `command` has; CTRL+BREAK takes
    /// the place of SIGTERM, and the end of the job that of SIGKILL.
    ///
    /// # Errors
    ///
    /// The process cannot be started, or the handler has ended.
    pub fn command(&self, command: tokio::process::Command) -> std::io::Result<super::command::OwnedChild> {
        super::command::OwnedChild::start(&self.work, command)
    }

    /// Waits until the answer to the request was written: `true` then, and `false` as soon as it never will be, because
    /// the requester cancelled or the connection ended.
    ///
    /// For work that outlives its request and could not be named by anyone if the answer were lost (D38). Call it when the
    /// handler asks nothing any more and before it ends: it is about the round in which the requester waits now (D48).
    /// Only the latest call gets the answer.
    pub fn delivered(&self) -> impl Future<Output = bool> + Send + 'static {
        let (tell, told) = tokio::sync::oneshot::channel();
        {
            let waiting = self.waiting();
            let mut state = self.work.shared.lock();
            if !state.is_over && state.conn.watch_answer(waiting.key) {
                state.deliveries.insert(waiting.key, tell);
            }
        }
        async move { told.await.unwrap_or(false) }
    }

    /// Sends a notification that belongs to the request: an update, a log line.
    ///
    /// Returns `false` if the notification is withheld: the request was answered, or cancelled where the protocol then
    /// wants silence (MCP-H04). It waits first while the peer leaves too much unread (D13); if the request must stop
    /// meanwhile, the notification is withheld. Before it returns, the connection gets a turn: the notification is
    /// written if the peer reads, and a cancel that had arrived has fired the token (D50).
    pub async fn notify(&self, method: &str, params: &(impl Serialize + ?Sized)) -> bool {
        let Ok(params) = to_params(params) else {
            give_way().await;
            return false;
        };
        self.write(&self.waiting(), method, &params).await
    }

    /// Reports progress, if the requester asked for it. Returns `false` if it did not, if the report is withheld
    /// (MCP-P03), or if a number is not finite. It waits as [`notify`](Self::notify) does, and the connection gets a turn
    /// before it returns, whether anything was reported or not (D50).
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

    /// The progress token of the requester, as JSON; `None` if it asked for no progress.
    #[must_use]
    pub fn progress_token(&self) -> Option<&[u8]> {
        self.work.progress_token()
    }

    /// What the request's transport says of it, if that is a `T`: a value of the transport's own. Over HTTP it is the caller
    /// (`rescind_http::server::Caller`).
    #[must_use]
    pub fn attachment<T: Any>(&self) -> Option<&T> {
        self.work.attachment()?.value()
    }

    /// Shields the handler from cancels until the shield is dropped (D22, MCP-C07), for work that must not be cut short.
    /// `None` if the token has fired already.
    #[must_use]
    pub fn shield(&self) -> Option<Shield> {
        let work = Arc::clone(&self.work);
        let calm = self.work.shared.lock().conn.shield(self.work.key);
        calm.then_some(Shield { work })
    }

    /// Writes a notification that belongs to the request in which the requester waits, once there is room.
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

    /// The id of the message that the request has inserted into its session (ACP-50).
    #[cfg(feature = "acp")]
    pub(crate) fn message(&self) -> Option<String> {
        self.work.shared.lock().conn.message(self.work.key).map(Into::into)
    }

    /// The request beneath.
    #[cfg(any(feature = "acp", feature = "mcp"))]
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

/// A future that is ready when a request must stop; made by [`Context::cancelled`].
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

/// A guard that keeps cancels away from a handler until it is dropped. A cancel that came meanwhile stays refused.
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
