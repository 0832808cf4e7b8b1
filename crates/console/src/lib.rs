//! The page that shows all running shims (`docs/console.md`): its server, their metrics, and recordings as sessions.
//!
//! Nothing here models what a shim does. Its events are passed on, and a reader that falls behind gets a snapshot. Text
//! from a shim is untrusted.

#![warn(missing_docs)]

mod key;
mod metrics;
mod page;
mod recording;
mod redaction;
mod server;

pub use key::{AccessKey, AccessKeyError};
pub use metrics::short_command;
pub use recording::{Recording, RecordingError};
pub use redaction::{Redaction, RedactionError, redact};
pub use server::{Console, ConsoleSettings};
