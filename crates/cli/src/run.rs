//! `rescind run [flags] COMMAND…`: relays between a client on stdin and stdout and a server as a child.

mod end;
mod limits;
mod path;
mod protocol;
mod sockets;

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::{
    Args, ValueEnum,
    error::{ContextKind, ContextValue},
};
use rescind::relay::{self, Link, LinkClient, LinkEnd, LogLevel, OnStuck, RecordError, RecordingFile};
use rescind_proto::{
    link::Clock,
    relay::{RelayConfig, SettingNames},
    side::Sides,
};
use rustix::{
    fs::{FileType, Mode, OFlags},
    io::Errno,
};

use crate::{duration, failure::Failure, number};
use limits::{FinishArg, LimitArg};
use protocol::Protocol;

/// The exit code of the shim's own failures; 126 and 127 are for a command that could not be started.
pub(crate) const OWN_FAILURE: u8 = 125;

/// Run a server with correct cancellation between it and its client.
///
/// The client talks to the server through this command's stdin and stdout. Cancels reach the server in its own protocol,
/// late answers are dropped, and if the server ends, the client gets an error for every request in flight. A server that
/// is alive and never answers leaves its client waiting, unless --timeout is given. By default the protocol is detected.
/// One running `rescind run` is a session, named after its process id.
///
/// Without --log and --on-stuck, stderr has only what the server writes to it, and rescind's own errors and warnings.
/// These are about a flag, file or COMMAND that cannot be used; a failure of the operating system at the start; lost
/// output; a session that `rescind ps` cannot list; or a server that the system suspended because it read from, or wrote
/// to, the client's terminal.
///
/// COMMAND begins at the first word that is neither a flag nor a flag's value, and everything after that word belongs to
/// it. `--` before it is allowed but never needed.
///
/// Exit code: that of the server; if a signal ended the server, this command ends by the same signal; 125 if rescind
/// itself failed, or if the server succeeded and output was lost; 126 if COMMAND cannot be run; 127 if it does not exist.
/// Output is lost in two cases: the client keeps the pipe from this command's stdout open but reads nothing for ten
/// minutes; or it sent a signal, the server has ended, and 1.5 s after the later of the two the client has not read
/// everything. A client that closes the pipe does not want the rest, and that is not an error.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The protocol of the client, and of the server unless --server-protocol is given: auto, mcp, acp or lsp; a
    /// revision such as mcp-2025-11-25, acp-v1 or acp-rfd-2025-11-13 (ACP's cancellation proposal); or FILE.json, a
    /// dialect of your own. A dialect is the way in which one revision of a protocol cancels
    #[arg(long, value_name = "PROTOCOL", default_value = "auto", value_parser = Protocol::parse)]
    protocol: Protocol,

    /// The protocol of the server, if its revision or its cancel messages differ from the client's
    #[arg(long, value_name = "PROTOCOL", value_parser = Protocol::parse)]
    server_protocol: Option<Protocol>,

    /// Cancel a request that has no answer after this time, and answer it with an error. DURATION is for every request of
    /// the client. METHOD=DURATION, which also applies to requests of the server, goes before it, and
    /// METHOD:TOOL=DURATION goes before both. May be repeated; of several values for the same requests, the last one
    /// counts. Progress restarts the timer: in MCP progress that the client asked for, in ACP a `session/update` of the
    /// prompt's session. Set it below the client's own timeout
    #[arg(long, value_name = "[METHOD[:TOOL]=]DURATION", value_parser = LimitArg::parse, allow_hyphen_values = true)]
    timeout: Vec<LimitArg>,

    /// Like --timeout, but progress does not restart the timer
    #[arg(long, value_name = "[METHOD[:TOOL]=]DURATION", value_parser = LimitArg::parse, allow_hyphen_values = true)]
    total_timeout: Vec<LimitArg>,

    /// Time to wait for the server's answer to a cancelled request before answering on its behalf, where the protocol
    /// requires an answer; for an ACP prompt at least 30s. --on-stuck acts after the same time
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse, allow_hyphen_values = true)]
    grace: Duration,

    /// How long the server may live on once the client has closed this command's stdin and has nothing in flight,
    /// counted from the later of the two: a DURATION, or `never` for as long as it likes
    #[arg(long, value_name = "DURATION|never", default_value = "30s", value_parser = FinishArg::parse, allow_hyphen_values = true)]
    finish: FinishArg,

    /// What to do if, after the grace, a cancelled request still reports progress, or the answer that its protocol
    /// requires (ACP, LSP) is still missing. By default nothing is done. An MCP server that silently ignores a cancel
    /// cannot be told from one that stopped: end it yourself
    #[arg(long, value_name = "WHAT", value_enum)]
    on_stuck: Option<OnStuckArg>,

    /// Record every message and decision to FILE as JSON lines (mode 0600, since messages can hold secrets). An earlier
    /// recording or an empty file is overwritten, and a device or a pipe is written to; anything else that exists is
    /// refused
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Log cancels and what became of them, to stderr unless --log-file is given. Each LEVEL includes those before it
    #[arg(long, value_name = "LEVEL", value_enum)]
    log: Option<LogLevelArg>,

    /// Append the log to FILE (its mode becomes 0600). Needs --log
    #[arg(long, value_name = "FILE", requires = "log")]
    log_file: Option<PathBuf>,

    /// Hide this session from `rescind ps`, `rescind cancel` and the console: no admin socket is opened
    #[arg(long)]
    unlisted: bool,

    /// The longest message to pass on, from 256 bytes to 4GiB. Without a unit, SIZE is in bytes
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = number::size, allow_hyphen_values = true)]
    max_message: usize,

    /// The most requests of one side in flight; further ones are refused
    #[arg(long, value_name = "N", default_value = "65536", value_parser = number::count, allow_hyphen_values = true)]
    max_in_flight: usize,

    /// The server's command and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OnStuckArg {
    /// Report it on stderr
    Report,
    /// Report it, and if the client sent the request, end the server with all its work
    Kill,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogLevelArg {
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

/// Reports a usage error of `rescind run`.
pub(crate) fn refused(mut error: clap::Error) -> ExitCode {
    let missing = error.get(ContextKind::InvalidArg);
    if matches!(missing, Some(ContextValue::Strings(missing)) if missing.iter().any(|one| one == "<COMMAND>...")) {
        let hint = "name the server's command and its arguments, as in: rescind run npx -y some-mcp-server";
        Failure::new("rescind run", "no command was given", hint).report();
        return ExitCode::from(OWN_FAILURE);
    }
    // Says to put `--` before the flag, which would make it the command.
    error.remove(ContextKind::Suggested);
    let _ = error.print();
    if error.exit_code() == 0 { ExitCode::SUCCESS } else { ExitCode::from(OWN_FAILURE) }
}

pub(crate) fn main(arguments: Arguments) -> ExitCode {
    match run(arguments) {
        Ok(end) => end::as_the_server(&end),
        Err(failure) => {
            failure.report();
            ExitCode::from(OWN_FAILURE)
        }
    }
}

fn run(arguments: Arguments) -> Result<LinkEnd, Failure> {
    check(&arguments)?;
    let launcher = std::env::current_exe().map_err(|error| {
        Failure::new("rescind", format_args!("cannot find its own program: {error}"), "check that /proc is mounted")
    })?;
    let (client_input, client_output) = detach_streams()
        .map_err(|error| Failure::new("standard streams", error, "check the limit on open files (ulimit -n)"))?;
    let config = config(&arguments);
    let Arguments { finish, on_stuck, record, log, log_file, unlisted, command, .. } = arguments;
    let link = Link {
        client: LinkClient::Descriptors { input: client_input, output: client_output },
        command,
        launcher,
        config,
        finish: finish.0,
        recording: record.map(open_recording).transpose()?,
        log: log.map(|level| Ok((open_log(log_file)?, level.into()))).transpose()?,
        on_stuck: on_stuck.map(Into::into),
        admin: if unlisted { Vec::new() } else { sockets::directories() },
    };
    relay::run(link)
        .map_err(|error| Failure::new("rescind run", error, "check the limits on processes and open files (ulimit -a)"))
}

/// Refuses flags that exclude each other, before anything is opened.
fn check(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { protocol: client, server_protocol, record, log_file, .. } = arguments;
    if let Some(server) = server_protocol.filter(|server| client.excludes(*server)) {
        let cause = format_args!(
            "cannot be combined with --protocol {client}: rescind does not translate between LSP and other protocols"
        );
        let hint = "leave out --server-protocol, or name a revision of the same protocol";
        return Err(Failure::new(format_args!("--server-protocol {server}"), cause, hint));
    }
    match (record, log_file) {
        (Some(record), Some(log)) if path::is_same_file(record, log) => {
            Err(Failure::new(record.display(), "named by --record and by --log-file", "name two files"))
        }
        _ => Ok(()),
    }
}

fn config(arguments: &Arguments) -> RelayConfig {
    let client = arguments.protocol.dialect();
    let server = arguments.server_protocol.map_or(client, Protocol::dialect);
    let response = LimitArg::rules(&arguments.timeout, Clock::Response);
    let total = LimitArg::rules(&arguments.total_timeout, Clock::Total);
    RelayConfig {
        dialects: Sides { client, server },
        grace: arguments.grace,
        clocks: response.chain(total).collect(),
        max_message: arguments.max_message,
        max_in_flight: arguments.max_in_flight,
        setting_names: SettingNames {
            response_timeout: "set by rescind run --timeout",
            total_timeout: "set by rescind run --total-timeout",
            max_message: "see rescind run --max-message",
            max_in_flight: "see rescind run --max-in-flight",
        },
        seed: seed(),
        ..RelayConfig::default()
    }
}

fn open_recording(path: PathBuf) -> Result<RecordingFile, Failure> {
    RecordingFile::open(&path).map_err(|error| {
        let hint = match &error {
            RecordError::Link => "give the path of the file itself".into(),
            RecordError::NotARecording => "name a new file, or remove this one".into(),
            RecordError::InUse => "give each server a recording of its own".into(),
            RecordError::Open(error) => path::remedy(&path, error),
            _ => String::from("name a new file"),
        };
        Failure::new(path.display(), error, hint)
    })
}

fn open_log(path: Option<PathBuf>) -> Result<File, Failure> {
    match path {
        None => {
            let stderr = io::stderr().as_fd().try_clone_to_owned().map(File::from);
            stderr.map_err(|error| Failure::new("stderr", error, "check the limit on open files (ulimit -n)"))
        }
        Some(path) => {
            // Opening a pipe would otherwise wait for a reader.
            let without_waiting = OFlags::NONBLOCK | OFlags::NOCTTY;
            let mut options = OpenOptions::new();
            options.append(true).create(true).mode(0o600).custom_flags(without_waiting.bits().cast_signed());
            let opened = options.open(&path).and_then(|file| {
                rustix::fs::fcntl_setfl(&file, OFlags::APPEND)?;
                let is_ours = make_private(&file)?;
                Ok((file, is_ours))
            });
            match opened {
                Ok((file, true)) => Ok(file),
                Ok((_, false)) => {
                    Err(Failure::new(path.display(), "belongs to another user, who could read it", "name a new file"))
                }
                Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) => Err(Failure::new(
                    path.display(),
                    "is a pipe without a reader",
                    "start its reader first, or name a file",
                )),
                Err(error) => Err(Failure::new(path.display(), &error, path::remedy(&path, &error))),
            }
        }
    }
}

/// Makes an existing log private, since this one may hold secrets; `false` if it belongs to another user. Pipes and
/// devices are used as they are.
fn make_private(file: &File) -> rustix::io::Result<bool> {
    let found = rustix::fs::fstat(file)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Ok(true);
    }
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    rustix::fs::fchmod(file, Mode::RUSR | Mode::WUSR)?;
    Ok(true)
}

/// Moves stdin and stdout out of this process's standard streams, so that the client sees the end when the link closes
/// them.
fn detach_streams() -> io::Result<(OwnedFd, OwnedFd)> {
    let taken = (io::stdin().as_fd().try_clone_to_owned()?, io::stdout().as_fd().try_clone_to_owned()?);
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok(taken)
}

/// A number that a peer cannot guess, from the seed of the standard library's hash tables.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

impl From<OnStuckArg> for OnStuck {
    fn from(stuck: OnStuckArg) -> Self {
        match stuck {
            OnStuckArg::Report => Self::Report,
            OnStuckArg::Kill => Self::Kill,
        }
    }
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
