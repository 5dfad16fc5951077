//! Commits of parks, and memory of traces that is overwritten.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use gmp_sched::goroutine::WaitReason;
use gmp_sched::park::park;
use gmp_sched::platform::Pinned;

use super::super::platform::{self, ThisPlatform, go, yield_now};
use super::{Fuzzer, defuse, verify};

/// Memory in which traces are taken, and to which the programs write.
static MEMORY: LazyLock<&'static [AtomicU64]> =
    LazyLock::new(|| (0..4096).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak());

impl Fuzzer<'_> {
    /// Parks with a commit that calls the library, and continues at once. A commit may not make some of these calls, and
    /// may not wait in the drop of a value.
    pub(super) fn commit(&mut self) {
        let (shared, value, channel, which) = (self.shared, self.value(), self.channel(), self.random.u32(..8));
        let call = move || match which {
            0 => drop(channel.sender().try_send(value)),
            1 => verify(channel.receiver().try_recv().ok()),
            2 => drop(shared.mutexes[0].try_lock()),
            3 => _ = shared.condvar.notify_all(),
            4 => shared.signals[0].raise(),
            5 => yield_now(),
            6 => go(|| ()).detach(),
            _ => drop(platform::stop_the_world()),
        };
        park::<ThisPlatform>(WaitReason::Parked, |_, _| {
            // A panic must not leave the commit.
            defuse(catch_unwind(AssertUnwindSafe(call)));
            false
        });
    }

    /// Writes anything to the memory of the traces, or, rarely, starts a trace there.
    pub(super) fn overwrite_trace(&mut self) {
        if self.random.u32(..12) == 0 {
            let scheduler = Pinned::<ThisPlatform>::new().machine().scheduler();
            let started = scheduler.start_trace_in(&MEMORY);
            assert!(started.is_ok(), "there is memory for it");
        }
        let word = [u64::MAX, u64::MAX - 1, 1 << 63, 0, self.random.u64(..)][self.random.usize(..5)];
        let first = self.random.usize(..MEMORY.len());
        let last = MEMORY.len().min(first + self.random.usize(1..200));
        MEMORY[first..last].iter().for_each(|cell| cell.store(word, Ordering::Relaxed));
    }
}
