//! Epochs, which show when every CPU has observed a change.
//!
//! A kernel uses epochs to flush TLBs without interrupting other CPUs. The code that unmaps pages begins a new epoch. A
//! CPU that takes an interrupt and finds a new epoch flushes its TLB, which is called *passing* the epoch. Some work
//! must wait until all CPUs have flushed, for example the reuse of the addresses for other pages. Code that does such
//! work first checks whether every CPU has passed the epoch; if so, the epoch's grace period is over. A halted CPU
//! accesses no memory, so no grace period waits for it. A CPU that wakes passes the epoch before it runs anything else.
//! Linux: lazy TLB flushing, `cpu_tlbstate`.
//!
//! ```text
//!   CPU that unmaps pages       CPU that wakes
//!   change the page tables      clear HALTS
//!   epoch + 1                   fence
//!   fence                       load the epoch: is it new?
//!   is HALTS set?               flush
//! ```
//!
//! So either the left CPU finds HALTS cleared, and waits for the right CPU, or the right CPU finds the new epoch.
//!
//! An interrupt handler passes the epoch. A non-maskable interrupt also ends a halt, but its handler must not pass the
//! epoch, because the CPU may already have been passing the epoch when the interrupt came. So [`CpuEpoch::halt`] itself
//! passes after each halt, whichever interrupt ended the halt.

use crate::base::atomic::{AtomicU64, Ordering, fence};
use crate::base::under_loom::const_fn;

/// The bit of a CPU's epoch word that is set while the CPU halts.
const HALTS: u64 = 1 << 63;

/// The latest epoch.
#[derive(Debug)]
pub struct Epochs(AtomicU64);

/// The epoch for which a CPU last flushed, and whether the CPU halts.
#[derive(Debug)]
pub struct CpuEpoch(AtomicU64);

impl Epochs {
    const_fn! {
        /// Starts at epoch 0, for which no CPU has anything to flush.
        #[must_use]
        #[expect(clippy::new_without_default, reason = "not something to make by default: there is one of a kind")]
        pub fn new() -> Self {
            Self::starting_at(0)
        }

        /// Starts at `epoch`. The state of a CPU starts at 0, so if `epoch` is not 0, every CPU flushes when it first
        /// [passes](CpuEpoch::pass). `epoch` must be far below 2^63. Later epochs then stay below 2^63 as well, because
        /// at one epoch per nanosecond, counting to 2^63 takes 292 years.
        #[must_use]
        pub fn starting_at(epoch: u64) -> Self {
            Self(AtomicU64::new(epoch))
        }
    }

    /// Begins a new epoch and returns it. Called after the change that CPUs must observe; callable from anywhere.
    pub fn begin(&self) -> u64 {
        // Ordering: Release, so that a CPU that loads the new epoch also sees the changed page tables. Partner: the
        // Acquire in `catch_up`.
        self.0.fetch_add(1, Ordering::Release) + 1
    }

    /// Returns the latest epoch whose lowest `bits` bits are `low`, for code that stores only these bits of an epoch.
    /// If 2^`bits` or more epochs have begun since the bits were stored, the result is later than the stored epoch.
    /// Waiting for the later epoch is safe, because a CPU that has passed the later epoch has also passed the earlier
    /// one. The caller must hold the lock under which the bits were stored. Otherwise the caller might not see that the
    /// stored epoch has begun. Callable from anywhere.
    #[must_use]
    pub fn latest_ending_in(&self, low: u64, bits: u32) -> u64 {
        let latest = self.0.load(Ordering::Relaxed);
        latest - (latest.wrapping_sub(low) & ((1 << bits) - 1))
    }

    /// Whether each CPU has flushed for this epoch or a later one, or will flush before it accesses memory again.
    /// `cpus` must be all CPUs. Callable from anywhere.
    pub fn has_passed<'a>(&self, epoch: u64, cpus: impl Iterator<Item = &'a CpuEpoch>) -> bool {
        // Ordering: SeqCst orders the increment in `begin` before the loads of HALTS below; partner: the fence in
        // `catch_up`.
        fence(Ordering::SeqCst);
        cpus.map(|cpu| {
            // Ordering: Acquire, so that the CPU's accesses before its flush or halt are over. Partner: the Release
            // stores in `catch_up` and `halt`.
            cpu.0.load(Ordering::Acquire)
        })
        .all(|word| word & HALTS != 0 || word >= epoch)
    }
}

impl CpuEpoch {
    const_fn! {
        /// The state of a CPU that runs and has nothing to flush.
        #[must_use]
        #[expect(clippy::new_without_default, reason = "as for the epochs")]
        pub fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    /// If there is a new epoch, calls `forget`, which must flush the TLB. Afterwards the CPU does not count as halted.
    /// Called with interrupts off, on the CPU to which this state belongs, before that CPU accesses anything through a
    /// translation that may be old. Not callable from the handler of a non-maskable interrupt, because the interrupt
    /// may have come during this function.
    #[inline(always)]
    pub fn pass(&self, epochs: &Epochs, forget: impl FnOnce()) {
        // One comparison checks for a new epoch and for HALTS, because the word of a halted CPU equals no epoch.
        if self.0.load(Ordering::Relaxed) != epochs.0.load(Ordering::Relaxed) {
            self.catch_up(epochs, forget);
        }
    }

    #[cold]
    fn catch_up(&self, epochs: &Epochs, forget: impl FnOnce()) {
        let last = self.0.load(Ordering::Relaxed) & !HALTS;
        // Ordering: Release, because `has_passed` of another CPU may read this store in place of the last one below,
        // and relies on the flush in this case, too.
        self.0.store(last, Ordering::Release);
        // Ordering: SeqCst orders the clearing of HALTS above before the load of the epoch below; partner: the fence
        // in `has_passed`.
        fence(Ordering::SeqCst);
        // Ordering: Acquire, so that this CPU sees the changed page tables after it has loaded the new epoch. Partner:
        // the Release in `begin`.
        let epoch = epochs.0.load(Ordering::Acquire);
        if epoch != last {
            forget();
            // Ordering: Release, so that the flush happens before other CPUs rely on it. Partner: the Acquire in
            // `has_passed`.
            self.0.store(epoch, Ordering::Release);
        }
    }

    /// Calls `wait`, which must halt the CPU and return with interrupts off. Afterwards this function
    /// [passes](Self::pass) the latest epoch. The caller has interrupts off and is on the CPU to which this state
    /// belongs. During `wait` no grace period waits for the CPU. So neither `wait` nor an interrupt handler may access
    /// anything whose translation may be stale. A handler may do so after it has passed the epoch.
    pub fn halt(&self, epochs: &Epochs, wait: impl FnOnce(), forget: impl FnOnce()) {
        // Ordering: Release, so that this CPU's earlier accesses are over when another CPU sees HALTS. Partner: the
        // Acquire in `has_passed`.
        self.0.store(self.0.load(Ordering::Relaxed) | HALTS, Ordering::Release);
        wait();
        self.pass(epochs, forget);
    }

    /// Whether the CPU to which this state belongs is in [`halt`](Self::halt), and no interrupt handler has
    /// [passed](Self::pass) the epoch since the CPU halted. Called on that CPU.
    #[must_use]
    pub fn is_halted(&self) -> bool {
        self.0.load(Ordering::Relaxed) & HALTS != 0
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::{CpuEpoch, Epochs};

    /// An epoch restored from its lowest bits has not passed, because the CPU has not flushed since that epoch began.
    /// If the higher bits were not restored, the epoch would be taken for an old one, which has passed.
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
