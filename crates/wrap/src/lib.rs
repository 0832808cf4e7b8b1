//! Puts `rescind run` before the servers in the configuration files of MCP, ACP and LSP clients, and takes it out again.
//!
//! Only our words change: the rest of a file stays as it is, byte for byte.

#[cfg(unix)]
mod attributes;
pub mod client;
pub mod config;
mod edit;
pub mod entry;
pub mod file;
pub mod journal;
pub mod managed;
pub mod outside;
pub mod patience;
pub mod remote;
pub mod syntax;
mod tree;
pub mod verdict;
pub mod words;
