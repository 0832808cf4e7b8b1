//! A server of the library over HTTP, spoken to byte by byte on real sockets: what becomes of its work is said by the
//! work itself.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod callers;
mod connections;
mod mounted;
mod rounds;
mod sharing;

use std::{
    net::SocketAddr,
    sync::mpsc::{Receiver, Sender, channel},
    time::Duration,
};

use http_body_util::BodyExt as _;
use rescind::{
    CancellationToken,
    mcp::Server,
    peer::{AnyError, CancelNotice, CauseCode, Context, Verdict},
};
use rescind_http::{
    server::{Access, Bearers, HttpServerConfig, Stateless},
    shell::{Endpoint, Listener, ListenerConfig, Pool},
};
use rescind_testkit::puppet::{Connection, Transcript};
use serde_json::json;
use tokio::{net::TcpListener, runtime::Runtime};

/// Far beyond any delay of a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Work {
    name: String,
}

/// A server whose work says what becomes of it.
struct Rig {
    address: SocketAddr,
    marks: Receiver<String>,
    /// What the server's observer of cancels hears.
    cancels: Receiver<(CauseCode, Verdict)>,
    /// Lets work finish.
    finish: CancellationToken,
    transcript: Transcript,
    _runtime: Runtime,
}

/// Marks the end of work, however it ends.
struct Working {
    name: String,
    marks: Sender<String>,
    has_finished: bool,
}

impl Drop for Working {
    fn drop(&mut self) {
        let end = if self.has_finished { "finished" } else { "stopped" };
        let _ = self.marks.send(format!("{end} {}", self.name));
    }
}

impl Rig {
    fn start(is_mounted: bool) -> Self {
        Self::with(is_mounted, Access::Open)
    }

    fn with(is_mounted: bool, access: Access) -> Self {
        let path = (!is_mounted).then(|| "/mcp".into());
        let config = HttpServerConfig { path, access, stateless: Stateless::Served, ..HttpServerConfig::default() };
        Self::of(&config, 1, (!is_mounted).then(ListenerConfig::default))
    }

    /// So many endpoints on a socket of their own with these settings, or else one that is mounted into an application.
    fn of(config: &HttpServerConfig, members: usize, listening: Option<ListenerConfig>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (sender, marks) = channel();
        let (observer, cancels) = channel();
        let finish = CancellationToken::new();
        let finished = finish.clone();
        let describe = move || {
            let (sender, finished, observer) = (sender.clone(), finished.clone(), observer.clone());
            let asking = (sender.clone(), finished.clone());
            let work = move |Work { name }, cx: Context| {
                let finished = finished.clone();
                let mut working = Working { name, marks: sender.clone(), has_finished: false };
                async move {
                    let _ = working.marks.send(format!("started {}", working.name));
                    cx.progress(1.0, None, None).await;
                    cx.unless_cancelled(finished.cancelled()).await?;
                    working.has_finished = true;
                    Ok::<_, AnyError>(format!("{} is done", working.name))
                }
            };
            let (sender, finished) = asking;
            let question = move |Work { name }, cx: Context| {
                let finished = finished.clone();
                let mut working = Working { name, marks: sender.clone(), has_finished: false };
                async move {
                    let _ = working.marks.send(format!("started {}", working.name));
                    let answer: serde_json::Value =
                        cx.ask("elicitation/create", &json!({ "message": "Sure?" })).await?;
                    let _ = working.marks.send(format!("answered {}", working.name));
                    if answer["content"]["waits"] == true {
                        cx.unless_cancelled(finished.cancelled()).await?;
                    }
                    working.has_finished = true;
                    Ok::<_, AnyError>(format!("{} is done", working.name))
                }
            };
            let server = Server::new("worker", "1.0").tool("work", "Works", work);
            let server = server.tool("question", "Asks, and works", question);
            let observe = move |cancel: &CancelNotice| {
                let _ = observer.send((cancel.cause, cancel.verdict));
            };
            server.with(|peer| peer.on_cancelled(observe))
        };
        let address = runtime.block_on(async {
            let pool = Pool::new(members, config);
            let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = socket.local_addr().unwrap();
            for endpoint in pool.members() {
                let (endpoint, describe) = (endpoint.clone(), describe.clone());
                tokio::spawn(async move { endpoint.serve(describe).await });
            }
            if let Some(listening) = listening {
                tokio::spawn(Listener::new(socket, pool, listening).serve(std::future::pending()));
            } else {
                let application = axum::Router::new().route_service("/mcp", pool.members()[0].clone());
                tokio::spawn(async move { axum::serve(socket, application).await });
            }
            address
        });
        Self { address, marks, cancels, finish, transcript: Transcript::default(), _runtime: runtime }
    }

