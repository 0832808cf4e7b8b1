//! Several clients of one server: none of them keeps the others out, however many slow calls it makes and however many of
//! its dialogs nobody answers.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use rescind::{
    mcp::Server,
    peer::{AnyError, CauseCode, Context},
};
use rescind_http::{
    server::{Access, Bearers, ClientAddress, ClientConnection, HttpServerConfig, Sessions, Stateless},
    shell::{Endpoint, Listener, ListenerConfig, ResponseBody},
};
use rescind_testkit::puppet::{Connection, Transcript};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinHandle,
};

use crate::PATIENCE;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Named {
    name: String,
}

/// Marks the end of work, and why it was stopped.
struct Working {
    name: String,
    marks: UnboundedSender<String>,
    cx: Context,
}

impl Working {
    fn begin(name: String, marks: &UnboundedSender<String>, cx: Context) -> Self {
        let _ = marks.send(format!("started {name}"));
        Self { name, marks: marks.clone(), cx }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let why = match self.cx.cause() {
            Some(cause) if cause.code == CauseCode::Policy => format!(": {}", cause.text().unwrap_or("?")),
            Some(_) | None => String::new(),
        };
        let _ = self.marks.send(format!("ended {}{why}", self.name));
    }
}

/// A server with a tool that works until it is stopped, one that asks, and one that answers at once.
fn describe(marks: &UnboundedSender<String>, max_wait: Duration) -> Server {
    let (slow, asks) = (marks.clone(), marks.clone());
    let slow = move |Named { name }, cx: Context| {
        let working = Working::begin(name, &slow, cx.clone());
        async move {
            cx.cancelled().await;
            drop(working);
            Err::<String, AnyError>("stopped".into())
        }
    };
    let ask = move |Named { name }, cx: Context| {
        let _working = Working::begin(name, &asks, cx.clone());
        async move {
            let answer = cx.ask::<Value>("elicitation/create", &json!({ "message": "Who?" })).await;
            drop(_working);
            Ok::<_, AnyError>(answer?["content"]["who"].to_string())
        }
    };
    let server = Server::new("worker", "1.0").tool("slow", "Works", slow).tool("ask", "Asks", ask);
    let server = server.tool("now", "Answers", async |Named { name }| Ok::<_, AnyError>(format!("{name} is done")));
    server.with(|peer| peer.max_wait(max_wait))
}

