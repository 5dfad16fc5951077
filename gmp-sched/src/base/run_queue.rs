//! The local run queue: a ring of 256 Gs and the `runnext` slot. One P owns it; the holders of other Ps steal from it.
//!
//! Go: `runqput`, `runqget`, `runqgrab`, `runqsteal` (runtime/proc.go, go1.27). The owner is the only producer: it
//! pushes at the tail. The owner and the thieves are the consumers: they take from the head by compare-exchange. Head
//! and tail are counters that only grow and may wrap; a counter modulo the capacity is the index of its slot. The slots
//! are atomics, so it is no data race when a thief reads a slot that the owner overwrites at the same time: the thief's
//! compare-exchange then fails, and the thief discards the value.
//!
//! | field | written by | ordering |
//! |---|---|---|
//! | `tail` | owner | `Release` store after the slot; thieves load it with `Acquire` before they read slots |
//! | `head` | owner and thieves | compare-exchange `AcqRel`; the owner loads it with `Acquire` before it overwrites slots that thieves have read |
//! | `next` | owner sets, anyone clears | `Release` to set, compare-exchange `AcqRel` to take |
//!
//! While there are no thieves, the owner takes elements by plain stores ([`pop`](RunQueue::pop)).

use core::marker::PhantomData;

use crate::base::atomic::{AtomicU32, Ordering};
use crate::base::points::{Points, Site};
use crate::base::reference::AtomicRef;
use crate::base::under_loom::IS_MODEL;

/// Number of slots in a P's ring. Go: `len(p.runq)`. Under loom there are only four, because loom records a history of
/// each atomic, which makes runs with many atomics slow.
pub const RING_CAPACITY: usize = if IS_MODEL { 4 } else { 256 };

/// Where the counters of a new queue begin. They wrap at the first push, so code that does not allow for the wrap fails
/// at once, and not only after four billion pushes.
const START: u32 = u32::MAX;

/// The ring is full; the element was not pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Whether a G that is picked gets a new time slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// The G came from the ring and gets a slice of its own.
    New,
    /// The G came from `runnext` and runs in the rest of the current slice. Two Gs that keep readying each other
    /// therefore share one slice. When this slice ends, the Gs of the ring run first. Go: `inheritTime`.
    #[doc(alias = "inheritTime")]
    Inherited,
}

/// A P's local run queue of elements `T`; `CAPACITY` is a power of two.
#[derive(Debug)]
// A push or pop by the owner accesses `head`, `tail`, `next` and often the first slots. In this order and alignment,
// they share one cache line.
#[repr(C, align(64))]
pub struct RunQueue<T: 'static, S: Points, const CAPACITY: usize = RING_CAPACITY> {
    head: AtomicU32,
    tail: AtomicU32,
    next: AtomicRef<T>,
    ring: [AtomicRef<T>; CAPACITY],
    _points: PhantomData<fn() -> S>,
}

impl<T, S: Points, const CAPACITY: usize> RunQueue<T, S, CAPACITY> {
    const SIZE: u32 = {
        assert!(CAPACITY.is_power_of_two() && CAPACITY >= 2 && CAPACITY <= 1 << 31);
        CAPACITY as u32
    };

    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self {
            head: AtomicU32::new(START),
            tail: AtomicU32::new(START),
            next: AtomicRef::none(),
            ring: core::array::from_fn(|_| AtomicRef::none()),
            _points: PhantomData,
        }
    }

    #[inline(always)]
    fn slot(&self, position: u32) -> &AtomicRef<T> {
        &self.ring[(position % Self::SIZE) as usize]
    }
}

