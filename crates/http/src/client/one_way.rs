//! Messages that have no answer: notifications, cancels among them, and answers to the server's questions.

use bytes::Bytes;
use http::{StatusCode, response::Parts};
use rescind_proto::{id::RequestId, time::Instant};

use super::{
    FetchKey, Held, HttpClient, HttpClientNotice, StreamKey,
    fetch::{Fetch, OneWay, OneWayKind, Phase, Role},
    session::SessionState,
    stream::CallState,
    words,
};

/// When a cancel that did not arrive may be sent again; anything else waits in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// At once, the first time: the connection broke, and most often it was one that had been kept, and that the server
    /// closed just then. A new one will do, also when the client is leaving.
    AtOnce,
    /// When the server has had some time.
    Later,
}

impl HttpClient {
    /// A message in the session, of those to whom belongs what is said now.
    pub(crate) fn one_way(&self, kind: OneWayKind, body: Bytes, method: &str) -> OneWay {
        let credentials = self.credentials.clone();
        OneWay { kind, body, method: method.into(), stateless: None, credentials, attempts: 0, has_left: false }
    }

    /// Sends what has no answer now, or as soon as the session takes messages.
    pub(crate) fn send_one_way(&mut self, now: Instant, one_way: OneWay) {
        if self.unsent + one_way.body.len() > self.config.max_unsent && self.unsent > 0 {
            return self.dropped(&one_way.method, "the server takes in nothing now");
        }
        if one_way.stateless.is_some() {
            self.start_one_way(one_way);
            return;
        }
        if matches!(self.session.state, SessionState::Lost) {
            self.reopen(now);
        }
        if self.is_gated() {
            let place = self.allocate_key();
            self.unsent += one_way.body.len();
            self.held.insert(place, Held::OneWay(one_way));
        } else {
            self.start_one_way(one_way);
        }
    }

    pub(crate) fn start_one_way(&mut self, one_way: OneWay) -> FetchKey {
        let ends_handshake = one_way.kind == OneWayKind::Initialized;
        if ends_handshake {
            self.session.initialized = Some(one_way.body.clone());
        }
        let role = Role::OneWay(Box::new(one_way));
        let key = self.start(self.fetch(role, Phase::Queued));
        if ends_handshake && matches!(self.session.state, SessionState::Open) {
            self.session.state = SessionState::Greeting(key);
        }
        key
    }

    /// Counts what is to be sent, until [`uncount_one_way`](Self::uncount_one_way).
    pub(crate) fn count_one_way(&mut self, one_way: &OneWay) {
        let bytes = one_way.body.len();
        match one_way.kind {
            OneWayKind::Answer => {
                self.owed.answers += 1;
                self.owed.bytes += bytes;
            }
            OneWayKind::Cancel(..) => {
                self.cancels += 1;
                self.unsent += bytes;
            }
            OneWayKind::Initialized | OneWayKind::Other => self.unsent += bytes,
        }
    }

    /// What was counted was sent, or given up.
    pub(crate) fn uncount_one_way(&mut self, one_way: &OneWay) {
        let bytes = one_way.body.len();
        match one_way.kind {
            OneWayKind::Answer => {
                self.owed.answers -= 1;
                self.owed.bytes -= bytes;
            }
            OneWayKind::Cancel(..) => {
                self.cancels -= 1;
                self.unsent -= bytes;
            }
            OneWayKind::Initialized | OneWayKind::Other => self.unsent -= bytes,
        }
    }

    /// Sends a cancel in the session, not before `due`.
    pub(crate) fn start_cancel(
        &mut self,
        stream: StreamKey,
        id: &RequestId,
        message: &[u8],
        method: &str,
        due: Option<Instant>,
    ) -> FetchKey {
        let kind = OneWayKind::Cancel(stream, id.clone());
        let body = Bytes::copy_from_slice(message);
        let one_way = self.one_way(kind, body, method);
        let phase = if due.is_some() { Phase::Waiting } else { Phase::Queued };
        let key = self.start(self.fetch(Role::OneWay(Box::new(one_way)), phase));
        self.arm_fetch(key, due);
        key
    }

    /// Sends the cancels that wait for a sign that the server has their request: there is one, or nothing more to wait for.
    pub(crate) fn release_cancels(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get(&key) else { return };
        let cancels = stream.waiting.iter().filter_map(|waiting| match waiting.state {
            CallState::Cancelled { cancel, .. } => cancel,
            CallState::InFlight | CallState::Answered { .. } => None,
        });
        for cancel in cancels.collect::<Vec<_>>() {
            self.release(cancel);
        }
    }

    /// Queues a fetch that waited for its timer.
    pub(crate) fn release(&mut self, key: FetchKey) {
        if let Some(fetch) = self.fetches.get_mut(&key).filter(|fetch| fetch.phase == Phase::Waiting) {
            fetch.phase = Phase::Queued;
            let queue = fetch.queue;
            self.queue_at(key, queue);
            self.arm_fetch(key, None);
        }
    }

