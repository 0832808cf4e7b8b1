//! How a request is answered: whole or as a stream, and what keeps a stream alive.

use crate::rig::*;

#[test]
fn an_answer_that_comes_at_once_is_the_whole_body() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call("1"));
    assert_eq!(rig.at(client.link), [call("1")]);
    rig.answer(client.link, "1", "done");
    let answer = rig.read(key);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.body, Some(result_of("1", "done")));
    assert_eq!(answer.header("mcp-session-id"), None, "only the handshake names the session");
    rig.leaves_nothing();
}
