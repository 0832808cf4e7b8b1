//! The table of the peer's requests, and how many stand where.

use core::{
    hash::Hasher,
    ops::{Deref, DerefMut},
};
use std::collections::{BTreeMap, VecDeque};

use super::{Incoming, Load, Suspension, Work, lines::Lines};
use crate::{
    connection::event::Payload,
    hash::Seed,
    holder::{Holder, may_take},
    slab::Key,
    table::Table,
    timer_queue::NEVER,
};

/// The table of the peer's requests; it is changed only where the counts follow.
#[derive(Clone, Debug)]
pub(in crate::connection) struct Requests {
    table: Table<Incoming>,
    /// Those that wait for a slot, oldest first, with some that are gone; but for those of [`Lines`].
    line: VecDeque<Key>,
    /// What several clients have taken that share the connection.
    lines: Lines,
    /// What they take all together.
    pub(in crate::connection) taken: Load,
    max_running: usize,
    max_queued: usize,
}

/// A request in its table, to be changed: the counts follow.
pub(in crate::connection) struct IncomingMut<'a> {
    pub(in crate::connection) key: Key,
    pub(in crate::connection) request: &'a mut Incoming,
    taken: &'a mut Load,
    lines: &'a mut Lines,
}

impl Deref for IncomingMut<'_> {
    type Target = Incoming;

    fn deref(&self) -> &Incoming {
        self.request
    }
}

impl DerefMut for IncomingMut<'_> {
    fn deref_mut(&mut self) -> &mut Incoming {
        self.request
    }
}

impl IncomingMut<'_> {
    /// Moves the handler to another state.
    pub(in crate::connection) fn set_work(&mut self, work: Work) {
        self.change(|request| request.work = work);
        if let Some(rare) = &mut self.request.rare
            && let Some(turn) = rare.turn.take()
            && let Some(holder) = &rare.holder
        {
            self.lines.leave(holder, turn);
        }
    }

    /// Removes what the handler is given: it starts, or never will.
    pub(in crate::connection) fn remove_payload(&mut self) -> Option<Payload> {
        self.change(|request| request.payload.take())
    }

    /// Changes which requests of ours serve this one.
    pub(in crate::connection) fn change_children<T>(&mut self, change: impl FnOnce(&mut BTreeMap<i64, Key>) -> T) {
        self.change(|request| _ = change(&mut request.rare().children));
    }

    /// Lets the handler wait for another request of the peer, which has a slot of its own.
    pub(in crate::connection) fn suspend(&mut self) {
        self.change(|request| request.suspension = Suspension::Waits);
    }

    /// Ends the wait for another request of the peer: the handler is at work again, or has ended.
    pub(in crate::connection) fn resume(&mut self) {
        if self.is_suspended() {
            self.change(|request| request.suspension = Suspension::Over);
        }
    }

    /// Makes a change, and counts what the request is and takes afterwards.
    fn change<T>(&mut self, change: impl FnOnce(&mut Incoming) -> T) -> T {
        let Self { request, taken, lines, .. } = self;
        let before = request.taken();
        let changed = change(request);
        let after = request.taken();
        taken.change(before, after);
        if let Some(holder) = request.holder() {
            lines.change(holder, before, after);
        }
        changed
    }
}

impl Deref for Requests {
    type Target = Table<Incoming>;

    fn deref(&self) -> &Table<Incoming> {
        &self.table
    }
}

impl Requests {
    pub(in crate::connection) fn new(max_running: usize, max_queued: usize, seed: Seed) -> Self {
        Self {
            table: Table::new(seed),
            line: VecDeque::new(),
            lines: Lines::default(),
            taken: Load::default(),
            max_running,
            max_queued,
        }
    }

    /// Whether one more can be taken in (D12). Suspended handlers do not count: the new request may
    /// be what they wait for.
    pub(in crate::connection) const fn has_room(&self) -> bool {
        self.free_places() > 0
    }

    /// Whether one more can be taken in of this client.
    pub(in crate::connection) fn has_room_for(&self, holder: &Holder) -> bool {
        may_take(holder, self.lines.taken(holder).places, self.free_places())
    }

    /// Whether bytes of one more can be kept of this client, of so many in all.
    pub(in crate::connection) fn has_bytes_for(&self, holder: &Holder, most: usize) -> bool {
        may_take(holder, self.lines.taken(holder).bytes, (most + 1).saturating_sub(self.taken.bytes))
    }

    const fn free_places(&self) -> usize {
        self.max_running.saturating_add(self.max_queued).saturating_sub(self.taken.places)
    }

    /// Whether one more may be offered. A handler that waits for its peer holds no slot: the peer may need one to
    /// answer it, and both would wait for ever.
    pub(in crate::connection) fn may_offer(&self, holder: Option<&Holder>) -> bool {
        let free = self.free_handlers();
        holder.map_or(free > 0, |holder| may_take(holder, self.lines.taken(holder).handlers, free))
    }

    const fn free_handlers(&self) -> usize {
        self.max_running.saturating_sub(self.taken.handlers)
    }

