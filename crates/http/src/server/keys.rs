//! Names of what a server holds. None is given twice.

use core::{
    hash::{Hash, Hasher},
    num::NonZero,
};

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

/// The place of what waits for a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InputNumber(pub(super) u64);

impl Hash for InputNumber {
    /// Not what decides the machine's future: that is what waits, and in which order.
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}
