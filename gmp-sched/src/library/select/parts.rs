//! The parts of a select that only the macro uses. The macro knows the types and the number of its cases. So it can try
//! a case that seems to be ready (step 1 of the algorithm in the module `select`) without a list of cases.

use core::marker::PhantomData;
use core::time::Duration;

use super::Select;
use super::case::Arm;
use super::choose::choose_bit;
use super::untyped::Case;
use super::wait::wait_for_one;
use crate::engine::hooks::before_wait;
use crate::library::limit::{ContextError, Limit, Patience};
use crate::platform::{Pinned, Platform};

/// Which of the cases seem to be ready. This is a bit set, with one bit for each call of [`check`](Self::check).
#[derive(Debug)]
pub struct Ready<Plat> {
    bits: u64,
    checked: u32,
    _platform: PhantomData<fn() -> Plat>,
}

impl<Plat: Platform> Ready<Plat> {
    /// Makes the initial state, in which no case has been checked.
    #[inline(always)]
    #[expect(clippy::new_without_default, reason = "for the macro only")]
    pub fn new() -> Self {
        Self { bits: 0, checked: 0, _platform: PhantomData }
    }

    /// Records whether `arm`, the next case, seems to be ready.
    #[inline(always)]
    pub fn check(&mut self, arm: &impl Arm<Platform = Plat>) {
        self.bits |= u64::from(arm.looks_ready()).checked_shl(self.checked).unwrap_or(0);
        self.checked += 1;
    }

    /// Called by a select that may wait, before it tries a case. On threads, the slice of the calling G may end here.
    #[inline(always)]
    pub fn before_wait(&self) {
        before_wait::<Plat>();
    }

    /// Records whether `end` is over. Called after all cases were checked, so that `end` counts as the last of them.
    #[inline(always)]
    pub fn check_end(&mut self, end: &End<'_, Plat>) {
        self.bits |= u64::from(end.is_over()).checked_shl(self.checked).unwrap_or(0);
        self.checked += 1;
    }

    /// Returns the index of one of the cases that seem to be ready, each with equal probability. If no case seems to be
    /// ready, or there are more cases than bits, returns an index that no case has.
    #[inline(always)]
    pub fn choose(&self) -> usize {
        if self.bits == 0 || self.checked > u64::BITS {
            return usize::MAX;
        }
        if self.bits.is_power_of_two() {
            return self.bits.trailing_zeros() as usize;
        }
        Self::choose_of_several(self.bits)
    }
}

impl<Plat: Platform> Ready<Plat> {
    #[cold]
    #[inline(never)]
    fn choose_of_several(bits: u64) -> usize {
        choose_bit(&Pinned::<Plat>::of_scheduler(), bits).number()
    }
}

/// The rest of a select in which no case seemed to be ready, whose first attempt failed, or which has more than 64
/// cases. It does steps 2 to 4 of the algorithm.
#[derive(Debug)]
pub struct Remaining<'a, Plat: Platform, const N: usize> {
    /// The cases, borrowed for their whole lifetime, as in [`Select`].
    cases: &'a mut [Case<'a, Plat>; N],
}

impl<'a, Plat: Platform, const N: usize> Remaining<'a, Plat, N> {
    /// Makes the rest of a select over `cases`. The caller has done step 1 of the algorithm.
    #[inline(always)]
    pub fn at(cases: &'a mut [Case<'a, Plat>; N]) -> Self {
        Self { cases }
    }

    /// See [`Select::wait`].
    #[inline(never)]
    #[track_caller]
    pub fn wait(self) -> usize {
        wait_for_one(Pinned::of_scheduler(), self.cases, Patience::Forever).expect("nothing else ends this wait")
    }

    /// See [`Select::poll`].
    #[inline]
    pub fn poll(self) -> Option<usize> {
        Select::after_step_1(self.cases).poll()
    }

    /// See [`Select::wait_until`] and [`Select::wait_timeout`].
    #[inline]
    #[track_caller]
    pub fn wait_unless(self, end: End<'_, Plat>) -> Option<usize> {
        Select::after_step_1(self.cases).run(Patience::Until(&end.limit()))
    }
}

/// What ends the wait of a select besides its cases. The functions that make this value have the names of the methods
/// of [`Select`] that wait as long.
#[derive(Clone, Copy, Debug)]
pub enum End<'l, Plat: Platform> {
    /// The operand of an arm `timeout`. The time begins with the wait, so the clock is read only by a select that
    /// waits.
    After(Duration),
    /// The operand of an arm `until`.
    Until(Limit<'l, Plat>),
}

impl<'l, Plat: Platform> End<'l, Plat> {
    /// Ends the wait after `timeout`.
    #[inline(always)]
    pub fn wait_timeout(timeout: Duration) -> Self {
        Self::After(timeout)
    }

    /// Ends the wait when `limit` is over.
    #[inline(always)]
    pub fn wait_until(limit: impl Into<Limit<'l, Plat>>) -> Self {
        Self::Until(limit.into())
    }

    /// Whether a wait would end at once.
    #[inline(always)]
    fn is_over(&self) -> bool {
        match self {
            Self::After(timeout) => timeout.is_zero(),
            Self::Until(limit) => limit.err().is_some(),
        }
    }

    /// The limit of a wait that begins now.
    #[inline(always)]
    fn limit(self) -> Limit<'l, Plat> {
        match self {
            Self::After(timeout) => Limit::after(timeout),
            Self::Until(limit) => limit,
        }
    }
}

/// What one of the methods `wait`, `poll`, `wait_timeout`, `wait_until` and `wait_unless` of a select returns.
pub trait Chosen {
    /// The index of the chosen case. If no case was chosen, an index that no case has.
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

/// The result of the first case, or a `OneOf` with the result of one of the later cases. The type of the last `OneOf`
/// has `()` as its `L`, and this `()` means that no case was chosen.
#[derive(Debug)]
pub enum OneOf<T, L> {
    /// The first case.
    This(T),
    /// One of the other cases.
    Later(L),
}
