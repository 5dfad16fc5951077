//! Replaces `engine/hooks.rs` if the feature `refinements` is off: nothing is attached to the textbook.

use core::marker::PhantomData;

#[cfg(feature = "std")]
use crate::base::error::OutOfResources;
use crate::base::instant::Instant;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::entities::shared::Shared;
use crate::entities::window::At;
use crate::platform::{Pinned, Platform};
use crate::policy::{Cause, Policy};

pub(crate) fn next_by_policy<Plat: Platform>(
    _: &Pinned<Plat>,
    _: &'static Machine<Plat>,
    _: &'static Processor<Plat>,
    _: &'static dyn Policy,
    _: bool,
) -> Option<&'static Goroutine<Plat>> {
    None
}

#[inline(always)]
pub(crate) fn before_wait<Plat: Platform>() {}

#[inline(always)]
pub(crate) fn pin_before_wait<Plat: Platform>() -> Pinned<Plat> {
    Pinned::of_scheduler()
}

#[inline(always)]
pub(crate) fn begin_next_slice<Plat: Platform>(_: &Pinned<Plat>, _: &'static Processor<Plat>) {}

#[inline(always)]
pub(crate) fn end_inherited_slice<Plat: Platform>(_: &Pinned<Plat>, _: &'static Processor<Plat>) {}

pub(crate) fn steal_for_lone_yield<Plat: Platform>(_: &Pinned<Plat>, _: &'static Processor<Plat>) -> bool {
    false
}

pub(crate) fn place_queued<Plat: Platform>(_: &'static Machine<Plat>, _: &'static Processor<Plat>, _: Cause) {}

#[inline(always)]
pub(crate) fn place_displaced<Plat: Platform>(_: &Pinned<Plat>, _: &'static Goroutine<Plat>) -> bool {
    false
}

pub(crate) fn displace_by_policy<Plat: Platform>(caller: CurrentGoroutine<Plat>) -> Pinned<Plat> {
    caller.pinned
}

#[cfg(feature = "std")]
pub(crate) fn give_way_in_place<Plat: Platform>(_: &Pinned<Plat>, _: u32) {}

#[cfg(feature = "std")]
pub(crate) fn has_preempted<Plat: Platform>(_: &Scheduler<Plat>) -> bool {
    false
}

#[cfg(feature = "std")]
pub(crate) fn make_spare_machine<Plat: Platform>(_: &'static Scheduler<Plat>) {}

#[inline(always)]
pub(crate) fn take_background<Plat: Platform>(
    _: &Pinned<Plat>,
    _: &'static Machine<Plat>,
    _: &'static Processor<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    None
}

#[inline(always)]
pub(crate) fn wait_for_locked<Plat: Platform>(
    _: &Pinned<Plat>,
    _: &'static Machine<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    None
}

#[inline(always)]
pub(crate) fn lets_next_run_first<Plat: Platform>(_: &Processor<Plat>, _: &Shared<Plat>) -> bool {
    false
}

#[inline(always)]
pub(crate) fn start_elsewhere<Plat: Platform>(_: &'static Machine<Plat>, _: &'static Goroutine<Plat>) -> bool {
    false
}

#[inline(always)]
pub(crate) fn ready_elsewhere<Plat: Platform>(_: Option<&'static Machine<Plat>>, _: &'static Goroutine<Plat>) -> bool {
    false
}

pub(crate) fn stay_on<Plat: Platform>(machine: &'static Machine<Plat>) {
    let why = "a section that forbids waits is open at the end of a system call; that needs the feature `refinements`";
    Plat::fatal(machine.scheduler(), format_args!("{why}"));
}

#[cfg(feature = "std")]
pub(crate) fn stay_to_unwind<Plat: Platform>(_: &'static Machine<Plat>) -> Result<(), OutOfResources> {
    Err(OutOfResources)
}

#[cfg(feature = "std")]
pub(crate) fn unlock_after_unwinding<Plat: Platform>(_: &'static Machine<Plat>) {}

#[inline(always)]
pub(crate) fn unlock<Plat: Platform>(_: &'static Machine<Plat>) {}

#[inline(always)]
pub(crate) fn stop_for_world<Plat: Platform>(_: &'static Machine<Plat>) {}

#[inline(always)]
pub(crate) fn stop_processor<Plat: Platform>(_: &Scheduler<Plat>, _: &mut Shared<Plat>, _: &'static Processor<Plat>) {}

#[inline(always)]
pub(crate) fn give_way_to_stop<Plat: Platform>(caller: CurrentGoroutine<Plat>) -> Pinned<Plat> {
    caller.pinned
}

#[inline(always)]
pub(crate) fn displace_locked<Plat: Platform>(caller: CurrentGoroutine<Plat>) -> Pinned<Plat> {
    caller.pinned
}

#[inline(always)]
pub(crate) fn leave_stopped<Plat: Platform>(_: &Processor<Plat>) -> bool {
    false
}

pub(crate) fn end_of_idleness<Plat: Platform>(_: &Machine<Plat>) -> Option<Instant> {
    None
}

pub(crate) fn retire_if_unneeded<Plat: Platform>(_: &'static Machine<Plat>, _: Option<Instant>) -> Option<Instant> {
    None
}

pub(crate) fn note_surplus<Plat: Platform>(_: &Scheduler<Plat>, _: &Shared<Plat>) {}

#[inline(always)]
pub(crate) fn reuse_stack<Plat: Platform>(_: &Processor<Plat>, _: &Goroutine<Plat>) {}

#[inline(always)]
pub(crate) fn pass_stack_on<Plat: Platform>(_: &Goroutine<Plat>, _: &Goroutine<Plat>) {}

#[inline(always)]
pub(crate) fn poison<Plat: Platform>(_: &Goroutine<Plat>) {}

#[inline(always)]
pub(crate) fn check_poison<Plat: Platform>(_: &Goroutine<Plat>) {}

#[inline(always)]
pub(crate) fn spawned<Plat: Platform>(
    _: &'static Machine<Plat>,
    _: &'static Processor<Plat>,
    _: &'static Goroutine<Plat>,
) {
}

#[inline(always)]
pub(crate) fn spawned_outside<Plat: Platform>(_: Option<&'static Machine<Plat>>, _: &'static Goroutine<Plat>) {}

#[inline(always)]
pub(crate) fn readied<Plat: Platform>(_: Option<&'static Machine<Plat>>, _: &'static Goroutine<Plat>) {}

#[inline(always)]
pub(crate) fn runnable_again<Plat: Platform>(_: &Processor<Plat>, _: &Goroutine<Plat>) {}

#[inline(always)]
pub(crate) fn returned<Plat: Platform>(_: &'static Machine<Plat>, _: &'static Goroutine<Plat>) {}

pub(crate) struct Window<Plat>(PhantomData<Plat>);

impl<Plat: Platform> Window<Plat> {
    #[inline(always)]
    pub(crate) fn open(_: At) -> Self {
        Self(PhantomData)
    }

    #[inline(always)]
    pub(crate) fn close(self) {}
}
