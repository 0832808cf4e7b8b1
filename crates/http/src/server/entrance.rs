//! How HTTP requests come in: the door judges each, and some wait until keys can judge them.

use core::{
    fmt,
    hash::{Hash, Hasher},
};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, request::Parts};
use rescind_proto::time::Instant;

use super::{
    HttpServer, HttpServerEvent, ReplyKey,
    door::{Access, Caller, Head, Judgement, KeySet, Refusal, Verb},
    streams::Reply,
    timers::Timer,
};

/// The most requests that wait for keys.
const MAX_WAITING: usize = 256;

/// A request that waits for the keys which judge its token. It is kept as it came.
#[derive(Clone)]
pub(crate) struct Unjudged {
    reply: ReplyKey,
    head: Parts,
    /// Its body, if that was at hand; otherwise it is read once the head is judged.
    body: Option<Bytes>,
}

impl Unjudged {
    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        let headers: usize = self.head.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        size_of::<Self>() + headers + self.body.as_ref().map_or(0, Bytes::len)
    }

    /// Feeds what decides its future into a hasher.
    pub(crate) fn hash_state(&self, state: &mut impl Hasher) {
        self.body.hash(state);
    }
}

impl fmt::Debug for Unjudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unjudged").field("reply", &self.reply).finish_non_exhaustive()
    }
}

impl HttpServer {
    /// Takes in an HTTP request whose body is at hand, and names its response. `body` is empty for a request without one. A
    /// request whose body must be waited for begins with [`handle_head`](Self::handle_head).
    pub fn handle_request(&mut self, now: Instant, head: &Parts, body: &[u8]) -> ReplyKey {
        self.receive(now, head, Some(body))
    }

    /// Judges the head of a request before its body is read, and names its response. If
    /// [`poll_head`](Self::poll_head) has a response, the request is refused, and the body need not be read; otherwise
    /// [`wants_body`](Self::wants_body) is `true` while it is to be read.
    pub fn handle_head(&mut self, now: Instant, head: &Parts) -> ReplyKey {
        self.receive(now, head, None)
    }

    fn receive(&mut self, now: Instant, head: &Parts, body: Option<&[u8]>) -> ReplyKey {
        self.timers.compact(|timer| self.streams.needs(timer));
        let key = ReplyKey(self.streams.allocate_key());
        self.enter(now, key, head, body, !self.is_draining);
        key
    }

    /// Whether the machine judges tokens by the time of day, which its driver then supplies
    /// ([`supply_time`](Self::supply_time)).
    #[must_use]
    pub const fn needs_time(&self) -> bool {
        matches!(self.config.access, Access::Issuer(_))
    }

    /// Supplies the time of day, as the time since 1970 (UTC); best before each request.
    pub const fn supply_time(&mut self, since_1970: Duration) {
        self.keyring.time_of_day = since_1970;
    }

    /// Takes in the keys of the issuer, wanted ([`KeysWanted`](HttpServerEvent::KeysWanted)) or not; `None` if they could not
    /// be fetched: then the keys that were known are kept.
    pub fn handle_keys(&mut self, now: Instant, keys: Option<KeySet>) {
        self.keyring.supply(now, keys);
        for Unjudged { reply, head, body } in core::mem::take(&mut self.unjudged) {
            // Its client may have gone meanwhile.
            if self.streams.replies.remove(&reply).is_some() {
                self.enter(now, reply, &head, body.as_deref(), false);
            }
        }
    }

    /// Has a request judged, and admits it, refuses it or keeps it. Without `body`, that is read once it is admitted.
    pub(crate) fn enter(&mut self, now: Instant, key: ReplyKey, parts: &Parts, body: Option<&[u8]>, may_wait: bool) {
        let judgement = self.config.door().judge(now, parts, &mut self.keyring, may_wait);
        if self.keyring.poll_wanted() {
            self.programs.events.push_back(HttpServerEvent::KeysWanted);
        }
        let refused = match (judgement, body) {
            (Judgement::Admitted(head), Some(body)) => return self.take_in(now, key, &head, parts, body),
            (Judgement::Admitted(head), None) => {
                if self.streams.await_body(key, head, parts) {
                    self.timers.arm(now, Timer::Body(key));
                }
                return;
            }
            (Judgement::Refused(refusal), _) => Err(refusal),
            (Judgement::WaitsForKeys, _) => self.keep_unjudged(key, parts, body),
        };
        self.streams.replies.insert(key, Reply::default());
        match (refused, body) {
            (Ok(()), _) => {}
            (Err(refusal), Some(_)) => self.streams.refuse(key, refusal),
            (Err(refusal), None) => self.streams.refuse_unread(key, refusal),
        }
    }

    /// Keeps a request until keys can judge it.
    fn keep_unjudged(&mut self, reply: ReplyKey, head: &Parts, body: Option<&[u8]>) -> Result<(), Refusal> {
        let unjudged = Unjudged { reply, head: head.clone(), body: body.map(Bytes::copy_from_slice) };
        let bytes: usize = self.unjudged.iter().map(Unjudged::held).sum();
        if self.unjudged.len() >= MAX_WAITING || bytes + unjudged.held() > self.config.max_input {
            return Err(Refusal::overloaded("too many requests wait for the keys of the issuer"));
        }
        self.unjudged.push(unjudged);
        Ok(())
    }

    /// Handles a request that was admitted.
    fn take_in(&mut self, now: Instant, key: ReplyKey, head: &Head<'_>, parts: &Parts, body: &[u8]) {
        let mut reply = Reply::new(head.takes_events, head.origin.cloned());
        reply.holder = head.holder.clone();
        reply.client = head.client.clone();
        reply.caller = self.config.passes_callers.then(|| Caller::read(parts, head.asker.owner.as_ref())).flatten();
        let done = self.streams.check_room().and_then(|()| match head.verb {
            Verb::Post => self.handle_post(now, (key, &mut reply), head, body),
            Verb::Get if head.must_be_brief => Err(Refusal::all_are_answering()),
            Verb::Get => self.streams.handle_get(now, (key, &mut reply), head),
            Verb::Delete => self.handle_delete(now, &mut reply, head),
            Verb::Options => {
                allow_page(&mut reply);
                Ok(())
            }
            Verb::Discover(path) => self.streams.want_page(key, path),
            Verb::Describe => {
                if let Access::Issuer(issuer) = &self.config.access {
                    reply.message(StatusCode::OK, issuer.page().clone());
                }
                Ok(())
            }
        });
        self.conclude(now, key, reply, done);
    }

    /// Puts a response in its place, once its request was handled, and does what had to wait for that.
    pub(crate) fn conclude(&mut self, now: Instant, key: ReplyKey, mut reply: Reply, done: Result<(), Refusal>) {
        done.unwrap_or_else(|refusal| reply.refuse(refusal));
        // Its request was passed on with it. What waits for the era of the server has no stream yet.
        reply.caller.take_if(|_| reply.stream.is_some());
        reply.report(key, &mut self.streams.events);
        self.streams.replies.insert(key, reply);
        self.do_later(now);
        self.streams.bound_unread(now);
        self.retract_abandoned(now);
    }
}

/// Answers a browser that asks what a page may do. Its origin was checked.
fn allow_page(reply: &mut Reply) {
    reply.empty(StatusCode::NO_CONTENT);
    for (name, value) in ALLOWED {
        reply.add_header(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}

/// What a page of an allowed origin may do.
const ALLOWED: [(&str, &str); 3] = [
    ("access-control-allow-methods", "POST, GET, DELETE"),
    (
        "access-control-allow-headers",
        "accept, authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id",
    ),
    ("access-control-max-age", "600"),
];
