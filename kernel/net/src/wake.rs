//! What wakes the G that serves a link.

use gmp_sched::device_signals::Signal;
use gmp_sched::platform::Platform;
use gmp_sched::sync::{Condvar, LimitedCondvar as _, Mutex};
use gmp_sched::time::Instant;

/// What wakes the G that serves a link, which is the only one that waits. A wake-up that comes while it does not wait is
/// kept. Several of them count as one.
pub(crate) enum Wake<Plat: Platform> {
    /// The interrupt of a device, which may come whatever the Gs do.
    Device(Signal<Plat>),
    /// Only other Gs. So if all of them wait for each other, the scheduler can tell that this is a deadlock, and the
    /// clock of a bubble of `synctest` can advance.
    Gs { is_raised: Mutex<bool, Plat>, raised: Condvar<Plat> },
}

impl<Plat: Platform> Wake<Plat> {
    pub(crate) const fn by_device() -> Self {
        Self::Device(Signal::new())
    }

    pub(crate) fn by_gs() -> Self {
        Self::Gs { is_raised: Mutex::new(false), raised: Condvar::new() }
    }

    /// Wakes the G. With a device, callable from everywhere. Otherwise callable by Gs, which it may block for a short
    /// time.
    pub(crate) fn raise(&'static self) {
        match self {
            Self::Device(signal) => signal.raise(),
            Self::Gs { is_raised, raised } => {
                *is_raised.lock() = true;
                raised.notify_one();
            }
        }
    }

    /// Waits until the caller is woken, but no longer than `until`.
    ///
    /// # Panics
    /// If the caller is not a G, or another G waits.
    pub(crate) fn wait_until(&'static self, until: Instant) {
        match self {
            Self::Device(signal) => _ = signal.wait_until(until),
            Self::Gs { is_raised, raised } => {
                let mut is_raised = is_raised.lock();
                while !*is_raised && raised.wait_limited(&mut is_raised, until).is_ok() {}
                *is_raised = false;
            }
        }
    }
}
