//! The programs that wrapped servers name.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::Duration,
};

use super::report::{ProgramReport, ProgramState};
use crate::{
    origin::Origin,
    program_version,
    wrap::program::{is_executable, on_path, same},
};

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(2);

/// Looks at programs, and at each only once.
#[derive(Debug)]
pub(super) struct Programs {
    /// The program that examines.
    this: PathBuf,
    origin: Origin,
    known: HashMap<(String, bool), ProgramReport>,
}

impl Programs {
    pub(super) fn new(this: PathBuf) -> Self {
        Self { origin: Origin::of(&this), this, known: HashMap::new() }
    }

    /// How the program that examines came to this machine.
    pub(super) const fn origin(&self) -> Origin {
        self.origin
    }

    /// Looks at a program by the word of a file. One that only others have named is not run.
    pub(super) fn look(&mut self, word: &str, is_trusted: bool) -> ProgramReport {
        let key = (word.to_owned(), is_trusted);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let found = self.examine(word, is_trusted);
        self.known.insert(key, found.clone());
        found
    }

    fn examine(&self, word: &str, is_trusted: bool) -> ProgramReport {
        let is_bare = !word.contains(['/', '\\']);
        let path = if is_bare { on_path(Path::new(word)) } else { Some(PathBuf::from(word)) };
        let origin = path.as_deref().map_or(Origin::Other, Origin::of);
        let of = |state, version| ProgramReport {
            path: word.to_owned(),
            state,
            version,
            temporary: origin.passing_place(),
            origin,
        };
        let Some(path) = path.as_deref().filter(|path| path.is_file()) else {
            return of(ProgramState::Missing, None);
        };
        if !is_executable(path) {
            return of(ProgramState::NotExecutable, None);
        }
        let own = program_version::OWN;
        if same(path, &self.this) {
            return of(ProgramState::This, Some(own.to_owned()));
        }
        if !is_trusted && !is_bare {
            return of(ProgramState::NotAsked, None);
        }
        match program_version::ask(path, PATIENCE) {
            None => of(ProgramState::NoAnswer, None),
            Some(version) if version == own => of(ProgramState::SameVersion, Some(version)),
            Some(version) => of(ProgramState::OtherVersion, Some(version)),
        }
    }
}
