//! The client: one thread, two pipes, the same cheap work whatever stands
//! between it and the server, and every answer checked.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::traffic::{self, Batch, LineId, Payload};

/// No byte in either direction for this long is a wedge.
const STALLED: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
/// Nothing more could be written for this long: everything between is full.
const FULL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
const READ: usize = 256 * 1024;

/// Why a measurement was not finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// Nothing moved although answers were owed.
    #[error("wedged after {answered} of {sent} requests were answered")]
    Wedged {
        /// Requests handed to the pipe.
        sent: usize,
        /// Answers read.
        answered: usize,
    },
    /// The session took longer than it may.
    #[error("wedged: the session was not over in time")]
    TimeUp,
    /// The other side closed its end although answers were owed.
    #[error("the other side closed its output too early")]
    Closed,
    /// Something else than the expected answer came.
    #[error("unexpected answer: {excerpt}")]
    Unexpected {
        /// The beginning of what came instead.
        excerpt: String,
    },
    /// The pipe failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Speaks to the server over two pipes; dropped, it closes both.
#[derive(Debug)]
pub struct Driver {
    to: File,
    from: File,
    next: LineId,
    input: Vec<u8>,
}

impl Driver {
    /// Speaks into `to` and listens on `from`.
    #[must_use]
    pub fn new((to, from): (OwnedFd, OwnedFd)) -> Self {
        Self { to: to.into(), from: from.into(), next: LineId::first(), input: vec![0; READ] }
    }

    /// Opens the session as an MCP client does.
    ///
    /// # Errors
    /// When the answer is not what the echo server sends.
    pub fn shake_hands(&mut self) -> Result<(), DriverError> {
        self.set_blocking(true)?;
        self.to.write_all(traffic::INITIALIZE)?;
        self.expect(traffic::INITIALIZE_RESULT)?;
        self.to.write_all(traffic::INITIALIZED)?;
        Ok(())
    }

    /// Sends one request of each payload and compares the answer byte for
    /// byte; what is measured later is only looked at in passing.
    ///
    /// # Errors
    /// When an answer is not what the echo server sends.
    pub fn compare_bytes(&mut self) -> Result<(), DriverError> {
        for payload in Payload::ALL {
            let mut request = Batch::new(payload, 1);
            request.fill(1, &mut self.next);
            let line = request.lines(1);
            let answer = traffic::echo_of(line.trim_ascii_end()).ok_or_else(|| unexpected(line))?.concat();
            self.exchange(line, &answer)?;
        }
        Ok(())
    }

    /// Sends one small request at a time and waits for its answer, `count`
    /// times; nanoseconds per round trip, in the order they were made.
    ///
    /// Blocks in `read`: only a watchdog ends it if no answer comes.
    ///
    /// # Errors
    /// When an answer is missing or not the expected one.
    pub fn round_trips(&mut self, count: usize) -> Result<Vec<u32>, DriverError> {
        self.set_blocking(true)?;
        let mut request = Batch::new(Payload::Small, 1);
        let mut answers = Answers::new(Payload::Small, self.next);
        let mut samples = Vec::with_capacity(count);
        for _ in 0..count {
            request.fill(1, &mut self.next);
            let asked = Instant::now();
            self.to.write_all(request.lines(1))?;
            while !answers.is_at_end_after(read_some(&mut self.from, &mut self.input)?)? {}
            let nanos = asked.elapsed().as_nanos();
            samples.push(u32::try_from(nanos).unwrap_or(u32::MAX));
        }
        Ok(samples)
    }

