//! Recordings that no shim would write, or that are too long for a test to make with one.

use std::fmt::Write;

use rescind_feed::{ChildState, Event, Request, SettledHow, State, TaskStatus};

use super::{MAX_REQUESTS, Recording, RecordingError};

const HEADING: &str = r#"{"rescind":"recording","version":1,"program":"rescind 0.1.0","started":"2026-11-21T05:56:58.488967Z","pid":7,"command":["server"],"protocol":{"client":"auto","server":"auto"}}"#;
const END: &str = r#"{"t":9000000,"kind":"end"}"#;

fn open(text: &str) -> Result<Recording, RecordingError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.jsonl");
    std::fs::write(&file, text).unwrap();
    Recording::open(&file, "r")
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// The lines of a request that passes at `t`, and its answer.
fn answered(t: u64, id: u64) -> String {
    let request = quoted(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"m\"}}\n"));
    let answer = quoted(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n"));
    let mut lines = String::new();
    for line in [
        format!(r#"{{"t":{t},"kind":"frame","hop":"from_client","frame":{request}}}"#),
        format!(r#"{{"t":{t},"kind":"opened","from":"client","id":{id},"method":"m","upstream":{id}}}"#),
        format!(r#"{{"t":{t},"kind":"frame","hop":"to_server","frame":{request}}}"#),
        format!(r#"{{"t":{t},"kind":"frame","hop":"from_server","frame":{answer}}}"#),
        format!(r#"{{"t":{t},"kind":"frame","hop":"to_client","frame":{answer}}}"#),
        format!(r#"{{"t":{t},"kind":"settled","from":"client","id":{id},"method":"m","how":"answered"}}"#),
    ] {
        writeln!(lines, "{line}").unwrap();
    }
    lines
}

fn batches(recording: &Recording) -> Vec<Vec<Request>> {
    let of = |event| match event {
        Event::Snapshot(snapshot) => Some(snapshot.requests),
        Event::Changes(changes) => Some(changes.requests),
        Event::Ended(_) => None,
        other => panic!("{other:?}"),
    };
    recording.events().filter_map(of).collect()
}

#[test]
fn damaged_lines_are_left_out_with_a_remark() {
    let text = format!("{HEADING}\n{}{{\"t\":5,\"ki\n\u{0}\n{}{END}\n", answered(1, 1), answered(9, 2));
    let recording = open(&text).unwrap();
    assert_eq!(recording.remarks().collect::<Vec<_>>(), ["2 lines are damaged, and left out; the first is line 8"]);
    assert_eq!(batches(&recording)[0].len(), 2);
}

#[test]
fn lines_and_members_of_a_newer_program_are_passed_over() {
    let newer = r#"{"t":3,"kind":"weather","rain":true}"#;
    let line = answered(1, 1).replace(r#""kind":"opened""#, r#""kind":"opened","colour":["red"]"#);
    let recording = open(&format!("{HEADING}\n{newer}\n{line}{END}\n")).unwrap();
    assert_eq!((recording.remarks().count(), batches(&recording)[0].len()), (0, 1));
}

#[test]
fn a_heading_alone_is_an_incomplete_recording() {
    let recording = open(HEADING).unwrap();
    assert_eq!(recording.remarks().count(), 1);
    assert_eq!(recording.session.started, 1_795_240_618_488_967);
    assert!(matches!(open("{}"), Err(RecordingError::NotARecording)));
}

#[test]
fn the_last_requests_are_kept_and_sent_in_batches() {
    let mut text = format!("{HEADING}\n");
    let open_line = r#"{"t":0,"kind":"opened","from":"client","id":"open","method":"m","upstream":"open"}"#;
    writeln!(text, "{open_line}").unwrap();
    for id in 1..=MAX_REQUESTS as u64 + 2499 {
        text.push_str(&answered(id, id));
    }
    writeln!(text, "{END}").unwrap();
    let recording = open(&text).unwrap();
    let remark = "only the last 20000 requests are shown; 2500 earlier ones are left out";
    assert_eq!(recording.remarks().collect::<Vec<_>>(), [remark]);
    let batches = batches(&recording);
    assert_eq!(batches[0].len(), 1001, "the one that is open and the last thousand");
    assert_eq!((batches[0][0].id.as_str(), batches[0][0].state), ("\"open\"", State::Queued));
    assert_eq!(batches.iter().map(Vec::len).sum::<usize>(), MAX_REQUESTS);
    assert!(batches[1..].iter().all(|batch| batch.len() <= 1000));
    assert_eq!(batches[0][1000].settled.as_ref().map(|settled| settled.how), Some(SettledHow::Result));
}

#[test]
fn of_a_request_with_many_messages_the_first_and_the_last_are_shown() {
    let mut text = format!("{HEADING}\n");
    let request = answered(0, 1)
        .replace(r#"\"method\":\"m\""#, r#"\"method\":\"m\",\"params\":{\"_meta\":{\"progressToken\":1}}"#);
    let (asked, answer) = request.split_at(request.find(r#"{"t":0,"kind":"frame","hop":"from_server""#).unwrap());
    text.push_str(asked);
    for done in 0..5000 {
        let progress = quoted(&format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":1,\"progress\":{done}}}}}\n"
        ));
        writeln!(text, r#"{{"t":{done},"kind":"frame","hop":"from_server","frame":{progress}}}"#).unwrap();
    }
    text.push_str(&answer.replace("\"t\":0", "\"t\":5000"));
    let recording = open(&text).unwrap();
    let details = recording.details("c1").unwrap();
    assert_eq!((details.frames.len(), details.request.progress.map(|progress| progress.count)), (200, Some(5000)));
    assert!(details.frames[199].text.contains("result") && details.frames[0].text.contains("method"));
}

/// The relay's own line shows what work is part of; one that cannot be shows nothing.
#[test]
fn a_part_stands_below_what_its_line_names() {
    let frame = |hop: &str, message: &str| {
        format!(r#"{{"t":5,"kind":"frame","hop":"{hop}","frame":{}}}"#, quoted(&format!("{message}\n")))
    };
    let opened =
        |id: &str| format!(r#"{{"t":6,"kind":"opened","from":"client","id":{id},"method":"turn","upstream":"x"}}"#);
    let part = |id: &str, parent: &str| {
        format!(r#"{{"t":6,"kind":"part_of","from":"client","id":{id},"parentFrom":"client","parent":{parent}}}"#)
    };
    let lines = [
        frame("from_server", r#"{"method":"turn/started"}"#),
        opened("\"a\""),
        opened("\"b\""),
        part("\"b\"", "\"a\""),
        part("\"a\"", "\"a\""),
        part("\"a\"", "\"never seen\""),
        part("\"never seen\"", "\"a\""),
        r#"{"t":6,"kind":"part_of","from":"client","id":"a","parent":7}"#.to_owned(),
    ];
    let recording = open(&format!("{HEADING}\n{}\n{END}\n", lines.join("\n"))).unwrap();
    let found: Vec<_> = batches(&recording)[0]
        .iter()
        .map(|one| (one.id.clone(), one.state, one.parent.clone(), one.upstream.clone()))
        .collect();
    let (a, b) = ("\"a\"".to_owned(), "\"b\"".to_owned());
    assert_eq!(found, [(a, State::Running, None, None), (b, State::Running, Some("c1".to_owned()), None)]);
}

#[test]
fn children_of_an_acp_session_are_listed_with_their_parent_and_state() {
    let frame = |hop: &str, message: &str| {
        format!(r#"{{"t":5,"kind":"frame","hop":"{hop}","frame":{}}}"#, quoted(&format!("{message}\n")))
    };
    let update = |parent: &str, child: &str, members: &str| {
        let update = format!(r#"{{"sessionUpdate":"subagent_update","sessionId":"{child}"{members}}}"#);
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{parent}","update":{update}}}}}"#
        )
    };
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"subagents":{}}}}"#;
    let running = r#","capabilities":{"cancel":{}},"state":{"state":"running"}"#;
    let prompt = r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s"}}"#;
    let lines = [
        frame("to_server", hello),
        frame("from_server", r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#),
        frame("from_client", prompt),
        r#"{"t":5,"kind":"opened","from":"client","id":1,"method":"session/prompt","upstream":1}"#.to_owned(),
        frame("to_server", prompt),
        frame("from_server", &update("s", "a", &format!(r#","title":"Fix it"{running}"#))),
        frame("from_server", &update("a", "b", r#","state":{"state":"idle","stopReason":"cancelled"}"#)),
    ];
    let text = format!("{HEADING}\n{}\n", lines.join("\n"));
    let shown = |text: &str| {
        let recording = open(text).unwrap();
        let states =
            |one: &Request| one.child.as_ref().map(|child| (one.id.clone(), child.state, one.parent.is_some()));
        (batches(&recording)[0].iter().filter_map(states).collect::<Vec<_>>(), recording.in_flight)
    };
    let (a, b) = (r#""a""#.to_owned(), r#""b""#.to_owned());
    let cancelled = (b, ChildState::Cancelled, true);
    assert_eq!(shown(&text), (vec![(a.clone(), ChildState::Running, true), cancelled.clone()], 2));
    // With its agent it is not known to work.
    let ended = format!("{text}{{\"t\":6,\"kind\":\"server_ended\",\"exitCode\":0}}\n{END}\n");
    assert_eq!(shown(&ended).0, [(a, ChildState::Unknown, true), cancelled]);
}

#[test]
fn tasks_are_listed_with_their_status_and_what_their_cancels_came_to() {
    let frame = |t: u64, hop: &str, message: &str| {
        format!(r#"{{"t":{t},"kind":"frame","hop":"{hop}","frame":{}}}"#, quoted(&format!("{message}\n")))
    };
    let hello =
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
    let tasks = r#"{"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}"#;
    let greeting =
        format!(r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":"2025-11-25","capabilities":{tasks}}}}}"#);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","task":{}}}"#;
    let handle = r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t","status":"working"}}}"#;
    let mut lines = vec![
        frame(1, "to_server", hello),
        frame(1, "from_server", &greeting),
        frame(5, "from_client", call),
        r#"{"t":5,"kind":"opened","from":"client","id":1,"method":"tools/call","upstream":1}"#.to_owned(),
        frame(5, "to_server", call),
        frame(6, "from_server", handle),
        r#"{"t":6,"kind":"settled","from":"client","id":1,"method":"tools/call","how":"answered"}"#.to_owned(),
    ];
    let shown = |lines: &[String], end: &str| {
        let recording = open(&format!("{HEADING}\n{}\n{end}", lines.join("\n"))).unwrap();
        let task = batches(&recording)[0].iter().find(|one| one.at_work.is_some()).cloned().unwrap();
        (task, recording.in_flight)
    };
    let (task, in_flight) = shown(&lines, "");
    let status = |task: &Request| task.at_work.as_ref().map(|work| work.status);
    assert_eq!((task.label().as_str(), task.state, in_flight), ("task:t", State::Running, 1));
    assert_eq!((task.name.as_deref(), status(&task)), (Some("slow"), Some(TaskStatus::Working)));
    assert_eq!((task.since, task.at_work.unwrap().reported), (5, 6));
    // With its server it is over, and how is not known.
    let (task, in_flight) = shown(&lines, &format!("{{\"t\":7,\"kind\":\"server_ended\",\"exitCode\":0}}\n{END}\n"));
    assert_eq!(
        (task.state, task.settled.map(|settled| settled.how), in_flight),
        (State::Ended, Some(SettledHow::Gone), 0)
    );
    // The shim's own cancel, its answer, and its receipt.
    let cancel = r#"{"jsonrpc":"2.0","id":2147483647,"method":"tasks/cancel","params":{"taskId":"t"}}"#;
    let receipt = |outcome: &str, more: &str| {
        format!(
            r#"{{"t":9,"kind":"receipt","from":"client","id":"t","cause":"operator","asked":8,"outcome":"{outcome}"{more}}}"#
        )
    };
    lines.extend([receipt("asked", ""), frame(9, "to_server", cancel), receipt("sent", r#","written":9"#)]);
    assert_eq!((shown(&lines, "").0.state, shown(&lines, "").1), (State::Cancelling, 1));
    let cancelled = r#"{"jsonrpc":"2.0","id":2147483647,"result":{"taskId":"t","status":"cancelled"}}"#;
    lines.extend([frame(10, "from_server", cancelled), receipt("confirmed", r#","written":9,"afterMs":2.0"#)]);
    let (task, in_flight) = shown(&lines, "");
    assert_eq!((task.state, status(&task), in_flight), (State::Ended, Some(TaskStatus::Cancelled), 0));
    assert_eq!(task.cancel.unwrap().words, "confirmed after 2.0 ms");
}
