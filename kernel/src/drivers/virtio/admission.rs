//! Admission to a queue with few slots: first come, first served.
//!
//! A caller that finds no free slot parks its thread. A freed slot is handed to the waiter that has waited longest, so that
//! no later caller can take it. Each waiter is a value on its thread's stack, linked into a queue, so that waiting does not
//! allocate.
//!
//! All accesses are made under the lock of the device, except the loads of [`Waiter::grant`].

use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};

use crate::sched::kthread::KernelThread;

/// Index of a slot.
pub(super) type Slot = u8;

/// Value of [`Waiter::grant`] while nothing has been decided.
const WAITING: u8 = 0xff;
/// Value of [`Waiter::grant`] if the waiter gets no slot, because the device has failed.
const REFUSED: u8 = 0xfe;

/// The decision for a waiter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Grant {
    /// The waiter gets this slot.
    Slot(Slot),
    /// The waiter gets no slot, because the device has failed.
    Refused,
}

/// A caller that waits for a slot.
#[derive(Debug)]
pub(super) struct Waiter {
    thread: &'static KernelThread,
    grant: AtomicU8,
    /// The next waiter.
    next: Cell<Option<NonNull<Waiter>>>,
}

impl Waiter {
    pub(super) fn new(thread: &'static KernelThread) -> Self {
        Self { thread, grant: AtomicU8::new(WAITING), next: Cell::new(None) }
    }

    /// The decision; `None` if the caller must continue to wait.
    pub(super) fn grant(&self) -> Option<Grant> {
        // Ordering: Acquire; partner: the Release in `decide`. The waker does not access the waiter after that store, so
        // the caller may free the waiter.
        match self.grant.load(Ordering::Acquire) {
            WAITING => None,
            REFUSED => Some(Grant::Refused),
            slot => Some(Grant::Slot(slot)),
        }
    }
}

/// The free slots of a queue, and the waiters for a slot.
#[derive(Debug)]
pub(super) struct Admission<const SLOTS: usize> {
    free: heapless::Vec<Slot, SLOTS>,
    first: Option<NonNull<Waiter>>,
    last: Option<NonNull<Waiter>>,
}

// SAFETY: the waiters to which it points are accessed only under the device's lock. They stay at their addresses while
// they are queued, as the callers of `wait` promise.
unsafe impl<const SLOTS: usize> Send for Admission<SLOTS> {}

impl<const SLOTS: usize> Admission<SLOTS> {
    /// All slots are free, and nothing waits.
    pub(super) fn new() -> Self {
        Self { free: (0..REFUSED).take(SLOTS).collect(), first: None, last: None }
    }

    /// Takes a free slot. As long as there are waiters, no slot is free.
    pub(super) fn take(&mut self) -> Option<Slot> {
        self.free.pop()
    }

    /// Appends `waiter` to the queue.
    ///
    /// # Safety
    /// `waiter` stays at its address until its [`grant`](Waiter::grant) is decided, and is in the queue only once.
    pub(super) unsafe fn wait(&mut self, waiter: &Waiter) {
        let link = Some(NonNull::from(waiter));
        match self.last {
            // SAFETY: a waiter in the queue has no grant yet. So it is still at its address, as the caller of `wait` has
            // promised.
            Some(last) => unsafe { last.as_ref() }.next.set(link),
            None => self.first = link,
        }
        self.last = link;
    }

    /// Hands a slot to the waiter that has waited longest, and returns its thread, which the caller unparks. Frees the slot if
    /// there is no waiter.
    #[must_use = "the thread is to be unparked"]
    pub(super) fn give_back(&mut self, slot: Slot) -> Option<&'static KernelThread> {
        let thread = self.decide(slot);
        if thread.is_none() {
            // This cannot fail: the slot was taken from this list.
            let _ = self.free.push(slot);
        }
        thread
    }

    /// Refuses the waiter that has waited longest, and returns its thread, which the caller unparks. `None` if there is no
    /// waiter.
    #[must_use = "the thread is to be unparked"]
    pub(super) fn refuse(&mut self) -> Option<&'static KernelThread> {
        self.decide(REFUSED)
    }

    fn decide(&mut self, grant: u8) -> Option<&'static KernelThread> {
        // SAFETY: a waiter in the queue has no grant yet. So it is still at its address, as the caller of `wait` has
        // promised.
        let waiter = unsafe { self.first?.as_ref() };
        self.first = waiter.next.get();
        if self.first.is_none() {
            self.last = None;
        }
        let thread = waiter.thread;
        // Ordering: Release; partner: the Acquire in `grant`. After this store the waiter may be freed, so it is not
        // accessed any more.
        waiter.grant.store(grant, Ordering::Release);
        Some(thread)
    }
}
