//! What a client with a session subscribes to, before a server that reports on `subscriptions/listen`.
//!
//! A subscription cannot be changed, so another takes its place: the old one is cancelled when the server has
//! acknowledged the new one, and until then nothing is reported twice.

use super::Stateless;
use crate::{
    bridge::{
        ACKNOWLEDGED, CANCELLED, LISTEN, UNSUBSCRIBE,
        calls::Asked,
        filter::{self, Filter, weight},
        level::Level,
        rewrite::{self, SUBSCRIPTION},
        traffic::Traffic,
    },
    error_code,
    frame::{self, Notification, Request, ResponseBody},
    id::RequestId,
    json,
};

/// The subscription that stands for the client's.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Subscriptions {
    /// What the client receives reports of.
    filter: Filter,
    /// Bytes that its resources take.
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

impl Subscriptions {
    /// Bytes of memory that it holds.
    pub(super) fn held(&self) -> usize {
        self.bytes + self.waiting.capacity() * size_of::<RequestId>()
    }
}

impl Stateless {
    /// The client is ready for reports of changed lists.
    pub(super) fn follow_lists(&mut self, traffic: &mut Traffic) {
        let reported = filter::reported_by(&self.discovered);
        if self.subscriptions.filter.lists != reported {
            self.subscriptions.filter.lists = reported;
            self.follow(traffic);
        }
    }

    /// `resources/subscribe` and `resources/unsubscribe`.
    pub(super) fn subscribe(&mut self, traffic: &mut Traffic, request: &Request<'_>) {
        let uri = request.params.raw.and_then(|params| json::member(params, "uri")).and_then(json::text);
        let Some(uri) = uri else {
            return traffic.refuse(&request.id, error_code::INVALID_PARAMS, "`uri` is missing");
        };
        let Subscriptions { filter: Filter { uris, .. }, bytes, .. } = &mut self.subscriptions;
        if request.method == UNSUBSCRIBE {
            if uris.remove(&*uri) {
                *bytes -= weight(&uri);
            }
        } else if !uris.contains(&*uri) {
            if *bytes + weight(&uri) > traffic.config.max_listening {
                return traffic.refuse(&request.id, error_code::OVERLOADED, "too many resources are subscribed to");
            }
            *bytes += weight(&uri);
            uris.insert(uri.into());
        }
        self.subscriptions.waiting.push(request.id.clone());
        self.follow(traffic);
    }

    /// `logging/setLevel`: requests carry the level from now on.
    pub(super) fn keep_level(&mut self, traffic: &mut Traffic, request: &Request<'_>) {
        match request.params.raw.and_then(|params| json::member(params, "level")).and_then(Level::of) {
            Some(level) => {
                self.subscriptions.level = Some(level);
                traffic.pass_answer(&request.id, &ResponseBody::Result(b"{}"));
            }
            None => traffic.refuse(&request.id, error_code::INVALID_PARAMS, "`level` names no level"),
        }
    }

    /// Sends the subscription anew, unless one is under way.
    fn follow(&mut self, traffic: &mut Traffic) {
        self.subscriptions.is_stale = self.subscriptions.next.is_some();
        if self.subscriptions.is_stale {
            return;
        }
        let filter = &self.subscriptions.filter;
        if filter.is_empty() {
            self.end_current(traffic);
            return self.answer_waiting(traffic, ResponseBody::Result(b"{}"));
        }
        self.subscriptions.next =
            Some(traffic.ask(Asked::Listen, LISTEN, |out| filter.write_params(&self.envelope, out)));
    }

    /// The server has acknowledged a subscription: it takes the place of the one before.
    fn acknowledged(&mut self, traffic: &mut Traffic, own: i64) {
        if self.subscriptions.next != Some(own) {
            return;
        }
        self.subscriptions.next = None;
        self.end_current(traffic);
        self.subscriptions.current = Some(own);
        if self.subscriptions.is_stale {
            return self.follow(traffic);
        }
        self.answer_waiting(traffic, ResponseBody::Result(b"{}"));
    }

    /// The server has ended a subscription, or refused it.
    pub(super) fn listen_ended(&mut self, traffic: &mut Traffic, own: i64, body: &ResponseBody<'_>) {
        self.subscriptions.current.take_if(|current| *current == own);
        if self.subscriptions.next.take_if(|next| *next == own).is_some() {
            let is_refused = matches!(body, ResponseBody::Error(_));
            self.answer_waiting(traffic, if is_refused { *body } else { ResponseBody::Result(b"{}") });
        }
    }

    fn end_current(&mut self, traffic: &mut Traffic) {
        if let Some(own) = self.subscriptions.current.take() {
            _ = traffic.calls.answered(own);
            traffic.write_cancel(own, None);
        }
    }

    fn answer_waiting(&mut self, traffic: &mut Traffic, body: ResponseBody<'_>) {
        for id in core::mem::take(&mut self.subscriptions.waiting) {
            traffic.pass_answer(&id, &body);
        }
    }

    /// Passes on a notification of the server to a client with a session.
    pub(super) fn pass_report(&mut self, traffic: &mut Traffic, body: &[u8], notification: &Notification<'_>) {
        let (method, params) = (&*notification.method, &notification.params);
        if method == CANCELLED {
            // It ends a subscription (MCP-M02), and can end nothing else (MCP-M01).
            let named = params.raw.and_then(|params| json::member(params, "requestId"));
            let Some((named, own)) = named.and_then(|named| Some((named, json::integer(named)?))) else { return };
            if !traffic.calls.listens(own) {
                return;
            }
            if traffic.calls.client_id(own).is_some() {
                pass_subscribed(traffic, body, named);
            }
            _ = traffic.calls.answered(own);
            return self.listen_ended(traffic, own, &ResponseBody::Result(b"{}"));
        }
        let Some(named) = params.meta.and_then(|meta| json::member(meta, SUBSCRIPTION)) else {
            return traffic.pass_to_client(body);
        };
        let Subscriptions { current, next, .. } = self.subscriptions;
        let Some(own) = json::integer(named).filter(|own| [current, next].contains(&Some(*own))) else {
            // A client's own subscription, of this era.
            return pass_subscribed(traffic, body, named);
        };
        if method == ACKNOWLEDGED {
            return self.acknowledged(traffic, own);
        }
        if current.is_none_or(|current| current == own) {
            traffic.say(|out| rewrite::report(notification, b"", out));
        }
    }
}

/// Reports on a subscription under the id that its client knows.
fn pass_subscribed(traffic: &mut Traffic, body: &[u8], named: &[u8]) {
    let id = json::integer(named).and_then(|own| traffic.calls.client_id(own)).cloned();
    match (id, frame::span_of(body, named)) {
        (Some(id), Some(span)) => traffic.say(|out| frame::splice(body, span, &id, out)),
        (None, _) | (_, None) => traffic.pass_to_client(body),
    }
}
