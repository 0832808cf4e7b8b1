//! Changes one file.
//!
//! The new content is parsed before it is written: each changed command must consist of the shim's words and the old ones,
//! no other server may have changed, and what was at a URL must come back to the same bytes. So a file in an unforeseen form
//! is refused, not broken.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use rescind::relay::is_recording_folder;
use rescind_wrap::{
    advice::Advice,
    config::{Change, Changed, Config},
    entry::Launch,
    file::{FileError, Turn},
    journal::{Journal, Note},
    name,
    remote::{self, Refusal},
    sharing::{self, NotShared},
    syntax::Syntax,
    verdict::Verdict,
    words,
};

use super::{
    advice::Advising,
    files::{self, Found, Managed, Target},
    heal,
    server::Server,
    shown,
};
use crate::{
    failure::Failure,
    fleet::report,
    origin::Origin,
    own_copy::OwnCopy,
    run::{check_flags, has_timeouts, own_words, recording},
    screen::clean,
};

/// Attempts to change a file that another program keeps writing.
const ATTEMPTS: usize = 5;

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) enum Direction {
    Wrap {
        /// The absolute path of this program, or of its copy.
        program: String,
        /// The copy of this program, if it needs one.
        copy: Option<OwnCopy>,
        run_flags: Vec<String>,
        /// Whether servers that have a shim get these flags, too, in place of their own.
        sets_flags: bool,
        advising: Advising,
        /// The timeouts that were proposed and taken.
        advised: Vec<&'static Advice>,
        urls: Urls,
        /// The names of entries whose servers are to be shared, as they were given.
        shared: Vec<String>,
    },
    Unwrap,
}

/// What is to be done with one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A shim comes before it, or in the place of its URL.
    Wrap,
    /// Its shim goes.
    Unwrap,
    /// Its shim gets these flags in place of those that stand there.
    Flags { places: Range<usize>, flags: Vec<String> },
    /// Its shim is told the names of its entry and its client, which come in these places.
    Name(Range<usize>),
    /// The program of its shim gives way to this one, for this reason.
    Repair(String),
}

/// What becomes of servers at a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urls {
    Leave,
    Wrap,
    /// Also those that may need a sign-in.
    Force,
}

