//! The scheduler: what all Ms and Ps share.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::mem::offset_of;

use crate::base::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, StaticU32};
use crate::base::error::OutOfResources;
use crate::base::extension::Extension;
use crate::base::id::MachineId;
use crate::base::list::List;
use crate::base::reference::AtomicRef;
use crate::base::spin_lock::Lock;
use crate::entities::bubble::Bubble;
use crate::entities::free_list::FreeSlots;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::{Machine, NewMachine};
use crate::entities::processor::{GOROUTINE_ID_BATCH, Processor, ProcessorStatus};
use crate::entities::signal::Poller;
use crate::entities::status::{ParkedStatus, Status};
use crate::entities::world::World;
use crate::platform::Platform;
use crate::record::counters::Counts;
use crate::record::latency::Latencies;

/// What the scheduler lock guards. Go: the part of `schedt` under `sched.lock`.
#[derive(Debug)]
pub(crate) struct Shared<P: Platform> {
    /// The global run queue. Go: `runq`.
    pub(crate) global: List<Goroutine<P>>,
    /// Runnable Gs that run on no M but their own. Go has them in the run queues.
    pub(crate) locked: List<Goroutine<P>>,
    /// Ps that no M holds, used from the front. Go: `pidle`.
    pub(crate) idle_processors: List<Processor<P>>,
    /// Ms that wait for a P, used from the front. There is always one for every idle P: see `idle`. Go: `midle`.
    pub(crate) idle_machines: List<Machine<P>>,
    /// Ms that wait for a P to run the Gs on that are locked to them. Go: `nmidlelocked`.
    pub(crate) idle_locked: u32,
    /// Ms in existence. Go: `mcount`.
    pub(crate) machines: u32,
    /// Ms in a system call whose P was given away, or on their way back from there without a P; and once more those that
    /// a G is locked to.
    pub(crate) blocked_machines: u32,
    /// For so many Ps there is to be an M each besides the blocked ones: all there are, or that there are about to be.
    pub(crate) machines_wanted: usize,
    /// Ps that go on while the world is to stop, besides the stopper's own. Go: `stopwait`.
    pub(crate) unstopped: usize,
    /// Who waits for that to become 0. Go: `stopnote`.
    pub(crate) stopper: Option<&'static Machine<P>>,
}

impl<P: Platform> Shared<P> {
    /// Whether something is runnable that stands in no P's queue.
    pub(crate) fn has_work(&self) -> bool {
        !self.global.is_empty() || !self.locked.is_empty()
    }
}

/// Ps at most.
pub const PROCESSOR_LIMIT: usize = 1024;

/// The number of the next scheduler, whatever its platform.
#[cfg(not(gmp_loom))]
static NEXT_NUMBER: StaticU32 = StaticU32::new(0);

#[cfg(gmp_loom)]
std::thread_local! {
    /// The same for the models, which run side by side on threads of the host, each of which begins anew with each run.
    static NEXT_NUMBER: StaticU32 = const { StaticU32::new(0) };
}

/// A number that no other scheduler has.
fn take_number() -> u32 {
    let next = |number| (number < ParkedStatus::SCHEDULER_LIMIT).then_some(number + 1);
    #[cfg(not(gmp_loom))]
    let taken = NEXT_NUMBER.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    #[cfg(gmp_loom)]
    let taken = NEXT_NUMBER.with(|number| number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next));
    taken.expect("so many schedulers do not fit into memory")
}

/// The next scheduler gets number 0 again: a model makes as many as it has runs, and none of them is used after its run.
#[cfg(gmp_loom)]
pub(crate) fn restart_numbers() {
    NEXT_NUMBER.with(|number| number.store(0, Ordering::Relaxed));
}

/// Ms at most. Go: `maxmcount`, 10000.
const MACHINE_LIMIT: u32 = 10_000;

