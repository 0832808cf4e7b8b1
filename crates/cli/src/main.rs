//! The `rescind` command.
//!
//! One file a subcommand. Exit codes: `rescind run` gives its command's or dies
//! of its signal, and gives 125 to 127 for failures of its own (as `env` and
//! `timeout` do); everything else gives 0 for done, 2 for could not, and 1 for
//! done in part: `cancel` where something was not in flight, `ps` where a session
//! did not answer, `demo` where something did not go as expected.

mod cancel;
mod console;
mod demo;
mod exec;
mod failure;
mod fleet;
mod guard;
mod ps;
mod run;
mod screen;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rescind_demo::{hops, sample_server};

/// Cancellation that works, for MCP servers, ACP agents and language servers.
#[derive(Debug, Parser)]
#[command(name = "rescind", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Arguments),
    Ps(ps::Arguments),
    Cancel(cancel::Arguments),
    Console(console::Arguments),
    Demo(demo::Arguments),
    #[command(name = "__exec", hide = true)]
    Exec(exec::Arguments),
    #[command(name = "__guard", hide = true)]
    Guard,
    #[command(name = sample_server::SUBCOMMAND, hide = true)]
    SampleServer,
    #[command(name = hops::SUBCOMMAND, hide = true)]
    Hop(demo::HopArguments),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    match cli.command {
        Command::Run(arguments) => run::main(arguments),
        Command::Ps(arguments) => ps::main(arguments),
        Command::Cancel(arguments) => cancel::main(arguments),
        Command::Console(arguments) => console::main(arguments),
        Command::Demo(arguments) => demo::main(arguments),
        Command::Exec(arguments) => exec::main(arguments),
        Command::Guard => guard::main(),
        Command::SampleServer => demo::sample_server(),
        Command::Hop(arguments) => demo::hop(arguments),
    }
}

/// Usage errors of `run` must not look like an exit code of its command.
fn refused(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    let of_run = std::env::args_os().nth(1).is_some_and(|name| name == "run");
    match error.exit_code() {
        0 => ExitCode::SUCCESS,
        _ if of_run => ExitCode::from(run::OWN_FAILURE),
        _ => ExitCode::from(2),
    }
}
