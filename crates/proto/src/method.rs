//! Method names, each kept once.

use hashbrown::HashTable;

use crate::hash::Seed;

/// A method name in a [`Methods`] table: four bytes instead of an allocation per request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Method(u32);

/// Names beyond this many are all called [`OTHER`]: the peer chooses them, so they must be bounded.
const MAX_NAMES: usize = 4096;

/// Longer names are cut: they are shown, never compared, once interned.
const MAX_NAME: usize = 256;

const OTHER: &str = "(other)";

#[derive(Clone, Debug)]
pub(crate) struct Methods {
    names: Vec<Box<str>>,
    index: HashTable<u32>,
    /// The name asked for last: most links send one method most of the time.
    last: u32,
    seed: Seed,
}

impl Methods {
    pub(crate) fn new(seed: Seed) -> Self {
        Self { names: vec![OTHER.into()], index: HashTable::new(), last: 0, seed }
    }

    pub(crate) fn intern(&mut self, name: &str) -> Method {
        if *self.names[self.last as usize] == *name {
            return Method(self.last);
        }
        let name = crate::cause::cut(name, MAX_NAME);
        let hash = self.seed.hash(name.as_bytes());
        if let Some(&found) = self.index.find(hash, |&at| &*self.names[at as usize] == name) {
            self.last = found;
            return Method(found);
        }
        if self.names.len() >= MAX_NAMES {
            return Method(0);
        }
        let at = self.names.len() as u32;
        self.names.push(name.into());
        let Self { names, index, seed, .. } = self;
        index.insert_unique(hash, at, |&at| seed.hash(names[at as usize].as_bytes()));
        Method(at)
    }

    pub(crate) fn name(&self, method: Method) -> &str {
        &self.names[method.0 as usize]
    }
}