/// What tells a client from others.
#[derive(Clone, Debug)]
enum Client {
    Address(&'static str),
    /// On this machine, which counts as no address.
    Connection(u64),
    /// The same, and it says who it is.
    Name(&'static str),
    /// The owner of this token, behind a proxy.
    Owner(&'static str),
    Nobody,
}

/// Two clients of each kind.
const PAIRS: [[Client; 2]; 4] = [
    [Client::Address("10.0.0.1"), Client::Address("10.0.0.2")],
    [Client::Connection(1), Client::Connection(2)],
    [Client::Name("an editor"), Client::Name("an agent")],
    [Client::Owner("one"), Client::Owner("two")],
];

/// A server that is spoken to without a socket.
struct Bench {
    endpoint: Endpoint,
    marks: UnboundedReceiver<String>,
}

impl Bench {
    fn start(access: Access, sessions: Sessions) -> Self {
        let config =
            HttpServerConfig { access, sessions, stateless: Stateless::Served, seed: 1, ..HttpServerConfig::default() };
        let endpoint = Endpoint::new(config);
        let (sender, marks) = unbounded_channel();
        let served = endpoint.clone();
        tokio::spawn(async move { served.serve(|| describe(&sender, Duration::from_secs(30))).await });
        Self { endpoint, marks }
    }

    /// For these clients.
    fn of([client, _]: &[Client; 2]) -> Self {
        let owners = || Access::Owners(Bearers::read("ann one\nbob two").unwrap());
        let access = if matches!(client, Client::Owner(_)) { owners() } else { Access::Open };
        Self::start(access, Sessions::OwnLink)
    }

    /// A call; dropping it is a hang-up.
    fn call(&self, client: &Client, tool: &str, name: &str, more: &str) -> Call {
        let body = modern(tool, name, more, client);
        let mut request = http::Request::post("/mcp").header("mcp-protocol-version", "2026-07-28");
        request = request.header("mcp-method", "tools/call").header("mcp-name", tool);
        Call::new(&self.endpoint, told_apart(request, client).body(body).unwrap())
    }

    async fn expect(&mut self, mark: &str) {
        assert_eq!(self.marks.recv().await.unwrap(), mark);
    }

    /// The state under which a question is open.
    async fn ask(&mut self, client: &Client, name: &str) -> String {
        let asked = self.call(client, "ask", name, "").answer().await;
        self.expect(&format!("started {name}")).await;
        assert_eq!(asked["result"]["resultType"], "input_required", "{client:?} is not asked: {asked}");
        asked["result"]["requestState"].as_str().unwrap().to_owned()
    }

    async fn reply(&mut self, client: &Client, name: &str, state: &str) -> Value {
        let answer = json!({ "action": "accept", "content": { "who": "Ada" } });
        let more = format!(r#","requestState":"{state}","inputResponses":{{"q1":{answer}}}"#);
        self.call(client, "ask", name, &more).answer().await
    }
}

/// A request that is being answered. Dropping it is the hang-up.
struct Call(JoinHandle<Value>);

impl Call {
    fn new(endpoint: &Endpoint, request: Request<String>) -> Self {
        let response = endpoint.respond(request);
        Self(tokio::spawn(async move { read(response.await).await }))
    }

    async fn answer(mut self) -> Value {
        let hour = Duration::from_secs(3600);
        tokio::time::timeout(hour, &mut self.0).await.expect("an answer in time").unwrap()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The message of a response, plain or the last event of a stream.
async fn read(response: Result<Response<ResponseBody>, Infallible>) -> Value {
    let Ok(response) = response;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let text = std::str::from_utf8(&body).unwrap();
    let data = text.lines().rev().find_map(|line| line.strip_prefix("data: ").or_else(|| line.strip_prefix("data:")));
    serde_json::from_str(data.unwrap_or(text)).unwrap_or_else(|_| panic!("{text:?}"))
}

fn told_apart(mut request: http::request::Builder, client: &Client) -> http::request::Builder {
    request = request.header("host", "localhost").header("content-type", "application/json");
    request = request.header("accept", "application/json, text/event-stream");
    let address = match client {
        Client::Address(address) => address,
        Client::Connection(_) | Client::Name(_) | Client::Owner(_) | Client::Nobody => "127.0.0.1",
    };
    request = request.extension(ClientAddress(address.parse().unwrap()));
    match client {
        Client::Connection(number) => request.extension(ClientConnection(*number)),
        Client::Owner(token) => request.header("authorization", format!("Bearer {token}")),
        Client::Address(_) | Client::Name(_) | Client::Nobody => request,
    }
}

fn modern(tool: &str, name: &str, more: &str, client: &Client) -> String {
    let info = match client {
        Client::Name(name) => format!(r#""io.modelcontextprotocol/clientInfo":{{"name":"{name}","version":"1"}},"#),
        Client::Address(_) | Client::Connection(_) | Client::Owner(_) | Client::Nobody => String::new(),
    };
    let meta = format!(
        r#"{{"io.modelcontextprotocol/protocolVersion":"2026-07-28",{info}"io.modelcontextprotocol/clientCapabilities":{{"elicitation":{{}}}}}}"#
    );
    let params = format!(r#"{{"name":"{tool}","arguments":{{"name":"{name}"}},"_meta":{meta}{more}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)
}

/// One client makes 300 slow calls. The other's call is answered, its hang-up stops its work and no other, and what waits
/// for the first one's handlers is told so in time.
#[tokio::test(start_paused = true)]
async fn a_client_with_300_slow_calls_keeps_nobody_out_and_is_told_in_time() {
    for pair in PAIRS {
        let mut bench = Bench::of(&pair);
        let [greedy, other] = &pair;
        // Each owner has a server to himself.
        let most = if matches!(greedy, Client::Owner(_)) { 256 } else { 128 };
        let mut calls = Vec::new();
        for number in 0..300 {
            calls.push(bench.call(greedy, "slow", &number.to_string(), ""));
        }
        for number in 0..most {
            bench.expect(&format!("started {number}")).await;
        }
        let answer = bench.call(other, "now", "quick", "").answer().await;
        assert_eq!(answer["result"]["content"][0]["text"], "quick is done", "{other:?} beside {greedy:?}: {answer}");
        let slow = bench.call(other, "slow", "other", "");
        bench.expect("started other").await;
        drop(slow);
        bench.expect("ended other").await;
        for call in calls.drain(most..) {
            let refused = call.answer().await;
            assert_eq!(refused["error"]["code"], -31004, "{greedy:?}: {refused}");
            let text = refused["error"]["message"].as_str().unwrap();
            assert!(text.contains("30 s") && text.contains("256") && text.contains("try again"), "{text}");
        }
        assert!(bench.marks.is_empty(), "nothing else started or ended");
        drop(calls);
    }
}

/// Nothing tells them apart: all handlers may be one's, and the others are told so in time.
#[tokio::test(start_paused = true)]
async fn clients_that_nothing_tells_apart_are_told_in_time_that_every_handler_is_taken() {
    let mut bench = Bench::start(Access::Open, Sessions::OwnLink);
    let calls: Vec<_> = (0..256).map(|number| bench.call(&Client::Nobody, "slow", &number.to_string(), "")).collect();
    for number in 0..256 {
        bench.expect(&format!("started {number}")).await;
    }
    let refused = bench.call(&Client::Nobody, "now", "late", "").answer().await;
    assert_eq!(refused["error"]["code"], -31004, "{refused}");
    drop(calls);
}

/// Their owners share the server, and one address: that of a proxy. Without owners the sessions tell clients apart.
#[tokio::test(start_paused = true)]
async fn sessions_that_share_a_server_are_served_beside_one_with_300_slow_calls() {
    let owners = || Access::Owners(Bearers::read("ann one\nbob two").unwrap());
    for (access, pair) in
        [(owners(), [Client::Owner("one"), Client::Owner("two")]), (Access::Open, [Client::Nobody, Client::Nobody])]
    {
        let mut bench = Bench::start(access, Sessions::SharedLink);
        let post = |client: &Client, session: Option<&str>, message: String| {
            let mut request = told_apart(http::Request::post("/mcp"), client);
            if let Some(session) = session {
                request = request.header("mcp-session-id", session);
            }
            request.body(message).unwrap()
        };
        let mut sessions = Vec::new();
        for client in &pair {
            let params =
                r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}"#;
            let message = format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{params}}}"#);
            let opened = bench.endpoint.respond(post(client, None, message)).await.unwrap();
            sessions.push(opened.headers()["mcp-session-id"].to_str().unwrap().to_owned());
            let message = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned();
            bench.endpoint.respond(post(client, sessions.last().map(|id| &**id), message)).await.unwrap();
        }
        let call = |bench: &Bench, of: usize, id: usize, tool: &str| {
            let params = format!(r#"{{"name":"{tool}","arguments":{{"name":"{of}-{id}"}}}}"#);
            let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
            Call::new(&bench.endpoint, post(&pair[of], Some(&sessions[of]), message))
        };
        let mut calls: Vec<_> = (0..300).map(|id| call(&bench, 0, id, "slow")).collect();
        for id in 0..128 {
            bench.expect(&format!("started 0-{id}")).await;
        }
        let answer = call(&bench, 1, 1, "now").answer().await;
        assert_eq!(answer["result"]["content"][0]["text"], "1-1 is done", "{pair:?}: {answer}");
        let slow = call(&bench, 1, 2, "slow");
        bench.expect("started 1-2").await;
        let message = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#.to_owned();
        bench.endpoint.respond(post(&pair[1], Some(&sessions[1]), message)).await.unwrap();
        bench.expect("ended 1-2").await;
        drop(slow);
        let refused = calls.pop().unwrap().answer().await;
        assert_eq!(refused["error"]["code"], -31004, "{refused}");
    }
}

/// The words with which a handler is stopped that gives up its place.
const GAVE_WAY: &str = "too many calls wait for input: the oldest of this client gave way to a newer one";

#[tokio::test(start_paused = true)]
async fn dialogs_that_a_client_leaves_open_keep_nobody_else_from_being_asked() {
    for pair in PAIRS {
        let mut bench = Bench::of(&pair);
        let [gone, other] = &pair;
        let has_all = matches!(gone, Client::Owner(_));
        let mut states = Vec::new();
        for number in 0..64 {
            states.push(bench.ask(gone, &format!("dialog {number}")).await);
            if number >= 32 && !has_all {
                bench.expect(&format!("ended dialog {}: {GAVE_WAY}", number - 32)).await;
            }
        }
        let state = bench.ask(other, "mine").await;
        let answer = bench.reply(other, "mine", &state).await;
        assert_eq!(answer["result"]["content"][0]["text"], "\"Ada\"", "{other:?} beside {gone:?}: {answer}");
        bench.expect("ended mine").await;
        let answer = bench.reply(gone, "dialog 63", &states[63]).await;
        assert_eq!(answer["result"]["content"][0]["text"], "\"Ada\"", "a new one is still open: {answer}");
        bench.expect("ended dialog 63").await;
        if !has_all {
            assert_eq!(bench.reply(gone, "dialog 0", &states[0]).await["error"]["code"], -32602, "it was ended");
        }
    }
}

/// The oldest of all makes room where each has one.
#[tokio::test(start_paused = true)]
async fn dialogs_of_clients_that_nothing_tells_apart_give_way_the_oldest_first() {
    let mut bench = Bench::start(Access::Open, Sessions::OwnLink);
    for number in 0..70 {
        bench.ask(&Client::Nobody, &number.to_string()).await;
        if number >= 64 {
            bench.expect(&format!("ended {}: {GAVE_WAY}", number - 64)).await;
        }
    }
    let mut bench = Bench::start(Access::Open, Sessions::OwnLink);
    for number in 0..70 {
        bench.ask(&Client::Connection(1000 - number), &number.to_string()).await;
        if number >= 64 {
            bench.expect(&format!("ended {}: {GAVE_WAY}", number - 64)).await;
        }
    }
}

/// The same on real sockets, of a listener: there, clients on one machine are told apart by the names that they give
/// themselves.
#[test]
fn on_sockets_a_client_with_300_slow_calls_keeps_nobody_out_and_is_told_in_time() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (sender, mut marks) = unbounded_channel();
    let address: SocketAddr = runtime.block_on(async {
        let endpoint = Endpoint::new(HttpServerConfig { stateless: Stateless::Served, ..HttpServerConfig::default() });
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let served = endpoint.clone();
        // What waits at all has waited long enough; what need not is not asked how long.
        tokio::spawn(async move { served.serve(|| describe(&sender, Duration::from_millis(1))).await });
        tokio::spawn(Listener::new(socket, endpoint, ListenerConfig::default()).serve(std::future::pending()));
        address
    });
    let transcript = Transcript::default();
    let call = |client: &Client, tool: &str, name: &str| {
        let mut connection = Connection::open(address, &transcript);
        let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", tool)];
        connection.post(&headers, &modern(tool, name, "", client));
        connection
    };
    let mut expect = |mark: &str| {
        let seen = runtime.block_on(async { tokio::time::timeout(PATIENCE, marks.recv()).await });
        assert_eq!(seen.unwrap().unwrap(), mark);
    };
    let [greedy, other] = [Client::Name("an editor"), Client::Name("an agent")];
    let mut calls = Vec::new();
    for number in 0..128 {
        calls.push(call(&greedy, "slow", &number.to_string()));
        expect(&format!("started {number}"));
    }
    let refused: Vec<_> = (128..300).map(|number| call(&greedy, "slow", &number.to_string())).collect();
    assert!(crate::answer(&mut call(&other, "now", "quick")).contains("quick is done"));
    let slow = call(&other, "slow", "other");
    expect("started other");
    drop(slow);
    expect("ended other");
    for mut refused in refused {
        assert!(crate::answer(&mut refused).contains("-31004"));
    }
    drop(calls);
}
