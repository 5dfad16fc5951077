//! A hierarchical timing wheel: a priority queue of elements ordered by the time at which they are due. Insertion and
//! removal take constant time.
//!
//! Go keeps timers in a 4-ary heap, where removing the first of a thousand moves five others. Here a time is read as a
//! number with [digits](levels). The wheel has a level for each digit, and each level has a slot for each value of its
//! digit. The wheel counts from a time called *base*, and no element is due before it. An element is on the level of
//! the highest digit in which its time differs from the base:
//!
//! ```text
//! base 3 2 7        when 3 2 9  → level 0, slot 9       The earliest element is on the lowest level that is not empty,
//!                   when 3 5 1  → level 1, slot 5       in its first slot that is not empty.
//!                   when 4 0 0  → level 2, slot 4
//! ```
//!
//! When the first slot that is not empty becomes due, its earliest time becomes the base, and its elements are
//! distributed over the slots of the levels below. So an element moves at most once per level, independently of the
//! number of other elements. If a slot that becomes due has only one or two elements, they are taken out without
//! moving. (G. Varghese and T. Lauck, *Hashed and Hierarchical Timing Wheels*, SOSP 1987, scheme 7. Here the digits
//! cover all bits of a time, so nothing is rounded.)
//!
//! These are the levels. The *width* is the time that one slot covers. The *range* is the time that the slots of the
//! level and of all lower levels cover together. The fourth level has slots for two ranges, as the next paragraph
//! explains.
//!
//! | level | bits of the digit | slots | width | range |
//! |---|---|---|---|---|
//! | 0 | 4 | 16 | 2^0 ns = 1 ns | 2^4 ns = 16 ns |
//! | 1 | 4 | 16 | 2^4 ns = 16 ns | 2^8 ns = 256 ns |
//! | 2 | 8 | 256 | 2^8 ns = 256 ns | 2^16 ns = 65.5 us |
//! | 3 | 7 | 256 | 2^16 ns = 65.5 us | 2^23 ns = 8.39 ms |
//! | 4 | 5 | 32 | 2^23 ns = 8.39 ms | 2^28 ns = 268 ms |
//! | 5 | 4 | 16 | 2^28 ns = 268 ms | 2^32 ns = 4.29 s |
//! | 6 | 4 | 16 | 2^32 ns = 4.29 s | 2^36 ns = 1.15 min |
//! | 7 | 4 | 16 | 2^36 ns = 1.15 min | 2^40 ns = 18.3 min |
//! | 8 | 4 | 16 | 2^40 ns = 18.3 min | 2^44 ns = 4.89 h |
//! | 9 | 4 | 16 | 2^44 ns = 4.89 h | 2^48 ns = 3.26 days |
//! | 10 | 4 | 16 | 2^48 ns = 3.26 days | 2^52 ns = 52.1 days |
//! | 11 | 4 | 16 | 2^52 ns = 52.1 days | 2^56 ns = 2.28 years |
//! | 12 | 4 | 16 | 2^56 ns = 2.28 years | 2^60 ns = 36.5 years |
//! | 13 | 4 | 16 | 2^60 ns = 36.5 years | 2^64 ns = 585 years |
//!
//! A [rotation] is the time that the slots for all values of the fourth digit cover together, 8.4 ms. Suppose that the
//! level of this digit had slots for one rotation only. At the end of each rotation, all elements of the next rotation
//! would have to move down from the level above at the same moment. With a thousand Gs that sleep a few milliseconds
//! each, this would happen every 8.4 ms, and none of these Gs could run meanwhile. So this one level has slots for two
//! rotations, the current one and the next. An element that is due in one of these two rotations is inserted on that
//! level or below. The levels above count from the end of the current rotation and contain the elements that are due
//! after the next rotation.
//!
//! The elements of a slot form a circular list whose links are in the elements, so an insertion does not allocate.

mod entry;
mod levels;
#[cfg(all(test, feature = "std"))]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::cold_path;
use core::{fmt, iter, mem, ptr};

