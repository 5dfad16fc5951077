//! The sending side of a channel.

use core::time::Duration;

use super::handle::{self, Handle, Sending};
use super::header::{SEND_ON, Side};
use super::perform::Unmoved;
use super::{SendError, SendTimeoutError, TrySendError};
use crate::base::error::OutOfResources;
use crate::library::limit::{ContextError, Limit, Patience};
use crate::platform::Platform;

/// The sending side of a channel. Go: `chan<- T`. Dropping the last sender closes the channel.
///
/// ```
/// use gmp_sched::native::{self, Sender, channel, go};
///
/// fn squares(numbers: Sender<u32>) {
///     (1..=3).for_each(|n| numbers.send(n * n).unwrap());
/// }
///
/// unsafe { native::enter() }.run(1, || {
///     let (sender, receiver) = channel(0);
///     go(move || squares(sender)).detach();
///     assert!(receiver.iter().eq([1, 4, 9]));
/// });
/// ```
pub struct Sender<T, Plat: Platform> {
    pub(super) handle: Handle<T, Plat, Sending>,
}

impl<T, Plat: Platform> Sender<T, Plat> {
    /// Returns a sender whose channel never has a receiver and is never closed, so its sends block forever. Go: a nil
    /// channel.
    ///
    /// To disable a case of a select, use this sender in place of the case's own sender.
    ///
    /// ```
    /// use gmp_sched::chan::TrySendError;
    /// use gmp_sched::native::Sender;
    ///
    /// assert_eq!(Sender::never().try_send(1), Err(TrySendError::Full(1)));
    /// ```
    ///
    /// # Panics
    ///
    /// There is no memory for the channel.
    #[must_use]
    #[track_caller]
    pub fn never() -> Self {
        match handle::single() {
            Ok(handle) => Self { handle },
            Err(OutOfResources) => panic!("cannot make a channel: no memory"),
        }
    }

