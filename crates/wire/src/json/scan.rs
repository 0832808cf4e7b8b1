//! Where a value ends.
//!
//! Strings that stand alone are walked a lane at a time and checked
//! for what JSON does not allow in them. Containers that are skipped are walked
//! in blocks; from one block to the next goes whether it ended inside a string
//! and whether its last byte escapes the first of the next.

use core::hint::cold_path;

use fearless_simd::{Level, Simd, dispatch};

use super::{
    NotJson,
    block::{LANE, Lanes, PADDING, WIDTH, first_block, special},
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
/// It holds no control character; what its escapes mean is not looked at.
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
    dispatch!(Level::new(), simd => container_end_in(simd, text, open))
}

#[inline(always)]
fn container_end_in<S: Simd>(simd: S, text: &[u8], open: usize) -> Result<usize, NotJson> {
    let mut nesting = Nesting::NONE;
    let mut strings = Strings::default();
    let mut padded = PADDING;
    let mut start = open;
    while let Some(rest @ [_, ..]) = text.get(start..) {
        let lanes = Lanes::of(simd, first_block(rest, &mut padded));
        let backslashes = lanes.equal(b'\\');
        let (inside, _) = strings.inside(lanes.equal(b'"'), backslashes);
        // No JSON text has a backslash outside its strings.
        if backslashes & !inside != 0 {
            return Err(NotJson);
        }
        if inside != !0 {
            let brackets = Brackets::of(lanes);
            let mut left = (brackets.opens | brackets.closes) & !inside;
            while left != 0 {
                let bit = left & left.wrapping_neg();
                left &= left - 1;
                if nesting.pass(bit, &brackets)? {
                    return Ok(start + bit.trailing_zeros() as usize + 1);
                }
            }
        }
        start += WIDTH;
    }
    Err(NotJson)
}

/// Where the brackets of a block are, those in strings included.
pub(super) struct Brackets {
    /// `{` and `[`.
    pub(super) opens: u64,
    /// `}` and `]`.
    pub(super) closes: u64,
    /// `{` and `}`, and letters.
    pub(super) braces: u64,
}

impl Brackets {
    #[inline(always)]
    pub(super) fn of<S: Simd>(lanes: Lanes<S>) -> Self {
        // Braces and square brackets differ in one bit.
        let folded = lanes.with_bit(0x20);
        Self { opens: folded.equal(b'{'), closes: folded.equal(b'}'), braces: lanes.above(b'_') }
    }
}

/// What one block hands to the next.
#[derive(Default)]
pub(super) struct Strings {
    /// All ones if the last block ended inside a string.
    pub(super) open: u64,
    /// One if its last byte escapes the first of the next.
    pub(super) escape: u64,
}

impl Strings {
    /// The bytes inside strings, from the opening quote up to the closing one, which is not included; and of these the
    /// ones that a backslash stands before.
    #[inline(always)]
    pub(super) fn inside(&mut self, quotes: u64, backslashes: u64) -> (u64, u64) {
        let escaped = if backslashes | self.escape == 0 { 0 } else { self.escaped(backslashes) };
        let inside = prefix_xor(quotes & !escaped) ^ self.open;
        self.open = if inside >> 63 == 1 { !0 } else { 0 };
        (inside, escaped)
    }

    /// The bytes that a backslash before them takes the meaning from.
    #[inline(always)]
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
#[inline(always)]
fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// The kinds of the containers that are open, one bit each.
pub(super) struct Nesting {
    /// The innermost ones, up to sixty-three: one for an object, zero for an array. Above them stands a one.
    kinds: u64,
    /// The outer ones, in words that are full.
    outer: Vec<u64>,
}

impl Nesting {
    pub(super) const NONE: Self = Self { kinds: 1, outer: Vec::new() };

    /// Passes the bracket that `bit` stands for, and returns whether it closes the outermost container.
    #[inline(always)]
    pub(super) fn pass(&mut self, bit: u64, brackets: &Brackets) -> Result<bool, NotJson> {
        let kind = u64::from(brackets.braces & bit != 0);
        if brackets.opens & bit != 0 {
            if self.kinds >> 63 != 0 {
                cold_path();
                self.outer.push(core::mem::replace(&mut self.kinds, 1));
            }
            self.kinds = self.kinds << 1 | kind;
            return Ok(false);
        }
        if self.kinds & 1 != kind {
            return Err(NotJson);
        }
        self.kinds >>= 1;
        if self.kinds != 1 {
            return Ok(false);
        }
        self.kinds = self.outer.pop().unwrap_or(1);
        Ok(self.kinds == 1)
    }

    /// One if the innermost container that is open is an object, else zero.
    #[inline(always)]
    pub(super) fn kind(&self) -> u64 {
        self.kinds & 1
    }
}
