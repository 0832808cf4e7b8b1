//! The process that holds a shared server: `rescind serve --shared` on the socket that its first session has opened for it.
//!
//! It belongs to no session, so it leaves that one's: a client that ends all that its server has started does not find it.

use std::{
    env,
    ffi::OsString,
    fs::OpenOptions,
    io::{self, stdin},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixListener,
    },
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use clap::Args;
use tokio::{net, sync::oneshot};

use super::{identity::SharedServer, place::Place};
use crate::{failure::Failure, stderr::say};

/// How long a shared server outlives its last session, so that a client that starts again finds it: docs/shared.md.
const GRACE: Duration = Duration::from_secs(10);

/// The flags by which a session starts this process.
#[derive(Debug, Args)]
pub(crate) struct HeldArguments {
    /// The path of the socket that is this process's stdin.
    #[arg(long, hide = true, value_name = "PATH")]
    pub(crate) held: Option<PathBuf>,

    /// The name under which the server is shared.
    #[arg(long, hide = true, value_name = "NAME", requires = "held", allow_hyphen_values = true)]
    pub(crate) held_name: Option<String>,

    /// Start the same once more, in a session of its own, and end.
    #[arg(long, hide = true, requires = "held")]
    detach: bool,
}

const DETACH: &str = "--detach";

/// Starts the process for this server. It does not wait until it has begun: who connects waits in the queue of `listener`.
pub(super) fn start(server: &SharedServer, place: &Place, listener: UnixListener) -> io::Result<()> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["serve", DETACH, "--held"]).arg(place.socket()).arg(format!("--held-name={}", server.name));
    command.arg("--").args(&server.command).env_clear().envs(server.environment.iter().cloned());
    command.current_dir(&server.folder).stdin(OwnedFd::from(listener)).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("its process did not start: {status}"))) }
}

impl HeldArguments {
    /// Whether this process was only to start the one that holds the server, and has done it.
    pub(crate) fn detach(&self) -> Result<bool, Failure> {
        if !self.detach {
            return Ok(false);
        }
        let again = || {
            rustix::process::setsid()?;
            let words: Vec<OsString> = env::args_os().skip(1).collect();
            let (before, after) = words.split_at(words.iter().position(|word| word == DETACH).unwrap_or(0));
            let mut command = Command::new(env::current_exe()?);
            command.args(before).args(&after[1..]).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
        };
        again()
            .map(|_| true)
            .map_err(|error: io::Error| Failure::new("--shared", error, "check the limits (ulimit -a)"))
    }

    /// The socket that was handed down, and what is ready when all sessions have left.
    pub(crate) fn open(&self) -> Result<Option<(net::UnixListener, oneshot::Receiver<()>)>, Failure> {
        let Some(place) = self.held.as_ref().and_then(|path| Place::of_socket(path)) else { return Ok(None) };
        let listener = take_stdin().map_err(|error| {
            Failure::new("--held", error, "it is for `rescind run --shared`, which starts this process")
        })?;
        let (left, all_left) = oneshot::channel();
        thread::spawn(move || {
            if let Err(error) = place.outlive(GRACE) {
                say(&format!("warning: the sessions of a shared server cannot be followed: {error}"));
            }
            let _ = left.send(());
        });
        Ok(Some((listener, all_left)))
    }
}

/// Moves the socket out of stdin, which what is started inherits: who connects to it must find nobody once this process has
/// ended.
fn take_stdin() -> io::Result<net::UnixListener> {
    let listener = stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(OpenOptions::new().read(true).write(true).open("/dev/null")?)?;
    let listener = UnixListener::from(listener);
    listener.set_nonblocking(true)?;
    net::UnixListener::from_std(listener)
}
