//! Conversion between the units of two clocks, by a factor that is a 32.32 fixed-point number.

/// How many units of one clock pass in one unit of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Factor(u64);

impl Factor {
    /// The factor zero, which converts every value to zero.
    pub const ZERO: Self = Self(0);

    /// Returns the factor with which `from` units of one clock become `to` units of the other, rounded down.
    ///
    /// # Panics
    /// If `from` is zero, or if the factor is not less than 2^32.
    pub fn new(from: u64, to: u64) -> Self {
        let factor = (u128::from(to) << 32) / u128::from(from);
        Self(u64::try_from(factor).expect("one of two clocks is more than 2^32 times as fast as the other"))
    }

    /// Returns the factor whose [`to_bits`](Self::to_bits) are `bits`.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the factor times 2^32, for storage in an atomic variable.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Converts `value`, rounding down. Returns the lower 64 bits if the result has more.
    #[inline]
    pub const fn convert(self, value: u64) -> u64 {
        ((value as u128 * self.0 as u128) >> 32) as u64
    }

    /// Returns the smallest value that [`convert`](Self::convert) converts to `result` or more. Returns `u64::MAX` if
    /// the factor is zero, or if that smallest value has more than 64 bits.
    ///
    /// A second factor for the opposite direction would be too inexact. Both factors would be rounded, so the error of
    /// converting a value there and back would grow with the value. For a time of one month, the error would be
    /// milliseconds.
    #[inline]
    pub const fn convert_back(self, result: u64) -> u64 {
        if self.0 == 0 {
            return u64::MAX;
        }
        let value = ((result as u128) << 32).div_ceil(self.0 as u128);
        if value > u64::MAX as u128 { u64::MAX } else { value as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR_NS: u64 = 365 * 24 * 3600 * 1_000_000_000;

    #[test]
    fn known_values_are_converted() {
        let factor = Factor::new(3, 1);
        assert_eq!(factor.convert(3_000_000), 999_999);
        assert_eq!(Factor::new(1, 3).convert(7), 21);
        assert_eq!(Factor::ZERO.convert(7), 0);
        assert_eq!(Factor::from_bits(factor.to_bits()), factor);
    }

    #[test]
    fn value_converted_back_is_the_first_that_reaches_the_result() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..1_000_000 {
            // The factor converts ticks of a clock into nanoseconds. The clock has any rate between 10 MHz and 10 GHz.
            let factor = Factor::new(random.u64(10_000_000..10_000_000_000), 1_000_000_000);
            // This is any moment of ten years.
            let ns = random.u64(..10 * YEAR_NS);
            let ticks = factor.convert_back(ns);
            assert!(factor.convert(ticks) >= ns, "{factor:?} {ns}");
            assert!(ticks == 0 || factor.convert(ticks - 1) < ns, "{factor:?} {ns}");
        }
    }

    #[test]
    fn value_that_cannot_be_reached_is_the_greatest() {
        assert_eq!(Factor::ZERO.convert_back(1), u64::MAX);
        assert_eq!(Factor::new(1 << 20, 1).convert_back(u64::MAX), u64::MAX);
    }
}
