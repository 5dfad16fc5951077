//! Counters of what a P has done. They cost so little that they are always on.

use core::ops::AddAssign;

use crate::base::atomic::{AtomicU64, Ordering};

/// A counter with one writer, the M that holds the P, and any number of readers. An increment takes one plain
/// instruction.
#[derive(Debug)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline(always)]
    pub(crate) fn add(&self, amount: u64) {
        // A load and a store instead of an atomic read-modify-write are enough, because there is only one writer.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one P.
        #[derive(Debug)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        /// What a P, or all Ps together, have done so far.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            pub(crate) fn new() -> Self {
                Self { $($name: Counter::new(),)* }
            }

            /// Sets all counters to 0.
            #[cfg(any(feature = "std", test))]
            pub(crate) fn clear(&self) {
                $(self.$name.0.store(0, Ordering::Relaxed);)*
            }

            /// Takes a snapshot. The counters are read one after the other, so the values may be from different
            /// moments.
            pub(crate) fn read(&self) -> Counts {
                Counts { $($name: self.$name.get(),)* }
            }
        }

        impl AddAssign for Counts {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Gs spawned.
    spawned,
    /// Gs finished.
    finished,
    /// Gs that ended without unwinding their stacks. These stacks are never reused.
    abandoned,
    /// The number of times that a G parked. The direct switches between the Gs of a coroutine do not count.
    parks,
    /// The number of times that an M with a P readied a G.
    readies,
    /// The number of times that a G yielded, even if no other G ran first.
    yields,
    /// The number of times that a G was preempted because its slice was over. On platforms without timer interrupts, if
    /// the running G leaves when the slice is over, the G in `runnext`, which would have shared the slice, counts as
    /// preempted.
    preemptions,
    /// The number of times that a G was preempted for a G whose timer was due, whose device was ready, or that returned
    /// from a blocking call.
    displacements,
    /// Steals that found Gs.
    steals,
    /// Searches of all other Ps, in four rounds or, with a [policy](crate::policy), in one, that found nothing to
    /// steal.
    steal_misses,
    /// The number of times that a waiting M took over a P that was assigned to it.
    wakes,
    /// The number of times that a P was handed off because its G entered a blocking call.
    handoffs,
    /// The number of times that sysmon retook a P from an M in a system call and handed the P off.
    retakes,
    /// The number of times that the ring of a P was full, so that half of the ring was moved to the global queue.
    overflows,
    /// Gs taken from the global queue, and locked Gs taken when that queue was checked.
    global_takes,
}
