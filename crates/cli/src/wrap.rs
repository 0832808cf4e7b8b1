//! `rescind wrap` and `rescind unwrap`: put the shim before servers in the configuration files of clients, and take it out.

mod advice;
mod change;
mod file_size;
pub(crate) mod files;
mod heal;
pub(crate) mod program;
mod server;
pub(crate) mod uninstall;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use rescind_wrap::{client::CLIENTS, entry::Launch, journal::Journal, name, sharing, words::unnamed};

use crate::{
    completion::Completion,
    failure::Failure,
    fleet::report,
    folders,
    link::LimitArguments,
    own_copy::OwnCopy,
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
/// Shows what it would change, and asks. Servers that have a shim already keep it as it is unless flags are given, except
/// that each shim is told the names of its entry and its client. Servers at a URL are left alone unless --urls is given. The
/// rest of a file stays as it is: comments, order, indentation. `rescind unwrap` undoes it.
///
/// Files of a project that other people may share (.mcp.json, .vscode/mcp.json, .cursor/mcp.json and the like) are left
/// alone unless --file names them. Then they get the word `rescind` instead of a path of this machine.
///
/// Started from a cache, as `npx` and `uvx` do, it puts a copy of itself where it stays, and the files get the path of that
/// one; a newer one takes its place. A shim whose program has moved, or is in a cache, is repaired.
///
/// Before you uninstall rescind: `rescind uninstall`, or `rescind unwrap --all`. Otherwise your clients no longer find the
/// servers that are wrapped.
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

    /// Have the server of the entry NAME run once for all sessions of all clients that have it, instead of once for each:
    /// `rescind run --shared`. By any way of writing the name; may be given several times. Without --all only these entries
    /// are wrapped. What is shared stays so until `rescind unwrap` (docs/shared.md)
    #[arg(long, value_name = "NAME", conflicts_with = "no_flags")]
    shared: Vec<String>,

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
    if sharing::name(&run_flags).is_some() {
        let hint = "give it before `--`, with the name of an entry: rescind wrap --shared NAME";
        return Err(Failure::new(
            "--shared",
            "is of one server, and flags after `--` are for all that are selected",
            hint,
        ));
    }
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
    let copy = if arguments.choice.list { None } else { OwnCopy::needed(Path::new(&program))? };
    let program = match &copy {
        Some(copy) => program::text(&copy.path)?,
        None => program,
    };
    let shared = arguments.shared.clone();
    run(&arguments.choice, Direction::Wrap { program, copy, run_flags, sets_flags, advising, advised, urls, shared })
}

pub(crate) fn unwrap(arguments: &UnwrapArguments) -> Result<Completion, Failure> {
    file_size::survive_limit()?;
    run(&arguments.choice, Direction::Unwrap)
}

