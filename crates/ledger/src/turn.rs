//! During which request of its client a process of a session began (D59).
//!
//! Nothing is noted while a session runs. The system reports when a process began, and a shim remembers when its requests
//! did; the two are compared when somebody asks. What both clocks leave open is not decided: a process that began while
//! several requests were in flight is of one of them, and of one that began before what the shim remembers nothing is known.

use std::{
    collections::{BTreeMap, BTreeSet},
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

/// When work of a client was in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Names it.
    pub key: String,
    /// Its method.
    pub method: String,
    /// When it began for its server, in microseconds on its session's clock.
    pub began: u64,
    /// When it ended for its client, in microseconds on its session's clock; `None` while it is in flight.
    pub ended: Option<u64>,
    /// What it is for the processes that begin meanwhile.
    pub role: Role,
    /// It was cancelled, and is over as far as its protocol shows.
    pub is_stopped: bool,
}

/// What work of a client is for the processes that begin meanwhile.
///
/// It never grows: a process is of a request, of what that has opened, or of neither.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// No process begins on its behalf: it is a handshake, a ping or a subscription, or has not reached its server.
    StartsNothing,
    /// It is a request, or work that is nobody's part.
    Whole,
    /// It goes on with what this request has begun: the two are one, which is named as this one. A task is.
    GoesOn(String),
    /// It is a part of the work of this request: an agent that it has opened. It may outlive it. `None` where that is not
    /// known.
    PartOf(Option<String>),
}

impl Role {
    /// That of work which `starts_nothing`, is a task or a child, or was opened by that request.
    #[must_use]
    pub fn of(starts_nothing: bool, is_task: bool, is_child: bool, opened_by: Option<String>) -> Self {
        match opened_by {
            _ if starts_nothing => Self::StartsNothing,
            Some(request) if is_task => Self::GoesOn(request),
            opened_by if is_child || opened_by.is_some() => Self::PartOf(opened_by),
            _ => Self::Whole,
        }
    }
}

/// The work of a session's client that a process may have begun during.
#[derive(Clone, Debug)]
pub struct Turns {
    /// Without what is a part of them.
    spans: Vec<Span>,
    parts: Vec<Part>,
    /// Requests that work goes on with by another key, and that.
    go_on: BTreeMap<String, String>,
    clock: ProcessClock,
    /// What ended before may be forgotten, in microseconds on the session's clock; 0 if nothing is.
    known_since: u64,
    start: Option<ServerStart>,
}

/// A part of the work of a request.
#[derive(Clone, Debug)]
struct Part {
    span: Span,
    /// The request, by its number, as far as that is remembered.
    of: Option<usize>,
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
    /// While only this one was in flight; or while none was, and only what this one has opened was at work.
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

/// The processes that began during cancelled work of a request and run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftByTurn {
    /// Those that began during this work alone.
    pub own: Vec<ProcessId>,
    /// Those that began during it or other work.
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
    /// It may be of other work: of another request, or of what its own has opened and is not stopped.
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
            Self::Shared => "not ended: it may be of other work".to_owned(),
            Self::Serves(other) => format!("not ended: it belongs to process {}, which began before", other.pid),
        }
    }
}

