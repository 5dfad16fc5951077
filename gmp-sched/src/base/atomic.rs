//! The atomics and the spinlock that the scheduler's protocols use. They come from `core` and `spin`, or from loom
//! under `--cfg gmp_loom`. The protocols import them only from here, so loom checks the same source.

/// Atomics for `static` items. They come from `core` even under loom, because loom's atomics have no `const`
/// constructor. No model depends on accesses to these atomics.
pub(crate) use core::sync::atomic::AtomicU32 as StaticU32;
#[cfg(any(feature = "std", feature = "synctest"))]
pub(crate) use core::sync::atomic::AtomicU64 as StaticU64;
#[cfg(not(gmp_loom))]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(gmp_loom)]
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

#[cfg(gmp_loom)]
pub(crate) use super::modelled_lock::SpinMutex;
#[cfg(not(gmp_loom))]
pub(crate) use spin::mutex::SpinMutex;
