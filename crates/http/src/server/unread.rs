//! What clients have not read, or may ask for again: how much that is, and who pays when it is too much.

use rescind_proto::time::Instant;

use super::{HttpServer, StreamKey, door::Holder, stream::Stream};

impl HttpServer {
    /// Changes a stream, and counts what it takes then, and what that makes its session keep.
    pub(crate) fn change_stream(&mut self, key: StreamKey, change: impl FnOnce(&mut Stream)) -> Option<&Stream> {
        let stream = self.streams.get_mut(&key)?;
        let (session, kept, bytes) = (stream.session(), stream.kept(), stream.bytes());
        change(stream);
        if stream.bytes() != bytes {
            self.stream_shares.set(&stream.holder, key, stream.bytes());
        }
        if let Some(session) = session.and_then(|session| self.sessions.get_mut(&session)) {
            let is_left = stream.session().is_none();
            session.kept = session.kept + if is_left { 0 } else { stream.kept() } - kept;
        }
        Some(stream)
    }

    /// Has what a stream takes counted for another.
    pub(crate) fn count_for(&mut self, key: StreamKey, holder: Holder) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        if stream.holder != holder {
            self.stream_shares.set(&stream.holder, key, 0);
            self.stream_shares.set(&holder, key, stream.bytes());
            stream.holder = holder;
        }
    }

    /// Counts a stream no more, which is about to be forgotten.
    pub(crate) fn uncount(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.get(&key) {
            self.stream_shares.set(&stream.holder, key, 0);
        }
    }

    /// Has those who hold too much give up something, while they do. Each turn frees bytes, and what is empty holds none.
    pub(crate) fn bound_unread(&mut self, now: Instant) {
        while let Some((key, excess)) = self.stream_shares.payer() {
            self.pay(now, key, excess);
        }
    }

    /// Frees so many bytes of a stream, or what it can.
    fn pay(&mut self, now: Instant, key: StreamKey, excess: usize) {
        let Some(stream) = self.streams.get(&key) else { return };
        let (reply, before) = (stream.reply, stream.bytes());
        let wanted = before.saturating_sub(excess);
        // What was read may be asked for again, but mostly is not.
        let after = self.change_stream(key, |stream| while stream.bytes() > wanted && stream.evict_sent() {});
        if after.is_none_or(|stream| stream.bytes() <= wanted) {
            return;
        }
        if let Some(reply) = reply {
            return self.give_up_reply(now, reply);
        }
        let after = self.change_stream(key, |stream| stream.evict_unsent(stream.bytes() - wanted));
        // Only words about what is gone are left.
        if after.is_none_or(|stream| stream.bytes() >= before) {
            self.change_stream(key, Stream::forget_all);
        }
    }
}
