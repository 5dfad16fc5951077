//! The levels of a [timing wheel](super). They determine which slot belongs to a time. A *rotation* is a period of 2^23
//! ns (8.4 ms), the range of the four lowest digits of a time. The parent module explains digits, levels and the base.

/// The numbers of bits of the digits of a time, from the lowest digit up. Most timers are due after more than 256 ns
/// and less than 10 ms. Most of these are inserted on the level of the third digit or on that of the fourth. These two
/// digits are wide, so that most elements move to a lower level at most once. The other digits are narrow, to save
/// slots.
const DIGITS: [u32; 14] = [4, 4, 8, 7, 5, 4, 4, 4, 4, 4, 4, 4, 4, 4];
/// The index of the digit whose level, [`AROUND`], has slots for two rotations.
const AROUND_DIGIT: usize = 3;
/// Number of bits up to and including the digit [`AROUND_DIGIT`]. The bits above them count rotations.
const ROTATION_BITS: u32 = DIGITS[0] + DIGITS[1] + DIGITS[2] + DIGITS[3];
/// Number of slots in a group. One word of `TimingWheel::occupied` has the bits of the slots of one group.
pub(super) const GROUP: usize = u64::BITS as usize;
/// Number of slots of all levels together. It is rounded up to whole groups, so that every bit of `occupied` has a
/// slot.
pub(super) const SLOTS: usize = LEVELS[u64::BITS as usize - 1].end().next_multiple_of(GROUP);
pub(super) const GROUPS: usize = SLOTS / GROUP;
const _: () = assert!(GROUPS <= u32::BITS as usize, "there is a word for the groups");

/// One level of the wheel. The level has one slot for each value of its digit of the time, or two slots if the level is
/// [`AROUND`].
#[derive(Clone, Copy)]
pub(super) struct Level {
    /// Number of bits below the digit.
    shift: u8,
    /// The highest value of the digit. (On the level with slots for two rotations, the digit has one bit more, which
    /// distinguishes the rotations.)
    highest: u16,
    /// The index of the level's first slot, which is for elements whose digit on this level is 0.
    start: u16,
}

impl Level {
    /// The slot on this level for an element that is due at `when`.
    #[inline(always)]
    pub(super) fn slot(&self, when: u64) -> usize {
        usize::from(self.start) + ((when >> self.shift) as usize & usize::from(self.highest))
    }

    /// The level below this one. This level must not be the lowest.
    pub(super) fn below(&self) -> Self {
        LEVELS[usize::from(self.shift) - 1]
    }

    /// Whether a slot of this level covers at most one rotation, so that all its elements are due in the same rotation.
    pub(super) fn is_within_a_rotation(&self) -> bool {
        u32::from(self.shift) <= ROTATION_BITS
    }

    /// The groups that contain the slots of this level.
    pub(super) fn groups(&self) -> core::ops::Range<usize> {
        usize::from(self.start) / GROUP..self.end().div_ceil(GROUP)
    }

    /// One more than the index of the last slot of this level.
    pub(super) const fn end(self) -> usize {
        self.start as usize + self.highest as usize + 1
    }
}

/// For each bit of a time, the level of the digit that contains the bit.
static LEVELS: [Level; u64::BITS as usize] = {
    let mut levels = [Level { shift: 0, highest: 0, start: 0 }; u64::BITS as usize];
    let (mut digit, mut bit, mut slots) = (0, 0, 0);
    while digit < DIGITS.len() {
        let mut values = 1u32 << DIGITS[digit];
        if digit == AROUND_DIGIT {
            values *= 2;
            // This level starts a new group, so no group contains slots of this level and slots of a lower level.
            slots = (slots as usize).next_multiple_of(GROUP) as u16;
        }
        let level = Level { shift: bit as u8, highest: (values - 1) as u16, start: slots };
        let next = bit + DIGITS[digit] as usize;
        while bit < next {
            levels[bit] = level;
            bit += 1;
        }
        slots = level.end() as u16;
        digit += 1;
    }
    assert!(bit == levels.len(), "the digits are those of 64 bits");
    levels
};

