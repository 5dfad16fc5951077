//! What a case can send to.

use core::ops::Deref;

use crate::library::chan::{Chan, Sender};
use crate::platform::Platform;

/// What a case of a select can send to: a [`Sender`], a [`Chan`], and pointers to them.
///
/// A type that contains one of these can implement this trait, too:
///
/// ```
/// use gmp_sched::native::{self, Native, Sender, channel};
/// use gmp_sched::select;
/// use gmp_sched::select::Sink;
///
/// struct Log {
///     lines: Sender<String>,
/// }
///
/// impl Sink for Log {
///     type Value = String;
///     type Platform = Native;
///
///     fn sender(&self) -> &Sender<String> {
///         &self.lines
///     }
/// }
///
/// unsafe { native::enter() }.run(1, || {
///     let (lines, written) = channel(1);
///     let log = Log { lines };
///     select! {
///         send(log, "begins".into()) => {}
///     }
///     assert_eq!(written.recv().as_deref(), Ok("begins"));
/// });
/// ```
#[diagnostic::on_unimplemented(message = "a select cannot send to `{Self}`", label = "not a sender")]
pub trait Sink {
    /// The type of the sent value.
    type Value;

    /// The platform of the channel.
    type Platform: Platform;

    /// Returns the sender through which a case of a select sends.
    fn sender(&self) -> &Sender<Self::Value, Self::Platform>;
}

impl<T, Plat: Platform> Sink for Sender<T, Plat> {
    type Value = T;
    type Platform = Plat;

    #[inline(always)]
    fn sender(&self) -> &Self {
        self
    }
}

impl<T, Plat: Platform> Sink for Chan<T, Plat> {
    type Value = T;
    type Platform = Plat;

    #[inline(always)]
    fn sender(&self) -> &Sender<T, Plat> {
        self.sender()
    }
}

impl<D: Deref<Target: Sink>> Sink for D {
    type Value = <D::Target as Sink>::Value;
    type Platform = <D::Target as Sink>::Platform;

    #[inline(always)]
    fn sender(&self) -> &Sender<Self::Value, Self::Platform> {
        (**self).sender()
    }
}
