//! What `rescind serve` and `rescind run --url` hold, in memory and descriptors, while peers of every bad kind are at it at
//! once, and how long a quiet client's Stop takes meanwhile, beside how long it takes alone.
//!
//! The peers of `serve`: bodies that lack their end, sockets that say nothing, streams that are not read, batches of one id.
//! Those of `run --url`: a server that asks without end and takes no answer, and one that says more than is read.
//! They run at the lowest priority, as if they had processors of their own.

#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, reason = "what is held, and how long it takes, is what these tests are read for")]

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use rescind_testkit::puppet::{Connection, Server, Service, Session, Shim, Transcript, run_url};
use rustix::process::{Resource, Rlimit, getrlimit, setpriority_process, setrlimit};

use crate::{
    serve::{LEGACY, MIRRORS, MODERN},
    shim::{
        PROGRAM,
        process::peak_memory,
        words::{cancelled, request, request_with, result},
    },
};

/// Resident bytes that either program has at most under all this, at its defaults: docs/http.md.
const MEMORY: usize = 512 << 20;

/// Descriptors that `serve` may have: half of them are connections of clients.
const MAY_HAVE: usize = 1024;

/// Descriptors that either has at most, `run --url` of as many as it likes.
const DESCRIPTORS: usize = 960;

/// Whether the floods go on, and how much each has done.
#[derive(Default)]
struct Flood {
    is_over: AtomicBool,
    done: AtomicU64,
}

impl Flood {
    /// Repeats `step` on a thread of its own until the flood is over.
    fn start(self: &Arc<Self>, mut step: impl FnMut() + Send + 'static) {
        let flood = Arc::clone(self);
        thread::spawn(move || {
            let own = rustix::thread::gettid();
            let _ = setpriority_process(Some(own), 19);
            while !flood.is_over.load(Ordering::Relaxed) {
                step();
                flood.done.fetch_add(1, Ordering::Relaxed);
                // One that is refused at once comes again as soon as a client elsewhere could.
                thread::sleep(Duration::from_millis(1));
            }
        });
    }
}

/// How long each of many Stops took.
#[derive(Default)]
struct Stops(Vec<Duration>);

impl Stops {
    /// The time that 99 of 100 do not exceed.
    fn p99(&mut self) -> Duration {
        self.0.sort_unstable();
        self.0[self.0.len() * 99 / 100]
    }
}

fn seconds() -> u64 {
    env::var("RESCIND_SOAK_SECONDS").map_or(600, |seconds| seconds.parse().expect("a number"))
}

/// As many sockets as the system allows, for this process alone: what it started before keeps its own limit.
fn raise_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

fn descriptors(process: i32) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

/// How long a quiet client rests after each Stop. For 5 s the stream of a call that was cancelled has its connection.
const REST: Duration = Duration::from_millis(20);

/// A Stop under the flood takes at most this many times what it takes beside it, in a process that is not flooded.
const SLOWER: f64 = 5.0;

/// Makes Stops alone for a tenth of the time, and then at two processes in turn, of which `flooded` is under a flood and
/// `calm` is not: so both have the same part of a busy machine. Holds against the bounds how long they take, and what the
/// flooded `process` has. Each Stop must reach its server.
fn judge(
    name: &str,
    process: i32,
    [mut flooded, mut calm]: [impl FnMut() -> Duration; 2],
    begin: impl FnOnce(&Arc<Flood>),
) {
    let seconds = seconds();
    let (mut alone, mut beside, mut under, mut most) = (Stops::default(), Stops::default(), Stops::default(), 0);
    let until = Instant::now() + Duration::from_secs(seconds.div_ceil(10));
    while Instant::now() < until {
        alone.0.push(flooded());
        thread::sleep(REST);
    }
    let flood = Arc::new(Flood::default());
    begin(&flood);
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        under.0.push(flooded());
        beside.0.push(calm());
        thread::sleep(REST);
        let held = descriptors(process);
        most = most.max(held);
        assert!(held <= DESCRIPTORS, "{held} descriptors");
        let peak = peak_memory(process);
        assert!(peak <= MEMORY, "{peak} bytes are resident");
    }
    flood.is_over.store(true, Ordering::Relaxed);
    let (count, steps) = (under.0.len(), flood.done.load(Ordering::Relaxed));
    let (alone, beside, under) = (alone.p99(), beside.p99(), under.p99());
    println!(
        "{name}: p99 of {count} Stops: {under:?} under {steps} steps of the flood, {beside:?} beside it, {alone:?} alone"
    );
    println!("{name}: {} bytes and {most} descriptors at most", peak_memory(process));
    assert!(under <= beside.mul_f64(SLOWER), "the flood makes Stops more than {SLOWER} times slower");
}

