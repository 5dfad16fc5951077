//! A case that sends what is in an `Option`, and leaves it there if it is not chosen.

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::mem::{self, MaybeUninit};

use super::case::{Arm, CHOSEN, Case, Outcome, SELECT_ON, Sealed, Transfer, note, try_now};
use crate::library::chan::{Attempt, Channel, Header, Held, SendError, Sender, Side};
use crate::platform::Platform;
use crate::synctest::Home;

/// A case that sends what is in an `Option`. See [`send_from`] for an example.
pub struct SendFromCase<'a, T, P: Platform> {
    target: Target<'a, T, P>,
    /// Where it waits, for nobody, while there is nothing to send.
    nowhere: Header<P>,
}

#[repr(C)]
struct Target<'a, T, P: Platform> {
    /// The value, while a select may send it; then the outcome says that it is [away](Self::take_out).
    place: UnsafeCell<MaybeUninit<T>>,
    channel: &'a Channel<T, P>,
    /// Where it comes from, and goes back to if it is not sent.
    home: &'a mut Option<T>,
    /// Whether it is in `place` unless it is sent.
    is_away: bool,
    outcome: Cell<Outcome>,
}

/// A case that sends the value in `value` to `sender`: if it is chosen, `None` is left, else the value is where it was. A
/// case that has nothing to send is never chosen. Go: `case c <- v` with a `c` that is nil while there is no `v`.
///
/// ```
/// use gmp_sched::native::{self, channel};
/// use gmp_sched::select;
///
/// // Passes on what it receives, and takes the next only when the last has been taken.
/// unsafe { native::enter() }.run(2, || {
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
    let place = UnsafeCell::new(MaybeUninit::uninit());
    let outcome = Cell::new(Outcome::Pending);
    let target = Target { place, channel: sender.channel(), home: value, is_away: false, outcome };
    SendFromCase { target, nowhere: Header::new(0, true, Home::none()) }
}

impl<T, P: Platform> SendFromCase<'_, T, P> {
    /// The case itself, for one [`Select`](super::Select). See [`RecvCase::case`](super::RecvCase::case) for an example.
    #[inline]
    pub fn case(&mut self) -> Case<'_, P> {
        self.target.bring_home();
        let header = if self.target.take_out() { &self.target.channel.header } else { &self.nowhere };
        Case::new(header, Side::Send, &self.target)
    }

    /// How it went; `None` if the case was not chosen. If the channel is closed the error has the value.
    ///
    /// ```
    /// use gmp_sched::chan::SendError;
    /// use gmp_sched::native::{self, channel};
    /// use gmp_sched::select::{Select, send_from};
    ///
    /// unsafe { native::enter() }.run(1, || {
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
    pub fn into_result(mut self) -> Option<Result<(), SendError<T>>> {
        self.take()
    }

    fn take(&mut self) -> Option<Result<(), SendError<T>>> {
        match self.target.bring_home() {
            Outcome::Pending => None,
            Outcome::Moved => Some(Ok(())),
            Outcome::Closed => {
                self.target.channel.header.check_closed(SELECT_ON);
                self.target.home.take().map(|value| Err(SendError(value)))
            }
        }
    }
}

impl<T, P: Platform> Sealed for SendFromCase<'_, T, P> {}

impl<T, P: Platform> Arm for SendFromCase<'_, T, P> {
    type Result = Result<(), SendError<T>>;
    type Platform = P;

    #[inline]
    fn looks_ready(&self) -> bool {
        self.target.home.is_some() && self.target.channel.header.looks_ready(Side::Send)
    }

    #[inline(never)]
    fn try_now(&mut self) -> Option<Result<(), SendError<T>>> {
        self.target.bring_home();
        // SAFETY: the outcome is pending since then.
        let done = self.target.take_out() && unsafe { try_now(&self.target.channel.header, &self.target) };
        done.then(|| self.take().expect(CHOSEN))
    }

    #[inline]
    fn result(self) -> Result<(), SendError<T>> {
        self.into_result().expect(CHOSEN)
    }

    #[inline]
    fn discard(self) {}
}

impl<T, P: Platform> Target<'_, T, P> {
    /// Takes the value to where it may be sent from; tells whether there is one. It is at home.
    fn take_out(&mut self) -> bool {
        if let Some(value) = self.home.take() {
            self.place.get_mut().write(value);
            self.is_away = true;
        }
        self.is_away
    }

    /// Takes the value back if it was taken out and has not been sent. Tells how it went with the case, once.
    fn bring_home(&mut self) -> Outcome {
        let outcome = self.outcome.replace(Outcome::Pending);
        if mem::replace(&mut self.is_away, false) && outcome != Outcome::Moved {
            // SAFETY: `take_out` put it there, nobody has moved it, and nobody looks there any more.
            *self.home = Some(unsafe { self.place.get_mut().assume_init_read() });
        }
        outcome
    }
}

impl<T, P: Platform> Drop for Target<'_, T, P> {
    fn drop(&mut self) {
        self.bring_home();
    }
}

// SAFETY: the place comes first.
unsafe impl<T, P: Platform> Transfer<P> for Target<'_, T, P> {
    unsafe fn attempt(&self, held: &Held<'_, P>) -> Attempt<P> {
        if !self.is_away {
            return Attempt::NotReady;
        }
        // SAFETY: the value is there, since it was taken out and the outcome is pending, by the caller; if it has moved the
        // outcome says so after this.
        note(&self.outcome, unsafe { self.channel.offer(held, self.place.get().cast()) })
    }

    fn finish(&self, moved: bool) {
        self.outcome.set(if moved { Outcome::Moved } else { Outcome::Closed });
    }
}

impl<T, P: Platform> fmt::Debug for SendFromCase<'_, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendFromCase").field("outcome", &self.target.outcome).finish_non_exhaustive()
    }
}
