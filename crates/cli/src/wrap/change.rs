//! Changes one file.
//!
//! The new content is parsed before it is written: each changed command must consist of the shim's words and the old ones,
//! no other server may have changed, and what was at a URL must come back to the same bytes. So a file in an unforeseen form
//! is refused, not broken.

use std::path::Path;

use rescind_wrap::{
    config::{Change, Changed, Config},
    entry::Launch,
    file::{FileError, Turn},
    journal::{Journal, Note},
    remote::{self, Refusal},
    verdict::Verdict,
    words,
};

use super::{
    files::{self, Found, Managed, Target},
    program,
    server::Server,
    shown,
};
use crate::{
    failure::Failure,
    fleet::report,
    run::{own_words, recording},
    screen::clean,
};

/// Attempts to change a file that another program keeps writing.
const ATTEMPTS: usize = 5;

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) enum Direction {
    Wrap {
        /// The absolute path of this program.
        program: String,
        run_flags: Vec<String>,
        urls: Urls,
    },
    Unwrap,
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
    /// Whether there is something to do with such a server.
    pub(super) fn is_for(&self, server: &Server) -> bool {
        match (self, server.verdict) {
            (Self::Wrap { .. }, Verdict::Wrapped(_) | Verdict::WrappedUrl) => server.is_misnamed,
            (Self::Wrap { .. }, Verdict::Bare) | (Self::Unwrap, Verdict::Wrapped(_) | Verdict::WrappedUrl) => true,
            (Self::Wrap { urls, .. }, Verdict::Remote) => match (urls, &server.refusal) {
                (Urls::Leave, _) => false,
                (Urls::Wrap | Urls::Force, None) | (Urls::Force, Some(Refusal::SignIn)) => true,
                (Urls::Wrap | Urls::Force, Some(_)) => false,
            },
            _ => false,
        }
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
        match (self, &server.refusal) {
            (Self::Wrap { urls: Urls::Wrap | Urls::Force, .. }, Some(refusal)) => refusal.to_string(),
            (Self::Wrap { urls: Urls::Leave, .. }, None) if server.verdict == Verdict::Remote => {
                format!("{}; --urls wraps it", server.verdict)
            }
            _ => server.verdict.to_string(),
        }
    }

    /// Refuses one recording for several servers: each would start its own, over that of the others.
    pub(super) fn check_recording(&self, found: &[Found], meant: &[(usize, Vec<Vec<String>>)]) -> Result<(), Failure> {
        let Self::Wrap { run_flags, .. } = self else { return Ok(()) };
        let words = |of: &[String]| [&["run".to_owned()], of, &["server".to_owned()]].concat();
        let Some(file) = recording(&words(run_flags)) else { return Ok(()) };
        let has_it = |server: &&Server| {
            let Launch::Command(command) = &server.entry.launch else { return false };
            matches!(server.verdict, Verdict::Wrapped(_) | Verdict::WrappedUrl)
                && recording(command.words.get(1..).unwrap_or_default()).as_ref() == Some(&file)
        };
        let others = found.iter().flat_map(|one| &one.servers).filter(has_it).count();
        let is_new = |place: usize, path: &Vec<String>| {
            !found[place].servers.iter().any(|server| server.is_misnamed && server.entry.path == *path)
        };
        let new = meant.iter().flat_map(|(place, paths)| paths.iter().filter(move |path| is_new(*place, path)));
        let count = others + new.count();
        if count < 2 {
            return Ok(());
        }
        let name = format!("--record {}", shown(&file));
        let cause = format!("would be the recording of {count} servers, and each would write over that of the others");
        Err(Failure::new(name, cause, "wrap one server at a time (--server NAME), each with a file of its own"))
    }

    /// Warns if the program that would be written into files is in a place that will not stay.
    pub(super) fn warn_of_temporary(&self) {
        let Self::Wrap { program, .. } = self else { return };
        if let Some(place) = program::temporary(Path::new(program)) {
            let program = clean(program);
            report(&format!("warning: {program} is in {place}, and will not stay: your clients will not find it"));
            report("hint: install rescind, for example with `cargo install`, and call the installed one");
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

    /// The words that come before a server's own, where it has these names.
    fn words(&self, target: &Target, names: &[String]) -> Vec<String> {
        match self {
            Self::Wrap { program, run_flags, .. } => {
                let program = if target.is_shared { "rescind" } else { program };
                [&[program.to_owned(), "run".to_owned()], names, run_flags].concat()
            }
            Self::Unwrap => Vec::new(),
        }
    }
}

/// What was changed in a file.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// How many servers got a shim, or lost it.
    pub(super) servers: usize,
    /// How many shims got a name.
    pub(super) renamed: usize,
    /// What was left alone, and why.
    pub(super) left: Vec<Failure>,
}

/// Changes these servers of a file as it is now.
pub(super) fn change(
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
    let style = remote::style(target.client.map(|client| client.id));
    let file = files::read(target)?.0.path().to_owned();
    let turn = Turn::wait(&file).map_err(|error| refused(&error))?;
    for _ in 0..ATTEMPTS {
        let (snapshot, config) = files::read(target)?;
        if snapshot.path() != file {
            continue;
        }
        let servers = files::servers(&config, target, managed);
        let mut left = Vec::new();
        let mut changes: Vec<(usize, Change<'_>)> = Vec::new();
        let to_prepend = |one: &Server| to_prepend(&direction.words(target, &one.names), one);
        let to_prepend: Vec<Vec<String>> = servers.iter().map(to_prepend).collect();
        for (place, one) in servers.iter().enumerate() {
            if !paths.contains(&one.entry.path) || !direction.is_for(one) {
                continue;
            }
            let note = journal.note_of(&file, &one.entry.path);
            changes.push((
                place,
                match (one.verdict, note) {
                    (Verdict::Wrapped(_) | Verdict::WrappedUrl, _) if matches!(direction, Direction::Wrap { .. }) => {
                        let Launch::Command(command) = &one.entry.launch else { continue };
                        Change::Flags { places: words::named(&command.words), words: &one.names }
                    }
                    (Verdict::Wrapped(words), Some(Note::Arguments(text))) => {
                        Change::TakeOff { words, added: Some(text) }
                    }
                    (Verdict::Wrapped(words), _) => Change::TakeOff { words, added: None },
                    (Verdict::WrappedUrl, Some(Note::Url(note))) => Change::ToUrl(note),
                    (Verdict::WrappedUrl, _) => {
                        left.push(unknown(target, one));
                        continue;
                    }
                    (Verdict::Remote, _) => Change::ToCommand(&to_prepend[place], style),
                    _ => Change::Prepend(&to_prepend[place]),
                },
            ));
        }
        let Changed { notes, left: too_changed, .. } = config.changed(&changes);
        left.extend(too_changed.iter().map(|place| match servers[*place].is_misnamed {
            true if matches!(direction, Direction::Wrap { .. }) => has_comment(target, &servers[*place]),
            _ => changed_since(target, &servers[*place]),
        }));
        let (changes, notes): (Vec<_>, Vec<_>) =
            changes.into_iter().zip(notes).filter(|((place, _), _)| !too_changed.contains(place)).unzip();
        if changes.is_empty() {
            return Ok(Done { left, ..Done::default() });
        }
        let bytes = config.changed(&changes).bytes;
        check(target, &config, &bytes, &changes)?;
        let servers: Vec<Vec<String>> = changes.iter().map(|(place, _)| servers[*place].entry.path.clone()).collect();
        let is_named = |(_, change): &(usize, Change<'_>)| matches!(change, Change::Flags { .. });
        let renamed = changes.iter().filter(|one| is_named(one)).count();
        let done = Done { servers: changes.len() - renamed, renamed, left };
        // What is known of a server that has a shim already is as true of it under another name.
        let news = servers.iter().cloned().zip(notes).zip(&changes).filter(|(_, change)| !is_named(change));
        let news: Vec<_> = news.map(|(news, _)| news).collect();
        if let Direction::Wrap { .. } = direction {
            journal.note(&file, news).map_err(|error| refused(&error))?;
        }
        match snapshot.replace(&turn, &bytes) {
            Ok(true) => {
                if let Direction::Unwrap = direction {
                    // What is left in it is looked at again before it is believed.
                    let _ = journal.forget(&file, servers.iter().map(Vec::as_slice));
                }
                return Ok(done);
            }
            Ok(false) => {}
            Err(error) => return Err(refused(&error)),
        }
    }
    Err(refused(&FileError::Busy))
}

/// What a shim before this server begins with.
fn to_prepend(shim: &[String], server: &Server) -> Vec<String> {
    match &server.entry.launch {
        Launch::Command(command) => words::to_prepend(shim, command.words.first().map_or("", String::as_str)),
        Launch::Url(_) | Launch::Elsewhere | Launch::Unclear(_) => shim.to_vec(),
    }
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
    let is_named = |change: &Change<'_>| matches!(change, Change::Flags { .. });
    let named: Vec<_> = changes.iter().filter(|(_, change)| is_named(change)).cloned().collect();
    let there = Config::read(&before.changed(&named).bytes, target.shape.syntax, target.shape.servers)
        .map_err(|error| wrong(&error.to_string()))?;
    if nameless(before, &named) != nameless(&there, &named) {
        return Err(wrong("more than names would change"));
    }
    Ok(())
}

/// The file without the names in the shims that these changes are of.
fn nameless(config: &Config, changes: &[(usize, Change<'_>)]) -> Vec<u8> {
    let without = |(place, _): &(usize, Change<'_>)| {
        let Launch::Command(command) = &config.entries().get(*place)?.launch else { return None };
        Some((*place, Change::Flags { places: words::named(&command.words), words: &[] }))
    };
    config.changed(&changes.iter().filter_map(without).collect::<Vec<_>>()).bytes
}

fn is_as_planned(old: &Launch, new: &Launch, change: Option<&Change<'_>>) -> bool {
    match (old, new, change) {
        (Launch::Command(old), Launch::Command(new), Some(Change::TakeOff { .. })) => {
            old.words.ends_with(&new.words) && new.words.len() < old.words.len()
        }
        (Launch::Command(old), Launch::Command(new), Some(Change::Prepend(words))) => {
            new.words == [words, &*old.words].concat()
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
