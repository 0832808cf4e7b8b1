//! Answers that broken programs write, spoilt in every way of the testkit (D43): what the client gets is always a message
//! that it can read, and the request that is named ends.

use rescind_proto::{
    connection::Settlement,
    dialect::{Dialect, lsp, mcp},
    framing::Framing,
    link::Rejected,
    relay::RelayConfig,
    side::Sides,
};
use rescind_testkit::{
    relay_rig::RelayRig,
    spoil::{Answer, Expected, Spoilt, check_answer},
};

use crate::endpoint_rig;

/// Each of another kind.
const IDS: [&str; 4] = ["1", "-7", "\"one\"", "\"1\""];

/// The request beside it, which payloads name.
const OTHER: &str = "2";

fn request(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{}}}}"#)
}

fn result(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

fn all() -> impl Iterator<Item = (Answer, Spoilt)> {
    IDS.into_iter().flat_map(Answer::all).flat_map(|answer| answer.spoilt().into_iter().map(move |it| (answer, it)))
}

/// A relay with two requests in flight.
fn asked(dialect: &'static Dialect, framing: Framing, id: &str) -> RelayRig {
    let dialects = Sides { client: Some(dialect), server: Some(dialect) };
    let mut rig = RelayRig::new(RelayConfig { dialects, framing: Some(framing), ..RelayConfig::default() });
    rig.from_client(&request(id));
    rig.from_client(&request(OTHER));
    assert_eq!(rig.at_server().len(), 2);
    rig
}

fn framed(framing: Framing, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    framing.write(&mut bytes, body);
    bytes
}

/// What came of it at the client, whatever else was there.
fn check_fate(rig: &mut RelayRig, answer: Answer, spoilt: &Spoilt) {
    let Spoilt { way, text, fate } = spoilt;
    let shown = format!("{way}: {}", text.escape_ascii());
    let lines = rig.at_client();
    match (*fate, &*lines) {
        (Expected::Whole, [line]) => {
            check_answer(line, answer.id, &shown);
            assert!(line.contains("\"result\""), "{shown}: {line}");
        }
        (Expected::Ends, [line]) => {
            check_answer(line, answer.id, &shown);
            assert!(line.contains("-32603") && line.contains("could not be read"), "{shown}: {line}");
        }
        (Expected::Nameless, []) => {
            rig.from_server(&result(answer.id));
            assert_eq!(rig.at_client(), [result(answer.id)], "{shown}");
        }
        (fate, lines) => panic!("{shown}: {fate:?}: {lines:?}"),
    }
    rig.from_server(&result(OTHER));
    assert_eq!(rig.at_client(), [result(OTHER)], "{shown}: the request beside it");
}

// D43.
#[test]
pub(crate) fn a_spoilt_answer_ends_the_request_that_it_names_and_no_other() {
    let mut ways = std::collections::BTreeSet::new();
    for (dialect, framing) in [(&mcp::REVISION_2025_06_18, Framing::Line), (&lsp::LSP, Framing::Headers)] {
        for (answer, spoilt) in all() {
            let mut rig = asked(dialect, framing, answer.id);
            rig.bytes(rescind_proto::side::Side::Server, &framed(framing, &spoilt.text));
            check_fate(&mut rig, answer, &spoilt);
            ways.insert(spoilt.way);
        }
    }
    assert!(ways.len() >= 20);
}

// D43.
#[test]
pub(crate) fn what_stands_behind_a_message_on_its_line_is_read_and_both_answers_arrive() {
    for between in ["", " ", "\t", "\r", " ok ", "\u{1b}[0m", "\u{feff}", " INFO: ", "{\"level\":1}", "[] ", " - "] {
        for (answer, spoilt) in all() {
            // What is spoilt so is taken for a part of what follows it, or follows nothing.
            let is_open = matches!(spoilt.fate, Expected::Nameless)
                || spoilt.way.contains("wrong bracket")
                || spoilt.way.contains("cut")
                || spoilt.way.contains("too many at its end")
                || spoilt.way.contains("prints")
                || spoilt.way.contains("bare keys")
                || spoilt.way.contains("single quotes");
            let mut rig = asked(&mcp::REVISION_2025_06_18, Framing::Line, answer.id);
            if spoilt.way == "escaped as a whole" {
                // It could be the rest of the first.
                continue;
            }
            let mut line = result(OTHER).into_bytes();
            line.extend_from_slice(between.as_bytes());
            line.extend_from_slice(&spoilt.text);
            rig.bytes(rescind_proto::side::Side::Server, &framed(Framing::Line, &line));
            let shown = format!("{}: {}", spoilt.way, line.escape_ascii());
            let lines = rig.at_client();
            assert_eq!(lines.first(), Some(&result(OTHER)), "{shown}");
            match lines.get(1) {
                Some(second) => check_answer(second, answer.id, &shown),
                None => assert!(is_open, "{shown}"),
            }
            assert!(lines.len() <= 2, "{shown}: {lines:?}");
        }
    }
}

// D43.
#[test]
fn a_spoilt_answer_behind_a_whole_one_without_a_break_is_not_taken_for_it() {
    // What follows could be the rest of the first: a bracket was written twice.
    for rest in [r#","x":1}"#, "}", "]}", r#""}}"#, r#":{"id":2,"result":{}}"#] {
        let mut rig = asked(&mcp::REVISION_2025_06_18, Framing::Line, "1");
        rig.from_server(&format!("{}{rest}", result("1")));
        let lines = rig.at_client();
        assert!(lines.len() == 1 && lines[0].contains("-32603"), "{rest}: {lines:?}");
        check_answer(&lines[0], "1", rest);
        rig.from_server(&result(OTHER));
        assert_eq!(rig.at_client(), [result(OTHER)], "{rest}");
    }
}

// D43: as many as a person could have glued.
#[test]
fn messages_without_number_on_one_line_are_one_that_cannot_be_read() {
    let mut rig = asked(&mcp::REVISION_2025_06_18, Framing::Line, "1");
    rig.from_server(&result("1").repeat(100_000));
    let lines = rig.at_client();
    assert!(lines.len() == 1 && lines[0].contains("-32603"), "{lines:?}");
    let mut rig = asked(&mcp::REVISION_2025_06_18, Framing::Line, "1");
    rig.from_server(&[result("1"), result(OTHER)].concat());
    assert_eq!(rig.at_client(), [result("1"), result(OTHER)]);
}

// D43.
#[test]
fn a_request_whose_envelope_is_spoilt_is_answered_under_its_id() {
    for spoilt in [
        "{'jsonrpc': '2.0', 'id': 9, 'method': 'tools/call', 'params': {'id': 1}}",
        "{jsonrpc: '2.0', id: 9, method: 'tools/call'}",
        r#"{"jsonrpc":"2.0" "id":9 "method":"tools/call"}"#,
    ] {
        let mut rig = asked(&mcp::REVISION_2025_06_18, Framing::Line, "1");
        rig.from_client(spoilt);
        let answer = r#"{"jsonrpc":"2.0","id":9,"error":{"code":-32700,"message":"not JSON"}}"#;
        assert_eq!((rig.at_client(), rig.at_server()), (vec![answer.to_owned()], vec![]), "{spoilt}");
        // A server that prints what it was asked has asked nothing.
        rig.from_server(spoilt);
        assert_eq!((rig.at_client(), rig.at_server()), (vec![], vec![]), "{spoilt}");
    }
}

// D43: the same for a connection of the library.
#[test]
fn a_spoilt_answer_ends_the_call_that_it_names_and_no_other() {
    for (answer, spoilt) in Answer::all("1").flat_map(|answer| answer.spoilt().into_iter().map(move |it| (answer, it)))
    {
        let shown = format!("{}: {}", spoilt.way, spoilt.text.escape_ascii());
        let mut rig = endpoint_rig::client(&mcp::REVISION_2025_06_18);
        let (first, second) = (rig.call("work"), rig.call("work"));
        rig.conn.handle_input(rig.now, &framed(Framing::Line, &spoilt.text));
        let settled = rig.settled();
        match (spoilt.fate, &*settled) {
            (Expected::Whole, [(key, Settlement::Result(_))]) => assert_eq!(*key, first, "{shown}"),
            (Expected::Ends, [(key, Settlement::Unreadable(Rejected::NotJson | Rejected::Invalid(_)))]) => {
                assert_eq!(*key, first, "{shown}");
            }
            (Expected::Ends, [(key, Settlement::PeerError(_))]) if spoilt.way.starts_with("an error") => {
                assert_eq!(*key, first, "{shown}");
            }
            (Expected::Nameless, []) => rig.hear(&[&result(answer.id)]),
            (fate, settled) => panic!("{shown}: {fate:?}: {settled:?}"),
        }
        rig.settled();
        assert_eq!(rig.say(), [""; 0], "{shown}: a client has nothing to say to that");
        rig.hear(&[&result(OTHER)]);
        assert_eq!(rig.settled().iter().map(|(key, _)| *key).collect::<Vec<_>>(), [second], "{shown}");
        rig.leaves_nothing();
    }
}
