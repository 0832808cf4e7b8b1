//! One end of a link in a test's hands: messages out, messages in, never for ever.

use std::{
    fmt,
    fs::File,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::OFlags,
    io::Errno,
};

use crate::valid::ValidMessages;

/// How long a test waits for what must come. Far beyond any delay of a busy machine; only a failing test
/// ever waits this long.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// How messages are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One a line.
    Line,
    /// After a `Content-Length` header.
    Headers,
}

/// Everything that was sent and received, to be shown when a test fails.
#[derive(Clone, Debug, Default)]
pub struct Transcript(Arc<Mutex<Vec<String>>>);

impl Transcript {
    pub(super) fn note(&self, line: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    /// Ends the test, with everything that happened until now.
    ///
    /// # Panics
    ///
    /// Always.
    pub fn fail(&self, why: impl fmt::Display) -> ! {
        panic!("{why}\n{self}")
    }
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "transcript:")?;
        for line in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}

/// A reading and a writing end; each can be closed by itself.
#[derive(Debug)]
pub struct Ends {
    name: &'static str,
    input: Option<Listening>,
    output: Option<OwnedFd>,
    framing: Framing,
    /// What it may receive, where it is a client.
    valid: Option<ValidMessages>,
    transcript: Transcript,
}

impl Ends {
    pub(super) fn new(name: &'static str, input: OwnedFd, output: OwnedFd, transcript: Transcript) -> Self {
        set_nonblocking(&output);
        let input = Some(Listening::new(name, input, transcript.clone()));
        Self { name, input, output: Some(output), framing: Framing::Line, valid: None, transcript }
    }

    /// The ends of a client: each message that it receives must be a valid one.
    pub(super) fn of_client(input: OwnedFd, output: OwnedFd, transcript: Transcript) -> Self {
        let ends = Self::new("client", input, output, transcript);
        Self { valid: Some(ValidMessages::default()), ..ends }
    }

    /// From now on messages are framed this way.
    pub fn frame(&mut self, framing: Framing) {
        self.framing = framing;
    }

    /// Sends one message.
    pub fn send(&mut self, message: &str) {
        self.transcript.note(format!("{} sends {}", self.name, shown(message)));
        self.note_sent(message);
        let framed = match self.framing {
            Framing::Line => format!("{message}\n"),
            Framing::Headers => format!("Content-Length: {}\r\n\r\n{message}", message.len()),
        };
        self.write(framed.as_bytes());
    }

    /// Sends several messages in one write.
    pub fn send_together(&mut self, messages: &[&str]) {
        self.transcript.note(format!("{} sends together {}", self.name, shown(&messages.join(" and "))));
        messages.iter().for_each(|message| self.note_sent(message));
        self.write(messages.iter().map(|message| format!("{message}\n")).collect::<String>().as_bytes());
    }

    /// Sends these bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.transcript.note(format!("{} sends bytes {}", self.name, shown(&String::from_utf8_lossy(bytes))));
        self.write(bytes);
    }

    fn note_sent(&mut self, message: &str) {
        if let Some(valid) = &mut self.valid {
            valid.sent(message);
        }
    }

    fn write(&self, mut bytes: &[u8]) {
        let Some(output) = &self.output else { self.fail("it closed its output before") };
        let until = Instant::now() + PATIENCE;
        while !bytes.is_empty() {
            match rustix::io::write(output, bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(Errno::AGAIN) if wait(output.as_fd(), PollFlags::OUT, until) => {}
                Err(Errno::AGAIN) => self.fail(format_args!("{} bytes were not taken in time", bytes.len())),
                Err(Errno::INTR) => {}
                Err(error) => self.fail(format_args!("writing: {error}")),
            }
        }
    }

    /// Receives the next message.
    pub fn receive(&mut self) -> String {
        let framing = self.framing;
        let Some(input) = &mut self.input else { self.fail("it closed its input before") };
        let message = input.receive(framing);
        if let Some(valid) = &self.valid
            && let Err(why) = valid.check(&message)
        {
            self.fail(why);
        }
        message
    }

    /// Whether more comes; waits for it or for the end of input, as long as it takes.
    pub fn has_more(&mut self) -> bool {
        self.input.as_mut().is_some_and(Listening::has_more)
    }

    /// Receives this many bytes, whatever they are.
    pub fn receive_bytes(&mut self, count: usize) -> Vec<u8> {
        let Some(input) = &mut self.input else { self.fail("it closed its input before") };
        input.take(count)
    }

    /// Receives the next message, which must be this.
    pub fn expect(&mut self, message: &str) {
        let received = self.receive();
        if received != message {
            self.fail(format_args!("expected {:?}\n     got {:?}", shown(message), shown(&received)));
        }
    }

    /// The end of input is the next thing that comes.
    pub fn expect_end(&mut self) {
        let Some(input) = &mut self.input else { self.fail("it closed its input before") };
        input.expect_end();
    }

    /// Closes what this end writes to.
    pub fn close_output(&mut self) {
        self.transcript.note(format!("{} closes its output", self.name));
        self.output = None;
    }

    /// Closes what this end reads from.
    pub fn close_input(&mut self) {
        self.transcript.note(format!("{} closes its input", self.name));
        self.input = None;
    }

    /// Closes both, as a client that dies does, or a server whose process lives on.
    pub fn close(&mut self) {
        self.close_output();
        self.close_input();
    }

    /// Takes the writing end away, to be written by another thread, for as long as it takes.
    ///
    /// # Panics
    ///
    /// If it was closed or taken before.
    pub fn take_blocking_output(&mut self) -> File {
        let output = self.output.take().expect("the output was closed or taken before");
        let flags = rustix::fs::fcntl_getfl(&output).expect("an open descriptor has flags");
        rustix::fs::fcntl_setfl(&output, flags - OFlags::NONBLOCK).expect("the flag is settable");
        output.into()
    }

    /// Does something with the descriptor that it writes to.
    pub(super) fn with_output(&self, act: impl FnOnce(BorrowedFd<'_>)) {
        let Some(output) = &self.output else { return };
        act(output.as_fd());
    }

    pub(super) fn fail(&self, why: impl fmt::Display) -> ! {
        self.transcript.fail(format_args!("{}: {why}", self.name))
    }
}

