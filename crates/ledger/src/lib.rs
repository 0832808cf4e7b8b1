//! Which processes a shim has started, also after its end.
//!
//! Each session has a [`Mark`](mark::Mark), which its processes inherit in their environment. The kernel keeps it, so
//! that no crash can lose it, and nothing is written while a session runs. A [`Record`](record::Record) beside the
//! session's socket tells more: its command and its client.
//!
//! There is no ledger file that could be torn. A file written while sessions run was rejected: what is forked between two
//! writes is lost with its writer, and an idle shim would have to wake. The record is written once, at the start; losing it
//! loses no process.
//!
//! `family` decides from one snapshot of `/proc` what belongs to a session: its mark, else that of the nearest marked
//! ancestor, else that of its process group, unless that group's leader is a stranger. A mark names the shim by number *and*
//! start, and a *place* (this boot, these PID and time namespaces, this `RESCIND_RUNTIME_DIR` in whichever spelling): a mark
//! of another place is not judged, since the same number means another process there. `reap` opens a pidfd, checks the start
//! again, and only then sends a signal. `choice` is what a person saw and chose, fixed when it was shown; a process that
//! appears later gets its parent's verdict, and if its parent is gone it ends only if nothing of that session is spared.
//! `turn` compares when a process began with when the requests of its session were in flight.

pub mod choice;
pub mod container;
pub mod document;
pub mod family;
pub mod history;
pub mod reap;
pub mod record;
pub mod snapshot;
pub mod stray;
mod system;
pub mod turn;

pub use system::{identity, mark};
