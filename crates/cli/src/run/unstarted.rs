//! The error message about a command that cannot be started.

use std::{ffi::OsStr, fmt::Display, path::Path};

#[cfg(unix)]
use rescind::launch::{self, ExecError};

use crate::{failure::Failure, mistake::is_url, screen::clean};

/// The message. `cause` tells why a command that exists cannot be started; `None` says that there is no such command.
fn unstarted(program: &OsStr, cause: Option<&dyn Display>) -> Failure {
    let path = Path::new(program);
    let text = program.to_string_lossy();
    let has_spaces = text.contains(char::is_whitespace);
    let (cause, hint) = match cause {
        _ if path.is_dir() => ("is a directory".to_owned(), "name a program in it"),
        Some(cause) => (cause.to_string(), NOT_A_PROGRAM),
        None if is_url(&text) => (NOT_FOUND.to_owned(), "a server at a URL is reached with: rescind run --url URL"),
        None if matches!(&*text, "help" | "-help" | "/?") => {
            (NOT_FOUND.to_owned(), "`rescind run --help` describes what it takes")
        }
        None if text.is_empty() => {
            (NOT_FOUND.to_owned(), "name the command; if a variable stands for it, the variable is empty")
        }
        None if has_spaces => {
            (NOT_FOUND.to_owned(), "give the command and its arguments as separate words: npx -y some-mcp-server")
        }
        None if path.components().count() > 1 => (NOT_FOUND.to_owned(), NO_SUCH_PATH),
        None => (NOT_FOUND.to_owned(), "check the spelling and PATH, or give the command's full path"),
    };
    let input = if text.is_empty() || has_spaces { format!("\"{text}\"") } else { text.into_owned() };
    Failure::new(clean(&input), cause, hint)
}

/// The message and the exit code, where the system tells them of one call: no process between says so, as elsewhere. `None`
/// if this process is at fault.
#[cfg(windows)]
pub(super) fn of_error(program: &OsStr, error: &std::io::Error) -> Option<(Failure, u8)> {
    use std::io::ErrorKind;
    /// `ERROR_BAD_EXE_FORMAT`, whose text has a place for the name.
    const BAD_FORMAT: i32 = 193;
    let path = Path::new(program);
    let is = |kind| error.kind() == kind;
    if is(ErrorKind::Other) || is(ErrorKind::OutOfMemory) {
        return None;
    }
    let is_nameless = is(ErrorKind::InvalidInput) && path.file_name().is_none();
    if !path.is_dir() && (is(ErrorKind::NotFound) || is_nameless) {
        return Some((unstarted(program, None), 127));
    }
    let mut failure = unstarted(program, Some(error));
    if error.raw_os_error() == Some(BAD_FORMAT) {
        "is not a program".clone_into(&mut failure.cause);
    } else if is(ErrorKind::InvalidInput) && !path.is_dir() {
        // So the standard library refuses what it cannot quote for a batch file.
        "a batch file cannot be given an argument with a line break".clone_into(&mut failure.cause);
        "leave out the line break, or name the program that the batch file starts".clone_into(&mut failure.hint);
    }
    Some((failure, 126))
}

/// Refuses a command that cannot be started, in the words for one that was tried.
#[cfg(unix)]
pub(crate) fn check_command(program: &OsStr) -> Result<(), Failure> {
    launch::check(program).map_err(|error| of_exec(program, &error))
}

/// The message about a command that could not be become.
#[cfg(unix)]
pub(crate) fn of_exec(program: &OsStr, error: &ExecError) -> Failure {
    match error {
        ExecError::NotFound(_) => unstarted(program, None),
        ExecError::Orphaned | ExecError::NotExecutable(_) | _ => unstarted(program, Some(error)),
    }
}

const NOT_FOUND: &str = "command not found";

#[cfg(unix)]
const NOT_A_PROGRAM: &str =
    "the command must be a program, or a script with an interpreter line, and executable (chmod +x)";
#[cfg(windows)]
const NOT_A_PROGRAM: &str =
    "the command must be a program (.exe) or a batch file (.cmd, .bat); a script needs its interpreter before it";

#[cfg(unix)]
const NO_SUCH_PATH: &str = "check the path; if the file exists, the interpreter in its first line (#!) does not";
#[cfg(windows)]
const NO_SUCH_PATH: &str = "check the path";
