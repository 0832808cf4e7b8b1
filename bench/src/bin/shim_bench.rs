//! What a shim between two pipes costs, in one interleaved run.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use rescind_bench::affinity;
use rescind_bench::contender::Contender;
use rescind_bench::driver::DriverError;
use rescind_bench::machine::Machine;
use rescind_bench::peer;
use rescind_bench::programs::{Programs, ShimOptions};
use rescind_bench::report::{FullPipes, Report, Rounds, Sample};
use rescind_bench::session::{Session, SessionError};
use rescind_bench::statistics::percentile;
use rescind_bench::traffic::Payload;

const OUTSTANDING: usize = 64;
const LARGE_OUTSTANDING: usize = 4;
const SMALL_PIPE: usize = 4096;
/// The longest any one session may take, also of a debug build beside others.
const SESSION: Duration = Duration::from_secs(600);

/// Measures a shim between two pipes beside no shim, `cat`, splice, a
/// forwarder that does not parse (L0) and one that does (L1).
#[derive(Parser)]
struct Options {
    /// A smoke run of a few seconds; its figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
    /// Exit with 1 when the shim lies below a floor, not only when it wedges.
    #[arg(long)]
    require_floors: bool,
    /// Rounds to take the medians of.
    #[arg(long)]
    rounds: Option<usize>,
    /// The CPU that everything is pinned to; the last allowed one if absent.
    #[arg(long)]
    cpu: Option<usize>,
    #[command(flatten)]
    shim: ShimOptions,
    /// Take part only these, by name, besides direct and L0.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

/// How much is done.
struct Plan {
    rounds: usize,
    round_trips: usize,
    messages: usize,
    large_messages: usize,
    flood: usize,
    large_flood: usize,
}

impl Plan {
    const FULL: Self =
        Self { rounds: 7, round_trips: 20_000, messages: 200_000, large_messages: 64, flood: 100_000, large_flood: 64 };
    const QUICK: Self =
        Self { rounds: 2, round_trips: 500, messages: 5_000, large_messages: 8, flood: 20_000, large_flood: 8 };
}

fn main() -> ExitCode {
    if let Some(code) = peer::play_if_asked() {
        return code;
    }
    let options = Options::parse();
    run(&options).unwrap_or_else(|error| {
        // Without standard error there is nobody left to tell.
        let _ = writeln!(io::stderr(), "error: {error}");
        ExitCode::from(2)
    })
}

fn run(options: &Options) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let programs = options.shim.programs()?;
    let cpu = options.cpu.map_or_else(affinity::last_allowed_cpu, Ok)?;
    let mut machine = Machine::describe(cpu)?;
    affinity::pin(cpu)?;

    let mut plan = if options.quick { Plan::QUICK } else { Plan::FULL };
    plan.rounds = options.rounds.unwrap_or(plan.rounds).max(1);
    let mut all =
        participants(options, &programs).map(|contender| Rounds { contender, samples: Vec::new() }).collect::<Vec<_>>();
    for _ in 0..plan.rounds {
        for rounds in &mut all {
            let sample = measure(rounds.contender, &programs, cpu, &plan)?;
            rounds.samples.push(sample);
        }
    }
    let full_pipes =
        participants(options, &programs).flat_map(|contender| fill_pipes(contender, &programs, cpu, &plan)).collect();
    machine.finish()?;

    let report = Report::new(options.quick, machine, all, full_pipes);
    let mut out = io::stdout().lock();
    if options.json {
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
    } else {
        write!(out, "{report}")?;
    }
    let is_wanting = report.is_wedged() || options.require_floors && report.is_found_wanting();
    Ok(ExitCode::from(u8::from(is_wanting)))
}

fn participants(options: &Options, programs: &Programs) -> impl Iterator<Item = Contender> {
    Contender::ALL.into_iter().filter(|&contender| {
        let is_base = matches!(contender, Contender::Direct | Contender::LevelZero);
        let is_wanted = options.only.is_empty() || options.only.iter().any(|name| name == contender.name());
        let is_there = contender != Contender::Rescind || programs.rescind.is_some();
        (is_base || is_wanted) && is_there
    })
}

fn measure(contender: Contender, programs: &Programs, cpu: usize, plan: &Plan) -> Result<Sample, SessionError> {
    let mut session = Session::open(contender, programs, None, cpu, SESSION)?;
    let sample = session.speak(|driver| {
        driver.compare_bytes()?;
        driver.round_trips(plan.round_trips / 10)?;
        let mut trips = driver.round_trips(plan.round_trips)?;
        trips.sort_unstable();
        let microseconds = |percent| f64::from(percentile(&trips, percent)) / 1e3;
        let mut rate = |payload, count: usize, window| -> Result<f64, DriverError> {
            driver.stream(payload, count / 10, window)?;
            let took = driver.stream(payload, count, window)?;
            Ok(count as f64 / took.as_secs_f64())
        };
        let megabytes = rescind_bench::traffic::LARGE_LINE as f64 / 1e6;
        let large = plan.large_messages;
        Ok(Sample {
            p50_us: microseconds(50),
            p99_us: microseconds(99),
            messages_per_s: rate(Payload::Small, plan.messages, OUTSTANDING)?,
            string_mb_per_s: megabytes * rate(Payload::EscapedString, large, LARGE_OUTSTANDING)?,
            objects_mb_per_s: megabytes * rate(Payload::SmallObjects, large, LARGE_OUTSTANDING)?,
        })
    })?;
    session.close()?;
    Ok(sample)
}

/// Small and large messages through pipes that hold next to nothing.
fn fill_pipes(contender: Contender, programs: &Programs, cpu: usize, plan: &Plan) -> [FullPipes; 2] {
    [(Payload::Small, "219 B", plan.flood), (Payload::SmallObjects, "1 MiB", plan.large_flood)].map(
        |(payload, name, requests)| {
            let flooded = Session::open(contender, programs, Some(SMALL_PIPE), cpu, SESSION).and_then(|mut session| {
                let flood = session.speak(|driver| driver.flood(payload, requests))?;
                session.close()?;
                Ok(flood)
            });
            let (flood, failed) = match flooded {
                Ok(flood) => (Some(flood), None),
                Err(error) => (None, Some(error.cause.to_string())),
            };
            FullPipes {
                contender: contender.name(),
                payload: name,
                requests,
                outstanding_at_most: flood.map_or(0, |flood| flood.outstanding_at_most),
                refused: flood.map_or(0, |flood| flood.refused),
                seconds: flood.map_or(0.0, |flood| flood.took.as_secs_f64()),
                failed,
            }
        },
    )
}
