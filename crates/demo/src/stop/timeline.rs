//! The picture: a tree with a row for each piece, over a time axis that begins just before Stop.

use super::story::{Row, Story};
use crate::{
    axis::{Axis, MARGIN},
    hops::mark::Piece,
    ms::Ms,
    paint::{Cell, Ink, Paint, join, legend, wrapped},
};

/// Columns before the axis, and after it.
const BEFORE: usize = 39;
const AFTER: usize = 21;

/// Columns of the axis before Stop.
const LEAD: usize = 4;

/// The least number of columns from one label to the next.
const PITCH: usize = 9;

pub(super) fn draw(story: &Story, paint: Paint) -> String {
    let axis = axis(story, paint.width.saturating_sub(BEFORE + AFTER));
    let mut picture = heading(&axis, paint);
    for (index, row) in story.rows.iter().enumerate() {
        let tree = tree(story, index, paint);
        let name = format!("{:<width$}", row.name(), width = 16_usize.saturating_sub(tree.chars().count()));
        let began = row.started_ms.map_or_else(|| "-".to_owned(), |Ms(at)| format!("{at:.1}"));
        picture += &format!("  {}{}", paint.text(Ink::Faint, tree), paint.text(Ink::Name, name));
        picture += &format!("{:<12}{began:>7}  ", row.place());
        picture += &join(&cells(&axis, story, row, paint), paint);
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

/// An axis from just before Stop.
fn axis(story: &Story, columns: usize) -> Axis {
    let times = story.rows.iter().flat_map(|row| [row.told_ms, row.stopped_ms]);
    let last = times.filter_map(|at| story.after_stop(at)).fold(0.1, |last, Ms(after)| f64::max(last, after));
    let room = columns.saturating_sub(LEAD + MARGIN);
    // The finest of 0.1, 0.2, 0.5, 1, 2, 5, … that leaves room for its labels.
    let steps = (0..).flat_map(|power| [0.1, 0.2, 0.5].map(|step| step * 10_f64.powi(power)));
    let fits = |label: &f64| ((last / label).ceil() as usize) * PITCH <= room;
    let label = steps.take(30).find(fits).unwrap_or(last);
    let pitch = room / ((last / label).ceil() as usize).max(1);
    Axis { lead: LEAD, columns, label, pitch }
}

fn heading(axis: &Axis, paint: Paint) -> String {
    let mut line = format!("  {:<16}{:<12}{:>7}  ", "work", "where", "began");
    for (column, after) in axis.labels() {
        let label = if column == LEAD { "Stop".to_owned() } else { format!("+{} ms", (after * 10.0).round() / 10.0) };
        if column + label.len() <= axis.columns {
            line = format!("{line:<at$}{label}", at = BEFORE + column);
        }
    }
    line = format!("{line:<at$} {:>9} {:>9}", "told", "stopped", at = BEFORE + axis.columns);
    paint.text(Ink::Faint, line) + "\n"
}

fn cells(axis: &Axis, story: &Story, row: &Row, paint: Paint) -> Vec<Cell> {
    let glyphs = paint.glyphs;
    let after = |at| story.after_stop(at).map(|after| axis.column(after));
    let (told, stopped) = (after(row.told_ms), after(row.stopped_ms));
    // Work without a mark of its end is drawn to the end of the axis.
    let work = row.started_ms.map_or(0..0, |_| 0..stopped.unwrap_or(axis.columns - MARGIN));
    let unwanted = story.stop_ms.map_or(axis.columns, |_| LEAD);
    let pressed = story.stop_ms.filter(|_| row.piece == Piece::Prompt).map(|_| LEAD);
    let signs = [
        (pressed, (glyphs.cancel, Ink::Cancel)),
        (told, (glyphs.told, Ink::Cancel)),
        (stopped, (glyphs.stopped, Ink::Answer)),
    ];
    let signs = signs.into_iter().filter_map(|(column, sign)| Some((column?, sign)));
    axis.row(work, unwanted, signs.collect(), paint)
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
