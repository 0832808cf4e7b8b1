//! What stands between an HTTP client and the service in a test: it passes every byte on, and notes what was said.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use serde_json::{Value, json};

/// A request of HTTP and the head of its response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) verb: String,
    /// It names a session.
    pub(crate) in_session: bool,
    /// The event behind which its client wants to go on.
    pub(crate) last_event: Option<String>,
    /// The message that was sent.
    pub(crate) message: Value,
    /// When it was sent: a place in the order of everything that passed.
    pub(crate) sent_at: usize,
    /// The status of its response, and when it came.
    pub(crate) answer: Option<(u16, usize)>,
    /// The service has ended its response.
    pub(crate) is_answered: bool,
}

/// The wire of one client.
pub(crate) struct Wire {
    address: SocketAddr,
    noted: Arc<Noted>,
}

struct Noted {
    service: SocketAddr,
    marks: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    exchanges: Vec<Exchange>,
    /// What has passed so far.
    moments: usize,
    /// Connections that the service has open.
    open: usize,
    is_over: bool,
}

impl Wire {
    /// A wire to the service at `service`. What its client may wait for is marked in the file `marks`: `wire refused`, once
    /// it was refused to resume a stream.
    pub(crate) fn lay(service: SocketAddr, marks: Option<PathBuf>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let noted = Arc::new(Noted { service, marks, state: Mutex::default() });
        let serving = Arc::clone(&noted);
        thread::spawn(move || {
            for client in listener.incoming() {
                if serving.state().is_over {
                    return;
                }
                join(client.unwrap(), &serving);
            }
        });
        Self { address, noted }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        self.noted.state().exchanges.clone()
    }

    /// Whether every connection has been closed towards the service.
    pub(crate) fn is_closed(&self) -> bool {
        self.noted.state().open == 0
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.noted.state().is_over = true;
        // Its listener sees it with the next connection.
        let _ = TcpStream::connect(self.address);
    }
}

impl Exchange {
    /// The method of its message.
    pub(crate) fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    /// Whether this calls the tool for that work.
    pub(crate) fn calls(&self, work: &str) -> bool {
        self.method() == "tools/call" && self.message["params"]["arguments"]["work"] == work
    }

    pub(crate) fn status(&self) -> Option<u16> {
        self.answer.map(|(status, _)| status)
    }
}

impl Noted {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn note(&self, mut exchange: Exchange) -> usize {
        let mut state = self.state();
        state.moments += 1;
        exchange.sent_at = state.moments;
        state.exchanges.push(exchange);
        state.exchanges.len() - 1
    }

    fn note_answer(&self, exchange: usize, status: u16) {
        let mut state = self.state();
        state.moments += 1;
        let moment = state.moments;
        let exchange = &mut state.exchanges[exchange];
        exchange.answer = Some((status, moment));
        if exchange.last_event.is_some()
            && status == 405
            && let Some(marks) = &self.marks
        {
            let mark = format!("{}\n", json!({ "work": "wire", "event": "refused" }));
            let marks = File::options().append(true).open(marks);
            marks.unwrap().write_all(mark.as_bytes()).unwrap();
        }
    }
}

/// Joins a client's connection to one of the service's. Either end of it is that of both.
fn join(client: TcpStream, noted: &Arc<Noted>) {
    let service = TcpStream::connect(noted.service).unwrap();
    noted.state().open += 1;
    let asked = Arc::new(Mutex::new(VecDeque::new()));
    for stream in [&client, &service] {
        stream.set_nodelay(true).unwrap();
    }
    let (from_client, to_service) = (client.try_clone().unwrap(), service.try_clone().unwrap());
    let (noting, asking) = (Arc::clone(noted), Arc::clone(&asked));
    thread::spawn(move || {
        let mut head = String::new();
        let mut body = Vec::new();
        pass(from_client, to_service, |part| match part {
            Part::Head(text) => head = text.to_owned(),
            Part::Body(bytes) => body.extend_from_slice(bytes),
            Part::End => {
                let exchange = noting.note(request(&head, &std::mem::take(&mut body)));
                asking.lock().unwrap().push_back(exchange);
            }
        });
        noting.state().open -= 1;
    });
    let noting = Arc::clone(noted);
    thread::spawn(move || {
        let mut answered = None;
        pass(service, client, |part| match part {
            Part::Head(head) => {
                answered = asked.lock().unwrap().pop_front();
                let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
                answered.into_iter().for_each(|exchange| noting.note_answer(exchange, status));
            }
            Part::Body(_) => {}
            Part::End => answered.into_iter().for_each(|at| noting.state().exchanges[at].is_answered = true),
        });
    });
}

