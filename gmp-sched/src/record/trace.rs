//! What happens on each P, event by event: a ring of the last ones, behind a switch.
//!
//! Off, it costs a test where a G parks; all else rides on tests that are made anyway (see `observe`). On, an event is
//! a look at the clock and five stores. Each P has a ring of its own with one writer, the M that holds it, so nothing is
//! locked and no event waits for another. Anyone may read the rings at any time and gets the last events of each, like
//! Go's flight recorder (`runtime/trace`).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::base::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use crate::base::error::OutOfResources;
use crate::base::id::GoroutineId;
use crate::base::instant::Instant;
use crate::base::reference::AtomicRef;

macro_rules! event_kinds {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What happened. Unless said otherwise to the event's G, on the P in whose ring it is.
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
    /// It was spawned; the detail is the number of its creator. Go: `GoCreate`.
    Spawn,
    /// It became runnable; the detail is the number of the G that did it, 0 if none did. Go: `GoUnblock`.
    Ready,
    /// It runs from here on. The event before, of another G, is that one's last here. Go: `GoStart`.
    Start,
    /// It gave way of its own accord; noted when the next one runs already. Go: `GoStop`.
    Yield,
    /// It was made to give way. Go: `GoStop`.
    Preempt,
    /// It parks; the detail is its [`WaitReason`](crate::entities::goroutine::WaitReason) as a number. Go: `GoBlock`.
    Park,
    /// It has finished. Go: `GoDestroy`.
    End,
    /// It enters a system call. Go: `GoSyscallBegin`.
    SyscallEnter,
    /// It comes back from one and goes on here. Go: `GoSyscallEnd`.
    SyscallExit,
    /// It blocks its M, or has done so for too long: the P goes to another. Go: `ProcSteal`.
    HandOff,
    /// No G: this P took some from another, whose number is the detail.
    Steal,
    /// No G: nothing is left to be run, the P is given up. Go: `ProcStop`.
    Idle,
    /// No G: an M has this P again. Go: `ProcStart`.
    Busy,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it happened.
    pub when: Instant,
    /// What happened.
    pub kind: EventKind,
    /// To which G.
    pub goroutine: Option<GoroutineId>,
    /// What else there is to know; see [`EventKind`].
    pub detail: u64,
}

const WORDS: usize = 3;
/// The kind stands in the upper byte of the word with the detail.
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
    /// Events whose writing has begun.
    begun: AtomicUsize,
    /// Events written.
    pub(crate) written: AtomicUsize,
    /// Events written before the trace was started last.
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

    /// Called by the M that holds the P.
    pub(crate) fn write(&self, event: Event) {
        let index = self.written.load(Ordering::Relaxed);
        // Ordering: a reader that sees one of the stores below sees afterwards that the writing had begun; partner: the
        // fence in `read`.
        self.begun.store(index + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (cell, word) in self.slot(index).iter().zip(event.to_words()) {
            cell.store(word, Ordering::Relaxed);
        }
        // Ordering: partner is the first load in `read`.
        self.written.store(index + 1, Ordering::Release);
    }

    /// The events that are whole, oldest first.
    pub(crate) fn read(&self) -> Vec<Event> {
        let end = self.written.load(Ordering::Acquire);
        let begin = self.start.load(Ordering::Relaxed).max(end.saturating_sub(self.slots.len()));
        let words: Vec<_> =
            (begin..end).map(|index| self.slot(index).each_ref().map(|cell| cell.load(Ordering::Relaxed))).collect();
        // Ordering: partner is the fence in `write`.
        fence(Ordering::Acquire);
        // What was begun meanwhile went over the oldest.
        let lost = self.begun.load(Ordering::Relaxed).saturating_sub(self.slots.len()).saturating_sub(begin);
        words.into_iter().skip(lost).filter_map(Event::from_words).collect()
    }
}

/// The ring of a P, if a trace is being taken.
pub(crate) struct Tracer {
    /// Where events go; nowhere while no trace is taken.
    pub(crate) active: AtomicRef<Ring>,
    /// The ring of this P, once there is one; never freed.
    pub(crate) ring: AtomicRef<Ring>,
}

impl Tracer {
    pub(crate) fn new() -> Self {
        Self { active: AtomicRef::none(), ring: AtomicRef::none() }
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let active = self.active.load(Ordering::Relaxed).is_some();
        f.debug_struct("Tracer").field("active", &active).finish_non_exhaustive()
    }
}
