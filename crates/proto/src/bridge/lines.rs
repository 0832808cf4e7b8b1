//! Lines that wait to be written to the server; a request of which no byte has left can be taken back (invariant 2).

use std::collections::VecDeque;

/// Lines in their order, and how much of the first has left.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    left: usize,
    /// Where each line ends, and the id of the request that it is, if it is one of a client's.
    ends: VecDeque<(usize, Option<i64>)>,
}

impl Lines {
    pub(super) fn pending(&self) -> &[u8] {
        &self.bytes[self.left..]
    }

    pub(super) fn push(&mut self, request: Option<i64>, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.bytes.push(b'\n');
        self.ends.push_back((self.bytes.len(), request));
    }

    /// Records that so many bytes have left.
    pub(super) fn written(&mut self, bytes: usize) {
        self.left += bytes;
        while self.ends.front().is_some_and(|(end, _)| *end <= self.left) {
            self.ends.pop_front();
        }
        if self.ends.is_empty() {
            *self = Self::default();
        }
    }

    /// Takes a request back; `false` if any of it has left.
    pub(super) fn withdraw(&mut self, request: i64) -> bool {
        let Some(at) = self.ends.iter().position(|(_, of)| *of == Some(request)) else { return false };
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].0);
        // What was written before the first that still waits is kept until all has left.
        let start = if at == 0 { self.first_start() } else { start };
        if start < self.left {
            return false;
        }
        let (end, _) = self.ends[at];
        self.bytes.drain(start..end);
        self.ends.remove(at);
        self.ends.iter_mut().skip(at).for_each(|(later, _)| *later -= end - start);
        if self.ends.is_empty() {
            *self = Self::default();
        }
        true
    }

    /// Where the first line that has not left as a whole begins.
    fn first_start(&self) -> usize {
        self.bytes[..self.left].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
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
}
