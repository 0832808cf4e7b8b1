//! During which request of its client a process of a session began (D59).
//!
//! Nothing is noted while a session runs. The system reports when a process began, and a shim remembers when its requests
//! did; the two are compared when somebody asks. What both clocks leave open is not decided: a process that began while
//! several requests were in flight is of one of them, and of one that began before what the shim remembers nothing is known.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime},
};

use rescind_feed::ProcessClock;

use crate::{
    family::{Family, Member},
    snapshot::Process,
    system::{self, identity::ProcessId},
};

/// How long a shim remembers a request that has ended, in microseconds.
const REMEMBERED_FOR: u64 = 600_000_000;

/// A shim that remembers so many requests that have ended may have forgotten others.
const REMEMBERED: usize = 4096;

/// A difference between two clocks from which on the machine is taken to have slept.
const ASLEEP: u64 = 1_000_000;

/// As far as this from the beginning or the end of a request, a process still counts as begun during it: systems report
/// the start of a process in steps.
const STEP: i64 = 10_000;

/// When a request of a client was in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Names the request.
    pub key: String,
    /// Its method.
    pub method: String,
    /// When it arrived, in microseconds on its session's clock.
    pub began: u64,
    /// When it ended for its client, in microseconds on its session's clock; `None` while it is in flight.
    pub ended: Option<u64>,
    /// A process may begin on its behalf: it is not a handshake, a ping or a subscription.
    pub is_work: bool,
}

/// The requests of a session's client that a process may have begun during.
#[derive(Clone, Debug)]
pub struct Turns {
    spans: Vec<Span>,
    clock: ProcessClock,
    /// What ended before may be forgotten, in microseconds on the session's clock; 0 if nothing is.
    known_since: u64,
    start: Option<ServerStart>,
}

/// When the server of a session was last started again (D64), in microseconds on the session's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerStart {
    /// When its process was started.
    pub at: u64,
    /// When it had answered the handshake, so that requests reached it; `None` until it has.
    pub greeted: Option<u64>,
}

/// When a process began, by the numbers of requests in [`Turns::spans`].
///
/// It never grows: what shows it must have words for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Began {
    /// While only this one was in flight.
    During(usize),
    /// While these were, several of them.
    OneOf(Vec<usize>),
    /// Perhaps while one of these was: the machine has slept since, or the system does not report exactly when it began.
    Perhaps(Vec<usize>),
    /// While none was.
    Outside,
    /// Before what is remembered.
    Unknown,
}

/// The processes that began during a request and run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftByTurn {
    /// Those that began during this one alone.
    pub own: Vec<ProcessId>,
    /// Those that began during it or another one.
    pub shared: Vec<ProcessId>,
}

/// Which processes end after the cancel of a request, if its user wants that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnVerdict {
    /// Those that end, with all that they have started.
    pub ends: BTreeSet<ProcessId>,
    /// Those that began during it and do not end, and why.
    pub spared: Vec<(ProcessId, Spared)>,
}

/// Why a process that began during a cancelled request is not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Spared {
    /// It may have begun during another request.
    Shared,
    /// It serves a process that began before its request: one that started it in the course of an earlier request, or of its
    /// own group.
    Serves(ProcessId),
}

impl Spared {
    /// The reason in words.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::Shared => "not ended: it may have begun during another request".to_owned(),
            Self::Serves(other) => format!("not ended: it belongs to process {}, which began before", other.pid),
        }
    }
}

impl Turns {
    /// The requests of one session's client, in any order, as its shim remembers them `now`, in microseconds on the
    /// session's clock.
    #[must_use]
    pub fn new(mut spans: Vec<Span>, clock: ProcessClock, now: u64) -> Self {
        let ended = || spans.iter().filter_map(|span| span.ended);
        let oldest = ended().min().filter(|_| ended().count() >= REMEMBERED).unwrap_or_default();
        let known_since = oldest.max(now.saturating_sub(REMEMBERED_FOR));
        spans.retain(|span| span.is_work);
        spans.sort_by(|a, b| (a.began, &a.key).cmp(&(b.began, &b.key)));
        Self { spans, clock, known_since, start: None }
    }

