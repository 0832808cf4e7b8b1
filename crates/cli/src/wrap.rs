//! `rescind wrap` and `rescind unwrap`: put the shim before servers in the configuration files of clients, and take it out.

mod change;
mod file_size;
pub(crate) mod files;
pub(crate) mod program;
mod server;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use rescind_wrap::{client::CLIENTS, entry::Launch, journal::Journal};

use crate::{
    completion::Completion,
    failure::Failure,
    fleet::report,
    folders,
    link::LimitArguments,
    question,
    screen::{Screen, Tone, clean, fitted},
};
use change::{Direction, Urls};
use files::{Found, Managed};
use server::Server;

/// Put `rescind run` before the servers in the configuration files of your clients.
///
/// Shows what it would change, and asks. Servers that have a shim already are left alone, except that a shim which does not
/// know the name of its entry and its client is told both; servers at a URL are left alone unless --urls is given. The rest of a file stays as it is: comments, order, indentation. `rescind unwrap` undoes it.
///
/// Files of a project that other people may share (.mcp.json, .vscode/mcp.json, .cursor/mcp.json and the like) are left
/// alone unless --file names them. Then they get the word `rescind` instead of a path of this machine.
///
/// The limits, and words after `--`, are flags of `rescind run` for every server that is wrapped:
/// rescind wrap --all --limit tools/call=30/1m -- --timeout 5m
///
/// Exit code: 0 if all that was selected is done; 1 if a file could not be read or changed, or you declined; 2 if nothing
/// was tried.
#[derive(Debug, Args)]
pub(crate) struct WrapArguments {
    #[command(flatten)]
    choice: Choice,

    /// Also servers at a URL: their clients start `rescind run --url` instead, and headers become variables of `env`.
    /// Left alone are those that may need a sign-in, since their client does that itself
    #[arg(long)]
    urls: bool,

    /// With --urls: also servers that may need a sign-in, because nothing in their entry is a credential
    #[arg(long, requires = "urls")]
    force: bool,

    #[command(flatten)]
    limits: LimitArguments,

    /// Flags of `rescind run` for the servers that are wrapped
    #[arg(last = true, value_name = "RUN FLAGS")]
    run_flags: Vec<String>,
}

/// Take `rescind run` out of the configuration files of your clients again.
///
/// Shows what it would change, and asks. Afterwards a file has the same bytes as before `rescind wrap`. If it was changed in
/// the meantime, only the words of `rescind wrap` are taken out.
///
/// Exit code: 0 if all that was selected is done; 1 if a file could not be read or changed, or you declined; 2 if nothing
/// was tried.
#[derive(Debug, Args)]
pub(crate) struct UnwrapArguments {
    #[command(flatten)]
    choice: Choice,
}

/// The servers to change.
#[derive(Debug, Args)]
struct Choice {
    /// Only servers of this client; may be given several times. `rescind wrap --list` names them
    #[arg(long, value_name = "CLIENT", value_parser = client)]
    client: Vec<String>,

    /// Only servers of this name; may be given several times
    #[arg(long, value_name = "NAME")]
    server: Vec<String>,

    /// Every server of every client
    #[arg(long, conflicts_with_all = ["client", "file"])]
    all: bool,

    /// This file, and no client's; may be given several times
    #[arg(long, value_name = "PATH", conflicts_with = "client")]
    file: Vec<PathBuf>,

    /// List clients, their files and their servers, and change nothing
    #[arg(long, conflicts_with_all = ["dry_run", "yes"])]
    list: bool,

    /// Show what would be changed, and change nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,

    /// Change files without asking
    #[arg(long, short)]
    yes: bool,
}

fn client(text: &str) -> Result<String, String> {
    match rescind_wrap::client::client(text) {
        Some(client) => Ok(client.id.into()),
        None => Err(format!("is none of {}", CLIENTS.iter().map(|one| one.id).collect::<Vec<_>>().join(", "))),
    }
}

pub(crate) fn wrap(arguments: &WrapArguments) -> Result<Completion, Failure> {
    file_size::survive_limit()?;
    arguments.limits.check()?;
    let run_flags = [arguments.limits.words(), arguments.run_flags.clone()].concat();
    check_flags(&run_flags)?;
    let urls = match (arguments.urls, arguments.force) {
        (false, _) => Urls::Leave,
        (true, false) => Urls::Wrap,
        (true, true) => Urls::Force,
    };
    let program = program::path()?;
    run(&arguments.choice, &Direction::Wrap { program, run_flags, urls })
}

pub(crate) fn unwrap(arguments: &UnwrapArguments) -> Result<Completion, Failure> {
    file_size::survive_limit()?;
    run(&arguments.choice, &Direction::Unwrap)
}

