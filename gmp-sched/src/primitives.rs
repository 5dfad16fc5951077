//! The only import of atomics: `core`'s, or loom's under `--cfg gmp_loom`, so that the leaf protocols can be
//! model-checked from the same source.

#[cfg(not(gmp_loom))]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(gmp_loom)]
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
