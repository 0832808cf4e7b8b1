//! The name of a child, for its operator.

use core::{fmt, str::FromStr};

use super::{InvalidKey, request_key::parts};
use crate::slab::Key;

/// Names one child in a relay; never reused while that lives.
///
/// As text it is `k12.3`: its place, and how many had that place before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChildKey(pub(crate) Key);

impl fmt::Display for ChildKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k{}.{}", self.0.index(), self.0.generation())
    }
}

impl FromStr for ChildKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        text.strip_prefix('k').ok_or(InvalidKey).and_then(parts).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::RequestKey;

    #[test]
    fn the_key_of_a_child_is_read_as_it_is_written_and_is_that_of_no_request() {
        for text in ["k0.1", "k12.4294967295"] {
            assert_eq!(text.parse::<ChildKey>().unwrap().to_string(), text);
            assert_eq!(text.parse::<RequestKey>(), Err(InvalidKey));
        }
        for text in ["", "k", "k1", "c1.1", "k1.0", "k+1.1", "k1.1.1"] {
            assert_eq!(text.parse::<ChildKey>(), Err(InvalidKey), "{text}");
        }
    }
}