    /// The same where the server was last started again then. What began before it was greeted is of no request that
    /// waited meanwhile: it may be the program that `npx` or a shell has started anew.
    #[must_use]
    pub fn since(self, start: Option<ServerStart>) -> Self {
        Self { start, ..self }
    }

    /// The requests on whose behalf a process may begin, the oldest first.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// During which of them a process began.
    #[must_use]
    pub fn began(&self, process: ProcessId) -> Began {
        let (earliest, latest) = system::started(process);
        let on_session_clock = |at: u64| signed(at).saturating_sub(signed(self.clock.origin));
        let earliest = on_session_clock(earliest).saturating_sub(signed(self.clock.slept));
        let latest = on_session_clock(latest);
        let step = STEP.min(latest.saturating_sub(earliest));
        let is_before_greeting = |start: &ServerStart| start.greeted.is_none_or(|at| earliest <= signed(at));
        let start = self.start.filter(is_before_greeting);
        let has_waited = |span: &Span| start.is_some_and(|start| span.ended.is_none_or(|ended| ended > start.at));
        let is_met = |span: &Span| {
            signed(span.began) < latest && span.ended.is_none_or(|ended| earliest <= signed(ended)) && !has_waited(span)
        };
        let is_within = |span: &Span| {
            let is_before_end = |ended: u64| latest.saturating_sub(step) <= signed(ended);
            signed(span.began) < earliest.saturating_add(step) && span.ended.is_none_or(is_before_end)
        };
        let met: Vec<usize> = (0..self.spans.len()).filter(|one| is_met(&self.spans[*one])).collect();
        let is_known = self.known_since == 0 || earliest >= signed(self.known_since);
        match met[..] {
            [] if is_known => Began::Outside,
            [] => Began::Unknown,
            _ if !is_known || !met.iter().any(|one| is_within(&self.spans[*one])) => Began::Perhaps(met),
            [one] => Began::During(one),
            _ => Began::OneOf(met),
        }
    }

    /// What the request with this key has left in its session. The server is never among it.
    #[must_use]
    pub fn left_by(&self, family: &Family, key: &str) -> LeftByTurn {
        let mut left = LeftByTurn::default();
        for Member { process, .. } in family.members.iter().filter(|member| !is_server(family, &member.process)) {
            let has = |one: &usize| self.spans[*one].key == key;
            match self.began(process.id) {
                Began::During(one) if has(&one) => left.own.push(process.id),
                Began::OneOf(some) | Began::Perhaps(some) if some.iter().any(has) => left.shared.push(process.id),
                Began::During(_) | Began::OneOf(_) | Began::Perhaps(_) | Began::Outside | Began::Unknown => {}
            }
        }
        left
    }

    /// Which processes end after the cancel of the request with this key: those that began during it alone. One that serves
    /// an earlier process is spared: a worker that a development server of an earlier turn starts anew is not work of this
    /// one.
    #[must_use]
    pub fn to_end(&self, family: &Family, key: &str) -> TurnVerdict {
        let LeftByTurn { own, shared } = self.left_by(family, key);
        let mut verdict = TurnVerdict::default();
        for id in own {
            match self.master(family, id, key) {
                None => drop(verdict.ends.insert(id)),
                Some(master) => verdict.spared.push((id, Spared::Serves(master))),
            }
        }
        verdict.spared.extend(shared.into_iter().map(|id| (id, Spared::Shared)));
        verdict
    }