    /// Sends `value`, waiting until a receiver takes it or there is room for it. Go: `c <- v`.
    ///
    /// Blocks the calling G; not callable from interrupts.
    ///
    /// ```
    /// use gmp_sched::native::{self, channel, go};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (sender, receiver) = channel(0);
    ///     let reader = go(move || receiver.recv());
    ///     sender.send(7).unwrap();
    ///     assert_eq!(reader.join().unwrap(), Ok(7));
    ///     // The receiver has been dropped.
    ///     assert_eq!(sender.send(8).unwrap_err().into_inner(), 8);
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// The channel is closed, or is closed during the wait. The error holds the value.
    ///
    /// # Panics
    ///
    /// The call has to wait, although the caller is pinned or is not a G with a P.
    #[doc(alias = "chansend")]
    #[inline(always)]
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.send_with(value, Patience::Forever).map_err(|(value, _)| SendError(value))
    }

    /// Sends `value` if no wait is needed. Go: a `select` with one send and `default`.
    ///
    /// Does not block, and may be called while pinned; not callable from interrupts. Takes no lock if the channel is
    /// full.
    ///
    /// ```
    /// use gmp_sched::chan::TrySendError;
    /// use gmp_sched::native::{self, channel};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (sender, receiver) = channel(1);
    ///     assert_eq!(sender.try_send(1), Ok(()));
    ///     assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
    ///     drop(receiver);
    ///     assert_eq!(sender.try_send(3), Err(TrySendError::Closed(3)));
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// The call would have to wait, or the channel is closed. The error holds the value.
    #[doc(alias = "selectnbsend")]
    #[inline]
    #[track_caller]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let header = &self.handle.header;
        if !header.looks_ready(Side::Send) {
            header.check_closed(SEND_ON);
            return Err(TrySendError::Full(value));
        }
        self.send_with(value, Patience::Never).map_err(|(value, unmoved)| match unmoved {
            Unmoved::Closed => TrySendError::Closed(value),
            Unmoved::Ended(_) => TrySendError::Full(value),
        })
    }

    /// Like [`send`](Self::send), but waits no longer than `timeout`.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::chan::SendTimeoutError;
    /// use gmp_sched::native::{self, channel};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (sender, _receiver) = channel(0);
    ///     assert_eq!(sender.send_timeout(1, Duration::from_micros(10)), Err(SendTimeoutError::Timeout(1)));
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// No receiver took the value in time, or the channel is closed. The error holds the value.
    ///
    /// # Panics
    ///
    /// In the same cases as [`send`](Self::send).
    #[track_caller]
    pub fn send_timeout(&self, value: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        self.send_until(value, Limit::after(timeout))
    }

    /// Like [`send`](Self::send), but waits no longer than `limit`, which is a deadline, a context or both. If the
    /// limit is over already, the call does not wait, like [`try_send`](Self::try_send). Go: a `select` with
    /// `ctx.Done()`.
    ///
    /// ```
    /// use gmp_sched::chan::SendTimeoutError;
    /// use gmp_sched::native::{self, Context, channel};
    /// use gmp_sched::time::Instant;
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (sender, _receiver) = channel(1);
    ///     assert_eq!(sender.send_until(1, Instant::NEVER), Ok(()));
    ///     assert_eq!(sender.send_until(2, Instant::from_nanos(0)), Err(SendTimeoutError::Timeout(2)));
    ///     let (context, cancel) = Context::background().with_cancel();
    ///     cancel.cancel();
    ///     assert_eq!(sender.send_until(3, &context), Err(SendTimeoutError::Canceled(3)));
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// No receiver took the value within the limit, or the channel is closed. The error holds the value.
    ///
    /// # Panics
    ///
    /// In the same cases as [`send_timeout`](Self::send_timeout).
    #[track_caller]
    pub fn send_until<'a>(&self, value: T, limit: impl Into<Limit<'a, Plat>>) -> Result<(), SendTimeoutError<T>> {
        self.send_with(value, Patience::Until(&limit.into())).map_err(|(value, unmoved)| match unmoved {
            Unmoved::Closed => SendTimeoutError::Closed(value),
            Unmoved::Ended(ContextError::DeadlineExceeded) => SendTimeoutError::Timeout(value),
            Unmoved::Ended(ContextError::Canceled) => SendTimeoutError::Canceled(value),
        })
    }

    /// Sends `value`, and checks that the calling G may use the channel.
    #[inline(always)]
    #[track_caller]
    fn send_with(&self, value: T, patience: Patience<'_, Plat>) -> Result<(), (T, Unmoved)> {
        let sent = self.handle.send(value, patience);
        if sent.is_err() {
            self.handle.header.check_closed(SEND_ON);
        }
        sent
    }

    /// Closes the channel. Receivers drain the buffer and then get an error. Senders that wait get their values back.
    /// Returns whether the channel was open. If the channel was closed already, nothing changes. A channel made by
    /// [`never`](Self::never) stays open, and the call returns `false`. Go: `close`, which panics on a closed and on a
    /// nil channel.
    ///
    /// Does not block; not callable from interrupts.
    ///
    /// ```
    /// use gmp_sched::chan::RecvError;
    /// use gmp_sched::native::{self, channel};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (sender, receiver) = channel(1);
    ///     sender.send(1).unwrap();
    ///     assert!(sender.close() && !sender.close());
    ///     assert!(sender.send(2).is_err());
    ///     assert_eq!((receiver.recv(), receiver.recv()), (Ok(1), Err(RecvError)));
    /// });
    /// ```
    #[doc(alias = "closechan")]
    #[track_caller]
    pub fn close(&self) -> bool {
        self.handle.header.check_bubble("close of");
        !self.handle.header.is_never() && self.handle.close()
    }

    /// Closes the channel like [`close`](Self::close), but from any bubble. Used for the channel of a context: the G
    /// that cancels the context may be outside of the bubble in which the channel was made.
    pub(crate) fn close_from_anywhere(&self) {
        self.handle.close();
    }
}
