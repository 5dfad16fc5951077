//! The points at which a simulator or a model may switch to another M, and the function that a spin loop calls in each
//! iteration.

use core::marker::PhantomData;

/// A kind of step in a protocol. [`Points::point`] is called before each such step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// An access to the local ring, `runnext` or the urgent queue: storing, claiming or reading an element.
    RunQueue,
    /// An access to the number of spinning Ms, the number of idle Ps or the idle lists.
    Idle,
    /// A repeated attempt to take a lock, after an attempt has failed.
    LockBusy,
    /// An access to a park token.
    Park,
    /// An access to the status word of a P in a system call.
    Syscall,
    /// An access to the timers of a P or to the published time of the earliest of them.
    Timers,
    /// An access to a device signal or to the list of raised signals.
    DeviceSignal,
    /// An access to the completion word, which a G shares with its join handle.
    Join,
    /// An access to a CPU's ready list or idle bit.
    ReadyList,
    /// An access to a channel, with or without its lock.
    Channel,
    /// An access to the wait generation of a G whose wait has several wakers.
    Wait,
    /// A load of the number of Ps in use, by a caller during whose call the number may change.
    Procs,
    /// An access to the state of a lock, counter or similar object for which Gs wait.
    Sync,
}

/// The hooks of simulators and models, and the function that a spin loop calls in each iteration.
pub trait Points: 'static {
    /// Called before each shared-memory step of a protocol, whether the caller can be preempted or not. Must not block.
    #[inline(always)]
    fn point(site: Site) {
        let _ = site;
    }

    /// A [`point`](Self::point) at which the caller takes a spinlock of the scheduler next, without another access to
    /// shared memory in between.
    #[inline(always)]
    fn point_before_lock(site: Site) {
        Self::point(site);
    }

    /// Returns how many times to repeat a check that is usually made `usual` times; at least 1. Called only if a check
    /// that fails changes nothing that other Ms or later checks can see.
    #[inline(always)]
    fn repetitions(usual: u32) -> u32 {
        usual
    }

    /// Called before a spinlock of the scheduler is taken. Panics if the caller can be preempted and the platform can
    /// detect that. (If the holder of a spinlock were preempted, a waiter that spins on the same CPU would wait for
    /// ever.)
    #[inline(always)]
    #[track_caller]
    fn assert_not_preemptible() {}

    /// Called in each iteration of a loop that waits for another M or CPU. Callable from anywhere.
    #[inline]
    fn relax() {
        core::hint::spin_loop();
    }
}

/// The *relax strategy* of the crate's spinlocks, as the crate `spin` calls it: what a waiting thread does between its
/// attempts to take the lock.
#[derive(Debug)]
pub struct Relax<Plat>(PhantomData<Plat>);

impl<Plat: Points> spin::RelaxStrategy for Relax<Plat> {
    fn relax() {
        Plat::point(Site::LockBusy);
        Plat::relax();
    }
}
