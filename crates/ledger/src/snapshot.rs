//! The processes of this system at one moment.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
    time::Duration,
};

use procfs::process::{Process as Entry, Stat};

use crate::{
    identity::{ProcessId, is_running},
    mark::Mark,
};

/// All processes that run, by number.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub(crate) processes: BTreeMap<u32, Process>,
}

/// A process that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number and start.
    pub id: ProcessId,
    /// The number of its parent.
    pub parent: u32,
    /// The number of its process group.
    pub group: u32,
    /// The number of its session, as the system means the word.
    pub session: u32,
    /// Its terminal, as the kernel numbers them.
    pub terminal: Option<u32>,
    /// It was stopped (SIGSTOP, or job control).
    pub is_stopped: bool,
    /// The memory that it holds, in bytes, with what it shares with others.
    pub memory: u64,
    /// The processor time that it has used.
    pub cpu: Duration,
    /// Its age.
    pub age: Duration,
    /// The name of its program, cut by the kernel after 15 bytes.
    pub name: String,
    /// The mark that it carries. None may be read from a process of another user.
    pub mark: Option<Mark>,
}

impl Snapshot {
    /// Reads `/proc`. A process that begins or ends meanwhile may be missing.
    #[must_use]
    pub fn take() -> Self {
        let clock = Clock::read();
        let user = rustix::process::geteuid().as_raw();
        let entries = procfs::process::all_processes().into_iter().flatten().filter_map(Result::ok);
        let processes = entries.filter_map(|entry| Process::read(&entry, &clock, user));
        Self { processes: processes.map(|process| (process.id.pid, process)).collect() }
    }

    /// The process with this identity.
    #[must_use]
    pub fn get(&self, id: ProcessId) -> Option<&Process> {
        self.processes.get(&id.pid).filter(|process| process.id == id)
    }

    /// Those of `ids` that run, and their descendants.
    #[must_use]
    pub fn with_descendants(&self, ids: &BTreeSet<ProcessId>) -> Vec<ProcessId> {
        let below = |process: &&Process| self.ancestors(process).any(|ancestor| ids.contains(&ancestor.id));
        let chosen = self.processes.values().filter(|process| ids.contains(&process.id) || below(process));
        chosen.map(|process| process.id).collect()
    }

    /// The ancestors of a process, its parent first.
    pub(crate) fn ancestors<'a>(&'a self, process: &'a Process) -> impl Iterator<Item = &'a Process> {
        let parent = |process: &&Process| {
            let parent = self.processes.get(&process.parent)?;
            // A number that is used again between two reads cannot make a circle.
            (parent.id.start <= process.id.start && parent.id != process.id).then_some(parent)
        };
        std::iter::successors(Some(process), parent).skip(1).take(self.processes.len())
    }
}

impl Process {
    fn read(entry: &Entry, clock: &Clock, user: u32) -> Option<Self> {
        let stat = entry.stat().ok().filter(|stat| is_running(stat.state))?;
        let is_own = entry.uid().is_ok_and(|owner| owner == user);
        let mark = is_own.then(|| environment(entry)).flatten().and_then(|text| Mark::in_environment(&text));
        Self::of(&stat, clock, mark)
    }

    fn of(stat: &Stat, clock: &Clock, mark: Option<Mark>) -> Option<Self> {
        let number = |number: i32| u32::try_from(number).ok();
        Some(Self {
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

    /// Its arguments, the first being the name it was called by; empty if it has ended or hides them.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let entry = i32::try_from(self.id.pid).ok().and_then(|pid| Entry::new(pid).ok());
        let same = entry.filter(|entry| entry.stat().is_ok_and(|stat| stat.starttime == self.id.start));
        same.and_then(|entry| entry.cmdline().ok()).unwrap_or_default()
    }
}

/// Read through the entry, which stays that of one process.
fn environment(entry: &Entry) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    entry.open_relative("environ").ok()?.read_to_end(&mut text).ok()?;
    Some(text)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_with_its_ancestors() {
        let snapshot = Snapshot::take();
        let own = snapshot.get(ProcessId::own().unwrap()).unwrap();
        assert!(own.memory > 0 && own.age < Duration::from_secs(3600));
        assert!(own.arguments()[0].contains("rescind_ledger"));
        let parent = snapshot.ancestors(own).next().unwrap();
        assert_eq!(parent.id.pid, std::os::unix::process::parent_id());
    }
}
