//! Which processes are to end: what ended sessions have left, and of a session that runs what was named or began during a
//! cancelled request.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::{
    family::{Family, Kept, Member},
    snapshot::Snapshot,
    system::{identity::ProcessId, mark::Mark},
    turn::{TurnVerdict, is_server},
};

/// Processes that a person saw and chose, and what those start meanwhile.
#[derive(Clone, Debug)]
pub struct Choice {
    known: BTreeMap<ProcessId, Verdict>,
    sessions: BTreeSet<Mark>,
    /// Process groups of which every member was chosen: what they start later is chosen, too, whoever is its parent.
    groups: BTreeSet<u32>,
}

/// What becomes of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It was not chosen.
    Spared,
    /// It ends, unless it is [`Kept`] by then.
    Chosen,
    /// It was named: it ends, unless it started the process that asks.
    Named,
}

/// Processes of one session, as a person saw them.
#[derive(Clone, Debug, Deserialize)]
pub struct SeenSession {
    /// The session's mark.
    pub mark: Mark,
    /// The processes that are to end.
    pub processes: Vec<ProcessId>,
}

/// Why processes that were seen cannot be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// Its shim runs.
    #[error("session {0} is still running")]
    Running(String),
    /// It belongs to another session, or to none.
    #[error("process {0} is not one that this session has left")]
    Foreign(u32),
    /// It is ended only by `rescind reap` with its number.
    #[error("process {0} is kept: {words}", words = .1.words())]
    Kept(u32, Kept),
}

impl Choice {
    /// What the targets name, which are sessions or numbers of processes; without any, all that is not kept. Of a session
    /// that runs only numbers name anything, and never its server.
    #[must_use]
    pub fn named(families: &[Family], targets: &[String]) -> Self {
        let numbers = || targets.iter().filter_map(|target| target.parse().ok());
        Self::new(families, |family| {
            if family.is_orphaned() && (targets.is_empty() || targets.contains(&family.session())) {
                return family.free().map(|process| (process.id, Verdict::Chosen)).collect();
            }
            let of = |pid| family.branch(pid).filter(|process| !is_server(family, process));
            numbers().flat_map(of).map(|process| (process.id, Verdict::Named)).collect()
        })
    }

    /// What of a session that runs began during a cancelled request and is to end, with all that it has started.
    #[must_use]
    pub fn of_turn(family: &Family, verdict: &TurnVerdict) -> Self {
        let spared = verdict.spared.iter().map(|(id, _)| (*id, Verdict::Spared));
        let ends = verdict.ends.iter().map(|id| (*id, Verdict::Chosen));
        let mut choice = Self::new(std::slice::from_ref(family), |_| spared.clone().chain(ends.clone()).collect());
        let (mut chosen, mut others) = (BTreeSet::new(), BTreeSet::new());
        for Member { process, .. } in &family.members {
            match choice.known.get(&process.id) {
                Some(Verdict::Chosen) => chosen.insert(process.group),
                Some(Verdict::Spared | Verdict::Named) | None => others.insert(process.group),
            };
        }
        choice.groups = &chosen - &others;
        choice
    }

    /// The processes that a person saw, those that have ended since left out.
    ///
    /// # Errors
    ///
    /// [`ChoiceError`], if one of them must not be ended.
    pub fn seen(snapshot: &Snapshot, families: &[Family], seen: &[SeenSession]) -> Result<Self, ChoiceError> {
        for SeenSession { mark, processes } in seen {
            let family = families.iter().find(|family| family.mark == *mark);
            if let Some(running) = family.filter(|family| family.shim.is_some()) {
                return Err(ChoiceError::Running(running.session()));
            }
            for id in processes.iter().filter(|id| snapshot.get(**id).is_some()) {
                let member = family.and_then(|family| family.members.iter().find(|member| member.process.id == *id));
                if let Some(kept) = member.ok_or(ChoiceError::Foreign(id.pid))?.kept {
                    return Err(ChoiceError::Kept(id.pid, kept));
                }
            }
        }
        Ok(Self::new(families, |family| {
            let of_it = seen.iter().filter(|session| session.mark == family.mark);
            of_it.flat_map(|session| &session.processes).map(|id| (*id, Verdict::Chosen)).collect()
        }))
    }

    fn new(families: &[Family], chosen: impl Fn(&Family) -> BTreeMap<ProcessId, Verdict>) -> Self {
        let mut choice = Self { known: BTreeMap::new(), sessions: BTreeSet::new(), groups: BTreeSet::new() };
        for family in families {
            let chosen = chosen(family);
            if !chosen.is_empty() {
                choice.sessions.insert(family.mark);
                choice.known.extend(chosen);
                choice.judge(family, Verdict::Spared);
            }
        }
        choice
    }

    /// The processes that are to end now. What was not there before is judged as its parent is. If that has ended, it was
    /// started by one that was chosen, provided that no member is spared.
    pub fn follow(&mut self, families: &[Family]) -> Vec<ProcessId> {
        let mut all = Vec::new();
        for family in families {
            if !self.sessions.contains(&family.mark) {
                continue;
            }
            let is_spared = |member: &Member| self.known.get(&member.process.id) == Some(&Verdict::Spared);
            let strays = if family.members.iter().any(is_spared) { Verdict::Spared } else { Verdict::Chosen };
            all.extend(self.judge(family, strays));
        }
        all
    }

