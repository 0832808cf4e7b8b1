//! What sessions share that share a program (`Sessions::SharedLink`): its handshake, what it says to all of them, and who
//! has subscribed to what.
//!
//! A handshake on a shared link is a request in flight that its program never sees: it waits for the machine's own
//! handshake, and is answered with a copy of that result through the same door as every answer. So a client that leaves
//! meanwhile needs no code of its own. The end of a session is `StreamClosed` for each of its requests.

use core::hash::{Hash, Hasher};

use bytes::Bytes;
use rescind_proto::{
    dialect::{Dialect, mcp},
    error_code,
    frame::{self, Notification, Request, Response, ResponseBody},
    id::RequestId,
    json, message,
    time::Instant,
};

use super::{
    HttpServer, HttpServerEvent, LinkInput, LinkKey, SessionKey, Sessions,
    calls::Way,
    door::Asker,
    link::LinkUse,
    opening::{Here, Later, Opening},
    posted::{line, splice, text},
    streams::{HANDSHAKE, Session},
    timers::Timer,
};

/// The link that sessions share.
#[derive(Clone, Debug)]
pub(crate) enum Joint {
    /// There is none.
    Closed,
    /// Its program was asked for a handshake under this id, or will be when it is started. Sessions that
    /// [join](Way::Joining) wait for what it says.
    Asked {
        link: LinkKey,
        id: RequestId,
        /// What the program said that ended before, if sessions know that.
        former: Option<Bytes>,
    },
    /// Its program has shaken hands.
    Open {
        link: LinkKey,
        /// The result, which answers every session's handshake.
        result: Bytes,
        /// Since when there has been no session, if there is none.
        vacant_since: Instant,
    },
}

/// Bytes of all addresses to which one session is subscribed, and what it takes to keep them.
pub(crate) const MAX_SUBSCRIBED: usize = 64 << 10;

pub(crate) const SUBSCRIBE: &str = "resources/subscribe";
pub(crate) const SET_LEVEL: &str = "logging/setLevel";
const UNSUBSCRIBE: &str = "resources/unsubscribe";
const UPDATED: &str = "notifications/resources/updated";

/// What a program says to whoever listens.
const FOR_ALL: [&str; 4] = [
    "notifications/message",
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
];

/// Whether a request asks for something that is noted for its session.
pub(crate) fn is_noted(method: &str) -> bool {
    [SUBSCRIBE, UNSUBSCRIBE, SET_LEVEL].contains(&method)
}

/// What a client says of its own handshake, or of questions that its program cannot ask it.
const FOR_NOBODY: [&str; 4] = [
    "notifications/initialized",
    "notifications/roots/list_changed",
    "notifications/progress",
    "notifications/tasks/status",
];

impl Joint {
    pub(crate) const fn link(&self) -> Option<LinkKey> {
        match self {
            Self::Closed => None,
            Self::Asked { link, .. } | Self::Open { link, .. } => Some(*link),
        }
    }

    pub(crate) fn close(&mut self) {
        *self = Self::Closed;
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Closed => 0,
            Self::Asked { former, .. } => former.as_ref().map_or(0, Bytes::len),
            Self::Open { result, .. } => result.len(),
        }
    }

    /// Feeds what decides its future into a hasher, but for its link.
    pub(crate) fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        core::mem::discriminant(self).hash(state);
        match self {
            Self::Closed => {}
            Self::Asked { link: _, id, former } => (id, former).hash(state),
            Self::Open { link: _, result, vacant_since } => (result, now.since(*vacant_since)).hash(state),
        }
    }
}

impl HttpServer {
    /// The link that sessions share; opened if there is none.
    pub(crate) fn joint_link(&mut self, now: Instant) -> LinkKey {
        if let Some(link) = self.joint.link() {
            return link;
        }
        self.open_joint(now, None)
    }

    /// Opens it, and has its program shake hands as soon as that may be started.
    pub(crate) fn open_joint(&mut self, now: Instant, former: Option<Bytes>) -> LinkKey {
        let at = self.starts.back_off.start(now);
        let link = self.open_link(now, at, LinkUse::Sessions, None, &Asker::default());
        self.shake_hands(now, link, former);
        link
    }

    /// Lets sessions share the link of a program that was asked which era it speaks, and has said that it knows only
    /// sessions: it need not start again.
    pub(crate) fn lend_to_sessions(&mut self, now: Instant, key: LinkKey) {
        let is_wanted = self.config.sessions == Sessions::SharedLink && !self.is_draining;
        if !is_wanted || self.joint.link().is_some() {
            return;
        }
        let Some(link) = self.links.get_mut(&key) else { return };
        link.serves = LinkUse::Sessions;
        self.shared.forget(key);
        self.shake_hands(now, key, None);
    }

