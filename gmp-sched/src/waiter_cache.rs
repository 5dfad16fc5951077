//! Waiters for Gs that wait for several things at once: a list on each P, and one for all.
//!
//! Go: `sudogcache`, `acquireSudog`, `releaseSudog`. Here the room is made before anything is locked, since it may be that
//! there is none.

use alloc::vec::Vec;
use core::fmt;

use crate::platform::{OutOfResources, Pinned, Platform};
use crate::primitives::{AtomicUsize, Ordering};
use crate::processor::Processor;
use crate::reference::AtomicRef;
use crate::waiter::Waiter;

/// Waiters that a P keeps at most, unless a single select needs more. Go: the capacity of `sudogbuf`.
const LIMIT: usize = 128;

/// Waiters that nobody uses.
pub(crate) struct WaiterCache<P: Platform> {
    first: AtomicRef<Waiter<P>>,
    length: AtomicUsize,
}

impl<P: Platform> WaiterCache<P> {
    pub(crate) fn new() -> Self {
        Self { first: AtomicRef::none(), length: AtomicUsize::new(0) }
    }

    #[inline]
    fn len(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }

    #[inline]
    fn push(&self, waiter: &'static Waiter<P>) {
        waiter.next.store(self.first.load(Ordering::Relaxed), Ordering::Relaxed);
        self.first.store(Some(waiter), Ordering::Relaxed);
        self.length.store(self.len() + 1, Ordering::Relaxed);
    }

    #[inline]
    fn pop(&self) -> Option<&'static Waiter<P>> {
        let waiter = self.first.load(Ordering::Relaxed)?;
        self.first.store(waiter.next.load(Ordering::Relaxed), Ordering::Relaxed);
        self.length.store(self.len() - 1, Ordering::Relaxed);
        Some(waiter)
    }

    pub(crate) fn move_to(&self, other: &Self, count: usize) {
        for _ in 0..count {
            let Some(waiter) = self.pop() else { return };
            other.push(waiter);
        }
    }
}

/// Sees to it that the current P has `count` waiters for [`acquire`], for as long as the caller stays pinned.
#[inline]
pub(crate) fn reserve<P: Platform>(pinned: &Pinned<P>, count: usize) -> Result<(), OutOfResources> {
    if pinned.processor().waiters.len() >= count { Ok(()) } else { refill(pinned, count) }
}

#[cold]
fn refill<P: Platform>(pinned: &Pinned<P>, count: usize) -> Result<(), OutOfResources> {
    let cache = &pinned.processor().waiters;
    pinned.machine().scheduler().waiters.lock().move_to(cache, count.max(LIMIT / 2) - cache.len());
    let missing = count.saturating_sub(cache.len());
    let mut made = Vec::new();
    made.try_reserve_exact(missing).map_err(|_| OutOfResources)?;
    made.resize_with(missing, Waiter::new);
    for waiter in made.leak() {
        cache.push(waiter);
    }
    Ok(())
}

/// A waiter, of those reserved.
#[inline]
pub(crate) fn acquire<P: Platform>(processor: &Processor<P>) -> &'static Waiter<P> {
    processor.waiters.pop().expect("waiters are reserved before they are acquired")
}

/// Gives back a waiter that stands in no queue.
#[inline]
pub(crate) fn release<P: Platform>(pinned: &Pinned<P>, waiter: &'static Waiter<P>) {
    let cache = &pinned.processor().waiters;
    cache.push(waiter);
    if cache.len() > LIMIT {
        spill(pinned, cache);
    }
}

#[cold]
fn spill<P: Platform>(pinned: &Pinned<P>, cache: &WaiterCache<P>) {
    cache.move_to(&pinned.machine().scheduler().waiters.lock(), cache.len() - LIMIT / 2);
}

impl<P: Platform> fmt::Debug for WaiterCache<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WaiterCache({})", self.len())
    }
}
