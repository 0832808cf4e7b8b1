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

mod calls;
mod config;
mod direction;
mod envelope;
mod filter;
mod handshake;
mod kept;
mod kind;
mod level;
mod moment;
mod proof;
mod rewrite;
mod sessions;
mod stateless;
mod task;
mod traffic;

pub use config::BridgeConfig;

use crate::{
    dialect::Dialect,
    frame::{self, Frame, Response, ResponseBody, ResponseId},
    hash::Seed,
    id::RequestId,
    link::Departure,
    side::Side,
    task::TaskStatus,
    time::Instant,
};
use calls::Form;
use direction::{Alike, Direction};
use handshake::{Found, Handshake};
use sessions::Sessions;
use stateless::Stateless;
use traffic::{Departs, Traffic, cancelled_by};

/// What joins the two eras, for one link.
///
/// # Contract
///
/// Its driver is the relay; a program needs it only without one. It hands in whole messages and times, as to a
/// [`Relay`](crate::relay::Relay), and after each call, in this order:
///
/// 1. passes on what [`poll_said`](Self::poll_said) has for the client, until there is none, and learns there what has left
///    ([`Carried::Departed`]), and how a task really stands ([`Carried::OfTask`]);
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
    seed: Seed,
    traffic: Traffic,
    way: Way,
}

/// Which way a bridge stands: what it knows and keeps of a server of each era.
#[derive(Clone, Debug)]
enum Way {
    /// It is not known yet.
    Unknown(Handshake),
    /// The server has sessions.
    Sessions(Box<Sessions>),
    /// It has none.
    Stateless(Box<Stateless>),
    /// Both sides are of one era.
    Alike(Alike),
}

impl Way {
    fn direction(&self) -> &dyn Direction {
        match self {
            Self::Unknown(handshake) => handshake,
            Self::Sessions(sessions) => &**sessions,
            Self::Stateless(stateless) => &**stateless,
            Self::Alike(alike) => alike,
        }
    }

    fn direction_mut(&mut self) -> &mut dyn Direction {
        match self {
            Self::Unknown(handshake) => handshake,
            Self::Sessions(sessions) => &mut **sessions,
            Self::Stateless(stateless) => &mut **stateless,
            Self::Alike(alike) => alike,
        }
    }
}

/// What there is for the relay.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Carried {
    /// A message, as from the server, without a line break.
    Message(Vec<u8>),
    /// A message that says more of a task than its server does, since the client's era wants that: with the status that the
    /// server itself reports.
    OfTask(Vec<u8>, TaskStatus),
    /// A response of the server to no request that it has: it is for nobody.
    Unasked(Vec<u8>),
    /// What has become of a message of the relay's.
    Departed(Departure),
}

