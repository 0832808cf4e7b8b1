//! The bytes of a message that the input cuts.

use core::mem;

/// A buffer larger than this is given back after its message.
const KEPT_CAPACITY: usize = 64 * 1024;

/// Gathered bytes, of which the first ones may already be given away.
#[derive(Debug, Clone)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    given: usize,
    /// The longest message that is gathered.
    pub(super) max_message: usize,
}

impl Buffer {
    pub(super) const fn new(max_message: usize) -> Self {
        Self { bytes: Vec::new(), given: 0, max_message }
    }

    /// Forgets what was given away: the caller of the codec is done with it.
    #[inline]
    pub(super) fn recycle(&mut self) {
        if self.given > 0 {
            self.drop_given();
        }
    }

    fn drop_given(&mut self) {
        // Whoever took the whole vector left an empty one.
        let given = mem::take(&mut self.given).min(self.bytes.len());
        if given == self.bytes.len() && self.bytes.capacity() > KEPT_CAPACITY {
            self.bytes = Vec::new();
        } else {
            self.bytes.drain(..given);
        }
    }

    /// Gives away the first `count` bytes; they stay until [`Buffer::recycle`].
    pub(super) fn give(&mut self, count: usize) -> &[u8] {
        self.given = count;
        &self.bytes[..count]
    }

    /// Gives away everything, the vector included.
    pub(super) fn give_all(&mut self) -> &mut Vec<u8> {
        self.given = self.bytes.len();
        &mut self.bytes
    }

    /// What is gathered and not given away.
    pub(super) fn held(&self) -> &[u8] {
        self.bytes.get(self.given..).unwrap_or_default()
    }

    /// Everything gathered, as one's own; only between [`Buffer::recycle`] and the next gift.
    pub(super) fn take(&mut self) -> Vec<u8> {
        mem::take(&mut self.bytes)
    }

    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn append(&mut self, more: &[u8]) {
        self.bytes.extend_from_slice(more);
    }

    pub(super) fn reserve(&mut self, more: usize) {
        self.bytes.reserve_exact(more);
    }

    /// Drops the first `count` bytes; only between [`Buffer::recycle`] and the next gift.
    pub(super) fn drop_first(&mut self, count: usize) {
        self.bytes.drain(..count);
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Gives back the memory that is kept for more, if nothing is gathered.
    pub(super) fn shrink(&mut self) {
        if self.held().is_empty() {
            *self = Self::new(self.max_message);
        }
    }
}
