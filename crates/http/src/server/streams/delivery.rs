//! What programs say, on its way to clients: as a whole response or as events of a stream.

use http::{HeaderName, HeaderValue, StatusCode};
use rescind_proto::{dialect::Disconnect, error_code, message, time::Instant};

use super::{
    Streams,
    reply::Reply,
    stream::{CHUNK, Part, Stream},
};
use crate::server::{
    calls::{Call, CallKey},
    door::SESSION,
    keys::{ReplyKey, SessionKey, StreamKey},
};

/// An answer as its client is to have it.
pub(crate) struct Answer {
    pub(crate) message: Vec<u8>,
    /// The status and headers with which it is sent as a whole.
    pub(crate) status: StatusCode,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// It refuses a handshake: there is no session.
    pub(crate) is_no_session: bool,
}

impl Streams {
    /// Sends an answer to its stream, which was taken out: as a whole response if nothing was sent before, else as an event.
    pub(crate) fn deliver(&mut self, now: Instant, call: &Call, mut stream: Stream, answer: Answer) {
        let Answer { message, status, headers, is_no_session } = answer;
        let (key, is_last) = (call.stream, stream.calls.is_empty());
        let carrier = stream.reply.and_then(|key| Some((key, self.replies.get_mut(&key)?)));
        if let Some((reply_key, reply)) = carrier {
            if is_no_session {
                reply.remove_header(&SESSION);
            }
            if reply.is_open() {
                headers.into_iter().for_each(|(name, value)| reply.add_header(name, value));
                if is_last && !stream.has_begun {
                    let place = stream.place;
                    stream.leave_session();
                    reply.report(reply_key, &mut self.events);
                    if message.len() <= CHUNK {
                        reply.number = place.map(|place| place.number);
                        return reply.message(status, message.into());
                    }
                    reply.long(status, message.len());
                    if let Some(place) = place
                        && let Some(session) = self.sessions.get_mut(&place.session)
                    {
                        session.streams.remove(&place.number);
                    }
                    self.streams.insert(key, stream);
                    let id = call.client_id.clone();
                    self.change(key, |stream| stream.answer_whole(now, message.into(), id));
                    return self.bound_unread(now);
                }
            }
        }
        if let Some(session) = stream.session().and_then(|session| self.sessions.get_mut(&session)) {
            session.idle_since = now;
        }
        let is_lost = stream.reply.is_none() && !stream.has_begun;
        self.streams.insert(key, stream);
        // A client that left before it knew of the stream cannot ask for it.
        if is_lost {
            if is_last {
                self.forget(key);
            }
            return;
        }
        if is_last {
            self.note_ended(now, key);
        }
        if let Some((token, _)) = &call.token {
            self.change(key, |stream| stream.withdraw_progress(token));
        }
        self.push(now, key, &message, Part::Answer(call.client_id.clone()));
    }

    /// Ends the stream of a request that will never be answered (D41), which was taken out.
    pub(crate) fn settle(&mut self, now: Instant, call_key: CallKey, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        stream.calls.retain(|own| *own != call_key);
        if let Some(session) = stream.session().and_then(|session| self.sessions.get_mut(&session)) {
            session.idle_since = now;
        }
        if !stream.calls.is_empty() {
            return;
        }
        let (reply, has_begun) = (stream.reply, stream.has_begun);
        if stream.has_answered {
            // Of a batch other members were answered, and these answers can be fetched.
            self.note_ended(now, key);
        } else {
            // Nobody is to come back to it: a client that asked would ask again and again.
            stream.ended = Some(now);
            self.withdraw(key);
            if reply.is_none() || !has_begun {
                self.forget(key);
                return reply.into_iter().for_each(|reply| self.update(reply, Reply::end));
            }
        }
        reply.into_iter().for_each(|reply| self.update(reply, |_| {}));
    }

