//! Everything that is written to this process's stderr while links are up.
//!
//! Stderr may be a pipe that is not read. So a thread writes, and only that thread blocks. What servers wrote and messages
//! of ours go the same way. They keep their order, and a line of one does not stand in the middle of another. What waits
//! has a bound for each writer, so that a flood of one server drops nothing of another, and one for all of them.

#[cfg(unix)]
use std::os::fd::AsFd as _;
#[cfg(windows)]
use std::os::windows::io::AsHandle as _;
use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io::{self, Write as _},
    mem::{replace, take},
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use memchr::memrchr;

/// The most bytes of one server that wait to be written, before it waits for room.
const ROOM: usize = 1024 * 1024;

/// The most bytes of one writer that wait at all: also what the largest pipe still holds of a server that has ended. Of more,
/// the oldest are dropped.
const MAX_WAITING: usize = 2 * ROOM;

/// The same as [`ROOM`], of all writers together.
const ROOM_OF_ALL: usize = 4 * ROOM;

/// The same as [`MAX_WAITING`], of all writers together. The one that has most loses its oldest.
const MAX_WAITING_OF_ALL: usize = 2 * ROOM_OF_ALL;

/// The most bytes written at once.
const PIECE: usize = 16 * 1024;

/// What a stretch takes beside its bytes, about: many writers of short lines must not take more memory than is counted.
const OVERHEAD: usize = 96;

/// The longest part of a line that waits for its rest.
const LONGEST_LINE: usize = 4 * 1024;

/// Time for whoever reads stderr to read a piece, at the end of a link.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Time for the reader to read all pieces, if it takes one after the other.
const LONGEST_FLUSH: Duration = Duration::from_secs(10);

/// The one way to stderr of this process.
static WAY_OUT: WayOut = WayOut { state: Mutex::new(State::new()), changed: Condvar::new() };

/// Stderr, written by a thread that the first bytes start, one for all of these in a process: a stderr that is not read
/// delays only what is written to it. The thread still writes what waits when this is dropped.
#[derive(Debug, Default)]
pub struct Stderr {
    has_written: bool,
}

impl Stderr {
    /// Nothing was written yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { has_written: false }
    }

    /// Writes a message, sooner or later. While 2 MiB of messages wait to be read, the oldest are dropped for it, and a line
    /// says how many bytes.
    pub fn write(&mut self, text: &str) {
        self.has_written = true;
        WAY_OUT.state().push(Writer::OURS, text.as_bytes());
        WAY_OUT.changed.notify_all();
    }

    /// Waits until all that was written is with whoever reads stderr: for ten seconds at most, and no longer than a second
    /// in which nothing was taken. Does not wait if nothing was written through this.
    pub fn finish(&mut self) {
        if replace(&mut self.has_written, false) {
            WAY_OUT.finish();
        }
    }
}

/// The way of one server's stderr. What waits is still written when this is dropped.
#[derive(Debug)]
pub(super) struct ServerWriter {
    writer: Writer,
    /// The beginning of a line whose rest is about to come.
    partial: Vec<u8>,
}

impl ServerWriter {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(Writer::OURS.0 + 1);
        Self { writer: Writer(NEXT.fetch_add(1, Ordering::Relaxed)), partial: Vec::new() }
    }

    /// Passes on what the server has written. More of it is about to come if `flows`.
    pub(super) fn pass_on(&mut self, bytes: &[u8], flows: bool) {
        if !bytes.is_empty() || !self.partial.is_empty() {
            self.pass_to(&mut WAY_OUT.state(), bytes, flows);
            WAY_OUT.changed.notify_all();
        }
    }

    fn pass_to(&mut self, state: &mut State, bytes: &[u8], flows: bool) {
        let whole = if flows { memrchr(b'\n', bytes).map_or(0, |end| end + 1) } else { bytes.len() };
        let (whole, rest) = bytes.split_at(whole);
        if !flows || !whole.is_empty() {
            state.push(self.writer, &take(&mut self.partial));
            state.push(self.writer, whole);
        }
        self.partial.extend_from_slice(rest);
        if self.partial.len() > LONGEST_LINE {
            state.push(self.writer, &take(&mut self.partial));
        }
    }

    /// Ready if more can be passed on without dropping anything, or if nothing is written any more.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = WAY_OUT.state();
        if state.is_broken || state.has_room(self.writer) {
            return Poll::Ready(());
        }
        state.shares.entry(self.writer).or_default().waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// How many pieces of anybody were written so far: it changes if stderr is read.
    pub(super) fn pieces() -> u64 {
        WAY_OUT.state().pieces
    }

    /// Waits until what was passed on is with whoever reads stderr, as [`Stderr::finish`].
    pub(super) fn finish(&mut self) {
        self.pass_on(&[], false);
        WAY_OUT.finish();
    }
}

