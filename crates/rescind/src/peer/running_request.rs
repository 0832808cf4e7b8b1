//! One of the peer's requests while it is being handled: what its handler, its children and the driver share.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{IncomingKey, IncomingRequest, OutgoingKey, Payload, TraceContext},
    dialect::Dialect,
    id::IncomingId,
};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::{shared::PeerShared, sync::Signal, trace::RequestSpan};

/// A request at work. It lives as long as the request waits, so each of its bytes is paid for a million times.
pub(crate) struct RunningRequest {
    pub(crate) shared: Arc<PeerShared>,
    pub(crate) key: IncomingKey,
    pub(crate) id: IncomingId,
    pub(crate) route_info: Arc<RouteInfo>,
    terms: Option<Box<Terms>>,
    pub(crate) signal: Signal<Cause, Hook>,
    pub(crate) span: RequestSpan,
    /// What the handler owns besides its future: all of it is gone before the handler has ended (D12, case 72).
    /// Absent until there is something: few handlers start anything. Once the signal is over nothing more is linked.
    links: Mutex<Option<Box<Links>>>,
}

#[cfg(all(target_pointer_width = "64", not(feature = "tracing")))]
const _: () = assert!(size_of::<RunningRequest>() <= 104);

/// What the requests of one route have in common.
#[derive(Debug)]
pub(crate) struct RouteInfo {
    pub(crate) method: Box<str>,
    pub(crate) dialect: &'static Dialect,
    /// Processes get SIGTERM only when the grace is over (D22).
    pub(crate) spares_processes: bool,
    /// Its answer may ask for input (D48).
    #[cfg(feature = "mcp")]
    pub(crate) may_ask: bool,
}

/// What only some requests come with.
struct Terms {
    /// Under which the requester wants progress, as JSON.
    progress_token: Option<Box<[u8]>>,
    trace: Option<TraceContext>,
}

/// What is to be done when the token fires.
#[derive(Debug)]
pub(crate) enum Hook {
    /// A token that was handed out.
    Token(CancellationToken),
    /// Somebody who waits for it, in another task than the handler's.
    Waiting(Waker),
    /// A call on another connection, made while handling this request.
    Child(Arc<PeerShared>, OutgoingKey),
    /// A process group to be told to end.
    #[cfg(unix)]
    Group(super::command::Leader),
}

#[derive(Debug, Default)]
struct Links {
    list: Vec<Option<Spawned>>,
    /// Places of `list` that are empty.
    free: Vec<usize>,
    live: usize,
    waiting: Option<Waker>,
    /// Something of another module that belongs to the request.
    #[cfg(feature = "mcp")]
    attached: Option<Arc<dyn std::any::Any + Send + Sync>>,
    /// The request in which its requester waits now, once this one was answered.
    #[cfg(feature = "mcp")]
    successor: Option<Arc<RunningRequest>>,
}

/// Something that the handler started.
#[derive(Debug)]
pub(crate) enum Spawned {
    /// A task; aborted when the handler ends.
    Task(AbortHandle),
    /// A thread: it can only be waited for.
    Thread,
    /// A process; its group is killed when the handler ends.
    #[cfg(unix)]
    Group(super::command::Leader),
}

impl Spawned {
    fn end(&self) {
        match self {
            Self::Task(task) => task.abort(),
            Self::Thread => {}
            #[cfg(unix)]
            Self::Group(leader) => leader.kill(),
        }
    }
}

impl RunningRequest {
    /// The request, and what only its extractors need: nobody pays for the params of what merely waits.
    pub(crate) fn new(
        shared: Arc<PeerShared>,
        request: IncomingRequest,
        route_info: Arc<RouteInfo>,
    ) -> (Self, Payload) {
        let span = RequestSpan::new(&shared.link, &request);
        let progress_token = request.progress_token().map(Into::into);
        let trace = request.trace_context();
        let has_terms = progress_token.is_some() || trace.is_some();
        let terms = has_terms.then(|| Box::new(Terms { progress_token, trace }));
        let IncomingRequest { key, id, payload, .. } = request;
        let work = Self { shared, key, id, route_info, terms, signal: Signal::new(), span, links: Mutex::default() };
        (work, payload)
    }

