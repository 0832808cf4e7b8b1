//! The user's shims: where their sockets lie, and what can be asked of one.

mod all;
mod directory;
mod error;
mod follow;
mod query;
mod shim;
mod stream;

pub use all::ask_all;
pub use directory::{Directory, DirectoryError, Look};
pub use error::ShimError;
pub use follow::{Follow, News, Told};
pub use query::Query;
pub use shim::Shim;
pub use stream::{Events, Message};
