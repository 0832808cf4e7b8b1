//! What a lasting task costs: beside plain transactions of SQLite, and until a cancel arrives in another process.

mod rate;
mod signal;
mod table;

use std::{
    error::Error,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::Parser;

use crate::{rate::Contender, signal::Signal, table::Report};

/// Measures tasks that are created and cancelled, and the way of a cancel to another process.
#[derive(Parser)]
struct Options {
    /// A smoke run; its figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
    /// Rounds to take the medians of.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Where the files are made: it is this disk that is measured. The folder for temporary files if absent.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// The process that works, in the measurement of cancels: how it is started.
    #[arg(long, hide = true, value_name = "FILE")]
    worker: Option<PathBuf>,
    /// It writes all the while.
    #[arg(long, hide = true)]
    busy: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let ran = match &options.worker {
        Some(file) => signal::work(file, options.busy),
        None => measure(&options),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::from(2)
        }
    }
}

fn measure(options: &Options) -> Result<(), Box<dyn Error>> {
    let (rounds, tasks, cancels) = if options.quick { (1, 64, 5) } else { (options.rounds.max(1), 1024, 100) };
    let mut report = Report::default();
    for _ in 0..rounds {
        for contender in Contender::ALL {
            for callers in [1, 64] {
                let folder = folder(options)?;
                let rate = contender.rate(folder.path(), callers, tasks)?;
                report.rate(contender, callers, rate);
            }
        }
        for busy in [false, true] {
            let folder = folder(options)?;
            report.signals(busy, Signal::measure(&folder.path().join("tasks.db"), cancels, busy)?);
        }
    }
    let text = if options.json { serde_json::to_string(&report.figures())? } else { report.to_string() };
    Ok(writeln!(io::stdout(), "{}", text.trim_end())?)
}

fn folder(options: &Options) -> io::Result<tempfile::TempDir> {
    options.folder.as_ref().map_or_else(tempfile::tempdir, tempfile::tempdir_in)
}