impl Turns {
    /// The requests of one session's client, in any order, as its shim remembers them `now`, in microseconds on the
    /// session's clock.
    #[must_use]
    pub fn new(mut spans: Vec<Span>, clock: ProcessClock, now: u64) -> Self {
        // A part may be remembered for longer than requests are.
        let requests = spans.iter().filter(|span| !matches!(span.role, Role::PartOf(_)));
        let oldest = requests.filter_map(|span| span.ended).min();
        let count = spans.iter().filter(|span| span.ended.is_some()).count();
        let oldest = oldest.filter(|_| count >= REMEMBERED).unwrap_or_default();
        let known_since = oldest.max(now.saturating_sub(REMEMBERED_FOR));
        spans.sort_by(|a, b| (a.began, &a.key).cmp(&(b.began, &b.key)));
        let goes_on = |span: &Span| match &span.role {
            Role::GoesOn(request) => Some((request.clone(), span.key.clone())),
            Role::StartsNothing | Role::Whole | Role::PartOf(_) => None,
        };
        let go_on: BTreeMap<String, String> = spans.iter().filter_map(goes_on).collect();
        spans.retain(|span| span.role != Role::StartsNothing && !go_on.contains_key(&span.key));
        let (parts, spans): (Vec<_>, Vec<_>) = spans.into_iter().partition(|span| matches!(span.role, Role::PartOf(_)));
        let mut turns = Self { spans, parts: Vec::new(), go_on, clock, known_since, start: None };
        let openers: BTreeMap<String, Option<String>> =
            parts.iter().map(|part| (part.key.clone(), opener(part).cloned())).collect();
        let of = |part: &Span| {
            let next = |key: &String| openers.get(key).cloned().flatten();
            // A shim that names a circle is wrong.
            let above = std::iter::successors(opener(part).cloned(), next).take(openers.len() + 1);
            above.filter_map(|key| turns.number(&key)).next()
        };
        turns.parts = parts.iter().map(|span| Part { span: span.clone(), of: of(span) }).collect();
        turns
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

    /// The request that this work is shown with: the one that it is a part of, as far as that is remembered, and else itself.
    #[must_use]
    pub fn shown_with<'a>(&'a self, key: &'a str) -> &'a str {
        match self.part(key) {
            Some(Part { of: Some(of), .. }) => &self.spans[*of].key,
            Some(Part { of: None, .. }) => key,
            None => self.go_on.get(key).map_or(key, |other| other),
        }
    }

    /// Work by the request that it is [shown with](Self::shown_with).
    #[must_use]
    pub fn by_request<'a>(&'a self, keys: &'a [String]) -> BTreeMap<&'a str, Vec<&'a str>> {
        let mut works: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for key in keys {
            works.entry(self.shown_with(key)).or_default().push(key);
        }
        works
    }

    /// Whether a part of this request was stopped.
    #[must_use]
    pub fn has_stopped_part(&self, key: &str) -> bool {
        self.number(key).is_some_and(|one| self.parts.iter().any(|part| part.of == Some(one) && part.span.is_stopped))
    }

    /// During which of them a process began.
    #[must_use]
    pub fn began(&self, process: ProcessId) -> Began {
        let start = self.start_of(process);
        let is_known = self.known_since == 0 || start.earliest >= signed(self.known_since);
        let mut is_within = false;
        let mut met: Vec<usize> = Vec::new();
        for (one, span) in self.spans.iter().enumerate().filter(|(_, span)| self.meets(span, start)) {
            is_within |= start.is_within(span);
            met.push(one);
        }
        if met.is_empty() {
            for part in self.parts.iter().filter(|part| self.meets(&part.span, start)) {
                is_within |= part.of.is_some() && start.is_within(&part.span);
                met.extend(part.of.filter(|of| !met.contains(of)));
            }
            met.sort_unstable();
        }
        match met[..] {
            [] if is_known => Began::Outside,
            [] => Began::Unknown,
            _ if !is_known || !is_within => Began::Perhaps(met),
            [one] => Began::During(one),
            _ => Began::OneOf(met),
        }
    }

    /// What stopped work of one request has left in its session; `keys` names the request, or parts of it. The server is never
    /// among it.
    #[must_use]
    pub fn left_by(&self, family: &Family, keys: &[&str]) -> LeftByTurn {
        let mut left = LeftByTurn::default();
        let Some(shown) = keys.first().map(|key| self.shown_with(key)) else { return left };
        let whole = self.number(shown);
        let is_whole = keys.iter().any(|key| self.part(key).is_none());
        let parts = || keys.iter().filter_map(|key| self.part(key));
        for Member { process, .. } in family.members.iter().filter(|member| !is_server(family, &member.process)) {
            let start = self.start_of(process.id);
            let began = self.began(process.id);
            let is_of_whole = match &began {
                Began::During(one) => Some(*one) == whole,
                Began::OneOf(some) | Began::Perhaps(some) => some.iter().any(|one| Some(*one) == whole),
                Began::Outside | Began::Unknown => false,
            };
            let is_of_part = parts().any(|part| self.meets(&part.span, start));
            if !is_of_whole && !is_of_part {
                continue;
            }
            let is_alone = match began {
                Began::During(one) => Some(one) == whole,
                // Of a part of which nothing else is remembered.
                Began::Outside => whole.is_none(),
                Began::OneOf(_) | Began::Perhaps(_) | Began::Unknown => false,
            };
            // What began during the turn of a part, and not during that part, is of other work of the turn.
            let is_of_work = is_whole || is_of_part;
            let is_own = is_of_work && is_alone && !self.may_be_of_other(start, whole);
            let some = if is_own { &mut left.own } else { &mut left.shared };
            some.push(process.id);
        }
        left
    }