/// One scheduler. It lives as long as the program, like Go's.
#[doc(alias = "sched")]
pub struct Scheduler<P: Platform> {
    /// Which of the schedulers of this process it is. Never given twice.
    number: u32,
    /// All that there may be; those from `procs` on are dead.
    processors: Box<[Processor<P>]>,
    /// Ps in use. Changed while the world is stopped.
    procs: AtomicUsize,
    pub(crate) world: World<P>,
    pub(crate) shared: Lock<Shared<P>, P>,
    /// Length of the global queue and of the list of locked Gs beside it, readable without the lock.
    pub(crate) global_length: AtomicUsize,
    /// Ps on the idle list, readable without the lock. Go: `npidle`.
    pub(crate) idle_processors: AtomicU32,
    /// Ms that look for work. Go: `nmspinning`.
    pub(crate) spinning: AtomicU32,
    /// The idle M that parks with a deadline, the longest idle one; changed under the lock.
    pub(crate) timekeeper: AtomicRef<Machine<P>>,
    /// Dead Gs, for all Ps. Go: `sched.gFree`.
    pub(crate) free: Lock<FreeSlots<P>, P>,
    /// Unused timers of programs.
    pub(crate) timer_slots: Extension,
    /// Bubbles that nobody uses.
    pub(crate) bubbles: Lock<List<Bubble<P>>, P>,
    all_goroutines: AtomicRef<Goroutine<P>>,
    all_machines: AtomicRef<Machine<P>>,
    next_id: AtomicU64,
    next_machine_id: AtomicU32,
    /// An M for which no thread was to be had.
    spare_machine: AtomicRef<Machine<P>>,
    /// Signals of devices.
    pub(crate) poller: Poller<P>,
    /// The main G has ended itself: nobody is left to end the program when the others are through.
    pub(crate) main_exited: AtomicBool,
    /// Ms are to end instead of looking for work.
    shut_down: AtomicBool,
}

/// Where a debugger finds its private fields.
impl<P: Platform> Scheduler<P> {
    pub(crate) const GOROUTINES: usize = offset_of!(Self, all_goroutines);
    pub(crate) const MACHINES: usize = offset_of!(Self, all_machines);
}

