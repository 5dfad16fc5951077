//! The CPUs that are up: the boot CPU, and those that it has started.

use core::sync::atomic::{AtomicUsize, Ordering};

use kernel_formats::other_cpus::Entrance;

use crate::cpu::percpu::CpuId;

/// The point at which a CPU that the boot CPU has started enters the kernel, after the trampoline. The CPU gets its
/// number there.
pub(crate) static ENTRANCE: Entrance = Entrance::new();

static COUNT: AtomicUsize = AtomicUsize::new(1);

/// Returns how many CPUs are up. The number is constant once the program has started, since no CPU is added or removed
/// later.
pub fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// Returns all CPUs that are up, in the order of their numbers.
pub fn all() -> impl Iterator<Item = CpuId> {
    (0..count()).map(CpuId::new)
}

pub(crate) fn set_count(count: usize) {
    COUNT.store(count, Ordering::Relaxed);
}
