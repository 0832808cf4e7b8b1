//! What a frame in an outbox is to the relay once it has left.

use crate::link::RequestKey;
use crate::{outbox::Outbox, side::Side, slab::Key};

/// What a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Tag {
    /// Nothing.
    Plain,
    /// A reply to bad input; it counts as the side's own backlog.
    Refusal,
    /// A batch: what its members are stands among the bundles.
    Many(Key),
    /// A request.
    Of(RequestKey, Part),
}

/// What a frame is to the request that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// Itself, on its way to the other side.
    Request,
    /// Its answer, on the way to its requester.
    Answer,
    /// Its cancel, on the way to the other side.
    Cancel,
    /// A notification about it, on the way to its requester.
    Notice,
}

/// A tag in one word.
///
/// It is written and read several times for each message, and each time soon after. In several pieces it would be
/// written by halves and read as a whole, for which a processor waits longer than for all the rest of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PackedTag(u64);

/// Hundreds of thousands of small frames can wait.
const _: () = assert!(Outbox::<PackedTag>::RECORD <= 40);

/// Where the kind stands, three bits wide, above one bit for the side and the key.
const KIND: u32 = 61;
const SIDE: u32 = 60;

/// A key's place is kept in so many bits: entries of its slab beyond them would take forty gigabytes.
const PLACE_BITS: u32 = SIDE - u32::BITS;

impl PackedTag {
    pub(super) const PLAIN: Self = Self(0);

    const fn new(kind: u64, from: Side, key: Key) -> Self {
        debug_assert!(key.index() >> PLACE_BITS == 0, "an outbox names more requests than it can tell apart");
        Self(kind << KIND | (from as u64) << SIDE | key.packed())
    }

    #[inline]
    pub(super) fn read(self) -> Tag {
        let from = if self.0 >> SIDE & 1 == 0 { Side::Client } else { Side::Server };
        let Some(key) = Key::unpacked(self.0 & ((1 << SIDE) - 1)) else {
            return if self.0 >> KIND == 0 { Tag::Plain } else { Tag::Refusal };
        };
        let part = match self.0 >> KIND {
            1 => Part::Request,
            2 => Part::Answer,
            3 => Part::Cancel,
            4 => Part::Notice,
            _ => return Tag::Many(key),
        };
        Tag::Of(RequestKey { from, key }, part)
    }
}

impl From<Tag> for PackedTag {
    #[inline]
    fn from(tag: Tag) -> Self {
        match tag {
            Tag::Plain => Self::PLAIN,
            Tag::Of(request, part) => Self::new(part as u64 + 1, request.from, request.key),
            Tag::Refusal => Self(5 << KIND),
            Tag::Many(bundle) => Self::new(6, Side::Client, bundle),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroU32;

    use super::*;

    #[test]
    fn a_packed_tag_is_read_as_it_was() {
        for (index, generation) in
            [(0, NonZeroU32::MIN), (7, NonZeroU32::MAX), ((1 << PLACE_BITS) - 1, NonZeroU32::MIN)]
        {
            let key = Key::from_parts(index, generation);
            for from in Side::BOTH {
                let request = RequestKey { from, key };
                for part in [Part::Request, Part::Answer, Part::Cancel, Part::Notice] {
                    let tag = Tag::Of(request, part);
                    assert_eq!(PackedTag::from(tag).read(), tag);
                }
            }
            assert_eq!(PackedTag::from(Tag::Many(key)).read(), Tag::Many(key));
        }
        assert_eq!(PackedTag::PLAIN.read(), Tag::Plain);
        assert_eq!(PackedTag::from(Tag::Refusal).read(), Tag::Refusal);
    }
}
