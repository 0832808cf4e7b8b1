//! `subscriptions/listen` of clients without a session, before a server that reports changes by itself.

use super::{
    ACKNOWLEDGED, Asked, Bridge, CANCELLED, LOGGED, RESOURCE_UPDATED, SET_LEVEL, SUBSCRIBE, Stage, UNSUBSCRIBE,
    level::Level,
    rewrite::{self, SUBSCRIPTION},
};
use crate::{
    error_code,
    frame::{Notification, Request},
    id::RequestId,
    json, message,
};

/// The open subscriptions.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Listening {
    listeners: Vec<Listener>,
    /// Resources that the server was asked to report for them.
    reported: Vec<Box<str>>,
    /// Those to which clients with a session are subscribed beside them.
    in_sessions: Vec<Box<str>>,
    /// Bytes that the URIs take.
    bytes: usize,
    /// The level of log messages that the server was told.
    pub(super) level: Option<Level>,
}

/// One subscription.
#[derive(Clone, Debug, Hash)]
struct Listener {
    id: RequestId,
    /// Which of [`LISTS`] it wants to hear of, by place.
    lists: [bool; 3],
    uris: Vec<Box<str>>,
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
pub(super) const RESOURCES: &str = "resourceSubscriptions";

/// The filter for all lists of which a server reports changes, by its capabilities; empty if there are none.
pub(super) fn lists_of(capabilities: &[u8], out: &mut Vec<u8>) {
    for list in LISTS.iter().filter(|list| reports(capabilities, list.capability, "listChanged")) {
        if !out.is_empty() {
            out.push(b',');
        }
        rewrite::member(list.wanted, out);
        out.extend_from_slice(b"true");
    }
}

fn reports(capabilities: &[u8], capability: &str, what: &str) -> bool {
    json::lookup(capabilities, &[capability, what]) == Some(b"true")
}

impl Listening {
    /// Ends the subscription with this id, if it is one.
    pub(super) fn close(&mut self, id: &RequestId) -> bool {
        let count = self.listeners.len();
        self.listeners.retain(|listener| listener.id != *id);
        self.listeners.len() < count
    }

    /// Bytes of memory that it holds.
    pub(super) fn held(&self) -> usize {
        2 * self.bytes
            + self.listeners.capacity() * size_of::<Listener>()
            + self.reported.capacity() * size_of::<Box<str>>()
    }

    pub(super) fn len(&self) -> usize {
        self.listeners.len()
    }
}

impl Bridge {
    /// Opens a subscription: what the server can report is acknowledged (MCP-M02 ends it).
    pub(super) fn listen(&mut self, request: &Request<'_>) {
        let Stage::Legacy { greeting } = &self.stage else { return };
        let capabilities = json::member(greeting, "capabilities").unwrap_or(b"{}").to_vec();
        let filter = request.params.raw.and_then(|params| json::member(params, "notifications")).unwrap_or(b"{}");
        let lists = core::array::from_fn(|at| {
            let List { wanted, capability, .. } = LISTS[at];
            json::member(filter, wanted) == Some(b"true") && reports(&capabilities, capability, "listChanged")
        });
        let wants_resources = reports(&capabilities, "resources", "subscribe");
        let named = json::member(filter, RESOURCES).filter(|_| wants_resources).and_then(json::elements);
        let uris: Vec<Box<str>> =
            named.into_iter().flatten().map_while(Result::ok).filter_map(|uri| Some(json::text(uri)?.into())).collect();
        let bytes: usize =
            uris.iter().map(|uri| uri.len() + size_of::<Box<str>>()).sum::<usize>() + size_of::<Listener>();
        if self.listening.bytes + bytes > self.config.max_listening {
            return self.refuse(&request.id, error_code::OVERLOADED, "too much is listened to");
        }
        self.listening.bytes += bytes;
        let id = request.id.clone();
        let mut granted = Vec::new();
        for (list, is_granted) in LISTS.iter().zip(lists) {
            if is_granted {
                separate(&mut granted);
                rewrite::member(list.wanted, &mut granted);
                granted.extend_from_slice(b"true");
            }
        }
        if !uris.is_empty() {
            separate(&mut granted);
            rewrite::member(RESOURCES, &mut granted);
            granted.push(b'[');
            for (at, uri) in uris.iter().enumerate() {
                if at > 0 {
                    granted.push(b',');
                }
                json::write_string(&mut granted, uri);
            }
            granted.push(b']');
        }
        for uri in &uris {
            if !self.listening.reported.contains(uri) {
                self.listening.reported.push(uri.clone());
                self.ask_about(SUBSCRIBE, uri);
            }
        }
        self.listening.listeners.push(Listener { id: id.clone(), lists, uris });
        self.say(|out| {
            message::notification(ACKNOWLEDGED, out, |out| {
                rewrite::meta(&subscription(&id), None, &[], out);
                out.extend_from_slice(br#","notifications":{"#);
                out.extend_from_slice(&granted);
                out.push(b'}');
            });
        });
    }

    /// Notes what clients with a session subscribe to, who share the server. `false` if the server is not to be told: another
    /// still listens.
    pub(super) fn subscribes(&mut self, request: &Request<'_>) -> bool {
        let uri = request.params.raw.and_then(|params| json::member(params, "uri")).and_then(json::text);
        let Some(uri) = uri else { return true };
        let Listening { listeners, in_sessions, .. } = &mut self.listening;
        in_sessions.retain(|known| **known != *uri);
        if request.method == SUBSCRIBE {
            let bytes: usize = in_sessions.iter().map(|uri| uri.len()).sum();
            if bytes + uri.len() <= self.config.max_listening {
                in_sessions.push(uri.into());
            }
            return true;
        }
        !listeners.iter().any(|listener| listener.uris.iter().any(|wanted| **wanted == *uri))
    }

    /// Has the server report no more what nobody listens to.
    pub(super) fn unsubscribe(&mut self) {
        let Listening { listeners, reported, in_sessions, bytes, .. } = &mut self.listening;
        let is_wanted =
            |uri: &str| listeners.iter().any(|listener| listener.uris.iter().any(|wanted| **wanted == *uri));
        let is_still_wanted = |uri: &str| is_wanted(uri) || in_sessions.iter().any(|wanted| **wanted == *uri);
        let unwanted: Vec<Box<str>> = reported.iter().filter(|uri| !is_still_wanted(uri)).cloned().collect();
        reported.retain(|uri| listeners.iter().any(|listener| listener.uris.contains(uri)));
        *bytes = listeners
            .iter()
            .map(|listener| {
                size_of::<Listener>() + listener.uris.iter().map(|uri| uri.len() + size_of::<Box<str>>()).sum::<usize>()
            })
            .sum();
        for uri in unwanted {
            self.ask_about(UNSUBSCRIBE, &uri);
        }
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

    /// What a server with sessions says to nobody in particular, for clients without one: to those that listen, and log
    /// messages while a request wants them.
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
        if method == CANCELLED {
            // Of a question, which was refused.
            return;
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
            self.listening.listeners.iter().filter(wants).map(|listener| listener.id.clone()).collect();
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

fn separate(out: &mut Vec<u8>) {
    if !out.is_empty() {
        out.push(b',');
    }
}
