//! The only module that imports atomics and a spinlock: `core`'s and `spin`'s, or loom's under `--cfg gmp_loom`, so
//! that loom checks the same source.

#[cfg(not(gmp_loom))]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
/// Atomics for `static` items. loom's have no `const` constructor; no model depends on these.
pub(crate) use core::sync::atomic::{AtomicU32 as StaticU32, AtomicU64 as StaticU64};
#[cfg(gmp_loom)]
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

#[cfg(gmp_loom)]
pub(crate) use self::checked::SpinMutex;
#[cfg(not(gmp_loom))]
pub(crate) use spin::mutex::SpinMutex;

/// loom's mutex with the interface of `spin`'s. A waiting thread is blocked rather than spinning, so that loom need not
/// explore failed attempts.
#[cfg(gmp_loom)]
mod checked {
    use core::marker::PhantomData;

    use loom::sync::{Mutex, MutexGuard};

    #[derive(Debug)]
    pub(crate) struct SpinMutex<T, R> {
        mutex: Mutex<T>,
        _relax: PhantomData<fn() -> R>,
    }

    impl<T, R> SpinMutex<T, R> {
        pub(crate) fn new(value: T) -> Self {
            Self { mutex: Mutex::new(value), _relax: PhantomData }
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.mutex.try_lock().ok()
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.mutex.lock().expect("nothing panics under it")
        }
    }
}
