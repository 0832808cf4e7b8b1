//! Two eras of MCP joined: a client of one reaches a server that knows only the other.
//!
//! The eras are the revisions that begin with `initialize`, and those in which every request says in `_meta` what it is
//! of (2026-07-28). A bridge stands on the server's side of a [relay](crate::relay): what the relay has for the server
//! goes through it, and so does what the server says. To the relay it is a server of whatever era a request is of (D2). To
//! the server it is a client of the one era that this server knows. So what the relay decides about a cancel holds for
//! both, and here each cancel gets the id that the server knows (D32), which is always the bridge's own (MCP-I02).
//!
//! Which era the server knows is learnt with the first message that depends on it: from its answer to the client's own
//! `initialize`, or to a `server/discover` of ours. What comes meanwhile is held, and a cancel of what is held ends it
//! here. A bridge that finds both sides of one era is [done](Bridge::is_done): what follows passes byte for byte (D33).
//!
//! It stands behind the relay and not within: a relay splices ids and else passes bytes, while bodies, handshakes and
//! subscriptions of two eras differ, and requests must wait for a greeting. In front of the relay, on the client's side,
//! ids, receipts and errors of the relay's own would have to be carried, too.
//!
//! - *One call at the server may be several of its client, and the other way round.* A question keeps its call in flight
//!   at the server while the client has none; a round for a server without sessions is a call that is not sent until
//!   everything was answered. So answer, progress and cancel need nothing new.
//! - *A question is for the only call that may ask.* A call that was cancelled counts for a minute from when its cancel was
//!   written: the server may have asked before it received that.
//! - *Its numbers are its own*, and count down from the largest number of 31 bits, which clients rarely have. But a bridge
//!   in front of another has just them: an answer under one that is not waited for is [`Carried::Unasked`], and never a
//!   message.
//! - *A server may end of being asked* (rmcp before 3). While nothing but the question has reached it, another takes its
//!   place, once ([`Bridge::ends_of_probe`]).
//! - *Its queue is bounded, and so is what is kept of tasks*, in number and in bytes.
//!
//! What one era has and the other has not:
//!
//! | | for a client of 2026-07-28 | for a client with a session |
//! | --- | --- | --- |
//! | handshake | `server/discover` is answered from the server's `initialize` | the reverse |
//! | `_meta` of a request | is taken off, `progressToken` and what is not of the protocol stays | is put on |
//! | results | get `resultType`, and those that can be cached a time of 0 | lose them |
//! | `subscriptions/listen` | is kept here; lists that change and resources are reported on it | is sent for what the client subscribes to |
//! | log messages | only while a request asks for them; the level is set for the server | as the level that was set |
//! | `ping`, `logging/setLevel` | have no such method | are answered here |
//! | a missing resource | -32602 | as it is |
//! | tasks | a call becomes one if its client takes tasks and its tool can be one | every tool can be one; what is answered at once is kept as one that has ended |
//! | questions of the server | the result of the call that may ask has them, if [one client](BridgeConfig::may_ask) can be asked; else they are refused (D42) | a result that asks for input becomes questions, and the answers another request |

mod asking;
mod calls;
mod config;
mod departing;
mod envelope;
mod following;
mod fulfilling;
mod greeting;
mod kind;
mod level;
mod listening;
mod moment;
mod proof;
mod rewrite;
mod task;
mod tasks_to_legacy;
mod tasks_to_modern;

use std::collections::VecDeque;

pub use config::BridgeConfig;

use crate::{
    dialect::{DISCOVER, Dialect, Discovered, mcp, negotiation::Negotiation},
    error_code,
    frame::{self, Frame, Notification, Request, Response, ResponseBody, ResponseId},
    hash::Seed,
    id::RequestId,
    json,
    link::Departure,
    message,
    outbox::Outbox,
    side::Side,
    time::Instant,
};
use asking::Asking;
use calls::{Asked, Asks, Call, Calls, Cancelled, Form, Style};
use departing::{Departs, cancelled_by};
use envelope::Envelope;
use following::Following;
use fulfilling::Fulfilling;
use kind::Kinds;
use level::Level;
use listening::Listening;
use task::{Step, TASK};
use tasks_to_legacy::TasksToLegacy;
use tasks_to_modern::TasksToModern;

