//! Clients that share something, and what each of them holds of it.
//!
//! Two rules, for two kinds of things. What can be given up again is shared by [`Shares`]: beyond the bound, the holder that
//! has most gives up something of its own. What cannot, such as a handler at work, is shared by `may_take`: a holder takes
//! another place only while it has fewer than are free. By either, one holder has half at most and keeps nobody else out.

use core::{
    hash::{Hash, Hasher},
    net::{IpAddr, Ipv6Addr},
};
use std::{collections::BTreeMap, sync::Arc};

/// The client for which something is held, as far as clients that share a connection are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Holder {
    /// All clients that are not told apart. Their share is the whole.
    #[default]
    Anyone,
    /// The clients at one address; of IPv6, in one network of 64 bits, since one client has many addresses there.
    Address(IpAddr),
    /// The client on one connection.
    Connection(u64),
    /// The client of one session.
    Session(u64),
    /// The clients that give themselves this name.
    Name(Arc<str>),
    /// The clients of one owner, at any address.
    Owner(Arc<str>),
}

impl Holder {
    /// The clients at this address.
    #[must_use]
    pub fn at(address: IpAddr) -> Self {
        Self::Address(network(address))
    }

    /// Bytes of memory that it takes beside itself.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Name(name) | Self::Owner(name) => name.len(),
            Self::Anyone | Self::Address(_) | Self::Connection(_) | Self::Session(_) => 0,
        }
    }
}

/// The addresses that one client may have.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

/// Whether a holder that has taken `taken` places may take another, while so many are free. No holder alone takes more than
/// half of all places, and the next one no more than half of what is left.
pub fn may_take(holder: &Holder, taken: usize, free: usize) -> bool {
    free > if *holder == Holder::Anyone { 0 } else { taken }
}

/// Things of one kind that take up room, under one bound. One holder has half of it at most, unless it is
/// [`Holder::Anyone`]. Beyond, the holder that has most pays with the largest that it has; of two, the one whose key is
/// greater.
#[derive(Clone, Debug)]
pub struct Shares<K> {
    bound: usize,
    total: usize,
    holders: BTreeMap<Holder, Share<K>>,
}

#[derive(Clone, Debug)]
struct Share<K> {
    total: usize,
    things: BTreeMap<K, usize>,
}

impl<K: Copy + Ord> Share<K> {
    fn largest(&self) -> Option<K> {
        self.things.iter().max_by_key(|(_, size)| **size).map(|(key, _)| *key)
    }
}

impl<K: Copy + Ord> Shares<K> {
    /// A table for things that are together no larger than `bound`.
    #[must_use]
    pub const fn new(bound: usize) -> Self {
        Self { bound, total: 0, holders: BTreeMap::new() }
    }

    /// The size of all things together.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.total
    }

    /// Records the size that a thing has now; without any it is forgotten.
    pub fn set(&mut self, holder: &Holder, key: K, size: usize) {
        let Some(share) = self.holders.get_mut(holder) else {
            if size > 0 {
                let share = Share { total: size, things: BTreeMap::from([(key, size)]) };
                self.holders.insert(holder.clone(), share);
                self.total += size;
            }
            return;
        };
        let before = if size > 0 { share.things.insert(key, size) } else { share.things.remove(&key) }.unwrap_or(0);
        share.total = share.total + size - before;
        self.total = self.total + size - before;
        if share.things.is_empty() {
            self.holders.remove(holder);
        }
    }

    /// The thing that is to be given up, while there is too much.
    #[must_use]
    pub fn excess(&self) -> Option<K> {
        self.payer().map(|(key, _)| key)
    }

    /// The same, and how much is too much.
    #[must_use]
    pub fn payer(&self) -> Option<(K, usize)> {
        // No holder has more than all.
        let half = self.bound.div_ceil(2);
        if self.total <= half {
            return None;
        }
        let by_size = |(_, one): &(&Holder, &Share<K>), (_, other): &(&Holder, &Share<K>)| {
            one.total.cmp(&other.total).then_with(|| one.largest().cmp(&other.largest()))
        };
        let (holder, share) = self.holders.iter().max_by(by_size)?;
        let own = if *holder == Holder::Anyone { 0 } else { share.total.saturating_sub(half) };
        let excess = own.max(self.total.saturating_sub(self.bound));
        Some((share.largest().filter(|_| excess > 0)?, excess))
    }

    /// How many things there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.holders.values().map(|share| share.things.len()).sum()
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    /// Bytes of memory that its tables take.
    #[must_use]
    pub fn held(&self) -> usize {
        // A node of a tree is half full at least.
        let names: usize = self.holders.keys().map(Holder::heap_bytes).sum();
        2 * (self.len() * size_of::<(K, usize)>() + self.holders.len() * size_of::<(Holder, Share<K>)>()) + names
    }

    /// Feeds what decides its future into a hasher, but for the things.
    pub fn hash_state(&self, state: &mut impl Hasher) {
        self.holders.iter().for_each(|(holder, share)| (holder, share.total).hash(state));
    }
}

