//! A server of the other era that answers what cannot be read, twice, or under an id that is not quite the one.

use rescind_proto::bridge::BridgeConfig;

use crate::bridge::{DISCOVERED, GREETING, HELLO, NO_METHOD, OWN, error, modern_before_legacy, plain, request, result};
use crate::bridge::{rig, serving_modern};

const UNREADABLE: &str = r#"{"code":-32603,"message":"the answer could not be read"}"#;

/// An answer that is no JSON and plainly names its request.
fn broken(id: impl std::fmt::Display) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"a"]}}}}"#)
}

#[test]
fn a_second_answer_is_not_that_of_the_clients_request_which_has_that_number() {
    let mut rig = modern_before_legacy();
    rig.from_server(&result(OWN[2], r#"{"content":[]}"#));
    rig.at_client();
    rig.from_client(&request(OWN[2], "tools/call", r#""name":"other""#));
    assert_eq!(rig.at_server(), [plain(OWN[3], "tools/call", r#""name":"other""#)]);
    for again in [result(OWN[2], r#"{"content":[]}"#), error(OWN[2], NO_METHOD), broken(OWN[2]), broken(OWN[1])] {
        rig.from_server(&again);
        assert!(rig.at_client().is_empty(), "{again}");
    }
    rig.from_server(&result(OWN[3], r#"{"content":[]}"#));
    assert_eq!(rig.at_client(), [result(OWN[2], r#"{"resultType":"complete","content":[]}"#)]);
}

#[test]
fn a_number_that_comes_back_as_text_is_that_number() {
    let mut rig = serving_modern();
    rig.from_client(&request(1, "tools/call", r#""name":"x""#));
    rig.at_server();
    let quoted = |own: i64| format!(r#""{own}""#);
    rig.from_server(&error(quoted(OWN[0]), NO_METHOD));
    rig.from_server(&result(quoted(OWN[1]), GREETING));
    rig.at_server();
    rig.from_server(&result(format!("{}.0", OWN[2]), r#"{"content":[]}"#));
    assert_eq!(rig.at_client(), [result(1, r#"{"resultType":"complete","content":[]}"#)]);
}

#[test]
fn a_handshake_that_cannot_be_read_holds_nobody() {
    let mut rig = serving_modern();
    rig.from_client(&request(1, "tools/list", ""));
    rig.at_server();
    rig.from_server(&broken(OWN[0]));
    assert!(rig.at_server()[0].contains(r#""method":"initialize""#), "it is no answer of 2026-07-28");
    rig.from_server(&broken(OWN[1]));
    assert_eq!(rig.at_client(), [error(1, UNREADABLE)]);
    rig.from_client(&request(2, "tools/list", ""));
    assert!(rig.at_server()[0].contains("server/discover"), "who comes next asks again");
}

#[test]
fn the_clients_own_handshake_ends_if_its_answer_cannot_be_read() {
    for (id, answered) in [("0", "0"), (r#""hello""#, r#""hello""#), ("0", r#""0""#)] {
        let mut rig = rig(BridgeConfig::default());
        let hello = HELLO.replace(r#""id":0"#, &format!(r#""id":{id}"#));
        rig.from_client(&hello);
        rig.at_server();
        rig.from_server(&broken(answered));
        let answers = rig.at_client();
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert!(answers[0].contains(&format!(r#""id":{id}"#)) && answers[0].contains("-32603"), "{answers:?}");
        // It may try again, and its server is of the other era after all.
        let hello = HELLO.replace(r#""id":0"#, r#""id":1"#);
        rig.from_client(&hello);
        assert_eq!(rig.at_server(), [hello]);
        rig.from_server(&error(1, NO_METHOD));
        rig.at_server();
        rig.from_server(&result(OWN[0], DISCOVERED));
        assert!(rig.at_client()[0].contains(r#""protocolVersion":"2025-06-18""#));
    }
}

// D43.
#[test]
fn a_spoilt_answer_of_a_server_of_the_other_era_ends_its_request_and_what_is_glued_is_read() {
    let own = OWN[2];
    let plain = result(own, r#"{"content":[]}"#);
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
    for (said, is_whole) in [
        (format!("{{'jsonrpc': '2.0', 'id': {own}, 'result': {{'id': 1}}}}"), false),
        (format!("{{jsonrpc: '2.0', id: {own}, result: [Object]}}"), false),
        (format!(r#"{{"jsonrpc":"2.0","result":{{"a":]}}}},"id":{own}}}"#), false),
        (format!("{plain}}}"), false),
        (format!("\u{feff}{plain}"), true),
        (format!("{note}{plain}"), true),
        (format!("{plain} done"), true),
    ] {
        let mut rig = modern_before_legacy();
        rig.from_server(&said);
        let answers = rig.at_client();
        let answer = answers.iter().filter(|answer| answer.contains(r#""id":1,"#)).collect::<Vec<_>>();
        let [answer] = &*answer else { panic!("{said}: {answers:?}") };
        assert_eq!(answer.contains("\"result\""), is_whole, "{said}: {answer}");
        assert!(is_whole || answer.contains("-32603"), "{said}: {answer}");
    }
    // What it prints of a request of ours ends nothing.
    let mut rig = modern_before_legacy();
    rig.from_server(&format!("{{'jsonrpc': '2.0', 'id': {own}, 'method': 'tools/call', 'params': {{}}}}"));
    assert_eq!((rig.at_client(), rig.at_server()), (vec![], vec![]));
    rig.from_server(&plain);
    assert_eq!(rig.at_client().len(), 1);
}
