//! P: the right to run Gs, and the state that an M needs while it runs them.

#[cfg(any(feature = "std", test))]
mod renewal;

use core::fmt;
use core::mem::offset_of;

use crate::base::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::base::id::GoroutineId;
pub use crate::base::id::ProcessorId;
use crate::base::instant::Instant;
use crate::base::list::Linked;
use crate::base::reference::AtomicRef;
use crate::base::run_queue::RunQueue;
use crate::entities::current_call::CurrentCall;
use crate::entities::current_slice::CurrentSlice;
use crate::entities::free_list::FreeList;
use crate::entities::goroutine::Goroutine;
use crate::entities::machine::Machine;
pub use crate::entities::processor_status::ProcessorStatus;
use crate::entities::processor_status::StatusWord;
use crate::entities::ranked::RankedGoroutines;
use crate::entities::sampler::Sampler;
use crate::entities::timers::Timers;
use crate::entities::urgent_queue::UrgentQueue;
use crate::platform::Platform;
use crate::record::counters::{Counters, Counts};
use crate::record::latency::{Latencies, LatencyCounter};
use crate::record::trace::EventKind;
use crate::record::trace_ring::Tracer;

/// At least once in this many ticks a P checks the global queue first. Otherwise two Gs that keep readying each other
/// could starve that queue. Go: the `61` in `findRunnable`.
pub const GLOBAL_QUEUE_INTERVAL: u64 = 61;

/// A P. Go: `p` (runtime/runtime2.go).
///
/// The fields belong to the M that holds the P, unless stated otherwise.
#[doc(alias = "p")]
// The Ps of a scheduler are in one array. They are aligned as `CachePadded` would align them, so that no two Ps share a
// cache line. They are not wrapped in `CachePadded`, because the array is public as a slice of Ps.
#[repr(align(128))]
pub struct Processor<Plat: Platform> {
    id: ProcessorId,
    pub(crate) status: StatusWord,
    /// See [`last_holder`](Self::last_holder).
    last_holder: AtomicRef<Machine<Plat>>,
    /// The local run queue. Other Ms steal Gs from it.
    pub(crate) queue: RunQueue<Goroutine<Plat>, Plat>,
    /// The latest time that was read for this P, by an M or by sysmon.
    clock: AtomicU64,
    /// Number of Gs picked with a slice of their own. Read by sysmon. Go: `schedtick`.
    ///
    /// 64 bits never wrap: at one tick per nanosecond, a wrap would take 584 years. (32 bits would wrap in under a
    /// minute if one G did nothing but yield. The comparison with `slow_pick_tick` would be wrong even earlier.)
    tick: AtomicU64,
    /// The tick at which the global queue is checked before the local one.
    global_tick: AtomicU64,
    /// When the tick reaches this value, the next pick is a slow one. The value is that of `global_tick`, or a lower
    /// one if a slow pick was requested. Interrupt handlers may lower this value, too.
    slow_pick_tick: AtomicU64,
    /// The Gs that an event has readied. Other Ms may append Gs and take them.
    pub(crate) urgent: UrgentQueue<Plat>,
    /// The Gs that a [policy](crate::policy) has placed here. Other Ms may place Gs and take them.
    pub(crate) ranked: RankedGoroutines<Plat>,
    /// Until when the Gs of the urgent queue may run one after the other, in nanoseconds; see `urgent`.
    pub(crate) urgent_until: AtomicU64,
    /// The tick at which a G of the urgent queue was last picked. If this is not the current tick, the P has picked
    /// another G since.
    pub(crate) urgent_tick: AtomicU64,
    /// Number of system calls entered. Read by sysmon. Go: `syscalltick`.
    pub(crate) syscall_tick: AtomicU32,
    /// The timers of this P. Other Ms may read and run them.
    pub(crate) timers: Timers<Plat>,
    /// The state of the current slice. Used by the timer's interrupt handler of the CPU that runs the P, or by sysmon.
    pub(crate) slice: CurrentSlice,
    /// The state of the current system call. Used by sysmon.
    pub(crate) call: CurrentCall,
    /// The free slots of this P.
    pub(crate) free: FreeList<Goroutine<Plat>>,
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
impl<Plat: Platform> Processor<Plat> {
    pub(crate) const ID: usize = offset_of!(Self, id);
    pub(crate) const TICK: usize = offset_of!(Self, tick);
}

impl<Plat: Platform> Processor<Plat> {
    pub(crate) fn new(index: usize) -> Self {
        let id = u32::try_from(index).unwrap_or(u32::MAX);
        Self {
            id: ProcessorId(id),
            status: StatusWord::new(),
            last_holder: AtomicRef::none(),
            queue: RunQueue::new(),
            clock: AtomicU64::new(0),
            tick: AtomicU64::new(0),
            global_tick: AtomicU64::new(GLOBAL_QUEUE_INTERVAL),
            slow_pick_tick: AtomicU64::new(GLOBAL_QUEUE_INTERVAL),
            urgent: UrgentQueue::new(),
            ranked: RankedGoroutines::new(),
            urgent_until: AtomicU64::new(0),
            urgent_tick: AtomicU64::new(0),
            syscall_tick: AtomicU32::new(0),
            timers: Timers::new().unwrap_or_else(|error| panic!("cannot make a P: {error}")),
            slice: CurrentSlice::new(),
            call: CurrentCall::new(),
            free: FreeList::new(),
            next_id: AtomicU64::new(0),
            random: AtomicU64::new(Plat::seed(index) | 1),
            link: AtomicRef::none(),
            counters: Counters::new(),
            latency: LatencyCounter::new(),
            tracer: Tracer::new(),
            sampler: Sampler::new(),
            alone: AtomicBool::new(false),
        }
    }