/// The owner's side: only the M that holds the P may call these functions.
impl<T, S: Points, const CAPACITY: usize> RunQueue<T, S, CAPACITY> {
    /// Puts `item` into `runnext`. Returns the element that was there, if any, which the caller must append to the
    /// ring.
    #[inline]
    pub fn push_next(&self, item: &'static T) -> Option<&'static T> {
        S::point(Site::RunQueue);
        if self.next.load(Ordering::Relaxed).is_none() {
            // Only the owner, which is the caller, sets `next`. So `next` stays empty until this store, and no
            // exchange is needed. This check costs two instructions, but the exchange is a locked instruction (2 to 5
            // ns).
            self.next.store(Some(item), Ordering::Release);
            return None;
        }
        // This is an exchange, because a thief may take the old element at the same time. Ordering: Acquire pairs with
        // the Release store of the old element. Another M may have made that store while it held this P.
        self.next.swap(Some(item), Ordering::AcqRel)
    }

    /// Appends `item` to the ring.
    ///
    /// # Errors
    ///
    /// [`Full`] if the ring has no free slot. The caller then moves half of the ring to the global queue, see
    /// [`drain_half`](Self::drain_half).
    #[inline]
    pub fn push_back(&self, item: &'static T) -> Result<(), Full> {
        // ANCHOR: push_back
        S::point(Site::RunQueue);
        // Ordering: Acquire pairs with the Release of `head` by which an element was taken. So the M that took the
        // element has read the slot before this function overwrites the slot.
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Relaxed);
        if tail.wrapping_sub(head) >= Self::SIZE {
            return Err(Full);
        }
        self.slot(tail).store(Some(item), Ordering::Relaxed);
        // Ordering: Release publishes the slot to the thieves, which load `tail` with Acquire.
        self.tail.store(tail.wrapping_add(1), Ordering::Release);
        Ok(())
        // ANCHOR_END: push_back
    }

    /// Appends as many of `items` as there is room for and publishes them together. Returns how many it appended.
    pub fn push_back_all(&self, items: impl Iterator<Item = &'static T>) -> u32 {
        // ANCHOR: push_back_all
        S::point(Site::RunQueue);
        // Ordering: `push_back` states why these two loads, and the store to `tail` below, have these orderings.
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Relaxed);
        let room = Self::SIZE - tail.wrapping_sub(head);
        let mut count = 0;
        // `for_each` is faster than a loop, if the items come from several slices one after the other.
        items.take(room as usize).for_each(|item| {
            self.slot(tail.wrapping_add(count)).store(Some(item), Ordering::Relaxed);
            count += 1;
        });
        S::point(Site::RunQueue);
        self.tail.store(tail.wrapping_add(count), Ordering::Release);
        count
        // ANCHOR_END: push_back_all
    }

    /// Takes the oldest half of a full ring and returns its elements, in order. The caller must read all of them before
    /// it pushes another element. Does nothing and returns `None` if the ring is no longer full because thieves took
    /// elements. Go: the first half of `runqputslow`.
    #[must_use = "the elements are no longer in the ring"]
    pub fn drain_half(&self) -> Option<impl ExactSizeIterator<Item = &'static T>> {
        // ANCHOR: drain_half
        let head = self.head.load(Ordering::Acquire);
        let tail = self.tail.load(Ordering::Relaxed);
        if tail.wrapping_sub(head) < Self::SIZE {
            return None;
        }
        let half = Self::SIZE / 2;
        S::point(Site::RunQueue);
        if self.head.compare_exchange(head, head.wrapping_add(half), Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return None;
        }
        // The compare-exchange has taken these elements. Their slots still contain them, because only the owner, which
        // is the caller, overwrites slots.
        let item = move |offset| self.slot(head.wrapping_add(offset)).load(Ordering::Relaxed);
        Some((0..half).map(move |offset| item(offset).expect("the slots of a full ring are set")))
        // ANCHOR_END: drain_half
    }

    /// Takes the element in `runnext`, if there is one.
    pub fn pop_next(&self) -> Option<&'static T> {
        // If the compare-exchange fails, a thief has taken the element, because only the owner, which is the caller,
        // sets `next`.
        self.next().filter(|next| self.take_next(next))
    }

    /// Takes the element in `runnext`, or, if there is none, the one at the head of the ring. Go: `runqget`.
    ///
    /// `has_thieves` may be `false` only if no other M can steal before this function returns. In this case a plain
    /// store replaces a locked instruction. The benchmark `raw_lock` measures 2 to 5 ns for a locked instruction on
    /// threads. With the plain store, a yield takes one instruction fewer, and a round trip over channels takes two
    /// fewer.
    #[doc(alias = "runqget")]
    #[inline(always)]
    pub fn pop(&self, has_thieves: bool) -> Option<(&'static T, Slice)> {
        S::point(Site::RunQueue);
        let next = self.next.load(Ordering::Relaxed);
        // If the compare-exchange fails, a thief has taken the element. Only the owner, which is the caller, sets
        // `next`, so there is no other element to try.
        if next.is_some() && self.clear_next(next, has_thieves) {
            return next.map(|item| (item, Slice::Inherited));
        }
        // ANCHOR: pop_ring
        loop {
            let head = self.head.load(Ordering::Acquire);
            let tail = self.tail.load(Ordering::Relaxed);
            if head == tail {
                return None;
            }
            let item = self.slot(head).load(Ordering::Relaxed);
            if self.advance_head(head, has_thieves) {
                return item.map(|item| (item, Slice::New));
            }
        }
        // ANCHOR_END: pop_ring
    }

    #[inline(always)]
    fn clear_next(&self, next: Option<&'static T>, has_thieves: bool) -> bool {
        S::point(Site::RunQueue);
        // Ordering: Release, so that an M that sees `next` empty also sees the elements that were moved earlier from
        // `next` to the ring. Partner: the Acquire load of `next` in `is_empty`.
        if has_thieves {
            return self.next.replace(next, None, Ordering::AcqRel, Ordering::Relaxed);
        }
        self.next.store(None, Ordering::Release);
        true
    }

    #[inline(always)]
    fn advance_head(&self, head: u32, has_thieves: bool) -> bool {
        S::point(Site::RunQueue);
        let next = head.wrapping_add(1);
        // Ordering: Release, so that the slot has been read before the owner overwrites it. Partner: the Acquire load
        // of `head` in `push_back`.
        if has_thieves {
            return self.head.compare_exchange(head, next, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        }
        self.head.store(next, Ordering::Release);
        true
    }
}

