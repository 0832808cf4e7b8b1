//! Who asks.

use super::{credentials::Credentials, owner::Owner};

/// Who asks, as far as is known here. Requests outside a session share a link only with those of the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Asker {
    /// The owner of its token; `None` where all that may ask are one.
    pub(crate) owner: Option<Owner>,
    /// What it shows to the server behind, where that is to judge it.
    pub(crate) credentials: Credentials,
}

impl Asker {
    /// Bytes of memory that it takes beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        let owner = self.owner.as_ref().map_or(0, |owner| owner.name().len());
        owner + self.credentials.as_ref().map_or(0, http::HeaderValue::len)
    }
}
