//! Where a shared server is found: a socket, and a file that its sessions hold.
//!
//! Each session holds a shared lock on that file for as long as it lives, however it ends. The process that holds the server
//! waits for an exclusive one: it has that when all have left. Who joins, and who ends, does so in turn, by a lock on the
//! folder: so a session never joins a server that is ending, and of many that find none, one starts it.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::OwnedFd,
        unix::{
            fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
            net::UnixListener,
        },
    },
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketType},
};

const SOCKET: &str = "sock";
const MEMBERS: &str = "members";

/// How long a turn is waited for. Each takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// The wait between two attempts to have a turn.
const PAUSE: Duration = Duration::from_millis(2);

/// Where one shared server is found.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    folder: PathBuf,
    /// What the names of its files begin with.
    stem: String,
}

/// A session that shares the server, for as long as it lives.
#[derive(Debug)]
pub(super) struct Membership {
    _file: File,
}

/// What was found when a session joined.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) membership: Membership,
    /// A server of the same name runs that is another one.
    pub(super) has_namesake: bool,
}

impl Place {
    /// Where a server is found that is known as this and is this one, in a folder that is private.
    pub(super) fn new(folder: PathBuf, [known_as, own]: &[String; 2]) -> Self {
        Self { folder, stem: format!("{known_as}-{own}") }
    }

    /// The place whose socket has this path.
    pub(super) fn of_socket(path: &Path) -> Option<Self> {
        Some(Self { folder: path.parent()?.to_owned(), stem: path.file_stem()?.to_str()?.to_owned() })
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.file(&self.stem, SOCKET)
    }

    fn file(&self, stem: &str, suffix: &str) -> PathBuf {
        self.folder.join(format!("{stem}.{suffix}"))
    }

    /// Joins the server; where none answers, `start` starts one that listens on this socket.
    pub(super) fn join(&self, start: impl FnOnce(UnixListener) -> io::Result<()>) -> io::Result<Joined> {
        let _turn = Turn::wait(&self.folder)?;
        let members = self.open_members()?;
        // Others lock it for themselves alone only in their turn.
        retried(|| flock(&members, FlockOperation::NonBlockingLockShared))?;
        let socket = self.socket();
        if !answers(&socket) {
            remove(&socket)?;
            let listener = UnixListener::bind(&socket)?;
            fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))?;
            if let Err(error) = start(listener) {
                let _ = fs::remove_file(&socket);
                return Err(error);
            }
        }
        let has_namesake = self.look_around();
        Ok(Joined { membership: Membership { _file: members }, has_namesake })
    }

    /// Waits until all sessions have left, and none has come for so long; then none can join any more. It blocks.
    pub(super) fn outlive(&self, grace: Duration) -> io::Result<()> {
        let members = self.open_members()?;
        loop {
            retried(|| flock(&members, FlockOperation::LockExclusive))?;
            retried(|| flock(&members, FlockOperation::Unlock))?;
            thread::sleep(grace);
            let _turn = Turn::wait(&self.folder)?;
            match flock(&members, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    // Somebody may have cleared the folder, and another server be there.
                    let file = self.file(&self.stem, MEMBERS);
                    if fs::symlink_metadata(&file).is_ok_and(|found| is_same(&found, &members)) {
                        remove(&self.socket())?;
                        remove(&file)?;
                    }
                    return Ok(());
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn open_members(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(self.file(&self.stem, MEMBERS))
    }

    /// Removes what servers and sessions that were killed have left; `true` if another server of this name answers.
    fn look_around(&self) -> bool {
        let own = self.stem.split('-').next().unwrap_or_default();
        let mut has_namesake = false;
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
            if stem == self.stem || path.extension().is_none_or(|suffix| suffix != MEMBERS) {
                continue;
            }
            let socket = self.file(stem, SOCKET);
            if answers(&socket) {
                has_namesake |= stem.split('-').next() == Some(own);
                continue;
            }
            let Ok(members) = OpenOptions::new().read(true).open(&path) else { continue };
            if flock(&members, FlockOperation::NonBlockingLockExclusive).is_ok() {
                let _ = fs::remove_file(socket);
                let _ = fs::remove_file(path);
            }
        }
        has_namesake
    }
}

/// The right to join or to end, of one process at a time. A process that dies gives it back.
struct Turn {
    _folder: File,
}

impl Turn {
    fn wait(folder: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = File::from(rustix::fs::open(folder, flags, Mode::empty())?);
        let until = Instant::now() + PATIENCE;
        loop {
            match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _folder: folder }),
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < until => thread::sleep(PAUSE),
                Err(Errno::WOULDBLOCK) => {
                    let why = "another rescind that joins a shared server has not gone on for ten seconds";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, why));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Whether somebody listens on this socket. One whose queue is full is there, too.
fn answers(path: &Path) -> bool {
    let Ok(address) = SocketAddrUnix::new(path) else { return false };
    let connected = unconnected().and_then(|socket| rustix::net::connect(&socket, &address));
    matches!(connected, Ok(()) | Err(Errno::AGAIN | Errno::INPROGRESS))
}

/// A socket on which no call blocks.
fn unconnected() -> rustix::io::Result<OwnedFd> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    Ok(socket)
}

