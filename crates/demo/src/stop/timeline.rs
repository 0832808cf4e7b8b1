//! The picture: a tree with a row for each piece, over a time axis that begins just before Stop.

use super::story::{Row, Story};
use crate::{
    hops::mark::Piece,
    ms::Ms,
    paint::{Cell, Ink, Paint, join, legend, wrapped},
};

/// Columns before the axis, and after it.
const BEFORE: usize = 39;
const AFTER: usize = 21;

/// Columns of the axis before Stop, and columns kept free at its end for signs that had to move.
const LEAD: usize = 4;
const MARGIN: usize = 2;

/// The least number of columns from one label to the next.
const PITCH: usize = 9;

pub(super) fn draw(story: &Story, paint: Paint) -> String {
    let axis = Axis::of(story, paint.width.saturating_sub(BEFORE + AFTER));
    let mut picture = axis.heading(paint);
    for (index, row) in story.rows.iter().enumerate() {
        let tree = tree(story, index, paint);
        let name = format!("{:<width$}", row.name(), width = 16_usize.saturating_sub(tree.chars().count()));
        let began = row.started_ms.map_or_else(|| "-".to_owned(), |Ms(at)| format!("{at:.1}"));
        picture += &format!("  {}{}", paint.text(Ink::Faint, tree), paint.text(Ink::Name, name));
        picture += &format!("{:<12}{began:>7}  ", row.place());
        picture += &join(&axis.row(story, row, paint), paint);
        let column = |at| story.after_stop(at).map_or_else(|| "-".to_owned(), |Ms(after)| format!("+{after:.2}"));
        picture += &format!(" {:>9} {:>9}\n", column(row.told_ms), column(row.stopped_ms));
    }
    picture + "\n" + &explain_signs(paint)
}

/// Draws the branches in front of a piece's name.
fn tree(story: &Story, index: usize, paint: Paint) -> String {
    let glyphs = paint.glyphs;
    // Whether no later row has the same parent.
    let is_last = |index: usize| {
        let parent = story.rows[index].parent;
        !story.rows[index + 1..].iter().any(|row| row.parent == parent)
    };
    let above = |piece: Piece| story.rows.iter().position(|row| row.piece == piece);
    let mut branches = Vec::new();
    let mut at = index;
    while let Some(parent) = story.rows[at].parent {
        branches.push(match (at == index, is_last(at)) {
            (true, true) => glyphs.last_branch,
            (true, false) => glyphs.branch,
            (false, true) => "  ",
            (false, false) => glyphs.trunk,
        });
        let Some(above) = above(parent) else { break };
        at = above;
    }
    branches.iter().rev().copied().collect()
}

/// A scale from milliseconds after Stop to columns.
struct Axis {
    columns: usize,
    /// From one label to the next: milliseconds, and columns.
    label: f64,
    pitch: usize,
}

impl Axis {
    fn of(story: &Story, columns: usize) -> Self {
        let times = story.rows.iter().flat_map(|row| [row.told_ms, row.stopped_ms]);
        let last = times.filter_map(|at| story.after_stop(at)).fold(0.1, |last, Ms(after)| f64::max(last, after));
        let room = columns.saturating_sub(LEAD + MARGIN);
        // The finest of 0.1, 0.2, 0.5, 1, 2, 5, … that leaves room for its labels.
        let steps = (0..).flat_map(|power| [0.1, 0.2, 0.5].map(|step| step * 10_f64.powi(power)));
        let fits = |label: &f64| ((last / label).ceil() as usize) * PITCH <= room;
        let label = steps.take(30).find(fits).unwrap_or(last);
        let pitch = room / ((last / label).ceil() as usize).max(1);
        Self { columns, label, pitch }
    }

    fn column(&self, Ms(after): Ms) -> usize {
        let column = LEAD as f64 + after / self.label * self.pitch as f64;
        (column.max(0.0) as usize).min(self.columns - 1)
    }

    fn labels(&self) -> impl Iterator<Item = (usize, f64)> {
        let columns = (LEAD..self.columns).step_by(self.pitch.max(1));
        columns.zip(0_u32..).map(|(column, label)| (column, f64::from(label) * self.label))
    }

    fn heading(&self, paint: Paint) -> String {
        let mut line = format!("  {:<16}{:<12}{:>7}  ", "work", "where", "began");
        for (column, after) in self.labels() {
            let label =
                if column == LEAD { "Stop".to_owned() } else { format!("+{} ms", (after * 10.0).round() / 10.0) };
            if column + label.len() <= self.columns {
                line = format!("{line:<at$}{label}", at = BEFORE + column);
            }
        }
        line = format!("{line:<at$} {:>9} {:>9}", "told", "stopped", at = BEFORE + self.columns);
        paint.text(Ink::Faint, line) + "\n"
    }

    fn row(&self, story: &Story, row: &Row, paint: Paint) -> Vec<Cell> {
        let glyphs = paint.glyphs;
        let mut cells = vec![(' ', Ink::Plain); self.columns];
        for (column, _) in self.labels() {
            cells[column] = (glyphs.grid, Ink::Faint);
        }
        let after = |at| story.after_stop(at).map(|after| self.column(after));
        let (told, stopped) = (after(row.told_ms), after(row.stopped_ms));
        if row.started_ms.is_some() {
            // Work without a mark of its end is drawn to the end of the axis.
            for (column, cell) in cells.iter_mut().enumerate().take(stopped.unwrap_or(self.columns - MARGIN)) {
                let is_wanted = story.stop_ms.is_none() || column < LEAD;
                *cell = if is_wanted { (glyphs.work, Ink::Work) } else { (glyphs.unwanted, Ink::Unwanted) };
            }
        }
        if row.piece == Piece::Prompt && story.stop_ms.is_some() {
            cells[LEAD] = (glyphs.cancel, Ink::Cancel);
        }
        // Two signs never share a column: the later one moves right.
        let mut free = if row.piece == Piece::Prompt { LEAD + 1 } else { 0 };
        let signs = [(told, (glyphs.told, Ink::Cancel)), (stopped, (glyphs.stopped, Ink::Answer))];
        for (column, sign) in signs {
            let Some(column) = column else { continue };
            let column = column.max(free).min(self.columns - 1);
            cells[column] = sign;
            free = column + 1;
        }
        cells
    }
}

fn explain_signs(paint: Paint) -> String {
    let glyphs = paint.glyphs;
    let signs = [
        (glyphs.work, Ink::Work, "work runs"),
        (glyphs.cancel, Ink::Cancel, "Stop pressed"),
        (glyphs.unwanted, Ink::Unwanted, "work still runs"),
        (glyphs.told, Ink::Cancel, "told to stop"),
        (glyphs.stopped, Ink::Answer, "stopped"),
    ];
    let units = "Times are in milliseconds. Those of \"began\" count from the prompt, the others from Stop.";
    legend(&signs, paint) + &format!("  {}\n", wrapped(units, 2, paint.width))
}
