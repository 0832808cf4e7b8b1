//! `rescind run [flags] COMMAND…`: relays between a client on stdin and stdout and a server as a child.

mod end;
pub(crate) mod last_start;
mod protocol;
mod unstarted;

use std::{ffi::OsString, io, path::PathBuf, process::ExitCode, time::Duration};

use clap::{
    Args, FromArgMatches as _,
    error::{ContextKind, ContextValue, ErrorKind},
};
use rescind::relay::{self, Credentials, Descriptor, EntryName, Link, LinkClient, LinkEnd};
use rescind_proto::{
    relay::{EarlyCancelLimits, RelayConfig, SettingNames},
    side::Sides,
};

use crate::{
    descriptors, duration,
    failure::Failure,
    link::{self, FinishArg, HeaderArguments, LinkArguments, ProfileArguments, RecordTarget},
    shared::SharedArguments,
    stderr,
};
use protocol::Protocol;
#[cfg(unix)]
#[cfg(unix)]
pub(crate) use unstarted::{check_command, of_exec};

/// The exit code of the shim's own failures; 126 and 127 are for a command that could not be started.
pub(crate) const OWN_FAILURE: u8 = 125;

/// Connections to a server at a URL: docs/http.md.
const MAX_CONNECTIONS: usize = 704;

/// Run a server with correct cancellation between it and its client.
///
/// The client talks to the server through this command's stdin and stdout. Cancels reach the server in its own protocol,
/// late answers are dropped, and if the server ends, the client gets an error for every request in flight. A server that
/// is alive and never answers leaves its client waiting, unless --timeout is given. By default the protocol is detected.
/// One running `rescind run` is a session, named after its process id.
///
/// Without --log and --on-stuck, stderr has only what the server writes to it, and rescind's own errors and warnings.
/// These are about a flag, file or COMMAND that cannot be used; a failure of the operating system at the start; limits that
/// do not apply, since the protocol is unknown; lost output; a session that `rescind ps` cannot list; or a server that the
/// system suspended because it read from, or wrote to, the client's terminal. If stderr is not read, the oldest of what
/// waits there is dropped, and the server goes on.
///
/// If the server cannot be started, or ends, the error for each request in flight names its program, how it ended, and the
/// last lines that it wrote to stderr, unless that is a terminal. A server that ends at its start has two seconds for the
/// client's first request, so that this is answered.
///
/// With --shared NAME all sessions of yours with this COMMAND have one server process (docs/shared.md).
///
/// With --url in place of COMMAND the server is reached over HTTP (Streamable HTTP, both eras of MCP): a cancel of a client
/// on stdio becomes what the server's era has for it, a message in the session or a closed stream. If the server wants a
/// sign-in, that of `rescind login URL` is used; without one, its page opens in the browser, and the request waits for it.
///
/// COMMAND begins at the first word that is neither a flag nor a flag's value, and everything after that word belongs to
/// it. `--` before it is allowed but never needed.
///
/// Exit code: that of the server; if a signal ended the server, this command ends by the same signal; 125 if rescind
/// itself failed, or if the server succeeded and output was lost; 126 if COMMAND cannot be run; 127 if it does not exist.
/// Output is lost in two cases: the client keeps the pipe from this command's stdout open but reads nothing for ten
/// minutes; or it sent a signal that ends the session, the server has ended, and 1.5 s after the later of the two the client has not read
/// everything. A client that closes the pipe does not want the rest, and that is not an error.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The protocol of the client, and of the server unless --server-protocol is given: auto, mcp, acp or lsp; a
    /// revision such as mcp-2025-11-25, acp-v1 or acp-rfd-2025-11-13 (ACP's cancellation proposal); or FILE.json, a
    /// dialect of your own. A dialect is the way in which one revision of a protocol cancels. `codex` is that of Codex's
    /// app server, on both sides. What is none of these is `unknown`: every message passes as it is, nothing is
    /// cancelled, and no --timeout runs
    #[arg(long, value_name = "PROTOCOL", default_value = "auto", value_parser = Protocol::parse)]
    protocol: Protocol,

    /// The protocol of the server, if its revision or its cancel messages differ from the client's
    #[arg(long, value_name = "PROTOCOL", value_parser = Protocol::parse)]
    server_protocol: Option<Protocol>,

    /// How long the server may live on once the client has closed this command's stdin and has nothing in flight,
    /// counted from the later of the two: a DURATION, or `never` for as long as it likes
    #[arg(long, value_name = "DURATION|never", default_value = "30s", value_parser = FinishArg::parse, allow_hyphen_values = true)]
    finish: FinishArg,

    /// Start an MCP server that has died again, while its client goes on. What was in flight is answered with an error that
    /// says how the server ended, and what comes meanwhile waits. The new server gets the client's `initialize`, its
    /// subscriptions and its log level again, and the client is told that tools, resources and prompts may have changed. The
    /// first time it is started at once; if it does not stay, after 1s, 2s, and so on up to 30s. After three starts in a row
    /// that fail, and after each further one, what waits is answered, too. An end that the client or an operator asks for is
    /// final, and so is that of a server that speaks no MCP, has not answered its client yet, or runs in a container. With
    /// --url a lost session is opened again in any case
    #[arg(long)]
    restart: bool,

    /// While an MCP server still starts, answer its client's `initialize` and its requests for lists of tools, prompts and
    /// resources as the server answered them at the last start of the same COMMAND, so that a slow start (npx, uvx, docker)
    /// does not fail. All else waits for the server, with progress where the client asked for it, and can be cancelled. When
    /// the server answers, its lists are compared, and the client is notified of one that is another; a server that cannot
    /// hold what its client was told is ended, and the next start is right. What servers answer is kept with mode 0600 (for
    /// 64 commands at most), without calls and their results. With --url and --shared it does nothing
    #[arg(long)]
    greet_from_cache: bool,

    /// The name of this server's entry in the configuration of its client, by which `rescind ps` and the console list it.
    /// `rescind wrap` gives it; an empty one counts as none
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, overrides_with = "name")]
    name: Option<String>,

    /// The client that this is the configuration of, such as `cursor`: also given by `rescind wrap`
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, overrides_with = "client_name")]
    client_name: Option<String>,

    /// Record every message and decision as JSON lines (mode 0600, since messages can hold secrets). In FOLDER, which is one
    /// that exists or a path that ends with a slash, each session gets a new file, named by time, server and session. As
    /// FILE an earlier recording or an empty file is overwritten, and a device or a pipe is written to; anything else that
    /// exists is refused. `rescind redact` takes out what may be secret
    #[arg(long, value_name = "FOLDER|FILE")]
    record: Option<PathBuf>,

    /// Pass on an ACP prompt at once, even if the turn before it in its session was cancelled and its agent has not answered
    /// yet. By default it waits for that answer, for as long as the --grace, and 5s at most (`queued` in `rescind ps`):
    /// nothing tells the updates of two turns apart
    #[arg(long)]
    no_hold: bool,

    #[command(flatten)]
    link: LinkArguments,

    /// Reach an MCP server over HTTP at URL, in place of a COMMAND. Proxies of the environment (HTTPS_PROXY, NO_PROXY) are
    /// used
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,

    /// How long the connection to the server at URL may be silent before the system asks whether the server is still
    /// there. If that is not answered for as long again, what is in flight is answered with an error
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration::parse, allow_hyphen_values = true, requires = "url")]
    keep_alive: Duration,

    #[command(flatten)]
    shared: SharedArguments,

    #[command(flatten)]
    headers: HeaderArguments,

    #[command(flatten)]
    profile: ProfileArguments,

    /// The server's command and its arguments
    #[arg(trailing_var_arg = true, required_unless_present = "url", value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How many of these words are a shim's own, the first of them being `run`, before the command of a server begins; `None`
