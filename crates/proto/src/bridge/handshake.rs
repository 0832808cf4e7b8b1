//! The two handshakes: how it is found out which of them the server knows, and each of the two made from what the other one
//! said.
//!
//! It is learnt with the first message that depends on it: from the server's answer to the client's own `initialize`, or to
//! a `server/discover` of ours. What comes meanwhile is held, and a cancel of what is held ends it here.

use core::hash::{Hash, Hasher};
use std::collections::VecDeque;

use super::{
    INITIALIZE, INITIALIZED, PING,
    calls::{Asked, Call, Form},
    date,
    direction::{Alike, Direction},
    envelope::{self, Envelope},
    kind, rewrite,
    task::{self, EXTENSION, OFFER},
    traffic::{Departs, Traffic},
};
use crate::{
    dialect::{DISCOVER, Dialect, Discovered, mcp},
    error_code,
    frame::{Notification, Params, Request, Response, ResponseBody, ResponseId},
    id::RequestId,
    json,
    link::Departure,
    message,
    time::Instant,
};

/// A bridge that does not know its server yet.
#[derive(Clone, Debug)]
pub(super) struct Handshake {
    stage: Stage,
    /// Messages of the client that wait until it is known what the server speaks.
    held: VecDeque<Held>,
    pub(super) held_bytes: usize,
    /// Whether the server was asked which era it knows.
    probe: Probe,
    /// When a server that says nothing counts as one with sessions.
    due: Option<Instant>,
    /// What was found out, until the bridge goes on with it.
    pub(super) found: Option<Found>,
}

/// What was sent to the server to learn its era.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Nothing.
    Fresh,
    /// The client's own `initialize`, with this id and these params, was passed on.
    Greeted(RequestId, Box<[u8]>),
    /// We asked with `server/discover`. The client's own `initialize`, if that was refused.
    Discovering(Option<Refused>),
    /// We sent `initialize`.
    Greeting,
}

/// What was found out of a server.
#[derive(Clone, Debug)]
pub(super) enum Found {
    /// It has sessions. Its answer to `initialize`.
    Sessions(Box<[u8]>),
    /// It has none.
    Stateless {
        /// The revision in which it is called.
        revision: &'static Dialect,
        /// Its answer to `server/discover`.
        discovered: Box<[u8]>,
        /// The params of the client's own `initialize`.
        hello: Option<Box<[u8]>>,
    },
    /// Both sides are of one era, or nothing is to be carried.
    Alike,
    /// It knows neither handshake of this client. What was held begins anew.
    Neither,
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

/// The newest revision with a handshake, and the newest without.
const LEGACY: &Dialect = &mcp::LATEST_LEGACY;
pub(super) const MODERN: &Dialect = &mcp::LATEST_STATELESS;

const EXTENSIONS: &str = "extensions";
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

impl Handshake {
    pub(super) const fn new() -> Self {
        Self { stage: Stage::Fresh, held: VecDeque::new(), held_bytes: 0, probe: Probe::No, due: None, found: None }
    }

    /// Requests of the client that wait.
    pub(super) fn waiting(&self) -> usize {
        self.held.iter().filter(|held| held.id.is_some()).count()
    }

    /// Takes out what was held, in order.
    pub(super) fn take_held(&mut self) -> impl Iterator<Item = Box<[u8]>> + use<> {
        self.held_bytes = 0;
        core::mem::take(&mut self.held).into_iter().map(|held| held.body)
    }

    /// Whether the server, should it end now, ended because it was asked which era it knows.
    pub(super) const fn ends_of_probe(&self) -> bool {
        matches!((&self.stage, self.probe), (Stage::Discovering(None) | Stage::Greeting, Probe::Asked(_)))
    }

    /// Another server has taken the place of one that ended of the probe: it is greeted.
    pub(super) fn handle_replaced(&mut self, traffic: &mut Traffic) {
        for asked in [Asked::Discover, Asked::Initialize] {
            traffic.calls.remove_asked(asked);
        }
        traffic.drop_unsent();
        (self.due, self.probe) = (None, Probe::Deadly);
        self.greet(traffic);
    }

    /// An answer that cannot be read names this request: if it is the client's own `initialize`, that is over. Returns the
    /// id under which the client knows it.
    pub(super) fn refuse_unreadable(&mut self, traffic: &mut Traffic, id: &RequestId) -> Option<RequestId> {
        let Stage::Greeted(greeted, _) = &self.stage else { return None };
        let greeted = Some(greeted).filter(|greeted| is_loosely(id, greeted)).cloned()?;
        self.refuse_held(traffic, super::UNREADABLE);
        Some(greeted)
    }

