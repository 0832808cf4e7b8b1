//! What an HTTP gateway in front of a stdio MCP server costs, beside the least one there can be; and a program that goes
//! the other way, between a client's pipes and an HTTP server.
//!
//! One program plays all parts but the gateways of others: it starts itself again as the child and as the floors.

mod bridge;
mod calls;
mod child;
mod client;
mod contender;
mod floods;
mod forwarder;
mod gateway;
mod marks;
mod message;
mod program;
mod report;
mod streams;
mod trips;

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::rc::Rc;
use std::time::Duration;

use clap::Parser;
use rescind_bench::affinity;
use rescind_bench::machine::Machine;
use rescind_bench::programs::ShimOptions;
use rustix::process::{Resource, Signal, getrlimit, set_parent_process_death_signal, setrlimit};
use tokio::task::LocalSet;
use tokio::time::timeout;

use crate::calls::Durations;
use crate::contender::{Contender, Programs};
use crate::gateway::Gateway;
use crate::message::{Era, Requests};
use crate::program::Program;
use crate::report::{Figures, Report};

/// The longest that one part of a measurement may take.
const PART: Duration = Duration::from_secs(120);
/// Descriptors that a process needs besides those of its streams.
const SPARE: usize = 256;

/// Measures HTTP gateways in front of a stdio MCP server: calls, open streams, cancels, and these beside a flood; and programs between a client
/// on stdio and an HTTP server: calls.
#[derive(Parser)]
struct Options {
    /// A smoke run; its figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
    /// Rounds to take the medians of.
    #[arg(long)]
    rounds: Option<usize>,
    /// Take part only these, by name.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Measure only clients of this era.
    #[arg(long)]
    era: Option<Era>,
    /// Measure only this.
    #[arg(long)]
    part: Option<Part>,
    /// Streams that are opened.
    #[arg(long, default_value_t = 10_000)]
    streams: usize,
    /// Streams that are opened at the gateways of others.
    #[arg(long, default_value_t = 1000)]
    streams_of_others: usize,
    /// The CPU that the gateway and its child are pinned to; the last allowed one if absent.
    #[arg(long)]
    cpu: Option<usize>,
    /// The CPU of the load generator; the same if absent.
    #[arg(long)]
    load_cpu: Option<usize>,
    /// How long the quiet client beside a flood rests before each of its calls, in milliseconds. A person does longer; a
    /// processor that was idle meanwhile is slow to wake.
    #[arg(long, default_value_t = 15)]
    rests: u64,
    #[command(flatten)]
    shim: ShimOptions,
    /// Where the gateways of others are installed.
    #[arg(long, value_name = "FOLDER", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../peers"))]
    peers: PathBuf,
    /// The command of the crate mcp-proxy.
    #[arg(long, value_name = "FILE", env = "CRATE_MCP_PROXY")]
    crate_mcp_proxy: Option<PathBuf>,
}

impl Options {
    fn measures(&self, part: Part) -> bool {
        self.part.is_none_or(|only| only == part)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Calls,
    Streams,
    Floods,
    Pipes,
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let ran = if words.next().is_some_and(|word| word == "peer") {
        play(&words.collect::<Vec<_>>()).map_err(Into::into)
    } else {
        run(&Options::parse())
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without standard error there is nobody left to tell.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::from(2)
        }
    }
}

/// The parts that this program plays when it is started again.
fn play(words: &[OsString]) -> io::Result<()> {
    let [role, rest @ ..] = words else { return Err(io::Error::other("no role")) };
    if role == "child" {
        // It ends with its input: whoever starts it may end the thread that did.
        let [marks] = rest else { return Err(io::Error::other("no file to mark in")) };
        return child::serve(Path::new(marks));
    }
    // Whoever kills the bench leaves no gateway behind.
    set_parent_process_death_signal(Some(Signal::TERM))?;
    match (role.to_str(), rest) {
        (Some("bridge"), _) => bridge::serve(rest, bridge::Kind::Json),
        (Some("bridge-sse"), _) => bridge::serve(rest, bridge::Kind::Sse),
        (Some("bridge-each"), _) => bridge::serve(rest, bridge::Kind::ChildEach),
        (Some("streams"), _) => bridge::serve_streams(),
        (Some("forwarder"), [url]) => forwarder::forward(&url.to_string_lossy()),
        (Some("gateway"), [program, arguments @ ..]) => Err(Command::new(program).args(arguments).exec()),
        _ => Err(io::Error::other("no such role")),
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let shim = options.shim.programs()?;
    let programs = Programs {
        own: shim.own,
        rescind: shim.rescind,
        peers: options.peers.canonicalize()?,
        crate_proxy: options.crate_mcp_proxy.clone(),
    };
    let streams = options.streams.min(raise_limit()?.saturating_sub(SPARE));
    let cpu = options.cpu.map_or_else(affinity::last_allowed_cpu, Ok)?;
    let bench = Bench { options, programs, cpu, load_cpu: options.load_cpu.unwrap_or(cpu), streams };
    let mut report = Report::new(options.quick, Machine::describe(cpu)?, bench.load_cpu);
    if streams < options.streams {
        report.note(format!("{streams} streams: no process may open more files"));
    }
    let contenders = bench.contenders(&mut report);
    let programs = bench.programs_on_pipes(&mut report);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let rounds = options.rounds.unwrap_or(if options.quick { 1 } else { 3 }).max(1);
    for _ in 0..rounds {
        for era in Era::ALL.into_iter().filter(|&era| options.era.is_none_or(|only| only == era)) {
            for &contender in contenders.iter().filter(|contender| contender.speaks(era)) {
                let mut figures = Figures::new();
                if options.measures(Part::Calls) {
                    let measured = bench.measure_calls(contender, era, &mut figures);
                    report.note_error(contender.name(), era, LocalSet::new().block_on(&runtime, measured));
                }
                if options.measures(Part::Streams) {
                    let measured = bench.measure_streams(contender, era, &mut figures);
                    report.note_error(contender.name(), era, LocalSet::new().block_on(&runtime, measured));
                }
                if options.measures(Part::Floods) {
                    let measured = bench.measure_floods(contender, era, &mut figures);
                    report.note_error(contender.name(), era, LocalSet::new().block_on(&runtime, measured));
                }
                report.add(era, contender.name(), figures);
            }
            for &program in programs.iter().filter(|program| program.speaks(era)) {
                let mut figures = Figures::new();
                let measured = bench.measure_pipes(program, era, &mut figures);
                report.note_error(program.name(), era, LocalSet::new().block_on(&runtime, measured));
                report.add(era, program.name(), figures);
            }
        }
    }
    report.machine.finish()?;
    report.finish();
    let text = if options.json { serde_json::to_string(&report)? } else { report.to_string() };
    Ok(writeln!(io::stdout(), "{}", text.trim_end())?)
}

struct Bench<'a> {
    options: &'a Options,
    programs: Programs,
    cpu: usize,
    load_cpu: usize,
    streams: usize,
}