    /// The trace that it belongs to: what is asked while it is handled belongs to that, too.
    pub(crate) fn trace(&self) -> Option<&TraceContext> {
        self.terms.as_ref()?.trace.as_ref()
    }

    /// What another module keeps with the request, if it does.
    #[cfg(feature = "mcp")]
    pub(crate) fn attached<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        Arc::downcast(self.links().as_ref()?.attached.clone()?).ok()
    }

    /// The same, made if it is not there.
    #[cfg(feature = "mcp")]
    pub(crate) fn attach<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut links = self.links();
        let attached = &mut links.get_or_insert_default().attached;
        let found = attached.clone().and_then(|attached| attached.downcast().ok());
        found.unwrap_or_else(|| {
            let made = Arc::<T>::default();
            *attached = Some(Arc::<T>::clone(&made));
            made
        })
    }

    /// The requester waits in this request from now on, or in none.
    #[cfg(feature = "mcp")]
    pub(crate) fn succeed(&self, successor: Option<Arc<Self>>) {
        let before = std::mem::replace(&mut self.links().get_or_insert_default().successor, successor);
        drop(before);
    }

    /// The request in which the requester waits now, if it is not this one.
    #[cfg(feature = "mcp")]
    pub(crate) fn successor(&self) -> Option<Arc<Self>> {
        self.links().as_ref()?.successor.clone()
    }

    #[cfg(not(feature = "mcp"))]
    pub(crate) const fn successor(&self) -> Option<Arc<Self>> {
        None
    }

    /// Stops the handler, since nobody waits for it any more. Whether its token fires, or has: not if it is shielded, or
    /// has ended.
    #[cfg(feature = "mcp")]
    pub(crate) fn stop(&self, cause: Cause) -> bool {
        let now = self.shared.now();
        let fires = {
            let conn = &mut self.shared.lock().conn;
            conn.stop(now, self.key, cause);
            conn.resume(self.key);
            conn.is_stopping(self.key)
        };
        self.shared.driver_notify.notify();
        fires
    }

    /// Has the handler polled again, by its own task.
    pub(crate) fn wake(&self) {
        self.signal.wake_task();
    }

    /// How much time its requester, or its route, still gives it.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let now = self.shared.now();
        self.shared.lock().conn.remaining(now, self.key)
    }

    /// Under which the requester wants progress, as JSON.
    pub(crate) fn progress_token(&self) -> Option<&[u8]> {
        self.terms.as_ref()?.progress_token.as_deref()
    }

    /// Fires the token and tells everything that hangs on this request (D22, D26).
    pub(crate) fn fire(&self, cause: Cause) {
        #[cfg(feature = "tracing")]
        self.span.cancelled(&cause);
        let root = cause.code;
        let (task, hooks) = self.signal.fire(Some(cause));
        run(hooks, &Cause::parent(root));
        if let Some(task) = task {
            task.wake();
        }
    }

    /// The grace is over: the handler's future is to be dropped (D22).
    pub(crate) fn force(&self) {
        self.signal.force();
    }

    /// The handler has ended without having been told to: what served it is needed no more (D26).
    pub(crate) fn retire(&self) {
        // Its task waits for nothing any more.
        let (_task, hooks) = self.signal.fire(None);
        run(hooks, &Cause::new(CauseCode::Parent));
    }

    /// The token of this request, made when first asked for.
    pub(crate) fn token(&self) -> CancellationToken {
        let token = |hook: &Hook| match hook {
            Hook::Token(token) => Some(token.clone()),
            Hook::Waiting(_) | Hook::Child(..) => None,
            #[cfg(unix)]
            Hook::Group(_) => None,
        };
        self.signal.find_or_add(token, || Hook::Token(CancellationToken::new())).unwrap_or_else(|| {
            let fired = CancellationToken::new();
            fired.cancel();
            fired
        })
    }

    /// Ready when the token has fired. `place` is this waiter's, empty at first: what is in it at the end goes to
    /// [`forget_waiting`](Self::forget_waiting).
    pub(crate) fn poll_fired(&self, cx: &Context<'_>, place: &mut Option<u32>) -> Poll<()> {
        self.forget_waiting(place);
        match self.signal.wait(cx.waker(), Hook::Waiting) {
            Some(waits_at) => {
                *place = waits_at;
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }

    /// This waiter waits no more.
    pub(crate) fn forget_waiting(&self, place: &mut Option<u32>) {
        if let Some(place) = place.take() {
            self.signal.remove(place);
        }
    }

    /// Why the token fired; `None` before.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.signal.cause()
    }

    /// What a child is told that comes too late.
    pub(crate) fn cause_for_children(&self) -> Cause {
        self.cause().map_or_else(|| Cause::new(CauseCode::Parent), |cause| Cause::parent(cause.code))
    }

    /// Notes something that the handler started; refused once it has ended.
    pub(crate) fn link(&self, link: Spawned) -> Result<usize, Spawned> {
        let mut links = self.links();
        if self.signal.is_over() {
            return Err(link);
        }
        let links = links.get_or_insert_default();
        links.live += 1;
        if let Some(place) = links.free.pop() {
            links.list[place] = Some(link);
            return Ok(place);
        }
        links.list.push(Some(link));
        Ok(links.list.len() - 1)
    }

    /// Says more of a link; ends it at once if the handler has ended meanwhile.
    pub(crate) fn relink(&self, place: usize, link: Spawned) {
        let mut links = self.links();
        if self.signal.is_over() {
            link.end();
        }
        if let Some(slot @ Some(_)) = links.as_mut().and_then(|links| links.list.get_mut(place)) {
            *slot = Some(link);
        }
    }

    /// It has ended by itself.
    pub(crate) fn unlink(&self, place: usize) {
        let waiting = {
            let mut links = self.links();
            let Some(links) = &mut *links else { return };
            if links.list.get_mut(place).and_then(Option::take).is_none() {
                return;
            }
            links.live -= 1;
            links.free.push(place);
            if links.live == 0 { links.waiting.take() } else { None }
        };
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    /// Whether something that the handler started is still there.
    pub(crate) fn has_links(&self) -> bool {
        self.links().as_ref().is_some_and(|links| links.live > 0)
    }

    /// Ends everything that is linked, and refuses more.
    pub(crate) fn close_links(&self) {
        // First: whoever links something from now on is refused, and whoever was faster is seen below.
        self.signal.end();
        // Neither aborting a task nor a signal runs anybody's code here and now.
        for link in self.links().iter().flat_map(|links| links.list.iter().flatten()) {
            link.end();
        }
    }

    /// Ready when everything that was linked is gone.
    pub(crate) fn poll_links(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut *self.links() {
            Some(links) if links.live > 0 => {
                links.waiting = Some(cx.waker().clone());
                Poll::Pending
            }
            Some(_) | None => Poll::Ready(()),
        }
    }

    fn links(&self) -> MutexGuard<'_, Option<Box<Links>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hook {
    /// `cause` is what children are told.
    pub(crate) fn run(self, cause: &Cause) {
        match self {
            Self::Token(token) => token.cancel(),
            Self::Waiting(waker) => waker.wake(),
            Self::Child(shared, key) => shared.cancel(key, cause.clone()),
            #[cfg(unix)]
            Self::Group(leader) => leader.terminate(),
        }
    }
}

fn run(hooks: impl Iterator<Item = Hook>, cause: &Cause) {
    for hook in hooks {
        hook.run(cause);
    }
}

impl fmt::Debug for RunningRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningRequest")
            .field("id", &self.id)
            .field("method", &self.route_info.method)
            .field("is_fired", &self.signal.is_fired())
            .finish_non_exhaustive()
    }
}