    fn connect(&self) -> Connection {
        Connection::open(self.address, &self.transcript)
    }

    fn expect_mark(&self, mark: &str) {
        assert_eq!(self.marks.recv_timeout(PATIENCE).unwrap(), mark);
    }

    /// Opens a session of 2025-11-25, and returns its id.
    fn open_session(&self) -> String {
        let mut connection = self.connect();
        let params = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}"#;
        connection.post(&[], &format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{params}}}"#));
        let head = connection.head();
        assert!(connection.message(&head).contains("2025-11-25"));
        let id = head.header("mcp-session-id").unwrap().to_owned();
        self.tell(&id, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        id
    }

    /// A notification is accepted; what is known of it if it is a cancel.
    fn tell(&self, session: &str, message: &str) -> Option<String> {
        let mut connection = self.connect();
        connection.post(&[("mcp-session-id", session)], message);
        let head = connection.head();
        assert_eq!(head.status, 202);
        head.header("rescind-cancel").map(ToOwned::to_owned)
    }

    fn call(&self, session: &str, name: &str) -> Connection {
        let mut connection = self.connect();
        let params = format!(r#"{{"name":"work","arguments":{{"name":"{name}"}},"_meta":{{"progressToken":1}}}}"#);
        let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        connection.post(&[("mcp-session-id", session)], &call);
        self.expect_mark(&format!("started {name}"));
        connection
    }

    fn call_modern(&self, name: &str) -> Connection {
        let mut connection = self.connect();
        connection.post(&MODERN_HEADERS, &modern_call(name));
        self.expect_mark(&format!("started {name}"));
        connection
    }
}

const MODERN_HEADERS: [(&str, &str); 3] =
    [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "work")];

fn modern_call(name: &str) -> String {
    let meta = concat!(
        r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
        r#""io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"#,
        r#""io.modelcontextprotocol/clientCapabilities":{}}"#
    );
    let params = format!(r#"{{"name":"work","arguments":{{"name":"{name}"}},"_meta":{meta}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)
}

fn answer(connection: &mut Connection) -> String {
    let head = connection.head();
    loop {
        let message = connection.message(&head);
        if message.contains(r#""id""#) {
            return message;
        }
    }
}

/// Its body never comes, and is not asked for.
#[test]
fn who_may_not_ask_is_refused_before_the_body_is_read() {
    for is_mounted in [false, true] {
        let rig = Rig::with(is_mounted, Access::token("secret"));
        for expect in ["", "Expect: 100-continue\r\n"] {
            let mut connection = rig.connect();
            let head = format!(
                "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{expect}Content-Length: \
                 60000000\r\n\r\n"
            );
            connection.send_bytes(head.as_bytes());
            assert_eq!(connection.head().status, 401, "{expect}");
        }
    }
}

/// It is handed over in parts, and its length is known from the beginning.
#[test]
fn a_long_answer_comes_whole_and_says_how_long_it_is() {
    for is_mounted in [false, true] {
        let rig = Rig::start(is_mounted);
        rig.finish.cancel();
        let name = "x".repeat(3_000_000);
        let mut connection = rig.connect();
        // Without streams, so that no progress makes it one.
        let call = modern_call(&name);
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\n\
             MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: work\r\nContent-Length: {}\r\n\r\n",
            call.len()
        );
        connection.send_bytes(&[head.as_bytes(), call.as_bytes()].concat());
        let head = connection.head();
        assert!(head.header("content-length").unwrap().parse::<usize>().unwrap() > name.len());
        assert!(connection.message(&head).contains(&format!("{name} is done")));
        // The connection goes on.
        connection.post(&MODERN_HEADERS, &modern_call("second"));
        assert!(answer(&mut connection).contains("second is done"));
    }
}

