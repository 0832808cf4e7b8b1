//! Where choices come from: bytes, so that a fuzzer and a random walk drive the same world.

/// Makes the choices of a walk.
pub trait Chooser {
    /// A number below `bound`, which is at least 1; `None` once there are no more choices.
    fn choose(&mut self, bound: usize) -> Option<usize>;
}

/// Choices read from bytes: one byte a choice, two where there are more than 256 possibilities.
#[derive(Clone, Debug)]
pub struct ByteChooser<'a> {
    bytes: &'a [u8],
}

impl<'a> ByteChooser<'a> {
    /// Choices from these bytes, until they are used up.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }
}

/// Choices without an end, the same for the same seed.
#[derive(Clone, Debug)]
pub struct EndlessChooser(
    /// The seed.
    pub u64,
);

impl Chooser for EndlessChooser {
    fn choose(&mut self, bound: usize) -> Option<usize> {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The upper bits are the random ones.
        Some((((self.0 >> 32) * bound as u64) >> 32) as usize)
    }
}

impl Chooser for ByteChooser<'_> {
    fn choose(&mut self, bound: usize) -> Option<usize> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        let mut value = usize::from(first);
        if bound > 256 {
            let (&second, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            value = value << 8 | usize::from(second);
        }
        Some(value % bound.max(1))
    }
}
