//! Readers of the admin sockets of running shims (`docs/admin.md`): a client of one shim, and the server of the page
//! that shows all shims (`docs/console.md`).
//!
//! Nothing here models what a shim does. Its events are passed on, and a reader that falls behind gets a snapshot. Text
//! from a shim is untrusted.

#![warn(missing_docs)]

mod key;
mod metrics;
mod page;
mod recording;
mod server;
pub mod shims;

pub use key::{AccessKey, AccessKeyError};
pub use recording::{Recording, RecordingError};
pub use server::{Console, ConsoleSettings};
