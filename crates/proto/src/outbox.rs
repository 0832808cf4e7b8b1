//! What waits to be written to one side: whole frames, in order, some of which may still be taken back.
//!
//! Two lanes. Frames go out in the order they were pushed, except that a
//! cancel may pass whole frames that have not begun (D13). A frame of which no
//! byte has left can be withdrawn (D13, D15); one that has begun never can.

use std::collections::VecDeque;

/// Names a frame of the ordered lane for as long as it waits.
pub(crate) type Ticket = u64;

/// Frames at least this long that already own their bytes are kept as they are instead of copied.
const OWN: usize = 32 * 1024;

/// Capacity kept while idle; a larger buffer is given back once drained.
const KEEP: usize = 256 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct Outbox<T> {
    /// Bytes of ordered `Body::Bulk` frames, back to back.
    bulk: Vec<u8>,
    /// Where the first ordered frame's bytes start in `bulk`.
    bulk_head: usize,
    ordered: VecDeque<Frame<T>>,
    /// Ticket of `ordered[0]`.
    first: Ticket,
    urgent: VecDeque<Frame<T>>,
    /// Bytes already written of the frame being written.
    begun: usize,
    /// Whether the frame being written is the urgent head; meaningless while `begun` is 0.
    begun_urgent: bool,
    /// Ordered frames that are withdrawn or own their bytes, and so break the run of `bulk`.
    breaks: usize,
    /// Unwritten bytes in both lanes.
    debt: usize,
}

#[derive(Clone, Debug)]
struct Frame<T> {
    body: Body,
    tag: T,
}

#[derive(Clone, Debug)]
enum Body {
    Bulk(usize),
    Own(Vec<u8>),
    /// Taken back; the count is of its bytes still lying in `bulk`.
    Withdrawn(usize),
}

impl Body {
    const fn len(&self) -> usize {
        match self {
            Self::Bulk(len) => *len,
            Self::Own(bytes) => bytes.len(),
            Self::Withdrawn(_) => 0,
        }
    }
}

impl<T> Outbox<T> {
    pub(crate) const fn new() -> Self {
        Self {
            bulk: Vec::new(),
            bulk_head: 0,
            ordered: VecDeque::new(),
            first: 0,
            urgent: VecDeque::new(),
            begun: 0,
            begun_urgent: false,
            breaks: 0,
            debt: 0,
        }
    }

    /// Unwritten bytes.
    pub(crate) const fn debt(&self) -> usize {
        self.debt
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.debt == 0
    }

    /// Queues a frame that `write` appends to the buffer it is given.
    pub(crate) fn push(&mut self, tag: T, write: impl FnOnce(&mut Vec<u8>)) -> Ticket {
        let before = self.bulk.len();
        write(&mut self.bulk);
        let len = self.bulk.len() - before;
        self.enqueue(Body::Bulk(len), tag)
    }

    /// Queues a frame that owns its bytes.
    pub(crate) fn push_owned(&mut self, tag: T, bytes: Vec<u8>) -> Ticket {
        if bytes.len() < OWN {
            return self.push(tag, |out| out.extend_from_slice(&bytes));
        }
        self.breaks += 1;
        self.enqueue(Body::Own(bytes), tag)
    }

    /// Queues a frame ahead of every whole frame that has not begun.
    pub(crate) fn push_urgent(&mut self, tag: T, bytes: Vec<u8>) {
        self.debt += bytes.len();
        self.urgent.push_back(Frame { body: Body::Own(bytes), tag });
    }

    fn enqueue(&mut self, body: Body, tag: T) -> Ticket {
        self.debt += body.len();
        self.ordered.push_back(Frame { body, tag });
        self.first + self.ordered.len() as u64 - 1
    }

