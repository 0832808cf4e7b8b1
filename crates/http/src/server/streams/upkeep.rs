//! What ends by itself: sessions that are idle, and streams that nobody has fetched in time.

use rescind_proto::time::Instant;

use super::{
    Limits, Streams,
    session::{MAX_ENDED, Session},
};
use crate::server::keys::{ReplyKey, SessionKey, StreamKey};

impl Streams {
    /// Counts half a keep-alive of a response; `true` if the next half is to be counted, too.
    pub(crate) fn tick(&mut self, key: ReplyKey) -> bool {
        let Some(reply) = self.replies.get_mut(&key) else { return false };
        if reply.tick() {
            reply.report(key, &mut self.events);
        }
        true
    }

    /// Looks after a session, and forgets what nobody fetched; `true` if it is over, since it was idle for too long, or its
    /// client has left work behind and been away for too long to come back to it.
    pub(crate) fn keep_up(&mut self, now: Instant, key: SessionKey) -> bool {
        let Limits { idle, resume_within, .. } = self.limits;
        let is_late = |at: Instant, within| now.since(at) >= within;
        let is_over = |session: &Session| {
            let works = self.of(session).any(|stream| !stream.calls.is_empty());
            if works { is_late(session.heard, resume_within) } else { is_late(session.idle_since, idle) }
        };
        if self.sessions.get(&key).is_some_and(|session| session.replies == 0 && is_over(session)) {
            return true;
        }
        while let Some(oldest) = self.sessions.get(&key).and_then(|session| session.ended.front())
            && self
                .streams
                .get(oldest)
                .and_then(|stream| stream.ended)
                .is_none_or(|ended| is_late(ended, resume_within))
        {
            self.retire_oldest(key);
        }
        false
    }

    /// Notes that nothing more is said on a stream. In a session its client may fetch it for a while.
    pub(super) fn note_ended(&mut self, now: Instant, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        stream.ended = Some(now);
        let Some(place) = stream.place else { return };
        let Some(session) = self.sessions.get_mut(&place.session) else { return };
        session.ended.push_back(key);
        if session.ended.len() > MAX_ENDED {
            self.retire_oldest(place.session);
        }
    }

    /// Lets nobody come back any more to the stream of a session that ended first; `false` if there is none.
    pub(super) fn retire_oldest(&mut self, session: SessionKey) -> bool {
        let session = self.sessions.get_mut(&session);
        let Some(key) = session.and_then(|session| session.ended.pop_front()) else { return false };
        let Some(stream) = self.streams.get_mut(&key) else { return true };
        stream.is_final = true;
        if stream.reply.is_none() {
            self.forget(key);
        }
        true
    }
}
