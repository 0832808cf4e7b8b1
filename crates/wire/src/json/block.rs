//! Sixty-four bytes at a time: where the quotes, backslashes and brackets are.
//!
//! Bit `n` of every mask stands for byte `n` of the block.

use core::hint::cold_path;

use wide::u8x16;

/// Bytes looked at in one step.
pub(super) const WIDTH: usize = 64;

/// Bytes looked at in one step of [`special`].
pub(super) const LANE: usize = 16;

/// The bytes of one block.
pub(super) type Block = [u8; WIDTH];

/// A text shorter than a block, with white space behind it.
pub(super) fn padded(text: &[u8]) -> Block {
    let mut block = [b' '; WIDTH];
    block[..text.len()].copy_from_slice(text);
    block
}

/// Quotes and backslashes.
#[inline]
pub(super) fn quotes_and_backslashes(block: &Block) -> (u64, u64) {
    let lanes = lanes(block);
    let quotes = lanes.map(|lane| lane.simd_eq(u8x16::splat(b'"')));
    let backslashes = lanes.map(|lane| lane.simd_eq(u8x16::splat(b'\\')));
    let [a, b, c, d] = backslashes;
    if (a | b | c | d).to_bitmask() == 0 {
        return (mask(quotes), 0);
    }
    // A branch, not a choice between two results: most blocks are spared the four masks.
    cold_path();
    (mask(quotes), mask(backslashes))
}

/// Brackets and braces, opening and closing.
#[inline]
pub(super) fn brackets(block: &Block) -> u64 {
    mask(lanes(block).map(|lane| {
        // `[` and `{`, `]` and `}` differ in this one bit only; `{` and `}` are two apart.
        let folded = (lane | u8x16::splat(0x20)) - u8x16::splat(b'{');
        (folded & u8x16::splat(!2)).simd_eq(u8x16::splat(0))
    }))
}

#[inline]
fn lanes(block: &Block) -> [u8x16; 4] {
    let (lanes, _) = block.as_chunks::<LANE>();
    [lanes[0], lanes[1], lanes[2], lanes[3]].map(u8x16::from)
}

#[inline]
fn mask(lanes: [u8x16; 4]) -> u64 {
    let [a, b, c, d] = lanes.map(|lane| u64::from(lane.to_bitmask()));
    a | b << LANE | (c | d << LANE) << (2 * LANE)
}

/// The first byte of `lane` that does not stand for itself inside a string: a quote, a backslash, a control character.
#[inline]
pub(super) fn special(lane: &[u8; LANE]) -> Option<usize> {
    let lane = u8x16::from(*lane);
    let control = lane.min(u8x16::splat(0x1F)).simd_eq(lane);
    let found = control | lane.simd_eq(u8x16::splat(b'"')) | lane.simd_eq(u8x16::splat(b'\\'));
    let mask = found.to_bitmask();
    (mask != 0).then(|| mask.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask_of(bytes: &[u8], wanted: impl Fn(u8) -> bool) -> u64 {
        bytes.iter().enumerate().fold(0, |mask, (at, &byte)| mask | u64::from(wanted(byte)) << at)
    }

    #[test]
    fn every_byte_is_classified_as_itself() {
        let all: Vec<u8> = (0..=255).collect();
        for block in all.array_windows::<WIDTH>() {
            let (quotes, backslashes) = quotes_and_backslashes(block);
            assert_eq!(quotes, mask_of(block, |byte| byte == b'"'));
            assert_eq!(backslashes, mask_of(block, |byte| byte == b'\\'));
            assert_eq!(brackets(block), mask_of(block, |byte| b"{}[]".contains(&byte)));
        }
    }

    #[test]
    fn quotes_backslashes_and_control_characters_are_special() {
        for byte in 0..=255 {
            let mut lane = [b'a'; LANE];
            lane[5] = byte;
            let expected = (byte < 0x20 || byte == b'"' || byte == b'\\').then_some(5);
            assert_eq!(special(&lane), expected, "{byte}");
        }
    }
}
