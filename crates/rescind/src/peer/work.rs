//! One of the peer's requests while it is being handled: what its handler, its children and the driver share.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{IncomingKey, OutgoingKey, Payload},
    dialect::Dialect,
    id::IncomingId,
    time::Instant,
};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::{
    shared::Shared,
    sync::{Signal, Stage},
    trace::RequestSpan,
};

/// A request at work.
pub(crate) struct Work {
    pub(crate) shared: Arc<Shared>,
    pub(crate) key: IncomingKey,
    pub(crate) id: IncomingId,
    pub(crate) payload: Payload,
    pub(crate) dialect: &'static Dialect,
    /// On the clock of the connection.
    pub(crate) deadline: Option<Instant>,
    /// Processes get SIGTERM only when the grace is over (D22).
    pub(crate) spares_processes: bool,
    pub(crate) signal: Signal<Cause, Hook>,
    pub(crate) span: RequestSpan,
    links: Mutex<Links>,
}

/// What is to be done when the token fires.
#[derive(Debug)]
pub(crate) enum Hook {
    /// A token that was handed out.
    Token(CancellationToken),
    /// A call on another connection, made while handling this request.
    Child(Arc<Shared>, OutgoingKey),
    /// A process group to be told to end.
    #[cfg(unix)]
    Group(super::command::Leader),
}

/// What the handler owns besides its future: all of it is gone before the handler has ended (D12, case 72).
#[derive(Debug, Default)]
struct Links {
    token: Option<CancellationToken>,
    list: Vec<Option<Link>>,
    /// Places of `list` that are empty.
    free: Vec<usize>,
    live: usize,
    /// Nothing more may be linked.
    closed: bool,
    waiting: Option<Waker>,
}

/// Something that the handler started.
#[derive(Debug)]
pub(crate) enum Link {
    /// A task; aborted when the handler ends.
    Task(AbortHandle),
    /// A thread: it can only be waited for.
    Thread,
    /// A process; its group is killed when the handler ends.
    #[cfg(unix)]
    Group(super::command::Leader),
}

impl Link {
    fn end(&self) {
        match self {
            Self::Task(task) => task.abort(),
            Self::Thread => {}
            #[cfg(unix)]
            Self::Group(leader) => leader.kill(),
        }
    }
}

impl Work {
    pub(crate) fn new(
        shared: Arc<Shared>,
        request: rescind_proto::connection::Request,
        spares_processes: bool,
        limit: Option<Instant>,
    ) -> Self {
        let span = RequestSpan::new(&shared.link, &request);
        let rescind_proto::connection::Request { key, id, payload, dialect, deadline } = request;
        let deadline = deadline.into_iter().chain(limit).min();
        Self {
            shared,
            key,
            id,
            payload,
            dialect,
            deadline,
            spares_processes,
            signal: Signal::new(),
            span,
            links: Mutex::default(),
        }
    }

    /// Fires the token and tells everything that hangs on this request (D22, D26).
    pub(crate) fn fire(&self, cause: Cause) {
        #[cfg(feature = "tracing")]
        self.span.cancelled(&cause);
        let root = cause.code;
        run(self.signal.fire(Some(cause)), Cause::parent(root));
    }

    /// The grace is over: the handler's future is to be dropped (D22).
    pub(crate) fn force(&self) {
        self.signal.force();
    }

    /// The handler has ended without having been told to: what served it is needed no more (D26).
    pub(crate) fn retire(&self) {
        run(self.signal.fire(None), Cause::new(CauseCode::Parent));
    }

    /// The token of this request, made when first asked for.
    pub(crate) fn token(&self) -> CancellationToken {
        let mut links = self.links();
        if let Some(token) = &links.token {
            return token.clone();
        }
        let token = CancellationToken::new();
        links.token = Some(token.clone());
        drop(links);
        if let Err(hook) = self.signal.add(Hook::Token(token.clone())) {
            hook.run(&Cause::new(CauseCode::Parent));
        }
        token
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
    pub(crate) fn link(&self, link: Link) -> Result<usize, Link> {
        let mut links = self.links();
        if links.closed {
            return Err(link);
        }
        links.live += 1;
        if let Some(place) = links.free.pop() {
            links.list[place] = Some(link);
            return Ok(place);
        }
        links.list.push(Some(link));
        Ok(links.list.len() - 1)
    }

    /// Says more of a link; ends it at once if the handler has ended meanwhile.
    pub(crate) fn relink(&self, place: usize, link: Link) {
        let mut links = self.links();
        if links.closed {
            link.end();
        }
        if let Some(slot @ Some(_)) = links.list.get_mut(place) {
            *slot = Some(link);
        }
    }

    /// It has ended by itself.
    pub(crate) fn unlink(&self, place: usize) {
        let waiting = {
            let mut links = self.links();
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
        self.links().live > 0
    }

    /// Ends everything that is linked, and refuses more.
    pub(crate) fn close_links(&self) {
        let mut links = self.links();
        links.closed = true;
        // Neither aborting a task nor a signal runs anybody's code here and now.
        for link in links.list.iter().flatten() {
            link.end();
        }
    }

    /// Ready when everything that was linked is gone.
    pub(crate) fn poll_links(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut links = self.links();
        if links.live == 0 {
            return Poll::Ready(());
        }
        links.waiting = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Whether the handler was told to stop, and how.
    pub(crate) fn stage(&self) -> Stage {
        match (self.signal.is_forced(), self.signal.is_fired()) {
            (true, _) => Stage::Forced,
            (false, true) => Stage::Fired,
            (false, false) => Stage::Calm,
        }
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hook {
    /// `cause` is what children are told.
    pub(crate) fn run(self, cause: &Cause) {
        match self {
            Self::Token(token) => token.cancel(),
            Self::Child(shared, key) => shared.cancel(key, cause.clone()),
            #[cfg(unix)]
            Self::Group(leader) => leader.terminate(),
        }
    }
}

fn run(hooks: Vec<Option<Hook>>, cause: Cause) {
    for hook in hooks.into_iter().flatten() {
        hook.run(&cause);
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("id", &self.id)
            .field("method", &self.payload.method())
            .field("stage", &self.stage())
            .finish_non_exhaustive()
    }
}
