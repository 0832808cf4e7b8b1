//! Connections under their bounds, on real sockets. They are accepted in the order in which they were opened: so a client
//! that is answered comes after all that were opened before it.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::mpsc::channel,
    thread,
    time::Duration,
};

use rescind_http::server::{Access, HttpServerConfig, Stateless};

use super::{PATIENCE, Rig, answer};
use rescind_http::shell::ListenerConfig;

const HEAD: &str = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

/// Clients that hold a connection and let nobody work on it.
#[derive(Clone, Copy, Debug)]
enum Idler {
    /// It sends nothing.
    Silent,
    /// It sends a half of a head.
    HalfAHead,
    /// It sends a head, and nothing of the body.
    NoBody,
    /// It sends a body, and not the last byte of it.
    HalfABody,
    /// It sends a request, has its answer, and keeps the connection.
    Resting,
}

impl Idler {
    const ALL: [Self; 5] = [Self::Silent, Self::HalfAHead, Self::NoBody, Self::HalfABody, Self::Resting];

    fn open(self, address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let said = match self {
            Self::Silent => String::new(),
            Self::HalfAHead => HEAD[..HEAD.len() / 2].into(),
            Self::NoBody => format!("{HEAD}Content-Length: 100\r\n\r\n"),
            Self::HalfABody => format!("{HEAD}Content-Length: 100\r\n\r\n{}", " ".repeat(99)),
            Self::Resting => format!("{HEAD}Content-Length: 2\r\n\r\n[]"),
        };
        // One that was ended at once for another is as good.
        let _ = stream.write_all(said.as_bytes());
        if let Self::Resting = self {
            let _ = stream.read(&mut [0; 1024]);
        }
        stream
    }
}

/// No clock ends a connection, however slow the machine.
const LONG: Duration = Duration::from_secs(60 * 60);

fn config() -> HttpServerConfig {
    HttpServerConfig { stateless: Stateless::Served, body_patience: LONG, ..HttpServerConfig::default() }
}

fn listening(max_connections: usize) -> Option<ListenerConfig> {
    let default = ListenerConfig::default();
    Some(ListenerConfig { max_connections, head_patience: LONG, idle_patience: LONG, ..default })
}

/// What a server sends until it closes; a reset counts as a close.
fn last_words(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => said.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("the connection is still open: {error}"),
        }
    }
    String::from_utf8(said).unwrap()
}