/// A quiet client of both eras at `serve`, and its servers.
struct Quiet {
    address: SocketAddr,
    session: Session,
    shared: Server,
    made: u64,
}

impl Quiet {
    fn open(service: &Service) -> Self {
        let mut first = service.connect();
        first.post(&MIRRORS, &request_with("1", "tools/list", MODERN));
        let mut shared = service.take_asked();
        shared.send(&result("1", r#"{"supportedVersions":["2026-07-28"]}"#));
        shared.expect(&request_with("2", "tools/list", MODERN));
        shared.send(&result("2", "{}"));
        first.head();
        Self { address: service.address, session: service.open_session(LEGACY), shared, made: 0 }
    }

    fn connect(&self) -> Connection {
        Connection::open(self.address, &Transcript::default())
    }

    /// How long a Stop takes until the server has it: by a POSTed cancel and by a hang-up, in turn.
    fn stop(&mut self) -> Duration {
        self.made += 1;
        let id = self.made.to_string();
        let mut call = self.connect();
        let begun;
        let cancel = if self.made.is_multiple_of(2) {
            call.post(&self.session.headers(), &request(&id, "tools/call"));
            self.session.server.expect(&request(&id, "tools/call"));
            begun = Instant::now();
            let mut stop = self.connect();
            stop.post(&self.session.headers(), &cancelled(&id));
            self.session.server.receive()
        } else {
            call.post(&MIRRORS, &request_with(&id, "tools/list", MODERN));
            self.shared.receive();
            begun = Instant::now();
            drop(call);
            self.shared.receive()
        };
        let took = begun.elapsed();
        assert!(cancel.contains("notifications/cancelled"), "{cancel}");
        took
    }
}

/// Sends what can be sent, with a second for each piece, and ignores what becomes of it. No faster than a gigabit a second
/// brings it: a flood over loopback would be one of the machine's memory and processors.
fn push(stream: &mut TcpStream, bytes: &[u8]) {
    let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
    for piece in bytes.chunks(64 << 10) {
        if stream.write_all(piece).is_err() {
            return;
        }
        thread::sleep(Duration::from_micros(500));
    }
}

/// Thirty bodies of 60 MiB at a time, each without its last byte.
fn half_bodies(address: SocketAddr) -> impl FnMut() {
    let body = vec![b' '; (60 << 20) - 1];
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n",
        60 << 20
    );
    let mut held = std::collections::VecDeque::new();
    move || {
        if let Ok(mut stream) = TcpStream::connect(address) {
            push(&mut stream, head.as_bytes());
            push(&mut stream, &body);
            held.push_back(stream);
        }
        if held.len() > 30 {
            held.pop_front();
        }
    }
}

/// A thousand sockets that say nothing, or half a head.
fn silent_sockets(address: SocketAddr) -> impl FnMut() {
    let mut held = Vec::new();
    move || {
        held.retain(|stream: &TcpStream| !matches!(stream.peek(&mut [0]), Ok(0) | Err(_)) || is_waiting(stream));
        while held.len() < 1000 {
            let Ok(mut stream) = TcpStream::connect(address) else { break };
            let _ = stream.set_nonblocking(true);
            if held.len().is_multiple_of(2) {
                push(&mut stream, b"POST /mcp HTTP/1.1\r\nhost: local");
            }
            held.push(stream);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn is_waiting(stream: &TcpStream) -> bool {
    stream.peek(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

/// One client's streams, sixty at a time, on which its server reports as fast as it can, and which nobody reads.
fn unread_streams(service: &Service) -> impl FnMut() + use<> {
    let address = service.address;
    let Session { id, mut server } = service.open_session(LEGACY);
    let report = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":TOKEN,"progress":1,"message":"{}"}}}}"#,
        "x".repeat(256 << 10)
    );
    let mut output = server.take_blocking_output();
    let mut held = std::collections::VecDeque::new();
    let mut number = 0_u64;
    move || {
        number += 1;
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"name":"work","_meta":{{"progressToken":{number}}}}}}}"#
        );
        let Ok(mut stream) = TcpStream::connect(address) else { return };
        let headers = [("mcp-session-id", &*id), ("accept", "application/json, text/event-stream")];
        let all = [&headers[..], &[("content-type", "application/json")]].concat();
        push(&mut stream, Connection::request("POST", &all, &call).as_bytes());
        held.push_back(stream);
        if held.len() > 60 {
            held.pop_front();
        }
        for _ in 0..60 {
            let line = report.replace("TOKEN", &number.to_string());
            if writeln!(output, "{line}").is_err() {
                return;
            }
        }
    }
}

