//! `rescind doctor`: which servers of this machine have the shim, which do not, and why.

mod examine;
mod program;
mod report;
mod sharing;
mod text;

use std::io::{self, Write};

use clap::Args;

use crate::{completion::Completion, failure::Failure};
use report::Report;

/// Report which servers of your clients have the shim, which do not, and why. Changes nothing.
///
/// Looks into the files of every client on this machine, and into the project files from the current directory up to the
/// root of its repository. For each server that is wrapped it tells whether the program that its file names is there, can
/// be run, is this version, and is in a place that will stay. It lists what has no file to change (extensions, plugins,
/// managed servers), which servers are shared or could be, and which clients give up calls without a cancel, with what to
/// set. The last three lines sum it up: what
/// to do first, how much wants attention, and how many servers have the shim.
///
/// Another version of rescind is asked for its version (`--version`, two seconds at most). A program that only a project
/// file names is never run.
///
/// Exit code: 0 if all is well; 1 if something wants attention; 2 if something could not be read. A server without a shim
/// is a choice, and wants no attention.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(arguments: &Arguments) -> Result<Completion, Failure> {
    let report = examine::report()?;
    let printed = if arguments.json { json(&report) } else { text::print(&report) };
    match printed {
        // Who closed it has read enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new("stdout", error, "check where it leads to"))
        }
        Ok(()) | Err(_) => Ok(report.completion()),
    }
}

fn json(report: &Report) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer_pretty(&mut stdout, report)?;
    stdout.write_all(b"\n")
}
