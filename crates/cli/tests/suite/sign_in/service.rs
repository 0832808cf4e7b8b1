//! An MCP server on loopback that is its own authorization server. It checks what it is shown, and notes every secret.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard},
    thread,
};

use serde_json::{Value, json};

/// Where a server is that is reached through this one.
pub(super) const FAR: &str = "http://far.test";

/// The servers. They end with the test.
pub(super) struct Service {
    pub(super) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    origin: String,
    /// Codes, and the queries that they were given for.
    codes: BTreeMap<String, String>,
    /// Tokens that are good, and what for.
    access: BTreeMap<String, String>,
    refresh: BTreeMap<String, String>,
    secrets: BTreeSet<String>,
    paths: Vec<String>,
    issued: u64,
    /// No token is good enough.
    refuses_all: bool,
}

struct Request {
    method: String,
    target: String,
    authorization: Option<String>,
    body: String,
}

struct Answer {
    status: u16,
    headers: String,
    body: String,
}

impl Service {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State { origin: format!("http://{address}"), ..State::default() }));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&shared);
                thread::spawn(move || converse(stream.unwrap(), &state));
            }
        });
        Self { address, state }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Makes every access token invalid.
    pub(super) fn expire(&self) {
        self.state().access.clear();
    }

    /// Refuses every token from now on, and gives them as before.
    pub(super) fn refuse_all(&self) {
        self.state().refuses_all = true;
    }

    /// Every secret that it has given or was shown.
    pub(super) fn secrets(&self) -> Vec<String> {
        self.state().secrets.iter().cloned().collect()
    }

    /// How often this path was asked for.
    pub(super) fn count(&self, path: &str) -> usize {
        self.state().paths.iter().filter(|asked| *asked == path).count()
    }

    /// Whether any token is good.
    pub(super) fn has_tokens(&self) -> bool {
        let state = self.state();
        !state.access.is_empty() || !state.refresh.is_empty()
    }
}

fn converse(stream: TcpStream, state: &Mutex<State>) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader) {
        let Answer { status, headers, body } = state.lock().unwrap().answer(&request);
        let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        let head = format!("HTTP/1.1 {status} x\r\n{headers}{kind}content-length: {}\r\n\r\n{body}", body.len());
        if writer.write_all(head.as_bytes()).is_err() {
            return;
        }
    }
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let (mut authorization, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match &*name.to_ascii_lowercase() {
            "authorization" => authorization = Some(value.trim().to_owned()),
            "content-length" => length = value.trim().parse().unwrap(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, target, authorization, body: String::from_utf8(body).unwrap() })
}

fn json_answer(status: u16, body: &Value) -> Answer {
    Answer { status, headers: String::new(), body: body.to_string() }
}

fn empty(status: u16, headers: String) -> Answer {
    Answer { status, headers, body: String::new() }
}

/// A value of a form or a query, as it stands there: none of ours is encoded, but for URLs.
fn value(query: &str, name: &str) -> String {
    let pair = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(known, _)| *known == name);
    pair.map_or_else(String::new, |(_, value)| value.replace("%3A", ":").replace("%2F", "/").replace("%20", " "))
}

