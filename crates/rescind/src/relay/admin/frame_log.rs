//! The bytes that each side sent most recently, read by read.
//!
//! Logging copies bytes and parses nothing; messages are decoded only when a client asks for those of a request. For
//! that, the log of a side always begins where a message begins.

use std::collections::VecDeque;

use rescind_proto::{
    framing::{Chunk, Decoder},
    side::{Side, Sides},
    time::Instant,
};

/// Bytes kept of each side.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Reads kept of each side.
const MAX_READS: usize = 64 * 1024;

/// What both sides sent.
#[derive(Debug, Default)]
pub(super) struct FrameLog(Sides<SideLog>);

/// What one side sent.
#[derive(Debug, Default)]
struct SideLog {
    bytes: VecDeque<u8>,
    reads: VecDeque<ReadChunk>,
}

#[derive(Clone, Copy, Debug)]
struct ReadChunk {
    at: Instant,
    length: usize,
    /// A message begins here.
    begins: bool,
}

impl FrameLog {
    /// Logs bytes that `side` sent; `begins` says whether a message begins with the first of them.
    #[cold]
    pub(super) fn record(&mut self, now: Instant, side: Side, begins: bool, bytes: &[u8]) {
        self.0[side].record(ReadChunk { at: now, length: bytes.len(), begins }, bytes);
    }

    /// Since when the log is complete; `None` if it is empty.
    pub(super) fn since(&self) -> Option<Instant> {
        let firsts = Side::BOTH.into_iter().filter_map(|side| self.0[side].reads.front());
        firsts.map(|read| read.at).max()
    }

    /// Visits the messages of `side` in order, each with the time at which its end arrived.
    pub(super) fn messages(&self, side: Side, mut visit: impl FnMut(Instant, &[u8])) {
        let side_log = &self.0[side];
        let mut decoder = Decoder::new(None, MAX_BYTES);
        let mut begin = 0;
        for read in &side_log.reads {
            let range = begin..begin + read.length;
            begin = range.end;
            let (head, tail) = side_log.bytes.as_slices();
            let cut = |part: &'_ [u8], start: usize| {
                let from = range.start.clamp(start, start + part.len()) - start;
                let to = range.end.clamp(start, start + part.len()) - start;
                from..to
            };
            for mut bytes in [&head[cut(head, 0)], &tail[cut(tail, head.len())]] {
                while let Some(chunk) = decoder.decode(&mut bytes) {
                    if let Chunk::Frame(framed) = chunk {
                        visit(read.at, framed.body());
                    }
                }
            }
        }
    }
}

impl SideLog {
    fn record(&mut self, read: ReadChunk, bytes: &[u8]) {
        if self.reads.is_empty() && !read.begins {
            return;
        }
        if self.bytes.len() + bytes.len() > MAX_BYTES || self.reads.len() == MAX_READS {
            self.discard(bytes.len());
            if self.reads.is_empty() && !read.begins {
                return;
            }
        }
        self.reads.push_back(read);
        self.bytes.extend(bytes);
    }

    /// Makes room for `more` bytes: discards the oldest reads, then the rest of a message that lost its beginning.
    fn discard(&mut self, more: usize) {
        let mut gone = 0;
        while let Some(first) = self.reads.front() {
            let full = self.bytes.len() - gone + more > MAX_BYTES || self.reads.len() >= MAX_READS;
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

    fn messages(log: &FrameLog, side: Side) -> Vec<(Instant, String)> {
        let mut found = Vec::new();
        let visit = |at, body: &[u8]| found.push((at, String::from_utf8_lossy(body).into_owned()));
        log.messages(side, visit);
        found
    }

    #[test]
    fn messages_are_found_however_they_were_read() {
        let mut log = FrameLog::default();
        assert_eq!(log.since(), None);
        log.record(at(1), Side::Client, false, b"end\n");
        log.record(at(2), Side::Client, true, b"one\ntw");
        log.record(at(3), Side::Client, false, b"o\n");
        log.record(at(4), Side::Server, true, b"three\n");
        let client = [(at(2), "one".to_owned()), (at(3), "two".to_owned())];
        assert_eq!(messages(&log, Side::Client), client);
        assert_eq!(messages(&log, Side::Server), [(at(4), "three".to_owned())]);
        assert_eq!(log.since(), Some(at(4)));
    }

    #[test]
    fn the_oldest_goes_and_no_message_is_left_without_its_beginning() {
        let mut log = FrameLog::default();
        let half = vec![b'x'; MAX_BYTES / 2];
        log.record(at(1), Side::Client, true, &half);
        log.record(at(2), Side::Client, false, b"x\nshort");
        log.record(at(3), Side::Client, false, b"\n");
        log.record(at(4), Side::Client, true, b"kept\n");
        assert_eq!(messages(&log, Side::Client).len(), 3);
        log.record(at(5), Side::Client, true, &half);
        assert_eq!(messages(&log, Side::Client), [(at(4), "kept".to_owned())]);
        assert_eq!(log.since(), Some(at(4)));
    }

    #[test]
    fn a_message_longer_than_the_log_is_not_kept() {
        let mut log = FrameLog::default();
        log.record(at(1), Side::Client, true, &vec![b'x'; MAX_BYTES]);
        log.record(at(2), Side::Client, false, b"x\n");
        assert_eq!(log.since(), None);
        log.record(at(3), Side::Client, true, b"next\n");
        assert_eq!(messages(&log, Side::Client), [(at(3), "next".to_owned())]);
    }

    #[test]
    fn many_short_reads_are_bounded_too() {
        let mut log = FrameLog::default();
        for read in 0..MAX_READS as u64 + 10 {
            log.record(at(read), Side::Server, true, b"{}\n");
        }
        assert_eq!(messages(&log, Side::Server).len(), MAX_READS);
        assert_eq!(log.since(), Some(at(10)));
    }
}
