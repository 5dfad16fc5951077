//! TLB flushes. This module determines when the last CPU has flushed a translation that was removed from the page
//! tables.
//!
//! Each CPU caches translations in its TLB. The CPU that removes pages does not interrupt the other CPUs to flush their
//! TLBs. Instead it begins a new [epoch](gmp_sched::kthread::epoch), and every CPU flushes its TLB at its next
//! interrupt, or when its halt ends. A busy CPU takes an interrupt at least once a slice.
//!
//! Most pages are removed from stacks and page runs that are not in use, so no CPU accesses their addresses until they
//! are allocated again. So the *frames* can be reused at once, which matters when memory is short. Only the *addresses*
//! must not be reused before every CPU has flushed: see [`stack`](super::stack) and [`page_runs`](super::page_runs).
//! The pages of [`sparse`](super::sparse) ranges keep their frames until then.

use gmp_sched::kthread::epoch::{CpuEpoch, Epochs};
use x86_64::instructions::tlb;

use crate::cpu::cpus;
use crate::cpu::local::cpu_local;

/// The epochs. The number of the first epoch is chosen so that the [stored bits](has_passed) wrap after 16 epochs. A
/// wrap would otherwise be rare. With this first number, a wrap happens in every run in which a few stacks lose their
/// memory. So an error in the handling of a wrap is soon noticed. (Linux: `INITIAL_JIFFIES`.)
static EPOCHS: Epochs = Epochs::starting_at((1 << STORED_BITS) - 16);

cpu_local! {
    /// The epoch in which this CPU last flushed its TLB.
    static EPOCH: CpuEpoch = CpuEpoch::new();
}

/// Begins an epoch and returns its number. Called after pages were removed from the page tables. Once [`has_passed`]
/// returns true for this epoch, no CPU will use a cached translation of these pages. Callable from everywhere.
pub(super) fn begin_epoch() -> u64 {
    EPOCHS.begin()
}

/// How many bits of the number of an epoch have to be stored for [`has_passed`].
pub(super) const STORED_BITS: u32 = 38;

/// Whether each CPU has flushed its TLB since an epoch began, or is halted and will flush its TLB when it wakes. `low`
/// is the lowest [`STORED_BITS`] bits of the epoch's number. These bits must have been stored after the epoch began,
/// under a lock. The caller must have read the bits under the same lock, which it may have released since. Callable
/// from everywhere.
pub(super) fn has_passed(low: u64) -> bool {
    let epoch = EPOCHS.latest_ending_in(low, STORED_BITS);
    EPOCHS.has_passed(epoch, cpus::all().filter_map(|cpu| EPOCH.of(cpu)))
}

/// Flushes the TLB of this CPU if a new epoch has begun. The handler of every interrupt calls this function, with
/// interrupts off, before it accesses any stack of a G.
#[inline]
pub(crate) fn pass() {
    EPOCH.here().pass(&EPOCHS, tlb::flush_all);
}

/// Calls `wait`, in which this CPU halts, and then flushes the TLB of this CPU if a new epoch has begun. Until an
/// interrupt comes or `wait` returns, epochs may pass without a flush by this CPU. So the CPU must not access any stack
/// of a G in that time. Called with interrupts off; `wait` must return with interrupts off.
pub(crate) fn halt(wait: impl FnOnce()) {
    EPOCH.here().halt(&EPOCHS, wait, tlb::flush_all);
}

/// Whether this CPU is in [`halt`] and has taken no interrupt since it called [`halt`]. The caller must be pinned.
pub(crate) fn is_halted() -> bool {
    EPOCH.here().is_halted()
}
