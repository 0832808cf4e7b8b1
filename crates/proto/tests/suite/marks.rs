//! A byte order mark wherever a program may write one: before a message, before its header, alone, at the end (D43).

use rescind_proto::{
    connection::Settlement,
    dialect::mcp,
    framing::{Chunk, Decoder, Framing, Leftover, Overlong},
    id::RequestId,
    kind::MessageKind,
    relay::{End, RelayConfig},
    side::Side,
};
use rescind_testkit::relay_rig::RelayRig;

use crate::endpoint_rig;

const MARK: &str = "\u{feff}";
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

fn block(body: &str) -> String {
    format!("Content-Length: {}\r\n\r\n{body}", body.len())
}

/// The bodies and faults that a decoder finds, its input cut into pieces of this length.
fn found(framing: Option<Framing>, stream: &str, piece: usize) -> (Option<Framing>, Vec<String>, Option<Leftover>) {
    let mut decoder = Decoder::new(framing, 1000);
    let mut found = Vec::new();
    for mut input in stream.as_bytes().chunks(piece) {
        while let Some(chunk) = decoder.decode(&mut input) {
            found.push(match chunk {
                Chunk::Frame(framed) => String::from_utf8_lossy(framed.raw()).into_owned(),
                other @ (Chunk::Overlong(_) | Chunk::Broken(_)) => format!("{other:?}"),
            });
        }
    }
    (decoder.framing(), found, decoder.finish())
}

#[test]
fn a_mark_before_a_header_is_skipped_however_the_stream_is_cut() {
    for mark in [MARK.to_owned(), format!("\r\n{MARK}"), format!("{MARK}\r\n{MARK}"), format!("{MARK}{MARK}")] {
        let stream = format!("{mark}{}{MARK}{}{}", block(CALL), block(RESULT), block(CALL));
        for piece in 1..=stream.len() {
            let all = vec![block(CALL), block(RESULT), block(CALL)];
            assert_eq!(found(Some(Framing::Headers), &stream, piece), (Some(Framing::Headers), all, None), "{piece}");
        }
    }
}

#[test]
fn a_mark_before_the_first_header_does_not_hide_the_framing() {
    for before in [MARK, "\u{feff}", " \u{feff}", "\r\n\u{feff}"] {
        for header in ["Content-Length", "content-length", "Content-Type: x\r\nContent-Length"] {
            let stream = format!("{before}{header}: {}\r\n\r\n{CALL}", CALL.len());
            let expected = stream[stream.find(['C', 'c']).unwrap()..].to_owned();
            for piece in 1..=stream.len() {
                let all = (Some(Framing::Headers), vec![expected.clone()], None);
                assert_eq!(found(None, &stream, piece), all, "{before:?} {header} {piece}");
            }
        }
        let line = format!("{before}{CALL}\n");
        for piece in 1..=line.len() {
            let (framing, all, left) = found(None, &line, piece);
            assert_eq!((framing, all.len(), left), (Some(Framing::Line), 1, None), "{piece}");
        }
    }
}

#[test]
fn a_mark_alone_is_no_message() {
    for line in [MARK.to_owned(), format!(" {MARK}"), format!("{MARK}\r"), format!("{MARK} \t\r")] {
        for framing in [None, Some(Framing::Line)] {
            let (_, all, left) = found(framing, &format!("{line}\n{CALL}\n{line}\n{line}"), 1000);
            assert_eq!((all, left), (vec![format!("{CALL}\n")], None), "{}", line.escape_unicode());
        }
    }
    assert_eq!(found(None, MARK, 1), (None, vec![], None));
    assert_eq!(found(Some(Framing::Headers), &format!("{}{MARK}", block(CALL)), 7).2, None);
    let mut rig = RelayRig::new(RelayConfig::default());
    rig.bytes(Side::Client, format!("{MARK}\n").as_bytes());
    rig.bytes(Side::Server, format!("{MARK}\n").as_bytes());
    assert_eq!((rig.at_client(), rig.at_server(), rig.events.len()), (vec![], vec![], 0), "nobody is told of it");
}

#[test]
fn marks_in_content_length_framing_reach_neither_side() {
    for framing in [None, Some(Framing::Headers)] {
        let mut rig = RelayRig::new(RelayConfig { framing: Some(Framing::Headers), ..RelayConfig::default() });
        if framing.is_none() {
            rig.relay = rescind_proto::relay::Relay::new(RelayConfig::default());
        }
        rig.bytes(Side::Client, format!("{MARK}{}", block(CALL)).as_bytes());
        assert_eq!(rig.at_server(), [CALL]);
        rig.bytes(Side::Server, format!("{MARK}{}", block(&format!("{MARK}{RESULT}"))).as_bytes());
        assert_eq!(rig.at_client(), [RESULT]);
        let call = CALL.replace("\"id\":1", "\"id\":2");
        rig.bytes(Side::Client, block(&format!("{MARK} {call}")).as_bytes());
        assert_eq!((rig.at_server(), rig.at_client()), (vec![call], vec![]));
    }
}

