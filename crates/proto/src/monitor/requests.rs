//! The requests of one side: those in flight, and those still remembered (D7, D8).

use core::time::Duration;

use super::{ObservedEnd, observed::Observed};
use crate::{
    hash::Seed,
    id::RequestId,
    slab::Key,
    table::{Bounds, Entry, Ring, Table},
    time::Instant,
    turns::Turns,
};

/// How many more are remembered while they may still be answered.
const PATIENCE: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct Requests {
    pub(super) table: Table<Observed>,
    pub(super) turns: Turns,
    /// One that may still be answered has been forgotten: a loose match is a guess from now on (D10).
    forgot_abandoned: bool,
    over: Bounds,
    abandoned: Bounds,
}

impl Entry for Observed {
    type Id = RequestId;

    #[inline]
    fn id(&self) -> &RequestId {
        &self.id
    }

    #[inline]
    fn tokens(&self) -> impl Iterator<Item = &RequestId> {
        self.token.iter().chain(&self.partial)
    }
}

impl Requests {
    pub(super) const fn new(seed: Seed, most: usize, (least, longest): (Duration, Duration)) -> Self {
        Self {
            table: Table::new(seed),
            turns: Turns::new(seed),
            forgot_abandoned: false,
            over: Bounds { most, hard: usize::MAX, least: Duration::ZERO, longest },
            abandoned: Bounds { most, hard: most.saturating_mul(PATIENCE), least, longest },
        }
    }

    /// Keys of the requests in flight, oldest first.
    pub(super) fn live_by_age(&self) -> Vec<Key> {
        self.table.keys_by(|request| request.is_live().then_some(request.since))
    }

    pub(super) fn insert(&mut self, request: Observed) -> Key {
        let Self { table, turns, .. } = self;
        let key = table.insert(table.hash(&request.id), request);
        if let Some(session) = table.get(key).and_then(Observed::worked_in) {
            turns.insert(session, key);
        }
        key
    }

    /// The newest request with this id.
    pub(super) fn by_id(&self, id: &RequestId) -> Option<Key> {
        self.table.find(self.table.hash(id), |request| !request.replaced && request.id == *id)
    }

    /// An earlier request with this id that may still be answered.
    pub(super) fn abandoned(&self, id: &RequestId) -> Option<Key> {
        let is = |request: &Observed| request.replaced && request.may_be_answered() && request.id == *id;
        self.table.find(self.table.hash(id), is)
    }

    /// The request in flight that a response with this id answers though it is spelt otherwise, if that is certain
    /// (D10).
    pub(super) fn by_loose_id(&self, value: i64) -> Option<Key> {
        if self.forgot_abandoned {
            return None;
        }
        let open = |id| self.by_id(&id).filter(|key| self.table.get(*key).is_some_and(Observed::is_live));
        open(RequestId::integer(value)).xor(open(RequestId::string(&value.to_string())))
    }

    /// The newest turn of this session in flight.
    pub(super) fn open_turn(&self, session: &[u8]) -> Option<Key> {
        self.turns.of(session).rev().find(|key| self.is_turn(*key))
    }

    fn is_turn(&self, key: Key) -> bool {
        self.table.get(key).is_some_and(|request| request.is_turn)
    }

    /// The request during which another is made that names this session, where that is certain.
    pub(super) fn parent(&self, session: Option<&[u8]>) -> Option<Key> {
        let has_session = |key| self.table.get(key).is_some_and(|request| request.is_turn && request.session.is_some());
        self.turns.parent(session, |key| self.is_turn(key), self.table.only_live(), has_session)
    }

    /// Gives the id of a settled request to a later one.
    pub(super) fn replace(&mut self, key: Key) {
        let Some(request) = self.table.get_mut(key) else { return };
        request.replaced = true;
        if !request.may_be_answered() {
            self.table.unlist(key);
        }
    }

    /// Settles a request; `false` if it was settled already.
    pub(super) fn settle(&mut self, key: Key, now: Instant, how: ObservedEnd) -> bool {
        let Self { table, turns, .. } = self;
        let Some(request) = table.get_mut(key).filter(|request| request.is_live()) else { return false };
        request.over = Some((now, how));
        if let Some(session) = request.worked_in() {
            turns.remove(session, key);
        }
        let ring = if request.may_be_answered() { Ring::Abandoned } else { Ring::Over };
        table.retire(key, now, ring);
        true
    }

    /// Forgets what has been remembered long enough (D8).
    pub(super) fn prune(&mut self, now: Instant) {
        let Self { table, forgot_abandoned, over, abandoned, .. } = self;
        table.prune(Ring::Over, now, over, |_, _| ());
        table.prune(Ring::Abandoned, now, abandoned, |_, request| *forgot_abandoned |= request.answer.is_none());
    }

    /// Entries of every collection.
    pub(super) fn residue(&self) -> usize {
        self.table.residue() + self.turns.len()
    }

    /// Panics where the indexes and the requests do not agree.
    pub(super) fn check(&self) {
        self.table.check(Observed::is_live);
        for (key, request) in self.table.iter() {
            let id = &request.id;
            assert!(request.replaced || self.by_id(id) == Some(key), "invariant 5: {id} finds another request");
            for token in request.tokens() {
                assert!(
                    self.table.by_token(token, Observed::is_live).is_some(),
                    "invariant 6: a token of {id} finds nothing"
                );
            }
            let Some(session) = request.worked_in() else { continue };
            let known = self.turns.of(session).any(|turn| turn == key);
            assert_eq!(known, request.is_live(), "invariant 6: a turn or load is known while it is in flight");
        }
    }
}