/// What joins the two eras, for one link.
///
/// # Contract
///
/// Its driver is the relay; a program needs it only without one. It hands in whole messages and times, as to a
/// [`Relay`](crate::relay::Relay), and after each call, in this order:
///
/// 1. passes on what [`poll_said`](Self::poll_said) has for the client, until there is none, and learns there what has left
///    ([`Carried::Departed`]);
/// 2. writes [`pending`](Self::pending) to the server, and calls [`handle_written`](Self::handle_written) after each write
///    before anything else;
/// 3. drops the bridge once it [is done](Self::is_done): from then on bytes pass by;
/// 4. asks [`poll_timeout`](Self::poll_timeout) anew, and [`wants_input`](Self::wants_input) before it hands in the next
///    message of the client. Those of the server are always taken.
///
/// A message for which [`handle_message`](Self::handle_message) returns `false` was not one. If it names a request all the
/// same, that is over: [`handle_unreadable`](Self::handle_unreadable).
///
/// ```
/// use rescind_proto::{bridge::{Bridge, BridgeConfig, Carried}, side::Side, time::Instant};
///
/// let config = BridgeConfig { serves_modern: true, ..BridgeConfig::default() };
/// let (mut bridge, now) = (Bridge::new(config, 0), Instant::ORIGIN);
/// // Hands in a message; what the client and what the server is sent then.
/// let mut hand_in = |from: Side, message: &str| {
///     assert!(bridge.handle_message(now, from, message.as_bytes()), "a message");
///     let (mut to_client, mut to_server) = (String::new(), String::new());
///     while let Some(said) = bridge.poll_said() {
///         if let Carried::Message(message) = said {
///             to_client.push_str(str::from_utf8(&message).unwrap());
///         }
///     }
///     while let len @ 1.. = bridge.pending().len() {
///         to_server.push_str(str::from_utf8(bridge.pending()).unwrap());
///         bridge.handle_written(now, len);
///     }
///     assert!(!bridge.is_done() && bridge.wants_input());
///     (to_client, to_server)
/// };
///
/// // A client of 2026-07-28 calls before it is known what the server speaks, so the call waits.
/// let call = r#"{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"_meta":{
///     "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},
///     "io.modelcontextprotocol/clientInfo":{"name":"client","version":"1"}}}}"#.replace('\n', "");
/// let (_, asked) = hand_in(Side::Client, &call);
/// assert!(asked.contains(r#""id":2147483647,"method":"server/discover""#));
///
/// // The server does not know that: it is greeted as one with sessions, and then sent the call.
/// let refusal = r#"{"jsonrpc":"2.0","id":2147483647,"error":{"code":-32601,"message":"Method not found"}}"#;
/// let (_, greeting) = hand_in(Side::Server, refusal);
/// assert!(greeting.contains(r#""id":2147483646,"method":"initialize""#));
/// let hello = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;
/// let (_, sent) = hand_in(Side::Server, &format!(r#"{{"jsonrpc":"2.0","id":2147483646,"result":{hello}}}"#));
/// assert!(sent.contains("notifications/initialized") && sent.contains(r#""id":2147483645,"method":"tools/list""#));
///
/// // Its answer has the client's id again, and what the client's era wants in a result.
/// let (answer, _) = hand_in(Side::Server, r#"{"jsonrpc":"2.0","id":2147483645,"result":{"tools":[]}}"#);
/// assert!(answer.contains(r#""id":"a""#) && answer.contains(r#""resultType":"complete""#));
/// ```
#[derive(Clone, Debug)]
pub struct Bridge {
    config: BridgeConfig,
    stage: Stage,
    calls: Calls,
    /// Messages of the client that wait until it is known what the server speaks.
    held: VecDeque<Held>,
    held_bytes: usize,
    /// Subscriptions of clients without a session, before a server with one.
    listening: Listening,
    /// Those of a client with a session, before a server without.
    following: Following,
    /// Questions for clients without a session.
    asking: Asking,
    /// Those for a client with one.
    fulfilling: Fulfilling,
    /// Tasks of a server with sessions.
    tasks_to_modern: TasksToModern,
    /// Tasks of one without.
    tasks_to_legacy: TasksToLegacy,
    /// Whether the server was asked which era it knows.
    probe: Probe,
    /// When a server that says nothing counts as one with sessions.
    due: Option<Instant>,
    /// What waits to be written to the server: cancels before all else.
    outbox: Outbox<Departs>,
    /// The server reads no more.
    is_write_closed: bool,
    /// What is written leaves later ([`handle_departure`](Self::handle_departure)).
    server_departs: bool,
    /// Messages for the relay, as from the server.
    said: VecDeque<Carried>,
}

/// What there is for the relay.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Carried {
    /// A message, as from the server, without a line break.
    Message(Vec<u8>),
    /// A response of the server to no request that it has: it is for nobody.
    Unasked(Vec<u8>),
    /// What has become of a message of the relay's.
    Departed(Departure),
}

impl Carried {
    /// Bytes of memory that it holds beside itself.
    fn held(&self) -> usize {
        match self {
            Self::Message(bytes) | Self::Unasked(bytes) => bytes.capacity(),
            Self::Departed(_) => 0,
        }
    }
}

/// What is known of the two sides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Nothing that tells.
    Fresh,
    /// The client's own `initialize`, with this id and these params, was passed on.
    Greeted(RequestId, Box<[u8]>),
    /// We asked with `server/discover`. The client's own `initialize`, if that was refused.
    Discovering(Option<Refused>),
    /// We sent `initialize`.
    Greeting,
    /// The server has sessions. Its answer to `initialize`.
    Legacy { greeting: Box<[u8]> },
    /// It has none. Its answer to `server/discover`, and what requests with a session say of their client.
    Modern {
        discovered: Box<[u8]>,
        envelope: Box<[u8]>,
        /// The same for what is about tasks.
        envelope_of_tasks: Box<[u8]>,
        kinds: Kinds,
    },
    /// Both sides are of one era.
    Done,
}

/// The question which era the server knows, in the life of one server process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Probe {
    /// It was not asked.
    No,
    /// It was, in this revision.
    Asked(&'static Dialect),
    /// One was, and ended: it knows sessions, and ends at what does not begin with a handshake. No other is asked.
    Deadly,
}

