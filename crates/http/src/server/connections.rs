//! Open connections under one bound, and which of them is ended for room.
//!
//! A connection *waits* while its client owes it bytes: the head of a request, or more of a body. Only one that waits is
//! ended for room, the one that has waited longest first, of the holder that has most connections. So a client that
//! opens connections and sends nothing on them makes room for all others, and a request in flight is never ended.
//!
//! Where nearly all owe their clients an answer, the last places are for what is answered at once: for a cancel, above all.

use core::{cmp::Reverse, net::IpAddr};
use std::collections::{BTreeMap, BTreeSet};

use super::door::Holder;

/// Names a connection, as long as its table lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnectionKey(u64);

/// The place of a connection in the order in which they began to wait.
type Since = u64;

/// Open connections.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    bound: usize,
    /// Connections that are not being ended.
    staying: usize,
    /// Those of them that owe their clients an answer.
    answering: usize,
    next_key: u64,
    next_since: Since,
    connections: BTreeMap<ConnectionKey, Connection>,
    holders: BTreeMap<Holder, Held>,
    /// Holders that are told apart and have a connection that waits, by how many connections they have, and since when. That
    /// of all others changes with nearly each of their requests, and is looked for among the holders.
    waiting: BTreeSet<(usize, Reverse<Since>, Holder)>,
}

/// What may come on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Anything,
    /// Only what is answered at once.
    NoCalls,
    /// Nothing: it is being ended.
    Nothing,
}

#[derive(Clone, Debug)]
struct Connection {
    holder: Holder,
    since: Since,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    /// It has a request, and owes its client an answer.
    Answering,
    /// It was chosen to make room, and has not closed.
    Ending,
}

/// What one holder has.
#[derive(Clone, Debug, Default)]
struct Held {
    /// Connections that are not being ended, and those of them that owe an answer.
    staying: usize,
    answering: usize,
    waiting: BTreeMap<Since, ConnectionKey>,
}

