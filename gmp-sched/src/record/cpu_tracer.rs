//! The trace of a CPU: which thread it runs, and the interrupts that it takes.

use crate::base::atomic::Ordering;
use crate::base::id::{GoroutineId, MachineId};
use crate::base::instant::Instant;
use crate::base::under_loom::const_fn;
use crate::record::trace::{Event, EventKind};
use crate::record::trace_ring::{Ring, Tracer};

/// Records the trace of one CPU, for a [platform](crate::platform::Platform::cpu_tracer) that has CPUs of its own. The
/// methods record nothing while no trace is taken.
///
/// All methods but [`new`](Self::new) and [`is_on`](Self::is_on) must be called on this CPU, with interrupts off.
/// Otherwise events may be lost.
#[derive(Debug)]
pub struct CpuTracer(pub(crate) Tracer);

impl Default for CpuTracer {
    fn default() -> Self {
        Self::new()
    }
}

impl CpuTracer {
    const_fn! {
        /// Makes a tracer for one CPU.
        #[must_use]
        pub fn new() -> Self {
            Self(Tracer::new())
        }
    }

    /// Whether a trace is being taken.
    #[must_use]
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.0.is_on()
    }

    /// The number of events for which the CPU's track has room; `None` if no trace is being taken.
    #[cfg(feature = "std")]
    pub(crate) fn capacity(&self) -> Option<usize> {
        self.0.active.load(Ordering::Relaxed).map(|ring| ring.capacity())
    }

    /// Records that the CPU begins to run the thread of `machine`.
    pub fn runs_machine(&self, machine: MachineId, now: Instant) {
        self.note(EventKind::RunMachine, now, None, machine.get().into());
    }

    /// Records that the CPU begins to run a thread that is not an M.
    pub fn runs_thread(&self, now: Instant) {
        self.note(EventKind::RunThread, now, None, 0);
    }

    /// Records that the CPU has no thread to run.
    pub fn halts(&self, now: Instant) {
        self.note(EventKind::Halt, now, None, 0);
    }

    /// Records that the CPU takes the interrupt that `name` names.
    pub fn interrupt(&self, name: &'static str, now: Instant) {
        self.note_text(EventKind::Interrupt, name, now, None);
    }

    /// Records that the handler of an interrupt returns.
    pub fn interrupt_end(&self, now: Instant) {
        self.note(EventKind::InterruptEnd, now, None, 0);
    }

    /// Whether a trace with call stacks is being taken, that is, a [profile](crate::trace#profiles).
    #[must_use]
    pub fn records_call_stacks(&self) -> bool {
        self.0.active.load(Ordering::Acquire).is_some_and(Ring::records_call_stacks)
    }

    /// Records the call stack of the interrupted code, after [`interrupt`](Self::interrupt): the address of the
    /// interrupted instruction, and the return address of each caller minus one.
    pub fn call_stack(&self, addresses: &[u64], now: Instant) {
        // Ordering: as in `note`.
        if let Some(ring) = self.0.active.load(Ordering::Acquire) {
            ring.write_call_stack(addresses, now, None);
        }
    }

    pub(crate) fn note(&self, kind: EventKind, when: Instant, goroutine: Option<GoroutineId>, detail: u64) {
        // Ordering: Acquire, because the ring may be new. Partner: the Release in `Tracer::begin`.
        if let Some(ring) = self.0.active.load(Ordering::Acquire) {
            ring.write(Event { when, kind, goroutine, detail });
        }
    }

    pub(crate) fn note_text(&self, kind: EventKind, text: &'static str, when: Instant, goroutine: Option<GoroutineId>) {
        if let Some(ring) = self.0.active.load(Ordering::Acquire) {
            let detail = ring.number_of(text, when);
            ring.write(Event { when, kind, goroutine, detail });
        }
    }
}
