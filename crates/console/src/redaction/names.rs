//! The names that stand for others.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
};

/// The most names that are remembered, about 32 MB of them. One that is forgotten gets another name when it comes again.
pub(super) const MAX_NAMES: usize = 1 << 18;

/// What is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Named {
    Id,
    Name,
    Key,
    Method,
}

impl Named {
    const fn word(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Name => "name",
            Self::Key => "key",
            Self::Method => "method",
        }
    }
}

/// What a name was: two hashes of it, so that a long one costs no more.
type Original = (u64, u64);

/// Other names, in the order in which theirs were seen first. So they show nothing of them.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: HashMap<Original, u64>,
    in_order: VecDeque<Original>,
    given: u64,
}

impl Names {
    /// The number of a name, if it was given one.
    pub(super) fn known(&self, named: Named, name: &str) -> Option<u64> {
        self.known.get(&original(named, name)).copied()
    }

    /// The number of a name, which is new if it was not seen before.
    pub(super) fn number(&mut self, named: Named, name: &str) -> u64 {
        let original = original(named, name);
        if let Some(number) = self.known.get(&original) {
            return *number;
        }
        if self.in_order.len() >= MAX_NAMES
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.given += 1;
        self.known.insert(original, self.given);
        self.in_order.push_back(original);
        self.given
    }

    /// Another name for this one.
    pub(super) fn other(&mut self, named: Named, name: &str) -> String {
        format!("{}-{}", named.word(), self.number(named, name))
    }
}

fn original(named: Named, name: &str) -> Original {
    let hash = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, named, name).hash(&mut hasher);
        hasher.finish()
    };
    (hash(0), hash(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_another_one_of_its_kind_and_the_same_each_time() {
        let mut names = Names::default();
        let first = names.other(Named::Id, "a");
        assert_eq!((first.as_str(), names.other(Named::Key, "a").as_str()), ("id-1", "key-2"));
        assert_eq!(names.other(Named::Id, "a"), first);
        assert_eq!((names.known(Named::Id, "a"), names.known(Named::Id, "b")), (Some(1), None));
    }

    #[test]
    fn names_are_bounded() {
        let mut names = Names::default();
        for number in 0..MAX_NAMES + 10 {
            names.number(Named::Id, &number.to_string());
        }
        assert_eq!((names.known.len(), names.in_order.len()), (MAX_NAMES, MAX_NAMES));
        assert_eq!((names.known(Named::Id, "9"), names.known(Named::Id, "10")), (None, Some(11)));
    }
}
