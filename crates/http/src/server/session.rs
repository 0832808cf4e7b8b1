//! Sessions: listening, coming back, and their end.

use http::StatusCode;
use rescind_proto::{dialect::HttpForm, error_code, time::Instant};

use super::{
    HttpServer, LinkInput, LinkKey, ReplyKey, StreamKey,
    head::{Head, not_allowed},
    refusal::Refusal,
    stream::Stream,
};
use crate::sse;

/// Streams of a session that listen. A client needs one; more are from connections that broke.
pub(crate) const MAX_LISTENING: usize = 16;

/// Streams of a session that have ended and can be fetched. A client has that many requests at once, or is slow to come
/// back.
pub(crate) const MAX_ENDED: usize = 1024;

impl HttpServer {
    /// A client wants to listen, or to go on where it was.
    pub(crate) fn handle_get(&mut self, reply: ReplyKey, head: &Head<'_>) -> Result<(), Refusal> {
        if is_stateless(head) {
            return Err(not_allowed("this revision has no GET: send subscriptions/listen"));
        }
        let link = self.session(head)?;
        let Some(last) = head.last_event else {
            self.listen(link, reply)?;
            self.report_reply(reply);
            return Ok(());
        };
        let gone = || not_allowed("this stream cannot be resumed: it has ended, was cancelled, or is not known");
        let (number, event) = sse::read_id(last).ok_or_else(gone)?;
        let session = self.links.get(&link).and_then(|link| link.session.as_ref());
        let key = session.and_then(|session| session.streams.get(&number).copied()).ok_or_else(gone)?;
        let earlier = self.streams.get(&key).filter(|stream| stream.knows(event)).ok_or_else(gone)?.reply;
        let stream = self.change_stream(key, |stream| {
            stream.reply = None;
            stream.rewind(event);
        });
        let is_spent = stream.is_none_or(|stream| stream.is_spent());
        if let Some(earlier) = earlier {
            self.supersede(earlier);
        }
        if is_spent {
            return Err(gone());
        }
        self.attach(reply, key);
        self.begin(key);
        Ok(())
    }

    /// Opens a stream that listens, with what waits for one.
    fn listen(&mut self, link: LinkKey, reply: ReplyKey) -> Result<(), Refusal> {
        let Some(session) = self.links.get(&link).and_then(|link| link.session.as_ref()) else { return Ok(()) };
        let waiting =
            |key: &&StreamKey| self.streams.get(key).filter(|stream| stream.reply.is_none()).map(Stream::unsent);
        let mut detached = session.listening.iter().rev().filter(|key| waiting(key).is_some());
        // First what nobody has read.
        let newest = detached.clone().next();
        let found = detached.find(|key| waiting(key) > Some(0)).or(newest).copied();
        if found.is_none() && session.listening.len() >= MAX_LISTENING {
            let text = "this session listens on too many streams";
            return Err(Refusal::new(StatusCode::CONFLICT, error_code::OVERLOADED, text));
        }
        let key = found.unwrap_or_else(|| self.open_listening(link));
        // Its client has come without an id to come back behind.
        if self.streams.get(&key).is_some_and(|stream| stream.unsent() == 0 && stream.has_primer()) {
            self.change_stream(key, Stream::prime);
        }
        self.attach(reply, key);
        self.begin(key);
        Ok(())
    }

    /// Opens a stream that listens; nobody reads it yet.
    pub(crate) fn open_listening(&mut self, link: LinkKey) -> StreamKey {
        let key = StreamKey(self.allocate_key());
        let number = self.links.get_mut(&link).and_then(|link| link.session.as_mut()).map(|session| {
            let number = session.allocate_stream();
            session.streams.insert(number, key);
            session.listening.push(key);
            number
        });
        let mut stream = Stream::new(link, self.dialect(link), number);
        stream.has_begun = true;
        if stream.has_primer() {
            stream.prime();
        }
        self.count_kept(link, 0, stream.kept());
        self.streams.insert(key, stream);
        key
    }

    /// Lets a response carry a stream.
    pub(crate) fn attach(&mut self, reply_key: ReplyKey, stream_key: StreamKey) {
        let Some(stream) = self.change_stream(stream_key, |stream| stream.reply = Some(reply_key)) else { return };
        let link = stream.link;
        let Some(reply) = self.replies.get_mut(&reply_key) else { return };
        reply.stream = Some(stream_key);
        if let Some(session) = self.links.get_mut(&link).and_then(|link| link.session.as_mut()) {
            session.replies += 1;
            reply.link = Some(link);
        }
    }

    /// Ends a response whose stream another one carries now.
    pub(crate) fn supersede(&mut self, key: ReplyKey) {
        let Some(reply) = self.replies.get_mut(&key) else { return };
        reply.end();
        reply.stream = None;
        self.report_reply(key);
    }

    /// A client ends its session.
    pub(crate) fn handle_delete(&mut self, now: Instant, reply: ReplyKey, head: &Head<'_>) -> Result<(), Refusal> {
        if is_stateless(head) {
            return Err(not_allowed("this revision has no sessions"));
        }
        let link = self.session(head)?;
        self.end_session(now, link);
        if let Some(reply) = self.replies.get_mut(&reply) {
            reply.empty(StatusCode::NO_CONTENT);
        }
        Ok(())
    }

    /// Ends a session: what is in flight is cancelled, and its streams end.
    pub(crate) fn end_session(&mut self, now: Instant, link: LinkKey) {
        self.push_input(link, LinkInput::End);
        self.close_link(now, link);
    }

