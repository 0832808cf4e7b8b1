//! Batches, which only 2025-03-26 has (MCP-B01).

use http::Method;

use crate::rig::*;

const BATCHES: &str = "2025-03-26";

#[test]
fn a_batch_with_a_null_id_is_refused_whole() {
    let mut rig = Rig::new();
    let client = rig.session(BATCHES);
    let key = rig.post_to(&client, &format!("[{},{}]", call("1"), call("null")));
    assert_eq!(rig.read(key).status, 400);
    assert_eq!(rig.at(client.link), [""; 0]);
    rig.leaves_nothing();
}

#[test]
fn a_batch_without_requests_needs_no_stream() {
    let mut rig = Rig::new();
    let client = rig.session(BATCHES);
    let headers = [("accept", "application/json"), ("mcp-session-id", &*client.id)];
    let key = rig.send(&Method::POST, "/mcp", &headers, &format!("[{}]", note("a")));
    assert_eq!(rig.whole(key, 202), "");
    assert_eq!(rig.at(client.link), [note("a")]);
    let key = rig.send(&Method::POST, "/mcp", &headers, &format!("[{}]", call("1")));
    assert_eq!(rig.read(key).status, 406);
    rig.leaves_nothing();
}
