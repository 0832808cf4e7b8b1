//! The user's running shims: how to find them, and a client of the admin socket of one (`docs/admin.md`).
//!
//! The operator's commands and the page stand on it. Text from a shim is untrusted.

#![warn(missing_docs)]

mod all;
mod connection;
mod conversation;
mod directories;
mod directory;
mod error;
mod follow;
mod query;
mod shim;
mod stream;

use directory::Directory;

pub use all::ask_all;
pub use directories::{Directories, ShimScan, UnusableDirectory};
pub use directory::DirectoryError;
pub use error::ShimError;
pub use follow::{Follow, FollowEvent, FoundSessions, SessionUpdate};
pub use query::ListingQuery;
pub use shim::Shim;
pub use stream::{RawEvent, ShimEvents};
