//! Ends the processes that a cancelled request has left (D59): `--on-stop end-processes`.
//!
//! A turn is looked at once its cancel is confirmed, or, where its server need not confirm it, when a grace is over in
//! which nothing came of it; and once what it has opened was cancelled and has ended, also after its own end. Which of its
//! processes end is decided by `rescind_ledger::turn`. A thread reads the processes and ends them, since both take time that
//! a link does not have: SIGTERM, and SIGKILL for those that run on. The server is never among them.

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    task::{Context, Poll},
    thread,
    time::Duration,
};

pub(crate) use rescind_feed::TurnProcess;
use rescind_ledger::{
    choice::Choice,
    family::Family,
    identity::ProcessId,
    mark::{Mark, Place},
    reap::{Reaped, reap},
    record::Record,
    snapshot::Snapshot,
    turn::{Role, ServerStart, Span, TurnVerdict, Turns, process_clock},
};
use rescind_proto::{
    child::{ChildEnd, ChildState},
    dialect::Dialect,
    link::{ChildKey, RequestKey},
    receipt::Outcome,
    relay::{ChildView, Relay, RequestView},
    side::Side,
    time::Instant,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// From SIGTERM to SIGKILL, as `rescind reap` has it.
const TERMINATE: Duration = Duration::from_millis(2500);

/// The most cancelled requests and children that wait to be looked at; the processes of one more are left.
const MAX_WAITING: usize = 1024;

/// What is said of a process until it has ended.
const BEING_ENDED: &str = "being ended";

/// The cancelled work of a link whose processes are to end. Dropping it leaves what has not ended.
#[derive(Debug)]
pub(crate) struct TurnProcesses {
    mark: Mark,
    /// When the link's clock began, and how many microseconds after 1970 that was.
    origin: std::time::Instant,
    started: u64,
    /// How long a server need not confirm a cancel.
    grace: Duration,
    /// When the server was last started again, if it was.
    start: Option<ServerStart>,
    /// The earliest first.
    waiting: VecDeque<Waiting>,
    /// The work that is looked at, and what a thread learns of its processes.
    working: Option<(Vec<StoppedWork>, UnboundedReceiver<Vec<TurnProcess>>)>,
}

/// Cancelled work: a request, or a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoppedWork {
    Request(RequestKey),
    Child(ChildKey),
}

impl fmt::Display for StoppedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(key) => key.fmt(f),
            Self::Child(key) => key.fmt(f),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    due: Instant,
    work: StoppedWork,
    is_confirmed: bool,
}

impl TurnProcesses {
    /// For a link with this mark, whose clock began at `origin`, `started` microseconds after 1970.
    pub(crate) const fn new(mark: Mark, origin: std::time::Instant, started: u64, grace: Duration) -> Self {
        Self { mark, origin, started, grace, start: None, waiting: VecDeque::new(), working: None }
    }

    /// Notes that the server was started again.
    pub(crate) fn handle_restarted(&mut self, now: Instant) {
        self.start = Some(ServerStart { at: micros(now), greeted: None });
    }

    /// Notes that it has answered the handshake.
    pub(crate) fn handle_greeted(&mut self, now: Instant) {
        self.start.iter_mut().for_each(|start| start.greeted = Some(micros(now)));
    }

    /// Handles what is known of a cancel.
    pub(crate) fn handle_receipt(&mut self, now: Instant, request: RequestKey, outcome: Outcome) {
        // What a server asks is worked on by its client.
        if request.from == Side::Server {
            return;
        }
        if outcome == Outcome::Asked {
            return;
        }
        let work = StoppedWork::Request(request);
        self.waiting.retain(|one| one.work != work);
        if matches!(outcome, Outcome::Confirmed { .. }) {
            self.wait(Waiting { due: now, work, is_confirmed: true });
        } else if outcome == Outcome::Sent {
            self.wait(Waiting { due: now + self.grace, work, is_confirmed: false });
        }
    }

    /// Handles the end of a child's cancelled work.
    pub(crate) fn handle_stopped_child(&mut self, now: Instant, child: ChildKey) {
        let work = StoppedWork::Child(child);
        self.waiting.retain(|one| one.work != work);
        self.wait(Waiting { due: now, work, is_confirmed: true });
    }

    fn wait(&mut self, one: Waiting) {
        if self.waiting.len() == MAX_WAITING {
            return;
        }
        if one.is_confirmed { self.waiting.push_front(one) } else { self.waiting.push_back(one) }
    }

