//! G: a flow of control with a stack of its own, and the life cycle of its slot.
//!
//! ```text
//!            spawn                     execute
//!   Dead ─────────────────▶ Runnable ◀──────────▶ Running ──▶ Dead (on a free list)
//!     │ prepare               ▲  ▲ yield, preempt   │  ▲
//!     └───────▶ Idle ─────────┘  │             park │  │ exit_syscall
//!                     start      │ ready            │  │
//!                                └───── Waiting ◀───┤  │
//!                                                   └──┴── Syscall
//! ```
//!
//! Only a G that is prepared first and started later is `Idle`. Slots are never freed, only reused, so a reference to a
//! slot is always valid. No id is used twice, except that of the main G, which each run of a scheduler uses again. So
//! the id distinguishes the lives of a slot within a run. All fields that change are atomics, except the storage
//! `body`. Most accesses are relaxed. Only the owner of the G writes its fields. The owner is its creator, the M that
//! runs it, the waker that has ended its wait, or an M that takes it from a queue. The exceptions are `completion`, by
//! which a G and its join handle agree on which of them takes or drops the result, and `wait`, which every waker may
//! try to claim. The queues order the accesses of each owner before the accesses of the next owner.

mod stack;
mod wait;
mod wait_location;

use core::fmt;
use core::mem::offset_of;

use crate::base::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::base::error::JoinError;
pub use crate::base::id::GoroutineId;
use crate::base::instant::Instant;
use crate::base::list::Linked;
use crate::base::reference::AtomicRef;
use crate::context::SavedContext;
use crate::entities::bubble::{AtomicBubble, BubblePointer, BubbleRef};
use crate::entities::free_list::BATCHES;
use crate::entities::inline_body::InlineBody;
use crate::entities::machine::Machine;
use crate::entities::name::{Name, NameCell};
use crate::entities::ranked::Ranking;
use crate::entities::scheduler::Scheduler;
use crate::entities::status::STATUS;
pub use crate::entities::status::Status;
use crate::entities::timers::Timer;
use crate::entities::wait_reason::Awaited;
pub use crate::entities::wait_reason::WaitReason;
use crate::entities::waiter::Waiter;
use crate::platform::{Pinned, Platform};
pub(crate) use stack::StackSize;
pub(crate) use wait::WaitGeneration;
pub(crate) use wait_location::WaitLocation;

