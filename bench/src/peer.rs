//! The hidden roles of every program of the bench: it starts itself again as
//! the server or as a forwarder, so that nothing else need be built or found.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::echo_server;
use crate::forwarder::Forwarder;

const MARK: &str = "peer";
const ECHO: &str = "echo";

/// Plays a hidden role if the command line asks for one; call first in `main`.
#[must_use]
pub fn play_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != MARK {
        return None;
    }
    let role = arguments.next()?;
    let rest: Vec<OsString> = arguments.collect();
    let played = play(&role, &rest);
    Some(played.unwrap_or_else(|error| {
        // Without standard error there is nobody left to tell.
        let _ = writeln!(io::stderr(), "error: peer {}: {error}", role.to_string_lossy());
        ExitCode::from(2)
    }))
}

/// The arguments that make a program of the bench an echo server, with pipes
/// of `pipe_size` bytes or the default.
#[must_use]
pub fn echo_arguments(pipe_size: Option<usize>) -> Vec<OsString> {
    [MARK.into(), ECHO.into()].into_iter().chain(pipe_size.map(|size| size.to_string().into())).collect()
}

/// The arguments that make it a forwarder; the server's command follows them.
#[must_use]
pub fn forwarder_arguments(forwarder: Forwarder) -> [OsString; 2] {
    [MARK.into(), role(forwarder).into()]
}

const fn role(forwarder: Forwarder) -> &'static str {
    match forwarder {
        Forwarder::Splice => "splice",
        Forwarder::LevelZero => "l0",
        Forwarder::LevelOne => "l1",
    }
}

fn play(wanted: &OsStr, rest: &[OsString]) -> io::Result<ExitCode> {
    // Whoever kills the bench leaves no peer behind.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if wanted == ECHO {
        return serve_echo(rest.first());
    }
    let forwarder = [Forwarder::Splice, Forwarder::LevelZero, Forwarder::LevelOne]
        .into_iter()
        .find(|&forwarder| wanted == role(forwarder))
        .ok_or_else(|| io::Error::other("no such role"))?;
    forwarder.run(rest)
}

fn serve_echo(pipe_size: Option<&OsString>) -> io::Result<ExitCode> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    if let Some(size) = pipe_size {
        let size = size
            .to_str()
            .and_then(|size| size.parse().ok())
            .ok_or_else(|| io::Error::other("the pipe size is no number"))?;
        rustix::pipe::fcntl_setpipe_size(&input, size)?;
        rustix::pipe::fcntl_setpipe_size(&output, size)?;
    }
    echo_server::serve(File::from(input), File::from(output))?;
    Ok(ExitCode::SUCCESS)
}
