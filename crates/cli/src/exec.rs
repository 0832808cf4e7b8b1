//! `rescind __exec SHIM -- COMMAND…`: becomes the command, which dies with the shim.

use std::{ffi::OsString, path::Path, process::ExitCode};

use clap::Args;
use rescind::launch::{self, ExecError};

use crate::failure::Failure;

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
    let hint = match &error {
        // The shim is gone, so nothing is printed.
        ExecError::Orphaned => return ExitCode::from(error.exit_code()),
        ExecError::NotFound(_) if Path::new(program).components().count() > 1 => {
            "check the path, and that the interpreter named in its first line exists"
        }
        ExecError::NotFound(_) => "check the spelling and PATH, or give the command's full path",
        ExecError::NotExecutable(_) | _ => {
            "the command must be a program, or a script with an interpreter line, and executable (chmod +x)"
        }
    };
    Failure::new(program.display(), &error, hint).report();
    ExitCode::from(error.exit_code())
}