    /// The number of the P.
    #[must_use]
    pub fn id(&self) -> ProcessorId {
        self.id
    }

    /// A time that was read recently: at most about one slice ago while an M holds this P. Takes one load.
    #[inline(always)]
    pub(crate) fn clock(&self) -> Instant {
        Instant::from_nanos(self.clock.load(Ordering::Relaxed))
    }

    /// Sets the clock to `now`, a time that has just been read.
    #[inline(always)]
    pub(crate) fn set_clock(&self, now: Instant) {
        self.clock.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// The status of the P. A caller on another M may get an outdated answer.
    #[must_use]
    pub fn status(&self) -> ProcessorStatus {
        self.status.get()
    }

    /// The scheduling latencies of a sample of the Gs that ran on this P.
    #[must_use]
    pub fn latencies(&self) -> Latencies {
        self.latency.read()
    }

    /// The counters of this P.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// The M that last took the P, if any: usually the holder. Any M may call this, and may get an
    /// outdated answer. Go: `p.m`.
    pub(crate) fn last_holder(&self) -> Option<&'static Machine<Plat>> {
        // Ordering: Acquire, because the caller may find an M here that it has not yet seen in the list of all Ms.
        // Partner: the Release in `set_holder`.
        self.last_holder.load(Ordering::Acquire)
    }

    /// Sets [`last_holder`](Self::last_holder). Called by an M that takes the P.
    pub(crate) fn set_holder(&self, machine: &'static Machine<Plat>) {
        self.last_holder.store(Some(machine), Ordering::Release);
    }

    /// Number of Gs in the P's ring; `runnext` does not count.
    #[must_use]
    pub fn queue_length(&self) -> usize {
        self.queue.len()
    }

    /// Number of Gs picked with a slice of their own. If two calls return the same number, no new slice has begun on
    /// this P in between.
    #[must_use]
    #[doc(alias = "schedtick")]
    pub fn tick(&self) -> u64 {
        self.tick.load(Ordering::Relaxed)
    }

