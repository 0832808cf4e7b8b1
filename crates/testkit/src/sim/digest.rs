//! A 128-bit hash of a state: wide enough that two different states never meet by chance.

use core::hash::Hasher;

/// Two lanes of 64 bits, fed the same words; the same on every run and every machine of one endianness.
#[derive(Clone, Debug)]
pub struct Digest {
    fold: u64,
    mix: u64,
}

const FOLD: u128 = 0x9E37_79B9_7F4A_7C15;
const MIX: u64 = 0xC2B2_AE3D_27D4_EB4F;

impl Digest {
    /// Nothing fed yet.
    pub const fn new() -> Self {
        Self { fold: 0x243F_6A88_85A3_08D3, mix: 0x1319_8A2E_0370_7344 }
    }

    /// The hash of everything fed so far.
    pub fn finish_wide(&self) -> u128 {
        let high = avalanche(self.fold ^ self.mix.rotate_left(32));
        let low = avalanche(self.mix.wrapping_add(high));
        (u128::from(high) << 64) | u128::from(low)
    }

    const fn word(&mut self, word: u64) {
        let wide = (self.fold ^ word) as u128 * FOLD;
        self.mix = (self.mix.rotate_left(23) ^ word).wrapping_mul(MIX) ^ self.fold;
        self.fold = (wide as u64) ^ ((wide >> 64) as u64) ^ self.mix.rotate_left(41);
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self::new()
    }
}

impl Hasher for Digest {
    fn finish(&self) -> u64 {
        self.finish_wide() as u64
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let mut eight = [0; 8];
            eight.copy_from_slice(word);
            self.word(u64::from_le_bytes(eight));
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let mut eight = [0; 8];
            eight[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(eight));
        }
        self.word(bytes.len() as u64);
    }

    fn write_u8(&mut self, value: u8) {
        self.word(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.word(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.word(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.word(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.word(value as u64);
    }
}

/// Spreads every bit over all others.
const fn avalanche(mut value: u64) -> u64 {
    value ^= value >> 33;
    value = value.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    value ^= value >> 33;
    value = value.wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    value ^ (value >> 33)
}

#[cfg(test)]
mod tests {
    use core::hash::Hash;
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn near_values_have_different_digests() {
        let mut seen = HashSet::new();
        for a in 0..300_u64 {
            for b in 0..300_u64 {
                let mut digest = Digest::new();
                (a, b).hash(&mut digest);
                assert!(seen.insert(digest.finish_wide()), "{a} {b}");
            }
        }
    }

    #[test]
    fn where_a_value_ends_counts() {
        let of = |parts: &[&str]| {
            let mut digest = Digest::new();
            parts.hash(&mut digest);
            digest.finish_wide()
        };
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["ab"]), of(&["ab\0"]));
    }
}