    /// Whether a process that started then may be of work that is not stopped: of this request, if it is in flight; or of
    /// what requests have opened. What this request has opened and has ended by itself is over with it, if it is stopped.
    fn may_be_of_other(&self, start: Start, whole: Option<usize>) -> bool {
        let whole_is = |is: fn(&Span) -> bool| whole.is_some_and(|one| is(&self.spans[one]));
        let is_other = |part: &Part| {
            let is_over = part.of == whole && part.span.ended.is_some() && whole_is(|span| span.is_stopped);
            !part.span.is_stopped && !is_over && self.meets(&part.span, start)
        };
        whole_is(|span| span.ended.is_none() && !span.is_stopped) || self.parts.iter().any(is_other)
    }

    /// Which processes end after the cancel of this work of one request: those that began during it alone. One that serves
    /// an earlier process is spared: a worker that a development server of an earlier turn starts anew is not work of this
    /// one.
    #[must_use]
    pub fn to_end(&self, family: &Family, keys: &[&str]) -> TurnVerdict {
        let LeftByTurn { own, shared } = self.left_by(family, keys);
        let whole = keys.first().and_then(|key| self.number(self.shown_with(key)));
        let mut verdict = TurnVerdict::default();
        for id in &own {
            match self.master(family, *id, whole, &own) {
                None => drop(verdict.ends.insert(*id)),
                Some(master) => verdict.spared.push((*id, Spared::Serves(master))),
            }
        }
        verdict.spared.extend(shared.into_iter().map(|id| (id, Spared::Shared)));
        verdict
    }

    /// The process that began before the request and that this one serves, if there is one: an ancestor that began during
    /// another request of the same method, or one of its group that is not its `own`, unless that is the group of the server.
    /// What began outside of such requests may be a part of the server, which does the work of many.
    fn master(&self, family: &Family, id: ProcessId, whole: Option<usize>, own: &[ProcessId]) -> Option<ProcessId> {
        let member = |pid: u32| family.members.iter().find(|member| member.process.id.pid == pid);
        let this = member(id.pid)?;
        let method = whole.map(|one| &self.spans[one].method);
        let is_alike =
            |one: &usize| Some(*one) != whole && method.is_none_or(|method| self.spans[*one].method == *method);
        let is_of_another = |id: ProcessId| match self.began(id) {
            Began::During(one) => is_alike(&one),
            Began::OneOf(some) | Began::Perhaps(some) => some.iter().any(is_alike),
            Began::Outside | Began::Unknown => false,
        };
        let above = std::iter::successors(member(this.process.parent), |above| member(above.process.parent));
        let mut above = above.take(family.members.len()).take_while(|above| !is_server(family, &above.process));
        let ancestor = above.find(|above| is_of_another(above.process.id));
        let servers: BTreeSet<u32> = family
            .members
            .iter()
            .filter(|member| is_server(family, &member.process))
            .flat_map(|server| [server.process.group, server.process.id.pid])
            .collect();
        let group = this.process.group;
        let is_mate = |member: &&Member| member.process.group == group && !own.contains(&member.process.id);
        let mate = family.members.iter().find(|member| !servers.contains(&group) && is_mate(member));
        let earlier = || mate.filter(|mate| mate.process.id.start <= id.start);
        ancestor.or_else(earlier).map(|master| master.process.id)
    }

    fn number(&self, key: &str) -> Option<usize> {
        let key = self.go_on.get(key).map_or(key, |other| other);
        self.spans.iter().position(|span| span.key == key)
    }

