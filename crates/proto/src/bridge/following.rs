//! What a client with a session subscribes to, before a server that reports on `subscriptions/listen`.
//!
//! A subscription cannot be changed, so another takes its place: the old one is cancelled when the server has
//! acknowledged the new one, and until then nothing is reported twice.

use std::collections::BTreeSet;

use super::{
    ACKNOWLEDGED, Asked, Bridge, CANCELLED, LISTEN, Stage, UNSUBSCRIBE,
    level::Level,
    listening::{self, weight},
    rewrite::{self, SUBSCRIPTION},
};
use crate::{
    error_code,
    frame::{Notification, Request, ResponseBody},
    id::RequestId,
    json, message,
};

/// The subscription that stands for the client's.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Following {
    /// The client receives reports of changed lists.
    lists: bool,
    uris: BTreeSet<Box<str>>,
    /// Bytes that they take.
    bytes: usize,
    /// The `subscriptions/listen` on which the server reports.
    current: Option<i64>,
    /// The one that is to take its place.
    next: Option<i64>,
    /// Something was subscribed to since that was sent.
    is_stale: bool,
    /// Requests that are answered once the server has acknowledged what they ask for.
    waiting: Vec<RequestId>,
    /// The level of log messages that the client has set.
    pub(super) level: Option<Level>,
}

impl Following {
    /// Bytes of memory that it holds.
    pub(super) fn held(&self) -> usize {
        self.bytes + self.waiting.capacity() * size_of::<RequestId>()
    }
}

impl Bridge {
    /// The client is ready for reports of changed lists.
    pub(super) fn follow_lists(&mut self) {
        let reports = self.lists().contains(&true);
        if !self.following.lists && reports {
            self.following.lists = true;
            self.follow();
        }
    }

    /// `resources/subscribe` and `resources/unsubscribe`.
    pub(super) fn subscribe(&mut self, request: &Request<'_>) {
        let uri = request.params.raw.and_then(|params| json::member(params, "uri")).and_then(json::text);
        let Some(uri) = uri else {
            return self.refuse(&request.id, error_code::INVALID_PARAMS, "`uri` is missing");
        };
        let following = &mut self.following;
        if request.method == UNSUBSCRIBE {
            if following.uris.remove(&*uri) {
                following.bytes -= weight(&uri);
            }
        } else if !following.uris.contains(&*uri) {
            if following.bytes + weight(&uri) > self.config.max_listening {
                return self.refuse(&request.id, error_code::OVERLOADED, "too many resources are subscribed to");
            }
            following.bytes += weight(&uri);
            following.uris.insert(uri.into());
        }
        following.waiting.push(request.id.clone());
        self.follow();
    }

    /// `logging/setLevel`: requests carry the level from now on.
    pub(super) fn keep_level(&mut self, id: &RequestId, params: Option<&[u8]>) {
        match params.and_then(|params| json::member(params, "level")).and_then(Level::of) {
            Some(level) => {
                self.following.level = Some(level);
                self.say(|out| message::result(id, b"{}", out));
            }
            None => self.refuse(id, error_code::INVALID_PARAMS, "`level` names no level"),
        }
    }

    /// Which lists the server reports changes of.
    fn lists(&self) -> [bool; 3] {
        match &self.stage {
            Stage::Modern { discovered, .. } => {
                listening::lists_of(json::member(discovered, "capabilities").unwrap_or(b"{}"))
            }
            Stage::Fresh
            | Stage::Greeted(..)
            | Stage::Discovering(_)
            | Stage::Greeting
            | Stage::Legacy { .. }
            | Stage::Done => [false; 3],
        }
    }

