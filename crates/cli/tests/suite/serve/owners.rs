//! `rescind serve --owners`: what one owner has begun, another can neither see nor stop.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use rescind_proto::json;
use rescind_testkit::puppet::{Connection, Service};
use serde_json::Value;

use super::{LEGACY, MIRRORS, MODERN};
use crate::shim::{
    self, PROGRAM,
    words::{cancelled, request, request_with, result},
};

const ANN: (&str, &str) = ("authorization", "Bearer ann-secret");
const ANN_RENEWED: (&str, &str) = ("authorization", "Bearer ann-renewed");
const BOB: (&str, &str) = ("authorization", "Bearer bob-secret");

/// The list; the token of bob is there as its digest.
const LIST: &str = concat!(
    "# who may\nann ann-secret\nann ann-renewed\n",
    "bob sha256:9f03ef1533a68d2f506f81ef463c1183a82a6bd40e45613f36e6fe1889cf1b99\n"
);

fn write(folder: &Path, text: &str, mode: u32) -> String {
    let path = folder.join("owners");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn serve(folder: &Path) -> Service {
    let list = write(folder, LIST, 0o600);
    let record = folder.join("recordings").to_str().unwrap().to_owned();
    Service::start(PROGRAM, ["--owners", &list, "--record", &record])
}

/// A call outside a session of somebody.
fn ask_modern(service: &Service, who: (&str, &str)) -> Connection {
    let mut connection = service.connect();
    connection.post(&[&MIRRORS[..], &[who]].concat(), &request_with("1", "tools/list", MODERN));
    connection
}

const MARKER: &str = r#"{"jsonrpc":"2.0","method":"marker"}"#;

#[test]
fn another_can_do_nothing_to_the_work_in_a_session_and_its_owner_stops_it() {
    let folder = tempfile::tempdir().unwrap();
    let service = serve(folder.path());
    let mut ann = service.open_session_with(LEGACY, &[ANN]);
    let session = ("mcp-session-id", ann.id.clone());
    let of = |who| [("mcp-session-id", &*session.1), who];
    let mut calls = ["1", "2"].map(|id| {
        let mut call = service.connect();
        call.post(&of(ANN), &request(id, "tools/call"));
        ann.server.expect(&request(id, "tools/call"));
        assert_eq!(call.head().status, 200);
        (call.event().unwrap().id, call)
    });
    let last = calls[0].0.clone();
    let behind = ("last-event-id", &*last);

    // Each way to touch it, and with each the same as for a session that there never was.
    let statuses = |id: &str| {
        let of_bob = [("mcp-session-id", id), BOB];
        let mut answers = Vec::new();
        for message in [&request("9", "ping"), &cancelled("1"), &result("1", "{}"), &request("1", "tools/call")] {
            let (mut connection, head) = service.post(&of_bob, message);
            answers.push((head.status, connection.body()));
        }
        for headers in [&of_bob[..], &[of_bob[0], BOB, behind]] {
            let mut connection = service.connect();
            connection.get(headers);
            let head = connection.head();
            answers.push((head.status, connection.body()));
        }
        let mut connection = service.connect();
        connection.send("DELETE", &of_bob, "");
        let head = connection.head();
        answers.push((head.status, connection.body()));
        answers
    };
    let missing = statuses("no-such-session");
    assert!(missing.iter().all(|(status, _)| *status == 404), "{missing:?}");
    assert_eq!(statuses(&ann.id), missing);

    // Her server was told none of it, and her work goes on.
    assert_eq!(service.post(&of(ANN), MARKER).1.status, 202);
    ann.server.expect(MARKER);
    ann.server.send(&result("1", "{}"));
    assert_eq!(calls[0].1.event().unwrap().data, result("1", "{}"));

    // Her own cancel stops the other call, under another token of hers.
    let (_, head) = service.post(&of(ANN_RENEWED), &cancelled("2"));
    assert_eq!((head.status, head.header("rescind-cancel")), (202, Some("delivered")));
    ann.server.expect(&cancelled("2"));
    calls[1].1.expect_end();

    let mut end = service.connect();
    end.send("DELETE", &of(ANN), "");
    assert_eq!(end.head().status, 204);
    ann.server.expect_end();
}

#[test]
fn owners_have_processes_of_their_own_outside_a_session() {
    let folder = tempfile::tempdir().unwrap();
    let service = serve(folder.path());
    let mut calls = Vec::new();
    let mut asked = service.take_asked();
    calls.push(ask_modern(&service, ANN));
    asked.send(&result("1", r#"{"supportedVersions":["2026-07-28"]}"#));
    // It was only asked, and serves nobody.
    asked.expect_end();
    let mut servers = vec![service.accept()];
    servers[0].expect(&request_with("1", "tools/list", MODERN));
    calls.push(ask_modern(&service, BOB));
    servers.push(service.accept());
    servers[1].expect(&request_with("1", "tools/list", MODERN));

    drop(calls.pop());
    let told = servers[1].receive();
    assert!(told.contains("notifications/cancelled") && told.contains(r#""requestId":1"#), "{told}");
    servers[0].send(&result("1", r#"{"for":"ann"}"#));
    let head = calls[0].head();
    assert_eq!(calls[0].message(&head), result("1", r#"{"for":"ann"}"#));

    // Another token of hers is hers.
    let mut call = ask_modern(&service, ANN_RENEWED);
    servers[0].expect(&request_with("2", "tools/list", MODERN));
    drop(call);
    let told = servers[0].receive();
    assert!(told.contains("notifications/cancelled") && told.contains(r#""requestId":2"#), "{told}");
    call = service.connect();
    call.post(&MIRRORS, &request_with("1", "tools/list", MODERN));
    let head = call.head();
    assert_eq!((head.status, head.header("www-authenticate")), (401, Some("Bearer")));
}

/// One process for all: her task is hers, and so is what it says of it.
#[test]
fn with_one_process_for_all_nobody_sees_or_stops_the_task_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let list = write(folder.path(), LIST, 0o600);
    let service = Service::shared(PROGRAM, ["--owners", &list]);
    let mut server = service.accept();
    let greeting =
        format!(r#"{{"protocolVersion":"{LEGACY}","capabilities":{{}},"serverInfo":{{"name":"s","version":"1"}}}}"#);
    let id_of = |message: &str| -> String {
        let id = rescind_proto::json::member(message.as_bytes(), "id").unwrap();
        String::from_utf8(id.to_vec()).unwrap()
    };
    let asked = server.receive();
    server.send(&result(&id_of(&asked), &greeting));
    server.expect(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let open = |who| {
        let params = format!(
            r#"{{"protocolVersion":"{LEGACY}","capabilities":{{}},"clientInfo":{{"name":"c","version":"1"}}}}"#
        );
        let (_, head) = service.post(&[who], &request_with("1", "initialize", &params));
        head.header("mcp-session-id").unwrap().to_owned()
    };
    let (hers, his) = (open(ANN), open(BOB));
    let ask = |session: &str, who, method: &str| {
        let mut connection = service.connect();
        connection.post(&[("mcp-session-id", session), who], &request_with("5", method, r#"{"taskId":"task-1"}"#));
        connection
    };

    let mut made = service.connect();
    made.post(&[("mcp-session-id", &hers), ANN], &request_with("5", "tools/call", r#"{"name":"x","task":{}}"#));
    let asked = server.receive();
    server.send(&result(&id_of(&asked), r#"{"task":{"taskId":"task-1","status":"working"}}"#));
    let head = made.head();
    assert!(made.message(&head).contains("task-1"));

    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let mut refused = ask(&his, BOB, method);
        let head = refused.head();
        assert_eq!(shim::error_of(&refused.message(&head), "5")["code"], -32602, "{method}");
    }
    // Her own cancel is the next thing that the process hears.
    let mut cancelled = ask(&hers, ANN_RENEWED, "tasks/cancel");
    let asked = server.receive();
    assert!(asked.contains("tasks/cancel") && asked.contains("task-1"), "{asked}");
    server.send(&result(&id_of(&asked), r#"{"taskId":"task-1","status":"cancelled"}"#));
    let head = cancelled.head();
    assert!(cancelled.message(&head).contains("cancelled"));
}

#[test]
fn tokens_stand_in_no_list_no_recording_and_no_word() {
    let folder = tempfile::tempdir().unwrap();
    let mut service = serve(folder.path());
    let mut ann = service.open_session_with(LEGACY, &[ANN]);
    let mut call = service.connect();
    call.post(&[("mcp-session-id", &*ann.id), ANN], &request("1", "tools/call"));
    ann.server.expect(&request("1", "tools/call"));
    let listed = |flags: &[&str]| {
        let mut command = Command::new(PROGRAM);
        let output = command.args(flags).env("RESCIND_RUNTIME_DIR", &service.sockets).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let mut said = vec![listed(&["ps"]), listed(&["ps", "--sessions", "--json"])];
    assert!(said[0].contains("tools/call"), "{}", said[0]);
    // The operator sees whose it is.
    let words = |line: &str| line.split_whitespace().nth(2).map(ToOwned::to_owned);
    let hers = said[0].lines().find(|line| line.contains("tools/call")).and_then(words);
    assert_eq!((words(&said[0]).as_deref(), hers.as_deref()), (Some("OWNER"), Some("ann")), "{}", said[0]);
    assert!(said[1].contains(r#""owner": "ann""#), "{}", said[1]);
    service.shim.kill(rustix::process::Signal::TERM);
    service.shim.kill(rustix::process::Signal::TERM);
    ann.server.exit(0);
    service.shim.expect_exit(0);
    said.push(String::from_utf8(service.shim.stderr.rest()).unwrap());
    for recording in fs::read_dir(folder.path().join("recordings")).unwrap() {
        said.push(fs::read_to_string(recording.unwrap().path()).unwrap());
    }
    assert!(said.len() >= 5, "{said:?}");
    for text in said {
        assert!(!text.contains("-secret"), "{text}");
    }
}

/// The list is written anew while the service runs.
#[test]
fn who_is_taken_out_of_the_list_is_stopped_and_who_comes_in_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let mut service = serve(folder.path());
    let begin = |who| {
        let mut session = service.open_session_with(LEGACY, &[who]);
        let mut call = service.connect();
        call.post(&[("mcp-session-id", &*session.id), who], &request("1", "tools/call"));
        session.server.expect(&request("1", "tools/call"));
        assert_eq!(call.head().status, 200);
        call.event().unwrap();
        (session, call)
    };
    let (mut ann, mut hers) = begin(ANN);
    let (mut bob, mut his) = begin(BOB);
    let digest = LIST.lines().last().unwrap();
    let list = write(folder.path(), &format!("{digest}\ncas cas-secret\n"), 0o600);
    let told = ann.server.receive();
    assert!(told.contains("notifications/cancelled") && told.contains(r#""requestId":1"#), "{told}");
    ann.server.expect_end();
    hers.expect_end();
    assert_eq!(service.shim.stderr.line(), format!("{list}: read again"));
    let (_, head) = service.post(&[ANN, ("mcp-session-id", &*ann.id)], &request("2", "tools/call"));
    assert_eq!((head.status, head.header("www-authenticate")), (401, Some(r#"Bearer error="invalid_token""#)));
    service.open_session_with(LEGACY, &[("authorization", "Bearer cas-secret")]);

    // What is no list takes nobody's token away.
    write(folder.path(), "bob\n", 0o600);
    let said = "line 1 is not an owner and a token; the tokens that it had before are still good";
    assert_eq!(service.shim.stderr.line(), format!("warning: {list}: {said}"));
    bob.server.send(&result("1", "{}"));
    assert_eq!(his.event().unwrap().data, result("1", "{}"));
}

#[test]
fn a_list_that_others_can_read_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    for (text, mode, is_exposed) in
        [("ann secret", 0o644, true), ("ann secret", 0o600, false), (LIST.lines().last().unwrap(), 0o644, false)]
    {
        let list = write(folder.path(), text, mode);
        let mut service = Service::start(PROGRAM, ["--owners", &list]);
        service.shim.kill(rustix::process::Signal::TERM);
        service.take_asked().exit(0);
        service.shim.expect_exit(0);
        let said = String::from_utf8(service.shim.stderr.rest()).unwrap();
        assert_eq!(said.contains("others on this machine can read the tokens"), is_exposed, "{text} {mode:o}: {said}");
    }
}

#[test]
fn what_is_no_list_and_flags_that_contradict_it_are_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let list = write(folder.path(), "ann secret\nbob secret\n", 0o600);
    let serve = |flags: &[&str]| shim::run_to_end(&[&["serve", "--listen", "127.0.0.1:0"], flags, &["cat"]].concat());
    let (said, code) = serve(&["--owners", &list]);
    assert_eq!(code, 2);
    assert!(said.starts_with(&format!("error: {list}: line 2 has the token of line 1\nhint: ")), "{said}");
    assert!(!said.contains("secret"), "{said}");
    assert_eq!(serve(&["--owners", "/nowhere/owners"]).1, 2);
    let (said, code) = serve(&["--owners", &list, "--token-file", &list]);
    assert_eq!(code, 2);
    assert!(said.contains("cannot be used with"), "{said}");
}

/// A server with sessions, clients without: the question is the result of the call that it is for, and nobody else's.
#[test]
fn an_owner_is_asked_what_the_server_wants_to_know_for_his_call() {
    let folder = tempfile::tempdir().unwrap();
    let list = write(folder.path(), LIST, 0o600);
    let service = Service::unasked(PROGRAM, ["--bridge", "--owners", &list]);
    let meta = MODERN[1..MODERN.len() - 1].replace(r#"Capabilities":{}"#, r#"Capabilities":{"elicitation":{}}"#);
    let call = |who, id: &str, members: &str| {
        let mirrors = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "slow"), who];
        let mut connection = service.connect();
        connection.post(&mirrors, &request_with(id, "tools/call", &format!(r#"{{{meta},"name":"slow"{members}}}"#)));
        connection
    };
    let mut ann = call(ANN, "1", "");
    let mut server = service.accept();
    let id = |message: &str| json::member(message.as_bytes(), "id").map(|id| String::from_utf8(id.to_vec()).unwrap());
    let asked = server.receive();
    assert!(asked.contains("server/discover"), "{asked}");
    let none = format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":"no"}}}}"#, id(&asked).unwrap());
    server.send(&none);
    let asked = server.receive();
    assert!(asked.contains(r#""capabilities":{"elicitation":{}}"#), "{asked}");
    let greeting = r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#;
    server.send(&result(&id(&asked).unwrap(), greeting));
    server.expect(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let known = id(&server.receive()).unwrap();
    server.send(&request_with("70", "elicitation/create", r#"{"message":"Sure?","requestedSchema":{}}"#));
    let head = ann.head();
    let wanted: Value = serde_json::from_str(&ann.message(&head)).unwrap();
    assert_eq!(wanted["result"]["inputRequests"]["1"]["params"]["message"], "Sure?", "{wanted}");

    // The state is of no use to another, who has a server process of his own.
    let state = &wanted["result"]["requestState"];
    let answer = format!(r#","requestState":{state},"inputResponses":{{"1":{{"action":"accept"}}}}"#);
    let mut bob = call(BOB, "1", &answer);
    let mut his = service.accept();
    let asked = his.receive();
    his.send(&none.replace(&id(&none).unwrap(), &id(&asked).unwrap()));
    let asked = his.receive();
    his.send(&result(&id(&asked).unwrap(), greeting));
    his.expect(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let head = bob.head();
    assert_eq!(shim::error_of(&bob.message(&head), "1")["code"], -32602);

    let mut ann = call(ANN, "2", &answer);
    server.expect(&result("70", r#"{"action":"accept"}"#));
    server.send(&result(&known, r#"{"content":[]}"#));
    let head = ann.head();
    assert_eq!(ann.message(&head), result("2", r#"{"resultType":"complete","content":[]}"#));
}
