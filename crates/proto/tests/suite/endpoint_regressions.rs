//! What the explorer and the walks have found in an endpoint, each as the shortest way to it.

use rescind_proto::{connection::Reply, dialect::mcp, link::Verdict};

use crate::endpoint_rig::{OK, client, mcp_cancel, server};

#[test]
fn a_second_cancel_of_an_answer_taken_back_fires_no_token() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    let key = rig.serve("1", "tools/call");
    assert!(rig.conn.respond(rig.now, key, Reply::Result(b"{}")));
    rig.hear(&[&mcp_cancel("1"), &mcp_cancel("1")]);
    assert_eq!(rig.fired(), [], "its handler had answered: neither cancel is about the work");
    assert_eq!(rig.verdicts(), [Verdict::Completed, Verdict::Repeated]);
    assert_eq!(rig.say(), [""; 0]);
}

#[test]
fn a_request_that_ended_while_a_question_was_open_gets_no_timer_after_it() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    let question = rig.call("elicitation/create");
    rig.hear(&[r#"{"jsonrpc":"2.0","id":1,"method":"work","params":{"_meta":{"dev.rescind/deadlineMs":1000}}}"#]);
    let key = rig.start().remove(0).key;
    rig.end(key, OK);
    rig.cancel(question);
    rig.leaves_nothing();
}

#[test]
fn a_client_of_the_newest_revision_sends_its_cancels() {
    let mut rig = client(&mcp::LATEST);
    let key = rig.call("tools/call");
    assert!(rig.cancel(key));
    assert_eq!(rig.say().len(), 1);
}