    /// Keeps `window` requests outstanding until `count` are answered; how
    /// long that took.
    ///
    /// # Errors
    /// When nothing moves for ten seconds or an answer is not the expected one.
    pub fn stream(&mut self, payload: Payload, count: usize, window: usize) -> Result<Duration, DriverError> {
        self.set_blocking(false)?;
        let mut batch = Batch::new(payload, window);
        let mut answers = Answers::new(payload, self.next);
        let (mut sent, mut filled, mut written) = (0, 0, 0);
        let began = Instant::now();
        while answers.complete < count {
            if written == batch.lines(filled).len() {
                filled = (count - sent).min(window - (sent - answers.complete)).min(batch.capacity());
                batch.fill(filled, &mut self.next);
                sent += filled;
                written = 0;
            }
            let pending = &batch.lines(filled)[written..];
            let mut moved = 0;
            if !pending.is_empty() {
                moved += unless_full(self.to.write(pending))?;
                written += moved;
            }
            if let Some(bytes) = read_ready(&mut self.from, &mut self.input)? {
                moved += bytes.len();
                answers.take(bytes)?;
            }
            if moved == 0 && !self.wait(written < batch.lines(filled).len(), true, &STALLED)? {
                return Err(DriverError::Wedged { sent, answered: answers.complete });
            }
        }
        Ok(began.elapsed())
    }

    /// Writes until everything between here and the server is full, reading
    /// nothing; then reads and writes until `count` requests are answered.
    ///
    /// # Errors
    /// When nothing moves for ten seconds although answers are owed.
    pub fn flood(&mut self, payload: Payload, count: usize) -> Result<Flood, DriverError> {
        self.set_blocking(false)?;
        let began = Instant::now();
        let mut batch = Batch::new(payload, count.min(64));
        let mut lines = LineCounter::default();
        let (mut sent, mut filled, mut written) = (0, 0, 0);
        let mut outstanding_at_most = 0;
        let mut is_reading = false;
        while lines.results + lines.others < count {
            if written == batch.lines(filled).len() {
                filled = (count - sent).min(batch.capacity());
                batch.fill(filled, &mut self.next);
                sent += filled;
                written = 0;
            }
            let pending = &batch.lines(filled)[written..];
            let has_more = !pending.is_empty();
            let mut moved = 0;
            if has_more {
                moved += unless_full(self.to.write(pending))?;
                written += moved;
            }
            if is_reading && let Some(bytes) = read_ready(&mut self.from, &mut self.input)? {
                moved += bytes.len();
                lines.take(bytes);
            }
            if !is_reading && (!has_more || moved == 0 && !self.wait(true, false, &FULL)?) {
                is_reading = true;
                outstanding_at_most = sent;
            } else if moved == 0 && is_reading && !self.wait(has_more, true, &STALLED)? {
                return Err(DriverError::Wedged { sent, answered: lines.results + lines.others });
            }
        }
        Ok(Flood { outstanding_at_most, refused: lines.others, took: began.elapsed() })
    }

    /// Writes all of `request` while it reads until as many bytes as `answer`
    /// has are there: a message larger than the pipes needs both at once.
    fn exchange(&mut self, request: &[u8], answer: &[u8]) -> Result<(), DriverError> {
        self.set_blocking(false)?;
        let mut got = Vec::with_capacity(answer.len());
        let mut written = 0;
        while got.len() < answer.len() {
            let mut moved = 0;
            if written < request.len() {
                moved += unless_full(self.to.write(&request[written..]))?;
                written += moved;
            }
            if let Some(bytes) = read_ready(&mut self.from, &mut self.input)? {
                moved += bytes.len();
                got.extend_from_slice(bytes);
            }
            if moved == 0 && !self.wait(written < request.len(), true, &STALLED)? {
                return Err(DriverError::Wedged { sent: 1, answered: 0 });
            }
        }
        self.set_blocking(true)?;
        same(&got, answer)
    }

    fn expect(&mut self, answer: &[u8]) -> Result<(), DriverError> {
        let mut got = Vec::new();
        while got.len() < answer.len() && !got.ends_with(b"\n") {
            got.extend_from_slice(read_some(&mut self.from, &mut self.input)?);
        }
        same(&got, answer)
    }

