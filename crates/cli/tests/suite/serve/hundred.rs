//! A hundred clients of both eras before one process, all of whose calls have the id 1: each gets its own answers, with
//! their checksums, and exactly what its client has stopped is stopped.
//!
//! Each client makes six calls; with `RESCIND_HOUR=1` in the environment it makes sixty, which is more than people make in
//! an hour.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
};

use rescind_testkit::puppet::{Connection, Head, Server, Service, Transcript};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::shim::{
    PROGRAM,
    words::{cancelled, notification, progress, request_with, result},
};

const CLIENTS: u64 = 100;

/// What becomes of a call, by its client and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    /// The server reports progress just before.
    AnsweredAfterProgress,
    /// The client stops it once the server has reported progress; the server works on until it is told.
    Stopped,
    /// The client stops it at once, and the server answers at once.
    Crossing,
}

impl Fate {
    const fn of(client: u64, number: u64) -> Self {
        match (client * 7 + number * 3) % 4 {
            0 => Self::Answered,
            1 => Self::AnsweredAfterProgress,
            2 => Self::Stopped,
            _ => Self::Crossing,
        }
    }
}

/// A call of a tool, whose text is as long as its place in the table says.
fn arguments(client: u64, number: u64) -> Value {
    let length = [10, 1000, 40_000][usize::try_from((client + number) % 3).unwrap()];
    let letter = char::from(b'a' + u8::try_from((client * 5 + number) % 26).unwrap());
    json!({"client": client, "number": number, "text": String::from(letter).repeat(length)})
}

/// FNV-1a.
fn checksum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What the server answers.
fn answer(arguments: &Value) -> Value {
    let text = format!("{arguments}");
    json!({"content": [{"type": "text", "text": format!("{:x}", checksum(&text))}]})
}

/// The revision of a client's session; `None` for one that has none.
const fn revision(client: u64) -> Option<&'static str> {
    match client % 5 {
        0 => Some("2025-03-26"),
        1 => Some("2025-06-18"),
        2 => Some("2025-11-25"),
        _ => None,
    }
}

struct Caller {
    client: u64,
    address: SocketAddr,
    session: Option<String>,
}

impl Caller {
    fn begin(client: u64, address: SocketAddr) -> Self {
        let mut caller = Self { client, address, session: None };
        let Some(revision) = revision(client) else { return caller };
        let params =
            json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        let mut connection = caller.connect();
        connection.post(&[], &request_with("1", "initialize", &params.to_string()));
        let head = connection.head();
        assert_eq!(head.status, 200, "{}", connection.body());
        caller.session = head.header("mcp-session-id").map(ToOwned::to_owned);
        let greeting: Value = serde_json::from_str(&connection.message(&head)).unwrap();
        assert_eq!(greeting["result"]["protocolVersion"], revision);
        caller.tell(&notification("notifications/initialized", "{}"));
        caller
    }

    fn connect(&self) -> Connection {
        Connection::open(self.address, &Transcript::default())
    }

    /// Sends a notification in the session.
    fn tell(&self, message: &str) {
        let mut connection = self.connect();
        connection.post(&[("mcp-session-id", self.session.as_deref().unwrap())], message);
        assert_eq!(connection.head().status, 202);
    }

    /// Makes a call, and sees to what becomes of it.
    fn call(&self, number: u64) {
        let arguments = arguments(self.client, number);
        let mut params = json!({"name": "work", "arguments": arguments, "_meta": {"progressToken": 1}});
        let mut headers = Vec::new();
        match &self.session {
            Some(session) => headers.push(("mcp-session-id", session.as_str())),
            None => {
                params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
                params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
                let mirrors =
                    [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "work")];
                headers.extend(mirrors);
            }
        }
        let mut connection = self.connect();
        connection.post(&headers, &request_with("1", "tools/call", &params.to_string()));
        let who = format!("call {number} of client {}", self.client);
        match Fate::of(self.client, number) {
            Fate::Answered => self.expect_answer(&mut connection, &arguments, 0, &who),
            Fate::AnsweredAfterProgress => self.expect_answer(&mut connection, &arguments, 2, &who),
            Fate::Stopped => {
                let head = connection.head();
                let first: Value = serde_json::from_str(&connection.message(&head)).unwrap();
                assert_eq!(first["params"]["progressToken"], 1, "{who}: {first}");
                assert_eq!(first["params"]["progress"], number, "{who}: {first}");
                self.stop(connection, Some(head));
            }
            Fate::Crossing => self.stop(connection, None),
        }
    }

    fn expect_answer(&self, connection: &mut Connection, arguments: &Value, reports: usize, who: &str) {
        let head = connection.head();
        assert_eq!(head.status, 200, "{who}");
        let mut next = || serde_json::from_str::<Value>(&connection.message(&head)).unwrap();
        let mut answered = next();
        // What still waits when the answer comes is withdrawn (D62).
        for _ in 0..reports {
            if answered["method"] != "notifications/progress" {
                break;
            }
            assert_eq!(answered["params"]["progress"], arguments["number"], "{who}: {answered}");
            answered = next();
        }
        assert_eq!(answered["id"], 1, "{who}");
        assert_eq!(answered["result"]["content"], answer(arguments)["content"], "{who}");
    }

    /// Stops a call as its client's era has it. Only an answer that crosses may still come.
    fn stop(&self, mut connection: Connection, head: Option<Head>) {
        if self.session.is_none() {
            return drop(connection);
        }
        self.tell(&cancelled("1"));
        let head = head.unwrap_or_else(|| connection.head());
        if head.header("content-type") == Some("text/event-stream") {
            while connection.event().is_some() {}
        } else {
            connection.body();
        }
    }
}

