//! Frames that wait to be written to one side, in order; some may still be taken back.
//!
//! Two lanes. Frames go out in the order they were pushed, except that a
//! cancel may pass whole frames that have not begun (D13). A frame that has not
//! begun can be withdrawn (D13, D15); one that has begun never can.
//!
//! Memory follows what waits, not what has passed or was withdrawn: see
//! [`Outbox::held`].

mod lane;

use lane::{Frame, Lane};

/// Names a frame for as long as it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(
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
pub const OWN: usize = 32 * 1024;

/// Bytes of a lane that may be wasted, and capacity that is kept while nothing waits.
const KEEP: usize = 256 * 1024;

/// What waits to be written to one side: tag and bytes of each frame.
#[derive(Clone, Debug)]
pub struct Outbox<T> {
    ordered: Lane<T>,
    urgent: Lane<T>,
    /// Bytes already written of the frame being written.
    begun: usize,
    /// Whether the frame being written is the urgent head; meaningless while `begun` is 0.
    begun_urgent: bool,
    /// Unwritten bytes in both lanes.
    unsent: usize,
}

impl<T> Outbox<T> {
    /// What a frame costs beside its bytes.
    pub const RECORD: usize = size_of::<Frame<T>>();

    /// Nothing waits.
    pub const fn new() -> Self {
        Self { ordered: Lane::new(), urgent: Lane::new(), begun: 0, begun_urgent: false, unsent: 0 }
    }

    /// Unwritten bytes.
    pub const fn unsent(&self) -> usize {
        self.unsent
    }

    /// Unwritten bytes and the records of their frames: what is compared with the bounds (D13, invariant 8), so that
    /// a flood of tiny frames counts for what it takes.
    pub fn backlog(&self) -> usize {
        self.unsent + Self::RECORD * (self.ordered.live() + self.urgent.live())
    }

    /// Bytes of memory held, capacities included: at most four times the [`backlog`](Self::backlog) with the frame
    /// being written, and [`SLACK`].
    pub fn held(&self) -> usize {
        self.ordered.held() + self.urgent.held()
    }

    /// The most that [`held`](Self::held) may be (invariant 8).
    pub fn bound(&self) -> usize {
        4 * (self.backlog() + self.begun) + SLACK
    }