impl Carried {
    /// Bytes of memory that it holds beside itself.
    fn held(&self) -> usize {
        match self {
            Self::Message(bytes) | Self::OfTask(bytes, _) | Self::Unasked(bytes) => bytes.capacity(),
            Self::Departed(_) => 0,
        }
    }
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
        let seed = Seed::new(seed);
        Self { seed, traffic: Traffic::new(config, seed), way: Way::Unknown(Handshake::new()) }
    }

    /// The same, where what is written to the server leaves later ([`handle_departure`](Self::handle_departure)).
    #[must_use]
    pub const fn with_server_departs(mut self, departs: bool) -> Self {
        self.traffic.server_departs = departs;
        self
    }

    /// Whether nothing has to be carried from one era to the other, and nothing of ours is under way: the driver can do
    /// without this bridge.
    #[must_use]
    pub fn is_done(&self) -> bool {
        !self.wants_cancels() && self.traffic.said.is_empty()
    }

    /// Whether it takes messages of the client now.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        let held = self.handshake().map_or(0, |handshake| handshake.held_bytes);
        let is_alike = matches!(self.way, Way::Alike(_));
        !is_alike && held < self.traffic.config.max_held && self.traffic.outbox.unsent() < ENOUGH
    }

    /// Whether it takes cancels all the same: they wait for nothing here.
    #[must_use]
    pub const fn wants_cancels(&self) -> bool {
        !matches!(self.way, Way::Alike(_)) || !self.traffic.outbox.is_empty()
    }

    /// The next bytes for the server: whole lines, but for what has left of the first.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        self.traffic.outbox.pending()
    }

    /// Records that so many bytes of [`pending`](Self::pending) have left, or were handed to what
    /// reports their departures later.
    pub fn handle_written(&mut self, now: Instant, bytes: usize) {
        self.traffic.now = now;
        self.traffic.handle_written(bytes);
    }

    /// Records what has become of a message by the id that the server knows.
    pub fn handle_departure(&mut self, now: Instant, departure: &Departure) {
        self.traffic.now = now;
        self.traffic.handle_departure(departure);
    }

    /// Records that nothing can be written to the server any more. It may still answer what it has.
    pub fn handle_write_closed(&mut self) {
        self.traffic.is_write_closed = true;
        self.traffic.drop_unsent();
        self.way.direction_mut().handle_write_closed(&mut self.traffic);
    }

    /// Whether the server, should it end now, ended because it was asked which era it knows, and not of anything that its
    /// client has asked: another one can take its place, which is greeted and not asked. That is so once at most.
    #[must_use]
    pub const fn ends_of_probe(&self) -> bool {
        matches!(&self.way, Way::Unknown(handshake) if handshake.ends_of_probe())
    }

    /// Requests of the client that wait until it is known what the server speaks.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.handshake().map_or(0, Handshake::waiting)
    }

    const fn handshake(&self) -> Option<&Handshake> {
        match &self.way {
            Way::Unknown(handshake) => Some(handshake),
            Way::Sessions(_) | Way::Stateless(_) | Way::Alike(_) => None,
        }
    }

    /// Records that another server has taken the place of one that ended of the probe: it is greeted.
    pub fn handle_replaced(&mut self) {
        if let Way::Unknown(handshake) = &mut self.way {
            handshake.handle_replaced(&mut self.traffic);
        }
    }

    /// The next of what there is for the relay.
    pub fn poll_said(&mut self) -> Option<Carried> {
        self.traffic.said.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.way.direction().due().into_iter().chain(self.traffic.calls.due()).min()
    }

    /// Does what is due by `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.traffic.now = now;
        self.traffic.calls.prune(now);
        self.way.direction_mut().handle_timeout(&mut self.traffic);
        self.go_on();
    }

    /// Takes in a whole message from `side`, without its line break. `false` for what is none.
    pub fn handle_message(&mut self, now: Instant, from: Side, body: &[u8]) -> bool {
        self.traffic.now = now;
        self.traffic.calls.prune(now);
        self.take(from, body)
    }

    /// The client has cancelled a request that was answered already. If that answer asked for input, no other comes: the
    /// call ends.
    pub fn handle_late_cancel(&mut self, now: Instant, client_id: &RequestId) {
        self.traffic.now = now;
        self.way.direction_mut().handle_late_cancel(&mut self.traffic, client_id);
    }

    /// An answer that cannot be read names this request: that is over. Returns the id under which its client knows it.
    pub fn handle_unreadable(&mut self, now: Instant, id: &RequestId) -> Option<RequestId> {
        let traffic = &mut self.traffic;
        traffic.now = now;
        if let Way::Unknown(handshake) = &mut self.way
            && let Some(greeted) = handshake.refuse_unreadable(traffic, id)
        {
            return Some(greeted);
        }
        let Some(own) = id.loose().filter(|own| traffic.calls.is_ours(*own)) else { return Some(id.clone()) };
        let call = traffic.calls.answered(own)?;
        let direction = self.way.direction_mut();
        if let Form::Own(_) = call.form {
            direction.handle_answer(traffic, call, &ResponseBody::Error(UNREADABLE));
            self.go_on();
            return None;
        }
        direction.handle_unreadable(traffic, &call);
        call.client_id
    }

    fn take(&mut self, from: Side, body: &[u8]) -> bool {
        let Ok(message) = frame::parse(body) else { return false };
        let is_open = matches!(self.way, Way::Sessions(_) | Way::Stateless(_));
        let (direction, traffic) = (self.way.direction_mut(), &mut self.traffic);
        match (from, message) {
            (Side::Client, Frame::Request(request)) => direction.handle_request(traffic, body, &request),
            (Side::Client, Frame::Notification(notification)) if notification.method == CANCELLED => {
                let params = notification.params.raw.unwrap_or_default();
                direction.cancel(traffic, body, cancelled_by(&notification), params);
            }
            (Side::Client, Frame::Notification(notification)) => {
                direction.handle_notification(traffic, body, &notification);
            }
            (Side::Client, Frame::Response(response)) => {
                let id = response.id.as_ref().and_then(ResponseId::as_exact);
                if !id.is_some_and(|id| direction.handle_input(traffic, id, &response.body)) {
                    traffic.pass_to_server(Departs::default(), body);
                }
            }
            (Side::Client, Frame::Batch(batch)) if !is_open => traffic.pass_to_server(&batch, body),
            (Side::Server, Frame::Response(response)) => self.handle_response(body, &response),
            (Side::Server, Frame::Notification(notification)) => direction.handle_report(traffic, body, &notification),
            (Side::Server, Frame::Request(request)) => direction.handle_question(traffic, body, &request),
            (Side::Client | Side::Server, Frame::Batch(batch)) => {
                batch.members().for_each(|member| _ = self.take(from, member));
            }
        }
        self.go_on();
        true
    }

    /// An answer of the server.
    fn handle_response(&mut self, body: &[u8], response: &Response<'_>) {
        let (direction, traffic) = (self.way.direction_mut(), &mut self.traffic);
        let own = traffic.named(response.id.as_ref()).filter(|_| !direction.is_answered_by(response.id.as_ref()));
        let Some(own) = own else { return direction.handle_response(traffic, body, response) };
        let Some(call) = traffic.calls.answered(own) else {
            // One too many. A client may have a request in flight that it knows by this very id.
            return traffic.pass_unasked(body);
        };
        // An answer that comes before the cancel has left disarms it (D15).
        let disarmed = call.client_id.clone().filter(|_| call.is_cancelled() && traffic.withdraw(call.line));
        direction.handle_answer(traffic, call, &response.body);
        disarmed.into_iter().for_each(|id| traffic.departs(Departure::Withdrawn(id)));
    }

    /// Goes on with what was held, if it was found out what the server is.
    fn go_on(&mut self) {
        let Way::Unknown(handshake) = &mut self.way else { return };
        let Some(found) = handshake.found.take() else { return };
        let held = handshake.take_held();
        match found {
            Found::Sessions(greeting) => self.way = Way::Sessions(Box::new(Sessions::new(greeting, self.seed))),
            Found::Stateless { revision, discovered, hello } => {
                let (hello, may_ask) = (hello.as_deref().unwrap_or(b"{}"), self.traffic.config.may_ask);
                let stateless = Stateless::new(revision, discovered, hello, may_ask, self.seed);
                self.way = Way::Stateless(Box::new(stateless));
            }
            Found::Alike => self.way = Way::Alike(Alike),
            Found::Neither => {}
        }
        held.for_each(|body| _ = self.take(Side::Client, &body));
    }
}

const UNREADABLE: &[u8] = br#"{"code":-32603,"message":"the answer could not be read"}"#;
const NO_TASKS: &str = "the server's tasks are of another revision, which this client does not speak";
const NO_QUESTIONS: &str = "the client speaks a revision in which servers send no requests";

fn date(dialect: &Dialect) -> &'static str {
    dialect.date.unwrap_or_default()
}