fn is_same(found: &fs::Metadata, file: &File) -> bool {
    file.metadata().is_ok_and(|file| (file.dev(), file.ino()) == (found.dev(), found.ino()))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn retried<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn place(folder: &tempfile::TempDir, known_as: &str, own: &str) -> Place {
        Place::new(folder.path().to_owned(), &[known_as.into(), own.into()])
    }

    /// Twenty at once, round after round: the server ends between them.
    #[test]
    fn of_many_that_come_at_once_one_starts_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(&folder, "a", "1");
        for _ in 0..20 {
            let (started, listener) = (AtomicUsize::new(0), std::sync::Mutex::new(None));
            thread::scope(|scope| {
                for _ in 0..20 {
                    scope.spawn(|| {
                        let start = |one| {
                            started.fetch_add(1, Ordering::Relaxed);
                            *listener.lock().unwrap() = Some(one);
                            Ok(())
                        };
                        place.join(start).unwrap()
                    });
                }
            });
            assert_eq!(started.into_inner(), 1);
        }
    }

    #[test]
    fn a_server_ends_when_the_last_session_has_left_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(&folder, "a", "1");
        let mut listener = None;
        let mut start = |one| {
            listener = Some(one);
            Ok(())
        };
        let first = place.join(&mut start).unwrap();
        let second = place.join(|_| panic!("there is one")).unwrap();
        thread::scope(|scope| {
            let ended = scope.spawn(|| place.outlive(Duration::ZERO));
            drop(first);
            assert!(!ended.is_finished() && place.socket().exists());
            drop(second);
            ended.join().unwrap().unwrap();
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_was_killed_leaves_nothing_that_the_next_one_minds() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (place(&folder, "a", "1"), place(&folder, "b", "2"));
        // The listener is closed and its socket stays, as that of a process that was killed.
        drop(
            other
                .join(|listener| {
                    drop(listener);
                    Ok(())
                })
                .unwrap(),
        );
        assert!(other.socket().exists());
        let mut listeners = Vec::new();
        let joined = one
            .join(|listener| {
                listeners.push(listener);
                Ok(())
            })
            .unwrap();
        assert!(!other.socket().exists() && !joined.has_namesake);
        listeners.clear();
        drop(
            one.join(|listener| {
                listeners.push(listener);
                Ok(())
            })
            .unwrap(),
        );
        assert_eq!(listeners.len(), 1, "the dead one was replaced");
    }

    #[test]
    fn a_server_of_the_same_name_that_is_another_one_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let mut listeners = Vec::new();
        let mut join = |known_as, own| {
            place(&folder, known_as, own)
                .join(|listener| {
                    listeners.push(listener);
                    Ok(())
                })
                .unwrap()
        };
        let first = join("a", "1");
        let (namesake, stranger) = (join("a", "2"), join("b", "1"));
        assert!(!first.has_namesake && namesake.has_namesake && !stranger.has_namesake);
    }

    #[test]
    fn a_server_that_cannot_be_started_leaves_no_socket() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(&folder, "a", "1");
        place.join(|_| Err(io::Error::other("no"))).unwrap_err();
        assert!(!place.socket().exists());
        place.join(|_| Ok(())).unwrap();
    }
}
