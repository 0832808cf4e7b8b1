//! A request and those that serve it (D26).

use rescind_proto::{
    cause::{Cause, CauseCode},
    connection::{CallOptions, HandlerEnd, IncomingKey, OutgoingKey, Settlement},
    dialect::{Dialect, acp, lsp, mcp},
    receipt::Outcome,
};

use crate::endpoint_rig::*;

const DIALECTS: [&Dialect; 3] = [&mcp::LATEST_LEGACY, &acp::V1, &lsp::LSP];

fn child(rig: &mut Rig, parent: IncomingKey, method: &str) -> OutgoingKey {
    rig.ask_with(method, "", &CallOptions { parent: Some(parent), ..CallOptions::default() })
}

fn cancelled_for(root: CauseCode) -> Settlement {
    Settlement::Cancelled(Cause::parent(root))
}

// Case 38.
#[test]
fn the_parents_cancel_goes_on_to_its_children() {
    for dialect in DIALECTS {
        let mut rig = server(dialect);
        let parent = rig.serve("1", "work");
        let key = child(&mut rig, parent, "ask");
        rig.say();
        rig.hear(&[&cancel_in(dialect, "1")]);
        assert_eq!(rig.settled(), [(key, cancelled_for(CauseCode::Caller))], "{dialect}");
        let said = rig.say();
        assert_eq!(said.len(), 1);
        assert!(said[0].contains(dialect.cancel.method), "{}", said[0]);
        rig.end(parent, HandlerEnd::Cancelled);
        rig.leaves_nothing();
    }
}

// Case 39.
#[test]
fn only_that_subtree_is_cancelled() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    let (one, two) = (rig.serve("1", "work"), rig.serve("2", "work"));
    let keys = [child(&mut rig, one, "a"), child(&mut rig, two, "b"), child(&mut rig, one, "c")];
    let alone = rig.ask("d", "");
    rig.say();
    rig.hear(&[&mcp_cancel("1")]);
    let mut settled: Vec<_> = rig.settled().into_iter().map(|(key, _)| key).collect();
    settled.sort();
    assert_eq!(settled, [keys[0], keys[2]]);
    assert_eq!(rig.fired(), [(one, CauseCode::Caller)]);
    rig.hear(&[&result("2"), &result("4")]);
    let settled: Vec<_> = rig.settled().into_iter().map(|(key, _)| key).collect();
    assert_eq!(settled, [keys[1], alone]);
}

#[test]
fn a_child_that_was_not_sent_is_withdrawn() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    let parent = rig.serve("1", "work");
    let key = child(&mut rig, parent, "ask");
    rig.hear(&[&mcp_cancel("1")]);
    assert_eq!(rig.outcome(key), Some(Outcome::NeverSent));
    assert_eq!(rig.say(), [""; 0]);
}

// Case 23.
#[test]
fn a_child_of_a_cancelled_request_is_never_sent() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    let parent = rig.serve("1", "work");
    rig.hear(&[&mcp_cancel("1")]);
    let key = child(&mut rig, parent, "ask");
    assert_eq!(rig.settled(), [(key, cancelled_for(CauseCode::Caller))]);
    assert_eq!(rig.say(), [""; 0]);
    rig.end(parent, HandlerEnd::Cancelled);
    let key = child(&mut rig, parent, "ask");
    assert_eq!(rig.settled(), [(key, Settlement::Cancelled(Cause::new(CauseCode::Parent)))]);
    assert_eq!(rig.say(), [""; 0]);
    rig.leaves_nothing();
}

#[test]
fn children_do_not_outlive_the_handler() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    let parent = rig.serve("1", "work");
    let (first, second) = (child(&mut rig, parent, "a"), child(&mut rig, parent, "b"));
    rig.say();
    rig.hear(&[&result("1")]);
    rig.settled();
    rig.end(parent, OK);
    assert_eq!(rig.settled(), [(second, Settlement::Cancelled(Cause::new(CauseCode::Parent)))]);
    assert_eq!(rig.say().len(), 2, "its cancel and the answer");
    let _ = first;
    rig.leaves_nothing();
}

#[test]
fn children_may_settle_in_any_order() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for answered in 0..=3 {
            let mut rig = server(&acp::V1);
            let parent = rig.serve("1", "work");
            let keys = [child(&mut rig, parent, "a"), child(&mut rig, parent, "b"), child(&mut rig, parent, "c")];
            rig.say();
            for place in &order[..answered] {
                rig.hear(&[&result(&(place + 1).to_string())]);
            }
            rig.settled();
            rig.hear(&[&acp_cancel("1")]);
            let mut cancelled: Vec<_> = rig.settled().into_iter().map(|(key, _)| key).collect();
            cancelled.sort();
            let mut expected: Vec<_> = order[answered..].iter().map(|place| keys[*place]).collect();
            expected.sort();
            assert_eq!(cancelled, expected);
            rig.end(parent, HandlerEnd::Cancelled);
            rig.leaves_nothing();
        }
    }
}

// Case 44.
#[test]
fn the_end_of_the_connection_settles_the_children() {
    let mut rig = server(&mcp::LATEST_LEGACY);
    let parent = rig.serve("1", "work");
    let key = child(&mut rig, parent, "ask");
    rig.say();
    rig.conn.handle_eof(rig.now);
    assert_eq!(rig.settled(), [(key, Settlement::Closed)]);
    assert_eq!(rig.fired(), [(parent, CauseCode::Disconnect)]);
    rig.end(parent, HandlerEnd::Cancelled);
    rig.leaves_nothing();
}

// D28.
#[test]
fn an_operators_stop_is_told_to_the_requester_and_the_children() {
    for (dialect, code) in [(&mcp::LATEST_LEGACY, -31003), (&acp::V1, -32800), (&lsp::LSP, -32803)] {
        let mut rig = server(dialect);
        let parent = rig.serve("1", "work");
        let key = child(&mut rig, parent, "ask");
        rig.say();
        assert!(rig.conn.stop(rig.now, parent, Cause::new(CauseCode::Operator)));
        assert_eq!(rig.fired(), [(parent, CauseCode::Operator)]);
        assert_eq!(rig.settled(), [(key, cancelled_for(CauseCode::Operator))]);
        assert!(!rig.conn.stop(rig.now, parent, Cause::new(CauseCode::Operator)));
        rig.say();
        rig.end(parent, HandlerEnd::Cancelled);
        let said = rig.say();
        assert!(said[0].contains(&format!(r#""code":{code},"#)), "{dialect}: {}", said[0]);
    }
}
