//! The timers of a P: a heap of points in time with what is to be done then, and the earliest of them, known without a
//! lock.
//!
//! Go: `timers` (runtime/time.go): a 4-ary heap, one per P, that other Ps may run when they find nothing else to do.
//! Who sees to it that a timer is not slept past is the *keeper*: while a P runs, the M that holds it (by interrupt
//! where the platform has one, else whenever it picks a G); while it is idle, the idle M that parks with a deadline
//! (the timekeeper, see `idle`). Whoever makes a P's earliest timer earlier tells the keeper.
//!
//! A [`Timer`] knows its place in the heap, so that it can be taken out at once; Go marks it and takes it out later. A
//! timer that was stopped costs nothing afterwards, and "has it fired?" has one answer, given under the heap's lock.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::goroutine::{Goroutine, Ticket};
use crate::lock::Lock;
use crate::park::{make_runnable, queue};
use crate::platform::{OutOfResources, Pinned, Platform, Site};
use crate::primitives::{AtomicU32, AtomicU64, Ordering};
use crate::reference::AtomicRef;
use crate::time::{Instant, TimerSlot, fire};

/// Children of a node of the heap. Go: `timerHeapN`.
const ARITY: usize = 4;

/// The position of a timer that is in no heap.
const NOWHERE: u32 = u32::MAX;

/// Something that can be in one heap at a time. Like Gs, timers are never freed, only reused. Go: `timer`.
#[doc(alias = "timer")]
pub(crate) struct Timer<P: Platform> {
    /// The heap it is in, or was in last. Written under that heap's lock.
    home: AtomicRef<Timers<P>>,
    /// Where it is in that heap. Guarded by the heap's lock.
    position: AtomicU32,
    /// Nanoseconds from one firing to the next, 0 if it fires once. Written while it is in no heap.
    period: AtomicU64,
}

impl<P: Platform> Timer<P> {
    pub(crate) fn new() -> Self {
        Self { home: AtomicRef::none(), position: AtomicU32::new(NOWHERE), period: AtomicU64::new(0) }
    }

    /// From now on it fires again each time so long after it was due, until it is cancelled; zero is once. The caller
    /// is who arms and cancels it, and it is not armed.
    pub(crate) fn set_period(&self, period: Duration) {
        let nanoseconds = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        self.period.store(nanoseconds, Ordering::Relaxed);
    }

    /// When it is due again that was due at `when` and fires at `now`; `None` if it fires once. Firings that should have
    /// been meanwhile are left out.
    fn next(&self, when: Instant, now: Instant) -> Option<Instant> {
        let period = self.period.load(Ordering::Relaxed);
        if period == 0 {
            return None;
        }
        let missed = (now.as_nanos() - when.as_nanos()) / period;
        let step = period.saturating_mul(missed.saturating_add(1));
        Some(Instant::from_nanos(when.as_nanos().saturating_add(step)).min(Instant::LAST))
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.position.load(Ordering::Relaxed) != NOWHERE
    }

    /// Runs what is due in its heap, on the current P, whoever looks after it.
    pub(crate) fn run_if_due(&'static self, pinned: &Pinned<P>) {
        let Some(home) = self.home.load(Ordering::Relaxed).filter(|_| self.is_armed()) else { return };
        if home.earliest() != Instant::NEVER {
            let now = P::now();
            while let Some(action) = home.pop_due(now) {
                if let Some(readied) = action.run(pinned, now) {
                    queue(pinned, readied);
                }
            }
        }
    }

    /// Takes the timer out of its heap; tells whether it was there. If not, its action has been begun or done.
    ///
    /// The caller is pinned: whoever was preempted with the heap's lock in hand would be waited for by the preemption
    /// itself, which runs timers.
    pub(crate) fn cancel(&'static self, _pinned: &Pinned<P>) -> bool {
        loop {
            let Some(home) = self.home.load(Ordering::Relaxed) else { return false };
            P::point(Site::Timers);
            let mut heap = home.heap.lock();
            // Ps that are taken out of use give their timers away.
            if !self.home.load(Ordering::Relaxed).is_some_and(|now| core::ptr::eq(now, home)) {
                continue;
            }
            if !self.is_armed() {
                return false;
            }
            heap.remove(self.position.load(Ordering::Relaxed) as usize);
            home.publish_earliest(&heap);
            return true;
        }
    }
}

