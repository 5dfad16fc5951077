//! The program that README.md shows: eight Gs compute squares, and main prints their sum.

#![no_std]
#![cfg_attr(not(test), no_main)]

use kernel::prelude::*;

kernel::main!(main);

fn main(_args: &[&str]) {
    let squares: Vec<_> = (1..=8).map(|n| go(move || n * n)).collect();
    let sum: u64 = squares.into_iter().map(|square| square.join().unwrap()).sum();
    println!("{sum}");
}
