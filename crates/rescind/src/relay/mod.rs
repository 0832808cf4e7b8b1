//! Relays: between a client on descriptors of this process and a server that it starts ([`run`]), and inside a
//! process, around any connection ([`wrap()`]).

#[cfg(feature = "admin")]
mod admin;
#[cfg(not(feature = "admin"))]
#[path = "no_admin.rs"]
mod admin;
pub(crate) mod alarm;
mod drive;
mod group;
pub(crate) mod lifecycle;
mod log;
mod names;
mod object;
mod observer;
mod presence;
mod record;
mod signals;
mod sink;
mod stderr;
pub(crate) mod terminal;
#[cfg(feature = "wrap")]
pub mod wrap;

use std::{ffi::OsString, fs::File, future::poll_fn, io, os::fd::OwnedFd, path::PathBuf, time::Duration};

use rescind_proto::{
    relay::{End, RelayConfig},
    side::{Side, Sides},
};

use admin::Admin;
use drive::{Drive, Port};
use group::Group;
use lifecycle::Limits;
use log::Log;
use observer::Observer;
use record::{Heading, Recording};
use signals::Signals;

pub use log::Level;
pub use observer::OnStuck;
pub use record::{RecordError, RecordingFile};
#[cfg(feature = "wrap")]
pub use wrap::wrap;

/// What is to be relayed, and how.
#[derive(Debug)]
pub struct Link {
    /// Where the client's messages come from. Closed when they have ended.
    pub client_input: OwnedFd,
    /// Where messages for the client go. Closed at the end.
    pub client_output: OwnedFd,
    /// The server's command and its arguments.
    pub command: Vec<OsString>,
    /// The absolute path of the program whose hidden subcommands call [`launch::exec`](crate::launch::exec)
    /// and [`launch::watch`](crate::launch::watch): usually this program.
    pub launcher: PathBuf,
    /// What the relay machine is told. What the observers below need to hear is added.
    pub config: RelayConfig,
    /// How long the server may live on after the client's input has ended and nothing is in flight; `None` for ever
    /// (D44). 30 s are usual.
    pub finish: Option<Duration>,
    /// Where every frame and decision is recorded.
    pub recording: Option<RecordingFile>,
    /// Where what concerns cancels is logged, and how much of it.
    pub log: Option<(File, Level)>,
    /// What to do about a stuck request; nothing is said or done unless asked for.
    pub on_stuck: Option<OnStuck>,
    /// The directories in which the admin socket may be opened: the first that can be used is, and made if it is not
    /// there. Without any, there is no socket. Failing to open one in any of them is logged, and not an error.
    #[cfg(feature = "admin")]
    pub admin: Vec<PathBuf>,
}

/// How a link ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ending {
    /// What became of the server.
    pub server: End,
    /// The client did not read all that the server had said, and the rest is lost. False where the client closed its
    /// end: then it did not want the rest.
    pub is_cut_short: bool,
}

/// Why a link could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The server's process, or its watcher, could not be started by this program.
    #[error("cannot start the server's process: {0}")]
    Start(#[source] io::Error),
    /// This process's own descriptors, signals or timers cannot be used.
    #[error("cannot set up the link: {0}")]
    Setup(#[source] io::Error),
}

/// Relays until the server has ended and everything owed is written; then says how it ended.
///
/// A client that has not closed its end is waited for. One that reads nothing for [`RelayConfig::stall_limit`] is given up,
/// as is one that has sent a signal, 1.5 s after that and the server's end; stderr says so, and
/// [`Ending::is_cut_short`].
///
/// The end of the client's input closes the server's and nothing more. The server is asked to end, and after 2.5 s
/// made to, once `client_output` has lost its reader, or [`Link::finish`] is over (D44).
///
/// Blocks. Call it from the main thread, or from one that lives as long as the process: the server is
/// killed when that thread ends. Signals to this process reach the server instead: SIGTERM, SIGINT, SIGHUP and
/// SIGQUIT, which also begin its end; SIGUSR1, SIGUSR2 and SIGWINCH. After the return they reach nobody, and this
/// process is still not ended by them: a program that goes on listens for them itself.
///
/// # Errors
///
/// Only before anything was relayed. Afterwards every failure is the end of one side.
pub fn run(link: Link) -> Result<Ending, LinkError> {
    let origin = std::time::Instant::now();
    check_room().map_err(LinkError::Setup)?;
    // Beside the link's thread one at most writes long answers of the admin socket: they must not crowd it out.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    let runtime = runtime.map_err(LinkError::Setup)?;
    runtime.block_on(async {
        let Link {
            client_input, client_output, command, launcher, mut config, finish, recording, log, on_stuck, ..
        } = link;
        // Before the server starts, and before anything is written: a signal must not be missed, nor end the link.
        let signals = Signals::listen().map_err(LinkError::Setup)?;
        Observer::configure(&mut config, log.as_ref().map(|(_, level)| *level), recording.is_some());
        let pinned = |side: Side| config.dialects[side].map_or("auto", |dialect| dialect.name);
        let mut observer = Observer::new(on_stuck);
        if let Some(file) = recording {
            let heading = Heading {
                command: &command,
                client: pinned(Side::Client),
                server: pinned(Side::Server),
                monotonic_nanos: monotonic_nanos(origin),
            };
            observer.recording = Some(Recording::begin(file, &heading).map_err(LinkError::Setup)?);
        }
        if let Some((file, level)) = log {
            observer.log = Some(Log::new(file, level).map_err(LinkError::Setup)?);
        }
        let (group, pipes) = Group::start(&launcher, &command).map_err(LinkError::Start)?;
        let ports = Sides {
            client: Port::to_client(client_input, client_output).map_err(LinkError::Setup)?,
            server: Port::to_server(pipes).map_err(LinkError::Setup)?,
        };
        #[cfg(feature = "admin")]
        let admin = Admin::open(&link.admin, origin, &command, group.server_id()).unwrap_or_else(|errors| {
            errors.iter().for_each(|error| observer.handle_unlisted(error));
            Admin::default()
        });
        #[cfg(not(feature = "admin"))]
        let admin = Admin;
        let limits = Limits { finish, part: config.stall_limit, ..Limits::default() };
        let drive = Drive::new(origin, config, ports, group, signals, observer, admin);
        let mut drive = drive.within(limits);
        let ending = poll_fn(|cx| drive.poll(cx)).await;
        drive.finish(&ending.server).await;
        Ok(ending)
    })
}

/// Fails unless a few descriptors can still be opened: a runtime that runs out of them while it starts panics.
fn check_room() -> io::Result<()> {
    let nothing = File::open("/dev/null")?;
    let _room = (0..RUNTIME).map(|_| nothing.try_clone()).collect::<io::Result<Vec<File>>>()?;
    Ok(())
}

/// Descriptors of a runtime with its timers, sockets and signals, and some to spare.
const RUNTIME: usize = 12;

/// The machine's monotonic clock at `origin`. Asked for a recording only: the call reads the kernel's page by itself,
/// which some profilers do not survive.
fn monotonic_nanos(origin: std::time::Instant) -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now = now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec);
    now.saturating_sub(i64::try_from(origin.elapsed().as_nanos()).unwrap_or(i64::MAX))
}
