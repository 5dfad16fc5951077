//! Memory that the loader's memory map calls usable although it is in use: the kernel's image and its command line.

use core::ops::Range;

/// The kernel's image and its command line in physical memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InUse {
    /// The two ranges, in the order of their addresses. The range of an absent command line is empty.
    ranges: [Range<u64>; 2],
}

impl InUse {
    /// Returns the memory that `image` and the command line occupy. The command line has `length` bytes, which a zero
    /// byte follows, and is at the address `text`. If `text` is 0, there is no command line.
    pub fn new(image: Range<u64>, text: u64, length: usize) -> Self {
        // The zero byte that ends the command line is also in use. No address is so high that the end overflows,
        // because the text is in memory.
        let text = text..if text == 0 { 0 } else { text.saturating_add(length as u64).saturating_add(1) };
        Self { ranges: if text.start < image.start { [text, image] } else { [image, text] } }
    }

    /// Splits a region that the memory map calls usable. Calls `push` with each part, in the order of the addresses,
    /// and with whether that part is in use.
    pub fn split(&self, region: Range<u64>, mut push: impl FnMut(Range<u64>, bool)) {
        let Range { mut start, end } = region;
        let mut push_if_any = |part: Range<u64>, is_in_use| {
            if !part.is_empty() {
                push(part, is_in_use);
            }
        };
        for used in &self.ranges {
            push_if_any(start..end.min(used.start), false);
            push_if_any(start.max(used.start)..end.min(used.end), true);
            start = start.max(used.end);
        }
        push_if_any(start..end, false);
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of ranges may have one element")]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use super::*;

    const MIB: u64 = 1 << 20;
    const IMAGE: Range<u64> = 2 * MIB..5 * MIB;

    /// Returns the usable parts and the parts in use.
    fn split(in_use: &InUse, region: Range<u64>) -> [Vec<Range<u64>>; 2] {
        let mut parts = [Vec::new(), Vec::new()];
        in_use.split(region, |part, is_in_use| parts[usize::from(is_in_use)].push(part));
        parts
    }

    #[test]
    fn command_line_below_between_and_above_the_rest_is_kept() {
        // The command line is below 1 MiB, as QEMU puts it.
        let low = InUse::new(IMAGE, 0x9_0000, 99);
        assert_eq!(split(&low, 0..0x9_fc00), [vec![0..0x9_0000, 0x9_0064..0x9_fc00], vec![0x9_0000..0x9_0064]]);
        assert_eq!(split(&low, MIB..8 * MIB), [vec![MIB..2 * MIB, 5 * MIB..8 * MIB], vec![IMAGE]]);
        // The command line is in the same region as the image, before or after it.
        let before = InUse::new(IMAGE, MIB, 99);
        let text = MIB..MIB + 100;
        assert_eq!(
            split(&before, MIB..8 * MIB),
            [vec![text.end..2 * MIB, 5 * MIB..8 * MIB], vec![text.clone(), IMAGE]]
        );
        let after = InUse::new(IMAGE, 7 * MIB, 99);
        let text = 7 * MIB..7 * MIB + 100;
        assert_eq!(
            split(&after, MIB..8 * MIB),
            [vec![MIB..2 * MIB, 5 * MIB..text.start, text.end..8 * MIB], vec![IMAGE, text]]
        );
        // The command line directly follows the image, and ends at the end of the region.
        let adjacent = InUse::new(IMAGE, 5 * MIB, 99);
        let text = 5 * MIB..5 * MIB + 100;
        assert_eq!(split(&adjacent, MIB..text.end), [vec![MIB..2 * MIB], vec![IMAGE, text]]);
    }

    #[test]
    fn memory_without_image_and_command_line_is_not_split() {
        let in_use = InUse::new(IMAGE, 7 * MIB, 99);
        for region in [0..MIB, 5 * MIB..6 * MIB, 8 * MIB..9 * MIB] {
            assert_eq!(split(&in_use, region.clone()), [vec![region], vec![]]);
        }
        let without = InUse::new(IMAGE, 0, 0);
        assert_eq!(split(&without, 0..MIB), [vec![0..MIB], vec![]]);
        assert_eq!(split(&without, 3 * MIB..4 * MIB), [vec![], vec![3 * MIB..4 * MIB]]);
    }

    #[test]
    fn parts_cover_the_region_and_only_what_is_in_use_is_marked() {
        let mut random = fastrand::Rng::with_seed(0);
        for _ in 0..10_000 {
            let image = 20..30;
            // The command line is not inside the image.
            let (text, length) =
                *random.choice(&[(0, 0), (31, 5), (30, 3), (40, 0), (5, 6), (13, 6), (19, 0)]).unwrap();
            let start = random.u64(0..50);
            let region = start..random.u64(start..=60);
            let text_end = if text == 0 { 0 } else { text + length as u64 + 1 };
            let mut next = region.start;
            InUse::new(image.clone(), text, length).split(region.clone(), |part, is_in_use| {
                assert_eq!(part.start, next);
                assert!(!part.is_empty());
                next = part.end;
                part.for_each(|byte| assert_eq!(is_in_use, image.contains(&byte) || (text..text_end).contains(&byte)));
            });
            assert_eq!(next, region.end);
        }
    }
}
