//! For whom something is held, and what all of them may hold together.

use core::{
    hash::{Hash, Hasher},
    net::{IpAddr, Ipv6Addr},
};
use std::collections::BTreeMap;

use http::Extensions;

use super::owner::Owner;

/// The address that a request came from, as an extension of its head: a [`Listener`](crate::shell::Listener) sets it, and a
/// program that mounts an endpoint may. With it, what one client makes the server hold is bounded by itself, where there
/// are no owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

/// Whom that which is held is counted for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Holder {
    /// All who are not told apart. They have no share that is smaller than the whole.
    Anyone,
    /// The clients at one address; of IPv6, in one network of 64 bits, since one client has many addresses there.
    Address(IpAddr),
    /// An owner, wherever it is.
    Owner(Owner),
}

impl Holder {
    /// The owner of a request, else its address, if addresses tell clients apart.
    pub(crate) fn of(owner: Option<&Owner>, extensions: &Extensions, parts_addresses: bool) -> Self {
        let address = || extensions.get::<ClientAddress>().filter(|_| parts_addresses);
        match (owner, address()) {
            (Some(owner), _) => Self::Owner(owner.clone()),
            (None, Some(ClientAddress(address))) => Self::at(*address),
            (None, None) => Self::Anyone,
        }
    }

    /// The clients at this address.
    pub(crate) fn at(address: IpAddr) -> Self {
        Self::Address(network(address))
    }

    /// Bytes of memory that it takes beside itself.
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Owner(owner) => owner.name().len(),
            Self::Anyone | Self::Address(_) => 0,
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

/// Bytes that things of one kind take, under one bound. One holder has half of it at most, unless all are one. When the bound
/// is passed, the holder that has most pays with the largest that it has.
#[derive(Clone, Debug)]
pub(crate) struct Shares<K> {
    bound: usize,
    total: usize,
    holders: BTreeMap<Holder, Share<K>>,
}

#[derive(Clone, Debug)]
struct Share<K> {
    total: usize,
    things: BTreeMap<K, usize>,
}

impl<K: Copy + Ord> Shares<K> {
    pub(crate) const fn new(bound: usize) -> Self {
        Self { bound, total: 0, holders: BTreeMap::new() }
    }

    /// What all of them take.
    pub(crate) const fn total(&self) -> usize {
        self.total
    }

    /// Notes how many bytes a thing takes now.
    pub(crate) fn set(&mut self, holder: &Holder, key: K, bytes: usize) {
        let Some(share) = self.holders.get_mut(holder) else {
            if bytes > 0 {
                let share = Share { total: bytes, things: BTreeMap::from([(key, bytes)]) };
                self.holders.insert(holder.clone(), share);
                self.total += bytes;
            }
            return;
        };
        let before = if bytes > 0 { share.things.insert(key, bytes) } else { share.things.remove(&key) }.unwrap_or(0);
        share.total = share.total + bytes - before;
        self.total = self.total + bytes - before;
        if share.things.is_empty() {
            self.holders.remove(holder);
        }
    }

    /// The thing that is to be given up, while too much is taken.
    pub(crate) fn excess(&self) -> Option<K> {
        self.payer().map(|(key, _)| key)
    }

    /// The same, and how many bytes are too many.
    pub(crate) fn payer(&self) -> Option<(K, usize)> {
        // Nobody has more than all.
        if self.total <= self.bound / 2 {
            return None;
        }
        let (holder, share) = self.holders.iter().max_by_key(|(_, share)| share.total)?;
        let own = if *holder == Holder::Anyone { 0 } else { share.total.saturating_sub(self.bound / 2) };
        let excess = own.max(self.total.saturating_sub(self.bound));
        let (key, _) = share.things.iter().max_by_key(|(_, bytes)| **bytes).filter(|_| excess > 0)?;
        Some((*key, excess))
    }

    /// Things that take something.
    pub(crate) fn len(&self) -> usize {
        self.holders.values().map(|share| share.things.len()).sum()
    }

    /// Bytes of memory that its tables take.
    pub(crate) fn held(&self) -> usize {
        // A node of a tree is half full at least.
        let names: usize = self.holders.keys().map(Holder::heap_bytes).sum();
        2 * (self.len() * size_of::<(K, usize)>() + self.holders.len() * size_of::<(Holder, Share<K>)>()) + names
    }

    /// Feeds what decides its future into a hasher, but for the things.
    pub(crate) fn hash_state(&self, state: &mut impl Hasher) {
        self.holders.iter().for_each(|(holder, share)| (holder, share.total).hash(state));
    }
}

#[cfg(test)]
mod tests {
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
    fn the_addresses_of_one_client_are_one() {
        let one = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(one("::ffff:10.0.0.1"), one("10.0.0.1"));
        assert_eq!(one("2001:db8::1"), one("2001:db8::2:3"));
        assert_ne!(one("2001:db8::1"), one("2001:db8:0:1::1"));
        assert_ne!(one("10.0.0.1"), one("10.0.0.2"));
    }
}
