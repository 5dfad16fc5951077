//! Iterators that receive until the channel is closed and drained. Go: `for v := range c`.

use core::iter::FusedIterator;

use super::Receiver;
use crate::platform::Platform;

/// Iterates over the values of a channel until it is closed and drained. See [`Receiver::iter`] for an example.
#[derive(Debug)]
pub struct Iter<'a, T, Plat: Platform> {
    pub(super) receiver: &'a Receiver<T, Plat>,
}

impl<T, Plat: Platform> Iterator for Iter<'_, T, Plat> {
    type Item = T;

    #[inline(always)]
    #[track_caller]
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T, Plat: Platform> FusedIterator for Iter<'_, T, Plat> {}

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
pub struct IntoIter<T, Plat: Platform> {
    receiver: Receiver<T, Plat>,
}

impl<T, Plat: Platform> Iterator for IntoIter<T, Plat> {
    type Item = T;

    #[inline(always)]
    #[track_caller]
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T, Plat: Platform> FusedIterator for IntoIter<T, Plat> {}

impl<'a, T, Plat: Platform> IntoIterator for &'a Receiver<T, Plat> {
    type Item = T;
    type IntoIter = Iter<'a, T, Plat>;

    fn into_iter(self) -> Iter<'a, T, Plat> {
        self.iter()
    }
}

impl<T, Plat: Platform> IntoIterator for Receiver<T, Plat> {
    type Item = T;
    type IntoIter = IntoIter<T, Plat>;

    fn into_iter(self) -> IntoIter<T, Plat> {
        IntoIter { receiver: self }
    }
}
