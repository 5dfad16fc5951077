//! A trace of scheduling events, which can be switched on and off. Each P has a ring with its last events.
//!
//! While the trace is off, it costs one test when a G parks. The code that records other events runs only after tests
//! that are made anyway (see `engine::sampling`). While the trace is on, an event takes one reading of the clock and
//! five stores. Each P's ring has one writer, the M that holds the P. So no event takes a lock or waits for another
//! event. Any thread may read the rings at any time and gets the last events of each, as with Go's flight recorder
//! (`runtime/trace`).
//!
//! ```
//! use gmp_sched::native::{self, go};
//!
//! unsafe { native::enter() }.run_with(1, |scheduler| {
//!     scheduler.start_trace(1024).unwrap();
//!     go(|| ()).join().unwrap();
//!     scheduler.stop_trace();
//!     let events = scheduler.processors()[0].trace();
//!     assert!(!events.is_empty());
//!     for event in events {
//!         println!("{:?} {:?} {:?}", event.when, event.kind, event.goroutine);
//!     }
//! });
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::base::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use crate::base::error::OutOfResources;
use crate::base::id::GoroutineId;
use crate::base::instant::Instant;
use crate::base::reference::AtomicRef;

macro_rules! event_kinds {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The kind of an event. Unless stated otherwise, it happened to the event's G, on the P whose ring contains
        /// the event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum EventKind {
            $($(#[$doc])* $name,)*
        }

        impl EventKind {
            const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

event_kinds! {
    /// The G was spawned; the detail is the number of its creator. Go: `GoCreate`.
    Spawn,
    /// The G became runnable; the detail is the number of the G that readied it, 0 if none did. Go: `GoUnblock`.
    Ready,
    /// The G runs from now on. If another G ran before, that G has left the P. Go: `GoStart`.
    Start,
    /// The G yielded. This event is recorded when the next G already runs. Go: `GoStop`.
    Yield,
    /// The G was preempted. Go: `GoStop`.
    Preempt,
    /// The G parks; the detail is its [`WaitReason`](crate::entities::goroutine::WaitReason) as a number. Go:
    /// `GoBlock`.
    Park,
    /// The G has ended. Go: `GoDestroy`.
    End,
    /// The G enters a system call. Go: `GoSyscallBegin`.
    SyscallEnter,
    /// The G returns from a system call and continues on this P. Go: `GoSyscallEnd`.
    SyscallExit,
    /// The P is handed off, because the G blocks its M or has been in a system call for too long. Go: `ProcSteal`.
    HandOff,
    /// The P stole Gs from another P; the detail is the number of the other P. The event has no G.
    Steal,
    /// The P becomes idle, because there is nothing to run. The event has no G. Go: `ProcStop`.
    Idle,
    /// An M holds the P again. The event has no G. Go: `ProcStart`.
    Busy,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it happened.
    pub when: Instant,
    /// What happened.
    pub kind: EventKind,
    /// The G to which it happened, if any.
    pub goroutine: Option<GoroutineId>,
    /// More about the event; see [`EventKind`].
    pub detail: u64,
}

const WORDS: usize = 3;
/// The number of bits below the kind in the word that contains the kind and the detail. The kind is the highest byte.
const KIND_SHIFT: u32 = 56;

impl Event {
    fn to_words(self) -> [u64; WORDS] {
        let goroutine = self.goroutine.map_or(0, GoroutineId::get);
        [self.when.as_nanos(), goroutine, (self.kind as u64) << KIND_SHIFT | self.detail & !(0xFF << KIND_SHIFT)]
    }

    fn from_words(words: [u64; WORDS]) -> Option<Self> {
        Some(Self {
            when: Instant::from_nanos(words[0]),
            kind: *EventKind::ALL.get((words[2] >> KIND_SHIFT) as usize)?,
            goroutine: (words[1] != 0).then_some(GoroutineId(words[1])),
            detail: words[2] & !(0xFF << KIND_SHIFT),
        })
    }
}

/// The last events of one P.
pub(crate) struct Ring {
    slots: Box<[[AtomicU64; WORDS]]>,
    /// Number of events whose writing has begun.
    begun: AtomicUsize,
    /// Number of events whose writing is complete.
    pub(crate) written: AtomicUsize,
    /// Number of events written before the trace was last started.
    pub(crate) start: AtomicUsize,
}

impl Ring {
    pub(crate) fn new(capacity: usize) -> Result<Self, OutOfResources> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(capacity).map_err(|_| OutOfResources)?;
        slots.resize_with(capacity, || core::array::from_fn(|_| AtomicU64::new(0)));
        let [begun, written, start] = core::array::from_fn(|_| AtomicUsize::new(0));
        Ok(Self { slots: slots.into_boxed_slice(), begun, written, start })
    }

    fn slot(&self, index: usize) -> &[AtomicU64; WORDS] {
        &self.slots[index % self.slots.len()]
    }

    /// Appends an event. Called by the M that holds the P.
    pub(crate) fn write(&self, event: Event) {
        let index = self.written.load(Ordering::Relaxed);
        // Ordering: Release, so that a reader that sees one of the stores below also sees the new value of `begun`
        // after its own fence. Partner: the fence in `read`.
        self.begun.store(index + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (cell, word) in self.slot(index).iter().zip(event.to_words()) {
            cell.store(word, Ordering::Relaxed);
        }
        // Ordering: Release publishes the event. Partner: the Acquire load of `written` in `read`.
        self.written.store(index + 1, Ordering::Release);
    }

    /// Returns the events that have not been overwritten, oldest first.
    pub(crate) fn read(&self) -> Vec<Event> {
        let end = self.written.load(Ordering::Acquire);
        let begin = self.start.load(Ordering::Relaxed).max(end.saturating_sub(self.slots.len()));
        let words: Vec<_> =
            (begin..end).map(|index| self.slot(index).each_ref().map(|cell| cell.load(Ordering::Relaxed))).collect();
        // Ordering: Acquire keeps the load of `begun` after those of the slots. Partner: the fence in `write`.
        fence(Ordering::Acquire);
        // Events whose writing has begun since the first load may have overwritten the oldest ones.
        let lost = self.begun.load(Ordering::Relaxed).saturating_sub(self.slots.len()).saturating_sub(begin);
        words.into_iter().skip(lost).filter_map(Event::from_words).collect()
    }
}

/// What a P needs to record a trace: its ring, and whether events go there.
pub(crate) struct Tracer {
    /// The ring into which events go; `None` while no trace is taken.
    pub(crate) active: AtomicRef<Ring>,
    /// The ring of this P; `None` before the first trace. It is never freed.
    pub(crate) ring: AtomicRef<Ring>,
    /// Whether `ring` was made for a run of the scheduler that has ended.
    is_ring_of_last_run: AtomicBool,
}

impl Tracer {
    pub(crate) fn new() -> Self {
        Self { active: AtomicRef::none(), ring: AtomicRef::none(), is_ring_of_last_run: AtomicBool::new(false) }
    }

    /// Called when a run of the scheduler ends. Stops the trace that may be under way.
    #[cfg(any(feature = "std", gmp_loom))]
    pub(crate) fn renew(&self) {
        self.active.store(None, Ordering::Relaxed);
        self.is_ring_of_last_run.store(true, Ordering::Relaxed);
    }

    /// If `ring` was made for a run that has ended, and its capacity is not `capacity`, drops the reference to it.
    pub(crate) fn forget_last_run(&self, capacity: usize) {
        if self.is_ring_of_last_run.swap(false, Ordering::Relaxed)
            && self.ring.load(Ordering::Acquire).is_some_and(|ring| ring.slots.len() != capacity)
        {
            self.ring.store(None, Ordering::Release);
        }
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let active = self.active.load(Ordering::Relaxed).is_some();
        f.debug_struct("Tracer").field("active", &active).finish_non_exhaustive()
    }
}
