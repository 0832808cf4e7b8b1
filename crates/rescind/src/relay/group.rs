//! The server's process, and everything in its group.

use std::{
    ffi::OsString,
    io::{self, Read},
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
};

use rescind_proto::relay::End;
use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions},
};

/// A started server. Dropping it kills its group and leaves no zombie.
#[derive(Debug)]
pub(crate) struct Group {
    /// Leads the group, and kills it should this process die (see [`launch`](crate::launch)).
    watcher: Child,
    /// Held, never written: its end is the watcher's sign.
    _lifeline: Option<ChildStdin>,
    server: Child,
}

/// The server's ends of the link.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
}

impl Group {
    /// Starts `command`, with `launcher` as the program that knows the hidden subcommands.
    ///
    /// Call it from a thread that lives as long as the process: the server dies with that thread.
    pub(crate) fn start(launcher: &Path, command: &[OsString]) -> io::Result<(Self, Pipes)> {
        let mut watcher = Command::new(launcher)
            .arg("__watch")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let lifeline = watcher.stdin.take();
        if let Err(error) = wait_until_ready(&mut watcher) {
            let _ = watcher.kill();
            let _ = watcher.wait();
            return Err(error);
        }
        let server = Command::new(launcher)
            .arg("__exec")
            .arg(std::process::id().to_string())
            .arg("--")
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(raw(&watcher))
            .spawn();
        let mut server = match server {
            Ok(server) => server,
            Err(error) => {
                let _ = watcher.kill();
                let _ = watcher.wait();
                return Err(error);
            }
        };
        let pipes = server.stdin.take().zip(server.stdout.take());
        let group = Self { watcher, _lifeline: lifeline, server };
        let (stdin, stdout) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok((group, Pipes { stdin: stdin.into(), stdout: stdout.into() }))
    }

    /// The server's process id.
    #[cfg(feature = "admin")]
    pub(crate) fn server_id(&self) -> u32 {
        self.server.id()
    }

    /// Sends a signal to the server's group, and to the group it may have made for itself.
    pub(crate) fn signal(&self, signal: Signal) {
        let group = pid(&self.watcher);
        let _ = rustix::process::kill_process_group(group, signal);
        if let Ok(own) = rustix::process::getpgid(Some(pid(&self.server)))
            && own == pid(&self.server)
        {
            let _ = rustix::process::kill_process_group(own, signal);
        }
    }

    /// How the server ended, if it has. It stays a zombie until the group is dropped, so that its number
    /// cannot mean anybody else.
    pub(crate) fn ended(&self) -> Option<End> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match rustix::process::waitid(WaitId::Pid(pid(&self.server)), options) {
            Ok(None) | Err(Errno::INTR) => None,
            Ok(Some(status)) => Some(match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => End::Exited(code),
                (None, Some(signal)) => End::Signalled(signal),
                (None, None) => End::Closed,
            }),
            // Somebody else has collected it; all that is known is that it is gone.
            Err(_) => Some(End::Closed),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.server.wait();
        let _ = self.watcher.wait();
    }
}

/// Returns when the watcher has its handlers in place: a signal to the group must not find it without.
fn wait_until_ready(watcher: &mut Child) -> io::Result<()> {
    let mut ready = [0; crate::launch::READY.len()];
    let mut stdout = watcher.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    stdout.read_exact(&mut ready)
}

fn raw(child: &Child) -> i32 {
    pid(child).as_raw_pid()
}

/// The id of a child that has not been reaped.
fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}
