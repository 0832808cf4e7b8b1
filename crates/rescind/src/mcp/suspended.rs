//! Handlers between two rounds of their call, each under the `requestState` that its client was given.
//!
//! A client need not come back. So how many wait is bounded, and each waits no longer than its time; what a state names
//! is one handler of one route on one connection, once. The state is 128 bits that cannot be guessed: whatever a client
//! makes up names nothing. Before them stands a name of this table, so that a client whose next round has reached another
//! process is told so.
//!
//! Where several clients share the connection, none has more than half of the places, and the one that has most gives up
//! its oldest handler for a new one ([`Shares`]). So dialogs that nobody answers keep nobody else from being asked.

use std::{
    cmp::Reverse,
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rescind_proto::holder::{Holder, Shares};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::peer::{handler::HandlerOutput, shared::running_request::RunningRequest};

/// The suspended handlers of one connection.
#[derive(Debug)]
pub(super) struct Suspended {
    limits: SuspendLimits,
    /// Begins each state that was issued here. It is drawn at random, and no secret.
    name: Box<str>,
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

#[derive(Debug)]
struct SuspendedTable {
    waiting: HashMap<Box<str>, SuspendedHandler>,
    /// How many states were issued.
    given: u64,
    /// Those handlers of several clients that share the connection: of two, the older one is the greater.
    shares: Shares<Reverse<u64>>,
}

#[derive(Debug)]
struct SuspendedHandler {
    route: Arc<str>,
    retry: oneshot::Sender<Retry>,
    number: u64,
    /// The client that it is counted for, where several share the connection.
    holder: Option<Holder>,
    is_displaced: Arc<AtomicBool>,
}

/// The reason why a state names no handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoSuspended {
    /// It has not the form of a state, or is for a call of something else.
    Unknown,
    /// It was issued by another table: of another process, of one before this, or of another connection.
    Elsewhere,
    /// It was issued here, and its handler waits no longer.
    Over,
}

impl NoSuspended {
    /// What its client is told (-32602).
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Unknown => "this requestState is unknown, or of another call: send the call again without it",
            Self::Elsewhere => {
                "the question was asked by another process, or on another connection: send the call again without requestState"
            }
            Self::Over => "this requestState is used up or expired: send the call again without it",
        }
    }
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
    is_displaced: Arc<AtomicBool>,
}

impl Reservation {
    /// Whether its place was given to a newer one.
    pub(super) fn is_displaced(&self) -> bool {
        self.is_displaced.load(Ordering::Relaxed)
    }
}

impl SuspendedTable {
    /// Removes what waits under `state`.
    fn take(&mut self, state: &str) -> Option<SuspendedHandler> {
        let taken = self.waiting.remove(state)?;
        if let Some(holder) = &taken.holder {
            self.shares.set(holder, Reverse(taken.number), 0);
        }
        Some(taken)
    }

    /// Counts the newest for its client. Returns those that give up their places for it; that may be itself.
    fn share(&mut self, holder: &Holder) -> Vec<SuspendedHandler> {
        self.shares.set(holder, Reverse(self.given), 1);
        let mut displaced = Vec::new();
        while let Some(Reverse(number)) = self.shares.excess() {
            let state = self.waiting.iter().find(|(_, entry)| entry.number == number).map(|(state, _)| state.clone());
            let Some(entry) = state.and_then(|state| self.take(&state)) else { break };
            entry.is_displaced.store(true, Ordering::Relaxed);
            displaced.push(entry);
        }
        displaced
    }
}

impl Suspended {
    pub(super) fn new(limits: SuspendLimits) -> Arc<Self> {
        let name = format!("{:016x}.", RandomState::new().hash_one(0)).into();
        let table = SuspendedTable { waiting: HashMap::new(), given: 0, shares: Shares::new(limits.most) };
        Arc::new(Self { limits, name, seeds: [RandomState::new(), RandomState::new()], table: Mutex::new(table) })
    }

    pub(super) const fn time(&self) -> Duration {
        self.limits.time
    }