/// Batches of 60,000 requests with one id, in 2.4 MB each.
fn batches(service: &Service) -> impl FnMut() + use<> {
    let address = service.address;
    let Session { id, mut server } = service.open_session("2025-03-26");
    thread::spawn(move || {
        // Hardly any of them gets there.
        while server.has_more() {
            server.receive();
        }
    });
    let members = vec![r#"{"jsonrpc":"2.0","id":1,"method":"p"}"#; 60_000].join(",");
    let body = format!("[{members}]");
    move || {
        let Ok(mut stream) = TcpStream::connect(address) else { return };
        let headers = [("mcp-session-id", &*id), ("accept", "application/json, text/event-stream")];
        let all = [&headers[..], &[("content-type", "application/json"), ("connection", "close")]].concat();
        push(&mut stream, Connection::request("POST", &all, &body).as_bytes());
        let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
        let _ = stream.read(&mut [0; 4096]);
    }
}

/// Ten minutes, or as long as `RESCIND_SOAK_SECONDS` says.
///
/// `just floods 600`
#[test]
#[ignore = "takes ten minutes, or as long as it is told"]
fn serve_holds_what_is_documented_and_stops_while_it_is_flooded() {
    let [service, other] = [(); 2].map(|()| Service::start_with_descriptors(PROGRAM, MAY_HAVE));
    let [mut flooded, mut calm] = [&service, &other].map(Quiet::open);
    let slow = unread_streams(&service);
    let batches = batches(&service);
    raise_descriptors();
    judge("serve", service.shim.id, [&mut flooded, &mut calm].map(|quiet| move || quiet.stop()), |flood| {
        flood.start(half_bodies(service.address));
        flood.start(silent_sockets(service.address));
        flood.start(slow);
        flood.start(batches);
    });
}

/// A server on HTTP that opens sessions, says nothing to what its clients answer, and reports each call, each cancel and who
/// listens.
struct Asker {
    address: SocketAddr,
    asks: Arc<AtomicBool>,
    cancels: mpsc::Receiver<String>,
    calls: mpsc::Receiver<String>,
    listens: mpsc::Receiver<()>,
}

impl Asker {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (cancelled, cancels) = mpsc::channel();
        let (called, calls) = mpsc::channel();
        let (listening, listens) = mpsc::channel();
        let asks = Arc::new(AtomicBool::new(false));
        let may_ask = Arc::clone(&asks);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let told = (cancelled.clone(), called.clone(), listening.clone());
                let may_ask = Arc::clone(&may_ask);
                thread::spawn(move || Self::serve(stream, &told, &may_ask));
            }
        });
        Self { address, asks, cancels, calls, listens }
    }

    /// One connection, until it ends.
    fn serve(
        stream: TcpStream,
        (cancelled, called, listening): &(mpsc::Sender<String>, mpsc::Sender<String>, mpsc::Sender<()>),
        may_ask: &AtomicBool,
    ) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut writer = stream;
        let mut answer = |status: &str, headers: &str, body: &str| {
            let length = body.len();
            let _ = write!(writer, "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}");
        };
        while let Some((method, body)) = read_request(&mut reader) {
            if method == "GET" {
                let _ = listening.send(());
                return ask_for_ever(writer, may_ask);
            } else if body.contains(r#""method":"initialize""#) {
                let result = result(
                    "0",
                    concat!(
                        r#"{"protocolVersion":"2025-11-25","capabilities":{},"#,
                        r#""serverInfo":{"name":"asker","version":"1"}}"#
                    ),
                );
                answer("200 OK", "content-type: application/json\r\nmcp-session-id: s\r\n", &result);
            } else if body.contains("notifications/cancelled") {
                answer("202 Accepted", "", "");
                let _ = cancelled.send(body);
            } else if body.contains("notifications/") {
                answer("202 Accepted", "", "");
            } else if body.contains(r#""method":"#) {
                // A call: its stream begins and never ends.
                let _ = writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n:\n\n");
                let _ = called.send(body);
                let _ = reader.read(&mut [0]);
                return;
            }
            // An answer of the client's is taken, and nothing is said to it.
        }
    }
}