impl State {
    fn answer(&mut self, request: &Request) -> Answer {
        // As a proxy to a server elsewhere, which is one of 2025-03-26: it says nothing of itself.
        let far = request.target.strip_prefix(FAR);
        let target = far.unwrap_or(&request.target);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if far.is_some() && !matches!(path, "/register" | "/authorize" | "/token") {
            self.paths.push(path.to_owned());
            return empty(if path == "/mcp" { 401 } else { 404 }, String::new());
        }
        self.paths.push(path.to_owned());
        let origin = self.origin.clone();
        match path {
            "/mcp" => self.message(request),
            "/.well-known/oauth-protected-resource/mcp" => json_answer(
                200,
                &json!({
                    "resource": format!("{origin}/mcp"), "authorization_servers": [origin],
                }),
            ),
            "/.well-known/oauth-authorization-server" => json_answer(
                200,
                &json!({
                    "issuer": origin,
                    "authorization_endpoint": format!("{origin}/authorize"),
                    "token_endpoint": format!("{origin}/token"),
                    "registration_endpoint": format!("{origin}/register"),
                    "revocation_endpoint": format!("{origin}/revoke"),
                    "code_challenge_methods_supported": ["S256"],
                    "token_endpoint_auth_methods_supported": ["client_secret_post"],
                    "authorization_response_iss_parameter_supported": true,
                }),
            ),
            "/register" => {
                let secret = self.secret("client-secret");
                json_answer(
                    201,
                    &json!({
                        "client_id": "client", "client_secret": secret, "token_endpoint_auth_method": "client_secret_post",
                    }),
                )
            }
            "/authorize" => {
                let code = self.secret("code");
                self.secrets.insert(value(query, "state"));
                self.codes.insert(code.clone(), query.to_owned());
                let (back, state) = (value(query, "redirect_uri"), value(query, "state"));
                empty(302, format!("location: {back}?code={code}&state={state}&iss={origin}\r\n"))
            }
            "/token" => self.token(&request.body),
            "/revoke" => {
                self.access.remove(&value(&request.body, "token"));
                self.refresh.remove(&value(&request.body, "token"));
                empty(200, String::new())
            }
            _ => empty(404, String::new()),
        }
    }

    fn message(&self, request: &Request) -> Answer {
        let message: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let token = request.authorization.as_deref().and_then(|value| value.strip_prefix("Bearer "));
        let Some(scope) = token.and_then(|token| self.access.get(token)).filter(|_| !self.refuses_all) else {
            let page = format!("{}/.well-known/oauth-protected-resource/mcp", self.origin);
            return empty(401, format!("www-authenticate: Bearer resource_metadata=\"{page}\", scope=\"read\"\r\n"));
        };
        let result = |result: Value| Answer {
            status: 200,
            headers: String::new(),
            body: crate::shim::words::result(&message["id"].to_string(), &result.to_string()),
        };
        match (&*request.method, message["method"].as_str()) {
            ("GET", _) => empty(405, String::new()),
            (_, Some("initialize")) => result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {},
                "serverInfo": {"name": "signed", "version": "1"},
            })),
            (_, Some("tools/call")) if message["params"]["name"] == "write" && !scope.contains("write") => {
                empty(403, "www-authenticate: Bearer error=\"insufficient_scope\", scope=\"write\"\r\n".to_owned())
            }
            _ if message["id"].is_null() => empty(202, String::new()),
            _ => result(json!({"scope": scope})),
        }
    }

    fn token(&mut self, form: &str) -> Answer {
        self.secrets.extend(Some(value(form, "code_verifier")).filter(|verifier| !verifier.is_empty()));
        let refused = || json_answer(400, &json!({"error": "invalid_grant"}));
        let scope = match &*value(form, "grant_type") {
            "authorization_code" => {
                let Some(query) = self.codes.remove(&value(form, "code")) else { return refused() };
                if value(&query, "resource") != format!("{}/mcp", self.origin) {
                    return refused();
                }
                value(&query, "scope")
            }
            _ => match self.refresh.remove(&value(form, "refresh_token")) {
                Some(scope) => scope,
                None => return refused(),
            },
        };
        let (access, refresh) = (self.secret("access"), self.secret("refresh"));
        self.access.insert(access.clone(), scope.clone());
        self.refresh.insert(refresh.clone(), scope.clone());
        json_answer(
            200,
            &json!({
                "access_token": access, "refresh_token": refresh, "token_type": "Bearer", "expires_in": 3600, "scope": scope,
            }),
        )
    }

    fn secret(&mut self, kind: &str) -> String {
        self.issued += 1;
        let secret = format!("{kind}-secret-{}", self.issued);
        self.secrets.insert(secret.clone());
        secret
    }
}