    /// The process that began before the request and that this one serves, if there is one: an ancestor that began during
    /// another request of the same method, or one of its group, unless that is the group of the server. What began outside
    /// of such requests may be a part of the server, which does the work of many.
    fn master(&self, family: &Family, id: ProcessId, key: &str) -> Option<ProcessId> {
        let member = |pid: u32| family.members.iter().find(|member| member.process.id.pid == pid);
        let own = member(id.pid)?;
        let request = self.spans.iter().find(|span| span.key == key)?;
        let is_alike = |one: &usize| self.spans[*one].key != key && self.spans[*one].method == request.method;
        let is_of_another = |id: ProcessId| match self.began(id) {
            Began::During(one) => is_alike(&one),
            Began::OneOf(some) | Began::Perhaps(some) => some.iter().any(is_alike),
            Began::Outside | Began::Unknown => false,
        };
        let above = std::iter::successors(member(own.process.parent), |above| member(above.process.parent));
        let mut above = above.take(family.members.len()).take_while(|above| !is_server(family, &above.process));
        let ancestor = above.find(|above| is_of_another(above.process.id));
        let servers: BTreeSet<u32> = family
            .members
            .iter()
            .filter(|member| is_server(family, &member.process))
            .flat_map(|server| [server.process.group, server.process.id.pid])
            .collect();
        let group = own.process.group;
        let is_mate = |member: &&Member| member.process.group == group && !self.began_in(member.process.id, key);
        let mate = family.members.iter().find(|member| !servers.contains(&group) && is_mate(member));
        let earlier = || mate.filter(|mate| mate.process.id.start <= id.start);
        ancestor.or_else(earlier).map(|master| master.process.id)
    }

    fn began_in(&self, id: ProcessId, key: &str) -> bool {
        matches!(self.began(id), Began::During(one) if self.spans[one].key == key)
    }
}

/// Whether it is the server, or its watcher: what the shim of this family has started itself.
#[must_use]
pub const fn is_server(family: &Family, process: &Process) -> bool {
    process.parent == family.mark.shim.pid
}

