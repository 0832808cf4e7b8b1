//! The programs that wrapped servers name.

use std::{
    collections::HashMap,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use super::report::{ProgramReport, ProgramState};
use crate::wrap::program::{on_path, same, temporary};

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(2);

/// Looks at programs, and at each only once.
#[derive(Debug)]
pub(super) struct Programs {
    /// The program that examines.
    this: PathBuf,
    known: HashMap<(String, bool), ProgramReport>,
}

impl Programs {
    pub(super) fn new(this: PathBuf) -> Self {
        Self { this, known: HashMap::new() }
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
        let of = |state, version| ProgramReport {
            path: word.to_owned(),
            state,
            version,
            temporary: path.as_deref().and_then(temporary),
        };
        let Some(path) = path.as_deref().filter(|path| path.is_file()) else {
            return of(ProgramState::Missing, None);
        };
        if !is_executable(path) {
            return of(ProgramState::NotExecutable, None);
        }
        let own = env!("CARGO_PKG_VERSION");
        if same(path, &self.this) {
            return of(ProgramState::This, Some(own.to_owned()));
        }
        if !is_trusted && !is_bare {
            return of(ProgramState::NotAsked, None);
        }
        match version(path) {
            None => of(ProgramState::NoAnswer, None),
            Some(version) if version == own => of(ProgramState::SameVersion, Some(version)),
            Some(version) => of(ProgramState::OtherVersion, Some(version)),
        }
    }
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// By its name.
#[cfg(windows)]
fn is_executable(path: &Path) -> bool {
    let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
    ["exe", "cmd", "bat", "com"].iter().any(|known| kind.eq_ignore_ascii_case(known))
}

/// Asks a program for its version.
fn version(path: &Path) -> Option<String> {
    let mut command = Command::new(path);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let output = child.stdout.take()?;
    let (done, answer) = mpsc::channel();
    // Ends with the pipe, which a child of the child may keep open: nobody waits for this thread.
    thread::spawn(move || {
        let mut text = String::new();
        let read = output.take(4096).read_to_string(&mut text);
        let _ = done.send(read.ok().map(|_| text));
    });
    let text = answer.recv_timeout(PATIENCE).ok().flatten();
    let _ = child.kill();
    let _ = child.wait();
    Some(text?.trim().strip_prefix("rescind ")?.to_owned())
}
