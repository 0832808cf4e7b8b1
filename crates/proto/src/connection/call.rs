//! Our requests: made, cancelled, timed out.

use core::{fmt, num::NonZeroU64, time::Duration};

use super::{
    Connection, IncomingKey, OutgoingKey, ReceiptNotice, Settlement, Tag, Timer, params::ParamsScan, turn::What,
};
use crate::{
    bug::SeededBug,
    cause::{Cause, CauseCode},
    connection::incoming::Work,
    connection::outgoing::{CallClocks, Cancelling, Outgoing, ParentLink, Part, Standing},
    dialect::{Cancellers, Dialect},
    id::{OutgoingId, RequestId},
    json,
    link::{Clock, cancel},
    message,
    outbox::Ticket,
    receipt::{Outcome, Receipt},
    side::Side,
    slab::Key,
    time::Instant,
    timer_queue::{NEVER, TimerKey},
};

/// How one of our requests is to be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// Until the answer (D16).
    pub response_timeout: Limit,
    /// Until the answer, whatever progress arrives.
    pub total_timeout: Limit,
    /// Whether progress restarts the first; the engine asks for progress if the params do not.
    pub reset_on_progress: bool,
    /// The peer's request that this one serves: it is cancelled with it, and so has no more time (D26).
    pub parent: Option<IncomingKey>,
    /// When the time of a parent on another connection is over: it travels, and no clock of ours runs for it. Whoever
    /// stops the parent then cancels this request, too.
    pub deadline: Option<Instant>,
    /// When the caller made the request, if that was before now: its clocks run since then (D16).
    pub since: Option<Instant>,
    /// Whether its receipts are told even where [`ConnectionConfig::reports_cancels`](super::ConnectionConfig::reports_cancels) is off.
    pub is_watched: bool,
}

/// A clock's setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Limit {
    /// The connection's, or else the dialect's.
    #[default]
    Default,
    /// The clock does not run.
    Never,
    /// This long.
    After(Duration),
}

/// Why a request could not be made; nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Misuse {
    /// The connection has ended or is shutting down.
    Closed,
    /// [`ConnectionConfig::max_in_flight`](super::ConnectionConfig::max_in_flight) are in flight already.
    TooMany,
    /// The params carry the progress token of another request in flight (MCP-P00).
    TokenInUse,
    /// The dialect has no requests from the server (MCP-M03): what is wanted of the client is asked in a result.
    NoServerRequests,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the connection has ended",
            Self::TooMany => "too many requests are in flight",
            Self::TokenInUse => "the progress token belongs to another request in flight",
            Self::NoServerRequests => {
                "this revision has no requests from the server: answer with a result that asks for input, or speak an \
                 earlier revision"
            }
        })
    }
}

impl core::error::Error for Misuse {}

