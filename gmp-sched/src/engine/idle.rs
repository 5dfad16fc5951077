#![doc = include_str!("idle.md")]

use core::mem;

use crate::base::atomic::{Ordering, fence};
use crate::base::instant::Instant;
use crate::base::list::List;
use crate::base::points::Site;
use crate::engine::due::is_timer_due;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::{Scheduler, Shared};
use crate::platform::{Pinned, Platform};
use crate::record::trace::EventKind;

/// What an M is woken for. Go: the argument `spinning` of `startm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errand {
    /// To look for work: the waker has counted it as spinning.
    Search,
    /// To run what lies on the queue of the P it is given.
    Run,
}

impl<P: Platform> Scheduler<P> {
    /// Sees to it that work just put on the current P's queue does not lie there while another P is idle. To be called
    /// by the M that holds the P, after the publication. Go: `wakep`, seen from the submitter.
    #[inline(always)]
    pub(crate) fn submitted(&'static self) {
        // The only P is held by the caller: nobody to wake.
        if self.procs() != 1 {
            self.submitted_among_others();
        }
    }

    /// [`submitted`](Self::submitted) for a caller who knows that its P is not the only one.
    #[inline(always)]
    pub(crate) fn submitted_among_others(&'static self) {
        // Ordering: submit.1 of idle.md; partner: the fence in `Machine::go_idle`. A Release store of the tail is not
        // enough: on x86 the load below may be done before the store is seen.
        fence(Ordering::SeqCst);
        P::point(Site::Idle);
        if self.idle_processors.load(Ordering::Relaxed) != 0 && self.spinning.load(Ordering::Relaxed) == 0 {
            self.wake_processor();
        }
    }

    /// Starts an M that looks for work, if a P is idle and no M looks already. Go: `wakep`.
    #[doc(alias = "wakep")]
    #[cold]
    pub(crate) fn wake_processor(&'static self) {
        if self.begin_search() {
            self.pass_search_on();
        }
    }

    /// Counts the caller as spinning if a P is idle and nobody is; tells whether it did.
    fn begin_search(&self) -> bool {
        fence(Ordering::SeqCst);
        P::point(Site::Idle);
        self.idle_processors.load(Ordering::Relaxed) != 0
            && self.spinning.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Wakes an M that searches in place of the caller, which is counted as spinning and no longer is when this returns.
    pub(crate) fn pass_search_on(&'static self) {
        loop {
            let woken = {
                let mut shared = self.shared.lock();
                self.take_idle_processor(&mut shared)
                    .map(|processor| self.assign(&mut shared, processor, Errand::Search))
            };
            if let Some(machine) = woken {
                P::unpark_thread(machine);
                return;
            }
            P::point(Site::Idle);
            // No P is idle. While the count was raised on our behalf others relied on it, so take it back and check again:
            // a P may have become idle in the meantime.
            self.spinning.fetch_sub(1, Ordering::SeqCst);
            if !self.begin_search() {
                return;
            }
        }
    }

    /// Gives `processor` to an idle M, which the caller unparks. Go: `startm`.
    #[doc(alias = "startm")]
    pub(crate) fn assign(
        &self,
        shared: &mut Shared<P>,
        processor: &'static Processor<P>,
        errand: Errand,
    ) -> &'static Machine<P> {
        let machine = shared.idle_machines.pop_front().expect("a P without an M: there is one for every idle P");
        if shared.idle_machines.is_empty() {
            self.set_timekeeper(None);
        }
        machine.set_assigned(processor, errand);
        machine
    }

    /// Gives each of the idle Ms back the P that it gave up for the stop of the world, if that has work, and unparks it. Under
    /// the lock, while the world is stopped. Go 1.26: `procresize`.
    pub(crate) fn give_processors_back(&self, shared: &mut Shared<P>) {
        let mut idle = mem::replace(&mut shared.idle_machines, List::new());
        while let Some(machine) = idle.pop_front() {
            let left = machine.stopped_processor.swap(None, Ordering::Relaxed);
            match left.filter(|processor| processor.status() == ProcessorStatus::Stopped && processor.has_work()) {
                Some(processor) => {
                    processor.status.set(ProcessorStatus::Running);
                    machine.set_assigned(processor, Errand::Run);
                    P::unpark_thread(machine);
                }
                None => shared.idle_machines.push_back(machine),
            }
        }
        self.set_timekeeper(shared.idle_machines.back());
    }

