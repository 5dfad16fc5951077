//! P: the right to run Gs, and the state that an M needs while it runs them.

use core::fmt;
use core::mem::offset_of;

use crate::base::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::base::id::GoroutineId;
pub use crate::base::id::ProcessorId;
use crate::base::instant::Instant;
use crate::base::list::Linked;
use crate::base::reference::AtomicRef;
use crate::base::run_queue::RunQueue;
use crate::entities::free_list::FreeList;
use crate::entities::goroutine::Goroutine;
pub use crate::entities::processor_status::ProcessorStatus;
use crate::entities::processor_status::StatusWord;
use crate::entities::sampler::Sampler;
use crate::entities::slice::{CurrentCall, CurrentSlice};
use crate::entities::timers::Timers;
use crate::platform::Platform;
use crate::record::counters::{Counters, Counts};
use crate::record::latency::{Latencies, LatencyCounter};
use crate::record::trace::Tracer;

/// Every so many ticks a P checks the global queue first, so that two Gs that keep readying each other cannot starve
/// it. Go: the `61` in `findRunnable`.
pub const GLOBAL_QUEUE_INTERVAL: u64 = 61;

/// A P. Go: `p` (runtime/runtime2.go).
///
/// The fields belong to the M that holds the P, unless noted otherwise.
#[doc(alias = "p")]
#[repr(align(128))]
pub struct Processor<P: Platform> {
    id: ProcessorId,
    pub(crate) status: StatusWord,
    /// Thieves take Gs from it.
    pub(crate) queue: RunQueue<Goroutine<P>, P>,
    /// The time that was read last on this P. Anyone may advance it.
    clock: AtomicU64,
    /// Gs picked with a slice of their own. Read by sysmon. Go: `schedtick`.
    ///
    /// It never wraps: at one tick in a nanosecond it would after 584 years. (32 bits would after less than a minute of a G that
    /// yields alone, and a comparison with `slow_pick_tick` would be wrong before.)
    tick: AtomicU64,
    /// The tick at which the global queue is checked before the local one.
    global_tick: AtomicU64,
    /// The tick at which the next pick is a slow one: `global_tick`, or an earlier one. Also lowered by interrupt handlers.
    slow_pick_tick: AtomicU64,
    /// Until when Gs of due timers run one after the other, in nanoseconds; see `due_timers`.
    pub(crate) due_batch_until: AtomicU64,
    /// The tick of the last of them; an old one if another G was picked before the next of them.
    pub(crate) due_batch_tick: AtomicU64,
    /// System calls entered. Read by sysmon. Go: `syscalltick`.
    pub(crate) syscall_tick: AtomicU32,
    /// Other Ms may run and read them.
    pub(crate) timers: Timers<P>,
    /// Checked by the tick handler of the CPU that runs the P, or by sysmon.
    pub(crate) slice: CurrentSlice<Goroutine<P>>,
    /// Checked by sysmon.
    pub(crate) call: CurrentCall,
    /// Dead Gs with their stacks.
    pub(crate) free: FreeList<Goroutine<P>>,
    next_id: AtomicU64,
    random: AtomicU64,
    /// Link of the idle list.
    link: AtomicRef<Self>,
    pub(crate) counters: Counters,
    pub(crate) latency: LatencyCounter,
    pub(crate) tracer: Tracer,
    pub(crate) sampler: Sampler,
    /// See [`is_alone`](Self::is_alone).
    alone: AtomicBool,
}

/// Offsets of private fields, for debuggers.
impl<P: Platform> Processor<P> {
    pub(crate) const ID: usize = offset_of!(Self, id);
    pub(crate) const TICK: usize = offset_of!(Self, tick);
}

