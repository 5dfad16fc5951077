//! The points at which a simulator or a model may switch to another M, and what a loop does that waits for a lock.

use core::marker::PhantomData;

/// A step of a protocol, before which another M or CPU may act. [`Points::point`] is called before each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// Local ring and `runnext`: before a publish, a claim, a look.
    RunQueue,
    /// The spinner count, the idle count, the idle lists.
    Idle,
    /// A failed attempt at a lock.
    LockBusy,
    /// A park token.
    Park,
    /// The status word of a P in a system call.
    Syscall,
    /// The timers of a P or their `earliest`.
    Timers,
    /// A signal of a device, or the list of those that were raised.
    DeviceSignal,
    /// The completion word between a G and its join handle.
    Join,
    /// A CPU's ready list or idle bit.
    ReadyList,
    /// A channel, with or without its lock.
    Channel,
    /// The word that decides who ends a wait to which several have a claim.
    Wait,
    /// The word of something that Gs wait for: a lock, a counter.
    Sync,
}

/// Where a simulator gets its say, and what a loop does that waits for another processor.
pub trait Points: 'static {
    /// Stands before the shared-memory steps of the protocols. Called with or without preemption; must not block.
    #[inline(always)]
    fn point(site: Site) {
        let _ = site;
    }

    /// Called before a spinlock of the scheduler is taken. A platform that knows it may panic if the caller can be preempted:
    /// a spinning waiter on the CPU of a preempted lock holder waits for ever.
    #[inline(always)]
    #[track_caller]
    fn assert_not_preemptible() {}

    /// One turn of a loop that waits for another M or CPU to release a lock. Callable from anywhere.
    #[inline]
    fn relax() {
        core::hint::spin_loop();
    }
}

/// What a spinlock of this crate does between two attempts.
#[derive(Debug)]
pub struct Relax<P>(PhantomData<P>);

impl<P: Points> spin::RelaxStrategy for Relax<P> {
    fn relax() {
        P::point(Site::LockBusy);
        P::relax();
    }
}
