//! Epochs, which show when every CPU has observed a change.
//!
//! A kernel uses this for TLB flushes without interrupting other CPUs. The code that unmaps pages begins a new epoch. A CPU
//! that takes an interrupt and finds a new epoch flushes its TLB. Work that must wait until all CPUs have flushed, such as
//! reusing the addresses for other pages, checks whether the epoch has passed (its grace period is over). A halted CPU reads
//! nothing, so no epoch waits for it, and it flushes before it runs anything again. Linux: lazy TLB flushing,
//! `cpu_tlbstate`.
//!
//! ```text
//!   CPU that unmaps pages       CPU that wakes
//!   change the page tables      clear HALTS
//!   epoch + 1                   fence
//!   fence                       load the epoch: is it new?
//!   is HALTS set?               flush
//! ```
//!
//! Either the left side finds HALTS cleared, and waits for that CPU, or the CPU finds the new epoch.
//!
//! An interrupt handler passes the epoch. But a CPU also leaves a halt by a non-maskable interrupt, whose handler must not
//! pass, because it may have interrupted a pass. So [`CpuEpoch::halt`] encloses the halt and passes after it, whatever has
//! ended it.

use crate::base::atomic::{AtomicU64, Ordering, fence};

/// Set in the word of a CPU that halts.
const HALTS: u64 = 1 << 63;

/// The latest epoch.
#[derive(Debug)]
pub struct Epochs(AtomicU64);

/// The epoch in which a CPU flushed last.
#[derive(Debug)]
pub struct CpuEpoch(AtomicU64);

impl Epochs {
    /// Epoch 0, in which no CPU has anything to flush.
    #[cfg(not(gmp_loom))]
    #[must_use]
    #[expect(clippy::new_without_default, reason = "not something to make by default: there is one of a kind")]
    pub const fn new() -> Self {
        Self::starting_at(0)
    }

    /// `epoch`, which every CPU flushes for as soon as it [passes](CpuEpoch::pass). It is below 2^63, and so are all later ones:
    /// at an epoch in a nanosecond it would take 292 years to begin as many.
    #[cfg(not(gmp_loom))]
    #[must_use]
    pub const fn starting_at(epoch: u64) -> Self {
        Self(AtomicU64::new(epoch))
    }

    #[cfg(gmp_loom)]
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Begins an epoch. Called after the change; callable from anywhere.
    pub fn begin(&self) -> u64 {
        // Ordering: Release: a CPU that loads this epoch sees the change. Partner: the Acquire in `pass`.
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The latest epoch whose lowest `bits` bits are `low`, for code that stores only these of an epoch that has begun. If
    /// 2^`bits` epochs have begun since, this is a later one, which has begun as well, and waiting for that is as good. Called
    /// after the other code has begun the epoch: under the lock under which it stored the bits. Callable from everywhere.
    #[must_use]
    pub fn latest_ending_in(&self, low: u64, bits: u32) -> u64 {
        let latest = self.0.load(Ordering::Relaxed);
        latest - (latest.wrapping_sub(low) & ((1 << bits) - 1))
    }

    /// Whether each CPU has flushed in this epoch or a later one, or will flush before it reads anything. `cpus` must
    /// be all CPUs. Callable from anywhere.
    pub fn has_passed<'a>(&self, epoch: u64, cpus: impl Iterator<Item = &'a CpuEpoch>) -> bool {
        // Ordering: SeqCst, between the increment of the epoch and the loads of HALTS; partner: the fence in `pass`.
        fence(Ordering::SeqCst);
        cpus.map(|cpu| {
            // Ordering: Acquire: what the CPU did before is over. Partner: the Release stores in `pass` and `halt`.
            cpu.0.load(Ordering::Acquire)
        })
        .all(|word| word & HALTS != 0 || word >= epoch)
    }
}

impl CpuEpoch {
    /// The state of a CPU that runs and has nothing to flush.
    #[cfg(not(gmp_loom))]
    #[must_use]
    #[expect(clippy::new_without_default, reason = "as for the epochs")]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[cfg(gmp_loom)]
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Calls `forget` if there is a new epoch. Called on this CPU with interrupts off, before it accesses anything whose old
    /// translation must not be used. Not callable from a non-maskable interrupt, which may have interrupted this.
    #[inline(always)]
    pub fn pass(&self, epochs: &Epochs, forget: impl FnOnce()) {
        // One comparison checks both, because the word of a halted CPU equals no epoch.
        if self.0.load(Ordering::Relaxed) != epochs.0.load(Ordering::Relaxed) {
            self.catch_up(epochs, forget);
        }
    }

    #[cold]
    fn catch_up(&self, epochs: &Epochs, forget: impl FnOnce()) {
        let last = self.0.load(Ordering::Relaxed) & !HALTS;
        self.0.store(last, Ordering::Relaxed);
        // Ordering: SeqCst, between clearing HALTS and the load of the epoch; partner: the fence in `has_passed`.
        fence(Ordering::SeqCst);
        // Ordering: Acquire: translations loaded from here on are from after the change. Partner: `begin`.
        let epoch = epochs.0.load(Ordering::Acquire);
        if epoch != last {
            forget();
            // Ordering: Release: the flush happens before other CPUs rely on it. Partner: the Acquire in `has_passed`.
            self.0.store(epoch, Ordering::Release);
        }
    }

    /// Calls `wait`, which halts and returns with interrupts off, and then [passes](Self::pass). Called on this CPU with
    /// interrupts off. During `wait` no epoch waits for this CPU, so `wait` must not access anything whose translation may
    /// be stale, except in an interrupt handler that has passed.
    pub fn halt(&self, epochs: &Epochs, wait: impl FnOnce(), forget: impl FnOnce()) {
        // Ordering: Release: earlier reads of this CPU are over. Partner: the Acquire in `has_passed`.
        self.0.store(self.0.load(Ordering::Relaxed) | HALTS, Ordering::Release);
        wait();
        self.pass(epochs, forget);
    }

    /// Whether this CPU [halts](Self::halt) and no interrupt has [passed](Self::pass) since. Called on this CPU.
    #[must_use]
    pub fn is_halted(&self) -> bool {
        self.0.load(Ordering::Relaxed) & HALTS != 0
    }
}

#[cfg(all(test, not(gmp_loom)))]
mod tests {
    use super::{CpuEpoch, Epochs};

    /// A CPU that has not flushed since. Without the higher bits the epoch would look like an old one, which has passed.
    #[test]
    fn epoch_of_which_few_bits_are_stored_has_not_passed_after_a_wrap() {
        const BITS: u32 = 8;
        let (epochs, cpu) = (Epochs::starting_at((1 << BITS) - 5), CpuEpoch::new());
        cpu.pass(&epochs, || ());
        for _ in 0..10 {
            let epoch = epochs.begin();
            for later in 0..1 << BITS {
                if later > 0 {
                    epochs.begin();
                }
                let found = epochs.latest_ending_in(epoch & 0xFF, BITS);
                assert_eq!(found, epoch, "{later} epochs later");
                assert!(!epochs.has_passed(found, [&cpu].into_iter()));
            }
            let latest = epochs.begin();
            assert_eq!(epochs.latest_ending_in(epoch & 0xFF, BITS), latest, "a later one, which has begun");
            cpu.pass(&epochs, || ());
            assert!(epochs.has_passed(latest, [&cpu].into_iter()));
        }
    }
}
