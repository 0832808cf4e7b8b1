//! What the fuzz target does with its bytes; ordinary tests replay its seeds.

use std::{collections::BTreeMap, time::Duration};

use http::{HeaderName, HeaderValue, Method, Request};
use rescind_http::server::{
    Access, Bearers, BodyChunk, Hosts, HttpServer, HttpServerConfig, HttpServerEvent, LinkInput, LinkKey, ReplyBody,
    ReplyKey, Sessions, Stateless,
};
use rescind_proto::{id::RequestId, link::CancelFate, time::Instant};
use rescind_testkit::sim::{
    chooser::{ByteChooser, Chooser},
    walk::walk,
};

use crate::world::{HttpWorld, scene};

/// Steps of one walk at most.
const LONGEST: usize = 2000;

/// Drives a server through the explorer's worlds, or with phrases and noise under small bounds.
///
/// # Panics
///
/// Where a rule or an invariant breaks.
pub(crate) fn http_server(bytes: &[u8]) {
    let mut chooser = ByteChooser::new(bytes);
    let mut scenes = scene::all();
    let Some(choice) = chooser.choose(2 * scenes.len()) else { return };
    if choice >= scenes.len() {
        babble(&mut chooser);
        return;
    }
    if let Err(found) = walk(&HttpWorld::new(scenes.swap_remove(choice).long()), &mut chooser, LONGEST) {
        panic!("{}", found.to_text());
    }
}

/// What the driver of a babbling world knows.
struct Driver {
    server: HttpServer,
    now: Instant,
    most: usize,
    sessions: usize,
    links: Vec<LinkKey>,
    replies: Vec<(ReplyKey, bool)>,
    /// Ids and tokens that programs have seen, as JSON.
    known: Vec<String>,
    /// Ids of events that clients have seen.
    events: Vec<String>,
    /// To whom belongs what each link says next, where people have links of their own.
    people: Option<BTreeMap<LinkKey, Option<HeaderValue>>>,
}

/// Phrases and noise from both sides, with every bound so small that it is met. Whatever came, it comes to rest, and
/// leaves nothing.
fn babble(chooser: &mut ByteChooser<'_>) {
    let Some(config) = config(chooser) else { return };
    let mut driver = Driver {
        most: config.most_held(),
        people: is_told_apart(&config).then(BTreeMap::new),
        server: HttpServer::new(config),
        now: Instant::ORIGIN,
        sessions: 0,
        links: Vec::new(),
        replies: Vec::new(),
        known: Vec::new(),
        events: Vec::new(),
    };
    while driver.step(chooser).is_some() {
        driver.drain();
    }
    driver.end();
}

/// Whether nobody's message may be on another's link.
fn is_told_apart(config: &HttpServerConfig) -> bool {
    let is_told = match config.access {
        Access::Open => config.passes_authorization,
        Access::Token(_) => false,
        Access::Owners(_) | Access::Issuer(_) | _ => true,
    };
    is_told && config.sessions == Sessions::OwnLink
}

fn config(chooser: &mut impl Chooser) -> Option<HttpServerConfig> {
    Some(HttpServerConfig {
        path: [None, Some("/mcp".into())].into_iter().nth(chooser.choose(2)?)?,
        hosts: [Hosts::Any, Hosts::named(["localhost"])].into_iter().nth(chooser.choose(2)?)?,
        access: match chooser.choose(4)? {
            0 | 1 => Access::Open,
            2 => Access::Owners(Bearers::read("t t\nu u").ok()?),
            _ => Access::token("t"),
        },
        stateless: [Stateless::Served, Stateless::Refused, Stateless::Ask, Stateless::Joined][chooser.choose(4)?],
        stream_after: Duration::from_millis(100 * chooser.choose(3)? as u64),
        keep_alive: Duration::from_millis(100 * chooser.choose(8)? as u64),
        idle: Duration::from_secs(chooser.choose(8)? as u64),
        resume_within: Duration::from_secs(chooser.choose(8)? as u64),
        ask_within: Duration::from_secs(3),
        max_sessions: 1 + chooser.choose(4)?,
        max_in_flight: 1 + chooser.choose(8)?,
        max_replies: 1 + chooser.choose(16)?,
        max_input: 100 * chooser.choose(16)?,
        max_unsent: 50 * chooser.choose(32)?,
        max_kept: 100 * chooser.choose(32)?,
        max_message: 2000,
        passes_authorization: chooser.choose(2)? == 1,
        sessions: [Sessions::OwnLink, Sessions::OwnLink, Sessions::SharedLink][chooser.choose(3)?],
        max_unread: 1000 * chooser.choose(32)?,
        ..HttpServerConfig::default()
    })
}