/// if they start no shim with a command.
pub(crate) fn own_words(words: &[String]) -> Option<usize> {
    let parsed = Arguments::augment_args(clap::Command::new("run")).try_get_matches_from(words).ok()?;
    let command = Arguments::from_arg_matches(&parsed).ok()?.command;
    words.len().checked_sub(command.len()).filter(|_| !command.is_empty())
}

/// Refuses flags for a server's shim as `rescind run` would refuse them, their values included. Later only the client would
/// see that, and its server would not start.
pub(crate) fn check_flags(flags: &[String]) -> Result<(), Failure> {
    let given = flags.join(" ");
    let refused = |error: &clap::Error| {
        let text = error.to_string();
        let paragraph = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        let cause = paragraph.strip_prefix("error: ").unwrap_or("is not for a server").to_owned();
        let hint = match error.get(ContextKind::SuggestedArg) {
            Some(ContextValue::String(near)) => format!("did you mean {near}?"),
            _ => "`rescind run --help` lists its flags".to_owned(),
        };
        Failure::new(&given, cause, hint)
    };
    let read = |command: &[&str]| {
        let words = ["run"].into_iter().chain(flags.iter().map(String::as_str)).chain(command.iter().copied());
        let parsed = Arguments::augment_args(clap::Command::new("run")).try_get_matches_from(words)?;
        Arguments::from_arg_matches(&parsed)
    };
    // Without a command first: the last flag could take its word for a value.
    match read(&[]) {
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {}
        Err(error) => return Err(refused(&error)),
        Ok(_) => {
            let hint = "after `--` come flags of `rescind run` only; the servers are those of the files";
            return Err(Failure::new(given, "names a server of its own", hint));
        }
    }
    check(&read(&["server"]).map_err(|error| refused(&error))?)
}

