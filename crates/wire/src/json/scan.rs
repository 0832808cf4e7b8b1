//! Where a value ends.
//!
//! Strings that stand alone are walked a lane at a time and checked
//! for what JSON does not allow in them. Containers that are skipped are walked
//! in blocks; from one block to the next goes whether it ended inside a string
//! and whether its last byte escapes the first of the next.

use core::hint::cold_path;

use super::{
    NotJson,
    block::{self, Block, LANE, Lanes, OPENS, WIDTH, special},
    number::number_end,
};

/// The end of the value that starts at `at`: its own text, without what surrounds it.
///
/// `None` if no value starts there, a string is not closed or brackets do not
/// match. Scalars are checked properly, the
/// inside of containers and UTF-8 are not (see the module).
#[must_use]
pub fn value_end(bytes: &[u8], at: usize) -> Option<usize> {
    let text = bytes.get(at..)?;
    let end = match text.first()? {
        b'"' => at + string_end(text).ok()?.0,
        b'{' | b'[' => container_end(bytes, at).ok()?,
        _ => at + scalar_end(text).ok()?,
    };
    Some(end)
}

/// A key or a value as it stood.
pub(crate) struct Token<'a> {
    /// Its text; of a string with the quotes.
    pub(crate) text: &'a [u8],
    /// It is a string that holds a backslash.
    pub(crate) escaped: bool,
}

impl<'a> Token<'a> {
    /// A string without its quotes.
    #[inline]
    pub(crate) fn inner(&self) -> &'a [u8] {
        &self.text[1..self.text.len() - 1]
    }
}

/// The end of the string that `text` starts with, and whether it holds a backslash.
///
/// It holds no control character; what its escapes say is not looked at.
#[inline]
pub(super) fn string_end(text: &[u8]) -> Result<(usize, bool), NotJson> {
    let mut at = 1;
    let mut escaped = false;
    loop {
        at += plain_prefix(text.get(at..).unwrap_or_default());
        match text.get(at) {
            Some(b'"') => return Ok((at + 1, escaped)),
            Some(b'\\') => {
                escaped = true;
                at += 2;
            }
            _ => return Err(NotJson),
        }
    }
}

/// The end of the number or word that `text` starts with.
#[inline]
pub(super) fn scalar_end(text: &[u8]) -> Result<usize, NotJson> {
    let word = |word: &[u8]| if text.starts_with(word) { Ok(word.len()) } else { Err(NotJson) };
    match text.first() {
        Some(b'-' | b'0'..=b'9') => number_end(text).ok_or(NotJson),
        Some(b't') => word(b"true"),
        Some(b'f') => word(b"false"),
        Some(b'n') => word(b"null"),
        _ => Err(NotJson),
    }
}

/// How many bytes at the start of `text` stand for themselves inside quotes.
#[inline]
pub(super) fn plain_prefix(text: &[u8]) -> usize {
    let mut rest = text;
    while let Some((lane, after)) = rest.split_first_chunk::<LANE>() {
        if let Some(at) = special(lane) {
            return text.len() - rest.len() + at;
        }
        rest = after;
    }
    let mut last = [b' '; LANE];
    last[..rest.len()].copy_from_slice(rest);
    special(&last).map_or(text.len(), |at| text.len() - rest.len() + at)
}

/// The end of the container that starts at `open`.
///
/// Depth is no fault (D43): nothing recurses, and what is kept of open containers is one bit each.
pub(super) fn container_end(text: &[u8], open: usize) -> Result<usize, NotJson> {
    if text.len() < WIDTH {
        return container_end(&block::padded(text), open);
    }
    let mut nesting = Nesting::NONE;
    let mut strings = Strings::default();
    let mut start = open;
    loop {
        let (block, surplus) = block_at(text, start)?;
        let lanes = Lanes::of(block);
        let (quotes, backslashes) = lanes.quotes_and_backslashes();
        let (quotes, backslashes) = (quotes >> surplus, backslashes >> surplus);
        let (inside, _) = strings.inside(quotes, backslashes);
        // No JSON text has a backslash outside its strings.
        if backslashes & !inside != 0 {
            return Err(NotJson);
        }
        if inside != !0 {
            let mut brackets = (lanes.brackets() >> surplus) & !inside;
            while brackets != 0 {
                let at = brackets.trailing_zeros() as usize;
                brackets &= brackets - 1;
                // The remainder changes nothing; it spares the bounds check.
                let bracket = block[(at + surplus) % WIDTH];
                if bracket & OPENS != 0 {
                    nesting.open(bracket);
                } else if nesting.close(bracket)? {
                    return Ok(start + at + 1);
                }
            }
        }
        start += WIDTH;
    }
}

