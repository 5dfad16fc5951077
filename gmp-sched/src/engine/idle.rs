#![doc = include_str!("idle.md")]

use crate::base::atomic::{Ordering, fence};
use crate::base::points::Site;
use crate::engine::hooks;
use crate::entities::machine::{EndedMachine, Machine};
use crate::entities::processor::Processor;
use crate::entities::scheduler::Scheduler;
use crate::entities::shared::Shared;
use crate::platform::{Parking, Pinned, Platform};

impl<Plat: Platform> Scheduler<Plat> {
    /// Puts an M that holds no P on the idle list. The M that has been idle longest is woken last. Go: `mput`.
    #[doc(alias = "mput")]
    pub(crate) fn put_idle_machine(&self, shared: &mut Shared<Plat>, machine: &'static Machine<Plat>) {
        shared.idle_machines.push_front(machine);
        self.update_idle_machines(shared);
    }

    /// Publishes the two ends of the idle list, after a change of the list: the M that went idle last is the poller,
    /// and the M that has been idle longest is the timekeeper. Returns the timekeeper if it is another one than before.
    pub(crate) fn update_idle_machines(&self, shared: &Shared<Plat>) -> Option<&'static Machine<Plat>> {
        // Ordering: Release; partner: the Acquire in `wake_poller`.
        self.poller.store(shared.idle_machines.front(), Ordering::Release);
        let (old, new) = (self.timekeeper.load(Ordering::Relaxed), shared.idle_machines.back());
        if old.map(core::ptr::from_ref) == new.map(core::ptr::from_ref) {
            return None;
        }
        self.set_timekeeper(new);
        new
    }

    /// Whether there is work anywhere: a G in the global queue or in the queue of any P, a ready device, or a due
    /// timer. Go: `checkRunqsNoP`, `checkTimersNoP`.
    #[doc(alias = "checkRunqsNoP")]
    pub(crate) fn is_work_visible(&'static self) -> bool {
        self.signals.is_ready() || self.is_queued_work_visible()
    }

    /// Like [`is_work_visible`](Self::is_work_visible), but does not check for ready devices.
    fn is_queued_work_visible(&'static self) -> bool {
        self.global_length.load(Ordering::Relaxed) != 0
            || self.processors().iter().any(Processor::has_queued)
            || self.is_timer_due()
    }
}

impl<Plat: Platform> Machine<Plat> {
    /// Makes this M idle until it holds a P again (Idle in idle.md). If the global queue has work, or if the world is
    /// to stop, this M keeps its P and continues at once. Go: `findRunnable` from `releasep` on, `stopm`.
    #[doc(alias = "stopm")]
    pub(crate) fn go_idle(&'static self, pinned: &Pinned<Plat>) {
        let scheduler = self.scheduler();
        Plat::point_before_lock(Site::Idle);
        let left = self.processor();
        // ANCHOR: go_idle
        {
            let mut shared = scheduler.shared.lock();
            if shared.has_work() || scheduler.is_stopping() {
                return;
            }
            if let Some(processor) = left {
                self.leave_idle(processor);
                scheduler.put_idle_processor(&mut shared, processor);
            }
            scheduler.put_idle_machine(&mut shared, self);
            // The M stops spinning in the same critical section, so that an M that enqueues on the global queue
            // afterwards sees that this M no longer spins.
            self.end_spinning();
        }
        // Ordering: step 2 of Idle in idle.md; partner: the fence in `submitted`.
        fence(Ordering::SeqCst);
        // ANCHOR_END: go_idle
        self.wait_for_processor(pinned);
        if let (Some(left), Some(processor)) = (left, self.processor())
            && !core::ptr::eq(left, processor)
        {
            // This M was assigned `processor` perhaps before it read the timers of `left`, which only the timekeeper
            // fires while `left` is idle.
            scheduler.wake_timekeeper(scheduler.earliest_timekeeper_timer());
        }
    }

