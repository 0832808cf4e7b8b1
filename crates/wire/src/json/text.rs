//! Strings: quoting, checking, and their value.

use std::borrow::Cow;

use super::scan::plain_prefix;

/// Appends `text` as a JSON string, with quotes and the escapes that JSON demands.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, special) = rest.split_at(plain_prefix(rest));
        out.extend_from_slice(plain);
        let Some((byte, after)) = special.split_first() else { break };
        rest = after;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            control => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(control >> 4)]);
                out.push(HEX[usize::from(control & 15)]);
            }
        }
    }
    out.push(b'"');
}

/// Whether `text` is exactly one JSON string in quotes, nothing around it.
#[must_use]
pub fn is_string(text: &[u8]) -> bool {
    core::str::from_utf8(text).is_ok() && unescape(text).is_some()
}

/// The value of a JSON string given with its quotes; borrowed where it holds no escape.
///
/// `None` for anything else. A lone surrogate becomes the three bytes that
/// UTF-8 would use for it (WTF-8), so that strings that differ stay different.
/// Bytes that are not UTF-8 are passed on as they are.
#[must_use]
pub fn unescape(quoted: &[u8]) -> Option<Cow<'_, [u8]>> {
    let [b'"', text @ .., b'"'] = quoted else { return None };
    let plain = plain_prefix(text);
    if plain == text.len() {
        return Some(Cow::Borrowed(text));
    }
    let mut value = Vec::with_capacity(text.len());
    let mut rest = text;
    loop {
        let (plain, special) = rest.split_at(plain_prefix(rest));
        value.extend_from_slice(plain);
        rest = match special {
            [] => return Some(Cow::Owned(value)),
            [b'\\', b'u', digits @ ..] => unescape_unicode(digits, &mut value)?,
            [b'\\', escaped, after @ ..] => {
                value.push(match escaped {
                    b'"' | b'\\' | b'/' => *escaped,
                    b'b' => 0x08,
                    b'f' => 0x0c,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    _ => return None,
                });
                after
            }
            _ => return None,
        };
    }
}

/// The value of a JSON string as text; `None` for anything else, and for what UTF-8 cannot hold.
#[must_use]
pub fn text(quoted: &[u8]) -> Option<Cow<'_, str>> {
    match unescape(quoted)? {
        Cow::Borrowed(value) => core::str::from_utf8(value).ok().map(Cow::Borrowed),
        Cow::Owned(value) => String::from_utf8(value).ok().map(Cow::Owned),
    }
}

/// Reads what follows `\u`, a second half of a surrogate pair included; gives what follows that.
fn unescape_unicode<'a>(digits: &'a [u8], value: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (unit, rest) = hex_unit(digits)?;
    if (0xD800..0xDC00).contains(&unit)
        && let [b'\\', b'u', second @ ..] = rest
        && let Some((low @ 0xDC00..=0xDFFF, rest)) = hex_unit(second)
    {
        push_code_point(value, 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00));
        return Some(rest);
    }
    push_code_point(value, unit);
    Some(rest)
}

fn hex_unit(digits: &[u8]) -> Option<(u32, &[u8])> {
    let (four, rest) = digits.split_first_chunk::<4>()?;
    let mut unit = 0;
    for &digit in four {
        unit = unit << 4 | char::from(digit).to_digit(16)?;
    }
    Some((unit, rest))
}

/// UTF-8, stretched to surrogates: `char` cannot hold them.
fn push_code_point(value: &mut Vec<u8>, code: u32) {
    if let Some(character) = char::from_u32(code) {
        value.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        let tail = |shift: u32| 0x80 | (code >> shift & 0x3F) as u8;
        value.extend_from_slice(&[0xE0 | (code >> 12) as u8, tail(6), tail(0)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(quoted: &str) -> Option<Vec<u8>> {
        unescape(quoted.as_bytes()).map(Cow::into_owned)
    }

    #[test]
    fn what_is_written_reads_back() {
        let text = "plain \"quoted\" \\ / \n\r\t\u{8}\u{c}\u{0}\u{1f} é 😀";
        let mut out = Vec::new();
        write_string(&mut out, text);
        assert!(is_string(&out));
        assert_eq!(unescape(&out).unwrap(), text.as_bytes());
    }

    #[test]
    fn every_byte_is_plain_or_not_wherever_it_stands() {
        for byte in 0..=u8::MAX {
            let is_special = byte < 0x20 || byte == b'"' || byte == b'\\';
            for (before, after) in (0..20).flat_map(|before| (0..20).map(move |after| (before, after))) {
                let text = [vec![b'\x7f'; before], vec![byte], vec![b'"'; after]].concat();
                let plain = if is_special { before } else { before + 1 };
                assert_eq!(plain_prefix(&text), plain, "{text:?}");
            }
        }
    }

    #[test]
    fn a_string_without_escapes_is_borrowed() {
        assert!(matches!(unescape(b"\"abc\""), Some(Cow::Borrowed(b"abc"))));
    }

    #[test]
    fn surrogate_pairs_join_and_lone_surrogates_stay_apart() {
        assert_eq!(value(r#""\ud83d\ude00""#).unwrap(), "😀".as_bytes());
        assert_eq!(value(r#""\ud83d""#).unwrap(), [0xED, 0xA0, 0xBD]);
        assert_eq!(value(r#""\ude00\ud83d""#).unwrap(), [0xED, 0xB8, 0x80, 0xED, 0xA0, 0xBD]);
        assert_eq!(value(r#""\ud83d\u0041""#).unwrap(), [0xED, 0xA0, 0xBD, b'A']);
        assert_ne!(value(r#""\ud83d""#), value(r#""\ud83e""#));
    }

    #[test]
    fn what_is_no_string_has_no_value() {
        for bad in
            ["", "\"", "abc", "\"a", "a\"", "\"a\"b\"", "\"\n\"", r#""\x""#, r#""\u12""#, r#""\u12g4""#, "\"\\\""]
        {
            assert_eq!(value(bad), None, "{bad}");
            assert!(!is_string(bad.as_bytes()), "{bad}");
        }
        assert!(!is_string(b"\"\xff\""));
    }
}