impl Drop for ServerWriter {
    fn drop(&mut self) {
        self.pass_on(&[], false);
    }
}

/// Names who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Writer(u64);

impl Writer {
    /// This process itself, whose messages begin a line.
    const OURS: Self = Self(0);
}

struct WayOut {
    state: Mutex<State>,
    /// The thread waits here for bytes, and `finish` for what has become of them.
    changed: Condvar,
}

struct State {
    /// What the thread is to write, by number, in its order.
    queue: BTreeMap<u64, Stretch>,
    /// Of each writer that has something there, or waits for room.
    shares: BTreeMap<Writer, Share>,
    /// What the queue takes.
    waiting: usize,
    /// The thread has taken a piece and not yet written it.
    is_writing: bool,
    /// How many pieces were written.
    pieces: u64,
    /// How many bytes were dropped and not yet reported.
    dropped: u64,
    /// Who has queued the last bytes, if they are not the end of a line.
    mid_line: Option<Writer>,
    /// The thread was started.
    is_started: bool,
    /// Nothing can be written any more.
    is_broken: bool,
}

/// Bytes of one writer, at most a piece.
struct Stretch {
    of: Writer,
    bytes: Vec<u8>,
}

impl Stretch {
    const fn size(&self) -> usize {
        self.bytes.len() + OVERHEAD
    }
}

/// What a writer has in the queue.
#[derive(Debug, Default)]
struct Share {
    /// The numbers of its stretches, in order.
    stretches: VecDeque<u64>,
    /// What they take.
    waiting: usize,
    /// Wakes the writer once there may be room.
    waker: Option<Waker>,
}

impl WayOut {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self) {
        let begun = Instant::now();
        let mut state = self.state();
        while state.is_waiting() && begun.elapsed() < LONGEST_FLUSH {
            let pieces = state.pieces;
            let unchanged = |state: &mut State| state.is_waiting() && state.pieces == pieces;
            let waited = self.changed.wait_timeout_while(state, FLUSH_TIMEOUT, unchanged);
            let (next, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
            if timed_out.timed_out() {
                return;
            }
            state = next;
        }
    }

    fn write_all(&self, mut stderr: File) {
        let mut was_line_end = true;
        loop {
            let wait = |state: &mut State| state.queue.is_empty();
            let mut state = self.changed.wait_while(self.state(), wait).unwrap_or_else(PoisonError::into_inner);
            let piece = state.take_piece(was_line_end);
            drop(state);
            was_line_end = piece.last() == Some(&b'\n');
            let written = write_patiently(&mut stderr, &piece);
            let mut state = self.state();
            state.is_writing = false;
            state.pieces += 1;
            if written.is_err() {
                state.is_broken = true;
                state.queue = BTreeMap::new();
                state.waiting = 0;
            }
            state.wake();
            drop(state);
            self.changed.notify_all();
            if written.is_err() {
                return;
            }
        }
    }
}

impl State {
    const fn new() -> Self {
        Self {
            queue: BTreeMap::new(),
            shares: BTreeMap::new(),
            waiting: 0,
            is_writing: false,
            pieces: 0,
            dropped: 0,
            mid_line: None,
            is_started: false,
            is_broken: false,
        }
    }

    /// Whether something is yet to be written.
    fn is_waiting(&self) -> bool {
        self.is_writing || !self.queue.is_empty()
    }

    /// Whether a piece more of this writer is within the bounds.
    fn has_room(&self, of: Writer) -> bool {
        let own = self.shares.get(&of).map_or(0, |share| share.waiting);
        own + PIECE <= ROOM && self.waiting + PIECE <= ROOM_OF_ALL
    }

    /// Queues what somebody writes. It does not go on with the line of somebody else.
    fn push(&mut self, of: Writer, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        let breaks = self.mid_line.is_some_and(|other| other != of || of == Writer::OURS);
        self.mid_line = (*last != b'\n').then_some(of);
        if !replace(&mut self.is_started, true) {
            self.is_broken = start().is_err();
        }
        if self.is_broken {
            return;
        }
        if breaks {
            self.append(of, b"\n");
        }
        self.append(of, bytes);
        while let Some(of) = self.beyond_bound(of) {
            self.drop_oldest(of);
        }
    }

