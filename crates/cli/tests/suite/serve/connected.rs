//! Who is connected, as an operator sees it.

use rescind_feed::{Connected, Session};

use super::{LEGACY, ask, open_modern, serve};
use crate::shim::{PROGRAM, admin::Admin, words::result};

/// The socket of the nth server process of a service.
fn admin(service: &rescind_testkit::puppet::Service, number: usize) -> Admin {
    let suffix = if number == 1 { String::new() } else { format!("-{number}") };
    Admin(service.sockets.join(format!("{}{suffix}.sock", service.shim.id)))
}

fn now(admin: &Admin) -> Connected {
    admin.get::<Session>("/v1/session").connected.expect("clients are on HTTP")
}

#[test]
fn an_operator_sees_open_responses_and_what_is_kept_for_who_is_away() {
    let service = serve();
    let mut session = service.open_session(LEGACY);
    let admin = admin(&service, 2);
    assert_eq!(now(&admin), Connected { sessions: 1, ..Connected::default() });
    let mut call = ask(&service, &mut session, "5");
    let mut listening = service.connect();
    listening.get(&session.headers());
    assert_eq!(listening.head().status, 200);
    assert_eq!(call.head().status, 200);
    assert!(call.event().is_some(), "the event that it can come back behind");
    assert_eq!(now(&admin).responses, 2);
    let mut watching = admin.subscribe(None);
    let known = |connected: fn(Connected) -> bool| {
        move |watching: &crate::shim::admin::Subscriber| {
            watching.session.as_ref().and_then(|session| session.connected).is_some_and(connected)
        }
    };
    watching.until(known(|connected| connected.responses == 2 && connected.kept == 0));
    // Nothing is said, and still who watches is told that the client has left.
    drop(call);
    watching.until(known(|connected| connected.responses == 1 && connected.kept == 1));
    session.server.send(&result("5", "{}"));
    watching.until(known(|connected| connected.kept == 1 && connected.kept_bytes > 30));
    let mut ps = std::process::Command::new(PROGRAM);
    ps.args(["ps", "--sessions"]).env("RESCIND_RUNTIME_DIR", &service.sockets);
    let listed = String::from_utf8(ps.output().unwrap().stdout).unwrap();
    assert!(listed.contains("idle, 1 response open, 1 kept"), "{listed}");
    drop(listening);
}

#[test]
fn without_sessions_each_response_is_counted() {
    let service = serve();
    let (_server, call) = open_modern(&service);
    assert_eq!(now(&admin(&service, 1)), Connected { responses: 1, ..Connected::default() });
    drop(call);
}
