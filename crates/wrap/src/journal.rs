//! What `wrap` added to each file, for `unwrap`.
//!
//! A wrapped command tells by itself how it was before; only one thing it cannot tell, whether it had no arguments or an
//! empty list of them. That is kept here. Without it a file means the same, and has one member more. Of an entry that was
//! at a URL the names of its members are kept, and the value of its `type`. No URL, no value of a header and no other
//! value is ever in it; it is readable by its owner only all the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    file::{self, private},
    remote::UrlNote,
};

/// The file that is locked.
const LOCK: &str = "wrap.lock";

/// The journal, and the right to change files: one process has it at a time.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    files: Files,
    _lock: File,
}

/// What can be seen of a journal without opening it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalState {
    /// The files that it tells of.
    pub files: Vec<PathBuf>,
    /// Whether another process has it open.
    pub is_in_use: bool,
    /// Why it cannot be read, if it cannot.
    pub problem: Option<String>,
}

/// For each file, what was added to it.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Files {
    #[serde(default)]
    files: BTreeMap<PathBuf, Vec<Addition>>,
    /// Files with a shim that only their path leads to: a person has named them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    named: BTreeSet<PathBuf>,
}

/// What is kept of one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Addition {
    /// The keys of the server.
    server: Vec<String>,
    #[serde(flatten)]
    note: Note,
}

/// What a changed server does not tell of itself.
///
/// It never grows: a note that was not understood could not be undone, and a file would stay changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// The text of its arguments, which it did not have before.
    #[serde(rename = "text")]
    Arguments(String),
    /// How it was at its URL.
    #[serde(rename = "url")]
    Url(UrlNote),
}

/// Where the journal of a folder is.
#[must_use]
pub fn path(folder: &Path) -> PathBuf {
    folder.join("wrapped.json")
}

impl JournalState {
    /// Looks at the journal of a folder, and changes nothing.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        let is_in_use = file::open(&folder.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_err());
        let read = match file::content(&path(folder)) {
            Ok(bytes) => serde_json::from_slice::<Files>(&bytes).map_err(|error| error.to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Files::default()),
            Err(error) => Err(error.to_string()),
        };
        match read {
            Ok(Files { files, named }) => {
                let all: BTreeSet<PathBuf> = files.into_keys().chain(named).collect();
                Self { files: all.into_iter().collect(), is_in_use, problem: None }
            }
            Err(problem) => Self { files: Vec::new(), is_in_use, problem: Some(problem) },
        }
    }
}

impl Journal {
    /// Opens the journal in a folder, and creates the folder if it does not exist. Waits while another process has the
    /// journal open.
    ///
    /// # Errors
    ///
    /// If the folder cannot be used. A journal that cannot be read counts as empty.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let mut create = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut create, 0o700);
        create.recursive(true).create(folder)?;
        let lock = private(OpenOptions::new().write(true).create(true).truncate(false)).open(folder.join(LOCK))?;
        lock.lock()?;
        let path = path(folder);
        let files = match file::content(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Files::default(),
            Err(error) => return Err(error),
        };
        Ok(Self { path, files, _lock: lock })
    }

    /// Forgets files that are no longer there.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn forget_missing(&mut self) -> io::Result<()> {
        let count = |files: &Files| files.files.len() + files.named.len();
        let before = count(&self.files);
        self.files.files.retain(|file, _| file.exists());
        self.files.named.retain(|file| file.exists());
        if count(&self.files) == before { Ok(()) } else { self.save() }
    }

    /// Remembers that a file that a person has named has a shim in it, or forgets it. It is on disk before this returns.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn remember_named(&mut self, file: &Path, has_shim: bool) -> io::Result<()> {
        let changed = if has_shim { self.files.named.insert(file.to_owned()) } else { self.files.named.remove(file) };
        if changed { self.save() } else { Ok(()) }
    }

    /// What is kept of this server of this file.
    #[must_use]
    pub fn note_of(&self, file: &Path, server: &[String]) -> Option<&Note> {
        let additions = self.files.files.get(file)?;
        additions.iter().find(|one| one.server == server).map(|one| &one.note)
    }

    /// Keeps what the file will no longer tell of these servers, and nothing else of them. It is on disk before this returns.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn note(
        &mut self,
        file: &Path,
        notes: impl IntoIterator<Item = (Vec<String>, Option<Note>)>,
    ) -> io::Result<()> {
        let known = self.files.files.entry(file.to_owned()).or_default();
        for (server, note) in notes {
            known.retain(|one| one.server != server);
            known.extend(note.map(|note| Addition { server, note }));
        }
        if known.is_empty() {
            self.files.files.remove(file);
        }
        self.save()
    }

    /// Forgets what was added to these servers, which is no longer there.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn forget<'a>(&mut self, file: &Path, servers: impl IntoIterator<Item = &'a [String]>) -> io::Result<()> {
        let Some(known) = self.files.files.get_mut(file) else { return Ok(()) };
        for server in servers {
            known.retain(|one| one.server != server);
        }
        if known.is_empty() {
            self.files.files.remove(file);
        }
        self.save()
    }

    fn save(&self) -> io::Result<()> {
        let beside = self.path.with_extension("new");
        let mut file = private(OpenOptions::new().write(true).create(true).truncate(true)).open(&beside)?;
        file.write_all(&serde_json::to_vec_pretty(&self.files)?)?;
        file.sync_all()?;
        fs::rename(&beside, &self.path)
    }
}
