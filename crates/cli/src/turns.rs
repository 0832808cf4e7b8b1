//! During which requests the processes of running sessions began, and what cancelled ones have left (D59).

use std::{collections::BTreeMap, time::Duration};

use rescind_feed::{ChildState, Outcome, Request, Session, Side, TurnProcess};
use rescind_ledger::{
    family::{Family, Member},
    identity::ProcessId,
    snapshot::Snapshot,
    turn::{Began, Role, ServerStart, Span, Turns, is_server},
};
use rescind_operator::{Directories, ListingQuery, Shim, ShimError};
use rescind_proto::dialect::Dialect;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};

use crate::{
    fleet::{self, Pages, SessionListing, ShimAnswer},
    screen::clean,
};

/// How often a shim is asked whether it has ended what it is to end.
const ROUND: Duration = Duration::from_millis(50);

/// How long it may take: the grace of a cancel, and the time from SIGTERM to the last look after SIGKILL.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long processes may take to end after the cancel of their request was confirmed, before they count as left.
const DYING: Duration = Duration::from_millis(500);

/// From SIGTERM to SIGKILL for what a server has left in its process group.
const GROUP_END: Duration = Duration::from_secs(1);

/// After that, for a shim without a server to end, too: its client reads the rest first.
const SHIM_END: Duration = Duration::from_secs(4);

/// The most processes that a line names.
const NAMED: usize = 5;

/// The requests of one session.
#[derive(Debug)]
pub(crate) struct SessionTurns {
    pub(crate) session: Session,
    pub(crate) requests: Vec<Request>,
    pub(crate) turns: Turns,
}

impl SessionTurns {
    /// Whether its shim is still to end what this request, or child, has left.
    fn is_ending(&self, key: &str) -> bool {
        self.session.ending_turns.iter().flatten().any(|ending| ending == key)
    }

    /// `None` if its shim is too old to relate its clock to that of processes.
    fn of(SessionListing { session, now, requests, .. }: SessionListing) -> Option<Self> {
        let clock = session.process_clock?;
        let start = session.restarts.map(|last| ServerStart { at: last.last, greeted: last.greeted });
        let turns = Turns::new(requests.iter().map(span).collect(), clock, now).since(start);
        Some(Self { turns, session, requests })
    }

    /// What became of processes that its shim was to end, while it remembers their requests: a line each.
    pub(crate) fn ended(&self) -> impl Iterator<Item = String> {
        self.session.turn_processes.iter().filter_map(|one| {
            let request = self.requests.iter().find(|request| request.key == one.request)?;
            Some(line(&self.session.name, request, one))
        })
    }

    /// Whether the family is that of this session.
    pub(crate) fn is_of(&self, family: &Family) -> bool {
        family.mark.shim.pid == self.session.pid && family.session() == self.session.name
    }

    /// The requests during which a process began, or may have, and whether that is sure: then there is one.
    pub(crate) fn began(&self, process: ProcessId) -> (Vec<&Request>, Sureness) {
        let request = |one: &usize| {
            let key = &self.turns.spans()[*one].key;
            self.requests.iter().find(|request| request.key == *key)
        };
        let requests = |some: &[usize]| some.iter().filter_map(request).collect();
        match self.turns.began(process) {
            Began::During(one) => (requests(&[one]), Sureness::Sure),
            Began::OneOf(some) => (requests(&some), Sureness::OneOf),
            Began::Perhaps(some) => (requests(&some), Sureness::Perhaps),
            Began::Outside => (Vec::new(), Sureness::Sure),
            Began::Unknown => (Vec::new(), Sureness::Perhaps),
        }
    }
}

/// How sure it is during which request a process began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sureness {
    Sure,
    OneOf,
    Perhaps,
}

fn span(request: &Request) -> Span {
    let cancel = request.cancel.as_ref();
    let was_never_sent = cancel.is_some_and(|cancel| cancel.outcome == Outcome::NeverSent);
    let starts_nothing = !Dialect::is_any_work(&request.method) || request.waits_for_turn || was_never_sent;
    let is_silent = request.is_released() && cancel.is_some_and(|cancel| !cancel.works_on);
    let is_confirmed = cancel.is_some_and(|cancel| cancel.outcome == Outcome::Confirmed);
    let (is_task, child) = (request.at_work.is_some(), request.child.as_ref());
    Span {
        key: request.key.clone(),
        method: request.method.clone(),
        began: request.held_until.unwrap_or(request.since),
        ended: request.settled.as_ref().map(|settled| settled.at),
        role: Role::of(starts_nothing, is_task, child.is_some(), request.opened_by.clone()),
        is_stopped: match child {
            Some(child) => child.state == ChildState::Cancelled,
            None => is_confirmed || is_silent,
        },
    }
}

