//! Scanning and writing JSON text, without a document tree.
//!
//! The rule to know first: a payload is passed on byte for byte, so what a
//! message holds is checked once, when its envelope is read: no reader may be
//! sent what it cannot read (D43). What walks a text that was checked looks only
//! for where a value ends.

mod block;
mod check;
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
