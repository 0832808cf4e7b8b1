//! The hidden subcommands: one starts the command, the other guards its process group.
//!
//! The server and the processes it has started must die with the shim, however
//! the shim dies. Two mechanisms see to that:
//!
//! - [`exec`] asks the kernel for SIGKILL when its parent dies, and becomes the
//!   command. Linux only; it covers the server itself, not its children.
//! - [`guard`] leads the process group that the server joins. It waits for the
//!   end of a pipe that only the shim holds, and then ends the group.
//!
//! The guard *leads* the group for three reasons. The group exists before the
//! server does, so a shim that dies at any moment leaves nothing behind. The
//! number of the group cannot be reused while the shim may still send it a signal.
//! And the SIGKILL that ends what the server left behind ends the guard too.
//!
//! Before that SIGKILL the group gets SIGTERM and a second: an agent's program has
//! its commands in sessions of their own, and ends them only if it may.
//!
//! The guard's process has a name of its own, so that `killall -9 rescind` and
//! `pkill rescind` leave it to do its work. A kill by the path of the program
//! takes both, and then the server's children live on.
//!
//! Neither reaches a process that leaves the group for a session of its own, such
//! as a daemon, unless it is the server itself.

use std::{
    convert::Infallible,
    ffi::{OsStr, OsString},
    io::{self, Read},
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::Path,
    process::Command,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use rustix::process::{Pid, Signal};

use super::{signals::ignored, terminal};

/// Why a command did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecError {
    /// The shim that started this process is gone.
    #[error("the shim has ended")]
    Orphaned,
    /// The command does not exist.
    #[error("command not found")]
    NotFound(#[source] io::Error),
    /// The command exists but cannot be run.
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

/// Becomes `program`, which is killed when the process `shim` dies. Returns only if that fails.
///
/// `shim` must have started this process, from a thread that lives as long as it does.
#[must_use]
pub fn exec(shim: u32, program: &OsString, arguments: &[OsString]) -> ExecError {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return ExecError::NotExecutable(error.into());
    }
    // If it died before the line above, no signal comes.
    let parent = rustix::process::getppid().map(Pid::as_raw_nonzero);
    if parent.map(|pid| pid.get().unsigned_abs()) != Some(shim) {
        return ExecError::Orphaned;
    }
    let error = Command::new(program).args(arguments).exec();
    of_start(error)
}

fn of_start(error: io::Error) -> ExecError {
    if error.kind() == io::ErrorKind::NotFound { ExecError::NotFound(error) } else { ExecError::NotExecutable(error) }
}

/// Whether the system would find `program` and could start it, judged as [`exec`] would be, without starting anything. What
/// only a start shows, such as a program for another processor, is not found out.
///
/// # Errors
///
/// The error that [`exec`] would give.
pub fn check(program: &OsStr) -> Result<(), ExecError> {
    let looked_at = if program.as_bytes().contains(&b'/') {
        examine(Path::new(program))
    } else {
        let folders = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
        let mut found = Err(io::ErrorKind::NotFound.into());
        for folder in std::env::split_paths(&folders).filter(|_| !program.is_empty()) {
            match (examine(&folder.join(program)), &found) {
                (Ok(()), _) => return Ok(()),
                // Of what is found and cannot be run, this is told.
                (Err(error), _) if error.kind() == io::ErrorKind::PermissionDenied => found = Err(error),
                (Err(_), _) => {}
            }
        }
        found
    };
    looked_at.map_err(of_start)
}

/// Looks at the file of a program, and at the interpreter that a script names.
fn examine(file: &Path) -> io::Result<()> {
    let can_run = |file: &Path| -> io::Result<()> {
        if !std::fs::metadata(file)?.is_file() {
            return Err(rustix::io::Errno::ACCESS.into());
        }
        Ok(rustix::fs::access(file, rustix::fs::Access::EXEC_OK)?)
    };
    can_run(file)?;
    let mut beginning = Vec::new();
    // One that cannot be read can still be run.
    if let Ok(file) = std::fs::File::open(file) {
        _ = file.take(256).read_to_end(&mut beginning);
    }
    let line = beginning.strip_prefix(b"#!").and_then(|line| line.split(|byte| *byte == b'\n').next());
    let mut words = line.unwrap_or_default().split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    words.next().map_or(Ok(()), |interpreter| can_run(Path::new(OsStr::from_bytes(interpreter))))
}

/// Whether this process ignores this signal. A signal that was ignored when it started (`nohup`) is to stay ignored, so ask
/// before anything handles it. `false` where the system does not say: it is read from `/proc`.
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    Signal::from_named_raw(signal).is_some_and(|signal| ignored().contains(signal))
}

/// Signals that a server may send to its own group and that must not end the guard.
const SURVIVED_SIGNALS: [Signal; 11] = [
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

/// Ends its own process group when its stdin ends: SIGTERM, and after a second SIGKILL, itself included (D44). It writes a
/// byte to stdout once it is ready. Each byte on stdin before that is an order to give the terminal back to the shim.
///
/// # Errors
///
/// When it cannot get ready.
pub fn guard() -> io::Result<Infallible> {
    // The shim has set the name in the command line.
    #[cfg(target_os = "linux")]
    rustix::thread::set_name(&std::ffi::CString::new(GUARD)?)?;
    // Without a runtime: what it runs through would lie in the memory of each guard. That a signal is caught is enough.
    let caught = Arc::new(AtomicBool::new(false));
    for survived in SURVIVED_SIGNALS {
        signal_hook::flag::register(survived.as_raw(), Arc::clone(&caught))?;
    }
    rustix::io::write(rustix::stdio::stdout(), READY)?;
    let mut order = [0; 1];
    loop {
        match rustix::io::read(rustix::stdio::stdin(), &mut order) {
            Ok(1..) => {
                terminal::give_back();
                rustix::io::write(rustix::stdio::stdout(), READY)?;
            }
            Err(rustix::io::Errno::INTR) => {}
            Ok(0) | Err(_) => {
                // What has left the group is ended by those that know of it, if they have the time.
                rustix::process::kill_current_process_group(Signal::TERM)?;
                std::thread::sleep(LAST_RUNG);
                rustix::process::kill_current_process_group(Signal::KILL)?;
            }
        }
    }
}

/// From SIGTERM to SIGKILL once the shim is gone, as on the ladder of a shim that lives.
const LAST_RUNG: Duration = Duration::from_secs(1);

/// The guard's process name: at most 15 bytes, and without the name of the shim.
pub(crate) const GUARD: &str = "shim-guard";

/// What the guard writes when it is ready, and after each order.
pub(crate) const READY: &[u8] = b"!";
