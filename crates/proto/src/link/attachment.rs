//! What a transport says of a message beside its bytes.

use core::{any::Any, fmt};
use std::sync::Arc;

use crate::holder::Holder;

/// A value of the transport's own that goes with a request to its handler: who sent it, for instance. The engine only
/// carries it. And the client that the request is counted for, where several share the connection.
#[derive(Clone)]
pub struct Attachment {
    value: Arc<dyn Any + Send + Sync>,
    holder: Option<Holder>,
}

impl Attachment {
    /// This value.
    #[must_use]
    pub fn new(value: impl Any + Send + Sync) -> Self {
        Self { value: Arc::new(value), holder: None }
    }

    /// Has the request counted for this client: what one client may have is bounded then, and how long the request waits
    /// for a handler ([`ConnectionConfig::max_wait`](crate::connection::ConnectionConfig::max_wait)).
    #[must_use]
    pub fn counted_for(self, holder: Holder) -> Self {
        Self { holder: Some(holder), ..self }
    }

    /// The client that the request is counted for.
    #[must_use]
    pub const fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// The value, if it is of this type.
    #[must_use]
    pub fn value<T: Any>(&self) -> Option<&T> {
        self.value.downcast_ref()
    }
}

/// Two are equal if they are one value, counted for one client.
impl PartialEq for Attachment {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.value, &other.value) && self.holder == other.holder
    }
}

impl Eq for Attachment {}

impl fmt::Debug for Attachment {
    /// It may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attachment(_)")
    }
}
