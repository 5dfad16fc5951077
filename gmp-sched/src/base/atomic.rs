//! The only module that imports atomics and a spinlock: `core`'s and `spin`'s, or loom's under `--cfg gmp_loom`, so
//! that loom checks the same source.

/// Atomics for `static` items. loom's have no `const` constructor; no model depends on these.
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