impl<P: Platform> Scheduler<P> {
    /// A scheduler with that many Ps, once and for all, and no M yet; [`start`](Self::start) makes the Ms and the main G.
    ///
    /// It is never freed. Must be called where the platform allows allocation.
    ///
    /// # Panics
    ///
    /// `processors` is 0 or above [`PROCESSOR_LIMIT`].
    #[must_use]
    pub fn new(processors: usize) -> &'static Self {
        Self::with_limit(processors, processors)
    }

    /// [`new`](Self::new), with room for `limit` Ps, about 15 KiB each, between which and 1
    /// [`set_procs`](crate::engine::procs::set_procs) may choose later.
    ///
    /// # Panics
    ///
    /// `processors` is 0 or above `limit`, or that is above [`PROCESSOR_LIMIT`].
    #[must_use]
    pub fn with_limit(processors: usize, limit: usize) -> &'static Self {
        assert!(processors > 0, "a scheduler needs at least one P");
        assert!(processors <= limit && limit <= PROCESSOR_LIMIT, "{processors} Ps of at most {limit} are too many");
        let scheduler: &'static Self = Box::leak(Box::new(Self {
            number: take_number(),
            processors: (0..limit).map(Processor::new).collect::<Vec<_>>().into_boxed_slice(),
            procs: AtomicUsize::new(processors),
            world: World::new(),
            shared: Lock::new(Shared {
                global: List::new(),
                locked: List::new(),
                idle_processors: List::new(),
                idle_machines: List::new(),
                idle_locked: 0,
                machines: 0,
                blocked_machines: 0,
                machines_wanted: processors,
                unstopped: 0,
                stopper: None,
            }),
            global_length: AtomicUsize::new(0),
            idle_processors: AtomicU32::new(0),
            spinning: AtomicU32::new(0),
            timekeeper: AtomicRef::none(),
            free: Lock::new(FreeSlots::new()),
            timer_slots: Extension::new(),
            bubbles: Lock::new(List::new()),
            all_goroutines: AtomicRef::none(),
            all_machines: AtomicRef::none(),
            // The first batch starts at 16 rather than 0, except that the main G gets number 1.
            next_id: AtomicU64::new(GOROUTINE_ID_BATCH),
            next_machine_id: AtomicU32::new(0),
            spare_machine: AtomicRef::none(),
            poller: Poller::new(),
            main_exited: AtomicBool::new(false),
            shut_down: AtomicBool::new(false),
        }));
        {
            let mut shared = scheduler.shared.lock();
            for processor in &scheduler.processors {
                processor.watch.belong_to(scheduler);
                scheduler.choose_requeue(processor);
            }
            for processor in scheduler.processors() {
                scheduler.put_idle_processor(&mut shared, processor);
            }
        }
        scheduler
    }

    /// Makes an M and puts it on the idle list. The caller is pinned, or nothing runs yet. Go: `newm`.
    pub(crate) fn add_machine(&'static self) -> Result<(), OutOfResources> {
        {
            let mut shared = self.shared.lock();
            if shared.machines >= MACHINE_LIMIT {
                return Err(OutOfResources);
            }
            shared.machines += 1;
            // Counted as blocked until it can take a P.
            shared.blocked_machines += 1;
        }
        let started = self.new_machine();
        let mut shared = self.shared.lock();
        shared.blocked_machines -= 1;
        let machine = started.inspect_err(|_| shared.machines -= 1)?;
        self.put_idle_machine(&mut shared, machine);
        drop(shared);
        // Not before it is on the idle list: anybody who finds an M may unpark its thread, which then takes itself off that
        // list if it sees work.
        push_forever(&self.all_machines, machine, |machine| &machine.all_link);
        if self.is_shut_down() {
            // Perhaps `shut_down` did not find it.
            P::unpark_thread(machine);
        }
        Ok(())
    }

    /// An M with a thread that waits to be unparked for the first time, which nobody but the caller knows.
    fn new_machine(&'static self) -> Result<&'static Machine<P>, OutOfResources> {
        // One that got no thread before is tried again, since it cannot be freed.
        let machine = match self.spare_machine.swap(None, Ordering::AcqRel) {
            Some(machine) => machine,
            None => {
                let mut home = Vec::new();
                home.try_reserve_exact(1).map_err(|_| OutOfResources)?;
                let id = MachineId(self.next_machine_id.fetch_add(1, Ordering::Relaxed));
                home.push(Machine::new(id, self));
                &home.leak()[0]
            }
        };
        match P::start_thread(NewMachine::new(machine)) {
            Ok(thread) => machine.set_thread(thread),
            Err(error) => {
                self.spare_machine.store(Some(machine), Ordering::Release);
                return Err(error);
            }
        }
        Ok(machine)
    }

    /// Its number, by which a parked G tells to which scheduler it belongs.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// All Ps in use. [`set_procs`](crate::engine::procs::set_procs) changes how many that are, so an answer may be old; a P that
    /// is no longer in use stays where it is and is empty. Go: `allp`.
    #[must_use]
    #[doc(alias = "allp")]
    pub fn processors(&'static self) -> &'static [Processor<P>] {
        &self.processors[..self.procs()]
    }

    /// All Ps that were in use or may come to be.
    pub(crate) fn processors_ever(&'static self) -> &'static [Processor<P>] {
        &self.processors
    }

    /// The most Gs that run at once. Go: `GOMAXPROCS`.
    #[must_use]
    #[inline(always)]
    #[doc(alias = "GOMAXPROCS")]
    pub fn procs(&self) -> usize {
        self.procs.load(Ordering::Relaxed)
    }

    /// To be called with the world stopped.
    pub(crate) fn set_procs(&self, procs: usize) {
        // Ordering: who may rely on the new number is started under the lock afterwards.
        self.procs.store(procs, Ordering::Relaxed);
    }

    /// The most Ps that there may be, chosen when the scheduler was made.
    #[must_use]
    pub fn procs_limit(&self) -> usize {
        self.processors.len()
    }

    /// Whether an M left its P behind in a system call, so that sysmon has something to watch. Callable from interrupts.
    #[must_use]
    pub fn is_any_in_syscall(&'static self) -> bool {
        self.processors().iter().any(|processor| processor.status() == ProcessorStatus::Syscall)
    }

    /// All Gs there ever were; dead slots are among them.
    pub fn goroutines(&'static self) -> impl Iterator<Item = &'static Goroutine<P>> {
        core::iter::successors(self.all_goroutines.load(Ordering::Acquire), |goroutine| {
            goroutine.all_link.load(Ordering::Acquire)
        })
    }

    /// All Ms.
    pub fn machines(&'static self) -> impl Iterator<Item = &'static Machine<P>> {
        core::iter::successors(self.all_machines.load(Ordering::Acquire), |machine| {
            machine.all_link.load(Ordering::Acquire)
        })
    }

    /// Gs that are alive; those that have been made but not been started are not among them. Go: `NumGoroutine`.
    #[must_use]
    #[doc(alias = "NumGoroutine")]
    pub fn num_goroutine(&'static self) -> usize {
        self.goroutines().filter(|goroutine| !matches!(goroutine.status(), Status::Dead | Status::Idle)).count()
    }

    /// What all Ps together have done.
    #[must_use]
    pub fn counts(&'static self) -> Counts {
        let mut total = Counts::default();
        // Also of those that are no longer in use.
        for processor in &self.processors {
            total += processor.counts();
        }
        total
    }

    /// How long Gs waited from runnable to running, of a sample of them.
    #[must_use]
    pub fn latencies(&'static self) -> Latencies {
        let mut total = Latencies::default();
        for processor in &self.processors {
            total += processor.latencies();
        }
        total
    }

    /// Makes a new slot known. Go: `allgadd`.
    pub(crate) fn register(&self, goroutine: &'static Goroutine<P>) {
        push_forever(&self.all_goroutines, goroutine, |goroutine| &goroutine.all_link);
    }

    /// The first of a batch of numbers for Gs.
    pub(crate) fn take_goroutine_ids(&self) -> u64 {
        self.next_id.fetch_add(GOROUTINE_ID_BATCH, Ordering::Relaxed)
    }

    /// Puts a P nobody holds on the idle list. Go: `pidleput`.
    pub(crate) fn put_idle_processor(&self, shared: &mut Shared<P>, processor: &'static Processor<P>) {
        processor.status.set(ProcessorStatus::Idle);
        shared.idle_processors.push_front(processor);
        // Ordering: the fence that makes this and the look at the queues that follows one protocol is the caller's.
        self.idle_processors.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a P from the idle list. Go: `pidleget`.
    pub(crate) fn take_idle_processor(&self, shared: &mut Shared<P>) -> Option<&'static Processor<P>> {
        let processor = shared.idle_processors.pop_front()?;
        processor.status.set(ProcessorStatus::Running);
        self.idle_processors.fetch_sub(1, Ordering::Relaxed);
        Some(processor)
    }

    /// Takes `preferred` if it is idle, else any idle P.
    pub(crate) fn take_idle_processor_preferring(
        &self,
        shared: &mut Shared<P>,
        preferred: Option<&'static Processor<P>>,
    ) -> Option<&'static Processor<P>> {
        if let Some(processor) = preferred
            && shared.idle_processors.remove(processor)
        {
            shared.idle_processors.push_front(processor);
        }
        self.take_idle_processor(shared)
    }

    /// Appends Gs to the global queue. The caller wakes someone for them. Go: `globrunqputbatch`.
    pub(crate) fn put_global(&self, shared: &mut Shared<P>, goroutines: &mut List<Goroutine<P>>) {
        shared.global.append(goroutines);
        self.publish_global_length(shared);
    }

    /// Appends a G that may be locked to its M. As [`put_global`](Self::put_global).
    pub(crate) fn put_global_one(&self, shared: &mut Shared<P>, goroutine: &'static Goroutine<P>) {
        let list = if goroutine.is_locked() { &mut shared.locked } else { &mut shared.global };
        list.push_back(goroutine);
        self.publish_global_length(shared);
    }

    pub(crate) fn publish_global_length(&self, shared: &Shared<P>) {
        self.global_length.store(shared.global.len() + shared.locked.len(), Ordering::Relaxed);
    }

    /// Puts Gs before all others on the global queue. The caller wakes someone for them.
    pub(crate) fn put_global_first(&self, shared: &mut Shared<P>, goroutines: &mut List<Goroutine<P>>) {
        goroutines.append(&mut shared.global);
        self.put_global(shared, goroutines);
    }

    /// Takes one G from the global queue.
    pub(crate) fn take_global(&self, shared: &mut Shared<P>) -> Option<&'static Goroutine<P>> {
        let goroutine = shared.global.pop_front()?;
        self.publish_global_length(shared);
        Some(goroutine)
    }

    /// Whether [`shut_down`](Self::shut_down) was called.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.shut_down.load(Ordering::Acquire)
    }

    /// Tells all Ms to end when they next look for work. Gs that run on are not stopped.
    #[cfg(all(feature = "std", not(gmp_loom)))]
    pub(crate) fn shut_down(&'static self) {
        self.shut_down.store(true, Ordering::Release);
        for machine in self.machines() {
            P::unpark_thread(machine);
        }
    }
}

/// Appends `item` to a list that is only ever added to, without a lock.
fn push_forever<T>(head: &AtomicRef<T>, item: &'static T, link: impl Fn(&'static T) -> &'static AtomicRef<T>) {
    loop {
        let old = head.load(Ordering::Relaxed);
        link(item).store(old, Ordering::Relaxed);
        // Ordering: Release publishes the item and its link to whoever walks the list with Acquire loads.
        if head.replace(old, Some(item), Ordering::Release, Ordering::Relaxed) {
            return;
        }
    }
}

