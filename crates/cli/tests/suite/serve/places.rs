//! A service whose places for sessions are all taken: which of them makes room, as server processes and clients see it.

use std::{net::SocketAddr, thread};

use rescind_testkit::puppet::{Connection, Service, Session, Transcript};

use super::shared::{id_of, initialize};
use crate::shim::{
    PROGRAM,
    words::{cancelled, request, result},
};

const FLAGS: [&str; 4] = ["--max-sessions", "2", "--resume-within", "100ms"];

/// Opens a session there, and asks again while that is refused.
fn open(service: &Service, address: SocketAddr) -> Session {
    let asking = thread::spawn(move || {
        loop {
            let mut connection = Connection::open(address, &Transcript::default());
            connection.post(&[], &initialize("1"));
            let head = connection.head();
            if head.status == 200 {
                connection.message(&head);
                return head.header("mcp-session-id").unwrap().to_owned();
            }
            assert_eq!((head.status, head.header("retry-after")), (503, Some("1")));
        }
    });
    let mut server = service.accept();
    let asked = server.receive();
    assert!(asked.contains(r#""method":"initialize""#), "{asked}");
    let greeting = r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#;
    server.send(&result(&id_of(&asked), greeting));
    Session { id: asking.join().unwrap(), server }
}

/// Once with a server process for each session, and once with a session for each at a server that is reached over HTTP.
#[test]
fn an_idle_session_makes_room_and_its_server_ends_and_one_with_a_call_in_flight_is_still_stopped_by_its_client() {
    for is_in_front in [false, true] {
        let service = if is_in_front { super::serve() } else { Service::start(PROGRAM, FLAGS) };
        let front = is_in_front.then(|| service.front(PROGRAM, FLAGS));
        let address = front.as_ref().map_or(service.address, |(_, address)| *address);
        let post = |session: &Session, message: &str| {
            let mut connection = service.connect_to(address);
            connection.post(&session.headers(), message);
            connection
        };
        let mut busy = open(&service, address);
        let mut call = post(&busy, &request("2", "tools/call"));
        let known = id_of(&busy.server.receive());
        let mut idle = open(&service, address);
        let mut next = open(&service, address);
        idle.server.expect_end();
        idle.server.exit(0);
        assert_eq!(post(&idle, &request("3", "ping")).head().status, 404);
        let mut ping = post(&next, &request("3", "ping"));
        let asked = next.server.receive();
        next.server.send(&result(&id_of(&asked), "{}"));
        let head = ping.head();
        assert_eq!(ping.message(&head), result("3", "{}"));
        assert_eq!(post(&busy, &cancelled("2")).head().status, 202);
        busy.server.expect(&cancelled(&known));
        assert_eq!(call.head().status, 200);
        call.expect_end();
    }
}
