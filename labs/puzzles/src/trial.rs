//! Tests of tests: a *trial* is a short sequence of steps that a student has written. It is run on a model of a
//! mechanism, and on the same model with a flaw. It finds the flaw if the two runs differ in what one sees.

use core::fmt::Debug;
use core::ops::RangeInclusive;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A sequence of steps for one of the models.
pub trait Trial: Debug {
    /// What may be wrong with the model.
    type Flaw: Copy + Debug + PartialEq + 'static;
    /// What one sees of the model while it takes the steps.
    type Seen: PartialEq;

    /// All flaws of the model, in groups. The lab has a check for each group. There may be as many trials as flaws.
    const FLAWS: &'static [&'static [Self::Flaw]];
    /// How small a trial has to be, in the words of the message. A long trial finds many flaws, but does not show what is
    /// wrong.
    const LIMIT: &'static str;

    /// Whether the trial is as small as [`LIMIT`](Self::LIMIT) says.
    fn is_small(&self) -> bool;

    /// Takes the steps, on a model that perhaps has a flaw. Returns what one sees.
    fn run(&self, flaw: Option<Self::Flaw>) -> Self::Seen;

    /// Whether these steps show `flaw`.
    fn finds(&self, flaw: Self::Flaw) -> bool {
        self.run(None) != self.run(Some(flaw))
    }
}

/// The flaws that each of `trials` finds, in one line for each trial.
pub fn found<T: Trial>(trials: &[T]) -> String {
    let found =
        |trial: &T| T::FLAWS.iter().copied().flatten().copied().filter(|flaw| trial.finds(*flaw)).collect::<Vec<_>>();
    trials.iter().map(|trial| format!("{trial:?} finds {:?}\n", found(trial))).collect()
}

/// Those of `flaws` that none of `trials` finds.
pub fn missed<T: Trial>(trials: &[T], flaws: &[T::Flaw]) -> Vec<T::Flaw> {
    flaws.iter().copied().filter(|flaw| !trials.iter().any(|trial| trial.finds(*flaw))).collect()
}

/// All sequences of `steps` with one of these lengths, the shortest first.
pub fn sequences<S: Copy>(steps: &[S], lengths: RangeInclusive<u32>) -> impl Iterator<Item = Vec<S>> {
    lengths.flat_map(move |length| {
        (0..steps.len().pow(length)).map(move |mut number| {
            let mut next = || {
                let step = steps[number % steps.len()];
                number /= steps.len();
                step
            };
            (0..length).map(|_| next()).collect()
        })
    })
}
