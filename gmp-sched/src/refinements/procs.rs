//! Changing the number of Ps while the program runs. Go: `runtime.GOMAXPROCS(n)`, `procresize`.
//!
//! All Ps up to the limit are created together with the scheduler, so reading them needs no lock. A P whose index is
//! `procs` or higher is dead, holds nothing and is skipped. `procs` is changed while the world is stopped. A P that is
//! taken out of use passes on what it has. Its Gs go to the head of the global queue, in their order, its timers go to
//! a P that stays in use, and its dead Gs go to the shared free lists. Its counters stay, and are part of the totals.
//!
//! More Ps may need more Ms. These are created first, while an error can still be returned.

use core::{fmt, iter};

use crate::base::error::OutOfResources;
use crate::entities::current::CurrentGoroutine;
use crate::entities::free_stacks;
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::Scheduler;
use crate::entities::shared::Shared;
use crate::platform::{Pinned, Platform};
use crate::record::trace::EventKind;
use crate::refinements::stop_the_world::{StopReason, StopRight, WorldStopped};

/// Why the number of Ps was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcsError {
    /// The number is 0 or more than `limit`: see [`Scheduler::procs_limit`].
    OutOfRange {
        /// The highest number allowed.
        limit: usize,
    },
    /// Another M is needed, but there is no memory or no thread for that M. Or there is no memory for a P's track of a
    /// trace that is being taken.
    OutOfResources,
}

impl From<OutOfResources> for ProcsError {
    fn from(_: OutOfResources) -> Self {
        Self::OutOfResources
    }
}

impl fmt::Display for ProcsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { limit } => write!(f, "the number of Ps must be 1 to {limit}"),
            Self::OutOfResources => OutOfResources.fmt(f),
        }
    }
}

impl core::error::Error for ProcsError {}

/// Sets the number of Ps, which is how many Gs may run at once. Returns the previous number. Go:
/// `runtime.GOMAXPROCS(n)`.
///
/// Stops the world, unless the number stays the same. Blocks as
/// [`stop_the_world`](crate::refinements::stop_the_world::stop_the_world) does. Not callable from interrupts. There may
/// be more Ps than CPUs, or fewer.
///
/// # Errors
///
/// `procs` is 0 or above the limit chosen when the scheduler was created, or an M for a P cannot be created. Or a trace
/// is being taken, and there is no memory for the track of a P. In these cases the number of Ps stays the same.
///
/// # Panics
///
/// The caller is pinned or is not a G with a P.
#[doc(alias("GOMAXPROCS", "procresize"))]
#[track_caller]
pub fn set_procs<Plat: Platform>(procs: usize) -> Result<usize, ProcsError> {
    let scheduler = CurrentGoroutine::<Plat>::new().machine.scheduler();
    let limit = scheduler.procs_limit();
    if !(1..=limit).contains(&procs) {
        return Err(ProcsError::OutOfRange { limit });
    }
    let right = StopRight::<Plat>::wait();
    let old = scheduler.procs();
    if procs == old {
        return Ok(old);
    }
    if let Err(error) = scheduler.trace_also(procs).and_then(|()| scheduler.secure_machines(old.max(procs))) {
        scheduler.want_machines(old);
        return Err(error.into());
    }
    right.stop(StopReason::Procs).resize(procs);
    Ok(old)
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Creates Ms until the Ms that are not blocked are enough for `wanted` Ps.
    fn secure_machines(&'static self, wanted: usize) -> Result<(), OutOfResources> {
        self.want_machines(wanted);
        while self.lacks_machines() {
            self.add_machine()?;
        }
        Ok(())
    }

    fn want_machines(&self, wanted: usize) {
        let _pinned = Pinned::<Plat>::of_scheduler();
        self.shared.lock().machines_wanted = wanted;
    }

    fn lacks_machines(&self) -> bool {
        let _pinned = Pinned::<Plat>::of_scheduler();
        let shared = self.shared.lock();
        ((shared.machines - shared.blocked_machines) as usize) < shared.machines_wanted
    }
}

impl<Plat: Platform> WorldStopped<Plat> {
    /// Changes the number of Ps. Go: `procresize`.
    #[doc(alias = "procresize")]
    fn resize(&self, procs: usize) {
        let scheduler = self.pinned.machine().scheduler();
        let (staying, leaving) = scheduler.processors().split_at(procs.min(scheduler.procs()));
        let successor = self.find_successor(staying);
        self.move_to(successor);
        let mut shared = scheduler.shared.lock();
        for processor in leaving {
            scheduler.destroy_processor(&mut shared, processor, successor);
        }
        for processor in scheduler.processors_ever().iter().take(procs).skip(scheduler.procs()) {
            processor.status.set(ProcessorStatus::Stopped);
        }
        scheduler.set_procs(procs);
        scheduler.update_alone();
        shared.machines_wanted = procs;
        drop(shared);
        successor.check_when_due(&self.pinned);
    }

    /// Returns the P that the caller holds after the change, and that takes over the timers of the Ps taken out of use.
    /// This is the caller's own P if that P stays in use, otherwise the first P.
    fn find_successor(&self, staying: &'static [Processor<Plat>]) -> &'static Processor<Plat> {
        let own = self.pinned.processor();
        if staying.iter().any(|processor| core::ptr::eq(processor, own)) { own } else { &staying[0] }
    }

    /// Makes the caller the holder of `successor`. If the caller holds another P, that P is stopped.
    fn move_to(&self, successor: &'static Processor<Plat>) {
        let machine = self.pinned.machine();
        let own = self.pinned.processor();
        if core::ptr::eq(own, successor) {
            return;
        }
        let mut shared = machine.scheduler().shared.lock();
        own.status.set(ProcessorStatus::Stopped);
        shared.forget_caller(successor);
        successor.status.set(ProcessorStatus::Running);
        machine.hold(successor);
    }
}

impl<Plat: Platform> Shared<Plat> {
    /// If the M that last held `processor` is in a system call, that M will not get this P back. From now on the M
    /// counts as blocked, like an M whose P was handed off.
    fn forget_caller(&mut self, processor: &'static Processor<Plat>) {
        if processor.status() == ProcessorStatus::StoppedInSyscall {
            self.blocked_machines += 1;
            processor.tracer.note::<Plat>(EventKind::Retake, None, 0);
        }
    }
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Takes `processor`, which is stopped, out of use. Go: `p.destroy`.
    #[doc(alias = "destroy")]
    pub(crate) fn destroy_processor(
        &'static self,
        shared: &mut Shared<Plat>,
        processor: &'static Processor<Plat>,
        successor: &'static Processor<Plat>,
    ) {
        shared.forget_caller(processor);
        processor.status.set(ProcessorStatus::Dead);
        let ranked = iter::from_fn(|| processor.ranked.pop());
        let urgent = iter::from_fn(|| processor.urgent.pop_front());
        let runnable =
            ranked.chain(urgent).chain(iter::from_fn(|| processor.queue.pop(true).map(|(goroutine, _)| goroutine)));
        self.put_global_first(shared, runnable);
        // The world is stopped, so no M holds the P, and this M may write on its track.
        processor.tracer.note::<Plat>(EventKind::Retire, None, 0);
        successor.timers.adopt(&processor.timers);
        free_stacks::spill(self, processor);
    }
}
