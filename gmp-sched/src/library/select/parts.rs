//! What the macro is made of, besides [`Select`]. It knows the types of the cases and their number, so that it can do step 1
//! without making a list of them.

use core::marker::PhantomData;
use core::time::Duration;

use super::case::{Arm, Case};
use super::{Select, choose_bit, wait_for_one};
use crate::library::cancel::{ContextError, Limit};
use crate::platform::{Pinned, Platform};

/// Which of the cases seem to be ready, in the order in which they were looked at.
#[derive(Debug)]
pub struct Ready<P> {
    bits: u64,
    looked_at: u32,
    _platform: PhantomData<fn() -> P>,
}

impl<P: Platform> Ready<P> {
    /// None has been looked at.
    #[inline(always)]
    #[expect(clippy::new_without_default, reason = "for the macro only")]
    pub fn new() -> Self {
        Self { bits: 0, looked_at: 0, _platform: PhantomData }
    }

    /// Looks at the next one.
    #[inline(always)]
    pub fn look(&mut self, arm: &impl Arm<Platform = P>) {
        self.bits |= u64::from(arm.looks_ready()).checked_shl(self.looked_at).unwrap_or(0);
        self.looked_at += 1;
    }

    /// The number of one of those that seem to be ready, each as likely as the other; that of no case if there is none, or if
    /// they are too many.
    #[inline(always)]
    pub fn choose(&self) -> usize {
        if self.bits == 0 || self.looked_at > u64::BITS {
            return usize::MAX;
        }
        if self.bits.is_power_of_two() {
            return self.bits.trailing_zeros() as usize;
        }
        Self::choose_of_several(self.bits)
    }
}

impl<P: Platform> Ready<P> {
    #[cold]
    #[inline(never)]
    fn choose_of_several(bits: u64) -> usize {
        choose_bit(&Pinned::<P>::new(), bits).number()
    }
}

/// The rest of a select whose cases have been looked at: none seemed to be ready, or one that was not any more.
#[derive(Debug)]
pub struct Looked<'a, P: Platform, const N: usize> {
    /// As in [`Select`].
    cases: &'a mut [Case<'a, P>; N],
}

impl<'a, P: Platform, const N: usize> Looked<'a, P, N> {
    /// Over those cases.
    #[inline(always)]
    pub fn at(cases: &'a mut [Case<'a, P>; N]) -> Self {
        Self { cases }
    }

    /// See [`Select::wait`].
    #[inline(never)]
    pub fn wait(self) -> usize {
        wait_for_one(Pinned::new(), self.cases)
    }

    /// See [`Select::poll`].
    #[inline]
    pub fn poll(self) -> Option<usize> {
        Select::after_look(self.cases).poll()
    }

    /// See [`Select::wait_until`].
    #[inline]
    pub fn wait_until<'l>(self, limit: impl Into<Limit<'l, P>>) -> Result<usize, ContextError> {
        Select::after_look(self.cases).wait_until(limit)
    }

    /// See [`Select::wait_timeout`].
    #[inline]
    pub fn wait_timeout(self, timeout: Duration) -> Option<usize> {
        Select::after_look(self.cases).wait_timeout(timeout)
    }
}

/// What a select gives, whether it waited for ever, not at all, or for a time.
pub trait Chosen {
    /// The number of the case that was chosen, which no case has if none was.
    fn number(self) -> usize;
}

impl Chosen for usize {
    #[inline(always)]
    fn number(self) -> usize {
        self
    }
}

impl Chosen for Option<usize> {
    #[inline(always)]
    fn number(self) -> usize {
        self.unwrap_or(usize::MAX)
    }
}

impl Chosen for Result<usize, ContextError> {
    #[inline(always)]
    fn number(self) -> usize {
        self.unwrap_or(usize::MAX)
    }
}

/// The result of one of several cases, or of one of those that come later in the list.
#[derive(Debug)]
pub enum OneOf<T, L> {
    /// The first.
    This(T),
    /// Another one.
    Later(L),
}
