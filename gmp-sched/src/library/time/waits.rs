//! The methods that timers and tickers have in common: receiving ticks, and releasing the timer's slot.

use core::fmt;

use super::{Instant, Ticker, Timer};
use crate::library::chan::Unmoved;
use crate::library::limit::{ContextError, Limit, Patience};
use crate::library::select::{RecvCase, Source};
use crate::platform::{Pinned, Platform};

macro_rules! waits {
    ($type:ident) => {
        impl<Plat: Platform> $type<Plat> {
            /// Waits for the next tick; returns its time. Go: `<-t.C`.
            ///
            /// Blocks the calling G, forever if the timer is stopped and never set again. Not callable from interrupts.
            ///
            /// ```
            /// use core::time::Duration;
            #[doc = concat!("use gmp_sched::native::{self, ", stringify!($type), "};")]
            ///
            /// unsafe { native::enter() }.run(1, || {
            #[doc = concat!("    let tick = ", stringify!($type), "::new(Duration::from_millis(1)).wait();")]
            ///     assert!(tick <= native::now());
            /// });
            /// ```
            ///
            /// # Panics
            ///
            /// The call has to wait, although the caller is pinned or is not a G with a P. Or the caller is outside of
            /// the [bubble](crate#features) in which the timer or ticker was made.
            #[track_caller]
            pub fn wait(&self) -> Instant {
                self.receive(Patience::Forever).expect("nothing else ends this wait")
            }

            /// The same as [`wait`](Self::wait), under the name that the method of a
            /// [receiver](crate::chan::Receiver::recv) has. A timer is never closed, so there is no error.
            ///
            /// # Panics
            ///
            /// In the same cases as [`wait`](Self::wait).
            #[track_caller]
            pub fn recv(&self) -> Instant {
                self.wait()
            }

            /// Waits like [`wait`](Self::wait), but no longer than `limit`, which is a deadline, a context or both.
            ///
            /// ```
            /// use core::time::Duration;
            /// use gmp_sched::cancel::ContextError;
            #[doc = concat!("use gmp_sched::native::{self, ", stringify!($type), "};")]
            ///
            /// unsafe { native::enter() }.run(1, || {
            #[doc = concat!("    let hours = ", stringify!($type), "::new(Duration::from_secs(3600));")]
            ///     assert_eq!(hours.wait_until(native::now() + Duration::from_millis(1)), Err(ContextError::DeadlineExceeded));
            /// });
            /// ```
            ///
            /// # Errors
            ///
            /// There was no tick within the limit.
            ///
            /// # Panics
            ///
            /// The call has to wait, although the caller is pinned or is not a G with a P. Or the caller is outside of
            /// the [bubble](crate#features) in which the timer or ticker was made.
            #[track_caller]
            pub fn wait_until<'a>(&self, limit: impl Into<Limit<'a, Plat>>) -> Result<Instant, ContextError> {
                self.receive(Patience::Until(&limit.into()))
            }

            #[track_caller]
            fn receive(&self, patience: Patience<'_, Plat>) -> Result<Instant, ContextError> {
                self.slot.ticks().receive(patience).map_err(|unmoved| match unmoved {
                    Unmoved::Ended(error) => error,
                    Unmoved::Closed => unreachable!("the channel of a timer is never closed"),
                })
            }

            /// Receives the tick if there is one, and returns its time. Does not arm the timer. Does not block; not
            /// callable from interrupts.
            ///
            /// ```
            /// use core::time::Duration;
            #[doc = concat!("use gmp_sched::native::{self, ", stringify!($type), "};")]
            ///
            /// unsafe { native::enter() }.run(1, || {
            #[doc = concat!("    assert!(", stringify!($type), "::new(Duration::from_secs(3600)).try_wait().is_none());")]
            /// });
            /// ```
            ///
            /// # Panics
            ///
            /// The caller is outside of the [bubble](crate#features) in which the timer or ticker was made.
            #[must_use]
            #[track_caller]
            pub fn try_wait(&self) -> Option<Instant> {
                self.slot.try_take()
            }
        }

        /// In a case of a select, a timer or ticker yields its ticks, and is never closed. Go: `t.C`.
        impl<Plat: Platform> Source for $type<Plat> {
            type Value = Instant;
            type Platform = Plat;

            fn recv_case(&self) -> RecvCase<'_, Instant, Plat> {
                RecvCase::new(self.slot.ticks())
            }
        }

        impl<Plat: Platform> Drop for $type<Plat> {
            fn drop(&mut self) {
                self.slot.stop();
                self.slot.give_back(&Pinned::of_scheduler());
            }
        }

        impl<Plat: Platform> fmt::Debug for $type<Plat> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($type)).field("slot", self.slot).finish()
            }
        }
    };
}

waits!(Timer);
waits!(Ticker);
