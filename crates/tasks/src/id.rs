//! The name of a task.

use std::{fmt, sync::Arc};

use crate::error::{StoreFault, StoreFaultKind};

/// The name of a task. If the task has no owner, every client that knows its name may see and cancel it (TASK-08).
///
/// A [random](Self::random) id cannot be guessed: 128 bits from the operating system, as 32 hexadecimal digits. A
/// [received](Self::received) one may be any text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(Arc<str>);

impl TaskId {
    /// Generates a new id.
    ///
    /// # Errors
    ///
    /// The operating system provides no random bytes.
    pub fn random() -> Result<Self, StoreFault> {
        random_hex().map(|text| Self(text.into()))
    }

    /// Wraps an id that was received.
    #[must_use]
    pub fn received(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the id as on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns 128 random bits as hexadecimal digits.
pub(crate) fn random_hex() -> Result<String, StoreFault> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| StoreFault::new(StoreFaultKind::Io, error))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