/// Whether these flags of a shim set a timeout.
pub(crate) fn has_timeouts(flags: &[String]) -> bool {
    let words = ["run"].into_iter().chain(flags.iter().map(String::as_str)).chain(["server"]);
    let parsed = Arguments::augment_args(clap::Command::new("run")).try_get_matches_from(words);
    let read = parsed.and_then(|parsed| Arguments::from_arg_matches(&parsed));
    read.is_ok_and(|arguments| arguments.link.has_timeouts())
}

/// Where a shim with these words records to, the first word being `run`.
pub(crate) fn recording(words: &[String]) -> Option<PathBuf> {
    let parsed = Arguments::augment_args(clap::Command::new("run")).try_get_matches_from(words).ok()?;
    Arguments::from_arg_matches(&parsed).ok()?.record
}

pub(crate) fn main(arguments: Arguments) -> ExitCode {
    let is_remote = arguments.url.is_some() || arguments.shared.name().is_some();
    let ended = run(arguments);
    stderr::finish();
    match ended {
        // A server over HTTP has no exit code.
        Ok(end) if is_remote => ExitCode::from(if end.is_output_lost { OWN_FAILURE } else { 0 }),
        Ok(end) => end::as_the_server(&end),
        Err(Unrun { failure, code }) => {
            failure.report();
            ExitCode::from(code)
        }
    }
}

/// Why nothing was relayed.
struct Unrun {
    failure: Failure,
    code: u8,
}

impl From<Failure> for Unrun {
    fn from(failure: Failure) -> Self {
        Self { failure, code: OWN_FAILURE }
    }
}

fn run(arguments: Arguments) -> Result<LinkEnd, Unrun> {
    check(&arguments)?;
    // Each request to the server may have a connection of its own. A command keeps the limit that it was given.
    let connections = || descriptors::to_servers(descriptors::raise().min(MAX_CONNECTIONS)).0;
    let Arguments { url, shared, headers, keep_alive, command, .. } = &arguments;
    let remote = match (url, shared.name()) {
        (Some(url), _) => Some(headers.server("--url", url, *keep_alive, connections())?.signed_in(&arguments.profile)),
        (None, Some(name)) => {
            #[cfg(unix)]
            check_shared(command)?;
            Some(shared.join(name, command, headers, *keep_alive, connections())?)
        }
        (None, None) => None,
    };
    let shared = shared.name().map(ToOwned::to_owned);
    let (input, output) = detach_streams()
        .map_err(|error| Failure::new("standard streams", error, "check the limit on open files (ulimit -n)"))?;
    let entry = EntryName::new(arguments.name, arguments.client_name).sharing(shared);
    let Arguments { protocol, server_protocol, finish, restart, greet_from_cache, record, no_hold, .. } = arguments;
    let Arguments { mut link, url, command, .. } = arguments;
    let is_greeted = greet_from_cache && remote.is_none();
    let welcome = is_greeted.then(|| {
        let flags = format!("{protocol} {} {}", server_protocol.unwrap_or(protocol), link.bridge);
        last_start::file(&command, entry.client.as_deref(), &flags)
    });
    let client = protocol.dialect();
    let dialects = Sides { client, server: server_protocol.map_or(client, Protocol::dialect) };
    // Over HTTP it is MCP, and a user who names a protocol, or wants its eras joined, knows which it is.
    let is_auto = protocol.is_auto() && server_protocol.is_none_or(Protocol::is_auto);
    let unknown = remote.is_none() && is_auto && !link.bridge;
    let restart = restart && remote.is_none();
    // A server elsewhere has no processes here.
    link.on_stop = link.on_stop.filter(|_| remote.is_none());
    let next_turn_waits = !no_hold;
    let mut config = RelayConfig { dialects, unknown, restart, next_turn_waits, ..link.config(SETTING_NAMES) };
    config.early_cancels.client = EarlyCancelLimits::OWN_CLIENT;
    if dialects.client.is_some() || dialects.server.is_some() {
        // Whoever names the revisions wants these.
        config.bridge = None;
    }
    if let Some(bridge) = &mut config.bridge {
        bridge.may_ask = true;
    }
    let recording = record.map(|path| {
        let words = || command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let server: Vec<String> = url.map_or_else(words, |url| vec![url]);
        RecordTarget::of(path).open(&server, &std::process::id().to_string())
    });
    let recording = recording.transpose()?;
    let client = LinkClient::Descriptors { input, output };
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new("rescind run", error, "check the limits on processes and open files (ulimit -a)")
    };
    let Some(remote) = remote else {
        #[cfg(windows)]
        let program = command.first().cloned().unwrap_or_default();
        let link = link.link(client, link::command(command)?, config, finish.0, recording)?;
        let link = Link { entry, welcome: welcome.flatten(), ..link };
        return relay::run(link).map_err(|error| {
            #[cfg(windows)]
            if let relay::LinkError::Start(error) = &error
                && let Some((failure, code)) = unstarted::of_error(&program, error)
            {
                return Unrun { failure, code };
            }
            failed(&error).into()
        });
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(2).build();
    runtime.map_err(|error| failed(&error))?.block_on(async {
        let link = link.link(client, remote.open(Credentials::default())?, config, finish.0, recording)?;
        let link = Link { entry, ..link };
        relay::drive(link).await.map_err(|error| failed(&error).into())
    })
}

