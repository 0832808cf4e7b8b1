//! A network that goes silent without closing anything: no packet comes through any more, in either direction.
//!
//! That takes a network of one's own. So each test here runs itself again in one, with the loopback interface that it
//! then takes down; where this user may not make a network, it is left out.

use std::process::{Command, Stdio};

use rescind_testkit::puppet::Service;

use super::{LEGACY, MODERN, ask, open_modern, remote, serve, tell};
use crate::shim::{
    PROGRAM, error_of,
    words::{request_with, result},
};

/// Set where the test has a network of its own.
const WITHIN: &str = "RESCIND_TEST_WITHIN_A_NETWORK";

/// A user who is root of a network, and of nothing else.
const NETWORK: [&str; 4] = ["--user", "--map-root-user", "--net", "--kill-child"];

/// Runs the test of this name within a network of its own; `false` in there, where the test itself is to go on.
#[expect(clippy::print_stdout, reason = "says that it is left out")]
fn is_begun(name: &str) -> bool {
    if std::env::var_os(WITHIN).is_some() {
        loopback("up");
        return false;
    }
    let can =
        Command::new("unshare").args(NETWORK).args(["ip", "link", "set", "lo", "up"]).stderr(Stdio::null()).status();
    if !can.is_ok_and(|status| status.success()) {
        println!("left out: this user may not make a network, or has no `ip`");
        return true;
    }
    let test = std::env::current_exe().expect("the tests' own program");
    let mut again = Command::new("unshare");
    again.args(NETWORK).arg(test).args(["--exact", name, "--nocapture"]).env(WITHIN, "1").env("RUST_TEST_THREADS", "1");
    let done = again.stdin(Stdio::null()).output().expect("unshare runs");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}\n{}", String::from_utf8_lossy(&done.stderr));
    assert!(said.contains("test result: ok. 1 passed"), "{said}");
    true
}

fn loopback(state: &str) {
    let set = Command::new("ip").args(["link", "set", "lo", state]).status().expect("ip runs");
    assert!(set.success(), "the loopback interface cannot be set {state}");
}

/// D40: the interval of `--keep-alive` is how long the work of a client that vanished goes on.
#[test]
fn a_client_that_the_network_swallowed_has_hung_up() {
    if is_begun("serve::silence::a_client_that_the_network_swallowed_has_hung_up") {
        return;
    }
    let service = Service::start(PROGRAM, ["--keep-alive", "1s"]);
    let mut session = service.open_session(LEGACY);
    let mut legacy = ask(&service, &mut session, "1");
    assert_eq!(legacy.head().status, 200);
    let primer = legacy.event().expect("the event that a client can come back behind");
    let (mut server, mut modern) = open_modern(&service);
    assert_eq!(modern.head().status, 200);
    loopback("down");
    // 2026-07-28: the work is told to stop.
    let cancel = server.receive();
    assert!(cancel.contains("notifications/cancelled") && cancel.contains(r#""requestId":2"#), "{cancel}");
    // Before: it goes on to its end, and the client that comes back has the answer.
    session.server.send(&result("1", r#"{"done":true}"#));
    loopback("up");
    let mut back = service.connect();
    back.get(&[("mcp-session-id", &*session.id), ("last-event-id", &*primer.id)]);
    assert_eq!(back.head().status, 200);
    assert_eq!(back.event().map(|event| event.data), Some(result("1", r#"{"done":true}"#)));
    // What its server hears next is what its client says next.
    tell(&service, &session, r#"{"jsonrpc":"2.0","method":"marker"}"#);
    session.server.expect(r#"{"jsonrpc":"2.0","method":"marker"}"#);
    drop((legacy, modern));
}

/// Whatever was in flight there is answered, and its client does not wait for ever.
#[test]
fn a_server_that_the_network_swallowed_is_given_up() {
    if is_begun("serve::silence::a_server_that_the_network_swallowed_is_given_up") {
        return;
    }
    let service = serve();
    let flags = ["--keep-alive", "1s"];
    let (_shim, mut modern) = service.client(PROGRAM, flags);
    modern.send(&request_with("1", "tools/list", MODERN));
    let mut asked = service.take_asked();
    asked.send(&result("1", r#"{"supportedVersions":["2026-07-28"]}"#));
    asked.expect(&request_with("2", "tools/list", MODERN));
    let (_other, mut legacy, mut server) = remote::open_with(&service, &flags);
    remote::ask(&mut legacy, &mut server, "1");
    loopback("down");
    for client in [&mut modern, &mut legacy] {
        assert_eq!(error_of(&client.receive(), "1")["code"], -31002);
    }
}
