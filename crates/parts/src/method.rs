//! Method names, each kept once.

use std::sync::Arc;

use hashbrown::HashTable;

use crate::hash::Seed;

/// A name in a [`Methods`] table: two bytes instead of an allocation per request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Method(u16);

/// Names beyond this many are all called [`OTHER`]: the peer chooses them, so they must be bounded.
const MAX_NAMES: usize = 4096;

/// Longer names are cut: they are shown, never compared, once interned.
const MAX_NAME: usize = 256;

const OTHER: &str = "(other)";

impl Method {
    /// `OTHER`, and the name of what has none.
    pub const OTHER: Self = Self(0);
}

/// Whether two names are the same: most of one length differ in their first letter, which spares a call.
#[inline]
pub fn is_same(one: &str, other: &str) -> bool {
    one.as_bytes().first() == other.as_bytes().first() && one == other
}

/// The names of methods that a link has named, and how many at most.
#[derive(Clone, Debug)]
pub struct Methods {
    names: Vec<Arc<str>>,
    index: HashTable<u16>,
    /// The name asked for last: most links send one method most of the time.
    last: u16,
    seed: Seed,
}

impl Methods {
    /// No names yet.
    pub fn new(seed: Seed) -> Self {
        Self { names: vec![OTHER.into()], index: HashTable::new(), last: 0, seed }
    }

    /// The name, kept if it is new and there is room; one too many is [`Method::OTHER`].
    pub fn intern(&mut self, name: &str) -> Method {
        if *self.names[self.last as usize] == *name {
            return Method(self.last);
        }
        let name = &name[..name.floor_char_boundary(MAX_NAME)];
        let hash = self.seed.hash(name.as_bytes());
        if let Some(&found) = self.index.find(hash, |&at| &*self.names[at as usize] == name) {
            self.last = found;
            return Method(found);
        }
        if self.names.len() >= MAX_NAMES {
            return Method::OTHER;
        }
        let at = self.names.len() as u16;
        self.names.push(name.into());
        let Self { names, index, seed, .. } = self;
        index.insert_unique(hash, at, |&at| seed.hash(names[at as usize].as_bytes()));
        Method(at)
    }

    /// Interns a JSON string as it stands, quotes and escapes included; what is no string, or too long to be a name,
    /// is `OTHER`.
    #[inline]
    pub fn intern_json(&mut self, value: &[u8]) -> Method {
        if *self.names[self.last as usize].as_bytes() == *value {
            return Method(self.last);
        }
        match core::str::from_utf8(value) {
            Ok(text) if text.starts_with('"') && text.len() <= MAX_NAME => self.intern(text),
            Ok(_) | Err(_) => Method::OTHER,
        }
    }

    /// The name as it was received, cut to its limit.
    pub fn name(&self, method: Method) -> &str {
        &self.names[method.0 as usize]
    }

    /// The name for an event, which allocates nothing.
    pub fn shared(&self, method: Method) -> Arc<str> {
        Arc::clone(&self.names[method.0 as usize])
    }
}