impl<P: Platform> Processor<P> {
    pub(crate) fn new(index: usize) -> Self {
        let id = u32::try_from(index).unwrap_or(u32::MAX);
        Self {
            id: ProcessorId(id),
            status: StatusWord::new(),
            queue: RunQueue::new(),
            clock: AtomicU64::new(0),
            tick: AtomicU64::new(0),
            global_tick: AtomicU64::new(GLOBAL_QUEUE_INTERVAL),
            slow_pick_tick: AtomicU64::new(GLOBAL_QUEUE_INTERVAL),
            due_batch_until: AtomicU64::new(0),
            due_batch_tick: AtomicU64::new(0),
            syscall_tick: AtomicU32::new(0),
            timers: Timers::new().unwrap_or_else(|error| panic!("cannot make a P: {error}")),
            slice: CurrentSlice::new(),
            call: CurrentCall::new(),
            free: FreeList::new(),
            next_id: AtomicU64::new(0),
            random: AtomicU64::new(P::seed(index) | 1),
            link: AtomicRef::none(),
            counters: Counters::new(),
            latency: LatencyCounter::new(),
            tracer: Tracer::new(),
            sampler: Sampler::new(),
            alone: AtomicBool::new(false),
        }
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> ProcessorId {
        self.id
    }

    /// The time, at most about a slice old while this P runs. Costs one load.
    #[inline(always)]
    pub(crate) fn clock(&self) -> Instant {
        Instant::from_nanos(self.clock.load(Ordering::Relaxed))
    }

    /// Advances the clock to `now`, which has just been read.
    #[inline(always)]
    pub(crate) fn set_clock(&self, now: Instant) {
        self.clock.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Its status. From another M the answer may be outdated.
    #[must_use]
    pub fn status(&self) -> ProcessorStatus {
        self.status.get()
    }

    /// How long Gs that ran here had been runnable, for a sample of Gs.
    #[must_use]
    pub fn latencies(&self) -> Latencies {
        self.latency.read()
    }

    /// Its counts.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// Gs in its ring, without `runnext`.
    #[must_use]
    pub fn queue_length(&self) -> usize {
        self.queue.len()
    }

    /// Gs picked with a slice of their own. If it has not changed between two readings, the same slice has lasted all the
    /// time.
    #[must_use]
    #[doc(alias = "schedtick")]
    pub fn tick(&self) -> u64 {
        self.tick.load(Ordering::Relaxed)
    }

    /// Counts a G that runs in a slice of its own.
    #[inline(always)]
    pub(crate) fn advance_tick(&self) {
        self.tick.store(self.tick.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Whether the next pick has to be a slow one, by g0; see `pick`.
    #[inline(always)]
    pub(crate) fn needs_slow_pick(&self) -> bool {
        // A comparison with a tick in place of Go's `schedtick % 61`: the same ticks, and no division. Not for equality: the
        // handler that lowers `slow_pick_tick` may interrupt `advance_tick` half way.
        self.tick() >= self.slow_pick_tick.load(Ordering::Relaxed)
    }

    /// Makes the next pick a slow one. Called by the M that holds this P, or a handler on its CPU; by others, if it may be
    /// lost when the holder begins a slow pick at this moment.
    pub(crate) fn request_slow_pick(&self) {
        self.slow_pick_tick.store(self.tick(), Ordering::Relaxed);
    }

    /// A slow pick begins; requests made after this point survive it. Returns whether the global queue is to be checked before
    /// the local one, which is scheduled anew then, [`GLOBAL_QUEUE_INTERVAL`] ticks later.
    pub(crate) fn begin_slow_pick(&self) -> bool {
        let is_check_due = self.is_global_check_due();
        if is_check_due {
            self.global_tick.store(self.tick() + GLOBAL_QUEUE_INTERVAL, Ordering::Relaxed);
            self.sampler.advance();
        }
        // While a trace is taken every pick is slow.
        let next = if self.sampler.samples_all() { self.tick() } else { self.global_tick.load(Ordering::Relaxed) };
        self.slow_pick_tick.store(next, Ordering::Relaxed);
        is_check_due
    }

    /// Whether the next pick checks the global queue before the local one.
    pub(crate) fn is_global_check_due(&self) -> bool {
        self.tick() >= self.global_tick.load(Ordering::Relaxed)
    }

    /// Makes the next pick check the global queue first. Called as [`request_slow_pick`](Self::request_slow_pick).
    pub(crate) fn request_global_check(&self) {
        self.global_tick.store(self.tick(), Ordering::Relaxed);
        self.slow_pick_tick.store(self.tick(), Ordering::Relaxed);
    }

    /// Whether this is the only P in use, so that its holder has nobody to wake. Nearer at hand than the number of all.
    #[inline(always)]
    pub(crate) fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Relaxed)
    }

    /// When the number of Ps is chosen.
    pub(crate) fn set_alone(&self, alone: bool) {
        self.alone.store(alone, Ordering::Relaxed);
    }

    /// A random number. Go: `cheaprand`; here xorshift64*.
    pub(crate) fn random(&self) -> u32 {
        let mut state = self.random.load(Ordering::Relaxed);
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.random.store(state, Ordering::Relaxed);
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    }

    /// Clears the state that is only shown to people, and continues with the random numbers that follow `random`.
    #[cfg(all(feature = "std", not(gmp_loom)))]
    pub(crate) fn forget_history(&self, random: u64) {
        self.random.store(random, Ordering::Relaxed);
        self.clock.store(0, Ordering::Relaxed);
        self.counters.clear();
    }

    /// A new id for a G, from this P's batch.
    #[inline]
    pub(crate) fn next_goroutine_id(&self, refill: impl FnOnce() -> u64) -> GoroutineId {
        let mut id = self.next_id.load(Ordering::Relaxed);
        if id.is_multiple_of(GOROUTINE_ID_BATCH) {
            id = refill();
        }
        self.next_id.store(id + 1, Ordering::Relaxed);
        GoroutineId(id)
    }

    /// Whether it has something to run, or a timer is due. From another M the answer may be outdated.
    pub(crate) fn has_work(&self) -> bool {
        !self.queue.is_empty() || has_due_timer(self)
    }
}

/// Whether a timer of `processor` is due. Reads the clock only if a timer is armed.
#[inline(always)]
pub(crate) fn has_due_timer<P: Platform>(processor: &Processor<P>) -> bool {
    let earliest = processor.timers.earliest();
    earliest != Instant::NEVER && earliest <= P::now()
}

/// Ids of Gs that a P takes from the scheduler at once; each batch starts at a multiple of this. Go: `_GoidCacheBatch`.
pub(crate) const GOROUTINE_ID_BATCH: u64 = 16;

impl<P: Platform> Linked for Processor<P> {
    fn link(&self) -> &AtomicRef<Self> {
        &self.link
    }
}

impl<P: Platform> fmt::Debug for Processor<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processor")
            .field("id", &self.id)
            .field("status", &self.status())
            .field("queue_length", &self.queue_length())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "std", not(gmp_loom)))]
mod tests {
    use super::{GLOBAL_QUEUE_INTERVAL, Ordering, Processor};
    use crate::native::Native;

    /// A G that yields alone on its P ends a tick each time, and g0 picks nothing meanwhile: 2^31 ticks take less than a minute.
    #[test]
    fn slow_pick_stays_due_however_many_ticks_pass() {
        let processor = Processor::<Native>::new(0);
        assert!(!processor.needs_slow_pick());
        for passed in [0, 1, 1 << 31, 1 << 32] {
            processor.tick.store(GLOBAL_QUEUE_INTERVAL + passed, Ordering::Relaxed);
            assert!(processor.needs_slow_pick() && processor.is_global_check_due(), "{passed} ticks later");
        }
    }
}
