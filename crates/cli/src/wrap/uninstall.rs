//! `rescind uninstall`: take the shim away everywhere, and then all that rescind keeps on this machine.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use rescind_wrap::{journal::JournalState, verdict::Verdict};

use super::{
    change::{Direction, change},
    files::{self, Found, Managed, Target},
    heading, in_files, open_journal, program, shown, words,
};
use crate::{
    completion::Completion, failure::Failure, fleet::report, folders, origin::Origin, own_copy, question,
    run::last_start, screen::clean,
};

/// Take the shim away from every server, and remove what rescind keeps on this machine.
///
/// Shows what it would do, and asks. First each file of each client gets back the bytes that it had before `rescind wrap`; of
/// one that was changed since, only the words of `rescind wrap` are taken out. Only if that has worked for all of them, the
/// copy of this program that `rescind wrap` has put in your home is removed, and what rescind keeps: the history and the
/// sign-ins. It asks about each of these. Recordings and logs stay where you have put them.
///
/// It says how to remove the program itself, which depends on how you installed it.
///
/// Exit code: 0 if all is done; 1 if the shim could not be taken away everywhere, and so nothing was removed, or you
/// declined; 2 if nothing was tried.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Show what would be done, and change nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,

    /// Do all of it without asking
    #[arg(long, short)]
    yes: bool,
}

/// What rescind keeps in its folder, beside what `wrap` remembers: the name there, and what it is.
///
/// Nothing else in that folder is touched: a recording may have been put there.
const KEPT: [(&str, &str); 4] = [
    ("sign-in", "sign-ins at servers; `rescind logout` also tells the server"),
    ("history", "the history of what has ended"),
    (last_start::FOLDER, "what servers answered at their last starts (--greet-from-cache)"),
    ("told", "which warnings were given today"),
];

pub(crate) fn main(arguments: &Arguments) -> Result<Completion, Failure> {
    super::file_size::survive_limit()?;
    let (found, failures) = everything()?;
    let meant = wrapped(&found);
    let removed = Removed::find()?;
    show(&found, &removed);
    let count = meant.iter().map(|(_, servers)| servers.len()).sum::<usize>();
    failures.iter().for_each(Failure::report);
    if arguments.dry_run {
        report_installation();
        return Ok(Completion::whole_if(failures.is_empty()));
    }
    if count == 0 && removed.is_empty() {
        report("nothing of rescind is left in your home");
        report_installation();
        return Ok(Completion::whole_if(failures.is_empty()));
    }
    if !arguments.yes && !agreed(count, meant.len())? {
        report("nothing was changed");
        return Ok(Completion::Partial);
    }
    if !failures.is_empty() || !unwrap_all(found)? {
        report(
            "the program and what it keeps stay, since a shim may be left where that failed: see above, and try again",
        );
        return Ok(Completion::Partial);
    }
    removed.remove(arguments.yes)?;
    report_installation();
    Ok(Completion::Whole)
}

/// The servers with a shim: the place of each file, and the keys of those in it.
fn wrapped(found: &[Found]) -> Vec<(usize, Vec<Vec<String>>)> {
    let of_file = |one: &Found| {
        let wrapped = one.servers.iter().filter(|server| !Direction::Unwrap.actions(server).is_empty());
        wrapped.map(|server| server.entry.path.clone()).collect::<Vec<_>>()
    };
    let all = found.iter().map(of_file).enumerate();
    all.filter(|(_, servers)| !servers.is_empty()).collect()
}