    /// Counts a pick of a G that begins a slice of its own.
    #[inline(always)]
    pub(crate) fn advance_tick(&self) {
        self.tick.store(self.tick.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Sets the tick, for a test of what happens after many ticks.
    #[cfg(all(test, feature = "std"))]
    pub(crate) fn set_tick(&self, tick: u64) {
        self.tick.store(tick, Ordering::Relaxed);
    }

    /// Whether the next pick must be a slow one, by g0; see `pick`.
    #[inline(always)]
    pub(crate) fn needs_slow_pick(&self) -> bool {
        // Go computes `schedtick % 61`. This comparison needs no division. Without requests it becomes true every 61
        // ticks; a request makes it true at once. A test for equality could miss a request, because the interrupt
        // handler that lowers `slow_pick_tick` may interrupt `advance_tick` between the load and the store of the tick.
        self.tick() >= self.slow_pick_tick.load(Ordering::Relaxed)
    }

    /// Makes the next pick a slow one. Reliable only if called by the M that holds this P, or by an interrupt handler
    /// on the CPU of that M. The request of any other caller is lost if the holder begins a slow pick at the same time.
    pub(crate) fn request_slow_pick(&self) {
        self.slow_pick_tick.store(self.tick(), Ordering::Relaxed);
    }

    /// Begins a slow pick. Requests that came before this call are cleared; a later request leads to another slow pick.
    /// Returns whether to check the global queue before the local one. If so, the next such check is scheduled
    /// [`GLOBAL_QUEUE_INTERVAL`] ticks later.
    pub(crate) fn begin_slow_pick(&self) -> bool {
        let is_check_due = self.is_global_check_due();
        if is_check_due {
            self.global_tick.store(self.tick() + GLOBAL_QUEUE_INTERVAL, Ordering::Relaxed);
            self.sampler.advance();
        }
        let next = if self.sampler.wants_slow_picks() { self.tick() } else { self.global_tick.load(Ordering::Relaxed) };
        self.slow_pick_tick.store(next, Ordering::Relaxed);
        is_check_due
    }

    /// Whether the next pick checks the global queue before the local one.
    pub(crate) fn is_global_check_due(&self) -> bool {
        self.tick() >= self.global_tick.load(Ordering::Relaxed)
    }

    /// Makes the next pick check the global queue first. Reliable for the same callers as
    /// [`request_slow_pick`](Self::request_slow_pick).
    pub(crate) fn request_global_check(&self) {
        self.global_tick.store(self.tick(), Ordering::Relaxed);
        self.slow_pick_tick.store(self.tick(), Ordering::Relaxed);
    }

    /// Takes the P from an M that is in a system call. Returns whether the caller, which hands the P off, has got it.
    pub(crate) fn claim_to_hand_off(&self) -> bool {
        let is_claimed = self.status.claim_from_syscall();
        if is_claimed {
            self.counters.retakes.add(1);
            self.tracer.note::<Plat>(EventKind::Retake, None, 0);
        }
        is_claimed
    }

    /// Takes the G out of `runnext`, so that it goes to the tail of the ring.
    pub(crate) fn kick_next(&self) -> Option<&'static Goroutine<Plat>> {
        self.queue.pop_next().inspect(|next| self.note_kick(next))
    }

    /// Records that `goroutine`, which the P would run next, goes to the tail of the ring.
    pub(crate) fn note_kick(&self, goroutine: &Goroutine<Plat>) {
        self.tracer.note::<Plat>(EventKind::Kick, Some(goroutine.id()), 0);
    }

    /// Begins a slice for `found`, which the holder of this P has stolen from `victim`. The other stolen Gs are in the
    /// ring, which was empty before.
    pub(crate) fn begin_stolen(&self, victim: &Self, found: &Goroutine<Plat>) {
        self.advance_tick();
        self.note_steal(victim, found, 1 + self.queue_length());
    }

    /// Records that the holder has stolen `count` Gs from `victim`, of which `last` is the last one.
    pub(crate) fn note_steal(&self, victim: &Self, last: &Goroutine<Plat>, count: usize) {
        let detail = u64::from(victim.id.get()) | (count as u64) << 32;
        self.tracer.note::<Plat>(EventKind::Steal, Some(last.id()), detail);
    }

    /// Begins a slice for `first`, the first of `count` Gs that the holder of this P has taken from the global queue.
    pub(crate) fn begin_global(&self, first: &Goroutine<Plat>, count: u32) {
        self.advance_tick();
        self.note_global_take(first, count);
    }

    /// Counts and records that the holder has taken `count` Gs from the global queue, of which `first` is the first.
    pub(crate) fn note_global_take(&self, first: &Goroutine<Plat>, count: u32) {
        self.counters.global_takes.add(count.into());
        self.tracer.note::<Plat>(EventKind::GlobalTake, Some(first.id()), count.into());
    }

    /// Whether a fast path on this P has to record how a G leaves. Costs nothing on platforms without exact traces.
    #[inline(always)]
    pub(crate) fn records_every_leave(&self) -> bool {
        Plat::EXACT_TRACES && self.sampler.is_exact()
    }

    /// Whether this is the only P in use, so that its holder need not wake another M to share work. Also `false` if a
    /// [policy](crate::policy) is installed, which has to be asked about each G that is enqueued. Each P has a copy
    /// of this flag, because the flag is faster to read than the number of Ps. It saves two to three instructions per
    /// enqueued G, and the locked instructions of [`RunQueue::pop`].
    #[inline(always)]
    pub(crate) fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Relaxed)
    }

