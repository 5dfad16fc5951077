//! The CPUs that are up.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::cpu::percpu::CpuId;

static COUNT: AtomicUsize = AtomicUsize::new(1);

/// How many CPUs run. Constant from the start of the program on: CPUs are neither added nor taken away later.
pub fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// All CPUs that run, in the order of their numbers.
pub fn all() -> impl Iterator<Item = CpuId> {
    (0..count()).map(CpuId::new)
}

pub(crate) fn set_count(count: usize) {
    COUNT.store(count, Ordering::Relaxed);
}
