//! The usable parts of a memory map whose regions overlap.
//!
//! The memory maps of some firmware contain regions that overlap (which is why Linux sanitises the E820 map). Memory
//! that is also in a region of another kind is not usable, and memory in two usable regions must be used only once.

use core::iter;
use core::ops::Range;

/// Returns the usable parts of the map, which do not overlap each other or a region that is not usable. `region_of`
/// returns the addresses of a region, and whether the map calls it usable. The parts of one region are in ascending
/// order.
pub fn usable_parts<R>(
    map: &[R],
    region_of: impl Fn(&R) -> (Range<u64>, bool) + Copy,
) -> impl Iterator<Item = Range<u64>> {
    let all = move || map.iter().map(region_of).enumerate();
    all().filter(|(_, (_, is_usable))| *is_usable).flat_map(move |(index, (region, _))| {
        // What is cut out of this region: all regions that are not usable, and the usable ones before it.
        let cuts = move || {
            let others = all().filter(move |&(other, (_, is_usable))| !is_usable || other < index);
            others.map(|(_, (cut, _))| cut).filter(|cut| !cut.is_empty())
        };
        let mut start = region.start;
        iter::from_fn(move || {
            while let Some(end) = cuts().filter(|cut| cut.contains(&start)).map(|cut| cut.end).max() {
                start = end;
            }
            let next_cut = cuts().map(|cut| cut.start).filter(|&cut| cut > start).min();
            let part = start..next_cut.unwrap_or(region.end).min(region.end);
            start = part.end;
            (!part.is_empty()).then_some(part)
        })
    })
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    type Region = (Range<u64>, bool);

    fn parts(map: &[Region]) -> Vec<Range<u64>> {
        usable_parts(map, Region::clone).collect()
    }

    #[test]
    fn regions_that_do_not_overlap_are_unchanged() {
        assert_eq!(parts(&[(0..10, true), (10..20, false), (20..30, true), (40..40, true)]), [0..10, 20..30]);
    }

    #[test]
    fn reserved_memory_is_cut_out_of_usable_memory() {
        assert_eq!(parts(&[(0..30, true), (10..20, false)]), [0..10, 20..30]);
        assert_eq!(parts(&[(5..9, false), (0..30, true), (8..10, false), (28..40, false)]), [0..5, 10..28]);
        assert_eq!(parts(&[(0..30, true), (0..u64::MAX, false)]), []);
    }

    #[test]
    fn memory_in_two_usable_regions_is_used_once() {
        assert_eq!(parts(&[(0..30, true), (10..40, true), (0..40, true)]), [0..30, 30..40]);
        assert_eq!(parts(&[(10..20, true), (0..30, true), (10..20, true)]), [10..20, 0..10, 20..30]);
    }

    /// Compares the parts with a computation that looks at each address by itself.
    #[test]
    fn each_usable_address_is_in_one_part() {
        const ADDRESSES: u64 = 24;
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let mut range = || {
                let [first, second] = [(); 2].map(|()| random.u64(..ADDRESSES));
                (first.min(second)..first.max(second), random.u8(..3) != 0)
            };
            let map: Vec<Region> = (0..5).map(|_| range()).collect();
            let parts = parts(&map);
            for address in 0..ADDRESSES {
                let mut regions = map.iter().filter(|(range, _)| range.contains(&address)).peekable();
                let is_usable = regions.peek().is_some() && regions.all(|(_, is_usable)| *is_usable);
                let count = parts.iter().filter(|part| part.contains(&address)).count();
                assert_eq!(count, usize::from(is_usable), "address {address} of {map:?}: {parts:?}");
            }
        }
    }
}
