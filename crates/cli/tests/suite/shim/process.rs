//! Processes that a test did not start itself.

use std::{fs, os::fd::OwnedFd};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::retry_on_intr,
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal},
};

/// A process that lived when it was found.
#[derive(Debug)]
pub(crate) struct Member {
    pid: i32,
    fd: OwnedFd,
}

impl Member {
    /// What `killall` knows it by.
    pub(crate) fn name(&self) -> String {
        fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap().trim_end().to_owned()
    }

    /// What `pkill -f` knows it by.
    pub(crate) fn command_line(&self) -> String {
        fs::read_to_string(format!("/proc/{}/cmdline", self.pid)).unwrap()
    }

    /// What its descriptors lead to.
    pub(crate) fn descriptors(&self) -> Vec<String> {
        let open = fs::read_dir(format!("/proc/{}/fd", self.pid)).unwrap();
        open.map(|one| fs::read_link(one.unwrap().path()).unwrap().display().to_string()).collect()
    }

    pub(crate) fn kill(&self) {
        pidfd_send_signal(&self.fd, Signal::KILL).unwrap();
    }

    /// It dies, or is dead.
    pub(crate) fn expect_death(&self) {
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        let patience = Timespec { tv_sec: 30, tv_nsec: 0 };
        let polled = retry_on_intr(|| poll(&mut fds, Some(&patience)));
        let stat = || fs::read_to_string(format!("/proc/{}/stat", self.pid));
        assert_eq!(polled, Ok(1), "process {} lives: {:?}", self.pid, stat());
    }
}

/// The living processes of a group.
pub(crate) fn members(group: i32) -> Vec<Member> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let in_group = processes.filter(|pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // After the name, which is in parentheses: state, parent, group.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        fields.split_whitespace().nth(2) == Some(&group.to_string())
    });
    in_group
        .filter_map(|pid| Some(Member { pid, fd: pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()? }))
        .collect()
}

/// Sends a signal to a group.
pub(crate) fn signal_group(group: i32, signal: i32) {
    let group = Pid::from_raw(group).unwrap();
    kill_process_group(group, Signal::from_named_raw(signal).unwrap()).unwrap();
}

/// The most memory that a process has had resident, in bytes.
pub(crate) fn peak_memory(pid: i32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}
