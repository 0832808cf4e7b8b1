//! Sockets that are held open, where descriptors are few. Connections are accepted in the order in which they were opened:
//! so a client that is answered comes after all that were opened before it.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use rescind_testkit::puppet::{Service, Session};

use super::{LEGACY, ask, open_modern, tell};
use crate::shim::{
    PROGRAM,
    words::{cancelled, request, result},
};

/// Far beyond any delay of a busy machine, and less than the patience with a connection on which nothing comes.
const PATIENCE: Duration = Duration::from_secs(20);

const HEAD: &str = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

/// What clients say that hold a connection: nothing, a half of a head, a head without its body, a body without its last
/// byte, and a request whose answer ends nothing.
fn says() -> [String; 5] {
    [
        String::new(),
        HEAD[..40].into(),
        format!("{HEAD}Content-Length: 100\r\n\r\n"),
        format!("{HEAD}Content-Length: 100\r\n\r\n{}", " ".repeat(99)),
        format!("{HEAD}Content-Length: 2\r\n\r\n[]"),
    ]
}

/// So many connections on which clients say these in turn.
fn hold(service: &Service, count: usize, says: &[String]) -> Vec<TcpStream> {
    let open = |said: &String| {
        let mut stream = TcpStream::connect(service.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // One that was ended at once for another is as good.
        let _ = stream.write_all(said.as_bytes());
        if said.ends_with("[]") {
            let read = stream.read(&mut [0; 512]);
            assert!(!read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "it is not answered");
        }
        stream
    };
    says.iter().cycle().take(count).map(open).collect()
}

/// A quiet client's call and its Stop.
fn stop(service: &Service, session: &mut Session, id: &str) {
    let call = ask(service, session, id);
    tell(service, session, &cancelled(id));
    session.server.expect(&cancelled(id));
    drop(call);
}

#[test]
fn a_quiet_clients_stop_gets_through_whatever_sockets_are_held_open() {
    let service = Service::start_with_descriptors(PROGRAM, 128);
    let mut session = service.open_session(LEGACY);
    let (mut server, first) = open_modern(&service);
    let mut before = ask(&service, &mut session, "9");
    // Three times as many as there are descriptors.
    let held = hold(&service, 400, &says());
    stop(&service, &mut session, "1");
    drop(first);
    assert!(server.receive().contains("notifications/cancelled"));
    // What was in flight before all of them still is.
    session.server.send(&result("9", "{}"));
    let head = before.head();
    assert_eq!(before.message(&head), result("9", "{}"));
    drop(held);
    stop(&service, &mut session, "2");
}

/// Of 64 connections, eight take no calls.
#[test]
fn a_stop_gets_through_while_every_connection_for_calls_waits_for_its_answer() {
    let service = Service::start_with_descriptors(PROGRAM, 128);
    let mut session = service.open_session(LEGACY);
    let ids = (1..57).map(|id| id.to_string());
    let calls: Vec<_> = ids.clone().map(|id| ask(&service, &mut session, &id)).collect();
    let (_, head) = service.post(&session.headers(), &request("57", "tools/call"));
    assert_eq!(head.status, 503);
    let mut listening = service.connect();
    listening.get(&session.headers());
    assert_eq!(listening.head().status, 503);
    for id in ids {
        tell(&service, &session, &cancelled(&id));
        session.server.expect(&cancelled(&id));
    }
    drop(calls);
}

/// Two bodies that are more together than one client may have, and not more than all. How much of them the service has
/// read is not known from here: so a body that it refuses is refused before either is whole.
#[test]
fn behind_a_proxy_clients_are_not_told_apart_by_address() {
    const LONG: usize = 34 << 20;

    for (flags, refused) in [(&[][..], true), (&["--behind-proxy"], false)] {
        let service = Service::start(PROGRAM, flags);
        // What is no message at its first byte: a slow build would else read it for a minute.
        let body = vec![b'x'; LONG - 1];
        let (answered, answers) = mpsc::channel();
        // While this grows the service reads: however slow that is, an answer is not late.
        let written = Arc::new(AtomicUsize::new(0));
        let mut streams = [(); 2].map(|()| {
            let mut stream = TcpStream::connect(service.address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            write!(stream, "{HEAD}Content-Length: {LONG}\r\n\r\n").unwrap();
            let (mut reader, answered, known) = (stream.try_clone().unwrap(), answered.clone(), Arc::clone(&written));
            thread::spawn(move || {
                let mut status = [0; 12];
                let mut before = 0;
                while let Err(error) = reader.peek(&mut status) {
                    let now = known.load(Ordering::Relaxed);
                    assert!(error.kind() == ErrorKind::WouldBlock && now > before, "{error}");
                    before = now;
                }
                reader.read_exact(&mut status).unwrap();
                answered.send(String::from_utf8_lossy(&status[9..]).into_owned()).unwrap();
            });
            for piece in body.chunks(64 << 10) {
                stream.write_all(piece).unwrap();
                written.fetch_add(piece.len(), Ordering::Relaxed);
            }
            stream
        });
        if refused {
            assert_eq!(answers.recv().unwrap(), "503");
        }
        for stream in &mut streams {
            // The one that was refused may be gone.
            let _ = stream.write_all(b"x");
        }
        // The sender that none of them has.
        drop(answered);
        let answers: Vec<String> = answers.into_iter().collect();
        assert_eq!(answers, vec!["400"; if refused { 1 } else { 2 }], "{flags:?}");
    }
}

/// The limit is lowered beneath what the service has counted on.
#[cfg(target_os = "linux")]
#[test]
fn without_a_free_descriptor_a_socket_that_is_held_open_makes_room() {
    use std::fs;

    use rustix::process::{Pid, Resource, Rlimit, prlimit};

    let service = Service::start_with_descriptors(PROGRAM, 128);
    let mut session = service.open_session(LEGACY);
    let process = service.shim.id;
    let call = ask(&service, &mut session, "1");
    // Of a kind that stays by itself.
    let [.., resting] = says();
    let held = hold(&service, 20, std::slice::from_ref(&resting));
    tell(&service, &session, r#"{"jsonrpc":"2.0","method":"marker"}"#);
    session.server.expect(r#"{"jsonrpc":"2.0","method":"marker"}"#);
    let open = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let names = open.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let taken: Vec<u64> = names.map(|name| name.parse().unwrap()).collect();
    // None is free beneath it.
    let limit = Rlimit { current: (0..).find(|number| !taken.contains(number)), maximum: Some(128) };
    prlimit(Pid::from_raw(process), Resource::Nofile, limit).unwrap();
    let more = hold(&service, 20, &[resting]);
    tell(&service, &session, &cancelled("1"));
    session.server.expect(&cancelled("1"));
    drop((call, held, more));
    stop(&service, &mut session, "2");
}
