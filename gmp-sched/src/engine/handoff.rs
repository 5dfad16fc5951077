//! Handoff: the P of an M that is blocked in a system call goes to another M.
//!
//! Before an M blocks, or before sysmon takes the P of an M that is in a system call, [`Scheduler::secure_successor`]
//! makes sure that the other Ms are enough for all Ps. So waking an M never requires making one.

use crate::base::error::OutOfResources;
use crate::base::instant::Instant;
use crate::base::points::Site;
use crate::engine::hooks;
use crate::engine::wake::Assignment;
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::Scheduler;
use crate::platform::{Pinned, Platform};

impl<Plat: Platform> Scheduler<Plat> {
    /// Makes sure that there are enough Ms for all Ps even if one more M blocks, and counts one M as blocked. Creates
    /// an M if necessary. While it creates one, the caller is not pinned, unless it holds another pin. So when this
    /// returns, a calling G may be on another M, or hold another P.
    pub(crate) fn secure_successor(&'static self, pinned: Pinned<Plat>) -> Result<Pinned<Plat>, OutOfResources> {
        let mut pinned = pinned;
        while !self.count_successor() {
            drop(pinned);
            self.add_machine()?;
            pinned = Pinned::of_scheduler();
        }
        Ok(pinned)
    }

    /// If the other Ms are enough for all Ps even if one more M blocks, counts one M as blocked, and returns `true`.
    fn count_successor(&self) -> bool {
        let mut shared = self.shared.lock();
        let is_secured = shared.has_surplus();
        if is_secured {
            shared.blocked_machines += 1;
            // If a surplus remains, the argument `NEVER` keeps the time at which it began.
            shared.update_surplus(Instant::NEVER);
        }
        is_secured
    }

    /// Like [`secure_successor`](Self::secure_successor), for a caller that is not the M that blocks. Returns whether an
    /// M was counted. If an M has to be made first and the caller's thread must not make it, that has been requested.
    fn secure_from_outside(&'static self) -> bool {
        self.count_successor() || !Plat::request_machine(self) && self.secure_successor(Pinned::of_scheduler()).is_ok()
    }

    /// Takes the P of an M that is in a system call, and hands the P off. Returns whether it took the P. Go: the part
    /// of `retake` that deals with system calls.
    pub(crate) fn retake(&'static self, processor: &'static Processor<Plat>) -> bool {
        // ANCHOR: retake
        // The M is counted as blocked before the claim, because it may return from its call right after the claim and
        // lower the count.
        if !self.secure_from_outside() {
            return false;
        }
        Plat::point(Site::Syscall);
        if !processor.claim_to_hand_off() {
            self.shared.lock().blocked_machines -= 1;
            return false;
        }
        self.hand_off(processor);
        true
        // ANCHOR_END: retake
    }

    /// Takes over a P whose M is blocked or waits for its locked G. Stops the P if the world is to stop. Otherwise
    /// assigns the P to another M if there is work on its own queue, among its timers or on the global queue. If not,
    /// puts the P on the idle list, and wakes an M if there is work anywhere (see `is_work_visible`). Go: `handoffp`.
    #[doc(alias = "handoffp")]
    pub(crate) fn hand_off(&'static self, processor: &'static Processor<Plat>) {
        processor.status.set(ProcessorStatus::Running);
        let has_work = processor.has_work();
        Plat::point_before_lock(Site::Idle);
        let mut shared = self.shared.lock();
        if self.is_stopping() {
            hooks::stop_processor(self, &mut shared, processor);
            return;
        }
        // ANCHOR: hand_off
        if has_work || shared.has_work() {
            let machine = self.assign_to_idle(&mut shared, processor, Assignment::Run);
            drop(shared);
            Plat::unpark_thread(machine);
            return;
        }
        self.put_idle_processor(&mut shared, processor);
        drop(shared);
        Plat::point(Site::Idle);
        // Ordering: on threads, `earliest_timekeeper_timer` may miss a timer that is being set at the same time. But the
        // code that sets it wakes the timekeeper, too, which takes the lock (in `check_dead`) and sees that this P is idle.
        self.wake_timekeeper(self.earliest_timekeeper_timer());
        // Steps 2 and 3 of Idle in idle.md. The fence is in `wake_timekeeper`.
        if self.is_work_visible() {
            self.wake_processor();
        }
        // ANCHOR_END: hand_off
    }
}
