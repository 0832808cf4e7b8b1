//! `/proc`, and descriptors of processes.

use std::{io::Read, os::fd::OwnedFd, time::Duration};

use procfs::process::{FDTarget, Process as Entry, Stat};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
    process::{Pid, PidfdFlags, Signal},
};

use super::{NotAllowed, Order, identity::ProcessId, mark::Mark, process::Process};

/// The process that has this number now; `None` if none has, or it has ended and waits to be reaped.
pub(crate) fn running(pid: u32) -> Option<ProcessId> {
    let stat = Entry::new(i32::try_from(pid).ok()?).ok()?.stat().ok()?;
    is_running(stat.state).then_some(ProcessId { pid, start: stat.starttime })
}

/// Whether a process in this state of `/proc/PID/stat` still runs.
const fn is_running(state: char) -> bool {
    !matches!(state, 'Z' | 'X' | 'x')
}

/// The process that started this one with the name of its program, and the terminal of this one.
pub(crate) fn origin() -> (Option<(ProcessId, String)>, Option<u32>) {
    let own = Entry::myself().and_then(|own| own.stat()).ok();
    let parent = own.as_ref().and_then(|own| Entry::new(own.ppid).ok()?.stat().ok());
    let client = parent.and_then(|parent| {
        let pid = parent.pid.try_into().ok()?;
        Some((ProcessId { pid, start: parent.starttime }, parent.comm))
    });
    (client, own.and_then(|own| own.tty_nr.try_into().ok()).filter(|number| *number != 0))
}

/// The numbers of the ancestors of this process. Each session asks for them at its start, so no more is read than that.
pub(crate) fn ancestors() -> impl Iterator<Item = u32> {
    let parent = rustix::process::getppid().and_then(|pid| pid.as_raw_pid().try_into().ok());
    let above = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // After the name, which is in parentheses, come the state and the parent.
        stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok().filter(|pid| *pid != 0)
    };
    std::iter::successors(parent, above)
}

/// What else has to be the same for a number and a start to mean the same process: the start of the machine, the namespace
/// of numbers, and that of times, which moves the starts of all processes.
pub(crate) fn place() -> [Vec<u8>; 3] {
    let machine = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = |kind: &str| {
        let named = std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default();
        named.into_os_string().into_encoded_bytes()
    };
    [machine, namespace("pid"), namespace("time")]
}

/// When a process started: between these two, in microseconds since the system did.
pub(crate) fn started(id: ProcessId) -> (u64, u64) {
    let per_second = procfs::ticks_per_second().max(1);
    let at = |ticks: u64| ticks.saturating_mul(1_000_000) / per_second;
    (at(id.start), at(id.start.saturating_add(1)))
}

/// The time since the system started, on the clock of [`started`].
#[expect(clippy::unnecessary_wraps, reason = "not every system has it")]
pub(crate) fn since_start() -> Option<Duration> {
    Some(Clock::read().now)
}

/// All processes that run. One that begins or ends meanwhile may be missing.
pub(crate) fn processes() -> impl Iterator<Item = Process> {
    let clock = Clock::read();
    let user = rustix::process::geteuid().as_raw();
    let entries = procfs::process::all_processes().into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(move |entry| read(&entry, &clock, user))
}

fn read(entry: &Entry, clock: &Clock, user: u32) -> Option<Process> {
    let stat = entry.stat().ok().filter(|stat| is_running(stat.state))?;
    let is_own = entry.uid().is_ok_and(|owner| owner == user);
    let mark = is_own.then(|| environment(entry)).flatten().and_then(|text| Mark::in_environment(&text));
    process(&stat, clock, mark)
}

fn process(stat: &Stat, clock: &Clock, mark: Option<Mark>) -> Option<Process> {
    let number = |number: i32| u32::try_from(number).ok();
    Some(Process {
        id: ProcessId { pid: number(stat.pid)?, start: stat.starttime },
        parent: number(stat.ppid)?,
        group: number(stat.pgrp)?,
        session: number(stat.session)?,
        terminal: number(stat.tty_nr).filter(|number| *number != 0),
        is_stopped: matches!(stat.state, 'T' | 't'),
        memory: stat.rss.saturating_mul(procfs::page_size()),
        cpu: clock.time(stat.utime.saturating_add(stat.stime)),
        age: clock.now.saturating_sub(clock.time(stat.starttime)),
        name: stat.comm.clone(),
        mark,
    })
}

/// The arguments of a process; empty if it has ended or hides them.
pub(crate) fn arguments(id: ProcessId) -> Vec<String> {
    entry(id).and_then(|entry| entry.cmdline().ok()).unwrap_or_default()
}

/// Read through the entry, which stays that of one process.
fn environment(entry: &Entry) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    entry.open_relative("environ").ok()?.read_to_end(&mut text).ok()?;
    Some(text)
}

