//! Request ids, exactly as received.
//!
//! Two ids are the same when their JSON type and their value are the same:
//! strings after unescaping, integers at any size. What goes back on the wire
//! is the text that came in, byte for byte (D6).

use core::{
    fmt,
    hash::{Hash, Hasher},
};

use crate::json;

/// The id of a request, as it stood on the wire.
///
/// Equality and hashing follow JSON type and value; [`RequestId::write`] gives
/// back the received text. Sixteen bytes; integers that fit `i64` own no memory.
#[derive(Clone)]
pub struct RequestId(Repr);

#[derive(Clone)]
enum Repr {
    Null,
    Integer(i64),
    /// JSON text that is not a canonical `i64`: a longer integer or a quoted string.
    /// The second box keeps the id at sixteen bytes, which a million requests pay for.
    Text(Box<Box<str>>),
}

impl RequestId {
    /// The null id. Legal in some ACP revisions only.
    pub const NULL: Self = Self(Repr::Null);

    /// An integer id.
    #[must_use]
    pub const fn integer(value: i64) -> Self {
        Self(Repr::Integer(value))
    }

    /// A string id holding `value`, escaped as JSON needs it.
    #[must_use]
    pub fn string(value: &str) -> Self {
        let mut text = Vec::with_capacity(value.len() + 2);
        json::write_string(&mut text, value);
        Self::from_json(&text).unwrap_or(Self::NULL)
    }

    /// Reads the JSON text of an id: an integer, a string or `null`.
    ///
    /// `None` for any other JSON value and for numbers with a fraction or an
    /// exponent: `5.0` is not an integer id (D29; a response is matched loosely
    /// elsewhere, D10).
    #[must_use]
    pub fn from_json(text: &[u8]) -> Option<Self> {
        if text == b"null" {
            return Some(Self::NULL);
        }
        let is_integer = json::is_integer(text);
        let text = core::str::from_utf8(text).ok().filter(|text| is_integer || json::is_string(text.as_bytes()))?;
        match text.parse() {
            Ok(value) if text != "-0" => Some(Self(Repr::Integer(value))),
            _ => Some(Self(Repr::Text(Box::new(text.into())))),
        }
    }

    /// Whether this is the null id.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self.0, Repr::Null)
    }

    /// The integer value, if this is an integer that fits.
    #[must_use]
    pub const fn as_integer(&self) -> Option<i64> {
        match self.0 {
            Repr::Integer(value) => Some(value),
            Repr::Null | Repr::Text(_) => None,
        }
    }

    /// Whether this is a string id.
    #[must_use]
    pub fn is_string(&self) -> bool {
        matches!(&self.0, Repr::Text(text) if text.starts_with('"'))
    }

    /// Appends the JSON text, byte for byte as received.
    pub fn write(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Repr::Null => out.extend_from_slice(b"null"),
            Repr::Integer(value) => json::write_integer(out, *value),
            Repr::Text(text) => out.extend_from_slice(text.as_bytes()),
        }
    }

    /// Whether this is `0` or `""`, which a peer in a language where they are false may take for no id.
    #[must_use]
    pub fn is_falsy(&self) -> bool {
        match &self.0 {
            Repr::Null => false,
            Repr::Integer(value) => *value == 0,
            Repr::Text(text) => &***text == "\"\"",
        }
    }

    /// The integer that a peer would read from this id that confuses `5`, `5.0` and `"5"` (D10).
    #[must_use]
    pub fn loose(&self) -> Option<i64> {
        match &self.0 {
            Repr::Null => None,
            Repr::Integer(value) => Some(*value),
            Repr::Text(text) => loose_integer(text.trim_matches('"')),
        }
    }

    /// Heap bytes owned by this id.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Repr::Null | Repr::Integer(_) => 0,
            Repr::Text(text) => text.len() + size_of::<Box<str>>(),
        }
    }
}

/// The integer in `5`, `5.0` or `5.00`: what remains of an id after a careless peer.
pub(crate) fn loose_integer(text: &str) -> Option<i64> {
    let digits = match text.split_once('.') {
        Some((digits, zeros)) if !zeros.is_empty() && zeros.bytes().all(|b| b == b'0') => digits,
        Some(_) => return None,
        None => text,
    };
    json::is_integer(digits.as_bytes()).then(|| digits.parse().ok()).flatten()
}

impl PartialEq for RequestId {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Null, Repr::Null) => true,
            (Repr::Integer(a), Repr::Integer(b)) => a == b,
            (Repr::Text(a), Repr::Text(b)) => is_same_text(a, b),
            (Repr::Null | Repr::Integer(_) | Repr::Text(_), _) => false,
        }
    }
}

