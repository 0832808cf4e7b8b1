//! The `rescind` command.
//!
//! One file a subcommand. Exit codes: `rescind run` exits with its command's code
//! or dies of its signal, and uses 125 to 127 for its own failures, as `env` and
//! `timeout` do. The others exit with 0 for success, 2 for failure, and 1 for
//! partial success: in `cancel` a request was not cancelled, in `stop` one is not
//! known to have stopped, in `end` a server was not seen to end, in `ps` a session did not answer, in `reap` a process is
//! left, in `doctor` something wants attention, in `whoami` nobody is signed in, in
//! `logout` the server keeps the token, in `demo` something did not go as expected.

mod absence;
mod browser;
mod cancel;
mod completion;
mod completions;
mod console;
mod demo;
mod descriptors;
mod doctor;
mod duration;
mod end;
mod environment;
#[cfg(unix)]
mod exec;
mod export;
mod failure;
mod fleet;
mod folders;
#[cfg(unix)]
mod guard;
mod interrupts;
mod launcher;
mod link;
mod login;
mod logout;
#[cfg(test)]
mod manual;
mod mcp;
mod mistake;
mod named;
mod number;
mod origin;
mod own_copy;
mod program_version;
mod ps;
mod question;
mod reap;
mod redact;
mod run;
mod screen;
mod selector;
mod serve;
mod session_name;
mod shared;
mod sign_in;
mod stderr;
mod stop;
mod told;
mod turns;
mod whoami;
mod wrap;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use rescind_demo::{hops, sample_server};

use completion::Completion;

/// Between your clients and their MCP servers, ACP agents, language servers or Codex: a Stop stops the work, what works is
/// seen, and what will not stop can be ended.
#[derive(Debug, Parser)]
#[command(name = "rescind", version, max_term_width = 100, color = screen::colours_of_help())]
#[command(after_help = "Begin with `rescind demo`, which changes nothing, and `rescind wrap`, which asks first.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The same with only what stays as long as a session, which so costs nothing for the other commands.
#[derive(Debug, Parser)]
#[command(name = "rescind", version, max_term_width = 100, color = screen::colours_of_help())]
struct SessionCli {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Debug, Subcommand)]
enum SessionCommand {
    Run(Box<run::Arguments>),
    Serve(Box<serve::Arguments>),
    #[cfg(unix)]
    #[command(name = "__exec", hide = true)]
    Exec(exec::Arguments),
}

/// In the order of the help: what a person types first.
#[derive(Debug, Subcommand)]
enum Command {
    Wrap(wrap::WrapArguments),
    Ps(ps::Arguments),
    Stop(stop::Arguments),
    Cancel(cancel::Arguments),
    End(end::Arguments),
    Reap(reap::Arguments),
    Console(console::Arguments),
    Doctor(doctor::Arguments),
    Unwrap(wrap::UnwrapArguments),
    Uninstall(wrap::uninstall::Arguments),
    Demo(demo::Arguments),
    #[command(flatten)]
    Session(SessionCommand),
    Mcp(mcp::Arguments),
    Login(login::Arguments),
    Logout(logout::Arguments),
    Whoami(whoami::Arguments),
    Redact(redact::Arguments),
    Export(export::Arguments),
    Completions(completions::Arguments),
    #[command(name = sample_server::SUBCOMMAND, hide = true)]
    SampleServer,
    #[command(name = hops::SUBCOMMAND, hide = true)]
    Hop(demo::HopArguments),
}

fn main() -> ExitCode {
    launcher::die_with_it();
    // Never dropped: what drops them would stay in the memory of each guard.
    let name = std::mem::ManuallyDrop::new(std::env::args_os()).nth(1);
    // Each server process has one: what reads arguments would stay in the memory of all.
    #[cfg(unix)]
    if name.as_ref().is_some_and(|name| name == "__guard") {
        return guard::main();
    }
    let is_of_session = name.is_some_and(|name| name.to_str().is_some_and(SessionCommand::has_subcommand));
    let parsed = if is_of_session {
        SessionCli::try_parse().map(|cli| Command::Session(cli.command))
    } else {
        Cli::try_parse().map(|cli| cli.command)
    };
    let command = match parsed {
        Ok(command) => command,
        Err(error) => return refused(&error),
    };
    let done = match command {
        Command::Session(SessionCommand::Run(arguments)) => return run::main(*arguments),
        Command::Session(SessionCommand::Serve(arguments)) => serve::main(*arguments),
        #[cfg(unix)]
        Command::Session(SessionCommand::Exec(arguments)) => return exec::main(arguments),
        Command::Ps(arguments) => ps::main(&arguments),
        Command::Cancel(arguments) => cancel::main(&arguments),
        Command::Stop(arguments) => stop::main(&arguments),
        Command::End(arguments) => end::main(&arguments),
        Command::Reap(arguments) => reap::main(&arguments),
        Command::Console(arguments) => console::main(arguments),
        Command::Redact(arguments) => redact::main(&arguments),
        Command::Export(arguments) => export::main(&arguments),
        Command::Mcp(arguments) => mcp::main(arguments),
        Command::Login(arguments) => login::main(arguments),
        Command::Logout(arguments) => logout::main(&arguments),
        Command::Whoami(arguments) => whoami::main(&arguments),
        Command::Wrap(arguments) => wrap::wrap(&arguments),
        Command::Unwrap(arguments) => wrap::unwrap(&arguments),
        Command::Uninstall(arguments) => wrap::uninstall::main(&arguments),
        Command::Doctor(arguments) => doctor::main(&arguments),
        Command::Demo(arguments) => demo::main(&arguments),
        Command::Completions(arguments) => completions::main(&arguments),
        Command::SampleServer => demo::sample_server(),
        Command::Hop(arguments) => return demo::hop(arguments),
    };
    let completion = done.unwrap_or_else(|failure| {
        failure.report();
        Completion::Failed
    });
    completion.into()
}

/// Exits after a mistake, or after what was only asked for. That of `run` must not look like an exit code of its command.
fn refused(error: &clap::Error) -> ExitCode {
    let words: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    match mistake::line(error, &words, &Cli::command()) {
        Some(line) => fleet::report(&line),
        None => drop(error.print()),
    }
    match (error.exit_code(), words.first().is_some_and(|name| name == "run")) {
        (0, _) => ExitCode::SUCCESS,
        (_, true) => ExitCode::from(run::OWN_FAILURE),
        (_, false) => Completion::Failed.into(),
    }
}
