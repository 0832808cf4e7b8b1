//! What a fake shim holds, and what it says of it.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
};

use rescind_feed::{
    Arguments, CancelOrder, CancelReply, Changes, Counters, Details, End, EndOrder, EndReply, Ended, Event, FrameView,
    Listing, OrderOutcome, Problem, Request, Session, Snapshot, State,
};
use serde::Serialize;

use super::http::{Asked, decoded};

/// How many events are kept for those who come back.
const KEPT: usize = 256;

/// How many requests a snapshot and a listing hold.
const LISTED: usize = 1000;

/// What was asked so far.
#[derive(Debug, Default)]
pub struct Seen {
    /// How many connections were opened to it.
    pub connections: usize,
    /// The path and query of every request.
    pub paths: Vec<String>,
    /// The orders to cancel.
    pub orders: Vec<CancelOrder>,
    /// The orders to end the server.
    pub ends: Vec<EndOrder>,
    /// For every subscription, the number after which it went on.
    pub subscriptions: Vec<Option<u64>>,
}

type Obey = Box<dyn FnMut(&mut Request, Option<&str>) + Send>;

pub(super) struct Script {
    pub(super) now: u64,
    pub(super) frames: HashMap<String, Vec<FrameView>>,
    pub(super) arguments: HashMap<String, Arguments>,
    /// Whether it is of an older release, which knows no arguments.
    pub(super) is_older: bool,
    pub(super) counters: Counters,
    pub(super) obey: Obey,
    pub(super) frozen: bool,
    pub(super) closed: bool,
    pub(super) seen: Seen,
    session: Session,
    requests: Vec<Request>,
    places: HashMap<String, usize>,
    seq: u64,
    kept: VecDeque<(u64, Event)>,
    ended: bool,
}

impl Script {
    pub(super) fn new(session: Session) -> Self {
        Self {
            now: 0,
            frames: HashMap::new(),
            arguments: HashMap::new(),
            is_older: false,
            counters: Counters::default(),
            obey: Box::new(|request, reason| {
                request.state = State::Cancelling;
                request.cancel = Some(super::asked(request.since, reason));
            }),
            frozen: false,
            closed: false,
            seen: Seen::default(),
            session,
            requests: Vec::new(),
            places: HashMap::new(),
            seq: 1,
            kept: VecDeque::new(),
            ended: false,
        }
    }

    pub(super) fn request(&self, key: &str) -> Option<&Request> {
        self.places.get(key).map(|&place| &self.requests[place])
    }

    /// As `put`, and forgets the events so far, so that a snapshot is told.
    pub(super) fn replace(&mut self, requests: Vec<Request>) {
        self.put(requests);
        self.kept.clear();
    }

    pub(super) fn put(&mut self, requests: Vec<Request>) {
        for request in &requests {
            match self.places.get(&request.key) {
                Some(&place) => self.requests[place] = request.clone(),
                None => {
                    self.places.insert(request.key.clone(), self.requests.len());
                    self.requests.push(request.clone());
                }
            }
        }
        self.seq += 1;
        let (seq, now, in_flight) = (self.seq, self.now, self.in_flight());
        self.keep(Event::Changes(Changes { seq, now, requests, brief: 0, in_flight, session: None }));
    }

    pub(super) fn end(&mut self, how: End) {
        self.seq += 1;
        self.ended = true;
        self.keep(Event::Ended(Ended { seq: self.seq, now: self.now, how }));
    }

    fn keep(&mut self, event: Event) {
        self.kept.push_back((self.seq, event));
        if self.kept.len() > KEPT {
            self.kept.pop_front();
        }
    }

