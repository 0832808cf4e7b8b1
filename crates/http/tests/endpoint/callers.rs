//! Who has called, as a tool is told: by middleware of the application, or by the owner of the token.

use std::sync::Arc;

use rescind::{
    mcp::Server,
    peer::{AnyError, Context},
};
use rescind_http::{
    server::{Access, Bearers, Caller, Extension, HttpServerConfig, Sessions, Stateless},
    shell::{Endpoint, Listener, ListenerConfig},
};
use rescind_testkit::puppet::{Connection, Transcript};
use tokio::{net::TcpListener, runtime::Runtime, sync::Barrier};

use crate::{MODERN_HEADERS, answer};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// What the middleware of the application has found out.
#[derive(Clone)]
struct User(String);

/// A server whose tool says who has called it.
struct Rig {
    address: std::net::SocketAddr,
    transcript: Transcript,
    _runtime: Runtime,
}

/// Calls that are under way at once: none says anything before all have begun.
const TOGETHER: usize = 2;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Leaves the user whom the header names in the extensions of the request.
async fn sign_in(mut request: axum::extract::Request, next: axum::middleware::Next) -> axum::response::Response {
    let user = request.headers().get("x-user").and_then(|user| user.to_str().ok()).map(ToOwned::to_owned);
    if let Some(user) = user {
        request.extensions_mut().insert(User(user));
    }
    next.run(request).await
}

impl Rig {
    /// An endpoint mounted in an application that signs people in.
    fn mounted(sessions: Sessions) -> Self {
        Self::start(HttpServerConfig { path: None, sessions, ..config() }, true)
    }

    fn start(config: HttpServerConfig, is_mounted: bool) -> Self {
        let runtime = runtime();
        let address = runtime.block_on(async move {
            let together = Arc::new(Barrier::new(TOGETHER));
            let describe = move || {
                let (waits, also_waits) = (Arc::clone(&together), Arc::clone(&together));
                let user = move |_: Nothing, Extension(User(user)): Extension<User>| {
                    let waits = Arc::clone(&waits);
                    async move {
                        waits.wait().await;
                        Ok::<_, AnyError>(user)
                    }
                };
                let owner = move |_: Nothing, cx: Context| {
                    let waits = Arc::clone(&also_waits);
                    async move {
                        waits.wait().await;
                        let caller = Caller::of(&cx);
                        Ok::<_, AnyError>(caller.owner().map_or("nobody", |owner| owner.name()).to_owned())
                    }
                };
                Server::new("who", "1.0").tool("user", "Says who", user).tool("owner", "Says whose", owner)
            };
            let endpoint = Endpoint::new(config);
            let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = socket.local_addr().unwrap();
            let served = endpoint.clone();
            tokio::spawn(async move { served.serve(describe).await });
            if is_mounted {
                let application = axum::Router::new().route_service("/mcp", endpoint);
                let application = application.layer(axum::middleware::from_fn(sign_in));
                tokio::spawn(async move { axum::serve(socket, application).await });
            } else {
                tokio::spawn(Listener::new(socket, endpoint, ListenerConfig::default()).serve(std::future::pending()));
            }
            address
        });
        Self { address, transcript: Transcript::default(), _runtime: runtime }
    }

    fn post(&self, headers: &[(&str, &str)], body: &str) -> Connection {
        let mut connection = Connection::open(self.address, &self.transcript);
        connection.post(headers, body);
        connection
    }

    fn open_session(&self, who: (&str, &str)) -> String {
        let params = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}"#;
        let body = format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{params}}}"#);
        let mut connection = self.post(&[who], &body);
        let head = connection.head();
        assert!(connection.message(&head).contains("2025-11-25"));
        let id = head.header("mcp-session-id").unwrap().to_owned();
        let body = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(self.post(&[who, ("mcp-session-id", &id)], body).head().status, 202);
        id
    }

    fn call(&self, session: &str, who: (&str, &str), tool: &str) -> Connection {
        let params = format!(r#"{{"name":"{tool}","arguments":{{}}}}"#);
        let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        self.post(&[who, ("mcp-session-id", session)], &call)
    }

    fn call_modern(&self, who: (&str, &str), tool: &str) -> Connection {
        let mut headers = MODERN_HEADERS.to_vec();
        headers[2].1 = tool;
        headers.push(who);
        let body = crate::modern_call("x").replace(r#""name":"work""#, &format!(r#""name":"{tool}""#));
        self.post(&headers, &body)
    }
}

fn config() -> HttpServerConfig {
    HttpServerConfig { stateless: Stateless::Served, ..HttpServerConfig::default() }
}

#[track_caller]
fn expect(mut call: Connection, who: &str) {
    let said = answer(&mut call);
    assert!(said.contains(&format!(r#""text":"{who}""#)), "{said}");
}

#[test]
fn a_tool_is_told_whom_the_applications_middleware_has_signed_in() {
    for sessions in [Sessions::OwnLink, Sessions::SharedLink] {
        let rig = Rig::mounted(sessions);
        let (ann, bob) = (("x-user", "ann"), ("x-user", "bob"));
        // Requests outside a session share a link.
        let calls = [rig.call_modern(ann, "user"), rig.call_modern(bob, "user")];
        for (call, who) in calls.into_iter().zip(["ann", "bob"]) {
            expect(call, who);
        }
        // Each in a session of its own.
        let (hers, his) = (rig.open_session(ann), rig.open_session(bob));
        let calls = [rig.call(&hers, ann, "user"), rig.call(&his, bob, "user")];
        for (call, who) in calls.into_iter().zip(["ann", "bob"]) {
            expect(call, who);
        }
        // Both in one, which the application lets them: a request is its caller's, not the session's.
        let calls = [rig.call(&hers, ann, "user"), rig.call(&hers, bob, "user")];
        for (call, who) in calls.into_iter().zip(["ann", "bob"]) {
            expect(call, who);
        }
        // Nobody has signed in.
        let said = answer(&mut rig.call_modern(("x-other", "x"), "user"));
        assert!(said.contains("-32603") && said.contains("extension"), "{said}");
    }
}

#[test]
fn a_tool_is_told_the_owner_of_the_token() {
    for sessions in [Sessions::OwnLink, Sessions::SharedLink] {
        let access = Access::Owners(Bearers::read("ann token-of-ann\nbob token-of-bob").unwrap());
        let rig = Rig::start(HttpServerConfig { access, sessions, ..config() }, false);
        let [ann, bob] = ["Bearer token-of-ann", "Bearer token-of-bob"].map(|token| ("authorization", token));
        let calls = [rig.call_modern(ann, "owner"), rig.call_modern(bob, "owner")];
        for (call, who) in calls.into_iter().zip(["ann", "bob"]) {
            expect(call, who);
        }
        let (hers, his) = (rig.open_session(ann), rig.open_session(bob));
        let calls = [rig.call(&hers, ann, "owner"), rig.call(&his, bob, "owner")];
        for (call, who) in calls.into_iter().zip(["ann", "bob"]) {
            expect(call, who);
        }
    }
    // Where there are no owners, and no middleware, nothing is known.
    let rig = Rig::start(config(), false);
    let calls = [rig.call_modern(("x-user", "ann"), "owner"), rig.call_modern(("x-user", "bob"), "owner")];
    calls.into_iter().for_each(|call| expect(call, "nobody"));
}
