//! What a request in flight costs in the relay machine, from 1,000 to
//! 1,000,000 of them, beside bare tables of the same size.

mod lines;
mod machine;
mod subject;
mod tables;

use std::alloc::System;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use rescind_bench::affinity;
use rescind_bench::floor::{Promise, Standing, Verdict};
use rescind_bench::machine::Machine as Computer;
use rescind_bench::statistics::median;
use serde::Serialize;
use stats_alloc::StatsAlloc;

use machine::Machine;
use subject::{Load, Sample, Subject};
use tables::{BareTables, ParsingTables};

#[global_allocator]
static HEAP: StatsAlloc<System> = StatsAlloc::system();

/// Requests handled per round and size, so that small sizes are measured too.
const PER_ROUND: usize = 200_000;

/// Measures time and live heap per request in flight in the relay machine,
/// in process, beside bare tables.
#[derive(Parser)]
struct Options {
    /// A smoke run up to 10,000 requests; its figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Exit with 1 when the machine lies below a floor.
    #[arg(long)]
    require_floors: bool,
    /// Rounds to take the medians of.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Bare,
    Parsing,
    Relay,
    RelayOfTwoEras,
}

impl Kept {
    const ALL: [Self; 4] = [Self::Bare, Self::Parsing, Self::Relay, Self::RelayOfTwoEras];

    const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare tables",
            Self::Parsing => "tables, parsed and copied",
            Self::Relay => "relay",
            Self::RelayOfTwoEras => "relay, ids replaced",
        }
    }

    fn make(self) -> Box<dyn Subject> {
        match self {
            Self::Bare => Box::new(BareTables::default()),
            Self::Parsing => Box::new(ParsingTables::default()),
            Self::Relay => Box::new(Machine::one_revision()),
            Self::RelayOfTwoEras => Box::new(Machine::two_eras()),
        }
    }
}

#[derive(Serialize)]
struct Row {
    requests: usize,
    kept: &'static str,
    medians: Sample,
    /// Middle of the ratios to the bare tables in the same round.
    cancel_to_bare: f64,
    cancel_to_parsing: f64,
    rounds: Vec<Sample>,
}

#[derive(Serialize)]
struct Report {
    is_quick: bool,
    machine: Computer,
    rows: Vec<Row>,
    promises: Vec<Verdict>,
}

fn main() -> ExitCode {
    run(&Options::parse()).unwrap_or_else(|error| {
        // Without standard error there is nobody left to tell.
        let _ = writeln!(io::stderr(), "error: {error}");
        ExitCode::from(2)
    })
}

fn run(options: &Options) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let cpu = affinity::last_allowed_cpu()?;
    let mut computer = Computer::describe(cpu)?;
    affinity::pin(cpu)?;
    let sizes: &[usize] = if options.quick { &[1_000, 10_000] } else { &[1_000, 10_000, 100_000, 1_000_000] };
    let mut rows = Vec::new();
    for &requests in sizes {
        let mut all: [Vec<Sample>; Kept::ALL.len()] = Default::default();
        for _ in 0..options.rounds.max(1) {
            for (kept, samples) in Kept::ALL.into_iter().zip(&mut all) {
                let load = Load {
                    requests,
                    repetitions: (PER_ROUND / requests).max(1),
                    has_answers: kept != Kept::RelayOfTwoEras,
                };
                samples.push(
                    subject::measure(|| kept.make(), load, &HEAP).map_err(|why| format!("{}: {why}", kept.name()))?,
                );
            }
        }
        let bare = all[0].clone();
        let parsing = all[1].clone();
        rows.extend(
            Kept::ALL.into_iter().zip(all).map(|(kept, samples)| Row::new(requests, kept, samples, &bare, &parsing)),
        );
    }
    computer.finish()?;
    let report = Report { is_quick: options.quick, machine: computer, promises: promises(&rows), rows };
    report.print(options.json)?;
    let is_below = |promise: &Verdict| promise.standing == Standing::Below;
    let is_wanting = options.require_floors && report.promises.iter().any(is_below);
    Ok(ExitCode::from(u8::from(is_wanting)))
}

impl Row {
    fn new(requests: usize, kept: Kept, rounds: Vec<Sample>, bare: &[Sample], parsing: &[Sample]) -> Self {
        let middle = |figure: fn(&Sample) -> f64| median(&rounds.iter().map(figure).collect::<Vec<_>>());
        let ratio = |base: &[Sample]| {
            let ratios = rounds.iter().zip(base).map(|(own, base)| own.cancel_ns / base.cancel_ns);
            median(&ratios.collect::<Vec<_>>())
        };
        let answers: Option<Vec<f64>> = rounds.iter().map(|sample| sample.answer_ns).collect();
        Self {
            requests,
            kept: kept.name(),
            medians: Sample {
                ask_ns: middle(|it| it.ask_ns),
                cancel_ns: middle(|it| it.cancel_ns),
                answer_ns: answers.as_deref().map(median),
                heap_bytes: middle(|it| it.heap_bytes),
                cancelled_bytes: middle(|it| it.cancelled_bytes),
            },
            cancel_to_bare: ratio(bare),
            cancel_to_parsing: ratio(parsing),
            rounds,
        }
    }
}

/// Of the relay that keeps ids: the heap at its worst size, the cancel at the
/// largest.
fn promises(rows: &[Row]) -> Vec<Verdict> {
    let relay = || rows.iter().filter(|row| row.kept == Kept::Relay.name());
    let heap = relay().map(|row| row.medians.heap_bytes).fold(0.0, f64::max);
    let cancel = relay().next_back().map_or(0.0, |row| row.cancel_to_bare);
    vec![
        Promise::at_most("live heap per request in flight, bytes", 300.0, 256.0).judge(heap),
        Promise::at_most("cancel, times the bare tables'", 1.5, 1.5).judge(cancel),
    ]
}

impl Report {
    fn print(&self, as_json: bool) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if as_json {
            serde_json::to_writer(&mut out, self)?;
            return writeln!(out);
        }
        writeln!(out, "{}", self.machine)?;
        if self.is_quick {
            writeln!(out, "A smoke run: it proves that all run, its figures mean nothing.")?;
        }
        let rounds = self.rows.first().map_or(0, |row| row.rounds.len());
        writeln!(out, "Medians of {rounds} interleaved rounds, per request.")?;
        for row in &self.rows {
            if row.kept == Kept::Bare.name() {
                writeln!(
                    out,
                    "\n{:<26} {:>8} {:>10} {:>8} {:>8} {:>10} {:>12} {:>16}",
                    format!("{} in flight", row.requests),
                    "ask ns",
                    "cancel ns",
                    "× bare",
                    "× parsed",
                    "answer ns",
                    "heap bytes",
                    "after cancels"
                )?;
            }
            let medians = &row.medians;
            writeln!(
                out,
                "{:<26} {:>8.0} {:>10.0} {:>8.2} {:>8.2} {:>10} {:>12.0} {:>16.0}",
                row.kept,
                medians.ask_ns,
                medians.cancel_ns,
                row.cancel_to_bare,
                row.cancel_to_parsing,
                medians.answer_ns.map_or_else(|| "–".to_owned(), |nanos| format!("{nanos:.0}")),
                medians.heap_bytes,
                medians.cancelled_bytes,
            )?;
        }
        writeln!(out, "\nPromises of the relay machine:")?;
        for promise in &self.promises {
            writeln!(out, "{}", promise.line())?;
        }
        Ok(())
    }
}
