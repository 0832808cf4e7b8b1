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

/// A snapshot has no room for them all, and the receipts of the first thousand come before it.
#[test]
fn more_requests_than_a_snapshot_holds_are_all_followed() {
    let sockets = Sockets::new();
    let shim = sockets.shim("4711");
    shim.set_now(1100);
    shim.put((0..1100).map(|id| request(id, "tools/call", None, id)));
    shim.on_cancel(|request, reason| {
        (request.cancel, request.state) = (Some(asked(0, reason)), State::Ended);
    });
    let answers = || {
        shim.wait_for(|seen| (!seen.subscriptions.is_empty()).then_some(()));
        shim.wait_for(|seen| (seen.orders.len() == 2).then_some(()));
        let ended = (0..1100).filter_map(|id| shim.request(&format!("c{id}")));
        let confirmed: Vec<Request> = ended
            .map(|mut request| {
                confirm(&mut request, None);
                request
            })
            .collect();
        // Not told one by one: only who asks learns of the oldest.
        shim.replace(confirmed);
    };
    let said = std::thread::scope(|scope| {
        scope.spawn(answers);
        sockets.say(&["cancel", "--all", "--yes", "--wait", "60s"])
    });
    let confirmed = said.stdout.lines().filter(|line| line.ends_with(": confirmed after 12 µs")).count();
    assert_eq!((said.code, confirmed), (0, 1100), "{}", said.stderr);
    assert!(connections(&shim) <= 2);
}

#[test]
fn a_stop_is_one_connection_to_each_session() {
    let (sockets, shims) = two_sessions();
    let said = sockets.say(&["stop"]);
    assert_eq!((said.code, said.stdout.lines().last()), (0, Some("2 stopped")), "{said:?}");
    assert_eq!(shims.each_ref().map(connections), [1, 1]);
}
