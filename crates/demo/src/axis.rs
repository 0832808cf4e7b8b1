//! The time axis of a picture, and the rows over it.

use std::ops::Range;

use crate::{
    ms::Ms,
    paint::{Cell, Ink, Paint},
};

/// Columns kept free at the end of an axis for signs that had to move.
pub(crate) const MARGIN: usize = 2;

/// A scale from milliseconds to columns.
pub(crate) struct Axis {
    /// Columns before the time zero.
    pub(crate) lead: usize,
    pub(crate) columns: usize,
    /// From one label to the next: milliseconds, and columns.
    pub(crate) label: f64,
    pub(crate) pitch: usize,
}

impl Axis {
    pub(crate) fn column(&self, Ms(time): Ms) -> usize {
        let column = self.lead as f64 + time / self.label * self.pitch as f64;
        (column.max(0.0) as usize).min(self.columns - 1)
    }

    /// Returns the columns with a label, and their times.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (usize, f64)> {
        let columns = (self.lead..self.columns).step_by(self.pitch.max(1));
        columns.zip(0_u32..).map(|(column, label)| (column, f64::from(label) * self.label))
    }

    /// Draws work, which is unwanted from a column on, and the signs over it, which are ordered by time.
    pub(crate) fn row(
        &self,
        work: Range<usize>,
        unwanted: usize,
        signs: Vec<(usize, Cell)>,
        paint: Paint,
    ) -> Vec<Cell> {
        let glyphs = paint.glyphs;
        let mut cells = vec![(' ', Ink::Plain); self.columns];
        for (column, _) in self.labels() {
            cells[column] = (glyphs.grid, Ink::Faint);
        }
        for (column, cell) in cells.iter_mut().enumerate().take(work.end).skip(work.start) {
            *cell = if column < unwanted { (glyphs.work, Ink::Work) } else { (glyphs.unwanted, Ink::Unwanted) };
        }
        // Two signs never share a column: the later one moves right.
        let mut free = 0;
        for (column, sign) in signs {
            let column = column.max(free).min(self.columns - 1);
            cells[column] = sign;
            free = column + 1;
        }
        cells
    }
}