/// Functions for the body of a G. They are called through pointers, because only the G's spawner knew the types of
/// closure and result.
pub(crate) struct BodyFunctions<Plat: Platform> {
    /// Stores an error as the G's result, readies the G that waits for the result, if any, and removes this G from its
    /// scope, if it has one. The closure has already been moved out of the G.
    pub(crate) fail: fn(&Pinned<Plat>, &'static Goroutine<Plat>, JoinError),
    /// Returns the address at which the result begins on a stack that ends at the argument. Returns the argument if the
    /// result is in the G.
    #[cfg(feature = "std")]
    pub(crate) result_start: fn(usize) -> usize,
    /// Returns the name of the function of the program that the G runs, for traces.
    pub(crate) name: fn() -> &'static str,
}

/// A G. Go: `g` (runtime/runtime2.go).
///
/// The fields that a G needs if it only runs and ends come first, in 128 bytes. Gs are not aligned to cache lines.
/// Alignment can make the distance between two Gs a power of two, so that many Gs compete for the same few cache sets.
/// (In the benchmark `ring_1000` a token goes around a ring of 1000 Gs. On threads, a hop from one G to the next took
/// 59 ns with alignment and 37 ns without.)
#[doc(alias = "g")]
#[repr(C)]
pub struct Goroutine<Plat: Platform> {
    /// The saved context while the G does not run. It is the first field, so that its address is that of the G.
    pub(crate) context: SavedContext,
    /// Link of the run queue or list that contains the G. At most one queue or list contains the G at a time.
    link: AtomicRef<Self>,
    /// A [`Status`], or a [`ParkedStatus`](crate::entities::status::ParkedStatus).
    status: AtomicU32,
    wait_reason: AtomicU8,
    stack_size: AtomicU8,
    has_name: AtomicBool,
    id: AtomicU64,
    stack_top: AtomicUsize,
    creator: AtomicU64,
    stack_bytes: AtomicUsize,
    /// The completion word, which this G shares with its join handle; see [`crate::lifecycle::join`].
    pub(crate) completion: AtomicUsize,
    /// The functions for the body of this G.
    pub(crate) body_functions: AtomicRef<BodyFunctions<Plat>>,
    /// The bubble of the G; `None` for nearly all Gs. Go: `g.bubble`.
    pub(crate) bubble: AtomicBubble<Plat>,
    /// While the G waits, the time when its wait began. After an event has ended the wait, the time until which the G
    /// is urgent. So the time is in the future only if the G is urgent; see [`is_urgent`](Self::is_urgent).
    waits_since_or_urgent_until: AtomicU64,
    /// Storage for a small closure until it runs, then for a small result. Its first 16 bytes are within the first 128
    /// bytes of the G.
    pub(crate) body: InlineBody,
    /// The waiter through which the last wait with several wakers was claimed. `None` if a deadline has ended this
    /// wait, or while it has not ended. Go: `param`.
    pub(crate) woken_by: AtomicRef<Waiter<Plat>>,
    /// During a wait with several wakers, the wait generation of this wait, an odd number. Beginning such a wait and
    /// claiming its end each increment this field.
    wait: AtomicU64,
    /// The line of code at which the G waits or has last waited.
    #[cfg(feature = "std")]
    wait_location: AtomicRef<core::panic::Location<'static>>,
    /// The waiter that the G uses for a wait in one queue, with or without a limit: that of a channel, a lock or the
    /// like. (Each case of a select has a waiter of its own.)
    pub(crate) waiter: Waiter<Plat>,
    /// The timer for sleeps and for waits with a deadline. Go: `g.timer`.
    pub(crate) timer: Timer<Plat>,
    /// The waiter that the G adds to the queue of the context (`cancel`) that limits a wait.
    pub(crate) context_waiter: Waiter<Plat>,
    /// The M to which the G is locked. Go: `lockedm`.
    locked_machine: AtomicRef<Machine<Plat>>,
    /// The address of the [`Children`](crate::lifecycle::children::Children) that count this G, if it is a scoped G;
    /// see [`crate::library::scope`].
    pub(crate) scope: AtomicUsize,
    /// The address of the first entry in this G's list of actions for the case that it is abandoned; 0 if the list is
    /// empty. See [`crate::lifecycle::deferred`]. Go: `_defer`.
    pub(crate) deferred: AtomicUsize,
    /// When the G became runnable, if it is sampled; see [`crate::refinements::sampling`].
    runnable_since: AtomicU64,
    name: NameCell,
    /// What a [policy](crate::policy) knows about the G.
    pub(crate) ranking: Ranking<Plat>,
    /// Link from the first slot of a batch of dead Gs to the first slot of the next batch.
    batch_link: AtomicRef<Self>,
    /// Link of the list of all Gs, set once.
    pub(crate) all_link: AtomicRef<Self>,
    /// The scheduler whose Ms run the G, in all lives of the slot.
    scheduler: &'static Scheduler<Plat>,
}

/// Offsets of private fields, for debuggers.
impl<Plat: Platform> Goroutine<Plat> {
    pub(crate) const ID: usize = offset_of!(Self, id);
    pub(crate) const STATUS: usize = offset_of!(Self, status);
    pub(crate) const WAIT_REASON: usize = offset_of!(Self, wait_reason);
    pub(crate) const CREATOR: usize = offset_of!(Self, creator);
    pub(crate) const STACK_TOP: usize = offset_of!(Self, stack_top);
    pub(crate) const STACK_BYTES: usize = offset_of!(Self, stack_bytes);
}

impl<Plat: Platform> Goroutine<Plat> {
    /// Makes a slot of `scheduler`. The slot has no stack and is on no list.
    #[inline]
    pub(crate) fn new(scheduler: &'static Scheduler<Plat>) -> Self {
        Self {
            context: SavedContext::new(),
            link: AtomicRef::none(),
            status: AtomicU32::new(Status::Dead as u32),
            wait_reason: AtomicU8::new(WaitReason::None as u8),
            stack_size: AtomicU8::new(StackSize::Standard as u8),
            has_name: AtomicBool::new(false),
            id: AtomicU64::new(0),
            creator: AtomicU64::new(0),
            stack_top: AtomicUsize::new(0),
            stack_bytes: AtomicUsize::new(0),
            completion: AtomicUsize::new(0),
            body_functions: AtomicRef::none(),
            bubble: AtomicBubble::none(),
            waits_since_or_urgent_until: AtomicU64::new(0),
            body: InlineBody::new(),
            woken_by: AtomicRef::none(),
            wait: AtomicU64::new(0),
            #[cfg(feature = "std")]
            wait_location: AtomicRef::none(),
            waiter: Waiter::new(),
            timer: Timer::new(),
            context_waiter: Waiter::new(),
            locked_machine: AtomicRef::none(),
            scope: AtomicUsize::new(0),
            deferred: AtomicUsize::new(0),
            runnable_since: AtomicU64::new(0),
            name: NameCell::new(),
            ranking: Ranking::new(),
            batch_link: AtomicRef::none(),
            all_link: AtomicRef::none(),
            scheduler,
        }
    }

    /// The id of the G in this life of the slot.
    #[must_use]
    pub fn id(&self) -> GoroutineId {
        GoroutineId(self.id.load(Ordering::Relaxed))
    }

