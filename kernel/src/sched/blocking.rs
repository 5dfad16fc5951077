//! Lets a G block in a driver, together with its M. The P is handed off meanwhile.
//!
//! Each blocked G keeps an M, so the number of calls that block at the same time is limited. Further calls wait in
//! order, each parking only its G, as on threads of the host (`gmp_sched::native::set_blocking_limit`). They cannot
//! wait for ever: a blocked call waits only for its device, never for another G.

use core::sync::atomic::{AtomicBool, Ordering};

use gmp_sched::cancel::ContextError;
use gmp_sched::platform::{OutOfResources, Platform as _};
use gmp_sched::syscall;
use gmp_sched::time::Instant;
use spin::Once;

use crate::sched::kthread::{self, KernelThread};
use crate::sched::platform::{Kernel, Limit, Semaphore};

/// The default of the option `blocking_limit`, the same as on threads of the host. Together with an M for each P, this
/// is less than the number of Ms that a scheduler may have.
pub(super) const BLOCKING_LIMIT: u32 = 8_000;

/// Each permit allows one G to block its M. Waiters get permits in the order of their calls.
static PERMITS: Once<Semaphore> = Once::new();

/// Sets the number of calls that may block their Ms at the same time. Called once, before the scheduler starts.
pub(super) fn init(limit: u32) {
    PERMITS.call_once(|| Semaphore::new(limit));
}

/// Waits until the calling G may block its M.
///
/// # Errors
///
/// If the limit ends the wait.
///
/// # Panics
///
/// If the caller has to wait and is not a G with a P.
pub(crate) fn admit(limit: Limit<'_>) -> Result<Permit, ContextError> {
    let permits = PERMITS.get().expect("set before the scheduler starts");
    if permits.available() == 0 {
        warn_once();
    }
    Ok(Permit { _permit: permits.acquire_until(1, limit)? })
}

/// Logs a warning the first time that a call has to wait for others.
#[cold]
fn warn_once() {
    static HAS_WARNED: AtomicBool = AtomicBool::new(false);
    if !HAS_WARNED.swap(true, Ordering::Relaxed) {
        log::warn!("as many calls block their Ms as the option `blocking_limit` allows; further calls wait in order");
    }
}

/// The right of a G to block its M: see [`admit`].
#[derive(Debug)]
pub(crate) struct Permit {
    _permit: gmp_sched::sync::Permit<'static, Kernel>,
}

impl Permit {
    /// Hands the P of the calling G off, and runs `call`, in which the G's M may wait for interrupts of a driver's
    /// device.
    ///
    /// # Errors
    ///
    /// If no M can be created to run other Gs. In this case `call` is not called.
    ///
    /// # Panics
    ///
    /// If the caller is not a G with a P.
    pub(crate) fn block<R>(self, call: impl FnOnce(&Blocked) -> R) -> Result<R, OutOfResources> {
        // The permit is dropped after the call, when the G has a P again.
        syscall::try_blocking_pinned::<Kernel, R>(|_pinned| call(&Blocked(())))
    }
}

/// The calling G while it is blocked in a driver: see [`Permit::block`]. Its thread is pinned to its CPU while the
/// thread runs the driver, and can migrate only while it waits.
#[derive(Debug)]
pub(crate) struct Blocked(());

impl Blocked {
    /// Returns the kernel thread of the calling G's M. The driver's interrupt handler unparks this thread.
    #[must_use]
    pub(crate) fn thread(&self) -> &'static KernelThread {
        kthread::all().current().expect("a G runs on a thread")
    }

    /// Waits until the thread is unparked, or until `deadline`. May return early.
    ///
    /// # Panics
    ///
    /// If the caller has turned preemption off.
    pub(crate) fn park(&self, deadline: Instant) {
        Kernel::assert_pinned_once();
        kthread::park(Some(deadline).filter(|&deadline| deadline != Instant::NEVER));
    }

    /// Waits until `deadline`.
    ///
    /// # Panics
    ///
    /// If the caller has turned preemption off.
    pub(crate) fn wait_for(&self, deadline: Instant) {
        while kthread::now() < deadline {
            self.park(deadline);
        }
    }
}
