//! Points in time.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};
use core::time::Duration;

/// A point in time: nanoseconds on the platform's clock, which is monotonic. The largest value means "never".
///
/// Arithmetic saturates at the clock's zero and at [`NEVER`](Self::NEVER), whereas the arithmetic of
/// `std::time::Instant` panics if it overflows. [`NEVER`](Self::NEVER) plus or minus a duration is
/// [`NEVER`](Self::NEVER).
///
/// ```
/// use core::time::Duration;
/// use gmp_sched::time::Instant;
///
/// let start = Instant::from_nanos(1_000);
/// let later = start + Duration::from_micros(2);
/// assert_eq!(later.as_nanos(), 3_000);
/// assert_eq!(later - start, Duration::from_micros(2));
/// assert_eq!(later - Duration::from_micros(2), start);
/// assert!((start - later).is_zero() && later < Instant::NEVER);
/// assert_eq!(start + Duration::MAX, Instant::NEVER);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Instant(u64);

impl Instant {
    /// Later than every other point in time. See [`Instant`] for an example.
    pub const NEVER: Self = Self(u64::MAX);

    /// The last point in time before [`NEVER`](Self::NEVER).
    pub(crate) const LAST: Self = Self(u64::MAX - 1);

    /// The point `nanoseconds` after the clock's zero. See [`Instant`] for an example.
    #[must_use]
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the clock's zero. See [`Instant`] for an example.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this point; zero if `earlier` is later. The same as `self - earlier`.
    #[must_use]
    #[inline]
    pub const fn duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The length of `duration` in nanoseconds; `u64::MAX` if it is longer than an [`Instant`] can count.
#[inline]
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Self;

    #[inline]
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanoseconds(duration)))
    }
}

impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    #[inline]
    fn sub(self, duration: Duration) -> Self {
        if self == Self::NEVER { self } else { Self(self.0.saturating_sub(nanoseconds(duration))) }
    }
}

impl SubAssign<Duration> for Instant {
    #[inline]
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} s", self.0 / 1_000_000_000, self.0 / 1_000 % 1_000_000)
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(1_000);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn adding_and_subtracting_a_duration_are_inverse() {
        let mut instant = START;
        instant += SECOND;
        assert_eq!((instant, instant.as_nanos()), (START + SECOND, 1_000_001_000));
        instant -= SECOND;
        assert_eq!(instant, START);
    }

    #[test]
    fn difference_is_zero_if_the_subtrahend_is_later() {
        assert_eq!((START + SECOND) - START, SECOND);
        assert_eq!(START - (START + SECOND), Duration::ZERO);
        assert_eq!((START + SECOND).duration_since(START), SECOND);
    }

    #[test]
    fn arithmetic_saturates_at_zero_and_never() {
        assert_eq!(START - SECOND, Instant::from_nanos(0));
        assert_eq!(START - Duration::MAX, Instant::from_nanos(0));
        assert_eq!(Instant::LAST + Duration::from_nanos(1), Instant::NEVER);
        assert_eq!(START + Duration::MAX, Instant::NEVER);
    }

    #[test]
    fn never_plus_or_minus_a_duration_is_never() {
        assert_eq!(Instant::NEVER + SECOND, Instant::NEVER);
        assert_eq!(Instant::NEVER - SECOND, Instant::NEVER);
    }
}
