//! One of the peer's requests while it is handled: the state that its handler, its children and the driver share.
//!
//! What a waiting request costs is memory, so what waits is small, and assertions keep it so: what few handlers have is in
//! boxes that are made when needed, and what all requests of a route share is in its `RouteInfo`.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{IncomingKey, IncomingRequest, OutgoingKey, Payload},
    dialect::Dialect,
    id::IncomingId,
    link::Attachment,
};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::PeerShared;
use crate::{
    peer::{
        sync::Signal,
        trace::{RequestSpan, TraceContext},
    },
    process::owned_process::Leader,
};

/// A request that is being handled. There may be a million of them, so every byte counts.
pub(crate) struct RunningRequest {
    pub(crate) shared: Arc<PeerShared>,
    pub(crate) key: IncomingKey,
    pub(crate) id: IncomingId,
    pub(crate) route_info: Arc<RouteInfo>,
    terms: Option<Box<Terms>>,
    /// With everything that the handler owns besides its future, which is all gone before the handler has ended (D12, case
    /// 72). Few handlers start anything. Once the signal is over nothing more is linked.
    pub(crate) signal: Signal<Cause, Hook, Option<Box<Links>>>,
    pub(crate) span: RequestSpan,
}

// Elsewhere a lock is larger. With its two counts it fits beside tokio's task, whose alignment leaves room for 104 bytes.
#[cfg(all(target_os = "linux", target_pointer_width = "64", not(feature = "tracing")))]
const _: () = assert!(size_of::<RunningRequest>() <= 88);

/// The part that the requests of one route share.
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

/// Members that only some requests have.
struct Terms {
    /// The requester's progress token, as JSON.
    progress_token: Option<Box<[u8]>>,
    trace: Option<TraceContext>,
    /// What its transport says of it.
    attachment: Option<Attachment>,
}

/// An action for when the token fires.
#[derive(Debug)]
pub(crate) enum Hook {
    /// A token that was handed out.
    Token(CancellationToken),
    /// A waker of a task other than the handler's.
    Waiting(Waker),
    /// A call on another connection, made while handling this request.
    Child(Arc<PeerShared>, OutgoingKey),
    /// A process that is asked to end, with its group.
    Group(Leader),
}

#[derive(Debug, Default)]
pub(crate) struct Links {
    list: Vec<Option<Spawned>>,
    /// Places of `list` that are empty.
    free: Vec<usize>,
    live: usize,
    waiting: Option<Waker>,
    /// State of another module that belongs to the request.
    #[cfg(feature = "mcp")]
    attached: Option<Arc<dyn std::any::Any + Send + Sync>>,
    /// The request in which the requester waits now, once this one was answered.
    #[cfg(feature = "mcp")]
    successor: Option<Arc<RunningRequest>>,
}

/// A task, thread or process that the handler started.
#[derive(Debug)]
pub(crate) enum Spawned {
    /// A task; aborted when the handler ends.
    Task(AbortHandle),
    /// A thread: it can only be waited for.
    Thread,
    /// A process; its group is killed when the handler ends.
    Group(Leader),
}

impl Spawned {
    fn end(&self) {
        match self {
            Self::Task(task) => task.abort(),
            Self::Thread => {}
            Self::Group(leader) => leader.kill(),
        }
    }
}

impl RunningRequest {
    /// Makes the request, and its payload for the extractors: the params of a waiting request are not kept.
    pub(crate) fn new(
        shared: Arc<PeerShared>,
        request: IncomingRequest,
        route_info: Arc<RouteInfo>,
    ) -> (Self, Payload) {
        let span = RequestSpan::new(&shared.link, &request);
        let progress_token = request.progress_token().map(Into::into);
        let trace = TraceContext::of_request(&request);
        let IncomingRequest { key, id, payload, attachment, .. } = request;
        let has_terms = progress_token.is_some() || trace.is_some() || attachment.is_some();
        let terms = has_terms.then(|| Box::new(Terms { progress_token, trace, attachment }));
        let work = Self { shared, key, id, route_info, terms, signal: Signal::new(), span };
        (work, payload)
    }

    /// The trace that it belongs to, and its calls with it.
    pub(crate) fn trace(&self) -> Option<&TraceContext> {
        self.terms.as_ref()?.trace.as_ref()
    }

    /// What its transport says of it.
    pub(crate) fn attachment(&self) -> Option<&Attachment> {
        self.terms.as_ref()?.attachment.as_ref()
    }

