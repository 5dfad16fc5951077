//! TLB flushes: how it is known that no CPU caches a translation that was removed from the page tables.
//!
//! Processors cache translations (in the TLB). No CPU is interrupted to flush them: the removal of pages begins a new
//! [epoch](gmp_sched::kthread::epoch), and every CPU flushes its TLB at its next interrupt, or when its halt ends. A CPU that
//! is busy takes an interrupt at least once a slice.
//!
//! Little has to wait for that. Only stacks that are not in use lose their pages, so no CPU accesses their addresses until they
//! are allocated again. So the *frames* are free immediately, which matters when memory is short, and only the *addresses* wait
//! for the end of the epoch: see [`stack`](super::stack).

use gmp_sched::kthread::epoch::{CpuEpoch, Epochs};
use x86_64::instructions::tlb;

use crate::cpu::cpus;
use crate::cpu::local::cpu_local;

/// Starts so that the [bits that are stored](has_passed) wrap in every run that takes the memory of some stacks. (Linux:
/// `INITIAL_JIFFIES`.)
static EPOCHS: Epochs = Epochs::starting_at((1 << STORED_BITS) - 16);

cpu_local! {
    /// The epoch in which this CPU last flushed its TLB.
    static EPOCH: CpuEpoch = CpuEpoch::new();
}

/// Begins an epoch, after pages were removed from the page tables. When [`has_passed`] is true for the result, no CPU caches
/// their translations. Callable from everywhere.
pub(super) fn begin_epoch() -> u64 {
    EPOCHS.begin()
}

/// How many bits of an epoch [`has_passed`] needs.
pub(super) const STORED_BITS: u32 = 38;

/// Whether every CPU has flushed its TLB since an epoch began, or is halted and will. Of the epoch its lowest
/// [`STORED_BITS`] bits are known. They were stored after it began, and the caller has read them under the same lock. Callable
/// from everywhere.
pub(super) fn has_passed(low: u64) -> bool {
    let epoch = EPOCHS.latest_ending_in(low, STORED_BITS);
    EPOCHS.has_passed(epoch, cpus::all().filter_map(|cpu| EPOCH.of(cpu)))
}

/// Flushes the TLB of this CPU if there is a new epoch. Called by the handler of every interrupt, with interrupts off, before
/// it touches any stack of a G.
#[inline]
pub(crate) fn pass() {
    EPOCH.here().pass(&EPOCHS, tlb::flush_all);
}

/// Calls `wait`, in which this CPU halts. Until an interrupt comes, or `wait` returns, the CPU touches no stack of a G, and no
/// epoch waits for it. Flushes its TLB afterwards, whatever has ended the halt. Called with interrupts off; `wait` returns with
/// interrupts off.
pub(crate) fn halt(wait: impl FnOnce()) {
    EPOCH.here().halt(&EPOCHS, wait, tlb::flush_all);
}

/// Whether this CPU is in [`halt`] and has taken no interrupt since. The caller is pinned.
pub(crate) fn is_halted() -> bool {
    EPOCH.here().is_halted()
}