    /// Reserves a place for a handler of this route. Where several clients share the connection, one of them that has most
    /// gives up the place of its oldest handler for it, if there is none; `None` if all are taken by the only client.
    pub(super) fn enter(self: &Arc<Self>, route: &Arc<str>, holder: Option<&Holder>) -> Option<Reservation> {
        let mut table = self.lock();
        if holder.is_none() && table.waiting.len() >= self.limits.most {
            return None;
        }
        table.given += 1;
        let [high, low] = [0, 1].map(|seed| self.seeds[seed].hash_one(table.given));
        let state: Box<str> = format!("{}{high:016x}{low:016x}", self.name).into();
        let (sender, retry) = oneshot::channel();
        let is_displaced = Arc::new(AtomicBool::new(false));
        let entry = SuspendedHandler {
            route: Arc::clone(route),
            retry: sender,
            number: table.given,
            holder: holder.cloned(),
            is_displaced: Arc::clone(&is_displaced),
        };
        table.waiting.insert(state.clone(), entry);
        let displaced = holder.map(|holder| table.share(holder));
        // Dropping them wakes their handlers.
        drop(table);
        drop(displaced);
        let reservation = Reservation { table: Arc::clone(self), state, retry, is_displaced };
        (!reservation.is_displaced()).then_some(reservation)
    }

    /// Removes the handler of this route that waits under `state`, once.
    ///
    /// # Errors
    ///
    /// None waits, for this reason.
    pub(super) fn remove(&self, state: &str, route: &str) -> Result<oneshot::Sender<Retry>, NoSuspended> {
        let mut table = self.lock();
        if table.waiting.get(state).is_some_and(|entry| &*entry.route != route) {
            return Err(NoSuspended::Unknown);
        }
        table.take(state).map(|entry| entry.retry).ok_or_else(|| self.judge(state))
    }

    /// The reason why no handler waits under this.
    fn judge(&self, state: &str) -> NoSuspended {
        let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        // A gateway may have put something before it.
        let named = state.rsplit_once('.').map(|(name, secret)| (name.rsplit('.').next().unwrap_or(name), secret));
        match named {
            Some((name, secret)) if name.len() == 16 && secret.len() == 32 && is_hex(name) && is_hex(secret) => {
                if state.starts_with(&*self.name) { NoSuspended::Over } else { NoSuspended::Elsewhere }
            }
            Some(_) | None => NoSuspended::Unknown,
        }
    }

    /// Ends the wait of a handler whose client will not call again.
    pub(super) fn abandon(&self, state: &str) {
        let abandoned = self.lock().take(state);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_names_no_handler_is_refused_with_the_reason() {
        let tables = [(); 2].map(|()| Suspended::new(SuspendLimits::default()));
        let route: Arc<str> = "tool".into();
        let [here, elsewhere] = tables.each_ref().map(|table| table.enter(&route, None).unwrap());
        let refused = |state: &str| tables[0].remove(state, "tool").unwrap_err();
        assert_eq!(refused(&elsewhere.state), NoSuspended::Elsewhere);
        assert_eq!(refused(&format!("of.a.gateway.{}", elsewhere.state)), NoSuspended::Elsewhere);
        let (name, secret) = here.state.split_once('.').unwrap();
        let (first, last) = here.state.split_at(here.state.len() - 1);
        for state in [
            "",
            ".",
            name,
            secret,
            first,
            &format!("{}x", here.state),
            &format!(" {}", here.state),
            &here.state.to_uppercase(),
            &format!("{name}{secret}"),
            &format!("{name}:{secret}"),
            &format!("{secret}.{name}"),
            &format!("{first}ä"),
            &format!("{first}\0"),
            &"x".repeat(1 << 20),
            &format!("{name}.{}", "0".repeat(1 << 20)),
            &here.state.repeat(2),
        ] {
            assert_eq!(refused(state), NoSuspended::Unknown, "{}", &state[..state.floor_char_boundary(80)]);
        }
        assert_eq!(tables[0].remove(&here.state, "another").unwrap_err(), NoSuspended::Unknown);
        let guessed = format!("{first}{}", if last == "0" { "1" } else { "0" });
        assert_eq!(refused(&guessed), NoSuspended::Over);
        // After all that it waits still, and once.
        assert!(tables[0].remove(&here.state, "tool").is_ok());
        assert_eq!(refused(&here.state), NoSuspended::Over);
    }
}
