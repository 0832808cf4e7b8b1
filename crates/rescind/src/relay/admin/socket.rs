//! The socket in its directory.
//!
//! The directory is opened and checked once, and everything else is relative to its descriptor. So replacing the
//! directory later has no effect, and a path may be longer than the address of a socket. The socket is bound under a
//! hidden name and renamed once it listens: a socket that is found accepts connections. A socket is stale if the kernel
//! refuses a connection to it. A process id would prove nothing: it may have been reused, or come from another namespace.

use std::{
    fs::File,
    io::{self, Write as _},
    os::{fd::OwnedFd, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use rescind_feed::SOCKET_SUFFIX;
use rescind_ledger::record::Record;
use rustix::{
    fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketType},
};
use tokio::net::{UnixListener, UnixSocket, UnixStream};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 64;

/// Names to try before giving up.
const ATTEMPTS: u32 = 64;

/// The prefix of a socket that does not listen yet.
const UNFINISHED: &str = ".new-";

/// Sockets that this process has opened.
static OPENED: AtomicU32 = AtomicU32::new(0);

/// What listens.
pub(super) type Listener = UnixListener;

/// A connection to a client.
pub(super) type Connection = UnixStream;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub(in crate::relay) enum SocketError {
    #[error("the directory {0} cannot be used: {1}")]
    Directory(PathBuf, #[source] io::Error),
    #[error("{0} is a symbolic link or not a directory")]
    NoDirectory(PathBuf),
    #[error("the directory {0} belongs to another user")]
    NotOurs(PathBuf),
    #[error("the directory {0} is open to other users: its mode is {1:03o}, not 700")]
    OpenToOthers(PathBuf, u32),
    #[error("cannot create a socket in {0}: {1}")]
    Socket(PathBuf, #[source] io::Error),
}

/// A socket that is served under its name. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct AdminSocket {
    /// The name of the session.
    pub(super) name: String,
    directory: SocketDirectory,
    /// The session's record beside it.
    record: Option<String>,
}

impl AdminSocket {
    /// Creates the directory if it is missing, removes stale sockets, and listens.
    pub(super) fn open(path: &Path) -> Result<(Self, UnixListener), SocketError> {
        let directory = SocketDirectory::open(path)?;
        directory.clear();
        let (name, listener) = directory.listen().map_err(|error| SocketError::Socket(path.into(), error))?;
        Ok((Self { name, directory, record: None }, listener))
    }

    /// Leaves the session's record beside the socket, until it is dropped. A session without a record lacks only details.
    pub(super) fn keep(&mut self, record: &Record) {
        let name = record.file_name();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(&self.directory.fd, &name, flags, Mode::RUSR | Mode::WUSR) else { return };
        if let Ok(text) = serde_json::to_vec(record) {
            let _ = File::from(file).write_all(&text);
        }
        self.record = Some(name);
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        self.directory.remove(&file_of(&self.name));
        if let Some(record) = &self.record {
            self.directory.remove(record);
        }
    }
}

fn file_of(name: &str) -> String {
    format!("{name}{SOCKET_SUFFIX}")
}

/// A client whose user was checked; `None` if it was turned away.
pub(super) async fn accept(listener: &Listener) -> io::Result<Option<Connection>> {
    let (connection, _) = listener.accept().await?;
    if is_same_user(&connection) {
        return Ok(Some(connection));
    }
    refuse(&connection, "403 Forbidden", "this session belongs to another user");
    Ok(None)
}

/// Whether the client is this user or root.
fn is_same_user(connection: &UnixStream) -> bool {
    let ours = rustix::process::geteuid().as_raw();
    connection.peer_cred().is_ok_and(|peer| peer.uid() == ours || peer.uid() == 0)
}

/// Sends an answer that fits into any socket buffer, without reading a request.
fn refuse(connection: &UnixStream, status: &str, why: &str) {
    let body = format!(r#"{{"error":"{why}"}}"#);
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}");
    let _ = connection.try_write(format!("{head}\r\nconnection: close\r\n\r\n{body}").as_bytes());
}

/// A directory that only this user can use.
#[derive(Debug)]
struct SocketDirectory {
    fd: File,
    #[cfg(not(target_os = "linux"))]
    path: PathBuf,
}

impl SocketDirectory {
    fn open(path: &Path) -> Result<Self, SocketError> {
        let unusable = |error: Errno| match error {
            Errno::LOOP | Errno::NOTDIR => SocketError::NoDirectory(path.into()),
            error => SocketError::Directory(path.into(), error.into()),
        };
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(unusable(error)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(unusable)?);
        let found = fd.metadata().map_err(|error| SocketError::Directory(path.into(), error))?;
        let mode = found.mode() & 0o777;
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(SocketError::NotOurs(path.into()));
        }
        if mode & 0o077 != 0 {
            return Err(SocketError::OpenToOthers(path.into(), mode));
        }
        Ok(Self {
            fd,
            #[cfg(not(target_os = "linux"))]
            path: path.into(),
        })
    }

    /// Removes sockets that nobody listens to.
    ///
    /// Under a lock: between the check and the removal, another shim could remove the same socket and a third take its
    /// name.
    fn clear(&self) {
        if rustix::fs::flock(&self.fd, FlockOperation::NonBlockingLockExclusive).is_err() {
            return;
        }
        for name in self.sockets() {
            if self.is_stale(&name) {
                self.remove(&name);
            }
        }
        let _ = rustix::fs::flock(&self.fd, FlockOperation::Unlock);
    }

    fn sockets(&self) -> Vec<String> {
        let entries = Dir::read_from(&self.fd).into_iter().flatten().filter_map(Result::ok);
        let names = entries.filter(|entry| matches!(entry.file_type(), FileType::Socket | FileType::Unknown));
        let names = names.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
        names.filter(|name| name.ends_with(SOCKET_SUFFIX) || name.starts_with(UNFINISHED)).collect()
    }

    fn is_stale(&self, name: &str) -> bool {
        let Ok(socket) = unconnected() else { return false };
        let Ok(address) = SocketAddrUnix::new(self.path_of(name)) else { return false };
        rustix::net::connect(&socket, &address) == Err(Errno::CONNREFUSED)
    }

    fn listen(&self) -> io::Result<(String, UnixListener)> {
        self.listen_after(|| {})
    }

    /// Calls `bound` each time a socket is bound under its hidden name and does not listen yet.
    fn listen_after(&self, bound: impl Fn()) -> io::Result<(String, UnixListener)> {
        let pid = std::process::id();
        // A process may have many links: each begins where the one before it ended.
        let mut taken = OPENED.fetch_add(1, Ordering::Relaxed);
        let mut last = io::Error::from(io::ErrorKind::AddrInUse);
        for attempt in 0..ATTEMPTS {
            let unfinished = format!("{UNFINISHED}{pid}-{attempt}");
            let listener = match self.bind(&unfinished, &bound) {
                Ok(listener) => listener,
                // The name is taken, or a shim that cleared the directory took the socket for stale.
                Err(error) if matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::NotFound) => {
                    last = error;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let name = if taken == 0 { pid.to_string() } else { format!("{pid}-{}", taken + 1) };
            match rustix::fs::renameat_with(&self.fd, &*unfinished, &self.fd, file_of(&name), RenameFlags::NOREPLACE) {
                Ok(()) => return Ok((name, listener)),
                Err(Errno::EXIST) => taken += 1,
                // Another shim that cleared the directory took it for stale, before it listened.
                Err(Errno::NOENT) => {}
                Err(error) => {
                    self.remove(&unfinished);
                    return Err(error.into());
                }
            }
            self.remove(&unfinished);
        }
        Err(last)
    }

    fn bind(&self, name: &str, bound: impl Fn()) -> io::Result<UnixListener> {
        let socket = UnixSocket::new_stream()?;
        socket.bind(self.path_of(name))?;
        bound();
        rustix::fs::chmodat(&self.fd, name, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
        socket.listen(BACKLOG)
    }

    /// A path for calls that take no descriptor: short, and through the directory that was checked.
    #[cfg(target_os = "linux")]
    fn path_of(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", std::os::fd::AsRawFd::as_raw_fd(&self.fd)))
    }

    #[cfg(not(target_os = "linux"))]
    fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn remove(&self, name: &str) {
        let _ = rustix::fs::unlinkat(&self.fd, name, AtFlags::empty());
    }
}

/// A socket on which no call blocks.
#[cfg(target_os = "linux")]
fn unconnected() -> rustix::io::Result<OwnedFd> {
    use rustix::net::SocketFlags;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// The same in more steps, for systems without the flags.
#[cfg(not(target_os = "linux"))]
fn unconnected() -> rustix::io::Result<OwnedFd> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&socket, OFlags::NONBLOCK)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_socket_that_another_shim_clears_before_it_listens_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sockets");
        let (ours, theirs) = (SocketDirectory::open(&path).unwrap(), SocketDirectory::open(&path).unwrap());
        let cleared = Cell::new(0);
        let clear_first = || {
            if cleared.replace(cleared.get() + 1) == 0 {
                assert_eq!(theirs.sockets().len(), 1);
                theirs.clear();
                assert_eq!(theirs.sockets(), [""; 0]);
            }
        };
        let (name, _listener) = ours.listen_after(clear_first).unwrap();
        assert_eq!(cleared.get(), 2);
        assert_eq!(theirs.sockets(), [file_of(&name)]);
        assert!(!theirs.is_stale(&file_of(&name)));
    }

    #[tokio::test]
    async fn a_directory_that_is_gone_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sockets");
        let directory = SocketDirectory::open(&path).unwrap();
        std::fs::remove_dir(&path).unwrap();
        assert_eq!(directory.listen().unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
