//! Blocking a G and its M in a driver, while the P is handed off.

use gmp_sched::platform::{OutOfResources, Pinned, Platform as _};
use gmp_sched::syscall;
use gmp_sched::time::Instant;

use crate::sched::kthread::{self, KernelThread};
use crate::sched::platform::Kernel;

/// Runs `call` with the calling G blocked in a driver: its P has been handed off, and its M may wait for interrupts.
///
/// # Errors
///
/// No M can be created to run other Gs. `call` is not called then.
///
/// # Panics
///
/// The caller is not a G with a P.
pub(crate) fn block<R>(call: impl FnOnce(&Blocked) -> R) -> Result<R, OutOfResources> {
    // The pin is lowered before the system call ends.
    syscall::try_blocking::<Kernel, R>(|| call(&Blocked { _pinned: Pinned::new() }))
}

/// The calling G while it is blocked in a driver: see [`block`].
#[derive(Debug)]
pub(crate) struct Blocked {
    /// Keeps the driver's thread on its CPU except where it waits.
    _pinned: Pinned<Kernel>,
}

impl Blocked {
    /// The thread that waits, for the driver's interrupt handler to unpark.
    #[must_use]
    pub(crate) fn thread(&self) -> &'static KernelThread {
        kthread::all().current().expect("a G runs on a thread")
    }

    /// Waits until `is_done` returns `true`. It is called each time that the thread is unparked.
    ///
    /// # Panics
    ///
    /// The caller has turned preemption off.
    pub(crate) fn wait_until(&self, mut is_done: impl FnMut() -> bool) {
        Kernel::assert_pinned_once();
        while !is_done() {
            kthread::park(None);
        }
    }

    /// Waits until a point in time.
    ///
    /// # Panics
    ///
    /// The caller has turned preemption off.
    pub(crate) fn wait_for(&self, deadline: Instant) {
        Kernel::assert_pinned_once();
        while kthread::now() < deadline {
            kthread::park(Some(deadline));
        }
    }
}
