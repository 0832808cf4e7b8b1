//! The machine between scripted clients and scripted programs, on a clock that nobody waits for.

use std::{collections::HashMap, time::Duration};

use http::{Method, Request, Response, StatusCode};
use rescind_http::server::{
    BodyChunk, ClientAddress, HttpServer, HttpServerConfig, HttpServerEvent, LinkInput, LinkKey, ReplyBody, ReplyKey,
    Stateless,
};
use rescind_proto::{id::RequestId, link::CancelFate, time::Instant};
use rescind_testkit::valid::ValidMessages;
use serde_json::{Value, json};

/// The newest revision with sessions.
pub(crate) const LEGACY: &str = "2025-11-25";

/// The newest revision without.
pub(crate) const MODERN: &str = "2026-07-28";

/// The machine, and what its driver knows.
pub(crate) struct Rig {
    pub(crate) server: HttpServer,
    pub(crate) now: Instant,
    /// Links that were opened, with their sessions.
    pub(crate) opened: Vec<(LinkKey, Option<Box<str>>)>,
    /// Those with which each of these was opened.
    pub(crate) credentials: Vec<Option<String>>,
    /// Whose each of these is.
    pub(crate) owners: Vec<Option<String>>,
    /// What every request has as `Authorization`, unless it says otherwise.
    pub(crate) authorization: Option<String>,
    /// From where every request comes: 10.0.0 and this; from nowhere that is known if it is 0.
    pub(crate) from: u8,
    /// How often keys were wanted.
    pub(crate) keys_wanted: usize,
    /// Pages that are wanted.
    pub(crate) pages: Vec<(ReplyKey, String)>,
    /// Methods of what programs said to nobody.
    pub(crate) dropped: Vec<String>,
    /// Responses that were reported and not read since.
    pub(crate) ready: Vec<ReplyKey>,
    answers: HashMap<ReplyKey, Answer>,
    sessions: usize,
    /// Requests whose answers are messages.
    posted: HashMap<ReplyKey, ValidMessages>,
}

/// A session that was opened.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) id: String,
    pub(crate) link: LinkKey,
}

/// A response so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    /// The whole body, if it is no stream.
    pub(crate) body: Option<String>,
    /// The events of a stream.
    pub(crate) events: Vec<Event>,
    /// The beginning of an event.
    part: String,
    pub(crate) comments: usize,
    /// How long the body is, if it comes in parts.
    pub(crate) length: Option<usize>,
    pub(crate) has_ended: bool,
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) data: String,
}

impl Answer {
    /// The messages of a stream, events without one left out.
    pub(crate) fn messages(&self) -> Vec<String> {
        self.events.iter().filter(|event| !event.data.is_empty()).map(|event| event.data.clone()).collect()
    }

    /// The last id that the client has seen.
    pub(crate) fn last_id(&self) -> Option<String> {
        self.events.iter().rev().find_map(|event| event.id.clone())
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    /// The code of the error that is the whole body.
    pub(crate) fn code(&self) -> i64 {
        self.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {self:?}"))
    }

    pub(crate) fn json(&self) -> Value {
        let body = self.body.as_deref().unwrap_or_else(|| panic!("no whole body: {self:?}"));
        serde_json::from_str(body).unwrap_or_else(|_| panic!("no JSON: {body}"))
    }
}

pub(crate) fn config() -> HttpServerConfig {
    let notifications = vec!["notifications/message".into()];
    HttpServerConfig { stateless: Stateless::Served, notifications, ..HttpServerConfig::default() }
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(config())
    }

    pub(crate) fn with(config: HttpServerConfig) -> Self {
        let mut rig = Self {
            server: HttpServer::new(config),
            now: Instant::ORIGIN,
            opened: Vec::new(),
            credentials: Vec::new(),
            owners: Vec::new(),
            authorization: None,
            from: 0,
            keys_wanted: 0,
            pages: Vec::new(),
            dropped: Vec::new(),
            ready: Vec::new(),
            answers: HashMap::new(),
            sessions: 0,
            posted: HashMap::new(),
        };
        rig.supply();
        rig
    }

    fn supply(&mut self) {
        if self.server.needs_session_id() {
            self.sessions += 1;
            self.server.supply_session_id(format!("s{}", self.sessions));
        }
    }