fn request(head: &str, body: &[u8]) -> Exchange {
    Exchange {
        verb: head.split(' ').next().unwrap_or_default().to_owned(),
        in_session: header(head, "mcp-session-id").is_some(),
        last_event: header(head, "last-event-id").map(str::to_owned),
        message: serde_json::from_slice(body).unwrap_or_default(),
        ..Exchange::default()
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut headers = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// Passes bytes on until one of the two has closed, and hands over what is noted before it has passed.
fn pass(mut from: TcpStream, mut to: TcpStream, mut note: impl FnMut(Part<'_>)) {
    let mut messages = Messages::default();
    let mut bytes = [0; 16 << 10];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        messages.read(&bytes[..length], &mut note);
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

enum Part<'a> {
    Head(&'a str),
    Body(&'a [u8]),
    End,
}

/// One direction of a connection of HTTP/1.1.
#[derive(Default)]
struct Messages {
    unread: Vec<u8>,
    at: At,
}

#[derive(Clone, Copy, Default)]
enum At {
    #[default]
    Head,
    /// This many bytes of a body are left.
    Body(usize),
    ChunkSize,
    /// This many bytes of a chunk are left.
    Chunk(usize),
    /// Before the line break after a chunk.
    ChunkEnd,
    /// Before the line break after the last chunk.
    LastChunk,
}

impl Messages {
    fn read(&mut self, bytes: &[u8], note: &mut impl FnMut(Part<'_>)) {
        self.unread.extend_from_slice(bytes);
        while self.step(note) {}
    }

    /// Reads on; `false` if more bytes are needed.
    fn step(&mut self, note: &mut impl FnMut(Part<'_>)) -> bool {
        match self.at {
            At::Head => {
                let Some(head) = self.take_until(b"\r\n\r\n") else { return false };
                note(Part::Head(&head));
                let length = header(&head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
                let is_chunked = header(&head, "transfer-encoding").is_some();
                self.at = match length {
                    _ if is_chunked => At::ChunkSize,
                    0 => self.end(note),
                    length => At::Body(length),
                };
            }
            At::Body(left) => {
                let taken = self.take_body(left, note);
                match left - taken {
                    0 => self.at = self.end(note),
                    left => self.at = At::Body(left),
                }
                return taken > 0;
            }
            At::ChunkSize => {
                let Some(size) = self.take_until(b"\r\n") else { return false };
                self.at = match usize::from_str_radix(&size, 16).unwrap() {
                    0 => At::LastChunk,
                    size => At::Chunk(size),
                };
            }
            At::Chunk(left) => {
                let taken = self.take_body(left, note);
                match left - taken {
                    0 => self.at = At::ChunkEnd,
                    left => self.at = At::Chunk(left),
                }
                return taken > 0;
            }
            At::ChunkEnd => {
                if self.take_until(b"\r\n").is_none() {
                    return false;
                }
                self.at = At::ChunkSize;
            }
            At::LastChunk => {
                if self.take_until(b"\r\n").is_none() {
                    return false;
                }
                self.at = self.end(note);
            }
        }
        true
    }

    fn end(&self, note: &mut impl FnMut(Part<'_>)) -> At {
        note(Part::End);
        At::Head
    }

    fn take_body(&mut self, left: usize, note: &mut impl FnMut(Part<'_>)) -> usize {
        let taken: Vec<u8> = self.unread.drain(..left.min(self.unread.len())).collect();
        note(Part::Body(&taken));
        taken.len()
    }

    /// What stands before `end`, which is taken, too.
    fn take_until(&mut self, end: &[u8]) -> Option<String> {
        let at = self.unread.windows(end.len()).position(|window| window == end)?;
        let taken: Vec<u8> = self.unread.drain(..at + end.len()).collect();
        Some(String::from_utf8_lossy(&taken[..at]).into_owned())
    }
}