    /// Puts an M that holds no P on the idle list. The first to be idle is the last to be used and keeps the time
    /// meanwhile. Go: `mput`.
    #[doc(alias = "mput")]
    pub(crate) fn put_idle_machine(&self, shared: &mut Shared<P>, machine: &'static Machine<P>) {
        if shared.idle_machines.is_empty() {
            self.set_timekeeper(Some(machine));
        }
        shared.idle_machines.push_front(machine);
    }

    fn set_timekeeper(&self, machine: Option<&'static Machine<P>>) {
        if let Some(machine) = machine {
            machine.deadline.store(Instant::NEVER.as_nanos(), Ordering::Relaxed);
        }
        self.timekeeper.store(machine, Ordering::Release);
    }

    /// A timer due at `when` is now kept by nobody but the timekeeper: wakes it if it means to sleep longer. Called
    /// after the timer, or the idleness of its P, has been published. Go: `wakeNetPoller`.
    #[doc(alias = "wakeNetPoller")]
    pub(crate) fn tell_timekeeper(&self, when: Instant) {
        // Ordering: partner is the fence in `park_deadline`: either we see its deadline or it sees the timer.
        fence(Ordering::SeqCst);
        P::point(Site::Timers);
        // The deadline is that M's own: what one that was the timekeeper before still writes is no concern of ours.
        if let Some(machine) = self.timekeeper.load(Ordering::Acquire)
            && when.as_nanos() < machine.deadline.load(Ordering::Relaxed)
        {
            P::unpark_thread(machine);
        }
    }

    /// The earliest timer, if it takes more than the Ms that hold the Ps to look after all of them.
    pub(crate) fn earliest_unkept(&'static self) -> Instant {
        if self.idle_processors.load(Ordering::Relaxed) == 0 {
            // Every P is held: its M runs the timers, and tells when it goes idle.
            return Instant::NEVER;
        }
        self.processors().iter().map(|processor| processor.timers.earliest()).min().unwrap_or(Instant::NEVER)
    }

    /// Until when `machine` may sleep.
    fn park_deadline(&'static self, machine: &'static Machine<P>) -> Option<Instant> {
        let is_timekeeper =
            || self.timekeeper.load(Ordering::Acquire).is_some_and(|timekeeper| core::ptr::eq(timekeeper, machine));
        loop {
            let earliest = self.earliest_unkept();
            if !is_timekeeper() {
                if earliest != Instant::NEVER {
                    self.tell_timekeeper(earliest);
                }
                return None;
            }
            P::point(Site::Timers);
            machine.deadline.store(earliest.as_nanos(), Ordering::Relaxed);
            // Ordering: partner is the fence in `tell_timekeeper`.
            fence(Ordering::SeqCst);
            P::point(Site::Timers);
            if self.earliest_unkept() >= earliest {
                return (earliest != Instant::NEVER).then_some(earliest);
            }
        }
    }

    /// Whether some P, idle or not, has something to run. Go: `checkRunqsNoP`, `checkTimersNoP`.
    #[doc(alias = "checkRunqsNoP")]
    pub(crate) fn is_work_visible(&'static self) -> bool {
        self.global_length.load(Ordering::Relaxed) != 0
            || self.processors().iter().any(|processor| !processor.queue.is_empty())
            || self.poller.is_ready()
            || is_timer_due(self)
    }
}

impl<P: Platform> Machine<P> {
    /// Gives `processor` to this M, which has just been taken off the idle list.
    fn set_assigned(&self, processor: &'static Processor<P>, errand: Errand) {
        // Before the P is to be seen: an M that has found it, searched, and is idle again would be marked too late, and
        // the count would never get back to 0.
        self.spinning.store(errand == Errand::Search, Ordering::Relaxed);
        // Ordering: Release; partner: the Acquire in `take_assigned`, which a spurious wake-up may reach before the
        // unpark.
        self.next_processor.store(Some(processor), Ordering::Release);
    }

