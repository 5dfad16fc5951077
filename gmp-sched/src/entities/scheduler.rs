//! The scheduler: what all Ms and Ps share.
//!
//! ```
//! use gmp_sched::native::{self, go};
//!
//! unsafe { native::enter() }.run_with(2, |scheduler| {
//!     let before = scheduler.counts().spawned;
//!     go(|| ()).join().unwrap();
//!     assert_eq!(scheduler.counts().spawned, before + 1);
//!     assert_eq!(scheduler.processors().len(), scheduler.procs());
//!     println!("{}", scheduler.goroutine_list());
//! });
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::mem::offset_of;

use crate::base::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::base::error::OutOfResources;
use crate::base::extension::Extension;
use crate::base::forever::make_forever;
use crate::base::id::GoroutineId;
use crate::base::reference::{AtomicRef, push_forever};
use crate::base::spin_lock::Lock;
use crate::entities::background::Background;
use crate::entities::free_list::FreeSlots;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
use crate::entities::processor::{GOROUTINE_ID_BATCH, Processor};
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::ranked::Installed;
use crate::entities::scheduler_number::take_number;
use crate::entities::shared::Shared;
use crate::entities::signal::SignalList;
use crate::entities::status::Status;
use crate::entities::world_stop::WorldStop;
use crate::platform::{Pinned, Platform};
use crate::policy::Policy;
use crate::record::counters::Counts;
use crate::record::latency::Latencies;
use crate::record::trace_ring::SharedTracer;

/// The largest number of Ps that a scheduler can have.
pub const PROCESSOR_LIMIT: usize = 1024;

/// A scheduler. It lives as long as the program, as Go's does. `native` reuses a scheduler that has been shut down.
#[doc(alias = "sched")]
pub struct Scheduler<Plat: Platform> {
    /// The number of the scheduler. No other scheduler of this process ever has this number.
    number: u32,
    /// All Ps up to the limit. Ps with an index of `procs` or above are dead.
    processors: Box<[Processor<Plat>]>,
    /// Number of Ps in use. Changed while the world is stopped.
    procs: AtomicUsize,
    pub(crate) world: WorldStop<Goroutine<Plat>, Plat>,
    pub(crate) shared: Lock<Shared<Plat>, Plat>,
    /// Length of the global queue plus the length of the list of locked Gs. It can be read without the lock.
    pub(crate) global_length: AtomicUsize,
    /// Number of Ps on the idle list. It can be read without the lock. Go: `npidle`.
    pub(crate) idle_processors: AtomicU32,
    /// Number of Ms that search for work, and of wakers that are about to wake such an M. Go: `nmspinning`.
    pub(crate) spinning: AtomicU32,
    /// The poller: the M that went idle last, on which raises of device signals rely. Changed under the lock.
    pub(crate) poller: AtomicRef<Machine<Plat>>,
    /// The timekeeper: the M that has been idle longest, which parks with a deadline. Changed under the lock.
    pub(crate) timekeeper: AtomicRef<Machine<Plat>>,
    /// On platforms without timer interrupts, the time at which sysmon checks the Ps next. If a timer of a busy P is due
    /// earlier, sysmon must be woken. The field is 0 if sysmon need not be woken, or does not run.
    pub(crate) next_check: AtomicU64,
    /// The slots of dead Gs that are on no P's own free list. Go: `sched.gFree`.
    pub(crate) free: Lock<FreeSlots<Goroutine<Plat>>, Plat>,
    /// Timers that programs have made and dropped, for reuse.
    pub(crate) timer_slots: Extension,
    /// What wakes the threads that watch this scheduler, on the platform of threads.
    #[cfg(feature = "std")]
    pub(crate) watches: Extension,
    /// Bubbles that are not in use, for reuse.
    #[cfg(feature = "synctest")]
    pub(crate) bubbles: Extension,
    all_goroutines: AtomicRef<Goroutine<Plat>>,
    pub(crate) all_machines: AtomicRef<Machine<Plat>>,
    next_id: AtomicU64,
    pub(crate) next_machine_id: AtomicU32,
    /// The raised signals of devices, and the number of Gs that wait for signals.
    pub(crate) signals: SignalList<Plat>,
    pub(crate) background: Background<Plat>,
    /// See [`policy`](Self::policy).
    policy: AtomicRef<Installed>,
    /// Whether the main G has ended by `goexit`. If so, the end of the main G cannot end the program any more, so it is
    /// a deadlock when all other Gs have finished.
    pub(crate) main_exited: AtomicBool,
    /// Number of Gs spawned by callers without a P. These Gs are in the counters of no P. Such a caller is in a system
    /// call or outside of the scheduler.
    pub(crate) started_without_processor: AtomicU64,
    /// The tracer of callers that hold no P.
    pub(crate) outside: SharedTracer<Plat>,
    /// Whether the Ms are to exit when they next find no work.
    shut_down: AtomicBool,
}

