//! Which processes a shim has started, also after its end.
//!
//! Each session has a [`Mark`](mark::Mark), which its processes inherit in their environment. The kernel keeps it, so
//! that no crash can lose it, and nothing is written while a session runs. A [`Record`](record::Record) beside the
//! session's socket tells more: its command and its client.

pub mod choice;
pub mod container;
pub mod document;
pub mod family;
pub mod identity;
pub mod mark;
pub mod reap;
pub mod record;
pub mod snapshot;
pub mod stray;
mod system;
