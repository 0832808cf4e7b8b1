//! The server's process and its process group.

use std::{
    ffi::OsString,
    fs,
    io::{self, Read},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    task::{Context, Poll},
    thread,
};

use rescind_proto::relay::End;
use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions},
};

use super::terminal;
use crate::{
    process::{Pipes, Suspended},
    stdio::{Input, Output},
};

/// A running server. Dropping it kills its group and reaps its processes. What a server that has ended left in the group
/// has a second more, where the system tells whether there is any: its guard ends it, and outlives this by as much.
#[derive(Debug)]
pub(crate) struct Group {
    /// Leads the group, and kills it if this process dies (see [`launch`](super::launch)).
    guard: Child,
    /// The guard's stdin: its end makes the guard end the group, and bytes are orders. `None` once that was left to it.
    lifeline: Option<ChildStdin>,
    /// The guard's stdout: a byte for each order done.
    replies: ChildStdout,
    server: Child,
    /// The terminal's foreground is lent to the server's group.
    has_terminal: bool,
    /// The server was stopped, and this process has not continued it since.
    is_stopped: bool,
}

impl Group {
    /// Starts `command`, with `launcher` as the program that knows the hidden subcommands. All processes of the group get
    /// `environment` in addition. Its stderr is a pipe if it `pipes_stderr`, and else that of this process.
    ///
    /// Call it from a thread that lives as long as the process: the server dies with that thread.
    pub(crate) fn start(
        launcher: &Path,
        command: &[OsString],
        environment: &[(&str, String)],
        pipes_stderr: bool,
    ) -> io::Result<(Self, Pipes)> {
        let environment = environment.iter().map(|(name, value)| (name, value));
        let mut guard = Command::new(launcher)
            .arg0(super::launch::GUARD)
            .arg("__guard")
            .envs(environment.clone())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let ready = guard.stdin.take().zip(guard.stdout.take()).ok_or_else(|| io::ErrorKind::BrokenPipe.into());
        let ready = ready.and_then(|(lifeline, mut replies)| {
            // No signal may reach the group before the guard has its handlers.
            replies.read_exact(&mut [0; super::launch::READY.len()])?;
            Ok((lifeline, replies))
        });
        let (lifeline, replies) = match ready {
            Ok(ready) => ready,
            Err(error) => {
                let _ = guard.kill();
                let _ = guard.wait();
                return Err(error);
            }
        };
        let server = Command::new(launcher)
            .arg("__exec")
            .arg(std::process::id().to_string())
            .arg("--")
            .args(command)
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(if pipes_stderr { Stdio::piped() } else { Stdio::inherit() })
            .process_group(raw(&guard))
            .spawn();
        let mut server = match server {
            Ok(server) => server,
            Err(error) => {
                let _ = guard.kill();
                let _ = guard.wait();
                return Err(error);
            }
        };
        let pipes = server.stdin.take().zip(server.stdout.take());
        let stderr = server.stderr.take();
        let group = Self { guard, lifeline: Some(lifeline), replies, server, has_terminal: false, is_stopped: false };
        let (stdin, stdout) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        let stderr = stderr.map(|stderr| Input::own(stderr.into())).transpose()?;
        Ok((group, Pipes { stdin: Output::own(stdin.into())?, stdout: Input::own(stdout.into())?, stderr }))
    }

    /// The server's process id.
    #[cfg(feature = "admin")]
    pub(crate) fn server_id(&self) -> u32 {
        self.server.id()
    }