/// The method and the body of the next request.
fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let method = line.split(' ').next()?.to_owned();
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        if line.trim_end().is_empty() {
            break;
        }
        let header = line.to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((method, String::from_utf8(body).ok()?))
}

/// A standing stream on which the server asks as fast as it is read, once it may.
fn ask_for_ever(mut stream: TcpStream, may_ask: &AtomicBool) {
    let own = rustix::thread::gettid();
    let _ = setpriority_process(Some(own), 19);
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n");
    while !may_ask.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(10));
    }
    let mut id = 0_u64;
    loop {
        id += 1;
        let event = format!("data: {}\n\n", request_with(&id.to_string(), "ping", "{}"));
        if stream.write_all(event.as_bytes()).is_err() {
            return;
        }
    }
}

/// A client of `run --url` that answers what it is asked.
struct Bridged {
    asker: Asker,
    shim: Shim,
    output: fs::File,
    made: u64,
    _folder: tempfile::TempDir,
}

impl Bridged {
    fn open() -> Self {
        let asker = Asker::start();
        let folder = tempfile::tempdir().unwrap();
        let url = format!("http://{}/mcp", asker.address);
        let (shim, mut client) = run_url(PROGRAM, &url, [] as [&str; 0], folder.path(), &Transcript::default());
        client.send(&request_with(
            "0",
            "initialize",
            concat!(
                r#"{"protocolVersion":"2025-11-25","capabilities":{},"#,
                r#""clientInfo":{"name":"test","version":"1"}}"#
            ),
        ));
        client.receive();
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let output = client.take_blocking_output();
        let mut answers = output.try_clone().unwrap();
        thread::spawn(move || {
            while client.has_more() {
                let asked: serde_json::Value = serde_json::from_str(&client.receive()).unwrap();
                if asked["method"] == "ping" {
                    // It may have ended meanwhile.
                    let _ = writeln!(answers, "{}", result(&asked["id"].to_string(), "{}"));
                }
            }
        });
        Self { asker, shim, output, made: 0, _folder: folder }
    }

