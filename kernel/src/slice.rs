//! Time slices: each CPU watches the G that runs on it by its own tick.
//!
//! Nothing is armed or read when a G is switched to. While a CPU runs a thread its timer fires once per slice at least,
//! and the handler compares the P's tick with what it saw last: if it is the same, one slice has gone on all the time
//! (Go's sysmon does the same from a thread of its own, `retake`). So a G runs between one and two slices before it has
//! to give way. An idle CPU has no tick.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use gmp_sched::processor::Processor;
use gmp_sched::time::Instant;

use crate::platform::Kernel;

/// A slice. Go: `forcePreemptNS`.
pub(crate) const SLICE: Duration = gmp_sched::platform::SLICE;

/// What a CPU knows of the slice that goes on on it.
#[derive(Debug)]
pub(crate) struct Slice {
    processor: AtomicU32,
    tick: AtomicU32,
    since: AtomicU64,
    /// The slice that is to end, as [`key`] has it: a G that takes its turn in between is not meant.
    over: AtomicU64,
}

/// No slice is to end. No P has so high a number.
const NONE: u64 = u64::MAX;

/// The slice that goes on on a P.
fn key(processor: &Processor<Kernel>) -> u64 {
    u64::from(processor.id().get()) << 32 | u64::from(processor.tick())
}

impl Slice {
    pub(crate) const fn new() -> Self {
        Self {
            processor: AtomicU32::new(u32::MAX),
            tick: AtomicU32::new(0),
            since: AtomicU64::new(0),
            over: AtomicU64::new(NONE),
        }
    }

    /// Looks at the P that runs on this CPU; tells whether its slice is over. Called by the timer's handler.
    pub(crate) fn look(&self, processor: &Processor<Kernel>, now: Instant) -> bool {
        let (id, tick) = (processor.id().get(), processor.tick());
        if self.processor.load(Ordering::Relaxed) != id || self.tick.load(Ordering::Relaxed) != tick {
            self.processor.store(id, Ordering::Relaxed);
            self.tick.store(tick, Ordering::Relaxed);
            self.since.store(now.as_nanos(), Ordering::Relaxed);
            return false;
        }
        now.since(Instant::from_nanos(self.since.load(Ordering::Relaxed))) >= SLICE
    }

    /// The G that runs on `processor`, which is on this CPU, is to give way. Callable from every CPU.
    pub(crate) fn end(&self, processor: &Processor<Kernel>) {
        self.over.store(key(processor), Ordering::Relaxed);
    }

    /// Whether the G that runs on `processor` is to give way.
    pub(crate) fn is_over(&self, processor: &Processor<Kernel>) -> bool {
        self.over.load(Ordering::Relaxed) == key(processor)
    }
}