/// How the starts of processes are read on the clock of a session that began at `origin`, which was `started` microseconds
/// after 1970. It reads clocks.
#[must_use]
pub fn process_clock(origin: std::time::Instant, started: u64) -> ProcessClock {
    let (wall, elapsed) = (SystemTime::now(), origin.elapsed());
    let since_1970 = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // A session's clock stands still while the machine sleeps, and the date goes on.
    let slept = micros(since_1970).abs_diff(started.saturating_add(micros(elapsed)));
    let slept = if slept < ASLEEP { 0 } else { slept };
    let origin = system::since_start().map_or(started, |now| micros(now.saturating_sub(elapsed)).saturating_sub(slept));
    ProcessClock { origin, slept }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn signed(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        choice::Choice,
        snapshot::Snapshot,
        system::mark::{Mark, Place},
    };

    /// The shim, and the server that it has started.
    const SHIM: u32 = 10;
    const SERVER: u32 = 11;

    /// A process that started so many milliseconds after its session; the session began a second after the system.
    fn id(pid: u32, millis: u64) -> ProcessId {
        ProcessId { pid, start: (1_000 + millis) * procfs::ticks_per_second() / 1_000 }
    }

    fn span(key: &str, began: u64, ended: impl Into<Option<u64>>) -> Span {
        let ended = ended.into().map(|ended| ended * 1_000);
        Span { key: key.into(), method: "tools/call".into(), began: began * 1_000, ended, is_work: true }
    }

    fn turns(spans: &[Span], now: u64) -> Turns {
        Turns::new(spans.to_vec(), ProcessClock { origin: 1_000_000, slept: 0 }, now * 1_000)
    }

    fn began(spans: &[Span], now: u64, millis: u64) -> Began {
        turns(spans, now).began(id(20, millis))
    }

    #[test]
    fn a_process_is_of_the_request_that_was_in_flight_when_it_began() {
        let spans = [span("1", 100, 200), span("2", 300, None)];
        assert_eq!(began(&spans, 900, 150), Began::During(0));
        assert_eq!(began(&spans, 900, 250), Began::Outside);
        assert_eq!(began(&spans, 900, 800), Began::During(1));
        assert_eq!(began(&spans, 900, 0), Began::Outside, "such as the server");
        assert_eq!(turns(&spans, 900).began(ProcessId { pid: 1, start: 1 }), Began::Outside, "before its session");
        // A system reports the start of a process in steps of 10 ms.
        assert_eq!(began(&[span("1", 109, 200)], 900, 100), Began::During(0));
        assert_eq!(began(&[span("1", 110, 200)], 900, 100), Began::Outside);
        assert_eq!(began(&[span("1", 109, 109)], 900, 100), Began::During(0));
    }

    #[test]
    fn what_began_while_several_were_in_flight_is_one_of_them() {
        let spans = [span("1", 100, 300), span("2", 200, None)];
        assert_eq!(began(&spans, 900, 150), Began::During(0));
        assert_eq!(began(&spans, 900, 250), Began::OneOf(vec![0, 1]));
        assert_eq!(began(&spans, 900, 400), Began::During(1));
    }

    #[test]
    fn a_handshake_a_ping_or_a_subscription_starts_nothing() {
        let mut spans = [span("1", 0, None), span("2", 100, 200)];
        spans[0].is_work = false;
        assert_eq!(began(&spans, 900, 50), Began::Outside);
        assert_eq!(began(&spans, 900, 150), Began::During(0));
    }

    #[test]
    fn what_began_before_the_memory_of_its_shim_is_unknown() {
        let minute = 60_000;
        let spans = [span("1", 0, None)];
        assert_eq!(began(&spans, 10 * minute, 100), Began::During(0));
        assert_eq!(began(&spans, 11 * minute, 100), Began::Perhaps(vec![0]), "others may be forgotten");
        assert_eq!(began(&[], 11 * minute, 100), Began::Unknown);
        let many: Vec<Span> = (0..4096).map(|one| span("k", 1_000 + one, 1_000 + one)).collect();
        assert_eq!(began(&many, 9_000, 500), Began::Unknown);
        assert_eq!(began(&many[1..], 9_000, 500), Began::Outside);
    }

    #[test]
    fn a_request_that_waits_for_a_server_that_is_started_again_has_started_nothing() {
        let at = |greeted: Option<u64>, millis| {
            let spans = [span("1", 100, 200), span("2", 300, 450), span("3", 300, None)];
            let start = ServerStart { at: 400_000, greeted: greeted.map(|at| at * 1_000) };
            turns(&spans, 900).since(Some(start)).began(id(20, millis))
        };
        assert_eq!(at(None, 410), Began::Outside, "such as the program that npx starts");
        assert_eq!(at(Some(500), 430), Began::Outside);
        assert_eq!(at(Some(500), 500), Began::Outside, "a system reports in steps");
        assert_eq!(at(Some(500), 600), Began::During(2));
        assert_eq!(at(Some(500), 150), Began::During(0), "with the former server");
    }

    /// The shim's clock stands still while the machine sleeps, and that of processes goes on.
    #[test]
    fn what_began_before_or_while_the_machine_slept_is_told_as_perhaps() {
        let of = |spans: &[Span], millis| {
            let clock = ProcessClock { origin: 1_000_000, slept: 5_000_000 };
            Turns::new(spans.to_vec(), clock, 60_000_000).began(id(20, millis))
        };
        let spans = [span("1", 10_000, 12_000), span("2", 30_000, 40_000)];
        assert_eq!(of(&spans, 14_000), Began::Perhaps(vec![0]));
        assert_eq!(of(&spans, 9_000), Began::Outside);
        assert_eq!(of(&spans, 36_000), Began::During(1), "asleep or not");
    }

    #[test]
    fn absurd_times_do_not_overflow() {
        for clock in [ProcessClock { origin: u64::MAX, slept: u64::MAX }, ProcessClock { origin: 0, slept: u64::MAX }] {
            let spans = vec![span("1", u64::MAX / 1_000, None), span("2", 0, u64::MAX / 1_000)];
            for start in [0, u64::MAX] {
                let _ = Turns::new(spans.clone(), clock, u64::MAX).began(ProcessId { pid: 1, start });
            }
        }
    }

    /// A session: numbers, parents, groups and starts of its processes.
    fn family(processes: &[(u32, u32, u32, u64)]) -> Family {
        let shim = id(SHIM, 0);
        let mark = Mark { shim, place: Place::here(), number: 0 };
        let process = |&(pid, parent, group, millis): &(u32, u32, u32, u64)| Process {
            id: id(pid, millis),
            parent,
            group,
            session: group,
            terminal: None,
            is_stopped: false,
            memory: 0,
            cpu: Duration::ZERO,
            age: Duration::ZERO,
            name: String::new(),
            mark: (pid != SHIM).then_some(mark),
        };
        let all = [(SHIM, 1, SHIM, 0), (SERVER, SHIM, SERVER, 10)];
        let processes: BTreeMap<u32, Process> = all.iter().chain(processes).map(|one| (one.0, process(one))).collect();
        Family::find(&Snapshot { processes }, Vec::new(), Place::here()).remove(0)
    }

    fn pids(ids: impl IntoIterator<Item = ProcessId>) -> Vec<u32> {
        ids.into_iter().map(|id| id.pid).collect()
    }

    fn ended(spans: &[Span], key: &str, processes: &[(u32, u32, u32, u64)]) -> (Vec<u32>, Vec<(u32, Spared)>) {
        let family = family(processes);
        let verdict = turns(spans, 60_000).to_end(&family, key);
        let to_end = Choice::of_turn(&family, &verdict).follow(std::slice::from_ref(&family));
        (pids(to_end), verdict.spared.iter().map(|(id, why)| (id.pid, *why)).collect())
    }

    #[test]
    fn a_cancelled_turn_ends_what_began_during_it_alone_and_all_that_this_has_started() {
        let spans = [span("1", 1_000, 2_000), span("2", 3_000, 5_000), span("3", 4_000, 6_000)];
        let processes = [
            // A part of the server, from before; its command, which began in the second turn; what that started later.
            (20, SERVER, SERVER, 500),
            (21, 20, 21, 3_500),
            (22, 21, 21, 8_000),
            // A development server of the first turn, and a daemon of the second.
            (30, 1, 30, 1_500),
            (31, 1, 31, 3_600),
            // Two turns were in flight.
            (40, SERVER, 40, 4_500),
        ];
        assert_eq!(ended(&spans, "2", &processes), (vec![21, 22, 31], vec![(40, Spared::Shared)]));
        assert_eq!(ended(&spans, "3", &processes), (vec![], vec![(40, Spared::Shared)]));
        assert_eq!(ended(&spans, "1", &processes), (vec![30], vec![]));
    }

    #[test]
    fn a_worker_that_an_earlier_process_starts_anew_is_spared() {
        let spans = [span("1", 1_000, 2_000), span("2", 3_000, 5_000)];
        // By descent, also in the server's group, and by its group, also without a parent.
        let processes = [(20, SERVER, SERVER, 1_500), (21, 20, SERVER, 3_500), (30, 1, 30, 1_600), (31, 1, 30, 3_600)];
        let serves = |pid, millis| Spared::Serves(id(pid, millis));
        assert_eq!(ended(&spans, "2", &processes), (vec![], vec![(21, serves(20, 1_500)), (31, serves(30, 1_600))]));
    }

    #[test]
    fn what_a_chosen_group_starts_meanwhile_ends_too_and_the_server_never() {
        let spans = [span("2", 3_000, 5_000)];
        // Started again during the request: it would be of it.
        let before =
            [(12, SHIM, 12, 3_200), (21, SERVER, 21, 3_500), (23, SERVER, 21, 3_500), (24, SERVER, SERVER, 3_500)];
        let family_before = family(&before);
        let verdict = turns(&spans, 60_000).to_end(&family_before, "2");
        let mut choice = Choice::of_turn(&family_before, &verdict);
        assert_eq!(pids(choice.follow(&[family_before])), [21, 23, 24]);
        // 21 has ended, and has left 25; 26 is of the server's group.
        let after = family(&[(12, SHIM, 12, 3_200), (25, 1, 21, 8_000), (26, 1, SERVER, 8_000)]);
        assert_eq!(pids(choice.follow(&[after])), [25]);
    }

    #[test]
    fn the_clock_of_a_session_that_begins_now_begins_now() {
        let started = micros(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap());
        let clock = process_clock(std::time::Instant::now(), started);
        let turns = Turns::new(vec![span("1", 0, None)], clock, 0);
        assert_eq!(clock.slept, 0);
        // This process began before.
        assert_eq!(turns.began(ProcessId { pid: 1, start: 0 }), Began::Outside);
        let asleep = process_clock(std::time::Instant::now(), started - 8_000_000);
        assert!((7_000_000..9_000_000).contains(&asleep.slept), "{asleep:?}");
    }
}
