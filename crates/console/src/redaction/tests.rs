//! Secrets in every place where a peer, or a user, can put one.

use std::io::{self, BufReader, Read};

use serde_json::{Value, json};

use super::{RedactionError, redact};

const SECRET: &str = "hunter2";
const HEADING: &str = r#"{"rescind":"recording","version":1,"program":"rescind 0.1.0","started":"2026-11-21T05:56:58.488967Z","monotonicNs":5,"pid":7,"command":["server"],"protocol":{"client":"auto","server":"mcp-2025-11-25"}}"#;

fn redacted(text: &str) -> String {
    let mut out = Vec::new();
    redact(text.as_bytes(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// What becomes of lines after the heading.
fn lines(lines: &[String]) -> Vec<Value> {
    let out = redacted(&format!("{HEADING}\n{}\n", lines.join("\n")));
    assert_eq!(out.lines().count(), 1 + lines.len());
    out.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn frame(text: &str) -> String {
    json!({"t": 5, "kind": "frame", "hop": "from_client", "frame": text}).to_string()
}

/// What becomes of a message.
fn message(text: &str) -> String {
    lines(&[frame(text)])[0]["frame"].as_str().unwrap().to_owned()
}

#[test]
fn a_secret_is_replaced_wherever_it_is_in_a_message() {
    let places = [
        r#"{"jsonrpc":"2.0","id":"hunter2","method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":{"hunter2":"hunter2"},"method":["hunter2"]}"#,
        r#"{"jsonrpc":"hunter2","id":1,"method":"hunter2"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/hunter2"}"#,
        r#"{"jsonrpc":"2.0","method":"$/hunter2"}"#,
        r#"{"jsonrpc":"2.0","method":"_hunter2"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","hunter2":{"hunter2":["hunter2"]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"hunter2"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["hunter2",{"hunter2":1}]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hunter2","arguments":{"hunter2":{"name":"hunter2"}}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":"hunter2","hunter2":1,"traceparent":"hunter2"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"hunter2","clientInfo":{"name":"hunter2","version":"hunter2"},"capabilities":{"experimental":{"hunter2":{}}}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"hunter2","reason":"hunter2"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"hunter2","message":"hunter2"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":"hunter2"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"hunter2","text":"hunter2","uri":"https://hunter2@host/?token=hunter2"}]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"status":"hunter2","stopReason":"hunter2","state":{"state":"hunter2"},"role":"hunter2"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"hunter2","task":{"taskId":"hunter2"},"token":"hunter2","nextCursor":"hunter2"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no hunter2","data":{"hunter2":"hunter2","message":"hunter2","receipt":{"outcome":"hunter2"}}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no answer within hunter2 (set by rescind run --timeout)"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":"hunter2"}"#,
        r#"[{"jsonrpc":"2.0","id":"hunter2","method":"hunter2"},"hunter2",["hunter2"]]"#,
        r#""hunter2""#,
        r#"{"id":1,"result":1,"result":"hunter2","result":{"hunter2":1}}"#,
        r#"{"id":"\u0068unter2","method":"\u0068unter2","params":{"\u0068unter2":"\u0068unter2"}}"#,
        "hunter2",
        "{\"id\":1,\"method\":\"hunter2\"",
        "{\"id\":1} hunter2",
        "\u{feff}{\"id\":1,\"method\":\"hunter2\"}",
        "Content-Length: 7\r\nAuthorization: hunter2\r\n\r\nhunter2",
        "Content-Length: 30\r\nX-Key: hunter2\r\n\r\n{\"id\":1,\"method\":\"hunter2\"}",
        "content-hunter2: 7\r\n",
    ];
    for place in places {
        let made = message(&format!("{place}\n"));
        assert!(!made.contains(SECRET), "{place}\n{made}");
    }
    let deep = format!("{}\"hunter2\"{}", "[".repeat(500), "]".repeat(500));
    assert_eq!(message(&format!("{deep}\n")), "(1009 bytes)\n");
}

#[test]
fn a_number_that_says_something_is_replaced() {
    let card = "4111111111111111";
    for place in [
        r#"{"id":4111111111111111,"method":"ping"}"#,
        r#"{"id":-4111111111111111,"method":"ping"}"#,
        r#"{"id":4111111111111111.5,"method":"ping"}"#,
        r#"{"id":41111111111111111111111111,"method":"ping"}"#,
        r#"{"id":"rescind-4111111111111111","method":"ping"}"#,
        r#"{"id":"rescind task 4111111111111111","method":"ping"}"#,
        r#"{"id":1,"result":{"sessionId":4111111111111111,"name":4111111111111111,"n":4111111111111111}}"#,
        r#"{"id":1,"result":{"content":[4111111111111111],"total":4111111111111111,"progress":-4111111111111111}}"#,
        r#"{"id":1,"error":{"code":4111111111111111,"message":"no answer within x4111111111111111"}}"#,
        "4111111111111111",
    ] {
        let made = message(place);
        assert!(!made.contains(card), "{place}\n{made}");
    }
    // One of nine digits is not a count in a session of one message.
    assert_eq!(message(r#"{"id":123456789}"#), r#"{"id":4000000001}"#);
    assert_eq!(message(r#"{"result":{"pin":1234,"exitCode":1234}}"#), r#"{"result":{"key-1":0,"exitCode":0}}"#);
    assert_eq!(
        message(r#"{"result":{"pregnant":true,"isError":true}}"#),
        r#"{"result":{"key-1":false,"isError":true}}"#
    );
}

#[test]
fn a_secret_is_replaced_wherever_it_is_in_a_line() {
    let in_base64 = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, b"hunter2\xff");
    let places = [
        json!({"t": 1, "kind": "opened", "from": "client", "id": SECRET, "method": SECRET, "upstream": SECRET}),
        json!({"t": 1, "kind": "part_of", "from": "client", "id": SECRET, "parentFrom": "client", "parent": SECRET}),
        json!({"t": 1, "kind": "task", "from": "client", "id": 1, "task": SECRET, "news": "made"}),
        json!({"t": 1, "kind": "cancel", "from": "client", "id": 1, "cause": "caller", "reason": SECRET, "verdict": "accepted"}),
        json!({"t": 1, "kind": "receipt", "from": "client", "id": 1, "cause": "operator", "reason": "stopped: hunter2"}),
        json!({"t": 1, "kind": "dropped", "from": "client", "why": "garbage", "excerpt": SECRET}),
        json!({"t": 1, "kind": "frame", "hop": "from_client", "base64": in_base64}),
        json!({"t": 1, "kind": "end", "protocol": {"client": SECRET, "server": SECRET, (SECRET): 1}}),
        json!({"t": 1, "kind": "later", "news of a later version": SECRET, "more": {(SECRET): SECRET}, "most": [SECRET]}),
    ];
    for place in &places {
        let made = lines(&[place.to_string()]).remove(0).to_string();
        assert!(!made.contains(SECRET) && !made.contains("aHVudGVyM"), "{place}\n{made}");
    }
    let broken = [
        "hunter2",
        "{\"t\":4,\"kind\":\"hunter2",
        "[\"hunter2\"]",
        "\"hunter2\"",
        "{\"t\":4,\"frame\":7,\"hunter2\":1}",
    ];
    let made = redacted(&format!("{HEADING}\n{}\n{{\"t\":9,\"kind\":\"hunter2 breaks", broken.join("\n")));
    assert!(!made.contains(SECRET), "{made}");
    assert_eq!(made.lines().count(), 1 + broken.len(), "a line that breaks off is left out");
    assert!(made.lines().nth(1).unwrap().contains(r#""kind":"unreadable","size":7"#), "{made}");
}

#[test]
fn a_command_its_variables_and_addresses_are_gone_from_the_heading() {
    for command in [
        json!(["/home/hunter2/bin/server", "--token", SECRET, "--token=hunter2"]),
        json!(["env", "KEY=hunter2", "npx", "-y", "@hunter2/server"]),
        json!(["https://hunter2@host/hunter2?token=hunter2#hunter2"]),
    ] {
        let header = json!({
            "rescind": "recording", "version": 1, "program": "rescind hunter 2", "started": SECRET, "pid": 7,
            "command": command, "entry": SECRET, "clientName": SECRET, "client": {"hunter2": "hunter2"}, "env": {"KEY": "hunter2"},
            "headers": {"authorization": "hunter2"}, (SECRET): 1, "protocol": {"client": "auto", "server": SECRET},
        });
        let made = redacted(&header.to_string());
        assert!(!made.contains(SECRET), "{made}");
        let made: Value = serde_json::from_str(&made).unwrap();
        assert_eq!(made["command"].as_array().unwrap().len(), command.as_array().unwrap().len());
    }
    let header = HEADING.replace(r#"["server"]"#, r#"["/usr/bin/npx","-y","files"]"#);
    let made: Value = serde_json::from_str(&redacted(&header)).unwrap();
    let expected: Value = serde_json::from_str(&header).unwrap();
    assert_eq!(made["command"], json!(["npx", "(2 bytes)", "(5 bytes)"]));
    for kept in ["rescind", "version", "program", "started", "monotonicNs", "pid", "protocol"] {
        assert_eq!(made[kept], expected[kept]);
    }
    assert_eq!(made["redacted"], true);
}

#[test]
fn what_tells_how_a_session_went_is_kept() {
    let call = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"index","arguments":{"path":["/x",2]},"_meta":{"progressToken":"p"}}}"#;
    let expected = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"name-1","arguments":{"key-2":["(2 bytes)",0]},"_meta":{"progressToken":"id-3"}}}"#;
    let lines = lines(&[
        frame(&format!("{call}\n")),
        frame("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"p\",\"progress\":0,\"message\":\"x\"}}\r\n"),
        frame("{\"id\":3,\"error\":{\"code\":-32800,\"message\":\"Request cancelled\",\"data\":{\"receipt\":{\"cause\":\"operator\",\"outcome\":\"sent\"}}}}\n"),
        frame("{\"id\":3,\"error\":{\"code\":-32000,\"message\":\"no\"}}\n"),
        r#"{"t":7,"kind":"receipt","from":"client","id":3,"method":"tools/call","cause":"caller","asked":6,"written":7,"outcome":"confirmed","afterMs":1.5,"answer":"error"}"#.to_owned(),
        r#"{"t":8,"kind":"violation","from":"client","rule":"MCP-C06","id":3}"#.to_owned(),
        r#"{"t":9,"kind":"server_ended","signal":15,"endedBy":"shim","because":"operator"}"#.to_owned(),
        r#"{"t":9,"kind":"opened","from":"client","id":2147483646,"method":"tools/call","upstream":"rescind-2147483647"}"#.to_owned(),
    ]);
    let frames: Vec<&str> = lines[..4].iter().map(|line| line["frame"].as_str().unwrap()).collect();
    assert_eq!(frames[0], format!("{expected}\n"));
    assert_eq!(lines[0]["size"], call.len());
    assert!(
        frames[1].ends_with("\"progressToken\":\"id-3\",\"progress\":0,\"message\":\"(1 bytes)\"}}\r\n"),
        "{}",
        frames[1]
    );
    assert!(frames[2].contains("Request cancelled") && frames[2].contains(r#"{"cause":"operator","outcome":"sent"}"#));
    assert_eq!(frames[3], "{\"id\":3,\"error\":{\"code\":-32000,\"message\":\"(2 bytes)\"}}\n");
    let receipt = r#"{"afterMs":1.5,"answer":"error","asked":6,"cause":"caller","from":"client","id":3,"kind":"receipt","method":"tools/call","outcome":"confirmed","t":7,"written":7}"#;
    assert_eq!(lines[4], serde_json::from_str::<Value>(receipt).unwrap());
    assert_eq!((&lines[5]["rule"], &lines[6]["signal"]), (&json!("MCP-C06"), &json!(15)));
    assert_eq!((&lines[7]["id"], &lines[7]["upstream"]), (&json!(2_147_483_646), &json!("rescind-2147483647")));
}

#[test]
fn framing_is_kept_and_fits_what_is_in_it() {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":4711,"rootUri":null}}"#;
    let made = message(&format!("Content-Type: x\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    let (head, body) = made.split_once("\r\n\r\n").unwrap();
    assert_eq!(head, format!("Content-Length: {}", body.len()));
    assert_eq!(
        body,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"processId":4000000001,"rootUri":null}}"#
    );
}

#[test]
fn the_same_recording_gives_the_same_bytes_and_a_redacted_one_is_refused() {
    let text = format!("{HEADING}\n{}\n{}\n", frame("{\"id\":\"a\",\"b\":{}}\n"), frame("{\"id\":\"c\",\"b\":{}}\n"));
    let made = redacted(&text);
    assert_eq!(made, redacted(&text));
    assert!(made.contains(r#"\"id-1\""#) && made.contains(r#"\"id-3\""#), "{made}");
    assert!(matches!(redact(made.as_bytes(), &mut io::sink()), Err(RedactionError::Again)));
    for other in ["", "shopping list\n", "{}\n", "\u{0}"] {
        assert!(matches!(redact(other.as_bytes(), &mut io::sink()), Err(RedactionError::Recording(_))), "{other}");
    }
}

/// A recording that never was in one place.
struct Endless {
    line: String,
    lines: usize,
    at: usize,
}

impl Read for Endless {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.lines == 0 {
            return Ok(0);
        }
        let rest = &self.line.as_bytes()[self.at..];
        let taken = rest.len().min(room.len());
        room[..taken].copy_from_slice(&rest[..taken]);
        self.at += taken;
        if self.at == self.line.len() {
            (self.at, self.lines) = (0, self.lines - 1);
        }
        Ok(taken)
    }
}

#[test]
fn every_message_of_a_long_recording_is_read() {
    let call = frame("{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"hunter2\"}}\n");
    let heading = io::Cursor::new(format!("{HEADING}\n"));
    let long = Endless { line: format!("{call}\n"), lines: 20_000, at: 0 };
    let redaction = redact(BufReader::new(heading.chain(long)), &mut io::sink()).unwrap();
    assert_eq!((redaction.messages, redaction.replaced, redaction.unreadable), (20_000, 20_000 + 1, 0));
}
