//! Waiting for each other.

use core::fmt;

use super::blocking::{Blocking, Roused};
use crate::base::spin_lock::Lock;
use crate::entities::goroutine::WaitReason;
use crate::library::waiter::WaitQueue;
use crate::platform::{Pinned, Platform};

/// Lets a number of Gs wait until all of them are there; and then again. 40 bytes; can be a `static`.
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
    /// How many stand in it.
    arrived: u32,
}

impl<P: Platform> Barrier<P> {
    constructor! {
        /// For `size` Gs; for one, or none, nobody ever waits.
        ///
        /// ```
        /// assert!(gmp_sched::native::Barrier::new(1).wait());
        /// ```
        #[must_use]
        pub fn new(size: u32) -> Self {
            Self { size, state: Lock::new(State { queue: WaitQueue::new(), arrived: 0 }) }
        }
    }

    /// Waits until all are there. `true` for one of them, the one that came last. Blocks the G; not callable from
    /// interrupts.
    ///
    /// ```
    /// assert!(gmp_sched::native::Barrier::new(1).wait());
    /// ```
    ///
    /// # Panics
    ///
    /// It has to wait, and the caller is not a G or has preemption turned off; it comes last, and one of those that wait is in
    /// a [bubble](crate::synctest) in which the caller is not.
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
        // The next round begins, before those of this one have left.
        state.arrived = 0;
        let roused = Roused::all_of(&state.queue);
        drop(state);
        roused.ready_durable(Pinned::new());
        true
    }
}

impl<P: Platform> fmt::Debug for Barrier<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("size", &self.size).finish_non_exhaustive()
    }
}
