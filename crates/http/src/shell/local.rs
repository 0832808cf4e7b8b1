//! Unix sockets beside those of TCP.
//!
//! A connection over one is handed on as a `TcpStream`: the two are read and written alike, and differ in their addresses,
//! which nobody asks such a stream for. So there is one kind of connection to serve, and to send over.

use std::{
    io,
    net::{IpAddr, Ipv6Addr},
    os::fd::OwnedFd,
};

use rustix::process::geteuid;
use tokio::net::{TcpStream, UnixListener, UnixStream};

/// The network of processes on this machine: one of those that are never routed, so no client elsewhere is in it.
const PROCESSES: u16 = 0xfd72;

/// The next connection of this user or of root, and the address that its client counts as. Those of others are closed.
pub(super) async fn accept(listener: &UnixListener) -> io::Result<(TcpStream, IpAddr)> {
    loop {
        let (stream, _) = listener.accept().await?;
        let peer = stream.peer_cred()?;
        if peer.uid() == geteuid().as_raw() || peer.uid() == 0 {
            return Ok((as_tcp(stream)?, address_of(peer.pid().and_then(|pid| u32::try_from(pid).ok()))));
        }
    }
}

/// The connection, for what carries those over TCP.
pub(super) fn as_tcp(stream: UnixStream) -> io::Result<TcpStream> {
    TcpStream::from_std(OwnedFd::from(stream.into_std()?).into())
}

/// A network for each process, so that none of them takes all that there is for all. Without its number it counts as this
/// machine, whose clients are not told apart.
fn address_of(process: Option<u32>) -> IpAddr {
    let Some(process) = process.filter(|process| *process > 0) else { return Ipv6Addr::LOCALHOST.into() };
    let [high, low] = [(process >> 16) as u16, (process & 0xffff) as u16];
    Ipv6Addr::new(PROCESSES, high, low, 0, 0, 0, 0, 1).into()
}

#[cfg(test)]
mod tests {
    use rescind_proto::holder::Holder;

    use super::*;

    #[test]
    fn each_process_is_a_client_of_its_own_and_one_without_a_number_is_this_machine() {
        let of = |process| Holder::at(address_of(process));
        assert_eq!(of(Some(4711)), of(Some(4711)));
        assert_ne!(of(Some(4711)), of(Some(4712)));
        assert_ne!(of(Some(1)), of(Some(1 << 16)));
        for unknown in [None, Some(0)] {
            assert!(address_of(unknown).is_loopback());
        }
    }
}
