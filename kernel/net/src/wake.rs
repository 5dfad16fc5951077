//! What wakes the G that serves a link.

use gmp_sched::device_signals::Signal;
use gmp_sched::platform::Platform;
use gmp_sched::sync::{Condvar, LimitedCondvar as _, Mutex};
use gmp_sched::time::{self, Instant};

/// Who wakes the Gs that wait for a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WokenBy {
    /// A device, which may wake them at any time. While a G of a bubble of `synctest` waits, the clock of the
    /// bubble does not advance.
    Device,
    /// Only other Gs. So if all of them wait for each other, the scheduler can tell that this is a deadlock, and the
    /// clock of a bubble can advance.
    Gs,
}

impl WokenBy {
    /// Returns the time of the network. That of a network of only Gs is the clock of their bubble, if they are in one.
    pub(crate) fn now<Plat: Platform>(self) -> Instant {
        match self {
            Self::Device => Plat::now(),
            Self::Gs => time::now::<Plat>(),
        }
    }
}

/// What wakes the G that serves a link, which is the only one that waits. A wake-up that comes while it does not wait is
/// kept. Several of them count as one.
pub(crate) enum Wake<Plat: Platform> {
    /// For [`WokenBy::Device`].
    Device(Signal<Plat>),
    /// For [`WokenBy::Gs`].
    Gs { is_raised: Mutex<bool, Plat>, raised: Condvar<Plat> },
}

impl<Plat: Platform> Wake<Plat> {
    pub(crate) fn new(woken_by: WokenBy) -> Self {
        match woken_by {
            WokenBy::Device => Self::Device(Signal::new()),
            WokenBy::Gs => Self::Gs { is_raised: Mutex::new(false), raised: Condvar::new() },
        }
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