/// An `initialize` of the client that the server refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Refused {
    id: RequestId,
    params: Box<[u8]>,
    /// The refusal.
    answer: Box<[u8]>,
}

/// A message that waits, and its id if it is a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Held {
    id: Option<RequestId>,
    body: Box<[u8]>,
}

/// Bytes for the server beyond which nothing more is taken from the relay, so that what waits can still be withdrawn there.
const ENOUGH: usize = 64 * 1024;

const INITIALIZE: &str = "initialize";
const INITIALIZED: &str = "notifications/initialized";
const LISTEN: &str = "subscriptions/listen";
const SUBSCRIBE: &str = "resources/subscribe";
const UNSUBSCRIBE: &str = "resources/unsubscribe";
const SET_LEVEL: &str = "logging/setLevel";
const PING: &str = "ping";
const CANCELLED: &str = "notifications/cancelled";
const LOGGED: &str = "notifications/message";
const PROGRESS: &str = "notifications/progress";
const ELICITED: &str = "notifications/elicitation/complete";
const ROOTS_CHANGED: &str = "notifications/roots/list_changed";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const RESOURCE_UPDATED: &str = "notifications/resources/updated";

impl Bridge {
    /// A bridge that has seen nothing; `seed` is for the hash of ids.
    #[must_use]
    pub fn new(config: BridgeConfig, seed: u64) -> Self {
        Self {
            calls: Calls::new(Seed::new(seed)),
            config,
            stage: Stage::Fresh,
            held: VecDeque::new(),
            held_bytes: 0,
            listening: Listening::default(),
            following: Following::default(),
            asking: Asking::new(Seed::new(seed)),
            fulfilling: Fulfilling::default(),
            tasks_to_modern: TasksToModern::default(),
            tasks_to_legacy: TasksToLegacy::new(Seed::new(seed)),
            probe: Probe::No,
            due: None,
            outbox: Outbox::new(),
            is_write_closed: false,
            server_departs: false,
            said: VecDeque::new(),
        }
    }

    /// The same, where what is written to the server leaves later ([`handle_departure`](Self::handle_departure)).
    #[must_use]
    pub const fn with_server_departs(mut self, departs: bool) -> Self {
        self.server_departs = departs;
        self
    }

