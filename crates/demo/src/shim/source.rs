//! A pipe that is read line by line, without waiting for whole lines.

use std::{
    io::{self, Read},
    os::fd::{AsFd, BorrowedFd},
};

/// The reading end of a pipe, until the pipe has ended.
#[derive(Debug)]
pub(super) struct Source<R> {
    reader: Option<R>,
    /// The start of a line whose end is not read yet.
    begun: Vec<u8>,
}

impl<R: Read + AsFd> Source<R> {
    pub(super) const fn new(reader: R) -> Self {
        Self { reader: Some(reader), begun: Vec::new() }
    }

    /// Whether every writer has closed it and everything is read.
    pub(super) const fn has_ended(&self) -> bool {
        self.reader.is_none()
    }

    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.reader.as_ref().map(AsFd::as_fd)
    }

    /// Reads once and returns the lines that this completed. Blocks if there is nothing to read.
    pub(super) fn read_lines(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let Some(reader) = &mut self.reader else { return Ok(Vec::new()) };
        let mut buffer = [0; 64 * 1024];
        let read = match reader.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Vec::new()),
            read => read?,
        };
        if read == 0 {
            self.reader = None;
            let rest = std::mem::take(&mut self.begun);
            return Ok(if rest.is_empty() { Vec::new() } else { vec![rest] });
        }
        self.begun.extend_from_slice(&buffer[..read]);
        let Some(end) = self.begun.iter().rposition(|&byte| byte == b'\n') else { return Ok(Vec::new()) };
        let rest = self.begun.split_off(end + 1);
        self.begun.truncate(end);
        let whole = std::mem::replace(&mut self.begun, rest);
        Ok(whole.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_line_in_two_writes_is_one_line() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut source = Source::new(reader);
        writer.write_all(b"one\ntw").unwrap();
        assert_eq!(source.read_lines().unwrap(), [b"one"]);
        writer.write_all(b"o\nthree\n").unwrap();
        assert_eq!(source.read_lines().unwrap(), [&b"two"[..], b"three"]);
        assert!(!source.has_ended());
    }

    #[test]
    fn a_last_line_without_its_end_is_returned_at_the_end() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut source = Source::new(reader);
        writer.write_all(b"half").unwrap();
        assert!(source.read_lines().unwrap().is_empty());
        drop(writer);
        assert_eq!(source.read_lines().unwrap(), [b"half"]);
        assert!(source.has_ended());
    }
}