impl Connections {
    /// A table for so many connections, at least two. One holder has half of them at most, unless all are one.
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            bound: bound.max(2),
            staying: 0,
            answering: 0,
            next_key: 0,
            next_since: 0,
            connections: BTreeMap::new(),
            holders: BTreeMap::new(),
            waiting: BTreeSet::new(),
        }
    }

    /// Adds a connection from this address, which waits; then [`excess`](Self::excess) returns those that are to be ended.
    /// Clients on this machine are not distinguished, nor any if `parts_addresses` is `false`.
    pub(crate) fn open(&mut self, address: IpAddr, parts_addresses: bool) -> ConnectionKey {
        let is_told_apart = parts_addresses && !address.to_canonical().is_loopback();
        let holder = if is_told_apart { Holder::at(address) } else { Holder::Anyone };
        let key = ConnectionKey(self.next_key);
        self.next_key += 1;
        let since = self.allocate_since();
        self.staying += 1;
        self.change(&holder, |held| {
            held.staying += 1;
            held.waiting.insert(since, key);
        });
        self.connections.insert(key, Connection { holder, since, state: State::Waiting });
        key
    }

    /// Records that a connection does not wait any more.
    pub(crate) fn answer(&mut self, key: ConnectionKey) -> Admission {
        let Some(connection) = self.connections.get_mut(&key) else { return Admission::Nothing };
        let (holder, since) = (connection.holder.clone(), connection.since);
        match connection.state {
            State::Waiting => {
                connection.state = State::Answering;
                self.answering += 1;
                self.change(&holder, |held| {
                    held.waiting.remove(&since);
                    held.answering += 1;
                });
            }
            State::Answering => {}
            State::Ending => return Admission::Nothing,
        }
        let of_holder = || self.holders.get(&holder).map_or(0, |held| held.answering);
        let is_greedy = holder != Holder::Anyone && of_holder() > most_calls(self.share());
        if is_greedy || self.answering > most_calls(self.bound) { Admission::NoCalls } else { Admission::Anything }
    }

    /// Records that a connection waits for its client: as the newest that does, or else in the place that it had before.
    pub(crate) fn wait(&mut self, key: ConnectionKey, is_newest: bool) {
        let newest = is_newest.then(|| self.allocate_since());
        let Some(connection) = self.connections.get_mut(&key).filter(|one| one.state == State::Answering) else {
            return;
        };
        connection.state = State::Waiting;
        connection.since = newest.unwrap_or(connection.since);
        let (holder, since) = (connection.holder.clone(), connection.since);
        self.answering -= 1;
        self.change(&holder, |held| {
            held.waiting.insert(since, key);
            held.answering -= 1;
        });
    }

    /// Records that a connection is closed. Returns its holder, if this was the last connection of one that is told apart.
    pub(crate) fn close(&mut self, key: ConnectionKey) -> Option<Holder> {
        let Connection { holder, since, state } = self.connections.remove(&key)?;
        match state {
            State::Waiting => self.leave(&holder, since),
            State::Answering => {
                self.answering -= 1;
                self.change(&holder, |held| held.answering -= 1);
                self.leave(&holder, since);
            }
            State::Ending => {}
        }
        (holder != Holder::Anyone && !self.holders.contains_key(&holder)).then_some(holder)
    }

    /// The next connection that is to be ended, while there are too many. If all others are being answered, it is the one
    /// that was opened last.
    pub(crate) fn excess(&mut self) -> Option<ConnectionKey> {
        let greedy = self.waiting.last().filter(|(held, _, _)| *held > self.share());
        match greedy.map(|(_, _, holder)| holder.clone()) {
            Some(holder) => self.end_oldest_of(&holder),
            None if self.staying > self.bound => self.make_room(),
            None => None,
        }
    }

    /// Chooses a connection that is to be ended all the same, if one waits.
    pub(crate) fn make_room(&mut self) -> Option<ConnectionKey> {
        let anyone = self.holders.get(&Holder::Anyone).and_then(Held::place);
        let most = self.waiting.last().filter(|(held, since, _)| anyone.is_none_or(|anyone| anyone < (*held, *since)));
        let holder = most.map_or(Holder::Anyone, |(_, _, holder)| holder.clone());
        self.end_oldest_of(&holder)
    }

    /// Whether there are more than there may be, until those that are being ended are closed.
    pub(crate) fn is_overfull(&self) -> bool {
        self.connections.len() > self.bound
    }

    /// The most connections of one holder.
    const fn share(&self) -> usize {
        self.bound.div_ceil(2)
    }

    fn end_oldest_of(&mut self, holder: &Holder) -> Option<ConnectionKey> {
        let (since, key) = self.holders.get(holder)?.waiting.first_key_value().map(|(since, key)| (*since, *key))?;
        self.connections.get_mut(&key)?.state = State::Ending;
        self.leave(holder, since);
        Some(key)
    }

    /// A connection of this holder does not stay.
    fn leave(&mut self, holder: &Holder, since: Since) {
        self.staying -= 1;
        self.change(holder, |held| {
            held.staying -= 1;
            held.waiting.remove(&since);
        });
    }

    /// Changes what a holder has, and its place among those with a connection that waits.
    fn change(&mut self, holder: &Holder, change: impl FnOnce(&mut Held)) {
        let held = match self.holders.get_mut(holder) {
            Some(held) => held,
            None => self.holders.entry(holder.clone()).or_default(),
        };
        let before = held.place();
        change(held);
        let (after, is_empty) = (held.place(), held.staying == 0);
        if before != after && *holder != Holder::Anyone {
            if let Some((count, since)) = before {
                self.waiting.remove(&(count, since, holder.clone()));
            }
            if let Some((count, since)) = after {
                self.waiting.insert((count, since, holder.clone()));
            }
        }
        if is_empty {
            self.holders.remove(holder);
        }
    }

    const fn allocate_since(&mut self) -> Since {
        self.next_since += 1;
        self.next_since
    }
}

/// How many of these connections may owe an answer to a call.
fn most_calls(connections: usize) -> usize {
    connections - (connections / 8).min(64)
}

