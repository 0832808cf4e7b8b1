//! A server and its authorization server, which check what they are sent and note it; each answer can be replaced.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use rescind_sign_in::{Http, HttpError, Reply, Sending};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

pub(crate) const SERVER: &str = "https://mcp.test/v1/mcp";
pub(crate) const ISSUER: &str = "https://as.test/tenant";
pub(crate) const RESOURCE_PAGE: &str = "https://mcp.test/.well-known/oauth-protected-resource/v1/mcp";
pub(crate) const ISSUER_PAGE: &str = "https://as.test/.well-known/oauth-authorization-server/tenant";
pub(crate) const TOKEN: &str = "https://as.test/token";
pub(crate) const REGISTER: &str = "https://as.test/register";
pub(crate) const DEVICE: &str = "https://as.test/device";
pub(crate) const REVOKE: &str = "https://as.test/revoke";

/// What is answered.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Json(u16, Value),
    Redirect(&'static str),
    /// So many bytes.
    Huge(usize),
    Never,
}

/// A request that was made.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) url: String,
    pub(crate) body: String,
    pub(crate) authorization: Option<String>,
}

impl Asked {
    pub(crate) fn value(&self, name: &str) -> Option<String> {
        value(&self.body, name)
    }
}

/// The servers. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Script {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Answers in place of those that would be right.
    instead: BTreeMap<String, Answer>,
    asked: Vec<Asked>,
    clients: BTreeSet<String>,
    /// Codes, and what they are for: the challenge, the redirect, and the client.
    codes: BTreeMap<String, (String, String, String)>,
    refresh: BTreeSet<String>,
    issued: usize,
    /// Answers to questions about a device, in their order.
    device: Vec<Answer>,
    /// The origin of a server of 2025-03-26, which gives tokens itself.
    own: Option<String>,
}

impl Script {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Has this URL answered so from now on.
    pub(crate) fn answer(&self, url: &str, answer: Answer) {
        self.state().instead.insert(url.to_owned(), answer);
    }

    /// Is a server of 2025-03-26 at this origin, too, and names a page about itself at `https://as.test/about`.
    pub(crate) fn be(&self, origin: &str) {
        let about = json!({"resource": format!("{origin}/v1/mcp"), "authorization_servers": [ISSUER]});
        self.answer("https://as.test/about", Answer::Json(200, about));
        self.state().own = Some(origin.to_owned());
    }

    /// Changes a page that would be right.
    pub(crate) fn change(&self, url: &str, change: impl FnOnce(&mut Value)) {
        let mut page = page(url).unwrap();
        change(&mut page);
        self.answer(url, Answer::Json(200, page));
    }

    /// Forgets every client.
    pub(crate) fn forget_clients(&self) {
        self.state().clients.clear();
    }

    /// Makes every token that could be renewed void.
    pub(crate) fn revoke_all(&self) {
        self.state().refresh.clear();
    }

    pub(crate) fn device_answers(&self, answers: impl IntoIterator<Item = Answer>) {
        self.state().device = answers.into_iter().collect();
    }

    /// The requests to this URL.
    pub(crate) fn asked(&self, url: &str) -> Vec<Asked> {
        self.state().asked.iter().filter(|asked| asked.url == url).cloned().collect()
    }

