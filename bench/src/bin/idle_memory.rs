//! Resident memory of a shim that has nothing to do.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use rescind_bench::contender::Contender;
use rescind_bench::driver::DriverError;
use rescind_bench::floor::{Promise, Standing, Verdict};
use rescind_bench::process_tree::{ResidentField, resident_kib};
use rescind_bench::programs::{Programs, ShimOptions};
use rescind_bench::session::{Session, SessionError};
use rescind_bench::statistics::median;
use rescind_bench::traffic::Payload;
use rescind_bench::{affinity, peer};
use serde::Serialize;

const PARTICIPANTS: [Contender; 4] = [Contender::Cat, Contender::LevelZero, Contender::LevelOne, Contender::Rescind];
/// Calls made before the session falls idle.
const CALLS: usize = 100;
const SETTLE: Duration = Duration::from_millis(200);
/// The longest any one session may take, also of a debug build beside others.
const SESSION: Duration = Duration::from_secs(600);

/// Measures the resident memory of an idle shim: after a handshake and a
/// hundred calls, and again after sixteen messages of 1 MiB.
#[derive(Parser)]
struct Options {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Exit with 1 when the shim holds more than its floor.
    #[arg(long)]
    require_floors: bool,
    /// Sessions to take the medians of.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    #[command(flatten)]
    shim: ShimOptions,
}

/// Resident MiB.
#[derive(Clone, Copy, Serialize)]
struct Resident {
    idle_mib: f64,
    idle_anonymous_mib: f64,
    after_large_mib: f64,
}

#[derive(Serialize)]
struct Row {
    contender: &'static str,
    medians: Resident,
    rounds: Vec<Resident>,
}

#[derive(Serialize)]
struct Report {
    rows: Vec<Row>,
    promise: Option<Verdict>,
}

fn main() -> ExitCode {
    if let Some(code) = peer::play_if_asked() {
        return code;
    }
    run(&Options::parse()).unwrap_or_else(|error| {
        // Without standard error there is nobody left to tell.
        let _ = writeln!(io::stderr(), "error: {error}");
        ExitCode::from(2)
    })
}

fn run(options: &Options) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let programs = options.shim.programs()?;
    let cpu = affinity::last_allowed_cpu()?;
    affinity::pin(cpu)?;
    let mut rows: Vec<Row> = PARTICIPANTS
        .into_iter()
        .filter(|&one| one != Contender::Rescind || programs.rescind.is_some())
        .map(|contender| {
            let rounds = (0..options.rounds.max(1))
                .map(|_| measure(contender, &programs, cpu))
                .collect::<Result<Vec<_>, _>>()?;
            Ok(Row::new(contender, rounds))
        })
        .collect::<Result<_, SessionError>>()?;
    rows.sort_by(|a, b| a.medians.idle_mib.total_cmp(&b.medians.idle_mib));
    let promise = rows
        .iter()
        .find(|row| row.contender == Contender::Rescind.name())
        .map(|row| Promise::at_most("idle shim, MiB resident", 6.5, 5.5).judge(row.medians.idle_mib));
    let report = Report { rows, promise };
    report.print(options.json)?;
    let is_wanting =
        options.require_floors && report.promise.is_some_and(|promise| promise.standing == Standing::Below);
    Ok(ExitCode::from(u8::from(is_wanting)))
}

fn measure(contender: Contender, programs: &Programs, cpu: usize) -> Result<Resident, SessionError> {
    let mut session = Session::open(contender, programs, None, cpu, SESSION)?;
    let pid = session.first_pid();
    let resident = session.speak(|driver| {
        let pid = pid.ok_or(DriverError::Closed)?;
        let mib = |field| Ok::<f64, io::Error>(resident_kib(pid, field)? as f64 / 1024.0);
        driver.round_trips(CALLS)?;
        std::thread::sleep(SETTLE);
        let idle_mib = mib(ResidentField::All)?;
        let idle_anonymous_mib = mib(ResidentField::Anonymous)?;
        driver.stream(Payload::EscapedString, 16, 4)?;
        std::thread::sleep(SETTLE);
        Ok(Resident { idle_mib, idle_anonymous_mib, after_large_mib: mib(ResidentField::All)? })
    })?;
    session.close()?;
    Ok(resident)
}

impl Row {
    fn new(contender: Contender, rounds: Vec<Resident>) -> Self {
        let middle = |figure: fn(&Resident) -> f64| median(&rounds.iter().map(figure).collect::<Vec<_>>());
        Self {
            contender: contender.name(),
            medians: Resident {
                idle_mib: middle(|it| it.idle_mib),
                idle_anonymous_mib: middle(|it| it.idle_anonymous_mib),
                after_large_mib: middle(|it| it.after_large_mib),
            },
            rounds,
        }
    }
}

impl Report {
    fn print(&self, as_json: bool) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if as_json {
            serde_json::to_writer(&mut out, self)?;
            return writeln!(out);
        }
        writeln!(out, "{:<8} {:>10} {:>20} {:>22}", "", "idle MiB", "of it anonymous MiB", "after 16 × 1 MiB, MiB")?;
        for row in &self.rows {
            writeln!(
                out,
                "{:<8} {:>10.2} {:>20.2} {:>22.2}",
                row.contender, row.medians.idle_mib, row.medians.idle_anonymous_mib, row.medians.after_large_mib
            )?;
        }
        if let Some(promise) = &self.promise {
            writeln!(out, "\n{}", promise.line())?;
        }
        Ok(())
    }
}