    /// Sends what belongs to no request that could be named: on the newest stream that listens, or else on the newest that
    /// is open, or else it waits for one that listens.
    pub(crate) fn push_unasked(&mut self, now: Instant, session_key: SessionKey, message: &[u8]) {
        let Some(session) = self.sessions.get(&session_key) else { return };
        let is_open = |key: &&StreamKey| {
            let open = self.streams.get(key).filter(|stream| stream.ended.is_none()).and_then(|stream| stream.reply);
            open.and_then(|reply| self.replies.get(&reply)).is_some_and(|reply| reply.takes_events)
        };
        let mut listening = session.listening.iter().rev();
        let found = listening.clone().find(is_open).or_else(|| session.streams.values().rev().find(is_open));
        let found = found.or_else(|| listening.next()).copied();
        if let Some(key) = found.or_else(|| self.open_listening(session_key)) {
            self.push(now, key, message, Part::Other);
        }
    }

    /// Adds a message to a stream, whose response becomes one of events if it was not.
    pub(crate) fn push(&mut self, now: Instant, key: StreamKey, message: &[u8], part: Part) {
        self.begin(key);
        let Some(stream) = self.streams.get(&key) else { return };
        // Nobody reads it, or can ask for it.
        let is_read = stream.reply.and_then(|reply| self.replies.get(&reply)).is_some_and(|reply| !reply.is_open());
        if !is_read && !stream.has_begun {
            return;
        }
        let Some(stream) = self.change(key, |stream| stream.push(message, part)) else { return };
        let (session, unsent, reply) = (stream.session(), stream.unsent, stream.reply);
        match reply {
            Some(reply) if unsent > self.limits.unsent + message.len() => self.give_up(now, reply),
            Some(reply) => self.update(reply, |_| {}),
            None => {}
        }
        self.bound_kept(session);
        self.bound_unread(now);
    }

    /// Begins the response of a stream as one of events, if it is neither that nor a whole.
    pub(crate) fn begin(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get(&key) else { return };
        let Some(reply_key) = stream.reply else { return };
        let Some(reply) = self.replies.get_mut(&reply_key) else { return };
        if !reply.begin() {
            return;
        }
        reply.report(reply_key, &mut self.events);
        // One that is resumed has an id to come back behind (MCP-H07).
        if !stream.has_begun && stream.has_primer() {
            self.change(key, Stream::prime);
        }
    }

    /// Ends a response before its client did, which then has hung up.
    pub(crate) fn give_up(&mut self, now: Instant, key: ReplyKey) {
        let Some(reply) = self.replies.get(&key) else { return };
        let Some(stream) = reply.stream else { return };
        if reply.is_long()
            && let Some(id) = self.streams.get(&stream).and_then(Stream::next_answer)
        {
            // Nothing has left: an error can still take the answer's place.
            let mut error = Vec::new();
            let words = "the answer was not kept: too much waits to be read";
            message::error(Some(id), error_code::NOT_KEPT, words, None, &mut error);
            self.update(key, |reply| reply.replace_long(error.into()));
            return self.forget(stream);
        }
        self.supersede(key);
        self.detach(stream);
        self.lose_client(now, stream);
    }

    /// Ends a response whose stream another one carries now, or none.
    pub(super) fn supersede(&mut self, key: ReplyKey) {
        self.update(key, |reply| {
            reply.end();
            reply.stream = None;
        });
    }

    /// Takes a stream from the response that carried it.
    pub(super) fn detach(&mut self, key: StreamKey) {
        let Some(stream) = self.change(key, |stream| stream.carry(None)) else { return };
        let session = stream.session();
        // What cannot be fetched is forgotten.
        if stream.ended.is_some() && (stream.is_final || session.is_none() || !stream.has_begun) {
            self.forget(key);
        }
        self.bound_kept(session);
    }

    /// The client of a stream has left before its end. In some dialects that cancels its requests (MCP-H03).
    pub(super) fn lose_client(&mut self, now: Instant, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        let closes = stream.dialect.http.is_some_and(|form| form.stream_closed == Disconnect::Cancels);
        if closes {
            stream.ended.get_or_insert(now);
            let calls = core::mem::take(&mut stream.calls);
            self.abandoned.extend(calls.into_iter().map(|call| (stream.link, call)));
            self.forget(key);
        }
    }
}