    fn shake_hands(&mut self, now: Instant, link: LinkKey, former: Option<Bytes>) {
        if let Some(link) = self.links.get_mut(&link) {
            link.is_greeting = true;
        }
        let id = self.ask_program(link, HANDSHAKE, |out| {
            out.extend_from_slice(br#""protocolVersion":"#);
            json::write_string(out, version(&mcp::LATEST_LEGACY));
            out.extend_from_slice(CLIENT.as_bytes());
        });
        self.joint = Joint::Asked { link, id, former };
        if !self.starts.is_resting(link) {
            self.timers.arm(now, Timer::Ask(link));
        }
        self.timers.arm(now, Timer::Joint(link));
    }

    /// Answers a session's handshake with what the program has said to ours, once it has.
    pub(crate) fn join(&mut self, link_key: LinkKey, opening: Opening<'_>) {
        let asked = opening.request.params.raw.and_then(|params| json::member(params, VERSION)).and_then(json::text);
        let revision = asked.and_then(|asked| mcp::by_date(&asked)).filter(|revision| !revision.stateless);
        let Some(link) = self.links.get_mut(&link_key) else { return };
        let (id, _) = opening.enter(link, Way::Joining(revision));
        if let Joint::Open { result, .. } = &self.joint {
            self.later.push(Later::Answer(link_key, admission(&id, revision, result)));
        }
    }

    /// Takes in an answer of the program that sessions share; `true` if it is that to our handshake.
    pub(crate) fn handle_joint_answer(
        &mut self,
        now: Instant,
        link_key: LinkKey,
        message: &[u8],
        response: &Response<'_>,
        answered: &RequestId,
    ) -> bool {
        let Joint::Asked { link, id, former } = &mut self.joint else { return false };
        if *link != link_key || id != answered {
            return false;
        }
        let former = former.take();
        match response.body {
            ResponseBody::Result(result) => {
                self.joint = Joint::Open { link: link_key, result: Bytes::copy_from_slice(result), vacant_since: now };
                let mut initialized = Vec::new();
                message::raw_notification("notifications/initialized", b"", &mut initialized);
                self.push_urgent(link_key, LinkInput::Message(line(&initialized, Vec::new())));
                self.go_on_with(now, link_key, former, result);
                if let Some(link) = self.links.get_mut(&link_key) {
                    link.is_greeting = false;
                }
                for (id, way) in self.in_flight_on(link_key, |call| (call.link_id.clone(), call.way)) {
                    if let Way::Joining(revision) = way {
                        self.handle_message(now, link_key, &admission(&id, revision, result));
                    }
                }
            }
            ResponseBody::Error(_) => {
                self.answer_waiting(now, link_key, |id, out| {
                    out.extend_from_slice(&splice(message, vec![(response.id_span.clone(), text(id))]));
                });
                self.push_input(link_key, LinkInput::End);
                self.restart_joint(now, link_key);
            }
        }
        true
    }

    /// The program that sessions share has had time enough for its handshake.
    pub(crate) fn give_up_joint(&mut self, now: Instant, link_key: LinkKey) {
        let Joint::Asked { link, .. } = &self.joint else { return };
        if *link != link_key {
            return;
        }
        self.answer_waiting(now, link_key, |id, out| {
            let words = "the server has not answered initialize in time";
            message::error(Some(id), error_code::TIMED_OUT, words, None, out);
        });
        self.push_input(link_key, LinkInput::End);
        self.restart_joint(now, link_key);
    }

    /// Ends the link that sessions share, if it had none for too long; `true` if it goes on.
    pub(crate) fn keep_up_joint(&mut self, now: Instant, key: LinkKey) -> bool {
        if self.joint.link() != Some(key) {
            return false;
        }
        let used = self.links.get(&key).filter(|link| link.is_idle()).map(|link| link.idle_since);
        if let Joint::Open { vacant_since, .. } = &self.joint
            && self.streams.sessions.is_empty()
            && used.is_some_and(|used| now.since(used.max(*vacant_since)) >= self.config.idle)
        {
            self.end_link(now, key);
            return false;
        }
        true
    }

    /// Ends a session that shares its program with others: what it has in flight is cancelled, and nothing else.
    pub(crate) fn leave_joint(&mut self, now: Instant, key: SessionKey) {
        let Some(session) = self.streams.sessions.get(&key) else { return };
        let link = session.link;
        let calls: Vec<_> = self.streams.of(session).flat_map(|stream| stream.calls.iter().copied()).collect();
        let alone = session.subscriptions.iter().filter(|uri| !self.is_subscribed_elsewhere(key, uri));
        let alone: Vec<_> = alone.cloned().collect();
        calls.into_iter().for_each(|call| self.retract(now, link, call));
        for uri in alone {
            self.ask_program(link, UNSUBSCRIBE, |out| {
                out.extend_from_slice(br#""uri":"#);
                json::write_string(out, &uri);
            });
        }
        self.streams.forget_session(now, key);
        if let Joint::Open { vacant_since, .. } = &mut self.joint {
            *vacant_since = now;
        }
    }

    /// Notes what a request asks for on behalf of its session; what answers it here, if its program is not to see it.
    pub(crate) fn note_for_session(&mut self, session: SessionKey, request: &Request<'_>) -> Option<Here> {
        self.note_level(request);
        self.subscribe(session, request)
    }

    /// Notes what a session subscribes to. Every subscription is passed on, since a program takes the same one twice; that
    /// it is no longer wanted, only the last session may say.
    fn subscribe(&mut self, key: SessionKey, request: &Request<'_>) -> Option<Here> {
        let method = &*request.method;
        if method != SUBSCRIBE && method != UNSUBSCRIBE {
            return None;
        }
        let uri = request.params.raw.and_then(|params| json::member(params, "uri")).and_then(json::text);
        let (Some(uri), Some(session)) = (uri, self.streams.sessions.get_mut(&key)) else { return None };
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
        self.streams.sessions.iter().any(|(other, session)| *other != key && session.subscriptions.contains(uri))
    }

    /// Sends what a program says to no request to the sessions that it concerns.
    pub(crate) fn tell_sessions(
        &mut self,
        now: Instant,
        link: LinkKey,
        message: &[u8],
        notification: &Notification<'_>,
    ) {
        let method = &*notification.method;
        let hearers = self.hearers(notification);
        let is_for_all = hearers.is_none() && (FOR_ALL.contains(&method) || method == UPDATED);
        let sessions: Vec<SessionKey> = match &self.joint {
            Joint::Open { .. } if let Some(hearers) = hearers => hearers,
            Joint::Open { .. } if FOR_ALL.contains(&method) => self.streams.sessions.keys().copied().collect(),
            Joint::Open { .. } if method == UPDATED => self.subscribers(notification),
            Joint::Closed | Joint::Asked { .. } | Joint::Open { .. } => Vec::new(),
        };
        // Those outside a session hear of it on a subscription of theirs.
        if sessions.is_empty() && !(self.joins_eras() && is_for_all) {
            self.report(HttpServerEvent::Dropped { link, method: method.into() });
        }
        sessions.into_iter().for_each(|session| self.streams.push_unasked(now, session, message));
    }

    /// The sessions that are subscribed to what has changed: to the resource, or to one that it is a part of.
    fn subscribers(&self, updated: &Notification<'_>) -> Vec<SessionKey> {
        let uri = updated.params.raw.and_then(|params| json::member(params, "uri")).and_then(json::text);
        let uri = uri.unwrap_or_default();
        let is_part = |session: &Session| session.subscriptions.iter().any(|wanted| uri.starts_with(&**wanted));
        let are = |is: &dyn Fn(&Session) -> bool| -> Vec<SessionKey> {
            self.streams.sessions.iter().filter(|(_, session)| is(session)).map(|(key, _)| *key).collect()
        };
        let found = are(&is_part);
        // The program spells it in another way: better one that was not asked for than one that is missing.
        if found.is_empty() && !self.serves_owners_together() {
            are(&|session| !session.subscriptions.is_empty())
        } else {
            found
        }
    }
}

/// The answer to a session's handshake: the result of ours, in the older of two revisions. Of two sides that speak one
/// revision each, that is understood by both.
fn admission(id: &RequestId, revision: Option<&'static Dialect>, result: &[u8]) -> Vec<u8> {
    let mut edits = Vec::new();
    if let Some(raw) = json::member(result, VERSION)
        && let Some(theirs) = json::text(raw)
        && let Some(revision) = revision.filter(|revision| *version(revision) < *theirs)
    {
        let mut older = Vec::new();
        json::write_string(&mut older, version(revision));
        edits.extend(frame::span_of(result, raw).map(|span| (span, older)));
    }
    let mut answer = Vec::new();
    message::result(id, &splice(result, edits), &mut answer);
    answer
}

const VERSION: &str = "protocolVersion";

/// What our handshake says beside its revision. Without capabilities, since a question could reach the wrong person (D42).
const CLIENT: &str =
    concat!(r#","capabilities":{},"clientInfo":{"name":"rescind","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// Whether a notification of a client is none for a program that several share.
pub(crate) fn is_for_nobody(method: &str) -> bool {
    FOR_NOBODY.contains(&method)
}

/// The name of a revision on the wire.
fn version(revision: &'static Dialect) -> &'static str {
    revision.date.unwrap_or_default()
}
