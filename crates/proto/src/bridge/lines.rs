//! Lines that wait to be written to the server; a request of which no byte has left can be taken back (invariant 2).

use std::collections::VecDeque;

/// Lines in their order, and how much of the first has left.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// What of them has left.
    left: usize,
    /// Where the first line begins that has not left as a whole.
    first: usize,
    /// Where each line ends, and the id of the request that it is, if it is one of a client's.
    ends: VecDeque<(usize, Option<i64>)>,
    /// Nobody reads them any more.
    is_closed: bool,
}

/// Bytes that have left and are kept until there are more of them.
const KEPT: usize = 64 * 1024;

impl Lines {
    pub(super) fn pending(&self) -> &[u8] {
        &self.bytes[self.left..]
    }

    pub(super) fn push(&mut self, request: Option<i64>, write: impl FnOnce(&mut Vec<u8>)) {
        if self.is_closed {
            return;
        }
        write(&mut self.bytes);
        self.bytes.push(b'\n');
        self.ends.push_back((self.bytes.len(), request));
    }

    /// Drops what waits, and what comes.
    pub(super) fn close(&mut self) {
        *self = Self { is_closed: true, ..Self::default() };
    }

    /// Whether nobody reads them any more.
    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Records that so many bytes have left.
    pub(super) fn written(&mut self, bytes: usize) {
        self.left += bytes;
        while let Some((end, _)) = self.ends.front().filter(|(end, _)| *end <= self.left) {
            self.first = *end;
            self.ends.pop_front();
        }
        if self.ends.is_empty() {
            *self = Self::default();
        } else if self.first > KEPT && self.first > self.bytes.len() / 2 {
            // There may always be something that waits.
            self.remove(0, self.first, 0);
            self.left -= self.first;
            self.first = 0;
            self.bytes.shrink_to(2 * self.bytes.len());
        }
    }

    /// Whether a request, or the end of it, has not left.
    pub(super) fn wait_with(&self, request: i64) -> bool {
        self.ends.iter().any(|(_, of)| *of == Some(request))
    }

    /// Takes a request back; `false` if any of it has left.
    pub(super) fn withdraw(&mut self, request: i64) -> bool {
        let Some(at) = self.ends.iter().position(|(_, of)| *of == Some(request)) else { return false };
        let start = at.checked_sub(1).map_or(self.first, |before| self.ends[before].0);
        if start < self.left {
            return false;
        }
        let (end, _) = self.ends[at];
        self.ends.remove(at);
        self.remove(start, end, at);
        if self.ends.is_empty() {
            *self = Self::default();
        }
        true
    }

    /// Removes bytes; the lines from the `at`th move up.
    fn remove(&mut self, start: usize, end: usize, at: usize) {
        self.bytes.drain(start..end);
        self.ends.iter_mut().skip(at).for_each(|(later, _)| *later -= end - start);
    }

    /// Bytes of memory that it holds.
    pub(super) fn held(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<(usize, Option<i64>)>()
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_back_unless_it_has_begun_to_leave() {
        let mut lines = Lines::default();
        for id in 1..=4 {
            lines.push(Some(id), |out| out.extend_from_slice(format!("line {id}").as_bytes()));
        }
        lines.written(7 + 2);
        assert!(!lines.withdraw(1) && !lines.withdraw(2), "the one has left, and the other begun to");
        assert!(lines.withdraw(3) && !lines.withdraw(3));
        assert_eq!(lines.pending(), b"ne 2\nline 4\n");
        lines.written(5);
        assert!(lines.withdraw(4));
        assert_eq!((lines.pending(), lines.len(), lines.held()), (&b""[..], 0, 0));
    }

    #[test]
    fn what_has_left_is_not_kept_while_something_always_waits() {
        let mut lines = Lines::default();
        let line = |out: &mut Vec<u8>| out.extend_from_slice(&[b'x'; 999]);
        lines.push(Some(0), line);
        for id in 1..2000 {
            lines.push(Some(id), line);
            lines.written(1000);
            assert!(lines.held() < 6 * KEPT, "{} bytes for one line", lines.held());
        }
        assert_eq!(lines.pending().len(), 1000);
        lines.written(1);
        assert!(!lines.withdraw(1999), "it has begun");
    }
}
