//! Where a container ends, with the grammar inside it checked.
//!
//! The rule to know first: what may follow what is decided for the sixty-four
//! bytes of a block at once, by masks in which bit `n` stands for byte `n`.
//! Two things depend on more than the token before: whether a closing bracket
//! is of the right kind, and whether a comma leads to a key. Both are decided
//! bracket by bracket. Numbers, words and escapes are read one by one where
//! the masks leave them open.

use fearless_simd::{Level, Simd, dispatch};

use super::{
    NotJson,
    block::{Lanes, PADDING, WIDTH, first_block},
    scan::{Brackets, Nesting, Strings, scalar_end},
};

/// The end of the container that starts at `open`, all of whose text is JSON.
///
/// Not checked: UTF-8, whether two keys are the same, whether surrogates make pairs, and how large a number is.
pub(super) fn checked_end(text: &[u8], open: usize) -> Result<usize, NotJson> {
    dispatch!(Level::new(), simd => checked_end_in(simd, text, open))
}

#[inline(always)]
fn checked_end_in<S: Simd>(simd: S, text: &[u8], open: usize) -> Result<usize, NotJson> {
    let mut nesting = Nesting::NONE;
    let mut strings = Strings::default();
    let mut before = Before::default();
    let mut padded = PADDING;
    let mut start = open;
    while let Some(rest @ [_, ..]) = text.get(start..) {
        let lanes = if let Some(end) = text.last_chunk()
            && rest.len() < WIDTH
            && before.word | strings.escape == 0
        {
            // The last block reaches back over bytes that have been read, which are white space to it: to copy what is left
            // into a block of its own took a tenth of the time for a short message. What a word or a backslash has begun
            // would not go on, though.
            let read = WIDTH - rest.len();
            start -= read;
            Lanes::of(simd, end).without_first(simd, read)
        } else {
            Lanes::of(simd, first_block(rest, &mut padded))
        };
        let backslashes = lanes.equal(b'\\');
        let was_inside = strings.open & 1;
        let (inside, escaped) = strings.inside(lanes.equal(b'"'), backslashes);
        // Those of one letter are sound; the others are looked at.
        let escaped = if escaped == 0 { 0 } else { escaped & !lanes.among(b"\"\\/bfnrt") };
        let control = lanes.control();
        if inside == !0 && was_inside == 1 {
            if control != 0 {
                return Err(NotJson);
            }
            check_one_by_one(text, start, escaped, 0)?;
            start += WIDTH;
            continue;
        }
        let brackets = Brackets::of(lanes);
        let marks = Marks::of(lanes, control != 0);
        let mut found = before.read(inside, was_inside, &brackets, &marks);
        found.words = unsure_words(lanes, found.words, found.all_words);
        let mut wrong = found.wrong | control & inside | backslashes & !inside;
        let places = (brackets.opens | brackets.closes) & !inside;
        let around = nesting.kind();
        // Those behind which an object begins or goes on.
        let mut into_objects = 0;
        let mut left = places;
        while left != 0 {
            let (bit, upto) = (left & left.wrapping_neg(), left ^ (left - 1));
            left &= left - 1;
            if nesting.pass(bit, &brackets)? {
                wrong |= found.misplaced(objects(around, into_objects, places));
                check_one_by_one(text, start, escaped & upto, found.words & upto)?;
                return if wrong & upto == 0 { Ok(start + bit.trailing_zeros() as usize + 1) } else { Err(NotJson) };
            }
            into_objects |= bit & nesting.kind().wrapping_neg();
        }
        wrong |= found.misplaced(objects(around, into_objects, places));
        check_one_by_one(text, start, escaped, found.words)?;
        if wrong != 0 {
            return Err(NotJson);
        }
        start += WIDTH;
    }
    Err(NotJson)
}

