//! The puzzles of lab 0: `statistics`, `dinner` or `crowd`.

#![no_std]
#![cfg_attr(not(test), no_main)]
#![forbid(unsafe_code)]

use kernel::gmp_sched::syscall::blocking;
use kernel::platform::Kernel;
use kernel::prelude::*;
use lab_puzzles::{Acts, crowd, dinner, statistics};

kernel::main!(main);

fn main(arguments: &[&str]) -> i32 {
    match arguments {
        ["statistics"] => println!("{}", go(|| statistics("")).join().expect("no panic")),
        ["dinner"] => dinner::<Kernel>(""),
        ["crowd"] => crowd::<Kernel>(Acts { work, block: |time| blocking::<Kernel, _>(|| work(time)) }, ""),
        _ => {
            eprintln!("usage: puzzle statistics, puzzle dinner or puzzle crowd");
            return 1;
        }
    }
    0
}

fn work(time: Duration) {
    let end = now() + time;
    while now() < end {
        core::hint::spin_loop();
    }
}