    fn part(&self, key: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.span.key == key)
    }

    /// When a process started, on the session's clock.
    fn start_of(&self, process: ProcessId) -> Start {
        let (earliest, latest) = system::started(process);
        let on_session_clock = |at: u64| signed(at).saturating_sub(signed(self.clock.origin));
        let earliest = on_session_clock(earliest).saturating_sub(signed(self.clock.slept));
        Start { earliest, latest: on_session_clock(latest) }
    }

    /// Whether what started then may have done so during this.
    fn meets(&self, span: &Span, Start { earliest, latest }: Start) -> bool {
        let is_before_greeting = |start: &ServerStart| start.greeted.is_none_or(|at| earliest <= signed(at));
        let start = self.start.filter(is_before_greeting);
        let has_waited = start.is_some_and(|start| span.ended.is_none_or(|ended| ended > start.at));
        signed(span.began) < latest && span.ended.is_none_or(|ended| earliest <= signed(ended)) && !has_waited
    }
}

/// When a process started, in microseconds on its session's clock: not before, and not after.
#[derive(Clone, Copy, Debug)]
struct Start {
    earliest: i64,
    latest: i64,
}

impl Start {
    /// Whether that was during this, and not only perhaps.
    fn is_within(self, span: &Span) -> bool {
        let Self { earliest, latest } = self;
        let step = STEP.min(latest.saturating_sub(earliest));
        let is_before_end = |ended: u64| latest.saturating_sub(step) <= signed(ended);
        signed(span.began) < earliest.saturating_add(step) && span.ended.is_none_or(is_before_end)
    }
}

