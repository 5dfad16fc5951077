//! Replaces a channel's lock by loom's mutex, in models of the code that runs under the lock. loom blocks a thread
//! that waits for a mutex. If the thread spun instead, each retry would multiply the states that loom explores. The
//! real lock has models of its own.

use alloc::boxed::Box;
use core::cell::RefCell;
use core::marker::PhantomData;

use loom::sync::{Mutex, MutexGuard};

use crate::base::points::Points;

/// A lock with the interface of [`SpinningLock`](super::spinning::SpinningLock).
#[derive(Debug)]
pub(super) struct BlockingLock<S: Points> {
    mutex: &'static Mutex<()>,
    guard: RefCell<Option<MutexGuard<'static, ()>>>,
    _points: PhantomData<fn() -> S>,
}

// SAFETY: only the holder of the mutex accesses the stored guard of the mutex.
unsafe impl<S: Points> Sync for BlockingLock<S> {}
// SAFETY: only the holder of the mutex accesses the stored guard of the mutex.
unsafe impl<S: Points> Send for BlockingLock<S> {}

impl<S: Points> BlockingLock<S> {
    pub(super) fn new() -> Self {
        Self { mutex: Box::leak(Box::new(Mutex::new(()))), guard: None.into(), _points: PhantomData }
    }

    pub(super) fn lock(&self) {
        let guard = self.mutex.lock().expect("nothing panics under it");
        self.guard.replace(Some(guard));
    }

    pub(super) fn try_lock(&self) -> bool {
        let Ok(guard) = self.mutex.try_lock() else { return false };
        self.guard.replace(Some(guard));
        true
    }

    pub(super) fn unlock(&self) {
        let guard = self.guard.take();
        drop(guard);
    }
}
