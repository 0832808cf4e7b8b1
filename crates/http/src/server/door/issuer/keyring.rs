//! The keys of an issuer as they are known now, and when newer ones are asked for.
//!
//! A request waits for keys, and is not refused, when there are none yet or its token names one that is not known: its
//! client did nothing wrong, and a client that is refused signs in again.

use core::hash::{Hash, Hasher};
use std::time::Duration;

use http::HeaderMap;
use rescind_proto::time::Instant;

use super::{jwt::Jwt, key_set::KeySet};
use crate::server::door::token::bearer;

/// Keys are asked for again so long after they were asked for last; without any, sooner.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
const FIRST_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Keys that are older than this are asked for again, though all tokens can be judged: some may have been withdrawn.
const STALE_AFTER: Duration = Duration::from_secs(60 * 60);

/// Time for keys to come.
const KEYS_WITHIN: Duration = Duration::from_secs(20);

/// More than keys and what is known of them take.
pub(crate) const MAX_KEYRING: usize = 256 << 10;

/// What is known of an issuer's keys.
#[derive(Clone, Debug)]
pub(crate) struct Keyring {
    pub(super) keys: Option<KeySet>,
    /// When they came.
    since: Instant,
    /// The time of day, since 1970. Before it is known every token has expired.
    pub(crate) time_of_day: Duration,
    /// When keys were asked for last.
    asked_at: Option<Instant>,
    /// They are awaited.
    is_asked: bool,
    /// They were asked for, and that was not polled since.
    is_wanted: bool,
}

impl Keyring {
    pub(crate) const fn new() -> Self {
        Self {
            keys: None,
            since: Instant::ORIGIN,
            time_of_day: Duration::MAX,
            asked_at: None,
            is_asked: false,
            is_wanted: false,
        }
    }

    /// Takes in keys; without any, the known ones are kept. In both cases none are awaited any more.
    pub(crate) fn supply(&mut self, now: Instant, keys: Option<KeySet>) {
        self.is_asked = false;
        if keys.is_some() {
            // The first keys are not newer ones: a token that names another may ask for those at once.
            if self.keys.is_none() {
                self.asked_at = None;
            }
            (self.keys, self.since) = (keys, now);
        }
    }

    /// Whether the token of a request is signed by a key that may still come. Asks for keys where that is of use.
    pub(crate) fn awaits_key(&mut self, now: Instant, headers: &HeaderMap) -> bool {
        let jwt = bearer(headers).ok().flatten().and_then(|token| Jwt::read(token).ok());
        let Some(jwt) = jwt else { return false };
        let lacks = self.keys.as_ref().is_none_or(|keys| jwt.may_have_newer_key(keys));
        if (lacks || self.is_stale(now)) && self.may_ask(now) {
            (self.is_asked, self.is_wanted, self.asked_at) = (true, true, Some(now));
        }
        lacks && self.is_asked
    }

    /// Whether keys are wanted: `true` once each time.
    pub(crate) const fn poll_wanted(&mut self) -> bool {
        core::mem::replace(&mut self.is_wanted, false)
    }

    /// When keys are awaited no longer; `None` if none are.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.asked_at.filter(|_| self.is_asked).map(|asked_at| asked_at + KEYS_WITHIN)
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        self.keys.as_ref().map_or(0, KeySet::held)
    }

    /// Feeds what decides its future into a hasher; of keys that is how many bytes they have, since a world has one set at
    /// most.
    pub(crate) fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        (self.keys.as_ref().map(KeySet::held), now.since(self.since), self.time_of_day).hash(state);
        (self.asked_at.map(|asked| now.since(asked)), self.is_asked).hash(state);
    }

    fn may_ask(&self, now: Instant) -> bool {
        let pause = if self.keys.is_some() { AGAIN_AFTER } else { FIRST_AGAIN_AFTER };
        !self.is_asked && self.asked_at.is_none_or(|asked| now.since(asked) >= pause)
    }

    fn is_stale(&self, now: Instant) -> bool {
        self.keys.is_some() && now.since(self.since) >= STALE_AFTER
    }
}
