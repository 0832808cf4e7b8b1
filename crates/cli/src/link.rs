//! The settings of a link: flags that `run` and `serve` have in common.

mod grace;
mod limit_flags;
mod limits;
mod log_file;
mod path;
mod recording;
mod remote;
mod sockets;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, ValueEnum};
use rescind::relay::{EntryName, Link, LinkClient, LinkServer, LogLevel, OnStop, OnStuck, RecordingFile};
use rescind_proto::{
    bridge::BridgeConfig,
    link::Clock,
    relay::{RelayConfig, SettingNames},
};

use crate::{
    failure::Failure,
    folders,
    named::{Named, value_of},
    number,
};
use grace::GraceArg;
pub(crate) use limit_flags::LimitArguments;
pub(crate) use limits::FinishArg;
use limits::LimitArg;
pub(crate) use recording::{RECORDING_HINT, RecordTarget, open_in as open_recording_in, open_new};
pub(crate) use remote::{HeaderArguments, ProfileArguments, Remote};
#[cfg(unix)]
pub(crate) use sockets::private_folder;

/// What a link is to do about time, stuck requests, and size, and who is told of it.
#[derive(Debug, Args)]
pub(crate) struct LinkArguments {
    /// Cancel a request that has no answer after this time, and answer it with an error. DURATION is for every request of
    /// the client. METHOD=DURATION, which also applies to requests of the server, goes before it, and
    /// METHOD:TOOL=DURATION goes before both. May be repeated; of several values for the same requests, the last one
    /// counts. Progress restarts the timer: in MCP progress that the client asked for, in ACP a `session/update` of the
    /// session that is prompted, loaded or resumed. What waits for a person, such as ACP's `authenticate`, has no timer
    /// unless METHOD names it. Set it below the client's own timeout
    #[arg(long, value_name = "[METHOD[:TOOL]=]DURATION", value_parser = LimitArg::parse, allow_hyphen_values = true)]
    timeout: Vec<LimitArg>,

    /// Like --timeout, but progress does not restart the timer
    #[arg(long, value_name = "[METHOD[:TOOL]=]DURATION", value_parser = LimitArg::parse, allow_hyphen_values = true)]
    total_timeout: Vec<LimitArg>,

    /// Time to wait for the server's answer to a cancelled request before answering on its behalf, where the protocol
    /// requires an answer; for an ACP prompt at least 30s. METHOD=DURATION, such as session/prompt=10s, shortens it for that
    /// method. May be repeated; the last value counts. --on-stuck acts after the same time
    #[arg(long, value_name = "[METHOD=]DURATION", default_value = "5s", value_parser = GraceArg::parse, allow_hyphen_values = true)]
    grace: Vec<GraceArg>,

    /// What to do if, after the grace, a cancelled request still reports progress, or the answer that its protocol
    /// requires (ACP, LSP) is still missing. By default nothing is done. An MCP server that silently ignores a cancel
    /// cannot be told from one that stopped: end it yourself
    #[arg(long, value_name = "WHAT", value_parser = value_of(ON_STUCK))]
    on_stuck: Option<OnStuck>,

    /// What to do about processes that a cancelled request has started and left, once its cancel is confirmed, or a server
    /// that need not confirm it (MCP) has been silent for the grace. By default nothing is done: a development server may be
    /// wanted. `rescind ps --processes` lists them. A server at a URL has none here
    #[arg(long, value_name = "WHAT", value_parser = value_of(ON_STOP))]
    pub(crate) on_stop: Option<OnStop>,

    /// Log cancels and what became of them, to stderr unless --log-file is given. Each LEVEL includes those before it
    #[arg(long, value_name = "LEVEL", value_enum)]
    log: Option<LogLevelArg>,

    /// Append the log to FILE (its mode becomes 0600). Needs --log
    #[arg(long, value_name = "FILE", requires = "log")]
    log_file: Option<PathBuf>,

    /// Hide this session from `rescind ps`, `rescind cancel` and the console: no admin socket is opened
    #[arg(long)]
    unlisted: bool,

    /// Keep no history of what ends: what it was, how long it took, how it ended, and no messages, for thirty days, on Linux in
    /// ~/.local/state/rescind. So does the environment variable RESCIND_NO_HISTORY
    #[arg(long)]
    no_history: bool,

    /// Serve clients of MCP 2026-07-28 before a server that knows only sessions, and greet that server for them. What such a
    /// server asks (sampling, elicitation, roots) is refused then. Without this flag the server's refusal is passed on, so
    /// that a client which speaks both eras begins a session. The other way round, a client with a session before a server
    /// that knows none is always served
    #[arg(long)]
    pub(crate) bridge: bool,

