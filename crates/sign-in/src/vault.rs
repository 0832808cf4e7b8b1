//! Where sign-ins are kept: a file for each, which only its owner can read.
//!
//! A file is replaced as a whole, so a reader finds the old one or the new one. A token that can be used once to get the next
//! is used under a lock, and what another process has got with it meanwhile is found in the file.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use ring::digest::{SHA256, digest};

use crate::Record;

/// How long to wait for the lock at most: as long as another process may take to renew a token, and a little more.
const PATIENCE: Duration = Duration::from_secs(40);

/// How often the lock is tried.
const PAUSE: Duration = Duration::from_millis(50);

/// Random bytes before the words of an outcome: two outcomes with the same words differ.
const NONCE: usize = 16;

/// The longest file that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// Sign-ins in a folder.
#[derive(Clone, Debug)]
pub struct Vault {
    folder: PathBuf,
}

/// Why a sign-in cannot be kept or found.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VaultError {
    /// The file cannot be read or written.
    #[error("{path}: {why}")]
    File {
        /// Which.
        path: String,
        /// The system's error.
        why: String,
    },
    /// Others can read it or put another in its place, or it is theirs.
    #[error("{path} is not its owner's alone: remove it, or make it private (chmod go-rwx)")]
    Open {
        /// Which file or folder.
        path: String,
    },
    /// Another process has it locked, and does not let go.
    #[error("{path} is locked by another process")]
    Locked {
        /// Which.
        path: String,
    },
}

/// How often is looked for what another process has kept, or whether it still asks.
const WATCH_PAUSE: Duration = Duration::from_millis(250);

/// The right to ask the person for one sign-in, which one process has at a time; ends when it is dropped, and with its
/// process.
#[derive(Debug)]
pub(crate) struct Turn {
    _lock: File,
    /// Where the other processes read the outcome, if it was not a sign-in.
    outcome: PathBuf,
}

/// The right to change one sign-in; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Locked {
    _lock: File,
}

impl Vault {
    /// Sign-ins in this folder, which is created when the first is kept.
    #[must_use]
    pub const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The sign-in at this server, if there is one. A file that cannot be understood counts as none.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or somebody else could.
    pub fn read(&self, server: &str, profile: &str) -> Result<Option<Record>, VaultError> {
        let record = read(&self.path(server, profile))?;
        Ok(record.filter(|record| record.server == server && record.profile == profile))
    }

