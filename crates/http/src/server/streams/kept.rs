//! What clients have not read, or may ask for again: how much that is, and who pays when it is too much.

use rescind_proto::time::Instant;

use super::{Streams, stream::Stream};
use crate::server::keys::{SessionKey, StreamKey};

impl Streams {
    /// Changes a stream, and counts what it takes then, and what that makes its session keep.
    pub(crate) fn change(&mut self, key: StreamKey, change: impl FnOnce(&mut Stream)) -> Option<&Stream> {
        let stream = self.streams.get_mut(&key)?;
        let (session, kept, bytes) = (stream.session(), stream.kept(), stream.bytes);
        change(stream);
        if stream.bytes != bytes {
            self.stream_shares.set(&stream.holder, key, stream.bytes);
        }
        if let Some(session) = session.and_then(|session| self.sessions.get_mut(&session)) {
            let is_left = stream.session().is_none();
            session.kept = session.kept + if is_left { 0 } else { stream.kept() } - kept;
        }
        Some(stream)
    }

    /// Has those who hold too much give up something, while they do. Each turn frees bytes, and what is empty holds none.
    pub(crate) fn bound_unread(&mut self, now: Instant) {
        while let Some((key, excess)) = self.stream_shares.0.payer() {
            self.pay(now, key, excess);
        }
    }

    /// Frees so many bytes of a stream, or what it can.
    fn pay(&mut self, now: Instant, key: StreamKey, excess: usize) {
        let Some(stream) = self.streams.get(&key) else { return };
        let (reply, before) = (stream.reply, stream.bytes);
        let wanted = before.saturating_sub(excess);
        // What was read may be asked for again, but mostly is not.
        let after = self.change(key, |stream| while stream.bytes > wanted && stream.evict_sent() {});
        if after.is_none_or(|stream| stream.bytes <= wanted) {
            return;
        }
        if let Some(reply) = reply {
            return self.give_up(now, reply);
        }
        let after = self.change(key, |stream| stream.evict_unsent(stream.bytes - wanted));
        // Only words about what is gone are left.
        if after.is_none_or(|stream| stream.bytes >= before) {
            self.change(key, Stream::forget_all);
        }
    }

    /// Forgets what is kept of a session beyond its bound: first what was handed out of a stream that is too
    /// long alone, then of others, the oldest first; then what clients that are away have not read; then whole streams that
    /// have ended.
    pub(super) fn bound_kept(&mut self, session: Option<SessionKey>) {
        let Some(key) = session.filter(|session| self.excess(*session) > 0) else { return };
        let session = self.sessions.get(&key);
        let streams: Vec<StreamKey> = session.iter().flat_map(|session| session.streams.values().copied()).collect();
        let bound = self.limits.kept;
        self.forget_of_each(key, &streams, |stream, _| while stream.kept() > bound && stream.evict_sent() {});
        self.forget_of_each(key, &streams, |stream, excess| {
            let wanted = stream.kept().saturating_sub(excess);
            while stream.kept() > wanted && stream.evict_sent() {}
        });
        self.forget_of_each(key, &streams, |stream, excess| {
            if stream.reply.is_none() {
                stream.evict_unsent(excess);
            }
        });
        while self.excess(key) > 0 && self.retire_oldest(key) {}
        self.forget_of_each(key, &streams, |stream, _| stream.forget_gone());
    }

    /// Bytes that a session keeps beyond its bound.
    fn excess(&self, session: SessionKey) -> usize {
        self.sessions.get(&session).map_or(0, |session| session.kept.saturating_sub(self.limits.kept))
    }

    /// Has one stream after another forget something, while too much is kept.
    fn forget_of_each(&mut self, session: SessionKey, streams: &[StreamKey], forget: impl Fn(&mut Stream, usize)) {
        for key in streams {
            let excess = self.excess(session);
            if excess == 0 {
                return;
            }
            self.change(*key, |stream| forget(stream, excess));
        }
    }
}