impl Bench<'_> {
    fn contenders(&self, report: &mut Report) -> Vec<Contender> {
        let mut there = Contender::ALL.to_vec();
        there.retain(|one| self.takes_part(one.name(), || one.absence(&self.programs), report));
        there
    }

    fn programs_on_pipes(&self, report: &mut Report) -> Vec<Program> {
        let mut there = if self.options.measures(Part::Pipes) { Program::ALL.to_vec() } else { Vec::new() };
        there.retain(|one| self.takes_part(one.name(), || one.absence(&self.programs), report));
        there
    }

    fn takes_part(&self, name: &str, absence: impl Fn() -> Option<String>, report: &mut Report) -> bool {
        let is_wanted = self.options.only.is_empty() || self.options.only.iter().any(|only| only == name);
        let absence = if is_wanted { absence() } else { None };
        absence.iter().for_each(|why| report.note(format!("{name}: {why}")));
        is_wanted && absence.is_none()
    }

    const fn durations(&self) -> Durations {
        if self.options.quick { Durations::QUICK } else { Durations::FULL }
    }

    /// What was measured until something fails is in `figures`, as with all that follow. Calls and streams have a process
    /// each: of memory that calls have left free streams would seem to need none.
    async fn measure_calls(&self, contender: Contender, era: Era, figures: &mut Figures) -> io::Result<()> {
        if contender == Contender::BareSse {
            return Ok(());
        }
        let (gateway, sessions) = self.open(contender, era, figures).await?;
        within(calls::measure(&gateway, &sessions, self.durations(), figures)).await
    }

    async fn measure_streams(&self, contender: Contender, era: Era, figures: &mut Figures) -> io::Result<()> {
        if contender == Contender::BridgeEach {
            return Ok(());
        }
        let (mut gateway, sessions) = self.open(contender, era, figures).await?;
        let (wanted, others) =
            if self.options.quick { (100, 50) } else { (self.streams, self.options.streams_of_others) };
        let count = contender.streams(era, wanted, others.min(wanted));
        let has_child = contender != Contender::BareSse;
        within(streams::measure(&mut gateway, &sessions, era, (count, has_child), figures)).await
    }

    /// Where the two clients have one child.
    async fn measure_floods(&self, contender: Contender, era: Era, figures: &mut Figures) -> io::Result<()> {
        if !contender.shares_child(era) {
            return Ok(());
        }
        let (mut gateway, sessions) = self.open(contender, era, figures).await?;
        let cancels = if self.options.quick { 16 } else { 1000 };
        let rests = Duration::from_millis(self.options.rests);
        within(floods::measure(&mut gateway, &sessions, era, (cancels, rests), figures)).await
    }

    async fn open(
        &self,
        contender: Contender,
        era: Era,
        figures: &mut Figures,
    ) -> io::Result<(Gateway, Vec<Rc<Requests>>)> {
        affinity::pin(self.cpu)?;
        let gateway = Gateway::start(contender, &self.programs)?;
        affinity::confirm_descendants(self.cpu)?;
        affinity::pin(self.load_cpu)?;
        let sessions = within(calls::open_sessions(&gateway, contender, era)).await?;
        if contender != Contender::BareSse {
            within(async { calls::Caller::connect(&gateway, &sessions, 0).await?.echo().await }).await?;
        }
        figures.entry("idle MiB").or_insert(gateway.usage()?.gateway_kib as f64 / 1024.0);
        Ok((gateway, sessions))
    }

    async fn measure_pipes(&self, program: Program, era: Era, figures: &mut Figures) -> io::Result<()> {
        affinity::pin(self.cpu)?;
        let gateway = Gateway::start(Contender::Bridge, &self.programs)?;
        let running = program.start(&self.programs, &gateway)?;
        affinity::confirm_descendants(self.cpu)?;
        affinity::pin(self.load_cpu)?;
        match running {
            Some(running) => within(trips::measure(running, era, self.durations(), figures)).await,
            None => within(trips::measure_direct(&gateway, era, self.durations(), figures)).await,
        }
    }
}

async fn within<T>(part: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(PART, part).await.map_err(|_| io::Error::other("it takes too long"))?
}

/// Lets this process, and all that it starts, open as many files as it ever may; returns how many.
fn raise_limit() -> io::Result<usize> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    Ok(limit.maximum.map_or(usize::MAX, |maximum| usize::try_from(maximum).unwrap_or(usize::MAX)))
}
