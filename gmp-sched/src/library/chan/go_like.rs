//! Both sides of a channel in one value, as in Go.

use core::time::Duration;

use super::{
    IntoIter, Iter, Receiver, RecvError, RecvTimeoutError, SendError, SendTimeoutError, Sender, TryRecvError,
    TrySendError, channel,
};
use crate::library::limit::Limit;
use crate::platform::Platform;

/// Both sides of a channel. Go: `chan T`.
///
/// Every clone can send and receive, so only [`close`](Self::close) closes the channel. To have the channel closed when
/// its last sender is dropped, [split](Self::split) it and pass on the two sides instead. A case of a select can
/// receive from a `Chan` as from a receiver, and can send to a `Chan` as to a sender.
///
/// ```
/// use gmp_sched::native::{self, Chan, go};
///
/// unsafe { native::enter() }.run(2, || {
///     let (requests, answers) = (Chan::new(0), Chan::new(0));
///     let server = (requests.clone(), answers.clone());
///     go(move || {
///         while let Ok(n) = server.0.recv() {
///             server.1.send(n * 2).unwrap();
///         }
///         server.1.close();
///     })
///     .detach();
///     requests.send(21).unwrap();
///     assert_eq!(answers.recv(), Ok(42));
///     requests.close();
///     assert!(answers.recv().is_err());
/// });
/// ```
#[derive(Debug)]
pub struct Chan<T, Plat: Platform> {
    sender: Sender<T, Plat>,
    receiver: Receiver<T, Plat>,
}

impl<T, Plat: Platform> Chan<T, Plat> {
    /// Makes a channel with room for `capacity` values. Go: `make(chan T, capacity)`.
    ///
    /// ```
    /// use gmp_sched::native::Chan;
    ///
    /// assert_eq!(Chan::<u8>::new(3).capacity(), 3);
    /// ```
    ///
    /// # Panics
    ///
    /// In the same cases as [`channel()`].
    #[must_use]
    #[track_caller]
    pub fn new(capacity: usize) -> Self {
        let (sender, receiver) = channel(capacity);
        Self { sender, receiver }
    }

    /// The sending side.
    ///
    /// ```
    /// use gmp_sched::native::Chan;
    ///
    /// assert_eq!(Chan::new(1).sender().try_send(1), Ok(()));
    /// ```
    #[must_use]
    pub fn sender(&self) -> &Sender<T, Plat> {
        &self.sender
    }

    /// The receiving side.
    ///
    /// ```
    /// use gmp_sched::native::Chan;
    ///
    /// assert!(Chan::<u8>::new(1).receiver().try_recv().is_err());
    /// ```
    #[must_use]
    pub fn receiver(&self) -> &Receiver<T, Plat> {
        &self.receiver
    }

    /// Splits the channel into its two sides.
    ///
    /// ```
    /// use gmp_sched::native::Chan;
    ///
    /// let (sender, receiver) = Chan::<u8>::new(0).split();
    /// drop(sender);
    /// assert!(receiver.is_closed());
    /// ```
    #[must_use]
    pub fn split(self) -> (Sender<T, Plat>, Receiver<T, Plat>) {
        (self.sender, self.receiver)
    }