    /// Sets [`is_alone`](Self::is_alone). Called when the number of Ps is set or a policy is installed.
    pub(crate) fn set_alone(&self, alone: bool) {
        self.alone.store(alone, Ordering::Relaxed);
    }

    /// Returns a random number (xorshift64*). Go: `cheaprand`.
    pub(crate) fn random(&self) -> u32 {
        let mut state = self.random.load(Ordering::Relaxed);
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.random.store(state, Ordering::Relaxed);
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    }

    /// Returns a new id for a G from this P's batch of ids. If the batch is used up, `refill` returns the first id of a
    /// new batch.
    #[inline]
    pub(crate) fn next_goroutine_id(&self, refill: impl FnOnce() -> u64) -> GoroutineId {
        let mut id = self.next_id.load(Ordering::Relaxed);
        if id.is_multiple_of(GOROUTINE_ID_BATCH) {
            id = refill();
        }
        self.next_id.store(id + 1, Ordering::Relaxed);
        GoroutineId(id)
    }

    /// Whether a G is in a queue of the P. A caller on another M may get an outdated answer.
    #[inline(always)]
    pub(crate) fn has_queued(&self) -> bool {
        !self.queue.is_empty() || !self.urgent.is_empty() || !self.ranked.is_empty()
    }

    /// Whether the P has a G to run or a due timer. A caller on another M may get an outdated answer.
    pub(crate) fn has_work(&self) -> bool {
        self.has_queued() || self.has_due_timer()
    }

    /// Whether a timer of the P is due. Reads the clock only if a timer is armed.
    #[inline(always)]
    pub(crate) fn has_due_timer(&self) -> bool {
        let earliest = self.timers.earliest();
        earliest != Instant::NEVER && earliest <= Plat::now()
    }
}

/// Number of ids for Gs that a P takes from the scheduler at once. The first id of each batch is a multiple of this
/// number. Go: `_GoidCacheBatch`.
pub(crate) const GOROUTINE_ID_BATCH: u64 = 16;

impl<Plat: Platform> Linked for Processor<Plat> {
    fn link(&self) -> &AtomicRef<Self> {
        &self.link
    }
}

impl<Plat: Platform> fmt::Debug for Processor<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processor")
            .field("id", &self.id)
            .field("status", &self.status())
            .field("queue_length", &self.queue_length())
            .finish_non_exhaustive()
    }
}
