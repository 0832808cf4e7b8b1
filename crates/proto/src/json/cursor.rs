//! A position that walks through one object or array at a time.

use core::ops::Range;

use super::{NotJson, scan::Scanner};

/// Walks a text from its start; the walker decides which containers to enter and which to skip.
pub(crate) struct Cursor<'a> {
    scanner: Scanner<'a>,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { scanner: Scanner::new(bytes), at: 0 }
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.scanner.bytes()
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The byte at the cursor.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.scanner.bytes().get(self.at).copied()
    }

    /// Moves to the next byte that is not white space.
    #[inline]
    pub(crate) fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Steps over the opening bracket at the cursor.
    #[inline]
    pub(crate) fn enter(&mut self) {
        self.scanner.enter();
        self.at += 1;
    }

    /// Steps to the value of the next member and gives its key with quotes; `None` after the last.
    #[inline]
    pub(crate) fn next_key(&mut self, first: bool) -> Result<Option<Range<usize>>, NotJson> {
        if !self.next_item(first, b'}')? {
            return Ok(None);
        }
        if self.peek() != Some(b'"') {
            return Err(NotJson);
        }
        let key = self.at..self.scanner.string_end(self.at)?;
        self.at = key.end;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(NotJson);
        }
        self.at += 1;
        self.skip_space();
        Ok(Some(key))
    }

    /// Steps to the next element of an array; false after the last.
    #[inline]
    pub(crate) fn next_element(&mut self, first: bool) -> Result<bool, NotJson> {
        self.next_item(first, b']')
    }

    /// Steps over the value at the cursor.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<Range<usize>, NotJson> {
        let start = self.at;
        self.at = self.scanner.value_end(start)?;
        Ok(start..self.at)
    }

    /// The verdict on the text: nothing but white space may follow.
    #[inline]
    pub(crate) fn finish(&mut self) -> Result<(), NotJson> {
        self.skip_space();
        if self.at < self.scanner.bytes().len() { Err(NotJson) } else { self.scanner.finish() }
    }

    #[inline]
    fn next_item(&mut self, first: bool, close: u8) -> Result<bool, NotJson> {
        self.skip_space();
        match self.peek() {
            Some(byte) if byte == close => {
                self.scanner.leave();
                self.at += 1;
                return Ok(false);
            }
            Some(b',') if !first => {
                self.at += 1;
                self.skip_space();
            }
            Some(_) if first => {}
            _ => return Err(NotJson),
        }
        Ok(true)
    }
}
