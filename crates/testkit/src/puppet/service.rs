//! `rescind serve` with its servers and its clients in the test's hands.

use std::{
    cell::RefCell,
    ffi::OsString,
    io,
    net::{SocketAddr, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::valid::ValidMessages;

use super::{
    ends::{Ends, Transcript},
    rig::{Shim, puppet},
    strings::Server,
};

/// The service, and where its servers report. Dropping it kills it.
#[derive(Debug)]
pub struct Service {
    /// Its process.
    pub shim: Shim,
    /// Where it listens.
    pub address: SocketAddr,
    /// Where the sockets of its sessions are.
    pub sockets: PathBuf,
    listener: UnixListener,
    /// The server process that is asked first.
    asked: RefCell<Option<Server>>,
    transcript: Transcript,
    _folder: tempfile::TempDir,
}

/// A session of a client: its id, and the server process that is its own.
#[derive(Debug)]
pub struct Session {
    /// What its requests name.
    pub id: String,
    /// The server.
    pub server: Server,
}

/// One connection of a client.
#[derive(Debug)]
pub struct Connection {
    ends: Ends,
    /// Bytes of the chunk that were read and not returned.
    text: Vec<u8>,
    body: Body,
    valid: ValidMessages,
    transcript: Transcript,
}

/// What is known of the body of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    /// This many bytes are left.
    Length(usize),
    Chunked,
    Over,
}

/// The head of a response.
#[derive(Clone, Debug)]
pub struct Head {
    /// Its status.
    pub status: u16,
    /// Its headers, their names in lower case.
    pub headers: Vec<(String, String)>,
}

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Its id; empty if it has none.
    pub id: String,
    /// Its message; empty for one that only gives an id.
    pub data: String,
}

