//! The line of code at which a G waits. Reports of the platforms of the host (feature `std`) show it.
//!
//! The blocking operations are `#[track_caller]`, because a panic after a misuse names the caller's line. So this line
//! is known where the G parks, and recording it costs one store. A report can read the line while other threads run,
//! because it needs no access to the stack of the G. The bare-metal kernel does not record the line. Instead it walks
//! the stack of a parked G (see [`Goroutine::suspended_at`]).

use core::fmt;
use core::hash::{Hash, Hasher};
#[cfg(feature = "std")]
use core::panic::Location;

use super::Goroutine;
use crate::platform::Platform;

#[cfg(feature = "std")]
use crate::base::atomic::Ordering;

/// The line of code that called a blocking operation. Without the feature `std`, this type contains nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitLocation {
    #[cfg(feature = "std")]
    location: &'static Location<'static>,
}

impl WaitLocation {
    /// Returns the line of the caller.
    #[inline(always)]
    #[cfg_attr(feature = "std", track_caller)]
    pub(crate) fn here() -> Self {
        Self {
            #[cfg(feature = "std")]
            location: Location::caller(),
        }
    }
}

/// Displays the line of code at which a G waits, as one more line of a report. The text is empty if the line of code is
/// unknown.
#[derive(Debug)]
pub(crate) struct WaitLine(#[cfg(feature = "std")] Option<&'static Location<'static>>);

impl<Plat: Platform> Goroutine<Plat> {
    /// Records where the G is about to wait.
    #[inline(always)]
    pub(crate) fn set_wait_location(&self, location: WaitLocation) {
        #[cfg(feature = "std")]
        self.wait_location.store(Some(location.location), Ordering::Relaxed);
        #[cfg(not(feature = "std"))]
        let WaitLocation {} = location;
    }

    /// Returns the line at which the G waits. The text of the returned line is empty if the G does not wait, or without
    /// the feature `std`.
    pub(crate) fn wait_line(&'static self) -> WaitLine {
        WaitLine(
            #[cfg(feature = "std")]
            self.wait_location.load(Ordering::Relaxed).filter(|_| self.status() == super::Status::Waiting),
        )
    }
}

impl fmt::Display for WaitLine {
    #[cfg_attr(not(feature = "std"), expect(unused_variables, reason = "there is nothing to display"))]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[cfg(feature = "std")]
        if let Some(location) = self.0 {
            return write!(f, "\n  in {}:{}", location.file(), location.line());
        }
        Ok(())
    }
}

impl Hash for WaitLine {
    #[cfg_attr(not(feature = "std"), expect(unused_variables, reason = "there is nothing to hash"))]
    fn hash<H: Hasher>(&self, state: &mut H) {
        #[cfg(feature = "std")]
        self.0.hash(state);
    }
}
