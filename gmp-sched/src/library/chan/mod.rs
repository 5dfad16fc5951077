//! Channels: pass values from one G to another. Go: `chan`.
//!
//! [`channel()`] makes a channel with a buffer of a given capacity. With capacity 0, sender and receiver wait for each
//! other. Both sides can be cloned and shared. Waiters are served in FIFO order.
//!
//! ```
//! use gmp_sched::native::{self, channel, go};
//!
//! unsafe { native::enter() }.run(2, || {
//!     let (sender, receiver) = channel(0);
//!     for n in 1..=3 {
//!         let sender = sender.clone();
//!         go(move || sender.send(n * n).unwrap()).detach();
//!     }
//!     drop(sender);
//!     assert_eq!(receiver.iter().sum::<i32>(), 14);
//! });
//! ```
//!
//! # The end of a channel
//! A channel is closed by [`Sender::close`] or when its last sender is dropped. Afterwards nothing can be sent.
//! Values in the buffer can still be received; after the last of them, receives return an error. When the last
//! receiver is dropped, the channel is closed as well, and the values in the buffer are dropped. A send to a closed
//! channel returns an error, which holds the unsent value. (In Go such a send panics.)
//!
//! # What happens before what
//!
//! - A send happens before the completion of the corresponding receive.
//! - The n-th receive happens before the completion of the (n + capacity)-th send.
//! - Closing happens before a receive that reports the channel as closed.
//!
//! # Scheduling
//!
//! An operation that finds its partner waiting continues without a switch; the partner runs next on the same P, unless
//! another P steals it. Operations do not allocate; only making a channel does. No function here may be called from an
//! interrupt. Operations that have to wait must be called by a G that is not pinned; if no wait is needed, any thread may
//! call them.
//!
//! Both sides may be used by Gs of different schedulers and by threads that are not Ms, because a readied G runs under
//! its own scheduler.
//!
//! # Bubbles
//!
//! A channel made in a [bubble](crate#features) belongs to the Gs of that bubble. A G outside of the bubble panics if
//! it sends to the channel, closes it, or has to wait for it, as in Go. Two kinds of misuse are not detected, because
//! the check would slow down correct use: a G outside of the bubble can receive a buffered value, and a select outside
//! of the bubble waits if it finds nothing ready.

#[expect(unsafe_code, reason = "moves values from one stack to another")]
mod channel;
mod error;
mod go_like;
#[expect(unsafe_code, reason = "counts the handles of a channel, and frees it")]
mod handle;
mod header;
mod iter;
#[cfg(gmp_loom)]
#[expect(unsafe_code, reason = "shares a guard between loom's threads, and passes the lock on as an address")]
mod loom_lock;
mod observers;
#[expect(unsafe_code, reason = "keeps values in entries that may be empty")]
mod ring;
#[cfg(any(test, not(gmp_loom)))]
mod spinning;
#[expect(unsafe_code, reason = "keeps a value in a slot that may be empty")]
mod unsent;

use core::time::Duration;

pub(crate) use channel::{Attempt, Channel, MOVED, unlock_and_ready};
pub use error::{RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError};
pub use go_like::Chan;
use handle::{Handle, RECEIVE, SEND};
pub(crate) use header::{Header, Held, Side};
use header::{RECEIVE_ON, SEND_ON};
pub use iter::{IntoIter, Iter};
#[cfg(all(test, gmp_loom))]
pub(crate) use spinning::SpinningLock;

use crate::base::error::OutOfResources;
use crate::library::cancel::Limit;
use crate::platform::Platform;

/// Makes a channel with room for `capacity` values; with capacity 0, a sender waits until a receiver takes its value. Go:
/// `make(chan T, capacity)`.
///
/// ```
/// use gmp_sched::native::{self, channel};
///
/// unsafe { native::enter() }.run(1, || {
///     let (sender, receiver) = channel(2);
///     sender.send("one").unwrap();
///     sender.send("two").unwrap();
///     assert_eq!((receiver.recv(), receiver.recv()), (Ok("one"), Ok("two")));
/// });
/// ```
///
/// # Panics
///
/// There is no memory for the channel, or `capacity` is more than a quarter of the range of `usize`.
#[doc(alias = "makechan")]
#[track_caller]
#[must_use]
pub fn channel<T, P: Platform>(capacity: usize) -> (Sender<T, P>, Receiver<T, P>) {
    match try_channel(capacity) {
        Ok(handles) => handles,
        Err(OutOfResources) => panic!("cannot make a channel for {capacity} values: too many, or no memory"),
    }
}

