//! A case that sends a value.

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::mem::ManuallyDrop;

use super::Sink;
use super::case::{Arm, CHOSEN, Outcome, SELECT_ON, note, note_result};
use super::untyped::{Case, Transfer};
use crate::library::chan::{Attempt, Channel, Held, SendError, Side};
use crate::library::limit::Patience;
use crate::platform::Platform;

/// A case that sends. See [`send`] for an example.
#[repr(C)]
pub struct SendCase<'a, T, Plat: Platform> {
    /// Initialised unless the outcome is `Moved`.
    value: UnsafeCell<ManuallyDrop<T>>,
    channel: &'a Channel<T, Plat>,
    outcome: Cell<Outcome>,
}

/// Makes a case that sends `value` to `sink`. Go: `case c <- v`.
///
/// ```
/// use gmp_sched::native::{self, channel};
/// use gmp_sched::select::{Select, send};
///
/// unsafe { native::enter() }.run(1, || {
///     let (sender, receiver) = channel(0);
///     let mut case = send(&sender, 5);
///     assert_eq!(Select::new(&mut [case.case()]).poll(), None);
///     // The value was not sent, so it is still here.
///     assert_eq!(case.into_inner(), Some(5));
///     drop(receiver);
/// });
/// ```
#[inline]
pub fn send<S: Sink + ?Sized>(sink: &S, value: S::Value) -> SendCase<'_, S::Value, S::Platform> {
    let value = UnsafeCell::new(ManuallyDrop::new(value));
    SendCase { value, channel: sink.sender().channel(), outcome: Cell::new(Outcome::Pending) }
}

impl<'a, T, Plat: Platform> SendCase<'a, T, Plat> {
    /// Makes the case for one [`Select`](super::Select). See [`RecvCase::case`](super::RecvCase::case) for an example.
    ///
    /// # Panics
    ///
    /// The value has been sent.
    #[inline]
    #[track_caller]
    pub fn case(&mut self) -> Case<'_, Plat> {
        self.renew();
        Case::new(&self.channel.header, Side::Send, self)
    }

    /// Resets the outcome, so that another attempt may succeed. Panics if the value has been sent.
    #[inline(always)]
    #[track_caller]
    fn renew(&mut self) {
        assert!(self.outcome.get() != Outcome::Moved, "the value of this case has been sent");
        self.outcome.set(Outcome::Pending);
    }

    /// Returns the result of the send. If the case was not chosen, returns `None` and drops the value.
    ///
    /// ```
    /// use gmp_sched::chan::SendError;
    /// use gmp_sched::native::{self, channel};
    /// use gmp_sched::select::{Select, send};
    ///
    /// unsafe { native::enter() }.run(1, || {
    ///     let (sender, receiver) = channel(1);
    ///     let mut case = send(&sender, 1);
    ///     assert_eq!(Select::new(&mut [case.case()]).wait(), 0);
    ///     assert_eq!(case.into_result(), Some(Ok(())));
    ///     drop(receiver);
    ///     let mut case = send(&sender, 2);
    ///     assert_eq!(Select::new(&mut [case.case()]).wait(), 0);
    ///     assert_eq!(case.into_result(), Some(Err(SendError(2))));
    /// });
    /// ```
    #[inline]
    #[track_caller]
    pub fn into_result(mut self) -> Option<Result<(), SendError<T>>> {
        self.take()
    }

    #[inline]
    #[track_caller]
    fn take(&mut self) -> Option<Result<(), SendError<T>>> {
        match self.outcome.get() {
            Outcome::Pending => None,
            Outcome::Moved => Some(Ok(())),
            Outcome::Closed => {
                self.channel.header.check_closed(SELECT_ON);
                // The next statement moves the value out, so the outcome becomes `Moved`.
                self.outcome.set(Outcome::Moved);
                // SAFETY: the outcome was not `Moved`, so the value is initialised. The outcome is `Moved` now, so the
                // value is taken once.
                Some(Err(SendError(unsafe { ManuallyDrop::take(self.value.get_mut()) })))
            }
        }
    }

    /// Returns the value if it was not sent. See [`send`] for an example.
    #[inline]
    pub fn into_inner(self) -> Option<T> {
        let mut this = ManuallyDrop::new(self);
        if this.outcome.get() == Outcome::Moved {
            return None;
        }
        // SAFETY: the outcome is not `Moved`, so the value is initialised. `this` is not dropped, so the value is taken
        // once.
        Some(unsafe { ManuallyDrop::take(this.value.get_mut()) })
    }
}

impl<T, Plat: Platform> Arm for SendCase<'_, T, Plat> {
    type Result = Result<(), SendError<T>>;
    type Platform = Plat;

    #[inline(always)]
    fn looks_ready(&self) -> bool {
        self.channel.header.looks_ready(Side::Send)
    }

    #[inline(never)]
    fn try_now(&mut self) -> Option<Result<(), SendError<T>>> {
        self.renew();
        // SAFETY: `renew` has made the outcome pending, so the value is initialised. When the value has moved,
        // `note_result` sets the outcome to `Moved`.
        note_result(&self.outcome, unsafe {
            self.channel.perform(Side::Send, self.value.get().cast(), Patience::Never)
        });
        self.take()
    }

    #[inline]
    fn result(self) -> Result<(), SendError<T>> {
        self.into_result().expect(CHOSEN)
    }

    #[inline(always)]
    fn discard(self) {}
}

impl<T, Plat: Platform> Drop for SendCase<'_, T, Plat> {
    #[inline]
    fn drop(&mut self) {
        if self.outcome.get() != Outcome::Moved {
            // SAFETY: the outcome is not `Moved`, so the value is initialised. The value is not used after this.
            unsafe { ManuallyDrop::drop(self.value.get_mut()) }
        }
    }
}

// SAFETY: the value is the first field of a `repr(C)` struct.
unsafe impl<T, Plat: Platform> Transfer<Plat> for SendCase<'_, T, Plat> {
    #[inline]
    unsafe fn attempt(&self, held: &Held<'_, Plat>) -> Attempt<Plat> {
        // SAFETY: the caller promises that the outcome is pending, so the value is initialised. When the value has
        // moved, `note` sets the outcome to `Moved`.
        note(&self.outcome, unsafe { self.channel.offer(held, self.value.get().cast()) })
    }

    fn finish(&self, moved: bool) {
        self.outcome.set(if moved { Outcome::Moved } else { Outcome::Closed });
    }
}

impl<T, Plat: Platform> fmt::Debug for SendCase<'_, T, Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendCase").field("outcome", &self.outcome.get()).finish_non_exhaustive()
    }
}
