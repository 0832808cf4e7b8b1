//! What `sysinfo` tells.

use std::{
    thread,
    time::{Duration, Instant},
};

use sysinfo::{Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, Signal, System, UpdateKind};

use super::{NotAllowed, Order, identity::ProcessId, mark::Mark, process::Process};

/// The process that has this number now; `None` if none has, or it has ended and waits to be reaped.
pub(crate) fn running(pid: u32) -> Option<ProcessId> {
    let system = read(pid, ProcessRefreshKind::nothing());
    system.process(Pid::from_u32(pid)).filter(|process| is_running(process)).map(identity)
}

fn read(pid: u32, what: ProcessRefreshKind) -> System {
    let mut system = System::new();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[Pid::from_u32(pid)]), true, what);
    system
}

fn identity(process: &sysinfo::Process) -> ProcessId {
    ProcessId { pid: process.pid().as_u32(), start: process.start_time() }
}

fn is_running(process: &sysinfo::Process) -> bool {
    !matches!(process.status(), ProcessStatus::Zombie | ProcessStatus::Dead)
}

/// The process that started this one, with the name of its program. This system does not tell the terminal.
pub(crate) fn origin() -> (Option<(ProcessId, String)>, Option<u32>) {
    let own = std::process::id();
    let system = read(own, ProcessRefreshKind::nothing());
    let parent = system.process(Pid::from_u32(own)).and_then(sysinfo::Process::parent);
    let client = parent.and_then(|parent| {
        let system = read(parent.as_u32(), ProcessRefreshKind::nothing());
        let parent = system.process(parent)?;
        Some((identity(parent), parent.name().to_string_lossy().into_owned()))
    });
    (client, None)
}

/// The numbers of the ancestors of this process.
pub(crate) fn ancestors() -> impl Iterator<Item = u32> {
    std::iter::successors(running(std::process::id()), |id| parent(*id)).skip(1).map(|id| id.pid)
}

/// The process that started this one, unless that has ended.
fn parent(of: ProcessId) -> Option<ProcessId> {
    let system = read(of.pid, ProcessRefreshKind::nothing());
    let parent = running(system.process(Pid::from_u32(of.pid))?.parent()?.as_u32())?;
    // One that is younger has only its number.
    (parent.start <= of.start).then_some(parent)
}

/// Nothing else: the start of a process is a date here.
pub(crate) const fn place() -> [Vec<u8>; 3] {
    [Vec::new(), Vec::new(), Vec::new()]
}

/// When a process started: between these two, in microseconds since 1970.
pub(crate) const fn started(id: ProcessId) -> (u64, u64) {
    let at = id.start.saturating_mul(1_000_000);
    (at, at.saturating_add(1_000_000))
}

/// Starts are dates here.
pub(crate) const fn since_start() -> Option<Duration> {
    None
}

/// This system does not report what a process reads from.
pub(crate) const fn shares_input(_: ProcessId, _: ProcessId) -> bool {
    false
}

/// All processes that run. One that begins or ends meanwhile may be missing.
pub(crate) fn processes() -> impl Iterator<Item = Process> {
    let what = ProcessRefreshKind::nothing().with_memory().with_cpu().with_environ(UpdateKind::Always);
    let mut system = System::new();
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, what);
    let all: Vec<Process> = system.processes().values().filter(|process| is_running(process)).map(process).collect();
    all.into_iter()
}

fn process(found: &sysinfo::Process) -> Process {
    let id = identity(found);
    let lines = found.environ().iter().map(|line| line.as_encoded_bytes()).collect::<Vec<_>>();
    Process {
        id,
        parent: found.parent().map_or(0, Pid::as_u32),
        group: group(id.pid),
        session: found.session_id().map_or(id.pid, Pid::as_u32),
        terminal: None,
        is_stopped: found.status() == ProcessStatus::Stop,
        memory: found.memory(),
        cpu: Duration::from_millis(found.accumulated_cpu_time()),
        age: Duration::from_secs(found.run_time()),
        name: found.name().to_string_lossy().into_owned(),
        mark: Mark::in_environment(&lines.join(&0)),
    }
}

#[cfg(unix)]
fn group(pid: u32) -> u32 {
    let of = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let group = rustix::process::getpgid(of).ok();
    group.map_or(pid, |group| group.as_raw_nonzero().get().unsigned_abs())
}

/// There are no groups: each process is its own.
#[cfg(windows)]
const fn group(pid: u32) -> u32 {
    pid
}

/// The arguments of a process; empty if it has ended or hides them.
pub(crate) fn arguments(id: ProcessId) -> Vec<String> {
    let system = read(id.pid, ProcessRefreshKind::nothing().with_cmd(UpdateKind::Always));
    let same = system.process(Pid::from_u32(id.pid)).filter(|process| identity(process) == id);
    same.map(|process| process.cmd().iter().map(|word| word.to_string_lossy().into_owned()).collect())
        .unwrap_or_default()
}

/// A process that is named: its start is checked before each order.
#[derive(Debug)]
pub(crate) struct Held(ProcessId);

impl Held {
    /// `None` if it has ended.
    pub(crate) fn of(id: ProcessId) -> Option<Self> {
        id.is_alive().then_some(Self(id))
    }

    /// Sends an order. One to a process that has ended has no effect, and there is no polite one on Windows.
    pub(crate) fn send(&self, order: Order) -> Result<(), NotAllowed> {
        let system = read(self.0.pid, ProcessRefreshKind::nothing());
        let Some(process) = system.process(Pid::from_u32(self.0.pid)).filter(|process| identity(process) == self.0)
        else {
            return Ok(());
        };
        let sent = match order {
            Order::Terminate => process.kill_with(Signal::Term),
            Order::Kill => Some(process.kill()),
        };
        // A stopped process hears of it only when it goes on.
        let _ = process.kill_with(Signal::Continue);
        if sent == Some(false) && self.0.is_alive() { Err(NotAllowed) } else { Ok(()) }
    }
}

/// How often they are looked for.
const ROUND: Duration = Duration::from_millis(20);

/// Waits until one of them has ended, at most for `timeout`. Returns which have.
pub(crate) fn wait(all: &[&Held], timeout: Duration) -> Vec<bool> {
    let until = Instant::now() + timeout;
    loop {
        let ended: Vec<bool> = all.iter().map(|held| !held.0.is_alive()).collect();
        let left = until.saturating_duration_since(Instant::now());
        if ended.contains(&true) || left.is_zero() {
            return ended;
        }
        thread::sleep(ROUND.min(left));
    }
}

/// Whether a process belongs to this user.
pub(crate) fn is_own(id: ProcessId) -> bool {
    let user = |pid: u32| {
        let system = read(pid, ProcessRefreshKind::nothing().with_user(UpdateKind::Always));
        system.process(Pid::from_u32(pid)).and_then(sysinfo::Process::user_id).cloned()
    };
    user(id.pid).is_some_and(|owner| user(std::process::id()) == Some(owner))
}

/// This system does not tell who holds the other end of an input, so nothing is taken for left.
pub(crate) const fn is_left(_: &Process, _: &[Process], _: &Process) -> bool {
    false
}
