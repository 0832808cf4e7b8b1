//! Requests whose body is still being read. Their heads have been judged: nothing is read for a client that may not ask.

use http::{HeaderName, HeaderValue, StatusCode, header, request::Parts};
use rescind_proto::{error_code, time::Instant};

use super::{Streams, body::Body, reply::Reply};
use crate::server::{
    door::{Head, Refusal, Verb},
    keys::ReplyKey,
};

/// A body must bring so many bytes, or its end, in each [`body_patience`](crate::server::HttpServerConfig::body_patience).
pub(crate) const MIN_PROGRESS: usize = 64 << 10;

impl Streams {
    /// Has the body of a request read that was admitted, unless it is too long; `true` if it is to be read.
    pub(crate) fn await_body(&mut self, key: ReplyKey, head: Head<'_>, parts: &Parts) -> bool {
        let room = self.check_room();
        let mut reply = Reply::new(false, head.origin.cloned());
        let declared = parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let declared = declared.and_then(|value| value.parse::<usize>().ok());
        let is_long = head.verb == Verb::Post && declared.is_some_and(|declared| declared > self.limits.message);
        let refusal = room.err().or_else(|| is_long.then(|| self.too_large()));
        let is_read = refusal.is_none();
        match refusal {
            Some(refusal) => refuse_unread(&mut reply, refusal),
            None => {
                let body = Body { holder: head.holder, bytes: Vec::new(), declared, seen: 0 };
                self.body_shares.set(&body.holder, key, body.held());
                reply.body = Some(Box::new(body));
            }
        }
        reply.report(key, &mut self.events);
        self.replies.insert(key, reply);
        is_read
    }

    /// Takes a part of a body. It may refuse the request: then the rest need not be read.
    pub(crate) fn take_in(&mut self, key: ReplyKey, bytes: &[u8]) {
        let Some(body) = self.replies.get_mut(&key).and_then(|reply| reply.body.as_mut()) else { return };
        if body.bytes.len() + bytes.len() > self.limits.message {
            let refusal = self.too_large();
            return self.refuse_unread(key, refusal);
        }
        body.reserve(bytes.len());
        body.bytes.extend_from_slice(bytes);
        let held = body.held();
        self.body_shares.set(&body.holder, key, held);
        while let Some(excess) = self.body_shares.0.excess() {
            self.refuse_unread(excess, Refusal::unavailable(1, "too many bytes of requests are on their way"));
        }
    }

    /// Takes out a body that is complete, with its response; `None` if it was refused meanwhile.
    pub(crate) fn take_body(&mut self, now: Instant, key: ReplyKey) -> Option<Vec<u8>> {
        let mut reply = self.replies.remove_if(key, |reply| reply.body.is_some())?;
        let bytes = reply.body.as_mut().map(|body| core::mem::take(&mut body.bytes));
        self.let_go(now, key, reply);
        bytes
    }

    /// Looks whether a body gets on; `true` if it is to be looked at again.
    pub(crate) fn look_at_body(&mut self, key: ReplyKey) -> bool {
        let Some(body) = self.replies.get_mut(&key).and_then(|reply| reply.body.as_mut()) else { return false };
        let gets_on = body.bytes.len() >= body.seen + MIN_PROGRESS;
        body.seen = body.bytes.len();
        if !gets_on {
            let text = "the body of the request did not come in time";
            self.refuse_unread(key, Refusal::new(StatusCode::REQUEST_TIMEOUT, error_code::PARSE_ERROR, text));
        }
        gets_on
    }

    /// Refuses a request whose body was not read.
    pub(crate) fn refuse_unread(&mut self, key: ReplyKey, refusal: Refusal) {
        if let Some(body) = self.replies.get_mut(&key).and_then(|reply| reply.body.take()) {
            self.body_shares.set(&body.holder, key, 0);
        }
        self.update(key, |reply| refuse_unread(reply, refusal));
    }

    fn too_large(&self) -> Refusal {
        let text = format!("the message is too large; the limit is {} bytes", self.limits.message);
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error_code::TOO_LARGE, text)
    }
}

/// Refuses a request whose body was not read: its connection cannot be used again.
fn refuse_unread(reply: &mut Reply, refusal: Refusal) {
    if reply.is_open() {
        reply.add_header(CONNECTION, CLOSE);
    }
    reply.refuse(refusal);
}

const CONNECTION: HeaderName = header::CONNECTION;
const CLOSE: HeaderValue = HeaderValue::from_static("close");