    /// Called by an M on the idle list: checks all queues a second time, and takes an idle P if there is work.
    /// Otherwise parks until a P is assigned to the M. If the M is to end, ends its thread and does not return.
    pub(crate) fn wait_for_processor(&'static self, pinned: &Pinned<Plat>) {
        let scheduler = self.scheduler();
        // Other Ms may have relied on the search of this M. So it must check the queues even if it is assigned a P
        // first.
        let mut must_recheck = true;
        let mut ends_at = hooks::end_of_idleness(self);
        loop {
            Plat::point(Site::Idle);
            if self.take_assigned() {
                // ANCHOR: assigned
                if must_recheck {
                    self.wake_if_work_is_visible();
                }
                // ANCHOR_END: assigned
                return;
            }
            let is_queued = scheduler.is_queued_work_visible() || scheduler.is_background_due();
            if (is_queued || scheduler.signals.is_ready()) && self.claim_idle_processor(is_queued) {
                return;
            }
            must_recheck = false;
            if scheduler.is_shut_down() {
                scheduler.free_all_idle_stacks();
                Plat::exit_thread(EndedMachine::new(self));
            }
            // The check for a deadlock comes before this M may end. If this M became idle last, no other M will check.
            scheduler.check_dead();
            ends_at = hooks::retire_if_unneeded(self, ends_at);
            let deadline = scheduler.park_deadline(self);
            Plat::park_thread(Parking::of_idle(pinned), deadline.into_iter().chain(ends_at).min());
        }
    }

    /// Called if this M was assigned a P before it checked the queues a second time, or before it could take an idle P
    /// for what it saw there. If there is work, wakes another M to search in its place. (The queue of the assigned P
    /// counts, too, because this M may first run an urgent G.)
    fn wake_if_work_is_visible(&'static self) {
        let scheduler = self.scheduler();
        if scheduler.is_queued_work_visible() {
            scheduler.wake_processor();
        }
    }

    /// Called by an M that has left the idle list, before it polls. From now on no raise of a device signal relies on
    /// this M. If an earlier raise relied on this M, the poll sees its signal.
    pub(crate) fn end_poll_duty() {
        // Ordering: partner: the fence in `wake_poller`.
        fence(Ordering::SeqCst);
        Plat::point(Site::DeviceSignal);
    }

    /// Takes the P that was assigned to this M, if there is one; returns whether there was one.
    pub(crate) fn take_assigned(&'static self) -> bool {
        let Some(processor) = self.assigned_processor.load(Ordering::Acquire) else { return false };
        // No exchange is needed, because no other P is assigned to this M before it is on the idle list again.
        self.assigned_processor.store(None, Ordering::Relaxed);
        self.take(processor);
        Self::end_poll_duty();
        processor.counters.wakes.add(1);
        processor.set_clock(Plat::now());
        true
    }

    /// Called by an M on the idle list that has seen work. Takes an idle P. If there is work on a queue, the M begins
    /// to spin, so that another M is woken if there is more work. Returns whether this M holds a P now, perhaps one
    /// that was assigned to it meanwhile. If not, no P is idle, and the Ms that hold the Ps find the work.
    fn claim_idle_processor(&'static self, is_queued: bool) -> bool {
        let scheduler = self.scheduler();
        let mut shared = scheduler.shared.lock();
        if self.assigned_processor.load(Ordering::Relaxed).is_some() {
            drop(shared);
            let is_assigned = self.take_assigned();
            self.wake_if_work_is_visible();
            return is_assigned;
        }
        let Some(processor) = scheduler.take_idle_processor(&mut shared) else {
            drop(shared);
            if scheduler.signals.is_ready() {
                // The raise relied on this M, because a P was idle. Another M has taken that P since.
                scheduler.preempt_to_poll();
            }
            return false;
        };
        self.leave_idle_list(&mut shared);
        drop(shared);
        self.take(processor);
        Self::end_poll_duty();
        if is_queued {
            self.begin_to_spin(processor);
        }
        true
    }

    pub(crate) fn leave_idle_list(&'static self, shared: &mut Shared<Plat>) {
        let scheduler = self.scheduler();
        shared.idle_machines.remove(self);
        // A new timekeeper is unparked to compute its deadline.
        if let Some(timekeeper) = scheduler.update_idle_machines(shared) {
            Plat::unpark_thread(timekeeper);
        }
    }
}
