//! The size classes: which sizes objects have, and how many pages the spans of each class have.

use core::alloc::Layout;

use crate::PAGE_SIZE;
use crate::spans::MOST_PAGES;

/// The sizes of objects. Up to 2 KiB they are powers of two, from 32 on also the sizes half-way between two powers, and
/// the size of a G (496), because there may be a million Gs. Above, there are three more sizes between a power of two
/// and the next, so at most a fifth of an object is unused.
pub const SIZES: [usize; COUNT] = [
    16, 32, 48, 64, 96, 128, 192, 256, 384, 496, 512, 768, 1024, 1536, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168,
    8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536,
];
/// The number of classes.
pub const COUNT: usize = 35;
const LARGEST: usize = SIZES[COUNT - 1];

/// Every size of objects is a multiple of this unit, and every object is aligned to it.
const UNIT: usize = 16;
/// Every size above [`FINE_END`] is a multiple of this unit, and such an object is aligned to it.
const COARSE_UNIT: usize = 512;
const FINE_END: usize = 2048;
/// The class for each size up to [`FINE_END`]. The index is the size divided by [`UNIT`], rounded up.
static FINE: [u8; FINE_END / UNIT + 1] = table(UNIT);
/// The class for each larger size. The index is the size divided by [`COARSE_UNIT`], rounded up.
static COARSE: [u8; LARGEST / COARSE_UNIT + 1] = table(COARSE_UNIT);

const fn table<const N: usize>(unit: usize) -> [u8; N] {
    let mut table = [0; N];
    let (mut units, mut class) = (0, 0);
    while units < N {
        if units * unit > SIZES[class as usize] {
            class += 1;
        } else {
            table[units] = class;
            units += 1;
        }
    }
    table
}

/// Whether there is a class whose objects have exactly this size.
#[must_use]
pub const fn is_size(bytes: usize) -> bool {
    let mut class = 0;
    while class < COUNT {
        if SIZES[class] == bytes {
            return true;
        }
        class += 1;
    }
    false
}

/// Returns the class for a request, or `None` if the request needs whole pages: if it is larger than 64 KiB, or its
/// alignment is larger than a page.
#[inline(always)]
#[must_use]
pub fn class_of(layout: Layout) -> Option<usize> {
    let (size, align) = (layout.size(), layout.align());
    if align > UNIT {
        return class_of_aligned(size, align);
    }
    class_of_size(size)
}

#[inline(always)]
fn class_of_size(size: usize) -> Option<usize> {
    if size <= FINE_END {
        return Some(usize::from(FINE[size.div_ceil(UNIT)]));
    }
    (size <= LARGEST).then(|| usize::from(COARSE[size.div_ceil(COARSE_UNIT)]))
}

fn class_of_aligned(size: usize, align: usize) -> Option<usize> {
    if align > PAGE_SIZE {
        return None;
    }
    if align <= COARSE_UNIT && size > FINE_END {
        return class_of_size(size);
    }
    // An object whose size is a power of two is aligned to its size, but at most to a page.
    class_of_size(size.max(align).checked_next_power_of_two()?)
}

/// How many objects of a class a CPU keeps in one magazine: as many as 128 KiB contain, but at least 2 and at most 128.
#[inline(always)]
#[must_use]
pub fn magazine_size(class: usize) -> usize {
    usize::from(MAGAZINES[class])
}

static MAGAZINES: [u8; COUNT] = {
    let mut sizes = [0; COUNT];
    let mut class = 0;
    while class < COUNT {
        let objects = (128 << 10) / SIZES[class];
        sizes[class] = if objects > 128 { 128 } else { objects as u8 };
        class += 1;
    }
    sizes
};

/// The number of pages of a class's first spans. They are the fewest pages that have room for 16 objects and leave at
/// most a sixteenth unused. If there is no such number, it is that of later spans.
pub(crate) static FIRST_PAGES: [u8; COUNT] = {
    let mut all = LATER_PAGES;
    let mut class = 0;
    while class < COUNT {
        let mut pages = MOST_PAGES;
        while pages > 0 {
            let bytes = pages * PAGE_SIZE;
            if bytes / SIZES[class] >= 16 && bytes % SIZES[class] <= bytes / 16 {
                all[class] = pages as u8;
            }
            pages -= 1;
        }
        class += 1;
    }
    all
};

/// The number of pages of a class's later spans: the largest number that leaves the smallest part unused.
pub(crate) const LATER_PAGES: [u8; COUNT] = {
    let mut all = [0; COUNT];
    let mut class = 0;
    while class < COUNT {
        let (mut best, mut pages) = (MOST_PAGES, MOST_PAGES);
        while pages > 0 {
            let (unused, unused_by_best) = (pages * PAGE_SIZE % SIZES[class], best * PAGE_SIZE % SIZES[class]);
            if pages * PAGE_SIZE >= SIZES[class] && unused * best < unused_by_best * pages {
                best = pages;
            }
            pages -= 1;
        }
        all[class] = best as u8;
        class += 1;
    }
    all
};
