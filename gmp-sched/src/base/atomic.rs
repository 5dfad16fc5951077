//! The atomics and the spinlock of the scheduler's protocols: `core`'s and `spin`'s, or loom's under `--cfg gmp_loom`.
//! Because these protocols import them only from here, loom checks the same source.

/// Atomics for `static` items. They come from `core` also under loom, because loom's atomics have no `const`
/// constructor. No model depends on them.
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
