//! Both sides of a channel in one value, as in Go.

use super::{Receiver, RecvError, SendError, Sender, channel};
use crate::platform::Platform;

/// Both sides of a channel. Go: `chan T`.
///
/// Every clone can send and receive, so only [`close`](Self::close) closes the channel. If the channel is to close when its
/// senders are dropped, pass on [`sender`](Self::sender) and [`receiver`](Self::receiver) instead.
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
pub struct Chan<T, P: Platform> {
    sender: Sender<T, P>,
    receiver: Receiver<T, P>,
}

impl<T, P: Platform> Chan<T, P> {
    /// Makes a channel with room for `capacity` values. Go: `make(chan T, capacity)`.
    ///
    /// ```
    /// use gmp_sched::native::Chan;
    ///
    /// assert_eq!(Chan::<u8>::new(3).receiver().capacity(), 3);
    /// ```
    ///
    /// # Panics
    ///
    /// There is no memory for the channel.
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
    pub fn sender(&self) -> &Sender<T, P> {
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
    pub fn receiver(&self) -> &Receiver<T, P> {
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
    pub fn split(self) -> (Sender<T, P>, Receiver<T, P>) {
        (self.sender, self.receiver)
    }

    /// See [`Sender::send`], and [`Chan`] for an example.
    ///
    /// # Errors
    ///
    /// As for that method.
    ///
    /// # Panics
    ///
    /// As for that method.
    #[inline]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.sender.send(value)
    }

    /// See [`Receiver::recv`], and [`Chan`] for an example.
    ///
    /// # Errors
    ///
    /// As for that method.
    ///
    /// # Panics
    ///
    /// As for that method.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.receiver.recv()
    }

    /// See [`Sender::close`], and [`Chan`] for an example.
    pub fn close(&self) -> bool {
        self.sender.close()
    }
}

impl<T, P: Platform> Clone for Chan<T, P> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), receiver: self.receiver.clone() }
    }
}
