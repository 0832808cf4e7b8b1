//! Where a value ends: one forward pass that classifies each byte once.
//!
//! The scanner walks the text in blocks and carries two facts from each to the
//! next: whether it ended inside a string, and whether its last byte escapes
//! the first of the next. So it must see every block in order, which is why
//! positions handed to it only ever grow.

use super::{
    NotJson,
    block::{self, WIDTH},
    number::number_end,
};

/// Containers may nest this deep; deeper is malformed, so that nobody's stack is at the sender's mercy.
pub const MAX_DEPTH: usize = 1024;

/// The end of the value that starts at `at`: its own text, without what surrounds it.
///
/// `None` if no value starts there, a string is not closed, brackets do not
/// match or nest deeper than [`MAX_DEPTH`]. Scalars are checked properly, the
/// inside of containers is not (see the module).
#[must_use]
pub fn value_end(bytes: &[u8], at: usize) -> Option<usize> {
    let value = bytes.get(at..)?;
    let mut scanner = Scanner::new(value);
    let end = scanner.value_end(0).ok()?;
    (!scanner.strayed).then_some(at + end)
}

/// A block-wise walk over one text.
pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    /// Where the current block starts.
    start: usize,
    /// Quotes of the current block that open or close a string.
    quotes: u64,
    /// Brackets of the current block that stand outside strings.
    brackets: u64,
    /// All ones if the current block ends inside a string.
    in_string: u64,
    /// One if the last byte of the current block escapes the first of the next.
    escape: u64,
    /// A backslash stood outside every string: no JSON text has one.
    strayed: bool,
    /// Where the first block with a byte beyond ASCII starts.
    first_wide: Option<usize>,
    /// Containers entered by the caller.
    depth: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let mut scanner = Self {
            bytes,
            start: 0,
            quotes: 0,
            brackets: 0,
            in_string: 0,
            escape: 0,
            strayed: false,
            first_wide: None,
            depth: 0,
        };
        scanner.load();
        scanner
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The caller walks into a container itself.
    pub(crate) fn enter(&mut self) {
        self.depth += 1;
    }

    /// The caller has left the container again.
    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// The verdict on the whole text, once all of it was walked: valid UTF-8, no stray backslash.
    pub(crate) fn finish(&self) -> Result<(), NotJson> {
        if self.strayed {
            return Err(NotJson);
        }
        match self.first_wide {
            // What precedes that block is ASCII, so a character starts with it.
            Some(start) => core::str::from_utf8(&self.bytes[start..]).map(|_| ()).map_err(|_| NotJson),
            None => Ok(()),
        }
    }

    /// The end of the value that starts at `at`.
    #[inline]
    pub(crate) fn value_end(&mut self, at: usize) -> Result<usize, NotJson> {
        match self.bytes.get(at) {
            Some(b'"') => self.string_end(at),
            Some(b'{' | b'[') => self.container_end(at),
            Some(b'-' | b'0'..=b'9') => number_end(self.bytes, at).ok_or(NotJson),
            Some(b't') => self.word_end(at, b"true"),
            Some(b'f') => self.word_end(at, b"false"),
            Some(b'n') => self.word_end(at, b"null"),
            _ => Err(NotJson),
        }
    }

    /// The end of the string whose opening quote is at `open`, its closing quote included.
    #[inline]
    pub(crate) fn string_end(&mut self, open: usize) -> Result<usize, NotJson> {
        self.seek(open)?;
        let mut closing = self.quotes & after(open - self.start);
        while closing == 0 {
            self.advance()?;
            closing = self.quotes;
        }
        Ok(self.start + closing.trailing_zeros() as usize + 1)
    }

    /// The end of the container whose opening bracket is at `open`, its closing bracket included.
    fn container_end(&mut self, open: usize) -> Result<usize, NotJson> {
        self.seek(open)?;
        let mut brackets = self.brackets & (!0 << (open - self.start));
        let mut nesting = Nesting::new(self.depth);
        loop {
            while brackets != 0 {
                let at = self.start + brackets.trailing_zeros() as usize;
                brackets &= brackets - 1;
                let bracket = self.bytes[at];
                if bracket & OPENS != 0 {
                    nesting.open(bracket)?;
                } else if nesting.close(bracket)? {
                    return Ok(at + 1);
                }
            }
            self.advance()?;
            brackets = self.brackets;
        }
    }

    fn word_end(&self, at: usize, word: &[u8]) -> Result<usize, NotJson> {
        if self.bytes[at..].starts_with(word) { Ok(at + word.len()) } else { Err(NotJson) }
    }

    /// Moves on to the block that holds `at`.
    #[inline]
    fn seek(&mut self, at: usize) -> Result<(), NotJson> {
        debug_assert!(at >= self.start, "the walk only goes forward");
        while at - self.start >= WIDTH {
            self.advance()?;
        }
        Ok(())
    }

    #[inline]
    fn advance(&mut self) -> Result<(), NotJson> {
        if self.bytes.len() - self.start <= WIDTH {
            return Err(NotJson);
        }
        self.start += WIDTH;
        self.load();
        Ok(())
    }

    #[inline]
    fn load(&mut self) {
        let masks = block::classify_at(self.bytes, self.start);
        let escaped = self.escaped(masks.backslashes);
        self.quotes = masks.quotes & !escaped;
        // Opening quotes and what follows them; not the closing ones.
        let inside = prefix_xor(self.quotes) ^ self.in_string;
        self.in_string = if inside >> 63 == 1 { !0 } else { 0 };
        self.brackets = masks.brackets & !inside;
        self.strayed |= masks.backslashes & !inside != 0;
        if masks.wide != 0 && self.first_wide.is_none() {
            self.first_wide = Some(self.start);
        }
    }

    /// The bytes that a backslash before them takes the meaning from.
    #[inline]
    fn escaped(&mut self, backslashes: u64) -> u64 {
        if backslashes == 0 {
            return core::mem::take(&mut self.escape);
        }
        // In a run of backslashes every second one is itself escaped; the
        // subtraction carries through each run and so tells odd from even.
        const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;
        let escaping = backslashes & !self.escape;
        let alternating = ((escaping << 1 | ODD).wrapping_sub(escaping)) ^ ODD;
        let escaped = alternating ^ (backslashes | self.escape);
        self.escape = (alternating & backslashes) >> 63;
        escaped
    }
}

