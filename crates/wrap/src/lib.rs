//! Puts `rescind run` before the servers in the configuration files of MCP, ACP and LSP clients, and takes it out again.
//!
//! Only our words change: the rest of a file stays as it is, byte for byte.
//!
//! A file is read into ranges of its text (`tree`), and a few of them are replaced. The original command is moved in its own
//! letters, quotes and escapes included, so `unwrap` needs nothing but the file; the `journal` has the one thing that a file
//! cannot tell, and no secrets. A file changes places with its new version (`RENAME_EXCHANGE`): what comes out must be what
//! was read, or it goes back in, since a comparison followed by a rename would lose what a client writes in between.

pub mod advice;
#[cfg(unix)]
mod attributes;
pub mod client;
pub mod config;
mod edit;
pub mod entry;
pub mod file;
pub mod journal;
pub mod managed;
pub mod name;
pub mod oddity;
pub mod outside;
pub mod patience;
pub mod remote;
pub mod sharing;
pub mod strict;
pub mod syntax;
mod tree;
pub mod verdict;
pub mod words;