    /// Takes back a frame of which no byte has been written; `None` if it is too late.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) -> Option<()> {
        let place = usize::try_from(ticket.checked_sub(self.first)?).ok()?;
        if place == 0 && self.begun > 0 && !self.begun_urgent {
            return None;
        }
        let frame = self.ordered.get_mut(place)?;
        self.debt -= frame.body.len();
        frame.body = match frame.body {
            Body::Bulk(len) => {
                self.breaks += 1;
                Body::Withdrawn(len)
            }
            Body::Own(_) => Body::Withdrawn(0),
            Body::Withdrawn(_) => return None,
        };
        Some(())
    }

    /// Whether any byte of this frame has been written, or all of it.
    pub(crate) fn has_begun(&self, ticket: Ticket) -> bool {
        ticket < self.first || (ticket == self.first && self.begun > 0 && !self.begun_urgent)
    }

    /// The next bytes to write: as many whole frames as lie side by side.
    pub(crate) fn pending(&self) -> &[u8] {
        let ordered_begun = self.begun > 0 && !self.begun_urgent;
        if !ordered_begun && let Some(frame) = self.urgent.front() {
            return match &frame.body {
                Body::Own(bytes) => &bytes[self.begun..],
                Body::Bulk(_) | Body::Withdrawn(_) => &[],
            };
        }
        if self.breaks == 0 && self.urgent.is_empty() {
            return &self.bulk[self.bulk_head + if ordered_begun { self.begun } else { 0 }..];
        }
        let mut start = self.bulk_head;
        let mut end = None;
        for frame in &self.ordered {
            match &frame.body {
                Body::Withdrawn(len) if end.is_none() => start += len,
                Body::Own(bytes) if end.is_none() => {
                    return &bytes[if ordered_begun { self.begun } else { 0 }..];
                }
                Body::Withdrawn(_) | Body::Own(_) => break,
                Body::Bulk(len) => {
                    end = Some(end.unwrap_or(start) + len);
                    // An urgent frame waits for the frame that has begun, and for no other.
                    if !self.urgent.is_empty() {
                        break;
                    }
                }
            }
        }
        let begun = if ordered_begun { self.begun } else { 0 };
        end.map_or(&[], |end| &self.bulk[start + begun..end])
    }

    /// Records that the first `bytes` of [`pending`](Self::pending) were written; `done` sees each frame
    /// that is now out as a whole, in the order they left.
    pub(crate) fn written(&mut self, mut bytes: usize, mut done: impl FnMut(T, &[u8])) {
        while bytes > 0 {
            let ordered_begun = self.begun > 0 && !self.begun_urgent;
            let from_urgent = !ordered_begun && !self.urgent.is_empty();
            if !from_urgent {
                self.skip_withdrawn();
            }
            let lane = if from_urgent { &self.urgent } else { &self.ordered };
            let Some(len) = lane.front().map(|frame| frame.body.len()) else {
                debug_assert!(false, "more bytes written than were pending");
                return;
            };
            let step = bytes.min(len - self.begun);
            bytes -= step;
            self.debt -= step;
            self.begun += step;
            self.begun_urgent = from_urgent;
            if self.begun < len {
                return;
            }
            self.begun = 0;
            if from_urgent {
                if let Some(Frame { body: Body::Own(bytes), tag }) = self.urgent.pop_front() {
                    done(tag, &bytes);
                }
            } else {
                self.pop_ordered(&mut done);
            }
        }
        self.skip_withdrawn();
        self.reclaim();
    }

    fn pop_ordered(&mut self, done: &mut impl FnMut(T, &[u8])) {
        let Some(frame) = self.ordered.pop_front() else { return };
        self.first += 1;
        match frame.body {
            Body::Bulk(len) => {
                done(frame.tag, &self.bulk[self.bulk_head..self.bulk_head + len]);
                self.bulk_head += len;
            }
            Body::Own(bytes) => {
                self.breaks -= 1;
                done(frame.tag, &bytes);
            }
            Body::Withdrawn(len) => {
                self.breaks -= 1;
                self.bulk_head += len;
            }
        }
    }

    fn skip_withdrawn(&mut self) {
        while self.begun == 0 && matches!(self.ordered.front(), Some(Frame { body: Body::Withdrawn(_), .. })) {
            self.pop_ordered(&mut |_, _| ());
        }
    }

    /// Gives back bytes that have left, without moving what waits more than once per doubling.
    fn reclaim(&mut self) {
        if self.bulk_head == self.bulk.len() {
            self.bulk.clear();
            self.bulk_head = 0;
            if self.bulk.capacity() > KEEP {
                self.bulk = Vec::new();
            }
        } else if self.bulk_head > KEEP && self.bulk_head > self.bulk.len() / 2 {
            self.bulk.drain(..self.bulk_head);
            self.bulk_head = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(outbox: &mut Outbox<&'static str>, text: &'static str) -> Ticket {
        outbox.push(text, |out| out.extend_from_slice(text.as_bytes()))
    }

    fn drain(outbox: &mut Outbox<&'static str>, step: usize) -> (String, Vec<&'static str>) {
        let (mut wire, mut tags) = (Vec::new(), Vec::new());
        while !outbox.is_empty() {
            let pending = outbox.pending();
            let n = step.min(pending.len());
            assert!(n > 0, "debt without bytes");
            wire.extend_from_slice(&pending[..n]);
            outbox.written(n, |tag, bytes| {
                assert_eq!(bytes, tag.as_bytes());
                tags.push(tag);
            });
        }
        (String::from_utf8(wire).unwrap(), tags)
    }

    #[test]
    fn frames_leave_in_order_and_are_reported_whole() {
        for step in 1..9 {
            let mut outbox = Outbox::new();
            push(&mut outbox, "aaa");
            push(&mut outbox, "bb");
            assert_eq!(drain(&mut outbox, step), ("aaabb".into(), vec!["aaa", "bb"]));
        }
    }

    #[test]
    fn an_urgent_frame_passes_whole_frames_but_not_the_one_begun() {
        for step in 1..9 {
            let mut outbox = Outbox::new();
            push(&mut outbox, "aaa");
            push(&mut outbox, "bb");
            outbox.written(1, |_, _| ());
            outbox.push_urgent("!", b"!".to_vec());
            outbox.push_urgent("?", b"?".to_vec());
            assert_eq!(drain(&mut outbox, step), ("aa!?bb".into(), vec!["aaa", "!", "?", "bb"]));
        }
    }

    #[test]
    fn a_frame_not_begun_is_withdrawn_without_a_trace() {
        for step in 1..9 {
            let mut outbox = Outbox::new();
            let a = push(&mut outbox, "aaa");
            let b = push(&mut outbox, "bb");
            let c = push(&mut outbox, "c");
            outbox.written(1, |_, _| ());
            assert_eq!(outbox.withdraw(a), None, "begun");
            assert_eq!(outbox.withdraw(b), Some(()));
            assert_eq!(outbox.withdraw(b), None, "twice");
            push(&mut outbox, "dd");
            assert_eq!(drain(&mut outbox, step), ("aacdd".into(), vec!["aaa", "c", "dd"]));
            assert_eq!(outbox.withdraw(c), None, "gone");
            push(&mut outbox, "e");
            assert_eq!(drain(&mut outbox, step).0, "e");
        }
    }

    #[test]
    fn withdrawing_the_only_frame_leaves_nothing_to_write() {
        let mut outbox = Outbox::new();
        let a = push(&mut outbox, "aaa");
        assert_eq!(outbox.withdraw(a), Some(()));
        assert!(outbox.is_empty());
        assert_eq!(outbox.pending(), b"");
        push(&mut outbox, "b");
        assert_eq!(drain(&mut outbox, 1).0, "b");
    }

    #[test]
    fn large_owned_frames_keep_their_place() {
        let big: &'static str = Box::leak("x".repeat(OWN).into_boxed_str());
        let mut outbox = Outbox::new();
        push(&mut outbox, "a");
        outbox.push_owned(big, big.as_bytes().to_vec());
        push(&mut outbox, "b");
        let (wire, tags) = drain(&mut outbox, 1000);
        assert_eq!(wire.len(), OWN + 2);
        assert_eq!(tags, vec!["a", big, "b"]);
    }
}