/// The block that starts at `start`, and how many bytes before that it has been given to make it whole. The text has a
/// block's length at least.
#[inline(always)]
pub(super) fn block_at(text: &[u8], start: usize) -> Result<(&Block, usize), NotJson> {
    let rest = text.get(start..).unwrap_or_default();
    match (rest.first_chunk(), text.last_chunk()) {
        (Some(block), _) => Ok((block, 0)),
        // The last one reaches back over bytes that have been looked at.
        (None, Some(block)) if !rest.is_empty() => Ok((block, WIDTH - rest.len())),
        (None, _) => Err(NotJson),
    }
}

/// What one block tells the next.
#[derive(Default)]
pub(super) struct Strings {
    /// All ones if the last block ended inside a string.
    pub(super) open: u64,
    /// One if its last byte escapes the first of the next.
    escape: u64,
}

impl Strings {
    /// The bytes inside strings, from the opening quote up to the closing one, which is not included; and of these the
    /// ones that a backslash stands before.
    #[inline]
    pub(super) fn inside(&mut self, quotes: u64, backslashes: u64) -> (u64, u64) {
        if backslashes | self.escape == 0 {
            return (self.between(quotes), 0);
        }
        let escaped = self.escaped(backslashes);
        (self.between(quotes & !escaped), escaped)
    }

    #[inline]
    fn between(&mut self, quotes: u64) -> u64 {
        let inside = prefix_xor(quotes) ^ self.open;
        self.open = if inside >> 63 == 1 { !0 } else { 0 };
        inside
    }

    /// The bytes that a backslash before them takes the meaning from.
    #[inline]
    fn escaped(&mut self, backslashes: u64) -> u64 {
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

/// Each bit becomes the parity of the bits up to and including it.
#[inline]
fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// The kinds of the containers that are open, one bit each.
pub(super) struct Nesting {
    /// One more than are open, so that the first needs no room made for it.
    depth: usize,
    /// The innermost ones, up to sixty-four.
    kinds: u64,
    /// The outer ones, sixty-four at a time.
    outer: Vec<u64>,
}

impl Nesting {
    pub(super) const NONE: Self = Self { depth: 1, kinds: 0, outer: Vec::new() };

    #[inline]
    pub(super) fn open(&mut self, bracket: u8) {
        if self.depth.is_multiple_of(64) {
            cold_path();
            self.outer.push(self.kinds);
        }
        self.kinds = self.kinds << 1 | kind(bracket);
        self.depth += 1;
    }

    /// Whether this closes the outermost container.
    #[inline]
    pub(super) fn close(&mut self, bracket: u8) -> Result<bool, NotJson> {
        if (self.kinds ^ kind(bracket)) & 1 != 0 {
            return Err(NotJson);
        }
        self.kinds >>= 1;
        self.depth -= 1;
        if self.depth == 1 {
            return Ok(true);
        }
        if self.depth.is_multiple_of(64) {
            self.kinds = self.outer.pop().unwrap_or_default();
        }
        Ok(false)
    }

    /// All ones if the innermost container that is open is an object, else zero.
    #[inline]
    pub(super) fn object_mask(&self) -> u64 {
        (self.kinds & 1).wrapping_neg()
    }
}

/// One for braces, zero for square brackets.
fn kind(bracket: u8) -> u64 {
    u64::from(bracket >> 5 & 1)
}
