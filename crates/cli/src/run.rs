//! `rescind run [flags] -- COMMAND…`: a client on stdin and stdout, a server as a child, the relay between.

use std::{
    ffi::OsString,
    os::fd::{AsFd, OwnedFd},
    process::ExitCode,
};

use clap::Args;
use rescind::relay::{self, Link};
use rescind_proto::relay::{Config, End};

use crate::failure::Failure;

/// The exit code of the shim's own failures; 126 and 127 are the command's that could not be started.
pub(crate) const OWN_FAILURE: u8 = 125;

/// Run a server with cancellation put right between it and its client.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The server's command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn main(arguments: Arguments) -> ExitCode {
    match run(arguments) {
        Ok(how) => ExitCode::from(exit_code(&how)),
        Err(failure) => {
            failure.say();
            ExitCode::from(OWN_FAILURE)
        }
    }
}

fn run(arguments: Arguments) -> Result<End, Failure> {
    let launcher = std::env::current_exe().map_err(|error| {
        Failure::new("rescind", format!("cannot find its own program: {error}"), "is /proc mounted?")
    })?;
    let link = Link {
        client_input: standard(std::io::stdin())?,
        client_output: standard(std::io::stdout())?,
        command: arguments.command,
        launcher,
        config: Config { seed: seed(), ..Config::default() },
    };
    relay::run(link)
        .map_err(|error| Failure::new("rescind run", error, "check the limits on processes and open files (ulimit -a)"))
}

fn standard(stream: impl AsFd) -> Result<OwnedFd, Failure> {
    let cloned = stream.as_fd().try_clone_to_owned();
    cloned.map_err(|error| Failure::new("standard streams", error, "check the limit on open files (ulimit -n)"))
}

/// A number that a peer cannot guess: the standard library draws one for its own hash tables.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// The code that a shell gives: the command's own, or 128 and the signal that ended it.
fn exit_code(how: &End) -> u8 {
    let code = match how {
        End::Exited(code) => *code,
        End::Signalled(signal) => 128 + signal,
        End::Closed => i32::from(OWN_FAILURE),
    };
    u8::try_from(code & 0xff).unwrap_or(OWN_FAILURE)
}