/// One more than the index of the last slot of the lowest level.
pub(super) const LOWEST_END: usize = LEVELS[0].end();
/// The level whose slots are for two rotations of the wheel: the current one and the next one.
static AROUND: Level = LEVELS[ROTATION_BITS as usize - 1];
/// The index of the first slot of [`AROUND`]. The slots of the lower levels come before it. An element is on one of the
/// lower levels if its time agrees with the wheel's base in the digit [`AROUND_DIGIT`] and in all higher digits.
pub(super) const NEAR_END: usize = LEVELS[ROTATION_BITS as usize - 1].start as usize;
/// The groups of the levels below [`AROUND`], as a set of bits.
const NEAR: u32 = (1 << (NEAR_END / GROUP)) - 1;
/// Number of groups that contain the slots of one rotation on the level [`AROUND`].
const ROTATION_GROUPS: usize = (1 << DIGITS[AROUND_DIGIT]) / GROUP;

/// The number of the rotation that contains `when`.
#[inline(always)]
pub(super) fn rotation(when: u64) -> u64 {
    when >> ROTATION_BITS
}

/// The start of the rotation after that of `base`. The levels above [`AROUND`] count from this time.
#[inline(always)]
fn far_base(base: u64) -> u64 {
    (rotation(base) + 1) << ROTATION_BITS
}

/// The level of an element. `bits` is the difference (exclusive or) between the element's time and the time from which
/// the levels count. If no bit is set, the result is the lowest level.
#[inline(always)]
fn level_of_difference(bits: u64) -> &'static Level {
    &LEVELS[(bits | 1).ilog2() as usize]
}

/// The level of an element that is due at `when`, which is not before `base`.
#[inline(always)]
pub(super) fn level_of(base: u64, when: u64) -> &'static Level {
    match rotation(when) - rotation(base) {
        0 => level_of_difference(base ^ when),
        1 => &AROUND,
        _ => level_of_difference(far_base(base) ^ when),
    }
}

/// Called when the base moves from `old` to `new`, which is in a later rotation. Returns the slot whose elements have
/// to move to lower levels. This slot contains all elements of the levels above [`AROUND`] that are due in the rotation
/// after that of `new`. All other slots of these levels keep their elements.
pub(super) fn slot_come_near(old: u64, new: u64) -> usize {
    let (old, new) = (far_base(old), far_base(new));
    level_of_difference(old ^ new).slot(new)
}

/// Returns a set of groups whose lowest bit is that of the group with the earliest element. `groups` is the set of all
/// groups that are not empty. The result is this set or a part of it.
#[inline(always)]
pub(super) fn first_groups(groups: u32, base: u64) -> u32 {
    if groups & NEAR != 0 { groups } else { first_groups_around(groups, base) }
}

/// Like [`first_groups`], for a wheel in which the levels below [`AROUND`] are empty. On the level [`AROUND`], the
/// slots of the current rotation are due before those of the next rotation, but may have higher numbers. So if a group
/// of the current rotation is not empty, returns only the groups of this rotation.
#[inline(never)]
fn first_groups_around(groups: u32, base: u64) -> u32 {
    let start = NEAR_END / GROUP + if rotation(base).is_multiple_of(2) { 0 } else { ROTATION_GROUPS };
    let this_rotation = groups & (((1 << ROTATION_GROUPS) - 1) << start);
    if this_rotation != 0 { this_rotation } else { groups }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use std::format;

    use super::{DIGITS, LEVELS};

    /// The table in the parent module's documentation has a row for each level.
    #[test]
    fn documented_table_of_levels_is_that_of_the_constants() {
        let documented = include_str!("mod.rs");
        let mut shift = 0;
        for (level, bits) in DIGITS.into_iter().enumerate() {
            let slots = LEVELS[shift as usize].highest + 1;
            let range = shift + bits;
            let begins = format!("//! | {level} | {bits} | {slots} | 2^{shift} ns = ");
            let row = documented.lines().find(|line| line.starts_with(&begins));
            let row = row.unwrap_or_else(|| panic!("no row begins with `{begins}`"));
            assert!(row.contains(&format!(" | 2^{range} ns = ")), "the range is 2^{range} ns: {row}");
            shift = range;
        }
        assert_eq!(shift, u64::BITS, "the digits cover all bits of a time");
    }
}