/// Every file that may have a shim: those of the clients, of the project here, and those that `wrap --file` has changed.
fn everything() -> Result<(Vec<Found>, Vec<Failure>), Failure> {
    let mut targets = files::targets(&[], &[])?;
    targets.extend(files::projects());
    let mut known: Vec<PathBuf> = targets.iter().filter_map(|target| fs::canonicalize(&target.path).ok()).collect();
    let JournalState { files: noted, .. } = JournalState::of(&folders::state()?);
    let mut others = Vec::new();
    for file in noted {
        // A file is noted by the link to it, too.
        match fs::canonicalize(&file) {
            Ok(real) if !known.contains(&real) => {
                known.push(real);
                others.push(file);
            }
            Ok(_) | Err(_) => {}
        }
    }
    if !others.is_empty() {
        targets.extend(files::targets(&[], &others)?);
    }
    let managed = Managed::read();
    let (mut found, mut failures) = (Vec::new(), Vec::new());
    for target in targets {
        let mentions = mentions_shim(&target);
        match Found::read(target, &managed) {
            Ok(one) => found.push(one),
            // What is in no syntax, and has no word of ours, has no shim.
            Err(failure) if mentions => failures.push(failure),
            Err(_) => {}
        }
    }
    Ok((found, failures))
}

/// Whether the word `rescind` is in a file, or may be.
fn mentions_shim(target: &Target) -> bool {
    let is_in = |bytes: Vec<u8>| bytes.windows(7).any(|word| word == b"rescind");
    target.path.is_file() && fs::read(&target.path).map_or(true, is_in)
}

fn show(found: &[Found], removed: &Removed) {
    let mut stdout = io::stdout().lock();
    for one in found {
        let ours = one
            .servers
            .iter()
            .filter(|server| Direction::Unwrap.mentions(server.verdict) || server.verdict == Verdict::Rescind);
        let mut ours = ours.peekable();
        if ours.peek().is_some() {
            let _ = writeln!(stdout, "{}", heading(one));
        }
        for server in ours {
            let name = clean(server.entry.name());
            let _ = if Direction::Unwrap.actions(server).is_empty() {
                writeln!(stdout, "  leave   {name:<20} {}: take it out by hand", server.verdict)
            } else {
                writeln!(stdout, "  unwrap  {name:<20} {}", words(&server.entry.launch))
            };
        }
    }
    if !removed.is_empty() {
        let _ = writeln!(stdout, "What rescind keeps");
    }
    for (path, what) in removed.lines() {
        let _ = writeln!(stdout, "  remove  {}  {what}", shown(path));
    }
}

fn agreed(servers: usize, files: usize) -> Result<bool, Failure> {
    let hint = "use --yes, or --dry-run to look only";
    let what = if servers == 0 { String::new() } else { format!("unwrap {} and ", in_files(servers, files)) };
    question::require_terminal("rescind uninstall", format_args!("{what}remove what rescind keeps"), hint)?;
    question::ask(&if servers == 0 {
        "Remove what rescind keeps?".to_owned()
    } else {
        let unwrap = Direction::Unwrap.question();
        format!("{unwrap} {}, and then remove what rescind keeps?", in_files(servers, files))
    })
}

/// The most shims before one server that are taken away.
const MOST_SHIMS: usize = 8;

/// Takes the shims away until none is found, and returns whether that is so.
fn unwrap_all(mut found: Vec<Found>) -> Result<bool, Failure> {
    for _ in 0..MOST_SHIMS {
        let meant = wrapped(&found);
        if meant.is_empty() {
            return Ok(true);
        }
        let failed = unwrap(&found, meant)?;
        let (now, failures) = everything()?;
        failures.iter().for_each(Failure::report);
        if failed + failures.len() > 0 {
            return Ok(false);
        }
        found = now;
    }
    Ok(wrapped(&found).is_empty())
}

/// Takes one shim away from each of these servers, and returns how many servers and files that failed for.
fn unwrap(found: &[Found], meant: Vec<(usize, Vec<Vec<String>>)>) -> Result<usize, Failure> {
    let managed = Managed::read();
    let mut journal = open_journal()?;
    let (mut servers, mut files, mut failed) = (0, 0, 0);
    for (place, paths) in meant {
        match change(&found[place], &paths, &Direction::Unwrap, &managed, &mut journal) {
            Ok(done) => {
                servers += done.servers;
                files += usize::from(done.servers > 0);
                failed += done.left.len();
                done.left.iter().for_each(Failure::report);
            }
            Err(failure) => {
                failed += 1;
                failure.report();
            }
        }
    }
    report(&format!("unwrapped {}", in_files(servers, files)));
    Ok(failed)
}

