//! Which processes belong to which session.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    record::Record,
    snapshot::{Process, Snapshot},
    system::{
        identity::ProcessId,
        mark::{Mark, Place},
    },
};

/// The processes of one session: those that carry its mark, their descendants, and the rest of their process groups.
#[derive(Clone, Debug)]
pub struct Family {
    /// The session's mark.
    pub mark: Mark,
    /// What is known of it; `None` if it was not listed, or ended in order.
    pub record: Option<Record>,
    /// Its shim; `None` if it has ended: then its members are orphans.
    pub shim: Option<Process>,
    /// Whether the process that started the shim still runs.
    pub client: ClientState,
    /// Its members, each parent before its children.
    pub members: Vec<Member>,
}

/// Whether the process that started a shim still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientState {
    /// It runs.
    Alive,
    /// It has ended.
    Gone,
    /// There is no record of it.
    Unknown,
}

/// A process of a session.
#[derive(Clone, Debug)]
pub struct Member {
    /// The process.
    pub process: Process,
    /// How many of its ancestors are members of the same session.
    pub depth: usize,
    /// Why it is not ended unless it is named.
    pub kept: Option<Kept>,
}

/// Why an orphan is not ended unless it is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kept {
    /// It, or a descendant, works on a terminal: perhaps a person sits before it.
    Terminal,
    /// It started the process that asks.
    Ancestor,
}

impl Kept {
    /// The word for it in data.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Terminal => "terminal",
            Self::Ancestor => "ancestor",
        }
    }

    /// The reason in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Terminal => "on a terminal",
            Self::Ancestor => "started this command",
        }
    }
}

impl Family {
    /// The families of `place` that have members or whose shim runs, by mark.
    #[must_use]
    pub fn find(snapshot: &Snapshot, records: Vec<Record>, place: Place) -> Vec<Self> {
        let mut records: BTreeMap<Mark, Record> = records.into_iter().map(|record| (record.mark, record)).collect();
        let mut members: BTreeMap<Mark, BTreeSet<u32>> = BTreeMap::new();
        for (pid, mark) in owners(snapshot, place) {
            members.entry(mark).or_default().insert(pid);
        }
        for mark in records.keys().filter(|mark| mark.place == place && snapshot.get(mark.shim).is_some()) {
            members.entry(*mark).or_default();
        }
        let family = |(mark, pids): (Mark, BTreeSet<u32>)| Self::of(snapshot, mark, &pids, records.remove(&mark));
        members.into_iter().map(family).collect()
    }

    fn of(snapshot: &Snapshot, mark: Mark, pids: &BTreeSet<u32>, record: Option<Record>) -> Self {
        let client = record.as_ref().and_then(|record| record.client.as_ref());
        let client = match client.map(|client| snapshot.get(client.id)) {
            None => ClientState::Unknown,
            Some(None) => ClientState::Gone,
            Some(Some(_)) => ClientState::Alive,
        };
        let terminal = record.as_ref().and_then(|record| record.terminal);
        let kept = kept(snapshot, pids, terminal);
        let members = in_order(snapshot, pids);
        let members = members.map(|(process, depth)| Member {
            kept: kept.get(&process.id.pid).copied(),
            process: process.clone(),
            depth,
        });
        let members = members.collect();
        Self { mark, record, shim: snapshot.get(mark.shim).cloned(), client, members }
    }

    /// Whether its shim has ended and processes are left.
    #[must_use]
    pub const fn is_orphaned(&self) -> bool {
        self.shim.is_none() && !self.members.is_empty()
    }

    /// Its members that may be ended without being named.
    pub fn free(&self) -> impl Iterator<Item = &Process> {
        self.members.iter().filter(|member| member.kept.is_none()).map(|member| &member.process)
    }

    /// The member with this number and its descendants among the members; not those that started the process that asks.
    pub fn branch(&self, pid: u32) -> impl Iterator<Item = &Process> {
        let mut from = self.members.iter().skip_while(move |member| member.process.id.pid != pid);
        let root = from.next();
        let depth = root.map_or(0, |root| root.depth);
        let below = from.take_while(move |member| member.depth > depth);
        let all = root.into_iter().chain(below);
        all.filter(|member| member.kept != Some(Kept::Ancestor)).map(|member| &member.process)
    }

