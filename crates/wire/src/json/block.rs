//! Sixty-four bytes at a time: where the bytes are that mean something.
//!
//! Bit `n` of every mask stands for byte `n` of the block. What is generic over [`Simd`] is compiled once for each kind of
//! vectors, and has to be inlined into the one function that asks the machine which of them it has.

use fearless_simd::{Level, Simd, dispatch, prelude::*, u8x16, u8x64};

/// Bytes looked at in one step.
pub(super) const WIDTH: usize = 64;

/// Bytes looked at in one step of [`special`].
pub(super) const LANE: usize = 16;

/// The bytes of one block.
pub(super) type Block = [u8; WIDTH];

/// The block at the start of `rest`. Behind the end of a text it is white space.
#[inline(always)]
pub(super) fn first_block<'a>(rest: &'a [u8], padded: &'a mut Block) -> &'a Block {
    if let Some(block) = rest.first_chunk() {
        return block;
    }
    padded[..rest.len()].copy_from_slice(rest);
    padded
}

/// White space for [`first_block`].
pub(super) const PADDING: Block = [b' '; WIDTH];

/// A block, loaded.
#[derive(Clone, Copy)]
pub(super) struct Lanes<S: Simd>(u8x64<S>);

impl<S: Simd> Lanes<S> {
    #[inline(always)]
    pub(super) fn of(simd: S, block: &Block) -> Self {
        Self(u8x64::load_array_ref(simd, block))
    }

    /// The block with white space in place of its first `count` bytes.
    #[inline(always)]
    pub(super) fn without_first(self, simd: S, count: usize) -> Self {
        const PLACES: Block = {
            let mut places = [0; WIDTH];
            let mut at = 0;
            while at < WIDTH {
                places[at] = at as u8;
                at += 1;
            }
            places
        };
        let kept = u8x64::load_array_ref(simd, &PLACES).simd_ge(count as u8);
        Self(kept.select(self.0, u8x64::splat(simd, b' ')))
    }

    /// Control characters.
    #[inline(always)]
    pub(super) fn control(self) -> u64 {
        self.0.simd_le(0x1F).to_bitmask()
    }

    /// Digits.
    #[inline(always)]
    pub(super) fn digits(self) -> u64 {
        (self.0 - b'0').simd_le(9).to_bitmask()
    }

    /// The bytes that are one of these.
    #[inline(always)]
    pub(super) fn among<const N: usize>(self, bytes: &[u8; N]) -> u64 {
        let equal = bytes.map(|byte| self.0.simd_eq(byte));
        equal.into_iter().reduce(|all, one| all | one).map_or(0, |found| found.to_bitmask())
    }

    /// The block with this bit set in each byte.
    #[inline(always)]
    pub(super) fn with_bit(self, bit: u8) -> Self {
        Self(self.0 | bit)
    }

    /// The bytes that are larger than this one.
    #[inline(always)]
    pub(super) fn above(self, byte: u8) -> u64 {
        self.0.simd_gt(byte).to_bitmask()
    }

    /// The bytes that are this one.
    #[inline(always)]
    pub(super) fn equal(self, byte: u8) -> u64 {
        self.0.simd_eq(byte).to_bitmask()
    }
}

/// The first byte of `lane` that does not stand for itself inside a string: a quote, a backslash, a control character.
#[inline]
pub(super) fn special(lane: &[u8; LANE]) -> Option<usize> {
    let mask = dispatch!(Level::baseline(), simd => {
        let lane = u8x16::load_array_ref(simd, lane);
        (lane.simd_le(0x1F) | lane.simd_eq(b'"') | lane.simd_eq(b'\\')).to_bitmask()
    });
    (mask != 0).then(|| mask.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask_of(bytes: &[u8], wanted: impl Fn(u8) -> bool) -> u64 {
        bytes.iter().enumerate().fold(0, |mask, (at, &byte)| mask | u64::from(wanted(byte)) << at)
    }

    #[inline(always)]
    fn every_byte<S: Simd>(simd: S) {
        let all: Vec<u8> = (0..=255).collect();
        for block in all.array_windows::<WIDTH>() {
            let lanes = Lanes::of(simd, block);
            assert_eq!(lanes.control(), mask_of(block, |byte| byte < 0x20));
            assert_eq!(lanes.digits(), mask_of(block, |byte| byte.is_ascii_digit()));
            assert_eq!(lanes.among(b"\t\r\n"), mask_of(block, |byte| b"\t\r\n".contains(&byte)));
            assert_eq!(lanes.equal(b'"'), mask_of(block, |byte| byte == b'"'));
        }
    }

    #[test]
    fn every_byte_is_classified_as_itself() {
        dispatch!(Level::baseline(), simd => every_byte(simd));
        dispatch!(Level::new(), simd => every_byte(simd));
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
