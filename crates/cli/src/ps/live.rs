//! A copy of the sessions, updated by their events.

use std::collections::{BTreeMap, BTreeSet};

use rescind_feed::{Changes, Event, Request, Session, Snapshot};
use rescind_operator::ShimError;
use tokio::time::Instant;

use super::hides_work;

/// The most ended requests kept of a session.
const RECENT: usize = 200;

/// The most released requests kept of a session: as many as its shim lists.
const RELEASED: usize = 1000;

/// The sessions, by length of name and name, which sorts process ids by number.
#[derive(Debug, Default)]
pub(super) struct LiveSessions {
    sessions: BTreeMap<(usize, String), LiveSession>,
    /// Sessions with at least one update while their socket exists, even if only that they are gone.
    known: BTreeSet<String>,
}

/// The state of a session.
#[derive(Debug)]
pub(super) enum LiveSession {
    /// A copy from its events.
    SessionUpdate(Box<Mirror>),
    /// Its shim does not answer.
    Lost(ShimError),
}

/// A copy of one session.
#[derive(Debug)]
pub(super) struct Mirror {
    pub(super) session: Session,
    now: u64,
    received: Instant,
    /// By arrival.
    requests: BTreeMap<(u64, String), Request>,
}

impl LiveSessions {
    /// Applies an event. Returns the requests in it, each with its previous record.
    pub(super) fn apply(&mut self, name: &str, event: Event, received: Instant) -> Vec<(Option<Request>, Request)> {
        self.known.insert(name.to_owned());
        let place = (name.len(), name.to_owned());
        match event {
            Event::Snapshot(Snapshot { now, session, requests, .. }) => {
                let mut copy = Mirror { session, now, received, requests: BTreeMap::new() };
                let before = match self.sessions.remove(&place) {
                    Some(LiveSession::SessionUpdate(before)) => before.requests,
                    Some(LiveSession::Lost(_)) | None => BTreeMap::new(),
                };
                let before = |request: Request| (before.get(&when(&request)).cloned(), request);
                let changed = requests.into_iter().map(before).collect::<Vec<_>>();
                copy.requests.extend(changed.iter().map(|(_, request)| (when(request), request.clone())));
                self.sessions.insert(place, LiveSession::SessionUpdate(Box::new(copy)));
                changed
            }
            Event::Changes(Changes { now, requests, session, .. }) => {
                let Some(LiveSession::SessionUpdate(copy)) = self.sessions.get_mut(&place) else { return Vec::new() };
                (copy.now, copy.received) = (now, received);
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
            // Of a shim that is newer than this: nothing is known to have changed.
            _ => Vec::new(),
        }
    }

    /// Records that a shim sends no more events; `true` if that is new.
    pub(super) fn lose(&mut self, name: &str, error: ShimError) -> bool {
        self.known.insert(name.to_owned());
        let place = (name.len(), name.to_owned());
        if matches!(error, ShimError::Gone(_)) {
            return self.sessions.remove(&place).is_some();
        }
        !matches!(self.sessions.insert(place, LiveSession::Lost(error)), Some(LiveSession::Lost(_)))
    }

    /// Forgets silent sessions without a socket. A session that sends events stays until it reports its end.
    pub(super) fn keep(&mut self, found: &[String]) {
        self.known.retain(|session| found.contains(session));
        self.sessions.retain(|(_, name), one| matches!(one, LiveSession::SessionUpdate(_)) || found.contains(name));
    }

    /// Whether that session has had an update.
    pub(super) fn knows(&self, session: &str) -> bool {
        self.known.contains(session)
    }

    /// Whether there may be work that is not listed.
    pub(super) fn hides_work(&self) -> bool {
        let is_such = |one: &LiveSession| matches!(one, LiveSession::SessionUpdate(copy) if hides_work(&copy.session));
        self.sessions.values().any(is_such)
    }

    /// Every session.
    pub(super) fn sessions(&self) -> impl Iterator<Item = (&str, &LiveSession)> {
        self.sessions.iter().map(|((_, name), one)| (name.as_str(), one))
    }
}

impl Mirror {
    /// An estimate of the session's clock at `now`.
    pub(super) fn clock(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.received).as_micros();
        self.now.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// Its requests, the oldest first.
    pub(super) fn requests(&self) -> impl Iterator<Item = &Request> {
        self.requests.values()
    }

    /// Forgets the oldest released and ended requests past their limits.
    fn forget(&mut self) {
        self.forget_past(RELEASED, Request::is_released);
        self.forget_past(RECENT, |request| !request.is_open() && !request.is_released());
    }

    fn forget_past(&mut self, most: usize, is_of_those: impl Fn(&Request) -> bool) {
        let mut surplus = self.requests.values().filter(|one| is_of_those(one)).count().saturating_sub(most);
        self.requests.retain(|_, request| {
            let keep = surplus == 0 || !is_of_those(request);
            surplus -= usize::from(!keep);
            keep
        });
    }
}

fn when(request: &Request) -> (u64, String) {
    (request.since, request.key.clone())
}
