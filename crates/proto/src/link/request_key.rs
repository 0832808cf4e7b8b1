//! What a request is called in events and by whoever acts on it.

use core::{fmt, num::NonZeroU32, str::FromStr};

use crate::{side::Side, slab::Key};

/// Names one request in a relay or a [monitor](crate::monitor); never reused while that lives.
///
/// As text it is `c12.3` or `s12.3`: who sent the request, its place, and how many had that place before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestKey {
    /// Who sent the request.
    pub from: Side,
    pub(crate) key: Key,
}

/// A text that names no request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidKey;

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the key of a request, such as c12.3")
    }
}

impl core::error::Error for InvalidKey {}

impl fmt::Display for RequestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.from {
            Side::Client => 'c',
            Side::Server => 's',
        };
        write!(f, "{side}{}.{}", self.key.index(), self.key.generation())
    }
}

impl FromStr for RequestKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let (from, rest) = match text.split_at_checked(1).ok_or(InvalidKey)? {
            ("c", rest) => (Side::Client, rest),
            ("s", rest) => (Side::Server, rest),
            _ => return Err(InvalidKey),
        };
        Ok(Self { from, key: parts(rest)? })
    }
}

/// The key behind its letter.
pub(super) fn parts(text: &str) -> Result<Key, InvalidKey> {
    let (index, generation) = text.split_once('.').ok_or(InvalidKey)?;
    let generation: NonZeroU32 = number(generation)?;
    Ok(Key::from_parts(number(index)?, generation))
}

/// Digits only: `FromStr` of numbers takes a sign, too.
fn number<T: FromStr>(text: &str) -> Result<T, InvalidKey> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(InvalidKey);
    }
    text.parse().map_err(|_| InvalidKey)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_written() {
        for text in ["c0.1", "s12.4294967295"] {
            assert_eq!(text.parse::<RequestKey>().unwrap().to_string(), text);
        }
        for text in ["", "c", "c1", "x1.1", "c1.0", "c+1.1", "c1.1.1", "c 1.1", "é1.1", "c4294967296.1"] {
            assert_eq!(text.parse::<RequestKey>(), Err(InvalidKey), "{text}");
        }
    }
}
