//! The turn to poll: which thread, if any, waits for devices, and whether another one, sysmon, has to look if there is one.
//!
//! A thread that leaves frees the turn, and then looks whether it is watched. sysmon says that it no longer watches, and
//! then looks whether the turn is free. This is "Store, fence, load" (see `engine/idle.md`): if nobody polls, sysmon
//! watches, or the thread that has left last was told to wake it.

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

    /// Called by sysmon when it looks. Returns whether it has to look again soon: it need not if a thread polls that has done
    /// so since the last look, after `left` threads had left. (If it ceased to watch as soon as any thread polls, it
    /// would be woken each time that one leaves.)
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

    /// Whether a thread polls that has done so since `left` threads had left.
    fn is_calm(&self, left: u32) -> bool {
        self.is_taken() && self.left.load(Ordering::Relaxed) == left
    }

    /// Whether a thread polls.
    pub(crate) fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::Relaxed)
    }
}