#[test]
fn the_work_of_an_owner_is_stopped_by_nobody_else() {
    for is_mounted in [false, true] {
        let list = "ann token-of-ann\nbob token-of-bob";
        let rig = Rig::with(is_mounted, Access::Owners(Bearers::read(list).unwrap()));
        let [ann, bob] = ["Bearer token-of-ann", "Bearer token-of-bob"].map(|token| ("authorization", token));
        let call = |who, name: &str| {
            let mut connection = rig.connect();
            connection.post(&[&MODERN_HEADERS[..], &[who]].concat(), &modern_call(name));
            rig.expect_mark(&format!("started {name}"));
            connection
        };
        let mut hers = call(ann, "hers");
        // Under the id of hers; and then at once.
        drop(call(bob, "his"));
        rig.expect_mark("stopped his");
        let mut other = rig.connect();
        other.post(&MODERN_HEADERS, &modern_call("nobody's"));
        assert_eq!(other.head().status, 401);
        rig.finish.cancel();
        rig.expect_mark("finished hers");
        assert!(answer(&mut hers).contains("hers is done"));
    }
}

/// Case 45.
#[test]
fn a_hang_up_stops_the_handler_of_that_request_and_of_no_other() {
    for is_mounted in [false, true] {
        let rig = Rig::start(is_mounted);
        let first = rig.call_modern("first");
        let mut second = rig.call_modern("second");
        drop(first);
        rig.expect_mark("stopped first");
        rig.finish.cancel();
        rig.expect_mark("finished second");
        assert!(answer(&mut second).contains("second is done"));
    }
}

