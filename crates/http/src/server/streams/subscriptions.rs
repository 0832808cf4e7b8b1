//! Which sessions have subscribed to which resources, where they share a program.

use std::collections::BTreeSet;

use rescind_proto::{
    frame::{Notification, Request},
    json,
};

use super::{Session, Streams};
use crate::server::{here::Here, keys::SessionKey};

pub(crate) const SUBSCRIBE: &str = "resources/subscribe";
pub(crate) const UNSUBSCRIBE: &str = "resources/unsubscribe";

/// Bytes of all addresses to which one session is subscribed, and what it takes to keep them.
pub(crate) const MAX_SUBSCRIBED: usize = 64 << 10;

impl Streams {
    /// Names of the sessions that are such.
    pub(crate) fn sessions_that(&self, are: impl Fn(&Session) -> bool) -> Vec<SessionKey> {
        self.sessions.iter().filter(|(_, session)| are(session)).map(|(key, _)| *key).collect()
    }

    /// Notes what a session subscribes to; what answers that here, if its program is not to see it. Every subscription is
    /// passed on, since a program takes the same one twice; that it is no longer wanted, only the last session may say.
    pub(crate) fn subscribe(&mut self, key: SessionKey, request: &Request<'_>) -> Option<Here> {
        let method = &*request.method;
        if method != SUBSCRIBE && method != UNSUBSCRIBE {
            return None;
        }
        let uri = request.params.raw.and_then(|params| json::member(params, "uri")).and_then(json::text)?;
        let session = self.sessions.get_mut(&key)?;
        if method == SUBSCRIBE {
            if session.subscribed() + uri.len() + size_of::<Box<str>>() > MAX_SUBSCRIBED {
                return Some(Here::TooMany);
            }
            session.subscriptions.insert(uri.into());
            return None;
        }
        session.subscriptions.remove(&*uri);
        self.is_subscribed_elsewhere(key, &uri).then_some(Here::Done)
    }

    fn is_subscribed_elsewhere(&self, key: SessionKey, uri: &str) -> bool {
        self.sessions.iter().any(|(other, session)| *other != key && session.subscriptions.contains(uri))
    }

    /// All that sessions are subscribed to.
    pub(crate) fn subscribed(&self) -> BTreeSet<&str> {
        self.sessions.values().flat_map(|session| &session.subscriptions).map(|uri| &**uri).collect()
    }

    /// What no session but this one is subscribed to.
    pub(crate) fn alone_subscribed(&self, key: SessionKey) -> Vec<Box<str>> {
        let own = self.sessions.get(&key).into_iter().flat_map(|session| &session.subscriptions);
        own.filter(|uri| !self.is_subscribed_elsewhere(key, uri)).cloned().collect()
    }

    /// The sessions that are subscribed to what has changed: to the resource, or to one that it is a part of. If none is, and
    /// all may know, the program spells it in another way: better one that was not asked for than one that is missing.
    pub(crate) fn subscribers(&self, updated: &Notification<'_>, all_may_know: bool) -> Vec<SessionKey> {
        let uri = updated.params.raw.and_then(|params| json::member(params, "uri")).and_then(json::text);
        let uri = uri.unwrap_or_default();
        let found = self.sessions_that(|session| session.subscriptions.iter().any(|wanted| uri.starts_with(&**wanted)));
        if found.is_empty() && all_may_know {
            return self.sessions_that(|session| !session.subscriptions.is_empty());
        }
        found
    }
}
