//! A timer that can be waited for, stopped and set again.

use core::time::Duration;

use super::{Instant, RESET, STOP, TimerSlot, instant_after};
use crate::base::error::OutOfResources;
use crate::platform::Platform;

/// A timer that fires once, and that can be set again. Go: `time.Timer`.
///
/// When the timer fires, there is a tick, which is the time of firing or, if no G waited for it, the time at which it
/// was due. [`wait`](Self::wait) or [`try_wait`](Self::try_wait) receives the tick. Dropping the timer stops it. If
/// several Gs share the timer, one of them receives each tick.
///
/// ```
/// use core::time::Duration;
/// use gmp_sched::native::{self, Timer};
///
/// unsafe { native::enter() }.run(1, || {
///     let start = native::now();
///     let timer = Timer::new(Duration::from_millis(2));
///     assert!(timer.wait() - start >= Duration::from_millis(2));
///     timer.reset(Duration::from_secs(3600));
///     assert!(timer.try_wait().is_none());
///     // Stopped before it fires: there is no tick to wait for.
///     assert!(timer.stop());
///     assert!(timer.try_wait().is_none());
/// });
/// ```
pub struct Timer<Plat: Platform> {
    pub(super) slot: &'static TimerSlot<Plat>,
}

/// Makes a timer that fires after `duration`, for a case of a select. Go: `time.After`.
///
/// This is the same as [`Timer::new`]. A timer made in the select is stopped as soon as the select is over. (In Go the
/// timer would keep running.)
///
/// ```
/// use core::time::Duration;
/// use gmp_sched::native::{self, Receiver, after};
/// use gmp_sched::select;
///
/// unsafe { native::enter() }.run(1, || {
///     let nobody_sends = Receiver::<u8>::never();
///     select! {
///         recv(nobody_sends) => unreachable!(),
///         recv(after(Duration::from_millis(1))) => {}
///     }
/// });
/// ```
///
/// # Panics
///
/// In the same cases as [`Timer::new`].
#[doc(alias = "After")]
#[must_use]
#[track_caller]
pub fn after<Plat: Platform>(duration: Duration) -> Timer<Plat> {
    Timer::new(duration)
}

impl<Plat: Platform> Timer<Plat> {
    /// Makes a timer that fires after `duration`. Go: `time.NewTimer`. See [`Timer`] for an example.
    ///
    /// Does not block; not callable from interrupts.
    ///
    /// # Panics
    ///
    /// There is no memory for another timer, or the caller is not a G with a P.
    #[doc(alias = "NewTimer")]
    #[must_use]
    #[track_caller]
    pub fn new(duration: Duration) -> Self {
        match Self::try_new(duration) {
            Ok(timer) => timer,
            Err(error) => panic!("cannot make a timer: {error}"),
        }
    }

    /// Like [`new`](Self::new), but returns an error if there is no memory.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::native::{self, Timer};
    ///
    /// unsafe { native::enter() }.run(1, || assert!(Timer::try_new(Duration::from_secs(1)).is_ok()));
    /// ```
    ///
    /// # Errors
    ///
    /// There is no memory for another timer; nothing has happened.
    ///
    /// # Panics
    ///
    /// The caller is not a G with a P.
    #[track_caller]
    pub fn try_new(duration: Duration) -> Result<Self, OutOfResources> {
        Self::try_at(instant_after(super::now::<Plat>(), duration))
    }

    /// Makes a timer that fires at `when`. With [`Instant::NEVER`] the new timer is stopped.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::native::{self, Timer};
    /// use gmp_sched::time::Instant;
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let when = native::now() + Duration::from_millis(1);
    ///     assert!(Timer::try_at(when).unwrap().wait() >= when);
    ///     assert!(!Timer::try_at(Instant::NEVER).unwrap().stop());
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// There is no memory for another timer; nothing has happened.
    ///
    /// # Panics
    ///
    /// The caller is not a G with a P.
    #[track_caller]
    pub fn try_at(when: Instant) -> Result<Self, OutOfResources> {
        let slot = TimerSlot::take()?;
        let timer = Self { slot };
        slot.set(when, Duration::ZERO);
        Ok(timer)
    }

    /// Stops the timer, and drops a tick that has not been received. Returns whether the timer was set and its tick had
    /// not been received, even if it was due. Go: `Timer.Stop`.
    ///
    /// Does not block; not callable from interrupts.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::native::{self, Timer};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let timer = Timer::new(Duration::from_secs(3600));
    ///     assert!(timer.stop() && !timer.stop());
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// The caller is outside of the [bubble](crate#features) in which the timer was made.
    #[doc(alias = "Stop")]
    #[track_caller]
    pub fn stop(&self) -> bool {
        self.slot.check_bubble(STOP);
        self.slot.stop()
    }

    /// Sets the timer to fire `duration` from now instead, and drops a tick that has not been received. Returns the
    /// same as [`stop`](Self::stop). Go: `Timer.Reset`.
    ///
    /// Does not block; not callable from interrupts.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::native::{self, Timer};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let timer = Timer::new(Duration::from_secs(3600));
    ///     assert!(timer.reset(Duration::from_millis(1)));
    ///     timer.wait();
    ///     assert!(!timer.reset(Duration::from_millis(1)), "it had fired, and that was taken");
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// The caller is not a G with a P, or is outside of the [bubble](crate#features) in which the timer was made.
    #[doc(alias = "Reset")]
    #[track_caller]
    pub fn reset(&self, duration: Duration) -> bool {
        let bubble = self.slot.check_bubble(RESET);
        self.slot.set(instant_after(bubble.now(), duration), Duration::ZERO)
    }

    /// Sets the timer like [`reset`](Self::reset), but to the point in time `when`.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::native::{self, Timer};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let timer = Timer::new(Duration::from_secs(3600));
    ///     let when = native::now() + Duration::from_millis(1);
    ///     timer.reset_at(when);
    ///     assert!(timer.wait() >= when);
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// In the same cases as [`reset`](Self::reset).
    #[track_caller]
    pub fn reset_at(&self, when: Instant) -> bool {
        self.slot.check_bubble(RESET);
        self.slot.set(when, Duration::ZERO)
    }
}
