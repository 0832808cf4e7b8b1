//! Which session makes room for another.

use core::{cmp::Reverse, time::Duration};
use std::collections::BTreeMap;

use rescind_proto::time::Instant;

use super::{Session, Streams};
use crate::server::{
    config::HttpServerConfig,
    door::{Holder, is_told_apart},
    keys::SessionKey,
};

impl Streams {
    /// The session that makes room, of those that may by their owner and by how many their holder has: of the holder that
    /// has most, the one whose client has been silent for longest. One with a request in flight or a stream open never
    /// does. Costs time in proportion to the sessions.
    pub(crate) fn yielding(
        &self,
        now: Instant,
        config: &HttpServerConfig,
        may: impl Fn(&Session, usize) -> bool,
    ) -> Option<SessionKey> {
        let mut held = BTreeMap::<&Holder, usize>::new();
        self.sessions.values().for_each(|session| *held.entry(&session.holder).or_default() += 1);
        let mut yielding: Vec<_> = self
            .sessions
            .iter()
            .filter_map(|(key, session)| {
                let held = held.get(&session.holder).copied().unwrap_or_default();
                let is_quiet = now.since(session.heard) >= room_after(config, &session.holder, held);
                let yields = session.replies == 0 && is_quiet && may(session, held);
                yields.then_some((Reverse(held), session.heard, *key))
            })
            .collect();
        yielding.sort_unstable();
        yielding.into_iter().map(|(_, _, key)| key).find(|key| !self.has_requests(*key))
    }
}

/// How long the client of a session must have been silent before its session makes room. Of an address with more than half
/// of the places any does: one that opens sessions without a pause would else shut out all others.
fn room_after(config: &HttpServerConfig, holder: &Holder, held: usize) -> Duration {
    let is_greedy = is_told_apart(holder) && held > config.max_sessions.div_ceil(2);
    if is_greedy { Duration::ZERO } else { config.room_after.min(config.resume_within) }
}