impl Service {
    /// `program serve` with these flags, in front of puppets.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start<S: Into<OsString>>(program: &str, flags: impl IntoIterator<Item = S>) -> Self {
        Self::start_by(Command::new(program), program, flags)
    }

    /// The same for a process that may have so many files open.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start_with_descriptors(program: &str, most: usize) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", &format!(r#"ulimit -n {most} && exec "$0" "$@""#), program]);
        Self::start_by(command, program, [] as [&str; 0])
    }

    fn start_by<S: Into<OsString>>(command: Command, program: &str, flags: impl IntoIterator<Item = S>) -> Self {
        let service =
            Self::open(command, flags, |orders| ["--".into(), puppet(program.as_ref()).into(), orders.into()]);
        let mut asked = service.accept();
        let question = asked.receive();
        if !question.contains(r#""id":1,"method":"server/discover""#) {
            service.fail(format_args!("asked {question}"));
        }
        service.asked.replace(Some(asked));
        service
    }

    /// `program serve --shared` with these flags: the first server process has been sent `initialize`.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn shared<S: Into<OsString>>(program: &str, flags: impl IntoIterator<Item = S>) -> Self {
        let flags = std::iter::once("--shared".into()).chain(flags.into_iter().map(Into::into));
        Self::unasked(program, flags.collect::<Vec<OsString>>())
    }

    /// `program serve --pool`: each of so many server processes has been sent `initialize`.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn pool(program: &str, processes: usize) -> Self {
        Self::unasked(program, ["--pool".to_owned(), processes.to_string()])
    }

    /// `program serve` with these flags, by which no server process is asked which era it speaks.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn unasked<S: Into<OsString>>(program: &str, flags: impl IntoIterator<Item = S>) -> Self {
        Self::open(Command::new(program), flags, |orders| ["--".into(), puppet(program.as_ref()).into(), orders.into()])
    }

    /// `program serve --shared` in front of this command. It has no puppets.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn shared_command<const N: usize>(program: &str, command: [&str; N]) -> Self {
        Self::open(Command::new(program), ["--shared"], |_| command.map(Into::into))
    }

    /// `program serve --upstream` with these flags, in front of a server at this URL. It has no puppets.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn before<S: Into<OsString>>(program: &str, url: &str, flags: impl IntoIterator<Item = S>) -> Self {
        Self::open(Command::new(program), flags, |_| ["--upstream".into(), url.into()])
    }

    fn open<S: Into<OsString>, const N: usize>(
        mut command: Command,
        flags: impl IntoIterator<Item = S>,
        server: impl FnOnce(&Path) -> [OsString; N],
    ) -> Self {
        let transcript = Transcript::default();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let address = folder.path().join("orders");
        let listener = UnixListener::bind(&address).expect("a socket");
        let sockets = folder.path().join("sockets");
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(flags.into_iter().map(Into::into));
        command.args(server(&address));
        let (shim, address) = listen(command, &sockets, &transcript);
        let asked = RefCell::default();
        Self { shim, address, sockets, listener, asked, transcript, _folder: folder }
    }

    /// The server process that was asked, with the id 1 and before any client came, which era it speaks, and has not
    /// answered.
    pub fn take_asked(&self) -> Server {
        self.asked.take().unwrap_or_else(|| self.transcript.fail("it was taken before"))
    }

    /// The URL of its endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// `program serve --upstream` in front of this service, with these flags: its process, and where it listens.
    pub fn front<S: Into<OsString>>(&self, program: &str, flags: impl IntoIterator<Item = S>) -> (Shim, SocketAddr) {
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--upstream", &self.url()]);
        command.args(flags.into_iter().map(Into::into));
        listen(command, &self.sockets, &self.transcript)
    }

    /// `program run --url` in front of this service, with these flags: its process, and the test as its client.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn client<S: Into<OsString>>(&self, program: &str, flags: impl IntoIterator<Item = S>) -> (Shim, Ends) {
        run_url(program, &self.url(), flags, &self.sockets, &self.transcript)
    }

    /// Opens a connection to another address.
    pub fn connect_to(&self, address: SocketAddr) -> Connection {
        Connection::open(address, &self.transcript)
    }

    /// The next server process that it starts.
    pub fn accept(&self) -> Server {
        Server::accept(&self.listener, &self.transcript)
    }

    /// Opens a connection to it.
    ///
    /// # Panics
    ///
    /// If it does not listen.
    pub fn connect(&self) -> Connection {
        Connection::open(self.address, &self.transcript)
    }

    /// Sends a message on a connection of its own, and reads the head of the response.
    pub fn post(&self, headers: &[(&str, &str)], message: &str) -> (Connection, Head) {
        let mut connection = self.connect();
        connection.post(headers, message);
        let head = connection.head();
        (connection, head)
    }

    /// Opens a session of this revision.
    pub fn open_session(&self, revision: &str) -> Session {
        self.open_session_with(revision, &[])
    }

    /// Opens a session of this revision with requests that have these headers, too.
    pub fn open_session_with(&self, revision: &str, headers: &[(&str, &str)]) -> Session {
        let mut connection = self.connect();
        let params = format!(
            r#"{{"protocolVersion":"{revision}","capabilities":{{}},"clientInfo":{{"name":"test","version":"1"}}}}"#
        );
        let greeting = format!(r#"{{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{params}}}"#);
        connection.post(headers, &greeting);
        let mut server = self.accept();
        server.expect(&greeting);
        let answer = format!(
            r#"{{"protocolVersion":"{revision}","capabilities":{{}},"serverInfo":{{"name":"test","version":"1"}}}}"#
        );
        let answer = format!(r#"{{"jsonrpc":"2.0","id":"hello","result":{answer}}}"#);
        server.send(&answer);
        let head = connection.head();
        let id = head.header("mcp-session-id").unwrap_or_else(|| self.transcript.fail("no session")).to_owned();
        assert_eq!(connection.message(&head), answer);
        let session = Session { id, server };
        let all = [&session.headers(), headers].concat();
        let (_, head) = self.post(&all, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert_eq!(head.status, 202);
        let mut session = session;
        session.server.expect(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        session
    }

    /// Ends the test, with everything that happened until now.
    ///
    /// # Panics
    ///
    /// Always.
    pub fn fail(&self, why: impl std::fmt::Display) -> ! {
        self.transcript.fail(why)
    }
}

/// `program run --url` before a server at `url`, its sockets in this folder: its process, and the test as its client.
///
/// # Panics
///
/// If it does not start.
pub fn run_url<S: Into<OsString>>(
    program: &str,
    url: &str,
    flags: impl IntoIterator<Item = S>,
    sockets: &Path,
    transcript: &Transcript,
) -> (Shim, Ends) {
    let mut command = Command::new(program);
    command.args(["run", "--url", url]).args(flags.into_iter().map(Into::into));
    command.env("RESCIND_RUNTIME_DIR", sockets);
    let (to, from) = (io::pipe().expect("a pipe"), io::pipe().expect("a pipe"));
    command.stdin(to.0).stdout(from.1);
    let shim = Shim::start(command, transcript);
    (shim, Ends::of_client(from.0.into(), to.1.into(), transcript.clone()))
}

/// Starts a service, and waits until it listens.
fn listen(mut command: Command, sockets: &Path, transcript: &Transcript) -> (Shim, SocketAddr) {
    command.stdin(Stdio::null()).stdout(Stdio::null()).env("RESCIND_RUNTIME_DIR", sockets);
    let mut shim = Shim::start(command, transcript);
    let line = shim.stderr.line();
    let url = line.strip_prefix("listening on http://").unwrap_or_else(|| transcript.fail(&line));
    (shim, url.split('/').next().and_then(|address| address.parse().ok()).expect("an address"))
}

impl Session {
    /// The headers of its requests.
    pub fn headers(&self) -> [(&str, &str); 1] {
        [("mcp-session-id", &self.id)]
    }
}

impl Connection {
    /// Opens a connection.
    ///
    /// # Panics
    ///
    /// If nobody listens.
    pub fn open(address: SocketAddr, transcript: &Transcript) -> Self {
        let stream = TcpStream::connect(address).expect("a server listens");
        let reader = stream.try_clone().expect("a socket can be cloned");
        let ends = Ends::new("connection", reader.into(), OwnedFd::from(stream), transcript.clone());
        Self {
            ends,
            text: Vec::new(),
            body: Body::Over,
            valid: ValidMessages::default(),
            transcript: transcript.clone(),
        }
    }

    /// Sends a message.
    pub fn post(&mut self, headers: &[(&str, &str)], message: &str) {
        let mut all = vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        all.extend(headers);
        self.valid.sent(message);
        self.send("POST", &all, message);
    }

    /// Asks for a stream.
    pub fn get(&mut self, headers: &[(&str, &str)]) {
        let mut all = vec![("accept", "text/event-stream")];
        all.extend(headers);
        self.send("GET", &all, "");
    }

    /// Sends a request.
    pub fn send(&mut self, method: &str, headers: &[(&str, &str)], body: &str) {
        self.ends.send_bytes(Self::request(method, headers, body).as_bytes());
    }

    /// The text of a request.
    pub fn request(method: &str, headers: &[(&str, &str)], body: &str) -> String {
        let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("{method} /mcp HTTP/1.1\r\nhost: localhost\r\n{lines}content-length: {}\r\n\r\n{body}", body.len())
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.ends.send_bytes(bytes);
    }

    /// Reads the head of a response.
    pub fn head(&mut self) -> Head {
        let line = self.ends.receive();
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| self.transcript.fail(format_args!("no status: {line}")));
        let mut headers = Vec::new();
        loop {
            let line = self.ends.receive();
            match line.trim_end().split_once(": ") {
                Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
                None => break,
            }
        }
        let head = Head { status, headers };
        let length = head.header("content-length").map(|length| length.parse().expect("a length"));
        self.body = match length {
            Some(length) => Body::Length(length),
            None if head.header("transfer-encoding").is_some() => Body::Chunked,
            None => Body::Over,
        };
        head
    }

    /// Reads the rest of the body.
    pub fn body(&mut self) -> String {
        while self.read_on() {}
        String::from_utf8(std::mem::take(&mut self.text)).expect("text")
    }

    /// The next event of a stream, comments left out; `None` at its end.
    pub fn event(&mut self) -> Option<Event> {
        loop {
            let end = self.text.windows(2).position(|window| window == b"\n\n");
            let Some(end) = end else {
                if self.read_on() {
                    continue;
                }
                return None;
            };
            let rest = self.text.split_off(end + 2);
            let text = String::from_utf8(std::mem::replace(&mut self.text, rest)).expect("text");
            let mut event = Event::default();
            let mut is_event = false;
            for line in text.lines() {
                match line.split_once(':') {
                    Some(("id", id)) => event.id = id.trim_start().into(),
                    Some(("data", data)) => (event.data, is_event) = (data.trim_start().into(), true),
                    _ => {}
                }
            }
            if is_event {
                if !event.data.is_empty() {
                    self.expect_valid(&event.data);
                }
                return Some(event);
            }
        }
    }

    /// The next message of a stream, or the whole body of another response.
    pub fn message(&mut self, head: &Head) -> String {
        if head.header("content-type") != Some("text/event-stream") {
            let body = self.body();
            if head.header("content-type") == Some("application/json") {
                self.expect_valid(&body);
            }
            return body;
        }
        loop {
            match self.event() {
                Some(event) if event.data.is_empty() => {}
                Some(event) => return event.data,
                None => self.transcript.fail("the stream ended without a message"),
            }
        }
    }

    fn expect_valid(&self, message: &str) {
        if let Err(why) = self.valid.check(message) {
            self.transcript.fail(format_args!("connection: {why}: {message}"));
        }
    }

    /// The stream has ended, without a further message.
    pub fn expect_end(&mut self) {
        while let Some(event) = self.event() {
            if !event.data.is_empty() {
                self.transcript.fail(format_args!("expected the end of the stream, got {}", event.data));
            }
        }
    }

    /// Closes the connection so that the other side sees a reset.
    pub fn reset(self) {
        self.ends.with_output(|output| {
            let _ = rustix::net::sockopt::set_socket_linger(output, Some(std::time::Duration::ZERO));
        });
    }

    /// Sends nothing more, and goes on reading.
    pub fn shut_down_output(&mut self) {
        self.ends.with_output(|output| {
            let _ = rustix::net::shutdown(output, rustix::net::Shutdown::Write);
        });
    }

    /// Reads more of the body; `false` at its end.
    fn read_on(&mut self) -> bool {
        match self.body {
            Body::Over => false,
            Body::Length(length) => {
                self.text.extend(self.ends.receive_bytes(length));
                self.body = Body::Over;
                length > 0
            }
            Body::Chunked => {
                let line = self.ends.receive();
                let length = usize::from_str_radix(line.trim_end(), 16).expect("the length of a chunk");
                let mut chunk = self.ends.receive_bytes(length + 2);
                chunk.truncate(length);
                if length == 0 {
                    self.body = Body::Over;
                }
                self.text.extend(chunk);
                length > 0
            }
        }
    }
}

impl Head {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| &**value)
    }
}
