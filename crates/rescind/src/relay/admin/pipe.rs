//! The named pipe, and the session's file that names it.
//!
//! Every user can list the names of pipes, and may connect to one that is made as usual. So this pipe is made with a
//! descriptor that lets this user alone in, its name cannot be guessed before it is made, and it is found by a file in a
//! folder of this user. A file is stale if no pipe of its name is left.

use std::{
    fs::{self, OpenOptions},
    hash::{BuildHasher, RandomState},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use interprocess::os::windows::{
    named_pipe::{
        PipeListenerOptions, pipe_mode,
        tokio::{DuplexPipeStream, PipeListener},
    },
    security_descriptor::SecurityDescriptor,
};
use rescind_feed::SOCKET_SUFFIX;
use rescind_ledger::record::Record;
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind};
use widestring::U16CString;

/// Names to try before giving up.
const ATTEMPTS: u32 = 64;

/// Sessions that this process has opened.
static OPENED: AtomicU32 = AtomicU32::new(0);

/// What listens.
pub(super) type Listener = PipeListener<pipe_mode::Bytes, pipe_mode::Bytes>;

/// A connection to a client.
pub(super) type Connection = DuplexPipeStream<pipe_mode::Bytes>;

/// Why there is no pipe.
#[derive(Debug, thiserror::Error)]
pub(in crate::relay) enum SocketError {
    #[error("the directory {0} cannot be used: {1}")]
    Directory(PathBuf, #[source] io::Error),
    #[error("cannot create a pipe that is closed to other users: {0}")]
    Pipe(#[source] io::Error),
    #[error("cannot create a file in {0}: {1}")]
    File(PathBuf, #[source] io::Error),
}

/// A pipe that is served, and the file that names it. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct AdminSocket {
    /// The name of the session.
    pub(super) name: String,
    directory: PathBuf,
    /// The session's record beside it.
    record: Option<String>,
}

impl AdminSocket {
    /// Creates the directory if it is missing, removes stale files, and listens.
    pub(super) fn open(path: &Path) -> Result<(Self, Listener), SocketError> {
        fs::create_dir_all(path).map_err(|error| SocketError::Directory(path.into(), error))?;
        clear(path);
        let (pipe, listener) = listen().map_err(SocketError::Pipe)?;
        let name = publish(path, &pipe).map_err(|error| SocketError::File(path.into(), error))?;
        Ok((Self { name, directory: path.into(), record: None }, listener))
    }

    /// Leaves the session's record beside the file, until it is dropped. A session without a record lacks only details.
    pub(super) fn keep(&mut self, record: &Record) {
        let name = record.file_name();
        let Ok(text) = serde_json::to_vec(record) else { return };
        let created = OpenOptions::new().write(true).create_new(true).open(self.directory.join(&name));
        if created.and_then(|mut file| file.write_all(&text)).is_ok() {
            self.record = Some(name);
        }
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        let files = [Some(file_of(&self.name)), self.record.take()];
        for file in files.into_iter().flatten() {
            let _ = fs::remove_file(self.directory.join(file));
        }
    }
}

/// A client. The system has let in this user only.
pub(super) async fn accept(listener: &Listener) -> io::Result<Option<Connection>> {
    listener.accept().await.map(Some)
}

fn file_of(name: &str) -> String {
    format!("{name}{SOCKET_SUFFIX}")
}

/// Makes a pipe, and returns its name.
fn listen() -> io::Result<(String, Listener)> {
    let [a, b] = [0, 1].map(|number: u8| RandomState::new().hash_one(number));
    let name = format!(r"\\.\pipe\rescind-{a:016x}{b:016x}");
    let user = user().ok_or_else(|| io::Error::other("the system does not tell which user this is"))?;
    // Full access for this user, and an entry for no other; nothing is inherited.
    let text = U16CString::from_str(format!("D:P(A;;GA;;;{user})")).map_err(io::Error::other)?;
    let descriptor = SecurityDescriptor::deserialize(&text)?;
    let options = PipeListenerOptions::new().path(name.as_str()).security_descriptor(Some(descriptor));
    Ok((name.clone(), options.create_tokio_duplex()?))
}

/// The security identifier of this user.
fn user() -> Option<String> {
    let own = sysinfo::get_current_pid().ok()?;
    let mut system = System::new();
    let what = ProcessRefreshKind::nothing().with_user(UpdateKind::Always);
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[own]), true, what);
    Some(system.process(own)?.user_id()?.to_string())
}

/// Writes the name of a pipe into a file with the name of a session, which is this process's number if that is free. The
/// file has its content as soon as it has its name.
fn publish(directory: &Path, pipe: &str) -> io::Result<String> {
    let pid = std::process::id();
    let mut taken = OPENED.fetch_add(1, Ordering::Relaxed);
    let unfinished = directory.join(format!(".new-{pid}-{taken}"));
    fs::write(&unfinished, pipe)?;
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..ATTEMPTS {
        let name = if taken == 0 { pid.to_string() } else { format!("{pid}-{}", taken + 1) };
        match fs::hard_link(&unfinished, directory.join(file_of(&name))) {
            Ok(()) => {
                let _ = fs::remove_file(&unfinished);
                return Ok(name);
            }
            Err(error) => (last, taken) = (error, taken + 1),
        }
    }
    let _ = fs::remove_file(&unfinished);
    Err(last)
}

/// Removes files of sessions whose pipe is gone.
fn clear(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
        let is_file_of_session = entry.file_name().to_str().is_some_and(|name| name.ends_with(SOCKET_SUFFIX));
        if is_file_of_session && is_stale(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_stale(file: &Path) -> bool {
    let Ok(pipe) = fs::read_to_string(file) else { return false };
    // A session takes this question for a client that leaves at once.
    matches!(fs::metadata(pipe), Err(error) if error.kind() == io::ErrorKind::NotFound)
}