#[test]
fn a_marked_first_message_decides_what_is_spoken() {
    // Without a `protocolVersion` it is no MCP (D57), with one it is.
    for (params, passes) in [("{}", true), (r#"{"protocolVersion":"2025-06-18"}"#, false)] {
        let hello = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#);
        let mut rig = RelayRig::new(RelayConfig::default());
        rig.from_client(&format!("{MARK}{hello}"));
        assert_eq!(rig.at_server(), [hello]);
        rig.from_client("what is no JSON");
        assert_eq!(rig.at_server().len(), usize::from(passes), "{params}");
    }
}

#[test]
fn a_marked_last_line_without_a_break_is_a_message() {
    for before in [MARK, " \u{feff}", "Loading… ", "\u{feff}\u{1b}[0m"] {
        let mut rig = RelayRig::new(RelayConfig { framing: Some(Framing::Line), ..RelayConfig::default() });
        rig.bytes(Side::Client, format!("{before}{CALL}").as_bytes());
        rig.end(Side::Client, &End::Closed);
        assert_eq!((rig.at_server(), rig.at_client()), (vec![CALL.to_owned()], vec![]), "{before:?}");
        rig.bytes(Side::Server, format!("{before}{RESULT}").as_bytes());
        rig.end(Side::Server, &End::Exited(0));
        assert_eq!(rig.at_client(), [RESULT], "{before:?}");
        // The same for a connection of the library.
        let mut rig = endpoint_rig::client(&mcp::REVISION_2025_06_18);
        let key = rig.call("work");
        rig.conn.handle_input(rig.now, format!("{before}{RESULT}").as_bytes());
        rig.conn.handle_eof(rig.now);
        assert!(matches!(&*rig.settled(), [(settled, Settlement::Result(_))] if *settled == key), "{before:?}");
    }
}

#[test]
fn a_connection_reads_marked_messages_in_either_framing() {
    for framing in [Framing::Line, Framing::Headers] {
        let mut config = endpoint_rig::config(Side::Client, &mcp::REVISION_2025_06_18);
        config.framing = framing;
        let mut rig = endpoint_rig::Rig::new(config);
        let key = rig.call("work");
        let mut bytes = MARK.as_bytes().to_vec();
        framing.write(&mut bytes, RESULT.as_bytes());
        rig.conn.handle_input(rig.now, &bytes);
        assert!(matches!(&*rig.settled(), [(settled, Settlement::Result(_))] if *settled == key), "{framing:?}");
        assert!(rig.refusals().is_empty());
    }
}

fn overlong(body: &str, piece: usize) -> Overlong {
    let mut decoder = Decoder::new(Some(Framing::Line), 0);
    let stream = format!("{body}\n");
    for mut input in stream.as_bytes().chunks(piece) {
        if let Some(chunk) = decoder.decode(&mut input) {
            let Chunk::Overlong(overlong) = chunk else { panic!("{body}: {chunk:?}") };
            return overlong;
        }
    }
    panic!("{body}: no message")
}

#[test]
fn the_id_of_an_overlong_message_is_learnt_behind_a_mark_and_behind_noise() {
    let noises = [
        "",
        MARK,
        " \u{feff} ",
        "Loading… ",
        "\u{1b}[32mready\u{1b}[0m ",
        "[INFO] ",
        "[2026-11-27T10:00:00Z] ",
        "data: ",
        "{\"level\":\"info\",\"msg\":\"up\"} ",
        "{} ",
        "} ",
        "[] ",
        "null ",
        "a { b } c ",
        "\"quoted\" ",
        "50%|█████     | ",
    ];
    for noise in noises {
        for piece in [1, 2, 3, 7, 1000] {
            for space in ["", " "] {
                let body = format!(r#"{noise}{{{space}"jsonrpc":"2.0","id":7,"result":{{"id":8}}}}"#);
                let Overlong { id, kind, len, .. } = overlong(&body, piece);
                assert_eq!((id, kind), (Some(RequestId::integer(7)), MessageKind::Response), "{body}");
                assert_eq!(len, body.len() as u64);
            }
        }
    }
}

#[test]
fn of_an_overlong_object_or_batch_that_is_no_message_nothing_inside_is_learnt() {
    for body in [
        r#"{"x":{"jsonrpc":"2.0","id":7,"result":{}}}"#,
        r#"[{"jsonrpc":"2.0","id":7,"result":{}}]"#,
        r#"{"x":NaN,"y":{"jsonrpc":"2.0","id":7,"result":{}}"#,
        r#"note {"x":{"id7":1}}"#,
    ] {
        for piece in [1, 5, 1000] {
            assert_eq!(overlong(body, piece).id, None, "{body}");
        }
    }
}

#[test]
fn an_overlong_answer_behind_a_mark_or_noise_ends_its_request() {
    for noise in [MARK, "Loading… ", "\u{1b}[0m", "[INFO] "] {
        let mut rig = RelayRig::new(RelayConfig { max_message: 100, ..RelayConfig::default() });
        rig.from_client(CALL);
        rig.at_server();
        let answer = format!(r#"{noise}{{"jsonrpc":"2.0","result":{{"x":"{}"}},"id":1}}"#, "y".repeat(200));
        rig.from_server(&answer);
        let lines = rig.at_client();
        assert!(lines.len() == 1 && lines[0].contains("\"id\":1") && lines[0].contains("-31005"), "{noise}: {lines:?}");
    }
}
