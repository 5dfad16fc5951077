//! Admission to a queue with few slots. Callers get slots in the order in which they come.
//!
//! A caller that finds no free slot parks its thread. A freed slot is handed to the waiter that has waited longest, so that
//! no later caller can take it. Each waiter is a value on its thread's stack, linked into a queue, so that waiting does not
//! allocate.
//!
//! All accesses are made under the lock of the device. The only exception is [`Waiter::grant`], which is called without
//! the lock.

use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};

use crate::sched::kthread::KernelThread;

/// Index of a slot.
pub(super) type Slot = u8;

/// Value of the field `grant` of a [`Waiter`] while it is not decided whether the waiter gets a slot.
const WAITING: u8 = 0xff;
/// Value of the field `grant` if the waiter gets no slot, because the device has failed.
const REFUSED: u8 = 0xfe;

/// What was decided about a waiter.
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

    /// What was decided about this waiter. `None` means that nothing is decided yet, so the waiting thread must
    /// continue to wait.
    pub(super) fn grant(&self) -> Option<Grant> {
        // Ordering: Acquire; partner: the Release store to `grant` in `decide`. The thread that decides does not access
        // the waiter after its store, so the caller may free the waiter after this load.
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

// SAFETY: the waiters to which the links point are accessed only under the device's lock. A queued waiter stays at its
// address, as the callers of `wait` promise.
unsafe impl<const SLOTS: usize> Send for Admission<SLOTS> {}

impl<const SLOTS: usize> Admission<SLOTS> {
    /// Creates the state in which all slots are free and no caller waits.
    pub(super) fn new() -> Self {
        Self { free: (0..REFUSED).take(SLOTS).collect(), first: None, last: None }
    }

    /// Takes a free slot, if there is one. While callers wait, no slot is free.
    pub(super) fn take(&mut self) -> Option<Slot> {
        self.free.pop()
    }

    /// Appends `waiter` to the queue.
    ///
    /// # Safety
    /// `waiter` must stay at its address until its [`grant`](Waiter::grant) is decided, and must be queued only once.
    pub(super) unsafe fn wait(&mut self, waiter: &Waiter) {
        let link = Some(NonNull::from(waiter));
        match self.last {
            // SAFETY: `last` is in the queue, so its grant is not decided yet. The caller of `wait` has promised that a
            // waiter stays at its address until then.
            Some(last) => unsafe { last.as_ref() }.next.set(link),
            None => self.first = link,
        }
        self.last = link;
    }

    /// Takes back a slot. If callers wait, hands the slot to the one that has waited longest and returns its thread,
    /// which the caller must unpark. Otherwise the slot becomes free, and the result is `None`.
    #[must_use = "the thread is to be unparked"]
    pub(super) fn give_back(&mut self, slot: Slot) -> Option<&'static KernelThread> {
        let thread = self.decide(slot);
        if thread.is_none() {
            // This cannot fail: the slot was taken from this list, so the list has room for it.
            let _ = self.free.push(slot);
        }
        thread
    }

    /// Refuses a slot to the waiter that has waited longest, and returns its thread, which the caller must unpark.
    /// Returns `None` if there is no waiter.
    #[must_use = "the thread is to be unparked"]
    pub(super) fn refuse(&mut self) -> Option<&'static KernelThread> {
        self.decide(REFUSED)
    }

    fn decide(&mut self, grant: u8) -> Option<&'static KernelThread> {
        // SAFETY: `first` is in the queue, so its grant is not decided yet. The caller of `wait` has promised that a
        // waiter stays at its address until then.
        let waiter = unsafe { self.first?.as_ref() };
        self.first = waiter.next.get();
        if self.first.is_none() {
            self.last = None;
        }
        let thread = waiter.thread;
        // Ordering: Release; partner: the Acquire load in `Waiter::grant`. After this store the waiting thread may free
        // the waiter, so this function does not access the waiter any more.
        waiter.grant.store(grant, Ordering::Release);
        Some(thread)
    }
}