    /// Drains what the machine reports.
    pub(crate) fn drain(&mut self) {
        while let Some(event) = self.server.poll_event() {
            match event {
                HttpServerEvent::Opened { link, session, credentials, owner } => {
                    self.opened.push((link, session));
                    self.credentials.push(credentials.map(|value| value.to_str().unwrap().to_owned()));
                    self.owners.push(owner.map(|owner| owner.name().to_owned()));
                }
                HttpServerEvent::KeysWanted => self.keys_wanted += 1,
                HttpServerEvent::PageWanted { reply, path } => self.pages.push((reply, path.into())),
                HttpServerEvent::ReplyReady(key) => self.ready.push(key),
                HttpServerEvent::InputReady(_) => {}
                HttpServerEvent::Dropped { method, .. } => self.dropped.push(method.into()),
            }
        }
        self.supply();
        // While that is quick.
        if self.server.residue() < 64 {
            self.server.check_invariants();
        }
    }

    /// An HTTP request with exactly these headers.
    pub(crate) fn send(&mut self, method: &Method, uri: &str, headers: &[(&str, &str)], body: &str) -> ReplyKey {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        if self.from > 0 {
            request = request.extension(ClientAddress([10, 0, 0, self.from].into()));
        }
        let is_silent = headers.iter().all(|(name, _)| *name != "authorization");
        if let Some(authorization) = self.authorization.as_deref().filter(|_| is_silent) {
            request = request.header("authorization", authorization);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let key = self.server.handle_request(self.now, &head, body.as_bytes());
        if *method == Method::POST {
            let mut valid = ValidMessages::default();
            valid.sent(body);
            self.posted.insert(key, valid);
        }
        self.drain();
        key
    }

    /// A POST with the usual headers and these.
    pub(crate) fn post(&mut self, headers: &[(&str, &str)], body: &str) -> ReplyKey {
        let mut all = vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        all.extend(headers);
        self.send(&Method::POST, "/mcp", &all, body)
    }

    /// A POST in a session.
    pub(crate) fn post_to(&mut self, client: &Client, body: &str) -> ReplyKey {
        self.post(&[("mcp-session-id", &client.id.clone())], body)
    }

    /// A GET in a session.
    pub(crate) fn listen(&mut self, client: &Client) -> ReplyKey {
        self.send(&Method::GET, "/mcp", &[("accept", "text/event-stream"), ("mcp-session-id", &client.id)], "")
    }

    /// A GET in a session, behind an event.
    pub(crate) fn come_back(&mut self, client: &Client, last: &str) -> ReplyKey {
        let headers = [("accept", "text/event-stream"), ("mcp-session-id", &*client.id), ("last-event-id", last)];
        self.send(&Method::GET, "/mcp", &headers, "")
    }

    pub(crate) fn delete(&mut self, client: &Client) -> ReplyKey {
        self.send(&Method::DELETE, "/mcp", &[("mcp-session-id", &client.id)], "")
    }

    /// Opens a session of this revision; the program agrees.
    pub(crate) fn session(&mut self, revision: &str) -> Client {
        let params =
            json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        let asks = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let key = self.post(&[], &asks.to_string());
        let (link, session) = self.opened.last().cloned().expect("a link was opened");
        assert_eq!(self.at(link), [asks.to_string()]);
        let result =
            json!({"protocolVersion": revision, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
        self.say(link, &json!({"jsonrpc": "2.0", "id": 0, "result": result}).to_string());
        let answer = self.read(key);
        let id = answer.header("mcp-session-id").expect("the session has an id").to_owned();
        assert_eq!(session.as_deref(), Some(&*id));
        let client = Client { id, link };
        let key = self.post_to(&client, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert_eq!(self.read(key).status, 202);
        assert_eq!(self.at(link).len(), 1);
        client
    }

    /// A POST of a request of the revision without sessions, its headers as they should be.
    pub(crate) fn post_modern(&mut self, message: &Value) -> ReplyKey {
        let method = message["method"].as_str().unwrap().to_owned();
        let name = ["name", "uri", "taskId"].iter().find_map(|member| message["params"][member].as_str());
        let name = name.map(ToOwned::to_owned);
        let mut headers = vec![("mcp-protocol-version", MODERN), ("mcp-method", &method)];
        headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
        self.post(&headers, &message.to_string())
    }

    /// The link that stateless requests share.
    pub(crate) fn shared(&self) -> LinkKey {
        self.opened.iter().rev().find(|(_, session)| session.is_none()).expect("the shared link is open").0
    }

    /// What a program receives, since it was last asked. Cancels are delivered with it.
    pub(crate) fn at(&mut self, link: LinkKey) -> Vec<String> {
        let mut received = Vec::new();
        while let Some(input) = self.server.poll_input(link) {
            received.push(match input {
                LinkInput::Message(line) | LinkInput::Request(line, _) => {
                    let line = String::from_utf8(line).unwrap();
                    let message: Value = serde_json::from_str(&line).unwrap();
                    if message["method"] == "notifications/cancelled" {
                        self.tell(link, &message["params"]["requestId"].to_string(), CancelFate::Delivered);
                    }
                    line.strip_suffix('\n').expect("a message is a line").to_owned()
                }
                LinkInput::StreamClosed(id) => format!("closed {id}"),
                LinkInput::Credentials(None) => "of nobody".to_owned(),
                LinkInput::Credentials(Some(value)) => format!("of {}", value.to_str().unwrap()),
                LinkInput::End => "end".to_owned(),
            });
        }
        received
    }

    /// A program says something.
    pub(crate) fn say(&mut self, link: LinkKey, message: &str) {
        self.server.handle_message(self.now, link, message.as_bytes());
        self.drain();
    }

    /// A program answers with a result that says which it is.
    pub(crate) fn answer(&mut self, link: LinkKey, id: &str, result: &str) {
        self.say(link, &result_of(id, result));
    }

    /// What is known of a cancel.
    pub(crate) fn tell(&mut self, link: LinkKey, id: &str, fate: CancelFate) {
        if let Some(id) = RequestId::from_json(id.as_bytes()) {
            self.server.handle_cancel_fate(link, &id, fate);
            self.drain();
        }
    }

    pub(crate) fn settle(&mut self, link: LinkKey, id: &str) {
        let id = RequestId::from_json(id.as_bytes()).unwrap();
        self.server.handle_settled(self.now, link, &id);
        self.drain();
    }

    pub(crate) fn close(&mut self, link: LinkKey) {
        self.server.handle_link_closed(self.now, link);
        self.drain();
    }

    /// All of a response so far.
    pub(crate) fn read(&mut self, key: ReplyKey) -> Answer {
        self.read_parts(key, usize::MAX)
    }

    /// The same, of its body only so many parts more.
    pub(crate) fn read_parts(&mut self, key: ReplyKey, mut parts: usize) -> Answer {
        let head = self.server.poll_head(self.now, key);
        let answer = self.answers.entry(key).or_default();
        if let Some(head) = head {
            assert_eq!(answer.status, 0, "two heads for one request");
            answer.has_ended = note_head(answer, head);
        }
        while answer.status != 0 && !answer.has_ended && parts > 0 {
            parts -= 1;
            match self.server.poll_body(self.now, key) {
                BodyChunk::Bytes(bytes) => answer.note_bytes(&bytes),
                BodyChunk::Pending => break,
                BodyChunk::End => answer.has_ended = true,
            }
        }
        let answer = answer.clone();
        if let Some(valid) = self.posted.get(&key) {
            let is_json = answer.header("content-type") == Some("application/json");
            // What is announced and does not come is a broken connection, and no message.
            let comes = |body: &String| answer.length.is_none_or(|length| length == body.len());
            let whole = answer.body.clone().filter(|body| is_json && !body.is_empty() && comes(body));
            for message in answer.messages().into_iter().chain(whole) {
                valid.check(&message).unwrap_or_else(|why| panic!("{why}: {message}"));
            }
        }
        self.drain();
        answer
    }

    /// A response that must be whole, with this status.
    pub(crate) fn whole(&mut self, key: ReplyKey, status: u16) -> String {
        let answer = self.read(key);
        assert_eq!(answer.status, status, "{answer:?}");
        answer.body.unwrap_or_else(|| panic!("not whole: {key:?}"))
    }

    pub(crate) fn hang_up(&mut self, key: ReplyKey) {
        self.server.handle_hang_up(self.now, key);
        self.drain();
    }

    /// Lets time pass, timer by timer.
    pub(crate) fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(due) = self.server.poll_timeout().filter(|due| *due <= until) {
            self.now = due.max(self.now);
            self.server.handle_timeout(self.now);
            self.drain();
        }
        self.now = until;
    }

    pub(crate) fn pass_millis(&mut self, millis: u64) {
        self.pass(Duration::from_millis(millis));
    }

    /// The service closes, and every program ends: nothing is left.
    pub(crate) fn end(mut self) {
        self.server.close(self.now);
        self.drain();
        for (link, _) in self.opened.clone() {
            self.at(link);
            self.close(link);
        }
        self.leaves_nothing();
    }

    /// Reads all that is open, ends every session and every link; then nothing may be left.
    pub(crate) fn leaves_nothing(mut self) {
        for (link, session) in self.opened.clone() {
            if let Some(session) = session {
                self.delete(&Client { id: session.into(), link });
            }
            self.at(link);
            self.close(link);
        }
        let mut keys: Vec<ReplyKey> = self.answers.keys().copied().chain(self.ready.clone()).collect();
        keys.sort_unstable();
        for key in keys {
            self.read(key);
        }
        self.pass(Duration::from_secs(24 * 60 * 60));
        assert_eq!(self.server.residue(), 0, "entries are left when everything is over: {:?}", self.server);
    }
}

/// Notes a head; whether that is all.
fn note_head(answer: &mut Answer, head: Response<ReplyBody>) -> bool {
    let (parts, body) = head.into_parts();
    answer.status = parts.status.as_u16();
    for (name, value) in &parts.headers {
        answer.headers.insert(name.as_str().to_owned(), value.to_str().unwrap().to_owned());
    }
    match body {
        ReplyBody::Whole(bytes) => {
            assert!(!bytes.is_empty() || parts.status != StatusCode::OK, "an answer without a body");
            answer.body = Some(String::from_utf8(bytes.to_vec()).unwrap());
            true
        }
        ReplyBody::Long(length) => {
            (answer.length, answer.body) = (Some(length), Some(String::new()));
            false
        }
        ReplyBody::Events => false,
    }
}

impl Answer {
    /// Reads what comes of a body as a client does, events that come in parts included.
    fn note_bytes(&mut self, bytes: &[u8]) {
        let text = std::str::from_utf8(bytes).unwrap();
        if let Some(body) = &mut self.body {
            return body.push_str(text);
        }
        let text = core::mem::take(&mut self.part) + text;
        let end = text.rfind("\n\n").map_or(0, |end| end + 2);
        self.part = text[end..].to_owned();
        for block in text[..end].split_terminator("\n\n") {
            self.note_block(block);
        }
    }

    fn note_block(&mut self, block: &str) {
        if block.starts_with(':') {
            self.comments += 1;
            return;
        }
        let mut event = Event { id: None, data: String::new() };
        for line in block.lines() {
            match line.split_once(':').unwrap_or((line, "")) {
                ("id", id) => event.id = Some(id.trim_start().to_owned()),
                ("data", data) => event.data = data.trim_start().to_owned(),
                ("event", name) => assert_eq!(name.trim_start(), "message"),
                ("retry", millis) => assert_eq!(millis.trim_start(), "1000"),
                _ => panic!("no field of an event: {line:?}"),
            }
        }
        self.events.push(event);
    }
}

/// A call of a tool.
pub(crate) fn call(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"slow"}}}}"#)
}

