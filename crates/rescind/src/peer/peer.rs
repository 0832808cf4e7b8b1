//! The handle of a connection.

use std::{borrow::Cow, fmt, future::Future, sync::Arc};

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{Counters, IncomingKey, IncomingState, Misuse, OutgoingState},
    dialect::Dialect,
    id::{IncomingId, OutgoingId, RequestId},
    time::Instant,
};
use serde::Serialize;

use super::{Builder, CallMisuse, call::Call, context::give_way, current, error::CallError, shared::PeerShared};

/// One connection, both directions: requests to the other side, and its requests to us.
///
/// Clones are the same connection. When the last handle of a connection that was [connected](Builder::connect) is
/// dropped, calls in flight and detached ones included, it shuts down in order; one that is [served](Builder::serve) goes on to the
/// end of its input.
pub struct Peer {
    shared: Arc<PeerShared>,
}

impl Peer {
    /// Starts to describe a connection: its dialect, its handlers, its limits.
    ///
    /// `None` finds the dialect out from what passes (D2).
    pub fn builder(dialect: impl Into<Option<&'static Dialect>>) -> Builder {
        Builder::new(dialect.into())
    }

    /// A request, as a future of its result; see [`Call`].
    ///
    /// `params` are written as JSON now; `&()` is none. Inside a handler the call is the request's child (D26).
    pub fn request<R>(&self, method: impl Into<Cow<'static, str>>, params: &(impl Serialize + ?Sized)) -> Call<R> {
        Call::new(self.clone(), method.into(), to_params(params), current::current())
    }

    /// Sends a notification. `&()` is no params.
    ///
    /// It waits first while the peer leaves too much unread (D13): more than [`Config::max_backlog`](super::Config::max_backlog)
    /// bytes, 16 MiB by default, of all that waits to be written. Where nothing has to wait it is queued when it is
    /// first polled. One that belongs to a request is better sent by [`Context::notify`](super::Context::notify),
    /// which knows when to be silent.
    ///
    /// # Errors
    ///
    /// [`CallError::Closed`], or params that are not JSON.
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits for room, nothing was sent. Inside a handler it also gives way once it is queued: dropped
    /// then, it has been sent.
    pub fn notify(
        &self,
        method: &str,
        params: &(impl Serialize + ?Sized),
    ) -> impl Future<Output = Result<(), CallError>> + Send {
        let params = to_params(params);
        async move {
            let params = params.map_err(unwritable)?;
            self.shared.room().await;
            self.queue(method, &params)?;
            // Inside a handler it is one of the awaits at which the connection has a turn (D50).
            if current::current().is_some() {
                give_way().await;
            }
            Ok(())
        }
    }

    /// Sends a notification, unless the peer leaves too much unread: where [`notify`](Self::notify) would wait.
    ///
    /// # Errors
    ///
    /// [`CallError::Overloaded`], [`CallError::Closed`], or params that are not JSON.
    pub fn try_notify(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Result<(), CallError> {
        if !self.shared.has_room() {
            return Err(CallError::Overloaded);
        }
        self.notify_now(method, params)
    }

    /// Sends a notification however much is unread: one of those that a session has only one of.
    pub(crate) fn notify_now(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Result<(), CallError> {
        self.queue(method, &to_params(params).map_err(unwritable)?)
    }

    fn queue(&self, method: &str, params: &[u8]) -> Result<(), CallError> {
        let now = self.shared.now();
        self.shared.lock().conn.notify(now, method, params)?;
        self.shared.notify_driver();
        Ok(())
    }

    /// Stops one of the peer's requests, named by its key in [`in_flight`](Self::in_flight): its token fires, and it
    /// is answered in every dialect when its handler has ended (D24). `false` if it is over, or shielded.
    pub fn stop(&self, key: IncomingKey, cause: Cause) -> bool {
        let now = self.shared.now();
        let stopped = self.shared.lock().conn.stop(now, key, cause);
        self.shared.notify_driver();
        stopped
    }

    /// Cancels the turn of an ACP session, whose id is `session`, as if the client had asked for it: for methods
    /// that end a session (ACP-10).
    pub fn stop_turn(&self, session: &str) {
        let now = self.shared.now();
        let mut json = Vec::new();
        rescind_proto::json::write_string(&mut json, session);
        self.shared.lock().conn.stop_turn(now, &json);
        self.shared.notify_driver();
    }

    /// Runs `work` on the connection's driver, for a caller that does not wait for it, such as a `drop` that has to send
    /// a request and see its answer.
    ///
    /// It is polled once before this returns, on any thread and without a runtime, so that its first call is queued by
    /// then. The driver polls it whenever it is woken. At the end of the connection it is polled once more, when its
    /// calls have failed, and dropped. It should wait for calls only: what it does delays the connection. A [`Peer`] that
    /// it holds keeps the connection open.
    pub fn drive(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.shared.drive(work);
    }

    /// Ends the connection in order: nothing new is taken in, our requests are cancelled, handlers are told to stop
    /// and get the short grace. [`closed`](Self::closed) waits for it.
    pub fn shutdown(&self) {
        self.shared.shutdown();
    }

    /// Waits until the connection has ended and everything of it is settled.
    pub async fn closed(&self) {
        self.shared.closed().await;
    }

    /// Everything in flight, both ways, at this moment.
    #[must_use]
    pub fn in_flight(&self) -> InFlight {
        let now = self.shared.now();
        let state = self.shared.lock();
        let left = |deadline: Option<Instant>| deadline.map(|deadline| deadline.since(now));
        let ours = state.conn.outgoing().map(|call| OurRequest {
            id: {
                let OutgoingId(id) = call.id;
                id
            },
            method: call.method.into(),
            age: now.since(call.since),
            remaining: left(call.deadline),
            parent: call.parent,
            state: call.state,
            cause: call.cause,
        });
        let theirs = state.conn.incoming().map(|request| TheirRequest {
            key: request.key,
            id: {
                let IncomingId(id) = request.id;
                id.clone()
            },
            method: request.method.into(),
            age: now.since(request.since),
            remaining: left(request.deadline),
            state: request.state,
            cause: request.cause,
        });
        InFlight { ours: ours.collect(), theirs: theirs.collect() }
    }

    /// What was sent, received, late, unknown or malformed on this connection until now, and the rules that the peer
    /// broke, by number. They stay readable after its end.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.lock().conn.counters().clone()
    }

    /// What is kept of requests that are over: it shrinks to nothing with time (D8).
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.shared.lock().conn.remembered()
    }

