//! One contender under one load, for a profiler or a tracer to look at.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use rescind_bench::contender::Contender;
use rescind_bench::programs::ShimOptions;
use rescind_bench::session::Session;
use rescind_bench::traffic::Payload;
use rescind_bench::{affinity, peer};

const SESSION: Duration = Duration::from_secs(300);

/// Puts one contender under one load; what `shim_bench` measures, alone.
#[derive(Parser)]
struct Options {
    /// The load.
    load: Load,
    /// Requests to send.
    #[arg(long, default_value_t = 100_000)]
    requests: usize,
    /// The contender, by name.
    #[arg(long, default_value = "rescind")]
    contender: String,
    #[command(flatten)]
    shim: ShimOptions,
    /// Bytes that each pipe holds, instead of the kernel's default.
    #[arg(long)]
    pipe_size: Option<usize>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Load {
    /// 219 bytes, one outstanding.
    RoundTrip,
    /// 219 bytes, 64 outstanding.
    Messages,
    /// 1 MiB of one escaped string, four outstanding.
    String,
    /// 1 MiB of small objects, four outstanding.
    Objects,
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
    let contender = Contender::ALL
        .into_iter()
        .find(|one| one.name() == options.contender)
        .ok_or_else(|| format!("{}: no such contender", options.contender))?;
    let programs = options.shim.programs()?;
    let cpu = affinity::last_allowed_cpu()?;
    affinity::pin(cpu)?;
    let mut session = Session::open(contender, &programs, options.pipe_size, cpu, SESSION)?;
    let count = options.requests;
    let began = Instant::now();
    session.speak(|driver| {
        match options.load {
            Load::RoundTrip => drop(driver.round_trips(count)?),
            Load::Messages => drop(driver.stream(Payload::Small, count, 64)?),
            Load::String => drop(driver.stream(Payload::EscapedString, count, 4)?),
            Load::Objects => drop(driver.stream(Payload::SmallObjects, count, 4)?),
        }
        Ok(())
    })?;
    let took = began.elapsed().as_secs_f64();
    session.close()?;
    writeln!(io::stdout(), "{count} requests in {took:.3} s, {:.3} µs each", took * 1e6 / count as f64)?;
    Ok(ExitCode::SUCCESS)
}