    fn append(&mut self, of: Writer, mut bytes: &[u8]) {
        let share = self.shares.entry(of).or_default();
        let mut last = self.queue.last_entry();
        let number = last.as_ref().map_or(0, |last| last.key() + 1);
        if let Some(last) = last.as_mut().map(|last| last.get_mut()).filter(|last| last.of == of) {
            let (now, later) = bytes.split_at(fitting(bytes, PIECE - last.bytes.len()).unwrap_or(0));
            last.bytes.extend_from_slice(now);
            self.waiting += now.len();
            share.waiting += now.len();
            bytes = later;
        }
        for number in number.. {
            if bytes.is_empty() {
                return;
            }
            let (now, later) = bytes.split_at(fitting(bytes, PIECE).unwrap_or(PIECE));
            let stretch = Stretch { of, bytes: now.to_vec() };
            self.waiting += stretch.size();
            share.waiting += stretch.size();
            share.stretches.push_back(number);
            self.queue.insert(number, stretch);
            bytes = later;
        }
    }

    /// The writer that must lose its oldest bytes, after this one has queued some.
    fn beyond_bound(&self, of: Writer) -> Option<Writer> {
        if self.shares.get(&of).is_some_and(|share| share.waiting > MAX_WAITING) {
            return Some(of);
        }
        let largest = || self.shares.iter().max_by_key(|(_, share)| share.waiting).map(|(of, _)| *of);
        (self.waiting > MAX_WAITING_OF_ALL).then(largest).flatten()
    }

    /// Drops the oldest bytes of a writer: whole lines, where there are such.
    fn drop_oldest(&mut self, of: Writer) {
        let oldest = self.shares.get(&of).and_then(|share| share.stretches.front().copied());
        if let Some(stretch) = oldest.and_then(|oldest| self.queue.remove(&oldest)) {
            self.dropped += stretch.bytes.len() as u64;
            self.leave(&stretch);
        }
    }

    /// Notes that a stretch has left the queue: the oldest of its writer.
    fn leave(&mut self, stretch: &Stretch) {
        self.waiting -= stretch.size();
        if let Some(share) = self.shares.get_mut(&stretch.of) {
            share.waiting -= stretch.size();
            share.stretches.pop_front();
            if share.waiting == 0 && share.waker.is_none() {
                self.shares.remove(&stretch.of);
            }
        }
    }

    /// Takes what is to be written next.
    fn take_piece(&mut self, is_line_start: bool) -> Vec<u8> {
        let Some((_, mut stretch)) = self.queue.pop_first() else { return Vec::new() };
        self.leave(&stretch);
        self.is_writing = true;
        let dropped = take(&mut self.dropped);
        if dropped > 0 {
            let line_break = if is_line_start { "" } else { "\n" };
            let words = "bytes of stderr were dropped here, because it was not read";
            let warning = format!("{line_break}warning: {dropped} {words}\n");
            stretch.bytes = [warning.as_bytes(), &stretch.bytes].concat();
        }
        stretch.bytes
    }

    /// Has all who wait for room look again.
    fn wake(&mut self) {
        self.shares.values_mut().filter_map(|share| share.waker.take()).for_each(Waker::wake);
        let is_broken = self.is_broken;
        self.shares.retain(|_, share| share.waiting > 0 && !is_broken);
    }
}

/// How many of these bytes go into so much room: all, or whole lines; `None` if there is no such line.
fn fitting(bytes: &[u8], room: usize) -> Option<usize> {
    if bytes.len() <= room { Some(bytes.len()) } else { memrchr(b'\n', &bytes[..room]).map(|end| end + 1) }
}