impl<P: Platform> fmt::Debug for Scheduler<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler")
            .field("procs", &self.procs())
            .field("spinning", &self.spinning)
            .field("idle_processors", &self.idle_processors)
            .field("global_length", &self.global_length)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "std", not(gmp_loom)))]
mod tests {
    use alloc::boxed::Box;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::Scheduler;
    use crate::base::atomic::Ordering;
    use crate::base::list::List;
    use crate::engine::find::take_global_batch;
    use crate::entities::goroutine::Goroutine;
    use crate::native::Native;

    proptest! {
        /// Go: `n = min(128, size, size/gomaxprocs+1)`, the first to run, the rest in order on the local ring.
        #[test]
        fn a_batch_of_the_global_queue_is_gos(size in 0..600usize, processors in 1..65usize) {
            let scheduler = Scheduler::<Native>::new(processors);
            let goroutines: Vec<&'static Goroutine<Native>> =
                (0..size).map(|_| &*Box::leak(Box::new(Goroutine::new(scheduler)))).collect();
            let mut batch = List::new();
            goroutines.iter().for_each(|&goroutine| batch.push_back(goroutine));
            scheduler.put_global(&mut scheduler.shared.lock(), &mut batch);

            let processor = &scheduler.processors()[0];
            let first = take_global_batch(scheduler, processor);
            let rest = core::iter::from_fn(|| processor.queue.pop().map(|(goroutine, _)| goroutine));
            let taken: Vec<_> = first.into_iter().chain(rest).collect();
            prop_assert_eq!(taken.len(), 128.min(size).min(size / processors + 1));
            prop_assert!(taken.iter().zip(&goroutines).all(|(taken, expected)| core::ptr::eq(*taken, *expected)));
            prop_assert_eq!(scheduler.global_length.load(Ordering::Relaxed), size - taken.len());
            prop_assert_eq!(scheduler.shared.lock().global.len(), size - taken.len());
        }
    }
}