impl Held {
    /// How many it has, and since when the oldest waits; `None` if none does.
    fn place(&self) -> Option<(usize, Reverse<Since>)> {
        let (since, _) = self.waiting.first_key_value()?;
        Some((self.staying, Reverse(*since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u8) -> IpAddr {
        [10, 0, 0, number].into()
    }

    fn ended(connections: &mut Connections) -> Vec<ConnectionKey> {
        std::iter::from_fn(|| connections.excess()).collect()
    }

    #[test]
    fn the_one_that_waits_longest_of_the_address_that_has_most_makes_room() {
        let mut connections = Connections::new(8);
        let quiet = connections.open(at(1), true);
        let keys: Vec<_> = [2, 3, 2, 3, 2, 4, 5].map(|number| connections.open(at(number), true)).into();
        assert_eq!(ended(&mut connections), []);
        for (number, oldest) in [(6, keys[0]), (7, keys[1]), (8, keys[2])] {
            connections.open(at(number), true);
            assert_eq!(ended(&mut connections), [oldest], "of 2, of 3 or 2 that has waited longer, and so on");
            assert!(connections.is_overfull(), "it is open until it is closed");
            connections.close(oldest);
            assert!(!connections.is_overfull());
        }
        assert_eq!(connections.answer(quiet), Admission::Anything);
    }

    #[test]
    fn a_request_in_flight_is_never_ended() {
        let mut connections = Connections::new(4);
        let keys = [(); 4].map(|()| connections.open([127, 0, 0, 1].into(), true));
        keys.iter().for_each(|key| assert_ne!(connections.answer(*key), Admission::Nothing));
        let newest = connections.open(at(1), true);
        assert_eq!(ended(&mut connections), [newest], "the others are all being answered");
        assert_eq!(connections.answer(newest), Admission::Nothing, "what comes on it now is not taken");
        connections.close(newest);
        connections.wait(keys[2], true);
        connections.wait(keys[1], true);
        let newest = connections.open(at(1), true);
        assert_eq!(ended(&mut connections), [keys[2]], "it was answered first");
        connections.wait(keys[2], true);
        assert_eq!(ended(&mut connections), []);
        assert_ne!(connections.answer(newest), Admission::Nothing);
    }

    #[test]
    fn the_last_places_are_for_what_is_answered_at_once() {
        let mut connections = Connections::new(32);
        let open = |connections: &mut Connections, number: u8| {
            let key = connections.open(at(number), true);
            assert_eq!(ended(connections), []);
            (key, connections.answer(key))
        };
        for number in 1..=2 {
            for _ in 0..14 {
                assert_eq!(open(&mut connections, number).1, Admission::Anything);
            }
            let (last, admission) = open(&mut connections, number);
            assert_eq!(admission, Admission::NoCalls, "one address has half");
            connections.close(last);
        }
        let (first, admission) = open(&mut connections, 3);
        assert_eq!(admission, Admission::NoCalls, "four of all are kept");
        for number in [4, 5, 6] {
            assert_eq!(open(&mut connections, number).1, Admission::NoCalls);
        }
        // It is answered, and makes room for the next.
        connections.wait(first, true);
        let next = connections.open(at(7), true);
        assert_eq!(ended(&mut connections), [first]);
        assert_eq!(connections.answer(next), Admission::NoCalls);
        assert_eq!(connections.answer(first), Admission::Nothing);
    }

    #[test]
    fn one_address_has_half_unless_it_is_this_machine() {
        let mut connections = Connections::new(8);
        let keys: Vec<_> = (0..6).map(|_| connections.open(at(1), true)).collect();
        assert_eq!(ended(&mut connections), [keys[0], keys[1]]);
        keys[2..].iter().for_each(|key| assert_ne!(connections.answer(*key), Admission::Nothing));
        let newest = connections.open(at(1), true);
        assert_eq!(ended(&mut connections), [newest]);
        let mut connections = Connections::new(8);
        for address in ["127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"] {
            connections.open(address.parse().expect("an address"), true);
            connections.open(address.parse().expect("an address"), true);
        }
        assert_eq!(ended(&mut connections), []);
        let mut connections = Connections::new(8);
        (0..8).for_each(|_| _ = connections.open(at(1), false));
        assert_eq!(ended(&mut connections), [], "a proxy");
    }

    #[test]
    fn a_body_that_gets_on_is_newer_than_one_that_does_not() {
        let mut connections = Connections::new(2);
        let [steady, slow] = [(); 2].map(|()| connections.open(at(1), false));
        for (key, has_progressed) in [(steady, true), (slow, true), (steady, true), (slow, false)] {
            connections.answer(key);
            connections.wait(key, has_progressed);
        }
        connections.open(at(1), false);
        assert_eq!(ended(&mut connections), [slow]);
    }

    #[test]
    fn the_last_connection_of_a_client_is_known_as_such() {
        let mut connections = Connections::new(8);
        let [first, second, other] = [1, 1, 2].map(|number| connections.open(at(number), true));
        let here = connections.open([127, 0, 0, 1].into(), true);
        assert_eq!(connections.close(first), None);
        connections.answer(second);
        assert_eq!(connections.close(other), Some(Holder::at(at(2))));
        assert_eq!(connections.close(second), Some(Holder::at(at(1))));
        assert_eq!(connections.close(second), None, "it is closed");
        assert_eq!(connections.close(here), None, "clients here are not told apart");
    }

    #[test]
    fn room_can_be_made_below_the_bound() {
        let mut connections = Connections::new(9);
        let [first, second] = [(); 2].map(|()| connections.open(at(1), true));
        connections.answer(first);
        assert_eq!(connections.make_room(), Some(second));
        assert_eq!(connections.make_room(), None);
        connections.close(second);
        connections.close(first);
        assert!(connections.connections.is_empty() && connections.holders.is_empty() && connections.waiting.is_empty());
        assert_eq!((connections.staying, connections.answering), (0, 0));
    }
}