/// Writes all of it, also where whoever shares this stderr has made it one that does not wait.
fn write_patiently(stderr: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stderr.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            #[cfg(unix)]
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                use rustix::event::{PollFd, PollFlags, poll};
                let _ = poll(&mut [PollFd::new(&*stderr, PollFlags::OUT)], None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn start() -> io::Result<()> {
    #[cfg(unix)]
    let stderr = io::stderr().as_fd().try_clone_to_owned()?;
    #[cfg(windows)]
    let stderr = io::stderr().as_handle().try_clone_to_owned()?;
    thread::Builder::new().name("stderr".into()).spawn(move || WAY_OUT.write_all(stderr.into()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: Writer = Writer(1);

    /// What waits to be written; nothing is.
    fn unwritten() -> State {
        State { is_started: true, ..State::new() }
    }

    /// All that would be written.
    fn written(mut state: State) -> String {
        let mut all = Vec::new();
        while state.is_waiting() {
            let piece = state.take_piece(all.last().is_none_or(|byte| *byte == b'\n'));
            state.is_writing = false;
            assert!(piece.len() <= PIECE + 100);
            all.extend_from_slice(&piece);
        }
        assert!(state.waiting == 0 && state.shares.is_empty());
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn the_oldest_whole_lines_are_dropped_and_a_line_says_how_many_bytes() {
        let mut state = unwritten();
        let mut all = String::new();
        for number in 0..300_000 {
            let line = format!("line {number}\n");
            state.push(SERVER, line.as_bytes());
            all += &line;
            assert!(state.waiting <= MAX_WAITING);
        }
        let written = written(state);
        let (first, rest) = written.split_once('\n').unwrap();
        let dropped: usize = first
            .strip_prefix("warning: ")
            .and_then(|rest| rest.strip_suffix(" bytes of stderr were dropped here, because it was not read"))
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(rest, &all[dropped..]);
        assert!(rest.starts_with("line ") && rest.len() > MAX_WAITING - 2 * PIECE, "{}", rest.len());
    }

    #[test]
    fn more_at_once_than_may_wait_leaves_its_end() {
        let mut state = unwritten();
        let all = [vec![b'x'; 3 * MAX_WAITING], b"the end".to_vec()].concat();
        state.push(SERVER, &all);
        assert!(state.waiting <= MAX_WAITING && state.waiting > MAX_WAITING - 2 * PIECE);
        assert!(written(state).ends_with("xthe end"));
    }

    #[test]
    fn pieces_end_with_lines_where_there_are_lines() {
        let mut state = unwritten();
        state.push(SERVER, "one\n".repeat(5000).as_bytes());
        state.push(SERVER, b"no end");
        let piece = state.take_piece(true);
        assert!(piece.len() <= PIECE && piece.ends_with(b"one\n"), "{}", piece.len());
        assert!(state.take_piece(true).ends_with(b"one\nno end"));
    }

    #[test]
    fn a_message_of_ours_begins_a_line_and_the_memory_of_a_flood_is_given_back() {
        let mut state = unwritten();
        state.push(SERVER, b"password: ");
        state.push(Writer::OURS, b"error: ours\n");
        state.push(SERVER, &vec![b'\n'; MAX_WAITING / 2]);
        assert_eq!(state.take_piece(true), b"password: ");
        assert_eq!(state.take_piece(false), b"\nerror: ours\n");
        while !state.queue.is_empty() {
            state.take_piece(true);
        }
        assert!(state.waiting == 0 && state.shares.is_empty());
    }

    #[test]
    fn a_line_that_comes_in_parts_is_not_broken_by_the_lines_of_others() {
        let mut state = unwritten();
        let [mut one, mut other] = [(); 2].map(|()| ServerWriter::new());
        one.pass_to(&mut state, b"first\nbegun", true);
        other.pass_to(&mut state, b"of another\n", false);
        state.push(Writer::OURS, b"warning: ours\n");
        one.pass_to(&mut state, b", ended\n", false);
        // Of this one no more comes soon.
        one.pass_to(&mut state, b"name: ", false);
        other.pass_to(&mut state, b"again\n", false);
        // And this one is too long to wait.
        one.pass_to(&mut state, &[b'x'; LONGEST_LINE + 1], true);
        let long = "x".repeat(LONGEST_LINE + 1);
        let all = format!("first\nof another\nwarning: ours\nbegun, ended\nname: \nagain\n{long}");
        assert_eq!(written(state), all);
    }

    #[test]
    fn the_flood_of_one_drops_nothing_of_others_and_holds_none_of_them_up() {
        let mut state = unwritten();
        state.push(Writer(2), b"the cause\n");
        (0..2000).for_each(|_| state.push(SERVER, &[b'x'; 10_000]));
        assert!(!state.has_room(SERVER) && state.has_room(Writer(2)));
        assert!(state.waiting <= MAX_WAITING + 100, "{}", state.waiting);
        let written = written(state);
        assert!(written.lines().any(|line| line == "the cause"));
    }

    #[test]
    fn many_writers_together_have_a_bound_and_the_largest_lose() {
        let mut state = unwritten();
        state.push(Writer(1000), b"the cause\n");
        // Short lines in turn, which are memory, too.
        for round in 0..2500 {
            (1..=50).for_each(|writer| state.push(Writer(writer), format!("{round}\n").as_bytes()));
            assert!(state.waiting <= MAX_WAITING_OF_ALL);
        }
        let memory: usize = state.queue.values().map(|one| one.bytes.capacity() + size_of::<Stretch>()).sum();
        assert!(memory <= MAX_WAITING_OF_ALL, "{memory}");
        (1..=50).for_each(|writer| state.push(Writer(writer), &[b'x'; PIECE * 20]));
        assert!(state.waiting <= MAX_WAITING_OF_ALL && !state.has_room(Writer(1000)));
        assert!(state.shares.values().all(|share| share.waiting <= MAX_WAITING));
        let written = written(state);
        assert!(written.lines().any(|line| line == "the cause"), "one that has little loses nothing");
    }
}
