//! What filters keep back leaves nobody waiting.

use rescind_proto::{
    connection::Settlement,
    dialect::{CancelResult, acp, mcp},
    framing::Overlong,
    id::RequestId,
    kind::MessageKind,
    link::Rejected,
    receipt::Outcome,
    side::Side,
};

use crate::endpoint_rig::*;

/// Takes every frame, and lets those pass that `passes` lets.
fn filter(rig: &mut Rig, passes: impl Fn(&str) -> bool) -> Vec<String> {
    let mut passed = Vec::new();
    while let Some((frame, detached)) = rig.conn.detach_frame() {
        let frame = String::from_utf8(frame).expect("frames are text");
        let passes = passes(&frame);
        rig.conn.handle_detached(rig.now, detached, passes);
        rig.check();
        if passes {
            passed.push(frame);
        }
    }
    passed
}

#[test]
fn a_vetoed_request_of_the_peer_is_answered_and_a_vetoed_answer_fails_its_call() {
    let mut rig = client(&mcp::LATEST_LEGACY);
    let key = rig.call("work");
    rig.conn.handle_vetoed(rig.now, call("7", "roots/list").as_bytes());
    rig.conn.handle_vetoed(rig.now, result("1").as_bytes());
    assert_eq!(rig.settled(), [(key, Settlement::Unreadable(Rejected::Vetoed))]);
    let said = rig.say();
    assert!(matches!(&said[..], [answer] if answer.contains(r#""id":7,"error""#)), "{said:?}");
    rig.leaves_nothing();
}

#[test]
fn a_message_too_long_for_the_drivers_own_decoder_fails_the_request_that_it_names() {
    let overlong = |kind, id| Overlong { id: Some(RequestId::integer(id)), method: None, kind, len: 1 << 30 };
    let mut rig = client(&mcp::LATEST_LEGACY);
    let key = rig.call("work");
    rig.conn.handle_overlong(rig.now, &overlong(MessageKind::Request, 7));
    rig.conn.handle_overlong(rig.now, &overlong(MessageKind::Response, 1));
    assert_eq!(rig.settled(), [(key, Settlement::Unreadable(Rejected::TooLarge))]);
    let said = rig.say();
    assert!(matches!(&said[..], [answer] if answer.contains(r#""id":7,"error""#)), "{said:?}");
    rig.leaves_nothing();
}

// Case 11: the id is free again, although the handler of its cancelled request still runs.
#[test]
fn what_is_not_taken_in_is_answered_under_the_id_of_a_request_cancelled_into_silence() {
    let refused: [fn(&mut Rig); 3] = [
        |rig| rig.conn.handle_vetoed(rig.now, call("1", "work").as_bytes()),
        |rig| rig.hear(&[&call("1", &"x".repeat(200))]),
        |rig| rig.hear(&[r#"{"jsonrpc":"2.0","id":1,"method":"work","method":"other"}"#]),
    ];
    for refuse in refused {
        let mut config = config(Side::Server, &mcp::LATEST);
        config.max_message = 100;
        let mut rig = Rig::new(config);
        let key = rig.serve("1", "work");
        refuse(&mut rig);
        let under_it = |said: &[String]| said.iter().filter(|said| said.contains(r#""id":1,"error""#)).count();
        assert_eq!(under_it(&rig.say()), 0, "an error under the id of a request in flight would end that one");
        rig.hear(&[&mcp_cancel("1")]);
        refuse(&mut rig);
        assert_eq!(under_it(&rig.say()), 1);
        rig.end(key, OK);
        rig.leaves_nothing();
    }
}

#[test]
fn a_vetoed_request_of_ours_fails_and_its_neighbours_pass() {
    let mut rig = client(&mcp::LATEST);
    let doomed = rig.ask("doomed", "");
    let other = rig.ask("other", "");
    let passed = filter(&mut rig, |frame| !frame.contains("doomed"));
    assert_eq!(passed.len(), 1);
    assert_eq!(rig.settled(), [(doomed, Settlement::Unreadable(Rejected::Vetoed))]);
    rig.hear(&[&result("2")]);
    assert_eq!(rig.settled().len(), 1);
    assert_eq!(rig.outcome(other), None);
    rig.leaves_nothing();
}

#[test]
fn a_vetoed_cancel_was_not_sendable() {
    for dialect in [&mcp::LATEST, &acp::V1] {
        let mut rig = client(dialect);
        let key = rig.call("work");
        rig.cancel(key);
        assert_eq!(filter(&mut rig, |_| false), Vec::<String>::new());
        assert_eq!(rig.outcome(key), Some(Outcome::NotSendable), "{dialect}");
        rig.leaves_nothing();
    }
}

#[test]
fn a_detached_answer_whose_link_breaks_leaves_nothing() {
    for written in [false, true] {
        let mut rig = server(&mcp::LATEST);
        let key = rig.serve("1", "work");
        rig.end(key, OK);
        let (_frame, detached) = rig.conn.detach_frame().expect("an answer waits");
        rig.conn.handle_write_closed(rig.now);
        rig.conn.handle_detached(rig.now, detached, written);
        rig.leaves_nothing();
    }
}

#[test]
fn a_detached_frame_cannot_be_withdrawn() {
    let mut rig = client(&mcp::LATEST);
    let key = rig.ask("work", "");
    let (_frame, detached) = rig.conn.detach_frame().expect("a request waits");
    rig.cancel(key);
    rig.conn.handle_detached(rig.now, detached, true);
    let said = rig.say();
    assert!(matches!(&said[..], [cancel] if cancel.contains("notifications/cancelled")), "{said:?}");
    assert_eq!(rig.outcome(key), Some(Outcome::Sent));
    rig.leaves_nothing();
}

#[test]
fn a_method_can_be_given_a_cancellation_result_of_its_own() {
    const STOPPED: CancelResult =
        CancelResult { method: "work", path: &["state"], value: "stopped", json: r#"{"state":"stopped"}"# };
    let mut rig = server(&acp::V1);
    let key = rig.serve("1", "work");
    rig.conn.set_cancel_result(key, &STOPPED);
    rig.hear(&[&acp_cancel("1")]);
    rig.end(key, rescind_proto::connection::HandlerEnd::Cancelled);
    let said = rig.say();
    assert!(said[0].contains(r#""result":{"state":"stopped"}"#), "{said:?}");
    rig.leaves_nothing();
}
