//! Input of every wrong kind: it is refused, and leaves nothing.

use crate::rig::*;

#[test]
fn a_request_with_a_null_id_opens_nothing() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let key = rig.post_to(&client, &call("null"));
    assert_eq!(rig.read(key).status, 400);
    let key = rig.post(&[], r#"{"jsonrpc":"2.0","id":null,"method":"initialize","params":{}}"#);
    assert_eq!(rig.read(key).status, 400);
    let key = rig.post_modern(&modern_call("null"));
    assert_eq!(rig.read(key).status, 400);
    assert_eq!(rig.opened.len(), 1, "only the session");
    assert_eq!(rig.at(client.link), [""; 0]);
    rig.leaves_nothing();
}

#[test]
fn an_id_or_a_token_that_is_too_long_is_refused() {
    let mut rig = Rig::new();
    let client = rig.session(LEGACY);
    let long = format!("\"{}\"", "x".repeat(5000));
    for request in [call(&long), call_with_token("1", &long)] {
        let key = rig.post_to(&client, &request);
        let answer = rig.read(key);
        assert_eq!((answer.status, answer.code()), (400, -32600));
    }
    assert_eq!(rig.at(client.link), [""; 0]);
    rig.leaves_nothing();
}

#[test]
fn a_null_token_is_none() {
    let mut rig = Rig::new();
    let mut request = modern_call("1");
    request["params"]["_meta"]["progressToken"] = serde_json::Value::Null;
    rig.post_modern(&request);
    let link = rig.shared();
    assert_eq!(rig.at(link), [request.to_string()]);
    rig.leaves_nothing();
}
