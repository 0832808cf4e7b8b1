//! The machine between a scripted local client and a scripted server, on a clock that nobody waits for.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use http::{HeaderMap, Method, Response};
use rescind_http::client::{FetchKey, HttpClient, HttpClientConfig, HttpClientEvent, HttpClientNotice};
use rescind_proto::{id::RequestId, link::Departure, time::Instant};
use rescind_testkit::valid::ValidMessages;
use serde_json::{Value, json};

/// The newest revision with sessions.
pub(crate) const LEGACY: &str = "2025-11-25";

/// The newest revision without.
pub(crate) const MODERN: &str = "2026-07-28";

/// Where the server is.
pub(crate) const URL: &str = "https://mcp.test/mcp";

/// The machine, and what its driver knows.
pub(crate) struct Rig {
    pub(crate) client: HttpClient,
    pub(crate) now: Instant,
    /// Requests that the driver was given and did not report as written.
    pub(crate) unwritten: BTreeSet<FetchKey>,
    pub(crate) open: BTreeMap<FetchKey, Sent>,
    aborted: Vec<FetchKey>,
    departed: Vec<Departure>,
    notices: Vec<HttpClientNotice>,
    valid: ValidMessages,
}

/// An HTTP request as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) key: FetchKey,
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Sent {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no message: {self:?}"))
    }

    /// The method of the message.
    pub(crate) fn message_method(&self) -> String {
        self.json()["method"].as_str().unwrap_or_default().to_owned()
    }
}

