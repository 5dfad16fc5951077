//! The points at which a simulator or a model may switch to another M, and what a spin loop does.

use core::marker::PhantomData;

/// A kind of step in a protocol. [`Points::point`] is called before each such step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// Local ring and `runnext`: before storing, claiming or reading an element.
    RunQueue,
    /// The spinner count, the idle count, the idle lists.
    Idle,
    /// A failed attempt to take a lock.
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
    /// The wait generation of a G whose wait has several wakers.
    Wait,
    /// The state of a lock, counter or the like for which Gs wait.
    Sync,
}

/// The hooks of simulators and models, and what a spin loop does.
pub trait Points: 'static {
    /// Called before each shared-memory step of a protocol, with or without preemption. Must not block.
    #[inline(always)]
    fn point(site: Site) {
        let _ = site;
    }

    /// Called before a spinlock of the scheduler is taken. Panics, where the platform can tell, if the caller can be
    /// preempted: if a lock's holder is preempted, a waiter that spins on the same CPU waits for ever.
    #[inline(always)]
    #[track_caller]
    fn assert_not_preemptible() {}

    /// Called in each iteration of a loop that waits for another M or CPU. Callable from anywhere.
    #[inline]
    fn relax() {
        core::hint::spin_loop();
    }
}

/// The relax strategy of the crate's spinlocks.
#[derive(Debug)]
pub struct Relax<P>(PhantomData<P>);

impl<P: Points> spin::RelaxStrategy for Relax<P> {
    fn relax() {
        P::point(Site::LockBusy);
        P::relax();
    }
}
