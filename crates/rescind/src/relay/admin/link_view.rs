//! The link as the socket's clients see it.

use std::sync::Arc;

use rescind_feed as feed;
use rescind_proto::{link::RequestKey, relay::Relay, time::Instant};

use super::{
    change_tracker::{ChangeTracker, first},
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
        let found: Vec<_> = summaries.filter_map(|summary| filter.rank(self.now, self.relay, &summary)).collect();
        let more = found.len().saturating_sub(filter.limit()) as u64;
        let views = first(filter.limit(), found).filter_map(|(_, key)| self.relay.view(key));
        feed::Listing { now: micros(self.now), requests: views.map(|view| record::request(&view)).collect(), more }
    }

    pub(super) fn details(&self, key: RequestKey) -> Option<feed::Details> {
        let view = self.relay.view(key)?;
        let log = self.state.tracker.as_ref().map(|tracker| &tracker.frame_log);
        let dialect = self.relay.dialect(key.from);
        Some(feed::Details {
            request: record::request(&view),
            frames: log.map(|log| messages::about(log, self.relay.own_messages(), &view, dialect)).unwrap_or_default(),
            kept_since: log.and_then(|log| log.since()).map(micros),
        })
    }

    pub(super) fn cancel(&mut self, order: &feed::CancelOrder) -> feed::CancelReply {
        let stop = |key: &String| {
            let known = key.parse::<RequestKey>().ok();
            let accepted = known.is_some_and(|key| self.relay.stop(self.now, key, order.reason.as_deref()));
            let request = known.and_then(|key| self.relay.view(key)).map(|view| record::request(&view));
            feed::OrderOutcome { key: key.clone(), accepted, request }
        };
        feed::CancelReply { requests: order.requests.iter().map(stop).collect() }
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
