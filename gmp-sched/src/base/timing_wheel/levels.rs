//! The levels of a [timing wheel](super): which slot a point in time belongs to.

/// Bits of each digit of a point in time, from the lowest up. The two in which most timers differ from the present, by more
/// than a quarter of a microsecond and less than ten milliseconds, are wide, so that most elements move once at the most;
/// the others are narrow, to save slots.
const DIGITS: [u32; 14] = [4, 4, 8, 7, 5, 4, 4, 4, 4, 4, 4, 4, 4, 4];
/// The digit whose level has slots for two turns.
const AROUND_DIGIT: usize = 3;
/// Bits of a point in time up to and with that digit: what is above them counts its turns.
const TURN: u32 = DIGITS[0] + DIGITS[1] + DIGITS[2] + DIGITS[3];
/// Slots whose bits are in one word.
pub(super) const GROUP: usize = u64::BITS as usize;
/// Slots of all levels, one level after the other; groups are full, so that a slot that has a bit is one.
pub(super) const SLOTS: usize = LEVELS[u64::BITS as usize - 1].end().next_multiple_of(GROUP);
pub(super) const GROUPS: usize = SLOTS / GROUP;
const _: () = assert!(GROUPS <= u32::BITS as usize, "there is a word for the groups");

/// Where elements stand that differ in a certain digit from what they are counted from.
#[derive(Clone, Copy)]
pub(super) struct Level {
    /// Bits below the digit.
    shift: u8,
    /// The highest value of the digit.
    highest: u16,
    /// The slot of the value 0.
    start: u16,
}

impl Level {
    /// The slot of what is due at `when`, on this level.
    #[inline(always)]
    pub(super) fn slot(&self, when: u64) -> usize {
        usize::from(self.start) + ((when >> self.shift) as usize & usize::from(self.highest))
    }

    /// The level below; this is not the lowest one.
    pub(super) fn below(&self) -> Self {
        LEVELS[usize::from(self.shift) - 1]
    }

    /// Whether what is in one of its slots is all of one turn.
    pub(super) fn is_within_a_turn(&self) -> bool {
        u32::from(self.shift) <= TURN
    }

    /// The groups in which its slots are.
    pub(super) fn groups(&self) -> core::ops::Range<usize> {
        usize::from(self.start) / GROUP..self.end().div_ceil(GROUP)
    }

    /// The slot after its last one.
    pub(super) const fn end(self) -> usize {
        self.start as usize + self.highest as usize + 1
    }
}

/// The level of each bit of a point in time: that of its digit.
static LEVELS: [Level; u64::BITS as usize] = {
    let mut levels = [Level { shift: 0, highest: 0, start: 0 }; u64::BITS as usize];
    let (mut digit, mut bit, mut slots) = (0, 0, 0);
    while digit < DIGITS.len() {
        let mut values = 1u32 << DIGITS[digit];
        if digit == AROUND_DIGIT {
            values *= 2;
            // In groups of its own.
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

/// The slot after those of the lowest level.
pub(super) const LOWEST_END: usize = LEVELS[0].end();
/// The level with slots for two turns.
static AROUND: Level = LEVELS[TURN as usize - 1];
/// Its first slot: those before are for what would stand in the same slot of it as the base.
pub(super) const NEAR_END: usize = LEVELS[TURN as usize - 1].start as usize;
/// The groups of those.
const NEAR: u32 = (1 << (NEAR_END / GROUP)) - 1;
/// Groups of each of its turns.
const TURN_GROUPS: usize = (1 << DIGITS[AROUND_DIGIT]) / GROUP;

/// Which turn it is at `when`.
#[inline(always)]
pub(super) fn turn(when: u64) -> u64 {
    when >> TURN
}

/// The start of the next turn: what those are counted from that are due after it.
#[inline(always)]
fn far_base(base: u64) -> u64 {
    (turn(base) + 1) << TURN
}

/// The level on which times stand that differ in those bits. Equal times differ in the last digit, so to speak.
#[inline(always)]
fn level_of_difference(bits: u64) -> &'static Level {
    &LEVELS[(bits | 1).ilog2() as usize]
}

/// The level of what is due at `when`, which is not before `base`.
#[inline(always)]
pub(super) fn level_of(base: u64, when: u64) -> &'static Level {
    match turn(when) - turn(base) {
        0 => level_of_difference(base ^ when),
        1 => &AROUND,
        _ => level_of_difference(far_base(base) ^ when),
    }
}

/// The slot of those that are far no longer, if there are any, when the base goes from `old` to `new`, in a later turn. All
/// others that are far stand where they would stand if they came now.
pub(super) fn slot_come_near(old: u64, new: u64) -> usize {
    let (old, new) = (far_base(old), far_base(new));
    level_of_difference(old ^ new).slot(new)
}

/// Of `groups` of slots those that come first, from the lowest bit up, counted from `base`.
#[inline(always)]
pub(super) fn first_groups(groups: u32, base: u64) -> u32 {
    if groups & NEAR != 0 { groups } else { first_groups_around(groups, base) }
}

/// [`first_groups`] where nothing is near: this turn's come before those of the next, which may be lower.
#[inline(never)]
fn first_groups_around(groups: u32, base: u64) -> u32 {
    let place = NEAR_END / GROUP + if turn(base).is_multiple_of(2) { 0 } else { TURN_GROUPS };
    let this_turn = groups & (((1 << TURN_GROUPS) - 1) << place);
    if this_turn != 0 { this_turn } else { groups }
}