/// The thief's side: any M that holds another P may call these functions.
impl<T, S: Points, const CAPACITY: usize> RunQueue<T, S, CAPACITY> {
    /// Moves the oldest elements of this ring to the ring of `thief`, which the caller owns and which must be empty.
    /// `share` returns how many of the elements to move; its argument is the length of this ring. The last stolen
    /// element is not put into the thief's ring: this function returns it, for the caller to run. Go: `runqsteal`.
    ///
    /// If no element is to be moved, takes the element in `runnext` instead, but only if that element is `seen`. Before
    /// the call, the caller has read `seen` by [`next`](Self::next), and has then waited for a moment if the owner was
    /// likely to run that element itself. Returns `None` if nothing was stolen.
    #[doc(alias = "runqsteal")]
    pub fn steal_into(&self, thief: &Self, share: impl Fn(u32) -> u32, seen: Option<&'static T>) -> Option<&'static T> {
        // Ordering: Relaxed, because only the owner of `thief`, which is the caller, writes the `tail` of `thief`.
        let base = thief.tail.load(Ordering::Relaxed);
        let stolen = self.grab(thief, share, base);
        if stolen == 0 {
            return seen.filter(|seen| self.take_next(seen));
        }
        let kept = stolen - 1;
        let last = thief.slot(base.wrapping_add(kept)).load(Ordering::Relaxed);
        if kept > 0 {
            S::point(Site::RunQueue);
            // Ordering: Release publishes the copied slots to other thieves.
            thief.tail.store(base.wrapping_add(kept), Ordering::Release);
        }
        last
    }

    /// Copies the oldest elements of the ring, as many as `share` returns, into the slots of `thief`, starting at index
    /// `base`. Takes these elements by moving `head`. Returns how many it took. Go: `runqgrab`.
    #[doc(alias = "runqgrab")]
    fn grab(&self, thief: &Self, share: impl Fn(u32) -> u32, base: u32) -> u32 {
        // ANCHOR: grab
        loop {
            S::point(Site::RunQueue);
            // Ordering: Acquire keeps the load of `tail` after this load. Partner: the Release of `head` by which other
            // Ms took elements.
            let head = self.head.load(Ordering::Acquire);
            // Ordering: Acquire pairs with the Release store in `push_back`, so all slots before `tail` have been
            // written.
            let tail = self.tail.load(Ordering::Acquire);
            let length = tail.wrapping_sub(head);
            if length > Self::SIZE {
                // Between the two loads, other thieves took elements and the owner pushed new ones, so `tail - head` is
                // larger than the ring. Copying so many elements could overrun the thief's ring. Start again.
                continue;
            }
            let count = share(length).min(length);
            if count == 0 {
                return 0;
            }
            for offset in 0..count {
                let item = self.slot(head.wrapping_add(offset)).load(Ordering::Relaxed);
                thief.slot(base.wrapping_add(offset)).store(item, Ordering::Relaxed);
            }
            S::point(Site::RunQueue);
            // Ordering: Release keeps the reads of the slots before this exchange. Partner: the Acquire load of `head`
            // in `push_back`.
            if self.head.compare_exchange(head, head.wrapping_add(count), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return count;
            }
        }
        // ANCHOR_END: grab
    }

    /// Takes the element in `runnext` if it is `next`; returns whether this succeeded.
    fn take_next(&self, next: &'static T) -> bool {
        S::point(Site::RunQueue);
        // Ordering: Acquire pairs with the owner's Release in `push_next`. Release is needed for the reason stated in
        // `clear_next`.
        self.next.replace(Some(next), None, Ordering::AcqRel, Ordering::Relaxed)
    }
}

/// Functions for observers. Any M may call them at any time, except `elements`. A result may already be outdated when
/// the caller uses it.
impl<T, S: Points, const CAPACITY: usize> RunQueue<T, S, CAPACITY> {
    /// The element in `runnext`, if there is one.
    #[must_use]
    pub fn next(&self) -> Option<&'static T> {
        self.next.load(Ordering::Relaxed)
    }