impl Driver {
    /// One thing that clients, programs or time do; `None` once the choices end.
    fn step(&mut self, chooser: &mut ByteChooser<'_>) -> Option<()> {
        match chooser.choose(16)? {
            0..=4 => self.request(chooser)?,
            5..=7 => self.say(chooser)?,
            8 | 9 if !self.replies.is_empty() => {
                let place = chooser.choose(self.replies.len())?;
                self.read(place);
            }
            10 if !self.replies.is_empty() => {
                let (key, _) = self.replies.swap_remove(chooser.choose(self.replies.len())?);
                self.server.handle_hang_up(self.now, key);
            }
            11 => {
                for link in self.links.clone() {
                    self.take(link);
                }
            }
            12 => {
                self.now = self.now + Duration::from_millis(50 * chooser.choose(100)? as u64);
                self.server.handle_timeout(self.now);
            }
            13 => {
                if let (Some(link), Some(id)) = (self.link(chooser)?, self.known(chooser)?)
                    && let Some(id) = RequestId::from_json(id.as_bytes())
                {
                    self.server.handle_settled(self.now, link, &id);
                }
            }
            14 => match chooser.choose(16)? {
                0 if !self.links.is_empty() => {
                    let link = self.links.swap_remove(chooser.choose(self.links.len())?);
                    self.server.handle_link_closed(self.now, link);
                }
                1 => self.server.drain(),
                2 => {
                    let head = Request::post("/mcp").header("content-length", "2001").body(()).ok()?.into_parts().0;
                    let key = self.server.handle_head(self.now, &head);
                    self.replies.push((key, false));
                }
                3 => {
                    let head = Request::post("/mcp").body(()).ok()?.into_parts().0;
                    let key = self.server.handle_head(self.now, &head);
                    self.server.handle_body_broken(key);
                    self.replies.push((key, false));
                }
                4..=6 => {
                    if let (Some(link), Some(id)) = (self.link(chooser)?, self.known(chooser)?)
                        && let Some(id) = RequestId::from_json(id.as_bytes())
                    {
                        self.server.handle_cancel_fate(link, &id, CancelFate::Delivered);
                    }
                }
                _ => {}
            },
            _ => {}
        }
        Some(())
    }

    fn link(&self, chooser: &mut impl Chooser) -> Option<Option<LinkKey>> {
        if self.links.is_empty() {
            Some(None)
        } else {
            Some(self.links.get(chooser.choose(self.links.len())?).copied())
        }
    }

    /// An id or a token that a program has seen, or one that it has not.
    fn known(&self, chooser: &mut impl Chooser) -> Option<Option<String>> {
        let choice = chooser.choose(self.known.len() + IDS.len())?;
        Some(self.known.get(choice).cloned().or_else(|| IDS.get(choice - self.known.len()).map(|id| (*id).to_owned())))
    }

