//! The background G, which gives back memory that caches keep: stacks of dead Gs, Ms that are not needed, and what else
//! the [platform's scavenger](Platform::scavenger) knows. Go: `bgscavenge`.
//!
//! The code that takes memory or puts it into a cache calls [`Scheduler::note_growth`], on its slow path. So does a P
//! that becomes idle while it keeps stacks of dead Gs, because the background G cannot release them while an M holds
//! the P. The first such call makes the background G due, a second later. When it is due, a P that would go idle runs
//! it. It is not in any queue, so it takes no time from other Gs: between two pieces of work it checks whether a P has
//! something else to do, and parks if so. A timer or a device displaces it like any other G.
//!
//! ```text
//!   nothing to do  -- note_growth -->  due in a second  -- the time comes, a P would go idle -->  runs
//!         ^                                   ^                                                  |  |
//!         |                                   +-- growth was noted meanwhile, or work is left --+  |
//!         +---------------------------------------- nothing is left ------------------------------+
//! ```
//!
//! While a P is idle, the timekeeper parks at most until the G is due. Code that notes growth does not wake the
//! timekeeper: the next M that goes idle does (`Scheduler::park_deadline`). So a machine that has nothing to give back
//! is not woken, and `note_growth` is callable from anywhere.
//!
//! The G has number 2 and the name `runtime.bgscavenge`. As in Go, it does not count as a G of the program:
//! [`num_goroutine`](Scheduler::num_goroutine) and the check for a deadlock ignore it.

use crate::base::atomic::{Ordering, fence};
use crate::base::instant::Instant;
use crate::base::points::Site;
use crate::engine::ready::make_runnable;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::entities::status::Status;
use crate::platform::{Pinned, Platform, Scavenged};
use crate::refinements::sampling;

/// Whether a background G that parks has left work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// There is nothing to give back. If growth was noted meanwhile, the G is due later.
    Nothing,
    /// The G is due at once.
    Work,
}

impl<Plat: Platform> Scheduler<Plat> {
    /// The work of the background G from when an M has taken it until it parks. Calls `scavenge` until nothing is left,
    /// or until there is other work. Returns what is left.
    pub(crate) fn scavenge(&'static self, scavenge: fn() -> Scavenged) -> Left {
        // From here on, growth makes the G due again.
        self.background.due.store(Instant::NEVER.as_nanos(), Ordering::Relaxed);
        while scavenge() == Scavenged::InPart {
            if self.is_work_visible() || self.is_stopping() {
                return Left::Work;
            }
        }
        Left::Nothing
    }

    /// The commit of the background G when it parks. Another M may take the G as soon as it counts as parked.
    pub(crate) fn background_parks(&'static self, left: Left) {
        if left == Left::Work {
            self.background.due.store(0, Ordering::Relaxed);
        }
        Plat::point(Site::Idle);
        // Ordering: Release publishes the saved context of the G, and the time above. Partner: the exchange in
        // `take_background`.
        self.background.is_parked.store(true, Ordering::Release);
        if left == Left::Work {
            // An M that went idle before did not see that the G is due.
            self.submitted();
        }
    }
}

/// The last step of the search in `pick`: the background G, if it is due. The M has found no other work, and would go idle
/// next.
///
/// The M may be spinning, and submitters may rely on its search. So it first stops spinning and checks all queues
/// again, as an M that goes idle does. If there is work, returns `None`, and `go_idle` finds that work.
#[cold]
pub(crate) fn take_background<Plat: Platform>(
    pinned: &Pinned<Plat>,
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
) -> Option<&'static Goroutine<Plat>> {
    let scheduler = machine.scheduler();
    if !scheduler.is_background_due() {
        return None;
    }
    machine.end_spinning();
    // Ordering: as step 2 of Idle in idle.md; partner: the fence in `submitted`.
    fence(Ordering::SeqCst);
    Plat::point(Site::Idle);
    if scheduler.is_work_visible() || scheduler.is_stopping() {
        return None;
    }
    // Ordering: Acquire; partner: the Release in `background_parks`.
    if !scheduler.background.is_parked.swap(false, Ordering::Acquire) {
        return None;
    }
    processor.advance_tick();
    let goroutine = scheduler.background.goroutine.load(Ordering::Acquire)?;
    if goroutine.status() != Status::Idle {
        return make_runnable(pinned, goroutine);
    }
    // The G runs for the first time. It is not counted as spawned.
    goroutine.set_status(Status::Runnable);
    sampling::spawned(machine, processor, goroutine);
    Some(goroutine)
}
