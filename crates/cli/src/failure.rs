//! The error messages of the command.

use std::{fmt, io::Write};

use crate::origin::in_words_of_its_caller;

/// An error about one input, with its remedy.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The input at fault: a command, a file, a flag with its value.
    pub(crate) input: String,
    /// What is wrong.
    pub(crate) cause: String,
    /// What to do.
    pub(crate) hint: String,
}

impl Failure {
    pub(crate) fn new(input: impl fmt::Display, cause: impl fmt::Display, hint: impl fmt::Display) -> Self {
        Self { input: input.to_string(), cause: cause.to_string(), hint: hint.to_string() }
    }

    /// Prints it on stderr, and ignores a stderr that cannot be written.
    pub(crate) fn report(&self) {
        let _ = std::io::stderr().write_all(in_words_of_its_caller(&self.to_string()).as_bytes());
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}: {}", self.input, self.cause)?;
        writeln!(f, "hint: {}", self.hint)
    }
}
