//! A port on this machine, whose number is in a file: Windows has no datagrams in the file system.
//!
//! Other users can ring it, and do no more than have the database read once.

use std::{
    fs, io,
    net::{Ipv4Addr, UdpSocket},
    path::Path,
    time::Duration,
};

use super::BELL;

/// The doorbell of this process, and what rings those of others.
#[derive(Debug)]
pub(in crate::sqlite) struct Doorbell {
    bell: UdpSocket,
    /// Sends to any of them.
    sender: UdpSocket,
    port: u16,
}

impl Doorbell {
    pub(in crate::sqlite) fn hang(folder: &Path, name: &str) -> io::Result<Self> {
        let bell = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = bell.local_addr()?.port();
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        sender.set_nonblocking(true)?;
        fs::write(folder.join(format!("{name}.{BELL}")), port.to_string())?;
        Ok(Self { bell, sender, port })
    }

    pub(in crate::sqlite) fn ring_own(&self) {
        let _ = self.sender.send_to(&[0], (Ipv4Addr::LOCALHOST, self.port));
    }

    pub(in crate::sqlite) fn ring(&self, folder: &Path, name: &str) {
        let port = fs::read_to_string(folder.join(format!("{name}.{BELL}"))).ok();
        if let Some(port) = port.and_then(|port| port.parse::<u16>().ok()) {
            let _ = self.sender.send_to(&[0], (Ipv4Addr::LOCALHOST, port));
        }
    }

    /// Waits until it rings, with a limit. Returns whether it rang.
    pub(in crate::sqlite) fn wait(&self, at_most: Option<Duration>) -> io::Result<bool> {
        self.bell.set_nonblocking(false)?;
        self.bell.set_read_timeout(at_most)?;
        let rang = match self.bell.recv(&mut [0]) {
            Ok(_) => true,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => false,
            // The port of a process that has ended answered one of ours.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
            Err(error) => return Err(error),
        };
        // One check of the database answers every message so far.
        self.bell.set_nonblocking(true)?;
        while rang && self.bell.recv(&mut [0]).is_ok() {}
        Ok(rang)
    }
}
