//! The CPUs of the host that this process may use.

use std::sync::OnceLock;
use std::thread;

use super::percpu::{CpuId, MAX_CPUS};

/// Returns how many CPUs this process may use, but at most [`MAX_CPUS`]. All calls return the same number.
pub fn count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| thread::available_parallelism().map_or(1, usize::from).min(MAX_CPUS))
}

/// Returns all CPUs that this process may use, in the order of their numbers.
pub fn all() -> impl Iterator<Item = CpuId> {
    (0..count()).map(CpuId::new)
}