/// Everything that a shim remembers of its client's requests.
fn all() -> ListingQuery {
    ListingQuery { state: Some("all"), from: Some(Side::Client), ..ListingQuery::default() }
}

/// Asks these shims. Those that do not answer are named with the reason.
pub(crate) async fn ask(shims: Vec<Shim>) -> (Vec<SessionTurns>, Vec<(String, ShimError)>) {
    let (mut known, mut silent) = (Vec::new(), Vec::new());
    for ShimAnswer { shim, answer } in fleet::ask_shims(shims, &all(), Pages::All).await {
        match answer {
            Ok(listing) => known.extend(SessionTurns::of(listing)),
            Err(error) => silent.push((shim.name().to_owned(), error)),
        }
    }
    (known, silent)
}

/// What cancelled work of a request has left whose cancel is confirmed, or that was answered after it, and what was ended of
/// it.
#[derive(Debug)]
pub(crate) struct LeftByRequest {
    session: String,
    /// The request; where only what it has opened was cancelled, that is not it.
    request: Request,
    /// What was cancelled: the request itself, or what it has opened.
    keys: Vec<String>,
    /// Those that began during it and run: number, name, and whether none of the others has started it.
    own: Vec<(u32, String, bool)>,
    /// Those that began during it or another one, and run.
    shared: Vec<(u32, String)>,
    ended: Vec<TurnProcess>,
    /// More of it is to be ended (`--on-stop`).
    is_ending: bool,
}

/// Cancelled requests of some sessions, and what requests have opened.
#[derive(Debug, Default)]
pub(crate) struct Cancelled(BTreeMap<String, (Shim, BTreeMap<String, Outcome>)>);

impl Cancelled {
    /// Notes what is known of a cancel of a client's request now.
    pub(crate) fn note(&mut self, shim: &Shim, request: &Request) {
        // That of a child is confirmed or not known to be heeded.
        let counts = |outcome| request.child.is_none() || outcome == Outcome::Confirmed;
        if let (Some(cancel), Side::Client) = (&request.cancel, request.from)
            && counts(cancel.outcome)
        {
            let session = self.0.entry(shim.name().to_owned()).or_insert_with(|| (shim.clone(), BTreeMap::new()));
            session.1.insert(request.key.clone(), cancel.outcome);
        }
    }
}

/// Looks at what cancelled requests have left that are over: confirmed, or answered as if there were no cancel. Where a shim
/// ends that (`--on-stop`) it is awaited, and so is what it does where no cancel need be confirmed: half a second longer than
/// `until` at most. Sessions that do not answer are left out: nothing is known of them.
pub(crate) async fn left_by(Cancelled(cancelled): Cancelled, until: Instant) -> Vec<LeftByRequest> {
    if cancelled.is_empty() {
        return Vec::new();
    }
    let now = Instant::now();
    let until = until.clamp(now, now + PATIENCE) + DYING;
    let directories = Directories::of_this_user();
    let families = directories.families(&Snapshot::take());
    // All at once. They end when the set is dropped.
    let mut asked = JoinSet::new();
    for (name, (shim, outcomes)) in cancelled {
        // Nothing is asked where there is nothing beside the server.
        let has_others = |family: &&Family| family.members.iter().any(|one| !is_server(family, &one.process));
        if families.iter().filter(has_others).any(|family| family.session() == name) {
            asked.spawn(async move { settled(&shim, outcomes, until).await });
        }
    }
    let mut sessions: Vec<_> = asked.join_all().await.into_iter().flatten().collect();
    sessions.sort_by(|(one, _), (other, _)| one.session.name.cmp(&other.session.name));
    if sessions.is_empty() {
        return Vec::new();
    }
    let until = until.min(Instant::now() + DYING);
    loop {
        let snapshot = Snapshot::take();
        let families = directories.families(&snapshot);
        let mut all = Vec::new();
        for (turns, keys) in &sessions {
            let Some(family) = families.iter().find(|family| turns.is_of(family)) else { continue };
            let works = turns.turns.by_request(keys);
            let left =
                |request: &Request| LeftByRequest::of(&snapshot, family, turns, request, works.get(&*request.key)?);
            all.extend(turns.requests.iter().filter_map(left));
        }
        if all.iter().all(|one| one.own.is_empty()) || until < Instant::now() {
            return all;
        }
        sleep(ROUND).await;
    }
}