    /// Waits until one of the two can go on; false when the time is up.
    fn wait(&self, writing: bool, reading: bool, at_most: &Timespec) -> io::Result<bool> {
        let mut ends = Vec::with_capacity(2);
        if writing {
            ends.push(PollFd::new(&self.to, PollFlags::OUT));
        }
        if reading {
            ends.push(PollFd::new(&self.from, PollFlags::IN));
        }
        Ok(poll(&mut ends, Some(at_most))? > 0)
    }

    fn set_blocking(&self, blocking: bool) -> io::Result<()> {
        for end in [&self.to, &self.from] {
            let mut flags = fcntl_getfl(end)?;
            flags.set(OFlags::NONBLOCK, !blocking);
            fcntl_setfl(end, flags)?;
        }
        Ok(())
    }
}

/// How a flood went.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    /// Requests handed over before the first answer was read.
    pub outstanding_at_most: usize,
    /// Lines that were no result: a shim may refuse what is too much for it.
    pub refused: usize,
    /// From the first byte to the last answer.
    pub took: Duration,
}

/// Checks answers of known length with ids in order, without looking at what
/// they carry.
struct Answers {
    line: usize,
    expected: LineId,
    complete: usize,
    /// Bytes seen of the line under way, and the beginning of it.
    at: usize,
    head: [u8; traffic::RESPONSE_HEAD],
}

impl Answers {
    fn new(payload: Payload, first: LineId) -> Self {
        Self {
            line: Batch::new(payload, 1).response_len(),
            expected: first,
            complete: 0,
            at: 0,
            head: [0; traffic::RESPONSE_HEAD],
        }
    }

    fn is_at_end_after(&mut self, bytes: &[u8]) -> Result<bool, DriverError> {
        self.take(bytes)?;
        Ok(self.at == 0)
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), DriverError> {
        while !bytes.is_empty() {
            let (here, rest) = bytes.split_at(bytes.len().min(self.line - self.at));
            if self.at < self.head.len() {
                let room = &mut self.head[self.at..];
                let shown = here.len().min(room.len());
                room[..shown].copy_from_slice(&here[..shown]);
            }
            self.at += here.len();
            if self.at == self.line {
                let ends = here.last() == Some(&b'\n');
                if !ends || !traffic::begins_result_of(&self.head, self.expected) {
                    return Err(unexpected(here));
                }
                self.expected.advance();
                self.complete += 1;
                self.at = 0;
            }
            bytes = rest;
        }
        Ok(())
    }
}

/// Counts lines of any length in any order, results apart from the rest.
#[derive(Default)]
struct LineCounter {
    head: Vec<u8>,
    results: usize,
    others: usize,
}

impl LineCounter {
    fn take(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let room = traffic::RESPONSE_HEAD - self.head.len();
            self.head.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                if traffic::begins_a_result(&self.head) {
                    self.results += 1;
                } else {
                    self.others += 1;
                }
                self.head.clear();
            }
        }
    }
}

fn same(got: &[u8], expected: &[u8]) -> Result<(), DriverError> {
    if got == expected {
        return Ok(());
    }
    let differs = got.iter().zip(expected).position(|(a, b)| a != b);
    Err(unexpected(&got[differs.unwrap_or_default()..]))
}

fn unexpected(bytes: &[u8]) -> DriverError {
    DriverError::Unexpected { excerpt: String::from_utf8_lossy(&bytes[..bytes.len().min(160)]).into_owned() }
}

fn read_some<'a>(from: &mut File, input: &'a mut [u8]) -> Result<&'a [u8], DriverError> {
    let read = from.read(input)?;
    if read == 0 {
        return Err(DriverError::Closed);
    }
    Ok(&input[..read])
}

fn read_ready<'a>(from: &mut File, input: &'a mut [u8]) -> Result<Option<&'a [u8]>, DriverError> {
    match from.read(input) {
        Ok(0) => Err(DriverError::Closed),
        Ok(read) => Ok(Some(&input[..read])),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn unless_full(written: io::Result<usize>) -> io::Result<usize> {
    match written {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        other => other,
    }
}