fn run(choice: &Choice, mut direction: Direction) -> Result<Completion, Failure> {
    let Choice { client, server, all, file, yes, .. } = choice;
    let shared = direction.shared().to_vec();
    if *yes && !all && client.is_empty() && server.is_empty() && file.is_empty() && shared.is_empty() {
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
    let selects = !choice.server.is_empty() || !shared.is_empty() && !all;
    let is_meant = |name: &str| {
        let is_shared = || shared.iter().any(|one| name::plain_text(one) == name::plain_text(name));
        !selects || choice.server.iter().any(|one| one == name) || is_shared()
    };
    let tells_of_file =
        |one: &Found| matches!(direction, Direction::Wrap { .. }) && !selects && !one.remarks.is_empty();
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
            let actions = direction.actions(server);
            if !actions.is_empty() {
                of_this.push(entry.path.clone());
            }
            let actions = if one.blocked.is_none() { actions } else { Vec::new() };
            let tone = if !actions.is_empty() || choice.list { Tone::Plain } else { Tone::Faint };
            let name = clean(entry.name());
            if choice.list {
                lines.push((format!("  {name:<20} {verdict}{}", with_flags(server)), tone));
                continue;
            }
            let is_left = actions.is_empty().then(|| ("leave", direction.why_not(server)));
            let changes = actions.into_iter().map(|action| match action {
                Action::Flags { flags, .. } => ("change", flag_change(server, &flags)),
                Action::Name(_) => ("name", NAMED.to_owned()),
                Action::Repair(why) => ("repair", why),
                Action::Wrap | Action::Unwrap => (direction.verb(), words(&entry.launch)),
            });
            for (verb, words) in changes.chain(is_left) {
                lines.push((format!("  {verb:<7} {name:<20} {words}"), tone));
            }
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
    missing(&choice.server, &found, |name, known| name == known)?;
    missing(&shared, &found, |name, known| name::plain_text(name) == name::plain_text(known))?;
    if choice.file.is_empty() {
        files::report_projects();
    }
    let chosen = meant.iter().flat_map(|(place, paths)| {
        let Found { target, servers, .. } = &found[*place];
        servers.iter().filter(|server| paths.contains(&server.entry.path)).map(move |server| (target, server))
    });
    let (mut servers, mut counts, mut writes_path) = (Vec::new(), Counts::default(), false);
    for (target, server) in chosen {
        for action in direction.actions(server) {
            // Files that others share have a bare name, and need no copy.
            writes_path |= !target.is_shared && matches!(action, Action::Wrap | Action::Repair(_));
            match action {
                Action::Wrap | Action::Unwrap => servers.push(server),
                Action::Flags { .. } => counts.flags += 1,
                Action::Name(_) => counts.named += 1,
                Action::Repair(_) => counts.repaired += 1,
            }
        }
    }
    counts.servers = servers.len();
    let copy = direction.copy().filter(|copy| copy.is_outdated() || writes_path).cloned();
    if meant.is_empty() && copy.is_none() {
        report(&format!("nothing to {}", direction.verb()));
        if !choice.dry_run {
            forget_missing(choice, &direction)?;
        }
        return Ok(completion);
    }
    direction.check_recording()?;
    match &copy {
        Some(copy) => copy.announce(),
        None if counts.servers + counts.repaired > 0 => direction.warn_of_build(),
        None => {}
    }
    if !choice.yes && !choice.dry_run {
        require_terminal(&meant, &direction)?;
    }
    direction.settle(&servers)?;
    if choice.dry_run {
        return Ok(completion);
    }
    if !choice.yes && !agreed(&counts, meant.len(), &direction)? {
        report("nothing was changed");
        return Ok(Completion::Partial);
    }
    forget_missing(choice, &direction)?;
    let mut journal = open_journal()?;
    if let Some(copy) = copy {
        copy.put()?;
    }
    if meant.is_empty() {
        return Ok(completion);
    }
    let (mut counts, mut files, mut named_files, mut repaired_files) = (Counts::default(), 0, 0, 0);
    for (place, paths) in meant {
        let one = &found[place];
        match change::change(one, &paths, &direction, &managed, &mut journal) {
            Ok(done) => {
                counts.servers += done.servers;
                files += usize::from(done.servers > 0);
                counts.flags += done.flags;
                counts.repaired += done.repaired.len();
                repaired_files += usize::from(!done.repaired.is_empty());
                counts.named += done.named;
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
    if counts.repaired > 0 {
        report(&format!("repaired {}", in_files(counts.repaired, repaired_files)));
    }
    if counts.flags > 0 {
        report(&format!("changed the flags of {}", counted(counts.flags, "server", "servers")));
    }
    if counts.named > 0 {
        let (shims, files) = (counted(counts.named, "shim", "shims"), counted(named_files, "file", "files"));
        report(&format!("named {shims} in {files}"));
    }
    if counts.flags + counts.named + counts.repaired == 0 || counts.servers > 0 {
        report(&format!("{} {}", direction.past(), in_files(counts.servers, files)));
    }
    if counts.servers + counts.flags + counts.named + counts.repaired > 0 {
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

/// Complains of names that no file has, as `is` compares them.
fn missing(names: &[String], found: &[Found], is: fn(&str, &str) -> bool) -> Result<(), Failure> {
    let has = |name: &str| found.iter().flat_map(|one| &one.servers).any(|one| is(name, one.entry.name()));
    match names.iter().find(|name| !has(name)) {
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

fn require_terminal(meant: &[(usize, Vec<Vec<String>>)], direction: &Direction) -> Result<(), Failure> {
    let (verb, hint) = (direction.verb(), "use --yes, or --dry-run to look only");
    let servers = meant.iter().map(|(_, servers)| servers.len()).sum();
    let what = if servers == 0 { UPDATE.to_owned() } else { format!("{verb} {}", in_files(servers, meant.len())) };
    question::require_terminal(&format!("rescind {verb}"), format_args!("{what}"), hint)
}

/// What is done where no file is to be changed, and the copy is another one.
const UPDATE: &str = "update the copy of rescind";

/// To how many servers each is done.
#[derive(Debug, Default)]
struct Counts {
    /// Their shim comes or goes.
    servers: usize,
    flags: usize,
    named: usize,
    repaired: usize,
}

/// Asks whether all of this may be done, in so many files.
fn agreed(counts: &Counts, files: usize, direction: &Direction) -> Result<bool, Failure> {
    if files == 0 {
        return question::ask("Update the copy of rescind?");
    }
    let count = |count| counted(count, "server", "servers");
    let Counts { servers, flags, named, repaired } = *counts;
    let parts = [
        (servers, format!("{} {}", direction.question(), count(servers))),
        (flags, format!("Change the flags of {}", count(flags))),
        (named, format!("Tell {} what their entries are called", counted(named, "shim", "shims"))),
        (repaired, format!("Repair the shim of {}", count(repaired))),
    ];
    let parts: Vec<String> = parts.into_iter().filter_map(|(count, part)| (count > 0).then_some(part)).collect();
    question::ask(&format!("{} in {}?", parts.join("; "), counted(files, "file", "files")))
}

fn in_files(servers: usize, files: usize) -> String {
    format!("{} in {}", counted(servers, "server", "servers"), counted(files, "file", "files"))
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
