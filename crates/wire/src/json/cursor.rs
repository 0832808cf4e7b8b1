//! A position that walks through one object or array at a time.

use super::{
    NotJson,
    block::{LANE, special},
    check::{checked_end, has_sound_escapes},
    number::small_integer,
    scan::{Token, container_end, scalar_end, string_end},
};

/// Walks a text from its start; the walker decides which containers to enter and which to skip.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, rest: bytes }
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.bytes.len() - self.rest.len()
    }

    /// The byte at the cursor.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Moves to the next byte that is not white space.
    #[inline]
    pub(crate) fn skip_space(&mut self) {
        while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    /// Steps over the opening bracket at the cursor.
    #[inline]
    pub(crate) fn enter(&mut self) {
        self.rest = &self.rest[1..];
    }

    /// Steps to the value of the next member and gives its key; `None` after the last.
    #[inline(always)]
    pub(crate) fn next_key(&mut self, first: bool) -> Result<Option<Token<'a>>, NotJson> {
        // Most senders write no white space, and short keys without escapes.
        let quoted = if first { self.rest } else { self.rest.strip_prefix(b",").unwrap_or_default() };
        if let Some((b'"', text)) = quoted.split_first()
            && let Some(lane) = text.first_chunk::<LANE>()
            && let Some(end) = special(lane)
            && let Some(b"\":") = text.get(end..end + 2)
        {
            self.rest = &text[end + 2..];
            if self.rest.first().is_none_or(|byte| *byte <= b' ') {
                self.skip_space();
            }
            return Ok(Some(Token { text: &quoted[..end + 2], escaped: false }));
        }
        if let [b'}', rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(None);
        }
        let (cursor, key) = self.next_key_in_full(first)?;
        *self = cursor;
        Ok(key)
    }

    /// As [`Cursor::next_key`] for a key that `known` finds at the start of a text without white space before it.
    ///
    /// `None` leaves the cursor where it is.
    #[inline(always)]
    pub(crate) fn next_key_of<T>(&mut self, first: bool, known: impl FnOnce(&[u8]) -> Option<(T, usize)>) -> Option<T> {
        let text = if first { self.rest } else { self.rest.strip_prefix(b",")? };
        let (name, len) = known(text)?;
        self.rest = text.get(len..)?;
        if self.rest.first().is_none_or(|byte| *byte <= b' ') {
            self.skip_space();
        }
        Some(name)
    }

    // By value: a cursor whose address is handed out cannot live in registers.
    #[inline(never)]
    fn next_key_in_full(mut self, first: bool) -> Result<(Self, Option<Token<'a>>), NotJson> {
        if !self.next_item(first, b'}')? {
            return Ok((self, None));
        }
        if self.peek() != Some(b'"') {
            return Err(NotJson);
        }
        let (len, escaped) = string_end(self.rest)?;
        let (text, rest) = self.rest.split_at(len);
        self.rest = rest;
        self.skip_space();
        self.rest = self.rest.strip_prefix(b":").ok_or(NotJson)?;
        self.skip_space();
        Ok((self, Some(Token { text, escaped })))
    }

    /// Steps to the next element of an array; false after the last.
    pub(crate) fn next_element(&mut self, first: bool) -> Result<bool, NotJson> {
        self.next_item(first, b']')
    }

    /// Steps over the value at the cursor; the inside of a container is not checked.
    #[inline(always)]
    pub(crate) fn value(&mut self) -> Result<Token<'a>, NotJson> {
        let (len, escaped) = match self.peek() {
            Some(b'"') => string_end(self.rest)?,
            Some(b'{' | b'[') => (container_end(self.bytes, self.at())? - self.at(), false),
            _ => (scalar_end(self.rest)?, false),
        };
        let (text, rest) = self.rest.split_at(len);
        self.rest = rest;
        Ok(Token { text, escaped })
    }

    /// Steps over the value at the cursor, all of which must be JSON.
    #[inline(always)]
    pub(crate) fn checked_value(&mut self) -> Result<Token<'a>, NotJson> {
        if let Some(b'{' | b'[') = self.peek() {
            let (text, rest) = self.rest.split_at(checked_end(self.bytes, self.at())? - self.at());
            self.rest = rest;
            return Ok(Token { text, escaped: false });
        }
        let token = self.value()?;
        if token.escaped && !has_sound_escapes(token.text) { Err(NotJson) } else { Ok(token) }
    }

    /// Steps over `text` if that is what stands at the cursor.
    #[inline]
    pub(crate) fn skip(&mut self, text: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Steps over the short integer at the cursor; `None` leaves the cursor where it is.
    #[inline(always)]
    pub(crate) fn small_integer(&mut self) -> Option<i64> {
        let (value, len) = small_integer(self.rest)?;
        self.rest = &self.rest[len..];
        Some(value)
    }

    /// Nothing but white space may follow.
    #[inline]
    pub(crate) fn finish(&mut self) -> Result<(), NotJson> {
        self.skip_space();
        if self.rest.is_empty() { Ok(()) } else { Err(NotJson) }
    }

    /// Steps to the next item, over a comma unless it is the first; over the closing bracket after the last.
    #[inline]
    fn next_item(&mut self, first: bool, close: u8) -> Result<bool, NotJson> {
        self.skip_space();
        match self.rest {
            [byte, rest @ ..] if *byte == close => {
                self.rest = rest;
                return Ok(false);
            }
            [b',', rest @ ..] if !first => {
                self.rest = rest;
                self.skip_space();
            }
            [_, ..] if first => {}
            _ => return Err(NotJson),
        }
        Ok(true)
    }
}
