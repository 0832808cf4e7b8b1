//! Who is connected, as an operator sees it.

use rescind_feed::{Connected, Session};

use super::{LEGACY, ask, open_modern, serve};
use crate::shim::{
    PROGRAM,
    admin::{Admin, Subscriber},
    words::result,
};

/// The socket of the nth server process of a service.
fn admin(service: &rescind_testkit::puppet::Service, number: usize) -> Admin {
    let suffix = if number == 1 { String::new() } else { format!("-{number}") };
    Admin(service.sockets.join(format!("{}{suffix}.sock", service.shim.id)))
}

fn now(admin: &Admin) -> Connected {
    admin.get::<Session>("/v1/session").connected.expect("clients are on HTTP")
}

/// What a watcher knows of who is connected is so.
fn known(is_so: impl Fn(Connected) -> bool) -> impl Fn(&Subscriber) -> bool {
    move |watching| watching.session.as_ref().and_then(|session| session.connected).is_some_and(&is_so)
}

#[test]
fn an_operator_sees_open_responses_and_what_is_kept_for_who_is_away() {
    let service = serve();
    let mut session = service.open_session(LEGACY);
    let admin = admin(&service, 2);
    let mut watching = admin.subscribe(None);
    watching.until(known(|connected| connected.sessions == 1 && connected.responses == 0));
    // On a busy machine an answer takes long enough to become a stream, and that is kept.
    let before = now(&admin);
    let mut call = ask(&service, &mut session, "5");
    let mut listening = service.connect();
    listening.get(&session.headers());
    assert_eq!(listening.head().status, 200);
    assert_eq!(call.head().status, 200);
    assert!(call.event().is_some(), "the event that it can come back behind");
    assert_eq!(now(&admin).responses, 2);
    watching.until(known(|connected| connected.responses == 2 && connected.kept == before.kept));
    // Nothing is said, and still who watches is told that the client has left.
    drop(call);
    let kept = before.kept + 1;
    watching.until(known(|connected| connected.responses == 1 && connected.kept == kept));
    session.server.send(&result("5", "{}"));
    watching.until(known(|connected| connected.kept == kept && connected.kept_bytes > before.kept_bytes + 30));
    let mut ps = std::process::Command::new(PROGRAM);
    ps.args(["ps", "--sessions"]).env("RESCIND_RUNTIME_DIR", &service.sockets);
    let listed = String::from_utf8(ps.output().unwrap().stdout).unwrap();
    assert!(listed.contains(&format!("idle, 1 response open, {kept} kept")), "{listed}");
    drop(listening);
}

#[test]
fn without_sessions_each_response_is_counted() {
    let service = serve();
    let (_server, call) = open_modern(&service);
    assert_eq!(now(&admin(&service, 1)), Connected { responses: 1, ..Connected::default() });
    drop(call);
}
