//! Sixty-four bytes at a time: where the quotes, backslashes and brackets are.
//!
//! Bit `n` of every mask stands for byte `n` of the block.

use core::hint::cold_path;

use wide::u8x16;

/// Bytes looked at in one step.
pub(super) const WIDTH: usize = 64;

/// Bytes looked at in one step of [`special`].
pub(super) const LANE: usize = 16;

/// Set in `[` and `{`, clear in `]` and `}`.
pub(super) const OPENS: u8 = 0b10;

/// The bytes of one block.
pub(super) type Block = [u8; WIDTH];

/// A text shorter than a block, with white space behind it.
pub(super) fn padded(text: &[u8]) -> Block {
    let mut block = [b' '; WIDTH];
    block[..text.len()].copy_from_slice(text);
    block
}

/// A block, loaded.
#[derive(Clone, Copy)]
pub(super) struct Lanes([u8x16; 4]);

impl Lanes {
    #[inline(always)]
    pub(super) fn of(block: &Block) -> Self {
        let (lanes, _) = block.as_chunks::<LANE>();
        Self([u8x16::from(lanes[0]), u8x16::from(lanes[1]), u8x16::from(lanes[2]), u8x16::from(lanes[3])])
    }

    /// Quotes and backslashes.
    #[inline(always)]
    pub(super) fn quotes_and_backslashes(&self) -> (u64, u64) {
        let quotes = self.equal(b'"');
        let [a, b, c, d] = self.each(|lane| lane.simd_eq(u8x16::splat(b'\\')));
        if (a | b | c | d).to_bitmask() == 0 {
            return (quotes, 0);
        }
        // A branch, not a choice between two results: most blocks are spared the four masks.
        cold_path();
        (quotes, mask([a, b, c, d]))
    }

    /// Brackets and braces, opening and closing.
    #[inline(always)]
    pub(super) fn brackets(&self) -> u64 {
        mask(self.each(|lane| {
            // `[` and `{`, `]` and `}` differ in this one bit only; `{` and `}` are two apart.
            let folded = (lane | u8x16::splat(0x20)) - u8x16::splat(b'{');
            (folded & u8x16::splat(!2)).simd_eq(u8x16::splat(0))
        }))
    }

    /// Control characters.
    #[inline(always)]
    pub(super) fn control(&self) -> u64 {
        let highest = u8x16::splat(0x1F);
        let [a, b, c, d] = self.0;
        let least = a.min(b).min(c.min(d));
        if least.min(highest).simd_eq(least).to_bitmask() == 0 {
            return 0;
        }
        cold_path();
        mask(self.each(|lane| lane.min(highest).simd_eq(lane)))
    }

    /// Tabs and line breaks.
    fn breaks(&self) -> u64 {
        self.equal(b'\t') | self.equal(b'\n') | self.equal(b'\r')
    }

    #[inline(always)]
    fn equal(&self, byte: u8) -> u64 {
        mask(self.each(|lane| lane.simd_eq(u8x16::splat(byte))))
    }

    /// As `map` of the array, which copies it.
    #[inline(always)]
    fn each(&self, of: impl Fn(u8x16) -> u8x16) -> [u8x16; 4] {
        let [a, b, c, d] = self.0;
        [of(a), of(b), of(c), of(d)]
    }
}

/// Where the bytes are that mean something outside strings.
pub(super) struct Marks {
    /// `{` and `[`.
    pub(super) opens: u64,
    /// `{` alone.
    pub(super) open_braces: u64,
    /// `}` and `]`.
    pub(super) closes: u64,
    pub(super) commas: u64,
    pub(super) colons: u64,
    /// White space.
    pub(super) spaces: u64,
}

impl Marks {
    /// Those of a block, of which tabs and line breaks count only if there are control characters.
    // Inlined, the compiler puts the lanes together from single bytes.
    #[inline(never)]
    pub(super) fn of(block: &Block, has_control: bool) -> Self {
        let lanes = Lanes::of(block);
        // `[` and `{`, `]` and `}` differ in this one bit only.
        let folded = Lanes(lanes.each(|lane| lane | u8x16::splat(0x20)));
        let breaks = if has_control { lanes.breaks() } else { 0 };
        Self {
            opens: folded.equal(b'{'),
            open_braces: lanes.equal(b'{'),
            closes: folded.equal(b'}'),
            commas: lanes.equal(b','),
            colons: lanes.equal(b':'),
            spaces: lanes.equal(b' ') | breaks,
        }
    }

    /// Those behind the first `count` bytes.
    #[inline(always)]
    pub(super) fn after(self, count: usize) -> Self {
        Self {
            opens: self.opens >> count,
            open_braces: self.open_braces >> count,
            closes: self.closes >> count,
            commas: self.commas >> count,
            colons: self.colons >> count,
            spaces: self.spaces >> count,
        }
    }
}

#[inline(always)]
fn mask([a, b, c, d]: [u8x16; 4]) -> u64 {
    let [a, b, c, d] = [a.to_bitmask(), b.to_bitmask(), c.to_bitmask(), d.to_bitmask()].map(u64::from);
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
            let lanes = Lanes::of(block);
            let (quotes, backslashes) = lanes.quotes_and_backslashes();
            assert_eq!(quotes, mask_of(block, |byte| byte == b'"'));
            assert_eq!(backslashes, mask_of(block, |byte| byte == b'\\'));
            assert_eq!(lanes.brackets(), mask_of(block, |byte| b"{}[]".contains(&byte)));
            assert_eq!(lanes.control(), mask_of(block, |byte| byte < 0x20));
            for (has_control, spaces) in [(false, &b" "[..]), (true, b" \t\r\n")] {
                let marks = Marks::of(block, has_control);
                assert_eq!(marks.opens, mask_of(block, |byte| b"{[".contains(&byte)));
                assert_eq!(marks.open_braces, mask_of(block, |byte| byte == b'{'));
                assert_eq!(marks.closes, mask_of(block, |byte| b"}]".contains(&byte)));
                assert_eq!(marks.commas, mask_of(block, |byte| byte == b','));
                assert_eq!(marks.colons, mask_of(block, |byte| byte == b':'));
                assert_eq!(marks.spaces, mask_of(block, |byte| spaces.contains(&byte)));
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