    /// A request with the headers that it needs.
    fn proper_request(&mut self, chooser: &mut ByteChooser<'_>) -> Option<()> {
        let session = format!("s{}", 1 + chooser.choose(self.sessions + 1)?);
        let who = ["Bearer t", "Bearer t", "Bearer u"][chooser.choose(3)?];
        let mut request = Request::builder().uri("/mcp").header("host", "localhost").header("authorization", who);
        let mut body = Vec::new();
        request = match chooser.choose(12)? {
            0 => {
                body = format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{}"}}}}"#,
                    revision(chooser)?
                )
                .into_bytes();
                request.method(Method::POST)
            }
            1 => {
                let id = IDS[chooser.choose(IDS.len())?];
                let message =
                    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"who":"{who}"}}}}"#);
                body = message.into_bytes();
                request.method(Method::POST).header("mcp-session-id", session)
            }
            2..=5 => {
                body = self.phrase(chooser)?;
                request.method(Method::POST).header("mcp-session-id", session)
            }
            6 | 7 => {
                let method = ["tools/call", "subscriptions/listen"][chooser.choose(2)?];
                let meta = modern_meta("2026-07-28");
                let id = IDS[chooser.choose(IDS.len())?];
                let params = format!(r#"{{"name":"t","who":"{who}","_meta":{{{meta},"progressToken":{id}}}}}"#);
                body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#).into_bytes();
                let request = request.method(Method::POST).header("mcp-protocol-version", "2026-07-28");
                request.header("mcp-method", method).header("mcp-name", "t")
            }
            8 => request.method(Method::GET).header("mcp-session-id", session),
            9 | 10 => {
                let choice = chooser.choose(self.events.len() + 1)?;
                let last = self.events.get(choice).map_or("1-1", |id| id);
                request.method(Method::GET).header("mcp-session-id", session).header("last-event-id", last)
            }
            _ => match chooser.choose(4)? {
                0 => request.method(Method::DELETE).header("mcp-session-id", session),
                1 => request.method(Method::GET).uri("/.well-known/oauth-protected-resource"),
                _ => return Some(()),
            },
        };
        let (head, ()) = request.body(()).ok()?.into_parts();
        let key = self.server.handle_request(self.now, &head, &body);
        self.replies.push((key, false));
        Some(())
    }

    fn request(&mut self, chooser: &mut ByteChooser<'_>) -> Option<()> {
        if chooser.choose(4)? > 0 {
            return self.proper_request(chooser);
        }
        let method =
            [Method::POST, Method::POST, Method::POST, Method::GET, Method::DELETE, Method::OPTIONS, Method::PUT]
                [chooser.choose(7)?]
            .clone();
        let uri = ["/mcp", "/mcp", "/mcp", "/", "http://evil.example/mcp"][chooser.choose(5)?];
        let mut request = Request::builder().method(&method).uri(uri);
        for _ in 0..chooser.choose(6)? {
            let name = HeaderName::from_static(HEADERS[chooser.choose(HEADERS.len())?]);
            let value = match chooser.choose(4)? {
                0 => noise(chooser)?,
                1 => format!("s{}", chooser.choose(4)?).into_bytes(),
                2 => {
                    let choice = chooser.choose(self.events.len() + 1)?;
                    self.events.get(choice).map_or_else(|| b"1-1".to_vec(), |id| id.clone().into_bytes())
                }
                _ => VALUES[chooser.choose(VALUES.len())?].as_bytes().to_vec(),
            };
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                request = request.header(name, value);
            }
        }
        let (head, ()) = request.body(()).ok()?.into_parts();
        let body = if method == Method::POST { self.phrase(chooser)? } else { Vec::new() };
        let key = self.server.handle_request(self.now, &head, &body);
        self.replies.push((key, false));
        Some(())
    }

    fn say(&mut self, chooser: &mut ByteChooser<'_>) -> Option<()> {
        let message = self.phrase(chooser)?;
        if let Some(link) = self.link(chooser)? {
            self.server.handle_message(self.now, link, &message);
        }
        Some(())
    }

    /// A message, or nearly one.
    fn phrase(&self, chooser: &mut ByteChooser<'_>) -> Option<Vec<u8>> {
        let id = self.known(chooser)?.unwrap_or_default();
        let text = match chooser.choose(16)? {
            0 => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"{}"}}}}"#,
                revision(chooser)?
            ),
            1 => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"{}"}}}}"#, revision(chooser)?),
            2..=4 => request(&id, chooser)?,
            5 => format!("[{},{}]", request(&id, chooser)?, request(&id, chooser)?),
            6 => format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#),
            7 | 8 => format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{id},"progress":1}}}}"#
            ),
            9 => format!(
                r#"{{"jsonrpc":"2.0","method":"n","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
            ),
            10 => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"x"}}}}"#),
            11 => format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"data":"{}"}}}}"#,
                "x".repeat(8 * chooser.choose(200)?)
            ),
            12 => {
                let mut text = request(&id, chooser)?.into_bytes();
                let cut = chooser.choose(text.len() + 1)?;
                text.truncate(cut);
                return Some(text);
            }
            13 => return noise(chooser),
            _ => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"x":"{}"}}}}"#, "x".repeat(chooser.choose(256)?)),
        };
        Some(text.into_bytes())
    }

    fn read(&mut self, place: usize) {
        let (key, has_head) = self.replies[place];
        if !has_head {
            match self.server.poll_head(self.now, key) {
                None => return,
                Some(head) if !matches!(head.body(), ReplyBody::Whole(_)) => self.replies[place].1 = true,
                Some(_) => {
                    self.replies.swap_remove(place);
                    return;
                }
            }
        }
        loop {
            match self.server.poll_body(self.now, key) {
                BodyChunk::Bytes(bytes) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    self.events
                        .extend(text.lines().filter_map(|line| line.strip_prefix("id: ")).map(ToOwned::to_owned));
                    let surplus = self.events.len().saturating_sub(8);
                    self.events.drain(..surplus);
                }
                BodyChunk::Pending => return,
                BodyChunk::End => {
                    self.replies.swap_remove(place);
                    return;
                }
            }
        }
    }

    fn take(&mut self, link: LinkKey) {
        while let Some(input) = self.server.poll_input(link) {
            let line = match input {
                LinkInput::Message(line) | LinkInput::Request(line, _) => line,
                LinkInput::Credentials(who) => {
                    self.people.as_mut().map(|people| people.insert(link, who));
                    continue;
                }
                LinkInput::StreamClosed(_) | LinkInput::End => continue,
            };
            let text = String::from_utf8_lossy(&line).into_owned();
            assert!(text.ends_with('\n') && !text[..text.len() - 1].contains('\n'), "an input is no line: {text:?}");
            let who = text.split_once(r#""who":""#).and_then(|(_, rest)| rest.split_once('"')).map(|(who, _)| who);
            if let (Some(people), Some(who)) = (&self.people, who) {
                let present = people.get(&link).and_then(|present| present.as_ref()?.to_str().ok());
                assert_eq!(present, Some(who), "a message goes under another's name: {text:?}");
            }
            for name in [r#""id":"#, r#""progressToken":"#] {
                let value = text.split_once(name).and_then(|(_, rest)| rest.split_once([',', '}']));
                self.known.extend(value.map(|(value, _)| value.to_owned()));
            }
            let surplus = self.known.len().saturating_sub(8);
            self.known.drain(..surplus);
        }
    }

    fn drain(&mut self) {
        if self.server.needs_session_id() {
            self.sessions += 1;
            self.server.supply_session_id(format!("s{}", self.sessions));
        }
        while let Some(event) = self.server.poll_event() {
            match event {
                HttpServerEvent::Opened { link, credentials, owner, .. } => {
                    self.links.push(link);
                    let shown = owner.and_then(|owner| HeaderValue::try_from(format!("Bearer {}", owner.name())).ok());
                    let credentials = shown.or(credentials);
                    self.people.as_mut().map(|people| people.insert(link, credentials));
                }
                HttpServerEvent::PageWanted { reply, .. } => self.server.handle_page(reply, Err("there is none")),
                HttpServerEvent::KeysWanted
                | HttpServerEvent::ReplyReady(_)
                | HttpServerEvent::InputReady(_)
                | HttpServerEvent::Dropped { .. } => {}
            }
        }
        self.server.check_invariants();
        // One whose session is over is kept until its driver closes it.
        let open = self.links.len() <= 5;
        assert!(!open || self.server.held() <= self.most, "{} bytes are held of {}", self.server.held(), self.most);
    }

    fn end(&mut self) {
        self.server.close(self.now);
        self.drain();
        for link in std::mem::take(&mut self.links) {
            self.take(link);
            self.server.handle_link_closed(self.now, link);
            self.drain();
        }
        for place in (0..self.replies.len()).rev() {
            self.read(place);
        }
        assert!(self.replies.is_empty(), "responses never end: {:?}", self.replies);
        for _ in 0..10_000 {
            self.drain();
            let Some(due) = self.server.poll_timeout() else { break };
            self.now = due.max(self.now);
            self.server.handle_timeout(self.now);
        }
        assert_eq!(self.server.residue(), 0, "entries are left when everything is over");
    }
}

