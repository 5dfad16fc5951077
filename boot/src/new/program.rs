#![no_std]
#![cfg_attr(not(test), no_main)]

use kernel::prelude::*;

kernel::main!(main);

fn main(args: &[&str]) {
    println!("{args:?}: {}", sum_of_squares(8));
}

/// The sum of the first squares, each computed by a goroutine of its own.
fn sum_of_squares(count: u64) -> u64 {
    let squares: Vec<_> = (1..=count).map(|n| go(move || n * n)).collect();
    squares
        .into_iter()
        .map(|square| square.join().unwrap())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_summed() {
        kernel::run!(|| assert_eq!(sum_of_squares(3), 1 + 4 + 9));
    }
}
