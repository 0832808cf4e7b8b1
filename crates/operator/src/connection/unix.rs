//! A socket.

use std::{fs::File, io, os::fd::AsRawFd, path::Path};

use tokio::net::UnixStream;

use crate::ShimError;

/// The longest path that fits into the address of a socket, without the final zero.
const MAX_ADDRESS: usize = 107;

pub(crate) type Connection = UnixStream;

/// Connects once. A path too long for the address of a socket goes through a descriptor of its directory.
pub(crate) async fn open(socket: &Path) -> io::Result<Connection> {
    let (directory, name) = (socket.parent(), socket.file_name());
    match (directory, name) {
        (Some(directory), Some(name)) if cfg!(target_os = "linux") && socket.as_os_str().len() > MAX_ADDRESS => {
            let directory = File::open(directory)?;
            let short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
            UnixStream::connect(short).await
        }
        _ => UnixStream::connect(socket).await,
    }
}

/// The number of the process that listens, as the kernel knows it here.
pub(crate) fn server(connection: &Connection) -> io::Result<Option<u32>> {
    let server = connection.peer_cred()?;
    Ok(server.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0))
}

/// Checks that `user` listens.
pub(crate) fn check(connection: &Connection, user: u32) -> Result<(), ShimError> {
    match connection.peer_cred().map_err(ShimError::from_io)?.uid() {
        server if server == user => Ok(()),
        server => Err(ShimError::Foreign(server)),
    }
}
