//! What a request in flight costs in the relay machine, from 1,000 to
//! 1,000,000 of them, beside bare tables of the same size and the maps in them alone.

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
use tables::{BareTables, Maps};

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
    /// Requests in flight, instead of 1,000 to 1,000,000 in steps of ten; may be repeated.
    #[arg(long, value_name = "N")]
    requests: Vec<usize>,
    /// Measure only this besides the tables; may be repeated.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Maps,
    Bare,
    Relay,
    RelayOfTwoEras,
}

impl Kept {
    const ALL: [Self; 4] = [Self::Maps, Self::Bare, Self::Relay, Self::RelayOfTwoEras];

    const fn name(self) -> &'static str {
        match self {
            Self::Maps => "maps alone",
            Self::Bare => "bare tables",
            Self::Relay => "relay",
            Self::RelayOfTwoEras => "relay, ids replaced",
        }
    }

    fn make(self) -> Box<dyn Subject> {
        match self {
            Self::Maps => Box::new(Maps::default()),
            Self::Bare => Box::new(BareTables::default()),
            Self::Relay => Box::new(Machine::one_revision()),
            Self::RelayOfTwoEras => Box::new(Machine::two_eras()),
        }
    }
}

#[derive(Clone, Serialize)]
struct Row {
    requests: usize,
    kept: &'static str,
    medians: Sample,
    /// Middle of the ratios to the bare tables in the same round.
    cancel_to_bare: f64,
    /// The same of the maps alone.
    cancel_to_maps: f64,
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
    let sizes: &[usize] = match options.requests.as_slice() {
        [] if options.quick => &[1_000, 10_000],
        [] => &[1_000, 10_000, 100_000, 1_000_000],
        chosen => chosen,
    };
    let rows = sizes.iter().map(|&requests| measure(options, requests.max(1))).collect::<Result<Vec<_>, _>>()?.concat();
    computer.finish()?;
    let report = Report { is_quick: options.quick, machine: computer, promises: promises(&rows), rows };
    report.print(options.json)?;
    let is_below = |promise: &Verdict| promise.standing == Standing::Below;
    let is_wanting = options.require_floors && report.promises.iter().any(is_below);
    Ok(ExitCode::from(u8::from(is_wanting)))
}

fn measure(options: &Options, requests: usize) -> Result<Vec<Row>, String> {
    let is_wanted = |kept: &Kept| {
        matches!(kept, Kept::Maps | Kept::Bare)
            || options.only.is_empty()
            || options.only.iter().any(|name| name == kept.name())
    };
    let mut all: Vec<(Kept, Vec<Sample>)> =
        Kept::ALL.into_iter().filter(is_wanted).map(|kept| (kept, Vec::new())).collect();
    for _ in 0..options.rounds.max(1) {
        for (kept, samples) in &mut all {
            let load = Load {
                requests,
                repetitions: (PER_ROUND / requests).max(1),
                has_answers: *kept != Kept::RelayOfTwoEras,
            };
            let sample =
                subject::measure(|| kept.make(), load, &HEAP).map_err(|why| format!("{}: {why}", kept.name()))?;
            samples.push(sample);
        }
    }
    let of = |wanted: Kept| all.iter().find(|(kept, _)| *kept == wanted).map_or(&[][..], |(_, samples)| samples);
    let (bare, maps) = (of(Kept::Bare), of(Kept::Maps));
    Ok(all.iter().map(|(kept, samples)| Row::new(requests, *kept, samples, bare, maps)).collect())
}

impl Row {
    fn new(requests: usize, kept: Kept, rounds: &[Sample], bare: &[Sample], maps: &[Sample]) -> Self {
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
            cancel_to_maps: ratio(maps),
            rounds: rounds.to_vec(),
        }
    }
}

/// Of the relay that keeps ids: the heap at its worst size, the cancel at the
/// largest.
fn promises(rows: &[Row]) -> Vec<Verdict> {
    let relay = || rows.iter().filter(|row| row.kept == Kept::Relay.name());
    let heap = relay().map(|row| row.medians.heap_bytes).reduce(f64::max);
    let largest = relay().next_back();
    let promised = [
        (Promise::at_most("live heap per request in flight, bytes", 300.0, 256.0), heap),
        (Promise::at_most("cancel, times the bare tables'", 1.5, 1.5), largest.map(|row| row.cancel_to_bare)),
    ];
    promised.into_iter().filter_map(|(promise, measured)| Some(promise.judge(measured?))).collect()
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
            if row.kept == Kept::Maps.name() {
                writeln!(
                    out,
                    "\n{:<26} {:>8} {:>10} {:>8} {:>8} {:>10} {:>12} {:>16}",
                    format!("{} in flight", row.requests),
                    "ask ns",
                    "cancel ns",
                    "× bare",
                    "× maps",
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
                row.cancel_to_maps,
                or_dash(medians.answer_ns, 0),
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

fn or_dash(figure: Option<f64>, digits: usize) -> String {
    figure.map_or_else(|| "–".to_owned(), |figure| format!("{figure:.digits$}"))
}
