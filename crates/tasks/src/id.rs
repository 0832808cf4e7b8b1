//! What names a task.

use std::{fmt, fmt::Write as _, sync::Arc};

use crate::error::{Fault, FaultKind};

/// The name of a task: for a task without an owner, whoever knows it may see and cancel it (TASK-08).
///
/// One that we make cannot be guessed: 128 bits from the operating system, as 32 hexadecimal digits. One that was
/// received may be any text; it names a task or none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(Arc<str>);

impl TaskId {
    /// A new id, unlike any other.
    ///
    /// # Errors
    ///
    /// The operating system gives no random bytes.
    pub fn random() -> Result<Self, Fault> {
        random_hex().map(|text| Self(text.into()))
    }

    /// An id as it was received.
    #[must_use]
    pub fn received(text: &str) -> Self {
        Self(text.into())
    }

    /// The id as it stands on the wire.
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

/// 128 bits that cannot be guessed, as hexadecimal digits.
pub(crate) fn random_hex() -> Result<String, Fault> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Fault::new(FaultKind::Io, error))?;
    Ok(bytes.iter().fold(String::with_capacity(32), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
