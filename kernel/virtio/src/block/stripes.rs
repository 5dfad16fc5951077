//! Which locks guard which sectors.
//!
//! A disk has many sectors, but a driver has only [`LOCKS`] locks. So the sectors are divided into *stripes* of
//! consecutive sectors, and each lock guards many stripes.

use crate::block::buffers::{BUFFER_BYTES, MAX_REQUEST_BYTES};
use crate::block::protocol::SECTOR_SIZE;

/// The number of locks.
pub const LOCKS: usize = 256;
/// The number of sectors of a stripe: as many as fit into one buffer.
const STRIPE: u64 = (BUFFER_BYTES / SECTOR_SIZE) as u64;
/// The largest number of sectors that are locked at once: those of the longest write. If a discard has a longer range,
/// the range is locked and discarded in parts.
pub const MAX_SECTORS: u64 = (MAX_REQUEST_BYTES / SECTOR_SIZE) as u64;
/// The largest number of locks that guard [`MAX_SECTORS`] sectors. The first sector may be anywhere in its stripe.
pub const MAX_LOCKS: usize = (MAX_SECTORS / STRIPE) as usize + 1;
const _: () = assert!(MAX_LOCKS <= LOCKS, "no lock guards two stripes of the same range");

/// Returns the numbers of the locks that guard `count` sectors from `first` on, in ascending order. If every caller
/// takes its locks in this order, callers cannot wait for each other in a circle.
///
/// # Panics
/// If there are no sectors, or more than [`MAX_SECTORS`], or if the number of the last one exceeds 64 bits.
pub fn locks(first: u64, count: u64) -> impl Iterator<Item = usize> {
    assert!((1..=MAX_SECTORS).contains(&count), "sectors that are locked at once");
    let last = first.checked_add(count - 1).expect("sectors of a disk");
    let (first, last) = (first / STRIPE, last / STRIPE);
    // The first stripe after `first` whose lock has the number 0. From this stripe on, the numbers of the locks start
    // again from 0. So the locks of the stripes from `round` on have the smaller numbers, and are returned first.
    let round = (first / LOCKS as u64 + 1) * LOCKS as u64;
    let stripes = (round..=last).chain(first..=last.min(round - 1));
    stripes.map(|stripe| (stripe % LOCKS as u64) as usize)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn locks_are_ascending_and_guard_every_sector() {
        let around = STRIPE * LOCKS as u64;
        for first in [0, 1, STRIPE - 1, STRIPE, around - MAX_SECTORS, around - 1, around, 5 * around - 3 * STRIPE + 7] {
            for count in [1, 2, STRIPE, STRIPE + 1, MAX_SECTORS - 1, MAX_SECTORS] {
                let locks: Vec<usize> = locks(first, count).collect();
                assert!(locks.is_sorted_by(|one, next| one < next), "{count} sectors from {first} on: {locks:?}");
                assert!(locks.len() <= MAX_LOCKS);
                for sector in first..first + count {
                    let [lock] = super::locks(sector, 1).collect::<Vec<_>>()[..] else { panic!("one lock") };
                    assert!(locks.contains(&lock), "sector {sector} of {count} from {first} on");
                }
            }
        }
    }

    #[test]
    fn write_of_one_buffer_takes_at_most_two_locks() {
        assert_eq!(locks(STRIPE - 1, 2).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(locks(1, STRIPE).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(locks(STRIPE * LOCKS as u64 - 1, STRIPE).collect::<Vec<_>>(), [0, LOCKS - 1]);
    }
}
