//! Sixty-four bytes at a time: where the quotes, backslashes and brackets are.
//!
//! Bit `n` of every mask stands for byte `n` of the block.

use wide::u8x16;

/// Bytes looked at in one step.
pub(super) const WIDTH: usize = 64;

/// The interesting bytes of one block, strings not yet told from the rest.
#[derive(Clone, Copy)]
pub(super) struct Masks {
    pub(super) quotes: u64,
    pub(super) backslashes: u64,
    /// Any of `{`, `}`, `[`, `]`.
    pub(super) brackets: u64,
    /// Bytes of 0x80 and above.
    pub(super) wide: u64,
}

/// Classifies one block.
#[inline]
pub(super) fn classify(block: &[u8; WIDTH]) -> Masks {
    let mut masks = Masks { quotes: 0, backslashes: 0, brackets: 0, wide: 0 };
    let (lanes, _) = block.as_chunks::<16>();
    for (index, lane) in lanes.iter().enumerate() {
        let lane = u8x16::from(*lane);
        let shift = index * 16;
        let find = |byte: u8| lane.simd_eq(u8x16::splat(byte));
        // `[` and `{`, `]` and `}` differ in this one bit only.
        let folded = lane | u8x16::splat(0x20);
        let brackets = folded.simd_eq(u8x16::splat(b'{')) | folded.simd_eq(u8x16::splat(b'}'));
        masks.quotes |= u64::from(find(b'"').to_bitmask()) << shift;
        masks.backslashes |= u64::from(find(b'\\').to_bitmask()) << shift;
        masks.brackets |= u64::from(brackets.to_bitmask()) << shift;
        masks.wide |= u64::from(lane.to_bitmask()) << shift;
    }
    masks
}

/// The block that starts at `start`, its masks cut to the bytes that exist.
#[inline]
pub(super) fn classify_at(bytes: &[u8], start: usize) -> Masks {
    match bytes.get(start..).and_then(|rest| rest.first_chunk::<WIDTH>()) {
        Some(block) => classify(block),
        None => classify_tail(bytes.get(start..).unwrap_or_default()),
    }
}

fn classify_tail(tail: &[u8]) -> Masks {
    let mut block = [b' '; WIDTH];
    block[..tail.len()].copy_from_slice(tail);
    classify(&block)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(bytes: &[u8], wanted: impl Fn(u8) -> bool) -> u64 {
        bytes.iter().enumerate().fold(0, |mask, (at, &byte)| mask | u64::from(wanted(byte)) << at)
    }

    #[test]
    fn every_byte_is_classified_as_itself() {
        let all: Vec<u8> = (0..=255).collect();
        for start in 0..256 {
            let masks = classify_at(&all, start);
            let block = &all[start..all.len().min(start + WIDTH)];
            assert_eq!(masks.quotes, mask(block, |byte| byte == b'"'));
            assert_eq!(masks.backslashes, mask(block, |byte| byte == b'\\'));
            assert_eq!(masks.brackets, mask(block, |byte| b"{}[]".contains(&byte)));
            assert_eq!(masks.wide, mask(block, |byte| byte >= 0x80));
        }
    }
}
