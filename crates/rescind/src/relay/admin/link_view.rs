//! The link as the socket's clients see it.

use std::{collections::BTreeSet, sync::Arc};

use rescind_feed as feed;
use rescind_proto::{cause::CauseCode, link::RequestKey, relay::Relay, time::Instant};

use super::{
    change_tracker::{ChangeTracker, child_record, first},
    entry_key::EntryKey,
    event_buffer::EventBuffer,
    filter::RequestFilter,
    messages,
    record::{self, micros},
    session_facts::SessionFacts,
    tally,
};

/// What the admin socket keeps beside the relay.
#[derive(Debug)]
pub(super) struct AdminState {
    pub(super) facts: SessionFacts,
    pub(super) events: Arc<EventBuffer>,
    /// Present while somebody subscribes.
    pub(super) tracker: Option<ChangeTracker>,
    pub(super) end: EndOrdered,
}

/// Whether the server's end was ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndOrdered {
    No,
    /// The drive does not know yet.
    Now,
    Before,
}

/// The link at one moment.
#[derive(Debug)]
pub(super) struct LinkView<'a> {
    pub(super) now: Instant,
    pub(super) relay: &'a mut Relay,
    pub(super) state: &'a mut AdminState,
}

impl LinkView<'_> {
    pub(super) fn session(&self) -> feed::Session {
        self.state.facts.session(self.relay)
    }

    pub(super) fn counters(&self) -> feed::Counters {
        tally::counters(self.relay)
    }

    pub(super) fn listing(&self, filter: &RequestFilter) -> feed::Listing {
        let summaries = filter.sides().flat_map(|side| self.relay.summaries(side));
        let requests = summaries.filter_map(|summary| filter.rank(self.now, self.relay, &summary));
        let children = self.relay.children().filter_map(|child| filter.rank_child(self.now, &child));
        let found: Vec<_> = requests.chain(children).collect();
        let more = found.len().saturating_sub(filter.limit()) as u64;
        let keys: Vec<_> = first(filter.limit(), found).map(|(_, key)| key).collect();
        let arguments = keys.iter().filter(|_| filter.wants_arguments()).filter_map(|key| match key {
            EntryKey::Request(key) => Some((key.to_string(), self.arguments(*key)?)),
            EntryKey::Child(_) => None,
        });
        let arguments = arguments.collect();
        let requests = keys.iter().filter_map(|key| self.record(*key)).collect();
        feed::Listing { now: micros(self.now), requests, more, arguments }
    }

    fn arguments(&self, key: RequestKey) -> Option<feed::Arguments> {
        self.relay.arguments(key).map(record::arguments)
    }

    /// The record of what has this key, if it is remembered.
    fn record(&self, key: EntryKey) -> Option<feed::Request> {
        match key {
            EntryKey::Request(key) => self.relay.view(key).map(|view| record::request(&view)),
            EntryKey::Child(key) => self.relay.child(key).map(|view| child_record(self.relay, &view)),
        }
    }

    pub(super) fn details(&self, key: EntryKey) -> Option<feed::Details> {
        let key = match key {
            EntryKey::Request(key) => key,
            EntryKey::Child(_) => {
                let request = self.record(key)?;
                return Some(feed::Details { request, frames: Vec::new(), kept_since: None, arguments: None });
            }
        };
        let view = self.relay.view(key)?;
        let log = self.state.tracker.as_ref().map(|tracker| &tracker.frame_log);
        let dialect = self.relay.dialect(key.from);
        Some(feed::Details {
            request: record::request(&view),
            frames: log.map(|log| messages::about(log, self.relay.own_messages(), &view, dialect)).unwrap_or_default(),
            kept_since: log.and_then(|log| log.since()).map(micros),
            arguments: self.arguments(key),
        })
    }

    pub(super) fn cancel(&mut self, order: &feed::CancelOrder) -> feed::CancelReply {
        let mut requests: Vec<_> = order.requests.iter().map(|key| self.cancel_one(key, order)).collect();
        for key in self.cancelled_with(order) {
            requests.push(feed::OrderOutcome { key: key.to_string(), accepted: true, request: self.record(key) });
        }
        feed::CancelReply { requests }
    }

    fn cancel_one(&mut self, key: &str, order: &feed::CancelOrder) -> feed::OrderOutcome {
        let (known, reason) = (key.parse::<EntryKey>().ok(), order.reason.as_deref());
        let accepted = match known {
            Some(EntryKey::Request(key)) => {
                let is_stopped = match order.turn_only {
                    true => self.relay.stop_alone(self.now, key, reason),
                    false => self.relay.stop(self.now, key, reason),
                };
                // The order of its turn may have had it cancelled just now.
                is_stopped || self.is_cancelled_now(EntryKey::Request(key)) || self.relay.release(self.now, key)
            }
            Some(EntryKey::Child(key)) => {
                self.relay.stop_child(self.now, key, reason) || self.is_cancelled_now(EntryKey::Child(key))
            }
            None => false,
        };
        feed::OrderOutcome { key: key.to_owned(), accepted, request: known.and_then(|key| self.record(key)) }
    }

    fn is_cancelled_now(&self, key: EntryKey) -> bool {
        let cancel = match key {
            EntryKey::Request(key) => self.relay.view(key).and_then(|request| request.cancel),
            EntryKey::Child(key) => self.relay.child(key).and_then(|child| child.cancel),
        };
        cancel.is_some_and(|cancel| cancel.asked == self.now && cancel.cause.code == CauseCode::Operator)
    }

    /// The children and the background work that were cancelled with turns of this order, or could not be, and that the
    /// order does not name.
    fn cancelled_with(&self, order: &feed::CancelOrder) -> Vec<EntryKey> {
        let keys = order.requests.iter().filter(|_| !order.turn_only);
        let turns = keys.filter_map(|key| key.parse::<RequestKey>().ok());
        let of = |turn| {
            let children = self.relay.children_of(turn).into_iter().map(EntryKey::Child);
            children.chain(self.relay.background_of(turn).into_iter().map(EntryKey::Request))
        };
        let mut parts: Vec<_> = turns.flat_map(of).collect();
        parts.retain(|part| self.is_cancelled_now(*part) && !order.requests.contains(&part.to_string()));
        let mut seen = BTreeSet::new();
        parts.retain(|part| seen.insert(*part));
        parts
    }

    /// Notes an order to end the server, for the drive; `None` if it means another session.
    pub(super) fn end(&mut self, order: feed::EndOrder) -> Option<feed::EndReply> {
        if order.started != self.state.facts.started {
            return None;
        }
        let accepted = self.state.end == EndOrdered::No;
        if accepted {
            self.state.end = EndOrdered::Now;
        }
        Some(feed::EndReply { accepted })
    }

    /// Tracks changes from now on; `true` unless they were tracked already.
    pub(super) fn begin_tracking(&mut self) -> bool {
        let begins = self.state.tracker.is_none();
        if begins {
            self.state.tracker = Some(ChangeTracker::begin(self.relay));
        }
        begins
    }

    /// Stops tracking changes, unless somebody has subscribed again; `true` if it stopped.
    pub(super) fn end_tracking(&mut self) -> bool {
        let ends = self.state.events.has_no_subscribers();
        if ends {
            self.state.tracker = None;
            self.relay.watch(false);
            // Changes from now on are lost, so no earlier number is a place to resume from.
            self.state.events.restart();
        }
        ends
    }

    /// Reports changes to the subscribers.
    pub(super) fn report_changes(&mut self) {
        let AdminState { facts, events, tracker, .. } = &mut *self.state;
        if let Some(tracker) = tracker {
            tracker.has_notified = false;
            tracker.report(self.now, self.relay, events, facts);
        }
    }

    /// The whole state, for a new subscriber.
    pub(super) fn snapshot(&mut self) -> feed::Snapshot {
        let session = self.session();
        let AdminState { events, tracker, .. } = &mut *self.state;
        let tracker = tracker.get_or_insert_with(|| ChangeTracker::begin(self.relay));
        tracker.snapshot(self.now, self.relay, events, session)
    }
}
