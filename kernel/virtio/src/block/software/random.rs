//! Random numbers that follow from a seed.

/// The generator SplitMix64. Its field is the state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    /// Returns a random number from 0 to `most`.
    pub(super) fn up_to(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^= number >> 31;
        // The upper half of the product is the random number, scaled to the range from 0 to `most`.
        ((u128::from(number) * (u128::from(most) + 1)) >> 64) as u64
    }
}
