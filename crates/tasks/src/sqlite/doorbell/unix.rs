//! A socket in the file system.

use std::{
    fs::File,
    io,
    os::{fd::AsRawFd, unix::net::UnixDatagram},
    path::{Path, PathBuf},
};

use super::BELL;

/// A length that every system allows in a socket address.
const MAX_ADDRESS: usize = 100;

/// The doorbell of this process, and what rings those of others.
#[derive(Debug)]
pub(in crate::sqlite) struct Doorbell {
    /// A descriptor of the folder, for addresses that would be too long.
    open_folder: File,
    pub(super) bell: UnixDatagram,
    /// Sends to our own doorbell, even if its file was deleted.
    own: UnixDatagram,
    /// Sends to other processes.
    others: UnixDatagram,
}

impl Doorbell {
    pub(in crate::sqlite) fn hang(folder: &Path, name: &str) -> io::Result<Self> {
        let open_folder = File::open(folder)?;
        let (bell, own) = bind(&address(folder, &open_folder, name))?;
        own.set_nonblocking(true)?;
        let others = UnixDatagram::unbound()?;
        others.set_nonblocking(true)?;
        Ok(Self { open_folder, bell, own, others })
    }

    pub(in crate::sqlite) fn ring_own(&self) {
        let _ = self.own.send(&[0]);
    }

    pub(in crate::sqlite) fn ring(&self, folder: &Path, name: &str) {
        // Full: it has messages that it has not read. Refused: it is dead.
        let _ = self.others.send_to(&[0], address(folder, &self.open_folder, name));
    }
}

/// Binds a doorbell and a sender to it. Without sockets in the file system, only this process can ring it.
fn bind(address: &Path) -> io::Result<(UnixDatagram, UnixDatagram)> {
    let bound = UnixDatagram::bind(address).and_then(|bell| {
        let own = UnixDatagram::unbound()?;
        own.connect(address)?;
        Ok((bell, own))
    });
    // Then the slow check finds changes of other processes.
    bound.or_else(|_| UnixDatagram::pair())
}

/// Returns the address of a doorbell: its path, or a shorter path to the same file.
fn address(folder: &Path, open_folder: &File, name: &str) -> PathBuf {
    let path = folder.join(format!("{name}.{BELL}"));
    if cfg!(target_os = "linux") && path.as_os_str().len() > MAX_ADDRESS {
        return PathBuf::from(format!("/proc/self/fd/{}/{name}.{BELL}", open_folder.as_raw_fd()));
    }
    path
}
