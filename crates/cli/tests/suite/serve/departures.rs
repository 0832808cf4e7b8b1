//! What receipts say of calls to a server over HTTP: a call has left when the server can have it, and not when `run --url` has
//! taken it (D51).

use std::collections::BTreeSet;

use rescind_feed::{Cancel, Outcome};
use rescind_testkit::puppet::{Server, Service, Shim};

use super::{
    remote::{ask, open_with},
    serve,
};
use crate::{
    operator::say,
    shim::{
        PROGRAM,
        admin::{Admin, Subscriber},
        words::{cancelled, request, request_with, result},
    },
};

/// As many responses as are open at once.
const OPEN: usize = 512;

/// Which revision both sides speak is not found out.
const WITHOUT_BRIDGE: [&str; 2] = ["--protocol", "mcp-2025-11-25"];

fn subscribe(service: &Service, shim: &Shim) -> Subscriber {
    Admin(service.sockets.join(format!("{}.sock", shim.id))).subscribe(None)
}

/// The receipt of this request's cancel, once anything is known of it.
pub(crate) fn receipt(session: &mut Subscriber, id: &str) -> Cancel {
    let known = |session: &Subscriber| session.of(id).and_then(|request| request.cancel.clone());
    session.until(|session| known(session).is_some_and(|cancel| cancel.outcome != Outcome::Asked));
    known(session).unwrap()
}

#[test]
fn a_call_that_is_cancelled_before_its_session_is_open_was_never_sent() {
    const GREETING: &str =
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}"#;
    const ANSWER: &str =
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"test","version":"1"}}"#;
    for flags in [&[][..], &WITHOUT_BRIDGE] {
        let service = serve();
        let (shim, mut client) = service.client(PROGRAM, flags.iter().copied());
        client.send(&request_with("0", "initialize", GREETING));
        let mut server = service.accept();
        assert!(server.receive().contains(r#""method":"initialize""#));
        let mut session = subscribe(&service, &shim);
        client.send(&request("1", "tools/call"));
        // It has been passed on.
        session.until(|session| session.of("1").is_some());
        client.send(&cancelled("1"));
        let cancel = receipt(&mut session, "1");
        assert_eq!((cancel.outcome, cancel.written), (Outcome::NeverSent, None));
        let shown = say(&service.sockets, &["ps", "--recent"]).stdout;
        assert!(shown.contains("never sent"), "{shown}");
        // The server got neither.
        server.send(&result("0", ANSWER));
        client.expect(&result("0", ANSWER));
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        server.expect(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        ask(&mut client, &mut server, "2");
    }
}

#[test]
fn a_call_that_is_cancelled_while_it_waits_for_its_turn_was_never_sent() {
    let service = serve();
    let (shim, mut client, mut server) = open_with(&service, &WITHOUT_BRIDGE);
    let mut session = subscribe(&service, &shim);
    let ids = |all: std::ops::Range<usize>| all.map(|id| id.to_string()).collect::<BTreeSet<_>>();
    let got = |server: &mut Server, many: usize| {
        let lines = (0..many).map(|_| server.receive());
        let id = |line: String| serde_json::from_str::<serde_json::Value>(&line).unwrap()["id"].to_string();
        lines.map(id).collect::<BTreeSet<_>>()
    };
    let last = OPEN + 8;
    (1..=last).for_each(|id| client.send(&request(&id.to_string(), "tools/call")));
    assert_eq!(got(&mut server, OPEN), ids(1..OPEN + 1));
    client.send(&cancelled(&last.to_string()));
    let cancel = receipt(&mut session, &last.to_string());
    assert_eq!((cancel.outcome, cancel.written), (Outcome::NeverSent, None));
    // One that did leave, and whose cancel leaves.
    client.send(&cancelled("1"));
    let line = server.receive();
    assert!(line.contains("notifications/cancelled") && line.contains(r#""requestId":1"#), "{line}");
    let cancel = receipt(&mut session, "1");
    assert_eq!(cancel.outcome, Outcome::Sent);
    assert!(cancel.written.is_some());
    // The server gets all the others.
    for id in 2..=9 {
        server.send(&result(&id.to_string(), "{}"));
    }
    assert_eq!(got(&mut server, 7), ids(OPEN + 1..last));
}

#[test]
fn a_cancel_that_the_server_has_got_was_sent() {
    let service = serve();
    let (shim, mut client, mut server) = open_with(&service, &[]);
    let mut session = subscribe(&service, &shim);
    ask(&mut client, &mut server, "1");
    client.send(&cancelled("1"));
    let line = server.receive();
    assert!(line.contains("notifications/cancelled"), "{line}");
    let cancel = receipt(&mut session, "1");
    assert_eq!(cancel.outcome, Outcome::Sent);
    assert!(cancel.written.is_some_and(|written| written >= cancel.asked));
}