    /// Sends the subscription anew, unless one is under way.
    fn follow(&mut self) {
        if self.following.next.is_some() {
            self.following.is_stale = true;
            return;
        }
        self.following.is_stale = false;
        let lists = self.lists().map(|reports| reports && self.following.lists);
        let Stage::Modern { envelope, .. } = &self.stage else { return };
        let mut filter = Vec::new();
        listening::write_filter(lists, &self.following.uris, &mut filter);
        if filter.is_empty() {
            self.end_current();
            return self.answer_waiting(None);
        }
        let envelope = envelope.to_vec();
        let own = self.calls.ask(Asked::Listen);
        self.following.next = Some(own);
        self.write_line(|out| {
            message::request(&RequestId::integer(own), LISTEN, out, |out| {
                rewrite::meta(&envelope, None, &[], out);
                out.extend_from_slice(br#","notifications":{"#);
                out.extend_from_slice(&filter);
                out.push(b'}');
            });
        });
    }

    /// The server has acknowledged a subscription: it takes the place of the one before.
    fn acknowledged(&mut self, own: i64) {
        if self.following.next != Some(own) {
            return;
        }
        self.following.next = None;
        self.end_current();
        self.following.current = Some(own);
        if self.following.is_stale {
            return self.follow();
        }
        self.answer_waiting(None);
    }

    /// The server has ended a subscription, or refused it.
    pub(super) fn listen_ended(&mut self, own: i64, body: &ResponseBody<'_>) {
        if self.following.current == Some(own) {
            self.following.current = None;
        }
        if self.following.next == Some(own) {
            self.following.next = None;
            let error = match body {
                ResponseBody::Error(error) => Some(*error),
                ResponseBody::Result(_) => None,
            };
            self.answer_waiting(error);
        }
    }

    fn end_current(&mut self) {
        if let Some(own) = self.following.current.take() {
            _ = self.calls.answered(own);
            self.write_cancel(own, None);
        }
    }

    fn answer_waiting(&mut self, error: Option<&[u8]>) {
        for id in core::mem::take(&mut self.following.waiting) {
            self.say(|out| match error {
                Some(error) => rewrite::error(&id, out, |out| out.extend_from_slice(error)),
                None => message::result(&id, b"{}", out),
            });
        }
    }

    /// Passes on a notification of a server without sessions to a client with one.
    pub(super) fn tell_legacy(&mut self, body: &[u8], notification: &Notification<'_>) {
        let (method, params) = (&*notification.method, &notification.params);
        if method == CANCELLED {
            // It ends a subscription (MCP-M02), and can end nothing else (MCP-M01).
            let named = params.raw.and_then(|params| json::member(params, "requestId"));
            let Some((named, own)) = named.and_then(|named| Some((named, json::integer(named)?))) else { return };
            if !self.calls.listens(own) {
                return;
            }
            if self.calls.client_id(own).is_some() {
                self.pass_subscribed(body, named);
            }
            _ = self.calls.answered(own);
            self.listen_ended(own, &ResponseBody::Result(b"{}"));
            return;
        }
        let Some(named) = params.meta.and_then(|meta| json::member(meta, SUBSCRIPTION)) else {
            return self.pass_to_client(body);
        };
        let Some(own) = json::integer(named).filter(|own| self.is_followed(*own)) else {
            // A client's own subscription, of this era.
            return self.pass_subscribed(body, named);
        };
        if method == ACKNOWLEDGED {
            return self.acknowledged(own);
        }
        if self.following.current == Some(own) || self.following.current.is_none() {
            self.say(|out| {
                let mut written = Vec::new();
                let meta = params.meta;
                rewrite::params(params.raw, |out| rewrite::object(b"", meta, &[SUBSCRIPTION], out), &mut written);
                message::raw_notification(method, &written, out);
            });
        }
    }

    fn is_followed(&self, own: i64) -> bool {
        self.following.current == Some(own) || self.following.next == Some(own)
    }

    /// Reports on a subscription under the id that its client knows.
    fn pass_subscribed(&mut self, body: &[u8], named: &[u8]) {
        let id = json::integer(named).and_then(|own| self.calls.client_id(own)).cloned();
        let span = crate::frame::span_of(body, named);
        match (id, span) {
            (Some(id), Some(span)) => self.say(|out| crate::frame::splice(body, span, &id, out)),
            (None, _) | (_, None) => self.pass_to_client(body),
        }
    }
}
