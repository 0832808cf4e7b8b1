//! Relays: [`run`] between a client on descriptors of this process and a server that it starts, and [`wrap()`] inside a
//! process, around any connection.

#[cfg(feature = "admin")]
mod admin;
mod drive;
mod ends;
mod kept_welcome;
mod log;
#[cfg(not(feature = "admin"))]
mod no_admin;
mod object;
mod observer;
mod record;
mod recording_file;
mod server_stderr;
mod sink;
mod stderr;
#[cfg(feature = "wrap")]
pub mod wrap;

use std::{
    fs::File,
    future::poll_fn,
    hash::{BuildHasher, RandomState},
    io::{self, IsTerminal as _},
    path::PathBuf,
    pin::Pin,
    time::{Duration, SystemTime},
};

#[cfg(feature = "admin")]
use rescind_ledger::mark::{MARK_VARIABLE, Mark};
use rescind_proto::framing::Framing;
use rescind_proto::{
    relay::{End, Relay, RelayConfig},
    side::{Side, Sides},
};

#[cfg(feature = "admin")]
use crate::process::turn_processes::TurnProcesses;
use crate::process::{
    container::{self, Container},
    group::Group,
    shutdown::ShutdownLimits,
    signals::Signals,
    starter::Starter,
};
#[cfg(feature = "admin")]
use admin::Admin;
use drive::{Drive, Port, Server};
#[cfg(feature = "admin")]
use ends::StreamFacts;
use kept_welcome::KeptWelcome;
use log::Log;
#[cfg(not(feature = "admin"))]
use no_admin::NoAdmin;
use observer::Observer;
use record::{Recorder, RecordingHeader};

pub use crate::message_stream::{
    Arrival, CancelFate, Census, Connected, Credentials, Departure, MessageStream, SigningIn,
};
pub use ends::{Descriptor, EntryName, LinkClient, LinkServer};
pub use log::LogLevel;
#[cfg(feature = "admin")]
pub use observer::OnStop;
pub use observer::OnStuck;
pub use recording_file::{RecordError, RecordingFile, is_recording_folder};
pub use stderr::Stderr;
#[cfg(feature = "wrap")]
pub use wrap::wrap;

/// The settings of a link to relay.
#[derive(Debug)]
pub struct Link {
    /// Where the client is.
    pub client: LinkClient,
    /// What the server is.
    pub server: LinkServer,
    /// What the configuration of its client calls the server. The admin socket and a recording tell it.
    pub entry: EntryName,
    /// The settings of the relay machine. The events that the observers below need are enabled in addition.
    pub config: RelayConfig,
    /// How long the server may live on after the client's input has ended and nothing is in flight (D44). `None` means for
    /// ever; 30 s are usual.
    pub finish: Option<Duration>,
    /// Records every frame and decision.
    pub recording: Option<RecordingFile>,
    /// Logs what concerns cancels, up to this level.
    pub log: Option<(File, LogLevel)>,
    /// What to do about a stuck request. `None`: nothing.
    pub on_stuck: Option<OnStuck>,
    /// What to do about the processes that a cancelled request has left, once its cancel is confirmed, or a server that need
    /// not confirm it has been silent for a grace (D59). `None`: nothing.
    #[cfg(feature = "admin")]
    pub on_stop: Option<OnStop>,
    /// Errors about the server's end have the last lines that it wrote to stderr, which can hold secrets. So only where the
    /// client may read that stderr anyway (D63).
    pub stderr_in_errors: bool,
    /// Directories for the admin socket. It is opened in the first that can be used, which is created if missing. Without
    /// directories there is no socket. Failure in all of them is logged and is not an error.
    #[cfg(feature = "admin")]
    pub admin: Vec<PathBuf>,
    /// The folder of the history: what has ended is kept there, without payloads, by a thread that runs while there is
    /// something to write. A link without an admin socket has none. Failure is reported on stderr, and is not an error.
    #[cfg(feature = "admin")]
    pub history: Option<PathBuf>,
    /// The file in which it is kept what the server answers to its clients: the next of them are welcomed with that while the
    /// server starts (D70). Its folder is made where it is missing, and is for such files alone: 64 at most stay there.
    /// Failure is logged, and is not an error.
    pub welcome: Option<PathBuf>,
}

/// How a link ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkEnd {
    /// How the server ended.
    pub server: End,
    /// The client did not read all of the server's output, and the rest is lost. `false` if the client closed its end: then
    /// it did not want the rest.
    pub is_output_lost: bool,
}