    /// The dialect spoken on this connection; a guess until something telling has passed, unless it was given.
    #[must_use]
    pub fn dialect(&self) -> &'static Dialect {
        self.shared.lock().conn.dialect()
    }

    /// Whether the other side declared this member of its `tasks` capability, such as `requests/tools/call` or
    /// `cancel`, in the handshake of MCP 2025-11-25: what is not declared is not there (TASK-11).
    #[must_use]
    pub fn declares_task(&self, path: &str) -> bool {
        self.shared.lock().conn.peer_task_capability(path)
    }

    pub(crate) fn of(shared: &Arc<PeerShared>) -> Self {
        shared.add_handle();
        Self { shared: Arc::clone(shared) }
    }

    pub(crate) const fn shared(&self) -> &Arc<PeerShared> {
        &self.shared
    }
}

impl Clone for Peer {
    fn clone(&self) -> Self {
        Self::of(&self.shared)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.shared.drop_handle();
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Peer").field(&self.shared).finish()
    }
}

impl From<Misuse> for super::ErrorObject {
    fn from(misuse: Misuse) -> Self {
        CallError::from(misuse).into()
    }
}

/// What is in flight on a connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InFlight {
    /// Our requests; cancelled ones as long as their receipt is open.
    pub ours: Vec<OurRequest>,
    /// The peer's requests, until handler and answer are done.
    pub theirs: Vec<TheirRequest>,
}

/// One of our requests in flight.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OurRequest {
    /// Its id.
    pub id: RequestId,
    /// Its method.
    pub method: Box<str>,
    /// Since it was made.
    pub age: std::time::Duration,
    /// Until its first clock runs out.
    pub remaining: Option<std::time::Duration>,
    /// The request on this connection that it serves (D26).
    pub parent: Option<IncomingKey>,
    /// How far it is.
    pub state: OutgoingState,
    /// Why it is being cancelled.
    pub cause: Option<CauseCode>,
}

/// One of the peer's requests in flight.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TheirRequest {
    /// Names it for [`Peer::stop`].
    pub key: IncomingKey,
    /// Its id.
    pub id: RequestId,
    /// Its method.
    pub method: Box<str>,
    /// Since it arrived.
    pub age: std::time::Duration,
    /// Until its time is up.
    pub remaining: Option<std::time::Duration>,
    /// How far it is.
    pub state: IncomingState,
    /// Who asked it to stop first.
    pub cause: Option<CauseCode>,
}

fn unwritable(error: serde_json::Error) -> CallError {
    CallError::Misuse(CallMisuse::Params(error))
}

/// Params as the engine takes them: JSON, or nothing.
pub(crate) fn to_params(params: &(impl Serialize + ?Sized)) -> Result<Vec<u8>, serde_json::Error> {
    let mut json = serde_json::to_vec(params)?;
    if json == b"null" {
        json.clear();
    }
    Ok(json)
}