    /// Sends `value`. See [`Sender::send`] for the details and [`Chan`] for an example.
    ///
    /// # Errors
    ///
    /// In the same cases as [`Sender::send`].
    ///
    /// # Panics
    ///
    /// In the same cases as [`Sender::send`].
    #[inline]
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.sender.send(value)
    }

    /// Sends `value` if no wait is needed. See [`Sender::try_send`].
    ///
    /// # Errors
    ///
    /// In the same cases as [`Sender::try_send`].
    #[inline]
    #[track_caller]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.sender.try_send(value)
    }

    /// Sends `value`, waiting no longer than `timeout`. See [`Sender::send_timeout`].
    ///
    /// # Errors
    ///
    /// In the same cases as [`Sender::send_timeout`].
    ///
    /// # Panics
    ///
    /// In the same cases as [`Sender::send_timeout`].
    #[track_caller]
    pub fn send_timeout(&self, value: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        self.sender.send_timeout(value, timeout)
    }

    /// Sends `value`, waiting no longer than `limit`. See [`Sender::send_until`].
    ///
    /// # Errors
    ///
    /// In the same cases as [`Sender::send_until`].
    ///
    /// # Panics
    ///
    /// In the same cases as [`Sender::send_until`].
    #[track_caller]
    pub fn send_until<'a>(&self, value: T, limit: impl Into<Limit<'a, Plat>>) -> Result<(), SendTimeoutError<T>> {
        self.sender.send_until(value, limit)
    }

    /// Receives a value. See [`Receiver::recv`] for the details and [`Chan`] for an example.
    ///
    /// # Errors
    ///
    /// In the same cases as [`Receiver::recv`].
    ///
    /// # Panics
    ///
    /// In the same cases as [`Receiver::recv`].
    #[inline]
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.receiver.recv()
    }

    /// Receives a value if there is one. See [`Receiver::try_recv`].
    ///
    /// # Errors
    ///
    /// In the same cases as [`Receiver::try_recv`].
    #[inline]
    #[track_caller]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.receiver.try_recv()
    }

    /// Receives a value, waiting no longer than `timeout`. See [`Receiver::recv_timeout`].
    ///
    /// # Errors
    ///
    /// In the same cases as [`Receiver::recv_timeout`].
    ///
    /// # Panics
    ///
    /// In the same cases as [`Receiver::recv_timeout`].
    #[track_caller]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.receiver.recv_timeout(timeout)
    }

    /// Receives a value, waiting no longer than `limit`. See [`Receiver::recv_until`].
    ///
    /// # Errors
    ///
    /// In the same cases as [`Receiver::recv_until`].
    ///
    /// # Panics
    ///
    /// In the same cases as [`Receiver::recv_until`].
    #[track_caller]
    pub fn recv_until<'a>(&self, limit: impl Into<Limit<'a, Plat>>) -> Result<T, RecvTimeoutError> {
        self.receiver.recv_until(limit)
    }

    /// Iterates over received values until the channel is closed and drained. Go: `for v := range c`.
    ///
    /// ```
    /// use gmp_sched::native::{self, Chan, go};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let squares = Chan::new(0);
    ///     let sending = squares.clone();
    ///     go(move || {
    ///         (1..=3).for_each(|n| sending.send(n * n).unwrap());
    ///         sending.close();
    ///     })
    ///     .detach();
    ///     assert!(squares.iter().eq([1, 4, 9]));
    /// });
    /// ```
    pub fn iter(&self) -> Iter<'_, T, Plat> {
        self.receiver.iter()
    }

    /// Closes the channel. See [`Sender::close`] for the details and [`Chan`] for an example.
    #[track_caller]
    pub fn close(&self) -> bool {
        self.sender.close()
    }

    /// Whether the channel is closed. See [`Sender::is_closed`].
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Number of values in the buffer. See [`Receiver::len`]. Go: `len(c)`.
    ///
    /// ```
    /// use gmp_sched::native::Chan;
    ///
    /// let chan = Chan::new(2);
    /// chan.try_send("one").unwrap();
    /// assert_eq!((chan.len(), chan.is_empty(), chan.capacity()), (1, false, 2));
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.receiver.len()
    }

    /// Whether the buffer is empty. See [`Receiver::is_empty`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.receiver.is_empty()
    }

    /// Capacity of the buffer. See [`Receiver::capacity`]. Go: `cap(c)`.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.receiver.capacity()
    }
}

impl<'a, T, Plat: Platform> IntoIterator for &'a Chan<T, Plat> {
    type Item = T;
    type IntoIter = Iter<'a, T, Plat>;

    fn into_iter(self) -> Iter<'a, T, Plat> {
        self.iter()
    }
}

/// Drops the sending side before the iteration. So the iteration also ends when no other sender is left.
impl<T, Plat: Platform> IntoIterator for Chan<T, Plat> {
    type Item = T;
    type IntoIter = IntoIter<T, Plat>;

    fn into_iter(self) -> IntoIter<T, Plat> {
        self.split().1.into_iter()
    }
}

impl<T, Plat: Platform> Clone for Chan<T, Plat> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), receiver: self.receiver.clone() }
    }
}
