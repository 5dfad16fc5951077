//! Scheduling latency: how long Gs are runnable before they run. Each P has a histogram, filled from a sample of Gs.
//!
//! When a sampled G (see `refinements::sampling`) becomes runnable, it stores the time. The P that runs the G records how
//! much time has passed since. Go: `timeToRun`, sampled for one G in 8 (`gTrackingPeriod`).

use core::fmt;
use core::ops::{AddAssign, Range};
use core::time::Duration;

use crate::base::atomic::{AtomicU64, Ordering};

/// The binary logarithm of the number of buckets per power of two. Go: `timeHistSubBucketBits`.
const SUB_BITS: u32 = 2;
/// Latencies below 2^`MIN_BITS` ns are in the first bucket. Go: `timeHistMinBucketBits`.
const MIN_BITS: u32 = 9;
/// Latencies of at least 2^`MAX_BITS` ns are in the last bucket. Go: `timeHistMaxBucketBits`.
const MAX_BITS: u32 = 48;
const BUCKETS: usize = ((MAX_BITS - MIN_BITS) << SUB_BITS) as usize + 2;

/// Returns the bucket for a latency in nanoseconds.
fn bucket_of(nanoseconds: u64) -> usize {
    let Some(bits) = nanoseconds.checked_ilog2().filter(|&bits| bits >= MIN_BITS) else { return 0 };
    if bits >= MAX_BITS {
        return BUCKETS - 1;
    }
    let sub = (nanoseconds >> (bits - SUB_BITS)) as usize & ((1 << SUB_BITS) - 1);
    (((bits - MIN_BITS) as usize) << SUB_BITS) + sub + 1
}

/// Returns the shortest latency of a bucket, in nanoseconds.
fn least_of(bucket: usize) -> u64 {
    if bucket == 0 {
        return 0;
    }
    let (bits, sub) = ((bucket - 1) >> SUB_BITS, (bucket - 1) & ((1 << SUB_BITS) - 1));
    ((1 << SUB_BITS) + sub as u64) << (bits as u32 + MIN_BITS - SUB_BITS)
}

/// A histogram with one writer, the M that holds the P, and any number of readers.
pub(crate) struct LatencyCounter([AtomicU64; BUCKETS]);

impl LatencyCounter {
    pub(crate) fn new() -> Self {
        Self(core::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Sets all buckets to 0.
    #[cfg(any(feature = "std", test))]
    pub(crate) fn clear(&self) {
        self.0.iter().for_each(|bucket| bucket.store(0, Ordering::Relaxed));
    }

    /// Adds a latency in nanoseconds.
    #[inline]
    pub(crate) fn add(&self, latency: u64) {
        let bucket = &self.0[bucket_of(latency)];
        // A load and a store instead of an atomic read-modify-write are enough, because there is only one writer.
        bucket.store(bucket.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Latencies {
        Latencies(core::array::from_fn(|bucket| self.0[bucket].load(Ordering::Relaxed)))
    }
}

impl fmt::Debug for LatencyCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read().fmt(f)
    }
}

/// A histogram of how long sampled Gs were runnable before they ran. Go: `/sched/latencies:seconds`.
#[derive(Clone, PartialEq, Eq)]
#[doc(alias = "timeToRun")]
pub struct Latencies([u64; BUCKETS]);

impl Latencies {
    /// The longest of the latencies that were measured since `earlier`, in nanoseconds, rounded up to the end of its
    /// bucket. A latency in the last bucket, which has no end, counts as 2^`MAX_BITS`. 0 if none was measured since.
    pub(crate) fn longest_since(&self, earlier: &Self) -> u64 {
        let mut pairs = self.0.iter().zip(earlier.0);
        let longest = pairs.rposition(|(now, before)| *now > before);
        longest.map_or(0, |bucket| least_of((bucket + 1).min(BUCKETS - 1)))
    }

    /// Number of latencies measured.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The buckets that are not empty, from short to long: the range of each, and the number of latencies in it.
    pub fn buckets(&self) -> impl Iterator<Item = (Range<Duration>, u64)> {
        let counted = self.0.iter().enumerate().filter(|&(_, &count)| count != 0);
        counted.map(|(bucket, &count)| {
            let end = if bucket + 1 < BUCKETS { Duration::from_nanos(least_of(bucket + 1)) } else { Duration::MAX };
            (Duration::from_nanos(least_of(bucket))..end, count)
        })
    }

    /// An upper bound of the given percentile: the end of the bucket that contains the percentile. `None` if nothing
    /// was measured. There are four buckets for each power of two from 2^9 ns to 2^48 ns. Shorter latencies are all in
    /// one bucket, and longer ones in a bucket whose end is [`Duration::MAX`].
    ///
    /// # Panics
    ///
    /// `percent` is more than 100.
    #[must_use]
    #[track_caller]
    pub fn percentile(&self, percent: u64) -> Option<Duration> {
        assert!(percent <= 100, "{percent} percent is more than all");
        let wanted = (u128::from(self.count()) * u128::from(percent)).div_ceil(100).max(1);
        let mut seen = 0;
        self.buckets().find_map(|(times, count)| {
            seen += u128::from(count);
            (seen >= wanted).then_some(times.end)
        })
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl AddAssign for Latencies {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }
}

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.buckets()).finish()
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use core::time::Duration;

    use super::{BUCKETS, Latencies, LatencyCounter, bucket_of, least_of};

    #[test]
    fn buckets_match_gos() {
        // Go's code has 160 buckets between the first and the last one; the range 2^9..2^48 needs only (48 - 9) * 4.
        assert_eq!(BUCKETS, 158);
        assert_eq!([0, 1, 511].map(bucket_of), [0, 0, 0]);
        assert_eq!([512, 639, 640, 1023, 1024].map(bucket_of), [1, 1, 2, 4, 5]);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        for bucket in 1..BUCKETS {
            assert_eq!(bucket_of(least_of(bucket)), bucket);
            assert_eq!(bucket_of(least_of(bucket) - 1), bucket - 1);
        }
    }

    #[test]
    fn percentile_is_the_upper_end_of_a_bucket() {
        let counter = LatencyCounter::new();
        assert_eq!(counter.read().percentile(50), None);
        for micros in 1..=100 {
            counter.add(micros * 1000);
        }
        let mut twice = Latencies::default();
        twice += counter.read();
        twice += counter.read();
        assert_eq!(twice.count(), 200);
        for percent in [1, 50, 99, 100] {
            let (found, exact) = (twice.percentile(percent).unwrap(), Duration::from_micros(percent));
            assert!(found >= exact && found <= exact * 5 / 4 + Duration::from_nanos(1), "{percent}: {found:?}");
        }
    }

    #[test]
    fn longest_latencies_are_in_a_bucket_without_an_end() {
        let counter = LatencyCounter::new();
        for nanos in [0, u64::MAX] {
            counter.add(nanos);
        }
        let begin = |bucket| Duration::from_nanos(least_of(bucket));
        let expected = [(begin(0)..begin(1), 1), (begin(BUCKETS - 1)..Duration::MAX, 1)];
        assert!(counter.read().buckets().eq(expected));
        assert_eq!(counter.read().percentile(100), Some(Duration::MAX));
        assert_eq!(counter.read().longest_since(&Latencies::default()), least_of(BUCKETS - 1));
    }
}
