//! What the server has not taken.

use core::ops::{AddAssign, SubAssign};

use super::errand::{Errand, OneWayKind};

/// Messages for the server that it has not taken: their bytes, and how many there are of those that are bounded by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    /// Bytes of messages, answers not counted.
    pub(crate) bytes: usize,
    pub(crate) cancels: usize,
    /// Answers to its questions.
    pub(crate) answers: usize,
    pub(crate) answer_bytes: usize,
}

impl Backlog {
    /// One errand.
    pub(crate) fn of(errand: &Errand) -> Self {
        let bytes = errand.unsent;
        match errand.one_way().map(|one_way| &one_way.kind) {
            Some(OneWayKind::Answer) => Self { answers: 1, answer_bytes: bytes, ..Self::default() },
            Some(OneWayKind::Cancel { .. }) => Self { cancels: 1, bytes, ..Self::default() },
            Some(OneWayKind::Initialized | OneWayKind::Other) | None => Self { bytes, ..Self::default() },
        }
    }

    /// Whether a message is within the bound: one alone always is.
    pub(crate) const fn takes(self, bytes: usize, most: usize) -> bool {
        self.bytes == 0 || self.bytes + bytes <= most
    }
}

impl AddAssign for Backlog {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.cancels += other.cancels;
        self.answers += other.answers;
        self.answer_bytes += other.answer_bytes;
    }
}

impl SubAssign for Backlog {
    fn sub_assign(&mut self, other: Self) {
        self.bytes -= other.bytes;
        self.cancels -= other.cancels;
        self.answers -= other.answers;
        self.answer_bytes -= other.answer_bytes;
    }
}
