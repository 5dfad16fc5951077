//! How long a disk takes for each request: a model of a solid-state disk.
//!
//! The disk has [`UNITS`] units, which work at the same time. A request waits until a unit is free. The unit then takes
//! the access time, a random time of up to half the access time, and [`NS_PER_BYTE`] for each byte of data. So requests
//! overtake each other, and a disk completes more requests in a second if it has several of them at the same time.
//!
//! The random numbers follow from a seed. So the same requests at the same times are answered at the same times.

use super::random::Random;

/// The largest number of requests on which the disk works at the same time.
const UNITS: usize = 8;

/// How long a unit takes to transfer a byte, in nanoseconds.
const NS_PER_BYTE: u64 = 2;

/// The state of the model. All times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latency {
    access: u64,
    random: Random,
    /// When each unit becomes free.
    units: [u64; UNITS],
}

impl Latency {
    /// Makes the model of a disk with this access time and without requests.
    #[must_use]
    pub fn new(access: u64, seed: u64) -> Self {
        Self { access, random: Random(seed), units: [0; UNITS] }
    }

    /// Accepts a request for `bytes` bytes at the time `now`. Returns the time at which the request is answered.
    pub(super) fn accept(&mut self, now: u64, bytes: usize) -> u64 {
        let access = self.access.saturating_add(self.random.up_to(self.access / 2));
        let earliest = (0..UNITS).min_by_key(|&unit| self.units[unit]).unwrap_or(0);
        let start = now.max(self.units[earliest]);
        let done = start.saturating_add(access).saturating_add((bytes as u64).saturating_mul(NS_PER_BYTE));
        self.units[earliest] = done;
        done
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    const ACCESS: u64 = 80_000;

    /// Returns the times at which requests of these lengths are answered. All requests come at the time 1,000.
    fn answers(seed: u64, lengths: &[usize]) -> Vec<u64> {
        let mut disk = Latency::new(ACCESS, seed);
        lengths.iter().map(|&bytes| disk.accept(1_000, bytes)).collect()
    }

    #[test]
    fn answers_follow_from_the_seed() {
        assert_eq!(answers(7, &[512; 100]), answers(7, &[512; 100]));
        assert_ne!(answers(7, &[512; 100]), answers(8, &[512; 100]));
    }

    #[test]
    fn single_request_takes_the_access_and_its_transfer() {
        let times: Vec<u64> = (0..1_000).map(|seed| answers(seed, &[500_000])[0] - 1_000).collect();
        let (least, most) = (ACCESS + 1_000_000, ACCESS + ACCESS / 2 + 1_000_000);
        assert!(times.iter().all(|time| (least..=most).contains(time)), "{times:?}");
        // The access times are spread over their whole range.
        assert!(times.iter().any(|time| *time < least + 1_000) && times.iter().any(|time| *time > most - 1_000));
    }

    #[test]
    fn requests_beyond_the_units_wait_for_one() {
        let times = answers(1, &[0; 3 * UNITS]);
        let before = |limit: u64| times.iter().filter(|&&time| time < 1_000 + limit).count();
        assert_eq!(before(ACCESS), 0);
        assert!(before(2 * ACCESS) <= UNITS && before(3 * ACCESS) <= 2 * UNITS, "{times:?}");
    }

    #[test]
    fn units_transfer_at_the_same_time() {
        let last = answers(1, &[1 << 20; 8 * UNITS]).into_iter().max().expect("an answer");
        let least = (8 << 20) * NS_PER_BYTE + 8 * ACCESS;
        assert!((least..least + 8 * ACCESS).contains(&last), "{last}");
    }

    #[test]
    fn requests_overtake_each_other() {
        assert!(!answers(1, &[512; UNITS]).is_sorted());
    }
}
