//! What sessions share that share a program (`Sessions::SharedLink`): its handshake, what it says to all of them, and who
//! has subscribed to what.
//!
//! A handshake on a shared link is a request in flight that its program never sees: it waits for the machine's own
//! handshake, and is answered with a copy of that result through the same door as every answer. So a client that leaves
//! meanwhile needs no code of its own. The end of a session is `StreamClosed` for each of its requests.
//!
//! Also the end of a program is not that of its sessions. The next link is there at once, so every session has one at every
//! moment, and what comes meanwhile waits in it as it would for a program that takes nothing. Until that program has shaken
//! hands it is given only what is urgent. So there is no second place where requests wait.

use bytes::Bytes;
use http::StatusCode;
use rescind_proto::{
    dialect::{Dialect, mcp},
    error_code,
    frame::{self, Notification, Response, ResponseBody},
    id::RequestId,
    json, message,
    time::Instant,
};

use super::{
    HttpServer, HttpServerConfig, LinkInput, LinkKey, SessionKey,
    calls::Way,
    door::Refusal,
    here::Later,
    link::{SET_LEVEL, Urgency},
    opening::Opening,
    posted::{line, splice, text},
    question::About,
    streams::{HANDSHAKE_STREAM, SUBSCRIBE, Session, UNSUBSCRIBE},
};

const UPDATED: &str = "notifications/resources/updated";

/// What a program says to whoever listens.
const FOR_ALL: [&str; 4] = [
    "notifications/message",
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
];

/// What a client says of its own handshake, or of questions that its program cannot ask it.
const FOR_NOBODY: [&str; 4] = [
    "notifications/initialized",
    "notifications/roots/list_changed",
    "notifications/progress",
    "notifications/tasks/status",
];

const VERSION: &str = "protocolVersion";

