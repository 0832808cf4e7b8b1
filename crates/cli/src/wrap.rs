//! `rescind wrap` and `rescind unwrap`: put the shim before servers in the configuration files of clients, and take it out.

mod advice;
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
use rescind_wrap::{client::CLIENTS, entry::Launch, journal::Journal, name, words::unnamed};

use crate::{
    completion::Completion,
    failure::Failure,
    fleet::report,
    folders,
    link::LimitArguments,
    question,
    run::check_flags,
    screen::{Screen, Tone, clean, fitted},
};
use advice::Advising;
use change::{Action, Direction, Urls};
use files::{Found, Managed};
use server::Server;

/// Put `rescind run` before the servers in the configuration files of your clients.
///
/// Shows what it would change, and asks. Servers that have a shim already keep it as it is unless flags are given, and
/// servers at a URL are left alone unless --urls is given. The rest of a file stays as it is: comments, order,
/// indentation. `rescind unwrap` undoes it.
///
/// Files of a project that other people may share (.mcp.json, .vscode/mcp.json, .cursor/mcp.json and the like) are left
/// alone unless --file names them. Then they get the word `rescind` instead of a path of this machine.
///
/// The limits, and words after `--`, are flags of `rescind run` for every server that is selected:
/// rescind wrap --all --limit tools/call=30/1m -- --timeout 5m
///
/// A server that has a shim gets them in place of those that it has; --no-flags takes all of them off.
///
/// Some clients give up a call after a time and do not tell its server, which works on. For each such client a timeout is
/// proposed, unless the flags have one: with a question, or in one line with --yes and --dry-run, which take nothing.
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

    /// Take the flags of `rescind run` off the servers that have a shim
    #[arg(long, conflicts_with_all = ["run_flags", "limit", "limit_repeats", "limit_errors", "take_advice"])]
    no_flags: bool,

    /// Set the timeouts that are proposed, without a question, also for servers that have a shim without a timeout
    #[arg(long, conflicts_with = "no_advice")]
    take_advice: bool,

    /// Propose no timeouts
    #[arg(long)]
    no_advice: bool,

    #[command(flatten)]
    limits: LimitArguments,

    /// Flags of `rescind run` for the servers that are selected
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
    /// Only servers of this client, by any way of writing its name; may be given several times. `rescind wrap --list` names
    /// all
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
    if let Some(client) = name::client(text) {
        return Ok(client.id.into());
    }
    match &*name::near_clients(text) {
        [] => Err(format!("is none of {}", CLIENTS.iter().map(|one| one.id).collect::<Vec<_>>().join(", "))),
        near => Err(format!("no client has this name; did you mean {}?", near.join(" or "))),
    }
}

pub(crate) fn wrap(arguments: &WrapArguments) -> Result<Completion, Failure> {
    file_size::survive_limit()?;
    arguments.limits.check()?;
    let run_flags = [arguments.limits.words(), arguments.run_flags.clone()].concat();
    check_flags(&run_flags)?;
    let asks = !(arguments.choice.yes || arguments.choice.dry_run || arguments.choice.list);
    let silent = arguments.no_advice || arguments.no_flags || arguments.choice.list;
    let advising = Advising::of(arguments.take_advice, silent, asks, &run_flags);
    let sets_flags = arguments.no_flags || !run_flags.is_empty();
    let advised = advising.taken();
    let urls = match (arguments.urls, arguments.force) {
        (false, _) => Urls::Leave,
        (true, false) => Urls::Wrap,
        (true, true) => Urls::Force,
    };
    let program = program::path()?;
    run(&arguments.choice, Direction::Wrap { program, run_flags, sets_flags, advising, advised, urls })
}

pub(crate) fn unwrap(arguments: &UnwrapArguments) -> Result<Completion, Failure> {
    file_size::survive_limit()?;
    run(&arguments.choice, Direction::Unwrap)
}

