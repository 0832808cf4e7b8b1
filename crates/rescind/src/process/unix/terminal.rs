//! The terminal on which a server, or a program it started, prompts a person.
//!
//! The server's group is in the background, so the kernel stops it when it uses
//! the terminal (SIGTTIN, SIGTTOU). If a shell started the shim, the shim leads the
//! terminal's foreground group and lends the foreground to the server until the
//! server sends something to its client. If the foreground group is that of the
//! client, an agent or an editor, it stays there: otherwise the client would be
//! stopped.
//!
//! A background process that takes the foreground is stopped, unless it ignores
//! SIGTTOU, which needs `unsafe`. So the guard gives the foreground back: it is in
//! the server's group.

use std::{
    io::{Read, Write},
    os::fd::{AsFd, OwnedFd},
    process::{ChildStdin, ChildStdout},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::{Mode, OFlags},
    process::Pid,
    termios::{tcgetpgrp, tcsetpgrp},
};

/// Time for the guard to give the foreground back. Only a stopped guard needs it.
const REPLY_TIMEOUT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The controlling terminal of this process, if it has one.
fn controlling() -> Option<OwnedFd> {
    rustix::fs::open("/dev/tty", OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Gives the foreground to `group`. `false` if this process does not have it and `group` does not either.
pub(crate) fn lend(group: Pid) -> bool {
    let Some(tty) = controlling() else { return false };
    let own = rustix::process::getpgrp();
    match tcgetpgrp(&tty) {
        Ok(foreground) if foreground == group => true,
        Ok(foreground) => foreground == own && own == rustix::process::getpid() && tcsetpgrp(&tty, group).is_ok(),
        Err(_) => false,
    }
}

/// Orders the guard to give the foreground back. Does nothing if its group does not have it.
pub(crate) fn reclaim(orders: &mut ChildStdin, replies: &mut ChildStdout) {
    let mut fds = [PollFd::from_borrowed_fd(replies.as_fd(), PollFlags::IN)];
    // A child ends at about this time, and its signal is no reply.
    let mut replied = || rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&REPLY_TIMEOUT))) == Ok(1);
    if orders.write_all(b"t").is_ok() && replied() {
        let _ = replies.read(&mut [0]);
    }
}

/// Gives the foreground from the guard's group to the group of the shim, its parent. Called by the guard.
pub(crate) fn give_back() {
    let shim = rustix::process::getppid().and_then(|parent| rustix::process::getpgid(Some(parent)).ok());
    if let (Some(shim), Some(tty)) = (shim, controlling())
        && tcgetpgrp(&tty) == Ok(rustix::process::getpgrp())
    {
        let _ = tcsetpgrp(tty, shim);
    }
}
