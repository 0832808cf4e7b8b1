//! The keys of an issuer as they are known now, and what waits for newer ones.
//!
//! A request waits for keys, and is not refused, when there are none yet or its token names one that is not known: its
//! client did nothing wrong, and a client that is refused signs in again. What waits is bounded in number, bytes and time.

use core::{
    fmt,
    hash::{Hash, Hasher},
};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, request::Parts};
use rescind_proto::time::Instant;

use super::{jwt::Jwt, key_set::KeySet};
use crate::server::{Access, HttpServer, HttpServerEvent, ReplyKey, access::bearer, lane::Lane, refusal::Refusal};

/// Keys are asked for again so long after they were asked for last; without any, sooner.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
const FIRST_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Keys that are older than this are asked for again, though all tokens can be judged: some may have been withdrawn.
const STALE_AFTER: Duration = Duration::from_secs(60 * 60);

/// Time for keys to come.
const KEYS_WITHIN: Duration = Duration::from_secs(20);

/// The most requests that wait for keys.
const MAX_WAITING: usize = 256;

/// More than keys and what is known of them take.
pub(crate) const MAX_KEYRING: usize = 256 << 10;

/// What is known of an issuer's keys.
#[derive(Clone, Debug)]
pub(crate) struct Keyring {
    keys: Option<KeySet>,
    /// When they came.
    since: Instant,
    /// The time of day, since 1970. Before it is known every token has expired.
    time_of_day: Duration,
    /// When keys were asked for last.
    asked_at: Option<Instant>,
    /// They are awaited.
    is_asked: bool,
    waiting: Vec<Unjudged>,
    /// When they are awaited no longer, by when they were asked for.
    pub(crate) due: Lane<Instant>,
}

/// A request of which it is not known who asks.
#[derive(Clone)]
struct Unjudged {
    reply: ReplyKey,
    head: Parts,
    /// What it says, if that was at hand; otherwise it is read once it is known who asks.
    body: Option<Bytes>,
}

impl Unjudged {
    fn held(&self) -> usize {
        let headers: usize = self.head.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        size_of::<Self>() + headers + self.body.as_ref().map_or(0, Bytes::len)
    }
}

impl fmt::Debug for Unjudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unjudged").field("reply", &self.reply).finish_non_exhaustive()
    }
}

impl Keyring {
    pub(crate) const fn new() -> Self {
        Self {
            keys: None,
            since: Instant::ORIGIN,
            time_of_day: Duration::MAX,
            asked_at: None,
            is_asked: false,
            waiting: Vec::new(),
            due: Lane::new(KEYS_WITHIN),
        }
    }

    pub(crate) const fn keys(&self) -> Option<&KeySet> {
        self.keys.as_ref()
    }

    pub(crate) const fn time_of_day(&self) -> Duration {
        self.time_of_day
    }

    /// Requests that wait.
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        let waiting: usize = self.waiting.iter().map(Unjudged::held).sum();
        waiting + self.keys.as_ref().map_or(0, KeySet::held) + self.due.held()
    }

    /// Feeds what decides its future into a hasher; of keys that is how many bytes they have, since nobody explores more.
    pub(crate) fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        (self.keys.as_ref().map(KeySet::held), now.since(self.since), self.time_of_day).hash(state);
        (self.asked_at.map(|asked| now.since(asked)), self.is_asked, self.waiting.len()).hash(state);
        self.waiting.iter().for_each(|unjudged| unjudged.body.hash(state));
    }

    fn may_ask(&self, now: Instant) -> bool {
        let pause = if self.keys.is_some() { AGAIN_AFTER } else { FIRST_AGAIN_AFTER };
        !self.is_asked && self.asked_at.is_none_or(|asked| now.since(asked) >= pause)
    }

    fn is_stale(&self, now: Instant) -> bool {
        self.keys.is_some() && now.since(self.since) >= STALE_AFTER
    }
}

impl HttpServer {
    /// Whether the machine judges tokens by the time of day, which it must be told ([`supply_time`](Self::supply_time)).
    #[must_use]
    pub const fn needs_time(&self) -> bool {
        matches!(self.config.access, Access::Issuer(_))
    }

    /// Supplies the time of day, as the time since 1970 (UTC); best before each request.
    pub const fn supply_time(&mut self, since_1970: Duration) {
        self.keyring.time_of_day = since_1970;
    }

    /// Takes in the keys of the issuer, wanted ([`KeysWanted`](HttpServerEvent::KeysWanted)) or not; `None` if they could not
    /// be fetched: then those that were known are still.
    pub fn handle_keys(&mut self, now: Instant, keys: Option<KeySet>) {
        self.keyring.is_asked = false;
        if keys.is_some() {
            // The first keys are not newer ones: a token that names another may ask for those at once.
            if self.keyring.keys.is_none() {
                self.keyring.asked_at = None;
            }
            (self.keyring.keys, self.keyring.since) = (keys, now);
        }
        for Unjudged { reply, head, body } in core::mem::take(&mut self.keyring.waiting) {
            // Its client may have gone meanwhile.
            if self.replies.contains_key(&reply) {
                match body {
                    Some(body) => self.take_in(now, reply, &head, &body),
                    None => self.judge_head(now, reply, &head),
                }
            }
        }
    }

    /// Has a request wait for keys, if it cannot be judged without; `false` if it can.
    pub(crate) fn waits_for_keys(
        &mut self,
        now: Instant,
        reply: ReplyKey,
        head: &Parts,
        body: Option<&[u8]>,
    ) -> Result<bool, Refusal> {
        if !self.needs_time() || self.is_draining || !self.lacks_key(now, &head.headers) {
            return Ok(false);
        }
        let unjudged = Unjudged { reply, head: head.clone(), body: body.map(Bytes::copy_from_slice) };
        let bytes: usize = self.keyring.waiting.iter().map(Unjudged::held).sum();
        if self.keyring.waiting.len() >= MAX_WAITING || bytes + unjudged.held() > self.config.max_input {
            return Err(self.overloaded("too many requests wait for the keys of the issuer"));
        }
        self.keyring.waiting.push(unjudged);
        Ok(true)
    }

    /// Whether a request's token is signed by a key that may still come. Keys are asked for where that is of use.
    fn lacks_key(&mut self, now: Instant, headers: &HeaderMap) -> bool {
        let jwt = bearer(headers).ok().flatten().and_then(|token| Jwt::read(token).ok());
        let Some(jwt) = jwt else { return false };
        let lacks = self.keyring.keys.as_ref().is_none_or(|keys| jwt.may_have_newer_key(keys));
        if (lacks || self.keyring.is_stale(now)) && self.keyring.may_ask(now) {
            (self.keyring.is_asked, self.keyring.asked_at) = (true, Some(now));
            self.keyring.due.arm(now, now);
            self.report(HttpServerEvent::KeysWanted);
        }
        lacks && self.keyring.is_asked
    }

    /// Awaits keys no longer that were asked for so long ago.
    pub(crate) fn give_up_keys(&mut self, now: Instant, asked_at: Instant) {
        if self.keyring.is_asked && self.keyring.asked_at == Some(asked_at) {
            self.handle_keys(now, None);
        }
    }
}