/// What is done when a timer is due: pinned, on the M that comes upon it, briefly, without blocking or allocating.
/// Never while a G is leaving that holds a lock until the far side: it may be the one that is taken here.
#[derive(Debug)]
pub(crate) enum Action<P: Platform> {
    /// Ends a G's wait and makes it runnable, unless somebody else has ended it.
    Wake(&'static Goroutine<P>, Ticket),
    /// Fires a program's timer, if that setting of it still stands.
    Fire(&'static TimerSlot<P>, u64),
    /// Lets a G run on that is runnable: it was there because of a timer, and another timer displaced it.
    Resume(&'static Goroutine<P>),
}

impl<P: Platform> Clone for Action<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Action<P> {}

impl<P: Platform> Action<P> {
    /// Does it, for it is `now`; gives the G that this made runnable, for the caller to run or to queue.
    pub(crate) fn run(self, pinned: &Pinned<P>, now: Instant) -> Option<&'static Goroutine<P>> {
        match self {
            Self::Wake(goroutine, ticket) => {
                let won = goroutine.claim(ticket);
                won.then(|| make_runnable(pinned, goroutine)).flatten()
            }
            Self::Fire(slot, setting) => fire(pinned, slot, setting, now),
            Self::Resume(goroutine) => Some(goroutine),
        }
    }
}

struct Entry<P: Platform> {
    when: Instant,
    /// Timers of the same instant fire in the order in which they were set.
    sequence: u64,
    timer: &'static Timer<P>,
    action: Action<P>,
}

impl<P: Platform> Clone for Entry<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for Entry<P> {}

impl<P: Platform> Entry<P> {
    /// One number to compare, which takes fewer instructions and branches than two.
    #[inline(always)]
    fn key(&self) -> u128 {
        u128::from(self.when.as_nanos()) << 64 | u128::from(self.sequence)
    }

    #[inline(always)]
    fn before(&self, other: &Self) -> bool {
        self.key() < other.key()
    }
}

struct Heap<P: Platform> {
    entries: Vec<Entry<P>>,
    sequence: u64,
}

/// The timers of one P. Go: `timers`.
#[doc(alias = "timers")]
pub(crate) struct Timers<P: Platform> {
    heap: Lock<Heap<P>, P>,
    earliest: AtomicU64,
}

impl<P: Platform> Timers<P> {
    pub(crate) fn new() -> Self {
        Self {
            heap: Lock::new(Heap { entries: Vec::new(), sequence: 0 }),
            earliest: AtomicU64::new(Instant::NEVER.as_nanos()),
        }
    }

    /// When the first of them is due, [`Instant::NEVER`] if there is none. Takes no lock; callable from interrupts.
    #[inline(always)]
    pub(crate) fn earliest(&self) -> Instant {
        Instant::from_nanos(self.earliest.load(Ordering::Relaxed))
    }

    /// Makes room for that many more, so that [`arm`] does not allocate while the G can no longer be told. The room is the
    /// caller's until it is no longer pinned.
    pub(crate) fn reserve(&self, additional: usize) -> Result<(), OutOfResources> {
        self.heap.lock().entries.try_reserve(additional).map_err(|_| OutOfResources)
    }

    /// Puts a timer in, for which there is room; tells whether it is the earliest now.
    pub(crate) fn insert(&'static self, when: Instant, timer: &'static Timer<P>, action: Action<P>) -> bool {
        P::point(Site::Timers);
        let mut heap = self.heap.lock();
        timer.home.store(Some(self), Ordering::Relaxed);
        let is_first = heap.insert(when, timer, action);
        self.publish_earliest(&heap);
        is_first
    }

    /// Makes room for all timers of `others`. Called with the world stopped.
    pub(crate) fn reserve_for<'a>(&self, others: impl Iterator<Item = &'a Self>) -> Result<(), OutOfResources> {
        let count = others.map(|other| other.heap.lock().entries.len()).sum();
        self.heap.lock().entries.try_reserve(count).map_err(|_| OutOfResources)
    }

    /// Takes over the timers of `other`, for which there is room. Called with the
    /// world stopped. Go: `timers.take`.
    pub(crate) fn adopt(&'static self, other: &Self) {
        let (mut heap, mut others) = (self.heap.lock(), other.heap.lock());
        // In the order in which they are due, so that those of the same instant keep theirs.
        while let Some(&Entry { when, timer, action, .. }) = others.entries.first() {
            others.remove(0);
            timer.home.store(Some(self), Ordering::Relaxed);
            heap.insert(when, timer, action);
        }
        other.publish_earliest(&others);
        self.publish_earliest(&heap);
    }

    /// How many there are, unless somebody is at them. Callable from everywhere.
    pub(crate) fn try_len(&self) -> Option<usize> {
        self.heap.try_lock().map(|heap| heap.entries.len())
    }

    fn publish_earliest(&self, heap: &Heap<P>) {
        let earliest = heap.entries.first().map_or(Instant::NEVER, |first| first.when);
        self.earliest.store(earliest.as_nanos(), Ordering::Relaxed);
    }

    /// Takes the earliest timer that is due.
    pub(crate) fn pop_due(&self, now: Instant) -> Option<Action<P>> {
        if self.earliest() > now {
            return None;
        }
        P::point(Site::Timers);
        let mut heap = self.heap.lock();
        let first = *heap.entries.first()?;
        if first.when > now {
            return None;
        }
        match first.timer.next(first.when, now) {
            Some(when) => heap.set_first_back(when),
            None => heap.remove(0),
        }
        self.publish_earliest(&heap);
        Some(first.action)
    }
}

/// Makes room for one more timer of the calling G, for the time that it is pinned.
pub(crate) fn reserve<P: Platform>(pinned: &Pinned<P>) -> Result<(), OutOfResources> {
    match pinned.goroutine().bubble() {
        Some(bubble) => bubble.reserve_timer(),
        None => pinned.processor().timers.reserve(1),
    }
}

/// Has `action` done at `when`, for `goroutine`, which made room: by the current P's heap, or by that of its bubble.
/// `timer` is armed by nobody else.
pub(crate) fn arm<P: Platform>(
    pinned: &Pinned<P>,
    goroutine: &Goroutine<P>,
    when: Instant,
    timer: &'static Timer<P>,
    action: Action<P>,
) {
    // "Never" says that there is no timer at all.
    let when = when.min(Instant::LAST);
    if let Some(bubble) = goroutine.bubble() {
        bubble.timers.insert(when, timer, action);
        return;
    }
    let processor = pinned.processor();
    if !processor.timers.insert(when, timer, action) {
        return;
    }
    if P::TIMER_INTERRUPTS {
        P::arm_timer(pinned, processor, when);
    } else {
        pinned.machine().scheduler().tell_timekeeper(when);
    }
}

impl<P: Platform> Heap<P> {
    /// Inserts a timer, for which there is room; tells whether it is the earliest now.
    fn insert(&mut self, when: Instant, timer: &'static Timer<P>, action: Action<P>) -> bool {
        debug_assert!(!timer.is_armed(), "armed a timer that is armed");
        self.sequence += 1;
        let entry = Entry { when, sequence: self.sequence, timer, action };
        let position = self.entries.len();
        self.entries.push(entry);
        self.sift_up(position, entry) == 0
    }

