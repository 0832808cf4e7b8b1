//! What waits to be written to one side: whole frames, in order, some of which may still be taken back.
//!
//! Two lanes. Frames go out in the order they were pushed, except that a
//! cancel may pass whole frames that have not begun (D13). A frame of which no
//! byte has left can be withdrawn (D13, D15); one that has begun never can.

use std::collections::VecDeque;

/// Names a frame for as long as it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket(
    /// Twice its number in its lane, and one more in the urgent lane.
    u64,
);

impl Ticket {
    const fn new(urgent: bool, number: u64) -> Self {
        Self(number << 1 | urgent as u64)
    }

    const fn is_urgent(self) -> bool {
        self.0 & 1 == 1
    }

    const fn number(self) -> u64 {
        self.0 >> 1
    }
}

/// Frames at least this long that already own their bytes are kept as they are instead of copied.
pub(crate) const OWN: usize = 32 * 1024;

/// Capacity kept while idle; a larger buffer is given back once drained.
const KEEP: usize = 256 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct Outbox<T> {
    ordered: Lane<T>,
    urgent: Lane<T>,
    /// Bytes already written of the frame being written.
    begun: usize,
    /// Whether the frame being written is the urgent head; meaningless while `begun` is 0.
    begun_urgent: bool,
    /// Unwritten bytes in both lanes.
    debt: usize,
}

