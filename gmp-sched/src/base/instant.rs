//! Points in time.

use core::fmt;
use core::time::Duration;

/// A point in time: nanoseconds on the platform's clock, which is monotonic. The largest value means "never".
///
/// ```
/// use core::time::Duration;
/// use gmp_sched::time::Instant;
///
/// let start = Instant::from_nanos(1_000);
/// let later = start.after(Duration::from_micros(2));
/// assert_eq!((later.as_nanos(), later.since(start)), (3_000, Duration::from_micros(2)));
/// assert!(start.since(later).is_zero() && later < Instant::NEVER);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Instant(u64);

impl Instant {
    /// After every point in time. See [`Instant`] for an example.
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

    /// The time from `earlier` to this point; zero if `earlier` is later. See [`Instant`] for an example.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The point `duration` later; [`NEVER`](Self::NEVER) if that overflows. See [`Instant`] for an example.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanoseconds))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} s", self.0 / 1_000_000_000, self.0 / 1_000 % 1_000_000)
    }
}