    /// All sign-ins, by server and profile. Files that cannot be understood count as none.
    ///
    /// # Errors
    ///
    /// If one cannot be read, or somebody else could read it.
    pub fn read_all(&self) -> Result<Vec<Record>, VaultError> {
        let found = match fs::read_dir(&self.folder) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(fault(&self.folder, &error)),
        };
        let mut records = Vec::new();
        for one in found {
            let path = one.map_err(|error| fault(&self.folder, &error))?.path();
            if path.extension().is_some_and(|kind| kind == "json") {
                // A file under another's name is not found by its server either.
                let is_its_own = |record: &Record| self.path(&record.server, &record.profile) == path;
                records.extend(read(&path)?.filter(is_its_own));
            }
        }
        records.sort_by(|a, b| (&a.server, &a.profile).cmp(&(&b.server, &b.profile)));
        Ok(records)
    }

    /// Keeps a sign-in, in place of an earlier one; the caller has its lock. It is on disk when this returns.
    pub(crate) fn write(&self, _lock: &Locked, record: &Record) -> Result<(), VaultError> {
        let path = self.path(&record.server, &record.profile);
        let beside = path.with_extension("new");
        let written = || {
            // Of a process that was killed.
            match fs::remove_file(&beside) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = private(OpenOptions::new().write(true).create_new(true)).open(&beside)?;
            file.write_all(record.to_text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, &path)
        };
        written().map_err(|error| fault(&path, &error))
    }

    /// Forgets a sign-in.
    pub(crate) fn remove(&self, server: &str, profile: &str) -> Result<(), VaultError> {
        let path = self.path(server, profile);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(fault(&path, &error)),
            _ => Ok(()),
        }
    }

    /// Waits for the right to change a sign-in. Dropping the future gives that up.
    pub(crate) async fn lock(&self, server: &str, profile: &str) -> Result<Locked, VaultError> {
        self.open()?;
        let path = self.path(server, profile).with_extension("lock");
        let file = private(OpenOptions::new().write(true).create(true).truncate(false)).open(&path);
        let file = file.map_err(|error| fault(&path, &error))?;
        let locked = tokio::time::timeout(PATIENCE, async {
            loop {
                match file.try_lock() {
                    Ok(()) => return Ok(()),
                    Err(TryLockError::WouldBlock) => tokio::time::sleep(PAUSE).await,
                    Err(TryLockError::Error(error)) => return Err(fault(&path, &error)),
                }
            }
        });
        locked.await.unwrap_or_else(|_| Err(VaultError::Locked { path: shown(&path) }))?;
        Ok(Locked { _lock: file })
    }

    /// Waits until what is kept is right, and gives it. What cannot be read now may be read the next time.
    pub(crate) async fn found(&self, server: &str, profile: &str, is_right: impl Fn(&Record) -> bool) -> Record {
        loop {
            if let Ok(Some(record)) = self.read(server, profile)
                && is_right(&record)
            {
                return record;
            }
            tokio::time::sleep(WATCH_PAUSE).await;
        }
    }

    /// Waits for the right to ask the person; `waits` is called if another process has it now. An error in words if one
    /// has asked in vain meanwhile.
    pub(crate) async fn turn(
        &self,
        server: &str,
        profile: &str,
        waits: impl FnOnce(),
    ) -> Result<Result<Turn, String>, VaultError> {
        self.open()?;
        let path = self.path(server, profile).with_extension("asking");
        let outcome = path.with_extension("outcome");
        let before = fs::read(&outcome).ok();
        let file = private(OpenOptions::new().write(true).create(true).truncate(false)).open(&path);
        let file = file.map_err(|error| fault(&path, &error))?;
        let mut waits = Some(waits);
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    if let Some(waits) = waits.take() {
                        waits();
                    }
                    tokio::time::sleep(WATCH_PAUSE).await;
                }
                Err(TryLockError::Error(error)) => return Err(fault(&path, &error)),
            }
        }
        let after = fs::read(&outcome).ok().filter(|after| Some(after) != before.as_ref());
        match after.as_deref().and_then(|after| after.split_first_chunk::<NONCE>()) {
            Some((_, words)) => Ok(Err(String::from_utf8_lossy(words).into_owned())),
            None => Ok(Ok(Turn { _lock: file, outcome })),
        }
    }

    /// Creates the folder if it is not there, and refuses one that is not private.
    fn open(&self) -> Result<(), VaultError> {
        let mut create = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut create, 0o700);
        create.recursive(true).create(&self.folder).map_err(|error| fault(&self.folder, &error))?;
        // Elsewhere a folder is not opened as a file is.
        #[cfg(unix)]
        check(&self.folder, &File::open(&self.folder).map_err(|error| fault(&self.folder, &error))?)?;
        Ok(())
    }

    /// The file of a sign-in. Its name does not reveal the server.
    fn path(&self, server: &str, profile: &str) -> PathBuf {
        let name = digest(&SHA256, format!("{server}\n{profile}").as_bytes());
        let name: String = name.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{name}.json"))
    }
}

impl Turn {
    /// Reports to the processes that wait for their turn that the person was asked in vain. Where that is not possible they
    /// ask themselves.
    pub(crate) fn tell(&self, words: &str) {
        // So that the same words twice are not the same outcome.
        let mut text = vec![0; NONCE];
        if getrandom::fill(&mut text).is_err() {
            return;
        }
        text.extend_from_slice(words.as_bytes());
        let file = private(OpenOptions::new().write(true).create(true).truncate(true)).open(&self.outcome);
        let _ = file.and_then(|mut file| file.write_all(&text));
    }
}

/// Reads a file, if it is there.
fn read(path: &Path) -> Result<Option<Record>, VaultError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fault(path, &error)),
    };
    check(path, &file)?;
    let mut text = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, LONGEST), &mut text).map_err(|error| fault(path, &error))?;
    Ok(Record::read(&text))
}

/// Has what is created readable by its owner only.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

fn fault(path: &Path, error: &io::Error) -> VaultError {
    VaultError::File { path: shown(path), why: error.to_string() }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Refuses what others can read or change, and what is not ours.
#[cfg(unix)]
fn check(path: &Path, file: &File) -> Result<(), VaultError> {
    use std::os::unix::fs::MetadataExt;
    let found = file.metadata().map_err(|error| fault(path, &error))?;
    let is_private = found.mode() & 0o077 == 0 && found.uid() == rustix::process::geteuid().as_raw();
    if is_private { Ok(()) } else { Err(VaultError::Open { path: shown(path) }) }
}

/// The user's own folder is private there.
#[cfg(windows)]
fn check(_: &Path, _: &File) -> Result<(), VaultError> {
    Ok(())
}