#[cfg(test)]
mod tests {
    use core::cmp::Reverse;

    use super::*;

    fn at(number: u8) -> Holder {
        Holder::Address(IpAddr::from([10, 0, 0, number]))
    }

    #[test]
    fn the_holder_that_has_most_pays_with_the_largest_that_it_has() {
        let mut shares = Shares::new(100);
        for (holder, key, bytes) in [(1, 1, 10), (1, 2, 30), (2, 3, 35), (3, 4, 20)] {
            shares.set(&at(holder), key, bytes);
        }
        assert_eq!(shares.excess(), None);
        shares.set(&at(3), 4, 30);
        assert_eq!(shares.excess(), Some(2), "105 of 100, and 40 are of the first");
        shares.set(&at(1), 2, 0);
        assert_eq!((shares.excess(), shares.total(), shares.len()), (None, 75, 3));
        shares.set(&at(2), 5, 16);
        assert_eq!(shares.excess(), Some(3), "51 is more than half");
        for (holder, key) in [(1, 1), (2, 3), (2, 5), (3, 4)] {
            shares.set(&at(holder), key, 0);
        }
        assert_eq!((shares.total(), shares.len(), shares.held()), (0, 0, 0));
    }

    #[test]
    fn those_who_are_not_told_apart_have_the_whole() {
        let mut shares = Shares::new(100);
        shares.set(&Holder::Anyone, 1, 100);
        assert_eq!(shares.excess(), None);
        shares.set(&at(1), 2, 1);
        assert_eq!(shares.excess(), Some(1));
    }

    #[test]
    fn of_holders_that_have_as_much_the_one_with_the_greater_key_pays() {
        let mut shares = Shares::new(3);
        for number in [2, 1, 3, 0] {
            assert_eq!(shares.excess(), None);
            shares.set(&at(number), Reverse(shares.len()), 1);
        }
        assert_eq!(shares.excess(), Some(Reverse(0)), "the oldest is of the second");
    }

    #[test]
    fn half_of_one_place_is_a_place() {
        let mut shares = Shares::new(1);
        shares.set(&at(1), 1, 1);
        assert_eq!(shares.excess(), None);
        assert!(may_take(&at(1), 0, 1) && !may_take(&at(1), 1, 1) && !may_take(&at(1), 0, 0));
        assert!(may_take(&Holder::Anyone, 9, 1) && !may_take(&Holder::Anyone, 0, 0));
    }

    #[test]
    fn the_addresses_of_one_client_are_one() {
        let one = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(one("::ffff:10.0.0.1"), one("10.0.0.1"));
        assert_eq!(one("2001:db8::1"), one("2001:db8::2:3"));
        assert_ne!(one("2001:db8::1"), one("2001:db8:0:1::1"));
        assert_ne!(one("10.0.0.1"), one("10.0.0.2"));
    }
}
