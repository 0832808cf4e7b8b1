//! Everything that is being stopped, and what is known of it.

use std::collections::{BTreeMap, BTreeSet};

use rescind_feed::{End, Outcome, Request, Session, WorkStatus, duration};
use rescind_operator::Shim;
use rescind_proto::dialect::Dialect;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::{
    cancel::{self, receipt::GONE},
    fleet::many,
    ps::row::{self, Row},
    screen::Tone,
    screen::clean,
    session_name,
    turns::LeftByRequest,
};

/// The words for a request that ended with its server.
const ENDED: &str = "ended with its server";

/// Why nothing more is learnt of a session whose server was not seen to end.
const SESSION_ENDED: &str = "its session has ended";

/// More requests of a session than so many, of one method and one status, are told together.
const GROUP: usize = 20;

/// The cell of the words about a cancel.
const WORDS: usize = row::COLUMNS.len() - 1;

/// What is being stopped, by session.
#[derive(Debug, Default)]
pub(crate) struct Board {
    /// By length of name and name, which sorts process ids by number.
    sessions: BTreeMap<(usize, String), SessionBoard>,
    /// Nothing more is awaited.
    pub(crate) is_closed: bool,
    /// What requests have left, as far as that was looked at.
    left: Vec<LeftByRequest>,
}

/// How many requests are over, and how many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) over: usize,
    pub(crate) all: usize,
}

/// What is known of the work of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Some of it is known not to have stopped.
    Resists,
    /// Some of it is not known to have stopped.
    Unknown,
    /// Neither.
    Over,
}

/// One session.
#[derive(Debug)]
pub(crate) struct SessionBoard {
    pub(crate) shim: Shim,
    pub(crate) session: Session,
    now: u64,
    listed: Instant,
    /// By arrival.
    requests: BTreeMap<(u64, String), Entry>,
    /// Requests that began meanwhile, and were not cancelled.
    began: BTreeSet<String>,
    /// Why nothing more is learnt of it.
    failed: Option<String>,
    /// Why more was in flight than was listed and cancelled.
    cut: Option<String>,
    has_ended: bool,
}

#[derive(Debug)]
struct Entry {
    request: Request,
    is_printed: bool,
}

impl SessionBoard {
    pub(crate) fn new(shim: Shim, session: Session, now: u64, requests: impl Iterator<Item = Request>) -> Self {
        let entries = requests.map(|request| (place(&request), Entry { request, is_printed: false }));
        Self {
            shim,
            session,
            now,
            listed: Instant::now(),
            requests: entries.collect(),
            began: BTreeSet::new(),
            failed: None,
            cut: None,
            has_ended: false,
        }
    }

    pub(crate) fn receive(&mut self, request: Request) {
        let is_printed = self.requests.get(&place(&request)).is_some_and(|entry| entry.is_printed);
        self.requests.insert(place(&request), Entry { request, is_printed });
    }

    pub(crate) fn note_begun(&mut self, request: &Request) {
        if Dialect::is_any_work(&request.method) {
            self.began.insert(request.key.clone());
        }
    }

    /// Notes that more was in flight than was listed.
    pub(crate) fn cut(&mut self, why: String) {
        self.cut = Some(why);
    }

    pub(crate) fn fail(&mut self, why: String) {
        self.failed.get_or_insert(why);
    }

    /// Notes the end of the session, and with it of the work, unless its server's end was not seen.
    pub(crate) fn end(&mut self, how: End) {
        match how {
            End::ExitCode(_) | End::Signal(_) => {
                self.has_ended = true;
                let changed = self.requests.values_mut().filter(|one| !WorkStatus::of(&one.request, false).is_over());
                changed.for_each(|one| one.is_printed = false);
            }
            End::Unknown => self.fail(SESSION_ENDED.to_owned()),
            _ => self.fail(SESSION_ENDED.to_owned()),
        }
    }

    /// Whether nothing can be asked of it any more, and its server was not seen to end.
    pub(crate) fn is_gone(&self) -> bool {
        self.failed.as_deref().is_some_and(|why| why.starts_with(GONE) || why == SESSION_ENDED)
    }

