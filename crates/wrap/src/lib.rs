//! Puts `rescind run` before the servers in the configuration files of MCP, ACP and LSP clients, and takes it out again.
//!
//! A file is text that somebody wrote: everything but our words stays as it is, byte for byte.

pub mod client;
pub mod config;
mod edit;
pub mod entry;
pub mod file;
pub mod journal;
pub mod managed;
pub mod syntax;
mod tree;
pub mod verdict;
pub mod words;
