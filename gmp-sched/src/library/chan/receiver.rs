//! The receiving side of a channel.

use core::time::Duration;

use super::handle::{self, Handle, Receiving};
use super::header::{RECEIVE_ON, Side};
use super::perform::Unmoved;
use super::{Iter, RecvError, RecvTimeoutError, TryRecvError};
use crate::base::error::OutOfResources;
use crate::library::limit::{ContextError, Limit, Patience};
use crate::platform::Platform;

/// The receiving side of a channel. Go: `<-chan T`. After the last receiver is dropped, nothing can be sent.
///
/// ```
/// use gmp_sched::native::{self, Receiver, channel, go};
///
/// fn sum(numbers: Receiver<u32>) -> u32 {
///     numbers.iter().sum()
/// }
///
/// unsafe { native::enter() }.run(1, || {
///     let (sender, receiver) = channel(0);
///     let sum = go(move || sum(receiver));
///     (1..=3).for_each(|n| sender.send(n).unwrap());
///     drop(sender);
///     assert_eq!(sum.join(), Ok(6));
/// });
/// ```
pub struct Receiver<T, Plat: Platform> {
    pub(super) handle: Handle<T, Plat, Receiving>,
}

impl<T, Plat: Platform> Receiver<T, Plat> {
    /// Returns a receiver whose channel never has a sender and is never closed, so its receives block forever. Go: a
    /// nil channel.
    ///
    /// To disable a case of a select, use this receiver in place of the case's own receiver.
    ///
    /// ```
    /// use gmp_sched::chan::TryRecvError;
    /// use gmp_sched::native::Receiver;
    ///
    /// assert_eq!(Receiver::<u8>::never().try_recv(), Err(TryRecvError::Empty));
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

    /// Receives a value, waiting until there is one. Go: `v, ok := <-c`.
    ///
    /// Blocks the calling G; not callable from interrupts.
    ///
    /// ```
    /// use gmp_sched::chan::RecvError;
    /// use gmp_sched::native::{self, channel, go};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (sender, receiver) = channel(0);
    ///     go(move || sender.send("hello").unwrap()).detach();
    ///     assert_eq!(receiver.recv(), Ok("hello"));
    ///     // The sender has been dropped.
    ///     assert_eq!(receiver.recv(), Err(RecvError));
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// The channel is closed and drained.
    ///
    /// # Panics
    ///
    /// The call has to wait, although the caller is pinned or is not a G with a P.
    #[doc(alias = "chanrecv")]
    #[inline(always)]
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.recv_with(Patience::Forever).map_err(|_| RecvError)
    }

    /// Receives a value if there is one. Go: a `select` with one receive and `default`.
    ///
    /// Does not block, and may be called while pinned; not callable from interrupts. Takes no lock if the channel is
    /// empty.
    ///
    /// ```
    /// use gmp_sched::chan::TryRecvError;
    /// use gmp_sched::native::{self, channel};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (sender, receiver) = channel(1);
    ///     assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    ///     sender.send(1).unwrap();
    ///     drop(sender);
    ///     assert_eq!(receiver.try_recv(), Ok(1));
    ///     assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// The call would have to wait, or the channel is closed and drained.
    #[doc(alias = "selectnbrecv")]
    #[inline]
    #[track_caller]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let header = &self.handle.header;
        if !header.looks_ready(Side::Receive) {
            header.check_closed(RECEIVE_ON);
            return Err(TryRecvError::Empty);
        }
        self.recv_with(Patience::Never).map_err(|unmoved| match unmoved {
            Unmoved::Closed => TryRecvError::Closed,
            Unmoved::Ended(_) => TryRecvError::Empty,
        })
    }

    /// Like [`recv`](Self::recv), but waits no longer than `timeout`.
    ///
    /// ```
    /// use core::time::Duration;
    /// use gmp_sched::chan::RecvTimeoutError;
    /// use gmp_sched::native::{self, channel};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (_sender, receiver) = channel::<u8>(0);
    ///     assert_eq!(receiver.recv_timeout(Duration::from_micros(10)), Err(RecvTimeoutError::Timeout));
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// No value came in time, or the channel is closed and drained.
    ///
    /// # Panics
    ///
    /// In the same cases as [`recv`](Self::recv).
    #[track_caller]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_until(Limit::after(timeout))
    }

    /// Like [`recv`](Self::recv), but waits no longer than `limit`, which is a deadline, a context or both. If the
    /// limit is over already, the call does not wait, like [`try_recv`](Self::try_recv). Go: a `select` with
    /// `ctx.Done()`.
    ///
    /// ```
    /// use gmp_sched::chan::RecvTimeoutError;
    /// use gmp_sched::native::{self, Context, channel};
    /// use gmp_sched::time::Instant;
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (sender, receiver) = channel(1);
    ///     sender.send(1).unwrap();
    ///     assert_eq!(receiver.recv_until(Instant::from_nanos(0)), Ok(1));
    ///     assert_eq!(receiver.recv_until(Instant::from_nanos(0)), Err(RecvTimeoutError::Timeout));
    ///     let (context, cancel) = Context::background().with_cancel();
    ///     cancel.cancel();
    ///     assert_eq!(receiver.recv_until(&context), Err(RecvTimeoutError::Canceled));
    /// });
    /// ```
    ///
    /// # Errors
    ///
    /// No value came within the limit, or the channel is closed and drained.
    ///
    /// # Panics
    ///
    /// In the same cases as [`recv_timeout`](Self::recv_timeout).
    #[track_caller]
    pub fn recv_until<'a>(&self, limit: impl Into<Limit<'a, Plat>>) -> Result<T, RecvTimeoutError> {
        self.recv_with(Patience::Until(&limit.into())).map_err(|unmoved| match unmoved {
            Unmoved::Closed => RecvTimeoutError::Closed,
            Unmoved::Ended(ContextError::DeadlineExceeded) => RecvTimeoutError::Timeout,
            Unmoved::Ended(ContextError::Canceled) => RecvTimeoutError::Canceled,
        })
    }

    /// Receives a value, and checks that the calling G may use the channel.
    #[inline(always)]
    #[track_caller]
    fn recv_with(&self, patience: Patience<'_, Plat>) -> Result<T, Unmoved> {
        let received = self.handle.receive(patience);
        if received.is_err() {
            self.handle.header.check_closed(RECEIVE_ON);
        }
        received
    }

    /// Iterates over received values until the channel is closed and drained. Go: `for v := range c`.
    ///
    /// ```
    /// use gmp_sched::native::{self, channel, go};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (sender, receiver) = channel(0);
    ///     go(move || (0..4).for_each(|n| sender.send(n).unwrap())).detach();
    ///     assert!(receiver.iter().eq(0..4));
    /// });
    /// ```
    pub fn iter(&self) -> Iter<'_, T, Plat> {
        Iter { receiver: self }
    }
}
