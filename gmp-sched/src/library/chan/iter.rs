//! Iterators that receive until the channel is closed and drained. Go: `for v := range c`.

use core::iter::FusedIterator;

use super::Receiver;
use crate::platform::Platform;

/// Iterates over the values of a channel until it is closed and drained. See [`Receiver::iter`] for an example.
#[derive(Debug)]
pub struct Iter<'a, T, P: Platform> {
    pub(super) receiver: &'a Receiver<T, P>,
}

impl<T, P: Platform> Iterator for Iter<'_, T, P> {
    type Item = T;

    #[inline(always)]
    #[track_caller]
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T, P: Platform> FusedIterator for Iter<'_, T, P> {}

/// Iterates over the values of a channel until it is closed and drained. Owns the receiver.
///
/// ```
/// use gmp_sched::native::{self, channel, go};
///
/// unsafe { native::enter() }.run(1, || {
///     let (sender, receiver) = channel(0);
///     go(move || (0..4).for_each(|n| sender.send(n).unwrap())).detach();
///     let doubled = receiver.into_iter().map(|n| n * 2);
///     assert_eq!(doubled.collect::<Vec<_>>(), [0, 2, 4, 6]);
/// });
/// ```
#[derive(Debug)]
pub struct IntoIter<T, P: Platform> {
    receiver: Receiver<T, P>,
}

impl<T, P: Platform> Iterator for IntoIter<T, P> {
    type Item = T;

    #[inline(always)]
    #[track_caller]
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T, P: Platform> FusedIterator for IntoIter<T, P> {}

impl<'a, T, P: Platform> IntoIterator for &'a Receiver<T, P> {
    type Item = T;
    type IntoIter = Iter<'a, T, P>;

    fn into_iter(self) -> Iter<'a, T, P> {
        self.iter()
    }
}

impl<T, P: Platform> IntoIterator for Receiver<T, P> {
    type Item = T;
    type IntoIter = IntoIter<T, P>;

    fn into_iter(self) -> IntoIter<T, P> {
        IntoIter { receiver: self }
    }
}
