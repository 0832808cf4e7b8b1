//! Servers that refuse a request in every way but that of JSON-RPC, behind `rescind run --url` and `rescind serve
//! --upstream`: the client gets a message that it can read, and that says what the server said (D43).

use std::{
    io::{BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

use rescind_testkit::{
    puppet::{Ends, Service, Shim, Transcript, run_url},
    spoil::check_answer,
};
use serde_json::{Value, json};

use super::{LEGACY, upstream::Request};
use crate::shim::{
    PROGRAM,
    words::{notification, request_with},
};

/// How a server refuses a request, and what its client has to get.
struct Refusal {
    /// What the request names to be refused so.
    name: &'static str,
    status: u16,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
    /// What the answer has to say of it.
    quoted: &'static str,
    /// The code, if the server's error is an answer.
    code: i64,
    /// The status with which `serve --upstream` answers.
    passed: u16,
}

const JSON: (&str, &str) = ("content-type", "application/json");
const HTML: (&str, &str) = ("content-type", "text/html");

const REFUSALS: [Refusal; 14] = [
    Refusal {
        name: "limit",
        status: 429,
        headers: &[JSON, ("retry-after", "120")],
        body: r#"{"error":"rate limited"}"#,
        quoted: "rate limited",
        code: -31002,
        passed: 429,
    },
    Refusal {
        name: "valid-limit",
        status: 429,
        headers: &[JSON, ("retry-after", "7")],
        body: r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32029,"message":"slow down","data":{"x":[1.0]}}}"#,
        quoted: "slow down",
        code: -32029,
        passed: 429,
    },
    Refusal {
        name: "missing",
        status: 404,
        headers: &[JSON],
        body: r#"{"error":"Not Found"}"#,
        quoted: "Not Found",
        code: -31002,
        passed: 200,
    },
    Refusal {
        name: "forbidden",
        status: 403,
        headers: &[JSON],
        body: r#"{"error":"invalid_token","error_description":"expired"}"#,
        quoted: "invalid_token",
        code: -31002,
        passed: 403,
    },
    Refusal {
        name: "vendor",
        status: 500,
        headers: &[JSON],
        body: r#"{"error":{"type":"overloaded_error","message":"busy"}}"#,
        quoted: "busy",
        code: -31002,
        passed: 500,
    },
    Refusal {
        name: "page",
        status: 502,
        headers: &[HTML],
        body: "<html>\r\n<h1>502 Bad Gateway</h1>nginx</html>",
        quoted: "nginx",
        code: -31002,
        passed: 502,
    },
    Refusal {
        name: "nothing",
        status: 503,
        headers: &[("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT")],
        body: "",
        quoted: "503",
        code: -31002,
        passed: 503,
    },
    Refusal {
        name: "foreign",
        status: 200,
        headers: &[JSON],
        body: r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Missing session"}}"#,
        quoted: "Missing session",
        code: -32600,
        passed: 200,
    },
    Refusal {
        name: "foreign-400",
        status: 400,
        headers: &[JSON],
        body: r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Missing session"}}"#,
        quoted: "Missing session",
        code: -32600,
        passed: 200,
    },
    Refusal {
        name: "other-json",
        status: 200,
        headers: &[JSON],
        body: r#"{"status":"accepted"}"#,
        quoted: "accepted",
        code: -31002,
        passed: 200,
    },
    Refusal {
        name: "login-page",
        status: 200,
        headers: &[HTML],
        body: "<!DOCTYPE html><title>Sign in</title>",
        quoted: "Sign in",
        code: -31002,
        passed: 200,
    },
    Refusal {
        name: "an-empty-200",
        status: 200,
        headers: &[JSON],
        body: "",
        quoted: "without an answer",
        code: -31002,
        passed: 200,
    },
    Refusal {
        name: "text-error",
        status: 400,
        headers: &[JSON],
        body: r#"{"jsonrpc":"2.0","id":1,"error":"no such tool"}"#,
        quoted: "no such tool",
        code: -31002,
        passed: 200,
    },
    Refusal {
        name: "not-json",
        status: 429,
        headers: &[JSON, ("retry-after", "3")],
        body: "{'jsonrpc': '2.0', 'id': 1, 'error': 'slow down'}",
        quoted: "slow down",
        code: -31002,
        passed: 429,
    },
];

impl Refusal {
    fn retry_after(&self) -> Option<&'static str> {
        self.headers.iter().find(|(name, _)| *name == "retry-after").map(|(_, value)| *value)
    }

    /// The answer of a client in words.
    fn check(&self, line: &str, id: &str) {
        check_answer(line, id, self.name);
        let answer: Value = serde_json::from_str(line).unwrap();
        let error = &answer["error"];
        assert_eq!(error["code"], self.code, "{}: {line}", self.name);
        assert!(error["message"].as_str().unwrap().contains(self.quoted), "{}: {line}", self.name);
        assert_eq!(answer.as_object().unwrap().len(), 3, "{}: {line}", self.name);
        if self.code != -31002 {
            let said: Value = serde_json::from_str(self.body).unwrap();
            assert_eq!(*error, said["error"], "{}", self.name);
        } else if self.status >= 400 {
            assert_eq!(error["data"]["httpStatus"], self.status, "{}: {line}", self.name);
            assert_eq!(error["data"]["retryAfter"].as_str(), self.retry_after(), "{}: {line}", self.name);
        }
    }
}

