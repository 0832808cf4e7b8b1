//! `rescind serve --listen ADDRESS [flags] COMMAND…`: MCP over HTTP in front of a server on stdio.

mod access;
mod watched_file;

use std::{ffi::OsString, fs, net::SocketAddr, panic::resume_unwind, path::PathBuf, pin::Pin, rc::Rc, time::Duration};

use clap::Args;
use rescind::relay::{self, EntryName, LinkClient};
use rescind_http::{
    server::{Access, Hosts, HttpServerConfig, Sessions, Stateless},
    shell::{Endpoint, Listener, ListenerConfig, ListeningSocket, OpenedLink, Pool},
};
use rescind_proto::relay::SettingNames;
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
    task::{JoinSet, LocalSet},
};

use self::access::{AccessArguments, Granted};
#[cfg(unix)]
use crate::shared::holder::HeldArguments;
use crate::{
    completion::Completion,
    descriptors, duration,
    failure::Failure,
    interrupts::Interrupts,
    link::{self, HeaderArguments, LinkArguments, Remote},
    screen::clean,
    stderr::{self, say},
};

/// Serve an MCP server on stdio over HTTP, with correct cancellation.
///
/// Clients reach the server at http://ADDRESS/mcp (Streamable HTTP). A client of a revision up to 2025-11-25 has a session
/// and a server process of its own: closing a connection cancels nothing, its cancels do, and a client that comes back
/// finds its answers. Clients of 2026-07-28 share one server process: closing the stream of a request cancels that request,
/// and no other. Whether the server speaks 2026-07-28 it is asked once, when the service starts; with --bridge it need not.
/// With --shared all clients, of either era, have one server process, and with --pool a few.
///
/// Each server process is a session of `rescind ps`, and its requests can be cancelled with `rescind cancel`.
/// What it writes to stderr is passed on to that of the service, byte for byte and in whole lines. On loopback, without a
/// flag that says that others are its clients (--token-file, --owners, --issuer, --host, --behind-proxy), errors about its
/// end have the last lines of that; otherwise they have only its exit code or signal.
///
/// The first SIGTERM or SIGINT ends the service in order: no connection and no session is accepted, and what is in flight
/// has the time of --drain. A second one ends it at once. Either way every server process is ended.
///
/// Requests that are then still in flight are answered with an error. A SIGHUP is such a signal, too, unless it was ignored when
/// the service started, as under nohup.
///
/// Exit code: 0 after a signal; 2 if the service could not begin, for example since there is no such COMMAND.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Where to listen, such as 127.0.0.1:8000; port 0 is any free port. The URL is printed to stderr
    #[arg(long, value_name = "ADDRESS", value_parser = crate::number::address)]
    #[cfg_attr(unix, arg(required_unless_present = "held"))]
    #[cfg_attr(windows, arg(required = true))]
    listen: Option<SocketAddr>,

    #[cfg(unix)]
    #[command(flatten)]
    held: HeldArguments,

    /// The path of the endpoint
    #[arg(long, value_name = "PATH", default_value = "/mcp", value_parser = path)]
    path: String,

    #[command(flatten)]
    access: AccessArguments,

    /// A name under which clients reach the service, as in the header Host. By default on loopback: localhost, 127.0.0.1
    /// and [::1]; elsewhere any. May be repeated
    #[arg(long, value_name = "NAME")]
    host: Vec<Box<str>>,

    /// Clients come through a proxy on another machine: do not tell them apart by address, since all have the proxy's.
    /// Otherwise all together have what one client may have, half of the connections for instance
    #[arg(long)]
    behind_proxy: bool,

    /// An origin whose pages may use the service, such as https://example.com, beside those of this machine. May be
    /// repeated
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<Box<str>>,

    /// How long a session lives on without a request in flight and without an open stream
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::parse, allow_hyphen_values = true)]
    idle: Duration,

    /// How long a client may be away from its session and come back: with no stream open, and without a word. Then what it
    /// has in flight is cancelled, and its session is over. So long the end of a stream can be fetched, too
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse, allow_hyphen_values = true)]
    resume_within: Duration,

    /// The longest silence on an open stream; then a comment is sent, by which the hang-up of a client that vanished is
    /// noticed. Where no answer comes any more, not even that the comment was not taken, that is after three times as long; so
    /// long at most a request goes on uncancelled (2026-07-28). The server at --upstream is asked after the same silence
    /// whether it is still there
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration::parse, allow_hyphen_values = true)]
    keep_alive: Duration,

    /// How long requests in flight may go on after the first SIGTERM or SIGINT
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse, allow_hyphen_values = true)]
    drain: Duration,

    /// The most sessions at once. For one more, an idle one makes room, whose client has said nothing for 10 s (or for
    /// --resume-within, if that is shorter); if there is none, it is refused
    #[arg(long, value_name = "N", default_value = "1024", value_parser = crate::number::count, allow_hyphen_values = true)]
    max_sessions: usize,

    /// Serve all clients, of both eras, with one server process, for a server that bears several clients at once and is slow
    /// to start or large. Clients cannot touch each other's requests. The server can ask no client anything (sampling,
    /// elicitation, roots), and what it says to nobody in particular, such as log messages, reaches all sessions. It is
    /// ended when nobody has used it for the time of --idle
    #[arg(long)]
    shared: bool,

    /// As --shared, with N server processes: a client that begins a session gets the one with the fewest, and keeps it; a
    /// request without a session goes where the fewest are in flight
    #[arg(long, value_name = "N", value_parser = crate::number::count, conflicts_with = "shared", allow_hyphen_values = true)]
    pool: Option<usize>,

    /// Record each server process to a new file of its own in FOLDER, which is created if missing: every message and
    /// decision as JSON lines (mode 0600, since messages can hold secrets). Files are named by time, server and session
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,

    #[command(flatten)]
    link: LinkArguments,

    /// Stand in front of an MCP server that is reached over HTTP at URL, in place of a COMMAND. Each session has a session
    /// of its own there, or with --shared all have one, with --pool N. What clients send as Authorization is passed on, and
    /// what the server says about that comes back, so that they can sign in there; not with --shared, --pool, --token-file,
    /// --owners or --issuer, nor if --header or --header-env gives an Authorization
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    upstream: Option<String>,

    #[command(flatten)]
    headers: HeaderArguments,

    /// The server's command and its arguments
    #[arg(trailing_var_arg = true, required_unless_present = "upstream", value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Arguments {
    /// Whether sessions share a server process.
    const fn is_shared(&self) -> bool {
        self.shared || self.pool.is_some() || self.is_held()
    }

    /// Whether it is the process of a server that `rescind run --shared` has started.
    #[cfg(unix)]
    const fn is_held(&self) -> bool {
        self.held.held.is_some()
    }

    #[cfg(windows)]
    #[expect(clippy::unused_self, reason = "the same on each platform")]
    const fn is_held(&self) -> bool {
        false
    }

    /// Whether it listens where only this machine reaches it.
    fn is_on_loopback(&self) -> bool {
        self.listen.is_none_or(|address| address.ip().is_loopback())
    }

    /// What its sessions are called.
    #[cfg(unix)]
    fn entry(&self) -> EntryName {
        EntryName::new(self.held.held_name.clone(), None).sharing(self.held.held_name.clone())
    }

    #[cfg(windows)]
    #[expect(clippy::unused_self, reason = "the same on each platform")]
    fn entry(&self) -> EntryName {
        EntryName::default()
    }

    /// Whether its clients are taken to be this machine's own: nothing says that others are meant.
    fn is_of_this_machine(&self) -> bool {
        self.is_on_loopback() && self.host.is_empty() && !self.behind_proxy && self.access.is_open()
    }
}

