//! The user's shims: where their sockets lie, and what can be asked of one.

mod all;
mod directories;
mod directory;
mod error;
mod follow;
mod query;
mod shim;
mod stream;

use directory::Directory;

pub use all::ask_all;
pub use directories::{Directories, Look, Unusable};
pub use directory::DirectoryError;
pub use error::ShimError;
pub use follow::{Follow, Found, News, Told};
pub use query::Query;
pub use shim::Shim;
pub use stream::{Events, Message};