    /// Iterates over all elements. No M may access the queue while the iterator is in use.
    #[cfg(feature = "std")]
    pub(crate) fn elements(&self) -> impl Iterator<Item = &'static T> {
        let [head, tail] = [&self.head, &self.tail].map(|counter| counter.load(Ordering::Relaxed));
        let ring = (0..tail.wrapping_sub(head))
            .filter_map(move |offset| self.slot(head.wrapping_add(offset)).load(Ordering::Relaxed));
        ring.chain(self.next())
    }

    /// How many elements have been taken from the ring, modulo 2³². If two calls shortly after each other return the
    /// same number, no element was taken from the ring in between.
    #[cfg(feature = "std")]
    pub(crate) fn taken(&self) -> u32 {
        self.head.load(Ordering::Relaxed)
    }

    /// Number of elements in the ring, `runnext` not counted.
    #[must_use]
    pub fn len(&self) -> usize {
        loop {
            let tail = self.tail.load(Ordering::Acquire);
            let head = self.head.load(Ordering::Acquire);
            if self.tail.load(Ordering::Acquire) == tail {
                return tail.wrapping_sub(head) as usize;
            }
        }
    }

    /// Whether ring and `runnext` were both empty at one moment. Go: `runqempty`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        loop {
            S::point(Site::RunQueue);
            let head = self.head.load(Ordering::Acquire);
            let tail = self.tail.load(Ordering::Acquire);
            let next = self.next.load(Ordering::Acquire);
            // Three loads in a row could miss an element that is moved from `runnext` to the ring after this function
            // has read the ring. In this case `tail` has changed, so the loop reads everything again.
            if self.tail.load(Ordering::Acquire) == tail {
                return head == tail && next.is_none();
            }
        }
    }
}

impl<T, S: Points, const CAPACITY: usize> Default for RunQueue<T, S, CAPACITY> {
    fn default() -> Self {
        Self::new()
    }
}
