//! Characters and colours that the reader's screen can show.

use std::env;

/// The abilities of the reader's screen.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    pub(crate) has_colour: bool,
    pub(crate) glyphs: &'static Glyphs,
    pub(crate) width: usize,
}

/// The characters of the picture; each takes one column.
#[derive(Debug)]
pub(crate) struct Glyphs {
    pub(crate) work: char,
    pub(crate) unwanted: char,
    pub(crate) cancel: char,
    pub(crate) clock: char,
    pub(crate) answer: char,
    pub(crate) swallowed: char,
    pub(crate) death: char,
    pub(crate) told: char,
    pub(crate) stopped: char,
    pub(crate) grid: char,
    pub(crate) arrow: &'static str,
    /// A branch of a tree, its last branch, and the line past a branch.
    pub(crate) branch: &'static str,
    pub(crate) last_branch: &'static str,
    pub(crate) trunk: &'static str,
}

const UNICODE: Glyphs = Glyphs {
    work: '█',
    unwanted: '░',
    cancel: '✕',
    clock: 'T',
    answer: '●',
    swallowed: '○',
    death: '†',
    told: '▼',
    stopped: '■',
    grid: '·',
    arrow: "→",
    branch: "├ ",
    last_branch: "└ ",
    trunk: "│ ",
};

const ASCII: Glyphs = Glyphs {
    work: '#',
    unwanted: '-',
    cancel: 'x',
    clock: 'T',
    answer: '*',
    swallowed: 'o',
    death: '!',
    told: 'v',
    stopped: '=',
    grid: '.',
    arrow: "->",
    branch: "|-",
    last_branch: "`-",
    trunk: "| ",
};

/// The widest and the narrowest picture, in columns.
const WIDTH: usize = 96;
const NARROWEST: usize = 80;

/// One column of one row.
pub(crate) type Cell = (char, Ink);

/// The meaning of a piece of text, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Plain,
    Name,
    Faint,
    Work,
    Unwanted,
    Cancel,
    Answer,
    Bad,
}

impl Ink {
    const fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Name => Some("1"),
            Self::Faint => Some("2"),
            Self::Work => Some("36"),
            Self::Unwanted => Some("33"),
            Self::Cancel => Some("1;35"),
            Self::Answer => Some("1;32"),
            Self::Bad => Some("1;31"),
        }
    }
}

impl Paint {
    /// Describes a terminal with that many columns, or output that goes elsewhere. A terminal without a UTF-8 locale gets
    /// ASCII characters.
    pub fn new(columns: Option<usize>, has_colour: bool) -> Self {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable);
        let is_unicode = locale.is_none_or(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        Self {
            has_colour,
            glyphs: if columns.is_some() && !is_unicode { &ASCII } else { &UNICODE },
            width: columns.map_or(WIDTH, |columns| columns.clamp(NARROWEST, WIDTH)),
        }
    }

    /// Output that is not a terminal.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { has_colour: false, glyphs: &UNICODE, width: WIDTH };

    pub(crate) fn text(self, ink: Ink, text: impl std::fmt::Display) -> String {
        match ink.code() {
            Some(code) if self.has_colour => format!("\x1b[{code}m{text}\x1b[0m"),
            Some(_) | None => text.to_string(),
        }
    }
}

/// Breaks `text` into lines within `width`. Indents all but the first, which the caller has indented.
pub(crate) fn wrapped(text: &str, indent: usize, width: usize) -> String {
    let mut lines = String::new();
    let mut column = indent;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > indent && column + 1 + length > width {
            lines += &format!("\n{:indent$}", "");
            column = indent;
        } else if column > indent {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += length;
    }
    lines
}

/// Explains signs, in lines within the width.
pub(crate) fn legend(signs: &[(char, Ink, &str)], paint: Paint) -> String {
    let mut legend = String::from(" ");
    let mut column = 1;
    for &(sign, ink, what) in signs {
        let length = 2 + what.len();
        if column + 3 + length > paint.width {
            legend += "\n ";
            column = 1;
        }
        let gap = if column == 1 { " " } else { "   " };
        legend += &format!("{gap}{} {what}", paint.text(ink, sign));
        column += gap.len() + length;
    }
    legend + "\n"
}

/// Joins cells, with a colour change only where the ink changes.
pub(crate) fn join(cells: &[Cell], paint: Paint) -> String {
    cells
        .chunk_by(|(_, one), (_, other)| one == other)
        .map(|run| paint.text(run[0].1, run.iter().map(|(sign, _)| sign).collect::<String>()))
        .collect()
}
