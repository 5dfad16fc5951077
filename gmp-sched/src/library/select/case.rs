//! The cases of a select. A case contains the value slot that its value is moved from or to.

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::mem::{self, MaybeUninit};

use super::untyped::{Case, Transfer};
use crate::library::chan::{Attempt, Channel, Held, RecvError, Side, Unmoved};
use crate::library::limit::Patience;
use crate::platform::Platform;

/// What the panic message calls the operation if a select uses a channel from outside of the channel's bubble.
pub(super) const SELECT_ON: &str = "select on";

/// The `expect` message for the outcome of the chosen case.
pub(super) const CHOSEN: &str = "the select has chosen this case";

/// The operations that `select!` applies to a case whose type it knows. They are safe in any order, because each case
/// records whether its value has moved.
#[doc(hidden)]
pub trait Arm {
    /// The value that the arm's pattern is matched with.
    type Result;

    /// The platform of the channel.
    type Platform: Platform;

    /// Whether the case seems to be ready. Takes no lock.
    fn looks_ready(&self) -> bool;

    /// Performs the case if it is ready.
    ///
    /// # Panics
    ///
    /// The case is a send whose value has been sent, or the caller is outside of the channel's bubble.
    #[track_caller]
    fn try_now(&mut self) -> Option<Self::Result>;

    /// Returns the result of a case that was chosen after a wait.
    ///
    /// # Panics
    ///
    /// The case was not chosen, or the caller is outside of the channel's bubble.
    #[track_caller]
    fn result(self) -> Self::Result;

    /// Drops a case that was not chosen.
    fn discard(self);
}

/// The outcome of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The case has not been chosen.
    Pending,
    /// The case was chosen, and the value has moved.
    Moved,
    /// The case was chosen because the channel is closed, or because the caller is outside of the channel's bubble
    /// (`Header::check_closed` distinguishes the two).
    Closed,
}

/// A case that receives. See [`recv`](super::recv) for an example.
#[repr(C)]
pub struct RecvCase<'a, T, Plat: Platform> {
    /// Initialised while the outcome is `Moved`.
    slot: UnsafeCell<MaybeUninit<T>>,
    channel: &'a Channel<T, Plat>,
    outcome: Cell<Outcome>,
}

impl<'a, T, Plat: Platform> RecvCase<'a, T, Plat> {
    #[inline]
    pub(crate) fn new(channel: &'a Channel<T, Plat>) -> Self {
        Self { slot: UnsafeCell::new(MaybeUninit::uninit()), channel, outcome: Cell::new(Outcome::Pending) }
    }

    /// Makes the case for one [`Select`](super::Select). If an earlier select has received a value that was not taken,
    /// drops that value.
    ///
    /// ```
    /// use gmp_sched::native::Receiver;
    /// use gmp_sched::select::{Select, recv};
    ///
    /// let (one, other) = (Receiver::<u8>::never(), Receiver::<&str>::never());
    /// let (mut one, mut other) = (recv(&one), recv(&other));
    /// assert_eq!(Select::new(&mut [one.case(), other.case()]).poll(), None);
    /// ```
    #[inline]
    #[track_caller]
    pub fn case(&mut self) -> Case<'_, Plat> {
        drop(self.take());
        Case::new(&self.channel.header, Side::Receive, self)
    }

    /// Returns the received value, or an error if the case was chosen because the channel is closed and drained. If the
    /// case was not chosen, returns `None`. See [`recv`](super::recv) for an example.
    #[inline]
    #[track_caller]
    pub fn into_result(mut self) -> Option<Result<T, RecvError>> {
        self.take()
    }

    #[inline]
    #[track_caller]
    fn take(&mut self) -> Option<Result<T, RecvError>> {
        match self.outcome.replace(Outcome::Pending) {
            Outcome::Pending => None,
            // SAFETY: the outcome was `Moved`, so `slot` is initialised. The outcome is `Pending` now, so the value is
            // read once.
            Outcome::Moved => Some(Ok(unsafe { self.slot.get_mut().assume_init_read() })),
            Outcome::Closed => {
                self.channel.header.check_closed(SELECT_ON);
                Some(Err(RecvError))
            }
        }
    }
}