/// [`channel()`] that returns an error if there is no memory.
///
/// ```
/// use gmp_sched::chan::{Receiver, Sender, try_channel};
/// use gmp_sched::native::Native;
/// use gmp_sched::platform::OutOfResources;
///
/// let made: Result<(Sender<u64, Native>, Receiver<u64, Native>), _> = try_channel(usize::MAX / 2);
/// assert!(matches!(made, Err(OutOfResources)));
/// ```
///
/// # Errors
///
/// There is no memory for the channel, or `capacity` is more than a quarter of the range of `usize`.
#[expect(clippy::type_complexity, reason = "both sides of a channel")]
pub fn try_channel<T, P: Platform>(capacity: usize) -> Result<(Sender<T, P>, Receiver<T, P>), OutOfResources> {
    let (sender, receiver) = handle::pair(capacity)?;
    Ok((Sender { handle: sender }, Receiver { handle: receiver }))
}

/// [`Receiver::never`] that returns an error if there is no memory.
pub(crate) fn try_never<T, P: Platform>() -> Result<Receiver<T, P>, OutOfResources> {
    Ok(Receiver { handle: handle::single()? })
}

/// The sending side of a channel. Go: `chan<- T`. Dropping the last one closes the channel.
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
pub struct Sender<T, P: Platform> {
    handle: Handle<T, P, SEND>,
}

/// The receiving side of a channel. Go: `<-chan T`. After the last one is dropped, nothing can be sent.
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
pub struct Receiver<T, P: Platform> {
    handle: Handle<T, P, RECEIVE>,
}

impl<T, P: Platform> Sender<T, P> {
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
    /// The call has to wait, and the caller is not a G with a P, or is pinned.
    #[doc(alias = "chansend")]
    #[inline]
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.handle.send(value).map_err(SendError)
    }

    /// Sends `value` if no wait is needed. Go: a `select` with one send and `default`.
    ///
    /// Does not block, and may be called while pinned; not callable from interrupts. Takes no lock if the channel is full.
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
        let (value, is_closed) = match self.handle.try_send(value) {
            Ok(()) => return Ok(()),
            Err(unsent) => unsent,
        };
        self.handle.header.check_bubble(SEND_ON);
        Err(if is_closed { TrySendError::Closed(value) } else { TrySendError::Full(value) })
    }

    /// [`send`](Self::send), but waits no longer than `timeout`.
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
        self.send_until(value, timeout)
    }

    /// [`send`](Self::send), but waits no longer than `limit`, which is a deadline, a context or both. If the limit is
    /// over already, this is [`try_send`](Self::try_send). Go: a `select` with `ctx.Done()`.
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
    pub fn send_until<'a>(&self, value: T, limit: impl Into<Limit<'a, P>>) -> Result<(), SendTimeoutError<T>> {
        let sent = self.handle.send_until(value, limit.into());
        if sent.is_err() {
            self.handle.header.check_bubble(SEND_ON);
        }
        sent
    }

    /// Closes the channel. Receivers drain the buffer and then get an error; senders that wait get their values back.
    /// Returns whether the channel was open; if not, nothing changes. Returns `false` for [`never`](Self::never), which stays
    /// open. Go: `close`, which panics on a closed and on a nil channel.
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

    /// [`close`](Self::close) without the check of the bubble, because the canceller of a context may be outside of
    /// the waiters' bubble.
    pub(crate) fn close_from_anywhere(&self) {
        self.handle.close();
    }
}

impl<T, P: Platform> Receiver<T, P> {
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
    /// The call has to wait, and the caller is not a G with a P, or is pinned.
    #[doc(alias = "chanrecv")]
    #[inline]
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.handle.recv().ok_or(RecvError)
    }

    /// Receives a value if there is one. Go: a `select` with one receive and `default`.
    ///
    /// Does not block, and may be called while pinned; not callable from interrupts. Takes no lock if the channel is empty.
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
        let is_closed = match self.handle.try_recv() {
            Ok(value) => return Ok(value),
            Err(is_closed) => is_closed,
        };
        self.handle.header.check_bubble(RECEIVE_ON);
        Err(if is_closed { TryRecvError::Closed } else { TryRecvError::Empty })
    }

    /// [`recv`](Self::recv), but waits no longer than `timeout`.
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
        self.recv_until(timeout)
    }

    /// [`recv`](Self::recv), but waits no longer than `limit`, which is a deadline, a context or both. If the limit is
    /// over already, this is [`try_recv`](Self::try_recv). Go: a `select` with `ctx.Done()`.
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
    pub fn recv_until<'a>(&self, limit: impl Into<Limit<'a, P>>) -> Result<T, RecvTimeoutError> {
        let received = self.handle.recv_until(limit.into());
        if received.is_err() {
            self.handle.header.check_bubble(RECEIVE_ON);
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
    pub fn iter(&self) -> Iter<'_, T, P> {
        Iter { receiver: self }
    }
}
