//! `rescind demo`, and the hidden subcommands with which the demo starts this program.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Args;
use rescind_demo::{
    Demo, JSON_FORMAT, Paint,
    hops::{self, Role},
    sample_server,
};

use crate::{completion::Completion, failure::Failure, screen::Screen};

/// See it work, on real processes, in two acts.
///
/// In the first act, a person presses Stop in an editor. Its agent is in the middle of two tool calls and a question to
/// the person; one tool runs a process, which runs another. All of them stop, and each reports when. In the second act, a
/// client calls six tools through the shim, `rescind run`: one answers; one obeys its cancel; one ignores it; one is
/// cancelled while its answer is on its way; one never answers, so the shim's timeout cancels it; and during the last
/// one the server dies. The demo takes about two seconds, needs nothing, and leaves nothing behind.
///
/// Exit code: 0 if everything went as expected, 1 if something did not (the output says what), 2 if it could not run.
#[derive(Debug, Args)]
#[command(after_long_help = JSON_FORMAT)]
pub(crate) struct Arguments {
    /// Print one JSON object instead of the picture
    ///
    /// It is described below.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HopArguments {
    role: Role,
}

pub(crate) fn main(arguments: &Arguments) -> Result<Completion, Failure> {
    let hint = "check the limits on processes and open files (ulimit -a)";
    let demo = Demo::play().map_err(|error| Failure::new("rescind demo", error, hint))?;
    let text = if arguments.json { demo.to_json() } else { demo.picture(paint()) };
    match io::stdout().write_all(text.as_bytes()) {
        // A reader that has closed the pipe needs no more.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new("standard output", error, "write to a file system with free space"))
        }
        Ok(()) | Err(_) => Ok(Completion::whole_if(demo.is_as_expected())),
    }
}

pub(crate) fn hop(HopArguments { role }: HopArguments) -> ExitCode {
    hops::run(role).unwrap_or_else(|error| {
        Failure::new(hops::SUBCOMMAND, error, "this is part of `rescind demo`: run that instead").report();
        Completion::Failed.into()
    })
}

pub(crate) fn sample_server() -> Result<Completion, Failure> {
    let served = sample_server::serve().map(|()| Completion::Whole);
    served.map_err(|error| Failure::new(sample_server::SUBCOMMAND, error, "name a file or pipe that can be written"))
}

fn paint() -> Paint {
    let screen = Screen::now();
    Paint::new(screen.size.map(|(columns, _)| columns), screen.colour)
}
