//! A recording without what may be secret (`docs/recording.md`), for people who were not there.
//!
//! What is kept is listed, and everything else is replaced: a value is kept only if its member is one that a protocol defines,
//! and the value itself is one of those that the protocol defines for it. So a secret goes wherever a peer puts it: as a method,
//! an id, the key of an object or the text of an error. What names something gets another name, the same each time.
//!
//! The file is read and written line by line, and the same file always gives the same bytes.

mod names;
mod rule;
mod value;
mod vocabulary;

#[cfg(test)]
mod tests;

use std::io::{self, BufRead, Write};

use crate::recording::{
    RecordingError,
    line::HeaderLine,
    lines::{LineRead, LineReader},
};
use value::Redactor;

/// What became of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redaction {
    /// Messages that were read, at each point that they passed.
    pub messages: u64,
    /// Values that were replaced.
    pub replaced: u64,
    /// Lines that could not be read. Only their time and length are kept.
    pub unreadable: u64,
}

/// Why a recording cannot be redacted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedactionError {
    /// It cannot be read, or is none.
    #[error("{0}")]
    Recording(#[from] RecordingError),
    /// Its texts were replaced before.
    #[error("is redacted already")]
    Again,
    /// The copy cannot be written.
    #[error("{0}")]
    Write(#[source] io::Error),
}

/// Copies a recording without what may be secret. A last line that breaks off is left out.
///
/// It needs memory for the longest line, and for 262,144 names at most.
///
/// # Errors
///
/// If `input` cannot be read or is not a recording of a known version, or `output` cannot be written.
pub fn redact(input: impl BufRead, mut output: impl Write) -> Result<Redaction, RedactionError> {
    let unread = |error: io::Error| RedactionError::Recording(error.into());
    let mut lines = LineReader::new(input);
    let header = match lines.next().map_err(unread)? {
        Some(LineRead::RecordedLine { text, .. }) => text,
        Some(LineRead::TooLong) | None => return Err(RecordingError::NotARecording.into()),
    };
    if HeaderLine::read(header)?.redacted {
        return Err(RedactionError::Again);
    }
    let mut redactor = Redactor::default();
    let mut out = Vec::new();
    if !redactor.header(header, &mut out) {
        return Err(RecordingError::NotARecording.into());
    }
    let mut redaction = Redaction::default();
    loop {
        out.push(b'\n');
        output.write_all(&out).map_err(RedactionError::Write)?;
        out.clear();
        out.shrink_to(1 << 20);
        match lines.next().map_err(unread)? {
            Some(LineRead::RecordedLine { text, is_whole: true, .. }) => {
                if !redactor.line(text, &mut out) {
                    redaction.unreadable += 1;
                    redactor.unreadable(Some(text.len()), &mut out);
                }
            }
            Some(LineRead::TooLong) => {
                redaction.unreadable += 1;
                redactor.unreadable(None, &mut out);
            }
            Some(LineRead::RecordedLine { is_whole: false, .. }) | None => break,
        }
    }
    output.flush().map_err(RedactionError::Write)?;
    Ok(Redaction { messages: redactor.messages, replaced: redactor.replaced, ..redaction })
}
