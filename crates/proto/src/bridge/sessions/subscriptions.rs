//! `subscriptions/listen` of clients without a session, before a server that reports changes by itself.

use std::collections::{BTreeMap, BTreeSet};

use super::Sessions;
use crate::{
    bridge::{
        ACKNOWLEDGED, CANCELLED, ELICITED, LOGGED, PROGRESS, RESOURCE_UPDATED, SET_LEVEL, SUBSCRIBE, UNSUBSCRIBE,
        calls::{Asked, Call},
        filter::{self, Filter, PLACE, weight},
        level::Level,
        rewrite::{self, SUBSCRIPTION, Style},
        task,
        traffic::Traffic,
    },
    error_code,
    frame::{Notification, Request},
    id::RequestId,
    json,
    link::Departure,
    message,
};

/// The open subscriptions.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Subscriptions {
    /// By the number of their request.
    pub(super) listeners: BTreeMap<i64, Listener>,
    /// How many of them subscribe to each resource.
    reported: BTreeMap<Box<str>, usize>,
    /// Resources that clients with a session have subscribed to.
    in_sessions: BTreeSet<Box<str>>,
    /// Bytes that all of these take.
    pub(super) bytes: usize,
    /// The level of log messages that was set at the server.
    level: Option<Level>,
}

/// One subscription.
#[derive(Clone, Debug, Hash)]
pub(super) struct Listener {
    id: RequestId,
    filter: Filter,
}

impl Listener {
    /// Bytes that it takes, with its part of what is reported.
    fn weight(&self) -> usize {
        let uris = self.filter.uris.iter().map(|uri| 2 * weight(uri));
        size_of::<Self>() + PLACE + self.id.heap_bytes() + uris.sum::<usize>()
    }
}

impl Sessions {
    /// Opens a subscription: what the server can report is acknowledged (MCP-M02 ends it).
    pub(super) fn listen(&mut self, traffic: &mut Traffic, request: &Request<'_>) {
        let wanted = request.params.raw.and_then(|params| json::member(params, "notifications")).unwrap_or(b"{}");
        let listener = Listener { id: request.id.clone(), filter: Filter::granted(wanted, &self.greeting) };
        if self.subscriptions.bytes + listener.weight() > traffic.config.max_listening {
            return traffic.refuse(&request.id, error_code::OVERLOADED, "too much is listened to");
        }
        self.subscriptions.bytes += listener.weight();
        for uri in &listener.filter.uris {
            let wanted = self.subscriptions.reported.entry(uri.clone()).or_default();
            *wanted += 1;
            if *wanted == 1 {
                ask_about(traffic, SUBSCRIBE, uri);
            }
        }
        // Nothing else is to be done.
        traffic.departs(Departure::Request(request.id.clone()));
        traffic.say(|out| {
            let meta = subscription(&listener.id);
            message::notification(ACKNOWLEDGED, out, |out| listener.filter.write_params(&meta, out));
        });
        let own = traffic.calls.open(Call::of(request, Style::Enveloped));
        self.subscriptions.listeners.insert(own, listener);
    }

    /// Ends the subscription with this number, if it is one. The server is unsubscribed from what has no listener left.
    pub(super) fn close_listener(&mut self, traffic: &mut Traffic, own: i64) -> bool {
        let Subscriptions { listeners, reported, in_sessions, bytes, .. } = &mut self.subscriptions;
        let Some(listener) = listeners.remove(&own) else { return false };
        *bytes -= listener.weight();
        for uri in &listener.filter.uris {
            let Some(wanted) = reported.get_mut(uri) else { continue };
            *wanted -= 1;
            if *wanted > 0 {
                continue;
            }
            reported.remove(uri);
            if !in_sessions.contains(uri) {
                ask_about(traffic, UNSUBSCRIBE, uri);
            }
        }
        true
    }

    /// Notes a subscription of clients with a session, which share the server. `false` if the request must not go to the
    /// server: another client still listens.
    pub(super) fn subscribes(&mut self, most: usize, request: &Request<'_>) -> bool {
        let uri = request.params.raw.and_then(|params| json::member(params, "uri")).and_then(json::text);
        let Some(uri) = uri else { return true };
        let Subscriptions { reported, in_sessions, bytes, .. } = &mut self.subscriptions;
        if request.method == SUBSCRIBE {
            if *bytes + weight(&uri) <= most && in_sessions.insert((*uri).into()) {
                *bytes += weight(&uri);
            }
            return true;
        }
        if in_sessions.remove(&*uri) {
            *bytes -= weight(&uri);
        }
        !reported.contains_key(&*uri)
    }

    /// Has the server log what a request wants, if it does not yet.
    pub(super) fn set_level(&mut self, traffic: &mut Traffic, wanted: Option<Level>) {
        let Some(wanted) = wanted else { return };
        let logs = json::lookup(&self.greeting, &["capabilities", "logging"]).is_some();
        if !logs || self.subscriptions.level.is_some_and(|level| level <= wanted) {
            return;
        }
        self.subscriptions.level = Some(wanted);
        traffic.ask(Asked::Nothing, SET_LEVEL, |out| {
            rewrite::text_member("level", wanted.as_str(), out);
        });
    }

    /// Passes on a notification of the server to clients without a session: to those that listen, and a log message while
    /// a request wants it.
    pub(super) fn pass_report(&mut self, traffic: &mut Traffic, body: &[u8], notification: &Notification<'_>) {
        let (method, params) = (&*notification.method, &notification.params);
        let is_shared = traffic.config.is_shared;
        match method {
            LOGGED if !is_shared => {
                let level = params.raw.and_then(|params| json::member(params, "level")).and_then(Level::of);
                let least = traffic.calls.level();
                if least.is_some_and(|wanted| level.is_none_or(|level| wanted <= level)) {
                    traffic.pass_to_client(body);
                }
                return;
            }
            CANCELLED => return self.question_cancelled(params.raw),
            PROGRESS => return self.pass_progress(traffic, body, notification),
            // Nothing of that name is in this era: the person comes back without it.
            ELICITED => return,
            // The extension has another, for those that subscribe to it. Clients with a session may share the link.
            task::REPORTED if !is_shared => return,
            _ => {}
        }
        let list = filter::changed_by(method);
        let is_for_listeners = list.is_some() || method == RESOURCE_UPDATED;
        if is_shared || !is_for_listeners {
            // For the clients with a session, too.
            traffic.pass_to_client(body);
        }
        if !is_for_listeners {
            return;
        }
        let uri = params.raw.and_then(|params| json::member(params, "uri")).and_then(json::text).unwrap_or_default();
        let wants = |listener: &&Listener| match list {
            Some(list) => listener.filter.lists[list],
            // Of what it is subscribed to, or of a part of that.
            None => listener.filter.uris.iter().any(|wanted| uri.starts_with(&**wanted)),
        };
        for listener in self.subscriptions.listeners.values().filter(wants) {
            traffic.say(|out| rewrite::report(notification, &subscription(&listener.id), out));
        }
    }
}

fn ask_about(traffic: &mut Traffic, method: &str, uri: &str) {
    traffic.ask(Asked::Nothing, method, |out| {
        rewrite::text_member("uri", uri, out);
    });
}

/// The member of `_meta` that names a subscription.
fn subscription(id: &RequestId) -> Vec<u8> {
    let mut out = Vec::new();
    rewrite::member(SUBSCRIPTION, &mut out);
    id.write(&mut out);
    out
}
