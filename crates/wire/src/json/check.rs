//! Where a container ends, with the grammar inside it checked.
//!
//! The rule to know first: what may follow what is decided for the sixty-four
//! bytes of a block at once, by masks in which bit `n` stands for byte `n`.
//! Two things depend on more than the token before: whether a closing bracket
//! is of the right kind, and whether a comma leads to a key. Both are decided
//! bracket by bracket. Numbers and words are read one by one.

use core::hint::cold_path;

use super::{
    NotJson,
    block::{self, Lanes, Marks, WIDTH},
    scan::{Nesting, Strings, block_at, scalar_end},
};

/// The end of the container that starts at `open`, all of whose text is JSON.
///
/// Not checked: UTF-8, whether two keys are the same, whether surrogates make pairs, and how large a number is.
pub(super) fn checked_end(text: &[u8], open: usize) -> Result<usize, NotJson> {
    if text.len() < WIDTH {
        return checked_end(&block::padded(text), open);
    }
    let mut nesting = Nesting::NONE;
    let mut strings = Strings::default();
    let mut before = Before::default();
    let mut start = open;
    loop {
        let (block, surplus) = block_at(text, start)?;
        let lanes = Lanes::of(block);
        let (quotes, backslashes) = lanes.quotes_and_backslashes();
        let (quotes, backslashes) = (quotes >> surplus, backslashes >> surplus);
        let was_inside = strings.open & 1;
        let (inside, escaped) = strings.inside(quotes, backslashes);
        let control = lanes.control() >> surplus;
        if inside == !0 && was_inside == 1 {
            if control != 0 {
                return Err(NotJson);
            }
            check_escapes(text, start, escaped)?;
            start += WIDTH;
            continue;
        }
        let marks = Marks::of(block, control != 0).after(surplus);
        let valid = !0 >> surplus;
        let found = before.read(inside, was_inside, valid, &marks);
        let mut wrong = found.wrong | control & inside | backslashes & !inside;
        let mut brackets = (marks.opens | marks.closes) & !inside;
        // The bytes up to the last bracket that was looked at.
        let mut done = 0;
        while brackets != 0 {
            let at = brackets.trailing_zeros() as usize;
            let upto = brackets ^ (brackets - 1);
            brackets &= brackets - 1;
            wrong |= found.misplaced(&nesting) & upto & !done;
            done = upto;
            // The remainder changes nothing; it spares the bounds check.
            let bracket = block[(at + surplus) % WIDTH];
            if bracket & block::OPENS != 0 {
                nesting.open(bracket);
            } else if nesting.close(bracket)? {
                check_escapes(text, start, escaped & done)?;
                check_words(text, start, found.words & done)?;
                return if wrong & done == 0 { Ok(start + at + 1) } else { Err(NotJson) };
            }
        }
        wrong |= found.misplaced(&nesting) & !done;
        check_escapes(text, start, escaped)?;
        check_words(text, start, found.words)?;
        if wrong & valid != 0 {
            return Err(NotJson);
        }
        start += WIDTH;
    }
}

/// What the bytes before a block mean for its first ones: one bit each.
#[derive(Default)]
struct Before {
    /// The last byte belongs to a number or word.
    word: u64,
    /// The last token is the end of a value, an opening bracket, a comma or opening brace, or a string behind one of these
    /// two, and only white space has followed.
    value: u64,
    open: u64,
    key_place: u64,
    key: u64,
    /// The string that is not closed is the first token behind a comma or an opening brace.
    key_open: u64,
}

/// What one block holds.
struct Found {
    /// Tokens that may not follow the one before them.
    wrong: u64,
    /// First bytes of numbers and words.
    words: u64,
    /// Tokens that only an object has: the colon of a key.
    in_object: u64,
    /// Tokens that only an array has: a value behind a comma that is not a key, or what stands behind it.
    in_array: u64,
}

impl Found {
    /// The tokens that the container that is open does not have.
    #[inline(always)]
    fn misplaced(&self, nesting: &Nesting) -> u64 {
        let object = nesting.object_mask();
        self.in_array & object | self.in_object & !object
    }
}

