//! The turns of ACP sessions (D37, ACP-08).
//!
//! A turn is one request, `session/prompt`. It is cancelled by a notification
//! of its own that names the session, never by both; and whoever writes that
//! notification owes an answer, "cancelled", to every permission request of
//! the session, those included that cross it on the way.

use super::{Connection, stop::By};
use crate::{
    cause::{Cause, CauseCode},
    connection::incoming::{ResponseState, Stop},
    dialect::Dialect,
    id::RequestId,
    json,
    link::Verdict,
    side::Side,
    slab::Key,
    time::Instant,
    timer_queue::NEVER,
};

/// The requests of sessions, on both sides; short, for sessions have one turn at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    list: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    /// As it stood on the wire.
    session: Box<[u8]>,
    what: What,
    key: Key,
}

/// What a request is to its turn. The client's prompts are ours if we are the client, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum What {
    Prompt,
    Permission,
}

impl Turns {
    pub(super) const fn new() -> Self {
        Self { list: Vec::new() }
    }

    pub(super) fn add(&mut self, session: Box<[u8]>, what: What, key: Key) {
        self.list.push(Entry { session, what, key });
    }

    pub(super) fn remove(&mut self, key: Key, what: What) {
        if let Some(place) = self.list.iter().position(|entry| entry.key == key && entry.what == what) {
            self.list.remove(place);
        }
    }

    pub(super) fn remove_incoming(&mut self, role: Side, key: Key) {
        self.remove(key, if role == Side::Client { What::Permission } else { What::Prompt });
    }

    pub(super) fn session_of(&self, key: Key, what: What) -> Option<&[u8]> {
        self.list.iter().find(|entry| entry.key == key && entry.what == what).map(|entry| &*entry.session)
    }

    /// The requests of a session, oldest first.
    fn of(&self, session: &[u8], what: What) -> Vec<Key> {
        let same = |entry: &&Entry| entry.what == what && is_same(&entry.session, session);
        self.list.iter().filter(same).map(|entry| entry.key).collect()
    }

    pub(super) const fn len(&self) -> usize {
        self.list.len()
    }

    /// Feeds sessions into a hasher; which request belongs to which shows in the order.
    pub(super) fn hash_state(&self, state: &mut impl core::hash::Hasher) {
        use core::hash::Hash;
        for entry in &self.list {
            (&entry.session, entry.what).hash(state);
        }
    }
}

impl Connection {
    /// The session of a request of the peer that belongs to a turn.
    pub(super) fn turn_of_incoming(
        &self,
        dialect: &Dialect,
        method: &str,
        session: Option<&[u8]>,
    ) -> Option<(Box<[u8]>, What)> {
        let (turn, session) = (dialect.turn?, session?);
        match self.config.role {
            Side::Server if method == turn.prompt => Some((session.into(), What::Prompt)),
            Side::Client if method == turn.permission => Some((session.into(), What::Permission)),
            Side::Server | Side::Client => None,
        }
    }

    /// Cancels the turn of a session (its id as JSON) as if the client had sent the notification for it:
    /// for methods that end a session (ACP-10).
    pub fn stop_turn(&mut self, now: Instant, session: &[u8]) {
        self.now = now;
        if self.config.role == Side::Server {
            self.end_turn(now, session);
        }
        self.finish(now);
    }

    /// The client cancels a turn.
    pub(super) fn take_turn_cancel(&mut self, now: Instant, session: Option<&[u8]>) {
        if self.config.role == Side::Client {
            return;
        }
        self.counters.cancels_received += 1;
        let Some(session) = session else {
            return self.report_cancel(None, None, None, Verdict::Malformed);
        };
        if !self.end_turn(now, session) {
            self.report_cancel(None, None, None, Verdict::Unknown);
        }
    }

