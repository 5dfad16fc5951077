//! M: a thread of the platform that runs Gs while it holds a P.

mod thread;

use core::fmt;
use core::mem::offset_of;

use spin::Once;

pub use self::thread::{EndedMachine, NewMachine};
use crate::base::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
pub use crate::base::id::MachineId;
use crate::base::list::Linked;
use crate::base::reference::AtomicRef;
use crate::context::SavedContext;
use crate::entities::goroutine::Goroutine;
use crate::entities::locked::Locked;
use crate::entities::processor::Processor;
use crate::entities::processor_status::ProcessorStatus;
use crate::entities::scheduler::Scheduler;
use crate::entities::shared::Shared;
use crate::entities::status::{ParkedStatus, Status};
use crate::platform::Platform;
use crate::record::trace::EventKind;

/// An M. Go: `m` (runtime/runtime2.go).
///
/// The thread's own stack is g0, on which the M searches for work. A G that leaves switches to g0 if it finds no next G
/// itself.
#[doc(alias = "m")]
pub struct Machine<Plat: Platform> {
    id: MachineId,
    scheduler: &'static Scheduler<Plat>,
    /// The status of a parked G that this M may ready without further checks. Such a G belongs to the same scheduler.
    /// It is not sampled, not locked to an M, and does not wait durably in a bubble.
    unsampled: ParkedStatus,
    /// The saved context of g0 while a G runs.
    pub(crate) g0: SavedContext,
    /// The G that runs on this M; `None` if the M is on g0.
    current: AtomicRef<Goroutine<Plat>>,
    /// The P that this M holds.
    processor: AtomicRef<Processor<Plat>>,
    /// How many times waits are forbidden for the G that runs on this M: once for each section of code in which it must
    /// not wait, and once for a stop of the world. See [`forbid_waits`](Self::forbid_waits).
    forbids_waits: AtomicU32,
    /// The G whose [`park`](crate::park::park) runs its commit on this M now, if that commit is a program's.
    committing: AtomicRef<Goroutine<Plat>>,
    /// The P that was assigned to this M, until the M takes that P. Go: `nextp`.
    pub(crate) assigned_processor: AtomicRef<Processor<Plat>>,
    /// The P that this M gave up for the current stop of the world. Go stores the opposite direction: `p.oldm`.
    pub(crate) stopped_processor: AtomicRef<Processor<Plat>>,
    /// The P that this M held when its current system call began. Go: `oldp`.
    pub(crate) old_processor: AtomicRef<Processor<Plat>>,
    /// Whether this M has no G to run and searches for one. The scheduler counts the spinning Ms. Go: `m.spinning`.
    pub(crate) spinning: AtomicBool,
    /// The time until which this M parks, if it is the timekeeper.
    pub(crate) deadline: AtomicU64,
    pub(crate) locked: Locked<Goroutine<Plat>>,
    /// Link of the idle list.
    link: AtomicRef<Self>,
    /// Link of the list of all Ms, set once.
    pub(crate) all_link: AtomicRef<Self>,
    thread: Once<Plat::Thread>,
    /// Whether the background G has asked this M to end, if it is not needed.
    pub(crate) is_asked_to_end: AtomicBool,
    /// Whether the M has no thread, or its thread is about to end. Changed under the scheduler lock.
    is_retired: AtomicBool,
}

/// Offsets of private fields, for debuggers.
impl<Plat: Platform> Machine<Plat> {
    pub(crate) const ID: usize = offset_of!(Self, id);
    pub(crate) const CURRENT: usize = offset_of!(Self, current);
    pub(crate) const PROCESSOR: usize = offset_of!(Self, processor);
}

impl<Plat: Platform> Machine<Plat> {
    pub(crate) fn new(id: MachineId, scheduler: &'static Scheduler<Plat>) -> Self {
        Self {
            id,
            scheduler,
            unsampled: ParkedStatus::unsampled(scheduler.number()),
            g0: SavedContext::new(),
            current: AtomicRef::none(),
            processor: AtomicRef::none(),
            forbids_waits: AtomicU32::new(0),
            committing: AtomicRef::none(),
            assigned_processor: AtomicRef::none(),
            stopped_processor: AtomicRef::none(),
            old_processor: AtomicRef::none(),
            spinning: AtomicBool::new(false),
            deadline: AtomicU64::new(u64::MAX),
            locked: Locked::new(),
            link: AtomicRef::none(),
            all_link: AtomicRef::none(),
            thread: Once::new(),
            is_asked_to_end: AtomicBool::new(false),
            is_retired: AtomicBool::new(true),
        }
    }

    /// The number of the M.
    #[must_use]
    pub fn id(&self) -> MachineId {
        self.id
    }