    /// The server's answer to the client's own `initialize`.
    fn greeting_answered(&mut self, traffic: &mut Traffic, answer: &[u8], body: &ResponseBody<'_>) {
        let refuses = matches!(
            body.error_code().and_then(|code| i32::try_from(code).ok()),
            Some(error_code::UNSUPPORTED_PROTOCOL_VERSION | error_code::METHOD_NOT_FOUND)
        );
        let Stage::Greeted(id, params) = core::mem::replace(&mut self.stage, Stage::Fresh) else { return };
        match body {
            ResponseBody::Error(_) if refuses => {
                self.discover(traffic, Some(Refused { id, params, answer: answer.into() }), MODERN);
            }
            ResponseBody::Result(greeting) => {
                traffic.pass_to_client(answer);
                let several = traffic.config.is_shared && traffic.config.serves_modern;
                self.found = Some(if several { opened(traffic, greeting) } else { Found::Alike });
            }
            ResponseBody::Error(error) => {
                // First: whoever shares the link may close it with the answer to its handshake.
                self.refuse_held(traffic, error);
                traffic.pass_to_client(answer);
            }
        }
    }

    /// Asks the server, in this revision, whether it speaks one without sessions: in the name of the client that waits, or in
    /// our own.
    fn discover(&mut self, traffic: &mut Traffic, refused: Option<Refused>, revision: &'static Dialect) {
        let client = self.held.front().filter(|_| !traffic.config.is_shared);
        let envelope = match (&refused, client) {
            (Some(refused), _) => envelope::of_hello(revision, &refused.params, None, false),
            (None, client) => envelope::in_name_of(client.map(|held| &*held.body), revision),
        };
        traffic.ask(Asked::Discover, DISCOVER, |out| rewrite::meta(&envelope, None, &[], out));
        self.due = Some(traffic.now + traffic.config.discover_within);
        self.probe = Probe::Asked(revision);
        self.stage = Stage::Discovering(refused);
    }

    /// The answer to our `server/discover`, or that there is none for too long.
    fn discovered(&mut self, traffic: &mut Traffic, body: Option<&ResponseBody<'_>>) {
        let Stage::Discovering(refused) = core::mem::replace(&mut self.stage, Stage::Fresh) else { return };
        self.due = None;
        match (body.map(Discovered::of_answer), body) {
            (Some(Discovered::Stateless(Some(revision))), Some(ResponseBody::Result(discovered))) => {
                if let Some(Refused { id, params, .. }) = &refused {
                    traffic.say_result(id, |out| from_discovered(discovered, params, out));
                }
                let (discovered, hello) = ((*discovered).into(), refused.map(|refused| refused.params));
                self.found = Some(Found::Stateless { revision, discovered, hello });
            }
            (Some(Discovered::Stateless(Some(revision))), Some(ResponseBody::Error(_))) if matches!(self.probe, Probe::Asked(asked) if asked.date > revision.date) =>
            {
                self.discover(traffic, refused, revision);
            }
            _ => match refused {
                Some(Refused { answer, .. }) => {
                    traffic.pass_to_client(&answer);
                    self.found = Some(Found::Neither);
                }
                None => self.greet(traffic),
            },
        }
    }

    /// Sends `initialize` in the name of the client that waits, or in our own.
    fn greet(&mut self, traffic: &mut Traffic) {
        let may_ask = traffic.config.may_ask;
        let is_in_their_name = !traffic.config.is_shared || may_ask;
        let client = self.held.front().filter(|_| is_in_their_name);
        traffic.ask(Asked::Initialize, INITIALIZE, |out| hello(client.map(|held| &*held.body), may_ask, out));
        self.stage = Stage::Greeting;
    }

    /// The server takes no `initialize` either: what waits gets its words. Who comes next asks again.
    fn refuse_held(&mut self, traffic: &mut Traffic, error: &[u8]) {
        self.stage = Stage::Fresh;
        for id in core::mem::take(&mut self.held).into_iter().filter_map(|held| held.id) {
            traffic.pass_answer(&id, &ResponseBody::Error(error));
        }
        self.held_bytes = 0;
    }

