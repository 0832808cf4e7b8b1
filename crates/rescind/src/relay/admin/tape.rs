//! What each side sent lately, as it was read.
//!
//! One copy a read, and nothing is looked into: messages are found again only when somebody asks for those of a
//! request. So that they can be, a tape begins where a message does.

use std::collections::VecDeque;

use rescind_proto::{
    framing::{Chunk, Decoder},
    side::{Side, Sides},
    time::Instant,
};

/// Bytes that are kept of each side.
const KEPT: usize = 4 * 1024 * 1024;

/// Reads that are kept of each side.
const READS: usize = 64 * 1024;

/// Both sides' tapes.
#[derive(Debug, Default)]
pub(super) struct Tape(Sides<Reel>);

/// One side's.
#[derive(Debug, Default)]
struct Reel {
    bytes: VecDeque<u8>,
    reads: VecDeque<Read>,
}

#[derive(Clone, Copy, Debug)]
struct Read {
    at: Instant,
    length: usize,
    /// A message begins here.
    begins: bool,
}

impl Tape {
    /// `side` sent these bytes; `begins` says whether they begin with a message's beginning.
    #[cold]
    pub(super) fn record(&mut self, now: Instant, side: Side, begins: bool, bytes: &[u8]) {
        self.0[side].record(Read { at: now, length: bytes.len(), begins }, bytes);
    }

    /// Since when everything is there; `None` if nothing is.
    pub(super) fn since(&self) -> Option<Instant> {
        let firsts = Side::BOTH.into_iter().filter_map(|side| self.0[side].reads.front());
        firsts.map(|read| read.at).max()
    }

    /// The messages of `side`, in their order, with the time at which their ends arrived.
    pub(super) fn messages(&self, side: Side, mut see: impl FnMut(Instant, &[u8])) {
        let reel = &self.0[side];
        let mut decoder = Decoder::new(None, KEPT);
        let mut begin = 0;
        for read in &reel.reads {
            let range = begin..begin + read.length;
            begin = range.end;
            let (head, tail) = reel.bytes.as_slices();
            let cut = |part: &'_ [u8], start: usize| {
                let from = range.start.clamp(start, start + part.len()) - start;
                let to = range.end.clamp(start, start + part.len()) - start;
                from..to
            };
            for mut bytes in [&head[cut(head, 0)], &tail[cut(tail, head.len())]] {
                while let Some(chunk) = decoder.decode(&mut bytes) {
                    if let Chunk::Frame(framed) = chunk {
                        see(read.at, framed.body());
                    }
                }
            }
        }
    }
}

impl Reel {
    fn record(&mut self, read: Read, bytes: &[u8]) {
        if self.reads.is_empty() && !read.begins {
            return;
        }
        if self.bytes.len() + bytes.len() > KEPT || self.reads.len() == READS {
            self.forget(bytes.len());
            if self.reads.is_empty() && !read.begins {
                return;
            }
        }
        self.reads.push_back(read);
        self.bytes.extend(bytes);
    }

    /// Makes room for `more` bytes: the oldest reads go, and then what would be a message without its beginning.
    fn forget(&mut self, more: usize) {
        let mut gone = 0;
        while let Some(first) = self.reads.front() {
            let full = self.bytes.len() - gone + more > KEPT || self.reads.len() >= READS;
            if !full && first.begins {
                break;
            }
            gone += first.length;
            self.reads.pop_front();
        }
        self.bytes.drain(..gone);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::after_origin(Duration::from_millis(millis))
    }

    fn messages(tape: &Tape, side: Side) -> Vec<(Instant, String)> {
        let mut found = Vec::new();
        let see = |at, body: &[u8]| found.push((at, String::from_utf8_lossy(body).into_owned()));
        tape.messages(side, see);
        found
    }

    #[test]
    fn messages_are_found_however_they_were_read() {
        let mut tape = Tape::default();
        assert_eq!(tape.since(), None);
        tape.record(at(1), Side::Client, false, b"end\n");
        tape.record(at(2), Side::Client, true, b"one\ntw");
        tape.record(at(3), Side::Client, false, b"o\n");
        tape.record(at(4), Side::Server, true, b"three\n");
        let client = [(at(2), "one".to_owned()), (at(3), "two".to_owned())];
        assert_eq!(messages(&tape, Side::Client), client);
        assert_eq!(messages(&tape, Side::Server), [(at(4), "three".to_owned())]);
        assert_eq!(tape.since(), Some(at(4)));
    }

    #[test]
    fn the_oldest_goes_and_no_message_is_left_without_its_beginning() {
        let mut tape = Tape::default();
        let half = vec![b'x'; KEPT / 2];
        tape.record(at(1), Side::Client, true, &half);
        tape.record(at(2), Side::Client, false, b"x\nshort");
        tape.record(at(3), Side::Client, false, b"\n");
        tape.record(at(4), Side::Client, true, b"kept\n");
        assert_eq!(messages(&tape, Side::Client).len(), 3);
        tape.record(at(5), Side::Client, true, &half);
        assert_eq!(messages(&tape, Side::Client), [(at(4), "kept".to_owned())]);
        assert_eq!(tape.since(), Some(at(4)));
    }

    #[test]
    fn a_message_longer_than_the_tape_is_not_kept() {
        let mut tape = Tape::default();
        tape.record(at(1), Side::Client, true, &vec![b'x'; KEPT]);
        tape.record(at(2), Side::Client, false, b"x\n");
        assert_eq!(tape.since(), None);
        tape.record(at(3), Side::Client, true, b"next\n");
        assert_eq!(messages(&tape, Side::Client), [(at(3), "next".to_owned())]);
    }

    #[test]
    fn many_short_reads_are_bounded_too() {
        let mut tape = Tape::default();
        for read in 0..READS as u64 + 10 {
            tape.record(at(read), Side::Server, true, b"{}\n");
        }
        assert_eq!(messages(&tape, Side::Server).len(), READS);
        assert_eq!(tape.since(), Some(at(10)));
    }
}
