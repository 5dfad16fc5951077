//! The errors of sends and receives.

use core::fmt;

/// The channel is closed or has no receivers left, so nothing can ever be sent. The error holds the value. Go: the
/// panic "send on closed channel".
///
/// ```
/// let (sender, receiver) = gmp_sched::native::channel(0);
/// drop(receiver);
/// let error = sender.send("late").unwrap_err();
/// assert_eq!((error.to_string(), error.into_inner()), ("send on a closed channel".to_string(), "late"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// The value was not sent: the sender would have to wait, or nothing can be sent any more. The error holds the value.
///
/// ```
/// use gmp_sched::chan::TrySendError;
///
/// let (sender, _receiver) = gmp_sched::native::channel(0);
/// assert!(matches!(sender.try_send(1), Err(TrySendError::Full(1))));
/// assert_eq!(sender.try_send(2).unwrap_err().into_inner(), 2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// The sender would have to wait.
    Full(T),
    /// The channel is closed or has no receivers left.
    Closed(T),
}

/// The value was not sent, because the limit of the wait was over or the channel is closed. The error holds the value.
///
/// ```
/// use core::time::Duration;
/// use gmp_sched::native::{self, channel};
///
/// unsafe { native::enter() }.run(1, || {
///     let (sender, _receiver) = channel(0);
///     let error = sender.send_timeout(1, Duration::from_millis(1)).unwrap_err();
///     assert_eq!((error.to_string(), error.into_inner()), ("send timed out".to_string(), 1));
/// });
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// The deadline of the wait has passed.
    Timeout(T),
    /// The context that limited the wait was cancelled.
    Canceled(T),
    /// The channel is closed or has no receivers left.
    Closed(T),
}

/// The channel is closed and drained: no value will ever come. Go: `ok == false`.
///
/// ```
/// use gmp_sched::native::{self, channel};
///
/// unsafe { native::enter() }.run(1, || {
///     let (sender, receiver) = channel::<u8>(0);
///     drop(sender);
///     assert_eq!(receiver.recv().unwrap_err().to_string(), "receive from a closed channel");
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvError;

/// No value was received: the receiver would have to wait, or the channel is closed and drained.
///
/// ```
/// let (_sender, receiver) = gmp_sched::native::channel::<u8>(0);
/// assert_eq!(receiver.try_recv().unwrap_err().to_string(), "receive from an empty channel");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// The receiver would have to wait.
    Empty,
    /// The channel is closed and drained.
    Closed,
}

/// No value was received, because the limit of the wait was over or the channel is closed and drained.
///
/// ```
/// use core::time::Duration;
/// use gmp_sched::native::{self, channel};
///
/// unsafe { native::enter() }.run(1, || {
///     let (_sender, receiver) = channel::<u8>(0);
///     let error = receiver.recv_timeout(Duration::from_millis(1)).unwrap_err();
///     assert_eq!(error.to_string(), "receive timed out");
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvTimeoutError {
    /// The deadline of the wait has passed.
    Timeout,
    /// The context that limited the wait was cancelled.
    Canceled,
    /// The channel is closed and drained.
    Closed,
}

impl<T> SendError<T> {
    /// The value. See [`SendError`] for an example.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> TrySendError<T> {
    /// The value. See [`TrySendError`] for an example.
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(value) | Self::Closed(value) => value,
        }
    }
}

impl<T> SendTimeoutError<T> {
    /// The value. See [`SendTimeoutError`] for an example.
    pub fn into_inner(self) -> T {
        match self {
            Self::Timeout(value) | Self::Canceled(value) | Self::Closed(value) => value,
        }
    }
}

const SEND_CLOSED: &str = "send on a closed channel";
const RECV_CLOSED: &str = "receive from a closed channel";

/// Implements `Debug` or `Display` for an error by a text for each of its cases.
macro_rules! texts {
    ([$($parameter:ident)?] $trait:ident for $error:ty: $($case:pat => $text:expr),+) => {
        impl<$($parameter)?> fmt::$trait for $error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($case => $text),+ })
            }
        }
    };
}

// The errors of sends omit the value in `Debug`, because it need not implement `Debug`.
texts!([T] Debug for SendError<T>: Self(_) => "SendError(..)");
texts!([T] Debug for TrySendError<T>: Self::Full(_) => "Full(..)", Self::Closed(_) => "Closed(..)");
texts!([T] Debug for SendTimeoutError<T>:
    Self::Timeout(_) => "Timeout(..)", Self::Canceled(_) => "Canceled(..)", Self::Closed(_) => "Closed(..)");

texts!([T] Display for SendError<T>: Self(_) => SEND_CLOSED);
texts!([T] Display for TrySendError<T>: Self::Full(_) => "send on a full channel", Self::Closed(_) => SEND_CLOSED);
texts!([T] Display for SendTimeoutError<T>:
    Self::Timeout(_) => "send timed out", Self::Canceled(_) => "send canceled", Self::Closed(_) => SEND_CLOSED);
texts!([] Display for RecvError: Self => RECV_CLOSED);
texts!([] Display for TryRecvError: Self::Empty => "receive from an empty channel", Self::Closed => RECV_CLOSED);
texts!([] Display for RecvTimeoutError:
    Self::Timeout => "receive timed out", Self::Canceled => "receive canceled", Self::Closed => RECV_CLOSED);

impl<T> core::error::Error for SendError<T> {}
impl<T> core::error::Error for TrySendError<T> {}
impl<T> core::error::Error for SendTimeoutError<T> {}
impl core::error::Error for RecvError {}
impl core::error::Error for TryRecvError {}
impl core::error::Error for RecvTimeoutError {}
