//! A console, scripted shims, and a client that says exactly what it is told to.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
};

use rescind_console::{AccessKey, Console, ConsoleSettings};
use rescind_operator::Directories;
use rescind_testkit::fake_shim::{FakeShim, session};

/// A console that serves until the test process ends.
pub(crate) struct Rig {
    pub(crate) port: u16,
    pub(crate) key: String,
    pub(crate) token: String,
    sockets: PathBuf,
    /// Where what has ended is kept.
    pub(crate) history: PathBuf,
    _around: tempfile::TempDir,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let around = tempfile::tempdir().unwrap();
        let sockets = around.path().join("sockets");
        let key = AccessKey::random().unwrap();
        let directories = Some(Directories::at(sockets.clone()));
        let history = around.path().join("history");
        let settings = ConsoleSettings {
            port: 0,
            key: key.clone(),
            directories,
            recordings: Vec::new(),
            history: Some(history.clone()),
        };
        let (said, heard) = mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let console = Console::open(settings).await.unwrap();
                said.send((console.address().port(), console.link())).unwrap();
                console.serve().await;
            });
        });
        let (port, link) = heard.recv().unwrap();
        let token = link.strip_prefix(&format!("http://127.0.0.1:{port}/?token=")).unwrap().to_owned();
        Self { port, key: key.reveal().to_owned(), token, sockets, history, _around: around }
    }

    pub(crate) fn sockets(&self) -> &Path {
        &self.sockets
    }

    pub(crate) fn shim(&self, name: &str) -> FakeShim {
        FakeShim::open(&self.sockets, session(name, &["server"]))
    }

    /// A path below the key.
    pub(crate) fn inside(&self, path: &str) -> String {
        format!("/{}/{path}", self.key)
    }

    /// `GET` of a path with those headers besides `Host`.
    pub(crate) fn read(&self, path: &str, headers: &[&str]) -> Answer {
        self.ask("GET", path, &self.with_host(headers), b"")
    }

    /// `POST` of JSON to a path below the key.
    pub(crate) fn post(&self, path: &str, body: &[u8]) -> Answer {
        self.ask("POST", &self.inside(path), &self.with_host(&["Content-Type: application/json"]), body)
    }

    pub(crate) fn with_host(&self, headers: &[&str]) -> Vec<String> {
        std::iter::once(format!("Host: 127.0.0.1:{}", self.port)).chain(headers.iter().map(|&h| h.into())).collect()
    }

    /// Exactly this.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[String], body: &[u8]) -> Answer {
        let mut stream = self.connect();
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        headers.iter().for_each(|header| head.push_str(&format!("{header}\r\n")));
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        // It may have been refused before its end.
        let _ = stream.write_all(body);
        Answer::read(stream)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).unwrap()
    }

    /// The event stream, going on after the id of a piece.
    pub(crate) fn events(&self, last_seen: Option<&str>) -> Pieces {
        let mut stream = self.connect();
        let last_seen = last_seen.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let path = self.inside("events");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n{last_seen}\r\n", self.port).unwrap();
        let mut pieces = Pieces { reader: BufReader::new(stream), read: 0, text: String::new() };
        let head = pieces.head();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        pieces
    }
}

impl Answer {
    fn read(stream: TcpStream) -> Self {
        let mut bytes = Vec::new();
        // A server that refuses a long body may close before it has all been sent.
        let _ = BufReader::new(stream).read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
        let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        Self { status: status.unwrap_or(0), headers: lines.filter_map(header).collect(), body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A stream of events, chunked as HTTP has it.
pub(crate) struct Pieces {
    reader: BufReader<TcpStream>,
    pub(crate) read: usize,
    text: String,
}

/// One event as a browser gets it.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) kind: String,
    pub(crate) id: String,
    pub(crate) data: serde_json::Value,
}

impl Pieces {
    fn head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.reader.read_line(&mut head).unwrap() > 0, "{head}");
        }
        head
    }

    /// The next event; waits for it.
    pub(crate) fn next(&mut self) -> Piece {
        loop {
            if let Some((piece, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let line = piece.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                    line.map(|value| value.trim_start().to_owned())
                };
                let found = (field("event"), field("id"), field("data"));
                self.text = rest.to_owned();
                if let (Some(kind), Some(id), Some(data)) = found {
                    return Piece { kind, id, data: serde_json::from_str(&data).unwrap() };
                }
                continue;
            }
            self.chunk();
        }
    }

    /// The next event that `wanted` finds something in.
    pub(crate) fn find<T>(&mut self, mut wanted: impl FnMut(&Piece) -> Option<T>) -> T {
        loop {
            if let Some(found) = wanted(&self.next()) {
                return found;
            }
        }
    }

    fn chunk(&mut self) {
        let mut size = String::new();
        assert!(self.reader.read_line(&mut size).unwrap() > 0, "the stream has ended");
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = vec![0; size + 2];
        self.reader.read_exact(&mut chunk).unwrap();
        self.read += size;
        self.text.push_str(std::str::from_utf8(&chunk[..size]).unwrap());
    }
}
