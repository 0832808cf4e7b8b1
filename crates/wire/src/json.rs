//! Scanning and writing JSON text, without a document tree.
//!
//! The rule to know first: a payload is passed on byte for byte, so only what
//! decides where it ends is checked, that is strings, brackets and their kinds.
//! The grammar between the tokens inside a payload is left to the reader at the
//! far end. Keys, punctuation and scalars of the
//! object that is being walked are checked properly.

mod block;
mod cursor;
mod members;
mod number;
mod scan;
mod text;

pub use members::{Member, elements, lookup, member, members};
pub use number::{integer, is_integer, write_integer};
pub use scan::value_end;
pub use text::{is_string, text, unescape, write_string};

pub(crate) use cursor::Cursor;
pub(crate) use scan::Token;

/// The bytes are not JSON, as far as the scan has to look to know where a value ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotJson;

impl core::fmt::Display for NotJson {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("not JSON")
    }
}

impl core::error::Error for NotJson {}
