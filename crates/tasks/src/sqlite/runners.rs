//! The processes that share a file: which are alive, and how to wake them.
//!
//! Each process has two files in a folder beside the database. One is locked as long as the process lives: the operating
//! system unlocks it however the process dies, so no process id has to be trusted. The other is its doorbell.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    error::StoreFault,
    id::random_hex,
    sqlite::{
        database,
        doorbell::{BELL, Doorbell},
    },
};

/// Locked while a process opens the database, so that it is not taken for dead before it has locked its own file.
const OPENING: &str = "opening";
/// Locked by the process that writes next.
const NEXT: &str = "next";
const LOCK: &str = "lock";

/// How long a process waits for its turn to write, and how often it tries.
const TURN_LIMIT: Duration = Duration::from_millis(100);
pub(super) const RETRY_INTERVAL: Duration = Duration::from_micros(300);

/// This process among those that share the file. Dropping it removes its files.
#[derive(Debug)]
pub(super) struct Runners {
    folder: PathBuf,
    name: Arc<str>,
    /// Locked as long as this process lives.
    _alive: File,
    next: File,
    bell: Doorbell,
}

impl Runners {
    /// Joins the processes that share the database at `path`: opens it with `open`, and removes the files of dead
    /// processes.
    pub(super) fn join<T>(path: &Path, open: impl FnOnce() -> Result<T, StoreFault>) -> Result<(Self, T), StoreFault> {
        let mut folder = path.as_os_str().to_owned();
        folder.push(".runners");
        let folder = PathBuf::from(folder);
        let in_folder = |error: io::Error| database::at(&folder, &error);

        make_private(&folder).map_err(in_folder)?;
        let common = |name: &str| File::options().append(true).create(true).open(folder.join(name)).map_err(in_folder);
        let (opening, next) = (common(OPENING)?, common(NEXT)?);
        opening.lock().map_err(in_folder)?;
        let opened = open()?;
        clear(&folder).map_err(in_folder)?;

        let name: Arc<str> = random_hex()?.into();
        let alive = File::create_new(folder.join(format!("{name}.{LOCK}"))).map_err(in_folder)?;
        alive.lock().map_err(in_folder)?;
        let bell = Doorbell::hang(&folder, &name).map_err(in_folder)?;
        Ok((Self { folder, name, _alive: alive, next, bell }, opened))
    }

    /// Returns the name of this process, which no other ever had.
    pub(super) const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether the process of that name is dead. In doubt it is not.
    pub(super) fn is_dead(&self, name: &str) -> bool {
        if *name == *self.name || !is_name(name) {
            return false;
        }
        match File::open(self.folder.join(format!("{name}.{LOCK}"))) {
            Ok(file) => file.try_lock().is_ok(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Wakes every other process.
    pub(super) fn wake_others(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = path.file_stem().and_then(|name| name.to_str());
            if path.extension().is_some_and(|kind| kind == BELL)
                && let Some(name) = name.filter(|name| **name != *self.name)
            {
                self.bell.ring(&self.folder, name);
            }
        }
    }

    /// Wakes the watcher of this process.
    pub(super) fn wake_self(&self) {
        self.bell.ring_own();
    }

    /// Begins a transaction when it is this process's turn. SQLite's own lock is not fair: without turns, a process that
    /// writes without a pause would keep the others out. The wait is short, since the process whose turn it is may be
    /// stopped in a debugger.
    pub(super) fn in_turn<T>(&self, begin: impl FnOnce() -> T) -> T {
        let until = Instant::now() + TURN_LIMIT;
        let is_next = loop {
            match self.next.try_lock() {
                Ok(()) => break true,
                Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(RETRY_INTERVAL),
                Err(_) => break false,
            }
        };
        let begun = begin();
        if is_next {
            // If this fails, the end of the process unlocks it.
            let _ = self.next.unlock();
        }
        begun
    }

    /// Waits for the doorbell, with a limit. Returns whether it rang.
    pub(super) fn wait(&self, at_most: Option<Duration>) -> io::Result<bool> {
        self.bell.wait(at_most)
    }
}

impl Drop for Runners {
    fn drop(&mut self) {
        // The next process that opens the database removes what remains.
        for kind in [BELL, LOCK] {
            let _ = fs::remove_file(self.folder.join(format!("{}.{kind}", self.name)));
        }
    }
}

/// Makes the folder, or closes it to others.
#[cfg(unix)]
fn make_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
        }
        made => made,
    }
}

/// Makes the folder. It is as private as the one that it is in.
#[cfg(windows)]
fn make_private(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Removes the files of dead processes.
fn clear(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_lock = path.extension().is_some_and(|kind| kind == LOCK);
        let is_dead = |lock: &Path| match File::open(lock) {
            Ok(file) => !matches!(file.try_lock(), Err(TryLockError::WouldBlock)),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        let is_bell = path.extension().is_some_and(|kind| kind == BELL);
        if (is_lock || is_bell) && is_dead(&path.with_extension(LOCK)) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
    }
    Ok(())
}

/// Whether the text is a result of [`random_hex`]. A name from the database must not lead out of the folder.
fn is_name(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
