//! What stands between the driver and the server, started as processes.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::process::Pid;

use crate::forwarder::Forwarder;
use crate::peer;
use crate::programs::Programs;

/// How long the processes of a session may take to end once their input has.
const EXIT: Duration = Duration::from_secs(5);

/// One of the arrangements compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// No process between driver and server.
    Direct,
    /// A `cat` each way.
    Cat,
    /// `splice(2)` each way.
    Splice,
    /// [`Forwarder::LevelZero`].
    LevelZero,
    /// [`Forwarder::LevelOne`].
    LevelOne,
    /// `rescind run`.
    Rescind,
}

impl Contender {
    /// All, in the order in which each round takes them.
    pub const ALL: [Self; 6] = [Self::Direct, Self::Cat, Self::Splice, Self::LevelZero, Self::LevelOne, Self::Rescind];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Cat => "cat",
            Self::Splice => "splice",
            Self::LevelZero => "L0",
            Self::LevelOne => "L1",
            Self::Rescind => "rescind",
        }
    }

    /// Starts the processes; their pipes hold `pipe_size` bytes or the default.
    ///
    /// # Errors
    /// When a process does not start. Those that did are ended.
    pub fn start(self, programs: &Programs, pipe_size: Option<usize>) -> io::Result<Processes> {
        let (input, to) = pipe(pipe_size)?;
        let (from, output) = pipe(pipe_size)?;
        let mut processes = Processes { to: Some(to), from: Some(from), children: Vec::new() };
        let server = std::iter::once(programs.own.clone().into_os_string())
            .chain(peer::echo_arguments(pipe_size))
            .collect::<Vec<_>>();
        let own = programs.own.as_os_str();
        let mut run = |command: &[OsString], input, output| -> io::Result<()> {
            processes.children.push(spawn(command, input, output)?);
            Ok(())
        };
        let forwarder = |forwarder| {
            std::iter::once(own.to_owned())
                .chain(peer::forwarder_arguments(forwarder))
                .chain(server.iter().cloned())
                .collect::<Vec<_>>()
        };
        match self {
            Self::Direct => run(&server, input, output)?,
            Self::Cat => {
                let (server_input, to_server) = pipe(pipe_size)?;
                let (from_server, server_output) = pipe(pipe_size)?;
                run(&["cat".into()], input, to_server)?;
                run(&server, server_input, server_output)?;
                run(&["cat".into()], from_server, output)?;
            }
            Self::Splice => run(&forwarder(Forwarder::Splice), input, output)?,
            Self::LevelZero => run(&forwarder(Forwarder::LevelZero), input, output)?,
            Self::LevelOne => run(&forwarder(Forwarder::LevelOne), input, output)?,
            Self::Rescind => {
                let command = programs.rescind.as_ref().ok_or_else(|| io::Error::other("no shim to start"))?;
                let shim = std::iter::once(command.clone().into_os_string())
                    .chain([OsString::from("run")])
                    .chain(server.iter().cloned())
                    .collect::<Vec<_>>();
                run(&shim, input, output)?;
            }
        }
        Ok(processes)
    }
}

/// The processes of one session and the driver's two ends; dropped, they are
/// killed and reaped.
#[derive(Debug)]
pub struct Processes {
    to: Option<OwnedFd>,
    from: Option<OwnedFd>,
    children: Vec<Child>,
}

impl Processes {
    /// The ends to write to and to read from; they can be taken once.
    pub fn take_ends(&mut self) -> Option<(OwnedFd, OwnedFd)> {
        self.to.take().zip(self.from.take())
    }

    /// Process ids of the direct children, in the order they were started.
    #[must_use]
    pub fn pids(&self) -> Vec<Pid> {
        self.children.iter().map(Pid::from_child).collect()
    }

    /// Waits for all to end by themselves, the driver's ends being closed.
    ///
    /// # Errors
    /// When one is still there after five seconds; it is then killed.
    pub fn wait(mut self) -> io::Result<()> {
        let until = Instant::now() + EXIT;
        for child in &mut self.children {
            while child.try_wait()?.is_none() {
                if Instant::now() > until {
                    return Err(io::Error::other(format!("process {} did not end with its input", child.id())));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in &mut self.children {
            // Both fail only for a child that was reaped, which is the aim.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn spawn(command: &[OsString], input: OwnedFd, output: OwnedFd) -> io::Result<Child> {
    let [program, arguments @ ..] = command else {
        return Err(io::Error::other("no command"));
    };
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))
}

/// The reading and the writing end, inherited by no other process.
fn pipe(size: Option<usize>) -> io::Result<(OwnedFd, OwnedFd)> {
    let (reading, writing) = pipe_with(PipeFlags::CLOEXEC)?;
    if let Some(size) = size {
        fcntl_setpipe_size(&writing, size)?;
    }
    Ok((reading, writing))
}