/// The bytes of a block that belong to objects; a bracket belongs to the container around it.
///
/// `around` is one if the block begins in an object. An object goes on behind the brackets `into_objects`, up to the next of
/// all brackets.
#[inline(always)]
fn objects(around: u64, into_objects: u64, brackets: u64) -> u64 {
    let first = (brackets ^ brackets.wrapping_sub(1)) & around.wrapping_neg();
    let ends = follow(&mut 0, into_objects, 0, !brackets);
    first | ends.wrapping_sub(into_objects) << 1
}

/// Where the bytes are that stand between values, those in strings included.
struct Marks {
    commas: u64,
    colons: u64,
    /// White space.
    spaces: u64,
}

impl Marks {
    /// Those of a block. Tabs and line breaks count only if there are control characters.
    #[inline(always)]
    fn of<S: Simd>(lanes: Lanes<S>, has_control: bool) -> Self {
        let breaks = if has_control { lanes.among(b"\t\n\r") } else { 0 };
        Self { commas: lanes.equal(b','), colons: lanes.equal(b':'), spaces: lanes.equal(b' ') | breaks }
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
    /// All of their bytes.
    all_words: u64,
    /// Tokens that only an object has: the colon of a key.
    in_object: u64,
    /// Tokens that only an array has: a value behind a comma that is not a key, or what stands behind it.
    in_array: u64,
}

impl Found {
    /// Finds the tokens that their containers do not have, given the bytes in `objects`.
    #[inline(always)]
    fn misplaced(&self, objects: u64) -> u64 {
        self.in_array & objects | self.in_object & !objects
    }
}

impl Before {
    /// Reads a block with these bytes `inside` strings, and these brackets and marks.
    #[inline(always)]
    fn read(&mut self, inside: u64, was_inside: u64, brackets: &Brackets, marks: &Marks) -> Found {
        let after_inside = inside << 1 | was_inside;
        let (string_starts, string_ends) = (inside & !after_inside, after_inside & !inside);
        let outside = !inside & !after_inside;
        let spaces = marks.spaces & outside;
        // Most senders write no white space.
        if spaces == 0 {
            self.read_tokens(inside, (string_starts, string_ends), outside, 0, brackets, marks)
        } else {
            self.read_tokens(inside, (string_starts, string_ends), outside, spaces, brackets, marks)
        }
    }

    #[inline(always)]
    fn read_tokens(
        &mut self,
        inside: u64,
        (string_starts, string_ends): (u64, u64),
        outside: u64,
        spaces: u64,
        brackets: &Brackets,
        marks: &Marks,
    ) -> Found {
        let (opens, closes) = (brackets.opens & outside, brackets.closes & outside);
        let (commas, colons) = (marks.commas & outside, marks.colons & outside);
        let words = outside & !(spaces | opens | closes | commas | colons);
        let after_words = words << 1 | self.word;
        self.word = words >> 63;

        let behind_value = follow(&mut self.value, string_ends | closes, after_words & !words, spaces);
        let behind_open = follow(&mut self.open, opens, 0, spaces);
        let key_places = follow(&mut self.key_place, commas | brackets.braces & opens, 0, spaces);
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
            all_words: words,
            in_object: behind_key & colons,
            in_array: key_places & !(string_starts | closes) | behind_key & !colons,
        }
    }
}

/// The first byte behind each of `tokens` that is not white space, and behind those that end just before `already`.
///
/// `pending` is whether one is still looked for where the block begins, and then where it ends.
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

/// Checks what the masks of a block leave open.
#[inline(always)]
fn check_one_by_one(text: &[u8], start: usize, escaped: u64, words: u64) -> Result<(), NotJson> {
    if escaped != 0 {
        check_escapes(text, start, escaped)?;
    }
    if words == 0 { Ok(()) } else { check_words(text, start, words) }
}

