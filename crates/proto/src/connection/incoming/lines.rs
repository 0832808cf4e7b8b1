//! What each of several clients has of the handlers of one connection, and a line for each of those that wait for one.
//!
//! A client takes another handler only while it has fewer than are free, and so another place in line. So however many slow
//! requests one client sends, the next client's is handled. Of those that wait, the client goes first that has fewest
//! handlers; of two, the one that has waited longer.

use core::hash::{Hash, Hasher};
use std::collections::{BTreeMap, BTreeSet};

use crate::{
    holder::{Holder, may_take},
    slab::Key,
};

/// The place of a request in the order in which they began to wait.
pub(super) type Turn = u64;

/// What a request takes of what clients share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::connection) struct Load {
    /// Handlers at work, or about to be.
    pub(super) handlers: usize,
    /// Places: handlers that are not suspended, and requests in line.
    pub(super) places: usize,
    /// Requests in line.
    pub(super) waiting: usize,
    /// Bytes that are kept of it.
    pub(in crate::connection) bytes: usize,
}

impl Load {
    /// Counts something that took this and takes that.
    pub(super) const fn change(&mut self, before: Self, after: Self) {
        self.handlers = self.handlers + after.handlers - before.handlers;
        self.places = self.places + after.places - before.places;
        self.waiting = self.waiting + after.waiting - before.waiting;
        self.bytes = self.bytes + after.bytes - before.bytes;
    }
}

/// What clients have taken, and their lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    clients: BTreeMap<Holder, Client>,
    /// Clients with a line: by how many handlers they have, and since when they wait.
    waiting: BTreeSet<(usize, Turn, Holder)>,
    next_turn: Turn,
}

#[derive(Clone, Debug, Default)]
struct Client {
    taken: Load,
    line: BTreeMap<Turn, Key>,
}

impl Client {
    /// How many handlers it has, and since when its oldest request waits.
    fn place(&self) -> Option<(usize, Turn)> {
        self.line.first_key_value().map(|(turn, _)| (self.taken.handlers, *turn))
    }
}

impl Lines {
    pub(super) fn taken(&self, holder: &Holder) -> Load {
        self.clients.get(holder).map_or_else(Load::default, |client| client.taken)
    }

    /// Records that a request takes this and no longer that.
    pub(super) fn change(&mut self, holder: &Holder, before: Load, after: Load) {
        if before == after {
            return;
        }
        self.update(holder, |client| client.taken.change(before, after));
    }

    /// Puts a request at the end of its client's line.
    pub(super) fn join(&mut self, holder: &Holder, key: Key) -> Turn {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.update(holder, |client| _ = client.line.insert(turn, key));
        turn
    }

    /// Takes a request out of its client's line.
    pub(super) fn leave(&mut self, holder: &Holder, turn: Turn) {
        self.update(holder, |client| _ = client.line.remove(&turn));
    }

    /// The request whose turn it is, while so many handlers are free.
    pub(super) fn next(&self, free: usize) -> Option<Key> {
        // Who stands behind the first has as many handlers at least. Only clients that are not told apart may have more.
        let first = self.waiting.first().map(|(_, _, holder)| holder);
        let mut holders = first.into_iter().chain([&Holder::Anyone]);
        let holder = holders.find(|holder| may_take(holder, self.taken(holder).handlers, free))?;
        self.clients.get(holder)?.line.values().next().copied()
    }

    /// All that wait, client by client.
    pub(super) fn iter(&self) -> impl Iterator<Item = Key> {
        self.clients.values().flat_map(|client| client.line.values().copied())
    }

    /// Bytes of memory that they take, but for the names of clients, which the transport's attachments share.
    pub(super) fn held(&self) -> usize {
        // A node of a tree is half full at least.
        let waiting = self.waiting.len() * size_of::<(usize, Turn, Holder)>();
        let lines: usize = self.clients.values().map(|client| client.line.len() * size_of::<(Turn, Key)>()).sum();
        2 * (self.clients.len() * size_of::<(Holder, Client)>() + waiting + lines)
    }

    /// Feeds what decides its future into a hasher, but for which requests wait.
    pub(super) fn hash_state(&self, state: &mut impl Hasher) {
        self.clients.iter().for_each(|(holder, client)| (holder, client.taken, client.line.len()).hash(state));
        // The order of the clients, without their turns.
        self.waiting.iter().for_each(|(_, _, holder)| holder.hash(state));
    }

    /// What each client has taken, and how many of its requests wait.
    pub(super) fn of_clients(&self) -> impl Iterator<Item = (&Holder, Load, usize)> {
        self.clients.iter().map(|(holder, client)| (holder, client.taken, client.line.len()))
    }

    /// Changes what a client has, and its place among those that wait.
    fn update(&mut self, holder: &Holder, change: impl FnOnce(&mut Client)) {
        let client = match self.clients.get_mut(holder) {
            Some(client) => client,
            None => self.clients.entry(holder.clone()).or_default(),
        };
        let before = client.place();
        change(client);
        let after = client.place();
        if client.taken == Load::default() && client.line.is_empty() {
            self.clients.remove(holder);
        }
        if before != after {
            if let Some((handlers, turn)) = before {
                self.waiting.remove(&(handlers, turn, holder.clone()));
            }
            if let Some((handlers, turn)) = after {
                self.waiting.insert((handlers, turn, holder.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;

    use super::*;
    use crate::slab::Slab;

    #[test]
    fn clients_that_are_not_told_apart_are_served_while_one_before_them_has_its_share() {
        let mut keys = Slab::new();
        let mut lines = Lines::default();
        let [told, others] = [Holder::at(IpAddr::from([10, 0, 0, 1])), Holder::Anyone];
        let [first, second] = [(&told, 1), (&others, 2)].map(|(holder, handlers)| {
            let key = keys.insert(());
            lines.change(holder, Load::default(), Load { handlers, ..Load::default() });
            lines.join(holder, key);
            key
        });
        assert_eq!([0, 1, 2].map(|free| lines.next(free)), [None, Some(second), Some(first)]);
    }
}