    fn hold(&mut self, id: Option<&RequestId>, body: &[u8]) {
        self.held_bytes += body.len();
        self.held.push_back(Held { id: id.cloned(), body: body.into() });
    }
}

impl Direction for Handshake {
    fn handle_request(&mut self, traffic: &mut Traffic, body: &[u8], request: &Request<'_>) {
        let is_enveloped = Envelope::of(&request.params).is_some();
        let is_carried = is_enveloped && traffic.config.serves_modern;
        match &self.stage {
            Stage::Fresh if is_carried => {
                self.hold(Some(&request.id), body);
                match self.probe {
                    Probe::Deadly => self.greet(traffic),
                    Probe::No | Probe::Asked(_) => self.discover(traffic, None, MODERN),
                }
            }
            Stage::Greeted(..) if is_carried => self.hold(Some(&request.id), body),
            Stage::Discovering(_) | Stage::Greeting => self.hold(Some(&request.id), body),
            Stage::Fresh | Stage::Greeted(..) => {
                traffic.pass_to_server(Departure::Request(request.id.clone()), body);
                let is_fresh = self.stage == Stage::Fresh;
                if is_fresh && !is_enveloped && request.method == INITIALIZE && is_of_mcp(&request.params) {
                    let params = request.params.raw.unwrap_or(b"{}");
                    self.stage = Stage::Greeted(request.id.clone(), params.into());
                } else if is_fresh && (is_enveloped || request.method != PING) {
                    self.found = Some(Found::Alike);
                }
            }
        }
    }

    fn handle_notification(&mut self, traffic: &mut Traffic, body: &[u8], _notification: &Notification<'_>) {
        match self.stage {
            Stage::Discovering(_) | Stage::Greeting => self.hold(None, body),
            Stage::Fresh | Stage::Greeted(..) => traffic.pass_to_server(Departs::default(), body),
        }
    }

    /// Ends here what is held.
    fn cancel(&mut self, traffic: &mut Traffic, body: &[u8], id: Option<RequestId>, params: &[u8]) {
        let at = self.held.iter().position(|held| held.id.is_some() && held.id == id);
        match (at, &self.stage, id) {
            (Some(at), _, Some(id)) => {
                self.held_bytes -= self.held.remove(at).map_or(0, |held| held.body.len());
                traffic.departs(Departure::Withdrawn(id));
            }
            // What was passed on before the server's era was known has its own id there.
            (_, Stage::Fresh, id) => Alike.cancel(traffic, body, id, params),
            (_, Stage::Greeted(..), Some(id)) => Alike.cancel(traffic, body, Some(id), params),
            (_, Stage::Greeted(..) | Stage::Discovering(_) | Stage::Greeting, _) => {}
        }
    }

    fn is_answered_by(&self, id: Option<&ResponseId>) -> bool {
        let Stage::Greeted(greeted, _) = &self.stage else { return false };
        match id {
            Some(ResponseId::Exact(id)) => is_loosely(id, greeted),
            Some(ResponseId::Loose(value)) => greeted.loose() == Some(*value),
            None => false,
        }
    }

    fn handle_response(&mut self, traffic: &mut Traffic, body: &[u8], response: &Response<'_>) {
        if self.is_answered_by(response.id.as_ref()) {
            self.greeting_answered(traffic, body, &response.body);
        } else if let Stage::Discovering(None) | Stage::Greeting = self.stage {
            // All that the server has is ours, and so is an error that names no request.
            traffic.pass_unasked(body);
        } else {
            traffic.pass_to_client(body);
        }
    }

    fn handle_answer(&mut self, traffic: &mut Traffic, call: Call, body: &ResponseBody<'_>) {
        match (call.form, body) {
            (Form::Own(Asked::Initialize), ResponseBody::Result(greeting)) => {
                self.found = Some(opened(traffic, greeting));
            }
            (Form::Own(Asked::Initialize), ResponseBody::Error(error)) => self.refuse_held(traffic, error),
            (Form::Own(Asked::Discover), _) => self.discovered(traffic, Some(body)),
            _ => {}
        }
    }

    fn handle_question(&mut self, traffic: &mut Traffic, body: &[u8], request: &Request<'_>) {
        match self.stage {
            Stage::Greeting => traffic.answer_server(body, request),
            Stage::Fresh | Stage::Greeted(..) | Stage::Discovering(_) => traffic.pass_to_client(body),
        }
    }

    fn handle_write_closed(&mut self, _traffic: &mut Traffic) {
        self.due = None;
        _ = self.take_held();
    }

    fn due(&self) -> Option<Instant> {
        self.due
    }

    fn handle_timeout(&mut self, traffic: &mut Traffic) {
        if self.due.is_some_and(|due| due <= traffic.now) {
            traffic.calls.remove_asked(Asked::Discover);
            self.discovered(traffic, None);
        }
    }

    fn residue(&self) -> usize {
        self.held.len()
    }

    fn held(&self) -> usize {
        self.held_bytes
    }

    fn check(&self, _is_in_flight: &dyn Fn(i64) -> bool) {
        let held: usize = self.held.iter().map(|held| held.body.len()).sum();
        assert_eq!(held, self.held_bytes, "invariant 8: the count of what waits is off");
        assert!(held == 0 || self.stage != Stage::Fresh, "invariant 6: a message waits for what is known");
    }

