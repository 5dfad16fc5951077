//! The turn to poll: at most one thread at a time waits for devices, and has the turn. Sysmon *watches*, that is, looks
//! again and again whether a thread has the turn, until one has kept it for some time.
//!
//! A thread that leaves frees the turn, and then checks whether sysmon watches. When sysmon no longer watches, it notes
//! this, and then checks whether the turn is free. This is "Store, fence, load" (see `engine/idle.md`): if no thread has
//! the turn, sysmon watches, or the thread that left last was told to wake sysmon.

use crate::base::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use crate::base::under_loom::const_fn;

/// Whether a thread polls, and whether sysmon watches.
#[derive(Debug)]
pub(crate) struct PollTurn {
    is_taken: AtomicBool,
    /// How often a thread has left.
    left: AtomicU32,
    /// Whether sysmon watches, or is about to be woken to do so.
    is_watched: AtomicBool,
}

impl PollTurn {
    const_fn! {
        /// The turn is free, and nobody watches.
        pub(crate) fn new() -> Self {
            Self { is_taken: AtomicBool::new(false), left: AtomicU32::new(0), is_watched: AtomicBool::new(false) }
        }
    }

    /// Takes the turn if it is free. Returns whether the caller has it.
    pub(crate) fn take(&self) -> bool {
        // Ordering: Acquire; partner: the Release in `leave`. The caller sees what the last thread has done.
        !self.is_taken.swap(true, Ordering::Acquire)
    }

    /// Frees the turn, which the caller has. Returns whether the caller has to wake sysmon.
    pub(crate) fn leave(&self) -> bool {
        self.left.fetch_add(1, Ordering::Relaxed);
        self.is_taken.swap(false, Ordering::Release);
        // Ordering: partner: the fence in `watch`.
        fence(Ordering::SeqCst);
        !self.is_watched.load(Ordering::Relaxed) && !self.is_watched.swap(true, Ordering::Relaxed)
    }

    /// Called by sysmon at each look. Returns whether sysmon has to look again soon (it still watches). It no longer
    /// watches if the same thread has had the turn since the last look, at which `left` threads had left. (If it stopped
    /// as soon as any thread had the turn, it would be woken each time that such a thread leaves.)
    pub(crate) fn watch(&self, left: &mut u32) -> bool {
        if self.is_calm(*left) {
            self.is_watched.swap(false, Ordering::Relaxed);
            // Ordering: partner: the fence in `leave`.
            fence(Ordering::SeqCst);
            if self.is_calm(*left) {
                return false;
            }
        }
        self.is_watched.swap(true, Ordering::Relaxed);
        *left = self.left.load(Ordering::Relaxed);
        true
    }

    /// Whether a thread has the turn, and none has left since `left` was stored.
    fn is_calm(&self, left: u32) -> bool {
        self.is_taken() && self.left.load(Ordering::Relaxed) == left
    }

    /// Whether a thread polls.
    pub(crate) fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::Relaxed)
    }
}
