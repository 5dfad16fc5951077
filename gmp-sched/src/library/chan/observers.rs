//! What both sides of a channel have in common: queries and cloning.

use core::fmt;

use super::{Channel, Receiver, Sender};
use crate::platform::Platform;

macro_rules! observers {
    ($side:ident) => {
        impl<T, Plat: Platform> $side<T, Plat> {
            /// Number of values in the buffer. The number may be out of date by the time the caller uses it. Takes no
            /// lock. Go: `len(c)`.
            ///
            /// ```
            /// use gmp_sched::native::{self, channel};
            ///
            /// unsafe { native::enter() }.run(1, || {
            ///     let (sender, receiver) = channel(2);
            ///     sender.send(1).unwrap();
            ///     assert_eq!((sender.len(), receiver.len(), receiver.capacity()), (1, 1, 2));
            /// });
            /// ```
            #[must_use]
            #[doc(alias = "chanlen")]
            pub fn len(&self) -> usize {
                self.handle.header.len()
            }

            /// Whether the buffer is empty; see [`len`](Self::len).
            ///
            /// ```
            /// assert!(gmp_sched::native::channel::<u8>(3).1.is_empty());
            /// ```
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Capacity of the buffer. Go: `cap(c)`.
            ///
            /// ```
            /// assert_eq!(gmp_sched::native::channel::<u8>(3).1.capacity(), 3);
            /// ```
            #[must_use]
            #[doc(alias = "chancap")]
            pub fn capacity(&self) -> usize {
                self.handle.header.capacity
            }

            /// Whether the channel is closed, so that nothing can be sent any more. Takes no lock.
            ///
            /// ```
            /// let (sender, receiver) = gmp_sched::native::channel::<u8>(1);
            /// drop(receiver);
            /// assert!(sender.is_closed());
            /// ```
            #[must_use]
            pub fn is_closed(&self) -> bool {
                self.handle.header.is_closed()
            }

            /// Returns the channel, for use in selects.
            #[inline]
            pub(crate) fn channel(&self) -> &Channel<T, Plat> {
                &self.handle
            }
        }

        impl<T, Plat: Platform> Clone for $side<T, Plat> {
            #[inline]
            fn clone(&self) -> Self {
                Self { handle: self.handle.clone() }
            }
        }

        impl<T, Plat: Platform> fmt::Debug for $side<T, Plat> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.handle.fmt(f)
            }
        }
    };
}

observers!(Sender);
observers!(Receiver);
