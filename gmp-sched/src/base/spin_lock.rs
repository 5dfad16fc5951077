//! The spinlock that guards all scheduler state for which atomics alone are not enough.

use core::ops::DerefMut;

use crate::base::atomic::SpinMutex;
use crate::base::points::{Points, Relax};
use crate::base::under_loom::const_fn;

/// A test-and-test-and-set spinlock. It is taken only while pinned and never by an interrupt handler. It is not a FIFO
/// lock such as a ticket lock: if a hypervisor descheduled the CPU that is next in the FIFO, all waiters behind that
/// CPU would have to wait for it.
#[derive(Debug)]
pub(crate) struct Lock<T, Plat: Points>(SpinMutex<T, Relax<Plat>>);

impl<T, Plat: Points> Lock<T, Plat> {
    const_fn! {
        pub(crate) fn new(value: T) -> Self {
            Self(SpinMutex::new(value))
        }
    }

    #[inline(always)]
    #[track_caller]
    pub(crate) fn lock(&self) -> impl DerefMut<Target = T> {
        Plat::assert_not_preemptible();
        self.0.lock()
    }

    /// Takes the lock if it is free. For the simulator's checks, which must not wait.
    #[cfg(feature = "std")]
    pub(crate) fn try_lock(&self) -> Option<impl DerefMut<Target = T>> {
        self.0.try_lock()
    }
}
