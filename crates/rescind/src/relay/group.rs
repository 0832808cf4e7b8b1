//! The server's process, and everything in its group.

use std::{
    ffi::OsString,
    io::{self, Read},
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use rescind_proto::relay::End;
use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions},
};

use super::terminal;

/// A started server. Dropping it kills its group and leaves no zombie.
#[derive(Debug)]
pub(crate) struct Group {
    /// Leads the group, and kills it should this process die (see [`launch`](crate::launch)).
    watcher: Child,
    /// Its end is the watcher's sign; what is written to it are orders.
    lifeline: ChildStdin,
    /// Where the watcher says that it has done as ordered.
    replies: ChildStdout,
    server: Child,
    /// The server's group was given the terminal's foreground.
    has_terminal: bool,
    /// The server was stopped, and not continued since by this process.
    is_stopped: bool,
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
            .arg0(crate::launch::WATCHER)
            .arg("__watch")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let ready = watcher.stdin.take().zip(watcher.stdout.take()).ok_or_else(|| io::ErrorKind::BrokenPipe.into());
        let ready = ready.and_then(|(lifeline, mut replies)| {
            // A signal to the group must not find the watcher without its handlers.
            replies.read_exact(&mut [0; crate::launch::READY.len()])?;
            Ok((lifeline, replies))
        });
        let (lifeline, replies) = match ready {
            Ok(ready) => ready,
            Err(error) => {
                let _ = watcher.kill();
                let _ = watcher.wait();
                return Err(error);
            }
        };
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
        let group = Self { watcher, lifeline, replies, server, has_terminal: false, is_stopped: false };
        let (stdin, stdout) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok((group, Pipes { stdin: stdin.into(), stdout: stdout.into() }))
    }

    /// The server's process id.
    #[cfg(feature = "admin")]
    pub(crate) fn server_id(&self) -> u32 {
        self.server.id()
    }

    /// Sends a signal to the server's group, and to the group it may have made for itself. A group that is stopped
    /// is continued, or the signal would find it only then.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if signal == Signal::KILL {
            // It takes the watcher along, without which the terminal does not come back.
            self.take_terminal_back();
        }
        self.send(signal);
        if std::mem::take(&mut self.is_stopped) && signal != Signal::CONT {
            self.send(Signal::CONT);
        }
    }

    /// Sends a signal that does not ask for an end. A group that is stopped stays so, and finds it when it is continued.
    pub(crate) fn pass_on(&self, signal: Signal) {
        self.send(signal);
    }

    fn send(&self, signal: Signal) {
        let group = pid(&self.watcher);
        let _ = rustix::process::kill_process_group(group, signal);
        if let Ok(own) = rustix::process::getpgid(Some(pid(&self.server)))
            && own == pid(&self.server)
        {
            let _ = rustix::process::kill_process_group(own, signal);
        }
    }

    /// The signal that has stopped the server since this was last asked, if one has.
    pub(crate) fn stopped(&mut self) -> Option<Signal> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let status = rustix::process::waitid(WaitId::Pid(pid(&self.server)), options).ok()??;
        self.is_stopped = true;
        Signal::from_named_raw(status.stopping_signal()?)
    }

    /// The server was stopped because it asked on the terminal: lets it ask, if the terminal is ours to lend.
    pub(crate) fn lend_terminal(&mut self) -> bool {
        let group = rustix::process::getpgid(Some(pid(&self.server)));
        if self.is_stopped && group.is_ok_and(terminal::lend) {
            self.has_terminal = true;
            self.signal(Signal::CONT);
        }
        !self.is_stopped
    }

    /// Takes the terminal's foreground back, if it was lent; says whether it was.
    pub(crate) fn take_terminal_back(&mut self) -> bool {
        if self.has_terminal {
            terminal::take_back(&mut self.lifeline, &mut self.replies);
        }
        std::mem::take(&mut self.has_terminal)
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

fn raw(child: &Child) -> i32 {
    pid(child).as_raw_pid()
}

/// The id of a child that has not been reaped.
fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}
