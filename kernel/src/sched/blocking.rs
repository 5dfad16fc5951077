//! Blocking a G in a driver, together with its M: the P goes to another M meanwhile.

use gmp_sched::platform::{OutOfResources, Pinned, Platform as _};
use gmp_sched::syscall;
use gmp_sched::time::Instant;

use crate::sched::kthread::{self, KernelThread};
use crate::sched::platform::Kernel;

/// Runs `call`, in which the calling G is blocked in a driver: its P has been given away, and its M waits for interrupts.
///
/// # Errors
///
/// No M can be made to take over; `call` has not been run.
///
/// # Panics
///
/// The caller is not a G with a P.
pub(crate) fn block<R>(call: impl FnOnce(&Blocked) -> R) -> Result<R, OutOfResources> {
    // The pin is lowered before the system call ends.
    syscall::try_blocking::<Kernel, R>(|| call(&Blocked { _pinned: Pinned::new() }))
}

/// The calling G is blocked in a driver: see [`block`].
#[derive(Debug)]
pub(crate) struct Blocked {
    /// The driver's thread stays on its CPU except where it waits.
    _pinned: Pinned<Kernel>,
}

impl Blocked {
    /// The thread that waits: a driver's interrupt handler unparks it.
    #[must_use]
    pub(crate) fn thread(&self) -> &'static KernelThread {
        kthread::all().current().expect("a G runs on a thread")
    }

    /// Waits until `is_done` says so, which is asked whenever the thread is unparked.
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
