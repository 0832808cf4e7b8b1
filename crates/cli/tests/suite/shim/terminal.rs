//! A terminal with the test as the person before it.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Read, Write},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::OFlags,
    io::retry_on_intr,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, OptionalActions, tcgetattr, tcgetpgrp, tcsetattr},
};

/// A pseudo-terminal without echo.
#[derive(Debug)]
pub(crate) struct Terminal {
    person: OwnedFd,
    program: File,
}

impl Terminal {
    pub(crate) fn open() -> Self {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let name = ptsname(&person, Vec::new()).unwrap();
        let path = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let program = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut modes = tcgetattr(&program).unwrap();
        modes.local_modes -= LocalModes::ECHO;
        tcsetattr(&program, OptionalActions::Now, &modes).unwrap();
        Self { person, program }
    }

    /// The end that a program reads and writes.
    pub(crate) fn end(&self) -> File {
        self.program.try_clone().unwrap()
    }

    /// The flags of that end, which everybody who has the terminal open shares.
    pub(crate) fn flags(&self) -> OFlags {
        rustix::fs::fcntl_getfl(&self.program).unwrap()
    }

    /// The group in its foreground.
    pub(crate) fn foreground(&self) -> u32 {
        tcgetpgrp(&self.person).unwrap().as_raw_pid().unsigned_abs()
    }

    /// Returns when this group is in the foreground.
    pub(crate) fn waits_for_foreground(&self, group: u32) {
        let begun = std::time::Instant::now();
        while self.foreground() != group {
            assert!(begun.elapsed().as_secs() < 30, "{group} does not come to the foreground");
            std::thread::yield_now();
        }
    }

    pub(crate) fn type_in(&self, text: &str) {
        File::from(self.person.try_clone().unwrap()).write_all(text.as_bytes()).unwrap();
    }

    /// Everything that appears until `text` has.
    pub(crate) fn shows_until(&self, text: &str) -> String {
        let (mut person, mut shown) = (File::from(self.person.try_clone().unwrap()), Vec::new());
        loop {
            let mut fds = [PollFd::new(&self.person, PollFlags::IN)];
            let patience = Timespec { tv_sec: 30, tv_nsec: 0 };
            let shown_so_far = String::from_utf8_lossy(&shown);
            // The runtimes of other tests in this process listen for signals.
            let polled = retry_on_intr(|| poll(&mut fds, Some(&patience)));
            assert_eq!(polled, Ok(1), "no {text:?} appears: {shown_so_far}");
            let mut some = [0; 4096];
            let count = person.read(&mut some).unwrap();
            shown.extend_from_slice(&some[..count]);
            let shown = String::from_utf8_lossy(&shown);
            if shown.contains(text) {
                return shown.into_owned();
            }
        }
    }

    /// The next line that appears.
    pub(crate) fn shows(&self) -> String {
        let mut line = String::new();
        BufReader::new(File::from(self.person.try_clone().unwrap())).read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}
