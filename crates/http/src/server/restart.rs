//! A program of several clients that has ended by itself, and is started again: sessions go on with the next one.
//!
//! The next link is there at once, so every session has one at every moment, and what comes meanwhile waits in it as it
//! would for a program that takes nothing. Only its `Opened` is held back until the program may be started (`back_off`), and
//! until it has shaken hands it is given only what is urgent. So there is no second place where requests wait.

use std::collections::BTreeSet;

use bytes::Bytes;
use rescind_proto::{error_code, frame::Request, json, message, time::Instant};

use super::{
    HttpServer, HttpServerEvent, LinkKey, SessionKey,
    calls::Way,
    joint::{Joint, SET_LEVEL, SUBSCRIBE},
    link::LinkUse,
    streams::{HANDSHAKE_STREAM, Session},
    timers::Timer,
};

/// The longest log level that is kept, as JSON.
const LONGEST_LEVEL: usize = 64;

impl HttpServer {
    /// The program that sessions share is gone or of no use, and what waited for it was answered. Sessions go on with
    /// another; where there is none, the next client has it started.
    pub(crate) fn restart_joint(&mut self, now: Instant, ended: LinkKey) {
        self.starts.back_off.end(now);
        if self.is_draining || self.streams.sessions.is_empty() {
            return self.close_link(now, ended);
        }
        if let Some(link) = self.links.get_mut(&ended) {
            link.close();
        }
        self.streams.settle_fates(ended);
        let former = match core::mem::replace(&mut self.joint, Joint::Closed) {
            Joint::Closed => None,
            Joint::Asked { former, .. } => former,
            Joint::Open { result, .. } => Some(result),
        };
        let next = self.open_joint(now, former);
        self.streams.sessions.values_mut().for_each(|session| session.link = next);
        for stream in self.streams.streams.values_mut().filter(|stream| stream.link == ended && stream.is_resumable()) {
            stream.link = next;
        }
        self.streams.end_of_link(now, ended);
    }

    /// Sends a program that was started again what the one before it knew. If its handshake has another result, the sessions
    /// of the one before end.
    pub(crate) fn go_on_with(&mut self, now: Instant, link: LinkKey, former: Option<Bytes>, result: &[u8]) {
        let Some(former) = former else { return };
        let is_another = ["protocolVersion", "capabilities"]
            .iter()
            .any(|name| json::member(&former, name) != json::member(result, name));
        if is_another {
            let is_joining = |session: &Session| {
                let stream = session.streams.get(&HANDSHAKE_STREAM).and_then(|stream| self.streams.streams.get(stream));
                stream.is_some_and(|stream| !stream.calls.is_empty())
            };
            let open = self.streams.sessions.iter().filter(|(_, session)| !is_joining(session));
            for session in open.map(|(key, _)| *key).collect::<Vec<_>>() {
                self.answer_session(now, session, link);
                self.end_session(now, session);
            }
            return;
        }
        let wanted = self.streams.sessions.values().flat_map(|session| &session.subscriptions);
        for uri in wanted.cloned().collect::<BTreeSet<_>>() {
            self.ask_program(link, SUBSCRIBE, |out| {
                out.extend_from_slice(br#""uri":"#);
                json::write_string(out, &uri);
            });
        }
        if let Some(level) = self.log_level.clone() {
            self.ask_program(link, SET_LEVEL, |out| {
                out.extend_from_slice(br#""level":"#);
                out.extend_from_slice(&level);
            });
        }
    }

    /// Answers what a session waits for from a program that it cannot go on with.
    fn answer_session(&mut self, now: Instant, session: SessionKey, link: LinkKey) {
        let waiting = self.in_flight_on(link, |call| (call.session, call.link_id.clone(), call.way));
        for (_, id, way) in waiting.into_iter().filter(|(of, ..)| *of == Some(session)) {
            if let Way::Queued(number) = way
                && let Some(link) = self.links.get_mut(&link)
            {
                link.withdraw(number);
            }
            let words = "the server was started again, and is not what it was; send initialize for a new session";
            let mut answer = Vec::new();
            message::error(Some(&id), error_code::UPSTREAM_GONE, words, None, &mut answer);
            self.handle_message(now, link, &answer);
        }
    }

    /// Notes what a session asks for of the program as a whole.
    pub(crate) fn note_level(&mut self, request: &Request<'_>) {
        if request.method != SET_LEVEL {
            return;
        }
        let level = request.params.raw.and_then(|params| json::member(params, "level"));
        self.log_level = level.filter(|level| level.len() <= LONGEST_LEVEL).map(Bytes::copy_from_slice);
    }

    /// Has programs started that may be.
    pub(crate) fn wake_resting(&mut self, now: Instant) {
        while let Some(key) = self.starts.wake(now) {
            let Some(link) = self.links.get(&key) else { continue };
            let (serves, credentials) = (link.serves, link.credentials.clone());
            if serves == LinkUse::Sessions || self.shared.is_asked(key) {
                self.timers.arm(now, Timer::Ask(key));
            }
            self.report(HttpServerEvent::Opened { link: key, session: None, credentials, owner: None });
        }
    }
}
