//! What the hidden subcommands do: start the command, and watch over its process group.
//!
//! The server must die with the shim, however the shim dies, and so must what
//! the server has started. Two guarantees, of which one is enough:
//!
//! - [`exec`] asks the kernel for SIGKILL when its parent dies, and becomes the
//!   command. Linux only; it reaches the server itself, not its children.
//! - [`watch`] leads the process group into which the server is put. It waits for
//!   the end of a pipe that only the shim holds, and then kills the group.
//!
//! The watcher *leads* the group for three reasons: the group exists before the
//! server does, so no moment is left in which a dying shim could leave something
//! behind; its number cannot be given to another group while the shim may still
//! send it a signal; and the shim ends the watcher by the same SIGKILL that ends
//! what the server left behind.
//!
//! It goes by another name than the shim, so that what kills the shim by its name
//! (`killall -9 rescind`, `pkill rescind`) leaves it to do its work. A kill by the
//! path of the program takes both, and then what the server started lives on.
//!
//! Out of reach of both is a process that leaves the group for a session of its
//! own (a daemon), unless it is the server itself.

use std::{convert::Infallible, ffi::OsString, io, os::unix::process::CommandExt, process::Command};

use rustix::process::{Pid, Signal};
use tokio::signal::unix::{SignalKind, signal};

use crate::relay::terminal;

/// Why a command did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecError {
    /// The shim that wanted the command is gone.
    #[error("the shim has ended")]
    Orphaned,
    /// There is no such command.
    #[error("command not found")]
    NotFound(#[source] io::Error),
    /// The command exists and cannot be run.
    #[error("{0}")]
    NotExecutable(#[source] io::Error),
}

impl ExecError {
    /// The exit code that a shell would give: 127 not found, 126 not executable, 125 otherwise.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Orphaned => 125,
            Self::NotExecutable(_) => 126,
            Self::NotFound(_) => 127,
        }
    }
}

/// Becomes `program`, to be killed when the process `shim` dies; returns only if that fails.
///
/// `shim` must have started this process, from a thread that lives as long as it does.
#[must_use]
pub fn exec(shim: u32, program: &OsString, arguments: &[OsString]) -> ExecError {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return ExecError::NotExecutable(error.into());
    }
    // It may have died before the line above, and then no signal comes.
    let parent = rustix::process::getppid().map(Pid::as_raw_nonzero);
    if parent.map(|pid| pid.get().unsigned_abs()) != Some(shim) {
        return ExecError::Orphaned;
    }
    let error = Command::new(program).args(arguments).exec();
    if error.kind() == io::ErrorKind::NotFound { ExecError::NotFound(error) } else { ExecError::NotExecutable(error) }
}

/// Signals that a server may send to its own group and that must not end its watcher.
const SURVIVED: [Signal; 11] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::PIPE,
    Signal::ALARM,
    Signal::TERM,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
];

/// Kills its own process group, itself included, when its stdin ends; says on stdout when it is ready to. What it
/// reads before that are orders, each of them to give the terminal back to the shim.
///
/// # Errors
///
/// When it cannot get ready.
pub fn watch() -> io::Result<Infallible> {
    // Its command line has the name from the shim.
    #[cfg(target_os = "linux")]
    rustix::thread::set_name(&std::ffi::CString::new(WATCHER)?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    // A handler is installed for the life of the process; nobody needs to hear of it.
    for survived in SURVIVED {
        let _installed = signal(SignalKind::from_raw(survived.as_raw()))?;
    }
    drop(entered);
    rustix::io::write(rustix::stdio::stdout(), READY)?;
    let mut order = [0; 1];
    loop {
        match rustix::io::read(rustix::stdio::stdin(), &mut order) {
            Ok(1..) => {
                terminal::give_back();
                rustix::io::write(rustix::stdio::stdout(), READY)?;
            }
            Err(rustix::io::Errno::INTR) => {}
            Ok(0) | Err(_) => rustix::process::kill_current_process_group(Signal::KILL)?,
        }
    }
}

/// The watcher's name, at most 15 bytes, in which the shim's does not occur.
pub(crate) const WATCHER: &str = "shim-watcher";

/// What the watcher says when it is ready, and when it has done as ordered.
pub(crate) const READY: &[u8] = b"!";
