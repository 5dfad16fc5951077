//! Blocking a G in a driver, together with its M: the P goes to another M meanwhile.

use gmp_sched::platform::{OutOfResources, Pinned, Platform as _};
use gmp_sched::syscall::{Syscall, enter_blocking};
use gmp_sched::time::Instant;

use crate::kthread::{self, KernelThread};
use crate::platform::Kernel;

/// The calling G is blocked in a driver until this is dropped. Its P has been given away; its M waits for an interrupt.
#[derive(Debug)]
#[must_use = "the G is blocked until this is dropped"]
pub struct Blocked {
    // Dropped in this order: the pin is lowered before the system call ends.
    /// The driver's thread stays on its CPU but where it waits.
    _pinned: Pinned<Kernel>,
    _syscall: Syscall<Kernel>,
}

impl Blocked {
    /// Gives the calling G's P away. What the driver does before the wait is done under this guard.
    ///
    /// # Errors
    ///
    /// No M can be made to take over; nothing has happened.
    ///
    /// # Panics
    ///
    /// The caller is not a G with a P.
    pub fn begin() -> Result<Self, OutOfResources> {
        let syscall = enter_blocking()?;
        Ok(Self { _pinned: Pinned::new(), _syscall: syscall })
    }

    /// The thread that waits: a driver's interrupt handler unparks it.
    #[must_use]
    pub fn thread(&self) -> &'static KernelThread {
        kthread::all().current().expect("a G runs on a thread")
    }

    /// Waits until `is_done` says so, which is asked whenever the thread is unparked.
    ///
    /// # Panics
    ///
    /// The caller has turned preemption off.
    pub fn wait_until(&self, mut is_done: impl FnMut() -> bool) {
        Kernel::assert_pinned_once();
        while !is_done() {
            kthread::all().park(None);
        }
    }

    /// Waits until a point in time.
    ///
    /// # Panics
    ///
    /// The caller has turned preemption off.
    pub fn wait_for(&self, deadline: Instant) {
        Kernel::assert_pinned_once();
        while kthread::now() < deadline {
            kthread::all().park(Some(deadline));
        }
    }
}
