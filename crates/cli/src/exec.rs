//! `rescind __exec SHIM -- COMMAND…`: becomes the command, which dies with the shim.

use std::{ffi::OsString, path::Path, process::ExitCode};

use clap::Args;
use rescind::launch::{self, ExecError};

use crate::{failure::Failure, screen::clean};

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
    let path = Path::new(program);
    let text = program.to_string_lossy();
    let has_spaces = text.contains(char::is_whitespace);
    let cause = if path.is_dir() { "is a directory".to_owned() } else { error.to_string() };
    let hint = match &error {
        // The shim is gone, so nothing is printed.
        ExecError::Orphaned => return ExitCode::from(error.exit_code()),
        _ if path.is_dir() => "name a program in it",
        ExecError::NotFound(_) if text.is_empty() => {
            "name the command; if a variable stands for it, the variable is empty"
        }
        ExecError::NotFound(_) if has_spaces => {
            "give the command and its arguments as separate words: rescind run npx -y some-mcp-server"
        }
        ExecError::NotFound(_) if path.components().count() > 1 => {
            "check the path; if the file exists, the interpreter in its first line (#!) does not"
        }
        ExecError::NotFound(_) => "check the spelling and PATH, or give the command's full path",
        ExecError::NotExecutable(_) | _ => {
            "the command must be a program, or a script with an interpreter line, and executable (chmod +x)"
        }
    };
    let input = if text.is_empty() || has_spaces { format!("\"{text}\"") } else { text.into_owned() };
    Failure::new(clean(&input), cause, hint).report();
    ExitCode::from(error.exit_code())
}
