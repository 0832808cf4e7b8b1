//! `rescind __exec SHIM -- COMMAND…`: becomes the command, which dies with the shim.

use std::{ffi::OsString, process::ExitCode};

use clap::Args;
use rescind::launch::{self, ExecError};

use crate::run::of_exec;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The process that started this one.
    shim: u32,
    /// The command to become.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(crate) fn main(arguments: Arguments) -> ExitCode {
    let Arguments { shim, command } = arguments;
    let Some((program, rest)) = command.split_first() else { return ExitCode::from(125) };
    let error = launch::exec(shim, program, rest);
    match &error {
        // The shim is gone, so nothing is printed.
        ExecError::Orphaned => {}
        ExecError::NotFound(_) | ExecError::NotExecutable(_) | _ => of_exec(program, &error).report(),
    }
    ExitCode::from(error.exit_code())
}