    fn clock(&self) -> u64 {
        self.now.saturating_add(u64::try_from(self.listed.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn work(&self, request: &Request, is_closed: bool) -> WorkStatus {
        let has_failed = self.failed.is_some();
        let work = WorkStatus::of(request, !is_closed && !has_failed);
        // The cancel may have been delivered and answered since.
        let may_have_changed = || has_failed && !is_forbidden(request);
        // As of a client that only asks again and again how a task goes.
        let starts_nothing = || !Dialect::is_any_work(&request.method);
        if self.has_ended {
            work.after_end()
        } else if work == WorkStatus::Unknown && self.is_gone() && starts_nothing() {
            WorkStatus::Finished
        } else if matches!(work, WorkStatus::NotDelivered | WorkStatus::NoAnswer) && may_have_changed() {
            WorkStatus::Unknown
        } else {
            work
        }
    }

    /// What is known of the cancel, in words.
    fn words(&self, request: &Request, work: WorkStatus) -> String {
        match &request.cancel {
            _ if work == WorkStatus::Ended => ENDED.to_owned(),
            Some(cancel) => match &self.failed {
                Some(why) if work == WorkStatus::Unknown => format!("{}; {why}", cancel::words(request, cancel)),
                _ => cancel::words(request, cancel),
            },
            None if !request.is_open() => {
                format!("{} before it was cancelled", request.settled.as_ref().map_or("ended", |one| one.how.as_str()))
            }
            None if work == WorkStatus::Stopping => String::new(),
            None => self.failed.clone().unwrap_or_else(|| "its shim has not said whether it is cancelled".to_owned()),
        }
    }

    fn label(&self, request: &Request) -> String {
        format!("{}/{}", self.shim.name(), clean(&request.label()))
    }

    fn row(&self, request: &Request, is_closed: bool) -> Row {
        let work = self.work(request, is_closed);
        let end = request.settled.as_ref().filter(|_| !request.is_open()).map_or_else(|| self.clock(), |one| one.at);
        let none = String::new;
        let cells = [
            self.label(request),
            row::server(&self.session),
            session_name::client(&self.session).unwrap_or_default(),
            row::owner(&self.session),
            none(),
            none(),
            row::method(request),
            duration(end.saturating_sub(request.since)),
            work.as_str().into(),
            none(),
            none(),
            self.words(request, work),
        ];
        Row::new(cells, tone(work)).started_with(&self.session)
    }

    /// Its rows: many requests of one method that stand alike have one together, in the place of the first.
    fn rows(&self, is_closed: bool) -> Vec<Row> {
        let mut groups: BTreeMap<(String, &str), Vec<(Row, usize)>> = BTreeMap::new();
        for (place, Entry { request, .. }) in self.requests.values().enumerate() {
            let work = self.work(request, is_closed);
            groups
                .entry((row::method(request), work.as_str()))
                .or_default()
                .push((self.row(request, is_closed), place));
        }
        let mut rows = Vec::new();
        for group in groups.into_values() {
            if group.len() <= GROUP {
                rows.extend(group);
                continue;
            }
            let count = group.len();
            let is_alike = group.windows(2).all(|pair| pair[0].0.cells[WORDS] == pair[1].0.cells[WORDS]);
            let Some((mut first, place)) = group.into_iter().next() else { continue };
            first.cells[0] = format!("{} ({})", self.shim.name(), many(count));
            if !is_alike {
                first.cells[WORDS].clear();
            }
            rows.push((first, place));
        }
        rows.sort_by_key(|(_, place)| *place);
        rows.into_iter().map(|(row, _)| row).collect()
    }

    /// A line for each request that has settled, or cannot any more, and has no line yet; one for many that stand alike.
    fn settled_lines(&mut self, is_closed: bool) -> Vec<String> {
        let mut groups: BTreeMap<&str, Vec<(usize, String, String)>> = BTreeMap::new();
        let mut places = Vec::new();
        for (index, (place, entry)) in self.requests.iter().enumerate() {
            let work = self.work(&entry.request, is_closed);
            if !entry.is_printed && (work.is_over() || is_closed) {
                let words = self.words(&entry.request, work);
                let words = if words.is_empty() { words } else { format!(": {words}") };
                groups.entry(work.as_str()).or_default().push((index, self.label(&entry.request), words));
                places.push(place.clone());
            }
        }
        for place in places {
            self.requests.entry(place).and_modify(|entry| entry.is_printed = true);
        }
        let mut lines = Vec::new();
        for (work, group) in groups {
            if group.len() <= GROUP {
                lines.extend(group.into_iter().map(|(index, label, words)| (index, format!("{label}: {work}{words}"))));
                continue;
            }
            let Some((index, _, first)) = group.first() else { continue };
            let words = if group.iter().all(|(_, _, words)| words == first) { first.as_str() } else { "" };
            lines.push((*index, format!("{}: {}: {work}{words}", self.shim.name(), many(group.len()))));
        }
        lines.sort_by_key(|(index, _)| *index);
        lines.into_iter().map(|(_, line)| line).collect()
    }

    fn document(&self, is_closed: bool, left: &[LeftByRequest]) -> Value {
        let of = |Entry { request, .. }: &Entry| {
            let work = self.work(request, is_closed);
            let words = self.words(request, work);
            let mut document =
                json!({ "label": request.label(), "state": work.name(), "words": words, "request": request });
            if let Some(left) = left.iter().find(|left| left.place() == (self.shim.name(), request.key.as_str())) {
                document["processes"] = left.document();
            }
            document
        };
        let requests: Vec<Value> = self.requests.values().map(of).collect();
        let (name, began) = (self.shim.name(), self.began.len());
        json!({
            "name": name, "session": self.session, "requests": requests, "began": began, "error": self.failed,
            "incomplete": self.cut,
        })
    }

    fn count(&self, is_closed: bool, wanted: impl Fn(WorkStatus) -> bool) -> usize {
        self.requests.values().filter(|entry| wanted(self.work(&entry.request, is_closed))).count()
    }

    /// What is known of all of it, when nothing more is awaited.
    pub(crate) fn standing(&self) -> Standing {
        let any = |wanted: fn(WorkStatus) -> bool| self.count(true, wanted) > 0;
        let is_unknown = any(|work| work == WorkStatus::Unknown) || self.session.unkept_released > 0;
        match (self.has_ended, any(WorkStatus::resists), is_unknown) {
            (true, ..) | (false, false, false) => Standing::Over,
            (false, true, _) => Standing::Resists,
            (false, false, true) => Standing::Unknown,
        }
    }

    /// The server and what is in flight in it, for a question about its end.
    pub(crate) fn line(&self, standing: Standing) -> String {
        let (words, is_meant): (_, fn(WorkStatus) -> bool) = match standing {
            Standing::Resists | Standing::Over => ("would not stop", WorkStatus::resists),
            Standing::Unknown => ("not known to have stopped", |work| work == WorkStatus::Unknown),
        };
        let unlisted = if standing == Standing::Unknown { self.session.unkept_released } else { 0 };
        let count = self.count(true, is_meant).saturating_add(usize::try_from(unlisted).unwrap_or(usize::MAX));
        let others = self.count(true, |work| !work.is_over() && !is_meant(work)) + self.began.len();
        let also =
            if others == 0 { String::new() } else { format!("; with {} more, which may be at work", many(others)) };
        let (name, server) = (self.shim.name(), row::server(&self.session));
        format!("  {name}  {server}  {} {words}{also}", many(count))
    }
}

impl Board {
    pub(crate) fn insert(&mut self, one: SessionBoard) {
        let name = one.shim.name().to_owned();
        self.sessions.insert((name.len(), name), one);
    }

    pub(crate) fn session(&mut self, name: &str) -> Option<&mut SessionBoard> {
        self.sessions.get_mut(&(name.len(), name.to_owned()))
    }

    /// The sessions that stand so, when nothing more is awaited.
    pub(crate) fn sessions_that(&self, stand: impl Fn(Standing) -> bool) -> Vec<&SessionBoard> {
        self.sessions.values().filter(|one| stand(one.standing())).collect()
    }

    /// The names of the sessions whose servers have ended.
    pub(crate) fn ended(&self) -> Vec<String> {
        self.sessions.values().filter(|one| one.has_ended).map(|one| one.shim.name().to_owned()).collect()
    }

    /// The sessions of which nothing is listed, and whose servers have ended.
    pub(crate) fn ended_unlisted(&self) -> impl Iterator<Item = &str> {
        let ended = self.sessions.values().filter(|one| one.has_ended && one.requests.is_empty());
        ended.map(|one| one.shim.name())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sessions.values().all(|one| one.requests.is_empty())
    }

    /// Whether nothing that is in flight waits for its cancel to be ordered, as far as its session takes orders.
    pub(crate) fn is_ordered(&self) -> bool {
        let needs_none = |Entry { request, .. }: &Entry| request.cancel.is_some() || !request.is_open();
        let is_ordered =
            |one: &SessionBoard| one.failed.is_some() || one.has_ended || one.requests.values().all(needs_none);
        self.sessions.values().all(is_ordered)
    }

    /// Whether all of it is known to be over, and all of it is known: a session whose work cannot be seen may have more.
    pub(crate) fn is_over(&self) -> bool {
        let is_known = |one: &SessionBoard| one.has_ended || !(one.session.has_unkept() || one.session.is_unseen());
        self.sessions.values().all(|one| is_known(one) && one.count(true, |work| !work.is_over()) == 0)
    }

    /// The requests of sessions that have not ended, with their shims.
    pub(crate) fn cancelled(&self) -> impl Iterator<Item = (&Shim, &Request)> {
        let running = self.sessions.values().filter(|one| !one.has_ended && one.failed.is_none());
        running.flat_map(|one| one.requests.values().map(|entry| (&one.shim, &entry.request)))
    }

    /// Notes what requests have left.
    pub(crate) fn note_left(&mut self, left: Vec<LeftByRequest>) {
        self.left = left;
    }

    /// What requests have left, as far as that was looked at.
    pub(crate) fn left(&self) -> impl Iterator<Item = &LeftByRequest> {
        self.left.iter()
    }

    /// The rows of a table.
    pub(crate) fn rows(&self) -> Vec<Row> {
        self.sessions.values().flat_map(|one| one.rows(self.is_closed)).collect()
    }

    /// The rows of a table of what is in flight, as `rescind ps` has it.
    pub(crate) fn listing(&self) -> Vec<Row> {
        let of = |one: &SessionBoard| {
            let row = |entry: &Entry| Row::of_request(one.shim.name(), &one.session, &entry.request, one.clock());
            one.requests.values().map(row).collect::<Vec<_>>()
        };
        self.sessions.values().flat_map(of).collect()
    }

    /// The lines of [`SessionBoard::settled_lines`] of all sessions.
    pub(crate) fn settled_lines(&mut self) -> Vec<String> {
        let is_closed = self.is_closed;
        self.sessions.values_mut().flat_map(|one| one.settled_lines(is_closed)).collect()
    }

    /// How many requests have which status.
    pub(crate) fn summary(&self) -> String {
        let counts = WorkStatus::ALL.map(|work| (work, self.count(work)));
        let words: Vec<_> = counts
            .iter()
            .filter(|(work, count)| *count > 0 || *work == WorkStatus::Stopped)
            .map(|(work, count)| {
                let words = if *work == WorkStatus::Ended { ENDED } else { work.as_str() };
                format!("{count} {words}")
            })
            .collect();
        let processes = match self.running_processes() {
            0 => String::new(),
            1 => "; 1 process that began during a cancelled request still runs".to_owned(),
            count => format!("; {count} processes that began during cancelled requests still run"),
        };
        format!("{}{processes}", words.join(", "))
    }

    /// How many processes that began during requests whose cancel is confirmed still run, as far as that was looked at.
    pub(crate) fn running_processes(&self) -> usize {
        self.left.iter().map(LeftByRequest::running).sum()
    }

    /// How many requests have this status.
    pub(crate) fn count(&self, work: WorkStatus) -> usize {
        self.sessions.values().map(|one| one.count(self.is_closed, |found| found == work)).sum()
    }

    /// What began meanwhile.
    pub(crate) fn began(&self) -> Option<String> {
        let count = self.count_begun();
        (count > 0).then(|| {
            let were = if count == 1 { "was" } else { "were" };
            format!("note: {} began meanwhile and {were} not cancelled", many(count))
        })
    }

    /// How many requests began meanwhile.
    pub(crate) fn count_begun(&self) -> usize {
        self.sessions.values().map(|one| one.began.len()).sum()
    }

    /// How many requests are over, and how many there are.
    pub(crate) fn tally(&self) -> Tally {
        let of =
            |wanted: fn(WorkStatus) -> bool| self.sessions.values().map(|one| one.count(self.is_closed, wanted)).sum();
        Tally { over: of(WorkStatus::is_over), all: of(|_| true) }
    }

    /// Each request with the name of its session, the status of its work and what is known in words.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&str, &Session, &Request, WorkStatus, String)> {
        self.sessions.values().flat_map(|one| {
            one.requests.values().map(|Entry { request, .. }| {
                let work = one.work(request, self.is_closed);
                (one.shim.name(), &one.session, request, work, one.words(request, work))
            })
        })
    }

    /// All of it as JSON.
    pub(crate) fn document(&self, silent: &[(String, String)]) -> Value {
        let counts = WorkStatus::ALL.into_iter().map(|work| (work.name().to_owned(), json!(self.count(work))));
        let known = self.sessions.values().map(|one| one.document(self.is_closed, &self.left));
        let silent = silent.iter().map(|(name, error)| json!({ "name": name, "error": error }));
        let sessions: Vec<Value> = known.chain(silent).collect();
        let counts = counts.collect::<Map<_, _>>();
        json!({ "sessions": sessions, "counts": counts, "runningProcesses": self.running_processes() })
    }
}

const fn tone(work: WorkStatus) -> Tone {
    match work {
        WorkStatus::Stopped | WorkStatus::Finished | WorkStatus::Ended | WorkStatus::Withdrawn => Tone::Faint,
        WorkStatus::Stopping => Tone::Plain,
        WorkStatus::Unknown | WorkStatus::WithClient => Tone::Notice,
        WorkStatus::Working | WorkStatus::NoAnswer | WorkStatus::NotDelivered => Tone::Alarm,
    }
}

/// Whether its protocol does not allow it to be cancelled.
fn is_forbidden(request: &Request) -> bool {
    request.cancel.as_ref().is_some_and(|cancel| cancel.outcome == Outcome::NotSendable)
}

fn place(request: &Request) -> (u64, String) {
    (request.since, request.key.clone())
}
