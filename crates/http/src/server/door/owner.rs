//! Whose a request is.
//!
//! An owner stands in the key of all that can be asked for (D42). Requests outside a session go to a link by `Asker`: the
//! owner where this server establishes it, the credentials where the one behind does. That is one map and one bound for
//! both. The link that is asked for the era before a client has come is nobody's, and ends when it has answered. Places are
//! shared without knowing how many owners there are: one takes another only while it has fewer than are free.

use core::fmt;
use std::sync::Arc;

/// Whose sessions and requests are kept apart from all others': a name from the operator's list, or the subject of a token
/// that an issuer has signed ([`Access`](crate::server::Access)).
///
/// It is shown to the operator. It is not a secret, and shows nothing of the token.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Arc<str>);

/// The longest name of an owner, in bytes: each session keeps one.
pub(crate) const MAX_OWNER: usize = 512;

impl Owner {
    /// The owner of this name; `None` if it is empty or has more than 512 bytes.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        (1..=MAX_OWNER).contains(&name.len()).then(|| Self(name.into()))
    }

    /// The name. It may come from an issuer: clean it before it is printed.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The name, shared.
    pub(super) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Owner").field(&&*self.0).finish()
    }
}