    /// The id of the G that spawned this G; `None` for the main G and for a G that was spawned from outside the
    /// scheduler.
    #[must_use]
    pub fn creator(&self) -> Option<GoroutineId> {
        match self.creator.load(Ordering::Relaxed) {
            0 => None,
            id => Some(GoroutineId(id)),
        }
    }

    /// The status of the G. Another M may change it at any moment.
    #[must_use]
    pub fn status(&self) -> Status {
        Status::from_bits(self.status.load(Ordering::Relaxed) & STATUS)
    }

    /// The scheduler of the G. The G runs only on Ms of this scheduler, whichever thread readies it.
    #[must_use]
    #[inline(always)]
    pub fn scheduler(&self) -> &'static Scheduler<Plat> {
        self.scheduler
    }

    /// Whether the G is locked to an M. See [`crate::refinements::lock_os_thread`].
    #[must_use]
    pub fn is_locked(&self) -> bool {
        cfg!(feature = "refinements") && self.locked_machine().is_some()
    }

    /// The M to which the G is locked, if any.
    #[inline(always)]
    pub(crate) fn locked_machine(&self) -> Option<&'static Machine<Plat>> {
        self.locked_machine.load(Ordering::Relaxed)
    }

    pub(crate) fn set_locked_machine(&self, machine: Option<&'static Machine<Plat>>) {
        self.locked_machine.store(machine, Ordering::Relaxed);
    }

    /// The name that the G's spawner has chosen, if any.
    #[must_use]
    pub fn name(&self) -> Option<Name> {
        self.has_name.load(Ordering::Relaxed).then(|| self.name.get()).flatten()
    }

    /// Records when the G became runnable.
    pub(crate) fn set_runnable_since(&self, when: Instant) {
        self.runnable_since.store(when.as_nanos(), Ordering::Relaxed);
    }

    /// When the G became runnable, if it is sampled; see [`crate::refinements::sampling`].
    pub(crate) fn runnable_since(&self) -> Instant {
        Instant::from_nanos(self.runnable_since.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(crate) fn set_name(&self, name: Option<&str>) {
        if let Some(name) = name {
            self.name.set(name);
        }
        self.has_name.store(name.is_some(), Ordering::Relaxed);
    }

    /// Clears the time when the G's last wait began and the time when the G became runnable. Does not make an urgent G
    /// an ordinary one.
    #[cfg(feature = "std")]
    pub(crate) fn forget_times(&self, now: Instant) {
        if !self.is_urgent(now) {
            self.waits_since_or_urgent_until.store(0, Ordering::Relaxed);
        }
        self.runnable_since.store(0, Ordering::Relaxed);
    }

    /// Clears the link. Called for a G that runs, which is in no queue.
    #[cfg(feature = "std")]
    pub(crate) fn forget_link(&self) {
        self.link.store(None, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn set_status(&self, status: Status) {
        self.status.store(status as u32, Ordering::Relaxed);
    }

    /// The bubble of the G, if any.
    #[inline(always)]
    pub(crate) fn bubble(&self) -> Option<BubblePointer<Plat>> {
        self.bubble.load(Ordering::Relaxed)
    }

    /// Stores the id and the creator of a new G in this slot.
    #[inline]
    pub(crate) fn begin(&self, id: GoroutineId, creator: Option<GoroutineId>) {
        self.id.store(id.0, Ordering::Relaxed);
        self.creator.store(creator.map_or(0, GoroutineId::get), Ordering::Relaxed);
        self.waits_since_or_urgent_until.store(0, Ordering::Relaxed);
    }
}

/// A G can wait for another G: for its end; for its next value, if it is a coroutine; or, in a coroutine, for the outer
/// G to ask for the next value.
impl<Plat: Platform> Awaited for Goroutine<Plat> {
    /// Whether this G is in the bubble of the calling G. The answer holds until the wait ends: this G leaves its bubble
    /// only when it ends, and its end also ends the wait.
    fn is_of_current_bubble(&self) -> bool {
        BubbleRef::of(self).is_current()
    }
}

impl<Plat: Platform> Linked for Goroutine<Plat> {
    #[inline(always)]
    fn link(&self) -> &AtomicRef<Self> {
        &self.link
    }
}

impl<Plat: Platform> Linked<BATCHES> for Goroutine<Plat> {
    #[expect(clippy::misnamed_getters, reason = "the other link is that of other lists")]
    fn link(&self) -> &AtomicRef<Self> {
        &self.batch_link
    }
}

impl<Plat: Platform> fmt::Debug for Goroutine<Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Goroutine")
            .field("id", &self.id())
            .field("status", &self.status())
            .field("wait_reason", &self.wait_reason())
            .finish_non_exhaustive()
    }
}
