//! Acquired permits.

use core::fmt;

use super::Semaphore;
use crate::platform::Platform;

/// Acquired permits of a [`Semaphore`]. Dropping this value releases the permits. Any G may drop it.
///
/// ```
/// use gmp_sched::native::{self, Semaphore};
/// static SEMAPHORE: Semaphore = Semaphore::new(1);
/// unsafe { native::enter() }.run(1, || {
///     let permit = SEMAPHORE.acquire(1);
///     native::go(move || drop(permit)).join().unwrap();
///     assert_eq!(SEMAPHORE.available(), 1);
/// });
/// ```
#[must_use = "dropping it releases the permits at once"]
pub struct Permit<'a, Plat: Platform> {
    pub(super) semaphore: &'a Semaphore<Plat>,
    pub(super) permits: u32,
}

impl<Plat: Platform> Permit<'_, Plat> {
    /// The number of permits.
    ///
    /// ```
    /// assert_eq!(gmp_sched::native::Semaphore::new(3).acquire(2).permits(), 2);
    /// ```
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// Drops this value without releasing the permits. [`Semaphore::release`] can release them later.
    ///
    /// ```
    /// let semaphore = gmp_sched::native::Semaphore::new(3);
    /// semaphore.acquire(2).forget();
    /// assert_eq!(semaphore.available(), 1);
    /// ```
    pub fn forget(self) {
        core::mem::forget(self);
    }
}

impl<Plat: Platform> Drop for Permit<'_, Plat> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.release(self.permits);
    }
}

impl<Plat: Platform> fmt::Debug for Permit<'_, Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({})", self.permits)
    }
}
