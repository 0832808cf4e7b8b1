//! The link as those see it who ask over the socket.

use std::sync::Arc;

use rescind_feed as feed;
use rescind_proto::{link::RequestKey, relay::Relay, side::Side, time::Instant};

use super::{
    frames,
    query::Query,
    record::{self, micros},
    stream::Stream,
    tally,
    watch::{self, Watch, first},
};

/// What the admin socket keeps beside the relay.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) facts: Facts,
    pub(super) stream: Arc<Stream>,
    /// While somebody watches.
    pub(super) watch: Option<Watch>,
}

/// What of a session does not change.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) name: String,
    pub(super) ancestors: Vec<u32>,
    pub(super) server_pid: u32,
    pub(super) command: Vec<String>,
    /// When the session's clock began, in microseconds since 1970.
    pub(super) started: u64,
}

/// The link at one moment.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    pub(super) now: Instant,
    pub(super) relay: &'a mut Relay,
    pub(super) keeper: &'a mut Keeper,
}

impl Scene<'_> {
    pub(super) fn session(&self) -> feed::Session {
        self.keeper.facts.session(self.relay)
    }

    pub(super) fn counters(&self) -> feed::Counters {
        tally::counters(self.relay)
    }

    pub(super) fn listing(&self, query: &Query) -> feed::Listing {
        let glimpses = query.sides().flat_map(|side| self.relay.glimpses(side));
        let found: Vec<_> = glimpses.filter_map(|glimpse| query.rank(self.now, self.relay, &glimpse)).collect();
        let more = found.len().saturating_sub(query.limit) as u64;
        let views = first(query.limit, found).filter_map(|(_, key)| self.relay.view(key));
        feed::Listing { now: micros(self.now), requests: views.map(|view| record::request(&view)).collect(), more }
    }

    pub(super) fn details(&self, key: RequestKey) -> Option<feed::Details> {
        let view = self.relay.view(key)?;
        let tape = self.keeper.watch.as_ref().map(|watch| &watch.tape);
        let dialect = self.relay.dialect(key.from);
        Some(feed::Details {
            request: record::request(&view),
            frames: tape.map(|tape| frames::about(tape, self.relay.own_messages(), &view, dialect)).unwrap_or_default(),
            kept_since: tape.and_then(|tape| tape.since()).map(micros),
        })
    }

    pub(super) fn cancel(&mut self, order: &feed::CancelOrder) -> feed::CancelReply {
        let stop = |key: &String| {
            let known = key.parse::<RequestKey>().ok();
            let accepted = known.is_some_and(|key| self.relay.stop(self.now, key, order.reason.as_deref()));
            let request = known.and_then(|key| self.relay.view(key)).map(|view| record::request(&view));
            feed::Stopped { key: key.clone(), accepted, request }
        };
        feed::CancelReply { requests: order.requests.iter().map(stop).collect() }
    }

    /// Somebody watches from now on. Whether nobody did before.
    pub(super) fn begin_watching(&mut self) -> bool {
        let begins = self.keeper.watch.is_none();
        if begins {
            self.keeper.watch = Some(Watch::begin(self.relay));
        }
        begins
    }

    /// Nobody watches any more, unless somebody came back. Whether that is so.
    pub(super) fn end_watching(&mut self) -> bool {
        let deserted = self.keeper.stream.is_deserted();
        if deserted {
            self.keeper.watch = None;
            self.relay.watch(false);
            // What happens now is told to nobody: whoever comes back with a number of before has missed it.
            self.keeper.stream.begin_anew();
        }
        deserted
    }

    /// Tells subscribers what changed.
    pub(super) fn tell(&mut self) {
        let Keeper { facts, stream, watch } = &mut *self.keeper;
        if let Some(watch) = watch {
            watch.stirred = false;
            watch.tell(self.now, self.relay, stream, facts);
        }
    }

    /// Everything as it is, for a subscriber.
    pub(super) fn snapshot(&mut self) -> feed::Snapshot {
        let session = self.session();
        let Keeper { stream, watch, .. } = &mut *self.keeper;
        let watch = watch.get_or_insert_with(|| Watch::begin(self.relay));
        watch.snapshot(self.now, self.relay, stream, session)
    }
}

impl Facts {
    pub(super) fn session(&self, relay: &Relay) -> feed::Session {
        let implementations = watch::implementations(relay);
        feed::Session {
            version: feed::VERSION,
            name: self.name.clone(),
            program: concat!("rescind ", env!("CARGO_PKG_VERSION")).to_owned(),
            pid: std::process::id(),
            ancestors: self.ancestors.clone(),
            server_pid: Some(self.server_pid),
            command: self.command.clone(),
            started: self.started,
            client: implementations[Side::Client].clone(),
            server: implementations[Side::Server].clone(),
        }
    }
}
