//! Handlers between two rounds of their call, each under the `requestState` that its client was given.
//!
//! A client need not come back. So how many wait is bounded, and each waits no longer than its time; what a state names
//! is one handler of one route on one connection, once. The state is 128 bits that cannot be guessed: whatever a client
//! makes up names nothing.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::sync::oneshot;

use crate::peer::{handler::HandlerOutput, running_request::RunningRequest};

/// The suspended handlers of one connection.
#[derive(Debug)]
pub(super) struct Suspended {
    limits: SuspendLimits,
    seeds: [RandomState; 2],
    table: Mutex<SuspendedTable>,
}

/// The limits on handlers that wait for their client: how many, and how long each.
#[derive(Clone, Copy, Debug)]
pub(super) struct SuspendLimits {
    pub(super) most: usize,
    pub(super) time: Duration,
}

impl Default for SuspendLimits {
    fn default() -> Self {
        Self { most: 64, time: Duration::from_secs(600) }
    }
}

#[derive(Debug, Default)]
struct SuspendedTable {
    waiting: HashMap<Box<str>, SuspendedHandler>,
    /// How many states were issued.
    given: u64,
}

#[derive(Debug)]
struct SuspendedHandler {
    route: Arc<str>,
    retry: oneshot::Sender<Retry>,
}

/// A client's new request that brings the input.
#[derive(Debug)]
pub(super) struct Retry {
    /// Its `inputResponses`.
    pub(super) responses: Value,
    /// Its new request.
    pub(super) work: Arc<RunningRequest>,
    /// Takes the outcome of this round.
    pub(super) outcome: oneshot::Sender<HandlerOutput>,
    /// Passes the handler's first request to the new one, which can stop it from now on.
    pub(super) suspended: oneshot::Sender<Arc<RunningRequest>>,
}

/// A place in the table, freed when dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    table: Arc<Suspended>,
    pub(super) state: Box<str>,
    pub(super) retry: oneshot::Receiver<Retry>,
}

impl Suspended {
    pub(super) fn new(limits: SuspendLimits) -> Arc<Self> {
        Arc::new(Self { limits, seeds: [RandomState::new(), RandomState::new()], table: Mutex::default() })
    }

    pub(super) const fn time(&self) -> Duration {
        self.limits.time
    }

    /// Reserves a place for a handler of this route; `None` if all are taken.
    pub(super) fn enter(self: &Arc<Self>, route: &Arc<str>) -> Option<Reservation> {
        let mut table = self.lock();
        if table.waiting.len() >= self.limits.most {
            return None;
        }
        table.given += 1;
        let [high, low] = [0, 1].map(|seed| self.seeds[seed].hash_one(table.given));
        let state: Box<str> = format!("{high:016x}{low:016x}").into();
        let (sender, retry) = oneshot::channel();
        table.waiting.insert(state.clone(), SuspendedHandler { route: Arc::clone(route), retry: sender });
        Some(Reservation { table: Arc::clone(self), state, retry })
    }

    /// Removes the handler of this route that waits under `state`, once.
    pub(super) fn remove(&self, state: &str, route: &str) -> Option<oneshot::Sender<Retry>> {
        let mut table = self.lock();
        if &*table.waiting.get(state)?.route != route {
            return None;
        }
        table.waiting.remove(state).map(|entry| entry.retry)
    }

    /// Ends the wait of a handler whose client will not call again.
    pub(super) fn abandon(&self, state: &str) {
        let abandoned = self.lock().waiting.remove(state);
        drop(abandoned);
    }

    fn lock(&self) -> MutexGuard<'_, SuspendedTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.table.abandon(&self.state);
    }
}
