//! A first program, of lab 0: prints the sum of the squares of its arguments, each computed by a G of its own.

#![no_std]
#![cfg_attr(not(test), no_main)]
#![forbid(unsafe_code)]

use kernel::prelude::*;

kernel::main!(main);

// ANCHOR: program
fn main(arguments: &[&str]) -> i32 {
    let mut squares = Vec::new();
    for argument in arguments {
        let Ok(number) = argument.parse::<u64>() else {
            eprintln!("first: `{argument}` is no number");
            return 1;
        };
        squares.push(go(move || number * number));
    }
    let sum: u64 = squares.into_iter().map(|square| square.join().expect("no panic")).sum();
    println!("{sum}");
    0
}
// ANCHOR_END: program
