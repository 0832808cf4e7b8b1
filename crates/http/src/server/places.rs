//! Places under one bound: of sessions and, where askers are distinguished, of their links for requests outside a session.
//! Which of them makes room for the next.

use rescind_proto::time::Instant;

use super::{
    HttpServer, LinkKey, SessionKey,
    door::{Asker, Holder, Refusal},
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
        let Self { config, streams, programs, .. } = self;
        let people = if config.parts_people() { programs.shared.len() } else { 0 };
        let free = config.max_sessions.saturating_sub(streams.sessions.len() + people);
        // None without owners, where a refusal would show how many others have.
        let taken = asker.owner.as_ref().map_or(0, |owner| {
            let sessions = streams.sessions.values().filter(|session| session.owner.as_ref() == Some(owner)).count();
            sessions + usize::from(programs.shared.contains_key(asker))
        });
        if taken > 0 && taken >= free {
            let own = streams.yielding(now, config, |session, _| session.owner == asker.owner);
            let words = "you have as many sessions as one owner may have now; end one of them";
            return own.map(Place::OfSession).ok_or_else(|| Refusal::overloaded(words));
        }
        if free > 0 {
            return Ok(Place::Free);
        }
        if let Some(link) = programs.yielding().filter(|_| people > 0) {
            return Ok(Place::OfLink(link));
        }
        let own = streams.sessions.values().filter(|session| session.holder == *holder).count();
        let session = streams.yielding(now, config, |session, held| session.holder == *holder || held > own);
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
}
