//! A request that an endpoint makes, and one that it serves, as the reference model sees them.

use core::hash::{Hash, Hasher};

use rescind_proto::{
    connection::{IncomingKey, OutgoingKey},
    time::Instant,
};

use super::scene::Method;

/// How one of our requests has to end for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// With the peer's answer.
    Answer,
    /// With the peer's error.
    Error,
    /// Cancelled by us.
    Cancelled,
    /// By a clock.
    TimedOut,
    /// With the connection.
    Closed,
    /// By a filter, which kept it or its answer back.
    Vetoed,
}

/// One of our requests.
#[derive(Clone, Debug)]
pub struct Call {
    /// Which of all requests of this endpoint it is.
    pub generation: usize,
    /// The machine's name for it.
    pub key: OutgoingKey,
    /// What is asked.
    pub method: Method,
    /// The id under which it left, once it has.
    pub id: Option<String>,
    /// No byte of it was out when it was given up: it must never be seen.
    pub withdrawn: bool,
    /// It was given up: cancelled, or out of time.
    pub given_up: bool,
    /// The peer must hear a cancel, unless it answers first.
    pub cancel_due: bool,
    /// Its answer was there before the cancel: the cancel must never be seen (D15).
    pub disarmed: bool,
    /// How many cancels for it have left.
    pub cancels: u8,
    /// The peer has answered it.
    pub answered: bool,
    /// How it must end, once that is decided.
    pub due: Option<Ending>,
    /// Since when its caller has been told.
    pub settled: Option<Instant>,
    /// When its clock runs out.
    pub deadline: Option<Instant>,
    /// Until when its caller waits for the answer although it cancelled.
    pub patience: Option<Instant>,
}

impl Call {
    /// A request just made.
    pub const fn new(generation: usize, key: OutgoingKey, method: Method, deadline: Option<Instant>) -> Self {
        Self {
            generation,
            key,
            method,
            id: None,
            withdrawn: false,
            given_up: false,
            cancel_due: false,
            disarmed: false,
            cancels: 0,
            answered: false,
            due: None,
            settled: None,
            deadline,
            patience: None,
        }
    }

    /// Whether its caller waits.
    pub const fn waits(&self) -> bool {
        self.settled.is_none() && self.due.is_none()
    }

    /// Feeds everything but names into a hasher.
    pub fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        let Self {
            generation,
            key: _,
            method,
            id,
            withdrawn,
            given_up,
            cancel_due,
            disarmed,
            cancels,
            answered,
            due,
            settled,
            deadline,
            patience,
        } = self;
        (generation, method, id, withdrawn, given_up, cancel_due, disarmed, cancels, answered, due).hash(state);
        (settled.map(|at| now.since(at)), deadline.map(|at| at.since(now)), patience.map(|at| at.since(now)))
            .hash(state);
    }
}

/// One of the peer's requests.
#[derive(Clone, Debug, Default, Hash)]
pub struct Work {
    /// Which of all requests of the peer it is.
    pub generation: usize,
    /// Its id, as JSON.
    pub id: String,
    /// What is asked.
    pub method: String,
    /// The machine's name for it, once its handler has started.
    pub key: Option<IncomingKey>,
    /// The peer cancelled it, and was allowed to, while it was unanswered.
    pub cancelled: bool,
    /// Something else stopped it: an operator, the end of the connection.
    pub stopped: bool,
    /// Its token has fired.
    pub fired: bool,
    /// Its handler must be dropped from this moment on.
    pub drop_at: Option<Instant>,
    /// The machine asked for that.
    pub dropped: bool,
    /// Its handler has ended, or will never start.
    pub ended: bool,
    /// Its answer is queued, or out.
    pub replied: bool,
    /// The answer is the machine's own: its handler said nothing.
    pub reply_is_ours: bool,
    /// Its requester wants nothing more (MCP-C06).
    pub silenced: bool,
    /// The whole answer is out.
    pub answered: bool,
    /// Since when nothing is left to do or say for it.
    pub over_at: Option<Instant>,
    /// Notifications said for it.
    pub notes: u8,
}

impl Work {
    /// A request just received.
    pub fn new(generation: usize, id: &str, method: &str) -> Self {
        Self { generation, id: id.to_owned(), method: method.to_owned(), ..Self::default() }
    }

    /// Whether its id is in use: something may still be said for it.
    pub const fn is_live(&self) -> bool {
        !self.silenced && !self.answered
    }

    /// Whether its handler runs.
    pub const fn runs(&self) -> bool {
        self.key.is_some() && !self.ended
    }

    /// Whether its handler has still to start.
    pub const fn is_queued(&self) -> bool {
        self.key.is_none() && !self.ended
    }

    /// Feeds everything but names into a hasher, times relative to `now`.
    pub fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        let drop_at = self.drop_at.map(|at| Instant::ORIGIN + at.since(now));
        let over_at = self.over_at.map(|at| Instant::ORIGIN + now.since(at));
        let unnamed = Self { key: None, drop_at, over_at, ..self.clone() };
        (unnamed, self.key.is_some()).hash(state);
    }
}