    /// The URLs of all requests, in their order.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.state().asked.iter().map(|asked| asked.url.clone()).collect()
    }

    /// Lets a person in who comes with this query, and gives him a code.
    pub(crate) fn code(&self, query: &str) -> String {
        let part = |name| value(query, name).unwrap();
        let mut state = self.state();
        state.issued += 1;
        let code = format!("code-{}", state.issued);
        let what_for = (part("code_challenge"), part("redirect_uri"), part("client_id"));
        state.codes.insert(code.clone(), what_for);
        code
    }

    fn reply(&self, request: &Request<Bytes>) -> Answer {
        let url = request.uri().to_string();
        let body = String::from_utf8(request.body().to_vec()).unwrap();
        let authorization = request.headers().get(header::AUTHORIZATION);
        let authorization = authorization.map(|value| value.to_str().unwrap().to_owned());
        let mut state = self.state();
        state.asked.push(Asked { url: url.clone(), body: body.clone(), authorization });
        if let Some(answer) = state.instead.get(&url) {
            return answer.clone();
        }
        if let Some(page) = page(&url) {
            return Answer::Json(200, page);
        }
        let own = state.own.as_ref().and_then(|own| url.strip_prefix(&**own));
        let url = match own {
            Some("/v1/mcp") => SERVER,
            Some("/register") => REGISTER,
            Some("/token") => TOKEN,
            _ => &*url,
        };
        match url {
            SERVER => Answer::Json(401, json!({})),
            REGISTER => {
                let id = format!("client-{}", state.clients.len() + 1);
                state.clients.insert(id.clone());
                Answer::Json(201, json!({"client_id": id}))
            }
            TOKEN => state.token(&body),
            DEVICE => Answer::Json(
                200,
                json!({
                    "device_code": "device-secret", "user_code": "ABCD-EFGH", "interval": 5, "expires_in": 600,
                    "verification_uri": "https://as.test/activate",
                }),
            ),
            REVOKE => Answer::Json(200, Value::Null),
            _ => Answer::Json(404, json!({})),
        }
    }
}

impl State {
    fn token(&mut self, form: &str) -> Answer {
        let part = |name: &str| value(form, name).unwrap_or_default();
        let refused = |error: &str| Answer::Json(400, json!({"error": error}));
        if !self.clients.contains(&part("client_id")) {
            return refused("invalid_client");
        }
        match &*part("grant_type") {
            "authorization_code" => {
                let Some((challenge, redirect, client)) = self.codes.remove(&part("code")) else {
                    return refused("invalid_grant");
                };
                let shown = BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, part("code_verifier").as_bytes()));
                let is_right = challenge == shown && redirect == part("redirect_uri") && client == part("client_id");
                if is_right { self.issue() } else { refused("invalid_grant") }
            }
            "refresh_token" if self.refresh.remove(&part("refresh_token")) => self.issue(),
            "refresh_token" => refused("invalid_grant"),
            _ if self.device.is_empty() => self.issue(),
            _ => self.device.remove(0),
        }
    }

    fn issue(&mut self) -> Answer {
        self.issued += 1;
        let (access, refresh) = (format!("access-{}", self.issued), format!("refresh-{}", self.issued));
        self.refresh.insert(refresh.clone());
        let kind = "Bearer";
        Answer::Json(
            200,
            json!({
                "access_token": access, "refresh_token": refresh, "token_type": kind, "expires_in": 3600,
            }),
        )
    }
}

/// The pages as they are right.
fn page(url: &str) -> Option<Value> {
    match url {
        RESOURCE_PAGE => {
            Some(json!({"resource": SERVER, "authorization_servers": [ISSUER], "scopes_supported": ["read"]}))
        }
        ISSUER_PAGE => Some(json!({
            "issuer": ISSUER,
            "authorization_endpoint": "https://as.test/authorize?tenant=1",
            "token_endpoint": TOKEN,
            "registration_endpoint": REGISTER,
            "revocation_endpoint": REVOKE,
            "code_challenge_methods_supported": ["S256"],
        })),
        _ => None,
    }
}

/// A value of a form or a query.
pub(crate) fn value(query: &str, name: &str) -> Option<String> {
    let pair = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(known, _)| *known == name)?;
    Some(percent_encoding::percent_decode_str(pair.1).decode_utf8().unwrap().into_owned())
}

impl Http for Script {
    fn send(&self, request: Request<Bytes>) -> Sending<'_> {
        Box::pin(async move {
            let mut headers = HeaderMap::new();
            let (status, body) = match self.reply(&request) {
                Answer::Json(status, body) => (status, Bytes::from(body.to_string())),
                Answer::Redirect(to) => {
                    headers.insert(header::LOCATION, HeaderValue::from_static(to));
                    (302, Bytes::new())
                }
                Answer::Huge(length) if length > rescind_sign_in::MAX_BODY => return Err(HttpError::TooLarge),
                Answer::Huge(length) => (200, Bytes::from(vec![b'x'; length])),
                Answer::Never => return std::future::pending().await,
            };
            Ok(Reply { status: StatusCode::from_u16(status).unwrap(), headers, body })
        })
    }
}