    /// Cancels the prompt of a session, and what we asked the client for it; `false` if there is no prompt.
    fn end_turn(&mut self, now: Instant, session: &[u8]) -> bool {
        let prompts = self.turns.of(session, What::Prompt);
        let found = !prompts.is_empty();
        for key in prompts {
            let Some(request) = self.incoming.get(key) else { continue };
            let id = request.id.0.clone();
            let method = Some(request.method);
            let verdict = self.stop_request(now, key, Cause::new(CauseCode::Caller), By::Peer);
            self.report_cancel(Some(id), method, None, verdict);
        }
        for key in self.turns.of(session, What::Permission) {
            self.cancel_call(now, key, Cause::parent(CauseCode::Caller), None);
        }
        found
    }

    /// We wrote the cancel of a turn: pending permission requests of its session are answered (ACP-08).
    pub(super) fn cancel_turn_of(&mut self, now: Instant, prompt: Key, root: CauseCode) {
        if let Some(session) = self.turns.session_of(prompt, What::Prompt) {
            let session = session.to_vec();
            self.cancel_permissions(now, &session, root);
        }
    }

    fn cancel_permissions(&mut self, now: Instant, session: &[u8], root: CauseCode) {
        if self.config.role == Side::Server {
            return;
        }
        for key in self.turns.of(session, What::Permission) {
            self.cancel_permission(now, key, root);
        }
    }

    /// Answers a permission request with the outcome "cancelled", and stops its handler.
    fn cancel_permission(&mut self, now: Instant, key: Key, root: CauseCode) {
        let Some(request) = self.incoming.get_mut(key).filter(|request| request.response == ResponseState::Nothing)
        else {
            return;
        };
        if !request.has_started() {
            // The agent learns the same as from its own cancel: the method's own result.
            self.stop_request(now, key, Cause::parent(root), By::Peer);
            return;
        }
        let cause = Cause::parent(root);
        request
            .stop
            .get_or_insert_with(|| Box::new(Stop { cause: cause.clone(), asked: now, by_peer: false, refused: true }))
            .by_peer = true;
        self.answer_cancelled(key);
        self.stop_request(now, key, cause, By::Us);
    }

    /// A permission request that crossed our cancel of its turn is answered at once: the turn is over.
    pub(super) fn stop_if_turn_is_over(&mut self, now: Instant, key: Key) -> bool {
        if self.config.role == Side::Server {
            return false;
        }
        let Some(session) = self.turns.session_of(key, What::Permission) else { return false };
        let prompts = self.turns.of(session, What::Prompt);
        let cancelled = |key: &Key| self.outgoing.get(*key).is_some_and(|call| call.cancel.is_some());
        if prompts.is_empty() || !prompts.iter().all(cancelled) {
            return false;
        }
        let root = prompts.last().and_then(|key| self.outgoing.get(*key)?.cancel.as_ref());
        let root = root.map_or(CauseCode::Caller, |cancel| cancel.receipt.cause.code);
        self.stop_request(now, key, Cause::parent(root), By::Peer);
        true
    }

    /// The caller cancels a turn by hand. Its request waits on for the answer; of one that was not sent
    /// nothing is, and the notification of one that is in flight counts as its cancel.
    ///
    /// `true` if nothing more is to be written.
    pub(super) fn notify_turn_cancel(&mut self, now: Instant, method: &str, params: &[u8]) -> bool {
        let Some(turn) = self.spoken().turn.filter(|turn| turn.cancel == method) else { return false };
        let Some(session) = json::member(params, turn.session) else { return false };
        if self.config.role == Side::Server {
            return false;
        }
        let mut written = false;
        for key in self.turns.of(session, What::Prompt) {
            let pending = self.outgoing.get(key).is_some_and(|call| !call.is_settled() && call.cancel.is_none());
            if pending && !written {
                written = self.cancel_call(now, key, Cause::new(CauseCode::Caller), Some(NEVER));
            }
        }
        self.cancel_permissions(now, session, CauseCode::Caller);
        written
    }
}

fn is_same(a: &[u8], b: &[u8]) -> bool {
    a == b || matches!((RequestId::from_json(a), RequestId::from_json(b)), (Some(a), Some(b)) if a == b)
}
