//! `subscriptions/listen` of clients without a session, before a server that reports changes by itself.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ACKNOWLEDGED, Asked, Bridge, CANCELLED, ELICITED, LOGGED, PROGRESS, RESOURCE_UPDATED, SET_LEVEL, SUBSCRIBE, Stage,
    Style, UNSUBSCRIBE,
    level::Level,
    rewrite::{self, SUBSCRIPTION},
    task,
};
use crate::{
    error_code,
    frame::{Notification, Request},
    id::RequestId,
    json,
    link::Departure,
    message,
};

/// The open subscriptions.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Listening {
    /// By the number of their request.
    listeners: BTreeMap<i64, Listener>,
    /// How many of them subscribe to each resource.
    reported: BTreeMap<Box<str>, usize>,
    /// Resources that clients with a session have subscribed to.
    in_sessions: BTreeSet<Box<str>>,
    /// Bytes that all of these take.
    bytes: usize,
    /// The level of log messages that was set at the server.
    pub(super) level: Option<Level>,
}

/// One subscription.
#[derive(Clone, Debug, Hash)]
struct Listener {
    id: RequestId,
    /// Which of [`LISTS`] it subscribes to, by place.
    lists: [bool; 3],
    uris: BTreeSet<Box<str>>,
}

/// A kind of list, in the words of both eras.
struct List {
    /// In the filter of a subscription.
    wanted: &'static str,
    /// The server's capability.
    capability: &'static str,
    notification: &'static str,
}

const LISTS: [List; 3] = [
    List { wanted: "toolsListChanged", capability: "tools", notification: "notifications/tools/list_changed" },
    List { wanted: "promptsListChanged", capability: "prompts", notification: "notifications/prompts/list_changed" },
    List {
        wanted: "resourcesListChanged",
        capability: "resources",
        notification: "notifications/resources/list_changed",
    },
];

/// The member of a filter that names resources.
const RESOURCES: &str = "resourceSubscriptions";

/// Which lists a server reports changes of, by its capabilities.
pub(super) fn lists_of(capabilities: &[u8]) -> [bool; 3] {
    core::array::from_fn(|at| reports(capabilities, LISTS[at].capability, "listChanged"))
}

/// Writes the members of a filter; nothing for one that wants nothing.
pub(super) fn write_filter(lists: [bool; 3], uris: &BTreeSet<Box<str>>, out: &mut Vec<u8>) {
    for list in LISTS.iter().zip(lists).filter(|(_, is_wanted)| *is_wanted).map(|(list, _)| list) {
        separate(out);
        rewrite::member(list.wanted, out);
        out.extend_from_slice(b"true");
    }
    for (at, uri) in uris.iter().enumerate() {
        if at == 0 {
            separate(out);
            rewrite::member(RESOURCES, out);
        }
        out.push(if at == 0 { b'[' } else { b',' });
        json::write_string(out, uri);
    }
    if !uris.is_empty() {
        out.push(b']');
    }
}

fn separate(out: &mut Vec<u8>) {
    if !out.is_empty() {
        out.push(b',');
    }
}

/// Bytes that a resource takes in a set.
pub(super) fn weight(uri: &str) -> usize {
    uri.len() + PLACE
}

/// More than a place in a set or a map takes.
const PLACE: usize = 64;

fn reports(capabilities: &[u8], capability: &str, what: &str) -> bool {
    json::lookup(capabilities, &[capability, what]) == Some(b"true")
}

impl Listener {
    /// Bytes that it takes, with its part of what is reported.
    fn weight(&self) -> usize {
        size_of::<Self>() + PLACE + self.id.heap_bytes() + self.uris.iter().map(|uri| 2 * weight(uri)).sum::<usize>()
    }
}

impl Listening {
    /// Bytes of memory that it holds, at most.
    pub(super) const fn held(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.listeners.len()
    }
}

