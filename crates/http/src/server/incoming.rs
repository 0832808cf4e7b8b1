//! Requests whose body is still being read. Their heads have been judged: nothing is read for a client that may not ask.

use http::{HeaderName, HeaderValue, StatusCode, header, request::Parts};
use rescind_proto::{error_code, time::Instant};

use super::{
    HttpServer, ReplyKey,
    body::Body,
    door::{Head, Refusal, Verb},
    has_body,
    reply::Reply,
};

/// A body must bring so many bytes, or its end, in each [`body_patience`](super::HttpServerConfig::body_patience).
pub(crate) const MIN_PROGRESS: usize = 64 << 10;

impl HttpServer {
    /// Whether the body of this request is to be read. It is not while the keys are awaited that judge its token.
    #[must_use]
    pub fn wants_body(&self, key: ReplyKey) -> bool {
        has_body(&self.replies, key)
    }

    /// Takes a part of a body. It may refuse the request: then the rest need not be read.
    pub fn handle_body(&mut self, key: ReplyKey, bytes: &[u8]) {
        let Some(body) = self.replies.get_mut(&key).and_then(|reply| reply.body.as_mut()) else { return };
        if body.bytes.len() + bytes.len() > self.config.max_message {
            let refusal = self.too_large();
            return self.refuse_unread(key, refusal);
        }
        body.reserve(bytes.len());
        body.bytes.extend_from_slice(bytes);
        let held = body.held();
        self.body_shares.set(&body.holder, key, held);
        while let Some(excess) = self.body_shares.excess() {
            self.refuse_unread(excess, Refusal::unavailable(1, "too many bytes of requests are on their way"));
        }
    }

    /// Records that a body is complete, and handles its request. `head` is the one that was judged.
    pub fn handle_body_end(&mut self, now: Instant, key: ReplyKey, head: &Parts) {
        // What was refused meanwhile has its response.
        let reply = self.replies.remove_if(key, |reply| reply.body.is_some());
        let Some(body) = reply.and_then(|reply| reply.body) else { return };
        body.uncount(key, &mut self.body_shares);
        self.enter(now, key, head, Some(&body.bytes), false);
    }

    /// Hands a complete body out: its request is for another server that serves the same ([`place`](super::place)), and the
    /// key means nothing here any more. `None` if it was refused meanwhile: then its response is here.
    pub fn take_whole_body(&mut self, now: Instant, key: ReplyKey) -> Option<Vec<u8>> {
        let body = self.take_body(key)?;
        self.handle_hang_up(now, key);
        Some(body.bytes)
    }

    /// Records that a body broke off. Its client is gone, as far as is known.
    pub fn handle_body_broken(&mut self, key: ReplyKey) {
        let text = "the body of the request broke off";
        self.refuse_unread(key, Refusal::new(StatusCode::BAD_REQUEST, error_code::PARSE_ERROR, text));
    }

    /// Has the body of a request read that was admitted, unless it is too long.
    pub(crate) fn await_body(&mut self, now: Instant, key: ReplyKey, head: Head<'_>, parts: &Parts) {
        self.replies.insert(key, Reply::new(false, head.origin.cloned()));
        if let Err(refusal) = self.check_replies() {
            return self.refuse_unread(key, refusal);
        }
        let declared = parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let declared = declared.and_then(|value| value.parse::<usize>().ok());
        if head.verb == Verb::Post && declared.is_some_and(|declared| declared > self.config.max_message) {
            return self.refuse_unread(key, self.too_large());
        }
        let body = Body { holder: head.holder, bytes: Vec::new(), declared, seen: 0 };
        self.body_shares.set(&body.holder, key, body.held());
        self.timers.body_patience.arm(now, key);
        if let Some(reply) = self.replies.get_mut(&key) {
            reply.body = Some(Box::new(body));
            reply.report(key, &mut self.events);
        }
    }

    /// Lets a body go.
    pub(crate) fn take_body(&mut self, key: ReplyKey) -> Option<Box<Body>> {
        let body = self.replies.get_mut(&key)?.body.take()?;
        body.uncount(key, &mut self.body_shares);
        Some(body)
    }

    /// Looks whether a body gets on.
    pub(crate) fn look_at_body(&mut self, now: Instant, key: ReplyKey) {
        let Some(body) = self.replies.get_mut(&key).and_then(|reply| reply.body.as_mut()) else { return };
        if body.bytes.len() >= body.seen + MIN_PROGRESS {
            body.seen = body.bytes.len();
            return self.timers.body_patience.arm(now, key);
        }
        let text = "the body of the request did not come in time";
        self.refuse_unread(key, Refusal::new(StatusCode::REQUEST_TIMEOUT, error_code::PARSE_ERROR, text));
    }

    /// Refuses a request whose body was not read: its connection cannot be used again.
    pub(crate) fn refuse_unread(&mut self, key: ReplyKey, refusal: Refusal) {
        drop(self.take_body(key));
        if let Some(reply) = self.replies.get_mut(&key).filter(|reply| reply.is_open()) {
            reply.add_header(CONNECTION, CLOSE);
        }
        self.refuse(key, refusal);
    }

    fn too_large(&self) -> Refusal {
        let text = format!("the message is too large; the limit is {} bytes", self.config.max_message);
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error_code::TOO_LARGE, text)
    }
}

const CONNECTION: HeaderName = header::CONNECTION;
const CLOSE: HeaderValue = HeaderValue::from_static("close");
