//! What the library costs, measured beside the libraries it is compared with.

mod cell;
mod contender;
mod measure;
mod payload;
mod plan;
mod promises;
mod report;
mod samples;
mod watchdog;
mod wire;
mod work;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser;
use rescind_bench::affinity;
use rescind_bench::machine::Machine;

use crate::cell::{Cell, Outcome, Task};
use crate::contender::{Contender, Failure};
use crate::plan::{Part, Plan};
use crate::report::Report;
use crate::samples::{Figure, Samples};

/// Measures calls, cancels and waiting requests, both ends in one process, beside other libraries and beside the
/// least that lines (L0, L1) and calls (L2, L2i) cost.
#[derive(Parser)]
struct Options {
    /// A smoke run; its figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
    /// Exit with 1 when a promise is not kept.
    #[arg(long)]
    require_floors: bool,
    /// Rounds to take the medians of.
    #[arg(long)]
    rounds: Option<usize>,
    /// The CPU that everything on one thread is pinned to; the last allowed one if absent.
    #[arg(long)]
    cpu: Option<usize>,
    /// Measure only this; may be repeated.
    #[arg(long, value_enum, value_name = "PART")]
    part: Vec<Part>,
    /// Waiting requests, instead of 100,000 and 1,000,000; may be repeated.
    #[arg(long, value_name = "N")]
    requests: Vec<usize>,
    /// Take part only these, by name, besides L1, L2 and tarpc, which promises are relative to.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Whom to hold to the promises, by name.
    #[arg(long, value_name = "NAME", default_value = Contender::Rescind.name())]
    judge: String,
    /// One measurement in this process: how the others are started.
    #[arg(long, hide = true, value_name = "CELL")]
    play: Option<String>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.play {
        Some(cell) => play(cell),
        None => run(&options),
    };
    done.unwrap_or_else(|error| {
        // Without standard error there is nobody left to tell.
        let _ = writeln!(io::stderr(), "error: {error}");
        ExitCode::from(2)
    })
}

fn play(cell: &str) -> Result<ExitCode, Failure> {
    let cell: Cell = serde_json::from_str(cell)?;
    let outcome = cell.play().unwrap_or_else(|error| Outcome::Failed(error.to_string()));
    serde_json::to_writer(io::stdout(), &outcome)?;
    Ok(ExitCode::SUCCESS)
}

fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut plan = if options.quick { Plan::quick() } else { Plan::full() };
    plan.rounds = options.rounds.unwrap_or(plan.rounds).max(1);
    if !options.requests.is_empty() {
        plan.scales.clone_from(&options.requests);
    }
    let parts = if options.part.is_empty() { Part::ALL.to_vec() } else { options.part.clone() };
    let contenders = participants(&options.only)?;
    let judged = named(&options.judge)?;
    let cpu = options.cpu.map_or_else(affinity::last_allowed_cpu, Ok)?;
    let mut machine = Machine::describe(cpu)?;

    let tasks: Vec<Task> = parts.iter().flat_map(|&part| plan.tasks(part)).collect();
    let mut samples = Samples::default();
    for round in 0..plan.rounds {
        writeln!(io::stderr(), "round {} of {}", round + 1, plan.rounds)?;
        for &task in &tasks {
            for &contender in contenders.iter().filter(|&&contender| plan.has(contender, task, round)) {
                let cell = Cell { contender, task, cpu, patience: plan.patience };
                let outcome = measure(cell, &samples)?;
                samples.add(contender, task, round, outcome);
            }
        }
    }
    machine.finish()?;
    let promises = promises::judge(judged, &samples, &plan);
    let report =
        Report { is_quick: options.quick, machine, rounds: plan.rounds, promises, samples, plan, parts, contenders };

    let mut out = io::stdout().lock();
    if options.json {
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
    } else {
        write!(out, "{report}")?;
    }
    Ok(ExitCode::from(u8::from(options.require_floors && report.is_found_wanting())))
}

fn participants(only: &[String]) -> Result<Vec<Contender>, Failure> {
    let chosen = only.iter().map(|name| named(name)).collect::<Result<Vec<_>, _>>()?;
    let is_wanted = |contender: &Contender| {
        chosen.is_empty()
            || chosen.contains(contender)
            || matches!(contender, Contender::L1 | Contender::L2 | Contender::Tarpc)
    };
    Ok(Contender::ALL.into_iter().filter(is_wanted).collect())
}

fn named(name: &str) -> Result<Contender, Failure> {
    let found = Contender::ALL.into_iter().find(|contender| contender.name() == name);
    found.ok_or_else(|| format!("{name}: no such contender").into())
}

/// Measures unless it is known how that ends.
fn measure(cell: Cell, samples: &Samples) -> Result<Outcome, Failure> {
    if let Some(outcome) = samples.of(cell.contender, cell.task).next().filter(|outcome| outcome.is_wedged()) {
        return Ok(outcome.clone());
    }
    if let Task::Scale { requests } = cell.task
        && let Some(bytes) = samples.most(cell.contender, Figure::Bytes)
        && bytes * requests as f64 * MARGIN > available_memory()?
    {
        return Ok(Outcome::LeftOut);
    }
    cell.measure()
}

/// What a session takes at most, beyond what its waiting requests hold.
const MARGIN: f64 = 1.5;

/// Bytes that can be had without swapping.
fn available_memory() -> Result<f64, Failure> {
    let all = std::fs::read_to_string("/proc/meminfo")?;
    let field = all.lines().find_map(|line| line.strip_prefix("MemAvailable:")).ok_or("no MemAvailable")?;
    let kibibytes: f64 = field.trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes * 1024.0)
}