#[test]
fn a_quiet_client_is_let_in_whatever_others_hold_open() {
    const PLACES: usize = 8;

    for idler in Idler::ALL {
        let rig = Rig::of(&config(), 1, listening(PLACES));
        let mut before = rig.call_modern("before");
        let held: Vec<_> = (0..5 * PLACES).map(|_| idler.open(rig.address)).collect();
        // A call and its Stop, in both eras, while all the others stay as they are.
        drop(rig.call_modern("modern"));
        rig.expect_mark("stopped modern");
        let session = rig.open_session();
        let call = rig.call(&session, "legacy");
        rig.tell(&session, r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
        rig.expect_mark("stopped legacy");
        drop(call);
        // What is in flight is never ended for room.
        rig.finish.cancel();
        rig.expect_mark("finished before");
        assert!(answer(&mut before).contains("before is done"), "{idler:?}");
        // Most have made room, and were told so if they had begun to ask. Which of them waits longest depends on when each
        // was read.
        let (ended, last) = channel();
        for stream in held {
            let ended = ended.clone();
            thread::spawn(move || ended.send(last_words(stream)));
        }
        drop(ended);
        let last: Vec<_> = last.into_iter().take(3 * PLACES).collect();
        assert_eq!(last.len(), 3 * PLACES, "{idler:?}");
        for said in last {
            match idler {
                Idler::Resting => assert_eq!(said, ""),
                Idler::Silent | Idler::HalfAHead | Idler::NoBody | Idler::HalfABody => {
                    assert!(said.is_empty() || said.starts_with("HTTP/1.1 503 "), "{idler:?}: {said}");
                }
            }
        }
    }
}

#[test]
fn one_more_than_there_are_requests_in_flight_is_refused_in_words() {
    let rig = Rig::of(&config(), 1, listening(2));
    let calls = ["first", "second"].map(|name| rig.call_modern(name));
    let mut one_more = rig.connect();
    let head = one_more.head();
    assert_eq!((head.status, head.header("retry-after")), (503, Some("1")));
    assert!(one_more.message(&head).contains("-31004"));
    // A place that is free again is free.
    let [first, _second] = calls;
    drop(first);
    rig.expect_mark("stopped first");
    // The work is stopped before the socket is closed; until then it is refused.
    let is_served = || {
        let mut stream = TcpStream::connect(rig.address).unwrap();
        let _ = write!(stream, "{HEAD}Content-Length: 2\r\n\r\n[]");
        let mut status = [0; 12];
        stream.read_exact(&mut status).is_ok() && status.ends_with(b"400")
    };
    while !is_served() {
        thread::yield_now();
    }
}

#[test]
fn a_connection_on_which_no_request_comes_is_ended() {
    let listening =
        ListenerConfig { head_patience: std::time::Duration::from_millis(100), ..ListenerConfig::default() };
    let rig = Rig::of(&config(), 1, Some(listening));
    // It was answered once, and so may be quiet for longer.
    let mut resting = rig.connect();
    resting.post(&[], "[]");
    let head = resting.head();
    assert_eq!(head.status, 400);
    resting.message(&head);
    let asked = rig.call_modern("asked");
    for idler in [Idler::Silent, Idler::HalfAHead] {
        let said = last_words(idler.open(rig.address));
        assert!(said.starts_with("HTTP/1.1 408 "), "{idler:?}: {said}");
    }
    resting.post(&[], "[]");
    assert_eq!(resting.head().status, 400);
    drop(asked);
    rig.expect_mark("stopped asked");
}

/// A client that writes all of its body before it reads.
#[test]
fn a_refusal_is_seen_by_a_client_that_sends_its_body_first() {
    const LONG: usize = 16 << 20;

    let patience = std::time::Duration::from_millis(100);
    let too_long = HttpServerConfig { max_message: 1000, ..config() };
    let no_token = HttpServerConfig { access: Access::token("secret"), ..config() };
    let slow = HttpServerConfig { body_patience: patience, ..config() };
    for (config, status) in [(too_long, 413), (no_token, 401), (slow, 408)] {
        let rig = Rig::of(&config, 1, Some(ListenerConfig::default()));
        let mut stream = TcpStream::connect(rig.address).unwrap();
        write!(stream, "{HEAD}Content-Length: {LONG}\r\n\r\n").unwrap();
        if status == 408 {
            // The refusal is there before anything is sent.
            stream.peek(&mut [0]).unwrap();
        }
        stream.write_all(&vec![b' '; LONG - 1]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let said = last_words(stream);
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")) && said.ends_with('}'), "{said}");
    }
}

#[test]
fn what_is_sent_after_a_refusal_is_read_for_a_bounded_time() {
    let config = HttpServerConfig { access: Access::token("secret"), ..config() };
    let linger = std::time::Duration::from_millis(50);
    let rig = Rig::of(&config, 1, Some(ListenerConfig { linger, ..ListenerConfig::default() }));
    let mut stream = TcpStream::connect(rig.address).unwrap();
    write!(stream, "{HEAD}Content-Length: 60000000\r\n\r\n").unwrap();
    let begun = std::time::Instant::now();
    while stream.write_all(b" ").is_ok() {
        assert!(begun.elapsed() < PATIENCE, "it is read without end");
        thread::yield_now();
    }
}

#[test]
fn bodies_of_all_endpoints_of_a_pool_share_one_bound() {
    const LONG: usize = 60_000;

    // One client may have half: two of the longest messages find a place, and a third does not.
    let config = HttpServerConfig { max_message: 64 << 10, max_bodies: 256 << 10, ..config() };
    let rig = Rig::of(&config, 3, Some(ListenerConfig::default()));
    let sessions = [(); 3].map(|()| rig.open_session());
    let (sender, answers) = channel();
    let mut bodies = Vec::new();
    for session in sessions.iter().chain(&sessions) {
        let mut stream = TcpStream::connect(rig.address).unwrap();
        let accept = "Accept: application/json, text/event-stream\r\n";
        write!(stream, "{HEAD}{accept}Mcp-Session-Id: {session}\r\nContent-Length: {LONG}\r\n\r\n").unwrap();
        stream.write_all(&vec![b' '; LONG - 1]).unwrap();
        let (reader, sender) = (stream.try_clone().unwrap(), sender.clone());
        bodies.push(stream);
        thread::spawn(move || {
            let mut status = [0; 12];
            let _ = { reader }.read_exact(&mut status);
            let _ = sender.send(String::from_utf8_lossy(&status[9..]).into_owned());
        });
    }
    for _ in 0..4 {
        assert_eq!(answers.recv_timeout(PATIENCE).as_deref(), Ok("503"));
    }
    // The two that have found a place are complete, though they are no message.
    for stream in &mut bodies {
        let _ = stream.write_all(b" ");
    }
    for _ in 0..2 {
        assert_eq!(answers.recv_timeout(PATIENCE).as_deref(), Ok("400"));
    }
}
