//! What the programs on Rust SDKs share.

#![warn(missing_docs)]

mod program;

pub use program::{led, mark, mark_of, marked, obey, text};
