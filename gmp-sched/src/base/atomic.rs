//! The only import of atomics and of a spinlock: `core`'s and `spin`'s, or loom's under `--cfg gmp_loom`, so that the
//! leaf protocols can be model-checked from the same source.

#[cfg(not(gmp_loom))]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
/// For a `static`, which loom's atomics cannot be: no model depends on it.
pub(crate) use core::sync::atomic::{AtomicU32 as StaticU32, AtomicU64 as StaticU64};
#[cfg(gmp_loom)]
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

#[cfg(gmp_loom)]
pub(crate) use self::checked::SpinMutex;
#[cfg(not(gmp_loom))]
pub(crate) use spin::mutex::SpinMutex;

/// loom's mutex with the interface of `spin`'s: a thread that waits for it is blocked instead of trying again, which
/// spares loom the attempts that fail.
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