impl Before {
    /// Reads a block with these bytes `inside` strings, and these of `marks` outside them.
    #[inline(always)]
    fn read(&mut self, inside: u64, was_inside: u64, valid: u64, marks: &Marks) -> Found {
        let after_inside = inside << 1 | was_inside;
        let (string_starts, string_ends) = (inside & !after_inside, after_inside & !inside);
        let outside = !inside & !after_inside & valid;
        let spaces = marks.spaces & outside;
        let (opens, closes) = (marks.opens & outside, marks.closes & outside);
        let (commas, colons) = (marks.commas & outside, marks.colons & outside);
        let words = outside & !(spaces | opens | closes | commas | colons);
        let after_words = words << 1 | self.word;
        self.word = words >> 63;

        let behind_value = follow(&mut self.value, string_ends | closes, after_words & !words, spaces);
        let behind_open = follow(&mut self.open, opens, 0, spaces);
        let key_places = follow(&mut self.key_place, commas | marks.open_braces & outside, 0, spaces);
        // Adding the first byte of a string to all of its bytes gives the byte behind them: its closing quote.
        let (sum, is_open) = inside.overflowing_add(string_starts & key_places | self.key_open);
        self.key_open = u64::from(is_open);
        let behind_key = follow(&mut self.key, sum & !inside, 0, spaces);

        // Every token but the first of a value is of one of these kinds, so that with this nothing is left open.
        let wrong = behind_value & !(commas | colons | closes)
            | commas & !behind_value
            | closes & !(behind_value | behind_open)
            | colons & !behind_key;
        Found {
            wrong,
            words: words & !after_words,
            in_object: behind_key & colons,
            in_array: key_places & !(string_starts | closes) | behind_key & !colons,
        }
    }
}

/// The first byte behind each of `tokens` that is not white space, and behind those that end just before `already`.
///
/// `pending` says whether one is still looked for where the block begins, and then where it ends.
#[inline(always)]
fn follow(pending: &mut u64, tokens: u64, already: u64, spaces: u64) -> u64 {
    let after = tokens << 1 | *pending | already;
    // Adding its first bit to a run of ones gives the bit behind the run.
    let (sum, is_pending) = spaces.overflowing_add(after & spaces);
    *pending = tokens >> 63 | u64::from(is_pending);
    (after | sum) & !spaces
}

/// Whether the escapes of a string, given with its quotes, are those that JSON has.
pub(super) fn has_sound_escapes(quoted: &[u8]) -> bool {
    let mut rest = quoted;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let Some(len) = escape_len(&rest[at + 1..]) else { return false };
        rest = &rest[at + 1 + len..];
    }
    true
}

/// Checks the bytes of one block that a backslash stands before.
#[inline]
fn check_escapes(text: &[u8], start: usize, mut escaped: u64) -> Result<(), NotJson> {
    while escaped != 0 {
        cold_path();
        let at = start + escaped.trailing_zeros() as usize;
        escaped &= escaped - 1;
        // Behind the end of the text the string is not closed either.
        escape_len(text.get(at..).unwrap_or_default()).ok_or(NotJson)?;
    }
    Ok(())
}

/// The length of an escape without its backslash; `None` if there is no such escape.
#[inline]
fn escape_len(text: &[u8]) -> Option<usize> {
    match text.first()? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(1),
        b'u' => text.get(1..5)?.iter().all(u8::is_ascii_hexdigit).then_some(5),
        _ => None,
    }
}

/// Checks the numbers and words of one block, which start at these bytes: nothing but a mark or white space may follow one.
#[inline]
fn check_words(text: &[u8], start: usize, mut words: u64) -> Result<(), NotJson> {
    while words != 0 {
        let word = &text[start + words.trailing_zeros() as usize..];
        words &= words - 1;
        let end = scalar_end(word)?;
        if !matches!(word.get(end), Some(b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r')) {
            return Err(NotJson);
        }
    }
    Ok(())
}
