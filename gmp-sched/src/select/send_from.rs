//! A case that sends what is in an `Option`, and leaves it there if it is not chosen.

use core::fmt;
use core::ptr;

use super::case::{Case, Outcome, SELECT_ON, Transfer, outcome_of};
use crate::chan::{Attempt, Channel, Header, Held, SendError, Sender, Side};
use crate::platform::Platform;
use crate::synctest::Home;

/// A case that sends what is in an `Option`. See [`send_from`] for an example.
pub struct SendFromCase<'a, T, P: Platform> {
    target: Target<'a, T, P>,
    /// Where it waits, for nobody, while there is nothing to send.
    nowhere: Header<P>,
}

struct Target<'a, T, P: Platform> {
    channel: &'a Channel<T, P>,
    /// `None` once it is sent.
    value: &'a mut Option<T>,
    outcome: Outcome,
}

/// A case that sends the value in `value` to `sender`: if it is chosen, `None` is left, else the value is where it was. A
/// case that has nothing to send is never chosen. Go: `case c <- v` with a `c` that is nil while there is no `v`.
///
/// ```
/// use gmp_sched::native::{self, channel};
/// use gmp_sched::select;
///
/// // Passes on what it receives, and takes the next only when the last has been taken.
/// native::run(2, || {
///     let (sender, input) = channel(0);
///     let (output, receiver) = channel(0);
///     native::go(move || (0..5).for_each(|n| sender.send(n).unwrap())).detach();
///     native::go(move || {
///         let mut last = None;
///         loop {
///             select! {
///                 recv(input) -> value => match value {
///                     Ok(value) => last = Some(value),
///                     Err(_) => break,
///                 },
///                 send_from(output, last) => {}
///             }
///         }
///         last.map(|last| output.send(last))
///     })
///     .detach();
///     assert_eq!(receiver.iter().last(), Some(4));
/// });
/// ```
#[inline]
pub fn send_from<'a, T, P: Platform>(sender: &'a Sender<T, P>, value: &'a mut Option<T>) -> SendFromCase<'a, T, P> {
    let target = Target { channel: sender.channel(), value, outcome: Outcome::Pending };
    SendFromCase { target, nowhere: Header::new(0, true, Home::none()) }
}

impl<T, P: Platform> SendFromCase<'_, T, P> {
    /// The case itself, for one [`Select`](super::Select). See [`RecvCase::case`](super::RecvCase::case) for an example.
    #[inline]
    pub fn case(&mut self) -> Case<'_, P> {
        self.target.outcome = Outcome::Pending;
        let header = if self.target.value.is_some() { &self.target.channel.header } else { &self.nowhere };
        Case::new(header, Side::Send, &mut self.target)
    }

    /// How it went; `None` if the case was not chosen. If the channel is closed the error has the value.
    ///
    /// ```
    /// use gmp_sched::chan::SendError;
    /// use gmp_sched::native::{self, channel};
    /// use gmp_sched::select::{Select, send_from};
    ///
    /// native::run(1, || {
    ///     let (sender, receiver) = channel(1);
    ///     let mut value = Some(1);
    ///     let mut case = send_from(&sender, &mut value);
    ///     assert_eq!(Select::new(&mut [case.case()]).poll(), Some(0));
    ///     assert_eq!((case.into_result(), value), (Some(Ok(())), None));
    ///     value = Some(2);
    ///     let mut case = send_from(&sender, &mut value);
    ///     assert_eq!(Select::new(&mut [case.case()]).poll(), None);
    ///     assert_eq!((case.into_result(), value), (None, Some(2)));
    ///     drop(receiver);
    ///     let mut case = send_from(&sender, &mut value);
    ///     assert_eq!(Select::new(&mut [case.case()]).wait(), 0);
    ///     assert_eq!((case.into_result(), value), (Some(Err(SendError(2))), None));
    /// });
    /// ```
    #[inline]
    pub fn into_result(self) -> Option<Result<(), SendError<T>>> {
        match self.target.outcome {
            Outcome::Pending => None,
            Outcome::Moved => Some(Ok(())),
            Outcome::Closed => {
                self.target.channel.header.check_closed(SELECT_ON);
                self.target.value.take().map(|value| Err(SendError(value)))
            }
        }
    }
}

impl<T, P: Platform> Target<'_, T, P> {
    fn set_outcome(&mut self, outcome: Outcome) {
        self.outcome = outcome;
        if outcome == Outcome::Moved {
            // SAFETY: the place is ours. What was in it is somebody else's now, so it is written over and not dropped.
            unsafe { ptr::write(self.value, None) }
        }
    }
}

impl<T, P: Platform> Transfer<P> for Target<'_, T, P> {
    fn attempt(&mut self, held: &Held<'_, P>) -> Attempt<P> {
        let Some(value) = self.value else { return Attempt::NotReady };
        // SAFETY: the value is there, and ours to move; if it has moved, `set_outcome` forgets it.
        let attempt = unsafe { self.channel.offer(held, ptr::from_mut(value)) };
        self.set_outcome(outcome_of(&attempt));
        attempt
    }

    fn place(&mut self) -> *mut () {
        self.value.as_mut().map_or(ptr::null_mut(), |value| ptr::from_mut(value).cast())
    }

    fn finish(&mut self, moved: bool) {
        self.set_outcome(if moved { Outcome::Moved } else { Outcome::Closed });
    }
}

impl<T, P: Platform> fmt::Debug for SendFromCase<'_, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendFromCase").field("outcome", &self.target.outcome).finish_non_exhaustive()
    }
}