    fn remove(&mut self, position: usize) {
        let removed = self.entries.swap_remove(position);
        removed.timer.position.store(NOWHERE, Ordering::Relaxed);
        if let Some(&moved) = self.entries.get(position) {
            // What was last may belong above this place as well as below it.
            let position = self.sift_up(position, moved);
            self.sift_down(position, moved);
        }
    }

    /// The first timer is due again at `when`, which is later.
    fn set_first_back(&mut self, when: Instant) {
        self.sequence += 1;
        let entry = Entry { when, sequence: self.sequence, ..self.entries[0] };
        self.sift_down(0, entry);
    }

    fn place(&mut self, position: usize, entry: Entry<P>) {
        entry.timer.position.store(u32::try_from(position).expect("fewer than 2^32 timers"), Ordering::Relaxed);
        self.entries[position] = entry;
    }

    /// Puts `entry` at `position`, which is free, or above it; gives the place.
    fn sift_up(&mut self, mut position: usize, entry: Entry<P>) -> usize {
        while position > 0 {
            let parent = (position - 1) / ARITY;
            if !entry.before(&self.entries[parent]) {
                break;
            }
            self.place(position, self.entries[parent]);
            position = parent;
        }
        self.place(position, entry);
        position
    }

    /// Puts `entry` at `position`, which is free, or below it.
    fn sift_down(&mut self, mut position: usize, entry: Entry<P>) {
        loop {
            let first = ARITY * position + 1;
            let end = self.entries.len().min(first + ARITY);
            let Some(children) = self.entries.get(first..end) else { break };
            let Some((nth, &least)) = first_of(children).filter(|(_, least)| least.before(&entry)) else { break };
            self.place(position, least);
            position = first + nth;
        }
        self.place(position, entry);
    }
}

/// The first of some siblings, and which that is.
#[inline(always)]
fn first_of<P: Platform>(siblings: &[Entry<P>]) -> Option<(usize, &Entry<P>)> {
    let lesser = |a: usize, b: usize| if siblings[b].before(&siblings[a]) { b } else { a };
    // All but the last few of a heap have all children: two pairs, then the winners, without a loop.
    let nth = match siblings.len() {
        0 => return None,
        ARITY => lesser(lesser(0, 1), lesser(2, 3)),
        count => (1..count).fold(0, lesser),
    };
    Some((nth, &siblings[nth]))
}

impl<P: Platform> fmt::Debug for Timer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").field("armed", &self.is_armed()).finish_non_exhaustive()
    }
}

