//! What stdout is, and text made fit for it.

use std::io::IsTerminal;

use rescind_proto::cause::sanitised;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Where a table is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Screen {
    /// Columns and rows, where it is a terminal; otherwise nothing is cut.
    pub(crate) size: Option<(usize, usize)>,
    /// Whether it may be coloured.
    pub(crate) colour: bool,
}

/// How a line stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Faint,
    Notice,
    Alarm,
}

impl Screen {
    /// Stdout as it is now.
    pub(crate) fn now() -> Self {
        let stdout = std::io::stdout();
        if !stdout.is_terminal() {
            return Self { size: None, colour: false };
        }
        let size = rustix::termios::tcgetwinsize(&stdout).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        let size = size.map_or((80, 24), |size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let colour = set("NO_COLOR").is_none() && set("TERM").is_some_and(|term| term != "dumb");
        Self { size: Some(size), colour }
    }

    /// `line` in that tone.
    pub(crate) fn painted(self, line: &str, tone: Tone) -> String {
        let code = match tone {
            Tone::Faint => "2",
            Tone::Notice => "33",
            Tone::Alarm => "1;31",
            Tone::Plain => return line.to_owned(),
        };
        if self.colour { format!("\u{1b}[{code}m{line}\u{1b}[0m") } else { line.to_owned() }
    }
}

/// Untrusted text on one line: no control characters, nothing that turns the line's direction.
pub(crate) fn clean(text: &str) -> String {
    sanitised(text)
}

/// How many columns `text` takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// `text` in at most so many columns, with a sign where it was cut.
pub(crate) fn fitted(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut fitted = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        fitted.push(c);
    }
    if columns > 0 {
        fitted.push('…');
    }
    fitted
}

/// JSON in which no character does anything to a terminal: they are escaped, which changes nothing of the meaning.
pub(crate) fn inert(json: &str) -> String {
    let mut inert = String::with_capacity(json.len());
    for c in json.chars() {
        match clean(c.encode_utf8(&mut [0; 4])) == "\u{fffd}" && c != '\u{fffd}' && c != '\n' {
            true => inert.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => inert.push(c),
        }
    }
    inert
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_what_it_takes_on_a_terminal() {
        assert_eq!(fitted("tools/call", 10), "tools/call");
        assert_eq!(fitted("tools/call", 6), "tools…");
        assert_eq!(fitted("検索検索", 5), "検索…");
        assert_eq!(fitted("検索検索", 4), "検…");
        assert_eq!(fitted("abc", 1), "…");
        assert_eq!(fitted("abc", 0), "");
    }

    #[test]
    fn json_does_nothing_to_a_terminal_and_means_the_same() {
        let text = "\u{9b}31m\u{202e}é\u{fffd}\u{7f}";
        let json = serde_json::to_string(text).unwrap();
        let inert = inert(&json);
        assert_eq!(inert, "\"\\u009b31m\\u202eé\u{fffd}\\u007f\"");
        assert_eq!(serde_json::from_str::<String>(&inert).unwrap(), text);
    }

    #[test]
    fn only_a_terminal_is_coloured() {
        let plain = Screen { size: None, colour: false };
        assert_eq!(plain.painted("x", Tone::Alarm), "x");
        assert_eq!(Screen { colour: true, ..plain }.painted("x", Tone::Alarm), "\u{1b}[1;31mx\u{1b}[0m");
    }
}
