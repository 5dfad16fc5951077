//! Epochs: when every CPU has forgotten what it knew before a change.
//!
//! A kernel uses this for what processors cache of its page tables (the TLB), without interrupting any CPU for it. The code
//! that takes pages away begins a new epoch. A CPU that takes an interrupt and finds a new epoch forgets what it remembers.
//! Work that must wait until all CPUs have forgotten, such as the use of the same addresses for other pages, asks whether
//! the epoch has passed. A CPU that halts reads nothing, so no epoch waits for it, and it forgets before it runs anything
//! again. Linux: lazy TLB flushing, `cpu_tlbstate`.
//!
//! ```text
//!   takes pages away            a CPU that wakes
//!   page tables change          "I do not halt"
//!   epoch + 1                   fence
//!   fence                       read the epoch: is it new?
//!   does the CPU halt?          forget
//! ```
//!
//! Either the left side finds that the CPU does not halt, and waits for it, or the CPU finds the new epoch.
//!
//! An interrupt passes in its handler. But a CPU also leaves a halt without any interrupt: a non-maskable one wakes it, and
//! its handler passes nothing, since it may have interrupted a pass. So [`CpuEpoch::halt`] encloses the halt and passes when
//! it is over, whatever has ended it.

use crate::base::atomic::{AtomicU64, Ordering, fence};

/// Set in the word of a CPU that halts.
const HALTS: u64 = 1 << 63;

/// The latest epoch.
#[derive(Debug)]
pub struct Epochs(AtomicU64);

/// The epoch in which a CPU forgot last.
#[derive(Debug)]
pub struct CpuEpoch(AtomicU64);

impl Epochs {
    /// Epoch 0, in which nobody remembers anything.
    #[cfg(not(gmp_loom))]
    #[must_use]
    #[expect(clippy::new_without_default, reason = "not something to make by default: there is one of a kind")]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[cfg(gmp_loom)]
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Begins an epoch, after the change. Callable from everywhere.
    pub fn begin(&self) -> u64 {
        // Ordering: Release: who finds this epoch finds the change. Partner: the Acquire in `pass`.
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Whether each of `cpus`, which are all there are, has forgotten in this epoch or a later one, or is going to before
    /// it looks at anything. Callable from everywhere.
    pub fn has_passed<'a>(&self, epoch: u64, cpus: impl Iterator<Item = &'a CpuEpoch>) -> bool {
        // Ordering: SeqCst, between the beginning of the epoch and the look at who halts; partner: the fence in `pass`.
        fence(Ordering::SeqCst);
        cpus.map(|cpu| {
            // Ordering: Acquire: what the CPU did before is over. Partner: the Release stores in `pass` and `halt`.
            cpu.0.load(Ordering::Acquire)
        })
        .all(|word| word & HALTS != 0 || word >= epoch)
    }
}

impl CpuEpoch {
    /// Of a CPU that runs, and remembers nothing.
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

    /// By this CPU, with interrupts off, before it looks at anything that must not be remembered: calls `forget` if there is
    /// a new epoch. Not callable from a non-maskable interrupt, which may have interrupted this.
    #[inline(always)]
    pub fn pass(&self, epochs: &Epochs, forget: impl FnOnce()) {
        // One comparison for both: a CPU that halts has another word than any epoch.
        if self.0.load(Ordering::Relaxed) != epochs.0.load(Ordering::Relaxed) {
            self.catch_up(epochs, forget);
        }
    }

    #[cold]
    fn catch_up(&self, epochs: &Epochs, forget: impl FnOnce()) {
        let last = self.0.load(Ordering::Relaxed) & !HALTS;
        self.0.store(last, Ordering::Relaxed);
        // Ordering: SeqCst, between "I do not halt" and the look at the epoch; partner: the fence in `has_passed`.
        fence(Ordering::SeqCst);
        // Ordering: Acquire: what is remembered from here on is from after the change. Partner: `begin`.
        let epoch = epochs.0.load(Ordering::Acquire);
        if epoch != last {
            forget();
            // Ordering: Release: forgotten before anybody relies on it. Partner: the Acquire in `has_passed`.
            self.0.store(epoch, Ordering::Release);
        }
    }

    /// By this CPU, with interrupts off: calls `wait`, which halts and returns with interrupts off, and
    /// [passes](Self::pass). Until then no epoch waits for this CPU, so `wait` touches nothing that must be forgotten, except
    /// in an interrupt that has passed.
    pub fn halt(&self, epochs: &Epochs, wait: impl FnOnce(), forget: impl FnOnce()) {
        // Ordering: Release: it has looked at nothing since. Partner: the Acquire in `has_passed`.
        self.0.store(self.0.load(Ordering::Relaxed) | HALTS, Ordering::Release);
        wait();
        self.pass(epochs, forget);
    }

    /// By this CPU: whether it [halts](Self::halt) and no interrupt has [passed](Self::pass) since.
    #[must_use]
    pub fn is_halted(&self) -> bool {
        self.0.load(Ordering::Relaxed) & HALTS != 0
    }
}
