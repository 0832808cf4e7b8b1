//! How a response comes to carry a stream: a client listens, or goes on where it was.

use http::StatusCode;
use rescind_proto::{dialect::mcp, error_code, time::Instant};

use super::{MAX_LISTENING, Streams, reply::Reply, stream::Stream};
use crate::{
    server::{
        door::{Head, Refusal, not_allowed},
        keys::{ReplyKey, SessionKey, StreamKey},
    },
    sse,
};

impl Streams {
    /// A client wants to listen, or to go on where it was.
    pub(crate) fn handle_get(
        &mut self,
        now: Instant,
        reply: (ReplyKey, &mut Reply),
        head: &Head<'_>,
    ) -> Result<(), Refusal> {
        if head.version.and_then(mcp::stateless_by_version).is_some() {
            return Err(not_allowed("this revision has no GET: send subscriptions/listen"));
        }
        let (session_key, session) = self.named(now, head)?;
        let Some(last) = head.last_event() else { return self.listen(session_key, reply) };
        let gone = || not_allowed("this stream cannot be resumed: it has ended, was cancelled, or is not known");
        let (number, event) = sse::read_id(last).ok_or_else(gone)?;
        let key = session.streams.get(&number).copied().ok_or_else(gone)?;
        let earlier = self.streams.get(&key).filter(|stream| stream.knows(event)).ok_or_else(gone)?.reply;
        let stream = self.change(key, |stream| {
            stream.carry(None);
            stream.rewind(event);
        });
        let is_spent = stream.is_none_or(Stream::is_spent);
        if let Some(earlier) = earlier {
            self.supersede(earlier);
        }
        if is_spent {
            return Err(gone());
        }
        self.attach(reply, key);
        Ok(())
    }

    /// Opens a stream that listens, with what waits for one.
    fn listen(&mut self, session_key: SessionKey, reply: (ReplyKey, &mut Reply)) -> Result<(), Refusal> {
        let Some(session) = self.sessions.get(&session_key) else { return Ok(()) };
        let waiting = |key: &&StreamKey| {
            self.streams.get(key).filter(|stream| stream.reply.is_none()).map(|stream| stream.unsent)
        };
        let mut detached = session.listening.iter().rev().filter(|key| waiting(key).is_some());
        // First what nobody has read.
        let newest = detached.clone().next();
        let found = detached.find(|key| waiting(key) > Some(0)).or(newest).copied();
        if found.is_none() && session.listening.len() >= MAX_LISTENING {
            let text = "this session listens on too many streams";
            return Err(Refusal::new(StatusCode::CONFLICT, error_code::OVERLOADED, text));
        }
        let Some(key) = found.or_else(|| self.open_listening(session_key)) else { return Ok(()) };
        // Its client has come without an id to come back behind.
        if self.streams.get(&key).is_some_and(|stream| stream.unsent == 0 && stream.has_primer()) {
            self.change(key, Stream::prime);
        }
        self.attach(reply, key);
        Ok(())
    }

    /// Opens a stream that listens; nobody reads it yet.
    pub(super) fn open_listening(&mut self, session_key: SessionKey) -> Option<StreamKey> {
        let key = StreamKey(self.allocate_key());
        let session = self.sessions.get_mut(&session_key)?;
        session.listening.push(key);
        let stream = session.new_stream(session_key, key);
        self.streams.insert(key, stream);
        self.change(key, |stream| {
            stream.has_begun = true;
            if stream.has_primer() {
                stream.prime();
            }
        });
        Some(key)
    }

    /// Lets a response of events carry a stream.
    fn attach(&mut self, (reply_key, reply): (ReplyKey, &mut Reply), key: StreamKey) {
        reply.stream = Some(key);
        if let Some(stream) = self.streams.get_mut(&key).filter(|stream| stream.holder != reply.holder) {
            // It is counted for its new reader.
            self.stream_shares.set(&stream.holder, key, 0);
            self.stream_shares.set(&reply.holder, key, stream.bytes);
            stream.holder = reply.holder.clone();
        }
        let stream = self.change(key, |stream| stream.carry(Some(reply_key)));
        let session_key = stream.and_then(Stream::session);
        if let Some(session) = session_key.and_then(|key| self.sessions.get_mut(&key)) {
            session.replies += 1;
            reply.session = session_key;
        }
        reply.begin();
    }
}