/// What our handshake says beside its revision. Without capabilities, since a question could reach the wrong person (D42).
const CLIENT: &str =
    concat!(r#","capabilities":{},"clientInfo":{"name":"rescind","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// Whether a request asks for something that is noted for its session.
pub(crate) fn is_noted(method: &str) -> bool {
    [SUBSCRIBE, UNSUBSCRIBE, SET_LEVEL].contains(&method)
}

/// Whether a notification of a client is none for a program that several share.
pub(crate) fn is_for_nobody(method: &str) -> bool {
    FOR_NOBODY.contains(&method)
}

/// Checks that a program which several clients share may be sent a notification of one of them: what an unknown one does
/// there, and to whom, cannot be known (D42).
pub(crate) fn check_notification(config: &HttpServerConfig, dialect: &Dialect, method: &str) -> Result<(), Refusal> {
    if method == dialect.cancel.method || is_for_nobody(method) || config.passes_notification(method) {
        return Ok(());
    }
    let text = "several clients share this server, and this notification is not one that it may be sent";
    Err(Refusal::new(StatusCode::BAD_REQUEST, error_code::METHOD_NOT_FOUND, text))
}

/// Writes the params of our handshake.
pub(crate) fn greet(out: &mut Vec<u8>) {
    out.extend_from_slice(br#""protocolVersion":"#);
    json::write_string(out, version(&mcp::LATEST_LEGACY));
    out.extend_from_slice(CLIENT.as_bytes());
}

/// The answer to a session's handshake with the result of ours.
fn welcome(id: &RequestId, revision: Option<&'static Dialect>, result: &[u8]) -> Vec<u8> {
    let mut edits = Vec::new();
    // Of two sides that speak one revision each, the older is understood by both.
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

/// The name of a revision on the wire.
fn version(revision: &'static Dialect) -> &'static str {
    revision.date.unwrap_or_default()
}

impl HttpServer {
    /// Answers a session's handshake with what the program has said to ours, once it has.
    pub(crate) fn join(&mut self, key: LinkKey, opening: Opening<'_>) {
        let asked = opening.request.params.raw.and_then(|params| json::member(params, VERSION)).and_then(json::text);
        let revision = asked.and_then(|asked| mcp::by_date(&asked)).filter(|revision| !revision.stateless);
        let Some(link) = self.programs.links.get_mut(&key) else { return };
        let (id, _) = opening.enter(link, Way::Joining(revision));
        if let Some(result) = &link.greeting {
            self.later.push(Later::Answer(key, welcome(&id, revision, result)));
        }
    }

    /// Takes in the answer to our handshake.
    pub(crate) fn handle_greeting(&mut self, now: Instant, key: LinkKey, message: &[u8], response: &Response<'_>) {
        let ResponseBody::Result(result) = response.body else {
            self.answer_waiting(now, key, |id, out| {
                out.extend_from_slice(&splice(message, vec![(response.id_span.clone(), text(id))]));
            });
            return self.abandon_joint(now, key);
        };
        let Some(About::Handshake(former)) = self.programs.take_question(key) else { return };
        if let Some(link) = self.programs.links.get_mut(&key) {
            (link.greeting, link.idle_since) = (Some(Bytes::copy_from_slice(result)), now);
        }
        let mut initialized = Vec::new();
        message::raw_notification("notifications/initialized", b"", &mut initialized);
        self.programs.push(key, Urgency::Urgent, LinkInput::Message(line(&initialized, Vec::new())));
        if let Some(former) = former {
            self.go_on_with(now, key, &former, result);
        }
        for (id, way) in self.in_flight_on(key, |call| (call.link_id.clone(), call.way)) {
            if let Way::Joining(revision) = way {
                self.handle_message(now, key, &welcome(&id, revision, result));
            }
        }
    }

    /// Has sessions go on with a program that was started again. If its handshake has another result than the one before,
    /// they end.
    fn go_on_with(&mut self, now: Instant, key: LinkKey, former: &[u8], result: &[u8]) {
        let is_another =
            [VERSION, "capabilities"].iter().any(|name| json::member(former, name) != json::member(result, name));
        if !is_another {
            return self.programs.replay(key, &self.streams.subscribed());
        }
        let is_joining = |session: &Session| {
            let stream = session.streams.get(&HANDSHAKE_STREAM).and_then(|stream| self.streams.streams.get(stream));
            stream.is_some_and(|stream| !stream.calls.is_empty())
        };
        for session in self.streams.sessions_that(|session| !is_joining(session)) {
            self.answer_session(now, session, key);
            self.end_session(now, session);
        }
    }

    /// Answers what a session waits for from a program that it cannot go on with.
    fn answer_session(&mut self, now: Instant, session: SessionKey, key: LinkKey) {
        let waiting = self.in_flight_on(key, |call| (call.session, call.link_id.clone(), call.way));
        for (_, id, way) in waiting.into_iter().filter(|(of, ..)| *of == Some(session)) {
            if let (Way::Queued(number), Some(link)) = (way, self.programs.links.get_mut(&key)) {
                link.withdraw(number);
            }
            let words = "the server was started again, and is not what it was; send initialize for a new session";
            let mut answer = Vec::new();
            message::error(Some(&id), error_code::UPSTREAM_GONE, words, None, &mut answer);
            self.handle_message(now, key, &answer);
        }
    }

    /// Ends a program that sessions share, since it does not shake hands. What waited for it was answered.
    pub(crate) fn abandon_joint(&mut self, now: Instant, key: LinkKey) {
        self.programs.push(key, Urgency::Ordinary, LinkInput::End);
        self.restart_joint(now, key);
    }

    /// The program that sessions share is gone or of no use, and what waited for it was answered. Sessions go on with
    /// another; where there is none, the next client has it started.
    pub(crate) fn restart_joint(&mut self, now: Instant, ended: LinkKey) {
        self.programs.back_off.end(now);
        if self.is_draining || self.streams.sessions.is_empty() {
            return self.close_link(now, ended);
        }
        self.streams.settle_fates(ended);
        let next = self.programs.replace_joint(now, ended, self.streams.allocate_key());
        self.streams.move_sessions(now, ended, next);
    }

    /// Ends a session that shares its program with others: what it has in flight is cancelled, and nothing else.
    pub(crate) fn leave_joint(&mut self, now: Instant, key: SessionKey) {
        let Some(session) = self.streams.sessions.get(&key) else { return };
        let link = session.link;
        let calls: Vec<_> = self.streams.of(session).flat_map(|stream| stream.calls.iter().copied()).collect();
        calls.into_iter().for_each(|call| self.retract(now, link, call));
        for uri in self.streams.alone_subscribed(key) {
            self.programs.ask_about(link, UNSUBSCRIBE, &uri);
        }
        self.streams.forget_session(now, key);
        if let Some(link) = self.programs.links.get_mut(&link) {
            link.idle_since = now;
        }
    }

    /// Sends what a program says to no request to the sessions that it concerns.
    pub(crate) fn tell_sessions(
        &mut self,
        now: Instant,
        key: LinkKey,
        message: &[u8],
        notification: &Notification<'_>,
    ) {
        let method = &*notification.method;
        let whose = self.task_owners.whose(notification);
        let is_for_all = whose.is_none() && (FOR_ALL.contains(&method) || method == UPDATED);
        let has_greeted = self.programs.links.get(&key).is_some_and(|link| link.greeting.is_some());
        let sessions = match whose {
            _ if !has_greeted => Vec::new(),
            Some(owner) => self.streams.sessions_that(|session| owner.is_some() && session.owner.as_ref() == owner),
            None if method == UPDATED => self.streams.subscribers(notification, !self.config.serves_owners_together()),
            None => self.streams.sessions_that(|_| is_for_all),
        };
        // Those outside a session hear of it on a subscription of theirs.
        if sessions.is_empty() && !(self.config.joins_eras() && is_for_all) {
            self.programs.drop_message(key, method);
        }
        sessions.into_iter().for_each(|session| self.streams.push_unasked(now, session, message));
    }
}