/// A call of a tool that asks for progress.
pub(crate) fn call_with_token(id: &str, token: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"slow","_meta":{{"progressToken":{token}}}}}}}"#
    )
}

pub(crate) fn result_of(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"said":"{result}"}}}}"#)
}

/// What is answered for a program that is gone.
pub(crate) fn gone(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-31002,"message":"the server is gone"}}}}"#)
}

pub(crate) fn progress(token: &str, progress: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{progress}}}}}"#
    )
}

pub(crate) fn note(text: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":"{text}"}}}}"#)
}

pub(crate) fn cancel(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

/// A request of the revision without sessions.
pub(crate) fn modern(id: &str, method: &str, params: &Value) -> Value {
    let mut params = params.clone();
    let meta = params.as_object_mut().unwrap().entry("_meta").or_insert_with(|| json!({}));
    for (name, value) in [
        ("protocolVersion", json!(MODERN)),
        ("clientInfo", json!({"name": "c", "version": "1"})),
        ("clientCapabilities", json!({})),
    ] {
        meta[format!("io.modelcontextprotocol/{name}")] = value;
    }
    let id: Value = serde_json::from_str(id).unwrap();
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A call of a tool of the revision without sessions.
pub(crate) fn modern_call(id: &str) -> Value {
    modern(id, "tools/call", &json!({"name": "slow"}))
}
