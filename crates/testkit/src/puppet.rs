//! A server process whose every move is a test's.
//!
//! The process hands its stdin and stdout to the test over a Unix socket and
//! keeps none of them, so the test itself is the server: it reads what the shim
//! wrote to the server, writes what the server says, and chooses every
//! interleaving. What only a process can do (exit with a code, die by a signal,
//! survive one, start another) it does when told to over the same socket.
//!
//! [`main`] is the process, [`Rig`] and what belongs to it the test's end.

mod ends;
mod rig;
mod service;
mod sharing;
mod strings;

use std::{
    fs::OpenOptions,
    io::{self, BufRead, BufReader, IoSlice, Write},
    mem::MaybeUninit,
    os::{fd::AsFd, unix::net::UnixStream},
    process::{Command, Stdio},
    thread,
};

use rustix::{
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags},
    process::{Signal, getpgrp, getpid, kill_process},
};

pub use ends::{Ends, Framing, Listening, Transcript};
pub use rig::{Rig, RigBuilder, Shim, Streams};
pub use service::{Connection, Event, Head, Service, Session, run_url};
pub use sharing::Sharing;
pub use strings::{Puppet, Server};

/// The puppet itself: `puppet SOCKET`.
///
/// Lives until it is told to exit, or the test is gone.
///
/// # Errors
///
/// When the test cannot be reached.
pub fn main() -> io::Result<()> {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    let address = arguments.next().ok_or(io::ErrorKind::InvalidInput)?;
    let mut test = UnixStream::connect(&address)?;
    hand_over(&test)?;
    writeln!(test, "done")?;
    for line in BufReader::new(test.try_clone()?).lines() {
        let line = line?;
        let (order, number) = line.split_once(' ').unwrap_or((&line, "0"));
        let number: i32 = number.parse().map_err(io::Error::other)?;
        match order {
            "exit" => std::process::exit(number),
            "raise" => kill_process(getpid(), signal(number)?)?,
            "catch" => catch(number, test.try_clone()?)?,
            "spawn" => drop(Command::new(&program).arg(&address).stdin(Stdio::null()).spawn()?),
            _ => return Err(io::Error::other(format!("no such order: {line}"))),
        }
        writeln!(test, "done")?;
    }
    Ok(())
}

/// Gives stdin and stdout away, together with who this is, and keeps `/dev/null` in their place.
fn hand_over(test: &UnixStream) -> io::Result<()> {
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let fds = [stdin.as_fd(), stdout.as_fd()];
    let hello = format!("{} {}\n", getpid().as_raw_pid(), getpgrp().as_raw_pid());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let hello = [IoSlice::new(hello.as_bytes())];
    rustix::net::sendmsg(test, &hello, &mut control, SendFlags::empty())?;
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(())
}

/// Survives this signal from now on, and tells the test of each.
fn catch(number: i32, mut test: UnixStream) -> io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([number])?;
    thread::spawn(move || {
        for number in signals.forever() {
            let _ = writeln!(test, "signal {number}");
        }
    });
    Ok(())
}

fn signal(number: i32) -> io::Result<Signal> {
    Signal::from_named_raw(number).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}