impl<P: Platform> fmt::Debug for Timers<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").field("earliest", &self.earliest()).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "std", not(gmp_loom)))]
mod tests {
    use alloc::boxed::Box;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::{Action, Heap, Timer};
    use crate::goroutine::{Goroutine, Ticket};
    use crate::native::Native;
    use crate::primitives::Ordering;
    use crate::time::Instant;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// Sets one of the timers that are not set.
        Insert(u64),
        PopFirst,
        /// Stops one of the timers that are set.
        Remove(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            // Few different points in time, so that many timers share one.
            5 => (0..20u64).prop_map(Step::Insert),
            2 => Just(Step::PopFirst),
            2 => any::<usize>().prop_map(Step::Remove),
        ];
        prop::collection::vec(step, 0..300)
    }

    proptest! {
        /// Timers come out in the order of their time, and those of the same time in the order in which they were set;
        /// each knows its place.
        #[test]
        fn behaves_like_a_sorted_map(steps in steps()) {
            let goroutine: &'static Goroutine<Native> = Box::leak(Box::new(Goroutine::new()));
            let timers: Vec<&'static Timer<Native>> = (0..300).map(|_| &*Box::leak(Box::new(Timer::new()))).collect();
            let mut heap = Heap { entries: Vec::new(), sequence: 0 };
            // From the time and the number of the step to the timer.
            let mut model = BTreeMap::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Insert(when) => {
                        let ticket = Ticket(number as u64);
                        let first = model.first_key_value().is_none_or(|(&(first, _), _)| when < first);
                        let instant = Instant::from_nanos(when);
                        let is_first = heap.insert(instant, timers[number], Action::Wake(goroutine, ticket));
                        prop_assert_eq!(is_first, first);
                        model.insert((when, number), timers[number]);
                    }
                    Step::PopFirst => {
                        let expected = model.pop_first();
                        prop_assert_eq!(heap.entries.is_empty(), expected.is_none());
                        let Some(((when, number), timer)) = expected else { continue };
                        let first = heap.entries[0];
                        prop_assert_eq!(first.when.as_nanos(), when);
                        prop_assert!(core::ptr::eq(first.timer, timer));
                        let ticket = Ticket(number as u64);
                        prop_assert!(matches!(first.action, Action::Wake(_, found) if found == ticket));
                        heap.remove(0);
                        prop_assert!(!timer.is_armed());
                    }
                    Step::Remove(choice) => {
                        let place = choice.checked_rem(model.len()).unwrap_or(0);
                        let Some(&key) = model.keys().nth(place) else { continue };
                        let timer = model.remove(&key).unwrap();
                        heap.remove(timer.position.load(Ordering::Relaxed) as usize);
                        prop_assert!(!timer.is_armed());
                    }
                }
                prop_assert_eq!(heap.entries.len(), model.len());
                for (position, entry) in heap.entries.iter().enumerate() {
                    prop_assert_eq!(entry.timer.position.load(Ordering::Relaxed) as usize, position);
                }
            }
        }
    }
}
