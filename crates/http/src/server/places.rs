//! Places under one bound: of sessions and, where askers are distinguished, of their links for requests outside a session.
//! Which of them makes room for the next.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use rescind_proto::time::Instant;

use super::{
    HttpServer, LinkKey, SessionKey,
    door::{Asker, Holder, Refusal, is_told_apart},
    streams::Session,
};

/// Where the next session, or the next link of an asker, finds its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Place {
    /// One is free.
    Free,
    /// This idle link makes room. Its clients lose nothing by it: their next request opens another.
    OfLink(LinkKey),
    /// This idle session makes room.
    OfSession(SessionKey),
}

impl HttpServer {
    /// Finds a place for one more session, or for one more link of an asker; nothing is ended yet
    /// ([`take_place`](Self::take_place)).
    ///
    /// An owner takes another place only while it has fewer than are free. So one owner alone has at most half of them, and
    /// the next at most half of what is left. Beyond that only a session of the owner's own makes room.
    pub(crate) fn find_place(&self, now: Instant, asker: &Asker, holder: &Holder) -> Result<Place, Refusal> {
        let people = if self.config.parts_people() { self.shared.links.len() } else { 0 };
        let free = self.config.max_sessions.saturating_sub(self.streams.sessions.len() + people);
        let taken = self.places_of(asker);
        if taken > 0 && taken >= free {
            let own = self.yielding_session(now, |session, _| session.owner == asker.owner);
            let words = "you have as many sessions as one owner may have now; end one of them";
            return own.map(Place::OfSession).ok_or_else(|| Refusal::overloaded(words));
        }
        if free > 0 {
            return Ok(Place::Free);
        }
        if let Some(link) = self.yielding_link().filter(|_| people > 0) {
            return Ok(Place::OfLink(link));
        }
        let own = self.streams.sessions.values().filter(|session| session.holder == *holder).count();
        let session = self.yielding_session(now, |session, held| session.holder == *holder || held > own);
        let words = if people > 0 { "too many sessions, and people without one" } else { "too many sessions" };
        session.map(Place::OfSession).ok_or_else(|| Refusal::overloaded(words))
    }

    /// Ends what makes room.
    pub(crate) fn take_place(&mut self, now: Instant, place: Place) {
        match place {
            Place::Free => {}
            Place::OfLink(link) => self.end_link(now, link),
            Place::OfSession(session) => self.end_session(now, session),
        }
    }

    /// Counts the places of an owner; none without owners, where a refusal would show how many others have.
    fn places_of(&self, asker: &Asker) -> usize {
        let Some(owner) = &asker.owner else { return 0 };
        let sessions = self.streams.sessions.values().filter(|session| session.owner.as_ref() == Some(owner)).count();
        sessions + usize::from(self.shared.links.contains_key(asker))
    }

    /// The link of an asker that was idle for longest.
    fn yielding_link(&self) -> Option<LinkKey> {
        let idle = self.shared.links.values().filter_map(|key| {
            let link = self.links.get(key).filter(|link| link.is_idle())?;
            (!self.shared.is_asked(*key)).then_some((link.idle_since, *key))
        });
        idle.min().map(|(_, key)| key)
    }

    /// The session that makes room, of those that may by their owner and by how many their holder has: of the holder that
    /// has most, the one whose client has been silent for longest. One with a request in flight or a stream open never
    /// does. Costs time in proportion to the sessions.
    fn yielding_session(&self, now: Instant, may: impl Fn(&Session, usize) -> bool) -> Option<SessionKey> {
        let mut held = BTreeMap::<&Holder, usize>::new();
        self.streams.sessions.values().for_each(|session| *held.entry(&session.holder).or_default() += 1);
        let mut yielding: Vec<_> = self
            .streams
            .sessions
            .iter()
            .filter_map(|(key, session)| {
                let held = held.get(&session.holder).copied().unwrap_or_default();
                let is_quiet = now.since(session.heard) >= self.room_after(&session.holder, held);
                let yields = session.replies == 0 && is_quiet && may(session, held);
                yields.then_some((Reverse(held), session.heard, *key))
            })
            .collect();
        yielding.sort_unstable();
        yielding.into_iter().map(|(_, _, key)| key).find(|key| !self.streams.has_requests(*key))
    }

    /// How long the client of a session must have been silent before its session makes room. Of an address with more than
    /// half of the places any does: one that opens sessions without a pause would else shut out all others.
    fn room_after(&self, holder: &Holder, held: usize) -> core::time::Duration {
        let is_greedy = is_told_apart(holder) && held > self.config.max_sessions.div_ceil(2);
        if is_greedy { core::time::Duration::ZERO } else { self.config.room_after.min(self.config.resume_within) }
    }
}
