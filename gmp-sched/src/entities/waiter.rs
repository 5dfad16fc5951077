//! A G's entry in a wait queue; see [`crate::library::waiter`].

use core::fmt;
use core::ptr;

use crate::base::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::base::points::Site;
use crate::base::reference::AtomicRef;
use crate::entities::goroutine::{Goroutine, WaitGeneration};
use crate::platform::Platform;

/// One G's entry in one wait queue. Go: `sudog`.
///
/// All fields are atomics with relaxed accesses. While the waiter is queued, the fields belong to the holder of the
/// queue's lock, otherwise to the waiter's G.
#[doc(alias = "sudog")]
pub(crate) struct Waiter<Plat: Platform> {
    /// The G that waits, if the removal of this waiter from its queue ends the wait; otherwise `None`. So one load
    /// returns the G and shows whether the wait must be claimed.
    pub(crate) sole: AtomicRef<Goroutine<Plat>>,
    /// The next waiter in the queue; undefined in the last waiter.
    pub(crate) next: AtomicRef<Self>,
    /// The previous waiter in the queue; `None` in the first waiter and in a waiter that is not queued.
    pub(crate) previous: AtomicRef<Self>,
    /// A message from the waker to the G. The waker writes it before it readies the G. Each kind of object defines what
    /// the values mean.
    pub(crate) outcome: AtomicUsize,
    /// The G that waits, if the wait has several wakers.
    pub(crate) goroutine: AtomicRef<Goroutine<Plat>>,
    /// The wait generation that a waker claims, if the wait has several wakers.
    pub(crate) generation: AtomicU64,
    /// If the wait passes a value, the value slot: an address on the G's stack, from which the waker takes the value or
    /// to which it writes the value. If the G waits for a lock, the address of the lock, which a profile needs. Unused
    /// in all other waits.
    pub(crate) slot: AtomicPtr<()>,
}

impl<Plat: Platform> Waiter<Plat> {
    pub(crate) fn new() -> Self {
        Self::with(None, WaitGeneration::SOLE, ptr::null_mut())
    }

    /// A waiter that is [prepared](Self::prepare) for a wait with several wakers.
    #[inline(always)]
    pub(crate) fn of_several(goroutine: &'static Goroutine<Plat>, generation: WaitGeneration, slot: *mut ()) -> Self {
        debug_assert_ne!(generation, WaitGeneration::SOLE);
        Self::with(Some(goroutine), generation, slot)
    }

    #[inline(always)]
    fn with(goroutine: Option<&'static Goroutine<Plat>>, generation: WaitGeneration, slot: *mut ()) -> Self {
        Self {
            sole: AtomicRef::none(),
            next: AtomicRef::none(),
            previous: AtomicRef::none(),
            outcome: AtomicUsize::new(0),
            goroutine: AtomicRef::new(goroutine),
            generation: AtomicU64::new(generation.0),
            slot: AtomicPtr::new(slot),
        }
    }

    /// Prepares the waiter for a wait of `goroutine`, which owns the waiter.
    #[inline(always)]
    pub(crate) fn prepare(&self, goroutine: &'static Goroutine<Plat>, generation: WaitGeneration, slot: *mut ()) {
        if generation == WaitGeneration::SOLE {
            self.sole.store(Some(goroutine), Ordering::Relaxed);
        } else {
            self.sole.store(None, Ordering::Relaxed);
            self.goroutine.store(Some(goroutine), Ordering::Relaxed);
            self.generation.store(generation.0, Ordering::Relaxed);
        }
        self.slot.store(slot, Ordering::Relaxed);
    }

    /// Stores the address of the lock for which the G waits, because a profile needs it. The address is stored in
    /// `slot`, which is free because no value is passed to a G that waits for a lock.
    #[inline]
    pub(crate) fn note_lock<T>(&self, lock: &T) {
        self.slot.store(ptr::from_ref(lock).cast_mut().cast(), Ordering::Relaxed);
    }

    /// The G that waits.
    ///
    /// # Panics
    ///
    /// The waiter was never prepared.
    #[inline]
    pub(crate) fn goroutine(&self) -> &'static Goroutine<Plat> {
        let sole = self.sole.load(Ordering::Relaxed);
        sole.unwrap_or_else(|| self.goroutine_of_several())
    }

    #[inline(always)]
    fn goroutine_of_several(&self) -> &'static Goroutine<Plat> {
        self.goroutine.load(Ordering::Relaxed).expect("a waiter is prepared before it is queued")
    }

    /// Claims the end of the wait. Returns the G, which the caller must ready, or `None` if another waker has ended the
    /// wait.
    #[inline(always)]
    pub(crate) fn claim(&'static self) -> Option<&'static Goroutine<Plat>> {
        match self.sole.load(Ordering::Relaxed) {
            Some(goroutine) => Some(goroutine),
            None => self.claim_of_several(),
        }
    }

    #[inline]
    fn claim_of_several(&'static self) -> Option<&'static Goroutine<Plat>> {
        Plat::point(Site::Wait);
        let goroutine = self.goroutine_of_several();
        if !goroutine.claim_of_several(WaitGeneration(self.generation.load(Ordering::Relaxed))) {
            return None;
        }
        goroutine.woken_by.store(Some(self), Ordering::Relaxed);
        Some(goroutine)
    }
}

impl<Plat: Platform> fmt::Debug for Waiter<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}