    /// Sends a signal to the server's group, and to the group that the server itself may have created. A stopped group is
    /// continued, since it handles the signal only then.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if signal == Signal::KILL {
            // It kills the guard too, which must give the terminal back first.
            self.reclaim_terminal();
            if self.lifeline.is_none() {
                return;
            }
            if self.ended().is_some() && self.has_rest() {
                self.lifeline = None;
                return self.send_to_own(signal);
            }
        }
        self.send(signal);
        if std::mem::take(&mut self.is_stopped) && signal != Signal::CONT {
            self.send(Signal::CONT);
        }
    }

    /// Sends a signal that does not ask for an end. A stopped group stays stopped, and handles the signal later.
    pub(crate) fn pass_on(&self, signal: Signal) {
        self.send(signal);
    }

    fn send(&self, signal: Signal) {
        let _ = rustix::process::kill_process_group(pid(&self.guard), signal);
        self.send_to_own(signal);
    }

    fn send_to_own(&self, signal: Signal) {
        if let Ok(own) = rustix::process::getpgid(Some(pid(&self.server)))
            && own == pid(&self.server)
        {
            let _ = rustix::process::kill_process_group(own, signal);
        }
    }

    /// Whether anything runs in the guard's group beside it and the server; `false` where the system does not say. Only
    /// numbers above the guard's are looked at, which is older than the rest, unless they have begun anew meanwhile.
    fn has_rest(&self) -> bool {
        let [guard, server] = [self.guard.id(), self.server.id()];
        let runs_there = |process: &Path| {
            let status = fs::read_to_string(process.join("stat")).unwrap_or_default();
            let mut fields = status.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
            fields.next().is_some_and(|state| !"ZX".contains(state)) && fields.nth(1) == Some(&*guard.to_string())
        };
        fs::read_dir("/proc").into_iter().flatten().flatten().any(|entry| {
            let number = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            number.is_some_and(|number| number > guard && number != server) && runs_there(&entry.path())
        })
    }

    /// Handles a server that was stopped since the last call: it used the terminal, or a person stopped it there. Returns how
    /// it was suspended if it stays so, because the terminal is not ours to lend.
    pub(crate) fn handle_stop(&mut self) -> Option<Suspended> {
        match self.stopped()? {
            signal @ (Signal::TTIN | Signal::TTOU) if !self.lend_terminal() => {
                let name = if signal == Signal::TTIN { "SIGTTIN" } else { "SIGTTOU" };
                return Some(Suspended { name, signal: signal.as_raw() });
            }
            // The shell waits for this process and not for the server, so this process must stop as well.
            Signal::TSTP if self.reclaim_terminal() => {
                let _ = rustix::process::kill_current_process_group(Signal::TSTP);
                self.signal(Signal::CONT);
            }
            // The terminal was lent to it, or a person wants it stopped.
            _ => {}
        }
        None
    }

    /// Handles that this process was continued: a shell may have given it the terminal.
    pub(crate) fn handle_continued(&mut self) {
        self.lend_terminal();
    }

    /// Returns the signal that has stopped the server since the last call, if any.
    fn stopped(&mut self) -> Option<Signal> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let status = rustix::process::waitid(WaitId::Pid(pid(&self.server)), options).ok()??;
        self.is_stopped = true;
        Signal::from_named_raw(status.stopping_signal()?)
    }

    /// Lends the terminal to a server that was stopped for using it, if it is ours to lend. `false` if it stays stopped.
    fn lend_terminal(&mut self) -> bool {
        let group = rustix::process::getpgid(Some(pid(&self.server)));
        if self.is_stopped && group.is_ok_and(terminal::lend) {
            self.has_terminal = true;
            self.signal(Signal::CONT);
        }
        !self.is_stopped
    }

    /// Takes the terminal's foreground back; `true` if it was lent.
    pub(crate) fn reclaim_terminal(&mut self) -> bool {
        if self.has_terminal
            && let Some(lifeline) = &mut self.lifeline
        {
            terminal::reclaim(lifeline, &mut self.replies);
        }
        std::mem::take(&mut self.has_terminal)
    }

    /// Ready when the server has ended; here a signal tells that.
    #[expect(clippy::needless_pass_by_ref_mut, clippy::unused_self, reason = "the same on each platform")]
    pub(crate) const fn poll_exit(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// How the server ended, if it has. It stays a zombie until the group is dropped, so that its process id is not
    /// reused.
    pub(crate) fn ended(&mut self) -> Option<End> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match rustix::process::waitid(WaitId::Pid(pid(&self.server)), options) {
            Ok(None) | Err(Errno::INTR) => None,
            Ok(Some(status)) => Some(match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => End::Exited(code),
                (None, Some(signal)) => End::Signalled(signal),
                (None, None) => End::Closed,
            }),
            // Something else has reaped it. All that is known is that it is gone.
            Err(_) => Some(End::Closed),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.server.wait();
        if self.lifeline.is_some() {
            let _ = self.guard.wait();
            return;
        }
        let guard = pid(&self.guard);
        // Whoever runs many links must not wait for it, nor collect its zombies.
        let waiting = thread::Builder::new().spawn(move || rustix::process::waitpid(Some(guard), WaitOptions::empty()));
        if waiting.is_err() {
            let _ = self.guard.wait();
        }
    }
}

fn raw(child: &Child) -> i32 {
    pid(child).as_raw_pid()
}

/// The id of a child that has not been reaped.
fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}
