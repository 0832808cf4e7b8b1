//! The admin socket of a shim, asked by a test in plain bytes.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use rescind_feed::{Event, Request, Session};
use rescind_testkit::puppet::Rig;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Only a failing test ever waits this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// One shim's socket.
#[derive(Clone, Debug)]
pub(crate) struct Admin(pub(crate) PathBuf);

/// An answer: its status and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Admin {
    /// The socket of a rig through which something has passed: then it is there.
    pub(crate) fn of(rig: &Rig) -> Self {
        Self(rig.sockets.join(format!("{}.sock", rig.shim.id)))
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.0).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends these bytes, and reads what comes until the other side closes.
    pub(crate) fn say(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        // Whoever refuses need not read everything.
        let _ = stream.write_all(bytes);
        answer(stream)
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: shim\r\nconnection: close\r\n");
        self.say(format!("{head}content-length: {length}\r\n\r\n{body}").as_bytes())
    }

    /// What a path holds.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> T {
        self.ask("GET", path, "").read()
    }

    /// The requests that a query finds.
    pub(crate) fn requests(&self, query: &str) -> Vec<Request> {
        self.get::<rescind_feed::Listing>(&format!("/v1/requests?{query}")).requests
    }

    pub(crate) fn cancel(&self, order: &Value) -> rescind_feed::CancelReply {
        self.ask("POST", "/v1/cancel", &order.to_string()).read()
    }

    /// Subscribes, from after the event of this number if there is one.
    pub(crate) fn subscribe(&self, since: Option<u64>) -> Subscriber {
        let query = since.map(|since| format!("?since={since}")).unwrap_or_default();
        let mut stream = self.connect();
        write!(stream, "GET /v1/events{query} HTTP/1.1\r\nhost: shim\r\n\r\n").unwrap();
        let mut reader = BufReader::new(stream);
        let head = head(&mut reader);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        Subscriber { reader, unread: String::new(), session: None, requests: BTreeMap::new(), last: since, brief: 0 }
    }

    /// Orders, and follows what comes of it: the reply, and a subscriber after it.
    pub(crate) fn order_and_follow<T: DeserializeOwned>(&self, path: &str, order: &Value) -> (T, Subscriber) {
        let (mut stream, body) = (self.connect(), order.to_string());
        let head = format!("POST {path} HTTP/1.1\r\nhost: shim\r\naccept: text/event-stream\r\n");
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut reader = BufReader::new(stream);
        let head = self::head(&mut reader);
        assert!(head.contains("content-type: text/event-stream\r\n"), "{head}");
        let (unread, requests) = (String::new(), BTreeMap::new());
        let mut subscriber = Subscriber { reader, unread, session: None, requests, last: None, brief: 0 };
        let ordered = subscriber.chunk().unwrap();
        let reply = ordered.strip_prefix("event: ordered\ndata: ").expect("the reply comes first");
        (serde_json::from_str(reply).unwrap(), subscriber)
    }
}

impl Answer {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> T {
        assert_eq!(self.status, 200, "{}", self.body);
        serde_json::from_str(&self.body).unwrap()
    }

    /// It is refused with this status, and the words say why.
    pub(crate) fn expect_problem(&self, status: u16) {
        assert_eq!(self.status, status, "{}", self.body);
        let problem: rescind_feed::Problem = serde_json::from_str(&self.body).unwrap();
        assert!(!problem.error.is_empty());
    }
}

/// The answer on a connection that is closed after it.
pub(crate) fn answer(stream: UnixStream) -> Answer {
    let mut reader = BufReader::new(stream);
    let head = head(&mut reader);
    let mut body = Vec::new();
    // What was sent and not read makes an error of the end.
    let _ = reader.read_to_end(&mut body);
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, body: String::from_utf8(body).unwrap() }
}

fn head(reader: &mut impl BufRead) -> String {
    let mut head = String::new();
    while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
    head
}

/// Somebody who keeps up with a session by its events.
#[derive(Debug)]
pub(crate) struct Subscriber {
    reader: BufReader<UnixStream>,
    unread: String,
    pub(crate) session: Option<Session>,
    /// What is known of each request, by its key.
    pub(crate) requests: BTreeMap<String, Request>,
    /// The number of the last event.
    pub(crate) last: Option<u64>,
    /// Requests that were only counted.
    pub(crate) brief: u64,
}

impl Subscriber {
    /// The next event; `None` at the end of the stream.
    pub(crate) fn event(&mut self) -> Option<Event> {
        loop {
            if let Some((text, rest)) = self.unread.split_once("\n\n") {
                let (text, rest) = (text.to_owned(), rest.to_owned());
                self.unread = rest;
                if text != ":" {
                    return Some(self.take_in(&text));
                }
                continue;
            }
            let chunk = self.chunk().unwrap();
            if chunk.is_empty() {
                return None;
            }
            self.unread += &chunk;
        }
    }

    /// Reads events until what is known of the session is what it should be.
    pub(crate) fn until(&mut self, known: impl Fn(&Self) -> bool) {
        while !known(self) {
            let event = self.event();
            assert!(event.is_some(), "the stream ended; known: {:#?}", self.requests);
        }
    }

    /// What is known of the request with this id.
    pub(crate) fn of(&self, id: &str) -> Option<&Request> {
        self.requests.values().find(|request| request.id == id)
    }

    fn take_in(&mut self, text: &str) -> Event {
        let mut lines = text.lines();
        let mut line = |name: &str| lines.next().unwrap().strip_prefix(name).unwrap().to_owned();
        let (kind, number, data) = (line("event: "), line("id: "), line("data: "));
        let number: u64 = number.parse().unwrap();
        let event: Event = serde_json::from_str(&data).unwrap();
        let (named, seq) = match &event {
            Event::Snapshot(snapshot) => {
                self.session = Some(snapshot.session.clone());
                self.requests =
                    snapshot.requests.iter().map(|request| (request.key.clone(), request.clone())).collect();
                ("snapshot", snapshot.seq)
            }
            Event::Changes(changes) => {
                assert_eq!(Some(changes.seq), self.last.map(|last| last + 1), "no gap and no repetition");
                self.session = changes.session.clone().or_else(|| self.session.take());
                self.requests.extend(changes.requests.iter().map(|request| (request.key.clone(), request.clone())));
                self.brief += changes.brief;
                ("changes", changes.seq)
            }
            Event::Ended(ended) => ("ended", ended.seq),
            other => panic!("{other:?}"),
        };
        assert_eq!((kind.as_str(), number), (named, seq));
        self.last = Some(number);
        event
    }

    fn chunk(&mut self) -> io::Result<String> {
        let mut size = String::new();
        self.reader.read_line(&mut size)?;
        let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
        let mut chunk = vec![0; size + 2];
        self.reader.read_exact(&mut chunk)?;
        chunk.truncate(size);
        String::from_utf8(chunk).map_err(io::Error::other)
    }
}

/// The names of what lies in a directory.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let all = directory.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    // Records lie beside the sockets.
    let mut names: Vec<_> = all.filter(|name| !name.ends_with(".session")).collect();
    names.sort();
    names
}