    /// Takes nothing more for a link, and nothing more from it: its streams end.
    pub(crate) fn close_link(&mut self, now: Instant, key: LinkKey) {
        let Some(link) = self.links.get_mut(&key) else { return };
        if core::mem::replace(&mut link.is_closed, true) {
            return;
        }
        if let Some(session) = &link.session {
            self.sessions.remove(&session.id);
        }
        link.requests.clear();
        link.tokens.clear();
        if self.shared.link == Some(key) {
            self.shared.link = None;
        }
        let streams = self.streams.iter().filter(|(_, stream)| stream.link == key).map(|(key, _)| *key);
        for stream_key in streams.collect::<Vec<_>>() {
            let Some(stream) = self.streams.get_mut(&stream_key) else { continue };
            stream.ended.get_or_insert(now);
            stream.waiting.clear();
            match stream.reply {
                // What was said before still reaches its client.
                Some(reply_key) => {
                    if let Some(reply) = self.replies.get_mut(&reply_key).filter(|reply| reply.is_open()) {
                        reply.end();
                        self.forget_stream(stream_key);
                    }
                    self.report_reply(reply_key);
                }
                None => self.forget_stream(stream_key),
            }
        }
    }

    /// Looks after a session: forgets what nobody fetched, and ends it if it was idle for too long.
    pub(crate) fn keep_up(&mut self, now: Instant, key: LinkKey) {
        let Some(link) = self.links.get(&key).filter(|link| !link.is_closed) else { return };
        let Some(session) = &link.session else { return };
        let is_idle = session.replies == 0 && link.requests.is_empty();
        if is_idle && now.since(session.idle_since) >= self.config.idle {
            return self.end_session(now, key);
        }
        let within = self.config.resume_within;
        while let Some(session) = self.links.get_mut(&key).and_then(|link| link.session.as_mut())
            && let Some(oldest) = session.ended.front()
            && self.streams.get(oldest).and_then(|stream| stream.ended).is_none_or(|ended| now.since(ended) >= within)
        {
            self.retire_oldest(key);
        }
        self.upkeep.arm(now, key);
    }

    /// Notes that nothing more is said on a stream. In a session its client may fetch it for a while.
    pub(crate) fn note_ended(&mut self, now: Instant, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        stream.ended = Some(now);
        let link = stream.link;
        let Some(session) = self.links.get_mut(&link).and_then(|link| link.session.as_mut()) else { return };
        session.ended.push_back(key);
        if session.ended.len() > MAX_ENDED {
            self.retire_oldest(link);
        }
    }

    /// Lets nobody come back any more to the stream of a session that ended first; `false` if there is none.
    fn retire_oldest(&mut self, link: LinkKey) -> bool {
        let session = self.links.get_mut(&link).and_then(|link| link.session.as_mut());
        let Some(key) = session.and_then(|session| session.ended.pop_front()) else { return false };
        let Some(stream) = self.streams.get_mut(&key) else { return true };
        stream.is_final = true;
        if stream.reply.is_none() {
            self.forget_stream(key);
        }
        true
    }

    /// Changes a stream, and counts what that makes its session keep.
    pub(crate) fn change_stream(&mut self, key: StreamKey, change: impl FnOnce(&mut Stream)) -> Option<&Stream> {
        let stream = self.streams.get_mut(&key)?;
        let before = stream.kept();
        change(stream);
        let (link, after) = (stream.link, stream.kept());
        self.count_kept(link, before, after);
        self.streams.get(&key)
    }

    pub(crate) fn count_kept(&mut self, link: LinkKey, before: usize, after: usize) {
        if let Some(session) = self.links.get_mut(&link).and_then(|link| link.session.as_mut()) {
            session.kept = session.kept + after - before;
        }
    }

    /// Forgets what is kept of a session beyond its bound: first what was handed out of a stream that is too
    /// long alone, then of others, the oldest first; then what clients that are away have not read; then whole streams that
    /// have ended.
    pub(crate) fn bound_kept(&mut self, link: LinkKey) {
        if self.excess(link) == 0 {
            return;
        }
        let session = self.links.get(&link).and_then(|link| link.session.as_ref());
        let streams: Vec<StreamKey> = session.iter().flat_map(|session| session.streams.values().copied()).collect();
        let bound = self.config.max_kept;
        self.forget_of_each(link, &streams, |stream, _| while stream.kept() > bound && stream.evict_sent() {});
        self.forget_of_each(link, &streams, |stream, excess| {
            let wanted = stream.kept().saturating_sub(excess);
            while stream.kept() > wanted && stream.evict_sent() {}
        });
        self.forget_of_each(link, &streams, |stream, excess| {
            if stream.reply.is_none() {
                stream.evict_unsent(excess);
            }
        });
        while self.excess(link) > 0 && self.retire_oldest(link) {}
        self.forget_of_each(link, &streams, |stream, _| stream.forget_gone());
    }

    /// Bytes that a session keeps beyond its bound.
    fn excess(&self, link: LinkKey) -> usize {
        let session = self.links.get(&link).and_then(|link| link.session.as_ref());
        session.map_or(0, |session| session.kept.saturating_sub(self.config.max_kept))
    }

    /// Has one stream after another forget something, while too much is kept.
    fn forget_of_each(&mut self, link: LinkKey, streams: &[StreamKey], forget: impl Fn(&mut Stream, usize)) {
        for key in streams {
            let excess = self.excess(link);
            if excess == 0 {
                return;
            }
            self.change_stream(*key, |stream| forget(stream, excess));
        }
    }
}

/// Whether a request without a message is one of a revision without sessions.
fn is_stateless(head: &Head<'_>) -> bool {
    let named = head.version.and_then(rescind_proto::dialect::mcp::by_version);
    named.is_some_and(|dialect| matches!(dialect.http, Some(HttpForm { sessions: false, .. })))
}