pub(crate) fn config() -> HttpClientConfig {
    HttpClientConfig::new(URL).unwrap()
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(config())
    }

    pub(crate) fn with(config: HttpClientConfig) -> Self {
        Self {
            client: HttpClient::new(config),
            now: Instant::ORIGIN,
            unwritten: BTreeSet::new(),
            open: BTreeMap::new(),
            aborted: Vec::new(),
            departed: Vec::new(),
            notices: Vec::new(),
            valid: ValidMessages::default(),
        }
    }

    /// A session of this revision is open, and the server does not let anyone listen.
    pub(crate) fn in_session(revision: &str) -> Self {
        Self::in_session_with(config(), revision)
    }

    pub(crate) fn in_session_with(config: HttpClientConfig, revision: &str) -> Self {
        let mut rig = Self::with(config);
        rig.open_session(revision);
        rig
    }

    pub(crate) fn open_session(&mut self, revision: &str) {
        self.say(&initialize(revision));
        let post = self.sent_one();
        self.json(post.key, 200, &[("mcp-session-id", "s1")], &initialized(0, revision));
        assert_eq!(self.heard().len(), 1);
        self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let post = self.sent_one();
        self.accept(post.key);
        let get = self.sent_one();
        assert_eq!(get.method, Method::GET);
        self.answer(get.key, 405, &[], "");
        assert_eq!(self.take_aborted(), [get.key]);
    }

    fn check(&mut self) {
        while let Some(event) = self.client.poll_event() {
            match event {
                HttpClientEvent::Abort(key) => {
                    self.aborted.push(key);
                    self.open.remove(&key);
                    self.unwritten.remove(&key);
                }
                HttpClientEvent::Departed(departure) => self.departed.push(departure),
                HttpClientEvent::Notice(notice) => self.notices.push(notice),
            }
        }
        self.client.check_invariants();
    }

    /// The local client says something.
    pub(crate) fn say(&mut self, message: &str) {
        self.valid.sent(message);
        self.client.handle_message(self.now, message.as_bytes());
        self.check();
    }

    /// The HTTP requests that are sent now; all of each is written.
    pub(crate) fn sent(&mut self) -> Vec<Sent> {
        let handed = self.handed();
        for sent in &handed {
            self.write(sent.key);
        }
        handed
    }

    pub(crate) fn sent_one(&mut self) -> Sent {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    /// The HTTP requests that are handed out now; nothing of them is written.
    pub(crate) fn handed(&mut self) -> Vec<Sent> {
        let mut handed = Vec::new();
        while let Some((key, request)) = self.client.poll_request(self.now) {
            let (head, body) = request.into_parts();
            let body = String::from_utf8(body.to_vec()).unwrap();
            let sent = Sent { key, method: head.method, url: head.uri.to_string(), headers: head.headers, body };
            self.unwritten.insert(key);
            self.open.insert(key, sent.clone());
            handed.push(sent);
        }
        self.check();
        handed
    }

    pub(crate) fn write(&mut self, key: FetchKey) -> bool {
        self.unwritten.remove(&key);
        let may_leave = self.client.handle_written(self.now, key);
        self.check();
        may_leave
    }

    pub(crate) fn head(&mut self, key: FetchKey, status: u16, headers: &[(&str, &str)]) {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let (head, ()) = response.body(()).unwrap().into_parts();
        self.client.handle_head(self.now, key, &head);
        self.check();
    }

    pub(crate) fn body(&mut self, key: FetchKey, text: &str) {
        self.client.handle_body(self.now, key, text.as_bytes());
        self.check();
    }

    pub(crate) fn end(&mut self, key: FetchKey) {
        self.open.remove(&key);
        self.client.handle_body_end(self.now, key);
        self.check();
    }

    pub(crate) fn fail(&mut self, key: FetchKey, why: &str) {
        self.open.remove(&key);
        self.client.handle_failed(self.now, key, why);
        self.check();
    }

    /// Nobody listens where the server was.
    pub(crate) fn unreached(&mut self, key: FetchKey) {
        self.open.remove(&key);
        self.client.handle_unreached(self.now, key, "connection refused");
        self.check();
    }

    /// A whole response.
    pub(crate) fn answer(&mut self, key: FetchKey, status: u16, headers: &[(&str, &str)], body: &str) {
        self.head(key, status, headers);
        self.body(key, body);
        self.end(key);
    }

    /// A whole response of JSON.
    pub(crate) fn json(&mut self, key: FetchKey, status: u16, headers: &[(&str, &str)], body: &Value) {
        let all: Vec<(&str, &str)> =
            [("content-type", "application/json")].into_iter().chain(headers.iter().copied()).collect();
        self.answer(key, status, &all, &body.to_string());
    }

    pub(crate) fn accept(&mut self, key: FetchKey) {
        self.answer(key, 202, &[], "");
    }

    /// The head of a stream of events.
    pub(crate) fn stream(&mut self, key: FetchKey) {
        self.head(key, 200, &[("content-type", "text/event-stream")]);
    }

    pub(crate) fn event(&mut self, key: FetchKey, message: &Value) {
        self.body(key, &format!("data: {message}\n\n"));
    }

    pub(crate) fn event_with_id(&mut self, key: FetchKey, id: &str, message: &Value) {
        self.body(key, &format!("id: {id}\ndata: {message}\n\n"));
    }

    /// What the local client is told.
    pub(crate) fn heard(&mut self) -> Vec<Value> {
        let mut heard = Vec::new();
        while let Some(message) = self.client.poll_message() {
            let message = String::from_utf8(message.json).unwrap();
            self.valid.check(&message).unwrap_or_else(|why| panic!("{why}: {message}"));
            heard.push(serde_json::from_str(&message).unwrap());
        }
        self.check();
        heard
    }

    pub(crate) fn heard_one(&mut self) -> Value {
        let mut heard = self.heard();
        assert_eq!(heard.len(), 1, "{heard:?}");
        heard.remove(0)
    }

    /// The code and the text of the one error that the local client is told, which answers this request.
    pub(crate) fn error(&mut self, id: impl Into<Value>) -> (i64, String) {
        let heard = self.heard_one();
        assert_eq!(heard["id"], id.into());
        let error = &heard["error"];
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    pub(crate) fn take_aborted(&mut self) -> Vec<FetchKey> {
        std::mem::take(&mut self.aborted)
    }

    /// What has left or was taken back since the last call, without the handshake.
    pub(crate) fn departed(&mut self) -> Vec<Departure> {
        let mut departed = std::mem::take(&mut self.departed);
        departed.retain(|departure| *departure != Departure::Request(named(0)));
        departed
    }

    pub(crate) fn notices(&mut self) -> Vec<HttpClientNotice> {
        std::mem::take(&mut self.notices)
    }

    /// Lets time pass; timers fire when they are due.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.client.poll_timeout()
            && due <= end
        {
            self.now = self.now.max(due);
            self.client.handle_timeout(self.now);
            self.check();
        }
        self.now = end;
    }

    /// Lets time pass to the next timer, and returns how long that was.
    pub(crate) fn pass_to_timer(&mut self) -> Duration {
        let due = self.client.poll_timeout().expect("a timer is armed");
        let time = due.since(self.now);
        self.pass(time);
        time
    }

    /// That nothing is left, once the longest timer is past.
    pub(crate) fn check_empty(&mut self) {
        self.heard();
        assert_eq!(self.client.residue(), 0);
        assert_eq!(self.client.in_flight(), 0);
    }
}

/// The request with this id.
pub(crate) fn named(id: impl Into<Value>) -> RequestId {
    RequestId::from_json(id.into().to_string().as_bytes()).unwrap()
}

pub(crate) fn initialize(revision: &str) -> String {
    let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string()
}

pub(crate) fn initialized(id: impl Into<Value>, revision: &str) -> Value {
    let result = json!({"protocolVersion": revision, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": id.into(), "result": result})
}

/// A call of a tool, in a session.
pub(crate) fn call(id: impl Into<Value>) -> String {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": {"name": "work"}}).to_string()
}

/// A request outside a session.
pub(crate) fn modern(id: impl Into<Value>, method: &str, params: &Value) -> String {
    let mut params = params.clone();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params}).to_string()
}

/// A call of a tool, outside a session.
pub(crate) fn modern_call(id: impl Into<Value>) -> String {
    modern(id, "tools/call", &json!({"name": "work"}))
}

pub(crate) fn cancel(id: impl Into<Value>) -> String {
    let params = json!({"requestId": id.into(), "reason": "stop"});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string()
}

pub(crate) fn result(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "result": {"content": []}})
}

pub(crate) fn progress(token: impl Into<Value>) -> Value {
    let params = json!({"progressToken": token.into(), "progress": 1});
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
}

pub(crate) fn error(id: impl Into<Value>, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "error": {"code": code, "message": message}})
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