    /// The name of its session, which is its shim's number unless that was taken.
    #[must_use]
    pub fn session(&self) -> String {
        let recorded = self.record.as_ref().map(|record| record.session.clone());
        recorded.unwrap_or_else(|| self.mark.shim.pid.to_string())
    }
}

/// To which session each process belongs: by its own mark, else that of its nearest marked ancestor, else that of its
/// process group.
fn owners(snapshot: &Snapshot, place: Place) -> BTreeMap<u32, Mark> {
    let own = |process: &Process| process.mark.filter(|mark| mark.place == place);
    let by_descent = |process: &Process| own(process).or_else(|| snapshot.ancestors(process).find_map(own));
    let all = snapshot.processes.values();
    let mut owners: BTreeMap<u32, Mark> =
        all.clone().filter_map(|process| Some((process.id.pid, by_descent(process)?))).collect();
    // A group with a leader from outside is not ours.
    let is_ours = |group: u32| owners.contains_key(&group) || !snapshot.processes.contains_key(&group);
    let marked = all.clone().filter(|process| is_ours(process.group));
    let groups: BTreeMap<u32, Mark> = marked.filter_map(|process| Some((process.group, own(process)?))).collect();
    let stripped = all.filter(|process| !owners.contains_key(&process.id.pid));
    let stripped = stripped.filter_map(|process| Some((process.id.pid, *groups.get(&process.group)?)));
    owners.extend(stripped.collect::<Vec<_>>());
    owners
}

/// The members, each parent before its children, with how deep they are.
fn in_order<'a>(snapshot: &'a Snapshot, pids: &'a BTreeSet<u32>) -> impl Iterator<Item = (&'a Process, usize)> {
    let process = |pid: &u32| snapshot.processes.get(pid);
    let mut children: BTreeMap<Option<u32>, Vec<&Process>> = BTreeMap::new();
    for member in pids.iter().filter_map(process) {
        let parent = snapshot.ancestors(member).next().map(|parent| parent.id.pid).filter(|pid| pids.contains(pid));
        children.entry(parent).or_default().push(member);
    }
    children
        .values_mut()
        .for_each(|children| children.sort_by_key(|child| std::cmp::Reverse((child.id.start, child.id.pid))));
    // The last is the next.
    let mut next: Vec<(&Process, usize)> =
        children.remove(&None).unwrap_or_default().into_iter().map(|root| (root, 0)).collect();
    std::iter::from_fn(move || {
        let (process, depth) = next.pop()?;
        let below = children.remove(&Some(process.id.pid)).unwrap_or_default();
        next.extend(below.into_iter().map(|child| (child, depth + 1)));
        Some((process, depth))
    })
}