/// How errors name the flags that they come from.
const SETTING_NAMES: SettingNames = SettingNames {
    response_timeout: "set by rescind serve --timeout",
    total_timeout: "set by rescind serve --total-timeout",
    max_message: "see rescind serve --max-message",
    max_in_flight: "see rescind serve --max-in-flight",
};

/// The names of this machine, for itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The silence on a stream that needs no sign of life.
const QUIET: Duration = Duration::from_secs(60 * 60);

/// Longer than any session.
const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Time for clients to read what they are owed when the service ends.
const LAST_BYTES: Duration = Duration::from_secs(1);

pub(crate) fn main(arguments: Arguments) -> Result<Completion, Failure> {
    #[cfg(unix)]
    if arguments.held.detach()? {
        return Ok(Completion::Whole);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    let served = runtime
        .map_err(|error| Failure::new("rescind serve", error, "check the limit on open files (ulimit -n)"))
        // A task of its own: what is given to `block_on` is polled whenever any task is.
        .and_then(|runtime| {
            LocalSet::new().block_on(&runtime, async {
                tokio::task::spawn_local(serve(arguments))
                    .await
                    .unwrap_or_else(|failed| resume_unwind(failed.into_panic()))
            })
        });
    stderr::finish();
    served.map(|()| Completion::Whole)
}

async fn serve(arguments: Arguments) -> Result<(), Failure> {
    let arguments = Rc::new(arguments);
    let Arguments { path, record, link, drain, upstream, headers, .. } = &*arguments;
    link.check(None)?;
    if upstream.is_none() && headers.is_given() {
        return Err(Failure::new("--header, --header-env", "are for a server at a URL", "give --upstream URL"));
    }
    // Where the system says so only when it is started, the first server is named then.
    #[cfg(unix)]
    if let Some(program) = arguments.command.first() {
        crate::run::check_command(program)?;
    }
    let defaults = ListenerConfig::default();
    let mut max_connections = descriptors::raise().min(defaults.max_connections);
    let mut server = |url: &String| {
        // Of its clients' connections each needs one there. All sessions share the bound.
        let (connections, most) = descriptors::to_servers(max_connections / 2);
        max_connections = (max_connections - most).max(1);
        headers.server("--upstream", url, arguments.keep_alive, connections)
    };
    let upstream = upstream.as_ref().map(&mut server).transpose()?.map(Remote::noting_status);
    if let Some(folder) = record {
        fs::create_dir_all(folder).map_err(|error| Failure::new(folder.display(), error, "name another folder"))?;
    }
    // With tokens of ours, the header is for us; and people who share a session there cannot be told apart.
    let takes_credentials = arguments.access.is_open() && !arguments.is_shared();
    let signs_in = upstream.as_ref().filter(|upstream| takes_credentials && upstream.takes_credentials());
    let discovery = signs_in.map(|upstream| upstream.discovery(path)).transpose()?;
    let tokens = arguments.access.watched();
    let Granted { access, keys, warning } = arguments.access.grant()?;
    let config = endpoint_config(&arguments, access, discovery.is_some());
    let is_open = arguments.access.is_open() && !arguments.is_on_loopback();
    let mut interrupts = Interrupts::listen("rescind serve")?;
    let Listening { socket, address, mut left } = Listening::open(&arguments).await?;
    let pool = Pool::new(arguments.pool.unwrap_or(1), &config);
    let (end, ended) = oneshot::channel::<()>();
    // A session that shares the server shows by a connection that it is there, and says nothing on it.
    let head_patience = if arguments.is_held() { NEVER } else { defaults.head_patience };
    let config = ListenerConfig { probe_after: arguments.keep_alive, max_connections, head_patience, ..defaults };
    let listener = Listener::new(socket, pool.clone(), config);
    let mut connections = tokio::task::spawn_local(listener.serve(async { drop(ended.await) }));
    if let Some(address) = address {
        say(&format!("listening on http://{address}{path}"));
    }
    if is_open {
        say("warning: everyone who can reach this address can use the server\nhint: give --token-file, --owners or \
             --issuer, or listen on 127.0.0.1");
    }
    warning.iter().for_each(|warning| say(warning));

    // What is at a URL has started, and may not be reachable yet.
    if upstream.is_none() {
        pool.members().iter().for_each(Endpoint::prepare);
    }
    let mut helpers = JoinSet::new();
    if let (Some(discovery), [endpoint]) = (discovery, pool.members()) {
        let endpoint = endpoint.clone();
        helpers.spawn_local(async move { match discovery.serve(endpoint).await {} });
    }
    if let Some(keys) = keys {
        let pool = pool.clone();
        helpers.spawn_local(async move { match access::fetch_keys(keys, pool).await {} });
    }
    if let Some(file) = tokens {
        let following = access::follow(arguments.access.clone(), file, pool.clone());
        helpers.spawn_local(async move { match following.await {} });
    }
    let (news, mut heard) = mpsc::channel(1);
    for endpoint in pool.members() {
        helpers.spawn_local(attend(endpoint.clone(), news.clone()));
    }
    let mut links = JoinSet::new();
    let mut opened = 0_u64;
    loop {
        tokio::select! {
            Some(news) = heard.recv() => match news {
                News::Opened(link) => {
                    opened += 1;
                    links.spawn_local(run_link(Rc::clone(&arguments), upstream.clone(), link, opened));
                }
                News::Dropped(method) => report_dropped(&method),
            },
            Some(_) = links.join_next() => {}
            () = interrupts.recv() => break,
            () = &mut left => break,
        }
    }
    pool.members().iter().for_each(Endpoint::drain);
    drop(end);
    let idle = async {
        for endpoint in pool.members() {
            endpoint.idle().await;
        }
    };
    tokio::select! {
        () = idle => {}
        () = interrupts.recv() => {}
        () = tokio::time::sleep(*drain) => {}
    }
    // Streams end, and the last answers are still written.
    pool.members().iter().for_each(Endpoint::close);
    let _ = tokio::time::timeout(LAST_BYTES, &mut connections).await;
    connections.abort();
    drop(helpers);
    while links.join_next().await.is_some() {}
    Ok(())
}

/// Where the clients of a service come in.
struct Listening {
    socket: ListeningSocket,
    /// Its address, which is told.
    address: Option<SocketAddr>,
    /// Ready once nobody can come any more.
    left: Pin<Box<dyn Future<Output = ()>>>,
}

impl Listening {
    async fn open(arguments: &Arguments) -> Result<Self, Failure> {
        #[cfg(unix)]
        if let Some((socket, all_left)) = arguments.held.open()? {
            let left = Box::pin(async move { drop(all_left.await) });
            return Ok(Self { socket: socket.into(), address: None, left });
        }
        let Some(listen) = arguments.listen else {
            return Err(Failure::new("--listen", "is missing", "write: --listen 127.0.0.1:8000"));
        };
        let socket = TcpListener::bind(listen).await.map_err(|error| {
            let hint = "choose another address or port; port 0 is any free one";
            Failure::new(format_args!("--listen {listen}"), error, hint)
        })?;
        let address = Some(socket.local_addr().unwrap_or(listen));
        Ok(Self { socket: socket.into(), address, left: Box::pin(std::future::pending()) })
    }
}

/// What an endpoint has for the service.
enum News {
    /// A link that is to be served.
    Opened(OpenedLink),
    /// A method of a message that reached nobody.
    Dropped(Box<str>),
}

/// Passes on what an endpoint has for the service.
async fn attend(endpoint: Endpoint, news: mpsc::Sender<News>) {
    loop {
        let heard = tokio::select! {
            link = endpoint.accept() => News::Opened(link),
            method = endpoint.dropped() => News::Dropped(method),
        };
        if news.send(heard).await.is_err() {
            return;
        }
    }
}

/// Says that a message reached nobody; of each method, the first one only.
fn report_dropped(method: &str) {
    if method.is_empty() {
        return say("warning: a message from the server that belongs to no request was dropped (reported once)");
    }
    say(&format!(
        "warning: {} from the server was dropped (reported once)\nhint: clients share the server process, and the \
         message names none of them",
        clean(method)
    ));
}

/// Relays between a link and its server until one of the two has ended.
async fn run_link(arguments: Rc<Arguments>, upstream: Option<Remote>, opened: OpenedLink, number: u64) {
    let Arguments { record, link, command, .. } = &*arguments;
    let recording = record.as_ref().map(|folder| {
        let words = || command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let server: Vec<String> = arguments.upstream.clone().map_or_else(words, |url| vec![url]);
        link::open_recording_in(folder, &server, &format!("{}-{number}", std::process::id()))
    });
    let done = async {
        let mut config = link.config(SETTING_NAMES);
        if let Some(bridge) = &mut config.bridge {
            bridge.is_shared = opened.session.is_none();
            // A session is of one client, and an owner's link of one person.
            bridge.may_ask = opened.session.is_some() || opened.owner.is_some();
            // All share what clients of either era can do with it.
            bridge.serves_modern |= arguments.is_shared();
        }
        let client = LinkClient::Messages(Box::new(opened.link));
        let server = match upstream {
            Some(remote) => remote.open(opened.credentials)?,
            None => link::command(command.clone())?,
        };
        let mut link = link.link(client, server, config, None, recording.transpose()?)?;
        link.stderr_in_errors = arguments.is_of_this_machine();
        link.entry = arguments.entry();
        let hint = "check the limits on processes and open files (ulimit -a)";
        relay::drive(link).await.map_err(|error| Failure::new("rescind serve", error, hint))
    };
    if let Err(failure) = done.await {
        say(failure.to_string().trim_end());
    }
}

/// The time for an answer to come as a whole, where the server behind has statuses of its own: one cannot be passed on later.
const STATUS_WITHIN: Duration = Duration::from_secs(1);

fn endpoint_config(arguments: &Arguments, access: Access, passes_authorization: bool) -> HttpServerConfig {
    let (shared, link) = (arguments.is_shared(), &arguments.link);
    let loopback = || LOOPBACK.map(Into::into).to_vec();
    let hosts = match (arguments.is_on_loopback(), &*arguments.host) {
        (true, more) => Hosts::Named([loopback(), more.to_vec()].concat()),
        (false, []) => Hosts::Any,
        (false, named) => Hosts::Named(named.to_vec()),
    };
    let defaults = HttpServerConfig::default();
    HttpServerConfig {
        path: Some((*arguments.path).into()),
        passes_authorization,
        passes_callers: false,
        stream_after: if arguments.upstream.is_some() { STATUS_WITHIN } else { defaults.stream_after },
        hosts,
        origins: arguments.allow_origin.clone(),
        parts_addresses: !arguments.behind_proxy,
        access,
        stateless: match (shared, link.bridge) {
            (true, _) => Stateless::Joined,
            (false, true) => Stateless::Served,
            (false, false) => defaults.stateless,
        },
        sessions: if shared { Sessions::SharedLink } else { Sessions::OwnLink },
        idle: arguments.idle,
        resume_within: arguments.resume_within,
        // A Unix socket shows by itself that a client has hung up.
        keep_alive: if arguments.is_held() { QUIET } else { arguments.keep_alive },
        max_sessions: arguments.max_sessions,
        max_in_flight: link.max_in_flight,
        max_message: link.max_message,
        seed: link::seed(),
        ..defaults
    }
}

fn path(text: &str) -> Result<String, String> {
    let is_path = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte));
    if is_path { Ok(text.into()) } else { Err("must begin with / and have neither ? nor #".into()) }
}
