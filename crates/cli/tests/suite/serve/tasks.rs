//! MCP tasks over HTTP: through `rescind serve` and `rescind run --url`, in both eras and across them, and what `ps`,
//! `cancel` and `stop` do with them (D56). The test is client and server; the work of each task is a process of its own, and
//! whether that lives is what is asserted.

use rescind_testkit::puppet::{Connection, Ends, Server, Service, Shim};
use serde_json::{Value, json};

use super::{LEGACY, shared::id_of};
use crate::{
    operator::{Said, say},
    shim::{
        PROGRAM,
        at_work::{Running, Work, has},
        words::{request_with, result},
    },
};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// What a client says, and what a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    /// 2025-11-25: tasks are a part of the protocol, in a session.
    Legacy,
    /// 2026-07-28: tasks are an extension, and there are no sessions.
    Modern,
}

impl Era {
    /// The params of a call that may become a task.
    fn call(self) -> String {
        match self {
            Self::Legacy => json!({"name": "slow", "task": {}}).to_string(),
            Self::Modern => json!({"name": "slow", "_meta": meta()}).to_string(),
        }
    }

    /// What a server says of a task.
    fn task(self, kind: &str, task: &str, status: &str) -> String {
        let (life, poll) = if self == Self::Legacy { ("ttl", "pollInterval") } else { ("ttlMs", "pollIntervalMs") };
        let mut seen = json!({
            "taskId": task, "status": status, "createdAt": "2026-11-28T00:00:00Z", "lastUpdatedAt": "2026-11-28T00:00:00Z",
        });
        (seen[life], seen[poll]) = (json!(60_000), json!(100));
        if self == Self::Modern {
            seen["resultType"] = json!(kind);
        } else if kind == "task" {
            return json!({ "task": seen }).to_string();
        }
        seen.to_string()
    }
}

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {EXTENSION: {}}},
    })
}

/// The headers of a call outside a session.
const CALL: [(&str, &str); 3] =
    [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "slow")];

const LIST: [(&str, &str); 2] = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];

/// A client's `initialize`.
fn hello(id: &str) -> String {
    let client = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    request_with(id, "initialize", &client.to_string())
}

/// The answer of a server with tasks.
fn welcome() -> String {
    let tasks = json!({"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}});
    json!({"protocolVersion": LEGACY, "capabilities": tasks, "serverInfo": {"name": "test", "version": "1"}})
        .to_string()
}

/// The description of a server with tasks that has no sessions.
fn described() -> String {
    json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
        "capabilities": {"tools": {}, "extensions": {EXTENSION: {}}}, "serverInfo": {"name": "test", "version": "1"},
    })
    .to_string()
}

/// A server's process, the tasks that it has made, and the work of each.
struct Tasks {
    server: Server,
    era: Era,
    works: Vec<(String, Work)>,
}

impl Tasks {
    fn new(server: Server, era: Era) -> Self {
        Self { server, era, works: Vec::new() }
    }

    /// The next request that the server gets: method, id, params.
    fn asked(&mut self) -> (String, String, Value) {
        let text = self.server.receive();
        let message: Value = serde_json::from_str(&text).unwrap();
        let method = message["method"].as_str().unwrap_or_else(|| panic!("{text}")).to_owned();
        (method, message["id"].to_string(), message["params"].clone())
    }

    /// The call becomes this task, whose work begins.
    fn make(&mut self, task: &str) {
        let (method, id, params) = self.asked();
        assert_eq!((method.as_str(), &params["name"]), ("tools/call", &json!("slow")));
        self.hand_over(&id, task);
    }

    fn hand_over(&mut self, id: &str, task: &str) {
        self.works.push((task.to_owned(), Work::begin()));
        self.server.send(&result(id, &self.era.task("task", task, "working")));
    }

    fn work(&mut self, task: &str) -> &mut Work {
        &mut self.works.iter_mut().find(|(name, _)| name == task).unwrap().1
    }

    fn works(&mut self, task: &str) -> bool {
        self.work(task).goes_on()
    }