/// Refuses the command of a shared server, which nobody starts whose client hears of it, with the exit code of one that was
/// tried.
#[cfg(unix)]
fn check_shared(command: &[OsString]) -> Result<(), Unrun> {
    let Some(program) = command.first() else { return Ok(()) };
    rescind::launch::check(program)
        .map_err(|error| Unrun { failure: of_exec(program, &error), code: error.exit_code() })
}

/// How errors name the flags that they come from.
const SETTING_NAMES: SettingNames = SettingNames {
    response_timeout: "set by rescind run --timeout",
    total_timeout: "set by rescind run --total-timeout",
    max_message: "see rescind run --max-message",
    max_in_flight: "see rescind run --max-in-flight",
};

/// Refuses flags that exclude each other, before anything is opened.
fn check(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { protocol: client, server_protocol, record, link, shared, .. } = arguments;
    let is_not_mcp = client.is_not_mcp() || server_protocol.is_some_and(Protocol::is_not_mcp);
    shared.check(link, arguments.restart, is_not_mcp)?;
    if let Some(server) = server_protocol.filter(|server| client.excludes(*server)) {
        let cause = format_args!(
            "cannot be combined with --protocol {client}: rescind does not translate between LSP and other protocols"
        );
        let hint = "leave out --server-protocol, or name a revision of the same protocol";
        return Err(Failure::new(format_args!("--server-protocol {server}"), cause, hint));
    }
    if arguments.url.is_none() && arguments.headers.is_given() {
        return Err(Failure::new("--header, --header-env", "are for a server at a URL", "give --url URL"));
    }
    let is_unknown = |protocol: Protocol| protocol.dialect().is_some_and(|dialect| dialect.opaque);
    if !link.limits.is_empty() && (is_unknown(*client) || server_protocol.is_some_and(is_unknown)) {
        let hint = "leave out the limits, or name the protocol";
        return Err(Failure::new("--limit", "nothing is refused in a protocol that is unknown", hint));
    }
    if arguments.restart && is_not_mcp {
        let hint = "leave out --restart: what such a server knows of its client, no other one does";
        return Err(Failure::new("--restart", "is for servers of MCP", hint));
    }
    if arguments.greet_from_cache && (client.is_not_mcp() || server_protocol.is_some_and(Protocol::is_not_mcp)) {
        let hint = "leave out --greet-from-cache: only MCP has lists that clients read when they arrive";
        return Err(Failure::new("--greet-from-cache", "is for servers of MCP", hint));
    }
    if link.bridge && (client.dialect().is_some() || server_protocol.is_some_and(|server| server.dialect().is_some())) {
        let hint = "leave out --protocol and --server-protocol: which revision each side speaks is found out";
        return Err(Failure::new("--bridge", "is for sides whose revisions are not named", hint));
    }
    link.check(record.as_deref())
}

/// Moves stdin and stdout out of this process's standard streams, so that the client sees the end when the link closes
/// them.
#[cfg(unix)]
fn detach_streams() -> io::Result<(Descriptor, Descriptor)> {
    use std::{fs::OpenOptions, os::fd::AsFd};
    let taken = (io::stdin().as_fd().try_clone_to_owned()?, io::stdout().as_fd().try_clone_to_owned()?);
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok(taken)
}

/// Copies of the standard handles. The originals stay open to the end of this process, so a client sees the end of a server
/// when this process ends.
#[cfg(windows)]
fn detach_streams() -> io::Result<(Descriptor, Descriptor)> {
    use std::os::windows::io::AsHandle;
    Ok((io::stdin().as_handle().try_clone_to_owned()?, io::stdout().as_handle().try_clone_to_owned()?))
}
