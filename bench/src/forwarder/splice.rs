use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, splice};

use super::Pipes;

const AT_ONCE: usize = 1 << 20;

pub(super) fn forward(pipes: &mut Pipes) -> io::Result<()> {
    let (from_client, to_server) = pipes.upward()?;
    let (from_server, to_client) = pipes.downward()?;
    let up = std::thread::spawn(move || pump(&from_client, to_server));
    pump(&from_server, to_client)?;
    up.join().map_err(|_| io::Error::other("the upward thread panicked"))?
}

/// Takes the writing end by value: the reader sees its end with the thread's.
fn pump(from: &OwnedFd, to: OwnedFd) -> io::Result<()> {
    loop {
        match splice(from, None, &to, None, AT_ONCE, SpliceFlags::MOVE) {
            // A pipe that nobody reads any more ends the direction as well.
            Ok(0) | Err(Errno::PIPE) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
