//! How the command says that something went wrong.

use std::{fmt, io::Write};

/// What could not be done with what, and what the person can do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The input at fault: a command, a file, a flag with its value.
    pub(crate) input: String,
    /// Why.
    pub(crate) cause: String,
    /// What to do.
    pub(crate) hint: String,
}

impl Failure {
    pub(crate) fn new(input: impl fmt::Display, cause: impl fmt::Display, hint: impl fmt::Display) -> Self {
        Self { input: input.to_string(), cause: cause.to_string(), hint: hint.to_string() }
    }

    /// Says it on stderr. That nobody listens there is no reason to fail a second time.
    pub(crate) fn say(&self) {
        let _ = std::io::stderr().write_all(self.to_string().as_bytes());
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}: {}", self.input, self.cause)?;
        writeln!(f, "hint: {}", self.hint)
    }
}