/// A server on loopback that refuses what names a refusal, as a tool or as a client. It ends with the test.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().for_each(|stream| drop(thread::spawn(|| converse(stream.unwrap())))));
    format!("http://{address}/mcp")
}

fn converse(stream: TcpStream) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(request) = Request::read(&mut reader) {
        let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let (status, headers, body) = answer(&request, &message);
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let response = format!("HTTP/1.1 {status} x\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
        if writer.write_all(response.as_bytes()).is_err() {
            return;
        }
    }
}

fn answer(request: &Request, message: &Value) -> (u16, Vec<(&'static str, &'static str)>, String) {
    let params = &message["params"];
    let names = [&params["name"], &params["clientInfo"]["name"]];
    if let Some(refusal) = REFUSALS.iter().find(|refusal| names.iter().any(|name| **name == refusal.name)) {
        return (refusal.status, refusal.headers.to_vec(), refusal.body.to_owned());
    }
    let result = |result: Value| {
        let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
        (200, vec![JSON, ("mcp-session-id", "one")], body)
    };
    let info = json!({"name": "upstream", "version": "1"});
    match (&*request.method, message["method"].as_str()) {
        ("POST", Some("initialize")) => {
            result(json!({"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": info}))
        }
        ("POST", Some("server/discover")) => result(json!({"supportedVersions": ["2026-07-28"]})),
        ("POST", _) if message["id"].is_null() => (202, vec![], String::new()),
        ("POST", _) => result(json!({})),
        ("DELETE", _) => (204, vec![], String::new()),
        _ => (405, vec![], String::new()),
    }
}

fn greeting(client: &str) -> String {
    let info = json!({"name": client, "version": "1"});
    let params = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info});
    request_with("0", "initialize", &params.to_string())
}

fn call(id: usize, tool: &str) -> String {
    request_with(&id.to_string(), "tools/call", &json!({"name": tool, "arguments": {}}).to_string())
}

/// A client on stdio that has greeted as this one, and what it was answered.
fn greeted(url: &str, client: &str, sockets: &std::path::Path) -> (Shim, Ends, String) {
    let (shim, mut ends) = run_url(PROGRAM, url, [] as [&str; 0], sockets, &Transcript::default());
    ends.send(&greeting(client));
    let answer = ends.receive().trim_end().to_owned();
    (shim, ends, answer)
}

/// D43.
#[test]
fn a_client_on_stdio_can_read_every_refusal_of_a_url() {
    let (url, folder) = (server(), tempfile::tempdir().unwrap());
    let (_shim, mut client, answer) = greeted(&url, "test", folder.path());
    assert!(answer.contains("serverInfo"), "{answer}");
    client.send(&notification("notifications/initialized", "{}"));
    for (id, refusal) in REFUSALS.iter().enumerate() {
        client.send(&call(id + 1, refusal.name));
        refusal.check(client.receive().trim_end(), &(id + 1).to_string());
    }
    client.send(&call(99, "fine"));
    check_answer(client.receive().trim_end(), "99", "the session goes on");
}

/// D43.
#[test]
fn a_client_on_stdio_can_read_every_refusal_of_its_handshake() {
    let (url, folder) = (server(), tempfile::tempdir().unwrap());
    for refusal in &REFUSALS {
        let (_shim, _client, answer) = greeted(&url, refusal.name, folder.path());
        refusal.check(&answer, "0");
    }
}

/// D43.
#[test]
fn a_refusal_of_the_server_behind_keeps_its_status_and_when_to_come_back() {
    let service = Service::before(PROGRAM, &server(), [] as [&str; 0]);
    let (mut connection, head) = service.post(&[], &greeting("test"));
    assert_eq!(head.status, 200, "{}", connection.body());
    let session = [("mcp-session-id", head.header("mcp-session-id").unwrap())];
    assert_eq!(service.post(&session, &notification("notifications/initialized", "{}")).1.status, 202);
    for (id, refusal) in REFUSALS.iter().enumerate() {
        let modern = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", refusal.name)];
        let mut asked: Value = serde_json::from_str(&call(id + 1, refusal.name)).unwrap();
        asked["params"]["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}
        });
        let asks = [(&session[..], call(id + 1, refusal.name)), (&modern[..], asked.to_string())];
        for (headers, message) in asks {
            let (mut connection, head) = service.post(headers, &message);
            let line = connection.message(&head);
            refusal.check(&line, &(id + 1).to_string());
            assert_eq!(head.status, refusal.passed, "{}: {line}", refusal.name);
            let retry_after = refusal.retry_after().filter(|_| refusal.passed != 200);
            assert_eq!(head.header("retry-after"), retry_after, "{}", refusal.name);
        }
    }
}

/// Each notification that is refused is a line on stderr, and clients leave stderr unread.
#[test]
fn a_client_that_never_reads_stderr_is_answered_all_the_same() {
    let (url, folder) = (server(), tempfile::tempdir().unwrap());
    let (mut shim, mut client, _) = greeted(&url, "test", folder.path());
    client.send(&notification("notifications/initialized", "{}"));
    // Some 300 kB, where a pipe takes 64 KiB.
    for _ in 0..3000 {
        client.send(&notification("notifications/refused", r#"{"name":"text-error"}"#));
    }
    client.send(&call(1, "fine"));
    check_answer(client.receive().trim_end(), "1", "what is said about others is not waited for");
    client.close_output();
    client.expect_end();
    let said = shim.stderr.line();
    assert!(said.starts_with("warning: "), "{said}");
}