    /// Whether nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.unsent == 0
    }

    /// Queues a frame that `write` appends to the buffer it is given.
    pub fn push(&mut self, tag: T, write: impl FnOnce(&mut Vec<u8>)) -> Ticket {
        let number = self.ordered.push(tag, write, &mut self.unsent);
        Ticket::new(false, number)
    }

    /// Queues a frame of about `len` bytes that `write` appends; a large one is kept apart, so that its memory goes
    /// when it does.
    pub fn push_sized(&mut self, tag: T, len: usize, write: impl FnOnce(&mut Vec<u8>)) -> Ticket {
        if len < OWN {
            return self.push(tag, write);
        }
        let mut bytes = Vec::new();
        write(&mut bytes);
        self.push_owned(tag, bytes)
    }

    /// Queues a frame that owns its bytes.
    pub fn push_owned(&mut self, tag: T, bytes: Vec<u8>) -> Ticket {
        if bytes.len() < OWN {
            return self.push(tag, |out| out.extend_from_slice(&bytes));
        }
        self.unsent += bytes.len();
        Ticket::new(false, self.ordered.push_owned(tag, bytes.into_boxed_slice()))
    }

    /// Queues a frame ahead of every whole frame that has not begun.
    pub fn push_urgent(&mut self, tag: T, write: impl FnOnce(&mut Vec<u8>)) -> Ticket {
        let number = self.urgent.push(tag, write, &mut self.unsent);
        Ticket::new(true, number)
    }

    /// Takes back a frame of which no byte has been written, and returns its length; `None` if it is too late.
    pub fn withdraw(&mut self, ticket: Ticket) -> Option<usize> {
        if self.has_begun(ticket) {
            return None;
        }
        let lane = if ticket.is_urgent() { &mut self.urgent } else { &mut self.ordered };
        let len = lane.withdraw(ticket.number())?;
        self.unsent -= len;
        lane.skip_withdrawn();
        lane.reclaim();
        Some(len)
    }

    /// Finds a frame of the ordered lane by its tag; `None` if any byte of it has been written. It looks at all that wait.
    pub fn find(&self, is_it: impl Fn(&T) -> bool) -> Option<Ticket> {
        let found = self.ordered.find(is_it).map(|number| Ticket::new(false, number));
        found.filter(|ticket| !self.has_begun(*ticket))
    }

    /// Whether any byte of this frame has been written, or all of it.
    pub fn has_begun(&self, ticket: Ticket) -> bool {
        let lane = if ticket.is_urgent() { &self.urgent } else { &self.ordered };
        let first = lane.first();
        ticket.number() < first
            || (ticket.number() == first && self.begun > 0 && self.begun_urgent == ticket.is_urgent())
    }

    /// Whether this frame still waits, in part or whole.
    pub fn holds(&self, ticket: Ticket) -> bool {
        self.place(ticket).is_some()
    }

    /// How many frames of its lane leave before this one; `None` once it has left or was withdrawn.
    pub fn place(&self, ticket: Ticket) -> Option<usize> {
        let lane = if ticket.is_urgent() { &self.urgent } else { &self.ordered };
        lane.place(ticket.number())
    }

    /// The next bytes to write: as many whole frames as lie side by side.
    #[inline]
    pub fn pending(&self) -> &[u8] {
        // A driver asks far more often than it finds something.
        if self.is_empty() { &[] } else { self.next_run() }
    }

    fn next_run(&self) -> &[u8] {
        // An urgent frame waits for the frame that has begun, and for no other.
        if self.is_urgent_next() {
            self.urgent.run(self.begun, false)
        } else {
            self.ordered.run(self.begun, !self.urgent.is_empty())
        }
    }

    /// Records that the first `bytes` of [`pending`](Self::pending) were written; `done` sees each frame
    /// that is now out as a whole, in the order they left.
    pub fn written(&mut self, mut bytes: usize, mut done: impl FnMut(T, &[u8])) {
        while bytes > 0 {
            let urgent = self.is_urgent_next();
            let lane = if urgent { &mut self.urgent } else { &mut self.ordered };
            let Some(len) = lane.first_len() else {
                debug_assert!(false, "more bytes written than were pending");
                return;
            };
            let step = bytes.min(len - self.begun);
            bytes -= step;
            self.unsent -= step;
            self.begun += step;
            self.begun_urgent = urgent;
            if self.begun < len {
                break;
            }
            self.begun = 0;
            lane.pop(&mut done);
            lane.skip_withdrawn();
        }
        self.urgent.reclaim();
        self.ordered.reclaim();
    }

    /// Gives back the memory that is kept for more, where nothing waits.
    pub fn shrink(&mut self) {
        self.urgent.shrink_idle();
        self.ordered.shrink_idle();
    }

    /// Forgets everything that waits, as when nobody will read it; `lost` sees each frame's tag.
    pub fn clear(&mut self, mut lost: impl FnMut(T)) {
        self.unsent = 0;
        self.begun = 0;
        for lane in [&mut self.urgent, &mut self.ordered] {
            while !lane.is_empty() {
                lane.pop(&mut |tag, _: &[u8]| lost(tag));
            }
            lane.reclaim();
        }
    }

    /// Drops what must not reach another reader than the one it was for: the frame that has begun, those that pass others,
    /// and those that `keeps` does not choose; `lost` sees each one's tag.
    pub fn renew(&mut self, keeps: impl Fn(&T) -> bool, mut lost: impl FnMut(T))
    where
        T: Copy,
    {
        if self.begun > 0 {
            let lane = if self.begun_urgent { &mut self.urgent } else { &mut self.ordered };
            self.unsent -= lane.first_len().map_or(0, |len| len - self.begun);
            self.begun = 0;
            lane.pop(&mut |tag, _: &[u8]| lost(tag));
            lane.skip_withdrawn();
        }
        while let Some(len) = self.urgent.first_len() {
            self.unsent -= len;
            self.urgent.pop(&mut |tag, _: &[u8]| lost(tag));
            self.urgent.skip_withdrawn();
        }
        for (number, tag) in self.ordered.numbers(|tag| !keeps(tag)) {
            self.withdraw(Ticket::new(false, number));
            lost(tag);
        }
        self.urgent.reclaim();
        self.ordered.reclaim();
    }

    /// Whether the next bytes are of a frame that passes others.
    pub fn is_urgent_next(&self) -> bool {
        if self.begun > 0 { self.begun_urgent } else { !self.urgent.is_empty() }
    }

    /// Feeds what waits into a hasher: the bytes in order, and how far the first has got.
    pub fn hash_state(&self, state: &mut impl core::hash::Hasher)
    where
        T: core::hash::Hash,
    {
        use core::hash::Hash;
        (self.begun, self.begun > 0 && self.begun_urgent).hash(state);
        self.urgent.hash_state(state);
        self.ordered.hash_state(state);
    }
}

