//! Names of what a server holds. None is given twice.

use core::num::NonZero;

/// Names an HTTP request and its response, as long as the machine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyKey(pub(super) NonZero<u64>);

/// Names a link, as long as the machine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkKey(pub(super) NonZero<u64>);

/// Names a stream, as long as the machine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamKey(pub(super) NonZero<u64>);

/// Names a session, as long as the machine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionKey(pub(super) NonZero<u64>);
