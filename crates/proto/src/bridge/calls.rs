//! Requests that the server has, by the id that it knows: of clients, and of our own.

use core::time::Duration;

use super::{LISTEN, level::Level};
use crate::{
    frame::Request,
    hash::Seed,
    id::RequestId,
    table::{Bounds, Entry, Ring, Table},
    time::Instant,
};

/// Requests that the server has and has not answered, or was told to cancel.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    table: Table<Call>,
    /// The id of the next one.
    next: i64,
    /// How many in flight want log messages of each level.
    wanted: [usize; Level::ALL.len()],
}

/// Which era a request is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Style {
    /// It begins with `initialize`.
    InSession,
    /// Every request says what it is of.
    Enveloped,
}

/// What we ask the server ourselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Asked {
    Discover,
    Initialize,
    /// To hear of changes, for a client with a session.
    Listen,
    /// Something whose answer says nothing.
    Nothing,
}

/// A request that the server has.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The id that the server knows.
    pub(super) own: i64,
    /// The one that the client knows, if it is a client's.
    pub(super) client_id: Option<RequestId>,
    pub(super) style: Style,
    /// What it is, if it is ours.
    pub(super) asked: Option<Asked>,
    /// Its result may be kept by whoever gets it (2026-07-28).
    pub(super) is_cacheable: bool,
    /// It is `subscriptions/listen`.
    pub(super) listens: bool,
    /// The least level of log messages that it wants.
    pub(super) level: Option<Level>,
    is_cancelled: bool,
}

impl Entry for Call {
    type Id = i64;

    fn id(&self) -> &i64 {
        &self.own
    }

    fn tokens(&self) -> impl Iterator<Item = &RequestId> {
        self.client_id.iter()
    }
}

/// Our ids count down from here, as a relay's do (D32): few clients count so far.
const FIRST: i64 = (1 << 31) - 1;

/// Of calls that were cancelled, and may still be answered, these are remembered (D8).
const BOUNDS: Bounds =
    Bounds { most: 4096, hard: 16 * 4096, least: Duration::from_secs(5), longest: Duration::from_secs(600) };

/// Methods whose results can be kept (2026-07-28).
const CACHEABLE: [&str; 5] =
    ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"];

impl Calls {
    pub(super) const fn new(seed: Seed) -> Self {
        Self { table: Table::new(seed), next: FIRST, wanted: [0; Level::ALL.len()] }
    }

    /// Notes a client's request, and returns the id under which the server is to know it.
    pub(super) fn open(&mut self, request: &Request<'_>, style: Style, level: Option<Level>) -> i64 {
        self.insert(Call {
            own: 0,
            client_id: Some(request.id.clone()),
            style,
            asked: None,
            is_cacheable: CACHEABLE.contains(&&*request.method),
            listens: request.method == LISTEN,
            level,
            is_cancelled: false,
        })
    }

    /// Notes a request of our own.
    pub(super) fn ask(&mut self, asked: Asked) -> i64 {
        self.insert(Call {
            own: 0,
            client_id: None,
            style: Style::Enveloped,
            listens: asked == Asked::Listen,
            asked: Some(asked),
            is_cacheable: false,
            level: None,
            is_cancelled: false,
        })
    }

    fn insert(&mut self, call: Call) -> i64 {
        let own = self.next;
        self.next -= 1;
        if let Some(level) = call.level {
            self.wanted[level as usize] += 1;
        }
        self.table.insert(self.table.hash(&own), Call { own, ..call });
        own
    }

    /// The request that the server has answered, which is over by that.
    pub(super) fn answered(&mut self, own: i64) -> Option<Call> {
        let key = self.table.by_id(&own)?;
        let ring = self.table.get(key)?.is_cancelled.then_some(Ring::Abandoned);
        let call = self.table.remove(key, ring)?;
        if let (None, Some(level)) = (ring, call.level) {
            self.wanted[level as usize] -= 1;
        }
        Some(call)
    }

    /// Forgets our own request of this kind.
    pub(super) fn remove_asked(&mut self, asked: Asked) {
        let found = self.table.iter().find(|(_, call)| call.asked == Some(asked) && !call.is_cancelled);
        if let Some((key, _)) = found {
            self.table.remove(key, None);
        }
    }

    /// Notes that a client cancelled its request, and returns the id that the server knows; `None` if there is none, or it
    /// was cancelled before.
    pub(super) fn cancel(&mut self, now: Instant, client_id: &RequestId) -> Option<i64> {
        let key = self.table.by_token(client_id, |call| !call.is_cancelled)?;
        let call = self.table.get_mut(key).filter(|call| !call.is_cancelled)?;
        call.is_cancelled = true;
        let (own, level) = (call.own, call.level);
        if let Some(level) = level {
            self.wanted[level as usize] -= 1;
        }
        self.table.retire(key, now, Ring::Abandoned);
        Some(own)
    }

    /// Whether this is a `subscriptions/listen`.
    pub(super) fn listens(&self, own: i64) -> bool {
        self.table.by_id(&own).and_then(|key| self.table.get(key)).is_some_and(|call| call.listens)
    }

    /// The id under which a client knows its request.
    pub(super) fn client_id(&self, own: i64) -> Option<&RequestId> {
        self.table.get(self.table.by_id(&own)?)?.client_id.as_ref()
    }

    /// The least level of log messages that any request wants.
    pub(super) fn level(&self) -> Option<Level> {
        Level::ALL.into_iter().find(|level| self.wanted[*level as usize] > 0)
    }

    /// When a cancelled call may be forgotten.
    pub(super) fn due(&self) -> Option<Instant> {
        self.table.due(Ring::Abandoned, &BOUNDS)
    }

    /// Forgets cancelled calls that are too old, or too many.
    pub(super) fn prune(&mut self, now: Instant) {
        self.table.prune(Ring::Abandoned, now, &BOUNDS, |_, _| ());
    }

    /// Entries in flight, and those that were cancelled.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.table.live(), self.table.retired())
    }

    /// Entries of every collection.
    pub(super) fn residue(&self) -> usize {
        self.table.residue()
    }

    /// Bytes of memory that it holds.
    pub(super) fn held(&self) -> usize {
        let ids: usize =
            self.table.iter().filter_map(|(_, call)| call.client_id.as_ref()).map(RequestId::heap_bytes).sum();
        self.table.held() + ids
    }

    /// Panics if the table does not agree with itself.
    pub(super) fn check(&self) {
        self.table.check(|call| !call.is_cancelled);
    }

    /// Feeds what decides its future into a hasher.
    pub(super) fn hash_state(&self, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        for (_, call) in self.table.iter() {
            (
                self.next - call.own,
                &call.client_id,
                call.style,
                call.asked,
                call.is_cacheable,
                call.level,
                call.is_cancelled,
            )
                .hash(state);
        }
    }
}
