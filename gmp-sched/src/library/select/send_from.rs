//! A case that sends the value of an `Option`, and leaves the value there if the case is not chosen.

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::mem::{self, MaybeUninit};

use super::Sink;
use super::case::{Arm, CHOSEN, Outcome, SELECT_ON, note, note_result};
use super::untyped::{Case, Transfer};
use crate::library::chan::{Attempt, Channel, Header, Held, SendError, Side};
use crate::library::limit::Patience;
use crate::platform::Platform;

/// A case that sends the value of an `Option`. See [`send_from`] for an example.
pub struct SendFromCase<'a, T, Plat: Platform> {
    target: Target<'a, T, Plat>,
    /// A nil channel to wait on while there is nothing to send.
    nowhere: Header<Plat>,
}

#[repr(C)]
struct Target<'a, T, Plat: Platform> {
    /// Holds the value while a select may send it; see [`is_taken`](Self::is_taken).
    slot: UnsafeCell<MaybeUninit<T>>,
    channel: &'a Channel<T, Plat>,
    /// The `Option` that the value was taken from. A value that was not sent is put back.
    option: &'a mut Option<T>,
    /// Whether the value has been moved into `slot`. A select may have sent it since.
    is_taken: bool,
    outcome: Cell<Outcome>,
}

/// Makes a case that sends the value in `value` to `sink`. When the value is sent, `value` becomes `None`. If the case
/// is not chosen, the value stays. If the case is chosen because the channel is closed, the error of the send takes the
/// value. While `value` is `None` the case is never chosen. Go: `case c <- v` with a `c` that is nil while there is no
/// `v`.
///
/// ```
/// use gmp_sched::native::{self, channel};
/// use gmp_sched::select;
///
/// // Forwards the latest value: a newer one replaces one that has not been sent yet.
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
pub fn send_from<'a, S: Sink + ?Sized>(
    sink: &'a S,
    value: &'a mut Option<S::Value>,
) -> SendFromCase<'a, S::Value, S::Platform> {
    let slot = UnsafeCell::new(MaybeUninit::uninit());
    let outcome = Cell::new(Outcome::Pending);
    let target = Target { slot, channel: sink.sender().channel(), option: value, is_taken: false, outcome };
    SendFromCase { target, nowhere: Header::never() }
}

impl<T, Plat: Platform> SendFromCase<'_, T, Plat> {
    /// Makes the case for one [`Select`](super::Select). See [`RecvCase::case`](super::RecvCase::case) for an example.
    #[inline]
    pub fn case(&mut self) -> Case<'_, Plat> {
        self.target.put_back();
        let header = if self.target.take_out() { &self.target.channel.header } else { &self.nowhere };
        Case::new(header, Side::Send, &self.target)
    }

    /// Returns the result of the send, or `None` if the case was not chosen. If the channel is closed, the error holds
    /// the value.
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
    #[track_caller]
    pub fn into_result(mut self) -> Option<Result<(), SendError<T>>> {
        self.take()
    }

    #[track_caller]
    fn take(&mut self) -> Option<Result<(), SendError<T>>> {
        match self.target.put_back() {
            Outcome::Pending => None,
            Outcome::Moved => Some(Ok(())),
            Outcome::Closed => {
                self.target.channel.header.check_closed(SELECT_ON);
                self.target.option.take().map(|value| Err(SendError(value)))
            }
        }
    }
}

impl<T, Plat: Platform> Arm for SendFromCase<'_, T, Plat> {
    type Result = Result<(), SendError<T>>;
    type Platform = Plat;

    #[inline]
    fn looks_ready(&self) -> bool {
        self.target.option.is_some() && self.target.channel.header.looks_ready(Side::Send)
    }

    #[inline(never)]
    fn try_now(&mut self) -> Option<Result<(), SendError<T>>> {
        let target = &mut self.target;
        target.put_back();
        if target.take_out() {
            // SAFETY: `take_out` has put the value into `slot`. When the value has moved, `note_result` sets the outcome
            // to `Moved`.
            let moved = unsafe { target.channel.perform(Side::Send, target.slot.get().cast(), Patience::Never) };
            note_result(&target.outcome, moved);
        }
        self.take()
    }

    #[inline]
    fn result(self) -> Result<(), SendError<T>> {
        self.into_result().expect(CHOSEN)
    }

    #[inline]
    fn discard(self) {}
}

impl<T, Plat: Platform> Target<'_, T, Plat> {
    /// Moves the value, if any, from the `Option` into `slot`. Returns whether `slot` holds a value.
    fn take_out(&mut self) -> bool {
        if let Some(value) = self.option.take() {
            self.slot.get_mut().write(value);
            self.is_taken = true;
        }
        self.is_taken
    }

    /// Moves the value back into the `Option` if it was not sent. Returns the outcome and resets it.
    fn put_back(&mut self) -> Outcome {
        let outcome = self.outcome.replace(Outcome::Pending);
        if mem::replace(&mut self.is_taken, false) && outcome != Outcome::Moved {
            // SAFETY: `take_out` initialised `slot`, and the value has not been moved. The select that used the case is
            // over, so no other G accesses `slot` any more.
            *self.option = Some(unsafe { self.slot.get_mut().assume_init_read() });
        }
        outcome
    }
}

impl<T, Plat: Platform> Drop for Target<'_, T, Plat> {
    fn drop(&mut self) {
        self.put_back();
    }
}

// SAFETY: `slot` is the first field of a `repr(C)` struct.
unsafe impl<T, Plat: Platform> Transfer<Plat> for Target<'_, T, Plat> {
    unsafe fn attempt(&self, held: &Held<'_, Plat>) -> Attempt<Plat> {
        if !self.is_taken {
            return Attempt::NotReady;
        }
        // SAFETY: `is_taken` shows that the value was put into `slot`. The caller promises that the outcome is pending,
        // so the value is still in `slot`. `note` sets the outcome to `Moved` if the channel takes the value.
        note(&self.outcome, unsafe { self.channel.offer(held, self.slot.get().cast()) })
    }

    fn finish(&self, moved: bool) {
        self.outcome.set(if moved { Outcome::Moved } else { Outcome::Closed });
    }
}

impl<T, Plat: Platform> fmt::Debug for SendFromCase<'_, T, Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendFromCase").field("outcome", &self.target.outcome).finish_non_exhaustive()
    }
}
