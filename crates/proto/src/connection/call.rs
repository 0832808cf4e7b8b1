//! Our requests and notifications, as they are made (D16).

use core::fmt;

use super::{
    Connection, IncomingKey, OutgoingKey,
    config::Limit,
    link::{Link, Tag},
    outgoing::{Calls, Outgoing, Rare, Standing},
    params::ParamsInsert,
    part::Part,
    turn,
};
use crate::{
    dialect::negotiation::Negotiation, frame::Params, id::RequestId, json, message, outbox::Ticket, side::Side,
    time::Instant, timer_queue::TimerKey,
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
    /// When the time of a parent on another connection is over: it travels, and no clock of ours runs for it. The driver
    /// that stops the parent then cancels this request, too.
    pub deadline: Option<Instant>,
    /// When the caller made the request, if that was before now: its clocks run since then (D16).
    pub since: Option<Instant>,
    /// Whether its receipts are reported even where
    /// [`ConnectionConfig::reports_cancels`](super::ConnectionConfig::reports_cancels) is off.
    pub is_watched: bool,
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
        let Self { incoming, outgoing, turns, link, .. } = self;
        link.now = now;
        if !link.phase.is_open() {
            return Err(Misuse::Closed);
        }
        if outgoing.waiting >= link.config.max_in_flight {
            return Err(Misuse::TooMany);
        }
        let params = Params::of(params);
        let dialect = link.negotiation.of_request(link.peer(), link.config.framing, Negotiation::named(params.meta));
        if link.role() == Side::Server && dialect.no_server_requests.is_some() {
            return Err(Misuse::NoServerRequests);
        }
        let token = dialect.progress.and_then(|form| form.asked_raw(&params));
        let token = token.map(|raw| RequestId::from_json(raw).filter(|token| !token.is_null()));
        if token.iter().flatten().any(|token| outgoing.by_token(token, |_| true).is_some()) {
            return Err(Misuse::TokenInUse);
        }
        let is_handshake = link.negotiation.is_handshake(link.role(), link.config.framing, method);
        let part = Part::of(dialect, link.role(), method, is_handshake, params.session_id.is_some());
        let dialect = link.observe_request(link.role(), method, &params);

        let id = outgoing.next_id;
        outgoing.next_id += 1;
        let wants_token = options.reset_on_progress && dialect.progress.is_some() && token.is_none();
        let added = wants_token.then(|| unused_token(outgoing, id));
        // Only `tasks/cancel` may cancel a task, which is not ours to send (MCP-C13, D38).
        let is_task = link.negotiation.asks_for_task(link.role(), dialect, method, &params);
        let is_uncancellable = dialect.uncancellable(method).is_some();
        let is_question = link.is_question(dialect, method);
        let clocks = link.clocks_for(method, dialect, options);
        let parent = options.parent.and_then(|parent| incoming.get(parent.0));
        let time_left = (link.config.deadline_travels && dialect.meta && !is_uncancellable)
            .then(|| link.time_left(&clocks, options, parent, is_question))
            .flatten();
        // Rounded up: a deadline must not be over before the caller's own clock is (D17).
        let millis = time_left.map(|left| left.as_nanos().div_ceil(1_000_000));
        let insert = ParamsInsert::new(&params, dialect, millis, added.as_ref());
        let frame = link.write_request(id, method, params.raw.unwrap_or_default(), insert.as_ref());
        let is_added = insert.is_some();
        if is_question {
            link.our_questions.hold(now);
        }
        let session = params.session_id.filter(|_| part.has_session());
        let token = token.flatten().or_else(|| added.filter(|_| is_added));
        let is_rare = session.is_some() || token.is_some();
        let key = outgoing.insert(Outgoing {
            id,
            dialect,
            frame,
            started: options.since.unwrap_or(now).min(now),
            clocks,
            timer: TimerKey::NOT,
            rare: is_rare.then(|| Box::new(Rare { session: session.map(Into::into), token, ..Rare::default() })),
            cancel: None,
            method: link.methods.intern(method),
            part,
            standing: Standing::Open,
            is_uncancellable: is_uncancellable || is_task,
            is_task,
            is_reset: options.reset_on_progress,
            has_left: false,
            is_cancelled_with_session: false,
            is_watched: options.is_watched,
            is_question,
        });
        if let Some(session) = session {
            turns.insert(&turn::name(part, session), key);
        }
        let has_expired = outgoing.get(key).is_some_and(|call| call.due(&link.their_questions) <= now);
        if !has_expired {
            link.arm_call(outgoing, key);
        }
        if let Some(parent) = options.parent {
            self.link_child(parent.0, key);
        }
        // Its parent may have ended it already.
        if has_expired && self.outgoing.open(key).is_some() {
            self.handle_call_timer(key);
        }
        self.finish();
        Ok(OutgoingKey(key))
    }

    /// Sends a notification. `params` are JSON, or empty for none.
    ///
    /// The notification that cancels a turn of ours is one of ours too: the turn's request waits on for its
    /// answer, and pending cards of the session, permission requests and elicitations, are answered (D37).
    ///
    /// It is queued however much waits to be written: hold the caller back unless the connection
    /// [has room](Self::has_room).
    ///
    /// # Errors
    ///
    /// [`Misuse::Closed`].
    pub fn notify(&mut self, now: Instant, method: &str, params: &[u8]) -> Result<(), Misuse> {
        if self.link.phase.write_closed {
            return Err(Misuse::Closed);
        }
        self.step(now, |this| {
            if !this.notify_turn_cancel(method, params) {
                this.link.queue(Tag::Plain, |out| message::raw_notification(method, params, out));
            }
        });
        Ok(())
    }

    /// Reports the receipts of this request from now on, as with [`CallOptions::is_watched`].
    pub fn watch(&mut self, key: OutgoingKey) {
        if let Some(call) = self.outgoing.get_mut(key.0) {
            call.is_watched = true;
        }
    }

    /// Detaches a request from its parent: its caller does not wait any more, and still it is not to be cancelled, neither
    /// now nor with its parent (D14, D26). Its own clocks go on.
    pub fn detach(&mut self, key: OutgoingKey) {
        self.unlink_child(key.0);
    }
}

impl Link {
    /// Queues a request.
    fn write_request(&mut self, id: i64, method: &str, params: &[u8], insert: Option<&ParamsInsert<'_>>) -> Ticket {
        self.queue(Tag::Plain, |out| {
            out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
            json::write_integer(out, id);
            out.extend_from_slice(br#","method":"#);
            json::write_string(out, method);
            if insert.is_some() || !params.is_empty() {
                out.extend_from_slice(br#","params":"#);
            }
            match insert {
                Some(insert) => insert.write(params, out),
                None => out.extend_from_slice(params),
            }
            out.push(b'}');
        })
    }
}

/// A token that no active request has (MCP-P00).
fn unused_token(outgoing: &Calls, id: i64) -> RequestId {
    let own = RequestId::integer(id);
    // A caller may choose a number of ours; it can hardly choose these too, and if it does they count up.
    let others = (id..).map(|number| RequestId::string(&format!("rescind-{number}")));
    let mut tokens = core::iter::once(own.clone()).chain(others);
    tokens.find(|token| outgoing.by_token(token, |_| true).is_none()).unwrap_or(own)
}