use entry::{RING, for_each_in_ring};
pub(crate) use entry::{Timed, WheelEntry};
use levels::{GROUP, GROUPS, LOWEST_END, NEAR_END, SLOTS, first_groups, level_of, rotation, slot_come_near};

use crate::base::atomic::Ordering;
use crate::base::error::OutOfResources;
use crate::base::instant::Instant;

const OCCUPIED: &str = "an occupied slot has a first element";

/// The elements on one level that have the same value of that level's digit.
struct Slot<T: 'static> {
    /// The element that was inserted first. The element that was inserted last precedes it in the circular list.
    first: Option<&'static T>,
    /// No element of the slot is due before this time. An element with exactly this time was inserted, but it may have
    /// been removed since.
    earliest: u64,
}

/// The element that is due first, and its slot.
pub(crate) struct First<T: 'static> {
    pub(crate) element: &'static T,
    /// The next element in the same slot.
    next: &'static T,
    when: u64,
    slot: usize,
}

impl<T> First<T> {
    /// Returns the time at which the element is due.
    pub(crate) fn when(&self) -> Instant {
        Instant::from_nanos(self.when)
    }
}

/// See the [module](self).
pub(crate) struct TimingWheel<T: 'static> {
    /// One bit for each group of slots, set if a slot of the group is not empty.
    groups: u32,
    length: u32,
    /// The slot with the earliest element; [`SLOTS`] if there is none.
    first: usize,
    base: u64,
    slots: Box<[Slot<T>; SLOTS]>,
    /// One bit for each slot, set if the slot is not empty.
    occupied: [u64; GROUPS],
}

