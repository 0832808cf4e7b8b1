//! A port on this machine, whose number is in a file: Windows has no datagrams in the file system.
//!
//! Other users can ring it, and do no more than have the database read once.

use std::{
    fs, io,
    net::{Ipv4Addr, UdpSocket},
    path::Path,
};

use super::BELL;

/// The doorbell of this process, and what rings those of others.
#[derive(Debug)]
pub(in crate::sqlite) struct Doorbell {
    pub(super) bell: UdpSocket,
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
}