/// The bits above `bit`.
fn after(bit: usize) -> u64 {
    (!0 << bit) << 1
}

/// Each bit becomes the parity of the bits up to and including it.
#[inline]
fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// Set in `[` and `{`, clear in `]` and `}`.
const OPENS: u8 = 0b10;

/// The kinds of the containers that are open, one bit each.
struct Nesting {
    depth: usize,
    limit: usize,
    /// The innermost sixty-four.
    kinds: u64,
    /// The outer ones, sixty-four at a time.
    outer: Vec<u64>,
}

impl Nesting {
    fn new(depth: usize) -> Self {
        Self { depth: 0, limit: MAX_DEPTH.saturating_sub(depth), kinds: 0, outer: Vec::new() }
    }

    #[inline]
    fn open(&mut self, bracket: u8) -> Result<(), NotJson> {
        if self.depth == self.limit {
            return Err(NotJson);
        }
        if self.depth != 0 && self.depth.is_multiple_of(64) {
            self.outer.push(self.kinds);
        }
        self.kinds = self.kinds << 1 | kind(bracket);
        self.depth += 1;
        Ok(())
    }

    /// Whether this closes the outermost container.
    #[inline]
    fn close(&mut self, bracket: u8) -> Result<bool, NotJson> {
        if self.depth == 0 || (self.kinds ^ kind(bracket)) & 1 != 0 {
            return Err(NotJson);
        }
        self.kinds >>= 1;
        self.depth -= 1;
        if self.depth != 0
            && self.depth.is_multiple_of(64)
            && let Some(kinds) = self.outer.pop()
        {
            self.kinds = kinds;
        }
        Ok(self.depth == 0)
    }
}

/// One for braces, zero for square brackets.
fn kind(bracket: u8) -> u64 {
    u64::from(bracket >> 5 & 1)
}