impl Direction {
    /// What is to be done with such a server, one after the other.
    pub(super) fn actions(&self, server: &Server) -> Vec<Action> {
        if let Some(Err(_)) = self.sharing(server) {
            return Vec::new();
        }
        match (self, server.verdict) {
            (Self::Wrap { .. }, Verdict::Bare) => vec![Action::Wrap],
            (Self::Unwrap, Verdict::Wrapped(_) | Verdict::WrappedUrl) => vec![Action::Unwrap],
            (Self::Wrap { program, .. }, Verdict::Wrapped(_) | Verdict::WrappedUrl) => {
                let repair = heal::reason(server, program).map(Action::Repair);
                let words = self.other_flags(server).or_else(|| server.misnamed().map(Action::Name));
                repair.into_iter().chain(words).collect()
            }
            (Self::Wrap { urls, .. }, Verdict::Remote) => match (urls, &server.refusal) {
                (Urls::Leave, _) => Vec::new(),
                (Urls::Wrap | Urls::Force, None) | (Urls::Force, Some(Refusal::SignIn)) => vec![Action::Wrap],
                (Urls::Wrap | Urls::Force, Some(_)) => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// The flags for the shim of this server: those that were given, and the timeout that was proposed and taken.
    fn flags(&self, server: &Server) -> Vec<String> {
        let Self::Wrap { run_flags, advised, .. } = self else { return Vec::new() };
        let advice = server.advice.filter(|advice| advised.contains(advice));
        let timeout = advice.map(|advice| ["--timeout".to_owned(), advice.timeout.to_owned()]);
        run_flags.iter().cloned().chain(timeout.into_iter().flatten()).collect()
    }

    /// The names of entries whose servers are to be shared.
    pub(super) fn shared(&self) -> &[String] {
        match self {
            Self::Wrap { shared, .. } => shared,
            Self::Unwrap => &[],
        }
    }

    /// The flags by which the shim of this server shares it, if it is to; or why it cannot.
    fn sharing(&self, server: &Server) -> Option<Result<Vec<String>, String>> {
        let plain = name::plain_text(server.entry.name());
        let name = self.shared().iter().find(|name| name::plain_text(name) == plain)?;
        let is_at_url = server.verdict == Verdict::WrappedUrl;
        let flags = if is_at_url { Err(NotShared::AtUrl) } else { sharing::flags(&server.entry, name) };
        Some(flags.map_err(|why| why.to_string()).and_then(|flags| {
            let others = match server.flags() {
                Some((_, now)) => self.changed_flags(server, now).unwrap_or_else(|| now.to_vec()),
                None => self.flags(server),
            };
            // Its client alone would see that they exclude each other.
            check_flags(&sharing::merged(&others, &flags))
                .map_err(|failure| format!("cannot be shared: {} {}", failure.input, failure.cause))?;
            Ok(flags)
        }))
    }

    /// What gives the shim of this server the flags that it is to have. Those that belong to its entry stay.
    fn other_flags(&self, server: &Server) -> Option<Action> {
        let (places, now) = server.flags()?;
        let changed = self.changed_flags(server, now);
        let base = changed.as_deref().unwrap_or(now);
        let sharing = match self.sharing(server) {
            Some(sharing) => sharing.ok(),
            // What its entry says now may not be what it said when it was wrapped.
            None => sharing::name(base).and_then(|name| sharing::flags(&server.entry, name).ok()),
        };
        let shared = sharing.map(|sharing| sharing::merged(base, &sharing)).filter(|shared| shared != base);
        let flags = shared.or(changed)?;
        let flags = [server.names.clone(), words::unnamed(&flags).to_vec()].concat();
        Some(Action::Flags { places, flags })
    }

    /// The flags that a shim which has these is to have, if they are others.
    fn changed_flags(&self, server: &Server, now: &[String]) -> Option<Vec<String>> {
        let Self::Wrap { sets_flags, run_flags, advising, .. } = self else { return None };
        // A question is about servers that are to be wrapped.
        let wanted = if *advising == Advising::Take { self.flags(server) } else { run_flags.clone() };
        if *sets_flags {
            let (kept, others) = words::divided(now, &wanted);
            (others != wanted).then(|| [kept, wanted].concat())
        } else {
            (!wanted.is_empty() && !has_timeouts(now)).then(|| [now, &*wanted].concat())
        }
    }

    /// Asks about the timeouts that are proposed for these servers, which are to be wrapped.
    pub(super) fn settle(&mut self, servers: &[&Server]) -> Result<(), Failure> {
        if let Self::Wrap { advising, advised, .. } = self {
            *advised = advising.settle(servers)?;
        }
        Ok(())
    }

    /// Whether a person wants to know of such a server.
    pub(super) const fn mentions(&self, verdict: Verdict) -> bool {
        match self {
            Self::Wrap { .. } => true,
            Self::Unwrap => matches!(verdict, Verdict::Wrapped(_) | Verdict::WrappedUrl | Verdict::WrappedByHand),
        }
    }

    /// Why such a server is left alone.
    pub(super) fn why_not(&self, server: &Server) -> String {
        if let Some(Err(why)) = self.sharing(server) {
            return why;
        }
        match (self, &server.refusal) {
            (Self::Wrap { urls: Urls::Wrap | Urls::Force, .. }, Some(refusal)) => refusal.to_string(),
            (Self::Wrap { urls: Urls::Leave, .. }, None) if server.verdict == Verdict::Remote => {
                format!("{}; --urls wraps it", server.verdict)
            }
            _ => server.verdict.to_string(),
        }
    }

    /// Refuses a recording that the sessions of a client would take from each other, or that they would not find: a client
    /// starts a server for each of its windows, from a folder of its own.
    pub(super) fn check_recording(&self) -> Result<(), Failure> {
        let Self::Wrap { run_flags, .. } = self else { return Ok(()) };
        let words = [&["run".to_owned()], &**run_flags, &["server".to_owned()]].concat();
        let Some(path) = recording(&words) else { return Ok(()) };
        let name = format!("--record {}", shown(&path));
        let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        let is_folder = is_recording_folder(&path);
        // Devices and pipes can take more than one recording.
        if !is_folder && std::fs::metadata(&path).is_ok_and(|about| !about.is_file()) {
            return Ok(());
        }
        if !is_folder {
            let cause = "is one file, and clients start a session for each server and each window";
            let hint = format!(
                "name a folder, in which each session gets a file of its own: --record {}",
                shown(&absolute.with_extension("").join(""))
            );
            return Err(Failure::new(name, cause, hint));
        }
        if path.is_relative() {
            let hint = format!("give the whole path: --record {}", shown(&absolute.join("")));
            return Err(Failure::new(
                name,
                "is relative, and each client starts servers from a folder of its own",
                hint,
            ));
        }
        let above = path.parent().filter(|above| !path.is_dir() && !above.is_dir());
        match above {
            Some(above) => {
                let hint = format!("first create its directory: mkdir -p {}", shown(above));
                Err(Failure::new(name, "cannot be made when a session starts", hint))
            }
            None => Ok(()),
        }
    }

    /// Warns if the program that would be written into files is a build, which the next one replaces.
    pub(super) fn warn_of_build(&self) {
        let Self::Wrap { program, .. } = self else { return };
        if let Some(place) = Origin::of(Path::new(program)).passing_place() {
            let program = clean(program);
            report(&format!("warning: {program} is in {place}, and will not stay: your clients will not find it"));
            report("hint: install rescind, for example with `cargo install --locked`, and call the installed one");
        }
    }

    /// The copy of this program, if it needs one.
    pub(super) const fn copy(&self) -> Option<&OwnCopy> {
        match self {
            Self::Wrap { copy, .. } => copy.as_ref(),
            Self::Unwrap => None,
        }
    }

    pub(super) const fn verb(&self) -> &'static str {
        match self {
            Self::Wrap { .. } => "wrap",
            Self::Unwrap => "unwrap",
        }
    }

    pub(super) const fn question(&self) -> &'static str {
        match self {
            Self::Wrap { .. } => "Put the shim before",
            Self::Unwrap => "Take the shim away from",
        }
    }

    pub(super) const fn past(&self) -> &'static str {
        match self {
            Self::Wrap { .. } => "wrapped",
            Self::Unwrap => "unwrapped",
        }
    }