/// Offsets of private fields, for debuggers.
impl<Plat: Platform> Scheduler<Plat> {
    pub(crate) const GOROUTINES: usize = offset_of!(Self, all_goroutines);
    pub(crate) const MACHINES: usize = offset_of!(Self, all_machines);
}

/// Panics if a scheduler with room for `limit` Ps cannot run with `processors` Ps.
#[track_caller]
fn assert_number_of_processors(processors: usize, limit: usize) {
    assert!(processors > 0, "a scheduler needs at least one P");
    assert!(processors <= limit, "{processors} Ps of at most {limit} are too many");
}

impl<Plat: Platform> Scheduler<Plat> {
    /// Makes a scheduler with a fixed number of Ps. It has no M yet; [`start`](Self::start) creates the Ms and the main
    /// G.
    ///
    /// The scheduler is never freed. Must be called where the platform allows allocation.
    ///
    /// # Panics
    ///
    /// `processors` is 0 or above [`PROCESSOR_LIMIT`].
    #[must_use]
    #[track_caller]
    pub fn new(processors: usize) -> &'static Self {
        Self::with_limit(processors, processors)
    }

    /// Like [`new`](Self::new), but with room for `limit` Ps, about 15 KiB each.
    /// [`set_procs`](crate::refinements::procs::set_procs) can later choose any number from 1 to `limit`.
    ///
    /// # Panics
    ///
    /// `processors` is 0 or more than `limit`, or `limit` is more than [`PROCESSOR_LIMIT`].
    #[must_use]
    #[track_caller]
    pub fn with_limit(processors: usize, limit: usize) -> &'static Self {
        assert!(limit <= PROCESSOR_LIMIT, "{limit} Ps are too many: a scheduler has at most {PROCESSOR_LIMIT}");
        assert_number_of_processors(processors, limit);
        let scheduler: &'static Self = Box::leak(Box::new(Self {
            number: take_number(),
            processors: (0..limit).map(Processor::new).collect::<Vec<_>>().into_boxed_slice(),
            procs: AtomicUsize::new(processors),
            world: WorldStop::new(),
            shared: Lock::new(Shared::new(processors)),
            global_length: AtomicUsize::new(0),
            idle_processors: AtomicU32::new(0),
            spinning: AtomicU32::new(0),
            poller: AtomicRef::none(),
            timekeeper: AtomicRef::none(),
            next_check: AtomicU64::new(0),
            free: Lock::new(FreeSlots::new()),
            timer_slots: Extension::new(),
            #[cfg(feature = "std")]
            watches: Extension::new(),
            #[cfg(feature = "synctest")]
            bubbles: Extension::new(),
            all_goroutines: AtomicRef::none(),
            all_machines: AtomicRef::none(),
            // The first batch starts at 16 and not at 0, because 0 means "no G" and the main G has number 1.
            next_id: AtomicU64::new(GOROUTINE_ID_BATCH),
            next_machine_id: AtomicU32::new(0),
            signals: SignalList::new(),
            background: Background::new(),
            policy: AtomicRef::none(),
            main_exited: AtomicBool::new(false),
            started_without_processor: AtomicU64::new(0),
            outside: SharedTracer::new(),
            shut_down: AtomicBool::new(false),
        }));
        {
            let _pinned = Pinned::<Plat>::of_scheduler();
            let mut shared = scheduler.shared.lock();
            for processor in &scheduler.processors {
                processor.sampler.set_scheduler(scheduler.number);
            }
            scheduler.update_alone();
            for processor in scheduler.processors() {
                scheduler.put_idle_processor(&mut shared, processor);
            }
        }
        scheduler
    }

    /// The number of the scheduler. The status word of a parked G contains this number, which shows to which scheduler
    /// the G belongs.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// All Ps in use. [`set_procs`](crate::refinements::procs::set_procs) changes their number, so the answer may be
    /// outdated. A P that is no longer in use stays valid and is empty. Go: `allp`.
    #[must_use]
    #[doc(alias = "allp")]
    pub fn processors(&'static self) -> &'static [Processor<Plat>] {
        &self.processors[..self.procs()]
    }

    /// All Ps, in use or not.
    pub(crate) fn processors_ever(&'static self) -> &'static [Processor<Plat>] {
        &self.processors
    }

    /// The number of Ps in use, which is how many Gs can run at once. Go: `GOMAXPROCS`.
    #[must_use]
    #[inline(always)]
    #[doc(alias = "GOMAXPROCS")]
    pub fn procs(&self) -> usize {
        self.procs.load(Ordering::Relaxed)
    }

    /// Stores the number of Ps, as a part of [`set_procs`](crate::refinements::procs::set_procs). Called while the
    /// world is stopped.
    pub(crate) fn set_procs(&self, procs: usize) {
        // Ordering: Relaxed, because the Ms that rely on the new number are started afterwards, under the scheduler
        // lock.
        self.procs.store(procs, Ordering::Relaxed);
    }

    /// Tells all Ps whether they are [alone](Processor::is_alone). Called when this may have changed.
    pub(crate) fn update_alone(&self) {
        let alone = self.procs() == 1 && self.policy().is_none();
        self.processors.iter().for_each(|processor| processor.set_alone(alone));
    }

    /// The policy that the program has installed; `None` if Go's rules apply.
    #[inline(always)]
    pub(crate) fn policy(&self) -> Option<&'static dyn Policy> {
        // Ordering: Relaxed, because the policy is installed before the Ms are made.
        let installed = cfg!(feature = "refinements").then(|| self.policy.load(Ordering::Relaxed)).flatten();
        installed.map(|installed| installed.0)
    }

    /// Lets `policy` decide what runs, in place of Go's rules. Called before [`start`](Self::start). Allocates 16
    /// bytes, which are never freed.
    ///
    /// # Errors
    ///
    /// There is no memory, or the feature `refinements` is off. Go's rules apply then.
    pub fn set_policy(&self, policy: &'static dyn Policy) -> Result<(), OutOfResources> {
        if !cfg!(feature = "refinements") {
            return Err(OutOfResources);
        }
        let installed = make_forever(|| Ok(Installed(policy)))?;
        self.policy.store(Some(installed), Ordering::Relaxed);
        self.update_alone();
        self.processors.iter().for_each(Processor::request_slow_pick);
        Ok(())
    }

    /// The limit of the number of Ps, chosen when the scheduler was made.
    #[must_use]
    pub fn procs_limit(&self) -> usize {
        self.processors.len()
    }

    /// Whether Ms have to release their Ps. Go: `gcwaiting`.
    #[doc(alias = "gcwaiting")]
    #[inline(always)]
    pub(crate) fn is_stopping(&self) -> bool {
        cfg!(feature = "refinements") && self.world.stopping.load(Ordering::Relaxed)
    }

    /// Whether the world is stopped. Callable from interrupts.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.world.stopped.load(Ordering::Relaxed)
    }

    /// Whether there is a P whose M is in a system call. sysmon has to check such a P. Callable from interrupts.
    #[must_use]
    pub fn is_any_in_syscall(&'static self) -> bool {
        self.processors().iter().any(|processor| processor.status() == ProcessorStatus::Syscall)
    }

    /// All Gs, including dead slots.
    pub fn goroutines(&'static self) -> impl Iterator<Item = &'static Goroutine<Plat>> {
        core::iter::successors(self.all_goroutines.load(Ordering::Acquire), |goroutine| {
            goroutine.all_link.load(Ordering::Acquire)
        })
    }

    /// All Ms that have a thread.
    pub fn machines(&'static self) -> impl Iterator<Item = &'static Machine<Plat>> {
        self.machines_ever().filter(|machine| !machine.is_retired())
    }

    /// Returns the M that holds `processor`, if any. Searches all Ms only if the P is not held by the M that took it
    /// last.
    pub(crate) fn holder_of(&'static self, processor: &Processor<Plat>) -> Option<&'static Machine<Plat>> {
        let holds = |machine: &&Machine<Plat>| machine.processor().is_some_and(|held| core::ptr::eq(held, processor));
        processor.last_holder().filter(holds).or_else(|| self.machines().find(holds))
    }

    /// All Ms, including those whose thread has ended.
    fn machines_ever(&'static self) -> impl Iterator<Item = &'static Machine<Plat>> {
        core::iter::successors(self.all_machines.load(Ordering::Acquire), |machine| {
            machine.all_link.load(Ordering::Acquire)
        })
    }

    /// Number of living Gs. Gs that have been made but not started (`Idle`) do not count, nor does the background G.
    /// Go: `NumGoroutine`.
    #[must_use]
    #[doc(alias = "NumGoroutine")]
    pub fn num_goroutine(&'static self) -> usize {
        let is_alive = |goroutine: &&Goroutine<Plat>| !matches!(goroutine.status(), Status::Dead | Status::Idle);
        self.goroutines().filter(is_alive).filter(|goroutine| goroutine.id() != GoroutineId::BACKGROUND).count()
    }

    /// The sum of the counters of all Ps, including Ps that are no longer in use. `spawned` also includes the Gs that
    /// callers without a P have spawned.
    #[must_use]
    pub fn counts(&'static self) -> Counts {
        let mut total = Counts::default();
        for processor in &self.processors {
            total += processor.counts();
        }
        total.spawned += self.started_without_processor.load(Ordering::Relaxed);
        total
    }

    /// The scheduling latencies of a sample of all Gs.
    #[must_use]
    pub fn latencies(&'static self) -> Latencies {
        let mut total = Latencies::default();
        for processor in &self.processors {
            total += processor.latencies();
        }
        total
    }

    /// Adds a new slot to the list of all Gs. Go: `allgadd`.
    pub(crate) fn register(&self, goroutine: &'static Goroutine<Plat>) {
        push_forever(&self.all_goroutines, goroutine, |goroutine| &goroutine.all_link);
    }

    /// Returns the first id of a new batch of ids for Gs.
    pub(crate) fn take_goroutine_ids(&self) -> u64 {
        self.next_id.fetch_add(GOROUTINE_ID_BATCH, Ordering::Relaxed)
    }

    /// Whether [`end_machines`](Self::end_machines) was called in this run of the scheduler.
    pub(crate) fn is_shut_down(&self) -> bool {
        self.shut_down.load(Ordering::Acquire)
    }

    /// Resets a scheduler that has been shut down to the state of a new one with `processors` Ps. Called when the
    /// threads of its Ms have ended, all its Gs are dead, and no timer is set. The ids of new Gs continue from the old
    /// ones, because dead slots and handles keep their ids.
    ///
    /// # Panics
    ///
    /// `processors` is 0 or above the limit of the number of Ps.
    #[cfg(any(feature = "std", test))]
    #[track_caller]
    pub(crate) fn renew(&'static self, processors: usize) {
        assert_number_of_processors(processors, self.procs_limit());
        let _pinned = Pinned::<Plat>::of_scheduler();
        self.main_exited.store(false, Ordering::Relaxed);
        self.started_without_processor.store(0, Ordering::Relaxed);
        self.spinning.store(0, Ordering::Relaxed);
        self.idle_processors.store(0, Ordering::Relaxed);
        self.poller.store(None, Ordering::Relaxed);
        self.timekeeper.store(None, Ordering::Relaxed);
        self.world.queue.lock().stops = Default::default();
        self.outside.tracer.renew();
        self.set_procs(processors);
        let mut shared = self.shared.lock();
        for processor in &self.processors {
            processor.renew();
        }
        self.policy.store(None, Ordering::Relaxed);
        self.update_alone();
        let old = core::mem::replace(&mut *shared, Shared::new(processors));
        shared.retired_machines = old.retired_machines;
        // The queue is kept, because it has room for all slots.
        debug_assert!(old.global.is_empty(), "all Gs of the last run are dead");
        shared.global = old.global;
        for processor in self.processors() {
            self.put_idle_processor(&mut shared, processor);
        }
        for machine in self.machines() {
            machine.renew();
            machine.set_retired(true);
            shared.retired_machines.push_back(machine);
        }
        drop(shared);
        self.shut_down.store(false, Ordering::Release);
    }

    /// Makes each M exit when it next finds no work. Does not stop running Gs.
    pub(crate) fn end_machines(&'static self) {
        self.shut_down.store(true, Ordering::Release);
        // Ordering: the partner of this fence is the fence in `add_machine`. Either this loop finds a new M, or
        // `add_machine` sees that the scheduler is shut down.
        crate::base::atomic::fence(Ordering::SeqCst);
        for machine in self.machines_ever() {
            Plat::unpark_thread(machine);
        }
    }
}

impl<Plat: Platform> fmt::Debug for Scheduler<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler")
            .field("procs", &self.procs())
            .field("spinning", &self.spinning)
            .field("idle_processors", &self.idle_processors)
            .field("global_length", &self.global_length)
            .finish_non_exhaustive()
    }
}
