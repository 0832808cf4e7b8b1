//! An MCP server on loopback that wants a bearer token with every request, and notes what each had.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::{Value, json};

/// The server. It ends with the test.
pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    /// Values of `Authorization` that are good.
    good: BTreeSet<String>,
    seen: Vec<Seen>,
    sessions: usize,
}

/// A request that it got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// The method of its message; that of HTTP and the path if it has none.
    pub(super) what: String,
    /// Its header, or nothing.
    pub(super) authorization: String,
}

/// An HTTP request as it came.
pub(super) struct Request {
    pub(super) method: String,
    path: String,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn read(reader: &mut impl BufRead) -> Option<Self> {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let mut words = line.split(' ').map(str::to_owned);
        let (method, path) = (words.next()?, words.next()?);
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Self { method, path, headers, body: Vec::new() };
        let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or_default();
        request.body.resize(length, 0);
        reader.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}

impl Upstream {
    /// A server for which these are good.
    pub(super) fn start(good: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Mutex::new(Shared::default()));
        let upstream = Self { address, shared: Arc::clone(&shared) };
        upstream.accept_only(good);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || converse(stream.unwrap(), address, &shared));
            }
        });
        upstream
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// From now on only these are good.
    pub(super) fn accept_only(&self, good: &[&str]) {
        self.shared.lock().unwrap().good = good.iter().map(|token| (*token).to_owned()).collect();
    }

    /// What it got since it was last asked.
    pub(super) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.shared.lock().unwrap().seen)
    }
}

/// How to sign in, as the server says it.
pub(super) fn challenge(address: SocketAddr) -> String {
    format!(r#"Bearer resource_metadata="http://{address}/.well-known/oauth-protected-resource/mcp""#)
}

/// The page that says where.
pub(super) fn page(address: SocketAddr) -> String {
    json!({"resource": format!("http://{address}/mcp"), "authorization_servers": [format!("http://{address}")]})
        .to_string()
}

fn converse(stream: TcpStream, address: SocketAddr, shared: &Mutex<Shared>) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(request) = Request::read(&mut reader) {
        let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let (status, headers, body) = answer(&request, &message, address, shared);
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        let head = format!("HTTP/1.1 {status} x\r\n{headers}{kind}content-length: {}\r\n\r\n{body}", body.len());
        if writer.write_all(head.as_bytes()).is_err() {
            return;
        }
    }
}

fn answer(
    request: &Request,
    message: &Value,
    address: SocketAddr,
    shared: &Mutex<Shared>,
) -> (u16, Vec<(&'static str, String)>, String) {
    let authorization = request.header("authorization").unwrap_or_default().to_owned();
    let method = message["method"].as_str();
    let mut shared = shared.lock().unwrap();
    let what = method.map_or_else(|| format!("{} {}", request.method, request.path), ToOwned::to_owned);
    shared.seen.push(Seen { what, authorization: authorization.clone() });
    if request.path.contains("/.well-known/") {
        return match &*request.path {
            "/.well-known/oauth-protected-resource/mcp" => (200, vec![], page(address)),
            "/.well-known/openid-configuration" => (302, vec![("location", "/elsewhere".into())], String::new()),
            "/.well-known/oauth-authorization-server" => (200, vec![], "x".repeat((1 << 20) + 1)),
            _ => (404, vec![], String::new()),
        };
    }
    if !shared.good.contains(&authorization) {
        return (401, vec![("www-authenticate", challenge(address))], r#"{"error":"invalid_token"}"#.into());
    }
    let id = &message["id"];
    let result = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    match (&*request.method, method) {
        ("GET", _) => (405, vec![], String::new()),
        ("DELETE", _) => (204, vec![], String::new()),
        (_, Some("initialize")) => {
            shared.sessions += 1;
            let info = json!({"name": "upstream", "version": "1"});
            let result = result(json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info}));
            (200, vec![("mcp-session-id", format!("up{}", shared.sessions))], result)
        }
        (_, Some("server/discover")) => (200, vec![], result(json!({"supportedVersions": ["2026-07-28"]}))),
        (_, Some("tools/call")) if message["params"]["name"] == "forbidden" => {
            (403, vec![("www-authenticate", r#"Bearer error="insufficient_scope", scope="x""#.into())], String::new())
        }
        _ if id.is_null() => (202, vec![], String::new()),
        _ => (200, vec![], result(json!({"for": authorization}))),
    }
}
