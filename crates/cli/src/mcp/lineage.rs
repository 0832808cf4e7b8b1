//! Who started this server.
//!
//! What an agent may stop is decided by processes: by a shim's ancestors as recorded at its start and as they are now, with
//! start times against reused numbers, and with the shim's number from the kernel, since its own may be of another PID
//! namespace. In doubt it errs towards less reach.

use std::{fs, iter::successors, path::Path};

use rescind_ledger::{
    identity::ProcessId,
    mark::{MARK_VARIABLE, Mark, Place},
    snapshot::{Process, Snapshot},
};

/// The shells that a client may start a command through.
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "fish"];

/// Package runners, which wait for what they have started.
const RUNNERS: [&str; 6] = ["npx", "npx-cli.js", "uvx", "uv", "bunx", "pnpx"];

/// The processes that this server descends from.
#[derive(Clone, Debug, Default)]
pub(super) struct Lineage {
    /// All of them, the parent first.
    above: Vec<ProcessId>,
    /// The shim in front of this server.
    shim: Option<ProcessId>,
    /// The nearest that is neither that shim nor a launcher; `None` if it is not known.
    agent: Option<ProcessId>,
}

impl Lineage {
    /// The lineage of this process. It is found once, while it is as its client has made it.
    pub(super) fn find() -> Self {
        let Some(own) = ProcessId::own() else { return Self::default() };
        let snapshot = Snapshot::take();
        let ancestors: Vec<&Process> = ancestors(&snapshot, own).collect();
        let mark = std::env::var(MARK_VARIABLE).ok().and_then(|text| text.parse::<Mark>().ok());
        let marked = mark.filter(|mark| mark.place == Place::here()).map(|mark| mark.shim);
        let starts_only_this = |process: &Process| is_launcher(process) && children(process.id.pid) == Some(1);
        let is_between = |process: &&&Process| Some(process.id) == marked || starts_only_this(process);
        let between: Vec<_> = ancestors.iter().take_while(is_between).collect();
        let agent = ancestors.get(between.len()).filter(|process| !is_manager(process));
        Self {
            shim: between.iter().map(|process| process.id).find(|id| Some(*id) == marked),
            agent: agent.map(|process| process.id),
            above: ancestors.iter().map(|process| process.id).collect(),
        }
    }

    /// Whether it is known who started this server.
    pub(super) const fn is_known(&self) -> bool {
        self.agent.is_some()
    }

    /// Whether this is the shim of this server.
    pub(super) fn is_own_shim(&self, pid: u32) -> bool {
        self.shim.is_some_and(|shim| shim.pid == pid)
    }

    /// Whether this server descends from the process: it is the shim of this server, or of its agent.
    pub(super) fn is_above(&self, pid: u32) -> bool {
        self.above.iter().any(|one| one.pid == pid)
    }

    /// Whether the agent has started the shim of this number. `recorded` are the shim's ancestors at its start, which tell
    /// it also when a launcher in between has ended.
    pub(super) fn has_started(&self, pid: u32, recorded: &[u32], snapshot: &Snapshot) -> bool {
        let Some((agent, shim)) = self.agent.zip(ProcessId::of(pid)) else { return false };
        // The number in the record was the agent's then: the agent was there before the shim, and still is.
        let is_recorded = || agent.start <= shim.start && recorded.contains(&agent.pid);
        agent.is_alive() && (is_recorded() || ancestors(snapshot, shim).any(|one| one.id == agent))
    }
}

/// The ancestors of a process, its parent first.
fn ancestors(snapshot: &Snapshot, of: ProcessId) -> impl Iterator<Item = &Process> {
    let parent = |process: &&Process| snapshot.get(ProcessId::of(process.parent)?);
    successors(snapshot.get(of), parent).skip(1).take(64)
}

/// Whether a process runs one command for somebody else, and waits for it.
fn is_launcher(process: &Process) -> bool {
    let arguments = process.arguments();
    let name = |place: usize| {
        let word = arguments.get(place).map_or("", String::as_str);
        Path::new(word).file_name().and_then(|name| name.to_str()).unwrap_or_default()
    };
    let flag = arguments.get(1).map_or("", String::as_str);
    let is_command = flag.starts_with('-') && !flag.starts_with("--") && flag.ends_with('c');
    let is_script = name(0) == "node" && RUNNERS.contains(&name(1));
    // npm writes its own command line.
    let is_npm = arguments.first().is_some_and(|line| line.starts_with("npm exec"));
    (SHELLS.contains(&name(0)) && is_command) || RUNNERS.contains(&name(0)) || is_script || is_npm
}

/// Whether everything that loses its parent becomes the child of this process.
fn is_manager(process: &Process) -> bool {
    process.id.pid == 1 || process.name == "systemd"
}

/// How many children a process has; `None` if that cannot be read.
fn children(pid: u32) -> Option<usize> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let counts = threads.map(|thread| {
        let children = fs::read_to_string(thread.ok()?.path().join("children")).ok()?;
        Some(children.split_whitespace().count())
    });
    counts.sum()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn of_agent(agent: ProcessId) -> Lineage {
        Lineage { agent: Some(agent), ..Lineage::default() }
    }

    #[test]
    fn a_child_is_the_agents_and_what_was_there_before_is_not() {
        let own = ProcessId::own().unwrap();
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let snapshot = Snapshot::take();
        let has_started = |agent, pid, recorded: &[u32]| of_agent(agent).has_started(pid, recorded, &snapshot);
        assert!(has_started(own, child.id(), &[]));
        // The number of an earlier process is not that process.
        assert!(!has_started(ProcessId { start: own.start - 1, ..own }, child.id(), &[own.pid]));
        // Its ancestor had this process's number before this process did.
        assert!(!has_started(own, 1, &[own.pid]));
        // Nor is what started it.
        let child_id = ProcessId::of(child.id()).unwrap();
        assert!(!has_started(child_id, own.pid, &[]));
        // A launcher in between has ended: only the record tells.
        assert!(has_started(child_id, child.id(), &[child.id()]));
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn a_shell_that_started_more_than_one_command_is_no_launcher() {
        for (script, count) in [("cat; :", 1), ("sleep 1000 & cat; kill $!", 2)] {
            let mut shell = Command::new("sh");
            let mut shell = shell.args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
            let begun = std::time::Instant::now();
            while children(shell.id()) != Some(count) {
                assert!(begun.elapsed().as_secs() < 60, "{:?}", children(shell.id()));
                std::thread::yield_now();
            }
            let id = ProcessId::of(shell.id()).unwrap();
            assert!(is_launcher(Snapshot::take().get(id).unwrap()));
            drop(shell.stdin.take());
            shell.wait().unwrap();
        }
    }
}