    fn in_flight(&self) -> u64 {
        self.requests.iter().filter(|request| request.is_open()).count() as u64
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn is_told(&self, told: Option<u64>) -> bool {
        told == Some(self.seq)
    }

    /// The next events as text, the number of the last of them, and whether more can come.
    pub(super) fn after(&self, told: Option<u64>) -> (u64, String, bool) {
        let missed = told.filter(|&told| self.kept.front().is_some_and(|(first, _)| *first <= told + 1));
        let mut text = String::new();
        match missed {
            Some(told) => {
                let missed = self.kept.iter().filter(|(number, _)| *number > told);
                missed.for_each(|(number, event)| text.push_str(&written(*number, event)));
            }
            None if self.ended => {
                self.kept.back().into_iter().for_each(|(number, event)| text.push_str(&written(*number, event)));
            }
            None => text.push_str(&written(self.seq, &self.snapshot())),
        }
        (self.seq, text, !self.ended)
    }

    fn snapshot(&self) -> Event {
        let open = self.requests.iter().filter(|request| request.is_open()).take(LISTED);
        let over = |is_released| {
            let over = self.requests.iter().rev().filter(move |one| !one.is_open() && one.is_released() == is_released);
            over.take(LISTED)
        };
        Event::Snapshot(Snapshot {
            seq: self.seq,
            now: self.now,
            session: self.session.clone(),
            requests: open.chain(over(true)).chain(over(false)).cloned().collect(),
            in_flight: self.in_flight(),
        })
    }

    pub(super) fn answer(&mut self, asked: &Asked) -> (u16, String) {
        if self.ended {
            return problem(410, "the session has just ended");
        }
        match (asked.method.as_str(), asked.path()) {
            ("GET", "/v1/session") => said(&self.session),
            ("GET", "/v1/counters") => said(&self.counters),
            ("GET", "/v1/requests") if self.is_older && asked.query("arguments").is_some() => {
                problem(400, "unknown parameter: arguments")
            }
            ("GET", "/v1/requests") => said(&self.list(asked)),
            ("POST", "/v1/cancel") => match serde_json::from_slice(&asked.body) {
                Ok(order) => said(&self.cancel(order)),
                Err(error) => problem(400, &error.to_string()),
            },
            ("POST", "/v1/end") => match serde_json::from_slice::<EndOrder>(&asked.body) {
                Ok(order) if order.started != self.session.started => problem(409, "this session is another one"),
                Ok(order) => {
                    self.seen.ends.push(order);
                    said(&EndReply { accepted: self.seen.ends.len() == 1 })
                }
                Err(error) => problem(400, &error.to_string()),
            },
            ("GET", path) => match path.strip_prefix("/v1/requests/").map(decoded).and_then(|key| self.details(&key)) {
                Some(details) => said(&details),
                None => problem(404, "no such request"),
            },
            _ => problem(405, "cannot be done"),
        }
    }

    fn list(&self, asked: &Asked) -> Listing {
        let state = asked.query("state").unwrap_or_else(|| "open".into());
        let (from, id, method) = (asked.query("from"), asked.query("id"), asked.query("method"));
        let older_than = asked.query("older_than").and_then(|age| age.parse().ok()).unwrap_or(0);
        let limit = asked.query("limit").and_then(|limit| limit.parse().ok()).unwrap_or(LISTED);
        let cancelled = asked.query("cancelled").map(|word| word == "yes");
        let after = asked.query("after").and_then(|after| {
            let (since, key) = after.split_once(',')?;
            Some((since.parse::<u64>().ok()?, key.to_owned()))
        });
        let wanted = |request: &&Request| {
            cancelled.is_none_or(|cancelled| cancelled == request.cancel.is_some())
                && after.as_ref().is_none_or(|(since, key)| (request.since, &request.key) > (*since, key))
                && match &*state {
                    "all" => true,
                    "open" => request.is_open(),
                    "released" => request.is_released(),
                    _ => !request.is_open(),
                }
                && from.as_ref().is_none_or(|from| from == request.from.as_str())
                && id.as_ref().is_none_or(|id| *id == request.id || format!("\"{id}\"") == request.id)
                && method.as_ref().is_none_or(|method| names(method, request))
                && self.now.saturating_sub(request.since) >= older_than
        };
        // Only those that are told are copied: who asks waits for two seconds, and a hundred thousand would take a slow build
        // longer.
        let mut found: Vec<&Request> = self.requests.iter().filter(wanted).collect();
        found.sort_by(|one, other| (one.since, &one.key).cmp(&(other.since, &other.key)));
        let more = found.len().saturating_sub(limit) as u64;
        let requests: Vec<Request> = found.into_iter().take(limit).cloned().collect();
        let is_asked = asked.query("arguments").is_some_and(|word| word == "yes");
        let of = |request: &Request| Some((request.key.clone(), self.arguments.get(&request.key)?.clone()));
        let arguments = requests.iter().filter(|_| is_asked).filter_map(of).collect();
        Listing { now: self.now, requests, more, arguments }
    }

    fn details(&self, key: &str) -> Option<Details> {
        let request = self.request(key)?.clone();
        let frames = self.frames.get(key).cloned().unwrap_or_default();
        let arguments = self.arguments.get(key).cloned();
        Some(Details { request, frames, kept_since: Some(0), arguments })
    }

    fn cancel(&mut self, order: CancelOrder) -> CancelReply {
        let reason = order.reason.as_deref();
        let stopped: Vec<OrderOutcome> = order.requests.iter().map(|key| self.stop(key, reason)).collect();
        let changed = stopped.iter().filter(|stopped| stopped.accepted);
        self.put(changed.filter_map(|stopped| stopped.request.clone()).collect());
        self.seen.orders.push(order);
        CancelReply { requests: stopped }
    }

    fn stop(&mut self, key: &str, reason: Option<&str>) -> OrderOutcome {
        let mut request = self.request(key).cloned();
        let obeys = |request: &Request| request.may_be_released || (request.is_open() && request.cancel.is_none());
        let accepted = request.as_ref().is_some_and(obeys);
        if let Some(request) = request.as_mut().filter(|_| accepted) {
            (self.obey)(request, reason);
        }
        OrderOutcome { key: key.to_owned(), accepted, request }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("session", &self.session.name).field("seen", &self.seen).finish_non_exhaustive()
    }
}

/// Whether `METHOD` or `METHOD:TOOL` names the request.
fn names(method: &str, request: &Request) -> bool {
    let tool = method.strip_prefix(&request.method).and_then(|rest| rest.strip_prefix(':'));
    method == request.method || tool.is_some_and(|tool| request.name.as_deref() == Some(tool))
}

fn written(number: u64, event: &Event) -> String {
    let kind = event.kind();
    format!("event: {kind}\nid: {number}\ndata: {}\n\n", serde_json::to_string(event).unwrap_or_default())
}

fn said(value: &impl Serialize) -> (u16, String) {
    (200, serde_json::to_string(value).unwrap_or_default())
}

fn problem(status: u16, error: &str) -> (u16, String) {
    let (_, body) = said(&Problem { error: error.into(), hint: None });
    (status, body)
}