    /// The words that come before a server's own.
    fn words(&self, target: &Target, server: &Server) -> Vec<String> {
        match self {
            Self::Wrap { program, .. } => {
                let program = if target.is_shared { "rescind" } else { program };
                let sharing = self.sharing(server).and_then(Result::ok).unwrap_or_default();
                [&[program.to_owned(), "run".to_owned()], &*server.names, &*sharing, &*self.flags(server)].concat()
            }
            Self::Unwrap => Vec::new(),
        }
    }
}

/// What was changed in a file.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Servers that have a shim now, or none any more.
    pub(super) servers: usize,
    /// The keys of servers whose shim has another program now.
    pub(super) repaired: Vec<Vec<String>>,
    /// Servers whose shim has other flags now.
    pub(super) flags: usize,
    /// Servers whose shim was told its names.
    pub(super) named: usize,
    /// What was left alone, and why.
    pub(super) left: Vec<Failure>,
}

/// Changes these servers of a file as it is now. A shim that is repaired gets its flags and its names in a second step.
pub(super) fn change(
    found: &Found,
    paths: &[Vec<String>],
    direction: &Direction,
    managed: &Managed,
    journal: &mut Journal,
) -> Result<Done, Failure> {
    let mut done = step(found, paths, direction, managed, journal)?;
    if !done.repaired.is_empty() {
        match step(found, &done.repaired, direction, managed, journal) {
            Ok(Done { flags, named, left, .. }) => {
                done.flags += flags;
                done.named += named;
                done.left.extend(left);
            }
            Err(failure) => done.left.push(failure),
        }
    }
    Ok(done)
}