/// What a session knows of those of these requests that may have left something, and their keys: once it has ended what it
/// ends of them, or shortly before `until`.
async fn settled(
    shim: &Shim,
    mut outcomes: BTreeMap<String, Outcome>,
    until: Instant,
) -> Option<(SessionTurns, Vec<String>)> {
    let is_over = |outcome: &Outcome| matches!(outcome, Outcome::Confirmed | Outcome::AnsweredAfter);
    outcomes.retain(|_, outcome| is_over(outcome) || *outcome == Outcome::Sent);
    if outcomes.values().any(|outcome| *outcome == Outcome::Sent) {
        let session = timeout_at(until, shim.session()).await;
        let ends = session.is_ok_and(|session| session.is_ok_and(|session| session.ending_turns.is_some()));
        outcomes.retain(|_, outcome| ends || is_over(outcome));
    }
    let keys: Vec<String> = outcomes.into_keys().collect();
    if keys.is_empty() {
        return None;
    }
    let mut known = None;
    loop {
        // What was known last is told where no later answer comes in time.
        let Ok(listing) = timeout_at(until, fleet::ask(shim, all(), Pages::All)).await else { break };
        let turns = SessionTurns::of(listing.ok()?)?;
        let is_ending = keys.iter().any(|key| turns.is_ending(key));
        known = Some(turns);
        if !is_ending || Instant::now() + ROUND >= until {
            break;
        }
        sleep(ROUND).await;
    }
    known.map(|turns| (turns, keys))
}

impl LeftByRequest {
    /// `None` if it has left nothing, as far as that is known. `keys`: what was cancelled of its work.
    fn of(
        snapshot: &Snapshot,
        family: &Family,
        turns: &SessionTurns,
        request: &Request,
        keys: &[&str],
    ) -> Option<Self> {
        let left = turns.turns.left_by(family, keys);
        let ended = turns.session.turn_processes.iter().filter(|one| one.request == request.key);
        // What was left may have ended since by itself.
        let runs = |pid: u32| family.members.iter().any(|member| member.process.id.pid == pid);
        let is_so = |one: &&TurnProcess| one.ended || runs(one.pid);
        let processes = |ids: &[ProcessId]| ids.iter().filter_map(|id| snapshot.get(*id)).collect::<Vec<_>>();
        let own = processes(&left.own);
        let is_first = |parent: u32| !own.iter().any(|other| other.id.pid == parent);
        let one = Self {
            session: turns.session.name.clone(),
            request: request.clone(),
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            own: own.iter().map(|one| (one.id.pid, one.name.clone(), is_first(one.parent))).collect(),
            shared: processes(&left.shared).into_iter().map(|one| (one.id.pid, one.name.clone())).collect(),
            ended: ended.filter(is_so).cloned().collect(),
            is_ending: keys.iter().any(|key| turns.is_ending(key)),
        };
        (!one.own.is_empty() || !one.shared.is_empty() || !one.ended.is_empty()).then_some(one)
    }

    /// How many processes run that began during it alone.
    pub(crate) const fn running(&self) -> usize {
        self.own.len()
    }

    /// The session, and the key of what it is shown with: the request, if that was cancelled, or else the first of what it
    /// has opened.
    pub(crate) fn place(&self) -> (&str, &str) {
        let own = self.keys.iter().find(|key| **key == self.request.key);
        (&self.session, own.or_else(|| self.keys.first()).map_or(&self.request.key, |key| key))
    }

    /// All of it as JSON.
    pub(crate) fn document(&self) -> Value {
        let process = |pid: u32, name: &str, of: &str| json!({ "pid": pid, "name": name, "began": of });
        let own = self.own.iter().map(|(pid, name, _)| process(*pid, name, "during"));
        let shared = self.shared.iter().map(|(pid, name)| process(*pid, name, "one_of"));
        let running: Vec<Value> = own.chain(shared).collect();
        json!({ "request": self.request.key, "running": running, "ended": self.ended, "ending": self.is_ending })
    }

