//! The atomics and the spinlock that the scheduler's protocols use. The protocols import them only from
//! here. [`under_loom`](super::under_loom) replaces them in the models, so loom checks the same source.

pub(crate) use super::under_loom::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, SpinMutex, fence,
};
/// Atomics for `static` items. They come from `core` even under loom, because loom's atomics have no `const`
/// constructor. No model depends on accesses to these atomics.
pub(crate) use core::sync::atomic::AtomicU32 as StaticU32;
#[cfg(any(feature = "std", feature = "synctest"))]
pub(crate) use core::sync::atomic::AtomicU64 as StaticU64;
