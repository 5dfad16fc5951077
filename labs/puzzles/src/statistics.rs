//! The first puzzle: a panic, far from its cause.

use alloc::vec::Vec;

/// The functions that [`statistics`] calls.
pub const FUNCTIONS: [&str; 5] = ["mean", "middle", "spread", "growth", "balance"];

/// Calls all of [`FUNCTIONS`] except `without`, with the same numbers. Returns the sum of the results.
///
/// # Panics
///
/// If one of the functions is wrong.
#[must_use]
pub fn statistics(without: &str) -> u64 {
    let numbers: Vec<u64> = (1..40).map(|number| number * number % 17).collect();
    let functions: [fn(&[u64]) -> u64; 5] = [mean, middle, spread, growth, balance];
    let chosen = FUNCTIONS.into_iter().zip(functions).filter(|(name, _)| *name != without);
    chosen.map(|(_, function)| function(&numbers)).sum()
}

#[inline(never)]
fn mean(numbers: &[u64]) -> u64 {
    // If `ratio` were the last call, the compiler could turn it into a jump, and a backtrace would not show this function.
    core::hint::black_box(ratio(numbers.iter().sum(), numbers.len()))
}

#[inline(never)]
fn middle(numbers: &[u64]) -> u64 {
    let third = numbers.len() / 3;
    mean(&numbers[third..2 * third])
}

#[inline(never)]
fn spread(numbers: &[u64]) -> u64 {
    // No number is larger than 16.
    let far: Vec<u64> = numbers.iter().copied().filter(|number| *number > 16).collect();
    mean(&far) - mean(numbers).min(1)
}

#[inline(never)]
fn growth(numbers: &[u64]) -> u64 {
    let rising = numbers.windows(2).filter(|pair| pair[0] < pair[1]);
    ratio(rising.clone().map(|pair| pair[1] - pair[0]).sum(), rising.count())
}

#[inline(never)]
fn balance(numbers: &[u64]) -> u64 {
    let (first, second) = numbers.split_at(numbers.len() / 2);
    mean(first).abs_diff(mean(second))
}

#[inline(never)]
fn ratio(sum: u64, count: usize) -> u64 {
    sum / count as u64
}