/// What is removed from the user's home.
#[derive(Debug)]
struct Removed {
    /// Its folder.
    state: PathBuf,
    copy: Option<PathBuf>,
    /// What `wrap` remembers.
    journal: Vec<PathBuf>,
    /// What else is kept, and what it is.
    kept: Vec<(PathBuf, &'static str)>,
}

impl Removed {
    fn find() -> Result<Self, Failure> {
        let state = folders::state()?;
        let is_there = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
        let journal = ["wrapped.json", "wrapped.new", "wrap.lock"].map(|name| state.join(name));
        let kept = KEPT.map(|(name, what)| (state.join(name), what));
        Ok(Self {
            copy: Some(folders::copy()?).filter(is_there),
            journal: journal.into_iter().filter(is_there).collect(),
            kept: kept.into_iter().filter(|(path, _)| is_there(path)).collect(),
            state,
        })
    }

    fn is_empty(&self) -> bool {
        self.lines().next().is_none()
    }

    fn lines(&self) -> impl Iterator<Item = (&Path, &'static str)> {
        let copy = self.copy.iter().map(|path| (path.as_path(), "the copy of this program"));
        let journal = self.journal.iter().take(1).map(|path| (path.as_path(), "what `wrap` remembers"));
        copy.chain(journal).chain(self.kept.iter().map(|(path, what)| (path.as_path(), *what)))
    }

    fn remove(self, is_agreed: bool) -> Result<(), Failure> {
        for (path, what) in &self.kept {
            if is_agreed || question::ask(&format!("Remove {}, {what}?", shown(path)))? {
                removed(
                    path,
                    if fs::symlink_metadata(path).is_ok_and(|about| about.is_dir()) {
                        fs::remove_dir_all(path)
                    } else {
                        fs::remove_file(path)
                    },
                )?;
            } else {
                report(&format!("{} stays", shown(path)));
            }
        }
        // The journal may have been made while the shim was taken away.
        for path in Self::find()?.journal {
            removed(&path, fs::remove_file(&path))?;
        }
        if own_copy::remove()? {
            report("removed the copy of this program; sessions that run go on until their clients end them");
        }
        // On Windows sessions have their sockets there.
        let _ = fs::remove_dir(self.state.join("run"));
        folders::remove_empty(&self.state, &self.state);
        if self.state.exists() {
            report(&format!("{} stays, with what else is in it", shown(&self.state)));
        }
        Ok(())
    }
}

/// What is gone already is removed.
fn removed(path: &Path, done: io::Result<()>) -> Result<(), Failure> {
    let failed = done.err().filter(|error| error.kind() != io::ErrorKind::NotFound);
    failed.map_or(Ok(()), |error| {
        Err(Failure::new(shown(path), format_args!("cannot be removed: {error}"), "remove it by hand"))
    })
}

/// Reports how the program itself is removed: this one, and the one that a shell would start.
fn report_installation() {
    let this = program::path().map(PathBuf::from).ok();
    let other = program::on_path(Path::new("rescind"));
    let mut origins: Vec<(Origin, PathBuf)> = Vec::new();
    for path in this.into_iter().chain(other) {
        let origin = Origin::of(&path);
        if origin != Origin::Copy && !origins.iter().any(|(known, _)| *known == origin) {
            origins.push((origin, path));
        }
    }
    for (origin, path) in origins {
        let path = shown(&path);
        match (origin.removal(), origin.passing_place()) {
            (Some(words), _) => report(&format!("to remove the program itself: {words}")),
            (None, Some(place)) => report(&format!("{path} is in {place}, and goes with that")),
            (None, None) => report(&format!("the program itself is still there: {path}")),
        }
    }
}