    /// Gives the P up and waits for one; comes back with one, or with the P kept because work turned up.
    ///
    /// Go: `findRunnable` from `releasep` on, `stopm`.
    #[doc(alias = "stopm")]
    pub(crate) fn go_idle(&'static self, pinned: &Pinned<P>) {
        let scheduler = self.scheduler();
        P::point(Site::Idle);
        let left = self.processor();
        {
            let mut shared = scheduler.shared.lock();
            if shared.has_work() || scheduler.is_stopping() {
                return;
            }
            if let Some(processor) = left {
                processor.tracer.note::<P>(EventKind::Idle, None, 0);
                self.set_processor(None);
                scheduler.put_idle_processor(&mut shared, processor);
            }
            scheduler.put_idle_machine(&mut shared, self);
            // In the same hold: whoever puts work on the global queue after it sees that nobody looks.
            if self.spinning.swap(false, Ordering::Relaxed) {
                scheduler.spinning.fetch_sub(1, Ordering::SeqCst);
            }
        }
        // Ordering: idle.2 of idle.md; partner: the fence in `submitted`.
        fence(Ordering::SeqCst);
        self.wait_for_processor(pinned);
        if let (Some(left), Some(processor)) = (left, self.processor())
            && !core::ptr::eq(left, processor)
        {
            // That one may be idle, and this M may have been given another before it looked at the timers.
            scheduler.tell_timekeeper(scheduler.earliest_unkept());
        }
    }

    /// On the idle list: looks once more, then parks until it is given a P.
    pub(crate) fn wait_for_processor(&'static self, pinned: &Pinned<P>) {
        let scheduler = self.scheduler();
        // Others relied on it while it was spinning.
        let mut owes_look = true;
        loop {
            P::point(Site::Idle);
            if self.take_assigned() {
                if owes_look {
                    self.pass_on_look();
                }
                return;
            }
            if scheduler.is_work_visible() && self.take_back() {
                return;
            }
            owes_look = false;
            if scheduler.is_shut_down() {
                scheduler.give_back_all_stacks();
                P::exit_thread();
            }
            scheduler.check_dead();
            P::park_thread(pinned, scheduler.park_deadline(self));
        }
    }

    /// This M has been given a P before it could look for what others left to it while it was spinning, or instead of what it
    /// saw then: if there is more than the first G of that P, somebody else is to look.
    fn pass_on_look(&'static self) {
        let (scheduler, own) = (self.scheduler(), self.held_processor());
        let has_more = |processor: &'static Processor<P>| {
            let queue = &processor.queue;
            if core::ptr::eq(processor, own) {
                queue.len() + usize::from(queue.next().is_some()) > 1
            } else {
                !queue.is_empty()
            }
        };
        if scheduler.global_length.load(Ordering::Relaxed) != 0
            || scheduler.processors().iter().any(has_more)
            || scheduler.poller.is_ready()
        {
            scheduler.wake_processor();
        }
    }

    /// Takes the P that somebody gave to this M along with taking it off the idle list.
    pub(crate) fn take_assigned(&'static self) -> bool {
        let Some(processor) = self.next_processor.load(Ordering::Acquire) else { return false };
        // No exchange needed: nobody gives this M another P before it is on the idle list again.
        self.next_processor.store(None, Ordering::Relaxed);
        self.set_processor(Some(processor));
        processor.counters.wakes.add(1);
        processor.set_clock(P::now());
        processor.tracer.note::<P>(EventKind::Busy, None, 0);
        true
    }

    /// Work turned up while this M stands on the idle list: takes an idle P for it and becomes spinning, so that more
    /// Ms are woken if there is more than one can do. Tells `false` if there is no idle P: then all are held by Ms that
    /// will come upon the work.
    fn take_back(&'static self) -> bool {
        let scheduler = self.scheduler();
        let mut shared = scheduler.shared.lock();
        if self.next_processor.load(Ordering::Relaxed).is_some() {
            drop(shared);
            let is_assigned = self.take_assigned();
            self.pass_on_look();
            return is_assigned;
        }
        let Some(processor) = scheduler.take_idle_processor(&mut shared) else { return false };
        shared.idle_machines.remove(self);
        let was_timekeeper =
            scheduler.timekeeper.load(Ordering::Relaxed).is_some_and(|timekeeper| core::ptr::eq(timekeeper, self));
        if was_timekeeper {
            // The role goes to the one that has been idle longest, which must look at the timers anew.
            let heir = shared.idle_machines.back();
            scheduler.set_timekeeper(heir);
            if let Some(heir) = heir {
                P::unpark_thread(heir);
            }
        }
        drop(shared);
        self.set_processor(Some(processor));
        processor.tracer.note::<P>(EventKind::Busy, None, 0);
        self.spinning.store(true, Ordering::Relaxed);
        scheduler.spinning.fetch_add(1, Ordering::SeqCst);
        true
    }
}