    /// What is known of the cancel.
    fn cancel(&self) -> &'static str {
        if !self.keys.contains(&self.request.key) {
            return "what it has opened was cancelled";
        }
        match self.request.cancel.as_ref().map(|cancel| cancel.outcome) {
            Some(Outcome::Confirmed) => "its cancel is confirmed",
            Some(Outcome::AnsweredAfter) => "it was answered after its cancel",
            Some(_) => "its cancel is not confirmed",
            None => "what it has opened was cancelled",
        }
    }

    /// All of it in words.
    pub(crate) fn lines(&self) -> Vec<String> {
        let label = format!("{}/{}", self.session, clean(&self.request.label()));
        let mut lines = Vec::new();
        let (ended, spared): (Vec<_>, Vec<_>) = self.ended.iter().partition(|one| one.ended);
        if !ended.is_empty() {
            let names = named(ended.iter().map(|one| format!("{} {} ({})", one.pid, one.name, one.how)));
            lines.push(format!("note: {label}: of what began during it, {} ended: {names}", were(ended.len())));
        }
        lines.extend(spared.into_iter().map(|one| line(&self.session, &self.request, one)));
        if !self.own.is_empty() {
            let names = named(self.own.iter().map(|(pid, name, _)| format!("{pid} {name}")));
            let first = self.own.iter().filter(|(.., is_first)| *is_first).map(|(pid, ..)| pid.to_string());
            let (still, them) = still(self.own.len(), "");
            let next = match self.is_ending {
                true => "still being ended".to_owned(),
                false => format!("`rescind reap {}` ends {them}", first.take(NAMED).collect::<Vec<_>>().join(" ")),
            };
            lines.push(format!("note: {label}: {}; {still}: {names}; {next}", self.cancel()));
        }
        if !self.shared.is_empty() {
            let names = named(self.shared.iter().map(|(pid, name)| format!("{pid} {name}")));
            lines.push(format!("note: {label}: {}: {names}", still(self.shared.len(), " or other work").0));
        }
        lines
    }
}

/// What a session has left whose server has ended: its number and name of each process.
#[derive(Debug)]
pub(crate) struct LeftBySession {
    session: String,
    processes: Vec<(u32, String)>,
}

impl LeftBySession {
    /// All of it in words.
    pub(crate) fn line(&self) -> String {
        let Self { session, processes } = self;
        let names = named(processes.iter().map(|(pid, name)| format!("{pid} {name}")));
        let (still, them) = match processes.len() {
            1 => ("1 process of its session still runs".to_owned(), "it"),
            count => (format!("{count} processes of its session still run"), "them"),
        };
        format!("note: {session}: its server has ended; {still}: {names}; `rescind reap {session}` ends {them}")
    }
}

/// Looks at what these sessions have left, whose servers have ended: what had left the server's process group does not end
/// with it. What is in the group has its second first. Containers are not looked at.
pub(crate) async fn left_by_sessions(sessions: &[String]) -> Vec<LeftBySession> {
    if sessions.is_empty() {
        return Vec::new();
    }
    let directories = Directories::of_this_user();
    let until = Instant::now() + GROUP_END + DYING;
    loop {
        let families = directories.families(&Snapshot::take());
        let families = families.into_iter().filter(|family| sessions.contains(&family.session()));
        let left: Vec<Family> = families.filter(|family| !family.members.is_empty()).collect();
        let patience = if left.iter().any(is_ending) { SHIM_END } else { Duration::ZERO };
        if left.is_empty() || Instant::now() > until + patience {
            // One whose shim runs has another server, or is not over yet: nothing is known to be left of it.
            let left = left.into_iter().filter(Family::is_orphaned);
            let process = |member: Member| (member.process.id.pid, member.process.name);
            let of = |family: Family| LeftBySession {
                session: family.session(),
                processes: family.members.into_iter().map(process).collect(),
            };
            return left.map(of).collect();
        }
        sleep(ROUND).await;
    }
}

/// Whether its shim runs and has no server: it ends, or is about to start another one.
fn is_ending(family: &Family) -> bool {
    let is_server = |member: &Member, shim: u32| member.process.parent == shim;
    family.shim.as_ref().is_some_and(|shim| !family.members.iter().any(|member| is_server(member, shim.id.pid)))
}

/// What became of a process that its shim was to end.
fn line(session: &str, request: &Request, one: &TurnProcess) -> String {
    let label = clean(&request.label());
    format!("note: {session}/{label}: {} {}: {}", one.pid, clean(&one.name), clean(&one.how))
}

fn were(count: usize) -> String {
    if count == 1 { "1 process was".to_owned() } else { format!("{count} processes were") }
}

fn still(count: usize, or: &str) -> (String, &'static str) {
    match count {
        1 => (format!("1 process that began during it{or} still runs"), "it"),
        _ => (format!("{count} processes that began during it{or} still run"), "them"),
    }
}

fn named(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    let shown: Vec<String> = names.take(NAMED).map(|name| clean(&name)).collect();
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", shown.join(", "))
}
