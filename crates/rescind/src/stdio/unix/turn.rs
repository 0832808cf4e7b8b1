//! The terminal as an input.
//!
//! A typed line belongs to the program in the foreground. So the thread waits for a terminal without `read`, which would
//! take that line, or stop a program in the background (SIGTTIN): a child may have the foreground meanwhile.

use std::{fs::File, thread, time::Duration};

use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
};

/// The pause between two checks for the foreground.
const TURN: Duration = Duration::from_millis(50);

/// Returns when `file` can be read, and this process may read it.
pub(in crate::stdio) fn wait_for_turn(file: &File) {
    if !rustix::termios::isatty(file) {
        return;
    }
    loop {
        let mut fds = [PollFd::new(file, PollFlags::IN)];
        if rustix::event::poll(&mut fds, None) == Err(Errno::INTR) {
            continue;
        }
        match rustix::termios::tcgetpgrp(file) {
            Ok(foreground) if foreground != rustix::process::getpgrp() => thread::sleep(TURN),
            // In the foreground; or this is not the terminal that could stop us.
            Ok(_) | Err(_) => return,
        }
    }
}