    pub(in crate::connection) fn get_mut(&mut self, key: Key) -> Option<IncomingMut<'_>> {
        let request = self.table.get_mut(key)?;
        Some(IncomingMut { key, request, taken: &mut self.taken, lines: &mut self.lines })
    }

    /// Keys of those that are `wanted`: the same order on every run.
    pub(in crate::connection) fn keys(&self, wanted: impl Fn(&Incoming) -> bool) -> Vec<Key> {
        self.iter().filter(|(_, request)| wanted(request)).map(|(key, _)| key).collect()
    }

    /// Takes a request in; one with the same id must have been [replaced](Self::replace).
    pub(in crate::connection) fn insert(&mut self, request: Incoming) -> Key {
        let (waits, holder, taken) = (request.work == Work::Waiting, request.holder().cloned(), request.taken());
        self.taken.change(Load::default(), taken);
        let key = self.table.insert(self.table.hash(&request.id.0), request);
        match holder {
            Some(holder) => {
                self.lines.change(&holder, Load::default(), taken);
                if waits && let Some(request) = self.table.get_mut(key) {
                    request.rare().turn = Some(self.lines.join(&holder, key));
                }
            }
            None if waits => self.line.push_back(key),
            None => {}
        }
        key
    }

    /// Puts a request in line that was held.
    pub(in crate::connection) fn queue(&mut self, key: Key) {
        let Some(mut request) = self.get_mut(key).filter(|request| request.work == Work::Held) else { return };
        request.set_work(Work::Waiting);
        match request.holder().cloned() {
            Some(holder) => {
                let turn = self.lines.join(&holder, key);
                if let Some(request) = self.table.get_mut(key) {
                    request.rare().turn = Some(turn);
                }
            }
            None => self.line.push_back(key),
        }
    }

    /// Gives the id to a later request: the peer cannot name this one any more (D8).
    pub(in crate::connection) fn replace(&mut self, key: Key) {
        self.table.unlist(key);
        if let Some(request) = self.table.get_mut(key) {
            request.is_replaced = true;
        }
    }

    pub(in crate::connection) fn remove(&mut self, key: Key) -> Option<Incoming> {
        let removed = self.table.remove(key, None);
        if let Some(request) = &removed {
            let taken = request.taken();
            self.taken.change(taken, Load::default());
            if let Some(rare) = &request.rare
                && let Some(holder) = &rare.holder
            {
                self.lines.change(holder, taken, Load::default());
                debug_assert!(rare.turn.is_none(), "a request was removed that waits");
            }
        }
        removed
    }

    /// Offers the next request in line, if it may start.
    pub(in crate::connection) fn offer_next(&mut self) -> Option<Key> {
        while !self.line.is_empty() && self.may_offer(None) {
            let key = self.line.pop_front()?;
            if let Some(mut request) = self.get_mut(key).filter(|request| request.work == Work::Waiting) {
                request.set_work(Work::Offered);
                return Some(key);
            }
        }
        let key = self.lines.next(self.free_handlers())?;
        let mut request = self.get_mut(key)?;
        request.set_work(Work::Offered);
        // It waits no more.
        request.limit = NEVER;
        Some(key)
    }

    /// Drops what is gone from the line, so that a flood of requests and cancels cannot lengthen it.
    pub(in crate::connection) fn tidy_line(&mut self) {
        if self.line.len() > 2 * self.taken.waiting + 32 {
            let table = &self.table;
            self.line.retain(|key| table.get(*key).is_some_and(|request| request.work == Work::Waiting));
        }
    }

    /// Those that wait for a slot, oldest first; where several clients share the connection, one client after another.
    pub(in crate::connection) fn line(&self) -> impl Iterator<Item = &Incoming> {
        let keys = self.line.iter().copied().chain(self.lines.iter());
        keys.filter_map(|key| self.get(key)).filter(|request| request.work == Work::Waiting)
    }

    /// Feeds what clients have taken into a hasher.
    pub(in crate::connection) fn hash_lines(&self, state: &mut impl Hasher) {
        self.lines.hash_state(state);
    }

    /// Bytes of memory held, capacities included.
    pub(in crate::connection) fn held(&self) -> usize {
        self.table.held() + self.line.capacity() * size_of::<Key>() + self.lines.held() + self.taken.bytes
    }

    /// Panics where the counts or the index do not agree with the entries.
    pub(in crate::connection) fn check(&self) {
        let mut taken = Load::default();
        let mut listed = 0;
        for (_, request) in self.iter() {
            taken.change(Load::default(), request.taken());
            listed += usize::from(!request.is_replaced);
        }
        assert_eq!(taken, self.taken, "invariant 8: the count of what requests take is off");
        self.check_lines();
        assert_eq!(listed, self.table.listed().0, "invariant 6: an id leads nowhere");
        self.table.check(|_| true);
    }

    fn check_lines(&self) {
        let mut clients = BTreeMap::<&Holder, (Load, usize)>::new();
        for (_, request) in self.iter() {
            let waits = request.rare.as_ref().is_some_and(|rare| rare.turn.is_some());
            let in_line = request.holder().is_some() && request.work == Work::Waiting;
            assert_eq!(waits, in_line, "invariant 6: {:?} is in no line, or in one for nothing", request.id);
            let (Some(holder), taken) = (request.holder(), request.taken()) else { continue };
            let (sum, waiting) = clients.entry(holder).or_default();
            sum.change(Load::default(), taken);
            *waiting += usize::from(waits);
        }
        clients.retain(|_, (taken, waiting)| *taken != Load::default() || *waiting > 0);
        let known: BTreeMap<_, _> =
            self.lines.of_clients().map(|(holder, taken, waiting)| (holder, (taken, waiting))).collect();
        assert_eq!(clients, known, "invariant 8: the count of what clients have is off");
    }
}
