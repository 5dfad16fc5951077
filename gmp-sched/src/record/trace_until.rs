//! Where a debugger stops at an event of a trace.
//!
//! If the clock of a machine counts instructions (`--icount`), an event happens at the same instant in each run. The
//! program that reads a trace in shared memory may choose such an instant before the run begins. A breakpoint at
//! [`reached`] stops the machine at the event of exactly this instant. A breakpoint at the first event at or after the
//! instant would not be exact: after a CPU has read the clock for an event, another CPU may record a later event first.

use core::hint::black_box;

use crate::base::atomic::{AtomicU64, Ordering};
use crate::record::trace::Event;
use crate::record::trace_memory as memory;

/// The word [`UNTIL`](memory::UNTIL) of the header of shared memory, which says where a debugger stops.
#[derive(Clone, Copy)]
pub(crate) struct Until {
    /// The bitwise complement of the instant in nanoseconds, or 0 if no instant was chosen. A run executes the same
    /// code in both cases, so it takes the same steps until an event happens at the chosen instant.
    complement: &'static AtomicU64,
}

impl Until {
    /// Finds the word in `header`.
    ///
    /// # Panics
    ///
    /// `header` is too short.
    pub(crate) fn of(header: &'static [AtomicU64]) -> Self {
        Self { complement: &header[memory::UNTIL] }
    }

    /// Calls [`reached`] if `event` happens at the chosen instant.
    #[inline]
    pub(super) fn check(self, event: Event) {
        let now = event.when.as_nanos();
        // Ordering: Relaxed, because the word does not change during a run.
        if now == !self.complement.load(Ordering::Relaxed) {
            reached(now, event);
        }
    }
}

/// This is where a debugger stops. The event happened at `now`, in nanoseconds, and is complete in the trace.
#[cold]
#[inline(never)]
fn reached(now: u64, event: Event) {
    // `module_path!()` makes this function's code unique. Otherwise the compiler may merge this function with another.
    black_box((now, event, module_path!()));
}