impl Bridge {
    /// Opens a subscription: what the server can report is acknowledged (MCP-M02 ends it).
    pub(super) fn listen(&mut self, request: &Request<'_>) {
        let Stage::Legacy { greeting } = &self.stage else { return };
        let capabilities = json::member(greeting, "capabilities").unwrap_or(b"{}");
        let filter = request.params.raw.and_then(|params| json::member(params, "notifications")).unwrap_or(b"{}");
        let mut lists = lists_of(capabilities);
        for (is_granted, list) in lists.iter_mut().zip(&LISTS) {
            *is_granted &= json::member(filter, list.wanted) == Some(b"true");
        }
        let subscribes = reports(capabilities, "resources", "subscribe");
        let named = json::member(filter, RESOURCES).filter(|_| subscribes).and_then(json::elements);
        let named = named.into_iter().flatten().map_while(Result::ok);
        let uris = named.filter_map(|uri| Some(json::text(uri)?.into())).collect();
        let listener = Listener { id: request.id.clone(), lists, uris };
        if self.listening.bytes + listener.weight() > self.config.max_listening {
            return self.refuse(&request.id, error_code::OVERLOADED, "too much is listened to");
        }
        self.listening.bytes += listener.weight();
        for uri in &listener.uris {
            let wanted = self.listening.reported.entry(uri.clone()).or_default();
            *wanted += 1;
            if *wanted == 1 {
                self.ask_about(SUBSCRIBE, uri);
            }
        }
        // Nothing else is to be done.
        self.departs(Departure::Request(request.id.clone()));
        self.say(|out| {
            message::notification(ACKNOWLEDGED, out, |out| {
                rewrite::meta(&subscription(&listener.id), None, &[], out);
                out.extend_from_slice(br#","notifications":{"#);
                let mut granted = Vec::new();
                write_filter(listener.lists, &listener.uris, &mut granted);
                out.extend_from_slice(&granted);
                out.push(b'}');
            });
        });
        let own = self.calls.open(request, Style::Enveloped, None, None);
        self.listening.listeners.insert(own, listener);
    }

    /// Ends the subscription with this number, if it is one. The server is unsubscribed from what has no listener left.
    pub(super) fn close_listener(&mut self, own: i64) -> bool {
        let Some(listener) = self.listening.listeners.remove(&own) else { return false };
        self.listening.bytes -= listener.weight();
        for uri in &listener.uris {
            let Some(wanted) = self.listening.reported.get_mut(uri) else { continue };
            *wanted -= 1;
            if *wanted > 0 {
                continue;
            }
            self.listening.reported.remove(uri);
            if !self.listening.in_sessions.contains(uri) {
                self.ask_about(UNSUBSCRIBE, uri);
            }
        }
        true
    }

    /// Notes a subscription of clients with a session, which share the server. `false` if the request must not go to the
    /// server: another client still listens.
    pub(super) fn subscribes(&mut self, request: &Request<'_>) -> bool {
        let uri = request.params.raw.and_then(|params| json::member(params, "uri")).and_then(json::text);
        let Some(uri) = uri else { return true };
        let Listening { reported, in_sessions, bytes, .. } = &mut self.listening;
        if request.method == SUBSCRIBE {
            if *bytes + weight(&uri) <= self.config.max_listening && in_sessions.insert((*uri).into()) {
                *bytes += weight(&uri);
            }
            return true;
        }
        if in_sessions.remove(&*uri) {
            *bytes -= weight(&uri);
        }
        !reported.contains_key(&*uri)
    }

    fn ask_about(&mut self, method: &str, uri: &str) {
        let own = self.calls.ask(Asked::Nothing);
        self.write_line(|out| {
            message::request(&RequestId::integer(own), method, out, |out| {
                rewrite::member("uri", out);
                json::write_string(out, uri);
            });
        });
    }

    /// Has the server log what a request wants, if it does not yet.
    pub(super) fn set_level(&mut self, wanted: Option<Level>) {
        let Stage::Legacy { greeting } = &self.stage else { return };
        let Some(wanted) = wanted else { return };
        let logs = json::lookup(greeting, &["capabilities", "logging"]).is_some();
        if !logs || self.listening.level.is_some_and(|level| level <= wanted) {
            return;
        }
        self.listening.level = Some(wanted);
        let own = self.calls.ask(Asked::Nothing);
        self.write_line(|out| {
            message::request(&RequestId::integer(own), SET_LEVEL, out, |out| {
                rewrite::member("level", out);
                json::write_string(out, wanted.as_str());
            });
        });
    }

    /// Passes on a notification of a server with sessions to clients without one: to those that listen, and a log message
    /// while a request wants it.
    pub(super) fn tell_modern(&mut self, body: &[u8], notification: &Notification<'_>) {
        let (method, params) = (&*notification.method, &notification.params);
        if method == LOGGED && !self.config.is_shared {
            let level = params.raw.and_then(|params| json::member(params, "level")).and_then(Level::of);
            let is_wanted = self.calls.level().is_some_and(|wanted| level.is_none_or(|level| wanted <= level));
            if is_wanted {
                self.pass_to_client(body);
            }
            return;
        }
        match method {
            CANCELLED => return self.question_cancelled(params.raw),
            PROGRESS => return self.tell_progress(body, notification),
            // Nothing of that name is in this era: the person comes back by himself.
            ELICITED => return,
            // The extension has another, for those that subscribe to it. Clients with a session may share the link.
            task::REPORTED if !self.config.is_shared => return,
            _ => {}
        }
        let list = LISTS.iter().position(|list| list.notification == method);
        if list.is_none() && method != RESOURCE_UPDATED {
            return self.pass_to_client(body);
        }
        if self.config.is_shared {
            // For the clients with a session.
            self.pass_to_client(body);
        }
        let uri = params.raw.and_then(|params| json::member(params, "uri")).and_then(json::text).unwrap_or_default();
        let wants = |listener: &&Listener| match list {
            Some(list) => listener.lists[list],
            // Of what it is subscribed to, or of a part of that.
            None => listener.uris.iter().any(|wanted| uri.starts_with(&**wanted)),
        };
        let told: Vec<RequestId> =
            self.listening.listeners.values().filter(wants).map(|listener| listener.id.clone()).collect();
        for id in told {
            self.say(|out| {
                let mut written = Vec::new();
                let meta = params.meta;
                rewrite::params(
                    params.raw,
                    |out| rewrite::object(&subscription(&id), meta, &[SUBSCRIPTION], out),
                    &mut written,
                );
                message::raw_notification(method, &written, out);
            });
        }
    }
}

/// The member of `_meta` that names a subscription.
fn subscription(id: &RequestId) -> Vec<u8> {
    let mut out = Vec::new();
    rewrite::member(SUBSCRIPTION, &mut out);
    id.write(&mut out);
    out
}
