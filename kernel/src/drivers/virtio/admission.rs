//! Admission to a queue with few places: first come, first served.
//!
//! Who finds no free place parks its thread; a place that gets free goes straight to the one that waits longest, so
//! that nobody who comes later can take it away. The queue of the waiting is linked through their stacks and allocates
//! nothing.
//!
//! Everything here is done under the lock of the device, but for a look at [`Waiter::grant`].

use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};

use crate::sched::kthread::KernelThread;

/// Number of a place.
pub(super) type Place = u8;

/// In [`Waiter::grant`]: not decided yet.
const WAITING: u8 = 0xff;
/// In [`Waiter::grant`]: there will be no place any more.
const REFUSED: u8 = 0xfe;

/// What a waiter is told in the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Grant {
    /// It has this place.
    Place(Place),
    /// Nobody gets a place any more.
    Refused,
}

/// Somebody who waits for a place.
#[derive(Debug)]
pub(super) struct Waiter {
    thread: &'static KernelThread,
    grant: AtomicU8,
    /// The one behind it.
    next: Cell<Option<NonNull<Waiter>>>,
}

impl Waiter {
    pub(super) fn new(thread: &'static KernelThread) -> Self {
        Self { thread, grant: AtomicU8::new(WAITING), next: Cell::new(None) }
    }

    /// The decision, `None` while it is to wait.
    pub(super) fn grant(&self) -> Option<Grant> {
        // Ordering: Acquire; partner: the Release in `decide`. The link has been read for the last time.
        match self.grant.load(Ordering::Acquire) {
            WAITING => None,
            REFUSED => Some(Grant::Refused),
            place => Some(Grant::Place(place)),
        }
    }
}

/// The places of a queue, and who waits for one.
#[derive(Debug)]
pub(super) struct Admission<const PLACES: usize> {
    free: heapless::Vec<Place, PLACES>,
    first: Option<NonNull<Waiter>>,
    last: Option<NonNull<Waiter>>,
}

// SAFETY: the waiters it points to are accessed under the device's lock, by whoever holds that.
unsafe impl<const PLACES: usize> Send for Admission<PLACES> {}

impl<const PLACES: usize> Admission<PLACES> {
    /// All places are free.
    pub(super) fn new() -> Self {
        Self { free: (0..REFUSED).take(PLACES).collect(), first: None, last: None }
    }

    /// A free place. There is none while somebody waits.
    pub(super) fn take(&mut self) -> Option<Place> {
        self.free.pop()
    }

    /// Puts `waiter` at the end of the queue.
    ///
    /// # Safety
    /// It stays where it is until it has its [`grant`](Waiter::grant), and is in the queue once.
    pub(super) unsafe fn wait(&mut self, waiter: &Waiter) {
        let link = Some(NonNull::from(waiter));
        match self.last {
            // SAFETY: it has no grant yet, so it still is where it was.
            Some(last) => unsafe { last.as_ref() }.next.set(link),
            None => self.first = link,
        }
        self.last = link;
    }

    /// Gives a place to the one that waits longest, who is to be unparked, or else back.
    #[must_use = "the thread is to be unparked"]
    pub(super) fn give_back(&mut self, place: Place) -> Option<&'static KernelThread> {
        let thread = self.decide(place);
        if thread.is_none() {
            // There is room: it was taken from there.
            let _ = self.free.push(place);
        }
        thread
    }

    /// Tells the one that waits longest that it gets no place; it is to be unparked. `None` if nobody waits.
    #[must_use = "the thread is to be unparked"]
    pub(super) fn refuse(&mut self) -> Option<&'static KernelThread> {
        self.decide(REFUSED)
    }

    fn decide(&mut self, grant: u8) -> Option<&'static KernelThread> {
        // SAFETY: it has no grant yet, so it still is where it was.
        let waiter = unsafe { self.first?.as_ref() };
        self.first = waiter.next.get();
        if self.first.is_none() {
            self.last = None;
        }
        let thread = waiter.thread;
        // Ordering: Release: we are through with the waiter, which may be gone from here on.
        waiter.grant.store(grant, Ordering::Release);
        Some(thread)
    }
}