    /// The next of what the server is asked is a cancel of this task. It ends the work and says so.
    fn obey(&mut self, task: &str) {
        let (method, id, params) = self.asked();
        assert_eq!((method.as_str(), &params["taskId"]), ("tasks/cancel", &json!(task)), "{params}");
        self.work(task).end();
        if self.era == Era::Legacy {
            assert_eq!(params.get("_meta"), None, "it is of 2025-11-25");
            return self.server.send(&result(&id, &self.era.task("complete", task, "cancelled")));
        }
        assert_eq!(params["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        self.server.send(&result(&id, r#"{"resultType":"complete"}"#));
        let (method, id, params) = self.asked();
        assert_eq!((method.as_str(), &params["taskId"]), ("tasks/get", &json!(task)));
        self.server.send(&result(&id, &self.era.task("complete", task, "cancelled")));
    }

    /// The server has been asked nothing: what its client says now is the next that it gets.
    fn has_heard_nothing(&mut self, service: &Service, headers: &[(&str, &str)]) {
        let mark = r#"{"jsonrpc":"2.0","method":"marker"}"#;
        assert_eq!(service.post(headers, mark).1.status, 202);
        self.server.expect(mark);
    }
}

/// A client's session with a server process of its own.
fn open_session(service: &Service) -> (String, Tasks) {
    let mut connection = service.connect();
    connection.post(&[], &hello("0"));
    let mut server = service.accept();
    server.expect(&hello("0"));
    server.send(&result("0", &welcome()));
    let head = connection.head();
    assert_eq!(connection.message(&head), result("0", &welcome()));
    let session = head.header("mcp-session-id").unwrap().to_owned();
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(service.post(&[("mcp-session-id", &session)], initialized).1.status, 202);
    server.expect(initialized);
    (session, Tasks::new(server, Era::Legacy))
}

/// A call in this session, under the id 1 as that of every client.
fn call_in(service: &Service, session: &str) -> Connection {
    let mut call = service.connect();
    call.post(&[("mcp-session-id", session)], &request_with("1", "tools/call", &Era::Legacy.call()));
    call
}

/// Whose task it became, as the client is told.
fn task_of(call: &mut Connection) -> String {
    let head = call.head();
    let answer: Value = serde_json::from_str(&call.message(&head)).unwrap();
    let handle = if answer["result"]["task"].is_object() { &answer["result"]["task"] } else { &answer["result"] };
    handle["taskId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// The names of what is in flight, as `ps` lists it.
fn listed(said: &Said) -> Vec<String> {
    let rows = said.stdout.lines().skip(1);
    rows.filter_map(|row| row.split_whitespace().next()).map(str::to_owned).collect()
}

fn tasks_listed(service: &Service) -> Vec<String> {
    let said = say(&service.sockets, &["ps"]);
    listed(&said).into_iter().filter(|name| name.contains("/task:")).collect()
}

/// `stop` of the sessions that have a task. The process that is asked which era it speaks has a session, too.
fn stopping(service: &Service) -> Running {
    let sessions: Vec<String> =
        tasks_listed(service).iter().map(|name| name.split('/').next().unwrap().to_owned()).collect();
    let named = sessions.iter().flat_map(|session| ["--session", session.as_str()]);
    let arguments: Vec<&str> = ["stop", "--within", "1h"].into_iter().chain(named).collect();
    Running::start(&service.sockets, &arguments)
}

/// The same; the test plays its servers meanwhile.
fn stop(service: &Service, play: impl FnOnce()) -> Said {
    let running = stopping(service);
    play();
    running.end()
}

#[track_caller]
fn is_stopped(said: &Said, summary: &str) {
    assert_eq!((said.code, said.stdout.lines().last()), (0, Some(summary)), "{said:?}");
}

/// Two servers may give the same id, and only the one that is meant is asked.
#[test]
fn a_task_of_one_session_is_cancelled_and_that_of_another_by_the_same_id_is_not() {
    let service = super::serve();
    let (ann, mut hers) = open_session(&service);
    let (bob, mut his) = open_session(&service);
    for (session, tasks) in [(&ann, &mut hers), (&bob, &mut his)] {
        let mut call = call_in(&service, session);
        tasks.make("t");
        assert_eq!(task_of(&mut call), "t");
        // The client hangs up; its task goes on.
        drop(call);
    }
    let names = tasks_listed(&service);
    assert_eq!(names.len(), 2, "{names:?}");
    let running = Running::start(&service.sockets, &["cancel", &names[0], "--wait", "1h"]);
    hers.obey("t");
    let said = running.end();
    assert!(said.code == 0 && has(&said, &format!("{}: confirmed after ", names[0])), "{said:?}");
    assert!(!hers.works("t") && his.works("t"));
    his.has_heard_nothing(&service, &[("mcp-session-id", &bob)]);
    assert_eq!(tasks_listed(&service), [names[1].clone()]);
    is_stopped(&stop(&service, || his.obey("t")), "1 stopped");
    assert!(!his.works("t"));
}

/// Its server's process ends with the session, and what is not seen to end otherwise is not claimed.
#[test]
fn the_task_of_a_session_that_its_client_deletes_is_no_more_in_flight() {
    let service = super::serve();
    let (session, mut tasks) = open_session(&service);
    let mut call = call_in(&service, &session);
    tasks.make("t");
    task_of(&mut call);
    let running = stopping(&service);
    let (method, ..) = tasks.asked();
    assert_eq!(method, "tasks/cancel");
    let mut end = service.connect();
    end.send("DELETE", &[("mcp-session-id", &session)], "");
    assert_eq!(end.head().status, 204);
    tasks.server.expect_end();
    tasks.server.exit(0);
    let said = running.end();
    assert_eq!((said.code, said.stdout.lines().last()), (0, Some("0 stopped, 1 ended with its server")), "{said:?}");
    assert_eq!(tasks_listed(&service), [""; 0]);
}

/// The session of a client is not the server's: the task goes on, stays in view, and is still cancelled.
#[test]
fn a_task_of_a_shared_server_outlives_the_session_in_which_it_was_made_and_is_stopped() {
    let service = Service::shared(PROGRAM, [] as [&str; 0]);
    let mut opening = service.connect();
    opening.post(&[], &hello("0"));
    let mut server = service.accept();
    let greeting = server.receive();
    server.send(&result(&id_of(&greeting), &welcome()));
    server.expect(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let mut other = service.connect();
    other.post(&[], &hello("0"));
    let [ann, bob] = [&mut opening, &mut other].map(|connection| {
        let head = connection.head();
        connection.message(&head);
        head.header("mcp-session-id").unwrap().to_owned()
    });
    let mut tasks = Tasks::new(server, Era::Legacy);
    for (session, task) in [(&ann, "hers"), (&bob, "his")] {
        let mut call = call_in(&service, session);
        tasks.make(task);
        assert_eq!(task_of(&mut call), task);
    }
    let mut end = service.connect();
    end.send("DELETE", &[("mcp-session-id", &ann)], "");
    assert_eq!(end.head().status, 204);
    let names = tasks_listed(&service);
    assert!(names.len() == 2 && names[0].ends_with("task:hers") && names[1].ends_with("task:his"), "{names:?}");
    let running = Running::start(&service.sockets, &["cancel", &names[0], "--wait", "1h"]);
    tasks.obey("hers");
    assert_eq!(running.end().code, 0);
    assert!(!tasks.works("hers") && tasks.works("his"));
    is_stopped(&stop(&service, || tasks.obey("his")), "1 stopped");
    assert!(!tasks.works("his"));
}

/// The server that is asked which era it speaks, and speaks 2026-07-28.
fn modern_server(service: &Service) -> Tasks {
    let mut server = service.take_asked();
    server.send(&result("1", &described()));
    Tasks::new(server, Era::Modern)
}

fn call_modern(service: &Service, id: &str) -> Connection {
    let mut call = service.connect();
    call.post(&CALL, &request_with(id, "tools/call", &Era::Modern.call()));
    call
}

#[test]
fn tasks_without_a_session_are_listed_and_stopped() {
    let service = super::serve();
    let mut calls = [call_modern(&service, "1"), call_modern(&service, "1")];
    let mut tasks = modern_server(&service);
    ["one", "two"].into_iter().for_each(|task| tasks.make(task));
    let mut told: Vec<String> = calls.iter_mut().map(task_of).collect();
    told.sort();
    assert_eq!(told, ["one", "two"]);
    drop(calls);
    let names = tasks_listed(&service);
    assert_eq!(names.len(), 2, "{names:?}");
    let one = names.iter().find(|name| name.ends_with("task:one")).unwrap();
    let running = Running::start(&service.sockets, &["cancel", one, "--wait", "1h"]);
    tasks.obey("one");
    assert_eq!(running.end().code, 0);
    assert!(!tasks.works("one") && tasks.works("two"));
    is_stopped(&stop(&service, || tasks.obey("two")), "1 stopped");
}

/// The hang-up is the cancel, and crosses the handle: no client ever learns of the task.
#[test]
fn a_task_whose_client_has_hung_up_before_its_handle_is_cancelled() {
    let service = super::serve();
    let call = call_modern(&service, "1");
    let mut tasks = modern_server(&service);
    let (method, id, _) = tasks.asked();
    assert_eq!(method, "tools/call");
    drop(call);
    let (method, ..) = tasks.asked();
    assert_eq!(method, "notifications/cancelled");
    tasks.hand_over(&id, "t");
    tasks.obey("t");
    assert!(!tasks.works("t"));
    // What is asked next is the next that it is asked.
    let mut next = service.connect();
    next.post(&LIST, &request_with("2", "tools/list", &json!({"_meta": meta()}).to_string()));
    let (method, ..) = tasks.asked();
    assert_eq!((method.as_str(), tasks_listed(&service).len()), ("tools/list", 0));
}

/// A client on stdio before a server at a URL: its shim, and the test as the client.
fn client(service: &Service, flags: &[&str]) -> (Shim, Ends) {
    service.client(PROGRAM, flags)
}

/// The client's call becomes task `t` of that server.
fn make_by_url(client: &mut Ends, tasks: &mut Tasks, era: Era) {
    client.send(&request_with("1", "tools/call", &era.call()));
    tasks.make("t");
    let answer: Value = serde_json::from_str(&client.receive()).unwrap();
    let handle = if era == Era::Legacy { &answer["result"]["task"] } else { &answer["result"] };
    assert_eq!(handle["taskId"], "t", "{answer}");
}

/// Stops the task that the session of this shim has, and no other session.
fn stop_of(service: &Service, shim: &Shim, tasks: &mut Tasks) {
    let id = shim.id.to_string();
    let said = say(&service.sockets, &["ps", "--session", &id]);
    assert_eq!(listed(&said), [format!("{id}/task:t")], "{said:?}");
    let running = Running::start(&service.sockets, &["stop", "--session", &id, "--within", "1h"]);
    tasks.obey("t");
    is_stopped(&running.end(), "1 stopped");
    assert!(!tasks.works("t"));
}

#[test]
fn a_task_of_a_server_at_a_url_is_stopped_on_its_session() {
    let service = super::serve();
    let (shim, mut client) = client(&service, &[]);
    client.send(&hello("0"));
    let mut server = service.accept();
    server.receive();
    server.send(&result("0", &welcome()));
    client.expect(&result("0", &welcome()));
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    server.expect(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let mut tasks = Tasks::new(server, Era::Legacy);
    make_by_url(&mut client, &mut tasks, Era::Legacy);
    stop_of(&service, &shim, &mut tasks);
    assert_eq!(tasks_listed(&service), [""; 0], "the gateway has seen it end, too");
}

/// TASK-26: the headers of its requests are judged by a gateway that is strict about them.
#[test]
fn a_task_of_a_server_at_a_url_without_sessions_is_stopped() {
    let service = super::serve();
    let (shim, mut client) = client(&service, &[]);
    client.send(&request_with("1", "tools/call", &Era::Modern.call()));
    let mut tasks = modern_server(&service);
    tasks.make("t");
    client.receive();
    stop_of(&service, &shim, &mut tasks);
    assert_eq!(tasks_listed(&service), [""; 0]);
}

/// Everything in both shims: the server is asked by whichever comes first, and nothing is unknown in the end.
#[test]
fn a_stop_of_everything_reaches_a_task_through_two_shims() {
    let service = super::serve();
    let (_shim, mut client) = client(&service, &[]);
    client.send(&request_with("1", "tools/call", &Era::Modern.call()));
    let mut tasks = modern_server(&service);
    tasks.make("t");
    client.receive();
    let running = stopping(&service);
    let serving = std::thread::spawn(move || {
        loop {
            let (method, id, params) = tasks.asked();
            let answer = match method.as_str() {
                "tasks/cancel" => {
                    tasks.work("t").end();
                    r#"{"resultType":"complete"}"#.to_owned()
                }
                "tasks/get" => Era::Modern.task("complete", "t", "cancelled"),
                _ => return (tasks, method),
            };
            assert_eq!(params["taskId"], "t");
            tasks.server.send(&result(&id, &answer));
        }
    });
    let said = running.end();
    client.send(&request_with("2", "tools/list", &json!({"_meta": meta()}).to_string()));
    let (mut tasks, last) = serving.join().unwrap();
    assert!(last == "tools/list" && !tasks.works("t"));
    is_stopped(&said, "2 stopped");
}

/// A client of 2026-07-28 before a server of 2025-11-25, which is asked in its own words.
#[test]
fn a_task_across_the_eras_is_stopped_in_the_dialect_of_its_server() {
    let service = Service::unasked(PROGRAM, ["--bridge"]);
    let mut list = service.connect();
    list.post(&LIST, &request_with("1", "tools/list", &json!({"_meta": meta()}).to_string()));
    let mut tasks = Tasks::new(service.accept(), Era::Legacy);
    loop {
        let text = tasks.server.receive();
        let message: Value = serde_json::from_str(&text).unwrap();
        let id = message["id"].to_string();
        match message["method"].as_str().unwrap() {
            "server/discover" => {
                let error = json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}});
                tasks.server.send(&error.to_string());
            }
            "initialize" => tasks.server.send(&result(&id, &welcome())),
            "notifications/initialized" => {}
            "tools/list" => {
                let tool = json!({"name": "slow", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}});
                tasks.server.send(&result(&id, &json!({"tools": [tool]}).to_string()));
                break;
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(list.head().status, 200);
    let mut call = call_modern(&service, "2");
    tasks.make("t");
    assert_eq!(task_of(&mut call), "t");
    drop(call);
    let names = tasks_listed(&service);
    assert!(matches!(&names[..], [name] if name.ends_with("/task:t")), "{names:?}");
    let said = stop(&service, || {
        tasks.obey("t");
        // What the client's era does not show with the acknowledgement is asked for.
        let (method, id, params) = tasks.asked();
        assert_eq!((method.as_str(), params.get("_meta")), ("tasks/get", None));
        tasks.server.send(&result(&id, &Era::Legacy.task("complete", "t", "cancelled")));
    });
    is_stopped(&said, "1 stopped");
    assert!(!tasks.works("t"));
}

/// A client of 2025-11-25 before a server of 2026-07-28. Its era wants to be told `cancelled` at once; the operator is told
/// so when the server says it.
#[test]
fn a_task_across_the_eras_is_stopped_once_its_server_says_so() {
    let service = super::serve();
    let mut opening = service.connect();
    opening.post(&[], &hello("0"));
    let mut tasks = Tasks::new(service.accept(), Era::Modern);
    let (method, id, _) = tasks.asked();
    assert_eq!(method, "initialize");
    let id: Value = serde_json::from_str(&id).unwrap();
    let refusal = json!({"code": -32601, "message": "no such method"});
    tasks.server.send(&json!({"jsonrpc": "2.0", "id": id, "error": refusal}).to_string());
    let (method, id, _) = tasks.asked();
    assert_eq!(method, "server/discover");
    tasks.server.send(&result(&id, &described()));
    let head = opening.head();
    assert!(opening.message(&head).contains(r#""tasks":{"cancel":{}"#));
    let session = head.header("mcp-session-id").unwrap().to_owned();
    let mut call = call_in(&service, &session);
    tasks.make("t");
    assert_eq!(task_of(&mut call), "t");
    let said = stop(&service, || {
        let (method, id, _) = tasks.asked();
        assert_eq!(method, "tasks/cancel");
        tasks.server.send(&result(&id, r#"{"resultType":"complete"}"#));
        // It has promised to try, and works on for two looks.
        for status in ["working", "working", "cancelled"] {
            let (method, id, _) = tasks.asked();
            assert_eq!(method, "tasks/get");
            if status == "cancelled" {
                tasks.work("t").end();
            }
            assert_eq!(tasks.works("t"), status == "working");
            tasks.server.send(&result(&id, &Era::Modern.task("complete", "t", status)));
        }
    });
    is_stopped(&said, "1 stopped");
}
