//! A program that runs on the host. Its first argument chooses what it does.
#![no_std]
#![cfg_attr(not(test), no_main)]
#![deny(unsafe_code)]

use kernel::console::try_read;
use kernel::prelude::*;

kernel::main!(main);

fn main(arguments: &[&str]) {
    match arguments {
        ["read-one-line"] => {
            stdin().read_line(&mut String::new()).expect("another M");
            sleep(Duration::from_secs(1));
            println!("has worked");
            sleep(Duration::from_secs(1000));
        }
        ["count-input"] => count_input(),
        other => println!("what is {other:?}?"),
    }
}

/// Prints the number of bytes of the input and their sum.
fn count_input() {
    // The first call starts to read the input. Meanwhile as much arrives as is kept.
    let mut first = try_read();
    sleep(Duration::from_millis(100));
    let (mut count, mut sum) = (0, 0);
    loop {
        match first.take().or_else(try_read) {
            Some(byte) => (count, sum) = (count + 1, sum + u64::from(byte)),
            None => yield_now(),
        }
        if count == 1_000_000 {
            return println!("{count} bytes, sum {sum}");
        }
    }
}