impl<T, Plat: Platform> RecvCase<'_, T, Plat> {
    /// The result of a chosen case that moved no value.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn result_of_closed(mut self) -> Result<T, RecvError> {
        self.take().expect(CHOSEN)
    }
}

impl<T, Plat: Platform> Arm for RecvCase<'_, T, Plat> {
    type Result = Result<T, RecvError>;
    type Platform = Plat;

    #[inline(always)]
    fn looks_ready(&self) -> bool {
        self.channel.header.may_be_ready(Side::Receive)
    }

    #[inline(always)]
    fn try_now(&mut self) -> Option<Result<T, RecvError>> {
        /// A function of the channel and not of the case, because a reference to the case would force the case into
        /// memory, even if the select never waits.
        #[inline(never)]
        #[track_caller]
        fn receive<T, Plat: Platform>(channel: &Channel<T, Plat>) -> Option<Result<T, RecvError>> {
            match channel.receive(Patience::Never) {
                Ok(value) => Some(Ok(value)),
                Err(Unmoved::Ended(_)) => None,
                Err(Unmoved::Closed) => {
                    channel.header.check_closed(SELECT_ON);
                    Some(Err(RecvError))
                }
            }
        }
        receive(self.channel)
    }

    #[inline(always)]
    fn result(mut self) -> Result<T, RecvError> {
        if self.outcome.get() == Outcome::Moved {
            self.outcome.set(Outcome::Pending);
            // SAFETY: the outcome was `Moved`, so `slot` is initialised. The outcome is `Pending` now, so the value is
            // read once.
            return Ok(unsafe { self.slot.get_mut().assume_init_read() });
        }
        self.result_of_closed()
    }

    #[inline(always)]
    fn discard(self) {
        // A case that was not chosen has no value to drop. `forget` skips the check in `drop`.
        mem::forget(self);
    }
}

impl<T, Plat: Platform> Drop for RecvCase<'_, T, Plat> {
    #[inline]
    fn drop(&mut self) {
        drop(self.take());
    }
}

// SAFETY: `slot` is the first field, and the struct is `repr(C)`. So the struct and `slot` have the same address.
unsafe impl<T, Plat: Platform> Transfer<Plat> for RecvCase<'_, T, Plat> {
    #[inline]
    unsafe fn attempt(&self, held: &Held<'_, Plat>) -> Attempt<Plat> {
        // SAFETY: the caller promises that the outcome is pending, so `slot` is uninitialised.
        note(&self.outcome, unsafe { self.channel.take(held, self.slot.get().cast()) })
    }

    fn finish(&self, moved: bool) {
        self.outcome.set(if moved { Outcome::Moved } else { Outcome::Closed });
    }
}

/// Stores the outcome of an attempt. The outcome was pending before the attempt.
#[inline(always)]
pub(super) fn note<Plat: Platform>(outcome: &Cell<Outcome>, attempt: Attempt<Plat>) -> Attempt<Plat> {
    debug_assert_eq!(outcome.get(), Outcome::Pending, "a case is done twice");
    match attempt {
        Attempt::Moved(_) => outcome.set(Outcome::Moved),
        Attempt::Closed => outcome.set(Outcome::Closed),
        Attempt::NotReady => {}
    }
    attempt
}

/// Stores the result of an operation that did not wait. The outcome was pending before the operation.
#[inline(always)]
pub(super) fn note_result(outcome: &Cell<Outcome>, result: Result<(), Unmoved>) {
    match result {
        Ok(()) => outcome.set(Outcome::Moved),
        Err(Unmoved::Closed) => outcome.set(Outcome::Closed),
        Err(Unmoved::Ended(_)) => {}
    }
}

impl<T, Plat: Platform> fmt::Debug for RecvCase<'_, T, Plat> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvCase").field("outcome", &self.outcome.get()).finish_non_exhaustive()
    }
}