/// Refuses flags that `rescind run` does not have. Later, only the client would see its error message.
fn check_flags(flags: &[String]) -> Result<(), Failure> {
    let words = [&["run".to_owned()], flags, &["server".to_owned()]].concat();
    if crate::run::own_words(&words) == Some(1 + flags.len()) {
        return Ok(());
    }
    let hint = "`rescind run --help` lists its flags";
    Err(Failure::new(flags.join(" "), "these are not the flags of `rescind run`", hint))
}

fn run(choice: &Choice, direction: &Direction) -> Result<Completion, Failure> {
    let Choice { client, server, all, file, yes, .. } = choice;
    if *yes && !all && client.is_empty() && server.is_empty() && file.is_empty() {
        let cause = "would change every server of every client without a question";
        return Err(Failure::new("--yes", cause, "add --all if that is meant, or --client, --server or --file"));
    }
    let mut targets = files::targets(&choice.client, &choice.file)?;
    if choice.list && file.is_empty() {
        let is_meant = |id: &str| client.is_empty() || client.iter().any(|one| one == id);
        targets.extend(files::projects().into_iter().filter(|target| target.client.is_none_or(|of| is_meant(of.id))));
    }
    let managed = Managed::read();
    let mut completion = Completion::Whole;
    let mut found = Vec::new();
    for target in targets {
        match Found::read(target, &managed) {
            Ok(one) => found.push(one),
            Err(failure) => {
                failure.report();
                completion = Completion::Partial;
            }
        }
    }
    let renames = |server: &Server| server.is_misnamed && matches!(direction, Direction::Wrap { .. });
    let is_meant = |name: &str| choice.server.is_empty() || choice.server.iter().any(|one| one == name);
    let mut lines = Vec::new();
    let mut meant: Vec<(usize, Vec<Vec<String>>)> = Vec::new();
    for (place, one) in found.iter().enumerate() {
        let servers = one.servers.iter().filter(|server| is_meant(server.entry.name()));
        let mut servers = servers.filter(|server| choice.list || direction.mentions(server.verdict)).peekable();
        if servers.peek().is_some() || choice.list {
            lines.push((heading(one), Tone::Plain));
            if choice.list && choice.file.is_empty() && one.target.is_shared {
                lines.push((format!("  {}", files::SHARED), Tone::Faint));
            }
        }
        let mut of_this = Vec::new();
        for server in servers {
            let Server { entry, verdict, .. } = server;
            let changes = direction.is_for(server);
            if changes {
                of_this.push(entry.path.clone());
            }
            let tone = if changes || choice.list { Tone::Plain } else { Tone::Faint };
            let name = clean(entry.name());
            lines.push((
                match (choice.list, changes) {
                    (true, _) => format!("  {name:<20} {verdict}"),
                    (false, true) if renames(server) => format!("  {:<7} {name:<20} {RENAMED}", "name"),
                    (false, true) => format!("  {:<7} {name:<20} {}", direction.verb(), words(&entry.launch)),
                    (false, false) => format!("  {:<7} {name:<20} {}", "leave", direction.why_not(server)),
                },
                tone,
            ));
        }
        if !of_this.is_empty() {
            meant.push((place, of_this));
        }
    }
    let screen = Screen::now();
    let mut stdout = io::stdout().lock();
    for (line, tone) in lines {
        let line = screen.size.map_or_else(|| line.clone(), |(columns, _)| fitted(&line, columns));
        let _ = writeln!(stdout, "{}", screen.painted(&line, tone));
    }
    if choice.list {
        list_others(&mut stdout, &found);
        return Ok(completion);
    }
    drop(stdout);
    missing(choice, &found)?;
    if choice.file.is_empty() {
        files::report_projects();
    }
    let count = meant.iter().map(|(_, servers)| servers.len()).sum::<usize>();
    if count == 0 {
        report(&format!("nothing to {}", direction.verb()));
        if !choice.dry_run {
            forget_missing(choice, direction)?;
        }
        return Ok(completion);
    }
    direction.check_recording(&found, &meant)?;
    direction.warn_of_temporary();
    if choice.dry_run {
        return Ok(completion);
    }
    let to_rename = |(place, paths): &(usize, Vec<Vec<String>>)| {
        found[*place].servers.iter().filter(|one| renames(one) && paths.contains(&one.entry.path)).count()
    };
    let to_rename = meant.iter().map(to_rename).sum();
    if !choice.yes && !agreed(count - to_rename, to_rename, meant.len(), direction)? {
        report("nothing was changed");
        return Ok(Completion::Partial);
    }
    forget_missing(choice, direction)?;
    let mut journal = open_journal()?;
    let (mut servers, mut renamed, mut files) = (0, 0, 0);
    for (place, paths) in meant {
        let one = &found[place];
        match change::change(one, &paths, direction, &managed, &mut journal) {
            Ok(done) => {
                servers += done.servers;
                renamed += done.renamed;
                files += usize::from(done.servers + done.renamed > 0);
                for failure in done.left {
                    failure.report();
                    completion = Completion::Partial;
                }
            }
            Err(failure) => {
                failure.report();
                completion = Completion::Partial;
            }
        }
    }
    let named = format!("named {}", counted(renamed, "shim", "shims"));
    let changed = match (servers, renamed) {
        (0, 1..) => named,
        (_, 0) => format!("{} {}", direction.past(), counted(servers, "server", "servers")),
        (_, _) => format!("{} {}, {named}", direction.past(), counted(servers, "server", "servers")),
    };
    report(&format!("{changed} in {}", counted(files, "file", "files")));
    if servers + renamed > 0 {
        report(
            "note: a client that is running goes on as before until it is restarted, or until it starts the server again",
        );
    }
    Ok(completion)
}