fn run(choice: &Choice, mut direction: Direction) -> Result<Completion, Failure> {
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
    let is_meant = |name: &str| choice.server.is_empty() || choice.server.iter().any(|one| one == name);
    let tells_of_file = |one: &Found| {
        matches!(direction, Direction::Wrap { .. }) && choice.server.is_empty() && !one.remarks.is_empty()
    };
    let mut lines = Vec::new();
    let mut meant: Vec<(usize, Vec<Vec<String>>)> = Vec::new();
    for (place, one) in found.iter().enumerate() {
        let servers = one.servers.iter().filter(|server| is_meant(server.entry.name()));
        let mut servers = servers.filter(|server| choice.list || direction.mentions(server.verdict)).peekable();
        if servers.peek().is_some() || choice.list || tells_of_file(one) {
            lines.push((heading(one), Tone::Plain));
            lines.extend(one.remarks.iter().map(|remark| (format!("  this file {remark}"), Tone::Notice)));
            lines.extend(one.blocked.iter().map(|why| (format!("  this file is left alone: {why}"), Tone::Notice)));
            if choice.list && choice.file.is_empty() && one.target.is_shared {
                lines.push((format!("  {}", files::SHARED), Tone::Faint));
            }
        }
        let mut of_this = Vec::new();
        for server in servers {
            let Server { entry, verdict, .. } = server;
            let action = direction.action(server);
            if action.is_some() {
                of_this.push(entry.path.clone());
            }
            let action = action.filter(|_| one.blocked.is_none());
            let tone = if action.is_some() || choice.list { Tone::Plain } else { Tone::Faint };
            let name = clean(entry.name());
            let (verb, words) = match (choice.list, &action) {
                (true, _) => {
                    lines.push((format!("  {name:<20} {verdict}{}", with_flags(server)), tone));
                    continue;
                }
                (false, Some(Action::Flags { flags, .. })) => ("change", flag_change(server, flags)),
                (false, Some(Action::Name(_))) => ("name", NAMED.to_owned()),
                (false, Some(Action::Wrap | Action::Unwrap)) => (direction.verb(), words(&entry.launch)),
                (false, None) => ("leave", direction.why_not(server)),
            };
            lines.push((format!("  {verb:<7} {name:<20} {words}"), tone));
        }
        match &one.blocked {
            _ if of_this.is_empty() || choice.list => {}
            Some(why) => {
                Failure::new(shown(&one.target.path), why, "it is left as it is").report();
                completion = Completion::Partial;
            }
            None => meant.push((place, of_this)),
        }
    }
    let screen = Screen::now();
    let mut stdout = io::stdout().lock();
    for (line, tone) in lines {
        let columns = screen.size.filter(|_| tone != Tone::Notice).map(|(columns, _)| columns);
        let line = columns.map_or_else(|| line.clone(), |columns| fitted(&line, columns));
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
    let chosen = meant
        .iter()
        .flat_map(|(place, paths)| found[*place].servers.iter().filter(|server| paths.contains(&server.entry.path)));
    let (mut servers, mut flags, mut named) = (Vec::new(), 0, 0);
    for server in chosen {
        match direction.action(server) {
            Some(Action::Wrap | Action::Unwrap) => servers.push(server),
            Some(Action::Flags { .. }) => flags += 1,
            Some(Action::Name(_)) => named += 1,
            None => {}
        }
    }
    if meant.is_empty() {
        report(&format!("nothing to {}", direction.verb()));
        if !choice.dry_run {
            forget_missing(choice, &direction)?;
        }
        return Ok(completion);
    }
    direction.check_recording()?;
    if !servers.is_empty() {
        direction.warn_of_temporary();
    }
    if !choice.yes && !choice.dry_run {
        require_terminal(servers.len() + flags + named, meant.len(), &direction)?;
    }
    direction.settle(&servers)?;
    if choice.dry_run {
        return Ok(completion);
    }
    if !choice.yes && !agreed([servers.len(), flags, named], meant.len(), &direction)? {
        report("nothing was changed");
        return Ok(Completion::Partial);
    }
    forget_missing(choice, &direction)?;
    let mut journal = open_journal()?;
    let (mut servers, mut files, mut flags, mut named, mut named_files) = (0, 0, 0, 0, 0);
    for (place, paths) in meant {
        let one = &found[place];
        match change::change(one, &paths, &direction, &managed, &mut journal) {
            Ok(done) => {
                servers += done.servers;
                files += usize::from(done.servers > 0);
                flags += done.flags;
                named += done.named;
                named_files += usize::from(done.named > 0);
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
    if flags > 0 {
        report(&format!("changed the flags of {}", counted(flags, "server", "servers")));
    }
    if named > 0 {
        let (shims, files) = (counted(named, "shim", "shims"), counted(named_files, "file", "files"));
        report(&format!("named {shims} in {files}"));
    }
    if flags + named == 0 || servers > 0 {
        let (servers, files) = (counted(servers, "server", "servers"), counted(files, "file", "files"));
        report(&format!("{} {servers} in {files}", direction.past()));
    }
    if servers + flags + named > 0 {
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
            let known = found.iter().flat_map(|one| &one.servers).map(|one| (one.entry.name(), one.entry.name()));
            let hint = match &*name::near(name, known) {
                [] => "`rescind wrap --list` shows all".to_owned(),
                near => format!("did you mean {}?", clean(&near.join(" or "))),
            };
            Err(Failure::new(clean(name), cause, hint))
        }
    }
}

fn require_terminal(servers: usize, files: usize, direction: &Direction) -> Result<(), Failure> {
    let what = format!("{} in {}", counted(servers, "server", "servers"), counted(files, "file", "files"));
    let (verb, hint) = (direction.verb(), "use --yes, or --dry-run to look only");
    question::require_terminal(&format!("rescind {verb}"), format_args!("{verb} {what}"), hint)
}

/// Asks whether so many shims may come or go, the flags of so many be changed, and so many be told their names.
fn agreed([servers, flags, named]: [usize; 3], files: usize, direction: &Direction) -> Result<bool, Failure> {
    let count = |count| counted(count, "server", "servers");
    let parts = [
        (servers, format!("{} {}", direction.question(), count(servers))),
        (flags, format!("Change the flags of {}", count(flags))),
        (named, format!("Tell {} what their entries are called", counted(named, "shim", "shims"))),
    ];
    let parts: Vec<String> = parts.into_iter().filter_map(|(count, part)| (count > 0).then_some(part)).collect();
    question::ask(&format!("{} in {}?", parts.join("; "), counted(files, "file", "files")))
}

/// What is said of a server whose shim does not know its names.
const NAMED: &str = "has a shim, which is told its name and its client";

/// The flags of a server's shim, for a list.
fn with_flags(server: &Server) -> String {
    match server.flags() {
        Some((_, flags)) if !unnamed(flags).is_empty() => {
            format!(": {}", clean(&unnamed(flags).join(" ")))
        }
        _ => String::new(),
    }
}

/// The flags of a server's shim, and those that it is to have.
fn flag_change(server: &Server, flags: &[String]) -> String {
    let words = |flags: &[String]| match unnamed(flags) {
        [] => "no flags".to_owned(),
        flags => clean(&flags.join(" ")),
    };
    format!("{} → {}", words(server.flags().map_or(&[], |(_, now)| now)), words(flags))
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A path as it may be printed.
pub(crate) fn shown(path: &Path) -> String {
    clean(&path.display().to_string())
}