    /// How long a Stop takes until the server has it.
    fn stop(&mut self) -> Duration {
        self.made += 1;
        let id = self.made.to_string();
        writeln!(self.output, "{}", request(&id, "tools/call")).unwrap();
        let call = self.asker.calls.recv_timeout(Duration::from_secs(60));
        let flooded = self.asker.asks.load(Ordering::Relaxed);
        call.unwrap_or_else(|_| panic!("call {id} reaches the server, flooded: {flooded}"));
        let begun = Instant::now();
        writeln!(self.output, "{}", cancelled(&id)).unwrap();
        self.asker.cancels.recv_timeout(Duration::from_secs(60)).expect("the cancel reaches the server");
        begun.elapsed()
    }
}

/// Ten minutes, or as long as `RESCIND_SOAK_SECONDS` says.
#[test]
#[ignore = "takes ten minutes, or as long as it is told"]
fn run_url_holds_what_is_documented_and_stops_while_its_server_floods_it() {
    let [mut flooded, mut calm] = [(); 2].map(|()| Bridged::open());
    raise_descriptors();
    let asks = Arc::clone(&flooded.asker.asks);
    judge("run --url", flooded.shim.id, [&mut flooded, &mut calm].map(|bridged| move || bridged.stop()), |_| {
        asks.store(true, Ordering::Relaxed)
    });
}

/// Each session holds a stream of its server's open, and a call that hangs. All of them share the descriptors.
#[test]
fn serve_bounds_connections_to_its_server_over_all_sessions_and_each_cancel_has_one() {
    const SESSIONS: usize = 25;
    // Of 200 descriptors 64 are for the rest; of 136 connections half are to the server, of these 68 one in eight for cancels.
    const TO_SERVER: usize = 60;
    let asker = Asker::start();
    let folder = tempfile::tempdir().unwrap();
    let limited = folder.path().join("limited");
    fs::write(&limited, format!("#!/bin/sh\nulimit -n 200\nexec '{PROGRAM}' \"$@\"\n")).unwrap();
    fs::set_permissions(&limited, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let url = format!("http://{}/mcp", asker.address);
    let service = Service::before(limited.to_str().unwrap(), &url, [] as [&str; 0]);
    let greeting = concat!(
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"#,
        r#""clientInfo":{"name":"test","version":"1"}}"#
    );
    let sessions: Vec<String> = (0..SESSIONS)
        .map(|_| {
            let (_, head) = service.post(&[], &request_with("0", "initialize", greeting));
            let session = head.header("mcp-session-id").expect("a session").to_owned();
            let greeted = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
            assert_eq!(service.post(&[("mcp-session-id", &session)], greeted).1.status, 202);
            session
        })
        .collect();
    for _ in 0..SESSIONS {
        asker.listens.recv_timeout(Duration::from_secs(60)).expect("each session listens");
    }
    let call = |at: usize| {
        let mut call = service.connect();
        let session = [("mcp-session-id", &*sessions[at % SESSIONS])];
        call.post(&session, &request(&at.to_string(), "tools/call"));
        call
    };
    let mut calls = Vec::new();
    for at in 1..=TO_SERVER - SESSIONS {
        calls.push(call(at));
        asker.calls.recv_timeout(Duration::from_secs(60)).expect("each call has a connection");
    }
    let mut refused = call(TO_SERVER);
    let head = refused.head();
    let answer = refused.message(&head);
    assert!(answer.contains("all 60 connections that may be open are in use"), "{answer}");
    assert!(answer.contains(r#""mayHaveRun":false"#), "{answer}");
    for at in 1..=TO_SERVER - SESSIONS {
        let session = [("mcp-session-id", &*sessions[at % SESSIONS])];
        assert_eq!(service.post(&session, &cancelled(&at.to_string())).1.status, 202);
        let cancel = asker.cancels.recv_timeout(Duration::from_secs(60)).expect("each cancel reaches the server");
        assert!(cancel.contains(&format!(r#""requestId":{at}"#)), "{cancel}");
    }
    let held = descriptors(service.shim.id);
    assert!(held < 200, "{held} descriptors");
}
