//! What the shim is compared with: processes that start the server and pass
//! its pipes on, each understanding less of the traffic than the shim does.

mod level_one;
mod level_zero;
mod splice;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, ExitCode, Stdio};

use tokio::net::unix::pipe::{Receiver, Sender};

/// A way of forwarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarder {
    /// `splice(2)` in two threads: the bytes never enter the process.
    Splice,
    /// L0: tokio on the pipes' epoll, no look at the bytes.
    LevelZero,
    /// L1: the same, and the envelope of every line parsed by `serde_json`
    /// into borrowed raw values.
    LevelOne,
}

impl Forwarder {
    /// Starts `command` and forwards between it and this process's standard
    /// input and output until both directions have ended.
    ///
    /// # Errors
    /// When the command does not start, or reading or writing fails.
    pub fn run(self, command: &[OsString]) -> io::Result<ExitCode> {
        let [program, arguments @ ..] = command else {
            return Err(io::Error::other("no command to forward to"));
        };
        let child = Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut pipes = Pipes::of(child)?;
        match self {
            Self::Splice => splice::forward(&mut pipes)?,
            Self::LevelZero => level_zero::forward(&mut pipes)?,
            Self::LevelOne => level_one::forward(&mut pipes)?,
        }
        pipes.child.wait()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The four ends a forwarder holds; each is taken once.
struct Pipes {
    child: Child,
    from_client: Option<OwnedFd>,
    to_server: Option<OwnedFd>,
    from_server: Option<OwnedFd>,
    to_client: Option<OwnedFd>,
}

impl Pipes {
    fn of(mut child: Child) -> io::Result<Self> {
        Ok(Self {
            from_client: Some(io::stdin().as_fd().try_clone_to_owned()?),
            to_server: child.stdin.take().map(Into::into),
            from_server: child.stdout.take().map(Into::into),
            to_client: Some(io::stdout().as_fd().try_clone_to_owned()?),
            child,
        })
    }

    fn upward(&mut self) -> io::Result<(OwnedFd, OwnedFd)> {
        taken(&mut self.from_client, &mut self.to_server)
    }

    fn downward(&mut self) -> io::Result<(OwnedFd, OwnedFd)> {
        taken(&mut self.from_server, &mut self.to_client)
    }
}

fn taken(from: &mut Option<OwnedFd>, to: &mut Option<OwnedFd>) -> io::Result<(OwnedFd, OwnedFd)> {
    from.take().zip(to.take()).ok_or_else(|| io::Error::other("a pipe of the server is missing"))
}

/// Both directions on one current-thread runtime; the upward pump in a task
/// of its own.
fn forward_on_tokio<Up, Down>(
    pipes: &mut Pipes,
    up: impl FnOnce(Receiver, Sender) -> Up,
    down: impl FnOnce(Receiver, Sender) -> Down,
) -> io::Result<()>
where
    Up: Future<Output = io::Result<()>> + 'static,
    Down: Future<Output = io::Result<()>>,
{
    let (upward, downward) = (pipes.upward()?, pipes.downward()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let up = up(Receiver::from_owned_fd(upward.0)?, Sender::from_owned_fd(upward.1)?);
        let down = down(Receiver::from_owned_fd(downward.0)?, Sender::from_owned_fd(downward.1)?);
        tokio::try_join!(up, down)?;
        Ok(())
    })
}