fn entry(id: ProcessId) -> Option<Entry> {
    let entry = Entry::new(i32::try_from(id.pid).ok()?).ok()?;
    entry.stat().is_ok_and(|stat| stat.starttime == id.start).then_some(entry)
}

/// Turns clock ticks into time.
#[derive(Debug)]
struct Clock {
    ticks_per_second: u64,
    /// Since the system started.
    now: Duration,
}

impl Clock {
    fn read() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let now = Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0));
        Self { ticks_per_second: procfs::ticks_per_second().max(1), now }
    }

    fn time(&self, ticks: u64) -> Duration {
        Duration::from_millis(ticks.saturating_mul(1000) / self.ticks_per_second)
    }
}

/// A process that is held: what is sent to it reaches no later process with its number.
#[derive(Debug)]
pub(crate) struct Held(OwnedFd);

impl Held {
    /// `None` if it has ended.
    pub(crate) fn of(id: ProcessId) -> Option<Self> {
        let pid = Pid::from_raw(i32::try_from(id.pid).ok()?)?;
        let held = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // The number may have been reused before it was opened.
        id.is_alive().then_some(Self(held))
    }

    /// Sends an order. One to a process that has ended has no effect.
    pub(crate) fn send(&self, order: Order) -> Result<(), NotAllowed> {
        let signal = match order {
            Order::Terminate => Signal::TERM,
            Order::Kill => Signal::KILL,
        };
        match rustix::process::pidfd_send_signal(&self.0, signal) {
            // A stopped process hears of it only when it goes on.
            Ok(()) => drop(rustix::process::pidfd_send_signal(&self.0, Signal::CONT)),
            Err(Errno::PERM) => return Err(NotAllowed),
            // It has ended, as its descriptor tells.
            Err(_) => {}
        }
        Ok(())
    }
}

/// Waits until one of them has ended, at most for `timeout`. Returns which have.
pub(crate) fn wait(all: &[&Held], timeout: Duration) -> Vec<bool> {
    let timeout = Timespec::try_from(timeout).ok();
    let mut ends: Vec<PollFd<'_>> = all.iter().map(|held| PollFd::new(&held.0, PollFlags::IN)).collect();
    let _ = rustix::event::poll(&mut ends, timeout.as_ref());
    ends.iter().map(|end| !end.revents().is_empty()).collect()
}

/// Whether a process belongs to this user.
pub(crate) fn is_own(id: ProcessId) -> bool {
    entry(id).and_then(|entry| entry.uid().ok()) == Some(rustix::process::geteuid().as_raw())
}

/// What adopts processes whose parent has ended. Another first process may be a client, for example in a container.
const ADOPTERS: [&str; 10] = [
    "systemd",
    "init",
    "tini",
    "docker-init",
    "dumb-init",
    "catatonit",
    "s6-svscan",
    "runit",
    "openrc-init",
    "launchd",
];

/// Whether nothing can write to the input of a stray process any more, as far as the system tells.
pub(crate) fn is_left(stray: &Process, descendants: &[Process], adopter: &Process) -> bool {
    let Some(input) = input(stray.id) else { return false };
    match input {
        FDTarget::Pipe(pipe) => {
            let own: Vec<u32> = descendants.iter().chain([stray]).map(|process| process.id.pid).collect();
            let others = procfs::process::all_processes().into_iter().flatten().filter_map(Result::ok);
            let mut others = others.filter(|other| !u32::try_from(other.pid).is_ok_and(|pid| own.contains(&pid)));
            !others.any(|other| has_pipe(&other, pipe))
        }
        // Who is at the other end is not told. The first process may be.
        FDTarget::Socket(_) => ADOPTERS.contains(&adopter.name.as_str()),
        // A service, or a program that was started by hand.
        FDTarget::Path(_)
        | FDTarget::Net(_)
        | FDTarget::AnonInode(_)
        | FDTarget::MemFD(_)
        | FDTarget::Other(..)
        | FDTarget::Unknown(..) => false,
    }
}

/// Whether both read from the same pipe or socket, as a server does that was started through `npx` or a shell.
pub(crate) fn shares_input(one: ProcessId, other: ProcessId) -> bool {
    match (input(one), input(other)) {
        (Some(FDTarget::Pipe(one)), Some(FDTarget::Pipe(other)))
        | (Some(FDTarget::Socket(one)), Some(FDTarget::Socket(other))) => one == other,
        _ => false,
    }
}

fn input(id: ProcessId) -> Option<FDTarget> {
    Some(entry(id)?.fd_from_fd(0).ok()?.target)
}

fn has_pipe(entry: &Entry, pipe: u64) -> bool {
    let open = entry.fd().into_iter().flatten().filter_map(Result::ok);
    open.into_iter().any(|one| matches!(one.target, FDTarget::Pipe(inode) if inode == pipe))
}
