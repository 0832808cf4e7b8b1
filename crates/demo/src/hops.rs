//! `rescind __hop`: the processes behind the editor of the demo.
//!
//! An agent, its tool server, and what a tool runs: ordinary users of the library. None has code that passes a
//! cancel on; each [marks](mark) when its work begins, is told to stop, and has really stopped.

mod agent;
pub(crate) mod mark;
mod tools;
pub(crate) mod wire;
mod work;

use std::{env, io, process::ExitCode, sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use tokio::runtime;

use crate::{
    failure::Failure,
    marks::{self, Marks},
};

pub(crate) use agent::{BUILD_AND_SEARCH, GO_ON};

/// What they say of themselves.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Work is done in steps of this length.
const STEP: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    role: Role,
}

/// What a process is in the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    Agent,
    Tools,
    Make,
    Compiler,
}

pub(crate) fn main(Arguments { role }: Arguments) -> ExitCode {
    match run(role) {
        Ok(code) => code,
        Err(error) => {
            Failure::new(marks::VARIABLE, error, "this is a part of `rescind demo`: start that").say();
            ExitCode::from(2)
        }
    }
}

fn run(role: Role) -> io::Result<ExitCode> {
    // Work without marks would not notice that nobody watches it any more.
    env::var_os(marks::VARIABLE).ok_or(io::ErrorKind::NotFound)?;
    let marks = Arc::new(Marks::from_environment()?);
    runtime()?.block_on(async {
        match role {
            Role::Agent => agent::serve(&marks).await.map(|()| ExitCode::SUCCESS),
            Role::Tools => tools::serve(&marks).await.map(|()| ExitCode::SUCCESS),
            Role::Make => work::make(&marks).await,
            Role::Compiler => work::compiler(&marks).await,
        }
    })
}

/// One thread is enough for anything here.
pub(crate) fn runtime() -> io::Result<runtime::Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

/// This program in another role.
pub(crate) fn command(role: Role) -> io::Result<tokio::process::Command> {
    let mut command = tokio::process::Command::new(env::current_exe()?);
    command.arg("__hop").args(role.to_possible_value().map(|name| name.get_name().to_owned()));
    Ok(command)
}
