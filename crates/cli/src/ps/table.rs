//! Lays rows out in columns that fit the screen.

use super::row::{COLUMNS, Row, tell_apart};
use crate::screen::{Screen, Tone, fitted, width};

/// Columns of requests that may be narrowed, and their least width.
const FLEXIBLE: [(usize, usize); 8] = [(0, 24), (1, 6), (2, 6), (3, 5), (4, 8), (6, 12), (9, 8), (11, 12)];

const GAP: usize = 2;

/// How many lines of a terminal a line below a row takes at most.
const NOTE_LINES: usize = 6;

/// Columns that a narrow screen has no room for, the first one first: a label says who sent a request, and of which session.
const SPARE: [usize; 3] = [5, 2, 1];

/// The lines of a table of requests with its heading. Empty columns are left out, and on a screen that is too narrow for all
/// of them those that say least.
pub(crate) fn lines(rows: &[Row], screen: Screen) -> Vec<String> {
    let mut rows = rows.to_vec();
    tell_apart(&mut rows);
    let notes: Vec<_> = rows.iter_mut().map(|row| row.note.take()).collect();
    let mut rows: Vec<_> = rows.into_iter().map(|row| (row.cells, row.tone)).collect();
    for column in SPARE {
        let shown: Vec<_> = rows.iter().map(|(cells, tone)| (cells, *tone)).collect();
        if screen.size.is_none_or(|(columns, _)| total(&narrowest(COLUMNS, &FLEXIBLE, &shown)) <= columns) {
            break;
        }
        rows.iter_mut().for_each(|(cells, _)| cells[column].clear());
    }
    let rows: Vec<_> = rows.iter().map(|(cells, tone)| (cells, *tone)).collect();
    let lines = lay_out(COLUMNS, &FLEXIBLE, &rows, screen).into_iter();
    let notes = std::iter::once(None).chain(notes.into_iter().map(|note| note.map(|note| below(&note, screen))));
    lines.zip(notes).flat_map(|(line, note)| std::iter::once(line).chain(note)).collect()
}

/// A line below a row: whole, but on a terminal no longer than a few of its lines.
fn below(note: &str, screen: Screen) -> String {
    let note = format!("    {note}");
    screen
        .size
        .map_or_else(|| note.clone(), |(columns, _)| screen.painted(&fitted(&note, NOTE_LINES * columns), Tone::Faint))
}

/// The lines of a table with its heading. Empty columns are left out; those in `flexible` may be narrowed to their least
/// width, the widest first.
pub(crate) fn lay_out<const N: usize>(
    columns: [&str; N],
    flexible: &[(usize, usize)],
    rows: &[(&[String; N], Tone)],
    screen: Screen,
) -> Vec<String> {
    let mut widths = widest(columns, rows);
    if let Some((size, _)) = screen.size {
        narrow(&mut widths, flexible, size);
    }
    let heading = columns.map(str::to_owned);
    let rows = std::iter::once((&heading, Tone::Faint)).chain(rows.iter().copied());
    rows.map(|(cells, tone)| line(cells, tone, &widths, screen)).collect()
}

/// How wide each column is with all that stands in it; nothing, if nothing does.
fn widest<const N: usize>(columns: [&str; N], rows: &[(&[String; N], Tone)]) -> [usize; N] {
    std::array::from_fn(|column| {
        let widest = rows.iter().map(|(cells, _)| width(&cells[column])).max().unwrap_or(0);
        if widest == 0 { 0 } else { widest.max(columns[column].len()) }
    })
}

/// The same with each column at its least.
fn narrowest<const N: usize>(
    columns: [&str; N],
    flexible: &[(usize, usize)],
    rows: &[(&[String; N], Tone)],
) -> [usize; N] {
    let mut widths = widest(columns, rows);
    flexible.iter().for_each(|(column, least)| widths[*column] = widths[*column].min(*least));
    widths
}

/// How wide a line is.
fn total(widths: &[usize]) -> usize {
    widths.iter().filter(|width| **width > 0).map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
}

fn narrow<const N: usize>(widths: &mut [usize; N], flexible: &[(usize, usize)], size: usize) {
    loop {
        let total = total(widths);
        let wide = flexible.iter().filter(|(column, least)| widths[*column] > *least);
        let Some((widest, _)) = wide.max_by_key(|(column, _)| widths[*column]).filter(|_| total > size) else {
            return;
        };
        widths[*widest] -= 1;
    }
}

fn line<const N: usize>(cells: &[String; N], tone: Tone, widths: &[usize; N], screen: Screen) -> String {
    let mut line = String::new();
    for (cell, columns) in cells.iter().zip(widths).filter(|(_, columns)| **columns > 0) {
        let cell = fitted(cell, *columns);
        line.push_str(&cell);
        line.extend(std::iter::repeat_n(' ', columns - width(&cell) + GAP));
    }
    let line = line.trim_end();
    match screen.size {
        Some((columns, _)) => screen.painted(&fitted(line, columns), tone),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: [&str; COLUMNS.len()]) -> Row {
        Row::new(cells.map(str::to_owned), Tone::Plain)
    }

    #[test]
    fn a_table_fits_the_screen_and_is_whole_elsewhere() {
        let rows = [
            row([
                "4711/1",
                "index",
                "",
                "",
                "",
                "client",
                "tools/call:index",
                "12.3 s",
                "running",
                "42% indexing",
                "",
                "",
            ]),
            row([
                "4712/2",
                "server-everything",
                "",
                "",
                "",
                "client",
                "tools/call:検索",
                "1.0 s",
                "stuck",
                "",
                "",
                "sent",
            ]),
        ];
        let file = lines(&rows, Screen { size: None, colour: false });
        assert_eq!(
            file,
            [
                "ID      SERVER             FROM    METHOD            AGE     STATE    PROGRESS      CANCEL",
                "4711/1  index              client  tools/call:index  12.3 s  running  42% indexing",
                "4712/2  server-everything  client  tools/call:検索   1.0 s   stuck                  sent",
            ]
        );
        for columns in [20, 60, 80] {
            let shown = lines(&rows, Screen { size: Some((columns, 24)), colour: false });
            assert!(shown.iter().all(|line| width(line) <= columns), "{shown:#?}");
        }
        let shown = lines(&rows, Screen { size: Some((80, 24)), colour: false });
        assert!(shown[2].contains("stuck"), "{shown:#?}");
    }

    #[test]
    fn on_a_narrow_screen_what_became_of_a_cancel_is_seen_and_what_a_label_says_is_left_out() {
        let words = "sent; MCP does not confirm";
        let id = "31932/task:task-render";
        let row = row([
            id,
            "video-tools",
            "",
            "",
            "",
            "client",
            "task:render",
            "31.7 s",
            "input required",
            "at 5",
            "",
            words,
        ]);
        let shown = |columns| lines(std::slice::from_ref(&row), Screen { size: Some((columns, 24)), colour: false });
        let headings = |columns| shown(columns)[0].split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(headings(120), ["ID", "SERVER", "FROM", "METHOD", "AGE", "STATE", "PROGRESS", "CANCEL"]);
        assert_eq!(headings(94), ["ID", "SERVER", "METHOD", "AGE", "STATE", "PROGRESS", "CANCEL"]);
        assert_eq!(headings(80), ["ID", "METHOD", "AGE", "STATE", "PROGRESS", "CANCEL"]);
        assert!(shown(80)[1].contains("sent; M"), "{:#?}", shown(80));
    }
}
