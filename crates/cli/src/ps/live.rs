//! A copy of what the shims tell, kept in step with their events.

use std::collections::{BTreeMap, BTreeSet};

use rescind_console::shims::ShimError;
use rescind_feed::{Changes, Event, Request, Session, Snapshot};
use tokio::time::Instant;

/// How many ended requests of a session are kept.
const RECENT: usize = 200;

/// The sessions, by length of name and name: process ids in their order.
#[derive(Debug, Default)]
pub(super) struct Live {
    sessions: BTreeMap<(usize, String), One>,
    /// Those of which something was heard, if only that they are gone, while their sockets are there.
    known: BTreeSet<String>,
}

/// What is known of a session.
#[derive(Debug)]
pub(super) enum One {
    /// What its events told.
    Told(Box<Mirror>),
    /// Its shim does not answer.
    Lost(ShimError),
}

/// One session, as its events told it.
#[derive(Debug)]
pub(super) struct Mirror {
    pub(super) session: Session,
    now: u64,
    heard: Instant,
    /// By the time when they came.
    requests: BTreeMap<(u64, String), Request>,
}

impl Live {
    /// Takes an event, and gives the requests that it told of anew, each with what it was before.
    pub(super) fn take(&mut self, name: &str, event: Event, heard: Instant) -> Vec<(Option<Request>, Request)> {
        self.known.insert(name.to_owned());
        let place = (name.len(), name.to_owned());
        match event {
            Event::Snapshot(Snapshot { now, session, requests, .. }) => {
                let mut copy = Mirror { session, now, heard, requests: BTreeMap::new() };
                let before = match self.sessions.remove(&place) {
                    Some(One::Told(before)) => before.requests,
                    Some(One::Lost(_)) | None => BTreeMap::new(),
                };
                let before = |request: Request| (before.get(&when(&request)).cloned(), request);
                let changed = requests.into_iter().map(before).collect::<Vec<_>>();
                copy.requests.extend(changed.iter().map(|(_, request)| (when(request), request.clone())));
                self.sessions.insert(place, One::Told(Box::new(copy)));
                changed
            }
            Event::Changes(Changes { now, requests, session, .. }) => {
                let Some(One::Told(copy)) = self.sessions.get_mut(&place) else { return Vec::new() };
                (copy.now, copy.heard) = (now, heard);
                copy.session = session.unwrap_or_else(|| copy.session.clone());
                let insert = |request: Request| (copy.requests.insert(when(&request), request.clone()), request);
                let changed = requests.into_iter().map(insert).collect();
                copy.forget();
                changed
            }
            Event::Ended(_) => {
                self.sessions.remove(&place);
                Vec::new()
            }
        }
    }

    /// A shim tells nothing more; whether that is news.
    pub(super) fn lose(&mut self, name: &str, error: ShimError) -> bool {
        self.known.insert(name.to_owned());
        let place = (name.len(), name.to_owned());
        if matches!(error, ShimError::Gone(_)) {
            return self.sessions.remove(&place).is_some();
        }
        !matches!(self.sessions.insert(place, One::Lost(error)), Some(One::Lost(_)))
    }

    /// Forgets sessions whose sockets are no longer there. What is shown of one that tells stays: it tells its end.
    pub(super) fn keep(&mut self, found: &[String]) {
        self.known.retain(|session| found.contains(session));
        self.sessions.retain(|(_, name), one| matches!(one, One::Told(_)) || found.contains(name));
    }

    /// Whether anything is known of that session.
    pub(super) fn knows(&self, session: &str) -> bool {
        self.known.contains(session)
    }

    /// Every session.
    pub(super) fn sessions(&self) -> impl Iterator<Item = (&str, &One)> {
        self.sessions.iter().map(|((_, name), one)| (name.as_str(), one))
    }
}

impl Mirror {
    /// The session's clock, as far as it can be known at `now`.
    pub(super) fn clock(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.heard).as_micros();
        self.now.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// Its requests, the oldest first.
    pub(super) fn requests(&self) -> impl Iterator<Item = &Request> {
        self.requests.values()
    }

    /// Forgets the oldest of the ended ones.
    fn forget(&mut self) {
        let ended = self.requests.values().filter(|request| !request.is_open()).count();
        let mut surplus = ended.saturating_sub(RECENT);
        self.requests.retain(|_, request| {
            let keep = request.is_open() || surplus == 0;
            surplus -= usize::from(!keep);
            keep
        });
    }
}

fn when(request: &Request) -> (u64, String) {
    (request.since, request.key.clone())
}
