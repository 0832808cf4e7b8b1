//! The properties of stdout, and text prepared for it.

use std::io::{self, IsTerminal, Write};

use rescind_proto::cause::sanitised;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The output of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Screen {
    /// Columns and rows, if it is a terminal. Otherwise nothing is cut.
    pub(crate) size: Option<(usize, usize)>,
    /// Whether to use colour.
    pub(crate) colour: bool,
}

/// The emphasis of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Faint,
    Notice,
    Alarm,
}

impl Screen {
    /// The current properties of stdout.
    pub(crate) fn now() -> Self {
        let stdout = std::io::stdout();
        if !stdout.is_terminal() {
            return Self { size: None, colour: false };
        }
        let size = window(&stdout).unwrap_or((80, 24));
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let colour = set("NO_COLOR").is_none() && set("TERM").map_or(cfg!(windows), |term| term != "dumb");
        Self { size: Some(size), colour }
    }

    /// Whether lines can be drawn over.
    pub(crate) fn is_redrawn(self) -> bool {
        self.size.is_some() && !is_dumb()
    }

    /// Colours `line` in that tone.
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

/// Whether the terminal can only write, as in a shell of Emacs.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// When help and errors of the command line are coloured: left to itself, clap colours a dumb terminal where `CI` is set.
pub(crate) fn colours_of_help() -> clap::ColorChoice {
    if is_dumb() { clap::ColorChoice::Never } else { clap::ColorChoice::Auto }
}

/// The columns and rows of a terminal.
#[cfg(unix)]
fn window(stdout: &io::Stdout) -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(stdout).ok()?;
    let size = (usize::from(size.ws_col), usize::from(size.ws_row));
    (size.0 > 0 && size.1 > 0).then_some(size)
}

/// The columns and rows of a console.
#[cfg(windows)]
fn window(_: &io::Stdout) -> Option<(usize, usize)> {
    let (terminal_size::Width(columns), terminal_size::Height(rows)) = terminal_size::terminal_size()?;
    Some((columns.into(), rows.into()))
}

/// Lines on a terminal that are drawn over by the next ones.
#[derive(Debug, Default)]
pub(crate) struct Drawing {
    /// How many lines there are.
    drawn: usize,
}

impl Drawing {
    /// Replaces the lines. Those that a screen of `height` has no room for are counted.
    pub(crate) fn draw(&mut self, mut lines: Vec<String>, height: usize) -> io::Result<()> {
        let room = height.saturating_sub(2).max(1);
        if lines.len() > room {
            let more = lines.len() - (room - 1);
            lines.truncate(room - 1);
            lines.push(format!("… and {more} more"));
        }
        self.draw_all(&lines, true)
    }

    /// So many lines were written below by others.
    pub(crate) const fn moved_down(&mut self, lines: usize) {
        self.drawn += lines;
    }

    /// Replaces the lines with all of these. On anything but a terminal they only follow.
    pub(crate) fn draw_all(&mut self, lines: &[String], on_terminal: bool) -> io::Result<()> {
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\u{1b}[{}F", self.drawn));
        }
        if on_terminal {
            text.push_str("\u{1b}[J");
        }
        lines.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        self.drawn = lines.len();
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }
}

/// Makes untrusted text safe for one line: no control characters, no changes of direction.
pub(crate) fn clean(text: &str) -> String {
    sanitised(text)
}

/// The width of `text` in columns.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Cuts `text` to at most `columns`, and marks the cut with `…`.
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

/// Escapes every character of a JSON text that could affect a terminal. Its meaning does not change.
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
    fn text_is_cut_by_its_width_on_a_terminal() {
        assert_eq!(fitted("tools/call", 10), "tools/call");
        assert_eq!(fitted("tools/call", 6), "tools…");
        assert_eq!(fitted("検索検索", 5), "検索…");
        assert_eq!(fitted("検索検索", 4), "検…");
        assert_eq!(fitted("abc", 1), "…");
        assert_eq!(fitted("abc", 0), "");
    }

    #[test]
    fn json_is_safe_on_a_terminal_and_means_the_same() {
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
