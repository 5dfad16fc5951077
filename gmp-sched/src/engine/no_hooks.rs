//! Replaces `hooks.rs` if the feature `refinements` is off: nothing is attached to the textbook.

use crate::base::error::OutOfResources;
use crate::engine::current::CurrentGoroutine;
use crate::engine::windows::At;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::entities::shared::Shared;
use crate::platform::{Pinned, Platform};
use crate::record::trace::PreemptReason;

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
pub(crate) fn start_elsewhere<Plat: Platform>(_: &'static Machine<Plat>, _: &'static Goroutine<Plat>) -> bool {
    false
}

#[inline(always)]
pub(crate) fn ready_elsewhere<Plat: Platform>(_: Option<&'static Machine<Plat>>, _: &'static Goroutine<Plat>) -> bool {
    false
}

#[inline(always)]
pub(crate) fn stay_on<Plat: Platform>(_: &'static Machine<Plat>) -> Result<(), OutOfResources> {
    Err(OutOfResources)
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
pub(crate) fn displace_locked<Plat: Platform>(caller: CurrentGoroutine<Plat>, _: PreemptReason) -> Pinned<Plat> {
    caller.pinned
}

#[inline(always)]
pub(crate) fn leave_stopped<Plat: Platform>(_: &Processor<Plat>) -> bool {
    false
}

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

#[inline(always)]
pub(crate) fn panicked<Plat: Platform>(_: At) {}

#[cfg(all(test, feature = "std"))]
pub(crate) fn reach(_: At, _: bool) {}