    /// The scheduler to which the M belongs.
    #[must_use]
    pub fn scheduler(&self) -> &'static Scheduler<Plat> {
        self.scheduler
    }

    /// Forbids waits of the G that runs on this M. Each call is undone by one call of
    /// [`allow_waits`](Self::allow_waits). Called for a G that has stopped the world, and in sections of code in which
    /// a G must not wait (`native`). Needed for platforms that do not count pins.
    pub(crate) fn forbid_waits(&self) {
        self.forbids_waits.fetch_add(1, Ordering::Relaxed);
    }

    /// Undoes one [`forbid_waits`](Self::forbid_waits).
    pub(crate) fn allow_waits(&self) {
        self.forbids_waits.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether the G that runs on this M must not wait.
    #[inline(always)]
    pub(crate) fn are_waits_forbidden(&self) -> bool {
        self.forbids_waits.load(Ordering::Relaxed) != 0
    }

    /// The G whose [`park`](crate::park::park) runs its commit on this M now, if that commit is a program's. A
    /// panic or an exception here is then the fault of the program.
    #[must_use]
    pub fn committing(&self) -> Option<&'static Goroutine<Plat>> {
        self.committing.load(Ordering::Relaxed)
    }

    /// Sets what [`committing`](Self::committing) returns.
    #[inline(always)]
    pub(crate) fn set_committing(&self, goroutine: Option<&'static Goroutine<Plat>>) {
        self.committing.store(goroutine, Ordering::Relaxed);
    }

    /// The status of a parked G that this M may ready without further checks: see the field `unsampled`.
    #[inline(always)]
    pub(crate) fn unsampled(&self) -> ParkedStatus {
        self.unsampled
    }

    /// Whether `goroutine` belongs to this M's scheduler.
    #[inline(always)]
    pub(crate) fn is_of_scheduler_of(&self, goroutine: &Goroutine<Plat>) -> bool {
        core::ptr::eq(self.scheduler, goroutine.scheduler())
    }

    /// The G that runs on this M; `None` on g0. A caller on another M may get an outdated answer. Code of this crate
    /// that reads fields of the G from another M calls `observe_current` instead.
    #[inline(always)]
    pub fn current_goroutine(&self) -> Option<&'static Goroutine<Plat>> {
        self.current.load(Ordering::Relaxed)
    }

    /// Like [`current_goroutine`](Self::current_goroutine), for a caller on another M, which reads fields of the G.
    pub(crate) fn observe_current(&self) -> Option<&'static Goroutine<Plat>> {
        // Ordering: Acquire, because the G may be a new slot. Partner: the Release in `set_current`.
        self.current.load(Ordering::Acquire)
    }

    /// The P that this M holds, if any. A caller on another M may get an outdated answer.
    #[inline(always)]
    pub fn processor(&self) -> Option<&'static Processor<Plat>> {
        self.processor.load(Ordering::Relaxed)
    }

    /// The G that is locked to this M, so that this G runs on no other M; `None` if there is no such G.
    #[must_use]
    #[inline(always)]
    pub fn locked_goroutine(&self) -> Option<&'static Goroutine<Plat>> {
        if cfg!(feature = "refinements") { self.locked.goroutine.load(Ordering::Relaxed) } else { None }
    }

    /// The P in whose slice the G of this M runs. Normally this is the P that this M holds. During a system call it is
    /// the P that this M has left, if no other M has taken that P since. The answer may be outdated.
    pub(crate) fn processor_of_slice(&self) -> Option<&'static Processor<Plat>> {
        let is_in_call = || self.observe_current().is_some_and(|goroutine| goroutine.status() == Status::Syscall);
        self.processor().or_else(|| {
            let left = self.old_processor.load(Ordering::Relaxed);
            left.filter(|processor| is_in_call() && processor.status() == ProcessorStatus::Syscall)
        })
    }

    /// The calling G, which runs on this M.
    ///
    /// # Panics
    ///
    /// The caller is on g0.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn running_goroutine(&self) -> &'static Goroutine<Plat> {
        match self.current_goroutine() {
            Some(goroutine) => goroutine,
            None => Plat::misuse(format_args!("{}", self.why_no_goroutine())),
        }
    }

    /// Says why no G runs on this M, for the message of a panic.
    #[cold]
    pub(crate) fn why_no_goroutine(&self) -> &'static str {
        match self.committing() {
            Some(_) => "called by the commit of a park: only a G may do this",
            None => "called on g0: only a G may do this",
        }
    }

    /// The P that the calling M holds.
    ///
    /// # Panics
    ///
    /// The M holds no P, because it is in a system call.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn held_processor(&self) -> &'static Processor<Plat> {
        match self.processor() {
            Some(processor) => processor,
            None => Plat::misuse(format_args!("an M without a P may not do this: it is in a system call")),
        }
    }

    /// The platform's thread; `None` until the thread has been started.
    #[must_use]
    pub fn thread(&self) -> Option<&Plat::Thread> {
        self.thread.get()
    }

    pub(crate) fn set_thread(&self, thread: Plat::Thread) {
        self.thread.call_once(|| thread);
    }

    #[inline(always)]
    pub(crate) fn set_current(&self, goroutine: Option<&'static Goroutine<Plat>>) {
        // Ordering: Release publishes the slot of the G, which may be new. Partner: the Acquire in `observe_current`.
        self.current.store(goroutine, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn set_processor(&self, processor: Option<&'static Processor<Plat>>) {
        self.processor.store(processor, Ordering::Relaxed);
    }

    /// Makes this M the holder of `processor`.
    pub(crate) fn hold(&self, processor: &'static Processor<Plat>) {
        self.set_processor(Some(processor));
        if self.locked_goroutine().is_some() {
            processor.request_slow_pick();
        }
    }

    /// Like [`hold`](Self::hold), for an M that held no P, and that takes `processor` to run Gs or to search for them.
    pub(crate) fn take(&'static self, processor: &'static Processor<Plat>) {
        self.hold(processor);
        processor.set_holder(self);
        processor.tracer.note::<Plat>(EventKind::Busy, None, self.id.get().into());
        if self.is_spinning() {
            processor.tracer.note::<Plat>(EventKind::Spin, None, 0);
        }
    }

    /// Gives up `processor`, because this M has found nothing to run.
    pub(crate) fn leave_idle(&self, processor: &Processor<Plat>) {
        processor.tracer.note::<Plat>(EventKind::Idle, None, 0);
        self.set_processor(None);
    }

    /// Gives up `processor`, because `me` begins a system call. `kind` is the event that a trace records.
    #[inline(always)]
    pub(crate) fn begin_call(&self, processor: &'static Processor<Plat>, me: &Goroutine<Plat>, kind: EventKind) {
        me.set_status(Status::Syscall);
        processor.tracer.note_with::<Plat>(kind, || (Some(me.id()), 0));
        self.old_processor.store(Some(processor), Ordering::Relaxed);
        self.set_processor(None);
    }

    /// Continues `me` with `processor` at the end of a system call.
    #[inline(always)]
    pub(crate) fn end_call(&self, processor: &'static Processor<Plat>, me: &Goroutine<Plat>) {
        self.hold(processor);
        me.set_status(Status::Running);
        processor.tracer.note_with::<Plat>(EventKind::SyscallExit, || (Some(me.id()), self.id.get().into()));
    }

    /// Makes this M, which holds `processor`, spin.
    pub(crate) fn begin_to_spin(&self, processor: &Processor<Plat>) {
        processor.tracer.note::<Plat>(EventKind::Spin, None, 0);
        self.spinning.store(true, Ordering::Relaxed);
        self.scheduler.spinning.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends the spinning of this M. Returns whether the M was spinning.
    pub(crate) fn end_spinning(&self) -> bool {
        let was_spinning = self.spinning.swap(false, Ordering::Relaxed);
        if was_spinning {
            self.scheduler.spinning.fetch_sub(1, Ordering::SeqCst);
        }
        was_spinning
    }

    /// Counts this M as idle until it is assigned a P. Does nothing if the M has already been assigned one.
    pub(crate) fn begin_to_wait(&self, shared: &mut Shared<Plat>) {
        if self.assigned_processor.load(Ordering::Relaxed).is_none() && !self.locked.waits.swap(true, Ordering::Relaxed)
        {
            shared.idle_locked += 1;
        }
    }

    /// Whether this M has no thread, or its thread is about to end. When a retired M gets a new thread, that thread
    /// waits until this function returns `false`. The thread cannot rely on an unpark alone, because the M's park token
    /// may have been set before the M was retired.
    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Acquire)
    }

    /// Stores whether the M is [retired](Self::is_retired). Called under the scheduler lock. The argument is `false` if
    /// the M has got a thread and is about to be put on the idle list. It is `true` if the M has been taken off the
    /// idle list, because its thread is about to end or has ended.
    pub(crate) fn set_retired(&self, is_retired: bool) {
        // Ordering: Release publishes what this thread has done with the M. Partner: the Acquire in `is_retired`.
        self.is_retired.store(is_retired, Ordering::Release);
    }

    /// Resets the M after a run of its scheduler. The run and the thread of the M have ended.
    #[cfg(any(feature = "std", test))]
    pub(crate) fn renew(&self) {
        for processor in [&self.processor, &self.assigned_processor, &self.stopped_processor, &self.old_processor] {
            processor.store(None, Ordering::Relaxed);
        }
        self.current.store(None, Ordering::Relaxed);
        self.deadline.store(u64::MAX, Ordering::Relaxed);
        self.spinning.store(false, Ordering::Relaxed);
        self.forbids_waits.store(0, Ordering::Relaxed);
        self.committing.store(None, Ordering::Relaxed);
        self.locked.waits.store(false, Ordering::Relaxed);
    }

    /// Clears what no later step reads: the link of an M that is not idle, and, if the M holds a P, the P of its last
    /// system call.
    #[cfg(feature = "std")]
    pub(crate) fn forget_links(&self) {
        let holds = self.processor().is_some();
        if holds {
            self.old_processor.store(None, Ordering::Relaxed);
        }
        if holds || self.current_goroutine().is_some() || self.assigned_processor.load(Ordering::Relaxed).is_some() {
            self.link.store(None, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_spinning(&self) -> bool {
        self.spinning.load(Ordering::Relaxed)
    }
}

impl<Plat: Platform> Linked for Machine<Plat> {
    fn link(&self) -> &AtomicRef<Self> {
        &self.link
    }
}

impl<Plat: Platform> fmt::Debug for Machine<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("id", &self.id).field("spinning", &self.spinning).finish_non_exhaustive()
    }
}