impl<T: Timed> TimingWheel<T> {
    /// An empty wheel. Allocates all memory that it will ever need, 12 KiB.
    pub(crate) fn new() -> Result<Self, OutOfResources> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(SLOTS).map_err(|_| OutOfResources)?;
        slots.extend((0..SLOTS).map(|_| Slot { first: None, earliest: 0 }));
        let slots = slots.try_into().unwrap_or_else(|_| unreachable!("the slots have been counted"));
        Ok(Self { groups: 0, length: 0, first: SLOTS, base: 0, slots, occupied: [0; GROUPS] })
    }

    pub(crate) fn len(&self) -> u32 {
        self.length
    }

    /// A lower bound of the time of the first element; [`Instant::NEVER`] if and only if the wheel is empty. When the
    /// first element is removed, the bound may become too early, until [`first_due`](Self::first_due) corrects it.
    #[inline(always)]
    pub(crate) fn earliest(&self) -> Instant {
        self.slots.get(self.first).map_or(Instant::NEVER, |slot| Instant::from_nanos(slot.earliest))
    }

    /// Inserts an element that is in no wheel, behind the elements with the same time. Returns the time at which the
    /// element is due. This is `when`, or the base if `when` is earlier. (The base is never later than the latest `now`
    /// passed to [`pop_due`](Self::pop_due).)
    #[inline(always)]
    pub(crate) fn insert(&mut self, element: &'static T, when: Instant) -> Instant {
        debug_assert!(!element.entry().is_linked(), "an element is in one wheel at a time");
        let when = when.as_nanos().max(self.base);
        element.entry().when.store(when, Ordering::Relaxed);
        self.length += 1;
        self.append(element, when);
        Instant::from_nanos(when)
    }

    /// Removes an element that is in this wheel.
    pub(crate) fn remove(&mut self, element: &'static T) {
        let when = element.entry().when();
        let slot = level_of(self.base, when).slot(when);
        self.unlink(slot, element, element.entry().next());
    }

    /// Returns the first element if it is due at `now`. The caller may pass it to [`take`](Self::take).
    #[inline(always)]
    fn first_due(&mut self, now: Instant) -> Option<First<T>> {
        loop {
            let slot = self.first;
            let Slot { first, earliest } = self.slots.get_mut(slot)?;
            if *earliest > now.as_nanos() {
                return None;
            }
            let mut element = first.expect(OCCUPIED);
            let mut next = element.entry().next();
            if slot >= LOWEST_END && !ptr::eq(next, element) {
                if !ptr::eq(next.entry().next(), element) {
                    cold_path();
                    self.spread(slot);
                    continue;
                }
                if next.entry().when() < element.entry().when() {
                    (element, next) = (next, element);
                }
            }
            let when = element.entry().when();
            if when > now.as_nanos() {
                // `earliest` was too early, because the element that was due at that time has been removed.
                *earliest = when;
                return None;
            }
            return Some(First { element, next, when, slot });
        }
    }

    /// Takes out the element that [`first_due`](Self::first_due) has just returned.
    #[inline(always)]
    fn take(&mut self, first: First<T>) {
        let First { element, next, when, slot } = first;
        self.unlink(slot, element, next);
        if ptr::eq(next, element) {
            // `element` was alone in its slot, so the remaining elements are in later slots of this level or on levels
            // above. Counted from the new base, they still belong to the same slots.
            let old = mem::replace(&mut self.base, when);
            if slot >= NEAR_END && rotation(old) != rotation(when) {
                self.enter_rotation(old);
            }
        } else {
            // The base must not change: `next` stays in this slot, but with a later base it might belong to another
            // slot. No element that stays in the slot is due before `next`: either all elements of the slot are due at
            // the same time, or `first_due` has found only two elements in the slot.
            self.slots[slot].earliest = next.entry().when();
        }
    }

    /// Takes out the first element if it is due at `now`; returns the element and its time.
    #[inline(always)]
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(&'static T, Instant)> {
        let first = self.first_due(now)?;
        let popped = (first.element, first.when());
        self.take(first);
        Some(popped)
    }

    /// Whether `is_wanted` returns `true` for any element. Begins with the elements that are due first.
    pub(crate) fn has_element(&self, is_wanted: impl Fn(&'static T) -> bool) -> bool {
        let mut slots = self.slots.get(self.first).into_iter().chain(self.slots.iter());
        slots.any(|slot| {
            let next = |element: &&'static T| Some(element.entry().next()).filter(|next| !is(slot.first, next));
            iter::successors(slot.first, next).any(&is_wanted)
        })
    }

    /// Takes out all elements and passes them to `to` with their times, in the order of the times. Afterwards the base
    /// is what it was before.
    pub(crate) fn drain(&mut self, mut to: impl FnMut(&'static T, Instant)) {
        let base = self.base;
        while let Some((element, when)) = self.pop_due(Instant::NEVER) {
            to(element, when);
        }
        self.base = base;
    }

    /// Resets the base. Called when the clock may have been set back. The wheel must be empty.
    #[cfg(feature = "synctest")]
    pub(crate) fn restart(&mut self) {
        debug_assert_eq!(self.length, 0, "what is in the wheel would be lost");
        self.base = 0;
    }

    /// Stores in `first` the index of the first slot that is not empty, or [`SLOTS`] if all slots are empty.
    #[inline(always)]
    fn find_first(&mut self) {
        let group = first_groups(self.groups, self.base).trailing_zeros() as usize;
        self.first = self.occupied.get(group).map_or(SLOTS, |slots| group * GROUP + slots.trailing_zeros() as usize);
    }

    /// Sets the base to the earliest time of `slot`, which is the first slot that is not empty. Moves the slot's
    /// elements to the levels below.
    #[inline(never)]
    fn spread(&mut self, slot: usize) {
        let Slot { first, earliest } = &mut self.slots[slot];
        let first = first.take().expect(OCCUPIED);
        // The level of `slot`. Nearly all of the slot's elements move to the level directly below it.
        let level = level_of(self.base, first.entry().when());
        let old = mem::replace(&mut self.base, *earliest);
        self.vacate(slot);
        if level.is_within_a_rotation() {
            let below = level.below();
            let base_slot = below.slot(self.base);
            for_each_in_ring(first, |element, when| {
                let slot = below.slot(when);
                if slot == base_slot {
                    cold_path();
                    self.append(element, when);
                } else {
                    self.put(slot, element, when);
                }
            });
            for group in below.groups() {
                self.groups |= u32::from(self.occupied[group] != 0) << group;
            }
        } else {
            for_each_in_ring(first, |element, when| self.append(element, when));
        }
        if rotation(old) != rotation(self.base) {
            self.enter_rotation(old);
        } else {
            self.find_first();
        }
    }

    /// Called when the base has moved from `old` to a later rotation. Moves the elements that are due in the rotation
    /// after the current one from the upper levels to lower ones.
    #[cold]
    #[inline(never)]
    fn enter_rotation(&mut self, old: u64) {
        let slot = slot_come_near(old, self.base);
        if let Some(first) = self.slots[slot].first.take() {
            self.vacate(slot);
            for_each_in_ring(first, |element, when| self.append(element, when));
        }
        self.find_first();
    }

    /// Inserts an element into the slot that it belongs to.
    #[inline(always)]
    fn append(&mut self, element: &'static T, when: u64) {
        let slot = level_of(self.base, when).slot(when);
        self.groups |= 1 << (slot / GROUP);
        // If `slot` is not the first slot, the elements of the first slot are either all due before `when` or all due
        // after it. So it is enough to compare `when` with the time of one of them. `earliest` is the time of an
        // element that is or was in the first slot.
        if self.slots.get(self.first).is_none_or(|first| when < first.earliest) {
            self.first = slot;
        }
        self.put(slot, element, when);
    }

    /// Inserts an element into `slot`, without setting the bit of its group and without updating the first slot.
    #[inline(always)]
    fn put(&mut self, slot: usize, element: &'static T, when: u64) {
        self.occupied[slot / GROUP] |= 1 << (slot % GROUP);
        let slot = &mut self.slots[slot];
        let (next, previous) = match slot.first {
            None => {
                *slot = Slot { first: Some(element), earliest: when };
                (element, element)
            }
            Some(first) => {
                slot.earliest = slot.earliest.min(when);
                let last = first.entry().previous.load(Ordering::Relaxed).expect(RING);
                first.entry().previous.store(Some(element), Ordering::Relaxed);
                last.entry().next.store(Some(element), Ordering::Relaxed);
                (first, last)
            }
        };
        element.entry().next.store(Some(next), Ordering::Relaxed);
        element.entry().previous.store(Some(previous), Ordering::Relaxed);
    }

    /// Unlinks `element` from `slot`. `next` is the element after it in the circular list.
    #[inline(always)]
    fn unlink(&mut self, slot: usize, element: &'static T, next: &'static T) {
        self.length -= 1;
        let entry = element.entry();
        entry.next.store(None, Ordering::Relaxed);
        if ptr::eq(next, element) {
            self.slots[slot].first = None;
            self.vacate(slot);
            return;
        }
        let previous = entry.previous.load(Ordering::Relaxed).expect(RING);
        next.entry().previous.store(Some(previous), Ordering::Relaxed);
        previous.entry().next.store(Some(next), Ordering::Relaxed);
        let first = &mut self.slots[slot].first;
        if is(*first, element) {
            *first = Some(next);
        }
    }

    /// Marks a slot as empty. If it was the first slot, finds the new first slot.
    #[inline(always)]
    fn vacate(&mut self, slot: usize) {
        let group = &mut self.occupied[slot / GROUP];
        *group &= !(1 << (slot % GROUP));
        if *group == 0 {
            self.groups &= !(1 << (slot / GROUP));
        }
        if slot == self.first {
            self.find_first();
        }
    }
}

#[inline(always)]
fn is<T>(one: Option<&'static T>, other: &'static T) -> bool {
    one.is_some_and(|one| ptr::eq(one, other))
}

impl<T: Timed> fmt::Debug for TimingWheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimingWheel")
            .field("length", &self.length)
            .field("earliest", &self.earliest())
            .finish_non_exhaustive()
    }
}
