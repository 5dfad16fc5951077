//! A timer that fires periodically.

use core::time::Duration;

use super::{RESET, STOP, TimerSlot, instant_after};
use crate::base::error::OutOfResources;
use crate::platform::Platform;

/// A timer that fires at regular intervals. Go: `time.Ticker`.
///
/// A ticker holds at most one tick, the first one that was missed. A slow receiver misses ticks, but the next tick
/// still comes at a multiple of the interval. Dropping the ticker stops it.
///
/// ```
/// use core::time::Duration;
/// use gmp_sched::native::{self, Ticker};
///
/// unsafe { native::enter() }.run(1, || {
///     let start = native::now();
///     let ticker = Ticker::new(Duration::from_millis(2));
///     for tick in 1..=3 {
///         assert!(ticker.wait() - start >= Duration::from_millis(2) * tick);
///     }
///     ticker.stop();
///     assert!(ticker.try_wait().is_none());
/// });
/// ```
pub struct Ticker<Plat: Platform> {
    pub(super) slot: &'static TimerSlot<Plat>,
}

impl<Plat: Platform> Ticker<Plat> {
    /// Makes a ticker that fires once per `interval`. The first tick comes after one interval. Go: `time.NewTicker`.
    /// See [`Ticker`] for an example.
    ///
    /// Does not block; not callable from interrupts.
    ///
    /// # Panics
    ///
    /// - `interval` is zero.
    /// - There is no memory for another timer.
    /// - The caller is not a G with a P.
    #[doc(alias = "NewTicker")]
    #[must_use]
    #[track_caller]
    pub fn new(interval: Duration) -> Self {
        assert!(!interval.is_zero(), "non-positive interval for NewTicker");
        match Self::try_new(interval) {
            Ok(ticker) => ticker,
            Err(error) => panic!("cannot make a ticker: {error}"),
        }
    }

    /// Like [`new`](Self::new), but returns an error if there is no memory.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::native::{self, Ticker};
    ///
    /// unsafe { native::enter() }.run(1, || assert!(Ticker::try_new(Duration::from_secs(1)).is_ok()));
    /// ```
    ///
    /// # Errors
    ///
    /// There is no memory for another timer; nothing has happened.
    ///
    /// # Panics
    ///
    /// `interval` is zero, or the caller is not a G with a P.
    #[track_caller]
    pub fn try_new(interval: Duration) -> Result<Self, OutOfResources> {
        assert!(!interval.is_zero(), "non-positive interval for NewTicker");
        let slot = TimerSlot::take()?;
        let ticker = Self { slot };
        slot.set(instant_after(super::now::<Plat>(), interval), interval);
        Ok(ticker)
    }

    /// Stops the ticker, and drops a tick that has not been received. Go: `Ticker.Stop`. See [`Ticker`] for an example.
    ///
    /// Does not block; not callable from interrupts.
    ///
    /// # Panics
    ///
    /// The caller is outside of the [bubble](crate#features) in which the ticker was made.
    #[doc(alias = "Stop")]
    #[track_caller]
    pub fn stop(&self) {
        self.slot.check_bubble(STOP);
        self.slot.stop();
    }

    /// Restarts the ticker with a new interval, and drops a tick that has not been received. Go: `Ticker.Reset`.
    ///
    /// Does not block; not callable from interrupts.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::native::{self, Ticker};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let ticker = Ticker::new(Duration::from_secs(3600));
    ///     ticker.reset(Duration::from_millis(1));
    ///     ticker.wait();
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// - `interval` is zero.
    /// - The caller is not a G with a P, or is outside of the [bubble](crate#features) in which the ticker was made.
    #[doc(alias = "Reset")]
    #[track_caller]
    pub fn reset(&self, interval: Duration) {
        assert!(!interval.is_zero(), "non-positive interval for Ticker.Reset");
        let bubble = self.slot.check_bubble(RESET);
        self.slot.set(instant_after(bubble.now(), interval), interval);
    }
}