/// Case 8: whether it comes as the end of a stream or in a message.
#[test]
fn an_observer_sees_each_cancel() {
    let rig = Rig::start(false);
    drop(rig.call_modern("first"));
    assert_eq!(rig.cancels.recv_timeout(PATIENCE).unwrap(), (CauseCode::Disconnect, Verdict::Accepted));
    let session = rig.open_session();
    rig.expect_mark("stopped first");
    let _call = rig.call(&session, "second");
    rig.tell(&session, r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(rig.cancels.recv_timeout(PATIENCE).unwrap(), (CauseCode::Caller, Verdict::Accepted));
}

/// Case 46.
#[test]
fn a_cancel_by_post_stops_the_handler_and_the_stream_ends() {
    for is_mounted in [false, true] {
        let rig = Rig::start(is_mounted);
        let session = rig.open_session();
        let mut call = rig.call(&session, "first");
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        assert_eq!(rig.tell(&session, cancel).as_deref(), Some("seen"));
        rig.expect_mark("stopped first");
        let head = call.head();
        while let Some(event) = call.event() {
            assert!(!event.data.contains(r#""id""#), "{head:?}: {}", event.data);
        }
    }
}

/// Case 45, in a session: the client comes back and finds its answer.
#[test]
fn a_hang_up_in_a_session_leaves_the_handler_alone() {
    let rig = Rig::start(false);
    let session = rig.open_session();
    let mut call = rig.call(&session, "first");
    call.head();
    let seen = call.event().unwrap();
    drop(call);
    // The service has noticed the hang-up, or will: neither stops the work, which other work cannot show. So it is let
    // go on, and says itself how it ended.
    let _other = rig.call_modern("other");
    rig.finish.cancel();
    let mut marks = [rig.marks.recv_timeout(PATIENCE).unwrap(), rig.marks.recv_timeout(PATIENCE).unwrap()];
    marks.sort();
    assert_eq!(marks, ["finished first", "finished other"]);
    let mut again = rig.connect();
    again.send(
        "GET",
        &[("accept", "text/event-stream"), ("mcp-session-id", &session), ("last-event-id", &seen.id)],
        "",
    );
    assert!(answer(&mut again).contains("first is done"));
}

/// Case 47.
#[test]
fn the_end_of_a_session_stops_its_handlers() {
    let rig = Rig::start(false);
    let session = rig.open_session();
    let mut call = rig.call(&session, "first");
    let mut end = rig.connect();
    end.send("DELETE", &[("mcp-session-id", &session)], "");
    assert_eq!(end.head().status, 204);
    rig.expect_mark("stopped first");
    call.head();
    while call.event().is_some() {}
}

/// D40. The clock is paused, and goes on when everything waits: the times are those of the endpoint's own clock, to the
/// millisecond that tokio rounds to.
#[tokio::test(start_paused = true)]
async fn a_stream_begins_and_is_kept_alive_when_it_is_due() {
    let (stream_after, keep_alive) = (Duration::from_millis(300), Duration::from_secs(5));
    let config =
        HttpServerConfig { stateless: Stateless::Served, stream_after, keep_alive, ..HttpServerConfig::default() };
    let endpoint = Endpoint::new(config);
    let served = endpoint.clone();
    let forever = |_: Work, _: Context| std::future::pending::<Result<String, AnyError>>();
    let describe = move || Server::new("worker", "1.0").tool("work", "Works", forever);
    tokio::spawn(async move { served.serve(describe).await });
    let mut request = http::Request::post("/mcp").header("host", "localhost");
    for (name, value) in MODERN_HEADERS {
        request = request.header(name, value);
    }
    let request =
        request.header("content-type", "application/json").header("accept", "application/json, text/event-stream");
    let begun = tokio::time::Instant::now();
    let response = endpoint.respond(request.body(modern_call("first")).unwrap()).await.unwrap();
    let near = |due| begun.elapsed() >= due && begun.elapsed() <= due + Duration::from_millis(2);
    assert!(near(stream_after), "the stream began after {:?}", begun.elapsed());
    let mut body = response.into_body();
    for comments in 1..=3 {
        let comment = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(comment.starts_with(b":"), "{comment:?}");
        assert!(near(stream_after + keep_alive * comments), "comment {comments} came after {:?}", begun.elapsed());
    }
}

/// A client that hangs up in a session may come back; when it has not for so long, its work is told to stop, and why. The
/// clock is paused, and goes on when everything waits.
#[tokio::test(start_paused = true)]
async fn the_work_of_a_client_that_never_comes_back_is_told_that_it_has_gone() {
    let endpoint = Endpoint::new(HttpServerConfig { stateless: Stateless::Served, ..HttpServerConfig::default() });
    let (sender, mut marks) = tokio::sync::mpsc::unbounded_channel();
    let served = endpoint.clone();
    let describe = move || {
        let (started, stopped) = (sender.clone(), sender.clone());
        let work = move |_: Work, cx: Context| {
            let (started, stopped) = (started.clone(), stopped.clone());
            async move {
                let _ = started.send("started".to_owned());
                cx.cancelled().await;
                let _ = stopped.send(format!("stopped: {:?}", cx.cause().map(|cause| cause.code)));
                Err::<String, AnyError>("stopped".into())
            }
        };
        Server::new("worker", "1.0").tool("work", "Works", work)
    };
    tokio::spawn(async move { served.serve(describe).await });
    let post = |session: Option<&str>, body: String| {
        let mut request = http::Request::post("/mcp").header("content-type", "application/json");
        request = request.header("accept", "application/json, text/event-stream");
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        endpoint.respond(request.body(body).unwrap())
    };
    let params = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}"#;
    let opened = post(None, format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{params}}}"#)).await;
    let session = opened.unwrap().headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(post(Some(&session), initialized.to_owned()).await.unwrap().status(), 202);
    let params = r#"{"name":"work","arguments":{"name":"first"}}"#;
    let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    // A stream that has begun.
    let response = post(Some(&session), call).await.unwrap();
    assert_eq!(marks.recv().await.unwrap(), "started");
    drop(response);
    let hour = Duration::from_secs(3600);
    let told = tokio::time::timeout(hour, marks.recv()).await.unwrap().unwrap();
    assert_eq!(told, "stopped: Some(Disconnect)");
    assert_eq!(post(Some(&session), initialized.to_owned()).await.unwrap().status(), 404);
}
