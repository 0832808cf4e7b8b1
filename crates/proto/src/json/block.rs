//! Sixty-four bytes at a time: where the quotes, backslashes and brackets are.
//!
//! Bit `n` of every mask stands for byte `n` of the block.

use wide::u8x16;

/// Bytes looked at in one step.
pub(super) const WIDTH: usize = 64;

/// Bytes looked at in one step of [`special`].
pub(super) const LANE: usize = 16;

/// The bytes of one block.
pub(super) type Block = [u8; WIDTH];

/// A block with the last `len` bytes of the text, fewer than a block, at its end; or, where the text is shorter, at its start.
///
/// Also gives how many other bytes precede them.
pub(super) fn last<'a>(text: &'a [u8], len: usize, room: &'a mut Block) -> (&'a Block, usize) {
    if let Some(block) = text.last_chunk() {
        return (block, WIDTH - len);
    }
    room.fill(b' ');
    room[..len].copy_from_slice(&text[text.len() - len..]);
    (room, 0)
}

/// Quotes and backslashes.
#[inline]
pub(super) fn quotes_and_backslashes(block: &Block) -> (u64, u64) {
    let lanes = lanes(block);
    let quotes = lanes.map(|lane| lane.simd_eq(u8x16::splat(b'"')));
    let backslashes = lanes.map(|lane| lane.simd_eq(u8x16::splat(b'\\')));
    // Most blocks have none: one test is cheaper than four masks.
    let [a, b, c, d] = backslashes;
    let backslashes = if (a | b | c | d).to_bitmask() == 0 { 0 } else { mask(backslashes) };
    (mask(quotes), backslashes)
}

/// Brackets and braces, opening and closing.
#[inline]
pub(super) fn brackets(block: &Block) -> u64 {
    mask(lanes(block).map(|lane| {
        // `[` and `{`, `]` and `}` differ in this one bit only.
        let folded = lane | u8x16::splat(0x20);
        folded.simd_eq(u8x16::splat(b'{')) | folded.simd_eq(u8x16::splat(b'}'))
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
    fn the_last_block_holds_the_end_of_the_text() {
        let all: Vec<u8> = (0..=255).collect();
        for text in [&all[..10], &all[..64], &all[..200]] {
            for len in 0..text.len().min(WIDTH) {
                let mut room = [0; WIDTH];
                let (block, surplus) = last(text, len, &mut room);
                assert_eq!(block[surplus..][..len], text[text.len() - len..]);
            }
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
