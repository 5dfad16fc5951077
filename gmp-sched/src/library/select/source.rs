//! What a case can receive from.

use core::ops::Deref;

use super::RecvCase;
use crate::library::chan::{Chan, Receiver};
use crate::platform::Platform;

/// What a case of a select can receive from: a [`Receiver`], a [`Chan`], a [`Timer`](crate::time::Timer), a
/// [`Ticker`](crate::time::Ticker), and pointers to them. For a context, use the receiver that its
/// [`done`](crate::cancel::Context::done) returns.
///
/// A type that contains one of these can implement this trait, too:
///
/// ```
/// use core::time::Duration;
/// use gmp_sched::native::{self, Native, Timer};
/// use gmp_sched::select;
/// use gmp_sched::select::{RecvCase, Source};
/// use gmp_sched::time::Instant;
///
/// struct Alarm {
///     timer: Timer,
/// }
///
/// impl Source for Alarm {
///     type Value = Instant;
///     type Platform = Native;
///
///     fn recv_case(&self) -> RecvCase<'_, Instant, Native> {
///         self.timer.recv_case()
///     }
/// }
///
/// unsafe { native::enter() }.run(1, || {
///     let alarm = Alarm { timer: Timer::new(Duration::from_millis(1)) };
///     select! {
///         recv(alarm) -> when => assert!(when.unwrap() <= native::now()),
///     }
/// });
/// ```
#[diagnostic::on_unimplemented(
    message = "a select cannot receive from `{Self}`",
    label = "not a receiver, timer or ticker"
)]
pub trait Source {
    /// The type of the received value.
    type Value;

    /// The platform of the channel.
    type Platform: Platform;

    /// Makes a case that receives from this source, for one select.
    #[track_caller]
    fn recv_case(&self) -> RecvCase<'_, Self::Value, Self::Platform>;
}

/// Makes a case that receives from `source`. Go: `case v := <-c`.
///
/// ```
/// use gmp_sched::native::{self, channel};
/// use gmp_sched::select::{Select, recv};
///
/// unsafe { native::enter() }.run(1, || {
///     let (sender, receiver) = channel(1);
///     sender.send(5).unwrap();
///     let mut case = recv(&receiver);
///     assert_eq!(Select::new(&mut [case.case()]).wait(), 0);
///     assert_eq!(case.into_result(), Some(Ok(5)));
/// });
/// ```
#[inline]
#[track_caller]
pub fn recv<S: Source + ?Sized>(source: &S) -> RecvCase<'_, S::Value, S::Platform> {
    source.recv_case()
}

impl<T, Plat: Platform> Source for Receiver<T, Plat> {
    type Value = T;
    type Platform = Plat;

    #[inline]
    fn recv_case(&self) -> RecvCase<'_, T, Plat> {
        RecvCase::new(self.channel())
    }
}

impl<T, Plat: Platform> Source for Chan<T, Plat> {
    type Value = T;
    type Platform = Plat;

    #[inline]
    fn recv_case(&self) -> RecvCase<'_, T, Plat> {
        self.receiver().recv_case()
    }
}

impl<D: Deref<Target: Source>> Source for D {
    type Value = <D::Target as Source>::Value;
    type Platform = <D::Target as Source>::Platform;

    #[inline]
    fn recv_case(&self) -> RecvCase<'_, Self::Value, Self::Platform> {
        (**self).recv_case()
    }
}