    /// The state that another module keeps with the request, if there is any.
    #[cfg(feature = "mcp")]
    pub(crate) fn attached<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let attached = self.signal.see(|links| links.as_ref()?.attached.clone());
        Arc::downcast(attached.flatten()?).ok()
    }

    /// The state that another module keeps with the request, made if there is none.
    #[cfg(feature = "mcp")]
    pub(crate) fn attach<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.signal.change(|links| {
            let attached = &mut links.get_or_insert_default().attached;
            let found = attached.clone().and_then(|attached| attached.downcast().ok());
            found.unwrap_or_else(|| {
                let made = Arc::<T>::default();
                *attached = Some(Arc::<T>::clone(&made));
                made
            })
        })
    }

    /// Sets the request in which the requester waits from now on; `None` for none.
    #[cfg(feature = "mcp")]
    pub(crate) fn succeed(&self, successor: Option<Arc<Self>>) {
        let before =
            self.signal.change(|links| std::mem::replace(&mut links.get_or_insert_default().successor, successor));
        drop(before);
    }

    /// The request in which the requester waits now, if it is not this one.
    #[cfg(feature = "mcp")]
    pub(crate) fn successor(&self) -> Option<Arc<Self>> {
        self.signal.see(|links| links.as_ref()?.successor.clone()).flatten()
    }

    #[cfg(not(feature = "mcp"))]
    pub(crate) const fn successor(&self) -> Option<Arc<Self>> {
        None
    }

    /// Stops the handler, since no request waits for it any more. Returns whether its token fires or has fired: not if it
    /// is shielded or has ended.
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

    /// Stops the handler, since the requester says that it makes no further request for it, and reports that as a cancel.
    #[cfg(feature = "mcp")]
    pub(crate) fn abandon(&self) {
        let now = self.shared.now();
        self.shared.lock().conn.abandon(now, self.key);
        self.shared.driver_notify.notify();
    }

    /// Wakes the handler's task.
    pub(crate) fn wake(&self) {
        self.signal.wake_task();
    }

    /// The time left to it, by its requester and its route.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let now = self.shared.now();
        self.shared.lock().conn.remaining(now, self.key)
    }

    /// Under which the requester wants progress, as JSON.
    pub(crate) fn progress_token(&self) -> Option<&[u8]> {
        self.terms.as_ref()?.progress_token.as_deref()
    }

    /// Fires the token and stops everything that depends on this request (D22, D26).
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

    /// Ends the grace: the handler's future will be dropped (D22).
    pub(crate) fn force(&self) {
        self.signal.force();
    }

    /// Stops everything that depends on this request after its handler has ended by itself (D26).
    pub(crate) fn retire(&self) {
        // The handler's task no longer waits.
        let (_task, hooks) = self.signal.fire(None);
        run(hooks, &Cause::new(CauseCode::Parent));
    }

    /// The token of this request, made when first asked for.
    pub(crate) fn token(&self) -> CancellationToken {
        let token = |hook: &Hook| match hook {
            Hook::Token(token) => Some(token.clone()),
            Hook::Waiting(_) | Hook::Child(..) | Hook::Group(_) => None,
        };
        self.signal.find_or_add(token, || Hook::Token(CancellationToken::new())).unwrap_or_else(|| {
            let fired = CancellationToken::new();
            fired.cancel();
            fired
        })
    }

    /// Ready when the token has fired. `place` belongs to this waiter and is empty at first; pass it to
    /// [`forget_waiting`](Self::forget_waiting) at the end.
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

    /// Removes this waiter.
    pub(crate) fn forget_waiting(&self, place: &mut Option<u32>) {
        if let Some(place) = place.take() {
            self.signal.remove(place);
        }
    }

    /// The cause for which the token fired; `None` before.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.signal.cause()
    }

    /// The cause for a child that is made after the token has fired.
    pub(crate) fn cause_for_children(&self) -> Cause {
        Cause::parent(self.cause().map(|cause| cause.code))
    }

    /// Links a task, thread or process that the handler started; refused once the handler has ended.
    pub(crate) fn link(&self, link: Spawned) -> Result<usize, Spawned> {
        self.signal.change(|links| {
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
        })
    }

    /// Replaces a link; the new one is ended at once if the handler has ended meanwhile.
    pub(crate) fn relink(&self, place: usize, link: Spawned) {
        self.signal.see(|links| {
            if self.signal.is_over() {
                link.end();
            }
            if let Some(slot @ Some(_)) = links.as_mut().and_then(|links| links.list.get_mut(place)) {
                *slot = Some(link);
            }
        });
    }

    /// Removes a link whose task, thread or process has ended.
    pub(crate) fn unlink(&self, place: usize) {
        let waiting = self.signal.see(|links| {
            let links = links.as_mut()?;
            links.list.get_mut(place)?.take()?;
            links.live -= 1;
            links.free.push(place);
            if links.live == 0 { links.waiting.take() } else { None }
        });
        if let Some(waiting) = waiting.flatten() {
            waiting.wake();
        }
    }

    /// Ends everything that is linked, and refuses more. Returns whether anything is left.
    pub(crate) fn close_links(&self) -> bool {
        // First: a link from now on is refused, and one that was faster is seen below.
        self.signal.end();
        let has_links = self.signal.see(|links| {
            let Some(links) = links else { return false };
            // Neither aborting a task nor sending a signal runs foreign code here.
            links.list.iter().flatten().for_each(Spawned::end);
            links.live > 0
        });
        has_links == Some(true)
    }

    /// Ready when everything that was linked is gone.
    pub(crate) fn poll_links(&self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.signal.see(|links| match links {
            Some(links) if links.live > 0 => {
                links.waiting = Some(cx.waker().clone());
                Poll::Pending
            }
            Some(_) | None => Poll::Ready(()),
        });
        polled.unwrap_or(Poll::Ready(()))
    }
}

impl Hook {
    /// Runs it; children are cancelled for `cause`.
    pub(crate) fn run(self, cause: &Cause) {
        match self {
            Self::Token(token) => token.cancel(),
            Self::Waiting(waker) => waker.wake(),
            Self::Child(shared, key) => shared.cancel(key, cause.clone()),
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
