//! One lane of an outbox: frames in order, their bytes back to back.

use std::collections::VecDeque;

use super::KEEP;

/// Frames that may lie withdrawn among the others, and records that are kept while nothing waits.
const KEEP_RECORDS: usize = 1024;

#[derive(Clone, Debug)]
pub(super) struct Lane<T> {
    /// Numbers rise, with gaps where withdrawn frames were. The first is never withdrawn.
    frames: VecDeque<Frame<T>>,
    /// Number of the frame that is queued next.
    next: u64,
    /// Bytes of `Body::Bulk` frames, back to back.
    bulk: Vec<u8>,
    /// Where the first frame's bytes start in `bulk`.
    head: usize,
    /// Bytes of withdrawn frames that lie in `bulk` behind `head`.
    dead: usize,
    /// Frames among `frames` that are withdrawn.
    withdrawn: usize,
    /// Frames that own their bytes, and so break the run of `bulk`.
    owned: usize,
    /// Bytes that these own.
    owned_bytes: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Frame<T> {
    number: u64,
    body: Body,
    tag: T,
}

#[derive(Clone, Debug)]
enum Body {
    /// So many bytes of `bulk`.
    Bulk(usize),
    Own(Box<[u8]>),
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

impl<T> Lane<T> {
    pub(super) const fn new() -> Self {
        Self {
            frames: VecDeque::new(),
            next: 0,
            bulk: Vec::new(),
            head: 0,
            dead: 0,
            withdrawn: 0,
            owned: 0,
            owned_bytes: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Frames that wait.
    pub(super) fn live(&self) -> usize {
        self.frames.len() - self.withdrawn
    }

    /// The number of the frame that leaves next.
    pub(super) fn first(&self) -> u64 {
        self.frames.front().map_or(self.next, |frame| frame.number)
    }

    /// How long the frame that leaves next is.
    pub(super) fn first_len(&self) -> Option<usize> {
        self.frames.front().map(|frame| frame.body.len())
    }

    /// Bytes of memory held, capacities included.
    pub(super) fn held(&self) -> usize {
        self.bulk.capacity() + self.owned_bytes + self.frames.capacity() * size_of::<Frame<T>>()
    }

    pub(super) fn push(&mut self, tag: T, write: impl FnOnce(&mut Vec<u8>), unsent: &mut usize) -> u64 {
        let before = self.bulk.len();
        write(&mut self.bulk);
        let len = self.bulk.len() - before;
        *unsent += len;
        self.enqueue(Body::Bulk(len), tag)
    }

    pub(super) fn push_owned(&mut self, tag: T, bytes: Box<[u8]>) -> u64 {
        self.owned += 1;
        self.owned_bytes += bytes.len();
        self.enqueue(Body::Own(bytes), tag)
    }

    fn enqueue(&mut self, body: Body, tag: T) -> u64 {
        let number = self.next;
        self.next += 1;
        self.frames.push_back(Frame { number, body, tag });
        number
    }

    /// Where a frame lies in `frames`.
    fn index(&self, number: u64) -> Option<usize> {
        let most = usize::try_from(number.checked_sub(self.first())?).ok()?;
        // Without gaps before it, its place follows from its number.
        if self.frames.get(most).is_some_and(|frame| frame.number == number) {
            return Some(most);
        }
        self.frames.binary_search_by_key(&number, |frame| frame.number).ok()
    }

    /// The number of a frame that waits, by its tag.
    pub(super) fn find(&self, is_it: impl Fn(&T) -> bool) -> Option<u64> {
        let mut live = self.frames.iter().filter(|frame| !matches!(frame.body, Body::Withdrawn(_)));
        Some(live.find(|frame| is_it(&frame.tag))?.number)
    }

    /// Numbers and tags of the frames that wait and that `wanted` chooses, in order.
    pub(super) fn numbers(&self, wanted: impl Fn(&T) -> bool) -> Vec<(u64, T)>
    where
        T: Copy,
    {
        let live = self.frames.iter().filter(|frame| !matches!(frame.body, Body::Withdrawn(_)));
        live.filter(|frame| wanted(&frame.tag)).map(|frame| (frame.number, frame.tag)).collect()
    }

    /// How many frames leave before this one; `None` once it has left or was withdrawn.
    pub(super) fn place(&self, number: u64) -> Option<usize> {
        let index = self.index(number)?;
        let is_live = |frame: &Frame<T>| !matches!(frame.body, Body::Withdrawn(_));
        is_live(&self.frames[index]).then(|| self.frames.range(..index).filter(|frame| is_live(frame)).count())
    }

    pub(super) fn withdraw(&mut self, number: u64) -> Option<usize> {
        let index = self.index(number)?;
        let frame = &mut self.frames[index];
        let len = frame.body.len();
        frame.body = match &frame.body {
            Body::Bulk(len) => {
                self.dead += len;
                Body::Withdrawn(*len)
            }
            Body::Own(bytes) => {
                self.owned -= 1;
                self.owned_bytes -= bytes.len();
                Body::Withdrawn(0)
            }
            Body::Withdrawn(_) => return None,
        };
        self.withdrawn += 1;
        Some(len)
    }

    /// The bytes of the frames at the head that lie side by side, less the first `begun`; one frame if `single`.
    pub(super) fn run(&self, begun: usize, single: bool) -> &[u8] {
        if self.withdrawn + self.owned == 0 && !single {
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

    /// Removes the frame that leaves next.
    pub(super) fn pop(&mut self, done: &mut impl FnMut(T, &[u8])) {
        let Some(frame) = self.frames.pop_front() else { return };
        match frame.body {
            Body::Bulk(len) => {
                done(frame.tag, &self.bulk[self.head..self.head + len]);
                self.head += len;
            }
            Body::Own(bytes) => {
                self.owned -= 1;
                self.owned_bytes -= bytes.len();
                done(frame.tag, &bytes);
            }
            Body::Withdrawn(len) => {
                self.withdrawn -= 1;
                self.dead -= len;
                self.head += len;
            }
        }
    }

    /// Keeps a frame that waits at the head, so that nothing else need look for one.
    #[inline]
    pub(super) fn skip_withdrawn(&mut self) {
        if self.withdrawn > 0 {
            self.pop_withdrawn();
        }
    }

    #[inline(never)]
    fn pop_withdrawn(&mut self) {
        while matches!(self.frames.front(), Some(Frame { body: Body::Withdrawn(_), .. })) {
            self.pop(&mut |_, _: &[u8]| ());
        }
    }

    /// Gives memory back once more of it is wasted than used, so that each byte that waits is moved at most once for
    /// each that left or was withdrawn.
    #[inline]
    pub(super) fn reclaim(&mut self) {
        let waste = self.head + self.dead;
        if self.frames.is_empty() {
            self.bulk.clear();
            (self.head, self.dead) = (0, 0);
            if self.bulk.capacity() > KEEP || self.frames.capacity() > KEEP_RECORDS {
                self.shrink();
            }
        } else if (waste > KEEP && waste > self.bulk.len() / 2)
            || (self.withdrawn > KEEP_RECORDS && self.withdrawn > self.frames.len() / 2)
        {
            self.compact();
        }
    }

    #[inline(never)]
    fn compact(&mut self) {
        if self.withdrawn == 0 {
            self.bulk.drain(..self.head);
        } else {
            self.remove_withdrawn();
        }
        (self.head, self.dead, self.withdrawn) = (0, 0, 0);
        self.shrink();
    }

    fn remove_withdrawn(&mut self) {
        let Self { frames, bulk, .. } = self;
        let (mut from, mut to) = (self.head, 0);
        frames.retain(|frame| match frame.body {
            Body::Bulk(len) => {
                bulk.copy_within(from..from + len, to);
                (from, to) = (from + len, to + len);
                true
            }
            Body::Withdrawn(len) => {
                from += len;
                false
            }
            Body::Own(_) => true,
        });
        bulk.truncate(to);
    }

    /// Gives back capacity that is more than twice what is used.
    #[inline(never)]
    fn shrink(&mut self) {
        let bytes = self.bulk.len().max(KEEP / 2);
        if self.bulk.capacity() > 2 * bytes {
            self.bulk.shrink_to(bytes);
        }
        let records = self.frames.len().max(KEEP_RECORDS / 2);
        if self.frames.capacity() > 2 * records {
            self.frames.shrink_to(records);
        }
    }

    /// Gives back all capacity, if nothing waits.
    pub(super) fn shrink_idle(&mut self) {
        if self.frames.is_empty() {
            *self = Self { next: self.next, ..Self::new() };
        }
    }

    pub(super) fn hash_state(&self, state: &mut impl core::hash::Hasher)
    where
        T: core::hash::Hash,
    {
        use core::hash::Hash;
        let mut at = self.head;
        self.live().hash(state);
        for frame in &self.frames {
            match &frame.body {
                Body::Bulk(len) => {
                    self.bulk[at..at + len].hash(state);
                    at += len;
                    frame.tag.hash(state);
                }
                Body::Own(bytes) => (bytes, &frame.tag).hash(state),
                Body::Withdrawn(len) => at += len,
            }
        }
    }
}

#[cfg(test)]
mod tests;
