//! What `rescind doctor` found: the document of `--json`, which `docs/clients.md` describes.

use std::path::PathBuf;

use rescind_wrap::{outside::Outside, patience::Patience};
use serde::Serialize;

use super::sharing::SharingReport;
use crate::{completion::Completion, origin::Origin};

/// What was found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The version of this document. Members may be added to it; if one changes its meaning, the number does too.
    pub(super) format: u32,
    pub(super) program: ThisProgram,
    pub(super) files: Vec<FileReport>,
    pub(super) outside: Vec<Outside>,
    pub(super) sharing: Vec<SharingReport>,
    pub(super) patience: Vec<PatienceReport>,
    pub(super) journal: JournalReport,
    /// How many things want attention.
    pub(super) attention: usize,
    /// How many things could not be read.
    pub(super) unreadable: usize,
}

/// The program that examines.
#[derive(Debug, Serialize)]
pub(super) struct ThisProgram {
    pub(super) path: String,
    pub(super) version: &'static str,
    /// Why its place will not stay, if it will not.
    pub(super) temporary: Option<&'static str>,
    /// Where `rescind wrap` puts a copy of it that stays, if it does that.
    pub(super) copy: Option<PathBuf>,
    /// The words that start it again.
    #[serde(skip)]
    pub(super) call: String,
}

/// A file of a client's.
#[derive(Debug, Serialize)]
pub(super) struct FileReport {
    pub(super) client: Option<&'static str>,
    #[serde(skip)]
    pub(super) client_name: Option<&'static str>,
    pub(super) path: PathBuf,
    /// Whether other people may have it too.
    pub(super) shared: bool,
    /// Why it cannot be read, if it cannot.
    pub(super) problem: Option<String>,
    /// What its client is known to refuse of it, and then starts none of its servers.
    pub(super) refused: Vec<String>,
    /// A new version of the file that an interrupted `rescind wrap` left beside it.
    pub(super) leftover: Option<PathBuf>,
    pub(super) servers: Vec<ServerReport>,
}

/// A server.
#[derive(Debug, Serialize)]
pub(super) struct ServerReport {
    pub(super) name: String,
    /// The keys that lead to it in its file.
    pub(super) keys: Vec<String>,
    /// Whether its client has it switched off.
    pub(super) disabled: bool,
    pub(super) state: ServerState,
    /// The state in words: for a server without a shim, the reason.
    pub(super) why: String,
    /// How many shims are before it.
    pub(super) shims: usize,
    /// The program of the first of them.
    pub(super) program: Option<ProgramReport>,
    /// What wants attention, if something does.
    pub(super) attention: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ServerState {
    Wrapped,
    WrappedByHand,
    NotWrapped,
}

/// The program that a wrapped server's file names.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ProgramReport {
    /// As the file has it.
    pub(super) path: String,
    pub(super) state: ProgramState,
    /// Its version, if it is known.
    pub(super) version: Option<String>,
    /// Why its place will not stay, if it will not.
    pub(super) temporary: Option<&'static str>,
    /// How it came to this machine.
    #[serde(skip)]
    pub(super) origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ProgramState {
    /// The program that examines.
    This,
    /// Another one, of the same version.
    SameVersion,
    OtherVersion,
    Missing,
    NotExecutable,
    /// It did not say its version in time.
    NoAnswer,
    /// Only a file that others wrote names it, so it was not run.
    NotAsked,
}

/// How long a client waits, and what it tells its servers when it gives up.
#[derive(Debug, Serialize)]
pub(super) struct PatienceReport {
    #[serde(skip)]
    pub(super) client_name: &'static str,
    #[serde(flatten)]
    pub(super) known: &'static Patience,
}

/// What `rescind wrap` remembers.
#[derive(Debug, Serialize)]
pub(super) struct JournalReport {
    pub(super) path: PathBuf,
    /// Files that it tells of and that are gone.
    pub(super) gone: Vec<PathBuf>,
    /// Whether a `rescind wrap` or `unwrap` has it open now.
    pub(super) in_use: bool,
    pub(super) problem: Option<String>,
}

impl Report {
    /// Counts what wants attention and what could not be read.
    pub(super) fn count(&mut self) {
        let Self { program, files, outside, journal, .. } = &*self;
        let of_file = |file: &FileReport| {
            file.servers.iter().filter(|server| server.attention.is_some()).count()
                + usize::from(file.leftover.is_some())
                + file.refused.len()
        };
        let attention = files.iter().map(of_file).sum::<usize>()
            + usize::from(program.temporary.is_some() && program.copy.is_none())
            + journal.gone.len()
            + usize::from(journal.in_use);
        let unreadable = files.iter().filter(|file| file.problem.is_some()).count()
            + outside.iter().filter(|one| one.problem.is_some()).count()
            + usize::from(journal.problem.is_some());
        (self.attention, self.unreadable) = (attention, unreadable);
    }

    pub(super) const fn completion(&self) -> Completion {
        match (self.unreadable, self.attention) {
            (0, attention) => Completion::whole_if(attention == 0),
            _ => Completion::Failed,
        }
    }
}
