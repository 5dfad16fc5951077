//! The beginning of the background G. What it does is in [`refinements::background`](crate::refinements::background).

use crate::base::atomic::Ordering;
use crate::base::error::OutOfResources;
use crate::base::id::GoroutineId;
use crate::engine::park::park_with;
use crate::entities::current::CurrentGoroutine;
use crate::entities::goroutine::WaitReason;
use crate::entities::scheduler::Scheduler;
use crate::entities::status::Status;
use crate::lifecycle::free_slots;
use crate::lifecycle::start_scheduler::install_detached;
use crate::platform::{Pinned, Platform, Scavenged};
use crate::refinements::background::Left;

/// Makes the background G of a scheduler. The G first runs when there is memory to give back: see
/// [`background`](crate::refinements::background).
pub(crate) fn start_background<Plat: Platform>(
    scheduler: &'static Scheduler<Plat>,
    scavenge: fn() -> Scavenged,
) -> Result<(), OutOfResources> {
    let goroutine = free_slots::take_with_stack(scheduler, Plat::STACK_SIZE)?;
    goroutine.set_name(Some("runtime.bgscavenge"));
    let body = move || {
        loop {
            let left = scheduler.scavenge(scavenge);
            // The commit owns what it uses, because another M may run this G as soon as the G counts as parked.
            let commit = move |_: &Pinned<Plat>, _| {
                scheduler.background_parks(left);
                true
            };
            drop(park_with(CurrentGoroutine::new(), WaitReason::ScavengeWait, commit));
        }
    };
    install_detached(goroutine, GoroutineId::BACKGROUND, body);
    goroutine.set_status(Status::Idle);
    scheduler.background.goroutine.store(Some(goroutine), Ordering::Release);
    scheduler.background_parks(Left::Nothing);
    Ok(())
}