/// The request, or the other part, that has opened this part.
const fn opener(part: &Span) -> Option<&String> {
    match &part.role {
        Role::PartOf(opener) => opener.as_ref(),
        Role::StartsNothing | Role::Whole | Role::GoesOn(_) => None,
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
        let (key, method) = (key.into(), "tools/call".into());
        Span { key, method, began: began * 1_000, ended, role: Role::Whole, is_stopped: false }
    }

    /// A part of the work of a request, which was stopped.
    fn part(key: &str, of: &str, began: u64, ended: impl Into<Option<u64>>) -> Span {
        Span { role: Role::PartOf(Some(of.into())), is_stopped: true, ..span(key, began, ended) }
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
        spans[0].role = Role::StartsNothing;
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
        let verdict = turns(spans, 60_000).to_end(&family, &[key]);
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
        let verdict = turns(&spans, 60_000).to_end(&family_before, &["2"]);
        let mut choice = Choice::of_turn(&family_before, &verdict);
        assert_eq!(pids(choice.follow(&[family_before])), [21, 23, 24]);
        // 21 has ended, and has left 25; 26 is of the server's group.
        let after = family(&[(12, SHIM, 12, 3_200), (25, 1, 21, 8_000), (26, 1, SERVER, 8_000)]);
        assert_eq!(pids(choice.follow(&[after])), [25]);
    }

    fn left(spans: &[Span], keys: &[&str], processes: &[(u32, u32, u32, u64)]) -> (Vec<u32>, Vec<u32>) {
        let left = turns(spans, 60_000).left_by(&family(processes), keys);
        (pids(left.own), pids(left.shared))
    }

    /// Commands that began at these times, each in a group of its own.
    fn commands(starts: &[u64]) -> Vec<(u32, u32, u32, u64)> {
        (20_u32..).zip(starts).map(|(pid, millis)| (pid, SERVER, pid, *millis)).collect()
    }

    #[test]
    fn what_a_turn_has_opened_leaves_what_began_while_it_was_at_work() {
        let spans = [span("1", 1_000, 3_000), part("a", "1", 2_000, 9_000)];
        // Before the agent, during the turn, after the turn, after both.
        let processes = commands(&[1_500, 2_500, 6_000, 9_500]);
        assert_eq!(left(&spans, &["a"], &processes), (vec![21, 22], vec![20]));
        assert_eq!(began(&spans, 60_000, 6_000), Began::During(0), "of the turn, too");
        let stopped = [Span { is_stopped: true, ..spans[0].clone() }, spans[1].clone()];
        assert_eq!(left(&stopped, &["1"], &processes), (vec![20, 21, 22], vec![]), "all of it is of the turn");
        assert_eq!(left(&stopped, &["1", "a"], &processes), (vec![20, 21, 22], vec![]));
    }

    #[test]
    fn what_may_be_of_other_work_of_the_turn_is_shared() {
        let turn = span("1", 1_000, 3_000);
        let going_on = |key| Span { is_stopped: false, ..part(key, "1", 2_000, None) };
        let finished = |key| Span { is_stopped: false, ..part(key, "1", 2_000, 2_800) };
        let processes = commands(&[2_500]);
        let of = |spans: &[Span], key| left(spans, &[key], &processes);
        let stopped = part("a", "1", 2_000, 9_000);
        let (own, shared) = ((vec![20], vec![]), (vec![], vec![20]));
        assert_eq!(of(&[turn.clone(), stopped.clone(), part("b", "1", 2_000, 9_000)], "a"), own);
        assert_eq!(of(&[turn.clone(), stopped.clone(), going_on("b")], "a"), shared);
        assert_eq!(of(&[turn.clone(), stopped.clone(), finished("b")], "a"), shared);
        // The turn goes on.
        assert_eq!(of(&[span("1", 1_000, None), stopped.clone()], "a"), shared);
        // The turn was stopped: what had finished before is over with it, and what goes on is not.
        let turn = Span { is_stopped: true, ..turn };
        assert_eq!(of(&[turn.clone(), stopped.clone(), finished("b")], "1"), own);
        assert_eq!(of(&[turn.clone(), stopped.clone(), going_on("b")], "1"), shared);
        // Of another turn.
        let later = [span("1", 1_000, 2_100), going_on("b"), Span { is_stopped: true, ..span("2", 2_200, 3_000) }];
        assert_eq!(of(&later, "2"), shared);
        assert_eq!(of(&[span("1", 1_000, 2_100), stopped, span("2", 2_200, None)], "a"), shared);
    }

    #[test]
    fn an_agent_is_shown_with_the_turn_above_it_as_far_as_that_is_remembered() {
        let nested = Span { role: Role::PartOf(Some("a".into())), ..part("b", "", 2_000, None) };
        let unknown = Span { role: Role::PartOf(None), ..part("c", "", 2_000, 9_000) };
        let spans =
            [span("1", 1_000, 3_000), part("a", "1", 2_000, None), nested, unknown, part("d", "gone", 4_000, 9_000)];
        let turns = turns(&spans, 60_000);
        assert_eq!(["1", "a", "b", "c", "d"].map(|key| turns.shown_with(key)), ["1", "1", "1", "c", "d"]);
        assert!(turns.has_stopped_part("1") && !turns.has_stopped_part("c"));
        let alone = [part("d", "gone", 4_000, 9_000)];
        assert_eq!(left(&alone, &["d"], &commands(&[3_000, 5_000])), (vec![21], vec![]));
        assert_eq!(ended(&alone, "d", &commands(&[5_000])).0, [20]);
        let circle = [part("a", "b", 0, None), part("b", "a", 0, None)];
        assert_eq!(super::Turns::new(circle.to_vec(), turns.clock, 0).shown_with("a"), "a");
    }

    #[test]
    fn a_task_and_its_call_are_one() {
        let task = Span { role: Role::GoesOn("1".into()), is_stopped: true, ..span("t", 1_000, 9_000) };
        let spans = [span("1", 1_000, 2_000), task];
        assert_eq!(began(&spans, 60_000, 1_500), Began::During(0));
        for key in ["t", "1"] {
            assert_eq!(turns(&spans, 60_000).shown_with(key), "t");
            assert_eq!(left(&spans, &[key], &commands(&[1_500, 5_000])), (vec![20, 21], vec![]));
        }
    }

    /// Parts are remembered for as long as their parents are, and requests are not.
    #[test]
    fn the_end_of_an_agent_long_ago_does_not_say_how_far_back_requests_are_remembered() {
        let mut many: Vec<Span> = (0..4096).map(|one| span("k", 1_000 + one, 1_000 + one)).collect();
        many.push(part("a", "k", 0, 100));
        assert_eq!(began(&many, 9_000, 500), Began::Unknown);
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