/// What a request of the revision without sessions says of itself.
fn modern_meta(revision: &str) -> String {
    format!(
        r#""io.modelcontextprotocol/protocolVersion":"{revision}","io.modelcontextprotocol/clientCapabilities":{{}}"#
    )
}

/// A request, perhaps with a token, perhaps of the revision without sessions.
fn request(id: &str, chooser: &mut impl Chooser) -> Option<String> {
    let method = ["tools/call", "subscriptions/listen", "server/discover", "x"][chooser.choose(4)?];
    let mut meta = Vec::new();
    if chooser.choose(2)? == 0 {
        meta.push(modern_meta(revision(chooser)?));
    }
    if chooser.choose(2)? == 0 {
        meta.push(format!(r#""progressToken":{}"#, IDS[chooser.choose(IDS.len())?]));
    }
    let meta = meta.join(",");
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"name":"t","_meta":{{{meta}}}}}}}"#))
}

fn revision(chooser: &mut impl Chooser) -> Option<&'static str> {
    Some(["2025-11-25", "2025-03-26", "2025-06-18", "2026-07-28", "2099-01-01", "x"][chooser.choose(6)?])
}

/// Any bytes.
fn noise(chooser: &mut ByteChooser<'_>) -> Option<Vec<u8>> {
    let length = chooser.choose(32)?;
    (0..length).map(|_| Some(chooser.choose(256)? as u8)).collect()
}

const IDS: [&str; 7] = ["1", "2", "\"1\"", "null", "1073741824", "1.0", "\"rescind-1\""];

const HEADERS: [&str; 12] = [
    "mcp-session-id",
    "mcp-session-id",
    "last-event-id",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "accept",
    "host",
    "origin",
    "authorization",
];

const VALUES: [&str; 14] = [
    "2026-07-28",
    "2025-11-25",
    "2025-03-26",
    "tools/call",
    "subscriptions/listen",
    "t",
    "=?base64?dA==?=",
    "text/event-stream",
    "application/json",
    "localhost",
    "http://localhost:1",
    "https://evil.example",
    "Bearer t",
    "1-2",
];
