//! The last lines that a server wrote to stderr, as an error can carry them (D63).

use crate::cause::{cut, is_shown};

/// The most lines. A stack trace of a script engine has its message at its top, and up to fifteen lines below it.
const MAX_LINES: usize = 20;

/// The most bytes of all lines together.
const MAX_BYTES: usize = 2048;

/// The most bytes of one line. Some programs print the line of source that failed, which can be a whole program.
const MAX_LINE: usize = 300;

/// What stands for the rest of a line.
const CUT: &str = "…";

/// The last lines of `bytes` that show something, joined by line breaks: at most 20, and about 2 KiB. They have no control
/// characters and no escape sequences; of a line that was written over, the last writing is left. Empty if there are none.
pub(super) fn last_lines(bytes: &[u8]) -> String {
    let (mut lines, mut room) = (Vec::new(), MAX_BYTES);
    for line in bytes.rsplit(|byte| *byte == b'\n') {
        let line = shown(line);
        if line.is_empty() {
            continue;
        }
        room = match room.checked_sub(line.len() + 1) {
            Some(left) if lines.len() < MAX_LINES => left,
            Some(_) | None => break,
        };
        lines.push(line);
    }
    lines.reverse();
    lines.join("\n")
}

/// What a terminal would show of a line in the end, or about that.
fn shown(line: &[u8]) -> String {
    let line = line.trim_ascii_end();
    // What is longer still has only its beginning looked at. Escape sequences take room, too.
    let line = &line[line.iter().rposition(|byte| *byte == b'\r').map_or(0, |end| end + 1)..];
    let text = String::from_utf8_lossy(&line[..line.len().min(8 * MAX_LINE)]);
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => skip_escape(&mut rest),
            '\u{9b}' => skip_control_sequence(&mut rest),
            '\u{90}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_string(&mut rest),
            '\t' => out.push(' '),
            c if is_shown(c) => out.push(c),
            _ => {}
        }
    }
    out.truncate(out.trim_end().len());
    if out.len() > MAX_LINE || line.len() > 8 * MAX_LINE {
        let kept = cut(&out, MAX_LINE - CUT.len()).len();
        out.truncate(kept);
        out.push_str(CUT);
    }
    out
}

/// Skips what follows ESC.
fn skip_escape(rest: &mut std::str::Chars<'_>) {
    match rest.next() {
        Some('[') => skip_control_sequence(rest),
        Some(']' | 'P' | 'X' | '^' | '_') => skip_string(rest),
        // Intermediate bytes, and a final one.
        Some(' '..='/') => _ = rest.find(|c| !matches!(c, ' '..='/')),
        Some(_) | None => {}
    }
}

/// Skips parameters and the final byte.
fn skip_control_sequence(rest: &mut std::str::Chars<'_>) {
    _ = rest.find(|c| !matches!(c, ' '..='?'));
}

/// Skips a string up to its end: BEL, ST, or ESC and a backslash.
fn skip_string(rest: &mut std::str::Chars<'_>) {
    if rest.find(|c| matches!(c, '\u{7}' | '\u{9c}' | '\u{1b}')) == Some('\u{1b}') {
        rest.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_stand_in_their_order_and_empty_ones_do_not_count() {
        assert_eq!(last_lines(b"one\n\n  two\r\n \nthree\n\n"), "one\n  two\nthree");
        assert_eq!((last_lines(b"").as_str(), last_lines(b"\n\r\n \x1b[0m\n").as_str()), ("", ""));
        let many: Vec<String> = (1..=50).map(|line| line.to_string()).collect();
        assert_eq!(last_lines(many.join("\n").as_bytes()), many[30..].join("\n"));
    }

    #[test]
    fn control_characters_and_escape_sequences_are_left_out() {
        for (written, left) in [
            (&b"\x1b[1;31merror\x1b[0m: \x07no\x00 token"[..], "error: no token"),
            (b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1bPdata\x1b\\c", "abc"),
            (b"\x1b(Ba\x1b=b\x1b#8c\x1bMd", "abcd"),
            ("\u{9b}31ma\u{9d}0;t\u{9c}b\u{202e}c\u{61c}d\te".as_bytes(), "abcd e"),
            (b"an unfinished \x1b[", "an unfinished"),
            (b"an unfinished \x1b]0;title", "an unfinished"),
            (b" 10%\r 50%\rdone\r\n", "done"),
            (b"not \xff\xfe UTF-8", "not \u{fffd}\u{fffd} UTF-8"),
        ] {
            assert_eq!(last_lines(written), left, "{}", written.escape_ascii());
        }
    }

    #[test]
    fn lines_and_all_of_them_are_bounded_whatever_was_written() {
        let long = "é".repeat(100_000);
        let lines = last_lines(format!("{long}\nthe reason\n").as_bytes());
        assert!(lines.len() <= MAX_LINE + 11 && lines.ends_with("…\nthe reason"), "{lines}");
        let wide = format!("{}\n", "x".repeat(290)).repeat(30);
        assert_eq!(last_lines(wide.as_bytes()).lines().count(), 7);
        // Sequences without an end, one after the other.
        for byte in [0x1b, b'\r', b'\n', 0xff, b'[', 0x80] {
            assert!(last_lines(&vec![byte; 16 * 1024]).len() <= MAX_BYTES);
        }
    }
}
