//! The processes that share a file: which are alive, and how to wake them.
//!
//! Each process has two files in a folder beside the database. One is locked as long as the process lives: the operating
//! system unlocks it however the process dies, so no process id has to be trusted. The other is a socket, its doorbell.
//! A doorbell message carries no data; the receiver reads the database.

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

use crate::{error::StoreFault, id::random_hex, sqlite::database};

/// Locked while a process opens the database, so that it is not taken for dead before it has locked its own file.
const OPENING: &str = "opening";
/// Locked by the process that writes next.
const NEXT: &str = "next";
const LOCK: &str = "lock";
const BELL: &str = "bell";

/// How long a process waits for its turn to write, and how often it tries.
const TURN_LIMIT: Duration = Duration::from_millis(100);
pub(super) const RETRY_INTERVAL: Duration = Duration::from_micros(300);

/// A length that every system allows in a socket address.
const MAX_ADDRESS: usize = 100;

/// This process among those that share the file. Dropping it removes its files.
#[derive(Debug)]
pub(super) struct Runners {
    folder: PathBuf,
    /// A descriptor of the folder, for addresses that would be too long.
    open_folder: File,
    name: Arc<str>,
    /// Locked as long as this process lives.
    _alive: File,
    next: File,
    bell: UnixDatagram,
    /// Sends to our own doorbell, even if its file was deleted.
    own: UnixDatagram,
    /// Sends to other processes.
    others: UnixDatagram,
}

impl Runners {
    /// Joins the processes that share the database at `path`: opens it with `open`, and removes the files of dead
    /// processes.
    pub(super) fn join<T>(path: &Path, open: impl FnOnce() -> Result<T, StoreFault>) -> Result<(Self, T), StoreFault> {
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
        let (bell, own) = bind_doorbell(&doorbell_address(&folder, &open_folder, &name)).map_err(in_folder)?;
        own.set_nonblocking(true).map_err(in_folder)?;
        let others = UnixDatagram::unbound().map_err(in_folder)?;
        others.set_nonblocking(true).map_err(in_folder)?;
        Ok((Self { folder, open_folder, name, _alive: alive, next, bell, own, others }, opened))
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
                // Full: it has messages that it has not read. Refused: it is dead.
                let _ = self.others.send_to(&[0], doorbell_address(&self.folder, &self.open_folder, name));
            }
        }
    }

    /// Wakes the watcher of this process.
    pub(super) fn wake_self(&self) {
        let _ = self.own.send(&[0]);
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
        self.bell.set_nonblocking(false)?;
        self.bell.set_read_timeout(at_most)?;
        let rang = match self.bell.recv(&mut [0]) {
            Ok(_) => true,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
            Err(error) => return Err(error),
        };
        // One check of the database answers every message so far.
        self.bell.set_nonblocking(true)?;
        while rang && self.bell.recv(&mut [0]).is_ok() {}
        Ok(rang)
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

/// Binds a doorbell and a sender to it. Without sockets in the file system, only this process can ring it.
fn bind_doorbell(address: &Path) -> io::Result<(UnixDatagram, UnixDatagram)> {
    let bound = UnixDatagram::bind(address).and_then(|bell| {
        let own = UnixDatagram::unbound()?;
        own.connect(address)?;
        Ok((bell, own))
    });
    // Then the slow check finds changes of other processes.
    bound.or_else(|_| UnixDatagram::pair())
}

/// Returns the address of a doorbell: its path, or a shorter path to the same file.
fn doorbell_address(folder: &Path, open_folder: &File, name: &str) -> PathBuf {
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

/// Whether the text is a result of [`random_hex`]. A name from the database must not lead out of the folder.
fn is_name(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
