//! Lays rows out in columns that fit the screen.

use super::row::{COLUMNS, Row};
use crate::screen::{Screen, Tone, fitted, width};

/// Columns of requests that may be narrowed, and their least width.
const FLEXIBLE: [(usize, usize); 7] = [(0, 24), (1, 6), (2, 5), (3, 8), (5, 12), (8, 8), (10, 12)];

const GAP: usize = 2;

/// The lines of a table of requests with its heading. Empty columns are left out.
pub(crate) fn lines(rows: &[Row], screen: Screen) -> Vec<String> {
    let rows: Vec<_> = rows.iter().map(|row| (&row.cells, row.tone)).collect();
    lay_out(COLUMNS, &FLEXIBLE, &rows, screen)
}

/// The lines of a table with its heading. Empty columns are left out; those in `flexible` may be narrowed to their least
/// width, the widest first.
pub(crate) fn lay_out<const N: usize>(
    columns: [&str; N],
    flexible: &[(usize, usize)],
    rows: &[(&[String; N], Tone)],
    screen: Screen,
) -> Vec<String> {
    let mut widths: [usize; N] = std::array::from_fn(|column| {
        let widest = rows.iter().map(|(cells, _)| width(&cells[column])).max().unwrap_or(0);
        if widest == 0 { 0 } else { widest.max(columns[column].len()) }
    });
    if let Some((size, _)) = screen.size {
        narrow(&mut widths, flexible, size);
    }
    let heading = columns.map(str::to_owned);
    let rows = std::iter::once((&heading, Tone::Faint)).chain(rows.iter().copied());
    rows.map(|(cells, tone)| line(cells, tone, &widths, screen)).collect()
}

fn narrow<const N: usize>(widths: &mut [usize; N], flexible: &[(usize, usize)], size: usize) {
    loop {
        let shown = widths.iter().filter(|width| **width > 0);
        let total: usize = shown.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP);
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
        Row { cells: cells.map(str::to_owned), tone: Tone::Plain }
    }

    #[test]
    fn a_table_fits_the_screen_and_is_whole_elsewhere() {
        let rows = [
            row(["4711/1", "index", "", "", "client", "tools/call:index", "12.3 s", "running", "42% indexing", "", ""]),
            row(["4712/2", "server-everything", "", "", "client", "tools/call:検索", "1.0 s", "stuck", "", "", "sent"]),
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
}