#[derive(Clone, Debug)]
struct Lane<T> {
    frames: VecDeque<Frame<T>>,
    /// Number of `frames[0]`.
    first: u64,
    /// Bytes of `Body::Bulk` frames, back to back.
    bulk: Vec<u8>,
    /// Where the first frame's bytes start in `bulk`.
    head: usize,
    /// Frames that are withdrawn or own their bytes, and so break the run of `bulk`.
    breaks: usize,
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
        Self { ordered: Lane::new(), urgent: Lane::new(), begun: 0, begun_urgent: false, debt: 0 }
    }

    /// Unwritten bytes.
    pub(crate) const fn debt(&self) -> usize {
        self.debt
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.debt == 0
    }

    /// The ticket of the frame that is queued next.
    pub(crate) fn upcoming(&self, urgent: bool) -> Ticket {
        let lane = if urgent { &self.urgent } else { &self.ordered };
        Ticket::new(urgent, lane.first + lane.frames.len() as u64)
    }

    /// Queues a frame that `write` appends to the buffer it is given.
    pub(crate) fn push(&mut self, tag: T, write: impl FnOnce(&mut Vec<u8>)) -> Ticket {
        let number = self.ordered.push(tag, write, &mut self.debt);
        Ticket::new(false, number)
    }

    /// Queues a frame that owns its bytes.
    pub(crate) fn push_owned(&mut self, tag: T, bytes: Vec<u8>) -> Ticket {
        if bytes.len() < OWN {
            return self.push(tag, |out| out.extend_from_slice(&bytes));
        }
        self.debt += bytes.len();
        self.ordered.breaks += 1;
        let number = self.ordered.enqueue(Body::Own(bytes), tag);
        Ticket::new(false, number)
    }

    /// Queues a frame ahead of every whole frame that has not begun.
    pub(crate) fn push_urgent(&mut self, tag: T, write: impl FnOnce(&mut Vec<u8>)) -> Ticket {
        let number = self.urgent.push(tag, write, &mut self.debt);
        Ticket::new(true, number)
    }

    /// Takes back a frame of which no byte has been written, and says how long it was; `None` if it is too late.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) -> Option<usize> {
        if self.has_begun(ticket) {
            return None;
        }
        let lane = if ticket.is_urgent() { &mut self.urgent } else { &mut self.ordered };
        let len = lane.withdraw(ticket.number())?;
        self.debt -= len;
        self.skip_withdrawn();
        Some(len)
    }

    /// Whether any byte of this frame has been written, or all of it.
    pub(crate) const fn has_begun(&self, ticket: Ticket) -> bool {
        let lane = if ticket.is_urgent() { &self.urgent } else { &self.ordered };
        ticket.number() < lane.first
            || (ticket.number() == lane.first && self.begun > 0 && self.begun_urgent == ticket.is_urgent())
    }

    /// Whether this frame still waits, in part or whole.
    pub(crate) fn holds(&self, ticket: Ticket) -> bool {
        self.place(ticket).is_some()
    }

    /// How many frames of its lane leave before this one; `None` once it has left or was withdrawn.
    pub(crate) fn place(&self, ticket: Ticket) -> Option<usize> {
        let lane = if ticket.is_urgent() { &self.urgent } else { &self.ordered };
        let place = usize::try_from(ticket.number().checked_sub(lane.first)?).ok()?;
        lane.frames.get(place).is_some_and(|frame| !matches!(frame.body, Body::Withdrawn(_))).then_some(place)
    }

    /// The next bytes to write: as many whole frames as lie side by side.
    pub(crate) fn pending(&self) -> &[u8] {
        // An urgent frame waits for the frame that has begun, and for no other.
        if self.is_urgent_next() {
            self.urgent.run(self.begun, false)
        } else {
            self.ordered.run(self.begun, !self.urgent.frames.is_empty())
        }
    }

    /// Records that the first `bytes` of [`pending`](Self::pending) were written; `done` sees each frame
    /// that is now out as a whole, in the order they left.
    pub(crate) fn written(&mut self, mut bytes: usize, mut done: impl FnMut(T, &[u8])) {
        while bytes > 0 {
            let urgent = self.is_urgent_next();
            let lane = if urgent { &mut self.urgent } else { &mut self.ordered };
            let Some(len) = lane.frames.front().map(|frame| frame.body.len()) else {
                debug_assert!(false, "more bytes written than were pending");
                return;
            };
            let step = bytes.min(len - self.begun);
            bytes -= step;
            self.debt -= step;
            self.begun += step;
            self.begun_urgent = urgent;
            if self.begun < len {
                return;
            }
            self.begun = 0;
            lane.pop(&mut done);
            self.skip_withdrawn();
        }
        self.urgent.reclaim();
        self.ordered.reclaim();
    }

    /// Forgets everything that waits, as when nobody will read it; `lost` sees each frame's tag.
    pub(crate) fn clear(&mut self, mut lost: impl FnMut(T)) {
        self.debt = 0;
        self.begun = 0;
        for lane in [&mut self.urgent, &mut self.ordered] {
            while !lane.frames.is_empty() {
                lane.pop(&mut |tag, _: &[u8]| lost(tag));
            }
            lane.reclaim();
        }
    }

    fn is_urgent_next(&self) -> bool {
        if self.begun > 0 { self.begun_urgent } else { !self.urgent.frames.is_empty() }
    }

    /// Keeps a live frame at the head of each lane, so that nothing else need look for one.
    #[inline]
    fn skip_withdrawn(&mut self) {
        if self.urgent.breaks + self.ordered.breaks > 0 {
            self.pop_withdrawn();
        }
    }

    #[inline(never)]
    fn pop_withdrawn(&mut self) {
        for lane in [&mut self.urgent, &mut self.ordered] {
            while matches!(lane.frames.front(), Some(Frame { body: Body::Withdrawn(_), .. })) {
                lane.pop(&mut |_, _: &[u8]| ());
            }
        }
    }

    /// Feeds what waits into a hasher: the bytes in order, and how far the first has got.
    pub(crate) fn hash_state(&self, state: &mut impl core::hash::Hasher)
    where
        T: core::hash::Hash,
    {
        use core::hash::Hash;
        (self.begun, self.begun_urgent).hash(state);
        for lane in [&self.urgent, &self.ordered] {
            let mut at = lane.head;
            lane.frames.len().hash(state);
            for frame in &lane.frames {
                match &frame.body {
                    Body::Bulk(len) => {
                        lane.bulk[at..at + len].hash(state);
                        at += len;
                    }
                    Body::Own(bytes) => bytes.hash(state),
                    Body::Withdrawn(len) => at += len,
                }
                frame.tag.hash(state);
            }
        }
    }
}

impl<T> Lane<T> {
    const fn new() -> Self {
        Self { frames: VecDeque::new(), first: 0, bulk: Vec::new(), head: 0, breaks: 0 }
    }

