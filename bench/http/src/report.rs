//! The figures of a run: medians over the rounds, and ratios to the floor.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use rescind_bench::machine::Machine;
use rescind_bench::statistics::median;
use serde::Serialize;

use crate::contender::Contender;
use crate::message::Era;
use crate::program::Program;

/// What was measured in one round, by name.
pub(crate) type Figures = BTreeMap<&'static str, f64>;

/// A column: its figure, its digits after the point, and whether its ratio to the floor is printed.
type Column = (&'static str, usize, bool);

/// Whose figures the ratios of a row are to.
type Floor = fn(&Row) -> &'static str;

/// A table: its name, the floor that its ratios are to, that floor in words, its columns.
const TABLES: [(&str, Floor, &str, &[Column]); 4] = [
    (
        "calls",
        |row| row.floor_of_calls().name(),
        "bare gateway, or to bare gateway, each where sessions have a child each",
        &[
            ("p50 µs", 1, true),
            ("p99 µs", 1, false),
            ("calls/s", 0, true),
            ("gateway µs", 2, true),
            ("child µs", 2, false),
            ("idle MiB", 2, true),
        ],
    ),
    (
        "streams",
        |_| Contender::BridgeSse.name(),
        Contender::BridgeSse.name(),
        &[
            ("streams", 0, false),
            ("bytes each", 0, true),
            ("cancel p50 µs", 0, true),
            ("cancel p99 µs", 0, false),
            ("refused", 0, false),
            ("lost", 0, false),
            ("twice", 0, false),
            ("foreign", 0, false),
            ("unended", 0, false),
        ],
    ),
    (
        "cancels of a quiet client, alone and under a flood of another's calls",
        |_| Contender::Bridge.name(),
        Contender::Bridge.name(),
        &[
            ("alone p50 µs", 0, false),
            ("alone p99 µs", 0, false),
            ("under p50 µs", 0, false),
            ("under p99 µs", 0, true),
            ("p99 of alone", 2, false),
            ("flood/s", 0, true),
        ],
    ),
    (
        "calls through pipes to a server on HTTP",
        |_| Program::Forwarder.name(),
        Program::Forwarder.name(),
        &[
            ("trip p50 µs", 1, true),
            ("trip p99 µs", 1, false),
            ("trips/s", 0, true),
            ("program µs", 2, true),
            ("program MiB", 1, true),
        ],
    ),
];

/// All rounds of one contender in one era.
#[derive(Debug, Serialize)]
struct Row {
    era: Era,
    contender: &'static str,
    medians: Figures,
    /// The middles of the ratios to the floor in the same round.
    ratios: Figures,
    rounds: Vec<Figures>,
}

impl Row {
    fn floor_of_calls(&self) -> Contender {
        let contender = Contender::ALL.into_iter().find(|contender| contender.name() == self.contender);
        contender.map_or(Contender::Bridge, |contender| contender.floor_of_calls(self.era))
    }
}

/// A whole run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) is_quick: bool,
    pub(crate) machine: Machine,
    /// The CPU of the load generator.
    pub(crate) load_cpu: usize,
    rows: Vec<Row>,
    /// Who took no part in what, and why.
    notes: Vec<String>,
}

impl Report {
    pub(crate) const fn new(is_quick: bool, machine: Machine, load_cpu: usize) -> Self {
        Self { is_quick, machine, load_cpu, rows: Vec::new(), notes: Vec::new() }
    }

    /// Notes something; once, however many rounds it happens in.
    pub(crate) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Notes why a measurement did not come to its end, if it did not.
    pub(crate) fn note_error(&mut self, who: &str, era: Era, measured: io::Result<()>) {
        if let Err(error) = measured {
            self.note(format!("{who}, {}: {error}", era.name()));
        }
    }

    /// Adds a round, which every contender must be given, or those of one era stand in no relation.
    pub(crate) fn add(&mut self, era: Era, contender: &'static str, figures: Figures) {
        match self.rows.iter_mut().find(|row| row.era == era && row.contender == contender) {
            Some(row) => row.rounds.push(figures),
            None => self.rows.push(Row {
                era,
                contender,
                medians: Figures::new(),
                ratios: Figures::new(),
                rounds: vec![figures],
            }),
        }
    }

    /// Sums up the rounds.
    pub(crate) fn finish(&mut self) {
        for at in 0..self.rows.len() {
            let row = &self.rows[at];
            let (mut medians, mut ratios) = (Figures::new(), Figures::new());
            for (_, floor, _, columns) in TABLES {
                let floor = floor(row);
                let floor = self.rows.iter().find(|other| other.era == row.era && other.contender == floor);
                for &(name, _, has_ratio) in columns {
                    let values: Vec<f64> = row.rounds.iter().filter_map(|round| round.get(name).copied()).collect();
                    let pairs = row.rounds.iter().zip(floor.iter().flat_map(|floor| &floor.rounds));
                    let of_round: Vec<f64> =
                        pairs.filter_map(|(round, floor)| Some(round.get(name)? / floor.get(name)?)).collect();
                    if !values.is_empty() {
                        medians.insert(name, median(&values));
                    }
                    if has_ratio && !of_round.is_empty() {
                        ratios.insert(name, median(&of_round));
                    }
                }
            }
            let row = &mut self.rows[at];
            (row.medians, row.ratios) = (medians, ratios);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_quick {
            writeln!(out, "A smoke run: these figures mean nothing.\n")?;
        }
        for era in Era::ALL {
            for (table, _, floor, columns) in TABLES {
                let has_any = |row: &&Row| columns.iter().any(|(name, _, _)| row.medians.contains_key(name));
                let rows: Vec<_> = self.rows.iter().filter(|row| row.era == era).filter(has_any).collect();
                if rows.is_empty() {
                    continue;
                }
                writeln!(out, "{}, {table}; × is to {}", era.name(), floor)?;
                write!(out, "{:<17}", "")?;
                for (name, _, has_ratio) in columns {
                    write!(out, "{name:>13}{}", if *has_ratio { "       ×" } else { "" })?;
                }
                for row in rows {
                    write!(out, "\n{:<17}", row.contender)?;
                    for (name, digits, has_ratio) in columns {
                        let cell = |value: Option<&f64>, digits| {
                            value.map_or_else(|| "–".into(), |value| format!("{value:.digits$}"))
                        };
                        write!(out, "{:>13}", cell(row.medians.get(name), *digits))?;
                        if *has_ratio {
                            write!(out, "{:>8}", cell(row.ratios.get(name), 2))?;
                        }
                    }
                }
                writeln!(out, "\n")?;
            }
        }
        for note in &self.notes {
            writeln!(out, "{note}")?;
        }
        writeln!(out, "{}; load generator on CPU {}", self.machine, self.load_cpu)
    }
}