    /// Judges the members that are not known yet. Returns those that are to end.
    fn judge(&mut self, family: &Family, strays: Verdict) -> Vec<ProcessId> {
        let mut verdicts: BTreeMap<u32, Verdict> = BTreeMap::new();
        let mut to_end = Vec::new();
        for Member { process, kept, .. } in &family.members {
            let strays = if self.groups.contains(&process.group) { Verdict::Chosen } else { strays };
            let inherited = verdicts.get(&process.parent).copied().unwrap_or(strays);
            let verdict = *self.known.entry(process.id).or_insert(match kept {
                Some(_) if inherited == Verdict::Chosen => Verdict::Spared,
                _ => inherited,
            });
            verdicts.insert(process.id.pid, verdict);
            let ends = match verdict {
                _ if family.shim.is_some() && is_server(family, process) => false,
                Verdict::Spared => false,
                Verdict::Chosen => kept.is_none(),
                Verdict::Named => *kept != Some(Kept::Ancestor),
            };
            to_end.extend(ends.then_some(process.id));
        }
        to_end
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{snapshot::Process, system::mark::Place};

    const SHIM: u32 = 10;

    fn mark() -> Mark {
        Mark { shim: id(SHIM), place: Place::here(), number: 0 }
    }

    const fn id(pid: u32) -> ProcessId {
        ProcessId { pid, start: pid as u64 }
    }

    /// Marked processes: a number, its parent's, and whether it works on a terminal.
    fn now(processes: &[(u32, u32, bool)]) -> (Snapshot, Vec<Family>) {
        let process = |&(pid, parent, on_terminal): &(u32, u32, bool)| Process {
            id: id(pid),
            parent,
            group: pid,
            session: pid,
            terminal: on_terminal.then_some(34816),
            is_stopped: false,
            memory: 0,
            cpu: Duration::ZERO,
            age: Duration::ZERO,
            name: String::new(),
            mark: (20..1_000).contains(&pid).then(mark),
        };
        let snapshot = Snapshot { processes: processes.iter().map(|one| (one.0, process(one))).collect() };
        let families = Family::find(&snapshot, Vec::new(), Place::here());
        (snapshot, families)
    }

    fn seen(processes: &[(u32, u32, bool)], pids: &[u32]) -> Result<Choice, ChoiceError> {
        let (snapshot, families) = now(processes);
        let session = SeenSession { mark: mark(), processes: pids.iter().copied().map(id).collect() };
        Choice::seen(&snapshot, &families, &[session])
    }

    fn follow(choice: &mut Choice, processes: &[(u32, u32, bool)]) -> Vec<u32> {
        choice.follow(&now(processes).1).iter().map(|id| id.pid).collect()
    }

    #[test]
    fn what_the_chosen_start_is_chosen_and_what_the_spared_start_is_not() {
        let mut choice = seen(&[(20, 1, false), (30, 1, false)], &[20]).unwrap();
        assert_eq!(follow(&mut choice, &[(20, 1, false), (21, 20, false), (30, 1, false), (31, 30, false)]), [20, 21]);
        // Who started 22 is unknown; 21 has lost its parent, and is still known.
        assert_eq!(follow(&mut choice, &[(21, 1, false), (22, 1, false), (30, 1, false)]), [21]);
        let mut all = seen(&[(20, 1, false), (30, 1, false)], &[20, 30]).unwrap();
        assert_eq!(follow(&mut all, &[(22, 1, false), (30, 1, false)]), [22, 30]);
    }

    #[test]
    fn what_came_between_the_look_and_the_order_is_not_chosen_unless_it_descends() {
        let mut choice = seen(&[(20, 1, false), (21, 20, false), (30, 1, false)], &[20]).unwrap();
        assert_eq!(follow(&mut choice, &[(20, 1, false), (21, 20, false), (30, 1, false)]), [20, 21]);
    }

    #[test]
    fn who_gets_a_terminal_is_kept_and_who_had_one_stays_kept() {
        let mut choice = seen(&[(20, 1, false), (30, 1, true)], &[20]).unwrap();
        assert_eq!(follow(&mut choice, &[(20, 1, true), (30, 1, false)]), Vec::<u32>::new());
        let (_, families) = now(&[(20, 1, false), (30, 1, true)]);
        assert_eq!(follow(&mut Choice::named(&families, &[]), &[(20, 1, false), (30, 1, true)]), [20]);
        assert_eq!(follow(&mut Choice::named(&families, &["30".into()]), &[(20, 1, false), (30, 1, true)]), [30]);
    }

    #[test]
    fn what_must_not_be_ended_is_refused() {
        let wrong = |processes: &[(u32, u32, bool)], pid| seen(processes, &[pid]).unwrap_err();
        assert_eq!(wrong(&[(SHIM, 1, false), (20, 1, false)], 20), ChoiceError::Running("10".into()));
        assert_eq!(wrong(&[(20, 1, true)], 20), ChoiceError::Kept(20, Kept::Terminal));
        assert_eq!(wrong(&[(20, 1, false), (2_000, 1, false)], 2_000), ChoiceError::Foreign(2_000));
    }

    #[test]
    fn what_has_ended_since_is_left_out() {
        let mut choice = seen(&[(20, 1, false)], &[20, 25]).unwrap();
        assert_eq!(follow(&mut choice, &[(20, 1, false)]), [20]);
    }
}