/// The most that an outbox holds that is paused beyond a `backlog`, twice over, since what a side's own bad input
/// costs counts by itself (D13). `read` bytes of input can cost `DEAREST` times as much; a message that is large is
/// kept apart, as long as it is.
pub const fn bound_for(backlog: usize, read: usize, message: usize) -> usize {
    4 * (2 * backlog + DEAREST * read + OWN) + 2 * message + SLACK
}

/// How many times its own size bad input can cost at most: a line of two bytes is answered with an error.
const DEAREST: usize = 96;

/// What an outbox may hold beyond what waits in it: the waste, and the capacity, of two lanes that are nearly empty.
pub const SLACK: usize = 10 * KEEP;

impl<T> Outbox<T> {
    /// Forgets that anything waits, and holds it all the same: for the tests of what checks a machine.
    #[doc(hidden)]
    pub const fn leak(&mut self) {
        self.unsent = 0;
    }
}

#[cfg(test)]
mod tests {
    use rescind_testkit::tamper::every_change_shows;

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
    fn another_reader_gets_only_whole_frames_that_are_for_it() {
        for begun in 0..3 {
            let mut outbox = Outbox::new();
            push(&mut outbox, "aaa");
            let b = push(&mut outbox, "bb");
            push(&mut outbox, "c");
            let d = push(&mut outbox, "dd");
            outbox.written(begun, |_, _| ());
            push_urgent(&mut outbox, "!!");
            let mut lost = Vec::new();
            outbox.renew(|tag| *tag != "c", |tag| lost.push(tag));
            let kept: &[&str] = if begun > 0 { &["bb", "dd"] } else { &["aaa", "bb", "dd"] };
            let expected: &[&str] = if begun > 0 { &["aaa", "!!", "c"] } else { &["!!", "c"] };
            assert_eq!(lost, expected);
            assert!(outbox.holds(b) && outbox.holds(d));
            assert_eq!(drain(&mut outbox, 1), (kept.concat(), kept.to_vec()));
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

    /// What waits: a text, its tag and how it is queued. Of the first so many bytes have left.
    fn waiting(begun: usize, frames: &[(&str, &'static str, How)]) -> Outbox<&'static str> {
        let mut outbox = Outbox::new();
        for (text, tag, how) in frames {
            let is_first = outbox.is_empty();
            let write = |out: &mut Vec<u8>| out.extend_from_slice(text.as_bytes());
            match how {
                How::Ordered => outbox.push(*tag, write),
                How::Urgent => outbox.push_urgent(*tag, write),
                How::Owned => outbox.push_owned(*tag, text.repeat(OWN).into_bytes()),
            };
            outbox.written(if is_first { begun } else { 0 }, |_, _| ());
        }
        outbox
    }

    enum How {
        Ordered,
        Urgent,
        Owned,
    }

    #[test]
    fn every_change_of_what_waits_shows_in_the_hash() {
        use How::{Ordered, Owned, Urgent};
        let start = waiting(1, &[("aa", "a", Ordered), ("bb", "b", Urgent), ("c", "c", Owned)]);
        every_change_shows(
            &start,
            Outbox::hash_state,
            &[
                ("how much has left", |outbox| {
                    *outbox = waiting(0, &[("aa", "a", Ordered), ("bb", "b", Urgent), ("c", "c", Owned)]);
                }),
                ("which frame has begun to leave", |outbox| {
                    *outbox = waiting(1, &[("bb", "b", Urgent), ("aa", "a", Ordered), ("c", "c", Owned)]);
                }),
                ("which frames may pass others", |outbox| {
                    *outbox = waiting(1, &[("bb", "b", Ordered), ("aa", "a", Ordered), ("c", "c", Owned)]);
                }),
                ("a frame", |outbox| {
                    *outbox = waiting(1, &[("ab", "a", Ordered), ("bb", "b", Urgent), ("c", "c", Owned)]);
                }),
                ("its tag", |outbox| {
                    *outbox = waiting(1, &[("aa", "x", Ordered), ("bb", "b", Urgent), ("c", "c", Owned)]);
                }),
                ("an urgent frame", |outbox| {
                    *outbox = waiting(1, &[("aa", "a", Ordered), ("bx", "b", Urgent), ("c", "c", Owned)]);
                }),
                ("a frame that is kept apart", |outbox| {
                    *outbox = waiting(1, &[("aa", "a", Ordered), ("bb", "b", Urgent), ("x", "c", Owned)]);
                }),
                ("the tag of one that is kept apart", |outbox| {
                    *outbox = waiting(1, &[("aa", "a", Ordered), ("bb", "b", Urgent), ("c", "x", Owned)]);
                }),
            ],
        );
    }
}