    fn hash_state(&self, now: Instant, mut state: &mut dyn Hasher) {
        (&self.stage, self.probe, &self.held, self.due.map(|due| due.since(now))).hash(&mut state);
    }
}

/// The server has sessions, and this is its answer to `initialize`. That it has arrived we say ourselves, since requests
/// follow at once.
fn opened(traffic: &mut Traffic, greeting: &[u8]) -> Found {
    traffic.write_line(|out| message::raw_notification(INITIALIZED, b"", out));
    Found::Sessions(greeting.into())
}

/// Whether a careless server may mean this request by that id (D10).
fn is_loosely(id: &RequestId, request: &RequestId) -> bool {
    id == request || (id.loose().is_some() && id.loose() == request.loose())
}

/// Whether the params of an `initialize` are of MCP: ACP has the same method, and a number for its version.
fn is_of_mcp(params: &Params<'_>) -> bool {
    params.raw.and_then(|params| json::member(params, "protocolVersion")).is_some_and(json::is_string)
}

/// The members of the params of our `initialize`, in the name of the client whose request this is, or in our own. If that
/// client cannot be asked, no capability is declared (D42).
fn hello(request: Option<&[u8]>, may_ask: bool, out: &mut Vec<u8>) {
    let envelope = request.and_then(Envelope::of_request);
    let named = envelope.and_then(|envelope| envelope.info);
    rewrite::text_member("protocolVersion", date(LEGACY), out);
    out.extend_from_slice(br#","capabilities":"#);
    kind::declare(envelope.and_then(|envelope| envelope.capabilities).filter(|_| may_ask), b"", out);
    out.extend_from_slice(br#","clientInfo":"#);
    out.extend_from_slice(named.unwrap_or(envelope::OWN_INFO.as_bytes()));
}

/// Writes the answer to `server/discover` from the one to `initialize`.
pub(super) fn to_discovered(greeting: &[u8], out: &mut Vec<u8>) {
    let mut first = rewrite::CACHEABLE.to_vec();
    rewrite::member("supportedVersions", &mut first);
    first.push(b'[');
    for (place, revision) in mcp::stateless().enumerate() {
        if place > 0 {
            first.push(b',');
        }
        json::write_string(&mut first, date(revision));
    }
    first.extend_from_slice(br#"],"capabilities":"#);
    let capabilities = json::member(greeting, "capabilities");
    let tasks = if task::are_offered_in_session(greeting) { OFFER } else { b"" };
    let others = capabilities.and_then(|capabilities| json::member(capabilities, EXTENSIONS));
    let mut extensions = Vec::new();
    if !tasks.is_empty() || others.is_some() {
        rewrite::member(EXTENSIONS, &mut extensions);
        rewrite::object(tasks, others, &[EXTENSION], &mut extensions);
    }
    rewrite::object(&extensions, capabilities, &["tasks", EXTENSIONS], &mut first);
    let mut info = Vec::new();
    if let Some(named) = json::member(greeting, "serverInfo") {
        rewrite::raw_member(SERVER_INFO, named, &mut info);
    }
    rewrite::meta(&info, json::member(greeting, "_meta"), &[SERVER_INFO], &mut first);
    rewrite::object(&first, Some(greeting), &["protocolVersion", "capabilities", "serverInfo", "_meta"], out);
}

/// Writes the answer to an `initialize` with these params from the one to `server/discover`.
pub(super) fn from_discovered(discovered: &[u8], params: &[u8], out: &mut Vec<u8>) {
    let asked = json::member(params, "protocolVersion").and_then(json::text);
    let has_sessions = |dialect: &&Dialect| !dialect.stateless;
    let agreed = asked.as_deref().and_then(mcp::by_version).filter(has_sessions).unwrap_or(LEGACY);
    let mut first = Vec::new();
    rewrite::text_member("protocolVersion", date(agreed), &mut first);
    first.extend_from_slice(br#","capabilities":"#);
    let has_tasks = agreed.asks_for_tasks() && task::are_offered(discovered);
    let tasks: &[u8] = if has_tasks { task::CAPABILITY } else { b"" };
    rewrite::object(tasks, json::member(discovered, "capabilities"), &[EXTENSIONS, "tasks"], &mut first);
    first.extend_from_slice(br#","serverInfo":"#);
    let named = json::lookup(discovered, &["_meta", SERVER_INFO]);
    first.extend_from_slice(named.unwrap_or(br#"{"name":"","version":""}"#));
    const OTHERS: [&str; 7] =
        ["resultType", "ttlMs", "cacheScope", "supportedVersions", "capabilities", "serverInfo", "_meta"];
    rewrite::object(&first, Some(discovered), &OTHERS, out);
}
