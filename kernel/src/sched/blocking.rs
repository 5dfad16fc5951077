//! Lets a G block in a driver, together with its M. The P is handed off meanwhile.

use gmp_sched::platform::{OutOfResources, Pinned, Platform as _};
use gmp_sched::syscall;
use gmp_sched::time::Instant;

use crate::sched::kthread::{self, KernelThread};
use crate::sched::platform::Kernel;

/// Hands the P of the calling G off, and runs `call`, in which the G's M may wait for interrupts of a driver's device.
///
/// # Errors
///
/// If no M can be created to run other Gs. In this case `call` is not called.
///
/// # Panics
///
/// If the caller is not a G with a P.
pub(crate) fn block<R>(call: impl FnOnce(&Blocked) -> R) -> Result<R, OutOfResources> {
    // `Blocked` is dropped before the system call ends, so its pin ends first.
    syscall::try_blocking::<Kernel, R>(|| call(&Blocked { _pinned: Pinned::new() }))
}

/// The calling G while it is blocked in a driver: see [`block`].
#[derive(Debug)]
pub(crate) struct Blocked {
    /// Pins the thread to its CPU while the thread runs the driver. The thread can migrate only while it waits.
    _pinned: Pinned<Kernel>,
}

impl Blocked {
    /// Returns the kernel thread of the calling G's M. The driver's interrupt handler unparks this thread.
    #[must_use]
    pub(crate) fn thread(&self) -> &'static KernelThread {
        kthread::all().current().expect("a G runs on a thread")
    }

    /// Waits until `is_done` returns `true`. `is_done` is called at once, and again each time that the thread is unparked.
    ///
    /// # Panics
    ///
    /// If the caller has turned preemption off.
    pub(crate) fn wait_until(&self, mut is_done: impl FnMut() -> bool) {
        Kernel::assert_pinned_once();
        while !is_done() {
            kthread::park(None);
        }
    }

    /// Waits until `deadline`.
    ///
    /// # Panics
    ///
    /// If the caller has turned preemption off.
    pub(crate) fn wait_for(&self, deadline: Instant) {
        Kernel::assert_pinned_once();
        while kthread::now() < deadline {
            kthread::park(Some(deadline));
        }
    }
}
