//! The processes that share a file: who is alive, and how to wake them.
//!
//! Each has two files of its own in a folder beside the database: one that it holds locked as long as it lives, which
//! the operating system ends however the process dies, and a socket that is its doorbell. No process id is trusted. A
//! doorbell carries nothing: whoever hears it looks into the database.

use std::{
    fs::{self, DirBuilder, File, Permissions, TryLockError},
    io,
    os::{
        fd::AsRawFd,
        unix::{
            fs::{DirBuilderExt, PermissionsExt},
            net::UnixDatagram,
        },
    },
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::{error::Fault, id::random_hex, sqlite::database};

/// Held while a process opens the database, so that none is taken for dead before it has locked its file.
const OPENING: &str = "opening";
/// Held by the process that is next to write.
const NEXT: &str = "next";
const LOCK: &str = "lock";
const BELL: &str = "bell";

/// How long a process waits for its turn, and how often it looks.
const COURTESY: Duration = Duration::from_millis(100);
pub(super) const TURN: Duration = Duration::from_micros(300);

/// What fits into the address of a socket everywhere.
const MAX_ADDRESS: usize = 100;

/// This process among those that share the file. Dropping it removes its files.
#[derive(Debug)]
pub(super) struct Runners {
    folder: PathBuf,
    /// Holds the folder open, for addresses that would be too long.
    open_folder: File,
    name: Arc<str>,
    /// Locked as long as the process lives.
    _alive: File,
    next: File,
    bell: UnixDatagram,
    /// Sends to our own doorbell, even if its file is gone.
    own: UnixDatagram,
    /// Sends to those of others.
    others: UnixDatagram,
}

impl Runners {
    /// Joins those that share the database at `path`, while `open` opens it; clears away what dead ones left.
    pub(super) fn join<T>(path: &Path, open: impl FnOnce() -> Result<T, Fault>) -> Result<(Self, T), Fault> {
        let mut folder = path.as_os_str().to_owned();
        folder.push(".runners");
        let folder = PathBuf::from(folder);
        let in_folder = |error: io::Error| database::at(&folder, &error);

        let made = DirBuilder::new().mode(0o700).create(&folder);
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::set_permissions(&folder, Permissions::from_mode(0o700)).map_err(in_folder)?;
            }
            made => made.map_err(in_folder)?,
        }
        let common = |name: &str| File::options().append(true).create(true).open(folder.join(name)).map_err(in_folder);
        let (opening, next) = (common(OPENING)?, common(NEXT)?);
        opening.lock().map_err(in_folder)?;
        let opened = open()?;
        clear(&folder).map_err(in_folder)?;

        let name: Arc<str> = random_hex()?.into();
        let alive = File::create_new(folder.join(format!("{name}.{LOCK}"))).map_err(in_folder)?;
        alive.lock().map_err(in_folder)?;
        let open_folder = File::open(&folder).map_err(in_folder)?;
        let (bell, own) = hang(&reach(&folder, &open_folder, &name)).map_err(in_folder)?;
        own.set_nonblocking(true).map_err(in_folder)?;
        let others = UnixDatagram::unbound().map_err(in_folder)?;
        others.set_nonblocking(true).map_err(in_folder)?;
        Ok((Self { folder, open_folder, name, _alive: alive, next, bell, own, others }, opened))
    }

    /// This process's name, unlike any other's before.
    pub(super) const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether the process of that name has ended. In doubt it lives.
    pub(super) fn is_dead(&self, name: &str) -> bool {
        if *name == *self.name || !is_name(name) {
            return false;
        }
        match File::open(self.folder.join(format!("{name}.{LOCK}"))) {
            Ok(file) => file.try_lock().is_ok(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Wakes every other process; one that is awake, or gone, is none the worse.
    pub(super) fn ring_others(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = path.file_stem().and_then(|name| name.to_str());
            if path.extension().is_some_and(|kind| kind == BELL)
                && let Some(name) = name.filter(|name| **name != *self.name)
            {
                // Full: it has been rung and not looked yet. Refused: it is dead.
                let _ = self.others.send_to(&[0], reach(&self.folder, &self.open_folder, name));
            }
        }
    }

    /// Wakes this process's own watcher.
    pub(super) fn ring_own(&self) {
        let _ = self.own.send(&[0]);
    }

    /// Has a transaction begin once it is this process's turn, so that one that writes without a pause cannot keep the others
    /// out: SQLite itself gives its lock to whoever happens to ask at the right moment. A courtesy, not a lock: it is
    /// waited for no longer than a while, since whoever is next may be stopped by a debugger.
    pub(super) fn in_turn<T>(&self, begin: impl FnOnce() -> T) -> T {
        let until = Instant::now() + COURTESY;
        let is_next = loop {
            match self.next.try_lock() {
                Ok(()) => break true,
                Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(TURN),
                Err(_) => break false,
            }
        };
        let begun = begin();
        if is_next {
            // The end of this process unlocks it as well.
            let _ = self.next.unlock();
        }
        begun
    }

    /// Waits for the doorbell, so long at most; says whether it rang.
    pub(super) fn wait(&self, at_most: Option<Duration>) -> io::Result<bool> {
        self.bell.set_nonblocking(false)?;
        self.bell.set_read_timeout(at_most)?;
        let rang = match self.bell.recv(&mut [0]) {
            Ok(_) => true,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
            Err(error) => return Err(error),
        };
        // One look answers every ring up to now.
        self.bell.set_nonblocking(true)?;
        while rang && self.bell.recv(&mut [0]).is_ok() {}
        Ok(rang)
    }
}

impl Drop for Runners {
    fn drop(&mut self) {
        // What remains is cleared away by the next who opens the database.
        for kind in [BELL, LOCK] {
            let _ = fs::remove_file(self.folder.join(format!("{}.{kind}", self.name)));
        }
    }
}

/// A doorbell at that address and a sender to it; one that only this process can ring, if there can be no socket.
fn hang(address: &Path) -> io::Result<(UnixDatagram, UnixDatagram)> {
    let bound = UnixDatagram::bind(address).and_then(|bell| {
        let own = UnixDatagram::unbound()?;
        own.connect(address)?;
        Ok((bell, own))
    });
    // Where the file system has no sockets the slow check remains.
    bound.or_else(|_| UnixDatagram::pair())
}

/// The address of a doorbell: its path, or a shorter way to the same file.
fn reach(folder: &Path, open_folder: &File, name: &str) -> PathBuf {
    let path = folder.join(format!("{name}.{BELL}"));
    if cfg!(target_os = "linux") && path.as_os_str().len() > MAX_ADDRESS {
        return PathBuf::from(format!("/proc/self/fd/{}/{name}.{BELL}", open_folder.as_raw_fd()));
    }
    path
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

/// What [`random_hex`] gives; a name from the file is not to lead out of the folder.
fn is_name(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