    fn push(&mut self, tag: T, write: impl FnOnce(&mut Vec<u8>), debt: &mut usize) -> u64 {
        let before = self.bulk.len();
        write(&mut self.bulk);
        let len = self.bulk.len() - before;
        *debt += len;
        self.enqueue(Body::Bulk(len), tag)
    }

    fn enqueue(&mut self, body: Body, tag: T) -> u64 {
        self.frames.push_back(Frame { body, tag });
        self.first + self.frames.len() as u64 - 1
    }

    fn withdraw(&mut self, number: u64) -> Option<usize> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let frame = self.frames.get_mut(place)?;
        let len = frame.body.len();
        frame.body = match frame.body {
            Body::Bulk(len) => {
                self.breaks += 1;
                Body::Withdrawn(len)
            }
            Body::Own(_) => Body::Withdrawn(0),
            Body::Withdrawn(_) => return None,
        };
        Some(len)
    }

    /// The bytes of the frames at the head that lie side by side, less the first `begun`; one frame if `single`.
    fn run(&self, begun: usize, single: bool) -> &[u8] {
        if self.breaks == 0 && !single {
            return &self.bulk[self.head + begun..];
        }
        let mut end = self.head;
        for frame in &self.frames {
            match &frame.body {
                Body::Own(bytes) if end == self.head => return &bytes[begun..],
                Body::Withdrawn(_) | Body::Own(_) => break,
                Body::Bulk(len) => end += len,
            }
            if single {
                break;
            }
        }
        &self.bulk[(self.head + begun).min(end)..end]
    }

    fn pop(&mut self, done: &mut impl FnMut(T, &[u8])) {
        let Some(frame) = self.frames.pop_front() else { return };
        self.first += 1;
        match frame.body {
            Body::Bulk(len) => {
                done(frame.tag, &self.bulk[self.head..self.head + len]);
                self.head += len;
            }
            Body::Own(bytes) => {
                self.breaks -= 1;
                done(frame.tag, &bytes);
            }
            Body::Withdrawn(len) => {
                self.breaks -= 1;
                self.head += len;
            }
        }
    }

    /// Gives back bytes that have left, moving what waits at most once per doubling.
    fn reclaim(&mut self) {
        if self.head == self.bulk.len() {
            self.bulk.clear();
            self.head = 0;
            if self.bulk.capacity() > KEEP {
                self.bulk = Vec::new();
            }
        } else if self.head > KEEP && self.head > self.bulk.len() / 2 {
            self.bulk.drain(..self.head);
            self.head = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(outbox: &mut Outbox<&'static str>, text: &'static str) -> Ticket {
        outbox.push(text, |out| out.extend_from_slice(text.as_bytes()))
    }

    fn push_urgent(outbox: &mut Outbox<&'static str>, text: &'static str) -> Ticket {
        outbox.push_urgent(text, |out| out.extend_from_slice(text.as_bytes()))
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
            push_urgent(&mut outbox, "!!");
            push_urgent(&mut outbox, "?");
            assert_eq!(drain(&mut outbox, step), ("aa!!?bb".into(), vec!["aaa", "!!", "?", "bb"]));
        }
    }

    #[test]
    fn an_ordered_frame_begun_is_never_torn_by_an_urgent_one() {
        let mut outbox = Outbox::new();
        push_urgent(&mut outbox, "!!");
        push(&mut outbox, "aaa");
        outbox.written(1, |_, _| ());
        push_urgent(&mut outbox, "?");
        assert_eq!(drain(&mut outbox, 1), ("!?aaa".into(), vec!["!!", "?", "aaa"]));
    }

    #[test]
    fn a_frame_not_begun_is_withdrawn_without_a_trace() {
        for step in 1..9 {
            let mut outbox = Outbox::new();
            let a = push(&mut outbox, "aaa");
            let b = push(&mut outbox, "bb");
            let c = push(&mut outbox, "c");
            let d = push_urgent(&mut outbox, "!");
            outbox.withdraw(d).unwrap();
            outbox.written(1, |_, _| ());
            assert_eq!(outbox.withdraw(a), None, "begun");
            assert_eq!(outbox.withdraw(b), Some(2));
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
        assert_eq!(outbox.withdraw(a), Some(3));
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
