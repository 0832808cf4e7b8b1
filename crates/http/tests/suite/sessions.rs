//! Sessions: how they begin, that they are apart, and how they end.

use crate::rig::*;

#[test]
fn a_session_that_ends_before_the_head_of_an_answer_ends_its_response() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call("1"));
    let delete = rig.delete(&client);
    assert_eq!(rig.whole(delete, 204), "");
    let answer = rig.read(key);
    assert!(answer.is_stream() && answer.has_ended && answer.events.is_empty(), "{answer:?}");
    rig.leaves_nothing();
}

#[test]
fn what_a_program_says_after_the_end_of_its_session_is_heard_by_nobody() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let listening = rig.listen(&client);
    rig.read(listening);
    rig.delete(&client);
    for _ in 0..3 {
        rig.say(client.link, &note("late"));
        rig.answer(client.link, "1", "late");
    }
    assert!(rig.read(listening).has_ended);
    assert_eq!(rig.read(listening).messages(), [""; 0]);
    rig.leaves_nothing();
}

const HANDSHAKE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;

#[test]
fn a_session_whose_client_left_before_it_knew_its_id_ends() {
    for answered in [false, true] {
        let mut rig = Rig::new();
        let key = rig.post(&[], HANDSHAKE);
        let (link, _) = rig.opened[0].clone();
        assert_eq!(rig.at(link), [HANDSHAKE]);
        if answered {
            rig.say(link, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
        }
        rig.hang_up(key);
        assert_eq!(rig.at(link), ["end"]);
        rig.leaves_nothing();
    }
}

#[test]
fn a_handshake_that_fails_opens_no_session() {
    let mut rig = Rig::new();
    let key = rig.post(&[], HANDSHAKE);
    let (link, session) = rig.opened[0].clone();
    rig.say(link, r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no"}}"#);
    let answer = rig.read(key);
    assert_eq!((answer.status, answer.code()), (200, -32602));
    assert_eq!(answer.header("mcp-session-id"), None);
    assert_eq!(rig.at(link), [HANDSHAKE, "end"]);
    let key = rig.post_to(&Client { id: session.unwrap().into(), link }, &call("1"));
    assert_eq!(rig.read(key).status, 404);
    rig.leaves_nothing();
}