    /// Whether nothing has to be carried from one era to the other, and nothing of ours is under way: the driver can do
    /// without this bridge.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done && self.outbox.is_empty() && self.said.is_empty()
    }

    /// Whether it takes messages of the client now.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.stage != Stage::Done && self.outbox.unsent() < ENOUGH && self.held_bytes < self.config.max_held
    }

    /// Whether it takes cancels all the same: they wait for nothing here.
    #[must_use]
    pub fn wants_cancels(&self) -> bool {
        self.stage != Stage::Done
    }

    /// The next bytes for the server: whole lines, but for what has left of the first.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        self.outbox.pending()
    }

    /// Records that nothing can be written to the server any more. It may still answer what it has.
    pub fn handle_write_closed(&mut self) {
        self.due = None;
        self.is_write_closed = true;
        self.outbox.clear(|_| ());
        self.held.clear();
        self.held_bytes = 0;
        self.end_rounds();
        self.end_waits();
    }

    /// Whether the server, should it end now, ended because it was asked which era it knows, and not of anything that its
    /// client has asked: another one can take its place, which is greeted and not asked. That is so once at most.
    #[must_use]
    pub const fn ends_of_probe(&self) -> bool {
        matches!((&self.stage, self.probe), (Stage::Discovering(None) | Stage::Greeting, Probe::Asked(_)))
    }

    /// Requests of the client that wait until it is known what the server speaks.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.held.iter().filter(|held| held.id.is_some()).count()
    }

    /// Records that another server has taken the place of one that ended of the probe: it is greeted.
    pub fn handle_replaced(&mut self) {
        for asked in [Asked::Discover, Asked::Initialize] {
            self.calls.remove_asked(asked);
        }
        (self.outbox, self.due, self.probe) = (Outbox::new(), None, Probe::Deadly);
        self.greet();
    }

    /// The next of what there is for the relay.
    pub fn poll_said(&mut self) -> Option<Carried> {
        self.said.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let asked = self.asking.due().into_iter().chain(self.fulfilling.due());
        let tasks = self.tasks_to_modern.due().into_iter().chain(self.tasks_to_legacy.due());
        self.due.into_iter().chain(self.calls.due()).chain(asked).chain(tasks).min()
    }

    /// Does what is due by `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.calls.prune(now);
        self.stop_asking(now);
        self.send_due_rounds(now);
        self.stop_asking_for_tasks(now);
        self.look_at_due(now);
        self.forget_tasks(now);
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            if let Stage::Discovering(_) = self.stage {
                self.calls.remove_asked(Asked::Discover);
                self.is_not_modern(now);
            }
        }
    }

    /// Takes in a whole message from `side`, without its line break. `false` for what is none.
    pub fn handle_message(&mut self, now: Instant, from: Side, body: &[u8]) -> bool {
        self.calls.prune(now);
        let Ok(message) = frame::parse(body) else { return false };
        match (from, message) {
            (Side::Client, Frame::Request(request)) => self.handle_request(now, body, &request),
            (Side::Client, Frame::Notification(notification)) => self.handle_notification(now, body, &notification),
            (Side::Client, Frame::Batch(batch)) if self.is_open() => {
                batch.members().for_each(|member| _ = self.handle_message(now, from, member));
            }
            (Side::Client, Frame::Response(response)) => {
                let id = response.id.as_ref().and_then(ResponseId::as_exact);
                if !id.is_some_and(|id| self.handle_input(now, id, &response.body)) {
                    self.pass_to_server(None, body);
                }
            }
            (Side::Client, Frame::Batch(batch)) => self.pass_to_server(&batch, body),
            (Side::Server, Frame::Response(response)) => self.handle_response(now, body, &response),
            (Side::Server, Frame::Notification(notification)) => self.handle_said(body, &notification),
            (Side::Server, Frame::Request(request)) => self.handle_question(now, body, &request),
            (Side::Server, Frame::Batch(batch)) => {
                batch.members().for_each(|member| _ = self.handle_message(now, from, member));
            }
        }
        true
    }

    /// An answer that cannot be read names this request: that is over. Returns the id under which its client knows it.
    pub fn handle_unreadable(&mut self, now: Instant, id: &RequestId) -> Option<RequestId> {
        if let Stage::Greeted(greeted, _) = &self.stage
            && is_loosely(id, greeted)
        {
            let greeted = greeted.clone();
            self.refuse_held(UNREADABLE);
            return Some(greeted);
        }
        let Some(own) = id.loose().filter(|own| self.calls.is_ours(*own)) else { return Some(id.clone()) };
        let call = self.calls.answered(own)?;
        if let Some(asked) = call.asked {
            self.own_answered(now, own, asked, &ResponseBody::Error(UNREADABLE));
            return None;
        }
        self.end_asker(own);
        self.end_wait_of(&call);
        call.client_id
    }

    /// Whether a response with this id is the one to the client's own `initialize`.
    fn is_of_greeting(&self, id: Option<&ResponseId>) -> bool {
        let Stage::Greeted(greeted, _) = &self.stage else { return false };
        match id {
            Some(ResponseId::Exact(id)) => is_loosely(id, greeted),
            Some(ResponseId::Loose(value)) => greeted.loose() == Some(*value),
            None => false,
        }
    }

    /// Bytes that questions, answers, and calls that may be asked something can still take.
    const fn room(&self) -> usize {
        self.config.max_held.saturating_sub(self.asked_bytes())
    }

    const fn is_overfull(&self) -> bool {
        self.asked_bytes() > self.config.max_held
    }

    const fn asked_bytes(&self) -> usize {
        let tasks = self.tasks_to_modern.bytes() + self.tasks_to_legacy.bytes();
        self.calls.kept_bytes() + self.asking.bytes() + self.fulfilling.bytes() + tasks
    }

    const fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Legacy { .. } | Stage::Modern { .. })
    }

    /// A request of a client.
    fn handle_request(&mut self, now: Instant, body: &[u8], request: &Request<'_>) {
        self.id_is_taken(&request.id);
        let departs = || Some(Departure::Request(request.id.clone()));
        let envelope = Envelope::of(&request.params);
        let is_carried = envelope.is_some() && self.config.serves_modern;
        match &self.stage {
            Stage::Fresh if is_carried => {
                self.hold(Some(&request.id), body);
                match self.probe {
                    Probe::Deadly => self.greet(),
                    Probe::No | Probe::Asked(_) => self.discover(now, None, MODERN),
                }
            }
            Stage::Fresh
                if envelope.is_none() && request.method == INITIALIZE && greeting::is_of_mcp(&request.params) =>
            {
                let params = request.params.raw.unwrap_or(b"{}");
                self.stage = Stage::Greeted(request.id.clone(), params.into());
                self.pass_to_server(departs(), body);
            }
            Stage::Fresh if envelope.is_none() && request.method == PING => self.pass_to_server(departs(), body),
            Stage::Fresh | Stage::Done => {
                self.stage = Stage::Done;
                self.pass_to_server(departs(), body);
            }
            Stage::Greeted(..) if !is_carried => self.pass_to_server(departs(), body),
            Stage::Greeted(..) | Stage::Discovering(_) | Stage::Greeting => self.hold(Some(&request.id), body),
            Stage::Legacy { .. } => match &envelope {
                Some(envelope) => self.carry_to_legacy(now, request, envelope),
                None => self.pass_request(request, Style::InSession),
            },
            Stage::Modern { .. } => match envelope {
                Some(_) => self.pass_request(request, Style::Enveloped),
                None => self.carry_to_modern(now, request),
            },
        }
    }

    /// A notification of a client.
    fn handle_notification(&mut self, now: Instant, body: &[u8], notification: &Notification<'_>) {
        let method = &*notification.method;
        if method == CANCELLED && !matches!(self.stage, Stage::Fresh | Stage::Done) {
            if let Some(id) = cancelled_by(notification) {
                self.cancel(now, body, &id, notification.params.raw.unwrap_or_default());
            }
            return;
        }
        match (&self.stage, method) {
            (Stage::Discovering(_) | Stage::Greeting, _) => self.hold(None, body),
            (Stage::Legacy { .. }, INITIALIZED) | (Stage::Modern { .. }, ROOTS_CHANGED) => {}
            (Stage::Modern { .. }, INITIALIZED) => self.follow_lists(),
            (Stage::Legacy { .. }, mcp::ABANDONED) if self.config.may_ask => {
                self.handle_abandoned(now, notification.params.raw);
            }
            (Stage::Fresh | Stage::Greeted(..) | Stage::Legacy { .. } | Stage::Modern { .. } | Stage::Done, _) => {
                self.pass_to_server(cancelled_by(notification).map(Departure::Cancel), body);
            }
        }
    }

    /// A cancel of a client: of what is held, it ends here; of what the server has, it goes on under the server's id.
    fn cancel(&mut self, now: Instant, body: &[u8], id: &RequestId, params: &[u8]) {
        if let Some(at) = self.held.iter().position(|held| held.id.as_ref() == Some(id)) {
            self.held_bytes -= self.held.remove(at).map_or(0, |held| held.body.len());
            return self.departs(Departure::Withdrawn(id.clone()));
        }
        match self.calls.cancel(now, id) {
            Some(Cancelled { own, .. }) if self.close_listener(own) => {
                self.calls.answered(own);
                self.departs(Departure::Cancel(id.clone()));
            }
            // The server has never seen it, or sees no more of it.
            Some(Cancelled { own, line, .. })
                if self.end_round(own) || self.stop_waiting(own) || self.withdraw(line) =>
            {
                self.calls.answered(own);
                self.departs(Departure::Withdrawn(id.clone()));
            }
            // MCP-C13: once the server says which task it is, whoever passes that on cancels it (D38).
            Some(cancelled) if self.is_to_be_task(cancelled.own) => self.asker_cancelled(now, cancelled),
            Some(cancelled) => {
                let reason = json::member(params, "reason").map(<[u8]>::to_vec);
                self.write_cancel(cancelled.own, reason.as_deref());
                self.asker_cancelled(now, cancelled);
            }
            // What was passed on before the server's era was known has its own id there.
            None if matches!(self.stage, Stage::Greeted(..)) => {
                self.pass_to_server(Some(Departure::Cancel(id.clone())), body);
            }
            None => {}
        }
    }

    /// An answer of the server.
    fn handle_response(&mut self, now: Instant, body: &[u8], response: &Response<'_>) {
        if self.is_of_greeting(response.id.as_ref()) {
            return self.greeting_answered(now, body, &response.body);
        }
        // A careless server writes a number as text (D10).
        let id = response.id.as_ref().and_then(|id| match id {
            ResponseId::Exact(id) => id.loose(),
            ResponseId::Loose(value) => Some(*value),
        });
        let Some(own) = id.filter(|own| self.calls.is_ours(*own)) else {
            // All that the server has then is ours, and so is an error that names nobody's request.
            if let Stage::Discovering(None) | Stage::Greeting = self.stage {
                return self.said.push_back(Carried::Unasked(body.into()));
            }
            return self.pass_to_client(body);
        };
        let Some(call) = self.calls.answered(own) else {
            // One too many. A client may have a request in flight that it knows by this very id.
            return self.said.push_back(Carried::Unasked(body.into()));
        };
        // An answer that comes before the cancel has left disarms it (D15).
        let disarmed = call.client_id.clone().filter(|_| call.is_cancelled && self.withdraw(call.line));
        match call {
            Call { asked: Some(asked), own, .. } => self.own_answered(now, own, asked, &response.body),
            call if call.client_id.is_none() => self.keep_answer(call, &response.body),
            call => {
                self.end_asker(call.own);
                match &response.body {
                    ResponseBody::Result(result) if self.is_to_be_fulfilled(&call, result) => {
                        self.fulfil(now, call, result);
                    }
                    ResponseBody::Result(_) | ResponseBody::Error(_) => self.take_answer(now, call, &response.body),
                }
            }
        }
        disarmed.into_iter().for_each(|id| self.departs(Departure::Withdrawn(id)));
    }

    /// The answer to a client's request is no question.
    fn take_answer(&mut self, now: Instant, call: Call, body: &ResponseBody<'_>) {
        let is_legacy = matches!(self.stage, Stage::Legacy { .. });
        match (&call.form, body) {
            (Form::Task(step), _) if *step == Step::Make || !call.is_cancelled => {
                let step = step.clone();
                if is_legacy {
                    self.tell_task_to_modern(now, call, step, body);
                } else {
                    self.tell_task_to_legacy(now, call, step, body);
                }
            }
            (Form::Tools, ResponseBody::Result(result)) if is_legacy => {
                self.learn_tools(result);
                self.answer(&call, body);
            }
            _ => self.answer(&call, body),
        }
    }

    /// Gives a client the answer to its request, as its era has it.
    fn answer(&mut self, call: &Call, body: &ResponseBody<'_>) {
        let Call { client_id: Some(id), style, form, .. } = call else { return };
        let is_cacheable = matches!(form, Form::Kept | Form::Tools);
        let style = (*style, matches!(self.stage, Stage::Modern { .. }));
        let makes_tasks = self.makes_tasks();
        self.say(|out| match (body, style) {
            (ResponseBody::Result(result), (Style::Enveloped, false)) => {
                rewrite::result(id, out, |out| rewrite::to_modern(result, is_cacheable, out));
            }
            (ResponseBody::Result(result), (Style::InSession, true)) if *form == Form::Tools && makes_tasks => {
                rewrite::result(id, out, |out| tasks_to_legacy::write_tools(result, out));
            }
            (ResponseBody::Result(result), (Style::InSession, true)) => {
                rewrite::result(id, out, |out| rewrite::to_legacy(result, out));
            }
            (ResponseBody::Result(result), (Style::Enveloped, true)) if *form == Form::Listening => {
                rewrite::result(id, out, |out| rewrite::renamed(result, id, out));
            }
            (ResponseBody::Result(result), _) => message::result(id, result, out),
            (ResponseBody::Error(error), (Style::Enveloped, false)) => {
                rewrite::error(id, out, |out| rewrite::error_to_modern(error, out));
            }
            (ResponseBody::Error(error), _) => rewrite::error(id, out, |out| out.extend_from_slice(error)),
        });
    }

    /// An answer to a request of our own.
    fn own_answered(&mut self, now: Instant, own: i64, asked: Asked, body: &ResponseBody<'_>) {
        match (asked, body) {
            (Asked::Discover, _) => match (Discovered::of_answer(body), body) {
                (Discovered::Stateless(Some(revision)), ResponseBody::Result(result)) => {
                    self.is_modern(now, revision, result);
                }
                (Discovered::Stateless(Some(revision)), ResponseBody::Error(_)) if self.asked_in_newer(revision) => {
                    let Stage::Discovering(refused) = core::mem::replace(&mut self.stage, Stage::Fresh) else { return };
                    self.discover(now, refused, revision);
                }
                (Discovered::Stateless(_) | Discovered::Sessions, _) => self.is_not_modern(now),
            },
            (Asked::Initialize, ResponseBody::Result(result)) => self.open_legacy(now, result),
            (Asked::Initialize, ResponseBody::Error(error)) => self.refuse_held(error),
            (Asked::Listen, _) => self.listen_ended(own, body),
            (Asked::TaskResult, _) => self.task_result_came(own),
            (Asked::Nothing, _) => {}
        }
    }

    /// The server has sessions, and this is its answer to `initialize`. That it is heard we say ourselves, since requests
    /// follow at once.
    fn open_legacy(&mut self, now: Instant, greeting: &[u8]) {
        self.stage = Stage::Legacy { greeting: greeting.into() };
        self.write_line(|out| message::raw_notification(INITIALIZED, b"", out));
        self.release(now);
    }

    /// The server's answer to the client's own `initialize`.
    fn greeting_answered(&mut self, now: Instant, answer: &[u8], body: &ResponseBody<'_>) {
        let refuses = matches!(
            body.error_code().and_then(|code| i32::try_from(code).ok()),
            Some(error_code::UNSUPPORTED_PROTOCOL_VERSION | error_code::METHOD_NOT_FOUND)
        );
        let Stage::Greeted(id, params) = core::mem::replace(&mut self.stage, Stage::Done) else { return };
        match body {
            ResponseBody::Error(_) if refuses => {
                self.discover(now, Some(Refused { id, params, answer: answer.into() }), MODERN);
            }
            ResponseBody::Result(greeting) if self.config.is_shared && self.config.serves_modern => {
                self.pass_to_client(answer);
                self.open_legacy(now, greeting);
            }
            ResponseBody::Result(_) => {
                self.pass_to_client(answer);
                for held in core::mem::take(&mut self.held) {
                    self.pass_to_server(held.id.map(Departure::Request), &held.body);
                }
                self.held_bytes = 0;
            }
            ResponseBody::Error(error) => {
                // First: whoever shares the link may close it with the answer to its handshake.
                self.refuse_held(error);
                self.pass_to_client(answer);
            }
        }
    }

    /// Whether the server was asked in a newer revision than this.
    fn asked_in_newer(&self, revision: &Dialect) -> bool {
        matches!(self.probe, Probe::Asked(asked) if asked.date > revision.date)
    }

    /// Asks the server, in this revision, whether it speaks one without sessions: in the name of the client that waits, or in
    /// our own.
    fn discover(&mut self, now: Instant, refused: Option<Refused>, revision: &'static Dialect) {
        let own = self.calls.ask(Asked::Discover);
        let client = self.held.front().filter(|_| !self.config.is_shared);
        let envelope = match (&refused, client) {
            (Some(refused), _) => envelope::of_hello(revision, &refused.params, None, false),
            (None, client) => envelope::in_name_of(client.map(|held| &*held.body), revision),
        };
        self.write_line(|out| {
            message::request(&RequestId::integer(own), DISCOVER, out, |out| rewrite::meta(&envelope, None, &[], out));
        });
        self.due = Some(now + self.config.discover_within);
        self.probe = Probe::Asked(revision);
        self.stage = Stage::Discovering(refused);
    }

    /// The server speaks this revision without sessions.
    fn is_modern(&mut self, now: Instant, revision: &'static Dialect, discovered: &[u8]) {
        self.due = None;
        let Stage::Discovering(refused) = core::mem::replace(&mut self.stage, Stage::Done) else { return };
        let hello = refused.as_ref().map(|refused| &*refused.params);
        let capabilities = hello.and_then(|hello| json::member(hello, "capabilities")).filter(|_| self.config.may_ask);
        let envelope =
            |takes_tasks| envelope::of_hello(revision, hello.unwrap_or(b"{}"), capabilities, takes_tasks).into();
        self.stage = Stage::Modern {
            discovered: discovered.into(),
            envelope: envelope(false),
            envelope_of_tasks: envelope(true),
            kinds: Kinds::of(capabilities),
        };
        if let Some(Refused { id, params, .. }) = refused {
            self.say(|out| rewrite::result(&id, out, |out| greeting::from_discovered(discovered, &params, out)));
        }
        self.release(now);
    }

    /// It does not, or has said nothing for too long.
    fn is_not_modern(&mut self, now: Instant) {
        self.due = None;
        let Stage::Discovering(refused) = core::mem::replace(&mut self.stage, Stage::Fresh) else { return };
        if let Some(Refused { answer, .. }) = refused {
            self.pass_to_client(&answer);
            return self.release(now);
        }
        self.greet();
    }

    /// Sends `initialize` in the name of the client that waits, or in our own.
    fn greet(&mut self) {
        let is_in_their_name = !self.config.is_shared || self.config.may_ask;
        let hello = self.held.front().filter(|_| is_in_their_name).map(|held| held.body.clone());
        let (own, may_ask) = (self.calls.ask(Asked::Initialize), self.config.may_ask);
        self.write_line(|out| {
            let id = RequestId::integer(own);
            message::request(&id, INITIALIZE, out, |out| greeting::hello(hello.as_deref(), may_ask, out));
        });
        self.stage = Stage::Greeting;
    }

    /// The server takes no `initialize` either: what waits gets its words. Who comes next asks again.
    fn refuse_held(&mut self, error: &[u8]) {
        self.stage = Stage::Fresh;
        self.held_bytes = 0;
        for Held { id, .. } in core::mem::take(&mut self.held) {
            if let Some(id) = id {
                self.say(|out| rewrite::error(&id, out, |out| out.extend_from_slice(error)));
            }
        }
    }

    /// Goes on with what was held.
    fn release(&mut self, now: Instant) {
        self.held_bytes = 0;
        for Held { body, .. } in core::mem::take(&mut self.held) {
            _ = self.handle_message(now, Side::Client, &body);
        }
    }

    fn hold(&mut self, id: Option<&RequestId>, body: &[u8]) {
        self.held_bytes += body.len();
        self.held.push_back(Held { id: id.cloned(), body: body.into() });
    }

    /// Passes on a request to a server of its own era.
    fn pass_request(&mut self, request: &Request<'_>, style: Style) {
        if let (Stage::Legacy { greeting }, INITIALIZE) = (&self.stage, &*request.method) {
            let greeting = greeting.clone();
            return self.say(|out| message::result(&request.id, &greeting, out));
        }
        if let (Stage::Legacy { .. }, SUBSCRIBE | UNSUBSCRIBE) = (&self.stage, &*request.method)
            && !self.subscribes(request)
        {
            return self.say(|out| message::result(&request.id, b"{}", out));
        }
        let params = request.params.raw;
        let is_of_it = style == Style::InSession && matches!(self.stage, Stage::Legacy { .. });
        // Nobody of it can be asked here, but it may be the one for which the server asks.
        let asks = is_of_it.then(|| self.asks(request, None)).flatten();
        self.write_request(request, style, None, asks, |out| out.extend_from_slice(params.unwrap_or(b"{}")));
    }

    /// Passes on a request of 2026-07-28 to a server with sessions.
    fn carry_to_legacy(&mut self, now: Instant, request: &Request<'_>, envelope: &Envelope<'_>) {
        let Stage::Legacy { greeting } = &self.stage else { return };
        let (id, params) = (&request.id, &request.params);
        match &*request.method {
            DISCOVER => {
                let greeting = greeting.clone();
                self.say(|out| rewrite::result(id, out, |out| greeting::to_discovered(&greeting, out)));
            }
            LISTEN => self.listen(request),
            INITIALIZE | PING | SET_LEVEL | SUBSCRIBE | UNSUBSCRIBE => {
                self.refuse_method(request);
            }
            method if method.starts_with("tasks/") => self.carry_task_to_legacy(now, request, envelope),
            _ if params.raw.is_some_and(|params| json::member(params, "requestState").is_some()) => {
                if !self.retry(now, request, envelope) {
                    self.refuse(id, error_code::INVALID_PARAMS, UNKNOWN_STATE);
                }
            }
            _ => {
                self.set_level(envelope.level);
                let (raw, meta) = (params.raw, params.meta);
                let asks = self.asks(request, Some(envelope));
                if self.becomes_task(request, envelope) {
                    return self.make_task(request, envelope, asks);
                }
                // Nothing asks for a task in 2026-07-28 (TASK-27).
                let but: &[&str] = if request.method == task::CALL { &[rewrite::META, TASK] } else { &[rewrite::META] };
                self.write_request(request, Style::Enveloped, envelope.level, asks, |out| {
                    let write_meta = |out: &mut Vec<u8>| rewrite::object(b"", meta, envelope::RESERVED, out);
                    rewrite::params_with(b"", raw, but, write_meta, out);
                });
            }
        }
    }

    /// Passes on a request of a client with a session to a server without.
    fn carry_to_modern(&mut self, now: Instant, request: &Request<'_>) {
        let Stage::Modern { discovered, envelope, envelope_of_tasks, kinds } = &self.stage else { return };
        let (id, params, kinds) = (&request.id, &request.params, *kinds);
        match &*request.method {
            INITIALIZE => {
                let discovered = discovered.clone();
                let params = params.raw.unwrap_or(b"{}");
                self.say(|out| rewrite::result(id, out, |out| greeting::from_discovered(&discovered, params, out)));
            }
            PING => self.say(|out| message::result(id, b"{}", out)),
            SET_LEVEL => self.keep_level(id, params.raw),
            SUBSCRIBE | UNSUBSCRIBE => self.subscribe(request),
            method if method.starts_with("tasks/") => self.carry_task_to_modern(now, request),
            _ => {
                let makes_task = self.asks_for_task(request);
                let mut members = if makes_task { envelope_of_tasks } else { envelope }.to_vec();
                if let Some(level) = self.following.level {
                    envelope::write_level(level, &mut members);
                }
                let mut written = Vec::new();
                let meta = params.meta;
                let but: &[&str] = if makes_task { &[rewrite::META, TASK] } else { &[rewrite::META] };
                let write_meta = |out: &mut Vec<u8>| rewrite::object(&members, meta, envelope::RESERVED, out);
                rewrite::params_with(b"", params.raw, but, write_meta, &mut written);
                let asks = self.keeps(request, kinds, &written);
                let own = if makes_task {
                    self.calls.open_task(request, Style::InSession, None, asks, Step::Make)
                } else {
                    self.calls.open(request, Style::InSession, None, asks)
                };
                self.send(own, |out| {
                    rewrite::request(own, &request.method, out, |out| out.extend_from_slice(&written));
                });
            }
        }
    }

    /// Sends a client's request on, under an id of our own.
    fn write_request(
        &mut self,
        request: &Request<'_>,
        style: Style,
        level: Option<Level>,
        asks: Option<Box<Asks>>,
        params: impl FnOnce(&mut Vec<u8>),
    ) {
        let own = self.calls.open(request, style, level, asks);
        self.send(own, |out| rewrite::request(own, &request.method, out, params));
    }

    /// A notification of the server.
    fn handle_said(&mut self, body: &[u8], notification: &Notification<'_>) {
        match self.stage {
            Stage::Legacy { .. } => self.tell_modern(body, notification),
            Stage::Modern { .. } => self.tell_legacy(body, notification),
            Stage::Fresh | Stage::Greeted(..) | Stage::Discovering(_) | Stage::Greeting | Stage::Done => {
                self.pass_to_client(body);
            }
        }
    }

    /// A request of the server, which only one with sessions makes. Whom it would ask is not known where several share it.
    fn handle_question(&mut self, now: Instant, body: &[u8], request: &Request<'_>) {
        match self.stage {
            Stage::Legacy { .. } | Stage::Greeting if request.method == PING => {
                self.write_line(|out| message::result(&request.id, b"{}", out));
            }
            Stage::Legacy { .. } if self.config.may_ask => self.ask(now, request),
            Stage::Legacy { .. } | Stage::Greeting if !self.config.is_shared => {
                self.refuse_question(&request.id, NO_QUESTIONS);
            }
            Stage::Fresh
            | Stage::Greeted(..)
            | Stage::Discovering(_)
            | Stage::Greeting
            | Stage::Legacy { .. }
            | Stage::Modern { .. }
            | Stage::Done => self.pass_to_client(body),
        }
    }

    /// Refuses a method that the revision of its request does not have.
    fn refuse_method(&mut self, request: &Request<'_>) {
        let named = Negotiation::named(request.params.meta).filter(|named| named.stateless).unwrap_or(MODERN);
        self.refuse(&request.id, error_code::METHOD_NOT_FOUND, &format!("{} has no such method", date(named)));
    }

    fn refuse(&mut self, id: &RequestId, code: i32, words: &str) {
        self.say(|out| message::error(Some(id), code, words, None, out));
    }

    fn pass_to_client(&mut self, body: &[u8]) {
        self.say(|out| out.extend_from_slice(body));
    }

    fn say(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut body = Vec::new();
        write(&mut body);
        self.said.push_back(Carried::Message(body));
    }
}

/// Whether a careless server may mean this request by that id (D10).
fn is_loosely(id: &RequestId, request: &RequestId) -> bool {
    id == request || (id.loose().is_some() && id.loose() == request.loose())
}

const UNREADABLE: &[u8] = br#"{"code":-32603,"message":"the answer could not be read"}"#;
const NO_TASKS: &str = "the server's tasks are of another revision, which this client does not speak";
const UNKNOWN_STATE: &str =
    "this requestState is unknown, used up or expired, or of another process: send the call again without it";
const NO_QUESTIONS: &str = "the client speaks a revision in which servers send no requests";

fn date(dialect: &Dialect) -> &'static str {
    dialect.date.unwrap_or_default()
}

/// The newest revision with a handshake, and the newest without.
const LEGACY: &Dialect = &mcp::LATEST_LEGACY;
const MODERN: &Dialect = &mcp::LATEST_STATELESS;
