//! What a transport says of a message beside its bytes.

use core::{any::Any, fmt};
use std::sync::Arc;

/// A value of the transport's own that goes with a request to its handler: who sent it, for instance. The engine only
/// carries it.
#[derive(Clone)]
pub struct Attachment(Arc<dyn Any + Send + Sync>);

impl Attachment {
    /// This value.
    #[must_use]
    pub fn new(value: impl Any + Send + Sync) -> Self {
        Self(Arc::new(value))
    }

    /// The value, if it is of this type.
    #[must_use]
    pub fn value<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

/// Two are equal if they are one value.
impl PartialEq for Attachment {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Attachment {}

impl fmt::Debug for Attachment {
    /// It may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attachment(_)")
    }
}
