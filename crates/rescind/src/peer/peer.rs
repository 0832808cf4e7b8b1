//! The handle of a connection.

use std::{borrow::Cow, future::Future, sync::Arc};

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{Counters, IncomingKey, IncomingState, Misuse, OutgoingState},
    dialect::Dialect,
    id::{IncomingId, OutgoingId, RequestId},
    time::Instant,
};
use serde::Serialize;

use super::{
    Builder, CallMisuse, call::Call, context::give_way, current, error::CallError, json_text::to_params,
    shared::PeerShared,
};

/// The handle of one connection, for both directions: requests to the other side, and its requests to this one.
///
/// Clones are the same connection. A connection that was [connected](Builder::connect) shuts down in order when its last
/// handle is dropped; calls in flight count as handles, also detached ones. One that is [served](Builder::serve) goes on
/// to the end of its input.
#[derive(Debug)]
pub struct Peer {
    shared: Arc<PeerShared>,
}

impl Peer {
    /// Starts to describe a connection: its dialect, its handlers, its limits.
    ///
    /// With `None` the dialect is detected from the messages that pass (D2).
    pub fn builder(dialect: impl Into<Option<&'static Dialect>>) -> Builder {
        Builder::new(dialect.into())
    }

    /// Makes a request, as a future of its result; see [`Call`].
    ///
    /// `params` are written as JSON now; `&()` means no params. Inside a handler the call is the request's child (D26).
    pub fn request<R>(&self, method: impl Into<Cow<'static, str>>, params: &(impl Serialize + ?Sized)) -> Call<R> {
        Call::new(self.clone(), method.into(), to_params(params), current::current())
    }

    /// Sends a notification. `&()` means no params.
    ///
    /// It waits first while the peer leaves too much unread (D13): more than [`ConnectionConfig::max_backlog`](super::ConnectionConfig::max_backlog)
    /// bytes that wait to be written, 16 MiB by default. If there is room it is queued at its first poll. A notification
    /// that belongs to a request is better sent by [`Context::notify`](super::Context::notify), which withholds it where
    /// the protocol wants silence.
    ///
    /// # Errors
    ///
    /// The connection has ended, or the params cannot be written as JSON.
    ///
    /// # Cancel safety
    ///
    /// Dropped while it waits for room, nothing was sent. Inside a handler it also gives the connection a turn once the
    /// notification is queued: dropped then, it has been sent.
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

    /// Sends a notification at once, or fails where [`notify`](Self::notify) would wait.
    ///
    /// # Errors
    ///
    /// The peer leaves too much unread ([`CallError::Overloaded`]), the connection has ended, or the params cannot be
    /// written as JSON.
    pub fn try_notify(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Result<(), CallError> {
        if !self.shared.has_room() {
            return Err(CallError::Overloaded);
        }
        self.notify_now(method, params)
    }

    /// Sends a notification however much is unread: one that a session has only once.
    pub(crate) fn notify_now(&self, method: &str, params: &(impl Serialize + ?Sized)) -> Result<(), CallError> {
        self.queue(method, &to_params(params).map_err(unwritable)?)
    }

    fn queue(&self, method: &str, params: &[u8]) -> Result<(), CallError> {
        let now = self.shared.now();
        self.shared.lock().conn.notify(now, method, params)?;
        self.shared.notify_driver();
        Ok(())
    }

    /// Stops one of the peer's requests, named by its key in [`in_flight`](Self::in_flight): its token fires, and it is
    /// answered in every dialect when its handler has ended (D24). Returns `false` if the request is over or shielded.
    pub fn stop(&self, key: IncomingKey, cause: Cause) -> bool {
        let now = self.shared.now();
        let stopped = self.shared.lock().conn.stop(now, key, cause);
        self.shared.notify_driver();
        stopped
    }

    /// Cancels the turn of the ACP session `session`, as if the client had asked for it. For methods that end a session
    /// (ACP-10).
    pub fn stop_turn(&self, session: &str) {
        let now = self.shared.now();
        let mut json = Vec::new();
        rescind_proto::json::write_string(&mut json, session);
        self.shared.lock().conn.stop_turn(now, &json);
        self.shared.notify_driver();
    }

    /// Waits until no handler runs that is work of this session, or the connection has ended.
    #[cfg(feature = "acp")]
    pub(crate) async fn session_idle(&self, session: &str) {
        let mut json = Vec::new();
        rescind_proto::json::write_string(&mut json, session);
        self.shared.session_idle(&json).await;
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

    /// Ends the connection in order: no new request is taken in, requests of this side are cancelled, tokens fire, and
    /// handlers get the short grace. [`closed`](Self::closed) waits for the end.
    pub fn shutdown(&self) {
        self.shared.shutdown();
    }

    /// Waits until the connection has ended and everything is settled.
    pub async fn closed(&self) {
        self.shared.closed().await;
    }

    /// Lists everything that is in flight at this moment, both ways.
    #[must_use]
    pub fn in_flight(&self) -> InFlight {
        let now = self.shared.now();
        let state = self.shared.lock();
        let left = |deadline: Option<Instant>| deadline.map(|deadline| deadline.since(now));
        let ours = state.conn.outgoing().filter(|call| !call.is_over).map(|call| OurRequest {
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

    /// Counts of messages that were sent, received, late, unknown or malformed, and of the rules that the peer broke, by
    /// number. They can still be read after the end of the connection.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.lock().conn.counters().clone()
    }

    /// How many requests that are over are still remembered: the number falls to zero with time (D8).
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.shared.lock().conn.remembered()
    }

    /// The dialect of this connection. Unless it was given, it is a guess until a message shows it (D2).
    #[must_use]
    pub fn dialect(&self) -> &'static Dialect {
        self.shared.lock().conn.dialect()
    }

    /// Whether the other side declared this member of its `tasks` capability in the handshake of MCP 2025-11-25, such as
    /// `requests/tools/call` or `cancel`. A member that was not declared must not be used (TASK-11).
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

impl From<Misuse> for super::ErrorObject {
    fn from(misuse: Misuse) -> Self {
        CallError::from(misuse).into()
    }
}

/// The requests in flight on a connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InFlight {
    /// Requests of this side whose caller waits, and cancelled ones until nothing more can be learnt: until the cancel is
    /// written (MCP), or confirmed (ACP, LSP).
    pub ours: Vec<OurRequest>,
    /// Requests of the peer, until their handler has ended and their answer is written.
    pub theirs: Vec<TheirRequest>,
}

/// A request of this side that is in flight.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OurRequest {
    /// Its id.
    pub id: RequestId,
    /// Its method.
    pub method: Box<str>,
    /// The time since it was made.
    pub age: std::time::Duration,
    /// The time until its first clock runs out.
    pub remaining: Option<std::time::Duration>,
    /// The request on this connection that it serves (D26).
    pub parent: Option<IncomingKey>,
    /// Its state.
    pub state: OutgoingState,
    /// The cause of its cancel.
    pub cause: Option<CauseCode>,
}

/// A request of the peer that is in flight.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TheirRequest {
    /// Its key, for [`Peer::stop`].
    pub key: IncomingKey,
    /// Its id.
    pub id: RequestId,
    /// Its method.
    pub method: Box<str>,
    /// The time since it arrived.
    pub age: std::time::Duration,
    /// The time that is left to it.
    pub remaining: Option<std::time::Duration>,
    /// Its state.
    pub state: IncomingState,
    /// The cause of its first stop.
    pub cause: Option<CauseCode>,
}

fn unwritable(error: serde_json::Error) -> CallError {
    CallError::Misuse(CallMisuse::Params(error))
}
