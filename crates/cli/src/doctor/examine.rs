//! Looks at everything, and changes nothing.

use std::{
    cmp::Ordering,
    path::{Path, PathBuf},
};

use rescind_wrap::{
    client::{CLIENTS, Client},
    entry::{Entry, Launch},
    journal::{self, JournalState},
    outside::{self, Outside, Places},
    patience,
    verdict::Verdict,
    words,
};

use super::{
    program::Programs,
    report::{
        FileReport, JournalReport, PatienceReport, ProgramReport, ProgramState, Report, ServerReport, ServerState,
        ThisProgram,
    },
    sharing::{self, Sharing},
};
use crate::{
    failure::Failure,
    folders,
    origin::Origin,
    program_version::{self, OWN},
    run::own_words,
    screen::clean,
    wrap::{
        files::{self, Managed, Target},
        program,
    },
};

/// Looks at everything.
pub(super) fn report() -> Result<Report, Failure> {
    let path = program::path()?;
    let mut programs = Programs::new(PathBuf::from(&path));
    let managed = Managed::read();
    let targets = files::targets(&[], &[])?.into_iter().chain(files::projects());
    let mut sharing = Sharing::default();
    let files: Vec<FileReport> = targets.map(|target| file(target, &managed, &mut programs, &mut sharing)).collect();
    let origin = Origin::of(Path::new(&path));
    let copy = origin.needs_copy().then(folders::copy).transpose()?;
    let mut report = Report {
        format: 1,
        program: ThisProgram { path, version: OWN, temporary: origin.passing_place(), copy, call: origin.call() },
        sharing: sharing.report(),
        patience: patience(&files),
        files,
        outside: outside()?,
        journal: journal()?,
        attention: 0,
        unreadable: 0,
    };
    report.count();
    Ok(report)
}

fn file(target: Target, managed: &Managed, programs: &mut Programs, sharing: &mut Sharing) -> FileReport {
    let read = files::read(&target);
    let refused = read.as_ref().map_or_else(|_| Vec::new(), |(_, config)| files::refused(&target, config));
    let Target { client, path, is_shared, .. } = target;
    let (problem, leftover, servers) = match read {
        Ok((snapshot, config)) => {
            if let Some(client) = client {
                config.entries().iter().for_each(|entry| sharing.add(entry, client.name));
            }
            let servers = config.entries().iter().map(|entry| server(entry, managed, is_shared, programs)).collect();
            (None, snapshot.leftover(), servers)
        }
        Err(failure) => (Some(failure.cause), None, Vec::new()),
    };
    let (client, client_name) = client.map(|client| (client.id, client.name)).unzip();
    FileReport { client, client_name, path, shared: is_shared, problem, refused, leftover, servers }
}

fn server(entry: &Entry, managed: &Managed, is_shared: bool, programs: &mut Programs) -> ServerReport {
    let this = programs.origin();
    let verdict = Verdict::of(entry, own_words, &managed.commands);
    let (shims, first) = match &entry.launch {
        Launch::Command(command) => (words::shims(&command.words, own_words), command.words.first()),
        Launch::Url(_) | Launch::Elsewhere | Launch::Unclear(_) => (0, None),
    };
    let state = match verdict {
        Verdict::Wrapped(_) | Verdict::WrappedUrl => ServerState::Wrapped,
        Verdict::WrappedByHand => ServerState::WrappedByHand,
        Verdict::Bare
        | Verdict::Rescind
        | Verdict::Remote
        | Verdict::Elsewhere
        | Verdict::ShellLine
        | Verdict::Flag
        | Verdict::Debugged
        | Verdict::Managed
        | Verdict::Unclear(_) => ServerState::NotWrapped,
    };
    let program = first.filter(|_| state == ServerState::Wrapped).map(|word| programs.look(word, !is_shared));
    let attention = if shims > 1 {
        Some(format!("has {shims} shims: take one away with `rescind unwrap`"))
    } else if state == ServerState::Wrapped && entry.is_debugged {
        Some("has `dev.debug`, with which VS Code does not start a shim: take that out, or use `rescind unwrap`".into())
    } else {
        let of_program = || program.as_ref().and_then(|program| wants_attention(program, this));
        sharing::wants_attention(entry, &this.call()).or_else(of_program)
    };
    ServerReport {
        name: entry.name().to_owned(),
        keys: entry.path.clone(),
        disabled: entry.is_disabled,
        state,
        why: verdict.to_string(),
        shims,
        program,
        attention,
    }
}

/// What is wrong with the program of a shim, the remedy first. `this` is how the program came here that examines.
fn wants_attention(program: &ProgramReport, this: Origin) -> Option<String> {
    let (call, is_copied, is_build) = (this.call(), this.needs_copy(), this == Origin::Build);
    let ProgramReport { path, state, version, temporary, origin } = program;
    let path = clean(path);
    let repair = format!("`{call} wrap` repairs it");
    let again = format!("`{call} unwrap` and `{call} wrap` put this one in its place");
    let wrong = match (state, temporary) {
        (ProgramState::Missing, _) if !path.contains(['/', '\\']) => {
            format!("install it where your clients look: there is no {path} on your PATH")
        }
        (ProgramState::Missing, _) => format!("{repair}: {path} is not there"),
        (ProgramState::NotExecutable, _) => format!("{repair}: {path} cannot be run"),
        (ProgramState::NoAnswer, _) => format!("{again}: {path} does not say its version"),
        (ProgramState::OtherVersion, _) => {
            let version = clean(version.as_deref().unwrap_or_default());
            let update = origin.update().filter(|_| is_older(&version));
            let remedy = if *origin == Origin::Copy && is_copied && is_older(&version) {
                format!("`{call} wrap` updates it")
            } else {
                update.map_or(again, |update| format!("`{update}` updates it"))
            };
            format!("{remedy}: {path} is version {version}, this is {OWN}")
        }
        (ProgramState::This | ProgramState::SameVersion | ProgramState::NotAsked, Some(temporary)) => {
            let remedy =
                if origin.needs_copy() && !is_build { repair } else { "install rescind, and wrap again".into() };
            format!("{remedy}: {path} is in {temporary}, and will not stay")
        }
        (ProgramState::This | ProgramState::SameVersion | ProgramState::NotAsked, None) => return None,
    };
    Some(wrong)
}

fn is_older(version: &str) -> bool {
    program_version::compare(version, OWN) == Some(Ordering::Less)
}

fn outside() -> Result<Vec<Outside>, Failure> {
    let folders = folders::of_this_user()?;
    let claude_code = files::claude_code(&folders);
    let places = Places { folders: &folders, claude_code: &claude_code, system: Path::new("/") };
    Ok(outside::find(places))
}

/// What is known of the clients that have a file here.
fn patience(files: &[FileReport]) -> Vec<PatienceReport> {
    let clients = CLIENTS.iter().filter(|client| files.iter().any(|file| file.client == Some(client.id)));
    let known = |client: &Client| Some(PatienceReport { client_name: client.name, known: patience::of(client.id)? });
    clients.filter_map(known).collect()
}

fn journal() -> Result<JournalReport, Failure> {
    let folder = folders::state()?;
    let JournalState { files, is_in_use, problem } = JournalState::of(&folder);
    let gone = files.into_iter().filter(|file| !file.exists()).collect();
    Ok(JournalReport { path: journal::path(&folder), gone, in_use: is_in_use, problem })
}
