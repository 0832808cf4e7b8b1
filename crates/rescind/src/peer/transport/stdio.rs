//! This process's own standard input and output.

use std::io;

use super::{
    Transport,
    pipe::{PipeReader, PipeWriter},
};
use crate::stdio::{self, Input, Output};

/// Standard input and output: for a server that its client starts.
///
/// Pipes and sockets are read and written through epoll, without blocking and without changing the flags that other
/// processes share; files and terminals, and on Windows everything, by a thread each. Nothing else may write to standard output meanwhile: a
/// stray `println!` is garbage to the client. If they cannot be opened, that is the connection's error.
///
/// Call it, and drive the connection, within a tokio runtime with I/O enabled.
///
/// # Bounds
///
/// The capacity of a pipe; with a file or terminal two chunks of 64 KiB each way.
///
/// # When the other side dies
///
/// Standard input ends: requests in flight are cancelled at once (D27) and [`serve`](super::super::Builder::serve)
/// returns.
///
/// # Dropping it
///
/// Reading and writing end; descriptors 0 and 1 themselves stay open to the end of the process, and so a client
/// sees the end of a server when its process ends. A thread that waits for a terminal is left behind.
///
/// # Panics
///
/// Outside of a tokio runtime.
#[must_use]
pub fn stdio() -> Transport {
    open().unwrap_or_else(Transport::broken)
}

fn open() -> io::Result<Transport> {
    let (input, output) = stdio::standard()?;
    let (input, output) = (Input::inherited(input)?, Output::inherited(output)?);
    Ok(Transport::new(PipeReader(input), PipeWriter(Some(output))))
}
