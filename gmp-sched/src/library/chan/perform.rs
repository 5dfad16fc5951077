//! The operations of a channel that take its lock. Each send and each receive is a [`perform`](Channel::perform): it
//! locks the channel, tries to move the value, and if that is not possible now, waits as long as its [`Patience`]
//! permits.

use core::mem::MaybeUninit;

use super::channel::{Attempt, Channel, MOVED};
use super::header::{Held, Side};
use super::unsent::Unsent;
use crate::base::atomic::Ordering;
use crate::engine::hooks::Window;
use crate::engine::hooks::pin_before_wait;
use crate::engine::ready::ready_pinned;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::{Goroutine, WaitGeneration};
use crate::entities::wait_reason::WaitFor;
use crate::entities::window::At;
use crate::library::limit::{ContextError, Patience};
use crate::library::waiter::wait;
use crate::platform::{Pinned, Platform};

/// Why an operation ended without moving a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmoved {
    /// See [`Attempt::Closed`]. The caller must call [`Header::check_closed`](super::Header::check_closed).
    Closed,
    /// The operation would have to wait longer than its [`Patience`] permits.
    Ended(ContextError),
}

impl<T, Plat: Platform> Channel<T, Plat> {
    /// Sends `value`. The error holds the value.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn send(&self, value: T, patience: Patience<'_, Plat>) -> Result<(), (T, Unmoved)> {
        let value = Unsent::new(value);
        // SAFETY: this function owns the value, and does not use it after it has moved.
        match unsafe { self.perform(Side::Send, value.as_ptr().cast_mut(), patience) } {
            Ok(()) => {
                value.moved();
                Ok(())
            }
            Err(unmoved) => Err((value.into_inner(), unmoved)),
        }
    }

    /// Receives a value.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn receive(&self, patience: Patience<'_, Plat>) -> Result<T, Unmoved> {
        let mut slot = MaybeUninit::<T>::uninit();
        // SAFETY: `slot` is an uninitialised local variable.
        unsafe { self.perform(Side::Receive, slot.as_mut_ptr(), patience) }?;
        // SAFETY: a value has moved into `slot`.
        Ok(unsafe { slot.assume_init() })
    }

    /// Performs the operation of `side`: moves a value from or to `slot`. If that is not possible now, waits as long as
    /// `patience` permits.
    ///
    /// If this function panics, no value has moved.
    ///
    /// # Safety
    ///
    /// For a send, `slot` points to a value that the caller owns; for a receive, `slot` is uninitialised and writable.
    /// If the result is `Ok`, the value has been moved out of `slot` or into it.
    #[inline(always)]
    #[track_caller]
    pub(crate) unsafe fn perform(&self, side: Side, slot: *mut T, patience: Patience<'_, Plat>) -> Result<(), Unmoved> {
        let pinned = if patience.may_wait() { pin_before_wait() } else { Pinned::of_scheduler() };
        let held = self.header.lock(&pinned);
        let attempt = match side {
            // SAFETY: the caller upholds this function's contract, and the called function has the same contract.
            Side::Send => unsafe { self.offer(&held, slot) },
            // SAFETY: the caller upholds this function's contract, and the called function has the same contract.
            Side::Receive => unsafe { self.take(&held, slot) },
        };
        match attempt {
            Attempt::Moved(waiting) => {
                unlock_and_ready(&pinned, held, waiting);
                Ok(())
            }
            Attempt::Closed => {
                release(pinned, held);
                Err(Unmoved::Closed)
            }
            Attempt::NotReady => self.wait(pinned, held, side, slot, patience),
        }
    }

    /// Parks until another G moves the value from or to `slot` or closes the channel, but no longer than `patience`
    /// permits.
    #[inline(always)]
    #[track_caller]
    fn wait(
        &self,
        pinned: Pinned<Plat>,
        held: Held<'_, Plat>,
        side: Side,
        slot: *mut T,
        patience: Patience<'_, Plat>,
    ) -> Result<(), Unmoved> {
        if let Some(error) = patience.err() {
            release(pinned, held);
            return Err(Unmoved::Ended(error));
        }
        let (caller, held) = CurrentGoroutine::holding(pinned, held);
        let me = caller.me;
        let window = Window::<Plat>::open(At::ChannelQueue);
        let limit = patience.limit();
        let generation = if limit.is_some() { me.open_wait() } else { WaitGeneration::SOLE };
        // ANCHOR: wait
        me.waiter.prepare(me, generation, slot.cast());
        self.header.queue(side).push_back(&me.waiter);
        let wait_for = WaitFor::new(self.header.wait_reason(side), &self.header);
        let ended_by = wait(caller, wait_for, generation, limit.copied(), || drop(held));
        window.close();
        if let Some(limit) = ended_by {
            // The timer or the context claimed the wait generation, so no other G accesses `slot` any more.
            let pinned = Pinned::of_scheduler();
            self.header.lock(&pinned).remove(side, &me.waiter);
            return Err(Unmoved::Ended(limit.ended()));
        }
        if me.waiter.outcome.load(Ordering::Relaxed) == MOVED { Ok(()) } else { Err(Unmoved::Closed) }
        // ANCHOR_END: wait
    }

    /// Receives a value or, if the receive would have to wait, queues `waiter` as a receiver.
    #[cfg(gmp_loom)]
    pub(crate) fn recv_or_queue(&self, waiter: &'static crate::entities::waiter::Waiter<Plat>) -> Option<T> {
        let mut slot = MaybeUninit::<T>::uninit();
        let pinned = Pinned::of_scheduler();
        let held = self.header.lock(&pinned);
        // SAFETY: `slot` is an uninitialised local variable.
        if let Attempt::Moved(sender) = unsafe { self.take(&held, slot.as_mut_ptr()) } {
            unlock_and_ready(&pinned, held, sender);
            // SAFETY: a value has moved into `slot`.
            return Some(unsafe { slot.assume_init() });
        }
        self.header.queue(Side::Receive).push_back(waiter);
        None
    }

    /// Closes the channel and readies all waiters; returns whether it was open. Go: `closechan`.
    pub(crate) fn close(&self) -> bool {
        let pinned = Pinned::of_scheduler();
        let Some([senders, receivers]) = self.header.lock(&pinned).close() else { return false };
        senders.ready_all(&pinned);
        receivers.ready_all(&pinned);
        true
    }

    /// Drops the values in the buffer of a closed channel one by one. The lock is not held while a value is dropped.
    #[inline(always)]
    pub(super) fn drain(&self) {
        if self.header.len() != 0 {
            self.drain_all();
        }
    }

    #[cold]
    #[inline(never)]
    fn drain_all(&self) {
        while self.header.len() != 0 && self.receive(Patience::Never).is_ok() {}
    }
}

/// Releases the lock of an operation that has failed. Not inlined, because otherwise the compiler lets failed and
/// successful operations share one unpin. After that unpin, the fast path would have to check which of the two it was.
#[cold]
#[inline(never)]
fn release<Plat: Platform>(pinned: Pinned<Plat>, held: Held<'_, Plat>) {
    drop(held);
    drop(pinned);
}

/// Releases the lock, and then readies the G that waited on the other side, if any. The calling G continues to run.
#[inline(always)]
pub(crate) fn unlock_and_ready<Plat: Platform>(
    pinned: &Pinned<Plat>,
    held: Held<'_, Plat>,
    waiting: Option<&'static Goroutine<Plat>>,
) {
    let window = Window::<Plat>::open(At::Wakeup);
    drop(held);
    if let Some(goroutine) = waiting {
        ready_pinned(pinned, goroutine);
    }
    window.close();
}