/// The reading half.
#[derive(Debug)]
pub struct Listening {
    name: &'static str,
    fd: OwnedFd,
    received: Vec<u8>,
    ended: bool,
    transcript: Transcript,
}

impl Listening {
    pub(super) fn new(name: &'static str, fd: OwnedFd, transcript: Transcript) -> Self {
        set_nonblocking(&fd);
        Self { name, fd, received: Vec::new(), ended: false, transcript }
    }

    /// The next line, without its line break.
    pub fn line(&mut self) -> String {
        self.receive(Framing::Line)
    }

    /// Everything until the end of input.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.fill() {}
        std::mem::take(&mut self.received)
    }

    fn has_more(&mut self) -> bool {
        if !self.received.is_empty() {
            return true;
        }
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        while rustix::event::poll(&mut fds, None).is_err() {}
        self.fill()
    }

    fn receive(&mut self, framing: Framing) -> String {
        let message = match framing {
            Framing::Line => {
                let mut line = self.take_through(b"\n");
                line.pop();
                line
            }
            Framing::Headers => {
                let headers = self.take_through(b"\r\n\r\n");
                let headers = String::from_utf8_lossy(&headers).into_owned();
                let length = headers.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
                let Some(length) = length else { self.fail(format_args!("no length in {headers:?}")) };
                self.take(length)
            }
        };
        let message = String::from_utf8_lossy(&message).into_owned();
        self.transcript.note(format!("{} receives {}", self.name, shown(&message)));
        message
    }

    fn expect_end(&mut self) {
        if self.received.is_empty() && !self.fill() {
            self.transcript.note(format!("{} sees the end of its input", self.name));
            return;
        }
        let rest = String::from_utf8_lossy(&self.received).into_owned();
        self.fail(format_args!("expected the end of input, got {}", shown(&rest)))
    }

    fn take_through(&mut self, end: &[u8]) -> Vec<u8> {
        let mut searched = 0;
        loop {
            let found = self.received[searched..].windows(end.len()).position(|window| window == end);
            if let Some(found) = found {
                return self.take(searched + found + end.len());
            }
            searched = self.received.len().saturating_sub(end.len() - 1);
            self.fill_or_fail();
        }
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        while self.received.len() < length {
            self.fill_or_fail();
        }
        let rest = self.received.split_off(length);
        std::mem::replace(&mut self.received, rest)
    }

    fn fill_or_fail(&mut self) {
        if !self.fill() {
            let rest = String::from_utf8_lossy(&self.received).into_owned();
            self.fail(format_args!("expected a message, got the end of input after {}", shown(&rest)));
        }
    }

    /// Reads once; false at the end of input.
    fn fill(&mut self) -> bool {
        let until = Instant::now() + PATIENCE;
        let mut buffer = [0; 64 * 1024];
        while !self.ended {
            match rustix::io::read(&self.fd, &mut buffer) {
                Ok(0) => self.ended = true,
                Ok(read) => {
                    self.received.extend_from_slice(&buffer[..read]);
                    return true;
                }
                Err(Errno::AGAIN) if wait(self.fd.as_fd(), PollFlags::IN, until) => {}
                Err(Errno::AGAIN) => self.fail("nothing came in time"),
                Err(Errno::INTR) => {}
                // The other end was closed with bytes unread: a socket's way to say that it ended.
                Err(Errno::CONNRESET) => self.ended = true,
                Err(error) => self.fail(format_args!("reading: {error}")),
            }
        }
        false
    }

    fn fail(&self, why: impl fmt::Display) -> ! {
        self.transcript.fail(format_args!("{}: {why}", self.name))
    }
}

/// Whether the descriptor became ready before `until`.
fn wait(fd: BorrowedFd<'_>, flags: PollFlags, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    let left = Timespec::try_from(left).ok();
    let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
    match rustix::event::poll(&mut fds, left.as_ref()) {
        Ok(ready) => ready > 0,
        Err(_) => true,
    }
}

fn set_nonblocking(fd: &OwnedFd) {
    let flags = rustix::fs::fcntl_getfl(fd).expect("an open descriptor has flags");
    rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK).expect("the flag is settable");
}

/// A long text is shown by its beginning.
fn shown(text: &str) -> String {
    const SHOWN: usize = 300;
    if text.len() <= SHOWN {
        return text.to_owned();
    }
    format!("{}… ({} bytes)", &text[..text.floor_char_boundary(SHOWN)], text.len())
}
