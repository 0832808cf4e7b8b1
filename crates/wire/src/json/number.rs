//! Numbers: the grammar, and integers in and out.

/// Whether `text` is exactly one JSON integer: `-?(0|[1-9][0-9]*)`, nothing around it, of any size.
#[must_use]
pub fn is_integer(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match digits {
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// Appends `value` in decimal.
pub fn write_integer(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// The value of an integer that fits.
#[must_use]
pub fn integer(text: &[u8]) -> Option<i64> {
    if is_integer(text) { core::str::from_utf8(text).ok()?.parse().ok() } else { None }
}

/// The short integer that `text` starts with, and its length; `None` for anything that needs a closer look.
#[inline]
pub(crate) fn small_integer(text: &[u8]) -> Option<(i64, usize)> {
    let (mut value, start) = text.first_chunk().and_then(eight_digits).map_or((0, 0), |value| (value, 8));
    for (len, byte) in (start..19).zip(&text[start..]) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            let is_whole = matches!(byte, b',' | b'}') && len > 0 && (text[0] != b'0' || len == 1);
            return is_whole.then_some((value as i64, len));
        }
        value = value * 10 + u64::from(digit);
    }
    None
}

/// The value of eight digits.
#[inline]
fn eight_digits(text: &[u8; 8]) -> Option<u64> {
    const ZEROS: u64 = u64::from_le_bytes(*b"00000000");
    const HIGH: u64 = 0xF0F0_F0F0_F0F0_F0F0;
    let digits = u64::from_le_bytes(*text) ^ ZEROS;
    if (digits | digits.wrapping_add(0x0606_0606_0606_0606)) & HIGH != 0 {
        return None;
    }
    let pairs = (digits * 10 + (digits >> 8)) & 0x00FF_00FF_00FF_00FF;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_FFFF_0000_FFFF;
    Some((fours * 10_000 + (fours >> 32)) & 0xFFFF_FFFF)
}

/// The end of the number that `bytes` start with, if there is one.
#[inline]
pub(super) fn number_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    if bytes.get(at) == Some(&b'-') {
        at += 1;
    }
    match bytes.get(at)? {
        b'0' => at += 1,
        b'1'..=b'9' => at = digits_end(bytes, at),
        _ => return None,
    }
    if bytes.get(at) == Some(&b'.') {
        at = some_digits_end(bytes, at + 1)?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(bytes.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        at = some_digits_end(bytes, at)?;
    }
    Some(at)
}

fn some_digits_end(bytes: &[u8], at: usize) -> Option<usize> {
    let end = digits_end(bytes, at);
    (end > at).then_some(end)
}

#[inline]
fn digits_end(bytes: &[u8], at: usize) -> usize {
    let digits = bytes.get(at..).unwrap_or_default();
    at + digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_written_as_the_formatter_writes_them() {
        for value in [0, 1, -1, 9, 10, 99, 100, -100, i64::MAX, i64::MIN, 1 << 53] {
            let mut out = Vec::new();
            write_integer(&mut out, value);
            assert_eq!(out, value.to_string().as_bytes());
            assert!(is_integer(&out));
        }
    }

    #[test]
    fn an_integer_has_no_sign_zero_fraction_or_exponent_too_many() {
        for good in ["0", "-0", "7", "-12", "1234567890123456789012345678901234567890"] {
            assert!(is_integer(good.as_bytes()), "{good}");
        }
        for bad in ["", "-", "+1", "01", "-01", "1.0", "1e3", " 1", "1 ", "0x1", "--1"] {
            assert!(!is_integer(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn numbers_end_where_the_grammar_says() {
        for (text, end) in [("0", 1), ("-0.5,", 4), ("12e+3}", 5), ("1E2", 3), ("01", 1), ("3.25e-1 ", 7)] {
            assert_eq!(number_end(text.as_bytes()), Some(end), "{text}");
        }
        for bad in ["", "-", ".5", "1.", "1.e", "1e", "1e+", "-x"] {
            assert_eq!(number_end(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn short_integers_are_read_at_once_and_others_left_alone() {
        assert_eq!(small_integer(b"0,"), Some((0, 1)));
        assert_eq!(small_integer(b"10}"), Some((10, 2)));
        assert_eq!(small_integer(b"123456789012345678,"), Some((123_456_789_012_345_678, 18)));
        for other in ["-1,", "1234567890123456789,", "1.0,", "01,", "00,", "", ",", "1", "1e1,", "1 ,", "01234567,"] {
            assert_eq!(small_integer(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn eight_digits_are_read_at_once_and_nothing_else_is() {
        let mut state = 1_u64;
        for len in 1..19 {
            for _ in 0..100 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let value = (state >> 1) % 10_u64.pow(len);
                let text = format!("{value},");
                assert_eq!(small_integer(text.as_bytes()), Some((value as i64, text.len() - 1)));
            }
        }
        for place in 0..8 {
            for byte in (0..=255_u8).filter(|byte| !byte.is_ascii_digit()) {
                let mut text = *b"98765432";
                text[place] = byte;
                assert_eq!(eight_digits(&text), None, "{byte} at {place}");
            }
        }
    }
}
