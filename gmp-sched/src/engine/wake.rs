//! Waking an M for work that has been published: at most one M, and none while another one searches (*spins*). Go:
//! `wakep`, `startm`. [`idle`](crate::engine::idle) has the protocol and its proof.

use crate::base::atomic::{Ordering, fence};
use crate::base::points::Site;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::entities::shared::Shared;
use crate::platform::Platform;

/// What an M is woken for. Go: the argument `spinning` of `startm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Assignment {
    /// The M searches for work. The waker has already counted the M as spinning.
    Search,
    /// The M runs the work for which the P was assigned: Gs in the queue of the P or in the global queue, or the Gs of
    /// due timers.
    Run,
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Called by an M with a P after it has published work: a runnable G or a due timer. Wakes an M if a P is idle and
    /// no M is spinning, so that no work waits while a P is idle. Go: `wakep`, called by `ready` and `newproc`.
    #[inline(always)]
    pub(crate) fn submitted(&'static self) {
        // ANCHOR: submitted
        // Ordering: step 1 of Submit in idle.md; partner: the fence in `Machine::go_idle`.
        fence(Ordering::SeqCst);
        Plat::point(Site::Idle);
        if self.idle_processors.load(Ordering::Relaxed) != 0 && self.spinning.load(Ordering::Relaxed) == 0 {
            self.wake_processor();
        }
        // ANCHOR_END: submitted
    }

    /// Wakes an M to search for work, if a P is idle and no M is spinning. Go: `wakep`.
    #[doc(alias = "wakep")]
    #[cold]
    pub(crate) fn wake_processor(&'static self) {
        if self.begin_spinning() {
            self.pass_search_on();
        }
    }

    /// Like [`wake_processor`](Self::wake_processor), for a caller that holds the scheduler lock. Returns the M that is
    /// to search, if any, which the caller must unpark.
    pub(crate) fn assign_searcher(&self, shared: &mut Shared<Plat>) -> Option<&'static Machine<Plat>> {
        fence(Ordering::SeqCst);
        if !self.count_as_spinning() {
            return None;
        }
        let processor = self.take_idle_processor(shared).expect("the number of idle Ps is exact under the lock");
        Some(self.assign_to_idle(shared, processor, Assignment::Search))
    }

    /// Counts the caller as spinning if a P is idle and no M is spinning. Returns whether the caller was counted.
    fn begin_spinning(&self) -> bool {
        fence(Ordering::SeqCst);
        Plat::point(Site::Idle);
        self.count_as_spinning()
    }

    /// Does what [`begin_spinning`](Self::begin_spinning) does after its fence.
    fn count_as_spinning(&self) -> bool {
        self.idle_processors.load(Ordering::Relaxed) != 0
            && self.spinning.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// If a P is idle, wakes an M to search in place of the caller. The caller counts as spinning when it calls this
    /// function, and no longer when the function returns.
    pub(crate) fn pass_search_on(&'static self) {
        loop {
            let woken = {
                let mut shared = self.shared.lock();
                self.take_idle_processor(&mut shared)
                    .map(|processor| self.assign_to_idle(&mut shared, processor, Assignment::Search))
            };
            if let Some(machine) = woken {
                Plat::unpark_thread(machine);
                return;
            }
            Plat::point(Site::Idle);
            // ANCHOR: none_idle
            // No P is idle. The caller first stops counting as spinning, and then checks once more, because submitters
            // woke no M until now, and a P may have become idle.
            self.spinning.fetch_sub(1, Ordering::SeqCst);
            if !self.begin_spinning() {
                return;
            }
            // ANCHOR_END: none_idle
        }
    }

    /// Assigns `processor` to an idle M, which the caller unparks. Go: `startm`.
    #[doc(alias = "startm")]
    pub(crate) fn assign_to_idle(
        &self,
        shared: &mut Shared<Plat>,
        processor: &'static Processor<Plat>,
        assignment: Assignment,
    ) -> &'static Machine<Plat> {
        let machine = shared.idle_machines.pop_front().expect("a P without an M: there is one for every idle P");
        self.update_idle_machines(shared);
        machine.set_assigned(processor, assignment);
        machine
    }
}

impl<Plat: Platform> Machine<Plat> {
    /// Assigns `processor` to this M, which has just been taken off the idle list.
    pub(crate) fn set_assigned(&self, processor: &'static Processor<Plat>, assignment: Assignment) {
        // This store precedes the store that makes the P visible. In the opposite order, the M could take the P, search
        // and go idle before its spinning flag is stored, and the count of spinning Ms would never return to 0.
        self.spinning.store(assignment == Assignment::Search, Ordering::Relaxed);
        // Ordering: Release; partner: the Acquire in `take_assigned`, perhaps after a spurious wakeup.
        self.assigned_processor.store(Some(processor), Ordering::Release);
    }
}

/// Makes the M spin, if fewer Ms spin than half the number of busy Ps. More spinning Ms would only take CPUs from the Ms
/// that have work. Returns whether the M spins now, which it may have done before.
#[inline(always)]
pub(crate) fn try_start_spinning<Plat: Platform>(
    scheduler: &'static Scheduler<Plat>,
    machine: &'static Machine<Plat>,
    processor: &'static Processor<Plat>,
) -> bool {
    if machine.is_spinning() {
        return true;
    }
    let spinning = scheduler.spinning.load(Ordering::Relaxed) as usize;
    let idle = scheduler.idle_processors.load(Ordering::Relaxed) as usize;
    if 2 * spinning >= scheduler.procs() - idle.min(scheduler.procs()) {
        return false;
    }
    machine.begin_to_spin(processor);
    true
}

/// Ends the spinning of an M that has found work. If it was the last M to spin and a P is idle, another M begins to
/// spin, because there may be more work. Go: `resetspinning`.
#[doc(alias = "resetspinning")]
pub(crate) fn stop_spinning<Plat: Platform>(machine: &'static Machine<Plat>) {
    // ANCHOR: stop_spinning
    if machine.end_spinning() {
        machine.scheduler().wake_processor();
    }
    // ANCHOR_END: stop_spinning
}