/// Does the first of what is to be done with each of these servers.
fn step(
    found: &Found,
    paths: &[Vec<String>],
    direction: &Direction,
    managed: &Managed,
    journal: &mut Journal,
) -> Result<Done, Failure> {
    let target = &found.target;
    let closing = || match target.client {
        Some(client) if client.rewrites => {
            format!("close {}, which writes this file while it runs, and try again", client.name)
        }
        _ => "try again when no other program writes it".to_owned(),
    };
    let refused = |error: &dyn std::fmt::Display| Failure::new(shown(&target.path), error, closing());
    // `unwrap` and `uninstall` would not find it by themselves.
    let is_named_only = target.is_shared || target.client.is_none();
    let style = remote::style(target.client.map(|client| client.id));
    let file = files::read(target)?.0.path().to_owned();
    let names = names(target, &file);
    let turn = Turn::wait(&file).map_err(|error| refused(&error))?;
    for _ in 0..ATTEMPTS {
        let (snapshot, config) = files::read(target)?;
        if snapshot.path() != file {
            continue;
        }
        let servers = files::servers(&config, target, managed);
        let mut left = Vec::new();
        let mut changes: Vec<(usize, Change<'_>)> = Vec::new();
        let shims: Vec<Vec<String>> = servers.iter().map(|one| direction.words(target, one)).collect();
        let actions: Vec<Option<Action>> =
            servers.iter().map(|one| direction.actions(one).into_iter().next()).collect();
        for (place, one) in servers.iter().enumerate() {
            let Some(action) = actions[place].as_ref().filter(|_| paths.contains(&one.entry.path)) else { continue };
            let of_shim = match action {
                Action::Flags { places, flags } => Some(Change::Flags { places: places.clone(), words: flags }),
                Action::Name(places) => Some(Change::Flags { places: places.clone(), words: &one.names }),
                Action::Repair(_) => Some(Change::Program(&shims[place][0])),
                Action::Wrap | Action::Unwrap => None,
            };
            if let Some(change) = of_shim {
                changes.push((place, change));
                continue;
            }
            let note = journal.note_of(&file, &one.entry.path);
            changes.push((
                place,
                match (one.verdict, note) {
                    (Verdict::Wrapped(words), Some(Note::Arguments(text))) => {
                        Change::TakeOff { words, added: Some(text) }
                    }
                    (Verdict::Wrapped(words), _) => Change::TakeOff { words, added: None },
                    (Verdict::WrappedUrl, Some(Note::Url(note))) => Change::ToUrl(note),
                    (Verdict::WrappedUrl, _) => {
                        left.push(unknown(target, one));
                        continue;
                    }
                    (Verdict::Remote, _) => Change::ToCommand(&shims[place], style),
                    _ => Change::Prepend(&shims[place]),
                },
            ));
        }
        let Changed { notes, left: too_changed, .. } = config.changed(&changes);
        left.extend(too_changed.iter().map(|place| match &actions[*place] {
            Some(Action::Flags { .. } | Action::Name(_)) => has_comment(target, &servers[*place]),
            Some(Action::Wrap | Action::Unwrap | Action::Repair(_)) | None => changed_since(target, &servers[*place]),
        }));
        let (changes, notes): (Vec<_>, Vec<_>) =
            changes.into_iter().zip(notes).filter(|((place, _), _)| !too_changed.contains(place)).unzip();
        if changes.is_empty() {
            return Ok(Done { left, ..Done::default() });
        }
        let bytes = config.changed(&changes).bytes;
        check(target, &config, &bytes, &changes)?;
        let is_changed = |place: usize| changes.iter().any(|(changed, _)| *changed == place);
        let has_shim = |one: &Server| matches!(one.verdict, Verdict::Wrapped(_) | Verdict::WrappedUrl);
        let keeps_shim = is_named_only && servers.iter().enumerate().any(|(at, one)| has_shim(one) && !is_changed(at));
        let mut done = Done { left, ..Done::default() };
        let (mut moved, mut new_notes) = (Vec::new(), Vec::new());
        for ((place, _), note) in changes.iter().zip(notes) {
            let path = servers[*place].entry.path.clone();
            match &actions[*place] {
                Some(Action::Flags { .. }) => done.flags += 1,
                Some(Action::Name(_)) => done.named += 1,
                Some(Action::Repair(_)) => done.repaired.push(path),
                // What is known of a server whose shim stays is still true.
                Some(Action::Wrap | Action::Unwrap) | None => {
                    moved.push(path);
                    new_notes.push(note);
                }
            }
        }
        done.servers = moved.len();
        if let Direction::Wrap { .. } = direction {
            for name in &names {
                let notes = moved.iter().cloned().zip(new_notes.iter().cloned());
                journal.note(name, notes).map_err(|error| refused(&error))?;
                if is_named_only {
                    journal.remember_named(name, true).map_err(|error| refused(&error))?;
                }
            }
        }
        match snapshot.replace(&turn, &bytes) {
            Ok(true) => {
                if let Direction::Unwrap = direction {
                    // What is left in it is looked at again before it is believed.
                    for name in &names {
                        let _ = journal.forget(name, moved.iter().map(Vec::as_slice));
                        let _ = journal.remember_named(name, keeps_shim);
                    }
                }
                return Ok(done);
            }
            Ok(false) => {}
            Err(error) => return Err(refused(&error)),
        }
    }
    Err(refused(&FileError::Busy))
}

/// The names by which the journal knows a file: its own, and that of a link to it, which its client may replace by a file.
fn names(target: &Target, file: &Path) -> Vec<PathBuf> {
    let is_link = fs::symlink_metadata(&target.path).is_ok_and(|about| about.is_symlink());
    [Some(file), is_link.then_some(&*target.path)].into_iter().flatten().map(Path::to_owned).collect()
}

/// A server that reaches a URL, of which the journal knows nothing.
fn unknown(target: &Target, server: &Server) -> Failure {
    let name = format!("{}: {}", shown(&target.path), clean(server.entry.name()));
    let cause = "reaches a URL by a shim, and the journal does not tell how it was before";
    Failure::new(name, cause, "put its URL back by hand")
}

fn changed_since(target: &Target, server: &Server) -> Failure {
    let name = format!("{}: {}", shown(&target.path), clean(server.entry.name()));
    let cause = "was changed since it was wrapped: its variables are no longer the headers that it had";
    Failure::new(name, cause, "put its URL back by hand")
}

fn has_comment(target: &Target, server: &Server) -> Failure {
    let name = format!("{}: {}", shown(&target.path), clean(server.entry.name()));
    Failure::new(name, "has a comment between the flags of its shim", "change these flags by hand")
}

/// Reads the new content before it is written: the selected servers must have changed as planned, and no other server
/// may have changed. What is wrapped must come back to the same bytes.
fn check(target: &Target, before: &Config, bytes: &[u8], changes: &[(usize, Change<'_>)]) -> Result<(), Failure> {
    let wrong = |why: &str| {
        let hint = "nothing was changed; please report how this file is written";
        Failure::new(shown(&target.path), format_args!("would not be what it should be: {why}"), hint)
    };
    let after =
        Config::read(bytes, target.shape.syntax, target.shape.servers).map_err(|error| wrong(&error.to_string()))?;
    if after.entries().len() != before.entries().len() {
        return Err(wrong("it would have other servers"));
    }
    for (place, (old, new)) in before.entries().iter().zip(after.entries()).enumerate() {
        let change = changes.iter().find(|(changed, _)| *changed == place).map(|(_, change)| change);
        if !is_as_planned(&old.launch, &new.launch, change) || old.path != new.path {
            return Err(wrong(&format!("{} would be another server", new.name())));
        }
    }
    let changed: Vec<usize> = changes.iter().map(|(place, _)| *place).collect();
    if target.shape.syntax == Syntax::Yaml && !before.means_the_same(&after, &changed) {
        return Err(wrong("something else in it would have another meaning"));
    }
    let is_wrap = |change: &Change<'_>| matches!(change, Change::Prepend(_) | Change::ToCommand(..));
    let wraps: Vec<_> = changes.iter().filter(|(_, change)| is_wrap(change)).cloned().collect();
    let there = before.changed(&wraps);
    let between = Config::read(&there.bytes, target.shape.syntax, target.shape.servers)
        .map_err(|error| wrong(&error.to_string()))?;
    let back = wraps.iter().zip(&there.notes).filter_map(|((place, _), note)| {
        let change = match (Verdict::of(&between.entries()[*place], own_words, &[]), note) {
            (Verdict::Wrapped(words), Some(Note::Arguments(text))) => Change::TakeOff { words, added: Some(text) },
            (Verdict::Wrapped(words), None) => Change::TakeOff { words, added: None },
            (Verdict::WrappedUrl, Some(Note::Url(note))) => Change::ToUrl(note),
            _ => return None,
        };
        Some((*place, change))
    });
    if between.changed(&back.collect::<Vec<_>>()).bytes != before.changed(&[]).bytes {
        return Err(wrong("`rescind unwrap` could not give it back"));
    }
    // Another program and other flags are nothing to what `rescind unwrap` gives back. What it gives a URL back from is only that URL.
    let of_command = |(place, change): &&(usize, Change<'_>)| {
        let verdict = Verdict::of(&before.entries()[*place], own_words, &[]);
        matches!((change, verdict), (Change::Flags { .. } | Change::Program(_), Verdict::Wrapped(_)))
    };
    let of_flags: Vec<_> = changes.iter().filter(of_command).cloned().collect();
    let flagged = Config::read(&before.changed(&of_flags).bytes, target.shape.syntax, target.shape.servers)
        .map_err(|error| wrong(&error.to_string()))?;
    if without_shims(before, &of_flags) != without_shims(&flagged, &of_flags) {
        return Err(wrong("`rescind unwrap` could not give it back"));
    }
    Ok(())
}

/// The file without the shims of the commands that these changes are of.
fn without_shims(config: &Config, changes: &[(usize, Change<'_>)]) -> Vec<u8> {
    let shim = |(place, _): &(usize, Change<'_>)| {
        let Verdict::Wrapped(words) = Verdict::of(&config.entries()[*place], own_words, &[]) else { return None };
        Some((*place, Change::TakeOff { words, added: None }))
    };
    config.changed(&changes.iter().filter_map(shim).collect::<Vec<_>>()).bytes
}

fn is_as_planned(old: &Launch, new: &Launch, change: Option<&Change<'_>>) -> bool {
    match (old, new, change) {
        (Launch::Command(old), Launch::Command(new), Some(Change::TakeOff { .. })) => {
            old.words.ends_with(&new.words) && new.words.len() < old.words.len()
        }
        (Launch::Command(old), Launch::Command(new), Some(Change::Prepend(words))) => {
            new.words == [words, &*old.words].concat()
        }
        (Launch::Command(old), Launch::Command(new), Some(Change::Program(word))) => {
            new.words.first().is_some_and(|first| first == word) && new.words.get(1..) == old.words.get(1..)
        }
        (Launch::Command(old), Launch::Command(new), Some(Change::Flags { places, words })) => {
            new.words == [&old.words[..places.start], words, &old.words[places.end..]].concat()
        }
        (Launch::Url(old), Launch::Command(new), Some(Change::ToCommand(words, _))) => {
            new.words.starts_with(words) && new.words.last() == Some(&old.url)
        }
        (Launch::Command(old), Launch::Url(new), Some(Change::ToUrl(_))) => old.words.last() == Some(&new.url),
        (Launch::Command(old), Launch::Command(new), None) => old.words == new.words,
        (Launch::Url(old), Launch::Url(new), None) => old == new,
        (Launch::Elsewhere, Launch::Elsewhere, None) | (Launch::Unclear(_), Launch::Unclear(_), None) => true,
        _ => false,
    }
}
