//! A command uses one connection to each session, whatever it asks and orders there.

use rescind_feed::{Outcome, Request, State};
use rescind_testkit::fake_shim::{FakeShim, asked, request};

use super::Sockets;

/// Two sessions, each with a request whose cancel is confirmed at once.
fn two_sessions() -> (Sockets, [FakeShim; 2]) {
    let sockets = Sockets::new();
    let shims = ["4711", "4712"].map(|name| {
        let shim = sockets.shim(name);
        shim.put([request(1, "tools/call", Some("index"), 0)]);
        shim.on_cancel(confirm);
        shim
    });
    (sockets, shims)
}

fn confirm(request: &mut Request, reason: Option<&str>) {
    let mut cancel = asked(0, reason);
    (cancel.outcome, cancel.after, cancel.confirms, cancel.written) = (Outcome::Confirmed, Some(12), true, Some(0));
    (request.cancel, request.state) = (Some(cancel.in_words(None)), State::Ended);
}

/// The receipt comes later, as an event.
fn confirm_later(shim: &FakeShim) {
    shim.on_cancel(|request, reason| {
        (request.cancel, request.state) = (Some(asked(0, reason)), State::Cancelling);
    });
}

fn connections(shim: &FakeShim) -> usize {
    shim.wait_for(|seen| Some(seen.connections))
}

#[test]
fn a_listing_is_one_connection_to_each_session() {
    let (sockets, shims) = two_sessions();
    assert_eq!(sockets.say(&["ps"]).code, 0);
    assert_eq!(shims.each_ref().map(connections), [1, 1]);
}

#[test]
fn a_cancel_is_one_connection_however_its_receipt_comes() {
    let (sockets, shims) = two_sessions();
    assert_eq!(sockets.say(&["cancel", "4711/1"]).code, 0);
    confirm_later(&shims[1]);
    let answers = || {
        shims[1].wait_for(|seen| (!seen.subscriptions.is_empty()).then_some(()));
        shims[1].change("c1", |request| confirm(request, None));
    };
    let said = std::thread::scope(|scope| {
        scope.spawn(answers);
        sockets.say(&["cancel", "4712/1"])
    });
    assert_eq!(said.stdout.lines().last(), Some("4712/1: confirmed after 12 µs"), "{said:?}");
    assert_eq!(shims.each_ref().map(connections), [1, 1]);
}

#[test]
fn a_cancel_of_many_is_one_connection_to_each_session() {
    let (sockets, shims) = two_sessions();
    assert_eq!(sockets.say(&["cancel", "--all", "--yes"]).code, 0);
    assert_eq!(shims.each_ref().map(connections), [1, 1]);
}

#[test]
fn a_stop_is_one_connection_to_each_session() {
    let (sockets, shims) = two_sessions();
    let said = sockets.say(&["stop"]);
    assert_eq!((said.code, said.stdout.lines().last()), (0, Some("2 stopped")), "{said:?}");
    assert_eq!(shims.each_ref().map(connections), [1, 1]);
}
