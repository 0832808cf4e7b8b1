//! Memory that a busy connection keeps from one turn to the next, and an idle one does not: there may be thousands.

use std::time::Duration;

use rescind_proto::time::Instant;

/// How much is read at once where little arrives. Buffers no larger than this are made anew each time.
const LITTLE: usize = 4 * 1024;

/// How much is read at once where more arrives.
const MUCH: usize = 64 * 1024;

/// How long larger buffers are kept while nothing moves.
const IDLE: Duration = Duration::from_secs(1);

/// The buffer for input, and whether the buffers of this connection are large.
#[derive(Default)]
pub(crate) struct Spare {
    /// What was read last.
    pub(crate) input: Vec<u8>,
    reads_much: bool,
    writes_much: bool,
    /// When something was read or written last.
    used: Option<Instant>,
}

/// What a connection keeps at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Buffers too small to matter; that for input is gone.
    Little,
    /// Large buffers, until then.
    Much(Instant),
    /// Large buffers were kept, and are to be given back now.
    Nothing,
}

impl Spare {
    /// Room for the next read.
    pub(crate) fn empty(&mut self) -> &mut Vec<u8> {
        self.input.clear();
        self.input.reserve_exact(if self.reads_much { MUCH } else { LITTLE });
        &mut self.input
    }

    /// The input was filled: if to its end, more is read at once from now on.
    pub(crate) fn has_read(&mut self, now: Instant) {
        self.reads_much |= self.input.len() >= LITTLE;
        self.used = Some(now);
    }

    pub(crate) const fn has_written(&mut self, now: Instant, bytes: usize) {
        self.writes_much |= bytes >= LITTLE;
        self.used = Some(now);
    }

    /// Nothing moves.
    pub(crate) fn rest(&mut self, now: impl FnOnce() -> Instant) -> Kept {
        if !self.reads_much && !self.writes_much {
            self.input = Vec::new();
            return Kept::Little;
        }
        let until = self.used.map(|used| used + IDLE).filter(|until| *until > now());
        until.map_or_else(
            || {
                *self = Self::default();
                Kept::Nothing
            },
            Kept::Much,
        )
    }
}

impl Kept {
    /// When to look again.
    pub(crate) const fn until(self) -> Option<Instant> {
        match self {
            Self::Much(until) => Some(until),
            Self::Little | Self::Nothing => None,
        }
    }
}
