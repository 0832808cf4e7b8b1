//! Everything that is written to this process's stderr while a link is up.
//!
//! Stderr may be a pipe that is not read. So a thread writes, and only that thread blocks. What a server wrote and messages
//! of ours go the same way: they keep their order, and a line of ours does not stand in the middle of another.

#[cfg(unix)]
use std::os::fd::AsFd as _;
#[cfg(windows)]
use std::os::windows::io::AsHandle as _;
use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Write as _},
    mem::{replace, take},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use memchr::{memchr, memrchr};

/// The most bytes that wait to be written, before a server waits for room.
const ROOM: usize = 1024 * 1024;

/// The most bytes that wait at all: also what the largest pipe still holds of a server that has ended. Of more, the oldest
/// are dropped.
const MAX_WAITING: usize = 2 * ROOM;

/// The most bytes written at once.
const PIECE: usize = 16 * 1024;

/// What is dropped ends with a line, if that ends so soon.
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

    /// Writes a message, sooner or later. While 2 MiB wait to be read, the oldest bytes are dropped for it, and a line says
    /// how many.
    pub fn write(&mut self, text: &str) {
        self.has_written = true;
        let mut state = WAY_OUT.state();
        if state.is_flowing && state.is_mid_line && state.held.len() < LONGEST_LINE {
            // The rest of that line is about to come.
            state.held.extend_from_slice(text.as_bytes());
        } else {
            state.end_line();
            state.push(text.as_bytes());
        }
        drop(state);
        WAY_OUT.changed.notify_all();
    }

    /// Waits until all that was written is with whoever reads stderr: for ten seconds at most, and no longer than a second
    /// in which nothing was taken. Does not wait if nothing was written through this.
    pub fn finish(&mut self) {
        if !replace(&mut self.has_written, false) {
            return;
        }
        let begun = Instant::now();
        let mut state = WAY_OUT.state();
        state.release_held();
        WAY_OUT.changed.notify_all();
        while state.is_waiting() && begun.elapsed() < LONGEST_FLUSH {
            let pieces = state.pieces;
            let unchanged = |state: &mut State| state.is_waiting() && state.pieces == pieces;
            let waited = WAY_OUT.changed.wait_timeout_while(state, FLUSH_TIMEOUT, unchanged);
            let (next, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
            if timed_out.timed_out() {
                return;
            }
            state = next;
        }
    }

    /// Passes on what a server has written. More of it is about to come if `flows`.
    pub(super) fn pass_on(&mut self, bytes: &[u8], flows: bool) {
        let mut state = WAY_OUT.state();
        let line_end = memchr(b'\n', bytes).filter(|_| !state.held.is_empty()).map_or(0, |end| end + 1);
        let (line, rest) = bytes.split_at(line_end);
        if !line.is_empty() {
            state.push(line);
            state.release_held();
        }
        state.push(rest);
        state.is_flowing = flows;
        if !flows {
            state.release_held();
        }
        self.has_written = true;
        drop(state);
        WAY_OUT.changed.notify_all();
    }

    /// Ready if more can be passed on without dropping anything, or if nothing is written any more.
    pub(super) fn poll_room(cx: &mut Context<'_>) -> Poll<()> {
        let mut state = WAY_OUT.state();
        if state.is_broken || state.queue.len() + PIECE <= ROOM {
            return Poll::Ready(());
        }
        if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// How many pieces were written so far: it changes if stderr is read.
    pub(super) fn pieces() -> u64 {
        WAY_OUT.state().pieces
    }
}

struct WayOut {
    state: Mutex<State>,
    /// The thread waits here for bytes, and `finish` for what has become of them.
    changed: Condvar,
}

struct State {
    /// What the thread is to write.
    queue: VecDeque<u8>,
    /// The thread has taken a piece and not yet written it.
    is_writing: bool,
    /// How many pieces were written.
    pieces: u64,
    /// How many bytes were dropped and not yet reported.
    dropped: u64,
    /// What was queued last is not the end of a line.
    is_mid_line: bool,
    /// A server's stderr is being read, and more of it is there.
    is_flowing: bool,
    /// Messages of ours that wait for the end of a server's line.
    held: Vec<u8>,
    /// The thread was started.
    is_started: bool,
    /// Nothing can be written any more.
    is_broken: bool,
    /// Wakes who waits for room.
    waiting: Vec<Waker>,
}

impl WayOut {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all(&self, mut stderr: File) {
        let mut piece = Vec::new();
        let mut was_line_end = true;
        loop {
            let wait = |state: &mut State| state.queue.is_empty();
            let mut state = self.changed.wait_while(self.state(), wait).unwrap_or_else(PoisonError::into_inner);
            state.take_piece(&mut piece, was_line_end);
            drop(state);
            was_line_end = piece.last() == Some(&b'\n');
            let written = write_patiently(&mut stderr, &piece);
            let mut state = self.state();
            state.is_writing = false;
            state.pieces += 1;
            if written.is_err() {
                state.is_broken = true;
                state.queue = VecDeque::new();
                state.held = Vec::new();
            }
            take(&mut state.waiting).into_iter().for_each(Waker::wake);
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
            queue: VecDeque::new(),
            is_writing: false,
            pieces: 0,
            dropped: 0,
            is_mid_line: false,
            is_flowing: false,
            held: Vec::new(),
            is_started: false,
            is_broken: false,
            waiting: Vec::new(),
        }
    }

    /// Whether something is yet to be written.
    fn is_waiting(&self) -> bool {
        self.is_writing || !self.queue.is_empty()
    }

    fn push(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.is_mid_line = *last != b'\n';
        if !replace(&mut self.is_started, true) {
            self.is_broken = start().is_err();
        }
        if self.is_broken {
            return;
        }
        self.queue.extend(bytes);
        let excess = self.queue.len().saturating_sub(MAX_WAITING);
        if excess > 0 {
            let line_end = self.queue.range(excess - 1..).take(LONGEST_LINE).position(|byte| *byte == b'\n');
            let dropped = excess + line_end.unwrap_or(0);
            self.queue.drain(..dropped);
            self.dropped += dropped as u64;
        }
    }

    /// Queues the messages that waited for a server's line, which they end if need be.
    fn release_held(&mut self) {
        if !self.held.is_empty() {
            self.end_line();
            let held = take(&mut self.held);
            self.push(&held);
        }
    }

    fn end_line(&mut self) {
        if self.is_mid_line {
            self.push(b"\n");
        }
    }

    /// Takes what is to be written next: whole lines, where there are such.
    fn take_piece(&mut self, piece: &mut Vec<u8>, is_line_start: bool) {
        piece.clear();
        if self.dropped > 0 {
            let line_break = if is_line_start { "" } else { "\n" };
            let dropped = take(&mut self.dropped);
            piece.extend_from_slice(
                format!("{line_break}warning: {dropped} bytes of stderr were dropped here, because it was not read\n")
                    .as_bytes(),
            );
        }
        let told = piece.len();
        let most = self.queue.len().min(PIECE);
        piece.extend(self.queue.range(..most));
        if most < self.queue.len()
            && let Some(end) = memrchr(b'\n', &piece[told..])
        {
            piece.truncate(told + end + 1);
        }
        self.is_writing = true;
        self.queue.drain(..piece.len() - told);
        if self.queue.is_empty() && self.queue.capacity() > 4 * PIECE {
            self.queue = VecDeque::new();
        }
    }
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

    /// What waits to be written; nothing is.
    fn unwritten() -> State {
        State { is_started: true, ..State::new() }
    }

    /// All that would be written.
    fn written(mut state: State) -> String {
        let (mut all, mut piece) = (Vec::new(), Vec::new());
        while state.is_waiting() {
            state.take_piece(&mut piece, all.last().is_none_or(|byte| *byte == b'\n'));
            state.is_writing = false;
            assert!(piece.len() <= PIECE + 100);
            all.extend_from_slice(&piece);
        }
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn the_oldest_whole_lines_are_dropped_and_a_line_says_how_many_bytes() {
        let mut state = unwritten();
        let mut all = String::new();
        for number in 0..300_000 {
            let line = format!("line {number}\n");
            state.push(line.as_bytes());
            all += &line;
            assert!(state.queue.len() <= MAX_WAITING);
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
        assert!(rest.starts_with("line ") && rest.len() > MAX_WAITING - 20, "{}", rest.len());
    }

    #[test]
    fn more_at_once_than_may_wait_leaves_its_end() {
        let mut state = unwritten();
        state.push(&vec![b'x'; 3 * MAX_WAITING]);
        assert_eq!((state.queue.len(), state.dropped), (MAX_WAITING, 2 * MAX_WAITING as u64));
    }

    #[test]
    fn pieces_end_with_lines_where_there_are_lines() {
        let mut state = unwritten();
        state.push("one\n".repeat(5000).as_bytes());
        state.push(b"no end");
        let mut piece = Vec::new();
        state.take_piece(&mut piece, true);
        assert!(piece.len() <= PIECE && piece.ends_with(b"one\n"), "{}", piece.len());
        state.take_piece(&mut piece, true);
        assert!(piece.ends_with(b"one\nno end"));
    }

    #[test]
    fn a_message_of_ours_begins_a_line_and_the_memory_of_a_flood_is_given_back() {
        let mut state = unwritten();
        state.push(b"password: ");
        state.end_line();
        state.push(b"error: ours\n");
        state.held.extend_from_slice(b"warning: ours\n");
        state.push(b"half a line");
        state.release_held();
        state.push(&vec![b'\n'; MAX_WAITING / 2]);
        let mut piece = Vec::new();
        state.take_piece(&mut piece, true);
        assert!(piece.starts_with(b"password: \nerror: ours\nhalf a line\nwarning: ours\n"));
        while !state.queue.is_empty() {
            state.take_piece(&mut piece, true);
        }
        assert_eq!(state.queue.capacity(), 0);
    }
}
