//! The key of what a listing holds: a request, or a child.

use std::{fmt, str::FromStr};

use rescind_proto::link::{ChildKey, InvalidKey, RequestKey};

/// Requests come before children that arrived at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EntryKey {
    Request(RequestKey),
    Child(ChildKey),
}

impl fmt::Display for EntryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(key) => key.fmt(f),
            Self::Child(key) => key.fmt(f),
        }
    }
}

impl FromStr for EntryKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        text.parse().map(Self::Request).or_else(|_| text.parse().map(Self::Child))
    }
}