    pub(crate) fn handle_one_way_head(&mut self, now: Instant, key: FetchKey, one_way: &OneWay, head: &Parts) {
        let session = self.fetches.get(&key).and_then(|fetch| fetch.session);
        let may_pass = head.status.is_server_error() || head.status == StatusCode::TOO_MANY_REQUESTS;
        if may_pass && one_way.is_harmless() {
            let Some(fetch) = self.abort(key) else { return };
            return self.retry_one_way(now, key, fetch, Retry::Later, &words::status(head.status));
        }
        self.ignore(now, key);
        if head.status.is_success() {
            self.session.has_worked |= session.is_some_and(|session| session == self.session.generation);
            return self.one_way_done(now, key, &one_way.kind, true);
        }
        if let Some(session) = session.filter(|_| head.status == StatusCode::NOT_FOUND)
            && self.handle_unknown_session(now, session)
        {
            if one_way.kind == OneWayKind::Other && one_way.attempts == 0 {
                let again = OneWay { attempts: 1, ..one_way.clone() };
                return self.send_one_way(now, again);
            }
            return self.one_way_done(now, key, &one_way.kind, false);
        }
        self.one_way_refused(now, key, one_way, &words::status(head.status));
    }

    pub(crate) fn one_way_refused(&mut self, now: Instant, key: FetchKey, one_way: &OneWay, why: &str) {
        self.notice(HttpClientNotice::NotAccepted { method: one_way.method.clone(), why: why.into() });
        self.one_way_done(now, key, &one_way.kind, false);
    }

    /// The server has answered what has no answer of its own, or will not.
    fn one_way_done(&mut self, now: Instant, key: FetchKey, kind: &OneWayKind, is_accepted: bool) {
        match kind {
            OneWayKind::Cancel(stream, id) => self.cancel_settled(now, *stream, id),
            OneWayKind::Initialized => self.handle_greeted(now, key, is_accepted),
            OneWayKind::Answer | OneWayKind::Other => {}
        }
    }

    /// Sends again what did not arrive with this fetch, which is over, if that does no harm.
    pub(crate) fn retry_one_way(&mut self, now: Instant, from: FetchKey, fetch: Fetch, retry: Retry, why: &str) {
        let Role::OneWay(one_way) = fetch.role else { return };
        let is_cancel = matches!(one_way.kind, OneWayKind::Cancel(..));
        let is_at_once = is_cancel && retry == Retry::AtOnce && one_way.attempts == 0;
        let was_written = matches!(fetch.phase, Phase::Written(_));
        let is_of_this_session = fetch.session.is_none_or(|session| session == self.session.generation);
        let may_repeat = !was_written || one_way.is_harmless();
        let has_tries = one_way.attempts < self.config.cancel_retries;
        let is_too_late = self.is_closing && !is_at_once;
        if !may_repeat || !has_tries || !is_of_this_session || is_too_late {
            if is_of_this_session {
                self.notice(HttpClientNotice::NotAccepted { method: one_way.method, why: why.into() });
            }
            return match one_way.kind {
                OneWayKind::Initialized => drop(self.open_gate(now, from)),
                OneWayKind::Cancel(stream, id) => self.cancel_settled(now, stream, &id),
                OneWayKind::Answer | OneWayKind::Other => {}
            };
        }
        let due = (!is_at_once).then(|| now + self.delay(one_way.attempts, None, self.next_key));
        let again = OneWay { attempts: one_way.attempts + 1, ..*one_way };
        let kind = again.kind.clone();
        let phase = if due.is_some() { Phase::Waiting } else { Phase::Queued };
        let to = self.start(self.fetch(Role::OneWay(Box::new(again)), phase));
        self.arm_fetch(to, due);
        self.move_one_way(from, to, &kind);
    }

    /// Another fetch carries a message without an answer now.
    pub(crate) fn move_one_way(&mut self, from: FetchKey, to: FetchKey, kind: &OneWayKind) {
        match kind {
            OneWayKind::Cancel(stream, _) => {
                for waiting in self.streams.get_mut(stream).into_iter().flat_map(|stream| &mut stream.waiting) {
                    if let CallState::Cancelled { cancel, .. } = &mut waiting.state
                        && *cancel == Some(from)
                    {
                        *cancel = Some(to);
                    }
                }
            }
            OneWayKind::Initialized if self.session.state == SessionState::Greeting(from) => {
                self.session.state = SessionState::Greeting(to);
            }
            OneWayKind::Initialized | OneWayKind::Answer | OneWayKind::Other => {}
        }
    }

    /// Lets messages pass although the end of the handshake was not accepted: perhaps the server takes them all the same.
    /// `false` if nothing waited for that.
    pub(crate) fn open_gate(&mut self, now: Instant, key: FetchKey) -> bool {
        if self.session.state != SessionState::Greeting(key) {
            return false;
        }
        self.session.state = SessionState::Open;
        self.release_held(now);
        true
    }
}