/// Out of the way of integers, which are most ids.
#[inline(never)]
fn is_same_text(a: &str, b: &str) -> bool {
    a == b
        || (a.starts_with('"')
            && b.starts_with('"')
            && (a.contains('\\') || b.contains('\\'))
            && json::unescape(a.as_bytes()) == json::unescape(b.as_bytes()))
}

impl Eq for RequestId {}

impl Hash for RequestId {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Repr::Null => state.write_u8(0),
            Repr::Integer(value) => state.write_i64(*value),
            Repr::Text(text) => hash_text(text, state),
        }
    }
}

#[inline(never)]
fn hash_text(text: &str, state: &mut impl Hasher) {
    match json::unescape(text.as_bytes()) {
        Some(unescaped) => state.write(&unescaped),
        None => state.write(text.as_bytes()),
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Null => f.write_str("null"),
            Repr::Integer(value) => value.fmt(f),
            Repr::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;

    fn id(text: &str) -> RequestId {
        RequestId::from_json(text.as_bytes()).unwrap()
    }

    #[track_caller]
    fn check_same(a: &str, b: &str) {
        let hasher = foldhash::fast::FixedState::default();
        assert_eq!(id(a), id(b));
        assert_eq!(hasher.hash_one(id(a)), hasher.hash_one(id(b)));
        assert_eq!(id(a).loose(), id(b).loose());
    }

    #[test]
    fn case_76_spellings_of_one_string_are_one_id() {
        check_same(r#""\u00e9""#, "\"é\"");
        check_same(r#""\u00e9""#, r#""\u00E9""#);
        check_same(r#""\/""#, "\"/\"");
        check_same(r#""\ud83d\ude00""#, "\"😀\"");
        assert_ne!(id(r#""\ud83d""#), id(r#""\ud83e""#));
        assert_ne!(id(r#""\\u00e9""#), id(r#""\u00e9""#));
    }

    #[test]
    fn case_9_ids_are_equal_when_type_and_value_are() {
        let forty = "1234567890123456789012345678901234567890";
        let texts = [
            "null",
            "\"null\"",
            "0",
            "-0",
            "\"\"",
            "5",
            "\"5\"",
            "-5",
            "9007199254740992",
            "9007199254740993",
            "9223372036854775807",
            "9223372036854775808",
            forty,
            "1234567890123456789012345678901234567891",
        ];
        for (at, a) in texts.iter().enumerate() {
            check_same(a, a);
            for b in &texts[at + 1..] {
                assert_ne!(id(a), id(b), "{a} {b}");
            }
        }
    }

    #[test]
    fn an_id_is_written_as_it_was_received() {
        for text in ["null", "0", "-0", "-7", "9223372036854775808", r#""\u00e9\/""#, "\"\""] {
            let mut out = Vec::new();
            id(text).write(&mut out);
            assert_eq!(out, text.as_bytes());
            assert_eq!(id(text).to_string(), text);
        }
    }

    #[test]
    fn what_is_no_string_integer_or_null_is_no_id() {
        for bad in ["", "nul", "true", "1.0", "1e3", "01", "+1", " 1", "[1]", "{}", "\"a", "\"\n\"", r#""\x""#] {
            assert!(RequestId::from_json(bad.as_bytes()).is_none(), "{bad}");
        }
        assert!(RequestId::from_json(b"\"\xff\"").is_none());
    }

    #[test]
    fn a_string_id_is_escaped_as_json_needs_it() {
        assert_eq!(RequestId::string("a\"\n"), id(r#""a\"\n""#));
        assert_eq!(RequestId::string("5"), id("\"5\""));
        assert!(RequestId::string("").is_string());
    }

    #[test]
    fn what_a_careless_peer_makes_of_an_id_is_one_integer() {
        for alike in ["5", "\"5\"", "\"5.0\""] {
            assert_eq!(id(alike).loose(), Some(5), "{alike}");
        }
        assert_eq!(id("6").loose(), Some(6));
        assert_eq!((id("\"a\"").loose(), RequestId::NULL.loose()), (None, None));
        assert_eq!(loose_integer("5.0"), Some(5));
        for none in ["5.", "5.5", "5.0.0", "x", "05", ""] {
            assert_eq!(loose_integer(none), None, "{none}");
        }
    }

    #[test]
    fn an_id_has_sixteen_bytes() {
        assert_eq!(size_of::<RequestId>(), 16);
    }
}