    /// When to poll again if nothing else happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.waiting.front().filter(|_| self.working.is_none()).map(|one| one.due)
    }

    /// The keys of the requests and children whose processes are still to be looked for, or are being ended.
    pub(crate) fn keys(&self) -> impl Iterator<Item = String> {
        let working = self.working.iter().flat_map(|(works, _)| works.iter().copied());
        working.chain(self.waiting.iter().map(|one| one.work)).map(|work| work.to_string())
    }

    /// Looks at the work that is due. Ready with what became known of processes, which is nothing where a request has
    /// left none.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, now: Instant, relay: &Relay) -> Poll<Vec<TurnProcess>> {
        if let Some((_, news)) = &mut self.working {
            return match news.poll_recv(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Some(news)) => Poll::Ready(news),
                Poll::Ready(None) => {
                    self.working = None;
                    Poll::Ready(Vec::new())
                }
            };
        }
        let is_due = |one: &&Waiting| one.due <= now;
        if self.waiting.front().filter(is_due).is_none() {
            return Poll::Pending;
        }
        let due: Vec<Waiting> = self.waiting.iter().filter(is_due).copied().collect();
        self.waiting.retain(|one| one.due > now);
        let is_silent = |view: RequestView<'_>| view.is_released && !view.works_on;
        let has_stopped = |one: &&Waiting| match one.work {
            _ if one.is_confirmed => true,
            StoppedWork::Request(request) => relay.view(request).is_some_and(is_silent),
            StoppedWork::Child(_) => false,
        };
        let stopped: Vec<StoppedWork> = due.iter().filter(has_stopped).map(|one| one.work).collect();
        if !stopped.is_empty() {
            self.begin(now, relay, stopped);
        }
        // Others may be due, and who asks is told that these are not waited for any more.
        Poll::Ready(Vec::new())
    }

    /// Has a thread end what this work has left. Without a thread it is left.
    fn begin(&mut self, now: Instant, relay: &Relay, works: Vec<StoppedWork>) {
        let requests =
            relay.summaries(Side::Client).filter_map(|one| relay.view(one.key)).map(|view| of_request(&view));
        let spans = requests.chain(relay.children().map(|view| of_child(&view))).collect();
        let clock = process_clock(self.origin, self.started);
        let turns = Turns::new(spans, clock, micros(now)).since(self.start);
        let (sender, news) = unbounded_channel();
        let (mark, keys) = (self.mark, works.iter().map(ToString::to_string).collect::<Vec<_>>());
        let work = move || end_processes(mark, &turns, &keys, &sender);
        let started = thread::Builder::new().name("rescind-turn".to_owned()).spawn(work);
        self.working = started.is_ok().then_some((works, news));
    }

    /// Waits until what is being ended has ended.
    pub(crate) async fn finish(self) {
        if let Some((_, mut news)) = self.working {
            while news.recv().await.is_some() {}
        }
    }
}

fn micros(at: Instant) -> u64 {
    at.since_origin().as_micros().try_into().unwrap_or(u64::MAX)
}

fn of_request(view: &RequestView<'_>) -> Span {
    let outcome = view.cancel.map(|cancel| cancel.outcome);
    let starts_nothing =
        !Dialect::is_any_work(view.method) || view.waits_for_turn || outcome == Some(Outcome::NeverSent);
    let opened_by = view.opened_by.map(|request| request.to_string());
    Span {
        key: view.key.to_string(),
        method: view.method.to_owned(),
        began: micros(view.held_until.unwrap_or(view.since)),
        ended: view.ended.map(|ended| micros(ended.at)),
        role: Role::of(starts_nothing, view.at_work.is_some(), false, opened_by),
        is_stopped: matches!(outcome, Some(Outcome::Confirmed { .. })) || (view.is_released && !view.works_on),
    }
}

fn of_child(view: &ChildView<'_>) -> Span {
    Span {
        key: view.key.to_string(),
        method: String::new(),
        began: micros(view.since),
        ended: (!view.state.is_open()).then_some(micros(view.reported)),
        role: Role::of(false, false, true, view.opened_by.map(|request| request.to_string())),
        is_stopped: view.state == ChildState::Idle(ChildEnd::Cancelled),
    }
}