/// Checks the bytes of one block that a backslash stands before.
#[inline(never)]
fn check_escapes(text: &[u8], start: usize, mut escaped: u64) -> Result<(), NotJson> {
    while escaped != 0 {
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

/// Chooses, of the first bytes of numbers and words, those that have to be looked at one by one: what the end of the block
/// cuts, and all of them where one has an exponent or may be wrong.
#[inline(always)]
fn unsure_words<S: Simd>(lanes: Lanes<S>, starts: u64, words: u64) -> u64 {
    let digits = lanes.digits() & words;
    let (dots, signs) = (lanes.equal(b'.') & words, lanes.equal(b'-') & words);
    let (signed, numbers) = (signs & starts, digits | dots | signs);
    let first_digits = starts & digits | signed << 1;
    let fractions = dots << 1 & digits;
    let strange = signs & !starts
        | signed << 1 & !digits
        | dots & !(digits << 1)
        | dots << 1 & !digits
        // Adding its first digit to all of a fraction gives the byte behind it.
        | fractions.wrapping_add(digits) & dots
        | (first_digits & lanes.equal(b'0')) << 1 & digits
        | numbers << 1 & words & !numbers;
    let cut = !u64::MAX.checked_shr(words.leading_ones()).unwrap_or(0);
    if strange != 0 {
        return starts;
    }
    let unsure = starts & (cut | !numbers);
    if unsure == 0 { 0 } else { unsure & !literals(lanes, !words) }
}

/// The first bytes of `true`, `false` and `null`, behind which one of `ends` stands.
#[inline(always)]
fn literals<S: Simd>(lanes: Lanes<S>, ends: u64) -> u64 {
    let (u, e, l) = (lanes.equal(b'u'), lanes.equal(b'e'), lanes.equal(b'l'));
    let yes = lanes.equal(b't') & lanes.equal(b'r') >> 1 & u >> 2 & e >> 3;
    let null = lanes.equal(b'n') & u >> 1 & l >> 2 & l >> 3;
    let no = lanes.equal(b'f') & lanes.equal(b'a') >> 1 & l >> 2 & lanes.equal(b's') >> 3 & e >> 4;
    (yes | null) & ends >> 4 | no & ends >> 5
}

/// Checks the numbers and words of one block, which start at these bytes: nothing but a mark or white space may follow one.
#[inline(never)]
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

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};
    use serde_json::value::RawValue;

    use super::*;

    /// What stands in JSON, and what nearly does.
    const PIECES: [&str; 66] = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        " ",
        "\n",
        "\t ",
        "\r\n",
        "\"\"",
        "\"a\"",
        "\"a\":",
        "\"b\":1,",
        "[1,",
        ",2]",
        "{}",
        "[]",
        "true",
        "false",
        "null",
        "nul",
        "truex",
        "falsee",
        "tru",
        "e",
        "l",
        "null,",
        "0",
        "1",
        "-1",
        "-",
        "01",
        "-01",
        "00",
        "10",
        "1.5",
        "0.5",
        "-0.25",
        "1.",
        ".5",
        "1..2",
        "1.2.3",
        "1-2",
        "5-",
        "--1",
        "1e5",
        "1E+10",
        "2e",
        "1e-",
        "123456789012",
        "1a",
        "\"\\n\\u00e9\\\\\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\t\"",
        "\\",
        "\"é😀\"",
        "\"{[,:]}\"",
        "\u{7f}",
    ];

    fn number() -> impl Strategy<Value = String> {
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,2})?"
    }

    fn string() -> impl Strategy<Value = String> {
        vec(
            select(vec![
                "a",
                "longer text ",
                "{",
                "]",
                ",",
                ":",
                "\\\"",
                "\\\\",
                "\\/",
                "\\b\\f\\r\\t",
                "\\u00E9",
                "é",
            ]),
            0..30,
        )
        .prop_map(|pieces| format!("\"{}\"", pieces.concat()))
    }

    fn value() -> impl Strategy<Value = String> {
        let space = || select(vec!["", "", "", " ", "\n  "]);
        let leaf =
            prop_oneof![select(vec!["true", "false", "null", "[]", "{}"]).prop_map(String::from), number(), string()];
        leaf.prop_recursive(6, 60, 8, move |inner| {
            let element = (space(), inner.clone(), space()).prop_map(|(a, value, b)| format!("{a}{value}{b}"));
            let member =
                (string(), space(), inner, space()).prop_map(|(key, a, value, b)| format!("{a}{key}:{b}{value}"));
            prop_oneof![
                vec(element, 0..8).prop_map(|all| format!("[{}]", all.join(","))),
                vec(member, 0..8).prop_map(|all| format!("{{{}}}", all.join(","))),
            ]
        })
    }

    /// A value in which something may have been replaced.
    fn nearly_json() -> impl Strategy<Value = String> {
        (value(), any::<proptest::sample::Index>(), 0..3_usize, select(PIECES.to_vec()), any::<bool>()).prop_map(
            |(mut text, at, len, piece, is_sound)| {
                let mut start = at.index(text.len());
                let mut end = (start + len).min(text.len());
                while !text.is_char_boundary(start) {
                    start -= 1;
                }
                while !text.is_char_boundary(end) {
                    end += 1;
                }
                if !is_sound {
                    text.replace_range(start..end, piece);
                }
                text
            },
        )
    }

    /// Whether it ends where `inside` ends, for every kind of vectors that this machine has.
    #[track_caller]
    fn check(inside: &str, before: usize) {
        let container = format!("[{inside}]");
        let is_json = serde_json::from_str::<&RawValue>(&container).is_ok();
        // In other places of a block, and with more behind it.
        let text = format!("{}{container}{}", " ".repeat(before), ",\"after\":[".repeat(before % 7));
        let ends = [
            checked_end(text.as_bytes(), before),
            dispatch!(Level::baseline(), simd => checked_end_in(simd, text.as_bytes(), before)),
            #[cfg(target_arch = "x86_64")]
            match Level::new().as_avx2() {
                Some(avx2) => avx2.vectorize(|| checked_end_in(avx2, text.as_bytes(), before)),
                None => checked_end(text.as_bytes(), before),
            },
            #[cfg(target_arch = "x86_64")]
            match Level::new().as_sse4_2() {
                Some(sse4_2) => sse4_2.vectorize(|| checked_end_in(sse4_2, text.as_bytes(), before)),
                None => checked_end(text.as_bytes(), before),
            },
        ];
        let end = before + container.len();
        assert!(ends.iter().all(|found| (*found == Ok(end)) == is_json), "{is_json} {ends:?} {end} {container}");
        if is_json {
            assert_eq!(crate::json::value_end(text.as_bytes(), before), Some(end));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn a_container_is_json_to_us_where_it_is_to_others(inside in nearly_json(), before in 0..70_usize) {
            check(&inside, before);
        }

        #[test]
        fn pieces_of_json_make_json_to_us_where_they_do_to_others(
            pieces in vec(select(PIECES.to_vec()), 0..12), filler in string(), before in 0..70_usize,
        ) {
            check(&pieces.concat(), before);
            check(&format!("{filler},{}", pieces.concat()), before);
            check(&format!("{},{filler}", pieces.concat()), before);
        }
    }

    #[test]
    fn depth_of_any_kind_is_no_fault() {
        for depth in [1, 60, 62, 63, 64, 65, 127, 128, 1000] {
            for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[[{\"b\":[", "]}]]")] {
                let text = format!("[{}0{}]", open.repeat(depth), close.repeat(depth));
                assert_eq!(checked_end(text.as_bytes(), 0), Ok(text.len()), "{depth} {open}");
                let wrong = format!("[{}0{}]", open.repeat(depth), close.repeat(depth - 1));
                assert_eq!(checked_end(wrong.as_bytes(), 0), Err(NotJson), "{depth} {open}");
                let crossed = format!("[{}0{}", open.repeat(depth), close.repeat(depth).replace(['}', ']'], "}")) + "]";
                assert_eq!(checked_end(crossed.as_bytes(), 0).is_ok(), !close.contains(']'), "{depth} {open}");
            }
        }
    }
}
