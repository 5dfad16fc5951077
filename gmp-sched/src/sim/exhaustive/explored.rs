//! What a simulated machine keeps only while it is explored. The search sets it, and the machine's steps obey it.

use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ptr;

use crate::base::points::Site;

/// The maximum number of CPUs of an explored machine.
pub(in crate::sim) const EXPLORED_CPUS: usize = 4;

/// The maximum number of Ps of an explored machine. The memory of such a machine has room for them and for as many Ms.
pub(in crate::sim) const EXPLORED_PROCESSORS: usize = 32;

/// State that only an explored machine has.
#[derive(Debug, Default)]
pub(in crate::sim) struct Explored {
    /// Whether the program has called `begin`. Since then every order of steps is explored.
    pub(in crate::sim) has_begun: Cell<bool>,
    /// Whether the next step leaves a pending IPI of its CPU pending. Otherwise the CPU handles the IPI before the
    /// step.
    pub(in crate::sim) is_late: Cell<bool>,
    /// Whether the exploration is reduced; see [`exhaustive`](super).
    pub(in crate::sim) reduces: Cell<bool>,
    /// How many more times the clock may advance to the next deadline while a CPU is busy.
    pub(in crate::sim) ticks: Cell<u32>,
    /// The point at which each CPU is stopped.
    pub(in crate::sim) sites: [Cell<Option<Site>>; EXPLORED_CPUS],
    /// For each CPU, whether its current step only computes, or spins because the CPU waits for another CPU.
    pub(in crate::sim) waits: [Cell<bool>; EXPLORED_CPUS],
    /// The stack pointers of the Gs that have exited by `goexit`, at the time of that call. What such a G held remains
    /// on its stack and may still be in use.
    pub(super) exited: RefCell<Vec<usize>>,
}

impl Explored {
    /// Records that the calling G exits. Everything above the frame of this function remains on the stack, so the
    /// compiler must not inline this function into frames that remain.
    #[inline(never)]
    pub(in crate::sim) fn exits(&self) {
        let here = 0_usize;
        self.exited.borrow_mut().push(ptr::from_ref(&here).addr());
    }
}
