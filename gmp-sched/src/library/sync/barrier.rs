//! Barriers.

use core::fmt;

use super::blocking::{Blocking, WakeList};
use crate::base::spin_lock::Lock;
use crate::base::under_loom::const_fn;
use crate::engine::hooks::before_wait;
use crate::entities::goroutine::WaitReason;
use crate::library::waiter::WaitQueue;
use crate::platform::{Pinned, Platform};

/// A barrier for a fixed number of Gs. Each G waits until all Gs have arrived; then the next round begins. The
/// barrier takes 40 bytes and can be a `static`.
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
///                 let result = ROUND.wait();
///                 assert_eq!(DONE.load(Ordering::Relaxed), 4);
///                 result.is_leader()
///             })
///         })
///         .collect();
///     let leaders = all.into_iter().map(|handle| handle.join().unwrap()).filter(|&is_leader| is_leader);
///     assert_eq!(leaders.count(), 1);
/// });
/// ```
pub struct Barrier<Plat: Platform> {
    size: u32,
    state: Lock<State<Plat>, Plat>,
}

struct State<Plat: Platform> {
    queue: WaitQueue<Plat>,
    /// Number of Gs that have arrived in this round and wait.
    arrived: u32,
}

impl<Plat: Platform> Barrier<Plat> {
    const_fn! {
        /// Makes a barrier for `size` Gs. If `size` is 0 or 1, no call waits.
        ///
        /// ```
        /// assert!(gmp_sched::native::Barrier::new(1).wait().is_leader());
        /// ```
        #[must_use]
        pub fn new(size: u32) -> Self {
            Self { size, state: Lock::new(State { queue: WaitQueue::new(), arrived: 0 }) }
        }
    }

    /// Waits until all Gs have arrived. The last one to arrive is the [leader](BarrierWaitResult::is_leader). May block
    /// the calling G; not callable from interrupts.
    ///
    /// ```
    /// assert!(gmp_sched::native::Barrier::new(1).wait().is_leader());
    /// ```
    ///
    /// # Panics
    ///
    /// - The barrier is for two or more Gs, and the caller is pinned or is not a G with a P.
    /// - The caller is the last to arrive, and it is outside of the [bubble](crate#features) of a waiter.
    #[track_caller]
    pub fn wait(&self) -> BarrierWaitResult {
        before_wait::<Plat>();
        if self.size <= 1 {
            return BarrierWaitResult { is_leader: true };
        }
        let blocking = Blocking::<Plat>::new(WaitReason::Barrier, None);
        let mut state = self.state.lock();
        state.arrived += 1;
        if state.arrived < self.size {
            blocking.wait(state, 0, |state, waiter| state.queue.push_back(waiter));
            return BarrierWaitResult { is_leader: false };
        }
        // The next round begins here, before the released Gs have run.
        state.arrived = 0;
        let to_wake = WakeList::all_of(&state.queue);
        drop(state);
        to_wake.ready_durable(Pinned::of_scheduler());
        BarrierWaitResult { is_leader: true }
    }
}

/// The result of [`Barrier::wait`], as in `std`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult {
    is_leader: bool,
}

impl BarrierWaitResult {
    /// Whether the caller was the last to arrive in this round. See [`Barrier`] for an example.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.is_leader
    }
}

impl<Plat: Platform> fmt::Debug for Barrier<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").field("size", &self.size).finish_non_exhaustive()
    }
}