/// Ends what this work has left, and reports what becomes of it: once what is found, and once how it has ended.
fn end_processes(mark: Mark, turns: &Turns, works: &[String], news: &UnboundedSender<Vec<TurnProcess>>) {
    // Tells the terminal of this process, on which its server may work, too.
    let record = Record::new(mark, String::new(), Vec::new(), 0);
    let own = |snapshot: &Snapshot| {
        let families = Family::find(snapshot, vec![record.clone()], Place::here());
        families.into_iter().find(|family| family.mark == mark)
    };
    let snapshot = Snapshot::take();
    let Some(family) = own(&snapshot) else { return };
    let (mut all, mut found) = (TurnVerdict::default(), Vec::new());
    for (request, works) in &turns.by_request(works) {
        let TurnVerdict { ends, spared } = turns.to_end(&family, works);
        let entry = |id: ProcessId, how: String| {
            let name = snapshot.get(id).map(|process| process.name.clone()).unwrap_or_default();
            TurnProcess { request: (*request).to_owned(), pid: id.pid, name, ended: false, how }
        };
        found.extend(ends.iter().map(|id| entry(*id, BEING_ENDED.to_owned())));
        found.extend(spared.iter().map(|(id, why)| entry(*id, why.words())));
        all.ends.extend(ends);
        all.spared.extend(spared);
    }
    let mut choice = Choice::of_turn(&family, &all);
    let of = |pid: u32| found.iter().find(|one| one.pid == pid);
    let _ = news.send(found.clone());
    if all.ends.is_empty() {
        return;
    }
    let reaped = reap(TERMINATE, |snapshot| choice.follow(&own(snapshot).into_iter().collect::<Vec<_>>()));
    let ended: BTreeSet<u32> = reaped.iter().map(|one| one.process.id.pid).collect();
    let outcome = |Reaped { process, how, .. }: &Reaped| TurnProcess {
        // What it has started later is of the same request; of several, of the first.
        request: of(process.id.pid).or_else(|| found.first()).map(|one| one.request.clone()).unwrap_or_default(),
        pid: process.id.pid,
        name: process.name.clone(),
        ended: how.is_end(),
        how: how.words().to_owned(),
    };
    let mut outcomes: Vec<TurnProcess> = reaped.iter().map(outcome).collect();
    // Those that were to end and were not tried.
    let untried = found.iter().filter(|one| one.how == BEING_ENDED && !ended.contains(&one.pid));
    outcomes.extend(untried.map(|one| {
        let is_kept = all.ends.iter().any(|id| id.pid == one.pid && id.is_alive());
        let how = if is_kept { "not ended: it works on a terminal" } else { "ended by itself" };
        TurnProcess { ended: !is_kept, how: how.to_owned(), ..one.clone() }
    }));
    let _ = news.send(outcomes);
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use rescind_proto::{receipt::Answer, relay::RelayConfig};

    use super::*;

    const GRACE: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Instant {
        Instant::after_origin(Duration::from_secs(seconds))
    }

    /// A link with two calls in flight, and the keys of these.
    fn link() -> (TurnProcesses, Relay, Vec<RequestKey>) {
        let mut relay = Relay::new(RelayConfig::default());
        for id in ["1", "2"] {
            let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t"}}}}"#);
            relay.handle_input(at(0), Side::Client, format!("{call}\n").as_bytes());
        }
        let keys = relay.requests(Side::Client).map(|view| view.key).collect();
        let turns = TurnProcesses::new(Mark::next().unwrap(), std::time::Instant::now(), 0, GRACE);
        (turns, relay, keys)
    }

    #[test]
    fn a_confirmed_cancel_is_due_at_once_and_a_silent_one_after_a_grace() {
        let (mut turns, _, keys) = link();
        turns.handle_receipt(at(1), keys[0], Outcome::Asked);
        assert_eq!(turns.deadline(), None);
        turns.handle_receipt(at(1), keys[0], Outcome::Sent);
        assert_eq!(turns.deadline(), Some(at(6)));
        turns.handle_receipt(at(2), keys[1], Outcome::Sent);
        turns.handle_receipt(at(3), keys[1], Outcome::Confirmed { after: Duration::ZERO });
        assert_eq!((turns.deadline(), turns.keys().count()), (Some(at(3)), 2));
    }

    #[test]
    fn what_was_answered_as_if_there_were_no_cancel_is_left() {
        let (mut turns, relay, keys) = link();
        turns.handle_receipt(at(1), keys[0], Outcome::Sent);
        let answered = Outcome::AnsweredAfter { after: Duration::ZERO, answer: Answer::Result };
        turns.handle_receipt(at(2), keys[0], answered);
        assert_eq!(turns.deadline(), None);
        // Silent, but not released: its client still waits.
        turns.handle_receipt(at(2), keys[1], Outcome::Sent);
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(turns.poll(cx, at(6), &relay).is_pending());
        assert!(matches!(turns.poll(cx, at(7), &relay), Poll::Ready(news) if news.is_empty()));
        assert!(turns.working.is_none() && turns.deadline().is_none());
    }

    #[test]
    fn what_a_server_asks_its_client_has_left_nothing() {
        let (mut turns, mut relay, _) = link();
        let asks = r#"{"jsonrpc":"2.0","id":7,"method":"roots/list"}"#;
        relay.handle_input(at(0), Side::Server, format!("{asks}\n").as_bytes());
        let asked = relay.requests(Side::Server).next().unwrap().key;
        turns.handle_receipt(at(1), asked, Outcome::Confirmed { after: Duration::ZERO });
        assert_eq!(turns.deadline(), None);
    }

    #[test]
    fn a_flood_of_cancels_is_bounded() {
        let (mut turns, mut relay, _) = link();
        for id in 10..2_000 {
            let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t"}}}}"#);
            relay.handle_input(at(0), Side::Client, format!("{call}\n").as_bytes());
        }
        let keys: Vec<RequestKey> = relay.requests(Side::Client).map(|view| view.key).collect();
        keys.iter().for_each(|key| turns.handle_receipt(at(1), *key, Outcome::Sent));
        assert_eq!((keys.len(), turns.keys().count()), (1_992, MAX_WAITING));
    }
}
