//! What the explorer and the walks have found in an endpoint, each as the shortest way to it.

mod endpoint_rig;

use endpoint_rig::{client, mcp_cancel, server};
use rescind_proto::{
    connection::{Reply, Verdict},
    dialect::mcp,
    receipt::Outcome,
};

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
fn a_server_of_the_newest_revision_sends_no_cancel() {
    let mut rig = server(&mcp::LATEST);
    let key = rig.call("sampling/createMessage");
    assert!(rig.cancel(key));
    assert_eq!(rig.say(), [""; 0], "MCP-M01");
    assert_eq!(rig.outcome(key), Some(Outcome::NotSendable));
    let mut rig = client(&mcp::LATEST);
    let key = rig.call("tools/call");
    assert!(rig.cancel(key));
    assert_eq!(rig.say().len(), 1);
}
