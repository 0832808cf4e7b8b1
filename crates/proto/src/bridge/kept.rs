//! Things that are kept for a time, in the order in which they are forgotten.

use std::collections::VecDeque;

use crate::time::Instant;

/// Things of one kind, the one to be forgotten first in front.
#[derive(Clone, Debug)]
pub(super) struct Kept<T> {
    queue: VecDeque<(Instant, T)>,
    /// Bytes of memory that they hold beside their places.
    bytes: usize,
}

/// Something that holds memory.
pub(super) trait Held {
    /// Bytes that it holds beside itself.
    fn held(&self) -> usize;
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), bytes: 0 }
    }
}

impl<T: Held> Kept<T> {
    /// Bytes that they hold beside their places.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of memory that it holds.
    pub(super) fn held(&self) -> usize {
        self.bytes + self.queue.capacity() * size_of::<(Instant, T)>()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// When the first is forgotten.
    pub(super) fn due(&self) -> Option<Instant> {
        self.queue.front().map(|(due, _)| *due)
    }

    /// Keeps something until `due`, which is not before that of any other.
    pub(super) fn push(&mut self, due: Instant, item: T) {
        self.bytes += item.held();
        self.queue.push_back((due, item));
    }

    pub(super) fn find(&self, is_it: impl Fn(&T) -> bool) -> Option<&T> {
        self.iter().map(|(_, item)| item).find(|item| is_it(item))
    }

    /// Takes one out.
    pub(super) fn take(&mut self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.queue.iter().position(|(_, item)| is_it(item))?;
        let (_, item) = self.queue.remove(at)?;
        self.bytes -= item.held();
        Some(item)
    }

    /// Takes out the first, if its time has come or there are more than this.
    pub(super) fn pop(&mut self, now: Instant, most: usize) -> Option<T> {
        let is_over = self.due()? <= now || self.len() > most;
        is_over.then(|| self.take(|_| true)).flatten()
    }

    /// Changes one.
    pub(super) fn edit<R>(&mut self, is_it: impl Fn(&T) -> bool, edit: impl FnOnce(&mut T) -> R) -> Option<R> {
        let (_, item) = self.queue.iter_mut().find(|(_, item)| is_it(item))?;
        self.bytes -= item.held();
        let result = edit(item);
        self.bytes += item.held();
        Some(result)
    }

    /// All of them, and when they are forgotten.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Instant, T)> {
        self.queue.iter()
    }

    /// Panics if it does not agree with itself.
    pub(super) fn check(&self) {
        let bytes = self.queue.iter().map(|(_, item)| item.held()).sum::<usize>();
        assert_eq!(bytes, self.bytes, "invariant 8: the count of what is kept is off");
    }
}
