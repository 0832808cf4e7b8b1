//! The pipes to a child.
//!
//! Only a named pipe can be read and written without blocking. Our end is of that kind; the child's is as any other that it
//! may inherit.

use std::{
    fs::{File, OpenOptions},
    hash::{BuildHasher, RandomState},
    io,
    pin::pin,
    task::{Context, Poll, Waker},
};

use tokio::net::windows::named_pipe::{NamedPipeServer, ServerOptions};

/// The bytes that a pipe holds.
const CAPACITY: u32 = 64 * 1024;

/// Our end of a pipe to write, and the end that a child reads.
///
/// # Panics
///
/// Outside a tokio runtime.
pub(crate) fn to_child() -> io::Result<(NamedPipeServer, File)> {
    pair(ServerOptions::new().access_inbound(false), OpenOptions::new().read(true))
}

/// Our end of a pipe to read, and the end that a child writes.
///
/// # Panics
///
/// Outside a tokio runtime.
pub(crate) fn from_child() -> io::Result<(NamedPipeServer, File)> {
    pair(ServerOptions::new().access_outbound(false), OpenOptions::new().write(true))
}

/// The only instance of a pipe takes one connection: if another process were faster, the open would fail.
fn pair(ours: &mut ServerOptions, theirs: &OpenOptions) -> io::Result<(NamedPipeServer, File)> {
    let [a, b] = [0, 1].map(|number: u8| RandomState::new().hash_one(number));
    let name = format!(r"\\.\pipe\rescind-{}-{a:016x}{b:016x}", std::process::id());
    let ours = ours.first_pipe_instance(true).max_instances(1).reject_remote_clients(true);
    let ours = ours.in_buffer_size(CAPACITY).out_buffer_size(CAPACITY).create(&name)?;
    let theirs = theirs.open(name)?;
    // It is connected; this has it read.
    match pin!(ours.connect()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(connected) => connected?,
        Poll::Pending => {}
    }
    Ok((ours, theirs))
}
