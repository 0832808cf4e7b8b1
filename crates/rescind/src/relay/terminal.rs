//! The terminal on which a server, or a program that it started, asks a person.
//!
//! The server's group is in the background, so the kernel stops it when it asks
//! (SIGTTIN, SIGTTOU). Where a shell started the shim, which then leads the
//! terminal's foreground group, the foreground is lent to the server until it
//! says something to its client. Where that group is the client's, an agent or an
//! editor, it is never taken: such a client would be stopped itself.
//!
//! A process in the background cannot call the foreground back without being
//! stopped, unless it ignores SIGTTOU, which a program without `unsafe` cannot
//! do. So the watcher does it, which is in the server's group.

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

/// How long the watcher may take to give the foreground back. Only one that was stopped takes it.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The controlling terminal of this process, if it has one.
fn controlling() -> Option<OwnedFd> {
    rustix::fs::open("/dev/tty", OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Gives the foreground to `group`, unless it has it; `false` where it is not this process's to give.
pub(crate) fn lend(group: Pid) -> bool {
    let Some(tty) = controlling() else { return false };
    let own = rustix::process::getpgrp();
    match tcgetpgrp(&tty) {
        Ok(foreground) if foreground == group => true,
        Ok(foreground) => foreground == own && own == rustix::process::getpid() && tcsetpgrp(&tty, group).is_ok(),
        Err(_) => false,
    }
}

/// Has the watcher give the foreground back; does nothing if its group does not have it.
pub(crate) fn take_back(orders: &mut ChildStdin, replies: &mut ChildStdout) {
    let mut fds = [PollFd::from_borrowed_fd(replies.as_fd(), PollFlags::IN)];
    if orders.write_all(b"t").is_ok() && rustix::event::poll(&mut fds, Some(&PATIENCE)) == Ok(1) {
        let _ = replies.read(&mut [0]);
    }
}

/// Gives the foreground from the watcher's own group to that of the shim, its parent. Called by the watcher.
pub(crate) fn give_back() {
    let shim = rustix::process::getppid().and_then(|parent| rustix::process::getpgid(Some(parent)).ok());
    if let (Some(shim), Some(tty)) = (shim, controlling())
        && tcgetpgrp(&tty) == Ok(rustix::process::getpgrp())
    {
        let _ = tcsetpgrp(tty, shim);
    }
}
