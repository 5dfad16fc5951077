//! What the scheduler lock guards: the global queue, the runnable locked Gs, the idle Ps and Ms, the retired Ms, the
//! counts of Ms, and the state of a stop of the world.

use crate::base::atomic::Ordering;
use crate::base::instant::Instant;
use crate::base::list::List;
use crate::entities::global_queue::GlobalQueue;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::Scheduler;
use crate::platform::Platform;

/// The state that the scheduler lock guards. Go: the part of `schedt` under `sched.lock`.
#[derive(Debug)]
pub(crate) struct Shared<Plat: Platform> {
    /// The global run queue. Go: `runq`.
    pub(crate) global: GlobalQueue<Plat>,
    /// Runnable Gs that are locked to an M. Go keeps them in the run queues.
    pub(crate) locked: List<Goroutine<Plat>>,
    /// Idle Ps, which no M holds. They are taken from the front. Go: `pidle`.
    pub(crate) idle_processors: List<Processor<Plat>>,
    /// Idle Ms, which run any G when they get a P. They are taken from the front. There is at least one for each idle
    /// P: see `idle`. Go: `midle`.
    pub(crate) idle_machines: List<Machine<Plat>>,
    /// Number of Ms that wait for a P to run the G that is locked to them. Go: `nmidlelocked`.
    pub(crate) idle_locked: u32,
    /// Number of Ms that have a thread. Go: `mcount`.
    pub(crate) machines: u32,
    /// Ms without a thread, which will be used again.
    pub(crate) retired_machines: List<Machine<Plat>>,
    /// Number of Ms that are in a system call after their P was handed off, or that return from one and have no P yet.
    /// An M with a locked G is counted once for the lock, because it runs no other Gs, besides any count for a call.
    pub(crate) blocked_machines: u32,
    /// Number of Ms whose Gs are preempted in place. They are among the blocked ones.
    #[cfg(all(any(feature = "std", gmp_loom), feature = "refinements"))]
    pub(crate) preempted: u32,
    /// Number of Ms needed in addition to the blocked ones: one for each P that is in use or is about to be used.
    pub(crate) machines_wanted: usize,
    /// When an M first noticed that the scheduler has more Ms than it needs (a surplus). [`Instant::NEVER`] if no M has
    /// noticed a surplus, or if there was none when an M last checked.
    pub(crate) surplus_since: Instant,
    /// Number of Ps that still have to stop while the world is being stopped, not counting the stopper's own P. Go:
    /// `stopwait`.
    pub(crate) unstopped: usize,
    /// The M that waits until `unstopped` becomes 0. Go: `stopnote`.
    pub(crate) stopper: Option<&'static Machine<Plat>>,
}

impl<Plat: Platform> Shared<Plat> {
    /// The state of a scheduler with `processors` Ps, of which none is on the idle list yet.
    pub(crate) fn new(processors: usize) -> Self {
        Self {
            global: GlobalQueue::new(),
            locked: List::new(),
            idle_processors: List::new(),
            idle_machines: List::new(),
            idle_locked: 0,
            machines: 0,
            retired_machines: List::new(),
            blocked_machines: 0,
            #[cfg(all(any(feature = "std", gmp_loom), feature = "refinements"))]
            preempted: 0,
            machines_wanted: processors,
            surplus_since: Instant::NEVER,
            unstopped: 0,
            stopper: None,
        }
    }

    /// Whether there is a runnable G that is in no P's queue.
    pub(crate) fn has_work(&self) -> bool {
        !self.global.is_empty() || !self.locked.is_empty()
    }

    /// Whether there are so many more Ms than needed that one of them ends when memory is given back. One more than
    /// needed is kept, so that a program with one blocking call at a time does not make and end an M for each call.
    pub(crate) fn has_much_surplus(&self) -> bool {
        self.machines as usize > self.machines_wanted + self.blocked_machines as usize + 1
    }

    /// Whether there are more Ms than needed, so that one of them may block or end.
    pub(crate) fn has_surplus(&self) -> bool {
        (self.machines - self.blocked_machines) as usize > self.machines_wanted
    }

    /// Brings `surplus_since` up to date.
    pub(crate) fn update_surplus(&mut self, now: Instant) {
        self.surplus_since = if self.has_surplus() { self.surplus_since.min(now) } else { Instant::NEVER };
    }
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Puts a P that no M holds on the idle list. Go: `pidleput`.
    pub(crate) fn put_idle_processor(&self, shared: &mut Shared<Plat>, processor: &'static Processor<Plat>) {
        if processor.free.len() != 0 {
            // While an M held this P, nothing could release the stacks of the dead Gs on its free list.
            self.note_growth();
        }
        processor.status.set(ProcessorStatus::Idle);
        shared.idle_processors.push_front(processor);
        // Ordering: Relaxed, because the caller executes a fence between this increment and its later check of the
        // queues.
        self.idle_processors.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a P from the idle list, if there is one. The next G of this P begins a slice of its own. Go: `pidleget`.
    pub(crate) fn take_idle_processor(&self, shared: &mut Shared<Plat>) -> Option<&'static Processor<Plat>> {
        let processor = shared.idle_processors.pop_front()?;
        processor.status.set(ProcessorStatus::Running);
        processor.advance_tick();
        self.idle_processors.fetch_sub(1, Ordering::Relaxed);
        Some(processor)
    }

    /// Takes `preferred` if it is idle, otherwise any idle P, if there is one.
    pub(crate) fn take_idle_processor_preferring(
        &self,
        shared: &mut Shared<Plat>,
        preferred: Option<&'static Processor<Plat>>,
    ) -> Option<&'static Processor<Plat>> {
        if let Some(processor) = preferred
            && shared.idle_processors.remove(processor)
        {
            shared.idle_processors.push_front(processor);
        }
        self.take_idle_processor(shared)
    }
}