/// The one server: does with each call what its fate says, until as much was stopped as is to be.
fn serve(server: &mut Server, calls: u64) -> BTreeSet<(u64, u64)> {
    let all = || (0..CLIENTS).flat_map(|client| (0..calls).map(move |number| (client, number)));
    let mut to_answer = all()
        .filter(|(client, number)| matches!(Fate::of(*client, *number), Fate::Answered | Fate::AnsweredAfterProgress))
        .count();
    let to_stop = all().filter(|(client, number)| Fate::of(*client, *number) == Fate::Stopped).count();
    let mut working: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut crossing: BTreeSet<String> = BTreeSet::new();
    let mut stopped = BTreeSet::new();
    while to_answer > 0 || stopped.len() < to_stop {
        let message: Value = serde_json::from_str(&server.receive()).unwrap();
        let id = message["id"].to_string();
        match message["method"].as_str() {
            Some("tools/call") => {
                let arguments = &message["params"]["arguments"];
                let token = message["params"]["_meta"]["progressToken"].to_string();
                let [client, number] = ["client", "number"].map(|name| arguments[name].as_u64().unwrap());
                let answer = result(&id, &answer(arguments).to_string());
                let report = progress(&token, u32::try_from(number).unwrap());
                match Fate::of(client, number) {
                    Fate::Answered => server.send(&answer),
                    Fate::AnsweredAfterProgress => {
                        [&report, &report, &answer].into_iter().for_each(|line| server.send(line))
                    }
                    Fate::Stopped => {
                        assert!(working.insert(id, (client, number)).is_none(), "two calls with one id");
                        server.send(&report);
                        continue;
                    }
                    Fate::Crossing => {
                        crossing.insert(id);
                        server.send(&answer);
                        continue;
                    }
                }
                to_answer -= 1;
            }
            Some("notifications/cancelled") => {
                let id = message["params"]["requestId"].to_string();
                match working.remove(&id) {
                    Some(call) => assert!(stopped.insert(call), "stopped twice: {call:?}"),
                    None => assert!(crossing.contains(&id), "a cancel of what nobody has stopped: {message}"),
                }
            }
            _ => panic!("{message}"),
        }
    }
    stopped
}

#[test]
fn a_hundred_clients_of_both_eras_get_their_own_answers_and_stop_their_own_calls() {
    let calls = if env::var_os("RESCIND_HOUR").is_some() { 60 } else { 6 };
    let service = Service::shared(PROGRAM, [] as [&str; 0]);
    let mut server = service.accept();
    let asked: Value = serde_json::from_str(&server.receive()).unwrap();
    let greeting = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}});
    server.send(&result(&asked["id"].to_string(), &greeting.to_string()));
    server.expect(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let address = service.address;
    let stopped = thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                let caller = Caller::begin(client, address);
                (0..calls).for_each(|number| caller.call(number));
            });
        }
        // Otherwise streams would stay open, and their clients with them.
        catch_unwind(AssertUnwindSafe(|| serve(&mut server, calls))).unwrap_or_else(|failed| {
            service.shim.kill(Signal::KILL);
            resume_unwind(failed)
        })
    });
    let all = (0..CLIENTS).flat_map(|client| (0..calls).map(move |number| (client, number)));
    let meant: BTreeSet<_> = all.filter(|(client, number)| Fate::of(*client, *number) == Fate::Stopped).collect();
    assert_eq!(stopped, meant);
}