    /// The longest message to pass on, from 256 bytes to 4GiB. Without a unit, SIZE is in bytes
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = number::size, allow_hyphen_values = true)]
    pub(crate) max_message: usize,

    /// The most requests of one side in flight; further ones are refused
    #[arg(long, value_name = "N", default_value = "65536", value_parser = number::count, allow_hyphen_values = true)]
    pub(crate) max_in_flight: usize,

    #[command(flatten)]
    pub(crate) limits: LimitArguments,
}

/// The values of `--on-stuck`.
const ON_STUCK: &[Named<OnStuck>] = &[
    (OnStuck::Report, "report", "Report it on stderr"),
    (OnStuck::Kill, "kill", "Report it, and if the client sent the request, end the server with all its work"),
];

/// The values of `--on-stop`.
const ON_STOP: &[Named<OnStop>] = &[(
    OnStop::EndProcesses,
    "end-processes",
    "End those that began while it was in flight and no other request was, with all that they have started: SIGTERM, and \
     SIGKILL 2.5 s later. Never the server, nor what belongs to an earlier process",
)];

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogLevelArg {
    /// A client or server that rescind gave up on, because it did not read; the first malformed cancel of each side
    Error,
    /// Timeouts, stuck requests, cancels that were not obeyed, broken rules of the protocol, messages not passed on
    Warn,
    /// Cancels that were received or sent, and their outcomes; the end of the server
    Info,
    /// Late answers and progress; the start and end of each request
    Debug,
    /// The length of each message; of each that is not passed on, its beginning, id or method, which may hold secrets
    Trace,
}

impl LinkArguments {
    /// Refuses flags that exclude each other, before anything is opened.
    pub(crate) fn check(&self, record: Option<&Path>) -> Result<(), Failure> {
        self.limits.check()?;
        GraceArg::check(&self.grace)?;
        match (record, &self.log_file) {
            (Some(record), Some(log)) if path::is_same_file(record, log) => {
                Err(Failure::new(record.display(), "named by --record and by --log-file", "name two files"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a stuck request ends the server.
    pub(crate) fn kills_when_stuck(&self) -> bool {
        self.on_stuck == Some(OnStuck::Kill)
    }

    /// Whether any request of the client has a clock.
    pub(crate) fn has_timeouts(&self) -> bool {
        !self.timeout.is_empty() || !self.total_timeout.is_empty()
    }

    /// The settings of the relay machine.
    pub(crate) fn config(&self, setting_names: SettingNames) -> RelayConfig {
        let response = LimitArg::rules(&self.timeout, Clock::Response);
        let total = LimitArg::rules(&self.total_timeout, Clock::Total);
        RelayConfig {
            grace: GraceArg::general(&self.grace),
            graces: GraceArg::rules(&self.grace),
            clocks: response.chain(total).collect(),
            limits: self.limits.rules(),
            max_message: self.max_message,
            max_in_flight: self.max_in_flight,
            unknown: false,
            bridge: Some(BridgeConfig { serves_modern: self.bridge, ..BridgeConfig::default() }),
            setting_names,
            seed: seed(),
            ..RelayConfig::default()
        }
    }

    /// Opens what a link needs.
    pub(crate) fn link(
        &self,
        client: LinkClient,
        server: LinkServer,
        config: RelayConfig,
        finish: Option<Duration>,
        recording: Option<RecordingFile>,
    ) -> Result<Link, Failure> {
        Ok(Link {
            client,
            server,
            entry: EntryName::default(),
            config,
            finish,
            recording,
            log: self.log.map(|level| Ok((log_file::open(self.log_file.clone())?, level.into()))).transpose()?,
            on_stuck: self.on_stuck,
            on_stop: self.on_stop,
            stderr_in_errors: true,
            admin: if self.unlisted { Vec::new() } else { sockets::directories() },
            history: if self.no_history { None } else { folders::history_of_session() },
            welcome: None,
        })
    }
}

/// A server that is started by this command.
pub(crate) fn command(command: Vec<OsString>) -> Result<LinkServer, Failure> {
    let launcher = std::env::current_exe().map_err(|error| {
        let hint = if cfg!(target_os = "linux") { "check that /proc is mounted" } else { "start it by its path" };
        Failure::new("rescind", format_args!("cannot find its own program: {error}"), hint)
    })?;
    Ok(LinkServer::Command { command, launcher })
}

/// A number that a peer cannot guess, from the seed of the standard library's hash tables.
pub(crate) fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

impl From<LogLevelArg> for LogLevel {
    fn from(level: LogLevelArg) -> Self {
        match level {
            LogLevelArg::Error => Self::Error,
            LogLevelArg::Warn => Self::Warn,
            LogLevelArg::Info => Self::Info,
            LogLevelArg::Debug => Self::Debug,
            LogLevelArg::Trace => Self::Trace,
        }
    }
}
