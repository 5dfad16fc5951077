//! G: a flow of control with a stack of its own, and the life of its slot.
//!
//! ```text
//!            spawn                 execute
//!   Idle ───────────▶ Runnable ◀──────────▶ Running ──▶ Dead ──▶ (free list) ──▶ Idle
//!                        ▲    yield, preempt   │  ▲
//!                  ready │                park │  │ exit_syscall
//!                        └────── Waiting ◀─────┤  │
//!                                              └──┴── Syscall
//! ```
//!
//! Slots are never freed, only reused, so a `&'static Goroutine` is always good; what tells one life of a slot from the
//! next is the id, which is never given twice. All fields are atomics with relaxed accesses: whoever claimed the G (its
//! creator, the M that runs it, the queue that holds it) is their only writer, and the queues order one owner after the
//! other.

use core::fmt;
use core::ops::Range;

use crate::context::SavedContext;
use crate::list::Linked;
use crate::platform::Platform;
use crate::primitives::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use crate::reference::AtomicRef;

/// What a G is doing. Go: `_Gidle` … `_Gdead`, with Go's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// A slot being prepared.
    Idle = 0,
    /// On a run queue.
    Runnable = 1,
    /// On an M that holds a P.
    Running = 2,
    /// On an M that is in a system call, with or without a P.
    Syscall = 3,
    /// Parked; the wait reason says for what.
    Waiting = 4,
    /// Finished; the slot is free or waits for its join handle.
    Dead = 6,
}

impl Status {
    const fn from_u8(value: u8) -> Self {
        match value {
            0 => Self::Idle,
            1 => Self::Runnable,
            2 => Self::Running,
            3 => Self::Syscall,
            4 => Self::Waiting,
            _ => Self::Dead,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "idle",
            Self::Runnable => "runnable",
            Self::Running => "running",
            Self::Syscall => "syscall",
            Self::Waiting => "waiting",
            Self::Dead => "dead",
        })
    }
}

/// Why a G waits, in Go's words where Go has them. Go: `waitReason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WaitReason {
    /// It does not wait.
    None = 0,
    /// For another G to finish.
    Join = 1,
    /// For a point in time.
    Sleep = 2,
    /// For a device.
    IoWait = 3,
    /// Parked by a program for reasons of its own.
    Parked = 4,
}

impl WaitReason {
    const fn from_u8(value: u8) -> Self {
        match value {
            0 => Self::None,
            1 => Self::Join,
            2 => Self::Sleep,
            3 => Self::IoWait,
            _ => Self::Parked,
        }
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "",
            Self::Join => "join",
            Self::Sleep => "sleep",
            Self::IoWait => "IO wait",
            Self::Parked => "parked",
        })
    }
}

/// The number of a G: 1 is the main G; never given twice by one scheduler. Go: `goid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoroutineId(pub(crate) u64);

impl GoroutineId {
    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for GoroutineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A G. Go: `g` (runtime/runtime2.go).
#[doc(alias = "g")]
pub struct Goroutine<P: Platform> {
    /// Saved while it does not run.
    pub(crate) context: SavedContext,
    /// The link of the one list it is on.
    link: AtomicRef<Self>,
    status: AtomicU8,
    wait_reason: AtomicU8,
    id: AtomicU64,
    creator: AtomicU64,
    stack_bottom: AtomicUsize,
    stack_top: AtomicUsize,
    /// The word between this G and its join handle, see [`crate::join`].
    pub(crate) completion: AtomicUsize,
    /// The address of the closure, and later of the result, near the top of the stack.
    pub(crate) body: AtomicUsize,
    /// Runs the closure; a `fn(&'static Goroutine<P>)` as an address.
    pub(crate) run_body: AtomicUsize,
    /// The link of the list of all Gs, set once.
    pub(crate) all_link: AtomicRef<Self>,
}

impl<P: Platform> Goroutine<P> {
    /// A slot with the given stack, in no list.
    pub(crate) fn new(stack: Range<usize>) -> Self {
        Self {
            context: SavedContext::new(0),
            link: AtomicRef::none(),
            status: AtomicU8::new(Status::Dead as u8),
            wait_reason: AtomicU8::new(WaitReason::None as u8),
            id: AtomicU64::new(0),
            creator: AtomicU64::new(0),
            stack_bottom: AtomicUsize::new(stack.start),
            stack_top: AtomicUsize::new(stack.end),
            completion: AtomicUsize::new(0),
            body: AtomicUsize::new(0),
            run_body: AtomicUsize::new(0),
            all_link: AtomicRef::none(),
        }
    }

    /// Its number in this life of the slot.
    #[must_use]
    pub fn id(&self) -> GoroutineId {
        GoroutineId(self.id.load(Ordering::Relaxed))
    }

    /// Who spawned it; `None` for the main G.
    #[must_use]
    pub fn creator(&self) -> Option<GoroutineId> {
        match self.creator.load(Ordering::Relaxed) {
            0 => None,
            id => Some(GoroutineId(id)),
        }
    }

    /// What it is doing. Another M may change it at any moment.
    #[must_use]
    pub fn status(&self) -> Status {
        Status::from_u8(self.status.load(Ordering::Relaxed))
    }

    /// Why it waits, [`WaitReason::None`] if it does not.
    #[must_use]
    pub fn wait_reason(&self) -> WaitReason {
        WaitReason::from_u8(self.wait_reason.load(Ordering::Relaxed))
    }

    /// The addresses of its stack.
    #[must_use]
    pub fn stack(&self) -> Range<usize> {
        self.stack_bottom.load(Ordering::Relaxed)..self.stack_top.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set_status(&self, status: Status) {
        self.status.store(status as u8, Ordering::Relaxed);
    }

    /// It is about to wait.
    #[inline(always)]
    pub(crate) fn set_waiting(&self, reason: WaitReason) {
        self.wait_reason.store(reason as u8, Ordering::Relaxed);
        self.set_status(Status::Waiting);
    }

    /// Begins a life.
    #[inline]
    pub(crate) fn begin(&self, id: GoroutineId, creator: Option<GoroutineId>) {
        self.id.store(id.0, Ordering::Relaxed);
        self.creator.store(creator.map_or(0, GoroutineId::get), Ordering::Relaxed);
        self.wait_reason.store(WaitReason::None as u8, Ordering::Relaxed);
    }
}

impl<P: Platform> Linked for Goroutine<P> {
    #[inline(always)]
    fn link(&self) -> &AtomicRef<Self> {
        &self.link
    }
}

impl<P: Platform> fmt::Debug for Goroutine<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Goroutine")
            .field("id", &self.id())
            .field("status", &self.status())
            .field("wait_reason", &self.wait_reason())
            .finish_non_exhaustive()
    }
}
