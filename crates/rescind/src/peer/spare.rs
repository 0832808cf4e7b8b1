//! Buffers that a busy connection keeps between turns. An idle one gives them back: there may be thousands.

use std::time::Duration;

use rescind_proto::time::Instant;

/// The size of a read while little arrives. Buffers of this size are allocated each time.
const LITTLE: usize = 4 * 1024;

/// The size of a read once more has arrived.
const MUCH: usize = 64 * 1024;

/// The time that larger buffers are kept while nothing moves.
const IDLE: Duration = Duration::from_secs(1);

/// The buffer for input, and the sizes in use.
#[derive(Default)]
pub(crate) struct Spare {
    /// The bytes of the last read.
    pub(crate) input: Vec<u8>,
    reads_much: bool,
    writes_much: bool,
    /// The time of the last read or write.
    used: Option<Instant>,
}

/// The memory that a connection keeps at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Small buffers only; the one for input is gone.
    Little,
    /// Large buffers, until then.
    Much(Instant),
    /// None: the large buffers are to be given back now.
    Nothing,
}

impl Spare {
    /// Empties the buffer and makes room for the next read.
    pub(crate) fn empty(&mut self) -> &mut Vec<u8> {
        self.input.clear();
        self.input.reserve_exact(if self.reads_much { MUCH } else { LITTLE });
        &mut self.input
    }

    /// Notes a read; one that filled the buffer makes later reads larger.
    pub(crate) fn has_read(&mut self, now: Instant) {
        self.reads_much |= self.input.len() >= LITTLE;
        self.used = Some(now);
    }

    pub(crate) const fn has_written(&mut self, now: Instant, bytes: usize) {
        self.writes_much |= bytes >= LITTLE;
        self.used = Some(now);
    }

    /// Gives memory back while nothing moves.
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
    /// The time to try again.
    pub(crate) const fn until(self) -> Option<Instant> {
        match self {
            Self::Much(until) => Some(until),
            Self::Little | Self::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ORIGIN;

    #[test]
    fn a_connection_on_which_much_arrives_keeps_its_buffer_until_nothing_has_moved_for_a_while() {
        let mut spare = Spare::default();
        for (read, kept, next) in [(LITTLE - 1, Kept::Little, LITTLE), (LITTLE, Kept::Much(NOW + IDLE), MUCH)] {
            spare.empty().extend(std::iter::repeat_n(b'x', read));
            spare.has_read(NOW);
            assert_eq!(spare.rest(|| NOW), kept, "{read}");
            assert_eq!(spare.empty().capacity(), next, "{read}");
        }
        assert_eq!(spare.rest(|| NOW + IDLE), Kept::Nothing);
        assert_eq!(spare.input.capacity(), 0);
        assert_eq!(spare.empty().capacity(), LITTLE);
    }

    #[test]
    fn a_connection_that_has_written_much_keeps_its_buffers_as_well() {
        let mut spare = Spare::default();
        spare.has_written(NOW, LITTLE - 1);
        assert_eq!(spare.rest(|| NOW), Kept::Little);
        spare.has_written(NOW, LITTLE);
        assert_eq!(spare.rest(|| NOW), Kept::Much(NOW + IDLE));
    }
}