impl Connection {
    /// Makes a request. Its clocks run from now on, whatever the pipe does (D16).
    ///
    /// `params` are JSON, or empty for none. A child of a request that was cancelled or has ended settles at
    /// once as cancelled and is never sent; so does a request whose own time has run out already, as timed out.
    ///
    /// # Errors
    ///
    /// [`Misuse`], and nothing was queued.
    pub fn request(
        &mut self,
        now: Instant,
        method: &str,
        params: &[u8],
        options: &CallOptions,
    ) -> Result<OutgoingKey, Misuse> {
        self.now = now;
        if !self.phase.is_open() {
            return Err(Misuse::Closed);
        }
        if self.outgoing.waiting() >= self.config.max_in_flight {
            return Err(Misuse::TooMany);
        }
        let (peer, framing) = (self.peer(), self.config.framing);
        let look = ParamsScan::at(params, self.negotiation.of(peer, framing).turn.map(|turn| turn.session));
        let dialect = self.negotiation.of_request(peer, framing, look.meta);
        if self.config.role == Side::Server && dialect.no_server_requests.is_some() {
            return Err(Misuse::NoServerRequests);
        }
        let token = self.token_for(&look, dialect, options)?;
        if look.meta.is_some() && !self.negotiation.is_settled() && dialect != self.negotiation.of(peer, framing) {
            self.negotiation.saw_request(dialect);
        }
        let dialect = self.watch_own_handshake(method, params, dialect);

        let uncancellable = dialect.uncancellable(method).is_some();
        let is_question = self.is_question(dialect, method);
        let clocks = self.clocks_for(now, method, dialect, options);
        let left = (self.config.deadline_travels && dialect.meta && !uncancellable)
            .then(|| self.left(now, &clocks, options, is_question))
            .flatten()
            // Rounded up: a deadline must not be over before the caller's own clock is (D17).
            .map(|left| left.as_nanos().div_ceil(1_000_000));
        let id = self.outgoing.take_id();
        let injected = token.inject.then(|| self.fresh_token(id));
        let mut added = core::mem::take(&mut self.scratch);
        let addition = look.add(dialect, left, injected.as_ref(), &mut added);
        let frame = self.say(Tag::Plain, |out| {
            out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
            json::write_integer(out, id);
            out.extend_from_slice(br#","method":"#);
            json::write_string(out, method);
            if addition.is_some() || !params.is_empty() {
                out.extend_from_slice(br#","params":"#);
            }
            match addition {
                Some(addition) => addition.write(params, &added, out),
                None => out.extend_from_slice(params),
            }
            out.push(b'}');
        });
        added.clear();
        self.scratch = added;

        let turn = dialect.turn.filter(|_| look.session.is_some());
        let part = match (self.config.role, turn) {
            (Side::Client, Some(turn)) if method == turn.prompt => Part::Prompt,
            (Side::Server, Some(turn)) if method == turn.permission => Part::Permission,
            (Side::Client, _) if method == "initialize" => Part::Handshake,
            (Side::Client, _) if dialect.subscription.is_some_and(|form| form.method == method) => Part::Subscription,
            (Side::Client | Side::Server, _) => Part::Plain,
        };
        // Only `tasks/cancel` may cancel a task, which is not ours to send (MCP-C13, D38).
        let is_task = dialect.asks_for_tasks() && look.has_task && self.negotiation.takes_tasks(peer, method);
        if is_question {
            self.asking.hold(now);
        }
        let key = self.outgoing.insert(Outgoing {
            id,
            dialect,
            frame,
            started: options.since.unwrap_or(now).min(now),
            clocks,
            armed: TimerKey::NOT,
            token: token.own.or_else(|| injected.filter(|_| addition.is_some())).map(Box::new),
            kin: None,
            cancel: None,
            method: self.methods.intern(method),
            part,
            standing: Standing::Open,
            uncancellable: uncancellable || is_task,
            is_task,
            is_watched: options.is_watched,
            is_question,
        });
        match (part, look.session) {
            (Part::Prompt, Some(session)) => self.turns.add(session.into(), What::Prompt, key),
            (Part::Permission, Some(session)) => self.turns.add(session.into(), What::Permission, key),
            (_, _) => {}
        }
        let expired = self.outgoing.get(key).is_some_and(|call| call.due(&self.asked) <= now);
        if !expired {
            self.arm_call(key);
        }
        if let Some(parent) = options.parent {
            self.link_child(now, parent.0, key);
        }
        if expired {
            self.call_due(now, key);
        }
        self.finish(now);
        Ok(OutgoingKey(key))
    }

    /// Sends a notification. `params` are JSON, or empty for none.
    ///
    /// The notification that cancels a turn of ours is one of ours too: the turn's request waits on for its
    /// answer, and pending permission requests of the session are answered (D37).
    ///
    /// It is queued however much waits to be written: hold the caller back unless the connection
    /// [has room](Self::has_room).
    ///
    /// # Errors
    ///
    /// [`Misuse::Closed`].
    pub fn notify(&mut self, now: Instant, method: &str, params: &[u8]) -> Result<(), Misuse> {
        self.now = now;
        if self.phase.write_closed {
            return Err(Misuse::Closed);
        }
        if !self.notify_turn_cancel(now, method, params) {
            self.say(Tag::Plain, |out| message::raw_notification(method, params, out));
        }
        self.finish(now);
        Ok(())
    }

    /// Cancels one of our requests, which settles now (D4): what is learnt later is in the receipt (D28).
    ///
    /// The peer is told once, after the request was sent; of a request not begun nothing is sent at all
    /// (D14, D15). `false` if it is settled already.
    pub fn cancel(&mut self, now: Instant, key: OutgoingKey, cause: Cause) -> bool {
        self.now = now;
        let settled = self.cancel_call(now, key.0, cause, None);
        self.finish(now);
        settled
    }

    /// Cancels one of our requests, but lets its caller wait for the answer, no longer than `grace` (D4).
    pub fn cancel_and_wait(&mut self, now: Instant, key: OutgoingKey, cause: Cause, grace: Duration) -> bool {
        self.now = now;
        let cancelled = self.cancel_call(now, key.0, cause, Some(now + grace));
        self.finish(now);
        cancelled
    }

    /// From now on the receipts of this request are told, as with [`CallOptions::is_watched`].
    pub fn watch(&mut self, key: OutgoingKey) {
        if let Some(call) = self.outgoing.get_mut(key.0) {
            call.is_watched = true;
        }
    }

    /// Nobody waits for this request any more, and still it is not to be cancelled, neither now nor with its
    /// parent (D14, D26). Its own clocks go on.
    pub fn detach(&mut self, key: OutgoingKey) {
        self.unlink_child(key.0);
    }

    /// Learns from what opens and closes a session; gives the dialect of this request, which may be the one it tells.
    fn watch_own_handshake(&mut self, method: &str, params: &[u8], dialect: &'static Dialect) -> &'static Dialect {
        if self.config.role == Side::Client {
            if method == "initialize" {
                self.negotiation.saw_initialize(self.config.framing, Some(params));
                return self.spoken();
            }
            if dialect.last_request == Some(method) {
                self.negotiation.saw_last_request();
            }
        }
        dialect
    }

    fn token_for(&self, look: &ParamsScan<'_>, dialect: &Dialect, options: &CallOptions) -> Result<Token, Misuse> {
        let Some(raw) = look.token(dialect) else {
            return Ok(Token { own: None, inject: options.reset_on_progress && dialect.progress.is_some() });
        };
        let own = RequestId::from_json(raw).filter(|token| !token.is_null());
        match own {
            Some(token) if self.outgoing.by_token(&token).is_some() => Err(Misuse::TokenInUse),
            own => Ok(Token { own, inject: false }),
        }
    }

    /// A token that no active request has (MCP-P00).
    fn fresh_token(&self, id: i64) -> RequestId {
        let token = RequestId::integer(id);
        if self.outgoing.by_token(&token).is_none() {
            return token;
        }
        // A caller chose a number of ours; it can hardly choose this one too, and if it does it counts up.
        (id..)
            .map(|n| RequestId::string(&format!("rescind-{n}")))
            .find(|token| self.outgoing.by_token(token).is_none())
            .unwrap_or(token)
    }

    fn clocks_for(&self, now: Instant, method: &str, dialect: &Dialect, options: &CallOptions) -> CallClocks {
        let defaults = self.config.clocks.unwrap_or(dialect.clocks);
        let is_clocked = defaults.run_for(method);
        let limit = |limit: Limit, default: Option<Duration>| match limit {
            Limit::Default => default.filter(|_| is_clocked),
            Limit::Never => None,
            Limit::After(limit) => Some(limit),
        };
        let response = limit(options.response_timeout, defaults.response);
        let total = limit(options.total_timeout, defaults.total);
        let since = options.since.unwrap_or(now).min(now);
        let waited = now.since(since);
        CallClocks {
            response: response.map_or(NEVER, |limit| self.asked.reading(now) + limit.saturating_sub(waited)),
            limit: response.map(|limit| {
                let nanoseconds = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
                NonZeroU64::new(nanoseconds).unwrap_or(NonZeroU64::MIN)
            }),
            is_reset: options.reset_on_progress,
            total: total.map_or(NEVER, |limit| since + limit),
        }
    }

    /// How long the request will be waited for whatever progress it makes, which is what travels (D17): by its own
    /// clocks, and by those of the request that it serves. A question inherits none of that: while it is open they stand
    /// still, and the end of what it serves is its end, too (D26, D49).
    fn left(&self, now: Instant, clocks: &CallClocks, options: &CallOptions, is_question: bool) -> Option<Duration> {
        let response =
            (clocks.response != NEVER && !clocks.is_reset).then(|| clocks.response.since(self.asked.reading(now)));
        let total = (clocks.total != NEVER).then(|| clocks.total.since(now));
        let parent = options.parent.and_then(|parent| self.remaining(now, parent));
        let elsewhere = options.deadline.map(|deadline| deadline.since(now));
        let inherited = parent.into_iter().chain(elsewhere).filter(|_| !is_question);
        response.into_iter().chain(total).chain(inherited).min()
    }

    /// Makes the request a child of the peer's request that it serves (D26).
    fn link_child(&mut self, now: Instant, parent: Key, key: Key) {
        match self.incoming.get(parent) {
            Some(request) if matches!(request.work, Work::Running) => {
                let older = self.incoming.set_child(parent, Some(key));
                if let Some(older) = older.and_then(|older| self.outgoing.kin_mut(older)) {
                    older.newer = Some(key);
                }
                if let Some(call) = self.outgoing.get_mut(key) {
                    call.kin = Some(Box::new(ParentLink { parent, older, newer: None }));
                }
                // The parent holds no slot while it waits.
                self.offer_next();
            }
            found => {
                let root = found.and_then(|request| request.stop.as_ref()).map(|stop| stop.cause.code);
                self.cancel_call(now, key, parent_cause(root), None);
            }
        }
    }

    /// Takes the request out of its parent's children.
    pub(super) fn unlink_child(&mut self, key: Key) {
        let Some(kin) = self.outgoing.get_mut(key).and_then(|call| call.kin.take()) else { return };
        let ParentLink { parent, older, newer } = *kin;
        if let Some(newer) = newer.and_then(|newer| self.outgoing.kin_mut(newer)) {
            newer.older = older;
        } else {
            self.incoming.set_child(parent, older);
        }
        if let Some(older) = older.and_then(|older| self.outgoing.kin_mut(older)) {
            older.newer = newer;
        }
    }

    /// The peer's request has ended or is to: so are those of ours that serve it (D26).
    pub(super) fn cancel_children(&mut self, now: Instant, parent: Key, root: Option<CauseCode>) {
        while let Some(child) = self.incoming.get(parent).and_then(|request| request.child) {
            self.cancel_call(now, child, parent_cause(root), None);
            // Whatever became of it, it is nobody's child now.
            self.unlink_child(child);
        }
    }

    /// Cancels everything of ours that is in flight.
    pub(super) fn cancel_all(&mut self, now: Instant, code: CauseCode) {
        for key in self.outgoing.keys() {
            self.cancel_call(now, key, Cause::new(code), None);
        }
    }

    /// Cancels a request; its caller is told now, or waits for the answer until `wait`.
    pub(super) fn cancel_call(&mut self, now: Instant, key: Key, cause: Cause, wait: Option<Instant>) -> bool {
        let how = Settlement::Cancelled(cause.clone());
        self.end_call(now, key, cause, how, wait)
    }

    /// Ends a request before its answer: the peer is told if it may be, and has not been (D15).
    fn end_call(&mut self, now: Instant, key: Key, cause: Cause, how: Settlement, wait: Option<Instant>) -> bool {
        let Some(call) = self.outgoing.get_mut(key).filter(|call| !call.is_settled()) else { return false };
        if let Some(cancel) = &mut call.cancel {
            // Asked for before: the first cause stays (D19).
            if let Some(wait) = wait {
                cancel.wait = cancel.wait.min(wait);
                self.arm_call(key);
            } else {
                let how = Settlement::Cancelled(cancel.receipt.cause.clone());
                self.settle_call(now, key, how);
                self.rest(now, key);
            }
            return true;
        }
        let frame = call.frame;
        let withdrawn = !self.config.has(SeededBug::CancelBeforeRequest) && self.outbox.withdraw(frame).is_some();
        let outcome = if withdrawn {
            Outcome::NeverSent
        } else if self.is_sendable(key) {
            Outcome::Asked
        } else {
            Outcome::NotSendable
        };
        let ticket = if outcome == Outcome::Asked { self.write_cancel(key, cause.wire_reason()) } else { None };
        let root = cause.code;
        if let Some(call) = self.outgoing.get_mut(key) {
            let receipt = Receipt { cause, asked: now, written: None, outcome };
            call.cancel = Some(Box::new(Cancelling { receipt, frame: ticket, wait: wait.unwrap_or(NEVER) }));
        }
        self.report_receipt(key);
        if wait.is_none() || withdrawn {
            self.settle_call(now, key, how);
            self.rest(now, key);
        } else {
            self.arm_call(key);
        }
        if outcome == Outcome::Asked {
            self.cancel_turn_of(now, key, root);
        }
        true
    }

    /// Whether the protocol has a way to cancel this request now (D18, ACP-20).
    fn is_sendable(&self, key: Key) -> bool {
        let Some(call) = self.outgoing.get(key) else { return false };
        // A turn's cancel is older than every capability: each agent must understand it.
        !call.uncancellable
            && !self.phase.write_closed
            && (self.config.role == Side::Client || call.dialect.cancellers == Cancellers::Both) // MCP-M01
            && (call.part == Part::Prompt || self.negotiation.forbids_cancel(self.config.role, call.dialect).is_none())
    }

    fn write_cancel(&mut self, key: Key, reason: &str) -> Option<Ticket> {
        let call = self.outgoing.get(key)?;
        let (id, dialect, request) = (call.id, call.dialect, call.frame);
        let session = match dialect.turn {
            Some(turn) if call.part == Part::Prompt => {
                self.turns.session_of(key, What::Prompt).map(|session| (turn, session.to_vec()))
            }
            Some(_) | None => None,
        };
        let unsent = !self.outbox.has_begun(request);
        self.note(1, unsent);
        let ticket = if let Some((turn, session)) = session {
            self.say(Tag::Cancel(key), |out| {
                message::notification(turn.cancel, out, |out| {
                    json::write_string(out, turn.session);
                    out.push(b':');
                    out.extend_from_slice(&session);
                });
            })
        } else {
            let form = self.negotiation.cancel_form(self.peer(), dialect);
            self.say(Tag::Cancel(key), |out| cancel::write(form, &RequestId::integer(id), Some(reason), out))
        };
        Some(ticket)
    }

    /// The cancel has left, whole: from here on only the peer can tell more.
    pub(super) fn cancel_written(&mut self, now: Instant, key: Key) {
        let Some(call) = self.outgoing.get_mut(key) else { return };
        let settled = call.is_settled();
        let Some(cancel) = &mut call.cancel else { return };
        cancel.frame = None;
        let twice = cancel.receipt.written.replace(now).is_some();
        cancel.receipt.outcome = Outcome::Sent;
        self.counters.cancels_sent += 1;
        self.note(1, twice);
        self.report_receipt(key);
        if settled {
            self.retire(now, key);
        }
    }

    /// A clock of a request, or the end of its caller's patience.
    pub(super) fn call_due(&mut self, now: Instant, key: Key) {
        let Some(call) = self.outgoing.get_mut(key) else { return };
        call.armed = TimerKey::NOT;
        if call.due(&self.asked) > now {
            return self.arm_call(key);
        }
        if call.cancel.is_some() {
            // A cancel that was asked for before wins over the clock (D19).
            self.cancel_call(now, key, Cause::new(CauseCode::Timeout), None);
            return;
        }
        let CallClocks { response, total, .. } = call.clocks;
        let (clock, after) = match call.clocks.limit() {
            Some(limit) if self.asked.due(response) <= total => (Clock::Response, limit),
            Some(_) | None => (Clock::Total, total.since(call.started)),
        };
        self.end_call(now, key, Cause::new(CauseCode::Timeout), Settlement::TimedOut { clock, after }, None);
    }

    pub(super) fn arm_call(&mut self, key: Key) {
        let Self { outgoing, asked, timers, .. } = self;
        let waiting = outgoing.waiting();
        let Some(call) = outgoing.get_mut(key).filter(|call| !call.is_settled()) else { return };
        let due = call.due(asked);
        if due < call.armed.at {
            timers.disarm(call.armed);
            call.armed = timers.arm(due, Timer::Call(key));
        }
        // While the peer has a question open, this clock is not due at all, and looked at again afterwards (D49).
        if call.clocks.response != NEVER && asked.is_held() {
            asked.park(key, waiting, |key| outgoing.get(key).is_some_and(|call| !call.is_settled()));
        }
    }

    /// Whether anybody hears what comes of this request's cancel.
    pub(super) const fn is_heard(&self, call: &Outgoing) -> bool {
        call.is_watched || self.config.reports_cancels
    }

    pub(super) fn report_receipt(&mut self, key: Key) {
        let Some(call) = self.outgoing.get(key) else { return };
        let Some(cancel) = call.cancel.as_ref().filter(|_| self.is_heard(call)) else {
            return;
        };
        let notice = ReceiptNotice {
            request: OutgoingKey(key),
            id: OutgoingId(RequestId::integer(call.id)),
            method: self.methods.name(call.method).into(),
            receipt: cancel.receipt.clone(),
        };
        self.tell(super::ConnectionEvent::Receipt(Box::new(notice)));
    }
}

/// The progress token of a request that is being made.
struct Token {
    /// The caller's.
    own: Option<RequestId>,
    /// One of ours is to be added.
    inject: bool,
}

fn parent_cause(root: Option<CauseCode>) -> Cause {
    root.map_or_else(|| Cause::new(CauseCode::Parent), Cause::parent)
}