/// The members that are not ended unless they are named.
fn kept(snapshot: &Snapshot, pids: &BTreeSet<u32>, terminal: Option<u32>) -> BTreeMap<u32, Kept> {
    let mut kept = BTreeMap::new();
    let on_terminal = |process: &&Process| process.terminal.is_some() && process.terminal != terminal;
    let members = || pids.iter().filter_map(|pid| snapshot.processes.get(pid));
    for process in members().filter(on_terminal) {
        let with_ancestors = std::iter::once(process).chain(snapshot.ancestors(process));
        kept.extend(with_ancestors.map(|process| (process.id.pid, Kept::Terminal)));
    }
    if let Some(own) = ProcessId::own().and_then(|own| snapshot.get(own)) {
        let with_ancestors = std::iter::once(own).chain(snapshot.ancestors(own));
        kept.extend(with_ancestors.map(|process| (process.id.pid, Kept::Ancestor)));
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A process with a start that grows with its number.
    fn process(pid: u32, parent: u32, group: u32, mark: Option<Mark>) -> Process {
        Process {
            id: ProcessId { pid, start: pid.into() },
            parent,
            group,
            session: group,
            terminal: None,
            is_stopped: false,
            memory: 0,
            cpu: Duration::ZERO,
            age: Duration::ZERO,
            name: String::new(),
            mark,
        }
    }

    fn of_shim(pid: u32) -> Mark {
        Mark { shim: ProcessId { pid, start: pid.into() }, place: Place::here(), number: 0 }
    }

    /// A shim, whether it has ended, and its members with their depths.
    type Found = (u32, bool, Vec<(u32, usize)>);

    fn found(processes: Vec<Process>) -> Vec<Found> {
        let snapshot = Snapshot { processes: processes.into_iter().map(|one| (one.id.pid, one)).collect() };
        let families = Family::find(&snapshot, Vec::new(), Place::here());
        let members = |family: &Family| family.members.iter().map(|one| (one.process.id.pid, one.depth)).collect();
        families.iter().map(|family| (family.mark.shim.pid, family.is_orphaned(), members(family))).collect()
    }

    /// The shim 10 runs. Its server 12 has a child 13 without an environment, and a daemon 14; 20 is a stranger.
    #[test]
    fn a_family_is_what_carries_the_mark_and_descends_from_it() {
        let mark = Some(of_shim(10));
        let all = vec![
            process(1, 0, 1, None),
            process(10, 1, 10, None),
            process(11, 10, 11, mark),
            process(12, 10, 11, mark),
            process(13, 12, 11, None),
            process(14, 1, 14, mark),
            process(15, 14, 14, None),
            process(20, 1, 20, None),
        ];
        let members = vec![(11, 0), (12, 0), (13, 1), (14, 0), (15, 1)];
        assert_eq!(found(all.clone()), [(10, false, members.clone())]);
        // A later process may have the shim's number, or the server's.
        let mut gone = all;
        gone[1].id.start = 99;
        assert_eq!(found(gone), [(10, true, members)]);
    }

    #[test]
    fn a_session_in_a_session_is_its_own() {
        let (outer, inner) = (of_shim(10), of_shim(12));
        let all = vec![
            process(10, 1, 10, None),
            process(11, 10, 11, Some(outer)),
            process(12, 11, 11, Some(outer)),
            process(13, 12, 13, Some(inner)),
        ];
        assert_eq!(found(all), [(10, false, vec![(11, 0), (12, 1)]), (12, false, vec![(13, 0)])]);
    }

    #[test]
    fn a_group_belongs_to_a_session_unless_it_has_another_leader() {
        let mark = Some(of_shim(10));
        // The guard 11, which led the group, was killed, and 13 has lost its parent and its environment.
        let all = vec![process(12, 1, 11, mark), process(13, 1, 11, None)];
        assert_eq!(found(all), [(10, true, vec![(12, 0), (13, 0)])]);
        let led = vec![process(11, 1, 11, None), process(12, 1, 11, mark), process(13, 1, 11, None)];
        assert_eq!(found(led), [(10, true, vec![(12, 0)])]);
    }

    #[test]
    fn a_mark_of_another_place_means_nothing_here() {
        let mut mark = of_shim(10);
        mark.place = serde_json::from_str::<Mark>("\"1-1-0000000000000007-0\"").unwrap().place;
        assert_eq!(found(vec![process(12, 1, 12, Some(mark))]), []);
    }

    #[test]
    fn what_works_on_a_terminal_is_kept() {
        let mark = Some(of_shim(10));
        let mut all = vec![process(11, 1, 11, mark), process(12, 11, 12, mark), process(13, 1, 13, mark)];
        all[1].terminal = Some(34816);
        let snapshot = Snapshot { processes: all.into_iter().map(|one| (one.id.pid, one)).collect() };
        let families = Family::find(&snapshot, Vec::new(), Place::here());
        let kept: Vec<_> = families[0].members.iter().map(|member| (member.process.id.pid, member.kept)).collect();
        assert_eq!(kept, [(11, Some(Kept::Terminal)), (12, Some(Kept::Terminal)), (13, None)]);
    }
}