/// Why a link could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The server's process, or its guard, could not be started.
    #[error("cannot start the server process: {0}")]
    Start(#[source] io::Error),
    /// This process's own descriptors, signals or timers cannot be used.
    #[error("cannot connect the client and the server: {0}")]
    Setup(#[source] io::Error),
}

/// Relays until the server has ended and everything owed to the client is written.
///
/// It waits for a client that has not closed its end. It gives up a client that reads nothing for
/// [`RelayConfig::stall_limit`], or one that has sent a signal, 1.5 s after both the signal and the server's end. Then it
/// writes a note to stderr and sets [`LinkEnd::is_output_lost`].
///
/// The end of the client's input only closes the server's input. Once `client_output` has lost its reader, or the time of
/// [`Link::finish`] is over, the server is asked to end, and killed 2.5 s later (D44).
///
/// This call blocks. Make it from the main thread, or from a thread that lives as long as the process: the server is
/// killed when that thread ends. Signals to this process go to the server: SIGTERM, SIGINT, SIGHUP and SIGQUIT, which
/// also begin its end, and SIGUSR1, SIGUSR2 and SIGWINCH. After the return these signals still do not end this process,
/// and go nowhere: a program that goes on must listen for them itself.
///
/// What the server writes to stderr is read and passed on to that of this process, which never stops the server: what is
/// not read is dropped, and a line reports how much. With [`Link::stderr_in_errors`] its last lines stand in the errors about
/// its end (D63). A stderr that is a terminal is the server's own. A server that ends before its client can know of it has
/// up to two seconds for the client's next request, which is answered with what became of it; so has one that could not be
/// started.
///
/// # Errors
///
/// Only before anything was relayed. Later failures are the end of one side.
pub fn run(link: Link) -> Result<LinkEnd, LinkError> {
    #[cfg(unix)]
    check_descriptors().map_err(LinkError::Setup)?;
    // One thread at most encodes long answers of the admin socket, so that they do not crowd out the link's thread.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.map_err(LinkError::Setup)?.block_on(boxed(link))
}

/// Like [`run`], as a future: for a program that has several links. Await it on a runtime of one thread that is the main
/// thread, or lives as long as the process. What the servers of all links write to stderr waits within one bound, 8 MiB, and
/// each of them has its own, 2 MiB; lines of two are not mixed.
///
/// Dropping it kills the server.
///
/// # Errors
///
/// As [`run`].
pub async fn drive(link: Link) -> Result<LinkEnd, LinkError> {
    boxed(link).await
}

/// Boxed, so that the loop is compiled with this crate, for speed, and not once more where it is awaited.
fn boxed(link: Link) -> Pin<Box<dyn Future<Output = Result<LinkEnd, LinkError>>>> {
    Box::pin(drive_here(link))
}

async fn drive_here(link: Link) -> Result<LinkEnd, LinkError> {
    let origin = std::time::Instant::now();
    let Link { client, server, entry, mut config, finish, recording, log, on_stuck, stderr_in_errors, welcome, .. } =
        link;
    let welcome = welcome.map(KeptWelcome::new);
    config.welcomes = welcome.as_ref().map(KeptWelcome::read);
    // Before the server starts and before anything is written: no signal may be missed or end the link.
    let signals = match &client {
        LinkClient::Descriptors { .. } => Signals::listen(),
        // Signals to this process concern all of its links.
        LinkClient::Messages(_) => Signals::of_children(),
    };
    let signals = signals.map_err(LinkError::Setup)?;
    Observer::configure(&mut config, log.as_ref().map(|(_, level)| *level), recording.is_some());
    let command = match &server {
        LinkServer::Command { command, .. } => command.clone(),
        LinkServer::Messages { name, .. } => name.clone(),
    };
    #[cfg(feature = "admin")]
    if link.on_stop.is_some() {
        (config.emit.notices, config.emit.stopped_children) = (true, true);
    }
    let pinned = |side: Side| config.dialects[side].map_or("auto", |dialect| dialect.name);
    let mut observer = Observer::new(on_stuck, !config.limits.is_empty());
    if let Some(file) = recording {
        let header = RecordingHeader {
            command: &command,
            entry: &entry,
            client: pinned(Side::Client),
            server: pinned(Side::Server),
            monotonic_nanos: monotonic_nanos(origin),
        };
        observer.recorder = Some(Recorder::begin(file, &header).map_err(LinkError::Setup)?);
    }
    if let Some((file, level)) = log {
        observer.log = Some(Log::new(file, level).map_err(LinkError::Setup)?);
    }
    #[cfg(feature = "admin")]
    let told = StreamFacts::of(&client, &server);
    #[cfg(feature = "admin")]
    let mark = Mark::next();
    #[cfg(feature = "admin")]
    let environment: Vec<_> = mark.iter().map(|mark| (MARK_VARIABLE, mark.to_string())).collect();
    #[cfg(not(feature = "admin"))]
    let environment = Vec::new();
    #[cfg(feature = "admin")]
    let turns = mark.filter(|_| link.on_stop == Some(OnStop::EndProcesses)).map(|mark| {
        let started = since_1970(origin).as_micros().try_into().unwrap_or(u64::MAX);
        TurnProcesses::new(mark, origin, started, config.grace)
    });
    #[cfg(not(feature = "admin"))]
    let turns = None;
    let mut asked = ShutdownLimits::default().asked;
    let mut unstarted = None;
    // Of a program on a terminal a person reads stderr, and the program may ask whether it writes to one (D63).
    let pipes_stderr = !io::stderr().is_terminal();
    let is_alone = matches!(client, LinkClient::Descriptors { .. });
    let (server, port) = match server {
        LinkServer::Command { launcher, .. } => {
            let program = command.first().map(|program| program.to_string_lossy().into_owned());
            let container = Container::of(&command, &environment);
            let words = container.as_ref().map_or(&command, Container::words);
            match Group::start(&launcher, words, &environment, pipes_stderr) {
                Ok((group, pipes)) => {
                    let mut starter = None;
                    if container.is_some() {
                        asked = container::ASKED;
                        if std::mem::take(&mut config.restart) {
                            observer.handle_not_restarted("it runs in a container");
                        }
                    } else {
                        // What is in a container is ended by the mark that the next one would have, too.
                        starter = Some(Starter::new(launcher, command.clone(), environment.clone(), pipes_stderr));
                    }
                    let (port, stderr) = Port::to_server(pipes, stderr_in_errors);
                    let group = Some(group);
                    let parts = Server {
                        group,
                        container,
                        starter,
                        stderr,
                        stderr_in_errors,
                        turns,
                        program,
                        ..Server::default()
                    };
                    (parts, port)
                }
                // Its client gets an answer that says so.
                Err(error) => {
                    unstarted = Some(error);
                    (Server { program, ..Server::default() }, Port::default())
                }
            }
        }
        LinkServer::Messages { mut stream, .. } => {
            config.framing = Some(Framing::Line);
            config.server_departs = stream.watch_departures();
            (Server::default(), Port::to_messages(stream, config.max_message))
        }
    };
    let is_person = matches!(&client, LinkClient::Descriptors { input, .. } if input.is_terminal());
    let client = match client {
        LinkClient::Descriptors { input, output } => Port::to_client(input, output).map_err(LinkError::Setup)?,
        LinkClient::Messages(stream) => {
            config.framing = Some(Framing::Line);
            // Who waits for a request, and who has cancelled it, hear of it.
            (config.emit.silences, config.emit.notices) = (true, true);
            Port::to_messages(stream, config.max_message)
        }
    };
    #[cfg(feature = "admin")]
    let server_pid = server.group.as_ref().map(Group::server_id);
    #[cfg(feature = "admin")]
    let places = (&*link.admin, link.history);
    #[cfg(feature = "admin")]
    let admin = Admin::open(places, origin, (&command, entry), server_pid, told, mark).unwrap_or_else(|errors| {
        errors.iter().for_each(|error| observer.handle_unlisted(error));
        Admin::default()
    });
    #[cfg(feature = "admin")]
    {
        config.emit.ends = admin.keeps_history();
        // Without a socket nobody can ask for them.
        config.keeps_arguments = admin.is_open();
    }
    #[cfg(not(feature = "admin"))]
    let admin = NoAdmin;
    let mut limits = ShutdownLimits { finish, asked, client_drain: config.stall_limit, ..ShutdownLimits::default() };
    if is_person {
        limits.first_request = Duration::ZERO;
    }
    let server = Server { welcome, ..server };
    let ports = Sides { client, server: port };
    let mut drive = Drive::new(origin, (config, limits), ports, server, signals, observer, admin);
    if let Some(error) = &unstarted {
        drive.handle_unstarted(error);
    }
    let ending = poll_fn(|cx| drive.poll(cx)).await;
    drive.finish(&ending.server, is_alone).await;
    unstarted.map_or(Ok(ending), |error| Err(LinkError::Start(error)))
}

/// Fails unless a few descriptors can still be opened: a runtime that runs out of them while it starts panics.
#[cfg(unix)]
fn check_descriptors() -> io::Result<()> {
    let nothing = File::open("/dev/null")?;
    let _room = (0..RUNTIME_DESCRIPTORS).map(|_| nothing.try_clone()).collect::<io::Result<Vec<File>>>()?;
    Ok(())
}

/// Descriptors of a runtime with its timers, sockets and signals, and some to spare.
#[cfg(unix)]
const RUNTIME_DESCRIPTORS: usize = 12;

/// The machine's monotonic clock at `origin`. Called for a recording only: the call reads the vDSO, which some profilers
/// do not survive.
#[cfg(unix)]
fn monotonic_nanos(origin: std::time::Instant) -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now = now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec);
    now.saturating_sub(i64::try_from(origin.elapsed().as_nanos()).unwrap_or(i64::MAX))
}

/// The system's time at `origin`, since 1970: Windows has no other clock that all processes read without `unsafe`.
#[cfg(windows)]
fn monotonic_nanos(origin: std::time::Instant) -> i64 {
    i64::try_from(since_1970(origin).as_nanos()).unwrap_or(i64::MAX)
}

/// The time since the beginning of 1970 (UTC) at which a clock began.
fn since_1970(origin: std::time::Instant) -> Duration {
    let began = SystemTime::now() - origin.elapsed();
    began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// A machine whose clock began at `origin`. A bridge makes tasks, which have a date. A seed that nobody has pinned is drawn,
/// so that no peer can choose ids that collide.
fn relay(mut config: RelayConfig, origin: std::time::Instant) -> Relay {
    if config.seed == 0 {
        config.seed = RandomState::new().hash_one(0);
    }
    if let Some(bridge) = &mut config.bridge {
        bridge.started = since_1970(origin);
    }
    Relay::new(config)
}
