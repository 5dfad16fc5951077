//! Barriers.

use core::fmt;

use super::blocking::{Blocking, WakeList};
use crate::base::spin_lock::Lock;
use crate::entities::goroutine::WaitReason;
use crate::library::waiter::WaitQueue;
use crate::platform::{Pinned, Platform};

/// A barrier: each of a number of Gs waits until all have arrived; then the next round begins. 40 bytes; can be a `static`.
///
/// ```
/// use gmp_sched::native::{self, Barrier};
/// use std::sync::atomic::{AtomicU32, Ordering};
/// static ROUND: Barrier = Barrier::new(4);
/// static DONE: AtomicU32 = AtomicU32::new(0);
///
/// unsafe { native::enter() }.run(2, || {
///     let all: Vec<_> = (0..4)
///         .map(|_| {
///             native::go(|| {
///                 DONE.fetch_add(1, Ordering::Relaxed);
///                 let leads = ROUND.wait();
///                 assert_eq!(DONE.load(Ordering::Relaxed), 4);
///                 leads
///             })
///         })
///         .collect();
///     let leaders = all.into_iter().map(|handle| handle.join().unwrap()).filter(|&leads| leads);
///     assert_eq!(leaders.count(), 1);
/// });
/// ```
pub struct Barrier<P: Platform> {
    size: u32,
    state: Lock<State<P>, P>,
}

struct State<P: Platform> {
    queue: WaitQueue<P>,
    /// Number of Gs that have arrived in this round and wait.
    arrived: u32,
}

impl<P: Platform> Barrier<P> {
    constructor! {
        /// A barrier for `size` Gs. With 0 or 1, no call waits.
        ///
        /// ```
        /// assert!(gmp_sched::native::Barrier::new(1).wait());
        /// ```
        #[must_use]
        pub fn new(size: u32) -> Self {
            Self { size, state: Lock::new(State { queue: WaitQueue::new(), arrived: 0 }) }
        }
    }

    /// Waits until all have arrived. Returns `true` in the last one to arrive and `false` in the others. Blocks the G; not
    /// callable from interrupts.
    ///
    /// ```
    /// assert!(gmp_sched::native::Barrier::new(1).wait());
    /// ```
    ///
    /// # Panics
    ///
    /// The call has to wait, and the caller is not a G or has preemption turned off. The caller is the last to arrive, and a
    /// waiter is in a [bubble](crate::synctest) and the caller is not in it.
    #[track_caller]
    pub fn wait(&self) -> bool {
        if self.size <= 1 {
            return true;
        }
        let blocking = Blocking::<P>::new(WaitReason::Barrier, None);
        let mut state = self.state.lock();
        state.arrived += 1;
        if state.arrived < self.size {
            blocking.wait(state, 0, |state, waiter| state.queue.push_back(waiter));
            return false;
        }
        // The next round begins before the Gs of this one have run.
        state.arrived = 0;
        let to_wake = WakeList::all_of(&state.queue);
        drop(state);
        to_wake.ready_durable(Pinned::new());
        true
    }
}

impl<P: Platform> fmt::Debug for Barrier<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("size", &self.size).finish_non_exhaustive()
    }
}
