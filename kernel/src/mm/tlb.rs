//! When no CPU remembers a translation any more that the page tables have lost.
//!
//! A processor caches what the page tables said. Here nobody is interrupted to make it forget: pages that are taken away
//! begin a new [epoch](gmp_sched::kthread::epoch), and every CPU flushes its cache at its next interrupt, or when it leaves a
//! halt. A CPU that runs takes an interrupt at least once a slice.
//!
//! What has to wait for that is small. Only stacks that nobody uses lose their pages, so no CPU goes to those addresses,
//! whatever it remembers of them, until they are given out again. So the *frames* are free at once, also when memory is
//! short, and only the *addresses* wait: see [`stack`](super::stack).

use gmp_sched::kthread::epoch::{CpuEpoch, Epochs};
use x86_64::instructions::tlb;

use crate::cpu::cpus;
use crate::cpu::local::cpu_local;

static EPOCHS: Epochs = Epochs::new();

cpu_local! {
    /// The epoch in which this CPU flushed its translations last.
    static EPOCH: CpuEpoch = CpuEpoch::new();
}

/// Begins an epoch: pages were taken from the page tables. When [`has_passed`] says so of the result, no CPU remembers
/// them. Callable from everywhere.
pub(super) fn begin_epoch() -> u64 {
    EPOCHS.begin()
}

/// Whether every CPU has flushed its translations since `epoch` began, or halts and will. Callable from everywhere.
pub(super) fn has_passed(epoch: u64) -> bool {
    EPOCHS.has_passed(epoch, cpus::all().filter_map(|cpu| EPOCH.of(cpu)))
}

/// This CPU takes an interrupt: flushes its translations if there is a new epoch. Called with interrupts off, before the
/// handler touches any stack of a G.
#[inline]
pub(crate) fn pass() {
    EPOCH.here().pass(&EPOCHS, tlb::flush_all);
}

/// Calls `wait`, in which this CPU halts: until an interrupt comes, or `wait` returns, it touches no stack of a G, and no
/// epoch waits for it. Flushes its translations afterwards, whatever has ended the halt. Called with interrupts off, as
/// `wait` returns.
pub(crate) fn halt(wait: impl FnOnce()) {
    EPOCH.here().halt(&EPOCHS, wait, tlb::flush_all);
}

/// Whether this CPU is in [`halt`] and no interrupt has come since. The caller is pinned.
pub(crate) fn is_halted() -> bool {
    EPOCH.here().is_halted()
}