fn open_journal() -> Result<Journal, Failure> {
    let folder = folders::state()?;
    Journal::open(&folder).map_err(|error| Failure::new(folder.display(), error, "check who owns this folder"))
}

/// `unwrap --all` forgets files that are gone, since nothing is left of them to unwrap.
fn forget_missing(choice: &Choice, direction: &Direction) -> Result<(), Failure> {
    let folder = folders::state()?;
    if !choice.all || !matches!(direction, Direction::Unwrap) || !rescind_wrap::journal::path(&folder).exists() {
        return Ok(());
    }
    open_journal()?
        .forget_missing()
        .map_err(|error| Failure::new(folder.display(), error, "check who owns this folder"))
}

fn heading(found: &Found) -> String {
    let path = shown(&found.target.path);
    match found.target.client {
        Some(client) => format!("{}  {path}", client.name),
        None => path,
    }
}

/// What is said of a server whose shim does not know its names.
const RENAMED: &str = "has a shim, which is told its name and its client";

/// The command of a server, or its URL, on one line.
fn words(launch: &Launch) -> String {
    match launch {
        Launch::Command(command) => clean(&command.words.join(" ")),
        Launch::Url(remote) => clean(&remote.url),
        Launch::Elsewhere | Launch::Unclear(_) => String::new(),
    }
}

fn list_others(stdout: &mut impl Write, found: &[Found]) {
    let without = CLIENTS.iter().filter(|client| {
        !found
            .iter()
            .filter(|one| !one.target.is_shared)
            .any(|one| one.target.client.is_some_and(|of| of.id == client.id))
    });
    let names: Vec<&str> = without.map(|client| client.id).collect();
    if !names.is_empty() {
        let _ = writeln!(stdout, "no file of: {}", names.join(", "));
    }
}

/// Complains of names that no file has.
fn missing(choice: &Choice, found: &[Found]) -> Result<(), Failure> {
    let has = |name: &str| found.iter().flat_map(|one| &one.servers).any(|one| one.entry.name() == name);
    match choice.server.iter().find(|name| !has(name)) {
        None => Ok(()),
        Some(name) => {
            let cause = "no file that was looked into has a server of this name";
            Err(Failure::new(clean(name), cause, "`rescind wrap --list` shows all"))
        }
    }
}

fn agreed(servers: usize, renamed: usize, files: usize, direction: &Direction) -> Result<bool, Failure> {
    let (of, files) = (counted(servers, "server", "servers"), counted(files, "file", "files"));
    let shims = counted(renamed, "shim", "shims");
    let (verb, hint) = (direction.verb(), "use --yes, or --dry-run to look only");
    let (cause, question) = match (servers, renamed) {
        (_, 0) => (format!("{verb} {of} in {files}"), format!("{} {of} in {files}?", direction.question())),
        (0, _) => {
            (format!("name {shims} in {files}"), format!("Tell {shims} in {files} what their entries are called?"))
        }
        (_, _) => {
            let question = format!("{} {of}, and tell {shims} their names, in {files}?", direction.question());
            (format!("{verb} {of} and name {shims} in {files}"), question)
        }
    };
    question::require_terminal(&format!("rescind {verb}"), format_args!("{cause}"), hint)?;
    question::ask(&question)
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A path as it may be printed.
pub(crate) fn shown(path: &Path) -> String {
    clean(&path.display().to_string())
}
