//! Readers of the admin sockets of running shims (`docs/admin.md`): a client of one shim, and a server of the page
//! that shows them all (`docs/console.md`).
//!
//! Nothing here keeps a model of what a shim does: what it tells is passed on, and whoever falls behind is told
//! everything anew. What a shim tells is untrusted text.

#![warn(missing_docs)]

mod key;
mod metrics;
mod page;
mod recording;
mod server;
pub mod shims;

pub use key::{Key, KeyError};
pub use recording::{Recording, RecordingError};
pub use server::{Console, Settings};
